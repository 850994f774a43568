package rmixer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/rmixer"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
)

func mib(n int64) unit.Bytes { return unit.Bytes(n) * unit.MiB }

// one is a job that trains a network on one GPU for so many seconds, with the memory
// that is estimated and the memory that it really takes, MiB.
type one struct {
	key, model    string
	at, run       float64
	memory, truth int64
	cpu           float64
	use           float64
	gpus          int
}

// entries turns jobs into a trace.
func entries(jobs []one) []trace.Entry {
	var in job.Interner
	out := make([]trace.Entry, len(jobs))
	for i, o := range jobs {
		d := job.GPUs(max(1, o.gpus))
		d.Roles[0].GPUMemory = mib(o.memory)
		out[i] = trace.Entry{
			Job: job.Job{
				ID: job.ID(i), Key: o.key, Model: o.model, Submit: secs(o.at), Demand: in.Get(d), Retries: -1, Stop: job.Restart,
				Hints: &job.Hints{CPUTime: secs(o.cpu), GPUUse: o.use},
			},
			Truth: trace.Truth{Work: secs(o.run), GPUMemory: mib(o.truth)},
		}
	}
	return out
}

func secs(s float64) time.Duration { return time.Duration(s * 1e9) }

// world plays a trace on machines with so many V100 of 16,160 MiB, with what a world
// changes.
func world(t testing.TB, gpus int, host bool, jobs []trace.Entry, change func(*rmixer.Config), more ...func(*sim.Config)) *simtest.Run {
	t.Helper()
	return simtest.Go(t, simtest.Config{
		Cluster: node(t, 1, gpus, 16160, host), Shared: true, Make: config(change),
		World: func(c *sim.Config) {
			c.Source, c.Measure = trace.FromMemory(slices.Clone(jobs)), true
			for _, f := range more {
				f(c)
			}
		},
	})
}

// starts are the keys of jobs in the order in which they started, those at one
// moment included.
func starts(r *simtest.Run) string {
	var out []string
	for _, line := range r.Log {
		if f := strings.Fields(line); f[1] == "start" {
			out = append(out, f[2])
		}
	}
	return strings.Join(out, " ")
}

// Acceptance 2: an empty device counts as one of compute-intensive jobs, so the
// first of another class is taken, and so on in turn; a tie counts as
// compute-intensive again.
func TestFirstPicks(t *testing.T) {
	jobs := entries([]one{
		{key: "difm1", model: "difm", run: 100, memory: 10}, {key: "difm2", model: "difm", run: 100, memory: 10}, {key: "dcn", model: "dcn", run: 100, memory: 10},
		{key: "dien1", model: "dien", run: 100, memory: 10}, {key: "dien2", model: "dien", run: 100, memory: 10},
	})
	r := world(t, 1, false, jobs, func(*rmixer.Config) {})
	if got := starts(r); got != "dien1 difm1 dien2 difm2 dcn" {
		t.Errorf("started %s", got)
	}
}

