package pai_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/pai"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

func config(change func(*pai.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := pai.NewConfig()
		change(c)
		return c.Policy()
	}
}

func ordered(by pai.By) func() (sched.Policy, error) {
	return config(func(c *pai.Config) { c.By = by })
}

// Spec mlaas-in-the-wild, section 5, statement 1: on 8 GPUs, shortest first with
// perfect estimates skips the job of 8 GPUs until the others have ended; first
// come, first served makes them wait for it.
func TestShortestFirst(t *testing.T) {
	jobs := []simtest.Job{{Key: "J1", GPUs: 8, Run: 100}, {Key: "J2", GPUs: 1, Run: 10}, {Key: "J3", GPUs: 4, Run: 20}}
	for _, c := range []struct {
		by   pai.By
		ends [3]float64
		mean float64
	}{{pai.Estimate, [3]float64{120, 10, 20}, 50}, {pai.Submit, [3]float64{100, 110, 120}, 110}} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Make: ordered(c.by)}, jobs...)
		got := [3]float64{run.End("J1"), run.End("J2"), run.End("J3")}
		if got != c.ends || run.MeanJCT() != c.mean {
			t.Errorf("order %v: ends %v, mean JCT %v, want %v and %v", c.by, got, run.MeanJCT(), c.ends, c.mean)
		}
	}
}

// Statement 2: a job that does not fit is skipped, however short.
func TestSkipping(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Make: ordered(pai.Estimate)},
		simtest.Job{Key: "J1", GPUs: 4, Run: 100}, simtest.Job{Key: "A", At: 1, GPUs: 8, Run: 5}, simtest.Job{Key: "B", At: 1, GPUs: 2, Run: 50})
	if run.Start("B") != 1 || run.Start("A") != 100 {
		t.Errorf("B and A start at %v and %v, want 1 and 100", run.Start("B"), run.Start("A"))
	}
}

func part(tasks int32, gpu unit.Milli) *job.Demand {
	var d job.Demand
	d.Roles[0] = job.Role{Tasks: tasks, GPU: gpu}
	return &d
}

// Statement 3: two tasks of half a GPU share one; a third of a tenth does not fit
// there and takes another.
func TestSharing(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 2), Make: ordered(pai.Submit)},
		simtest.Job{Key: "a", Demand: part(1, 500), Run: 10}, simtest.Job{Key: "b", Demand: part(1, 500), Run: 10}, simtest.Job{Key: "c", Demand: part(1, 100), Run: 10})
	for _, want := range []string{"0 start a on n0[0x0.5]", "0 start b on n0[0x0.5]", "0 start c on n0[1x0.1]"} {
		if !slices.Contains(run.Log, want) {
			t.Errorf("no %q in the log:\n%s", want, strings.Join(run.Log, "\n"))
		}
	}
}

// Statement 4: a gang of three instances of two GPUs takes nodes with 4 and 2 free
// as 2 + 1, and waits as a whole for 4 and 1.
func TestGang(t *testing.T) {
	for busy, want := range map[int]string{2: "1 start gang on n0[0-3]+n1[2-3]", 3: ""} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: ordered(pai.Submit)},
			simtest.Job{Key: "all", GPUs: 4, Run: 1}, simtest.Job{Key: "busy", GPUs: busy, Run: 50}, simtest.Job{Key: "gang", At: 1, Demand: part(3, 2000), Run: 10})
		started := slices.ContainsFunc(run.Log, func(line string) bool { return strings.HasPrefix(line, "1 start gang") })
		if started != (want != "") || started && !slices.Contains(run.Log, want) {
			t.Errorf("with %d GPUs of n1 busy, want %q in the log:\n%s", busy, want, strings.Join(run.Log, "\n"))
		}
	}
}

// Statement 5, as orders: jobs of a known group go by its mean of 150 s, of a new
// group by the user's mean of 116.7 s, and of a new user by the mean of all.
func TestPredictionOrder(t *testing.T) {
	group := func(name string) func(*job.Job) { return func(j *job.Job) { j.Hints = &job.Hints{Group: name} } }
	past := []simtest.Job{
		{Key: "g1", GPUs: 4, Run: 100, User: "u", Spec: group("G")}, {Key: "g2", GPUs: 4, Run: 200, User: "u", Spec: group("G")},
		{Key: "h", GPUs: 4, Run: 50, User: "u", Spec: group("H")}, {Key: "w", GPUs: 4, Run: 1, User: "w", Spec: group("W")},
		{Key: "x", GPUs: 4, Run: 100, User: "w", Spec: group("W")},
	}
	last := []simtest.Job{
		{Key: "known", At: 400, GPUs: 4, Run: 10, User: "u", Spec: group("G")}, {Key: "newgroup", At: 400, GPUs: 4, Run: 10, User: "u", Spec: group("N")},
		{Key: "newuser", At: 400, GPUs: 4, Run: 10, User: "n", Spec: group("M")},
	}
	jobs := append(past, last...)
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: ordered(pai.Group), Estimator: predict.None{}}, jobs...)
	// The past runs one after another until 451, so that x is not known at 400.
	if !(run.Start("newuser") < run.Start("newgroup") && run.Start("newgroup") < run.Start("known")) {
		t.Errorf("starts: new user (mean 87.75) %v, new group (116.7) %v, known group (150) %v", run.Start("newuser"), run.Start("newgroup"), run.Start("known"))
	}
	if m := run.Record("known").Note; m.Fields() != `{"predicted":150}` {
		t.Errorf("the known group is predicted to run %s, want 150 s", m.Fields())
	}
}

