package gandiva

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// Section 2.5.1: who has failed beside one tries the one with the next lowest use.
func TestNextHost(t *testing.T) {
	run := simtest.Go(t, shared(2, speeds{
		"y beside g": 0.4, "g beside y": 0.4, "y beside x": 0.9, "x beside y": 0.9, "x beside g": 0.1, "g beside x": 0.1,
	}), using("x", 3600, 0.2, unit.GiB), using("y", 3600, 0.3, unit.GiB), using("g", 3600, 0.1, unit.GiB))
	var tried []string // y beside g, who uses least; g beside x, since it was tried with y; y beside x, the next one
	for _, line := range lines(run, "start ") {
		if strings.Contains(line, "x0.5") {
			tried = append(tried, strings.Fields(line)[2])
		}
	}
	if got := strings.Join(tried, " "); got != "y g y" {
		t.Errorf("tried %s\n%s", got, strings.Join(run.Log, "\n"))
	}
	has(t, run, "120 start y on n0[1x0.5]", "240 start g on n0[0x0.5]", "360 start y on n0[0x0.5]")
}

// Section 2.5.2: a gang that was spread comes together when there is room, and what
// grew gives way to who comes.
func TestTogether(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(nil)},
		simtest.Job{Key: "a", GPUs: 3, Run: 100}, simtest.Job{Key: "b", GPUs: 3, Run: 1000}, simtest.Job{Key: "c", At: 10, GPUs: 2, Run: 500})
	has(t, run, "10 start c on n0[3]+n1[3]", "120 move c on n0[0-1]")
}

// linear is where twice the GPUs are twice as fast.
var linear = perf.Analytic{Scaling: 1, Spread: 1}

// Section 2.5.4: an elastic job takes what is idle on its server, and gives it back.
func TestGrowShrink(t *testing.T) {
	elastic := job.Demand{Roles: [job.MaxRoles]job.Role{{Tasks: 1, Min: 1, Max: 3, GPU: unit.One}}}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: with(nil), Model: linear},
		simtest.Job{Key: "a", Run: 1000, Demand: &elastic}, simtest.Job{Key: "b", At: 100, GPUs: 3, Run: 50}, simtest.Job{Key: "c", At: 130, GPUs: 1, Run: 1000})
	has(t, run, "60 resize a on n0[0-2]", "100 resize a on n0[0]", "100 start b on n0[1-3]", "150 start c on n0[1]", "180 resize a on n0[0,2-3]")
}

// Section 2.3, departure: who waits for a turn goes where it need not.
func TestRelief(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 2), Make: with(nil)},
		simtest.Job{Key: "a", GPUs: 2, Run: 1000}, simtest.Job{Key: "b", At: 1, GPUs: 1, Run: 10}, simtest.Job{Key: "c", At: 2, GPUs: 1, Run: 10}, simtest.Job{Key: "d", At: 3, GPUs: 2, Run: 1000})
	has(t, run, "3 wait d: waits for its turn on n0", "12 start d on n1[0-1]")
	if n := run.Preemptions(); n != 0 {
		t.Errorf("%d suspensions, want none", n)
	}
}

// Gangs larger than a server have whole servers, and take turns on them.
func TestLargeTurns(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(3, 2), Make: with(nil)},
		simtest.Job{Key: "a", GPUs: 4, Run: 120}, simtest.Job{Key: "b", GPUs: 2, Run: 500}, simtest.Job{Key: "c", GPUs: 4, Run: 120})
	has(t, run, "0 start a on n0[0-1]+n1[0-1]", "0 start b on n2[0-1]", "60 start c on n0[0-1]+n1[0-1]")
	near(t, "the end of a", run.End("a"), 180)
	near(t, "the end of c", run.End("c"), 240)
}

// A job that comes when another's turn has been over for long has the GPU at
// once, although by their notes both go to the end of the list at the same
// moment.
func TestComesAndGoesFirst(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: with(nil)},
		simtest.Job{Key: "a", GPUs: 1, Run: 600}, simtest.Job{Key: "b", At: 137, GPUs: 1, Run: 30})
	near(t, "the start of b", run.Start("b"), 137)
	near(t, "the end of a", run.End("a"), 630)
}

