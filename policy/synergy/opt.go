package synergy

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
)

// choice is what a job could have, for all its GPUs.
type choice struct {
	each        perf.Ration
	cpu, memory float64 // cores and bytes
	speed       float64
}

// problem is the paper's first program: one choice for each job, none slower than its
// proportional share, within the cores and the memory of all nodes, for the greatest sum
// of speeds. Where the jobs are on the nodes does not count, so that no division can do
// better than its optimum.
//
// It looks for a price for cores and one for memory at which there is room for
// what each job likes best, which gives a bound. The rest is then given to the
// jobs to which it is worth most. Choices are changed two by two as long as
// that gains anything.
type problem struct {
	cpu, memory float64
	jobs        [][]choice // of each at least one, the one with the least first
}

// choices are what a job could have on a node, without those with which it is no faster
// than with less.
func (c *claim) choices(n *server) []choice {
	least, want := c.least(n), c.want(n)
	with := func(r perf.Ration) choice {
		return choice{r, float64(r.CPU) * float64(c.gpus) / float64(unit.One), float64(r.Memory) * float64(c.gpus), c.rate(n, r)}
	}
	out := []choice{with(least)}
	if c.grid == nil || c.rooted {
		return out
	}
	try := func(r perf.Ration) {
		next := with(r)
		if !least.Within(r) || !r.Within(want) || slices.ContainsFunc(out, func(o choice) bool { return o.each.Within(r) && o.speed >= next.speed }) {
			return
		}
		out = append(out, next)
	}
	for _, cpu := range c.grid.CPUs {
		for _, memory := range c.grid.Memory {
			try(perf.Ration{CPU: min(cpu, want.CPU), Memory: min(memory, want.Memory)})
		}
	}
	try(want)
	return out
}

// like is the choice that a job likes best at some prices; of equals the first.
func like(all []choice, cpu, memory float64) int {
	best, most := 0, 0.0
	for i := range all {
		if net := all[i].speed - cpu*all[i].cpu - memory*all[i].memory; i == 0 || net > most+1e-12 {
			best, most = i, net
		}
	}
	return best
}

// at is what all jobs like best at some prices, and what that takes.
func (p *problem) at(cpu, memory float64, picks []int) (cores, bytes float64) {
	for i, all := range p.jobs {
		picks[i] = like(all, cpu, memory)
		cores += all[picks[i]].cpu
		bytes += all[picks[i]].memory
	}
	return cores, bytes
}

// halvings are how often an interval of prices is halved: prices are right to a part in
// 10^12 of the highest one.
const halvings = 40

