// Package astraea divides GPU-time fairly in the long run, between tenants and
// between the jobs of each: the poorest tenant is served first, and of hers the
// poorest job.
//
// Nouns: the fair time of a job or a tenant is the GPU-time that a division by
// weight would have given it so far. Its rho is the GPU-time that it had
// divided by its fair time. A term is the time for which a job keeps its GPUs.
//
// Source: Ye, Sun, Gao, Hu, Wang, Wen, Zhang, "ASTRAEA: A Fair Deep Learning
// Scheduler for Multi-Tenant GPU Clusters", IEEE TPDS 33(11), 2022.
package astraea

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/lease"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// Config is the settings of the policy.
type Config struct {
	Term     time.Duration
	NewFirst bool
	Place    place.Strategy
}

// NewConfig returns the defaults: those of the evaluation of the paper.
func NewConfig() *Config {
	return &Config{Term: 15 * time.Minute, NewFirst: true, Place: place.Consolidated}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("term", &c.Term, "how long a job keeps its GPUs before they are given out anew (lease)"),
		param.Bool("new", &c.NewFirst, "jobs that have never run go before the others of their tenant"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Tenants), "it is fair between jobs alone")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Term <= 0 {
		return nil, errors.New("term must be above 0")
	}
	return &policy{cfg: *c, terms: lease.Terms{Length: c.Term, Place: c.Place}}, nil
}

type policy struct {
	cfg   Config
	terms lease.Terms
	books books
	turns []turn
	left  []turn        // a copy of those, as a pass uses them up
	wake  time.Duration // when another job of a tenant becomes the poorest
}

// Decide implements sched.Policy.
func (a *policy) Decide(v *sched.View, p *sched.Plan) {
	a.books.follow(v)
	a.turns = a.turns[:0]
	a.terms.Decide(v, p, a.serve)
	a.wake = a.overtaken(v, p)
}

// NextWake implements sched.Waker.
func (a *policy) NextWake(v *sched.View) time.Duration { return min(a.wake, a.terms.NextWake(v)) }

// Why implements sched.Explainer.
func (a *policy) Why(*sched.View, job.ID) job.Reason {
	return job.Reason{Code: job.Outranked, Job: job.None}
}

// turn is a tenant in a pass.
type turn struct {
	tenant    tenant.ID
	had, fair float64     // GPU-seconds
	jobs      []candidate // in the order in which they are served
}

// candidate is a job in a pass.
type candidate struct {
	job    sched.Job
	demand float64 // GPUs
	rho    float64
}

// serve is one pass.
func (a *policy) serve(s *lease.Pass) {
	a.gather(s)
	a.left = append(a.left[:0], a.turns...)
	phases(a.left, a.cfg.Term.Seconds(), func(c *candidate) bool { return s.Serve(c.job) })
}

// phases serves in two phases, again and again: the poorest tenant, and of hers
// the poorest job. The GPU-time of a term counts as if it had been used up
// already. A tenant whose choice does not fit is out of this pass, so that her
// small jobs do not take from the large one what it waits for.
func phases(turns []turn, term float64, take func(*candidate) bool) {
	for len(turns) > 0 {
		at := 0
		for i := range turns {
			if x, least := &turns[i], &turns[at]; ratio(x.had, x.fair) < ratio(least.had, least.fair) {
				at = i
			}
		}
		t := &turns[at]
		next := &t.jobs[0]
		t.jobs = t.jobs[1:]
		if take(next) {
			t.had += next.demand * term
			if len(t.jobs) > 0 {
				continue
			}
		}
		turns = slices.Delete(turns, at, at+1)
	}
}

// gather makes the turns of the tenants who have candidates, by number.
func (a *policy) gather(s *lease.Pass) {
	for _, j := range s.Candidates {
		i, found := slices.BinarySearchFunc(a.turns, j.Tenant(), func(t turn, id tenant.ID) int { return cmp.Compare(t.tenant, id) })
		if !found {
			had, fair := a.books.tenant(s.View, j.Tenant())
			a.turns = slices.Insert(a.turns, i, turn{tenant: j.Tenant(), had: had, fair: fair})
		}
		a.turns[i].jobs = append(a.turns[i].jobs, candidate{j, a.books.jobs[j.ID].demand, a.books.job(j, s.View.Now)})
	}
	for i := range a.turns {
		slices.SortFunc(a.turns[i].jobs, a.order)
	}
}

// overtaken is the first moment at which a job that waits and fits becomes poorer
// than the one of its tenant that goes first and does not: then it can start,
// though nothing has happened.
func (a *policy) overtaken(v *sched.View, p *sched.Plan) time.Duration {
	wake := unit.Never
	if v.Free() == 0 {
		return wake
	}
	for i := range a.turns {
		first := -1
		for k, c := range a.turns[i].jobs {
			if p.Alloc(c.job.ID) != nil {
				continue
			}
			if first < 0 {
				first = k
				continue
			}
			at := a.poorer(v.Now, a.turns[i].jobs[first].job, c.job)
			if at >= wake {
				continue
			}
			if _, fits := p.Fits(c.job.ID, a.cfg.Place); fits {
				wake = at
			}
		}
	}
	return wake
}

// poorer is when a job that waits becomes poorer than another that does, and is
// not yet; never where new jobs go first and only the other is one.
func (a *policy) poorer(now time.Duration, than, j sched.Job) time.Duration {
	_, ran := j.FirstStart()
	if _, both := than.FirstStart(); a.cfg.NewFirst && ran != both {
		return unit.Never
	}
	// Both have had what they have had, and their fair times grow.
	x, y := j.Service(), than.Service()
	gain := x*a.books.rate(than.Tenant(), than.ID) - y*a.books.rate(j.Tenant(), j.ID)
	behind := y*a.books.fair(j, now) - x*a.books.fair(than, now)
	if gain >= 0 || behind/gain > horizon {
		return unit.Never
	}
	in := time.Duration(math.Ceil(behind / gain * float64(time.Second)))
	return unit.Later(now, max(in, least))
}

// horizon is how many seconds ahead it is worth looking: some thirty years.
const horizon = 1e9

// least is how far apart two looks at an order are at least, for what rounding does.
const least = time.Millisecond

// order is the order of the jobs of a tenant: the poorest first, ties by number.
func (a *policy) order(x, y candidate) int {
	if a.cfg.NewFirst {
		if _, ran := x.job.FirstStart(); ran {
			if _, ran := y.job.FirstStart(); !ran {
				return 1
			}
		} else if _, ran := y.job.FirstStart(); ran {
			return -1
		}
	}
	if c := cmp.Compare(x.rho, y.rho); c != 0 {
		return c
	}
	return cmp.Compare(x.job.ID, y.job.ID)
}
