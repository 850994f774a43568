package job

import (
	"fmt"
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Saves is when a job saves its state, in work done. A job loses its work since the last
// save if it dies, and with LastSave also if it is stopped. Saves is comparable; the zero
// value is that of a job that has saved nothing and has told nothing.
type Saves struct {
	Last    time.Duration // work in the last state that it has told of; 0: none
	Every   time.Duration // work between two saves; 0: not known
	From    time.Duration // work with which it began where it is, of jobs that are stopped by LastSave
	Regular bool          // it saves whenever its work is a multiple of Every, and tells nothing more
}

// next is what is known once a job has told that it saved its state with so much work
// done, and that from then on it does so at all multiples of every, unless that is 0.
func (s Saves) next(work, every time.Duration) Saves {
	if s.Regular = every > 0; !s.Regular {
		if every = work - s.Last; every <= 0 {
			every = s.Every
		}
	}
	s.Last, s.Every = work, every
	return s
}

// Saved notes that a job has saved its state with so much work done, or, with every above 0,
// that it does so at all multiples of that.
func (r *Record) Saved(work, every time.Duration) error {
	switch {
	case r.Phase == Unknown || r.Phase.Over():
		return r.wrong("note a state of")
	case work < 0 || every < 0:
		return fmt.Errorf("job %s: has saved its state after %v of work, every %v", r.Job.Key, work, every)
	}
	r.Saves = r.Saves.next(work, every)
	return nil
}

// SavedAt is the work in the last state that the job has saved by a moment not before
// Since.
func (r *Record) SavedAt(now time.Duration) time.Duration {
	done, s := r.ProgressAt(now), r.Saves
	if s.Regular && s.Every > 0 {
		return min(done, max(s.Last, done/s.Every*s.Every))
	}
	return min(done, s.Last)
}

// Unsaved tells whether stopping a running job now would throw away all that it has done
// since it began. A scheduler that does so again and again never lets the job come to its end.
func (r *Record) Unsaved(now time.Duration) bool {
	return r.Phase == Running && (r.Job.Stop == Restart || r.Job.Stop == LastSave && r.SavedAt(now) <= r.Saves.From)
}

// NextSave is when a running job is expected to save its state next. ok is false, and
// the moment unit.Never, where nobody can know: it has not told how often it does, makes no
// progress, or is overdue.
func (r *Record) NextSave(now time.Duration) (at time.Duration, ok bool) {
	if r.Phase != Running || r.Saves.Every <= 0 || r.Speed <= 0 {
		return unit.Never, false
	}
	done := r.ProgressAt(now)
	mark := r.Saves.Last + r.Saves.Every
	if r.Saves.Regular {
		mark = (done/r.Saves.Every + 1) * r.Saves.Every
	}
	if mark <= done {
		return unit.Never, false
	}
	return r.reaches(mark), true
}

// reaches is the first moment at which a running job that makes progress has done so much
// work, as ProgressAt rounds it.
func (r *Record) reaches(work time.Duration) time.Duration {
	left := work - r.Progress
	if r.Speed == 1 {
		return r.Ready + left
	}
	at := r.Ready + time.Duration(math.Ceil((float64(left)-0.5)/r.Speed))
	if r.ProgressAt(at) < work {
		at++
	} else if at-1 > r.Ready && r.ProgressAt(at-1) >= work {
		at--
	}
	return at
}

// saves tells whether the state with which a job goes on that is stopped so was saved.
func (m StopMode) saves() bool { return m == Checkpoint || m == LastSave }

// keeps notes with which work a job goes on: no later state of it counts any more. It has
// been saved if saved is set.
func (r *Record) keeps(work time.Duration, saved bool) {
	if saved {
		r.Saves.Last = work
	}
	r.Saves.Last = min(r.Saves.Last, work)
}
