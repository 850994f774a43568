// Package gandiva lets gangs take turns on servers, so that nobody waits long
// for a first turn, and tries while jobs run what serves them better: packing
// two on a GPU, moving them together, emptying servers, growing into idle GPUs.
// It judges its trials by measured rates, and reverses those that did not help.
//
// Nouns:
//   - A server is a node, or several whole nodes that a larger gang has. Jobs
//     live on a server, also while other jobs have its GPUs.
//   - The load of a server is the number of GPUs that the jobs living there ask
//     for. Its height is load/GPUs rounded up.
//   - Where the height is above 1, jobs take turns, a quantum each.
//   - The affinity of a server is the size of the jobs for which it is.
//   - A group is a job, or a packed pair, that takes turns as one.
//   - The rate of a job is its measured speed.
//
// All that is remembered is noted on the jobs (note), so that every decision is a
// function of the view.
//
// Source: Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning",
// OSDI 2018, as later papers tell of it: no text or code of its authors was at hand.
package gandiva

import (
	"errors"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// Config is the settings of the policy.
type Config struct {
	Quantum  time.Duration
	Every    time.Duration // introspection
	Measure  time.Duration
	Pack     bool
	Locality bool
	Defrag   float64 // part of a server that must be idle for it to be emptied; above 1: never
	Grow     bool
	Spread   bool
	Weights  bool
	Patience time.Duration // without a server
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Quantum: time.Minute, Every: time.Minute, Measure: time.Minute, Pack: true, Locality: true, Defrag: 0.75, Grow: true, Spread: true, Patience: 10 * time.Minute}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("quantum", &c.Quantum, "how long a turn lasts"),
		param.Duration("interval", &c.Every, "how often it looks for something better to do with running jobs"),
		param.Duration("measure", &c.Measure, "how long two jobs are packed, or one has grown, before rates are compared"),
		param.Bool("pack", &c.Pack, "where jobs take turns, try two on a GPU"),
		param.Bool("locality", &c.Locality, "bring gangs together that were spread"),
		param.Float("defrag", &c.Defrag, 0, 2, "share", "idle part from which on a server is emptied, if others can take its jobs; above 1 none is"),
		param.Bool("grow", &c.Grow, "elastic jobs take idle GPUs of their server"),
		param.Bool("spread", &c.Spread, "a gang takes idle GPUs of several servers before it takes turns; otherwise only one that no server could hold"),
		param.Bool("weights", &c.Weights, "a job of priority k has k+1 quanta a turn"),
		param.Duration("patience", &c.Patience, "how long a job waits that finds no server, before it takes turns with jobs of other sizes, or they make way"),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(c.Pack, need.Of(need.Use), "it acts as gandiva(pack=false)").
		If(c.Grow, need.Of(need.Elastic), "it acts as gandiva(grow=false)").
		If(c.Locality, need.Of(need.Spread), "a gang gains nothing by being brought together").
		If(c.Weights, need.Of(need.Priorities), "it acts as gandiva(weights=false)")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case c.Quantum <= 0:
		return nil, errors.New("quantum must be above 0s")
	case c.Every <= 0:
		return nil, errors.New("interval must be above 0s")
	case c.Measure < c.Quantum:
		return nil, errors.New("measure must not be below the quantum")
	}
	return &policy{cfg: *c, refused: map[int32]job.Reason{}, crowded: map[int32]bool{}, full: map[int32]bool{}}, nil
}

type policy struct {
	cfg    Config
	active dense.Set

	v *sched.View // of this decision, as all below
	p *sched.Plan

	members []member  // by job number
	place   []int32   // by job: its place in members + 1
	servers []*server // in order of their first nodes
	at      []*server // by node
	groups  []*group
	made    made
	spread  []*member            // running gangs that lie on parts of several nodes
	others  []*member            // waiting jobs that cannot take turns
	queue   []*member            // waiting jobs that live nowhere
	stopped []*member            // of a step: jobs whose attempts have failed, and which wait where they live
	refused map[int32]job.Reason // classes of jobs that find no server, and why
	crowded map[int32]bool       // classes of jobs that would have to take turns
	wanted  bool                 // a job that could run here has found no GPUs, and no server
	serves  []int8               // by class of jobs: 1 when any node is a server for them, -1 when none is, 0 not known
	exact   exactly
	texts   map[cluster.NodeID]string
	nodes   []cluster.NodeID // scratch of findSets
	high    []*server        // scratch of relieve
	list    []*group         // too
	full    map[int32]bool   // too: classes of jobs that find no other server
	wake    time.Duration
	again   bool // it has more to decide as soon as this has been done
	resting bool // see rests
	mixed   bool // at rest, there are pairs, or gangs on parts of several nodes
	placed  int  // of View.Placed, those that were looked at
	quiet   bool // the last decision left everything as it is, and so will the next one if nothing happens
}

