package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
)

// borrowed is a cluster of our own nodes and of nodes of the lender "owner", of two GPUs each,
// called n0, n1 and so on.
func borrowed(t *testing.T, own, lent int) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range own + lent {
		spec := cluster.NodeSpec{Name: fmt.Sprint("n", i), GPUs: []cluster.GPUs{{Type: typ, Count: 2}}}
		if i >= own {
			spec.Labels = []label.Label{{Key: cluster.LenderLabel, Value: "owner"}}
		}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// loans is a world with these loans, in which jobs save their state every ten seconds.
func loans(all ...trace.Loan) func(*sim.Config) {
	return func(c *sim.Config) { c.Loans, c.Snapshot = all, 10*time.Second }
}

const second = time.Second

// TestLoanWithoutNotice: a job whose node is taken back falls back to its last save, and goes
// on when the node is lent again.
func TestLoanWithoutNotice(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: borrowed(t, 0, 1), Make: newFIFO,
		World: loans(trace.Loan{At: 5 * second, Node: "n0", Lent: true}, trace.Loan{At: 30 * second, Node: "n0"}, trace.Loan{At: 50 * second, Node: "n0", Lent: true}),
	}, simtest.Job{Key: "a", GPUs: 2, Run: 100})
	// It begins at 5, has done 25 of which 20 are saved, and has 80 left at 50.
	if start, end := run.Start("a"), run.End("a"); start != 5 || end != 130 {
		t.Errorf("it ran from %v to %v, not from 5 to 130", start, end)
	}
	if r := run.Record("a"); r.Preemptions != 1 || r.Lost != 2*5 {
		t.Errorf("it was thrown off %d times and lost %v GPU-seconds", r.Preemptions, r.Lost)
	}
}

// TestLoanWithNotice: a job that is told in time saves its state before its node goes, and no
// other job comes to the node in the meantime.
func TestLoanWithNotice(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: borrowed(t, 0, 1), Make: newFIFO, Costs: perf.Costs{Base: perf.Cost{Checkpoint: 2 * second}},
		World: loans(trace.Loan{Node: "n0", Lent: true}, trace.Loan{At: 20 * second, Node: "n0", Notice: 8 * second}, trace.Loan{At: 50 * second, Node: "n0", Lent: true}),
	}, simtest.Job{Key: "a", GPUs: 1, Run: 100}, simtest.Job{Key: "b", At: 21, GPUs: 1, Run: 10})
	if end := run.End("a"); end != 50+100-26 { // saving takes the last 2 of 28 seconds
		t.Errorf("a ends at %v", end)
	}
	if start := run.Start("b"); start != 50 {
		t.Errorf("b starts at %v, on a node that was to be taken back", start)
	}
}

// TestLoanOfSome: a lender takes back idle nodes first, then those with the fewest jobs.
func TestLoanOfSome(t *testing.T) {
	jobs := []simtest.Job{{Key: "a", GPUs: 1, Run: 100}, {Key: "b", GPUs: 1, Run: 100}, {Key: "c", GPUs: 2, Run: 100}}
	for lends, evicted := range map[int][]string{2: nil, 1: {"c"}, 0: {"c", "a", "b"}} {
		run := simtest.Go(t, simtest.Config{
			Cluster: borrowed(t, 1, 3), Make: newFIFO,
			World: loans(trace.Loan{Lender: "owner", Nodes: 3}, trace.Loan{At: 30 * second, Lender: "owner", Nodes: lends}),
		}, append([]simtest.Job{{Key: "own", GPUs: 2, Run: 200}}, jobs...)...)
		var got []string
		for _, line := range run.Log {
			if f := strings.Fields(line); len(f) > 2 && f[1] == "evict" {
				got = append(got, strings.TrimSuffix(f[2], ":"))
			}
		}
		if !slices.Equal(got, evicted) {
			t.Errorf("%d nodes are lent: %v were thrown off, not %v\n%s", lends, got, evicted, strings.Join(run.Log, "\n"))
		}
	}
}

// vacater is FIFO that stops whoever runs on the last borrowed node when a lender wants some back.
type vacater struct{ sched.Policy }

