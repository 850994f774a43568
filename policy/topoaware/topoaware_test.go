package topoaware

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// machines are some of the paper's.
func machines(t *testing.T, n int) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "P100"}) // cannot fail: the first type
	links, err := cluster.LinkPreset("minsky", 4)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}, Links: links}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// of trains AlexNet, and asks for a place of some utility.
func of(key string, at, run float64, batch, gpus int, asks float64) simtest.Job {
	return simtest.Job{Key: key, At: at, Run: run, GPUs: gpus, Model: "bvlc_alexnet", Spec: func(j *job.Job) {
		j.Batch, j.Hints = batch, &job.Hints{LeastUtility: asks}
	}}
}

func run(t *testing.T, nodes int, s *perf.Sockets, change func(*Config), jobs ...simtest.Job) *simtest.Run {
	t.Helper()
	cfg := NewConfig()
	if change != nil {
		change(cfg)
	}
	return simtest.Go(t, simtest.Config{Cluster: machines(t, nodes), Make: cfg.Policy, Sockets: s}, jobs...)
}

// has looks for lines in the log of a run.
func has(t *testing.T, r *simtest.Run, lines ...string) {
	t.Helper()
	log := strings.Join(r.Log, "\n") + "\n"
	for _, l := range lines {
		if !strings.Contains(log, l+"\n") {
			t.Errorf("%q is not in this log:\n%s", l, log)
		}
	}
}

// TestOtherSocket is acceptance B: a job of two GPUs beside one of one GPU gets the pair of the other socket.
func TestOtherSocket(t *testing.T) {
	r := run(t, 1, nil, nil, of("one", 0, 100, 1, 1, 0), of("two", 0, 100, 1, 2, 0))
	has(t, r, "0 start one on n0[0]", "0 start two on n0[2-3]")
}

// TestApart is acceptance C: jobs that slow each other down stand at two sockets, and beside each other where
// nothing of the kind was measured.
func TestApart(t *testing.T) {
	jobs := []simtest.Job{of("four", 0, 100, 4, 1, 0), of("one", 0, 100, 1, 1, 0)}
	has(t, run(t, 1, measured(), func(c *Config) { c.Reading = Loss }, jobs...), "0 start four on n0[0]", "0 start one on n0[2]")
	has(t, run(t, 1, measured(), nil, jobs...), "0 start one on n0[2]")
	has(t, run(t, 1, nil, nil, jobs...), "0 start one on n0[1]")
}

// TestSlowed: beside each other they take longer, as was measured, and only as long as they are.
func TestSlowed(t *testing.T) {
	r := run(t, 1, measured(), func(c *Config) { c.Rule, c.Postpone = First, false }, of("one", 0, 69.165, 1, 1, 0), of("four", 0, 109.435, 4, 1, 0))
	// The first ends after 75.03 s; the other has done 75.03/114.86 of its work by then, and goes on alone.
	if end := r.End("one"); end < 75.02 || end > 75.04 {
		t.Errorf("one ends at %v, want 75.03", end)
	}
	want := 75.03 + 109.435*(1-75.03/114.86)
	if end := r.End("four"); end < want-0.01 || end > want+0.01 {
		t.Errorf("four ends at %v, want %v", end, want)
	}
}

// TestAcross: two GPUs of two sockets take as long as was measured.
func TestAcross(t *testing.T) {
	r := run(t, 1, measured(), func(c *Config) { c.Postpone = false }, of("a", 0, 500, 9, 1, 0), of("b", 0, 500, 9, 2, 0), of("c", 0, 1000, 9, 1, 0), of("two", 600, 127.415, 1, 2, 0))
	has(t, r, "0 start b on n0[2-3]", "0 start c on n0[1]")
	if took := r.End("two") - r.Start("two"); took < 127.4 || took > 127.43 {
		t.Errorf("two takes %v on one socket", took)
	}
	r = run(t, 1, measured(), func(c *Config) { c.Postpone, c.Rule = false, First }, of("a", 0, 1000, 9, 1, 0), of("two", 0, 127.415, 1, 2, 0))
	if took := r.End("two") - r.Start("two"); took < 159.1 || took > 159.13 {
		t.Errorf("two takes %v over two sockets", took)
	}
}

