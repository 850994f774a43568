package quota_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/drf"
	"github.com/norn-scheduler/norn/policy/fairshare"
	"github.com/norn-scheduler/norn/policy/maxmin"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// judge asks a policy and then checks every plan against what the policy
// promises.
type judge struct {
	policy    sched.Policy
	conserves bool          // no job waits that fits
	reclaims  bool          // guarantees are given back
	grace     time.Duration // the longest time until then
	fail      *error
}

// Decide implements sched.Policy.
func (c *judge) Decide(v *sched.View, p *sched.Plan) {
	c.policy.Decide(v, p)
	if err := c.check(v, p); err != nil && *c.fail == nil {
		*c.fail = fmt.Errorf("at %v: %w", v.Now, err)
		p.Invalidate(*c.fail)
	}
}

// NextWake implements sched.Waker.
func (c *judge) NextWake(v *sched.View) time.Duration {
	if w, ok := c.policy.(sched.Waker); ok {
		return w.NextWake(v)
	}
	return unit.Never
}

// Why implements sched.Explainer.
func (c *judge) Why(v *sched.View, id job.ID) job.Reason {
	return c.policy.(sched.Explainer).Why(v, id)
}

func (c *judge) check(v *sched.View, p *sched.Plan) error {
	tree := v.Tenants()
	used := make([]unit.Milli, tree.Len())
	before := make([]unit.Milli, tree.Len())
	for i := range v.Jobs() {
		j := v.Job(job.ID(i))
		for t := j.Tenant(); t >= 0; t = tree.At(t).Parent {
			if a := p.Alloc(j.ID); a != nil {
				used[t] += a.Milli()
			}
			if a := v.Alloc(j.ID); a != nil {
				before[t] += a.Milli()
			}
		}
	}
	for t := range used {
		if e := tree.At(tenant.ID(t)); used[t] > e.Limit && used[t] > before[t] {
			return fmt.Errorf("tenant %s is to hold %v of %v", e.Name, used[t], e.Limit)
		}
	}
	for _, op := range p.Ops() {
		j := v.Job(op.Job)
		if op.Was != nil && op.Now == nil && j.Spec().Stop == job.Pinned {
			return fmt.Errorf("job %s is pinned and stopped", j.Spec().Key)
		}
	}
	for j := range v.Waiting() {
		if p.Alloc(j.ID) != nil {
			continue
		}
		if err := c.waits(v, p, j, used); err != nil {
			return err
		}
	}
	return nil
}

// waits checks that a job that is left waiting has to wait.
func (c *judge) waits(v *sched.View, p *sched.Plan, j sched.Job, used []unit.Milli) error {
	tree := v.Tenants()
	need := v.Class(j.Class()).Amount.GPU
	owed, limited := false, false
	for t := j.Tenant(); t >= 0; t = tree.At(t).Parent {
		e := tree.At(t)
		if used[t]+need > e.Limit && need > 0 {
			if limited = true; !owed {
				return nil // others below that limit owe it nothing
			}
		}
		owed = owed || t != tenant.Root && used[t]+need <= e.Guarantee
	}
	if _, fits := p.Fits(j.ID, place.Pack); fits && c.conserves && !limited {
		return fmt.Errorf("job %s waits although it fits", j.Spec().Key)
	}
	if c.reclaims && owed && need > 0 && v.Now >= j.Since()+c.grace {
		return fmt.Errorf("job %s waits since %v although its tenant is owed that much", j.Spec().Key, j.Since())
	}
	return nil
}

// forest is a tree of tenants of two levels on a cluster. Guarantees of siblings
// never add up to more than what is above them.
func forest(t *rapid.T, total int) *tenant.Tree {
	tree := tenant.NewTree(time.Minute)
	left := total
	for _, name := range []string{"x", "y", "c"} {
		g := rapid.IntRange(0, left).Draw(t, "guarantee "+name)
		left -= g
		limit := 0
		if rapid.Bool().Draw(t, "limited "+name) {
			limit = max(1, g, rapid.IntRange(1, total).Draw(t, "limit "+name))
		}
		add(t, tree, name, tenant.Root, g, limit)
		if name == "c" {
			continue
		}
		above, _ := tree.Lookup(name)
		for _, child := range []string{"a", "b"} {
			part := rapid.IntRange(0, g).Draw(t, "guarantee "+name+child)
			g -= part
			add(t, tree, map[string]string{"xa": "a", "xb": "b", "ya": "d", "yb": "e"}[name+child], above, part, 0)
		}
	}
	return tree
}