// Each job policy on one GPU with two workers, by hand. The jobs, with use, memory
// and class: a 40 % 3000 MiB 1; b 7 % 2000 0; c 5 % 4000 -1; d 27 % 1000 1.
func TestJobPolicies(t *testing.T) {
	jobs := entries([]one{
		{key: "a", model: "difm", run: 100, memory: 3000}, {key: "b", model: "dien", run: 110, memory: 2000},
		{key: "c", model: "dcn", run: 120, memory: 4000}, {key: "d", model: "widedeep", run: 130, memory: 1000},
	})
	for _, c := range []struct {
		jobs rmixer.JobPolicy
		want string
		at   [4]float64 // of a, b, c, d
	}{
		// In order of use a d b c: b (not class 1), then a (not 0); b and a end at 110 and
		// 100: at 100 class 0 runs, d; at 110 class 1 runs, c.
		{rmixer.DyMix, "b a d c", [4]float64{0, 0, 110, 100}},
		// In order of memory c a b d: c, then a (not class -1); at 100 -1 runs: b; at 120
		// 0 runs: d.
		{rmixer.DyType, "c a b d", [4]float64{0, 100, 0, 120}},
		// Front and back in turn of a d b c: a, c; at 100 c is left, taken from the back:
		// front d; at 120 d from the front is left: back b.
		{rmixer.DyArin, "a c d b", [4]float64{0, 120, 0, 100}},
		// The same of c a b d: c, d; at 120 d, from the back, is left: front a; at 130 a,
		// from the front: back b.
		{rmixer.DyMemo, "c d a b", [4]float64{120, 130, 0, 0}},
		// By class, then memory: a d b c; b at 100, c at 130.
		{rmixer.DySequ, "a d b c", [4]float64{0, 100, 130, 0}},
		// As dyType but in rounds: c and a until 120, then b and d.
		{rmixer.Static, "c a b d", [4]float64{0, 120, 0, 120}},
		// As dyMemo but in rounds: c and d until 130, then a and b.
		{rmixer.CoGNN, "c d a b", [4]float64{130, 130, 0, 0}},
		{rmixer.Monolithic, "a b c d", [4]float64{0, 100, 210, 330}},
		{rmixer.MPS, "a b c d", [4]float64{0, 0, 110, 110}},
	} {
		r := world(t, 1, false, jobs, func(cfg *rmixer.Config) { cfg.Jobs, cfg.GPUWorkers = c.jobs, 2 })
		got := [4]float64{r.Start("a"), r.Start("b"), r.Start("c"), r.Start("d")}
		if starts(r) != c.want || got != c.at {
			t.Errorf("policy %d: started %s at %v, want %s at %v", c.jobs, starts(r), got, c.want, c.at)
		}
	}
	orders := map[string]bool{}
	for seed := range 8 {
		r := world(t, 1, false, jobs, func(cfg *rmixer.Config) { cfg.Jobs, cfg.Seed = rmixer.DyRand, seed })
		orders[starts(r)] = true
	}
	if len(orders) < 4 {
		t.Errorf("eight seeds make only %d orders: %v", len(orders), orders)
	}
}

// Each device policy chooses between two GPUs with two workers each, of which by then the
// first runs a large job of little use and the second a small one of much use; but in
// order, the first runs both.
func TestDevicePolicies(t *testing.T) {
	jobs := entries([]one{
		{key: "small", model: "difm", run: 100, memory: 2000, use: 0.4}, {key: "large", model: "difm", run: 100, memory: 6000, use: 0.1},
		{key: "next", at: 10, model: "difm", run: 10, memory: 1000, use: 0.2},
	})
	for by, want := range map[rmixer.DevicePolicy]string{
		rmixer.LeastBooked: "n0[1x", rmixer.MostFree: "n0[1x", rmixer.LeastUse: "n0[0x", rmixer.FewestJobs: "n0[0x", rmixer.InOrder: "n0[1x",
	} {
		r := world(t, 2, false, jobs, func(cfg *rmixer.Config) {
			cfg.Jobs, cfg.Devices, cfg.GPUWorkers, cfg.Idle = rmixer.DySequ, by, 2, 0 // by memory, largest first
		})
		if log := strings.Join(r.Log, "\n"); !strings.Contains(log, "10 start next on "+want) {
			t.Errorf("device policy %d: next does not start on %s\n%s", by, want, log)
		}
	}
}

// Acceptance 3: with 24 jobs, 4 workers and beta 4 processors take their last job
// while fewer than 8 have ended, and only from index 16 on.
func TestProcessorsGate(t *testing.T) {
	var jobs []one
	for i := range 24 {
		jobs = append(jobs, one{key: fmt.Sprint(i), run: 100, cpu: 30, memory: 10, use: float64(50-i) / 100})
	}
	r := world(t, 1, true, entries(jobs), func(c *rmixer.Config) { c.Beta = 4 })
	_, at := started(r)
	ended := func(t float64) int {
		n := 0
		for i := range jobs {
			if r.End(fmt.Sprint(i)) <= t {
				n++
			}
		}
		return n
	}
	cpu := 0
	for _, line := range r.Log {
		f := strings.Fields(line)
		if f[1] != "start" || strings.HasPrefix(f[4], "n0[0") {
			continue
		}
		cpu++
		var i int
		fmt.Sscan(f[2], &i)
		if when := r.Start(f[2]); i < 16 || ended(when) >= 8 {
			t.Errorf("job %d starts on processors at %v, when %d have ended", i, when, ended(when))
		}
	}
	if cpu == 0 || len(at) != 24 {
		t.Errorf("%d of %d jobs ran on processors", cpu, len(at))
	}
}

