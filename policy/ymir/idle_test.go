package ymir

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// watched is the policy, with a look at each division.
type watched struct {
	*policy
	wrong string // the first job that waits beside an idle GPU for nothing
}

func (w *watched) Decide(v *sched.View, p *sched.Plan) {
	w.measures = v.Profiles && w.cfg.ProfileTime > 0
	due := w.due(v)
	w.policy.Decide(v, p)
	if !due || w.wrong != "" || v.Cluster().FreeGPUs(0, 0) == 0 {
		return
	}
	for j := range v.Waiting() {
		if p.Alloc(j.ID) == nil && w.schedulable(v, j) {
			if why := w.excused(v, p, j); why != "" {
				w.wrong = fmt.Sprintf("at %v job %s waits beside an idle GPU: %s", v.Now, j.Spec().Key, why)
			}
		}
	}
}

// excused says why a job gains nothing by waiting; empty: it ends sooner if it goes on from
// another one than if it had a GPU now.
func (w *watched) excused(v *sched.View, p *sched.Plan, j sched.Job) string {
	with, how := j.Merged()
	for _, m := range p.Merges() {
		if m.Job == j.ID {
			with, how = m.With, m.How
		}
	}
	if how != job.After || over(v, with) {
		return "it goes on from nobody"
	}
	first, on := v.Job(with), p.Alloc(with)
	if on == nil {
		return "who it goes on from has no GPU either"
	}
	node := w.nodeGPUs(v, j.Pool())
	n := max(1, len(on.Shares))
	noted, _ := sched.Noted[note](p, j)
	wait := w.left(first)/believed(v, first, n, node) + w.left(j)/believed(v, j, n, node)/noted.factor
	if alone := w.left(j) / believed(v, j, 1, node); wait > alone*(1+1e-9) {
		return fmt.Sprintf("alone on one it would take %v s, after job %s %v s", alone, first.Spec().Key, wait)
	}
	return ""
}

// TestNeverIdleBesideWaiting is acceptance 5 of the specification for the policy itself.
// After a division no GPU is idle beside a job that could use it. The exception is a job
// that ends sooner by going on from another one, whatever was decided before.
func TestNeverIdleBesideWaiting(t *testing.T) {
	for _, set := range [][]string{{"profile=0s"}, {"profile=0s", "filter=1"}, {"exact=0"}, {"merge=temporal", "started=false"}} {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				cfg, jobs := world(r)
				if rapid.Bool().Draw(r, "learnt") {
					cfg, jobs = learntWorld(r, false)
				}
				cfg.Cluster = simtest.Nodes(rapid.IntRange(1, 4).Draw(r, "nodes"), 4)
				var seen *watched
				cfg.Make = func() (sched.Policy, error) {
					p, err := with(t, set...)()
					if err != nil {
						return nil, err
					}
					seen = &watched{policy: p.(*policy)}
					return seen, nil
				}
				run, err := simtest.Try(cfg, jobs...)
				if err != nil {
					r.Fatalf("%v\n%s", err, strings.Join(run.Log, "\n"))
				}
				if seen.wrong != "" {
					r.Fatalf("%s\n%s", seen.wrong, strings.Join(run.Log, "\n"))
				}
			})
		})
	}
}

// TestLoneFollower is the case of a Philly virtual cluster on 64 GPUs: two long jobs, the second
// a little later, and a gain of 1.12 if it goes on from the first. It is not worth the wait
// while three of four nodes are idle.
func TestLoneFollower(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(16, 4), Shared: true, Model: linear, Speeds: linear, World: learn(gain("a", "b", 1.12, 1), gain("b", "a", 1.12, 1)), Make: with(t, "filter=1")},
		tune("a", 0, 300_000, "vit", "a", 4), tune("b", 1456, 310_000, "vit", "b", 4))
	if start := time.Duration(run.Start("b") * 1e9); start > 30*time.Minute {
		t.Errorf("b starts after %v\n%s", start, strings.Join(run.Log, "\n"))
	}
	if run.Record("b").Merged != job.Apart {
		t.Errorf("b is merged with %d", run.Record("b").With)
	}
}
