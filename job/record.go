package job

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/tenant"
)

// Phase is where a job stands in its lifecycle; the package comment has the
// picture.
type Phase uint8

// The phases.
const (
	Unknown Phase = iota // not submitted yet
	Held
	Waiting
	Assigned
	Running
	Stopping
	Done
	FailedPhase
	Cancelled
)

var phaseNames = [...]string{"unknown", "held", "waiting", "assigned", "running", "stopping", "done", "failed", "cancelled"}

func (p Phase) String() string { return phaseNames[p] }

// Over tells whether the job has left for good.
func (p Phase) Over() bool { return p >= Done }

// HasDevices tells whether the scheduler has given devices to the job.
func (p Phase) HasDevices() bool { return p == Assigned || p == Running }

// Record is what has become of a job. The methods that change it are the
// arrows of the lifecycle; they keep the times true.
type Record struct {
	Job    *Job
	Phase  Phase
	Reason Reason // why it waits, or was last stopped

	Tenant tenant.ID
	Pool   cluster.PoolID
	Class  int32            // jobs of equal demand have equal classes
	Mask   cluster.TypeMask // acceptable GPU types; 0 any
	Slot   int32            // of its Alloc while it has one, -1 otherwise
	Tasks  int32            // of the first role while it has devices
	Milli  unit.Milli       // device time allocated, in thousandths of a device

	Since      time.Duration // of the current phase, or of the last change of what it has
	Placed     time.Duration // when it arrived on the devices that it has, see Arrives; 0 without
	FirstStart time.Duration // -1 before
	End        time.Duration // -1 before
	Estimate   time.Duration // run time that the scheduler believes in, -1 none

	AllocatedTime time.Duration // time with devices, up to Since
	Service       float64       // GPU-seconds allocated, up to Since
	Lost          float64       // GPU-seconds in transitions and in work done twice
	Failed        float64       // of Lost: work of its failed attempts, and work that lost nodes took with them
	Ready         time.Duration // running: since when (or from when) it makes progress
	Speed         float64       // running: progress per second; 1 is the reference
	Progress      time.Duration // work done up to Ready
	Attempt       time.Duration // work done in the last attempt that failed, and kept nothing
	Saves         Saves         // when it saves its state

	Past      bool  // it had ended before the log began
	Merged    Merge // with job With
	With      ID    // None: with none
	Profiling bool  // running: has its devices to be measured, and makes no progress

	Config Config // what it trains with

	Starts, Preemptions, Migrations, Resizes, Failures int32

	Note *Note // what the policy remembers about it; nil: nothing
}

// Serial is the number of the job for life: its own, or its ID where it has none.
// A job that is carried over into a new log keeps it and gets another ID.
func (r *Record) Serial() int64 {
	if r.Job.Serial != 0 {
		return r.Job.Serial
	}
	return int64(r.Job.ID)
}

// Arrives tells whether a job that is reshaped arrives on its devices anew. A job
// arrives when it is assigned devices, when it begins on them, and when it is moved or
// resized, also on the devices that it keeps. Other parts of the same devices are no
// arrival.
func (c Change) Arrives() bool { return c != ToOtherPart }

// Submit is the arrow into waiting.
func (r *Record) Submit(j *Job, now time.Duration) {
	*r = Record{Job: j, Phase: Waiting, Slot: -1, Since: now, FirstStart: -1, End: -1, Estimate: -1, With: None}
}

// Carry takes over what had become of a job in an earlier log: a new record
// that stands where the old one stood, the end included. Fields that belong to
// a run (Tenant, Pool, Class, Mask, Slot) are not taken over.
func (r *Record) Carry(past *Record) error {
	switch {
	case r.Phase != Waiting:
		return r.wrong("carry over")
	case past.Phase == Unknown || int(past.Phase) >= len(phaseNames):
		return fmt.Errorf("job %s: cannot carry it over, it is %s", r.Job.Key, past.Phase)
	case past.Phase == Running && past.Speed < 0 || past.Tasks < 0 || past.Milli < 0:
		return fmt.Errorf("job %s: cannot carry it over with a negative speed or size", r.Job.Key)
	}
	was := *r
	*r = *past
	r.Job, r.Tenant, r.Pool, r.Class, r.Mask, r.Slot = was.Job, was.Tenant, was.Pool, was.Class, was.Mask, was.Slot
	r.Estimate, r.Reason = was.Estimate, was.Reason
	r.Config.Chosen = Chosen{} // which follows from what it has
	if r.Past = r.Phase.Over(); !r.Past {
		r.End = -1
	}
	if !r.Phase.HasDevices() {
		r.Placed = 0
	}
	return nil
}