// Jobs of a higher priority have longer turns, if they shall.
func TestWeights(t *testing.T) {
	jobs := []simtest.Job{{Key: "a", GPUs: 1, Run: 600, Spec: func(j *job.Job) { j.Priority = 1 }}, {Key: "b", GPUs: 1, Run: 600}}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: with(func(c *Config) { c.Weights = true })}, jobs...)
	near(t, "the end of the first, with two turns of three", run.End("a"), 840)
	near(t, "the end of the second", run.End("b"), 1200)
}

// A frozen job goes on where its memory is.
func TestFrozen(t *testing.T) {
	freeze := func(j *job.Job) { j.Stop = job.Freeze }
	var jobs []simtest.Job
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		jobs = append(jobs, simtest.Job{Key: key, GPUs: 1, Run: 300, Spec: freeze})
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 2), Make: with(nil)}, jobs...)
	for _, j := range jobs {
		if end := run.End(j.Key); end < 300 || end > 900 {
			t.Errorf("%s ends at %v\n%s", j.Key, end, strings.Join(run.Log, "\n"))
		}
	}
}

// Acceptance F: nobody is suspended where every job has a server for itself, and jobs
// move only at the moments of introspection.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "jobs")
		roomy := rapid.Bool().Draw(t, "roomy")
		var jobs []simtest.Job
		at := 0
		for i := range n {
			at += rapid.IntRange(0, 100).Draw(t, "gap")
			jobs = append(jobs, simtest.Job{
				Key: string(rune('a' + i)), At: float64(at), GPUs: rapid.IntRange(1, 4).Draw(t, "gpus"),
				Run: float64(rapid.IntRange(1, 600).Draw(t, "run")),
			})
		}
		nodes := 2
		if roomy {
			nodes = n
		}
		run, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(nodes, 4), Make: with(func(c *Config) { c.Every = 70 * time.Second })}, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		if roomy && run.Preemptions() > 0 {
			t.Fatalf("suspended without need:\n%s", strings.Join(run.Log, "\n"))
		}
		for _, line := range lines(run, " move ") {
			at, _, _ := strings.Cut(line, " ")
			if d, err := time.ParseDuration(at + "s"); err != nil || d%(70*time.Second) != 0 {
				t.Fatalf("%s: moved in between\n%s", line, strings.Join(run.Log, "\n"))
			}
		}
	})
}

// A job that can never run keeps nobody from growing.
func TestGrowsBesideTheImpossible(t *testing.T) {
	elastic := job.Demand{Roles: [job.MaxRoles]job.Role{{Tasks: 1, Min: 1, Max: 4, GPU: unit.One}}}
	parts := job.Demand{Roles: [job.MaxRoles]job.Role{{Tasks: 9, GPU: unit.One / 2}, {Tasks: 1, GPU: unit.One}}}
	for name, never := range map[string]simtest.Job{"a gang": {Key: "never", GPUs: 9, Run: 10}, "another one": {Key: "never", Demand: &parts, Run: 10}} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: with(nil), Model: linear}, simtest.Job{Key: "a", Run: 1000, Demand: &elastic}, never)
		if has(t, run, "60 resize a on n0[0-3]"); !run.Record("never").Reason.Never() {
			t.Errorf("%s: waits, as %v", name, run.Record("never").Reason)
		}
	}
}

// typed is a cluster of nodes of so many GPUs of a type each.
func typed(nodes ...map[string]int) *cluster.Cluster {
	c := cluster.New()
	for _, n := range nodes {
		var spec cluster.NodeSpec
		for _, name := range []string{"K", "V"} {
			if n[name] > 0 {
				typ, _ := c.AddType(cluster.GPUType{Name: name}) // cannot fail: of a name it is the same one
				spec.GPUs = append(spec.GPUs, cluster.GPUs{Type: typ, Count: n[name]})
			}
		}
		if _, err := c.AddNode(spec); err != nil {
			panic(err)
		}
	}
	return c
}

// needs is a demand for GPUs of a type.
func needs(typ string, gpus int32) *job.Demand {
	return &job.Demand{Types: typ, Roles: [job.MaxRoles]job.Role{{Tasks: gpus, GPU: unit.One}}}
}