// Acceptance 5: 1001 MB more in use than booked keeps jobs off a GPU, 999 MB do not.
func TestGuard(t *testing.T) {
	for _, c := range []struct {
		beyond int64
		start  float64
	}{{1001, 100}, {999, 0}} {
		jobs := entries([]one{
			{key: "wrong", model: "dien", run: 100, memory: 2000, truth: 2400 + c.beyond}, {key: "next", at: 5, model: "difm", run: 10, memory: 100},
		})
		r := world(t, 1, false, jobs, func(*rmixer.Config) {})
		want := c.start
		if want == 0 {
			want = 5
		}
		if got := r.Start("next"); got != want {
			t.Errorf("with %d MB more than booked the next job starts at %v, want %v", c.beyond, got, want)
		}
		if why := r.Log; want == 100 && !strings.Contains(strings.Join(why, "\n"), "more memory of GPU 0 of node n0 is in use than is booked, which runs wrong") {
			t.Errorf("no reason tells of it:\n%s", strings.Join(why, "\n"))
		}
	}
}

// An outlier runs out of memory, goes to the front of the list with twice as much
// booked, and ends. One whose memory runs out even alone is told that it can never run.
func TestOutlier(t *testing.T) {
	jobs := entries([]one{
		{key: "a", model: "difm", run: 100, memory: 5000}, {key: "b", model: "difm", run: 100, memory: 5000}, {key: "bad", model: "dien", at: 5, run: 50, memory: 3000, truth: 8000},
		{key: "late", model: "dien", at: 6, run: 10, memory: 3500},
	})
	r := world(t, 1, false, jobs, func(*rmixer.Config) {})
	log := strings.Join(r.Log, "\n")
	if !strings.Contains(log, "5 evict bad") || r.Start("late") != 100 || r.End("bad") != 150 {
		t.Errorf("bad ends at %v, late starts at %v\n%s", r.End("bad"), r.Start("late"), log)
	}
	jobs = entries([]one{{key: "bad", model: "dien", run: 50, memory: 12000, truth: 17000}, {key: "good", at: 1, model: "dien", run: 50, memory: 1000}})
	r = world(t, 1, false, jobs, func(*rmixer.Config) {})
	if rec := r.Record("bad"); rec.Phase != job.Waiting || rec.Reason.Code != job.Impossible || r.End("good") < 0 {
		t.Errorf("bad is %v: %v\n%s", rec.Phase, rec.Reason, strings.Join(r.Log, "\n"))
	}
}

// Batches online: jobs wait until the window from the first on has passed, or until
// there are enough; the list is then put in order again with those that wait.
func TestBatches(t *testing.T) {
	jobs := entries([]one{
		{key: "a", at: 0, run: 100, memory: 10, use: 0.2}, {key: "b", at: 10, run: 100, memory: 10, use: 0.3}, {key: "c", at: 50, run: 100, memory: 10, use: 0.16}, {key: "d", at: 55, run: 100, memory: 10, use: 0.4},
	})
	for _, c := range []struct {
		window time.Duration
		size   int
		at     [4]float64
	}{
		{30 * time.Second, 0, [4]float64{230, 30, 330, 130}}, // b and a close at 30, c and d at 80: b, then d before a
		{time.Hour, 2, [4]float64{210, 10, 310, 110}},
		{time.Hour, 4, [4]float64{255, 155, 355, 55}},
		{0, 0, [4]float64{0, 200, 300, 100}},
	} {
		r := world(t, 1, false, jobs, func(cfg *rmixer.Config) { cfg.Window, cfg.Batch, cfg.GPUWorkers = c.window, c.size, 1 })
		if got := [4]float64{r.Start("a"), r.Start("b"), r.Start("c"), r.Start("d")}; got != c.at {
			t.Errorf("window %v, size %d: starts at %v, want %v", c.window, c.size, got, c.at)
		}
	}
}