// Hold is the transition from waiting to held.
func (r *Record) Hold(now time.Duration) error {
	return r.move(now, Held, "hold", r.Phase == Waiting)
}

// Release is the transition from held to waiting.
func (r *Record) Release(now time.Duration) error {
	return r.move(now, Waiting, "free", r.Phase == Held)
}

// Assign is the arrow from waiting to assigned.
func (r *Record) Assign(now time.Duration, tasks int32, milli unit.Milli) error {
	if err := r.move(now, Assigned, "assign", r.Phase == Waiting); err != nil {
		return err
	}
	r.Tasks, r.Milli = tasks, milli
	return nil
}

// Begin is the arrow into running, from waiting or from assigned. The job
// has its devices from now on and makes progress after delay.
func (r *Record) Begin(now, delay time.Duration, tasks int32, milli unit.Milli) error {
	if err := r.move(now, Running, "start", r.Phase == Waiting || r.Phase == Assigned); err != nil {
		return err
	}
	r.Tasks, r.Milli = tasks, milli
	if r.FirstStart < 0 {
		r.FirstStart = now
	}
	r.Starts++
	r.Speed = 1
	r.Ready = now + delay
	r.Lost += gpuSeconds(milli, delay)
	if r.Job.Stop == LastSave {
		r.Saves.From = r.Progress
	}
	return nil
}

// SetSpeed changes the speed of a running job.
func (r *Record) SetSpeed(now time.Duration, speed float64) error {
	if r.Phase != Running {
		return r.wrong("change the speed of")
	}
	if now > r.Ready {
		r.Progress, r.Ready = r.ProgressAt(now), now
	}
	r.Speed = speed
	return nil
}

// ExpectedEnd is the moment at which a running job will end if the estimate holds,
// reckoned when it last got another speed or allocation: it lies in the past when the
// job has outrun its estimate. ok is false, and the moment unit.Never, without an estimate
// or progress.
func (r *Record) ExpectedEnd() (at time.Duration, ok bool) {
	if r.Estimate < 0 || r.Phase != Running || r.Speed <= 0 {
		return unit.Never, false
	}
	left := max(0, r.Estimate-r.Progress)
	if r.Speed != 1 {
		left = time.Duration(float64(left) / r.Speed)
	}
	return r.Ready + left, true
}

// SetMerge notes with whom the job is trained from now on: with nobody when how is
// Apart. kept is the work that counts from then on.
func (r *Record) SetMerge(now time.Duration, how Merge, with ID, kept time.Duration) error {
	if r.Phase.Over() || r.Phase == Unknown {
		return r.wrong("merge")
	}
	if how == Apart {
		with = None
	}
	done := r.ProgressAt(now)
	if r.Phase == Running {
		r.Lost += r.undone(now, kept)
		r.Ready = max(now, r.Ready)
	}
	r.Progress = min(kept, done)
	r.keeps(r.Progress, false)
	r.Merged, r.With = how, with
	return nil
}

// Profile says of a job that has just started that it only has its devices.
func (r *Record) Profile() error {
	if r.Phase != Running {
		return r.wrong("profile")
	}
	if r.Starts--; r.Starts == 0 {
		r.FirstStart = -1
	}
	r.Profiling, r.Speed = true, 0
	return nil
}

// SetProgress corrects the work that a running job has done.
func (r *Record) SetProgress(now, done time.Duration) error {
	if r.Phase != Running {
		return r.wrong("change the progress of")
	}
	r.Progress, r.Ready = done, max(now, r.Ready)
	r.keeps(done, false)
	return nil
}