// The reason of a job that finds no server counts only GPUs that it could have.
func TestReasons(t *testing.T) {
	cfg := simtest.Config{Cluster: typed(map[string]int{"V": 2}, map[string]int{"K": 4}), Make: with(nil)}
	run := simtest.Go(t, cfg, simtest.Job{Key: "a", Run: 100, Demand: needs("V", 1)}, simtest.Job{Key: "b", Run: 10, Demand: needs("V", 2)})
	has(t, run, "0 wait b: needs 2 GPUs; 1 free", "100 start b on n0[0-1]")

	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(nil)}, simtest.Job{Key: "a", GPUs: 6, Run: 100}, simtest.Job{Key: "b", GPUs: 1, Run: 10})
	has(t, run, "0 start a on n0[0-3]+n1[0-1]", "0 wait b: too few GPUs are free: 0; 2 more are idle on nodes that larger gangs have whole", "100 start b on n0[0]")
}

// A job that may have only some of the GPUs of each node lives nowhere, and has those
// that are idle.
func TestMixedNodes(t *testing.T) {
	cfg := simtest.Config{Cluster: typed(map[string]int{"K": 2, "V": 2}), Make: with(nil)}
	run := simtest.Go(t, cfg, simtest.Job{Key: "a", Run: 100, Demand: needs("V", 2)}, simtest.Job{Key: "b", Run: 100, Demand: needs("V", 1)}, simtest.Job{Key: "c", GPUs: 2, Run: 100})
	has(t, run, "0 start a on n0[2-3]", "0 start c on n0[0-1]", "0 wait b: needs 1 GPU; 0 free", "100 start b on n0[2]")
}

// grows is a job that can make use of up to four GPUs.
func grows(key string, gpus int32, at, run float64) simtest.Job {
	return simtest.Job{Key: key, At: at, Run: run, Demand: &job.Demand{Roles: [job.MaxRoles]job.Role{{Tasks: gpus, Min: gpus, Max: 4, GPU: unit.One}}}}
}

// Section 2.5.3: a server is not emptied where that makes a job slower: one that has
// grown there, or one that has grown where the others would go.
func TestGrownStay(t *testing.T) {
	cfg := simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(nil), Model: linear}
	run := simtest.Go(t, cfg, simtest.Job{Key: "x", GPUs: 4, Run: 100}, grows("a", 1, 0, 5000), simtest.Job{Key: "y", At: 101, GPUs: 3, Run: 1000})
	has(t, run, "60 resize a on n1[0-3]", "101 start y on n0[0-2]")
	if n := len(lines(run, " resize ")) + len(lines(run, " move ")); n != 1 {
		t.Errorf("%d changes, want none but that it grows\n%s", n, strings.Join(run.Log, "\n"))
	}

	cfg = simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(nil), Model: linear}
	run = simtest.Go(t, cfg, grows("a", 2, 0, 500), simtest.Job{Key: "b", At: 61, GPUs: 1, Run: 1000})
	has(t, run, "60 resize a on n0[0-3]", "61 start b on n1[0]")
	if n := len(lines(run, " resize ")) + len(lines(run, " move ")); n != 1 {
		t.Errorf("%d changes, want none but that it grows\n%s", n, strings.Join(run.Log, "\n"))
	}
}

// A job that has grown gives GPUs back to a gang that comes together.
func TestTogetherBesideGrown(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(nil), Model: linear, Costs: perf.Costs{Base: perf.Cost{Start: 20 * time.Second}}},
		grows("e", 1, 0, 5000), simtest.Job{Key: "y", At: 1, GPUs: 3, Run: 5000}, simtest.Job{Key: "a", At: 2, GPUs: 2, Run: 33}, simtest.Job{Key: "c", At: 50, GPUs: 2, Run: 1000})
	has(t, run, "50 start c on n0[3]+n1[3] delay=20", "60 resize e on n0[0-2]", "120 move c on n0[1-2]")
}

// A gang on whole nodes takes turns there again when one of them was cordoned for a
// while; in the meantime nobody takes turns with it.
func TestCordonedTurns(t *testing.T) {
	cordon := func(at time.Duration, health cluster.Health) eventlog.Event {
		return eventlog.Event{Time: at * time.Second, Kind: eventlog.NodeSet, Node: 1, Health: health}
	}
	world := func(c *sim.Config) {
		c.Script = []eventlog.Event{cordon(10, cluster.Cordoned), cordon(110, cluster.Up)}
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(nil), World: world},
		simtest.Job{Key: "a", GPUs: 8, Run: 600}, simtest.Job{Key: "b", At: 20, GPUs: 8, Run: 600})
	has(t, run, "20 wait b: needs 8 GPUs; 0 free", "110 wait b: waits for its turn on n0")
	if at := run.Start("b"); at < 110 || at > 171 {
		t.Errorf("b starts at %v, want a turn as soon as both nodes are up again", at)
	}

	// who has parts of more nodes than it needs has none of them whole
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(3, 4), Make: with(nil)},
		simtest.Job{Key: "x", GPUs: 3, Run: 10}, simtest.Job{Key: "y", GPUs: 2, Run: 10}, simtest.Job{Key: "z", GPUs: 1, Run: 10},
		simtest.Job{Key: "a", GPUs: 6, At: 1, Run: 500}, simtest.Job{Key: "w", GPUs: 2, At: 20, Run: 10})
	has(t, run, "1 start a on n0[3]+n1[2-3]+n2[1-3]", "20 start w on n0[0-1]")
}