// A prediction never uses what has not ended yet.
func TestNoPeeking(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: ordered(pai.GroupSize), Estimator: predict.None{}},
		simtest.Job{Key: "a", GPUs: 4, Run: 100, User: "u"}, simtest.Job{Key: "b", At: 1, GPUs: 4, Run: 50, User: "u"}, simtest.Job{Key: "c", At: 2, GPUs: 4, Run: 10, User: "u"})
	if run.Start("b") != 100 || run.Start("c") != 150 {
		t.Errorf("b and c start at %v and %v, want 100 and 150: nothing was known when they came", run.Start("b"), run.Start("c"))
	}
}

// mixed is a node of two V100 and one of two T4.
func mixed(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	for _, name := range []string{"V100", "T4"} {
		typ, err := c.AddType(cluster.GPUType{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 2}}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Section 2, reserving and packing: light tasks are packed on low-end machines;
// the high end is opened to them only while no heavy task waits.
func TestReserving(t *testing.T) {
	reserve := config(func(c *pai.Config) { c.By = pai.Submit })
	run := simtest.Go(t, simtest.Config{Cluster: mixed(t), Make: reserve},
		simtest.Job{Key: "l1", GPUs: 2, Run: 100}, simtest.Job{Key: "l2", GPUs: 1, Run: 20},
		simtest.Job{Key: "heavy", At: 1, Demand: part(1, 2000), Run: 10}, simtest.Job{Key: "l3", At: 2, GPUs: 1, Run: 10})
	for _, want := range []string{
		"0 start l1 on n1[0-1]", // light jobs begin on the T4
		"0 start l2 on n0[0]",   // and go on to the V100 while nobody wants them
		"20 start heavy on n0[0-1]",
		"2 wait l3: the GPUs that are free are kept for heavy jobs, and one of them waits",
		"30 start l3 on n0[0]",
	} {
		if !slices.Contains(run.Log, want) {
			t.Errorf("no %q in the log:\n%s", want, strings.Join(run.Log, "\n"))
		}
	}
	// Without a reservation the light job takes the free V100, and the heavy one waits longer.
	run = simtest.Go(t, simtest.Config{Cluster: mixed(t), Make: config(func(c *pai.Config) { c.By, c.Reserve = pai.Submit, nil })},
		simtest.Job{Key: "l1", GPUs: 2, Run: 100}, simtest.Job{Key: "l2", GPUs: 1, Run: 20},
		simtest.Job{Key: "heavy", At: 1, Demand: part(1, 2000), Run: 10}, simtest.Job{Key: "l3", At: 2, GPUs: 1, Run: 30})
	if run.Start("l3") != 2 || run.Start("heavy") != 32 {
		t.Errorf("without a reservation l3 and heavy start at %v and %v, want 2 and 32", run.Start("l3"), run.Start("heavy"))
	}
}

// A heavy job waits for the high end, unless it may overflow.
func TestOverflow(t *testing.T) {
	for overflow, want := range map[bool]float64{false: 100, true: 1} {
		run := simtest.Go(t, simtest.Config{Cluster: mixed(t), Make: config(func(c *pai.Config) { c.Overflow = overflow })},
			simtest.Job{Key: "first", Demand: part(1, 2000), Run: 100}, simtest.Job{Key: "heavy", At: 1, Demand: part(1, 2000), Run: 10})
		if got := run.Start("heavy"); got != want {
			t.Errorf("overflow=%v: starts at %v, want %v", overflow, got, want)
		}
	}
}

// Section 2, load balancing or packing of nodes.
func TestNodeOrder(t *testing.T) {
	for where, want := range map[place.Strategy]string{place.FirstFit: "0 start b on n0[1]", place.WorstFit: "0 start b on n1[0]"} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: config(func(c *pai.Config) { c.By, c.Place = pai.Submit, where })},
			simtest.Job{Key: "a", GPUs: 1, Run: 10}, simtest.Job{Key: "b", GPUs: 1, Run: 10})
		if !slices.Contains(run.Log, want) {
			t.Errorf("%s: no %q in the log:\n%s", where, want, strings.Join(run.Log, "\n"))
		}
	}
}
