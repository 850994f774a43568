// Package afs shares GPUs among elastic jobs for the least mean completion time
// in the long run: "apathetic future share", AFS-L where it is believed to be
// known how long jobs are and AFS-P where it is not.
//
// Nouns: a Claim is a job that wants GPUs, with its speed at each size; its length
// is how long it would take with the GPUs it has. Speeds are those that the
// scheduler believes in (sched.View.TypeSpeed), work is seconds at speed 1. A unit
// is the time for which a job keeps its place under AFS-P where there are more
// jobs than GPUs.
//
// Source: Hwang, Kim, Kim, Shin, Park, "Elastic Resource Sharing for Distributed
// Deep Learning", NSDI 2021.
package afs

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of the policy.
type Config struct {
	Blind    bool
	Unit     time.Duration
	Regulate bool
	Place    place.Strategy
}

// NewConfig returns the defaults: those of the paper.
func NewConfig() *Config {
	return &Config{Unit: 2 * time.Hour, Regulate: true, Place: place.Pack}
}

// NewBlind returns the defaults of AFS-P.
func NewBlind() *Config {
	c := NewConfig()
	c.Blind = true
	return c
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	set := param.Set{
		param.Bool("regulate", &c.Regulate, "sizes are powers of two below a node and whole nodes above, where all nodes have the same power of two of GPUs"),
		place.Param(&c.Place),
	}
	if c.Blind {
		set = append(set, param.Duration("unit", &c.Unit, "how long a job keeps its place where there are more jobs than GPUs"))
	}
	return set
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	elastic := need.Need{Any: need.Of(need.Elastic), Without: "it acts as srtf but for the costs of transitions and the choice of GPUs", Given: need.Of(need.RunTimes)}
	if c.Blind {
		return need.List(nil).And(need.Of(need.Elastic), "jobs take turns with the numbers of GPUs that they ask for")
	}
	return need.List{elastic}.And(need.Of(need.RunTimes), "every job is taken to go on for ever")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Unit <= 0 {
		return nil, errors.New("unit must be above 0")
	}
	return &policy{cfg: *c}, nil
}

type policy struct {
	cfg     Config
	wake    time.Duration
	claims  []*claimant
	request []*Claim
	spare   []*claimant
	free    []int64
	starts  []*claimant
}

// claimant is a job and its claim.
type claimant struct {
	Claim
	id    job.ID
	least int // tasks at the first step
	runs  bool
	held  int // tasks that it runs with
}

// tasks is the number of tasks of the answer.
func (c *claimant) tasks() int {
	if c.Size == 0 {
		return 0
	}
	return c.least + c.Size - 1
}

// Decide implements sched.Policy. GPUs are divided anew where jobs came, left or
// were stopped, or a unit is over while somebody waits; at other moments what is
// free is given to those who wait.
func (a *policy) Decide(v *sched.View, p *sched.Plan) {
	a.collect(v, p)
	if a.churn(v) {
		a.divide(v)
		a.carry(v, p)
	}
	a.fill(p)
	a.wake = unit.Never
	if a.cfg.Blind {
		a.grant(v, p)
	}
}

// churn tells whether GPUs are to be divided anew. It looks at what is, not at what
// it is told, so that a policy which starts anew says the same.
func (a *policy) churn(v *sched.View) bool {
	for j := range v.Waiting() {
		if j.Since() == v.Now {
			return true
		}
	}
	ended := v.Ended()
	for i := len(ended) - 1; i >= 0 && v.Job(ended[i]).Since() == v.Now; i-- {
		if v.Covers(v.Job(ended[i])) {
			return true
		}
	}
	over, waits := false, false
	for _, c := range a.claims {
		over, waits = over || c.runs && c.Kept == 0, waits || !c.runs
	}
	return a.cfg.Blind && over && waits
}

// divide finds the size of each claim.
func (a *policy) divide(v *sched.View) {
	if a.cfg.Blind {
		// Luck is a function of the moment, so that a policy which is asked once more,
		// because it starts anew, has the same.
		DivideBlind(a.free, a.request, rand.New(rand.NewPCG(uint64(v.Now), uint64(v.Submitted()))))
	} else {
		Divide(a.free, a.request)
	}
	if a.cfg.Regulate {
		a.regulate(v)
	}
}