// A job that has lost its server to one that takes no turns gets another server
// at once, and waits for its turn there.
func TestUnassigned(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 2), Make: with(func(c *Config) { c.Every = time.Hour })},
		simtest.Job{Key: "a", GPUs: 2, Run: 600}, simtest.Job{Key: "b", GPUs: 2, Fails: []float64{20}, Run: 600},
		simtest.Job{Key: "c", At: 5, GPUs: 1, Run: 600, Spec: func(j *job.Job) { j.Stop = job.Restart }})
	has(t, run, "20 start c on n1[0]", "20 wait b: waits for its turn on n0", "60 start b on n0[0-1]")

	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 2), Make: with(func(c *Config) { c.Every = time.Hour })},
		simtest.Job{Key: "a", GPUs: 2, Run: 600}, simtest.Job{Key: "b", GPUs: 2, Run: 600}, simtest.Job{Key: "b2", GPUs: 2, Run: 600}, simtest.Job{Key: "b3", GPUs: 2, Run: 600},
		simtest.Job{Key: "c", At: 5, GPUs: 1, Run: 600, Spec: func(j *job.Job) { j.Stop = job.Restart }})
	has(t, run, "60 start c on n0[0]", "60 wait b2: waits for its turn on n1", "60.000000001 wait a: waits for its turn on n1")
}

// GPUs by which a job has grown are taken back for good if they have not made
// it faster; otherwise it keeps them.
func TestGrowthIsJudged(t *testing.T) {
	job := func() simtest.Job { return grows("a", 1, 0, 1000) }
	vain := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: with(nil), Model: perf.Analytic{Scaling: -0.5, Spread: 1}}, job())
	has(t, vain, "60 resize a on n0[0-3]", "120 resize a on n0[0]")
	if n := len(lines(vain, " resize ")); n != 2 {
		t.Errorf("%d changes, want two\n%s", n, strings.Join(vain.Log, "\n"))
	}
	near(t, "the end, with a minute at half of the speed", vain.End("a"), 1030)

	good := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: with(nil), Model: perf.Analytic{Scaling: 0.5, Spread: 1}}, job())
	near(t, "the end, at twice the speed", good.End("a"), 60+470)
}

// A pair that no longer gains is taken apart, and not tried again.
func TestPairsAreJudgedAnew(t *testing.T) {
	cfg := shared(1, speeds{"a beside b": 0.8, "b beside a": 0.8})
	world := cfg.World
	cfg.World = func(c *sim.Config) {
		world(c)
		for id := range job.ID(2) {
			c.Script = append(c.Script, eventlog.Event{Time: 400 * time.Second, Kind: eventlog.Speed, Job: id, Speed: 0.5})
		}
	}
	run := simtest.Go(t, cfg, using("a", 600, 0.5, 8*unit.GiB), using("b", 600, 0.6, 8*unit.GiB))
	has(t, run, "120 start a on n0[0x0.5]", "420 preempt a kept=294: packed with b both get on no faster than in turns")
	if n := len(lines(run, "x0.5")); n != 2 { // b halved, a beside it
		t.Errorf("%d trials\n%s", n, strings.Join(run.Log, "\n"))
	}
}

// A job that has its turn but not the memory, which frozen jobs keep, is told
// so.
func TestFrozenMemory(t *testing.T) {
	cfg := shared(1, nil)
	cfg.World = nil
	var jobs []simtest.Job
	for _, key := range []string{"a", "b", "c", "d"} {
		demand := job.GPUs(1)
		demand.Roles[0].GPUMemory = 7 * unit.GiB
		jobs = append(jobs, simtest.Job{Key: key, Run: 200, Demand: &demand, Spec: func(j *job.Job) { j.Stop = job.Freeze }})
	}
	run := simtest.Go(t, cfg, jobs...)
	has(t, run, "0 wait d: waits for its turn on n0", "120 wait c: frozen jobs keep the memory of the GPUs that are free", "120 wait d: frozen jobs keep the memory of the GPUs that are free")
}

