// Package pop is POP of Narayanan et al., "Solving Large-Scale Granular
// Resource Allocation Problems Efficiently with POP", SOSP 2021. Jobs and GPUs
// are divided into parts. The programs of package gavel share out each part as
// they would the whole, and the answers are put together.
//
// Nouns: a part is some of the jobs and of the GPUs of every type. Jobs are
// dealt out so that those which are alike (in entity, size, weight and speeds)
// go to different parts in turn: parts should resemble the whole. Each part
// then has GPUs in proportion to its jobs, fractions of them too, since what is
// shared out is time. Or a job is in the part of its number modulo the number
// of parts, as in the authors' experiments, and stays in it for life. GPUs are
// then divided evenly, and the remainder goes to one part after another, from
// type to type.
//
// There are fewer parts than asked for where parts would have less than eight
// jobs, or where a job would not fit into the GPUs of its part. A part without
// jobs gets no GPUs. Jobs of a part lose mostly because other parts have fewer
// jobs: an equal share is one of the part.
package pop

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/solve"
)

// Config is the settings of the policy: those of Gavel, and the number of parts.
type Config struct {
	gavel.Config
	Parts int
	Deal  Deal
}

// Deal is how jobs are dealt out to parts.
type Deal uint8

// The ways to deal.
const (
	Alike  Deal = iota // those that are alike in turn
	Number             // by their numbers
)

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{Config: *gavel.NewConfig(), Parts: 8} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return append(c.Config.Params(), param.Choice("deal", &c.Deal, []param.Option[Deal]{{Name: "alike", Value: Alike}, {Name: "number", Value: Number}},
		"how jobs are dealt out to parts: those that are alike in turn, or by their numbers, so that each stays where it is"), param.Int("parts", &c.Parts, 1, 1024, "parts", "how many parts jobs and GPUs are divided into; fewer where there are too few jobs, or a job needs more GPUs"))
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	g := c.Config
	g.Around = func(program gavel.Program) gavel.Program {
		return func(p *gavel.Problem) (gavel.Allocation, error) { return Solve(p, c.Parts, fewest, c.Deal, program) }
	}
	return g.Policy()
}

// fewest is how many jobs a part has at least.
const fewest = 8

// Solve shares out a problem in parts, at most so many and with so many jobs in each
// at least. With one part it is the program. The parts are solved as p.Each does them; the
// answer is the same in any order.
func Solve(p *gavel.Problem, parts, jobs int, deal Deal, program gavel.Program) (gavel.Allocation, error) {
	split, of := Split(p, parts, jobs, deal)
	shared, failed := make([]gavel.Allocation, len(split)), make([]error, len(split))
	var each solve.Each = solve.Serial{}
	if p.Each != nil {
		each = p.Each
	}
	each.Each(len(split), func(i int) {
		if shared[i], failed[i] = program(&split[i]); failed[i] != nil {
			shared[i], failed[i] = gavel.Isolated(&split[i]) // of this part alone
		}
	})
	a := make(gavel.Allocation, len(p.Jobs))
	var pairs gavel.Allocation // of jobs that share
	p.Pairs = nil
	for i, b := range shared {
		if failed[i] != nil {
			return nil, fmt.Errorf("part %d: %w", i, failed[i])
		}
		for k, x := range b[:len(of[i])] {
			a[of[i][k]] = x
		}
		pairs = append(pairs, b[len(of[i]):]...)
		for _, pair := range split[i].Pairs[:len(b)-len(of[i])] { // places in a part are in the order of the whole
			p.Pairs = append(p.Pairs, gavel.Pair{A: of[i][pair.A], B: of[i][pair.B]})
		}
	}
	return append(a, pairs...), nil
}

// Split divides a problem: by part the problem, and the places that its jobs have in
// the whole.
func Split(p *gavel.Problem, parts, jobs int, deal Deal) ([]gavel.Problem, [][]int) {
	parts = max(1, min(parts, len(p.Jobs)/max(1, jobs)))
	for ; parts > 1; parts-- {
		split, of := divide(p, parts, deal)
		if fit(p, split, of) {
			return split, of
		}
	}
	return divide(p, 1, deal)
}

// divide divides a problem into parts, without those that have no jobs.
func divide(p *gavel.Problem, parts int, deal Deal) ([]gavel.Problem, [][]int) {
	all := make([][]int, parts)
	if deal == Number {
		for m := range p.Jobs {
			part := int(uint64(p.Jobs[m].ID) % uint64(parts))
			all[part] = append(all[part], m)
		}
	} else {
		for i, m := range alike(p) {
			all[i%parts] = append(all[i%parts], m)
		}
		for _, jobs := range all {
			slices.Sort(jobs) // in order of arrival
		}
	}
	of := all[:0]
	for _, jobs := range all {
		if len(jobs) > 0 || parts == 1 {
			of = append(of, jobs)
		}
	}
	split := make([]gavel.Problem, len(of))
	for i, jobs := range of {
		split[i] = *p
		split[i].Pairs = nil
		split[i].Capacity, split[i].Jobs = make([]float64, len(p.Capacity)), make([]gavel.Job, len(jobs))
		for k, m := range jobs {
			split[i].Jobs[k] = p.Jobs[m]
		}
	}
	if deal == Alike {
		for i := range split {
			for t, w := range p.Capacity {
				split[i].Capacity[t] = w * float64(len(of[i])) / float64(max(1, len(p.Jobs)))
			}
		}
		return split, of
	}
	next := 0 // part that gets the next GPU that is left over
	for t, w := range p.Capacity {
		whole := int(w) / len(split)
		for i := range split {
			split[i].Capacity[t] = float64(whole)
		}
		for range int(w) % len(split) {
			split[next%len(split)].Capacity[t]++
			next++
		}
		split[next%len(split)].Capacity[t] += w - float64(int(w)) // a part of a GPU
	}
	return split, of
}

// alike lists the indices of the jobs in an order in which like jobs are next
// to each other. They are ordered by entity, size, weight and the type on which
// a job gains most, and then by how much it gains, and beside which job.
func alike(p *gavel.Problem) []int {
	type kind struct {
		best int     // type
		gain float64 // its speed over that of the proportional share
	}
	order, kinds := make([]int, len(p.Jobs)), make([]kind, len(p.Jobs))
	for m := range p.Jobs {
		order[m] = m
		j := &p.Jobs[m]
		for t, s := range j.Speed {
			if s > j.Speed[kinds[m].best] {
				kinds[m].best = t
			}
		}
		if equal := p.Equal(j); equal > 0 {
			kinds[m].gain = j.Speed[kinds[m].best] / equal
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &p.Jobs[a], &p.Jobs[b]
		return cmp.Or(cmp.Compare(x.Entity, y.Entity), cmp.Compare(y.Size, x.Size), cmp.Compare(x.Weight, y.Weight),
			cmp.Compare(kinds[a].best, kinds[b].best), cmp.Compare(kinds[a].gain, kinds[b].gain), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.ID, y.ID))
	})
	return order
}

// fit tells whether every job that can run in the whole can run in its part.
func fit(p *gavel.Problem, split []gavel.Problem, of [][]int) bool {
	for i := range split {
		for _, m := range of[i] {
			if able(p, &p.Jobs[m]) && !able(&split[i], &p.Jobs[m]) {
				return false
			}
		}
	}
	return true
}

func able(p *gavel.Problem, j *gavel.Job) bool {
	for t, s := range j.Speed {
		if s > 0 && j.Size <= p.Capacity[t] {
			return true
		}
	}
	return false
}
