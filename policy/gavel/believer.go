package gavel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// The values of a stay beside reference jobs. References are told by their places in the list
// of References.
const (
	Reference = "reference" // places
	Own       = "own"       // speed of the job beside each of them, over that alone
	Theirs    = "theirs"    // speed of each of them beside the job, over that alone
)

// References are the sorts of jobs that are known beside each other from the start, by name.
func References(known perf.Pairs) (names []string) {
	for p := range known.Speed {
		names = append(names, p.Job)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Believer makes what the policy believes of pairs from what is measured of them. What is known
// before is a perf.Pairs of reference jobs; of other jobs the prior tells, or they are taken not
// to gain by sharing where there are references. It is nil where jobs do not share.
func (c *Config) Believer(prior perf.Prior) perf.Believer {
	if !c.Packed {
		return nil
	}
	b := &believer{prior: prior.Sharing, seen: map[perf.Pair]mean{}, sorts: map[int64]string{}, stays: map[string]int{}, ran: map[perf.Pair]bool{}}
	if known, ok := prior.Sharing.(perf.Pairs); ok {
		b.table, b.references = known, References(known)
		b.prior = nil
	}
	b.untyped = len(b.references) > 0
	for p := range b.table.Speed {
		b.untyped = b.untyped && p.Type == ""
	}
	b.table.Speed = maps.Clone(b.table.Speed)
	return b
}

// believer is what is believed of pairs (section 6 of the paper): reference jobs were measured
// beside each other; a new sort of job is measured beside some of them, and the rest is estimated
// by completing the matrix (perf.Complete). Measurements of pairs that run go before. It
// implements perf.Sharing and perf.Telling.
type believer struct {
	prior      perf.Sharing // of sorts of which nothing is known; nil: they gain nothing
	references []string
	table      perf.Pairs // of references, and what was measured
	untyped    bool       // that of references is for any type
	seen       map[perf.Pair]mean
	sorts      map[int64]string   // of jobs that were measured, by number for life
	stays      map[string]int     // by sort: references beside which it was measured
	ran        map[perf.Pair]bool // that were measured as both ran

	full  perf.Pairs // table, completed
	stale bool       // full is not of the present table
}

// mean is that of several measurements.
type mean struct {
	sum float64
	n   int
}

// sort is by what jobs are taken to be alike.
func (b *believer) sort(j *job.Job) string {
	if b.table.Sort != nil {
		return b.table.Sort(j)
	}
	return perf.SortOf(j)
}

// Observe implements perf.Believer.
func (b *believer) Observe(j *job.Job, m *perf.Reading) {
	own := b.sort(j)
	b.sorts[perf.SerialOf(j)] = own
	if m.When == perf.InProfile {
		b.stay(own, m)
		return
	}
	factor, ok := m.Figure(perf.Factor)
	others := m.Series(perf.Neighbours)
	if !ok || len(others) != 1 || !(factor > 0) {
		return
	}
	if other, known := b.sorts[int64(others[0])]; known {
		p := perf.Pair{Job: own, Beside: other, Type: b.typ(m)}
		b.ran[p] = true
		b.see(p, factor)
	}
}

// stay takes in what was measured beside references.
func (b *believer) stay(own string, m *perf.Reading) {
	at, speed, theirs := m.Series(Reference), m.Series(Own), m.Series(Theirs)
	if len(at) != len(speed) || len(at) != len(theirs) {
		return
	}
	for i, k := range at {
		b.stays[own]++
		if k < 0 || k >= float64(len(b.references)) || !(speed[i] > 0) || !(theirs[i] > 0) {
			continue
		}
		other := b.references[int(k)]
		b.see(perf.Pair{Job: own, Beside: other, Type: b.typ(m)}, speed[i])
		if own != other {
			b.see(perf.Pair{Job: other, Beside: own, Type: b.typ(m)}, theirs[i])
		}
	}
}

// typ is the GPU type on which a pair was measured, as tables name it.
func (b *believer) typ(m *perf.Reading) string {
	if b.untyped {
		return ""
	}
	return strings.ToLower(m.Setup.Type)
}

// see takes in one measurement of a pair.
func (b *believer) see(p perf.Pair, factor float64) {
	x := b.seen[p]
	x.sum, x.n = x.sum+min(1, factor), x.n+1
	b.seen[p] = x
	if b.table.Speed == nil {
		b.table.Speed = map[perf.Pair]float64{}
	}
	b.table.Speed[p], b.stale = x.sum/float64(x.n), true
}

// completed is the table with what is estimated.
func (b *believer) completed() perf.Pairs {
	if b.stale || b.full.Speed == nil {
		b.full, b.stale = perf.Complete(b.table), false
		b.full.Else = byTurns{}
		if b.prior != nil {
			b.full.Else = b.prior
		}
		b.full.Sort = b.sort
	}
	return b.full
}

// byTurns is the belief that no two jobs gain by sharing: they do as well by turns.
type byTurns struct{}

// Beside implements perf.Sharing.
func (byTurns) Beside(_ *job.Job, others []*job.Job, _ cluster.GPUType) float64 {
	return 1 / float64(1+len(others))
}

// Beside implements perf.Sharing.
func (b *believer) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	return b.completed().Beside(j, others, t)
}

// unmeasured tells whether a job is to be measured beside references: none of its sort was, and
// it is no reference.
func (b *believer) unmeasured(j *job.Job) bool {
	own := b.sort(j)
	_, reference := slices.BinarySearch(b.references, own)
	return len(b.references) > 0 && own != "" && b.stays[own] == 0 && !reference
}

// Grounds implements perf.Telling.
func (b *believer) Grounds(j *job.Job) []string {
	own := b.sort(j)
	ran := map[string]bool{}
	for p := range b.ran {
		if p.Job == own {
			ran[p.Beside] = true
		}
	}
	_, reference := slices.BinarySearch(b.references, own)
	switch stay := b.stays[own]; {
	case reference:
		return []string{fmt.Sprintf("it is a reference: its speed beside other references was known before; beside %s it was measured as both ran", unit.CountOrNo(len(ran), "sort"))}
	case stay > 0:
		return []string{fmt.Sprintf("jobs of its sort were measured beside %s in a stay, and beside %s as both ran; the rest is estimated", unit.Count(stay, "reference"), unit.CountOrNo(len(ran), "sort"))}
	case len(ran) > 0:
		return []string{fmt.Sprintf("jobs of its sort were measured beside %s as both ran", unit.Count(len(ran), "sort"))}
	case len(b.references) > 0:
		return []string{"nothing was measured of it beside others, so that it is taken to gain nothing by sharing"}
	}
	return nil
}

// GainGrounds implements perf.Telling: jobs learn nothing from each other here.
func (b *believer) GainGrounds(_, _ *job.Job) string { return "" }

// least is the shortest stay in which anything is measured.
const least = time.Minute
