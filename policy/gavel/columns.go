package gavel

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/solve/blocks"
)

// Placement sensitivity: a gang that runs faster together on one node has two columns for a
// type, its time together and its time spread over nodes. Both use the same GPUs; nodes have
// room for so many gangs together. A job that loses nothing where it is spread has one
// column and may run anywhere, which leaves the nodes to those who gain by them.

// Room is for how many gangs of so many GPUs nodes of a type have room at once,
// each together on one of them. A larger gang takes the room of as many of them
// as it is times as large, rounded down. That bounds any set of gangs that fit.
// If each size is a multiple of the next smaller one, any set that keeps to the
// rooms of all sizes fits.
type Room struct {
	Type  int
	GPUs  int
	Gangs float64
}

// takes is how much of a room a job takes while it is together on a node.
func (r *Room) takes(j *Job) float64 { return float64(j.gang() / r.GPUs) }

// gang is the number of GPUs of a job, with a part of one counted as one.
func (j *Job) gang() int { return int(math.Ceil(j.Size)) }

// bound tells whether a job is faster together on a node of a type than spread over several.
func (j *Job) bound(t int) bool { return len(j.Spread) > 0 && j.Spread[t] < j.Speed[t] }

// columns is the number of columns of an Allocation: one for each type, for time at Speed,
// and where there are rooms another one for each, for time at Spread.
func (p *Problem) columns() int {
	if len(p.Rooms) > 0 {
		return 2 * len(p.Capacity)
	}
	return len(p.Capacity)
}

// rows adds rows for the rooms to a program and tells which; -1: there is none, and no room.
func (p *Problem) rows(lp *blocks.Program) []int {
	rows := make([]int, len(p.Rooms))
	for i := range p.Rooms {
		rows[i] = -1
		if p.Rooms[i].Gangs > 0 {
			rows[i] = len(lp.Limits)
			lp.Limits = append(lp.Limits, p.Rooms[i].Gangs)
		}
	}
	return rows
}

// vary adds the variables of a job on a type to its block, and their columns to columns: v is
// that of time at its speed.
func (p *Problem) vary(b *blocks.Block, v blocks.Var, j *Job, t int, rows, columns []int) []int {
	apart := v
	can := true
	for i := range p.Rooms {
		if r := &p.Rooms[i]; r.Type == t && j.bound(t) && r.takes(j) > 0 {
			if can = can && rows[i] >= 0; can {
				v.More = append(v.More, blocks.Use{Row: rows[i], Use: r.takes(j)})
			}
		}
	}
	if can {
		b.Vars, columns = append(b.Vars, v), append(columns, t)
	}
	if len(p.Rooms) > 0 && j.bound(t) && j.Spread[t] > 0 {
		slower := j.Spread[t] / j.Speed[t]
		apart.Rate *= slower
		apart.Gain *= slower
		b.Vars, columns = append(b.Vars, apart), append(columns, len(p.Capacity)+t)
	}
	return columns
}

// crowded is how much of a room an allocation takes.
func (p *Problem) crowded(r *Room, a Allocation) float64 {
	sum := 0.0
	for m := range p.Jobs {
		if j := &p.Jobs[m]; j.bound(r.Type) {
			sum += r.takes(j) * a[m][r.Type]
		}
	}
	return sum
}

// roomy tells whether there is room for all time together of an allocation.
func (p *Problem) roomy(a Allocation) bool {
	for i := range p.Rooms {
		if r := &p.Rooms[i]; p.crowded(r, a) > r.Gangs*(1+1e-9) {
			return false
		}
	}
	return true
}

// column is the column of a type in which a job can have all of its time beside what is
// given, and how fast it is there.
func (p *Problem) column(a Allocation, j *Job, t int) (column int, speed float64) {
	for i := range p.Rooms {
		if r := &p.Rooms[i]; r.Type == t && j.bound(t) && p.crowded(r, a)+r.takes(j) > r.Gangs*(1+1e-9) && r.takes(j) > 0 {
			return len(p.Capacity) + t, j.Spread[t]
		}
	}
	return t, j.Speed[t]
}

// Cut makes of an allocation that knows nothing of rooms what can be had of it: where there
// is not enough room for all time together, all have the same part of theirs, and are spread
// for the rest.
func (p *Problem) Cut(a Allocation) {
	types := len(p.Capacity)
	for i := range p.Rooms {
		r := &p.Rooms[i]
		used := p.crowded(r, a)
		if used <= r.Gangs {
			continue
		}
		for m := range p.Jobs {
			if j := &p.Jobs[m]; j.bound(r.Type) && r.takes(j) > 0 {
				x := a[m][r.Type] * (1 - r.Gangs/used)
				a[m][r.Type] -= x
				if j.Spread[r.Type] > 0 {
					a[m][types+r.Type] += x
				}
			}
		}
	}
}

// gather makes time together of time spread as far as there is room, in the order of the
// jobs: in the middle of all optima those who need no more have some of both.
func (p *Problem) gather(a Allocation) {
	types := len(p.Capacity)
	left := make([]float64, len(p.Rooms))
	for i := range p.Rooms {
		left[i] = p.Rooms[i].Gangs - p.crowded(&p.Rooms[i], a)
	}
	for m := range p.Jobs {
		j := &p.Jobs[m]
		for t := range types {
			if len(a[m]) == types || a[m][types+t] == 0 {
				continue
			}
			x := a[m][types+t]
			for i := range p.Rooms {
				if n := p.Rooms[i].takes(j); p.Rooms[i].Type == t && n > 0 {
					x = min(x, max(0, left[i])/n)
				}
			}
			a[m][t] += x
			a[m][types+t] -= x
			for i := range p.Rooms {
				if p.Rooms[i].Type == t {
					left[i] -= x * p.Rooms[i].takes(j)
				}
			}
		}
	}
}

// place tells a problem how fast jobs are where they are spread, and what room there is.
// Rooms that the GPUs of the type bound as well are left out.
func (g *policy) place(r *rounds.Round, p *Problem, members []rounds.Member) {
	for i, m := range members {
		j := &p.Jobs[i]
		j.Spread = make([]float64, len(r.Types))
		for k, t := range r.Types {
			j.Spread[k] = r.Apart(m.Job, t)
			size := j.gang()
			if !j.bound(k) || slices.ContainsFunc(p.Rooms, func(o Room) bool { return o.Type == k && o.GPUs == size }) {
				continue
			}
			if n := r.Slots(t, size); float64(n*size) < p.Capacity[k] {
				p.Rooms = append(p.Rooms, Room{Type: k, GPUs: size, Gangs: float64(n)})
			}
		}
	}
	slices.SortFunc(p.Rooms, func(a, b Room) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.GPUs, b.GPUs)) })
}

// targets are the shares of an allocation, those of time together apart.
func (g *policy) targets(p *Problem, a Allocation) rounds.Targets {
	types := len(p.Capacity)
	t := rounds.Targets{Shares: make([][]float64, len(p.Jobs)), Together: make([][]float64, len(p.Jobs))}
	for m := range p.Jobs {
		t.Shares[m], t.Together[m] = make([]float64, types), make([]float64, types)
		for k := range types {
			if j := &p.Jobs[m]; !j.bound(k) {
				t.Shares[m][k] = a[m][k]
				continue
			}
			t.Together[m][k] = a[m][k]
			if len(a[m]) > types {
				t.Shares[m][k] = a[m][types+k]
			}
		}
	}
	return t
}
