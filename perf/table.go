package perf

import (
	"cmp"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Measured names a measurement: a job, by its name (ResNet-18 (batch size 64)), on
// so many GPUs of a type together on one node, or spread over several.
type Measured struct {
	Job    string
	GPUs   int
	Type   string // in lower case
	Spread bool
}

// Table is measured speeds: what a job does in a second, in units of its own, on
// GPUs of each type. The speed of a job is relative to what it does at the size its
// user asked for, together, on the reference type, or on the first type of the
// cluster on which it was measured where that has none. A job that was not measured
// runs as Otherwise says. A Table must not change once it is used.
type Table struct {
	Reference string // a type, in lower case; empty: none
	Otherwise Typed  // nil: Analytic with no penalty

	rates map[Measured]float64
}

// Add notes a measurement: units per second, 0 where the job cannot run.
func (t *Table) Add(m Measured, rate float64) {
	if t.rates == nil {
		t.rates = map[Measured]float64{}
	}
	t.rates[m] = rate
}

// Len is the number of measurements.
func (t *Table) Len() int { return len(t.rates) }

// Rate is the units per second of a job; ok is false where nothing was measured.
// Where the number of GPUs was not, it is taken to grow in proportion from the next
// smaller one that was.
func (t *Table) Rate(m Measured) (rate float64, ok bool) {
	if rate, ok = t.rates[m]; ok {
		return rate, true
	}
	for n := m.GPUs - 1; n > 0; n-- {
		less := m
		less.GPUs = n
		if rate, ok = t.rates[less]; ok {
			return rate * float64(m.GPUs) / float64(n), true
		}
	}
	if m.Spread { // no better is known
		m.Spread = false
		return t.Rate(m)
	}
	return 0, false
}

// base is the units per second at which the speed of a job is 1.
func (t *Table) base(j *job.Job, c *cluster.Cluster) float64 {
	m := Measured{Job: j.Name, GPUs: j.Demand.GPUs(), Type: t.Reference}
	if rate, ok := t.Rate(m); ok && rate > 0 {
		return rate
	}
	for k := range cluster.TypeID(c.Types()) {
		m.Type = strings.ToLower(c.Type(k).Name)
		if rate, ok := t.Rate(m); ok && rate > 0 {
			return rate
		}
	}
	return 0
}

func (t *Table) otherwise() Typed {
	if t.Otherwise != nil {
		return t.Otherwise
	}
	return Analytic{Scaling: 1, Spread: 1}
}

// On implements Typed.
func (t *Table) On(j *job.Job, c *cluster.Cluster, typ cluster.TypeID, tasks int, spread bool) float64 {
	base := t.base(j, c)
	gpus := int((j.Demand.Milli(int32(tasks)) + 999) / 1000)
	rate, ok := t.Rate(Measured{j.Name, gpus, strings.ToLower(c.Type(typ).Name), spread})
	if base == 0 || !ok {
		return t.otherwise().On(j, c, typ, tasks, spread)
	}
	return rate / base
}

// Speed implements Model: a gang waits for its slowest member.
func (t *Table) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	if len(a.Shares) == 0 || t.base(j, c) == 0 {
		return t.otherwise().Speed(j, c, a)
	}
	slowest, types := 0.0, cluster.TypeMask(0)
	for _, s := range a.Shares {
		typ := c.TypeOf(s.Device)
		if types != 0 && types.Has(typ) {
			continue
		}
		speed := t.On(j, c, typ, a.Tasks(0), a.Nodes() > 1)
		if types == 0 || cmp.Less(speed, slowest) {
			slowest = speed
		}
		types |= 1 << typ
	}
	return slowest
}
