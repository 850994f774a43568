package trace

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// The values that setters expect, with their limits.
const (
	wantWhole    Want = "a whole number from -2147483648 to 2147483647"
	wantCount    Want = "a whole number from 0 to 1000000"
	wantBatch    Want = "a whole number from 0 to 1099511627776"
	wantNumber   Want = "a number"
	wantAmount   Want = "a number from 0 to 1e18"
	wantDevices  Want = "a number from 0 to 1e9"
	wantCores    Want = "a number from 0 to 1e12"
	wantScaled   Want = "an amount of memory from 0 to an exbibyte"
	wantDuration Want = "a time from 0 to 100 years"
	wantSince    Want = "a time since 1970, before 2116"
	wantWall     Want = "a time of day, such as 2006-01-02 15:04:05, from 1970 to 2200"
	wantBytes    Want = "an amount of memory, such as 16GiB, an exbibyte at most"
	wantLatency  Want = "the most that a latency may be over that alone, 1 or above, 1e18 at most"
	wantWeight   Want = "a weight above 0, 1e18 at most"
	wantRungs    Want = "rungs of a search, JOBSxUNITS joined by plus signs, such as 4x8+2x16+1x36"
	wantFlag     Want = "1 or 0, true or false, yes or no"
	wantOutcome  Want = "how the job ended, such as passed, failed or killed"
)

// The limits. That of tasks is job.MaxTasks; job.Demand.Check has those of demands.
const (
	mostGPUs   = 1e9 * unit.One
	mostCPUs   = 1e12 * unit.One
	mostMemory = unit.Bytes(1) << 60
	mostAmount = 1e18 // of anything else
	mostBatch  = 1 << 40
)

// Key stores the job's name in its source.
func Key(r *Row, v []byte) error { r.Job.Key = r.In.pool.unique(v); return nil }

// Name stores what the user called the job.
func Name(r *Row, v []byte) error { r.Job.Name = r.Text(v); return nil }

// User stores who submitted the job.
func User(r *Row, v []byte) error { r.Job.User = r.Text(v); return nil }

// Tenant stores the virtual cluster, queue or project.
func Tenant(r *Row, v []byte) error { r.Job.Tenant = r.Text(v); return nil }

// Partition stores the part of the cluster that the job was submitted to.
func Partition(r *Row, v []byte) error { r.Job.Partition = r.Text(v); return nil }

// Model stores what is trained.
func Model(r *Row, v []byte) error { r.Job.Model = r.Text(v); return nil }

// Dataset stores what it is trained on.
func Dataset(r *Row, v []byte) error { r.Job.Dataset = r.Text(v); return nil }

// Where stores the condition on the labels of nodes.
func Where(r *Row, v []byte) error { return r.place(&r.Shape.Where, v, (*job.Demand).SetWhere) }

// Tolerate stores the taints of nodes that the job does not mind.
func Tolerate(r *Row, v []byte) error {
	return r.place(&r.Shape.Tolerate, v, (*job.Demand).SetTolerate)
}

// Within stores the level of the topology of which the job is in one place.
func Within(r *Row, v []byte) error { return r.place(&r.Shape.Within, v, (*job.Demand).SetWithin) }

// place stores where the job may be, if that can be read.
func (r *Row) place(to *string, v []byte, set func(*job.Demand, string) error) error {
	*to = r.Text(v)
	return set(new(job.Demand), *to)
}

// Types stores the acceptable GPU types, joined by "|".
func Types(r *Row, v []byte) error { r.Shape.Types = r.Text(v); return nil }

// setSlots stores the counted resources of each task, as job.ParseSlots reads them.
func setSlots(r *Row, v []byte) error {
	s, err := job.ParseSlots(r.Text(v))
	if err != nil {
		return Want("names and amounts, such as rdma=1|hugepages=2GiB")
	}
	r.Shape.Slots = s
	return nil
}

