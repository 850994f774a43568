package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Cause is why a run ended.
type Cause uint8

// The causes.
const (
	Exited     Cause = iota // by itself: all tasks with 0, or one failed and the others were ended
	Left                    // it was told to
	TimeLimit               // it reached the limit on its time
	NotStarted              // a task could not be launched
	Lost                    // what watched over it died, and what that left was killed
)

// Purpose is why a run was told to leave. The values are those that notes of runs have.
type Purpose string

// The purposes. The zero value is that it was not told to leave.
const (
	Preempted Purpose = "preempt"
	Resizing  Purpose = "resize"
	Requeuing Purpose = "requeue"
	Cancelled Purpose = "cancel"
	Overusing Purpose = "memory"
	Reclaimed Purpose = "reclaim" // its devices are taken back
)

// Away tells whether a run leaves for good, or to wait again, whatever a policy wants.
func (p Purpose) Away() bool {
	return p == Cancelled || p == Requeuing || p == Overusing || p == Reclaimed
}

// Exit is how a run ended.
type Exit struct {
	Cause  Cause
	Status api.Exit      // of the task that counts
	Tasks  int           // how many had been launched
	Asked  bool          // it had been told to leave before it ended
	Killed bool          // when its grace was over
	Images bool          // its state was saved from outside
	Error  string        // of NotStarted, Lost, and of a checkpoint that failed
	Lived  time.Duration // from the start of its tasks on; 0: not known
}

// Ending is all on which it depends what follows from the end of a run.
type Ending struct {
	Exit
	Phase    job.Phase // of the job, when its run ended
	Stop     job.StopMode
	Purpose  Purpose
	Why      string        // of the purpose
	Progress time.Duration // the work that the job has done
	Saved    time.Duration // up to the last checkpoint that it reported
	Since    time.Duration // from the decision for the run to its end
	Failures int           // of attempts before
	Retry    api.Retry
	Again    []int  // exit codes of a job that is to be continued later; none: 75 alone
	Signal   string // that tells it to save its state; empty: TERM
	Counts   Counts
}

// Counts are how often in a row a job ended in ways that do not get better by trying.
type Counts struct {
	Crashes     int // soon after its start
	FailedSaves int
	Hogged      int // for the memory that it used
}

// Patience is how often a job may do so before it is held. 0 times: always.
type Patience struct {
	CrashTimes   int
	CrashWithin  time.Duration // of its start
	SaveFailures int           // also of being thrown off for its memory
}

// Fate is what becomes of a job whose run has ended.
type Fate uint8

// The fates.
const (
	Done     Fate = iota
	Failed        // for good
	Revoked       // it was cancelled
	Gone          // it has left its devices, as it was to
	Evicted       // it is thrown back to where it waits
	Retried       // the attempt failed, and another one follows
	Relaunch      // it goes on at once, on what it has
	Late          // it ended by itself while it was taken to be frozen: that counts when it is to run again
	Undone        // frozen processes were lost: it starts without the work that it had done
)

// Verdict is what follows from the end of a run.
type Verdict struct {
	Fate   Fate
	Kept   time.Duration  // Evicted, Retried, Relaunch: work that still counts
	Reason job.ReasonCode // Evicted, Retried
	Why    string         // the same, in words
	Saved  bool           // it has written a checkpoint: what that took can be measured
	Hold   string         // why it is held; empty: it is not
	Wait   time.Duration  // for how long; 0: until somebody releases it
	Counts Counts         // from now on
}

// exitAgain is the exit status (EX_TEMPFAIL) of a job that wants to be continued
// later.
const exitAgain = 75