// price is the lowest of prices from 0 to most at which enough holds.
func price(most float64, enough func(float64) bool) float64 {
	if enough(0) {
		return 0
	}
	low, high := 0.0, most
	for range halvings {
		if mid := (low + high) / 2; enough(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// solve finds a choice for each job, and a bound on the sum of speeds that no choices
// exceed.
func (p *problem) solve() (picks []int, bound float64) {
	picks = make([]int, len(p.jobs))
	steepest := 0.0 // nobody would pay more for a part of all cores, or of all memory
	for _, all := range p.jobs {
		for i := range all {
			steepest = max(steepest, all[i].speed)
		}
	}
	perCore, perByte := steepest*1e3, steepest/float64(unit.MiB)
	cpuAt := func(memory float64) float64 {
		return price(perCore, func(cpu float64) bool { cores, _ := p.at(cpu, memory, picks); return cores <= p.cpu })
	}
	memory := price(perByte, func(memory float64) bool { _, bytes := p.at(cpuAt(memory), memory, picks); return bytes <= p.memory })
	cpu := cpuAt(memory)
	p.at(cpu, memory, picks)
	bound = cpu*p.cpu + memory*p.memory
	for i, all := range p.jobs {
		c := &all[picks[i]]
		bound += c.speed - cpu*c.cpu - memory*c.memory
	}
	for p.improve(picks); p.exchange(picks); {
		p.improve(picks)
	}
	return picks, bound
}

// exchange changes the choices of two jobs at once, where that is worth most; false where
// nothing is gained. Jobs that are alike stand for each other.
func (p *problem) exchange(picks []int) bool {
	cores, bytes := p.left(picks)
	alike := p.alike(picks)
	var who, to [2]int
	most := 1e-9
	for _, i := range alike {
		for _, j := range alike {
			if i.first == j.first && len(i.jobs) == 1 {
				continue
			}
			a, b := i.jobs[0], j.jobs[len(j.jobs)-1]
			x, y := &p.jobs[a][picks[a]], &p.jobs[b][picks[b]]
			for k := range p.jobs[a] {
				more := &p.jobs[a][k]
				if more.speed <= x.speed {
					continue
				}
				for l := range p.jobs[b] {
					less := &p.jobs[b][l]
					if gain := more.speed - x.speed + less.speed - y.speed; gain > most && more.cpu-x.cpu+less.cpu-y.cpu <= cores && more.memory-x.memory+less.memory-y.memory <= bytes {
						most, who, to = gain, [2]int{a, b}, [2]int{k, l}
					}
				}
			}
		}
	}
	if most == 1e-9 {
		return false
	}
	picks[who[0]], picks[who[1]] = to[0], to[1]
	return true
}

// likes are jobs with the same choices, and the same one of them picked.
type likes struct {
	first, pick int // the first job with the same choices
	jobs        []int
}

func (p *problem) alike(picks []int) []likes {
	var out []likes
	var kinds []int // the first job with each set of choices
	for i, all := range p.jobs {
		kind := slices.IndexFunc(kinds, func(k int) bool { return slices.Equal(p.jobs[k], all) })
		if kind < 0 {
			kind, kinds = len(kinds), append(kinds, i)
		}
		at := slices.IndexFunc(out, func(l likes) bool { return l.first == kinds[kind] && l.pick == picks[i] })
		if at < 0 {
			at, out = len(out), append(out, likes{first: kinds[kind], pick: picks[i]})
		}
		out[at].jobs = append(out[at].jobs, i)
	}
	return out
}

// left is what the picks leave of the cores and the memory.
func (p *problem) left(picks []int) (cores, bytes float64) {
	cores, bytes = p.cpu, p.memory
	for i, all := range p.jobs {
		cores, bytes = cores-all[picks[i]].cpu, bytes-all[picks[i]].memory
	}
	return cores, bytes
}

// improve gives what is left to the jobs that gain most for what it takes of it.
func (p *problem) improve(picks []int) {
	cores, bytes := p.left(picks)
	for {
		who, to, most := -1, 0, 0.0
		for i, all := range p.jobs {
			now := &all[picks[i]]
			for k := range all {
				more, gain := &all[k], all[k].speed-now.speed
				c, b := more.cpu-now.cpu, more.memory-now.memory
				if gain <= 1e-12 || c > cores || b > bytes {
					continue
				}
				if worth := gain / max(1e-9, max(0, c)/p.cpu, max(0, b)/p.memory); worth > most {
					who, to, most = i, k, worth
				}
			}
		}
		if who < 0 {
			return
		}
		now, more := &p.jobs[who][picks[who]], &p.jobs[who][to]
		cores, bytes = cores-(more.cpu-now.cpu), bytes-(more.memory-now.memory)
		picks[who] = to
	}
}

// dealBest deals every job what the problem chose for it, where it finds room for that,
// and otherwise what tune would; or deals as tune does, where that comes to more.
func (s *policy) dealBest() {
	byTune := s.total(s.byRule)
	s.clear()
	s.pick()
	chosen := func(c *claim) {
		if c.rooted || !s.together(c, c.picked) && !s.apart(c, c.picked) {
			s.settle(c, true)
		}
	}
	if s.total(chosen) < byTune {
		s.clear()
		s.dealBy(s.byRule)
	}
}

func (c *claim) picked(n *server) perf.Ration {
	if c.least(n).Within(c.cell) {
		return c.cell
	}
	return c.least(n)
}

// total is the sum of the speeds of what is dealt by a rule.
func (s *policy) total(settle func(*claim)) float64 {
	s.dealBy(settle)
	sum := 0.0
	for _, c := range s.claims {
		if len(c.parts) > 0 {
			sum += c.speed
		}
	}
	return sum
}

// clear takes back all that was dealt.
func (s *policy) clear() {
	for _, c := range s.claims {
		s.floor.drop(c)
	}
}

// pick solves the problem of the claims that were chosen.
func (s *policy) pick() {
	if s.floor.largest == nil {
		return
	}
	p := &problem{}
	for _, n := range s.floor.servers {
		p.cpu += float64(n.left.CPU) / float64(unit.One)
		p.memory += float64(n.left.Memory)
	}
	var who []*claim
	for _, c := range s.claims {
		if c.chosen && !c.fixed {
			who = append(who, c)
			p.jobs = append(p.jobs, c.choices(s.floor.largest))
		}
	}
	picks, _ := p.solve()
	for i, c := range who {
		c.cell = p.jobs[i][picks[i]].each
	}
}