// Change is how the allocation of a running job has changed.
type Change uint8

// The changes.
const (
	ToOthers    Change = iota // it was moved to other devices
	ToSize                    // it has another number of tasks
	ToOtherPart               // of the same devices
)

// Reshape changes what a running job has, at the cost of a pause.
func (r *Record) Reshape(now, pause time.Duration, tasks int32, milli unit.Milli, how Change) error {
	if r.Phase != Running {
		return r.wrong("reshape")
	}
	progress := r.ProgressAt(now)
	unpaid := max(0, r.Ready-now)
	r.settle(now)
	r.Progress, r.Ready = progress, now+pause
	r.Lost += gpuSeconds(milli, pause) - gpuSeconds(r.Milli, unpaid)
	r.Tasks, r.Milli = tasks, milli
	if how.Arrives() {
		r.Placed = now
	}
	switch how {
	case ToOthers:
		r.Migrations++
	case ToSize:
		r.Resizes++
	}
	return nil
}

// Preempt is the arrow from running to stopping. kept is the progress with
// which it will start again.
func (r *Record) Preempt(now, kept time.Duration) error {
	if err := r.leave(now, kept, Stopping, "preempt", r.Phase == Running); err != nil {
		return err
	}
	r.keeps(kept, r.Job.Stop.saves())
	r.Preemptions++
	return nil
}

// PreemptNow is the arrow from running or assigned to waiting, at no cost in
// time.
func (r *Record) PreemptNow(now, kept time.Duration) error {
	if r.Phase == Assigned {
		return r.move(now, Waiting, "preempt", true)
	}
	measured := r.Profiling
	if err := r.leave(now, kept, Waiting, "preempt", r.Phase == Running); err != nil {
		return err
	}
	if r.keeps(kept, r.Job.Stop.saves() && !measured); measured {
		return nil
	}
	r.Preemptions++
	return nil
}

// Gone is the arrow from stopping to waiting: it has left its devices.
func (r *Record) Gone(now time.Duration) error {
	spent := now - r.Since
	if err := r.move(now, Waiting, "stop", r.Phase == Stopping); err != nil {
		return err
	}
	r.AllocatedTime += spent
	r.Service += gpuSeconds(r.Milli, spent)
	r.Lost += gpuSeconds(r.Milli, spent)
	return nil
}

// Evict is the arrow from running, assigned or stopping to waiting when a node
// of the job is lost. kept is the progress with which it will start again; less
// than a stopping job had means that what it was saving is lost.
func (r *Record) Evict(now, kept time.Duration) error {
	if r.Phase == Assigned {
		return r.move(now, Waiting, "evict", true)
	}
	if r.Phase == Stopping {
		if lost := r.Progress - kept; lost > 0 && r.Speed > 0 {
			r.Lost += gpuSeconds(r.Milli, lost) / r.Speed
			r.Failed += gpuSeconds(r.Milli, lost) / r.Speed
			r.Progress = kept
			r.keeps(kept, true)
		}
		return r.Gone(now)
	}
	undone := r.undone(now, kept)
	if err := r.leave(now, kept, Waiting, "evict", r.Phase == Running); err != nil {
		return err
	}
	r.keeps(kept, true)
	r.Failed += undone
	r.Preemptions++
	return nil
}

// Fail is the arrow from running to waiting after a failed attempt, when another
// will follow.
func (r *Record) Fail(now, kept time.Duration) error {
	done, undone := r.ProgressAt(now), r.undone(now, kept)
	if err := r.leave(now, kept, Waiting, "fail", r.Phase == Running); err != nil {
		return err
	}
	r.keeps(kept, true)
	r.Failed += undone
	if kept == 0 {
		r.Attempt = done
	}
	r.Failures++
	return nil
}

