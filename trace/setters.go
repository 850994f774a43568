package trace

import (
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/unit"
)

// What setters expect to find.
const (
	wantWhole    Want = "a whole number"
	wantCount    Want = "a whole number, 0 or more"
	wantNumber   Want = "a number"
	wantAmount   Want = "a number, 0 or more"
	wantDuration Want = "a time, 0 or more"
	wantWall     Want = "a time of day, such as 2006-01-02 15:04:05"
	wantBytes    Want = "an amount of memory, such as 16GiB"
	wantOutcome  Want = "how the job ended"
)

// Key stores the job's name in its source.
func Key(r *Row, v []byte) error { r.Job.Key = r.In.pool.unique(v); return nil }

// Name stores what the user called the job.
func Name(r *Row, v []byte) error { r.Job.Name = r.Text(v); return nil }

// User stores who submitted the job.
func User(r *Row, v []byte) error { r.Job.User = r.Text(v); return nil }

// Tenant stores the virtual cluster, queue or project.
func Tenant(r *Row, v []byte) error { r.Job.Tenant = r.Text(v); return nil }

// Model stores what is trained.
func Model(r *Row, v []byte) error { r.Job.Model = r.Text(v); return nil }

// Dataset stores what it is trained on.
func Dataset(r *Row, v []byte) error { r.Job.Dataset = r.Text(v); return nil }

// Types stores the acceptable GPU types, joined by "|".
func Types(r *Row, v []byte) error { r.Shape.Types = r.Text(v); return nil }

// Submit stores when the job was submitted, in the given unit since the zero of
// the trace or since 1970 (see Clock).
func Submit(of time.Duration) Setter {
	return func(r *Row, v []byte) error { return setTime(&r.Job.Submit, v, of) }
}

// SubmitWall stores when the job was submitted, as a time of day.
func SubmitWall(r *Row, v []byte) error {
	at, ok := ParseWall(v)
	if !ok {
		return wantWall
	}
	r.Job.Submit = at
	return nil
}

// Work stores how long the job ran.
func Work(of time.Duration) Setter {
	return func(r *Row, v []byte) error { return setTime(&r.Truth.Work, v, of) }
}

// Wait stores how long the job queued.
func Wait(of time.Duration) Setter {
	return func(r *Row, v []byte) error {
		r.Truth.HasWait = len(v) > 0
		return setTime(&r.Truth.Wait, v, of)
	}
}

// Deadline stores the deadline, on the clock of Submit.
func Deadline(of time.Duration) Setter {
	return func(r *Row, v []byte) error { return setTime(&r.Job.Deadline, v, of) }
}

// Estimate stores the user's word on the run time.
func Estimate(of time.Duration) Setter {
	return func(r *Row, v []byte) error { return setTime(&r.Job.Estimate, v, of) }
}

func setTime(to *time.Duration, v []byte, of time.Duration) error {
	if len(v) == 0 {
		return nil
	}
	d, ok := ParseTimes(v, of)
	if !ok || d < 0 {
		return wantDuration
	}
	*to = d
	return nil
}

// GPUs stores the number of GPUs of the whole job; a part of one is allowed.
func GPUs(r *Row, v []byte) error { return setMilli(&r.Shape.GPUs, v) }

// CPUs stores the number of cores of the whole job.
func CPUs(r *Row, v []byte) error { return setMilli(&r.Shape.CPUs, v) }

func setMilli(to *unit.Milli, v []byte) error {
	if len(v) == 0 {
		return nil
	}
	m, ok := ParseMilli(v)
	if !ok || m < 0 {
		return wantAmount
	}
	*to = m
	return nil
}

// Memory stores the memory of the whole job, in the given unit.
func Memory(of unit.Bytes) Setter {
	return func(r *Row, v []byte) error { return setScaled(&r.Shape.Memory, v, of) }
}

func setScaled(to *unit.Bytes, v []byte, of unit.Bytes) error {
	if len(v) == 0 {
		return nil
	}
	n, ok := unit.ParseScaled(v, int64(of))
	if !ok || n < 0 {
		return wantAmount
	}
	*to = unit.Bytes(n)
	return nil
}

// Tasks stores the number of tasks that the amounts of the job are divided
// into.
func Tasks(r *Row, v []byte) error { return setCount(&r.Shape.Tasks, v) }

func setCount(to *int32, v []byte) error {
	if len(v) == 0 {
		return nil
	}
	n, ok := ParseInt(v)
	if !ok || n < 0 || n > job.MaxTasks {
		return wantCount
	}
	*to = int32(n)
	return nil
}

// Batch stores the global batch size.
func Batch(r *Row, v []byte) error {
	if len(v) == 0 {
		return nil
	}
	n, ok := ParseInt(v)
	if !ok || n < 0 || n > 1<<40 {
		return wantCount
	}
	r.Job.Batch = int(n)
	return nil
}

// Units stores the work of the job in units of its own, such as iterations.
func Units(name string) Setter {
	return func(r *Row, v []byte) error {
		if len(v) == 0 {
			return nil
		}
		n, ok := ParseFloat(v)
		if !ok || n < 0 {
			return wantAmount
		}
		r.Job.Units, r.Job.Unit = n, name
		return nil
	}
}

// Priority stores the class of the job, larger being more urgent.
func Priority(r *Row, v []byte) error {
	if len(v) == 0 {
		return nil
	}
	n, ok := ParseInt(v)
	if !ok || n != int64(int32(n)) {
		return wantWhole
	}
	r.Job.Priority = int32(n)
	return nil
}

// Rank stores a predicted priority, smaller being first.
func Rank(r *Row, v []byte) error {
	if len(v) == 0 {
		return nil
	}
	f, ok := ParseFloat(v)
	if !ok {
		return wantNumber
	}
	h := r.Hints()
	h.Rank, h.HasRank = f, true
	return nil
}

// Number is a setter of a number, 0 or more, that to says where to store.
func Number(to func(r *Row) *float64) Setter {
	return func(r *Row, v []byte) error {
		if len(v) == 0 {
			return nil
		}
		f, ok := ParseFloat(v)
		if !ok || f < 0 {
			return wantAmount
		}
		*to(r) = f
		return nil
	}
}

// Time is a setter of a time, 0 or more, that to says where to store.
func Time(of time.Duration, to func(r *Row) *time.Duration) Setter {
	return func(r *Row, v []byte) error {
		if len(v) == 0 {
			return nil
		}
		return setTime(to(r), v, of)
	}
}

// Ended stores how the job ended, by the words of the source: Slurm's states,
// and those that traces made from its logs use.
func Ended(r *Row, v []byte) error {
	o, ok := outcomeOf(v)
	if !ok {
		return wantOutcome
	}
	r.Truth.Outcome = o
	return nil
}

func outcomeOf(v []byte) (Outcome, bool) {
	switch string(v) {
	case "", "Pass", "Passed", "passed", "COMPLETED", "completed", "Succeeded":
		return Passed, true
	case "Failed", "failed", "Fail", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE":
		return Failed, true
	case "Killed", "killed", "CANCELLED", "cancelled", "canceled", "PREEMPTED":
		return Killed, true
	}
	return Passed, false
}
