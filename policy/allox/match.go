package allox

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/solve/assign"
)

// Problem is jobs that wait and machines to run them on, one at a time on each and
// to the end.
type Problem struct {
	Free []float64   // by machine: until then it runs another job; from now, 0 or more
	Kind []int       // by machine: its kind
	Time [][]float64 // by job, by kind: how long it takes there; +Inf: it cannot run there
	// Bars tells that a job cannot run on a machine although it can on its kind; nil:
	// there is no such machine.
	Bars func(job, machine int) bool
}

// Spot is a place in the queue of a machine.
type Spot struct {
	Machine int // None: the job can run nowhere
	Last    int // 1: it runs last, 2: before that one
}

// None is no machine.
const None = -1

// Solve gives each job a spot so that the sum of all completion times is the least
// that can be. That sum counts from now; what jobs have waited already is the same in
// all answers. Of several optima it finds the same one always.
//
// A job that is k-th from the end of a machine's queue delays k jobs, itself among
// them, by the time it takes: it costs Free + k x Time, whoever the others are. So
// jobs and spots are an assignment problem. Spots far from the end are made only
// when all before them are used: to any job they cost more, so that no unused spot
// could be better than one that was made.
func (p *Problem) Solve() (spots []Spot, sum float64, err error) {
	n, m := len(p.Time), len(p.Free)
	spots = slices.Repeat([]Spot{{Machine: None}}, n)
	if n == 0 || m == 0 {
		return spots, 0, nil
	}
	if spots, sum, ok := p.apart(); ok {
		return spots, sum, nil
	}
	deep := slices.Repeat([]int{min(n, (n+m-1)/m+1)}, m)
	for {
		columns := p.columns(deep)
		pairing, err := assign.Min(n, len(columns), p.costs(columns))
		if err != nil {
			return nil, 0, err
		}
		used := make([]int, m)
		for j, at := range pairing.Of {
			spots[j] = Spot{Machine: None}
			if at != assign.Alone {
				spots[j] = columns[at]
				used[columns[at].Machine]++
			}
		}
		grown := false
		for i := range deep {
			if used[i] == deep[i] && deep[i] < n {
				deep[i], grown = min(n, 2*deep[i]), true
			}
		}
		if !grown {
			p.close(spots)
			return spots, pairing.Cost, nil
		}
	}
}

// apart gives each job a free machine of its own on which it is as fast as anywhere, if
// there are enough: nothing could be better.
func (p *Problem) apart() (spots []Spot, sum float64, ok bool) {
	taken := make([]bool, len(p.Free))
	fastest := make([]float64, len(p.Time))
	for j, times := range p.Time {
		fastest[j] = math.Inf(1)
		for _, k := range p.Kind {
			fastest[j] = min(fastest[j], times[k])
		}
		at := slices.IndexFunc(p.Kind, func(k int) bool { return times[k] == fastest[j] })
		for ; at < len(taken); at++ {
			if !taken[at] && p.Free[at] == 0 && p.Time[j][p.Kind[at]] == fastest[j] && !(p.Bars != nil && p.Bars(j, at)) {
				break
			}
		}
		if at == len(taken) || math.IsInf(fastest[j], 1) {
			return nil, 0, false
		}
		taken[at] = true
		spots, sum = append(spots, Spot{at, 1}), sum+fastest[j]
	}
	return spots, sum, true
}

func (p *Problem) columns(deep []int) []Spot {
	var out []Spot
	for i, d := range deep {
		for k := range d {
			out = append(out, Spot{i, k + 1})
		}
	}
	return out
}

// costs is what each job costs in each column, job by job. Columns of a machine
// stand together.
func (p *Problem) costs(columns []Spot) []float64 {
	costs := make([]float64, 0, len(p.Time)*len(columns))
	for j, times := range p.Time {
		free, t := 0.0, 0.0
		for _, s := range columns {
			if s.Last == 1 {
				if free, t = p.Free[s.Machine], times[p.Kind[s.Machine]]; p.Bars != nil && !math.IsInf(t, 1) && p.Bars(j, s.Machine) {
					t = math.Inf(1)
				}
			}
			costs = append(costs, free+float64(s.Last)*t)
		}
	}
	return costs
}

// close numbers the spots of each machine without gaps. There are gaps only behind
// jobs that take no time.
func (p *Problem) close(spots []Spot) {
	order := make([]int, len(spots))
	for j := range order {
		order[j] = j
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(spots[a].Last, spots[b].Last), cmp.Compare(a, b)) })
	next := make([]int, len(p.Free))
	for _, j := range order {
		if i := spots[j].Machine; i != None {
			next[i]++
			spots[j].Last = next[i]
		}
	}
}