// Section 2.5.3: servers are emptied also while somebody waits: for whom, above all.
func TestDefragmentedForWhoWaits(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(func(c *Config) { c.Spread = false })},
		simtest.Job{Key: "a", GPUs: 3, Run: 600}, simtest.Job{Key: "b", GPUs: 1, Run: 600}, simtest.Job{Key: "c", At: 10, GPUs: 4, Run: 100})
	has(t, run, "10 wait c: needs 4 GPUs of one node; the best node has 3 free", "60 move b on n0[3]", "60.000000001 start c on n1[0-3]")
}

// A job that finds no server for long enough takes turns with jobs of another size.
func TestPatience(t *testing.T) {
	jobs := []simtest.Job{{Key: "gang", At: 100, GPUs: 4, Run: 60}}
	for i := range 60 { // five at a time want four GPUs
		jobs = append(jobs, simtest.Job{Key: "s" + strconv.Itoa(i), At: float64(i * 40), GPUs: 1, Run: 200})
	}
	slices.SortStableFunc(jobs, func(a, b simtest.Job) int { return cmp.Compare(a.At, b.At) })
	for _, c := range []struct {
		patience         time.Duration
		earliest, latest float64
	}{{unit.Never, 2400, 1e4}, {5 * time.Minute, 420, 420 + 180}, {0, 120, 120 + 180}} { // nine want four GPUs: a turn of three
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: with(func(k *Config) { k.Patience = c.patience })}, jobs...)
		if at := run.Start("gang"); at < c.earliest || at > c.latest {
			t.Errorf("with a patience of %v the gang starts at %v, want %v to %v", c.patience, at, c.earliest, c.latest)
		}
	}
}

// For a gang larger than any node others make way: they go where they have least to
// wait, and it takes turns with none of them.
func TestMakeWay(t *testing.T) {
	jobs := []simtest.Job{{Key: "a", GPUs: 4, Run: 2000}, {Key: "b", GPUs: 2, Run: 2000}, {Key: "c", GPUs: 1, Run: 2000}, {Key: "gang", At: 10, GPUs: 8, Run: 300}, {Key: "same", At: 700, GPUs: 8, Run: 300}}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(3, 4), Make: with(nil)}, jobs...)
	has(t, run, "10 wait gang: needs 8 GPUs; 5 free", "660 start gang on n1[0-3]+n2[0-3]",
		"660 preempt b kept=660: makes room for job gang, which goes first", "660 preempt c kept=660: makes room for job gang, which goes first",
		"700 wait same: waits for its turn on n1")
	if n := len(lines(run, " start gang ")); n < 2 {
		t.Errorf("the gang begins %d times, want it to take turns with the other one of its size", n)
	}

	// where those who live there cannot go anywhere, they stay
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(nil)}, simtest.Job{Key: "a", GPUs: 1, Run: 2000}, simtest.Job{Key: "gang", At: 10, GPUs: 8, Run: 300})
	near(t, "the start of a gang that needs all nodes", run.Start("gang"), 2000)
}

// The rate alone of a host is not what it was beside the guest that has just left it, so
// that each pair which does not gain is taken apart.
func TestHostsAreMeasuredAlone(t *testing.T) {
	truth := speeds{}
	jobs := []simtest.Job{using("a", 1200, 0.2, unit.GiB), using("b", 1200, 0.3, unit.GiB), using("c", 1200, 0.4, unit.GiB), using("d", 1200, 0.5, unit.GiB)}
	for _, j := range jobs {
		for _, o := range jobs {
			truth[j.Key+" beside "+o.Key] = 0.5
		}
	}
	run := simtest.Go(t, shared(1, truth), jobs...)
	tried := 0
	for _, line := range lines(run, " memo ") {
		switch {
		case strings.Contains(line, fmt.Sprintf(`"link":%d`, trying)):
			tried++
		case strings.Contains(line, fmt.Sprintf(`"link":%d`, paired)):
			t.Errorf("%s: stays packed", line)
		}
	}
	if tried < 6 {
		t.Errorf("%d trials, want one of each two jobs at least", tried)
	}
}