// Verdict is what follows from the end of a run, and from nothing else.
func (e *Ending) Verdict(p *Patience) Verdict {
	cancelled := e.Purpose == Cancelled
	running := e.Phase == job.Running
	switch has := running || e.Phase == job.Stopping; {
	case has && e.Done() && !(e.Asked && cancelled): // whatever was wanted of it meanwhile
		return e.verdict(Done)
	case has && !e.Asked && e.Cause == Exited && !cancelled: // it had not heard of it
		return e.unasked(p)
	case cancelled:
		return e.verdict(Revoked)
	case running && e.Purpose == Requeuing:
		return e.evicted(e.Keeps(), job.UserRequest, "it was requeued")
	case running && e.Purpose == Reclaimed:
		return e.evicted(e.Keeps(), job.TakenBack, e.Why)
	case running && e.Purpose == Overusing:
		return e.hogged(p)
	case running && e.Purpose == Resizing && (e.Asked || e.again()):
		v := e.verdict(Relaunch)
		v.Kept = e.Keeps()
		return v
	case running:
		return e.unasked(p)
	case has:
		return e.left(p)
	case e.Stop == job.Freeze && e.ByItself():
		return e.verdict(Late)
	}
	return e.verdict(Undone) // frozen processes were killed while the job waited
}

func (e *Ending) verdict(f Fate) Verdict { return Verdict{Fate: f, Counts: e.Counts} }

func (e *Ending) evicted(kept time.Duration, code job.ReasonCode, why string) Verdict {
	return Verdict{Fate: Evicted, Kept: min(kept, e.Progress), Reason: code, Why: why, Counts: e.Counts}
}

// unasked is the verdict on the end of a run that nobody had asked for.
func (e *Ending) unasked(p *Patience) Verdict {
	switch {
	case e.Cause == Lost:
		return e.lost()
	case e.Cause == TimeLimit:
		return e.verdict(Failed)
	case e.again() && e.Phase == job.Stopping:
		return e.verdict(Gone)
	case e.again():
		v := e.evicted(e.Progress, job.UserRequest, fmt.Sprintf("it asked to be continued later (exit code %d)", e.Status.Code))
		e.restrain(&v, p)
		return v
	}
	return e.failed(p)
}

// lost is the verdict on a run that nobody watched over.
func (e *Ending) lost() Verdict {
	return e.evicted(e.Saved, job.NodeLost, cmp.Or(e.Error, "the process that watched over it was lost"))
}

// failed is the verdict on a failed attempt: another one follows, or the job has failed.
func (e *Ending) failed(p *Patience) Verdict {
	if limit := e.Retry.Limit; limit >= 0 && e.Failures >= limit {
		return e.verdict(Failed)
	}
	v := e.evicted(e.Saved, job.Failed, "the attempt failed: "+e.Text())
	if e.Phase != job.Stopping { // else it was to leave its devices, and has
		v.Fate = Retried
	}
	if !e.restrain(&v, p) {
		if v.Wait = backoff(&e.Retry, e.Failures); v.Wait > 0 {
			v.Hold = "its attempt failed: " + e.Text()
		}
	}
	return v
}

// restrain holds a job that ends at once again and again, and tells whether it
// does.
func (e *Ending) restrain(v *Verdict, p *Patience) bool {
	if e.Since >= p.CrashWithin {
		v.Counts.Crashes = 0
		return false
	}
	v.Counts.Crashes++
	times := v.Counts.Crashes
	if p.CrashTimes <= 0 || times < p.CrashTimes {
		return false
	}
	v.Counts.Crashes = 0
	v.Hold = fmt.Sprintf("ended %d times in a row within %s of its start, last %s; norn release lets it try again", times, unit.Human(p.CrashWithin), e.Text())
	return true
}

// hogged is the verdict on a run that was thrown off for its memory. A job to which
// that happens again and again is held.
func (e *Ending) hogged(p *Patience) Verdict {
	v := e.evicted(e.Keeps(), job.OutOfMemory, e.Why)
	v.Counts.Hogged++
	if times := v.Counts.Hogged; p.SaveFailures > 0 && times >= p.SaveFailures {
		v.Counts.Hogged = 0
		v.Hold = fmt.Sprintf("was thrown off %d times for its memory, last: it %s; submit it with more gpu_mem, or norn release lets it try again", times, e.Why)
	}
	return v
}

