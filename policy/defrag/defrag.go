// Package defrag moves running jobs together so that a gang fits which would wait although enough GPUs
// are free, if that costs less than it wins. It works around any policy that does not share GPUs: the
// policy decides right after the moves, and starts the gang by itself.
//
// Nouns:
//   - A blocked job waits because the free GPUs are not where it wants them (job.Reason.Fragmentation).
//   - To clear a node is to move jobs from it to GPUs elsewhere, until the blocked job has what it
//     lacks there.
//   - The cost of a move is the GPU time for which the job stands still (perf.Costs), and the work that
//     it loses.
//   - The gain is the GPUs of the blocked job times the time that it would wait otherwise, by the
//     estimates of the jobs that run.
package defrag

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// Config says when moves pay.
type Config struct {
	Margin float64       // times its cost that a clearing must win
	Most   int           // blocked jobs that are looked at in a decision, those that wait for longest
	Least  time.Duration // for which a job that is moved is taken to stand still at least
}

// NewConfig returns the defaults.
func NewConfig() Config { return Config{Margin: 2, Most: 4} }

// Winning are the defaults with a margin. It fails where that is below 1, with which moves would cost more
// than they win.
func Winning(margin float64) (*Config, error) {
	if !(margin >= 1) {
		return nil, fmt.Errorf("%v: write 1 or more", margin)
	}
	cfg := NewConfig()
	cfg.Margin = margin
	return &cfg, nil
}

// Flag names the margin among the conditions of a log, and the flag by which a user sets it.
const Flag = "defrag"

// Live is Winning for a live world, where what it takes to move a job may not have been measured yet: a
// minute at least.
func Live(margin float64) (*Config, error) {
	cfg, err := Winning(margin)
	if err == nil {
		cfg.Least = time.Minute
	}
	return cfg, err
}

// Text is the margin.
func (c *Config) Text() string { return strconv.FormatFloat(c.Margin, 'g', -1, 64) }

// Policy is a policy with moves before its decisions.
type Policy struct {
	cfg   Config
	inner sched.Policy
	waker sched.Waker
	why   sched.Explainer

	again bool // a job was blocked by this decision

	jobs, gangs int     // moved, and started by that
	cost, gain  float64 // GPU-seconds
	nodes       []node
}

// Wrap adds moves to a policy.
func Wrap(p sched.Policy, cfg Config) *Policy {
	d := &Policy{cfg: cfg, inner: p}
	d.waker, _ = p.(sched.Waker)
	d.why, _ = p.(sched.Explainer)
	return d
}

// soon is when a job is looked at that was blocked just now.
const soon = time.Second

// NextWake implements sched.Waker.
func (d *Policy) NextWake(v *sched.View) time.Duration {
	at := unit.Never
	if d.waker != nil {
		at = d.waker.NextWake(v)
	}
	if d.again {
		at = min(at, v.Now+soon)
	}
	return at
}

// Why implements sched.Explainer.
func (d *Policy) Why(v *sched.View, id job.ID) job.Reason {
	if d.why == nil {
		return job.Reason{Code: job.Outranked, Job: job.None}
	}
	return d.why.Why(v, id)
}

// Remarks tell what moves have cost and won.
func (d *Policy) Remarks() []string {
	if d.jobs == 0 {
		return []string{"defragmentation: no move would have won more than it costs"}
	}
	return []string{fmt.Sprintf("defragmentation: %s moved, at a cost of %.2f GPU-hours, so that %s had room at once instead of after %.1f GPU-hours, as was estimated",
		unit.Count(d.jobs, "job"), d.cost/3600, unit.Count(d.gangs, "gang"), d.gain/3600)}
}

// Decide implements sched.Policy.
func (d *Policy) Decide(v *sched.View, p *sched.Plan) {
	looked, inner := 0, *v
	for j := range v.Waiting() {
		if r := j.Reason(); !r.Fragmentation() && r.Code != job.NeedGPUs || !fitsInAll(v, j) {
			continue // a job that was told that GPUs are missing may find them by now, but apart
		}
		if looked++; looked > d.cfg.Most {
			break
		}
		if d.clear(v, p, j) {
			inner = v.Loosened() // the policy decides who has the room
			break
		}
	}
	d.inner.Decide(&inner, p)
	d.again = false
	for _, w := range p.Waits() {
		d.again = d.again || w.Why.Fragmentation() && !v.Job(w.Job).Reason().Fragmentation()
	}
}

// fitsInAll tells whether a job finds enough GPUs that are wholly free, wherever they are. Only jobs of one
// role on whole GPUs are helped.
func fitsInAll(v *sched.View, j sched.Job) bool {
	k := v.Class(j.Class())
	return whole(k.Demand) && !k.NoType && k.GPUs > 1 && v.Cluster().FreeGPUs(k.Scope, k.Mask) >= int(k.GPUs)
}

// node is what clearing a node would take.
type node struct {
	id    cluster.NodeID
	free  int
	moves []sched.Job // the jobs that can be moved, the cheapest for each GPU first
}

