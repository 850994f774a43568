package elasticflow

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Size is a number of tasks with which a job may run.
type Size struct {
	Tasks int
	GPUs  int     // of all tasks
	Speed float64 // progress per second
}

// Work is what a job has still to do, and how it can.
type Work struct {
	Left  float64       // seconds at speed 1
	Sizes []Size        // with more GPUs, and faster, from one to the next
	Tasks int           // with which it runs now; 0: it does not
	Pause time.Duration // for which each change of its size keeps it from its work
	Busy  time.Duration // for which it makes no progress yet
}

// Segment is a number of tasks from a moment to that of the next segment.
type Segment struct {
	From  time.Duration
	Tasks int // 0: it waits
}

// Schedule is the sizes of a job from now on, in order of time. The last size lasts.
type Schedule []Segment

// size is the size of so many tasks; without GPUs and speed where there is none.
func (w *Work) size(tasks int) Size {
	for _, s := range w.Sizes {
		if s.Tasks == tasks {
			return s
		}
	}
	return Size{}
}

// largest is the largest size up to a limit of GPUs; no tasks where none is so small.
func (w *Work) largest(gpus int) (best Size) {
	for _, s := range w.Sizes {
		if s.GPUs <= gpus {
			best = s
		}
	}
	return best
}

// runner goes through a job's work, interval by interval.
type runner struct {
	left  float64
	tasks int
	pause time.Duration // that is left
	each  time.Duration // of each change
}

func (w *Work) runner() runner { return runner{w.Left, w.Tasks, w.Busy, w.Pause} }

// run lets a job have a size from one moment to another; the end is that of its work, and ok
// tells whether it ends by then.
func (r *runner) run(s Size, from, to time.Duration) (end time.Duration, ok bool) {
	if s.Tasks != r.tasks {
		if r.tasks = s.Tasks; s.Tasks > 0 {
			r.pause = r.each
		}
	}
	if s.Tasks == 0 {
		return 0, false
	}
	begin := from + r.pause
	if begin >= to {
		r.pause -= to - from
		return 0, false
	}
	r.pause = 0
	if need := r.left / s.Speed; need < (to - begin).Seconds() {
		return begin + time.Duration(need*1e9), true
	}
	r.left -= (to - begin).Seconds() * s.Speed
	return 0, false
}

// Fill finds the least number of GPUs with which a job ends by its deadline, by progressive
// filling. At a level the job has in each interval the largest of its sizes that is within the
// level and within what is free. The levels are its sizes, from the least on. ok is false where
// no level suffices.
func Fill(p *Profile, w *Work, now, due time.Duration) (plan Schedule, end time.Duration, ok bool) {
	for _, level := range w.Sizes {
		if plan, end, ok = fill(p, w, level, now, due); ok {
			return plan, end, true
		}
	}
	return nil, 0, false
}

func fill(p *Profile, w *Work, level Size, now, due time.Duration) (plan Schedule, end time.Duration, ok bool) {
	r := w.runner()
	for i := p.at(now); i < len(p.steps); i++ {
		from, to := max(now, p.steps[i].from), min(due, p.until(i))
		if from >= due {
			break
		}
		s := w.largest(min(level.GPUs, p.steps[i].free))
		if len(plan) == 0 || plan[len(plan)-1].Tasks != s.Tasks {
			plan = append(plan, Segment{from, s.Tasks})
		}
		if end, ok = r.run(s, from, to); ok {
			return plan, end, true
		}
	}
	return nil, 0, false
}

// Now is the tasks of a schedule at a moment; 0 before it begins.
func (s Schedule) Now(t time.Duration) (tasks int) {
	for _, x := range s {
		if x.From > t {
			break
		}
		tasks = x.Tasks
	}
	return tasks
}

// Next is when the size changes next; unit.Never: it lasts.
func (s Schedule) Next(t time.Duration) time.Duration {
	for _, x := range s {
		if x.From > t {
			return x.From
		}
	}
	return unit.Never
}

// Start is when the schedule has the job run first, from a moment on; unit.Never: it does not.
func (s Schedule) Start(t time.Duration) time.Duration {
	if s.Now(t) > 0 {
		return t
	}
	for _, x := range s {
		if x.From > t && x.Tasks > 0 {
			return x.From
		}
	}
	return unit.Never
}

// End is when a job ends that keeps to the schedule from now on; unit.Never: it does not.
func (s Schedule) End(w *Work, now time.Duration) time.Duration {
	r := w.runner()
	for t := now; ; {
		to := s.Next(t)
		if end, ok := r.run(w.size(s.Now(t)), t, to); ok {
			return end
		}
		if t = to; to == unit.Never {
			return unit.Never
		}
	}
}

// rounding is what ends are off at most: the world ends a job at the first nanosecond at which
// all is done, a schedule at the last one before.
const rounding = time.Nanosecond

// Take takes what the schedule uses from now to the end of a job, which has ended by then.
func (s Schedule) Take(p *Profile, w *Work, now, end time.Duration) {
	end += rounding
	for t := now; t < end; {
		to := min(end, s.Next(t))
		p.Take(t, to, w.size(s.Now(t)).GPUs)
		t = to
	}
}

// Fits tells whether a profile has what the schedule takes from now to the end of a job.
func (s Schedule) Fits(p *Profile, w *Work, now, end time.Duration) bool {
	end += rounding
	for t := now; t < end; {
		to := min(end, s.Next(t))
		if p.Least(t, to) < w.size(s.Now(t)).GPUs {
			return false
		}
		t = to
	}
	return true
}
