// Package gen makes synthetic traces that resemble published job logs, of any
// length, at any load, from a seed.
//
// Nouns:
//   - A Like is the log that is imitated.
//   - A template is what one user runs again and again: a name, a gang size, a
//     typical run time.
//   - A session is a row of jobs from one template, submitted shortly after
//     each other.
//   - A cell is the jobs of one range of gang sizes that pass or fail, at once
//     or after retries, with the quantiles of their run times.
//
// # How a job comes about
//
// Sessions start as a Poisson process whose rate follows the hours of the day
// and the days of the week of the log. A session draws a gang size, and then a
// level v, uniformly between 0 and 1. The templates of a gang size divide that
// interval among themselves, so v names the template, and through it the user
// and the tenant. Each job of the session draws a cell, and its run time is a
// quantile of that cell at a level that is correlated with v. Because v is
// uniform, the run times of all jobs have exactly the distribution of the cell,
// while those of one template are alike: a predictor that learns from names and
// users finds something to learn.
//
// A generator is a trace.Source. It holds its users and templates, and nothing
// that grows with the number of jobs.
//
// Units: submissions in whole seconds since the first one; run times in whole
// seconds of the requested size; load is GPUs demanded on average over GPUs
// present.
//
// Sources: the tables are counted by internal/calibrate in the logs that
// package internal/logs names. docs/generators.md holds what is generated
// against what is real.
package gen

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/trace"
)

// Options says what trace is wanted. The zero value of every field but Jobs and
// Span has a meaning.
type Options struct {
	Like Like   // the log to imitate
	Jobs int    // number of jobs; 0: as many as are submitted within Span
	Seed uint64 // equal seeds give equal traces

	// GPUs is the size of the cluster that the trace is meant for; 0: that of
	// the log. Load is the mean number of GPUs demanded over GPUs; 0: as in the
	// log. The rate of submission is set to meet it.
	GPUs int
	Load float64

	// Span is the time from the first to the last submission. With Jobs it sets
	// the rate of submission instead of Load, and is met on average.
	Span time.Duration

	MaxGPUs int           // larger jobs are left out; 0: those larger than GPUs
	MaxRun  time.Duration // longer jobs are left out; 0: none
	Tenants int           // number of tenants; 0: as in the log
}

func (o *Options) check() error {
	switch {
	case o.Like >= likes:
		return fmt.Errorf("generator: unknown log %d", o.Like)
	case o.Jobs < 0 || o.GPUs < 0 || o.MaxGPUs < 0 || o.Tenants < 0 || o.Span < 0 || o.MaxRun < 0:
		return fmt.Errorf("generator: a number or duration is negative")
	case o.Jobs == 0 && o.Span == 0:
		return fmt.Errorf("generator: say how many jobs are wanted, or over what span")
	case !(o.Load >= 0 && o.Load <= 1000):
		return fmt.Errorf("generator: a load of %v: write a number above 0, such as 0.9", o.Load)
	case o.Load > 0 && o.Jobs > 0 && o.Span > 0:
		return fmt.Errorf("generator: jobs, span and load together contradict each other; leave one out")
	case o.GPUs > maxGPUs:
		return fmt.Errorf("generator: a cluster of %d GPUs; at most %d are allowed", o.GPUs, maxGPUs)
	case o.Tenants > maxTenants:
		return fmt.Errorf("generator: %d tenants; at most %d are made", o.Tenants, maxTenants)
	case o.Jobs > maxJobs:
		return fmt.Errorf("generator: %d jobs; at most %d are made", o.Jobs, maxJobs)
	}
	return nil
}

const (
	maxGPUs    = 100_000_000
	maxTenants = 10_000
	maxJobs    = 1 << 30
	// longest is the longest span that is made on average; a duration holds
	// more than ten times that.
	longest = 25 * 365 * 24 * time.Hour
)