// clear moves jobs so that a blocked job fits, if that pays.
func (d *Policy) clear(v *sched.View, p *sched.Plan, j sched.Job) bool {
	where := place.Consolidated
	if why, fits := p.Fits(j.ID, where); fits || !why.Fragmentation() { // by now it fits, the policy has not looked at it since; or something else is missing
		return false
	}
	at, _, known := p.Expect(j.ID, where)
	if !known {
		return false // nobody can say what would be won
	}
	gain := float64(j.GPUs()) * (at - v.Now).Seconds()
	d.list(v, p, j)
	moved, cost := 0, 0.0
	done := p.Try(func() bool {
		targets := d.targets(v, j)
		if targets == nil {
			return false
		}
		kept := reserved{c: v.Cluster(), nodes: targets}
		for i := range targets {
			for _, m := range targets[i].moves {
				price := d.price(v, m)
				if cost += price; cost*d.cfg.Margin > gain || !move(p, m, j.ID, &kept, where) {
					return false
				}
				moved++
				if _, fits := p.Fits(j.ID, where); fits {
					return true
				}
			}
		}
		return false
	})
	if done {
		d.jobs, d.gangs, d.cost, d.gain = d.jobs+moved, d.gangs+1, d.cost+cost, d.gain+gain
	}
	return done
}

// list lists the nodes that a job may use, with the jobs there that can be moved.
func (d *Policy) list(v *sched.View, p *sched.Plan, j sched.Job) {
	c, k := v.Cluster(), v.Class(j.Class())
	d.nodes = d.nodes[:0]
	index := map[cluster.NodeID]int{}
	for id := range cluster.NodeID(c.Nodes()) {
		if c.Usable(id) && c.In(id, k.Scope) {
			if free := c.NodeFreeGPUs(id, k.Mask); free < c.NodeGPUs(id) {
				index[id] = len(d.nodes)
				d.nodes = append(d.nodes, node{id: id, free: free})
			}
		}
	}
	for r := range v.Running() {
		a := p.Alloc(r.ID)
		if a == nil || len(a.Pieces) != 1 || !movable(v, r) {
			continue
		}
		if at, there := index[a.Pieces[0].Node]; there {
			d.nodes[at].moves = append(d.nodes[at].moves, r)
		}
	}
	for i := range d.nodes {
		slices.SortStableFunc(d.nodes[i].moves, func(a, b sched.Job) int {
			return cmp.Compare(d.price(v, a)/float64(a.GPUs()), d.price(v, b)/float64(b.GPUs()))
		})
	}
}

// movable tells whether a job can be moved: it runs on whole GPUs, and keeps its work.
func movable(v *sched.View, r sched.Job) bool {
	return r.Phase() == job.Running && r.Ready() < v.Now && r.Spec().Stop == job.Checkpoint && !r.Profiling() && whole(v.Class(r.Class()).Demand)
}

// whole tells whether a gang is of one role whose tasks have whole GPUs.
func whole(d *job.Demand) bool {
	gpu := d.Roles[0].GPU
	return d.Roles[1].Tasks == 0 && gpu > 0 && gpu%unit.One == 0
}

// price is the GPU time in seconds for which a job stands still when it is moved.
func (d *Policy) price(v *sched.View, r sched.Job) float64 {
	return float64(r.GPUs()) * max(d.cfg.Least, v.Costs.Reshape(r.Spec(), r.GPUs(), false, true, false)).Seconds()
}

// targets are the nodes to be cleared, the cheapest for the GPUs that are lacking: one where the job
// goes into one, else as many as it needs wholly. Nil: there are none.
func (d *Policy) targets(v *sched.View, j sched.Job) []node {
	c, gpus := v.Cluster(), j.GPUs()
	type priced struct {
		node
		cost float64
	}
	var all []priced
	for _, n := range d.nodes {
		need := min(gpus, c.NodeGPUs(n.id)) - n.free
		if need <= 0 {
			continue
		}
		cost, enough := 0.0, 0
		for i, m := range n.moves {
			if enough >= need {
				n.moves = n.moves[:i]
				break
			}
			cost, enough = cost+d.price(v, m), enough+m.GPUs()
		}
		if enough >= need {
			all = append(all, priced{n, cost + float64(enough)/1e6}) // fewer GPUs where moves are free
		}
	}
	slices.SortStableFunc(all, func(a, b priced) int { return cmp.Compare(a.cost, b.cost) })
	var out []node
	for _, n := range all {
		out = append(out, n.node)
		if gpus -= c.NodeGPUs(n.id); gpus <= 0 {
			return out
		}
	}
	return nil
}

// reserved is what is free on nodes that are being cleared.
type reserved struct {
	c     *cluster.Cluster
	nodes []node
	alloc cluster.Alloc
}

// now is it as an allocation.
func (r *reserved) now() *cluster.Alloc {
	r.alloc.Reset()
	for _, n := range r.nodes {
		was := len(r.alloc.Shares)
		for _, g := range r.c.NodeGroups(n.id) {
			if free := r.c.GroupFree(g); free > 0 {
				r.alloc.Shares = r.c.AppendWhole(r.alloc.Shares, g, free, 0)
			}
		}
		if more := len(r.alloc.Shares) - was; more > 0 {
			r.alloc.Pieces = append(r.alloc.Pieces, cluster.Piece{Node: n.id, Tasks: 1, Shares: int32(more)})
		}
	}
	return &r.alloc
}

// move moves a job to GPUs that are on none of the nodes that are being cleared for another.
func move(p *sched.Plan, m sched.Job, whom job.ID, away *reserved, where place.Strategy) bool {
	tasks, ok := p.Alloc(m.ID).Tasks(0), false
	p.Stop(m.ID, job.Reason{Code: job.MakesRoom, Job: whom})
	p.Without(away.now(), func() { ok = p.StartSize(m.ID, tasks, where) })
	return ok
}