// Submit stores when the job was submitted, in the given unit since the zero of
// the trace or since 1970 (see Clock).
func Submit(of time.Duration) Setter {
	return func(r *Row, v []byte) error {
		if r.In.clock == OwnZero {
			return setTime(&r.Job.Submit, v, of)
		}
		return setSince(&r.Job.Submit, v, of)
	}
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

// setWork stores a run time in seconds that was computed from a column.
func (r *Row) setWork(from string, seconds float64) error {
	work, err := unit.Seconds(seconds)
	if err != nil || work < 0 || work > century {
		return r.Wrong(from, "a run time of 100 years at most")
	}
	r.Truth.Work = work
	return nil
}

// Wait stores how long the job queued.
func Wait(of time.Duration) Setter {
	return func(r *Row, v []byte) error {
		r.Truth.HasWait = true
		return setTime(&r.Truth.Wait, v, of)
	}
}

// Deadline stores the deadline, on the clock of Submit.
func Deadline(of time.Duration) Setter {
	return func(r *Row, v []byte) error { return setSince(&r.Job.Deadline, v, of) }
}

// Estimate stores the user's word on the run time.
func Estimate(of time.Duration) Setter {
	return func(r *Row, v []byte) error { return setTime(&r.Job.Estimate, v, of) }
}

// setTime reads a time that something took, or since the zero of a trace.
func setTime(to *time.Duration, v []byte, of time.Duration) error {
	d, ok := ParseTimes(v, of)
	if !ok || d < 0 || d > century {
		return wantDuration
	}
	*to = d
	return nil
}

// setSince reads a time that may be one since 1970.
func setSince(to *time.Duration, v []byte, of time.Duration) error {
	d, ok := ParseTimes(v, of)
	if !ok || d < 0 {
		return wantSince
	}
	*to = d
	return nil
}

// GPUs stores the number of GPUs of the whole job; a part of one is allowed.
func GPUs(r *Row, v []byte) error { return setMilli(&r.Shape.GPUs, v, mostGPUs, wantDevices) }

// CPUs stores the number of cores of the whole job.
func CPUs(r *Row, v []byte) error { return setMilli(&r.Shape.CPUs, v, mostCPUs, wantCores) }

func setMilli(to *unit.Milli, v []byte, most unit.Milli, want Want) error {
	m, ok := ParseMilli(v)
	if !ok || m < 0 || m > most {
		return want
	}
	*to = m
	return nil
}

// Memory stores the memory of the whole job, in the given unit.
func Memory(of unit.Bytes) Setter {
	return func(r *Row, v []byte) error { return setScaled(&r.Shape.Memory, v, of) }
}

func setScaled(to *unit.Bytes, v []byte, of unit.Bytes) error {
	n, ok := unit.ParseScaled(v, int64(of))
	if !ok || n < 0 || unit.Bytes(n) > mostMemory {
		return wantScaled
	}
	*to = unit.Bytes(n)
	return nil
}

// Tasks stores the number of tasks that the amounts of the job are divided
// into.
func Tasks(r *Row, v []byte) error { return setCount(&r.Shape.Tasks, v) }

func setCount(to *int32, v []byte) error {
	n, ok := ParseInt(v)
	if !ok || n < 0 || n > job.MaxTasks {
		return wantCount
	}
	*to = int32(n)
	return nil
}

// Batch stores the global batch size.
func Batch(r *Row, v []byte) error {
	n, ok := ParseInt(v)
	if !ok || n < 0 || n > mostBatch {
		return wantBatch
	}
	r.Job.Batch = int(n)
	return nil
}

// Units stores the work of the job in units of its own, such as iterations.
func Units(name string) Setter {
	return func(r *Row, v []byte) error {
		r.Job.Unit = name
		return setAmount(&r.Job.Units, v)
	}
}

func setAmount(to *float64, v []byte) error {
	f, ok := ParseFloat(v)
	if !ok || f < 0 || f > mostAmount {
		return wantAmount
	}
	*to = f
	return nil
}

// Priority stores the class of the job, larger being more urgent.
func Priority(r *Row, v []byte) error {
	n, ok := ParseInt(v)
	if !ok || n != int64(int32(n)) {
		return wantWhole
	}
	r.Job.Priority = int32(n)
	return nil
}

// Rank stores a predicted priority, smaller being first.
func Rank(r *Row, v []byte) error {
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
	return func(r *Row, v []byte) error { return setAmount(to(r), v) }
}

// Time is a setter of a time, 0 or more, that to says where to store.
func Time(of time.Duration, to func(r *Row) *time.Duration) Setter {
	return func(r *Row, v []byte) error { return setTime(to(r), v, of) }
}

// Flag is a setter of yes or no, that to says where to store: 1 or 0, true or
// false, yes or no, in capitals or not.
func Flag(to func(r *Row) *bool) Setter {
	return func(r *Row, v []byte) error {
		yes, ok := ParseFlag(v)
		if !ok {
			return wantFlag
		}
		*to(r) = yes
		return nil
	}
}

// setWeight reads a weight: one of 0 would be taken for none that is told.
func setWeight(to *float64, v []byte) error {
	f, ok := ParseFloat(v)
	if !ok || f <= 0 || f > mostAmount {
		return wantWeight
	}
	*to = f
	return nil
}

// setLatency reads the target of a service.
func setLatency(to *float64, v []byte) error {
	f, ok := ParseFloat(v)
	if !ok || f < 1 || f > mostAmount {
		return wantLatency
	}
	*to = f
	return nil
}

// setRungs reads the rungs of a search.
func setRungs(r *Row, v []byte) error {
	rungs, err := job.ParseRungs(string(v))
	if err != nil {
		return wantRungs
	}
	r.Hints().Rungs = rungs
	return nil
}

// hintText is a setter of a text among the hints.
func hintText(to func(h *job.Hints) *string) Setter {
	return func(r *Row, v []byte) error {
		*to(r.Hints()) = r.Text(v)
		return nil
	}
}

func backbone(r *Row, v []byte) error { r.Job.Backbone = r.Text(v); return nil }

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
	case "Pass", "Passed", "passed", "COMPLETED", "completed", "Succeeded":
		return Passed, true
	case "Failed", "failed", "Fail", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE":
		return Failed, true
	case "Killed", "killed", "CANCELLED", "cancelled", "canceled", "PREEMPTED":
		return Killed, true
	}
	return Passed, false
}