// Decide implements sched.Policy.
func (g *policy) Decide(v *sched.View, p *sched.Plan) {
	g.v, g.p = v, p
	if g.quiet && !v.First && !v.NodesChanged() && len(v.Changes()) == 0 {
		g.wake = g.nextLook()
		return
	}
	if (steps{g}).step() {
		g.quiet = false
		return
	}
	g.follow()
	g.survey()
	g.judge()
	due := g.due()
	if due && g.cfg.Pack {
		g.pack()
	}
	g.rotate()
	g.serveOthers()
	g.unassign()
	g.housing()
	g.relieve()
	g.makeWay()
	g.fill()
	if due {
		g.tidy()
	}
	g.explain()
	g.wake = g.nextMoment()
	g.quiet = due && g.nothingToDo()
	g.resting = steps{g}.rests()
	g.remember()
	g.v, g.p = nil, nil
}

// NextWake implements sched.Waker.
func (g *policy) NextWake(*sched.View) time.Duration { return g.wake }

// follow keeps account of who is active.
func (g *policy) follow() {
	g.placed = len(g.v.Placed())
	if g.v.First { // those that are just leaving their devices are not among the changes
		g.active.Clear()
		for id := range job.ID(g.v.Jobs()) {
			if j := g.v.Job(id); g.v.Covers(j) && !j.Phase().Over() {
				g.active.Add(int(id))
			}
		}
	}
	for _, ch := range g.v.Changes() {
		if ch.Kind == sched.Ended {
			g.active.Remove(int(ch.Job))
		} else {
			g.active.Add(int(ch.Job))
		}
	}
}

// tidy is what is done once in a while, beside packing, with running jobs.
func (g *policy) tidy() {
	if g.cfg.Locality {
		g.together()
	}
	if !g.wanted { // otherwise idle GPUs are kept for who needs more of them
		g.unpack()
	}
	g.defragment()
	if g.cfg.Grow && g.calm() {
		g.grow()
	}
}

// nextMoment is when it wants to be asked again: at the end of a turn, when a pair
// has been measured, or to look for something better.
func (g *policy) nextMoment() time.Duration {
	at := unit.Never
	if g.again {
		at = g.v.Now + 1
	}
	busy := false
	for i := 0; i < len(g.members) && !busy; i++ {
		busy = g.p.Alloc(g.members[i].j.ID) != nil
	}
	if busy && g.cfg.Every < unit.Never { // otherwise nothing will change by itself
		at = min(at, g.nextLook())
	}
	for _, k := range g.groups {
		switch {
		case k.trial:
			at = min(at, soon(g.v.Now, k.judgedAt(g.cfg.Measure)))
		case k.runs && k.home.waits && k.lead.j.Waiting(): // it begins now
			at = min(at, soon(g.v.Now, g.turnEndsFrom(g.v.Now, k)))
		case k.runs && k.home.waits:
			at = min(at, soon(g.v.Now, g.turnEnds(k)))
		}
	}
	return at
}

// due tells whether this is a moment at which it looks for something better.
func (g *policy) due() bool { return g.v.Now%g.cfg.Every == 0 }

// nextLook is when it looks for something better again.
func (g *policy) nextLook() time.Duration { return beside.Next(g.v.Now, g.cfg.Every) }

// nothingToDo tells whether a decision that looked for everything has found nothing,
// and nothing of what it goes by changes with time alone: all jobs run, alone on their
// GPUs and past their starts, and none was touched.
func (g *policy) nothingToDo() bool {
	if len(g.members) == 0 || len(g.members) < g.active.Len() || g.cfg.Every >= unit.Never || len(g.p.Waits()) > 0 {
		return false
	}
	for i := range g.members {
		m := &g.members[i]
		unjudged := m.grown() && m.group != nil && m.group.judgedAt(g.cfg.Measure) > g.v.Now
		if m.changed || m.note.link == trying || m.note.link == paired || unjudged || !g.settled(m) {
			return false
		}
	}
	return true
}

// soon is a moment, or the next one if it has come.
func soon(now, at time.Duration) time.Duration { return max(at, now+1) }

// plain tells whether a job can take turns: a gang of tasks of one whole GPU each
// that keeps its work when it leaves.
func plain(j sched.Job) bool {
	d := j.Spec().Demand
	keeps := j.Spec().Stop == job.Checkpoint || j.Spec().Stop == job.Freeze
	return keeps && d.Roles[0].GPU == unit.One && d.Roles[1].Tasks == 0 && d.Within == ""
}

// frozen tells whether a job has left its state in the memory of its devices.
func (g *policy) frozen(m *member) bool { return g.v.PinnedPlace(m.j.ID) != nil }

// exactly is the strategy that takes what was chosen.
type exactly struct{ alloc cluster.Alloc }

// Place implements place.Strategy.
func (e *exactly) Place(r *place.Request) (job.Reason, bool) {
	r.Out.CopyFrom(&e.alloc)
	return job.Reason{}, true
}

func (e *exactly) String() string { return "exactly" }