func add(t *rapid.T, tree *tenant.Tree, name string, above tenant.ID, guarantee, limit int) {
	w := float64(rapid.IntRange(1, 3).Draw(t, "weight "+name))
	if _, err := tree.Add(name, above, unit.Milli(guarantee)*unit.One, unit.Milli(limit)*unit.One, w); err != nil {
		t.Fatal(err)
	}
}

// setting is a policy with its promises.
type setting struct {
	name  string
	set   func() (param.Set, func() (sched.Policy, error))
	with  map[string]string
	judge judge
}

func settings() []setting {
	d := func() (param.Set, func() (sched.Policy, error)) { c := drf.NewConfig(); return c.Params(), c.Policy }
	m := func() (param.Set, func() (sched.Policy, error)) {
		c := maxmin.NewConfig()
		return c.Params(), c.Policy
	}
	f := func() (param.Set, func() (sched.Policy, error)) {
		c := fairshare.NewConfig()
		return c.Params(), c.Policy
	}
	return []setting{
		{"drf", d, nil, judge{conserves: true, reclaims: true}},
		{"drf late", d, map[string]string{"grace": "20s", "order": "sjf"}, judge{conserves: true, reclaims: true, grace: 20 * time.Second}},
		{"drf blocking", d, map[string]string{"block": "true"}, judge{}},
		{"drf none", d, map[string]string{"reclaim": "none", "order": "priority"}, judge{conserves: true}},
		{"maxmin", m, nil, judge{conserves: true, reclaims: true}},
		{"maxmin all", m, map[string]string{"divide": "all", "victims": "service"}, judge{conserves: true, reclaims: true}},
		{"maxmin late", m, map[string]string{"grace": "15s", "order": "sjf", "victims": "newest"}, judge{conserves: true, reclaims: true, grace: 15 * time.Second}},
		{"maxmin minrun", m, map[string]string{"minrun": "25s", "reclaim": "guarantee"}, judge{conserves: true, reclaims: true, grace: unit.Never / 2}},
		{"fairshare skip", f, map[string]string{"mode": "skip", "period": "5s"}, judge{conserves: true}},
		{"fairshare easy", f, map[string]string{"period": "5s"}, judge{}},
		{"fairshare strict", f, map[string]string{"mode": "strict", "rank": "classic"}, judge{}},
	}
}

// TestPromises checks every plan in random worlds with a tree of tenants.
// Limits hold, and pinned jobs run on. No job waits that fits, if the policy
// promises that. No job that is owed GPUs waits longer than the grace time; for
// this, no job is pinned and jobs are plain. Otherwise borrowed GPUs may be
// useless for the claimant.
func TestPromises(t *testing.T) {
	for _, s := range settings() {
		for _, pinned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/pinned=%v", s.name, pinned), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { promise(t, s, pinned) })
			})
		}
	}
}

func promise(t *rapid.T, s setting, pinned bool) {
	w := simtest.Draw(t, simtest.Shape{Costs: true})
	for i := range w.Jobs {
		w.Jobs[i].Tenant = rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "y"}).Draw(t, "tenant")
		if inner := w.Jobs[i].Spec; !pinned {
			w.Jobs[i].Spec = func(j *job.Job) {
				if inner(j); j.Stop == job.Pinned {
					j.Stop = job.Checkpoint
				}
			}
		}
	}
	nodes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 4).Draw(t, "nodes")
	w.Fresh(t, simtest.Shape{}, nodes)
	w.Tenants = forest(t, w.Cluster.TotalGPUs(0, 0))
	var wrong error
	w.Make = func() (sched.Policy, error) {
		params, make := s.set()
		for k, value := range s.with {
			if err := params.Set(k, value); err != nil {
				return nil, err
			}
		}
		p, err := make()
		c := s.judge
		c.policy, c.fail, c.reclaims = p, &wrong, c.reclaims && !pinned
		return &c, err
	}
	run, err := simtest.Try(w.Config, w.Jobs...)
	for _, e := range []error{wrong, err} {
		if e != nil {
			t.Fatalf("%v\n%s", e, lines(run))
		}
	}
	for i := range run.State.Jobs() {
		if r := run.State.Record(job.ID(i)); !r.Phase.Over() && !r.Reason.Never() {
			t.Fatalf("job %s was left %s: %v\n%s", r.Job.Key, r.Phase, r.Reason, lines(run))
		}
	}
}

func lines(run *simtest.Run) string {
	out := ""
	for _, l := range run.Log {
		out += l + "\n"
	}
	return out
}
