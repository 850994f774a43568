// Package gimbal packs gangs of unlike sizes onto each other's GPUs, at most
// two workers on each. It calibrates worker by worker how much of its GPU each
// may use, so no worker computes faster than the slowest of its gang lets it.
// The packed gangs together come closest to what the cluster wants: short
// completion times, fairness, an early end of all, or deadlines.
//
// Nouns:
//   - A worker is a task of a gang on its GPU.
//   - Its part is what it may use of the GPU (Share.Milli), none when it is
//     paused (Throttle 1000).
//   - When it yields, it computes only while its partner does not (Milli 0,
//     Throttle 0).
//   - The rate of a worker is its speed there divided by its speed alone. The
//     rate of a gang is the least of its workers'.
//   - The worth of a gang is the weight of a rate of 1 of it.
//
// Source: "Taming Flexible Job Packing in Deep Learning Training Clusters", ACM TACO
// 2025, of which the abstract was at hand. Everything beyond its structure (calibration
// between scheduler and hardware, by worker; objectives of the scheduler above) is a
// design of ours.
package gimbal

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Objective is what calibration aims at: what a gang is worth.
type Objective uint8

// The objectives.
const (
	JCT      Objective = iota // one over the work that it has left
	Fairness                  // one over the part of what it asked for that it has had
	Makespan                  // the work that it has left
	Deadline                  // one over the time that it has to spare
)

// Order is who is served first.
type Order uint8

// The orders.
const (
	FIFO     Order = iota
	Shortest       // least work left first
	Attained       // least service had first
)

// Packing is whom a gang may share GPUs with.
type Packing uint8

// The ways to pack.
const (
	Flexible Packing = iota // any
	Equal                   // one gang of as many workers, on all of its GPUs, where both hardly keep them busy [Lucid's rule]
	Off
)