// Generator is a stream of synthetic jobs. It implements trace.Source.
type Generator struct {
	jobs   int
	span   time.Duration
	rng    *rand.Rand
	from   *profile
	shapes []shape
	work   float64 // GPU-seconds of a job, on average
	rate   float64 // jobs a second, on average

	clock  clock
	active []session
	unused []int32    // slots of active
	next   dense.Heap // slot of active -> time of its next job, nanoseconds
	start  float64    // when the next session starts, seconds
	origin float64    // of the first submission, seconds
	made   int
	fresh  int // names made that no template has

	keys  keys
	parts []time.Duration // attempts are cut from it
}

// New makes a generator. It fails on options that contradict each other, or
// that leave no job.
func New(o Options) (*Generator, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := profiles[o.Like]
	gpus := float64(o.GPUs)
	if o.GPUs == 0 {
		gpus = p.gpus
	}
	most := o.MaxGPUs
	if most == 0 {
		most = int(gpus)
	}
	g := &Generator{jobs: o.Jobs, span: o.Span, from: p, rng: rand.New(rand.NewPCG(o.Seed, 0x67656e))}
	if err := g.cut(most, o.MaxRun); err != nil {
		return nil, err
	}
	g.populate(o.Tenants, gpus)
	g.rate = p.load() * gpus / g.work
	switch {
	case o.Load > 0:
		g.rate = o.Load * gpus / g.work
	case o.Jobs > 0 && o.Span > 0:
		g.rate = float64(o.Jobs) / o.Span.Seconds()
	}
	if float64(o.Jobs)/g.rate > longest.Seconds() || o.Span > longest {
		return nil, fmt.Errorf("generator: %d jobs would be submitted over more than %s; ask for fewer jobs, more load or more GPUs", o.Jobs, unit.Human(longest))
	}
	g.clock = newClock(p.hours, p.days, g.rate/p.sessions.length)
	g.start = g.clock.next(g.rng)
	g.origin = g.start
	return g, nil
}

// Rate is the mean number of jobs submitted in a second.
func (g *Generator) Rate() float64 { return g.rate }

// Work is the mean GPU-seconds that a job demands, all attempts included.
func (g *Generator) Work() float64 { return g.work }

// Next implements trace.Source.
func (g *Generator) Next(e *trace.Entry) error {
	if g.jobs > 0 && g.made == g.jobs {
		return io.EOF
	}
	for {
		if g.next.Len() > 0 {
			if slot, at := g.next.Min(); float64(at) <= (g.start-g.origin)*1e9 {
				return g.emit(e, slot, time.Duration(at))
			}
		}
		g.open()
	}
}

// open starts the next session.
func (g *Generator) open() {
	if len(g.unused) == 0 {
		g.unused = append(g.unused, int32(len(g.active)))
		g.active = append(g.active, session{})
	}
	slot := g.unused[len(g.unused)-1]
	g.unused = g.unused[:len(g.unused)-1]
	g.active[slot] = g.newSession()
	g.next.Set(slot, int64(min((g.start-g.origin)*1e9, math.MaxInt64/2)))
	g.start = g.clock.next(g.rng)
}

// emit makes the next job of a session.
func (g *Generator) emit(e *trace.Entry, slot int32, at time.Duration) error {
	if g.jobs == 0 && at > g.span {
		return io.EOF
	}
	s := &g.active[slot]
	g.fill(e, s, at.Truncate(time.Second))
	if s.left--; s.left > 0 {
		g.next.Set(slot, int64(at)+int64(g.gap()*1e9))
	} else {
		g.next.Remove(slot)
		g.unused = append(g.unused, slot)
	}
	g.made++
	return nil
}

// gap is the time between two jobs of a session, seconds.
func (g *Generator) gap() float64 { return between(g.from.sessions.gaps[:], g.rng.Float64()) }

// load is the load of the log's own cluster.
func (p *profile) load() float64 {
	all := Generator{from: p}
	if err := all.cut(1<<30, 0); err != nil {
		return 0 // cannot be: nothing is left out
	}
	return p.perDay / 86400 * all.work / p.gpus
}
