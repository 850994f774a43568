package perf

import (
	"cmp"
	"slices"
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

// Table is measured speeds: what a job does in a second, in units of its own,
// on GPUs of each type. The speed of a job is relative to that at the size its
// user asked for, on one node, on the reference type. If it was not measured on
// that type, the first type of the cluster on which it was measured counts. A
// job that was not measured runs as Otherwise says. A Table must not change
// once it is used.
type Table struct {
	Reference string // a type, in lower case; empty: none
	Otherwise Typed  // nil: Analytic with no penalty

	jobs map[string][]reading // by name
	n    int                  // measurements
}

// reading is one measurement of a job.
type reading struct {
	gpus   int
	typ    string
	spread bool
	rate   float64
}

// Add notes a measurement: units per second, 0 where the job cannot run.
func (t *Table) Add(m Measured, rate float64) {
	if t.jobs == nil {
		t.jobs = map[string][]reading{}
	}
	all := t.jobs[m.Job]
	for i := range all {
		if x := &all[i]; x.gpus == m.GPUs && x.typ == m.Type && x.spread == m.Spread {
			x.rate = rate
			return
		}
	}
	t.jobs[m.Job] = append(all, reading{m.GPUs, m.Type, m.Spread, rate})
	t.n++
}

// Len is the number of measurements.
func (t *Table) Len() int { return t.n }

// Rate is the units per second of a job; ok is false where nothing was
// measured. If the number of GPUs was not measured, throughput is taken to grow
// in proportion from the next smaller one that was. But a gang that was found
// not to run on one node does not run spread.
func (t *Table) Rate(m Measured) (rate float64, ok bool) {
	return rateOf(t.jobs[m.Job], m.GPUs, m.Type, m.Spread)
}

// rateOf is Rate among what was measured of one job; in the name of the type case
// does not count.
func rateOf(all []reading, gpus int, typ string, spread bool) (rate float64, ok bool) {
	var best *reading
	for i := range all {
		x := &all[i]
		fits := x.gpus == gpus || x.gpus > 0 && x.gpus < gpus
		if fits && x.spread == spread && (best == nil || x.gpus > best.gpus) && strings.EqualFold(x.typ, typ) {
			best = x
		}
	}
	switch {
	case best == nil && spread: // no better is known
		return rateOf(all, gpus, typ, false)
	case best == nil:
		return 0, false
	case best.gpus == gpus:
		return best.rate, true
	case spread && slices.Contains(all, reading{gpus, best.typ, false, 0}):
		return 0, true // a gang that does not run together does not run apart
	}
	return best.rate * float64(gpus) / float64(best.gpus), true
}

// base is the units per second at which the speed of a job is 1, given what was
// measured of it.
func (t *Table) base(all []reading, j *job.Job, c *cluster.Cluster) float64 {
	gpus := j.Demand.GPUs()
	if rate, ok := rateOf(all, gpus, t.Reference, false); ok && rate > 0 {
		return rate
	}
	for k := range cluster.TypeID(c.Types()) {
		if rate, ok := rateOf(all, gpus, c.Type(k).Name, false); ok && rate > 0 {
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
	all := t.jobs[j.Name]
	base := t.base(all, j, c)
	gpus := j.Demand.GPUsAt(int32(tasks))
	rate, ok := rateOf(all, gpus, c.Type(typ).Name, spread)
	if base == 0 || !ok {
		return t.otherwise().On(j, c, typ, tasks, spread)
	}
	return rate / base
}

// Speed implements Model: a gang waits for its slowest member.
func (t *Table) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	if len(a.Shares) == 0 || t.base(t.jobs[j.Name], j, c) == 0 {
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