// Config is the settings of the policy.
type Config struct {
	Order     Order
	Objective Objective
	Packing   Packing
	Calibrate bool
	Protect   bool

	Period    time.Duration // after a change, until the next look
	Step      int           // of parts, in thousandths
	Slack     float64       // that a protected gang may lose
	Straggler float64       // ratio of the slowest to the median step time of a gang
	Gain      float64       // of the worth of all that a packing must bring
	Faster    float64       // by which a swap must make a gang faster
	Rest      time.Duration // between swaps of a gang
	Patience  time.Duration // that a worker is kept paused before its gang leaves
	Memory    float64       // of a GPU that may be booked where it is shared
	Tries     int           // gangs from the head of the queue that look for partners
	Place     place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{
		Order: Shortest, Calibrate: true, Period: 5 * time.Second, Step: 100, Slack: 0.05, Straggler: 1.15, Gain: 0.05, Faster: 0.05,
		Rest: time.Minute, Patience: 30 * time.Second, Memory: 0.95, Tries: 16, Place: place.Consolidated,
	}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("order", &c.Order, []param.Option[Order]{{Name: "fifo", Value: FIFO}, {Name: "sjf", Value: Shortest}, {Name: "las", Value: Attained}},
			"who is served first: who came first, who has the least work left, or who has had the least service"),
		param.Choice("objective", &c.Objective, []param.Option[Objective]{{Name: "jct", Value: JCT}, {Name: "fairness", Value: Fairness}, {Name: "makespan", Value: Makespan}, {Name: "deadline", Value: Deadline}},
			"what packing and calibration aim at"),
		param.Choice("pack", &c.Packing, []param.Option[Packing]{{Name: "flexible", Value: Flexible}, {Name: "equal", Value: Equal}, {Name: "off", Value: Off}},
			"who shares GPUs: any gangs, two of equal size that hardly keep them busy (Lucid's rule), or nobody"),
		param.Bool("calibrate", &c.Calibrate, "change parts worker by worker; otherwise both have half"),
		param.Bool("protect", &c.Protect, "a job that had its GPUs for itself before others came keeps its speed, but for slack"),
		param.Duration("period", &c.Period, "after a change until packed gangs are looked at again"),
		param.Int("step", &c.Step, 1, 500, "thousandths", "of a GPU in which parts change"),
		param.Float("slack", &c.Slack, 0, 1, "share", "of its speed that a protected gang may lose"),
		param.Float("straggler", &c.Straggler, 1, 1000, "ratio", "of the slowest to the median step time of the workers of a gang from which on one is swapped"),
		param.Float("gain", &c.Gain, 0, 10, "share", "by which sharing must raise the worth of all that is done on the GPUs"),
		param.Float("faster", &c.Faster, 0, 10, "share", "by which a swap must shorten the steps of a gang"),
		param.Duration("rest", &c.Rest, "between swaps of a gang"),
		param.Duration("patience", &c.Patience, "for which a worker stays paused before its gang has to leave"),
		param.Float("memory", &c.Memory, 0, 1, "share", "of the memory of a GPU that those who share it may book"),
		param.Int("tries", &c.Tries, 0, 1_000_000, "gangs", "from the head of the queue that look for partners in one decision"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	timed := c.Order == Shortest || c.Packing != Off && c.Objective != Fairness
	return need.List(nil).
		If(timed, need.Of(need.RunTimes), "a job is taken to have as much left as it has run, and a day at first").
		If(c.Packing != Off, need.Of(need.Use, need.Stages, need.Pairs), "every job is taken to keep its GPUs busy all of the time").
		If(c.Packing != Off && c.Objective == Deadline, need.Of(need.Deadlines), "all jobs are worth the same to it")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Period <= 0 {
		return nil, errors.New("period must be above 0s")
	}
	return &policy{cfg: *c}, nil
}

// policy keeps nothing between decisions: what it must remember stands on the jobs.
type policy struct {
	cfg    Config
	stands map[stand]job.ID // see on
	queue  []waiting
	wake   time.Duration
	why    map[job.ID]job.Reason
	hosts  []host // by job, see host
	looks  int    // how often a gang has looked for places
	sorts  beside.Sorts
	rates  beside.Known[float64] // of a gang that looks for places, beside gangs of each sort
	alloc  cluster.Alloc

	benches benches // where workers could sit
}

type waiting struct {
	id  job.ID
	key float64
}

// Decide implements sched.Policy.
func (g *policy) Decide(v *sched.View, p *sched.Plan) {
	g.wake, g.stands = unit.Never, map[stand]job.ID{}
	g.hosts = append(g.hosts, make([]host, max(0, v.Jobs()-len(g.hosts)))...)
	for j := range v.Running() {
		h := &g.hosts[j.ID]
		if h.packable, h.memory = packable(j), perf.MemoryOf(j.Spec()); h.packable {
			beside.Restore(p, j.ID)
		}
	}
	if g.cfg.Calibrate {
		g.calibrate(v, p)
		g.paused(v, p)
	}
	g.line(v, p)
	if g.why == nil {
		g.why = map[job.ID]job.Reason{}
	}
	clear(g.why)
	tries, left := g.cfg.Tries, false
	g.benches.forget(v.Cluster())
	for _, w := range g.queue {
		if p.Start(w.id, g.cfg.Place) {
			g.benches.changed(p.Alloc(w.id))
			continue
		}
		left = true
		if j := v.Job(w.id); tries > 0 && g.cfg.Packing != Off && g.packs(v, p, j) {
			tries--
			why := g.pack(v, p, j)
			if why.Code == job.NoReason {
				g.benches.changed(p.Alloc(w.id))
				continue
			}
			g.why[w.id] = why
			p.Wait(w.id, why)
		}
	}
	if left && g.cfg.Packing != Off && p.Fresh() {
		g.look(v)
	}
}

// NextWake implements sched.Waker: packed gangs are looked at again while something moves,
// and a worker has been paused for long enough.
func (g *policy) NextWake(*sched.View) time.Duration { return g.wake }

// Why implements sched.Explainer.
func (g *policy) Why(v *sched.View, id job.ID) job.Reason {
	if why, ok := g.why[id]; ok {
		return why
	}
	return beside.NeedsGPUs(v, v.Job(id))
}

// packable tells whether a job is a gang that can share: tasks of one whole GPU each, in
// one role, that do not leave their memory behind, and have not run out of it.
func packable(j sched.Job) bool {
	n, _ := sched.Recall[note](j)
	return beside.Plain(j) && j.Spec().Stop != job.Freeze && !n.evicted
}

// soon is when a gang that had to leave looks for partners again, if it need not rest.
const soon = 100 * time.Millisecond

// packs tells whether a gang that waits may look for partners: not when memory has just
// run out, nor soon after it had to leave others.
func (g *policy) packs(v *sched.View, p *sched.Plan, j sched.Job) bool {
	if n, _ := sched.Noted[note](p, j); n.rests(v.Now, g.cfg.Rest) {
		g.until(later(n.swapped, max(g.cfg.Rest, soon)))
		return false
	}
	return packable(j) && !j.OutOfMemory()
}

// later is d after t, or never.
func later(t, d time.Duration) time.Duration {
	if d >= unit.Never-t {
		return unit.Never
	}
	return t + d
}

// line puts those who wait in order.
func (g *policy) line(v *sched.View, p *sched.Plan) {
	g.queue = g.queue[:0]
	for j := range v.Waiting() {
		if why := p.Never(j.ID, g.cfg.Place); why.Code != job.NoReason {
			p.Wait(j.ID, why)
			continue
		}
		if n, _ := sched.Recall[note](j); j.OutOfMemory() && !n.evicted {
			n = nothing()
			n.evicted = true
			p.Remember(j.ID, &n) // which this decision does not see yet
		}
		w := waiting{id: j.ID}
		switch g.cfg.Order {
		case Shortest:
			w.key = seconds(j)
		case Attained:
			w.key = j.Service()
		}
		g.queue = append(g.queue, w)
	}
	slices.SortStableFunc(g.queue, func(a, b waiting) int { return cmp.Compare(a.key, b.key) })
}

// seconds is what a job has left to do; one that does not tell is taken to have as much
// left as it has run, and a day if it never has.
func seconds(j sched.Job) float64 {
	if d, known := j.Remaining(); known {
		return max(1, d.Seconds())
	}
	if r := j.RunTime().Seconds(); r > 0 {
		return max(1, r)
	}
	return 24 * 3600
}

// worth is by how much the rate of a gang counts.
func (g *policy) worth(v *sched.View, j sched.Job) float64 {
	switch g.cfg.Objective {
	case Fairness:
		had := j.Service() / (float64(max(1, j.GPUs())) * max(1, (v.Now-j.Submit()).Seconds()))
		return 1 / max(0.01, had)
	case Makespan:
		return seconds(j)
	case Deadline:
		if by := j.Spec().Deadline; by > 0 {
			return 1 / max(60, (by-v.Now).Seconds()-seconds(j))
		}
		return 1 / (365 * 24 * 3600.0)
	}
	return 1 / seconds(j)
}