// left is the verdict on a run that was told to make room.
func (e *Ending) left(p *Patience) Verdict {
	switch {
	case e.Cause == Lost:
		return e.lost()
	case e.Stop == job.Restart, e.Stop == job.Pinned, e.Stop == job.LastSave:
		return e.verdict(Gone)
	case e.Stop == job.Freeze:
		return e.evicted(0, job.Failed, "it ended before it was frozen: "+e.Text())
	case e.saved():
		v := e.verdict(Gone)
		v.Saved, v.Counts.FailedSaves = true, 0
		return v
	}
	return e.unsaved(p)
}

// unsaved is the verdict on a checkpoint that failed: the job goes back to the one before,
// and is held when that happens again and again.
func (e *Ending) unsaved(p *Patience) Verdict {
	from := "begins anew"
	if e.Saved > 0 {
		from = "goes on from the one before, " + unit.Human(e.Saved) + " of work"
	}
	if e.unready(p.CrashWithin) {
		return e.evicted(e.Saved, job.Because, "it had to leave "+unit.Human(e.Lived.Round(100*time.Millisecond))+" after its start, before it could save anything; it "+from)
	}
	v := e.evicted(e.Saved, job.Failed, "its checkpoint failed: "+e.Text()+"; it "+from)
	v.Counts.FailedSaves++
	if times := v.Counts.FailedSaves; p.SaveFailures > 0 && times >= p.SaveFailures {
		v.Counts.FailedSaves = 0
		v.Hold = fmt.Sprintf("its checkpoint failed %d times in a row, last: %s; norn release lets it try again", times, e.Text())
	}
	return v
}

// Keeps is the work that a job still has behind a run that was told to leave.
func (e *Ending) Keeps() time.Duration {
	if e.Stop == job.Checkpoint && e.saved() {
		return e.Progress
	}
	return min(e.Saved, e.Progress)
}

// Done tells whether a run has brought its job to its end: it said so by its exit
// status. That it had been told to leave does not matter: one that has not done
// all its work says so.
func (e *Ending) Done() bool {
	clean := e.Cause == Exited || e.Cause == Left
	return clean && e.Tasks > 0 && e.Status.Code == 0 && !e.Killed && !e.Images && !(e.Asked && e.again())
}

// again tells whether a run has said that its job is to be continued later.
func (e *Ending) again() bool {
	codes := e.Again
	if len(codes) == 0 {
		codes = []int{exitAgain}
	}
	return slices.Contains(codes, e.Status.Code) && e.Status.Signal == ""
}

// saved tells whether a run that was told to save its state says that it did.
// One that had not started anything yet has nothing to save.
func (e *Ending) saved() bool {
	return e.Images || e.again() && !e.Killed || e.Cause == Left && e.Tasks == 0
}

// unready tells whether a run ended by the very signal that told it to save its
// state, so soon after its start that it may not have known of it yet: programs
// load for a while before they handle signals.
func (e *Ending) unready(soon time.Duration) bool {
	ended := e.Status.Signal == "SIG"+cmp.Or(e.Signal, "TERM")
	return ended && !e.Killed && e.Lived > 0 && e.Lived < soon
}

// ByItself tells whether a run has ended with nobody's doing.
func (e *Exit) ByItself() bool {
	return e.Cause == Exited && !e.Asked && e.Status.Signal == "" && e.Tasks > 0
}

// Text says how a run ended.
func (e *Exit) Text() string {
	text := ""
	switch {
	case e.Cause == NotStarted:
		return e.Error
	case e.Killed:
		text = "killed when its grace was over"
	case e.Status.Signal != "":
		text = "ended by " + e.Status.Signal
	default:
		text = fmt.Sprintf("exit code %d", e.Status.Code)
	}
	if e.Tasks > 1 {
		text = fmt.Sprintf("task %d: %s", e.Status.Task, text)
	}
	for _, more := range []string{e.Status.Note, e.Error} {
		if more != "" && !strings.Contains(text, more) {
			text += ", " + more
		}
	}
	return text
}

// maxBackoff bounds the wait between two attempts.
const maxBackoff = time.Hour

// backoff is how long a job waits before its next attempt, when so many failed
// before the last one.
func backoff(r *api.Retry, failures int) time.Duration {
	return min(maxBackoff, min(maxBackoff, r.Backoff.Duration())<<min(failures, 12))
}