// A batch must be closed by time or by number, and who sets neither is told.
func TestNeverClosed(t *testing.T) {
	c := rmixer.NewConfig()
	c.Window = unit.Never
	if _, err := c.Policy(); err == nil || !strings.Contains(err.Error(), "batch-size") {
		t.Errorf("%v", err)
	}
}

// A job says with whom it would share, and what it is short of.
func TestReasons(t *testing.T) {
	jobs := entries([]one{
		{key: "a", run: 100, memory: 6000, use: 0.4}, {key: "b", run: 100, memory: 4000, use: 0.3}, {key: "c", run: 100, memory: 5000, use: 0.2},
	})
	for _, c := range []struct {
		change func(*rmixer.Config)
		want   string
	}{
		{func(*rmixer.Config) {}, "wait c: 5.86GiB are booked for it, but GPU 0 of node n0 has 4.06GiB left, which runs a, b"},
		{func(c *rmixer.Config) { c.GPUWorkers = 2 }, "wait c: no worker of GPU 0 of node n0 is free, which runs a, b"},
		{func(c *rmixer.Config) { c.Jobs = rmixer.MPS; c.GPUWorkers = 2 }, "wait c: waits for the next round, which begins when all that runs has ended"},
		{func(c *rmixer.Config) { c.Window = 30 * time.Second }, "wait c: the next decision is at 30s"},
		{func(c *rmixer.Config) { c.Window, c.Batch = unit.Never, 3 }, "wait c: waits for a batch of 3 jobs; 2 have come"},
	} {
		js := jobs
		if strings.Contains(c.want, "2 have come") {
			js = slices.Clone(jobs)
			js[2].Job.Submit = secs(10)
			c.want = "wait b: waits for a batch of 3 jobs; 2 have come"
		}
		r := world(t, 1, false, js, c.change)
		if log := strings.Join(r.Log, "\n"); !strings.Contains(log, c.want) {
			t.Errorf("want %q in\n%s", c.want, log)
		}
	}
}

// dcn is the model of acceptance 4 as a user writes it: 1041.33 MB with 512 samples.
const dcn = "table fields 1000001x9*26; layers deep 247x512x256x128; layers last 466x1; optimizer adam; params 247; kept 2223; once 466"

// shape is the hints of a job that tells the shape of its model alone.
func shape(t testing.TB, text string) *job.Hints {
	t.Helper()
	s, err := job.ParseShape(text)
	if err != nil {
		t.Fatal(err)
	}
	return &job.Hints{Shape: s}
}

// Acceptance 4, with a job that tells the shapes of its layers: 1249.6 MB are booked for
// it. A GPU of 16,160 MB refuses it beside 14,950 MB and takes it beside 14,900 MB. The
// job is told from what its memory is estimated.
func TestOwnShape(t *testing.T) {
	// Two jobs ask for what is booked / 1.2, together.
	for booked, want := range map[int64]string{
		14950: "wait b: 1.22GiB are booked for it (1.2 x 1041 MiB from the shapes of its layers), but GPU 0 of node n0 has 1.18GiB left, which runs a0, a1",
		14900: "0 start b on n0[0",
	} {
		jobs := entries([]one{{key: "a0", run: 100, use: 0.4}, {key: "a1", run: 100, use: 0.4}, {key: "b", run: 10}})
		d := job.GPUs(1)
		d.Roles[0].GPUMemory = mib(booked) / 2 * 10 / 12
		jobs[0].Job.Demand, jobs[1].Job.Demand = &d, &d
		jobs[2].Job.Batch, jobs[2].Job.Hints = 512, shape(t, dcn)
		r := world(t, 1, false, jobs, func(c *rmixer.Config) { c.ShapeFactor = 1.2 })
		if log := strings.Join(r.Log, "\n"); !strings.Contains(log, want) {
			t.Errorf("beside %d MiB: want %q in\n%s", booked, want, log)
		}
	}
}
