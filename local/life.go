package local

import "github.com/norn-scheduler/norn/job"

// stage is the stage that the last run of a job has reached.
type stage uint8

// The stages.
const (
	noRun     stage = iota // none, or it is over
	late                   // it ended by itself while it counted as frozen; the end counts when its job is to run again
	launching              // its tasks have not been seen yet
	up
	frozen
	leaving // it was told to leave, or to freeze
	stages
)

var stageNames = [stages]string{"no-run", "late", "launching", "up", "frozen", "leaving"}

func (s stage) String() string { return stageNames[s] }

// there tells whether anything of a run may be there.
func (s stage) there() bool { return s >= launching }

// happening is an event in the life of a run.
type happening uint8

// The events in the life of a run. They come from the engine, from a person or
// the guard over memory, and from its runner.
const (
	starts  happening = iota // its job is to run
	makeWay                  // it is to leave its devices, as it stops
	toEnd                    // it is to leave whatever a policy wants
	isUp                     // its tasks have been seen
	isStill                  // it has frozen, as it was told
	isOver
	happenings
)

var happeningNames = [happenings]string{"starts", "make-way", "to-end", "is-up", "is-still", "is-over"}

func (h happening) String() string { return happeningNames[h] }

// act is the reaction to an event.
type act uint8

// The acts.
const (
	nothing  act = iota
	launch       // a new run
	thaw         // the run that is there
	recall       // take in the end that came while it was taken to be frozen
	tell         // the run its new want.json
	measure      // the time of the launch
	vacate       // its devices are free
	conclude     // carry out the verdict on its end, see live.Ending
	cannotBe     // a mistake of norn; nothing is done
)

// step is a cell of the table of life: the next stage, and the act.
type step struct {
	to stage
	do act
}

// life is the table of the life of a run: it gives the step for each event in
// each stage. Messages of a runner may come late, so they are possible in every
// stage.
func life(s stage, h happening) step {
	return [stages][happenings]step{
		noRun:     {starts: {launching, launch}, makeWay: {noRun, cannotBe}, toEnd: {noRun, cannotBe}, isUp: {noRun, nothing}, isStill: {noRun, nothing}, isOver: {noRun, nothing}},
		late:      {starts: {up, recall}, makeWay: {late, cannotBe}, toEnd: {late, cannotBe}, isUp: {late, nothing}, isStill: {late, nothing}, isOver: {late, nothing}},
		launching: {starts: {launching, cannotBe}, makeWay: {leaving, tell}, toEnd: {leaving, tell}, isUp: {up, measure}, isStill: {up, measure}, isOver: {noRun, conclude}},
		up:        {starts: {up, cannotBe}, makeWay: {leaving, tell}, toEnd: {leaving, tell}, isUp: {up, nothing}, isStill: {up, nothing}, isOver: {noRun, conclude}},
		frozen:    {starts: {up, thaw}, makeWay: {frozen, cannotBe}, toEnd: {frozen, tell}, isUp: {frozen, nothing}, isStill: {frozen, nothing}, isOver: {noRun, conclude}},
		leaving:   {starts: {leaving, cannotBe}, makeWay: {leaving, tell}, toEnd: {leaving, tell}, isUp: {leaving, nothing}, isStill: {frozen, vacate}, isOver: {noRun, conclude}},
	}[s][h]
}

// happens moves a run on to its next stage, and returns the act.
func (d *Daemon) happens(l *entry, h happening) act {
	s := life(l.stage, h)
	if s.do == cannotBe {
		d.log.Error("norn has made a mistake: this cannot happen to a run", "job", l.Key, "run", l.Run, "stage", l.stage.String(), "happening", h.String())
	}
	l.stage = s.to
	return s.do
}

// facts describe a job that has not ended, as far as the state and the folder
// of its last run tell.
type facts struct {
	phase   job.Phase
	away    bool // it was told to leave for a purpose that is still to come about
	ran     bool // it has had a run
	ended   bool // which has ended
	news    bool // and that is still to be taken in
	done    bool // and has done all the work of its job
	behind  bool // its run belongs to an earlier launch than the one that was decided last
	toLeave bool // its run was told to leave in this launch
	seen    bool // its tasks were seen
	pinned  bool // its frozen processes are somewhere
}

// todo is the task of a daemon for a job that it finds.
type todo uint8

// The tasks.
const (
	watch    todo = iota // look what becomes of its run
	startNow             // its launch was decided and not done
	goBack               // it was to be thawed, or to leave for other devices: so it is now
	stopNow              // it was to be told to leave
	hasLeft              // it was stopped before it had been launched: its devices are free
	waits                // it waits or is held
)

// resume is the stage of the run of a job with these facts, and what the daemon
// has to do.
func (f *facts) resume() (stage, todo) {
	over := !f.ran || f.ended && f.behind && !f.news
	switch {
	case f.phase == job.Running && f.away:
		return leaving, watch
	case f.phase == job.Running && over:
		return noRun, startNow
	case f.phase == job.Running && f.behind && !f.news:
		return leaving, goBack
	case f.phase == job.Running && f.seen:
		return up, watch
	case f.phase == job.Running:
		return launching, watch
	case f.phase == job.Stopping && over:
		return noRun, hasLeft
	case f.phase == job.Stopping && !f.toLeave && !f.away && !f.news:
		return up, stopNow
	case f.phase == job.Stopping:
		return leaving, watch
	case f.ran && (f.pinned || f.away):
		return frozen, waits
	case f.done: // it finished its work just when it was evicted
		return late, waits
	}
	return noRun, waits
}