// fill starts those who wait, at their least sizes, where GPUs are free: those that
// nobody could use as they were meant to be, and those of nodes that came back.
func (a *policy) fill(p *sched.Plan) {
	a.starts = a.starts[:0]
	for _, c := range a.claims {
		if p.Alloc(c.id) == nil && !c.runs {
			a.starts = append(a.starts, c)
		}
	}
	slices.SortStableFunc(a.starts, func(x, y *claimant) int {
		if a.cfg.Blind {
			return cmp.Compare(x.Units, y.Units)
		}
		return cmp.Compare(x.shortest(), y.shortest())
	})
	for _, c := range a.starts {
		p.StartSize(c.id, c.least, a.cfg.Place)
	}
}

// NextWake implements sched.Waker: where jobs wait, the end of the first unit.
func (a *policy) NextWake(v *sched.View) time.Duration {
	if a.wake == unit.Never {
		return a.wake
	}
	return max(a.wake, v.Now+1)
}

// collect makes the claims and counts what they share: jobs that must not be
// stopped or resized keep what they hold.
func (a *policy) collect(v *sched.View, p *sched.Plan) {
	c := v.Cluster()
	a.free = a.free[:0]
	for t := range cluster.TypeID(c.Types()) {
		a.free = append(a.free, int64(v.TotalOf(1<<t))*int64(unit.One))
	}
	if len(a.free) == 0 {
		a.free = append(a.free, 0)
	}
	a.spare = append(a.spare, a.claims...)
	a.claims, a.request = a.claims[:0], a.request[:0]
	for j := range v.Running() {
		if rounds.Stays(v, j) {
			a.deduct(v, j)
			continue
		}
		a.claim(v, j)
	}
	for j := range v.Waiting() {
		if d := j.Spec().Demand; !d.Elastic() && p.Never(j.ID, a.cfg.Place).Code != job.NoReason {
			p.Wait(j.ID, p.Never(j.ID, a.cfg.Place))
			continue
		}
		a.claim(v, j)
	}
	slices.SortFunc(a.claims, func(x, y *claimant) int { return cmp.Compare(x.id, y.id) })
	for _, c := range a.claims {
		a.request = append(a.request, &c.Claim)
	}
}

// deduct takes what a settled job holds off what is free.
func (a *policy) deduct(v *sched.View, j sched.Job) {
	c := v.Cluster()
	for _, s := range v.Alloc(j.ID).Shares {
		if c.UsableDevice(s.Device) {
			a.free[c.TypeOf(s.Device)] -= int64(s.Milli)
		}
	}
}

// claim makes the claim of a job.
func (a *policy) claim(v *sched.View, j sched.Job) {
	var c *claimant
	if n := len(a.spare); n > 0 {
		c, a.spare = a.spare[n-1], a.spare[:n-1]
	} else {
		c = new(claimant)
	}
	d := j.Spec().Demand
	least, most := d.Roles[0].Range()
	*c = claimant{id: j.ID, least: int(least), runs: j.Running(), held: j.Tasks(), Claim: Claim{
		Left: math.Inf(1), First: int64(d.Milli(least)), Each: int64(d.Roles[0].GPU), Steps: int(most-least) + 1,
		Type: NoType, Types: c.Types[:0], speeds: c.speeds,
	}}
	if left, ok := j.Remaining(); ok {
		c.Left = left.Seconds()
	}
	v.Class(j.Class()).EachType(v.Cluster(), func(t cluster.TypeID) bool {
		c.Types = append(c.Types, int(t))
		return true
	})
	c.Speed = func(t, n int) float64 {
		if t == NoType {
			return 1 // it uses no GPUs
		}
		return v.TypeSpeed(v.Job(c.id), cluster.TypeID(t), c.least+n-1, false)
	}
	if c.runs {
		c.Type = oneType(v, j)
		c.Kept = a.left(v, j)
	}
	c.Units = int(j.RunTime() / a.cfg.Unit)
	a.claims = append(a.claims, c)
}