func (p vacater) Decide(v *sched.View, plan *sched.Plan) {
	if r := v.Recalls(); len(r) > 0 {
		for j := range v.Running() {
			for _, piece := range v.Alloc(j.ID).Pieces {
				if n := v.Cluster().Nodes() - 1; r[0].Lender == "owner" && int(piece.Node) == n {
					plan.Stop(j.ID, job.Reason{Code: job.TakenBack, Need: int32(n), Job: job.None})
				}
			}
		}
		return
	}
	p.Policy.Decide(v, plan)
}

// TestVacated: a policy that vacates a node of its choice in the moment in which some are wanted
// back gives that one back.
func TestVacated(t *testing.T) {
	for _, notice := range []time.Duration{0, 10 * second} {
		run := simtest.Go(t, simtest.Config{
			Cluster: borrowed(t, 0, 2), Unchecked: true,
			Make: func() (sched.Policy, error) {
				p, err := newFIFO()
				return vacater{p}, err
			},
			World: loans(trace.Loan{Lender: "owner", Nodes: 2}, trace.Loan{At: 30 * second, Lender: "owner", Nodes: 1, Notice: notice}),
		}, simtest.Job{Key: "a", GPUs: 2, Run: 100}, simtest.Job{Key: "b", GPUs: 2, Run: 100})
		if a, b := run.End("a"), run.End("b"); a != 100 || b != 170 { // b keeps its work, and waits for a
			t.Errorf("notice of %v: a ends at %v, b at %v", notice, a, b)
		}
	}
}

// TestLoanErrors: loans of what is not there are refused.
func TestLoanErrors(t *testing.T) {
	for want, loan := range map[string]trace.Loan{
		"no node has the label lender=nobody": {Lender: "nobody", Nodes: 1},
		`the cluster has no node "n9"`:        {Node: "n9", Lent: true},
	} {
		_, err := simtest.Try(simtest.Config{Cluster: borrowed(t, 1, 1), Make: newFIFO, World: loans(loan)}, simtest.Job{Key: "a", GPUs: 1, Run: 1})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
}

// TestLoanInPlace: a job that resizes in place goes on with the tasks that it has elsewhere, as long
// as these are enough, and loses nothing but the pause. One of two nodes taken at one moment
// leaves it with too few.
func TestLoanInPlace(t *testing.T) {
	d := job.GPUs(6)
	d.Roles[0].Min = 2
	spec := func(j *job.Job) { j.Resize = job.InPlace }
	anew := func(node string) trace.Loan { return trace.Loan{At: 90 * second, Node: node, Lent: true} }
	at := func(seconds int, node string) trace.Loan {
		return trace.Loan{At: time.Duration(seconds) * second, Node: node}
	}
	lent := []trace.Loan{{Node: "n0", Lent: true}, {Node: "n1", Lent: true}, {Node: "n2", Lent: true}}
	for _, c := range []struct {
		loans            []trace.Loan
		end              float64
		resizes, stopped int32
	}{
		{[]trace.Loan{at(30, "n1")}, 30 + 4 + 30*1.5, 1, 0}, // it goes on with four of six
		{[]trace.Loan{at(30, "n1"), at(30, "n2")}, 30 + 4 + 30*3, 2, 0},
		{[]trace.Loan{at(30, "n0"), at(30, "n1"), at(30, "n2"), anew("n0"), anew("n1"), anew("n2")}, 90 + 30, 2, 1},
	} {
		run := simtest.Go(t, simtest.Config{
			Cluster: borrowed(t, 0, 3), Make: newFIFO, Model: perf.Analytic{Scaling: 1, Spread: 1}, Costs: perf.Costs{Base: perf.Cost{InPlace: 4 * second}},
			World: func(cfg *sim.Config) {
				loans(append(lent, c.loans...)...)(cfg)
				cfg.InPlace = true
			},
		}, simtest.Job{Key: "a", Run: 60, Demand: &d, Spec: spec})
		if r := run.Record("a"); run.End("a") != c.end || r.Resizes != c.resizes || r.Preemptions != c.stopped {
			t.Errorf("%+v: ends at %v, %d resizes, %d preemptions\n%s", c.loans, run.End("a"), r.Resizes, r.Preemptions, strings.Join(run.Log, "\n"))
		}
	}
}
