package ones

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Claim is a job that wants GPUs. Claims stand in order of submission.
type Claim struct {
	Least   int // tasks
	Limit   int // the most tasks, at least Least
	Allowed int // tasks before GPUs are left over, Least to Limit
	Each    int // GPUs of a task
	First   int // GPUs of the least

	Young  bool // it has not done two epochs: nothing is foretold of it
	Locked bool // it keeps what it has: Now
	Now    int  // tasks

	// Usage is what is left of its work, in seconds times tasks, by its number of tasks.
	Usage func(tasks int) float64
}

// gpus is what so many tasks take.
func (c *Claim) gpus(tasks int) int {
	if tasks == 0 {
		return 0
	}
	return c.First + (tasks-c.Least)*c.Each
}

// room is the most tasks up to a number that fit on so many GPUs in place of those it has.
func (c *Claim) room(has, most, gpus int) int {
	gpus += c.gpus(has)
	if most < c.Least || c.First > gpus {
		return 0
	}
	return min(most, c.Least+(gpus-c.First)/max(1, c.Each))
}

// Search is how long is searched: so many divisions, so often renewed.
type Search struct {
	Population, Iterations int
	Mutation               float64
}

// Problem is what is searched for: tasks for claims on so many GPUs.
type Problem struct {
	Claims []Claim
	GPUs   int

	order []int // of claims that are not young: by the time left on one GPU
}

// Division is the tasks of each claim.
type Division []int

// Score is the GPU time that is left of the jobs that a division runs, as far as it is foretold:
// the less the better.
func (p *Problem) Score(d Division) float64 {
	sum := 0.0
	for i := range p.Claims {
		if c := &p.Claims[i]; d[i] > 0 && !c.Young {
			sum += c.Usage(d[i])
		}
	}
	return sum
}

// free is the GPUs that a division leaves.
func (p *Problem) free(d Division) int {
	left := p.GPUs
	for i := range p.Claims {
		left -= p.Claims[i].gpus(d[i])
	}
	return left
}

// refresh keeps of a division what is allowed and fits: first what is locked, then jobs in
// order of submission.
func (p *Problem) refresh(d Division) {
	left := p.GPUs
	for i := range p.Claims {
		if c := &p.Claims[i]; c.Locked {
			d[i] = c.Now
			left -= c.gpus(c.Now)
		}
	}
	for i := range p.Claims {
		if c := &p.Claims[i]; !c.Locked {
			d[i] = c.room(0, min(d[i], c.Allowed), left)
			left -= c.gpus(d[i])
		}
	}
}

// pad gives GPUs that are left to young jobs up to their limits, in order of submission, then to
// others up to what is allowed, those first that need least time on one GPU, and then up to their
// limits.
func (p *Problem) pad(d Division) {
	left := p.free(d)
	fill := func(i, most int) {
		c := &p.Claims[i]
		if c.Locked || d[i] >= most {
			return
		}
		if n := c.room(d[i], most, left); n > d[i] {
			left -= c.gpus(n) - c.gpus(d[i])
			d[i] = n
		}
	}
	for i := range p.Claims {
		if c := &p.Claims[i]; c.Young {
			fill(i, c.Limit)
		}
	}
	for _, i := range p.order {
		fill(i, p.Claims[i].Allowed)
	}
	for _, i := range p.order {
		fill(i, p.Claims[i].Limit)
	}
}

// cross makes two divisions of two others: of the GPUs in which they differ each gets every one
// with probability one half.
func (p *Problem) cross(a, b Division, rng *rand.Rand) (x, y Division) {
	x, y = slices.Clone(a), slices.Clone(b)
	for i := range p.Claims {
		lo, hi := min(a[i], b[i]), max(a[i], b[i])
		x[i], y[i] = lo, hi
		for range hi - lo {
			if rng.IntN(2) == 0 {
				x[i], y[i] = x[i]+1, y[i]-1
			}
		}
	}
	p.fit(x, rng)
	p.fit(y, rng)
	return x, y
}

// fit takes jobs out of a division, or tasks from them, until it fits.
func (p *Problem) fit(d Division, rng *rand.Rand) {
	over := -p.free(d)
	for _, i := range rng.Perm(len(d)) {
		c := &p.Claims[i]
		if d[i] < c.Least && !c.Locked {
			over -= c.gpus(d[i])
			d[i] = 0
		}
	}
	for _, i := range rng.Perm(len(d)) {
		if over <= 0 {
			return
		}
		if c := &p.Claims[i]; !c.Locked && d[i] > 0 {
			was := c.gpus(d[i])
			d[i] = c.room(0, d[i], max(0, was-over))
			over -= was - c.gpus(d[i])
		}
	}
}

// mutate leaves jobs of which something is foretold out of a division.
func (p *Problem) mutate(d Division, chance float64, rng *rand.Rand) {
	for i := range p.Claims {
		if c := &p.Claims[i]; !c.Young && !c.Locked && rng.Float64() < chance {
			d[i] = 0
		}
	}
}

// scored is a division and its score.
type scored struct {
	d     Division
	score float64
}

// Run searches for the division with the least score, from the present one. Nothing scores worse
// in the end than that does once it is padded.
func (s Search) Run(p *Problem, rng *rand.Rand) Division {
	p.prepare()
	now := make(Division, len(p.Claims))
	for i := range p.Claims {
		now[i] = p.Claims[i].Now
	}
	alive := s.first(p, now, rng)
	for range s.Iterations {
		next := slices.Clone(alive)
		born := func(d Division) {
			p.refresh(d)
			p.pad(d)
			if !slices.ContainsFunc(next, func(o scored) bool { return slices.Equal(o.d, d) }) {
				next = append(next, scored{d, p.Score(d)})
			}
		}
		for range s.Population / 2 {
			if len(alive) < 2 {
				break
			}
			i, j := rng.IntN(len(alive)), rng.IntN(len(alive)-1)
			if j >= i {
				j++
			}
			x, y := p.cross(alive[i].d, alive[j].d, rng)
			born(x)
			born(y)
		}
		for i := range alive {
			d := slices.Clone(alive[i].d)
			p.mutate(d, s.Mutation, rng)
			born(d)
		}
		slices.SortStableFunc(next, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
		alive = next[:min(len(next), s.Population)]
	}
	return alive[0].d
}

// first is the first population: the present division, one without the jobs that can be left
// out, and mutations.
func (s Search) first(p *Problem, now Division, rng *rand.Rand) (all []scored) {
	for i := range s.Population {
		d := slices.Clone(now)
		switch {
		case i == 1:
			p.mutate(d, 1, rng)
		case i > 1:
			p.mutate(d, s.Mutation, rng)
		}
		p.refresh(d)
		p.pad(d)
		all = append(all, scored{d, p.Score(d)})
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
	return slices.CompactFunc(all, func(a, b scored) bool { return slices.Equal(a.d, b.d) })
}

// prepare puts the claims in the order of padding.
func (p *Problem) prepare() {
	p.order = p.order[:0]
	alone := make([]float64, len(p.Claims))
	for i := range p.Claims {
		if c := &p.Claims[i]; !c.Young {
			alone[i] = c.Usage(1)
			p.order = append(p.order, i)
		}
	}
	slices.SortStableFunc(p.order, func(a, b int) int { return cmp.Compare(alone[a], alone[b]) })
}

// Shrunk is the size to which a job is cut that has run for longer than the median of all
// jobs: ratio times as long.
func Shrunk(size int, ratio, lambda float64) int {
	n := max(1, int(math.Floor(2*float64(size)/(lambda*ratio+1))))
	return n + n%2
}
