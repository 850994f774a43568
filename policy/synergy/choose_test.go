package synergy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// asking is a job of one task that is no gang of whole GPUs or asks for cores.
func asking(key string, gpu unit.Milli, cores int, run, at float64) simtest.Job {
	var d job.Demand
	d.Roles[0] = job.Role{Tasks: 1, GPU: gpu, CPU: unit.Milli(cores) * unit.One}
	return simtest.Job{Key: key, Demand: &d, Run: run, At: at}
}

// waits tells whether a line of the log says why a job waits.
func waits(r *simtest.Run, job, why string) bool {
	return slices.ContainsFunc(r.Log, func(line string) bool { return strings.Contains(line, " wait "+job+": "+why) })
}

// Jobs that need parts of GPUs share them, between rounds and in them, and nobody is
// stopped while there is room for all.
func TestParts(t *testing.T) {
	run, _ := play(t, nodes(t, 1, 2, 6, 125), with(LAS, Tune),
		asking("a", 500, 1, 1000, 0), asking("b", 500, 1, 1000, 0), one("gnmt", 1000))
	if run.Preemptions() != 0 || run.Start("b") != 0 || run.Start("gnmt") != 0 || run.End("gnmt") != 1000 {
		t.Errorf("%d preemptions, b starts at %v, gnmt at %v and ends at %v\n%s", run.Preemptions(), run.Start("b"), run.Start("gnmt"), run.End("gnmt"), strings.Join(run.Log, "\n"))
	}
	run, _ = play(t, nodes(t, 1, 1, 3, 125), with(FIFO, Tune), asking("a", 500, 1, 1000, 0), asking("b", 500, 1, 1000, 1), asking("c", 500, 1, 1000, 2))
	if run.Preemptions() != 0 || run.Start("b") != 1 || run.Start("c") != 1000 || run.End("c") != 2000 {
		t.Errorf("%d preemptions, b starts at %v, c at %v\n%s", run.Preemptions(), run.Start("b"), run.Start("c"), strings.Join(run.Log, "\n"))
	}
	// The next in order needs a whole GPU: those with parts of it make room at once.
	run, _ = play(t, nodes(t, 1, 1, 3, 125), with(LAS, Tune), asking("a", 500, 1, 1000, 0), asking("b", 500, 1, 1000, 0), one("gnmt", 900))
	if run.Start("gnmt") != 300 {
		t.Errorf("gnmt starts at %v\n%s", run.Start("gnmt"), strings.Join(run.Log, "\n"))
	}
}

// A job that needs no GPU does not wait for one, nor for a round.
func TestNoGPU(t *testing.T) {
	run, _ := play(t, nodes(t, 1, 1, 12, 250), with(FIFO, Tune), one("gnmt", 1000), asking("cpu", 0, 1, 100, 10))
	if run.Start("cpu") != 10 {
		t.Errorf("it starts at %v", run.Start("cpu"))
	}
}

// A job whose cores cannot be divided has them at the expense of who has more than its
// share, who stays where it is.
func TestRoomForOthers(t *testing.T) {
	run, b := play(t, small(t), with(FIFO, Tune), one("alexnet", 3000), asking("half", 500, 2, 100, 10))
	if run.Start("half") != 300 || !waits(run, "half", "GPUs would do") || run.Preemptions() != 0 || b.alloc["alexnet"].Shares[0].Device != 0 {
		t.Errorf("half a GPU starts at %v\n%s", run.Start("half"), strings.Join(run.Log, "\n"))
	}
	pinned := one("alexnet", 3000)
	pinned.Spec = func(j *job.Job) { j.Stop = job.Pinned }
	run, _ = play(t, small(t), with(FIFO, Tune), pinned, asking("half", 500, 2, 100, 10))
	if run.Start("half") != 300 {
		t.Errorf("beside a job that must not be stopped it starts at %v\n%s", run.Start("half"), strings.Join(run.Log, "\n"))
	}
}

// A job that asks for more cores than its share goes when it is its turn, however many
// smaller ones come after it.
func TestNobodyStarves(t *testing.T) {
	jobs := []simtest.Job{{Key: "x", Model: "gnmt", GPUs: 1, Run: 400}, asking("big", 1000, 12, 100, 1)}
	for i := range 8 {
		jobs = append(jobs, simtest.Job{Key: string(rune('a' + i)), Model: "gnmt", GPUs: 1, Run: 700, At: float64(2 + 300*i)})
	}
	for _, share := range []Share{Tune, Opt, Proportional} {
		run, _ := play(t, small(t), with(FIFO, share), jobs...)
		if run.Start("big") != 600 || !waits(run, "a", "GPUs would do") {
			t.Errorf("share %d: it starts at %v\n%s", share, run.Start("big"), strings.Join(run.Log, "\n"))
		}
	}
}

// The GPUs that a job accepts are its own in its turn: those that take any leave them.
func TestTypes(t *testing.T) {
	c := cluster.New()
	for _, n := range []struct {
		name string
		gpus int
	}{{"V100", 4}, {"A100", 2}} {
		typ, err := c.AddType(cluster.GPUType{Name: n.name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: n.gpus}}, CPU: 12_000, Memory: gib(250)}); err != nil {
			t.Fatal(err)
		}
	}
	typed := job.GPUs(2)
	typed.Types = "A100"
	gnmt := func(key string, at float64) simtest.Job {
		return simtest.Job{Key: key, Model: "gnmt", GPUs: 2, Run: 2000, At: at}
	}
	run, _ := play(t, c, with(LAS, Tune), gnmt("x", 0), gnmt("y", 0), simtest.Job{Key: "typed", Demand: &typed, Run: 1000, At: 1}, simtest.Job{Key: "again", Demand: &typed, Run: 1000, At: 1}, gnmt("z", 2))
	if run.Start("typed") != 300 || !waits(run, "again", "jobs of higher priority") || waits(run, "again", "GPUs would do") {
		t.Errorf("it starts at %v\n%s", run.Start("typed"), strings.Join(run.Log, "\n"))
	}
}

// A job that has once waited for too long goes first from then on, not only for
// a round.
func TestStarves(t *testing.T) {
	cfg := with(SRTF, Tune)
	cfg.Starves = 10 * time.Minute
	jobs := []simtest.Job{{Key: "long", Model: "gnmt", GPUs: 4, Run: 900}}
	for i := range 9 {
		jobs = append(jobs, simtest.Job{Key: string(rune('a' + i)), Model: "gnmt", GPUs: 4, Run: 300, At: float64(300 * i)})
	}
	run, _ := play(t, small(t), cfg, jobs...)
	if run.Start("long") != 900 || run.End("long") != 1800 {
		t.Errorf("it runs from %v to %v\n%s", run.Start("long"), run.End("long"), strings.Join(run.Log, "\n"))
	}
}
