package allox

import (
	"cmp"
	"math"
	"slices"
)

// hall is the seats that jobs can have, and who has which. Jobs are placed one after the
// other along the cheapest path of changes, as in the Hungarian method; a row of seats
// is one column of it that takes several jobs.
//
// Every row has a price, between what the last seat that is taken costs and what the next
// one would. No job could do better at these prices than where it is.
type hall struct {
	p      *Problem
	times  [][]float64 // by job and group
	groups []group
	rows   []row
	of     []int // by job: its row, or None

	dist []float64 // by row: how far it is from the job that is being placed
	from []int     // by row: the job that would move in
	done []bool    // by row: its distance is final
}

// group is machines that are alike.
type group struct {
	machines []int // those that are free first in front
	kind     int
	rows     int // that it has so far
}

// row is the spots at one place from the end of the machines of a group.
type row struct {
	group int
	last  int
	jobs  []int
	price float64
}

// newHall finds the groups, and makes their first rows.
func newHall(p *Problem) *hall {
	h := &hall{p: p, of: slices.Repeat([]int{None}, len(p.Time))}
	number := map[int]int{}
	for i := range p.Free {
		key := i
		if p.Alike != nil {
			key = p.Alike[i]
		} else if p.Forbids == nil {
			key = p.Kind[i]
		}
		at, ok := number[key]
		if !ok {
			at = len(h.groups)
			number[key], h.groups = at, append(h.groups, group{kind: p.Kind[i]})
		}
		h.groups[at].machines = append(h.groups[at].machines, i)
	}
	for i := range h.groups {
		slices.SortFunc(h.groups[i].machines, func(x, y int) int { return cmp.Or(cmp.Compare(p.Free[x], p.Free[y]), cmp.Compare(x, y)) })
		h.extend(i)
	}
	flat := make([]float64, len(p.Time)*len(h.groups))
	for j := range p.Time {
		row := flat[j*len(h.groups) : (j+1)*len(h.groups)]
		for i := range h.groups {
			g := &h.groups[i]
			if row[i] = p.Time[j][g.kind]; p.Forbids != nil && !math.IsInf(row[i], 1) && p.Forbids(j, g.machines[0]) {
				row[i] = math.Inf(1)
			}
		}
		h.times = append(h.times, row)
	}
	return h
}

// extend adds a row to a group. Nobody is better off there than in the row before as long
// as that has nobody, so that rows are added when they are needed.
func (h *hall) extend(i int) {
	g := &h.groups[i]
	g.rows++
	h.rows = append(h.rows, row{group: i, last: g.rows, price: h.p.Free[g.machines[0]]})
	h.dist, h.from, h.done = append(h.dist, 0), append(h.from, 0), append(h.done, false)
}

// time is what a job costs in a row, but for when its machine is free.
func (h *hall) time(j, r int) float64 {
	return float64(h.rows[r].last) * h.times[j][h.rows[r].group]
}

// next is when the machine of the next seat of a row is free; +Inf: there is none.
func (h *hall) next(r int) float64 {
	machines := h.groups[h.rows[r].group].machines
	if taken := len(h.rows[r].jobs); taken < len(machines) {
		return h.p.Free[machines[taken]]
	}
	return math.Inf(1)
}

// place gives a job a seat, if there is any for it.
func (h *hall) place(j int) {
	for r := range h.rows {
		h.dist[r], h.from[r], h.done[r] = h.time(j, r)+h.rows[r].price, j, false
	}
	end, far := None, math.Inf(1)
	for {
		at, least := None, far
		for r, d := range h.dist {
			if !h.done[r] && d < least {
				at, least = r, d
			}
		}
		if at == None {
			break
		}
		h.done[at] = true
		here := &h.rows[at]
		if d := least + h.next(at) - here.price; d < far {
			end, far = at, d
		}
		for _, other := range here.jobs {
			base := least - h.time(other, at) - here.price
			for r := range h.rows {
				if !h.done[r] {
					if d := base + h.time(other, r) + h.rows[r].price; d < h.dist[r] {
						h.dist[r], h.from[r] = d, other
					}
				}
			}
		}
	}
	if end == None {
		return
	}
	for r := range h.rows {
		if h.done[r] {
			h.rows[r].price += max(0, far-h.dist[r])
		}
	}
	h.move(end, j)
	if e := h.rows[end]; len(e.jobs) == 1 && e.last == h.groups[e.group].rows && e.last < len(h.p.Time) {
		h.extend(e.group)
	}
}

// move moves each job along the path to the end into its new row.
func (h *hall) move(end, first int) {
	for {
		j := h.from[end]
		was := h.of[j]
		h.rows[end].jobs = append(h.rows[end].jobs, j)
		h.of[j] = end
		if j == first {
			return
		}
		jobs := h.rows[was].jobs
		h.rows[was].jobs = slices.Delete(jobs, slices.Index(jobs, j), slices.Index(jobs, j)+1)
		end = was
	}
}

// spots gives each job of a row a machine, in the order of their numbers, and tells the
// sum of all completion times.
func (h *hall) spots() (spots []Spot, sum float64) {
	spots = slices.Repeat([]Spot{{Machine: None}}, len(h.of))
	for r := range h.rows {
		row := &h.rows[r]
		slices.Sort(row.jobs)
		for i, j := range row.jobs {
			m := h.groups[row.group].machines[i]
			spots[j] = Spot{m, row.last}
			sum += h.p.Free[m] + h.time(j, r)
		}
	}
	return spots, sum
}
