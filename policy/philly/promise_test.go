package philly_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/philly"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// watched checks after each decision what the policy promises where locality does
// not count.
type watched struct {
	sched.Policy
	reclaims bool
	used     map[tenant.ID]unit.Milli // as planned
	before   map[tenant.ID]unit.Milli // as it was
}

func (w *watched) Decide(v *sched.View, p *sched.Plan) {
	w.Policy.Decide(v, p)
	w.used, w.before = map[tenant.ID]unit.Milli{}, map[tenant.ID]unit.Milli{}
	for t := range tenant.ID(v.Tenants().Len()) {
		w.used[t] = v.Tenants().At(t).Used.GPU
		w.before[t] = w.used[t]
	}
	for _, op := range p.Ops() {
		switch t := v.Job(op.Job).Tenant(); {
		case op.Was == nil && op.Now != nil:
			w.used[t] += op.Now.Milli()
		case op.Was != nil && op.Now == nil:
			w.used[t] -= op.Was.Milli()
			if w.before[t] <= v.Tenants().At(t).Guarantee {
				p.Invalidate(fmt.Errorf("job %s was preempted although its VC held no more than its quota", v.Job(op.Job).Spec().Key))
			}
		}
	}
	for j := range v.Waiting() {
		if err := w.broken(v, p, j); err != nil && p.Alloc(j.ID) == nil {
			p.Invalidate(err)
		}
	}
}

// broken is the promise to a job left waiting that was broken, if any.
func (w *watched) broken(v *sched.View, p *sched.Plan, j sched.Job) error {
	need, free := v.Class(j.Class()).Amount.GPU, unit.Milli(v.Free())*unit.One
	t := v.Tenants().At(j.Tenant())
	if w.used[j.Tenant()]+need > t.Limit {
		return nil
	}
	if need <= free {
		return fmt.Errorf("job %s waits although %v GPUs are free", j.Spec().Key, free)
	}
	if !w.reclaims || w.used[j.Tenant()]+need > t.Guarantee {
		return nil
	}
	for vc := range tenant.ID(v.Tenants().Len()) {
		if over := w.used[vc] - v.Tenants().At(vc).Guarantee; vc > tenant.Root && vc != j.Tenant() && over > 0 {
			free += min(over, movable(v, p, vc))
		}
	}
	if need <= free {
		return fmt.Errorf("job %s of a VC below its quota waits although others borrow enough", j.Spec().Key)
	}
	return nil
}

// movable is the GPUs of the jobs of a VC that ran before and may be stopped.
func movable(v *sched.View, p *sched.Plan, vc tenant.ID) (sum unit.Milli) {
	for j := range v.Running() {
		if j.Tenant() == vc && j.Spec().Stop != job.Pinned && p.Alloc(j.ID) != nil {
			sum += j.Allocated()
		}
	}
	return sum
}

func (w *watched) NextWake(v *sched.View) time.Duration { return w.Policy.(sched.Waker).NextWake(v) }

func (w *watched) Why(v *sched.View, id job.ID) job.Reason {
	return w.Policy.(sched.Explainer).Why(v, id)
}

// TestPromises checks random histories. No job waits while enough GPUs are free
// (work is conserved). A VC below its quota gets back what others borrow
// (guarantees are reclaimable). No job of a VC at or below its quota is
// preempted. All quotas are guaranteed, and sum up to the cluster.
func TestPromises(t *testing.T) {
	for _, at := range []float64{0, 0.9} {
		rapid.Check(t, func(t *rapid.T) {
			w := simtest.Draw(t, simtest.Shape{Tenants: true})
			nodes := rapid.IntRange(1, 3).Draw(t, "nodes")
			w.Cluster, w.Tenants = simtest.Nodes(nodes, 4), tenant.NewTree(0)
			left := 4*nodes - 3
			for i, name := range []string{"a", "b", "c"} {
				n := rapid.IntRange(0, left).Draw(t, "guarantee")
				if i == 2 {
					n = left
				}
				left -= n
				if _, err := w.Tenants.Add(name, tenant.Root, unit.Milli(n+1)*unit.One, 0, 0); err != nil {
					t.Fatal(err)
				}
			}
			w.Make = func() (sched.Policy, error) {
				c := philly.NewConfig()
				c.First, c.ReclaimAt = philly.Anywhere, at
				p, err := c.Policy()
				return &watched{Policy: p, reclaims: at == 0}, err
			}
			if run, err := simtest.Try(w.Config, w.Jobs...); err != nil {
				t.Fatalf("%v\n%s", err, strings.Join(run.Log, "\n"))
			}
		})
	}
}
