package local

// stage is where the last run of a job stands.
type stage uint8

// The stages.
const (
	noRun     stage = iota // none, or it is over
	late                   // it ended by itself while it was taken to be frozen: that counts when its job is to run again
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

// happening is what happens to a run.
type happening uint8

// What happens to a run: by the engine, by a person or the guard over memory, and by
// what its runner says.
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

// act is what is to be done about it.
type act uint8

// The acts.
const (
	nothing  act = iota
	launch       // a new run
	thaw         // the run that is there
	recall       // take in the end that came while it was taken to be frozen
	tell         // the run what is wanted of it
	measure      // what the launch took
	vacate       // its devices are free
	conclude     // what follows from its end: see live.Ending
	cannotBe     // a mistake of norn; nothing is done
)

var actNames = [...]string{"nothing", "launch", "thaw", "recall", "tell", "measure", "vacate", "conclude", "cannot-be"}

func (a act) String() string { return actNames[a] }

// step is a cell of the life of runs: the stage that follows, and what is done.
type step struct {
	to stage
	do act
}

// life is the life of a run: what follows from what happens in each stage. What a
// runner says may come late, so that it is always possible.
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

// happens moves a run on to its next stage, and returns what is to be done.
func (d *Daemon) happens(l *entry, h happening) act {
	s := life(l.stage, h)
	if s.do == cannotBe {
		d.log.Error("norn has made a mistake: this cannot happen to a run", "job", l.Key, "run", l.Run, "stage", l.stage.String(), "happening", h.String())
	}
	l.stage = s.to
	return s.do
}