// busy are two jobs that have a GPU of each socket, and one of two GPUs that asks for a place of 0.5.
func busy() []simtest.Job {
	return []simtest.Job{of("a", 0, 100, 1, 1, 0), of("x", 0, 1, 1, 1, 0), of("b", 0, 200, 1, 1, 0), of("y", 0, 1, 1, 1, 0), of("two", 10, 50, 1, 2, 0.5)}
}

// TestPostpone is acceptance D: with a GPU of each socket taken, a job of two GPUs starts on the other ones, or
// waits for a pair if it asks for that.
func TestPostpone(t *testing.T) {
	r := run(t, 1, nil, func(c *Config) { c.Postpone = false }, busy()...)
	has(t, r, "10 start two on n0[1,3]")
	r = run(t, 1, nil, nil, busy()...)
	has(t, r, "10 wait two: the best free place is worth 0.25 to it, it asks for 0.50", "100 start two on n0[0-1]")
}

// TestPatience: a job is not postponed for longer than the policy has patience, and others overtake it meanwhile,
// unless they may not.
func TestPatience(t *testing.T) {
	later := append(busy(), of("later", 20, 5, 1, 1, 0))
	r := run(t, 1, nil, func(c *Config) { c.Patience = time.Minute }, later...)
	if r.Start("two") != 70 || r.Start("later") != 20 {
		t.Errorf("two starts at %v, later at %v", r.Start("two"), r.Start("later"))
	}
	r = run(t, 1, nil, func(c *Config) { c.Patience, c.Skip = time.Minute, false }, later...)
	if r.Start("two") != 70 || r.Start("later") != 75 && r.Start("later") != 100 && r.Start("later") != 120 {
		t.Errorf("two starts at %v, later at %v", r.Start("two"), r.Start("later"))
	}
}

// TestUnreachable: nobody waits for a place that is worth more than any there is.
func TestUnreachable(t *testing.T) {
	r := run(t, 1, nil, func(c *Config) { c.Weights, c.Patience = Isolation, 0 }, of("one", 0, 10, 1, 1, 1))
	has(t, r, "0 start one on n0[0]")
}

// TestOneNode: a job waits for a node that has room for it, and one that is larger than every node gets several
// (acceptance E: a job never spans machines where it need not).
func TestOneNode(t *testing.T) {
	r := run(t, 2, nil, nil, of("a", 0, 100, 1, 3, 0), of("b", 0, 50, 1, 2, 0), of("c", 0, 10, 1, 3, 0), of("wide", 200, 10, 1, 6, 0))
	if r.Start("c") != 50 {
		t.Errorf("c starts at %v, want 50 when a node has room", r.Start("c"))
	}
	has(t, r, "200 start wide on n0[0-3]+n1[0-1]")
}

// TestBestFitAndFirst: the baselines of the paper.
func TestBestFitAndFirst(t *testing.T) {
	jobs := []simtest.Job{of("a", 0, 100, 1, 1, 0), of("b", 0, 100, 1, 2, 0)}
	has(t, run(t, 1, nil, func(c *Config) { c.Rule = BestFit }, jobs...), "0 start a on n0[2]", "0 start b on n0[0,3]")
	has(t, run(t, 1, nil, func(c *Config) { c.Rule = First }, jobs...), "0 start a on n0[0]", "0 start b on n0[1-2]")
}

// TestChanges: the same place is judged anew when a neighbour has come.
func TestChanges(t *testing.T) {
	s := measured()
	s.Beside(alexnet(1, 1), alexnet(1, 1), 100)
	r := run(t, 1, s, nil, of("a", 0, 100, 1, 1, 0), of("b", 0, 100, 1, 1, 0), of("c", 0, 100, 1, 1, 0))
	has(t, r, "0 start a on n0[0]", "0 start b on n0[2]", "0 start c on n0[1]")
}