// Finish is the arrow from running to one of the last phases, and from stopping
// for a job that came to its end while it was to leave.
func (r *Record) Finish(now time.Duration, outcome Phase) error {
	if r.Phase == Stopping && outcome.Over() {
		if err := r.Gone(now); err != nil {
			return err
		}
		r.Phase, r.End = outcome, now
		return nil
	}
	progress := r.ProgressAt(now)
	if err := r.leave(now, progress, outcome, "end", r.Phase == Running && outcome.Over()); err != nil {
		return err
	}
	r.End = now
	if outcome == FailedPhase {
		r.Failures++
	}
	return nil
}

// Cancel is the arrow from any phase that is not over to cancelled.
func (r *Record) Cancel(now time.Duration) error {
	switch {
	case r.Phase == Running:
		return r.Finish(now, Cancelled)
	case r.Phase == Stopping:
		if err := r.Gone(now); err != nil {
			return err
		}
	}
	if err := r.move(now, Cancelled, "cancel", r.Phase != Unknown && !r.Phase.Over()); err != nil {
		return err
	}
	r.End = now
	return nil
}

// ProgressAt is the work done at a moment not before Since.
func (r *Record) ProgressAt(now time.Duration) time.Duration {
	if r.Phase != Running || now <= r.Ready {
		return r.Progress
	}
	if r.Speed == 1 {
		return r.Progress + now - r.Ready
	}
	return r.Progress + time.Duration(float64(now-r.Ready)*r.Speed+0.5)
}

// ServiceAt is the GPU-time allocated up to a moment not before Since, in
// GPU-seconds.
func (r *Record) ServiceAt(now time.Duration) float64 {
	if r.Phase != Running && r.Phase != Stopping {
		return r.Service
	}
	return r.Service + gpuSeconds(r.Milli, now-r.Since)
}

// AllocatedAt is the time with devices up to a moment not before Since.
func (r *Record) AllocatedAt(now time.Duration) time.Duration {
	if r.Phase != Running && r.Phase != Stopping {
		return r.AllocatedTime
	}
	return r.AllocatedTime + now - r.Since
}

// WaitAt is the time without devices since submission, up to a moment not
// before Since, or up to its end.
func (r *Record) WaitAt(now time.Duration) time.Duration {
	if r.Phase.Over() {
		now = r.End
	}
	return now - r.Job.Submit - r.AllocatedAt(now)
}

// leave ends a running segment: the times are settled, and what was done
// beyond kept is lost.
func (r *Record) leave(now, kept time.Duration, to Phase, what string, allowed bool) error {
	if !allowed {
		return r.wrong(what)
	}
	if unpaid := r.Ready - now; unpaid > 0 {
		r.Lost -= gpuSeconds(r.Milli, unpaid)
	}
	r.Lost += r.undone(now, kept)
	r.settle(now)
	r.Progress, r.Profiling = kept, false
	r.Phase, r.Since, r.Placed = to, now, 0
	return nil
}

// undone is the GPU-seconds of the work that is lost when only kept of it stays.
func (r *Record) undone(now, kept time.Duration) float64 {
	if lost := r.ProgressAt(now) - kept; r.Phase == Running && lost > 0 && r.Speed > 0 {
		return gpuSeconds(r.Milli, lost) / r.Speed
	}
	return 0
}

func (r *Record) settle(now time.Duration) {
	r.AllocatedTime += now - r.Since
	r.Service += gpuSeconds(r.Milli, now-r.Since)
	r.Since = now
}

func (r *Record) move(now time.Duration, to Phase, what string, allowed bool) error {
	if !allowed {
		return r.wrong(what)
	}
	r.Phase, r.Since, r.Placed = to, now, 0
	if to.HasDevices() {
		r.Placed = now
	}
	return nil
}

func (r *Record) wrong(what string) error {
	if r.Job == nil {
		return fmt.Errorf("cannot %s a job that was never submitted", what)
	}
	return fmt.Errorf("job %s: cannot %s it, it is %s", r.Job.Key, what, r.Phase)
}

func gpuSeconds(m unit.Milli, d time.Duration) float64 {
	if d == 0 {
		return 0
	}
	return float64(m) / 1000 * d.Seconds()
}