// oneType is the GPU type that a running job holds, NoType where it holds several.
func oneType(v *sched.View, j sched.Job) int {
	t := NoType
	for i, s := range v.Alloc(j.ID).Shares {
		if of := int(v.Cluster().TypeOf(s.Device)); i == 0 {
			t = of
		} else if of != t {
			return NoType
		}
	}
	return t
}

// regulate makes the sizes of jobs of single GPUs those that pack well, where all
// nodes are equal.
func (a *policy) regulate(v *sched.View) {
	c := v.Cluster()
	node := 0
	for n := range cluster.NodeID(c.Nodes()) {
		switch g := c.NodeGPUs(n); {
		case g == 0:
		case g&(g-1) != 0, node != 0 && g != node:
			return
		default:
			node = g
		}
	}
	for t := range a.free {
		var of []*claimant
		var shares []int
		var ranges []Range
		for _, x := range a.claims {
			if x.Type == t && x.Each == int64(unit.One) && x.First == x.Each*int64(x.least) && x.Size > 0 {
				of = append(of, x)
				shares = append(shares, x.tasks())
				ranges = append(ranges, Range{x.least, x.least + x.Steps - 1})
			}
		}
		for i, n := range Regulate(shares, ranges, node) {
			of[i].Size = n - of[i].least + 1
		}
	}
}

// carry plans the answer: who leaves, who shrinks, then, the largest first, who
// grows and who comes. A job that does not get all its GPUs takes fewer.
func (a *policy) carry(v *sched.View, p *sched.Plan) {
	a.starts = a.starts[:0]
	for _, c := range a.claims {
		if c.Size > 0 && (!c.runs || c.tasks() > c.held) {
			a.starts = append(a.starts, c)
		}
	}
	slices.SortStableFunc(a.starts, func(x, y *claimant) int { return cmp.Compare(y.tasks(), x.tasks()) })
	why := job.Reason{Code: job.MakesRoom, Job: job.None}
	if len(a.starts) > 0 {
		why.Job = a.starts[0].id
	}
	for _, c := range a.claims {
		switch {
		case !c.runs:
		case c.Size == 0:
			p.Stop(c.id, why)
		case c.tasks() < c.held:
			p.Resize(c.id, c.tasks(), a.cfg.Place)
		}
	}
	for _, c := range a.starts {
		if c.runs {
			p.Resize(c.id, c.tasks(), a.cfg.Place)
			continue
		}
		for n := c.tasks(); n >= c.least && !p.StartSize(c.id, n, a.cfg.Place); n-- {
		}
	}
}

// note is what is remembered of a running job.
type note struct {
	ran time.Duration // its run time when its present unit began
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "afs" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) { f.Duration("ran", &n.ran) }

// left is what is left of the unit that a running job is in, 0 where it has just
// had one. A unit begins when the job is given its place, which is written on it
// as its run time by then; units that nobody was asked about have been renewed.
func (a *policy) left(v *sched.View, j sched.Job) time.Duration {
	if j.Ready() >= v.Now {
		return j.Ready() - v.Now + 1 // it has not got on yet
	}
	n, _ := sched.Recall[note](j)
	had := j.RunTime() - n.ran
	if had < 0 || had >= a.cfg.Unit && had%a.cfg.Unit <= a.cfg.Unit/100 { // it may be noticed late
		return 0
	}
	return a.cfg.Unit - had%a.cfg.Unit
}

// grant notes when those who run were given their places, and finds when the first
// of them is to give it up if anybody waits.
func (a *policy) grant(v *sched.View, p *sched.Plan) {
	waits := slices.ContainsFunc(a.claims, func(c *claimant) bool { return p.Alloc(c.id) == nil })
	for _, c := range a.claims {
		if p.Alloc(c.id) == nil {
			continue
		}
		left := c.Kept
		if !c.runs || left == 0 && waits {
			left = a.cfg.Unit
			p.Remember(c.id, &note{ran: v.Job(c.id).RunTime()})
		}
		if waits {
			a.wake = min(a.wake, unit.Later(v.Now, left))
		}
	}
}

// Why implements sched.Explainer.
func (a *policy) Why(v *sched.View, id job.ID) job.Reason {
	return job.Reason{Code: job.Outranked, Job: job.None}
}
