package asrpt

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

// completion is when a job is done on the virtual machine.
type completion struct {
	id job.ID
	at time.Duration
}

// work has the virtual machine work on jobs that come at some moments, with some work, to the end.
func work(come, size []time.Duration) (out []completion) {
	m := newMachine()
	note := func(id job.ID, at time.Duration) { out = append(out, completion{id, at}) }
	for i := range come {
		m.advance(come[i], note, func(job.ID) {})
		m.add(job.ID(i), size[i], func(job.ID) {})
	}
	for {
		at, ok := m.completion()
		if !ok {
			return out
		}
		m.advance(at, note, func(job.ID) {})
	}
}

// TestVirtual is acceptance 1: sizes 100, 30, 20 and 50; the second job keeps the machine at 10, when it
// has as much left as the third.
func TestVirtual(t *testing.T) {
	got := work([]time.Duration{0, 0, seconds(10), seconds(20)}, []time.Duration{seconds(100), seconds(30), seconds(20), seconds(50)})
	want := []completion{{1, seconds(30)}, {2, seconds(50)}, {3, seconds(100)}, {0, seconds(200)}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestVirtualNeverIdles is acceptance 5: the machine is never idle while there is work, so that the last job
// is done when all work is, and it is SRPT: the completions of a step-by-step simulation.
func TestVirtualNeverIdles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "jobs")
		come, size := make([]time.Duration, n), make([]time.Duration, n)
		for i := range n {
			come[i] = time.Duration(rapid.IntRange(0, 5).Draw(t, "gap"))
			if i > 0 {
				come[i] += come[i-1]
			}
			size[i] = time.Duration(rapid.IntRange(1, 9).Draw(t, "size"))
		}
		got := work(come, size)
		left, running := slices.Clone(size), -1
		var want []completion
		for now := time.Duration(0); len(want) < n; now++ {
			for i := range n { // whoever has come, in order
				if come[i] == now && (running < 0 || left[i] < left[running]) {
					running = i
				}
			}
			if running < 0 {
				for i := range n {
					if come[i] <= now && left[i] > 0 && (running < 0 || left[i] < left[running]) {
						running = i
					}
				}
			}
			if running < 0 {
				continue
			}
			if left[running]--; left[running] == 0 {
				want = append(want, completion{job.ID(running), now + 1})
				running = -1
				for i := range n {
					if come[i] <= now && left[i] > 0 && (running < 0 || left[i] < left[running]) {
						running = i
					}
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// example is the jobs of acceptance 1 to 3.
func example() []simtest.Job {
	return []simtest.Job{{Key: "J1", GPUs: 4, Run: 100}, {Key: "J4", GPUs: 2, Run: 60}, {Key: "J2", At: 10, GPUs: 2, Run: 40}, {Key: "J3", At: 20, GPUs: 1, Run: 200}}
}

func run(t *testing.T, c simtest.Config, set func(*Config), jobs ...simtest.Job) *simtest.Run {
	t.Helper()
	c.Make = func() (sched.Policy, error) {
		own := NewConfig()
		if set != nil {
			set(own)
		}
		return own.Policy()
	}
	return simtest.Go(t, c, jobs...)
}

// TestReleases is acceptance 2 and 3: the same jobs released when they are done on the virtual machine, and
// at once.
func TestReleases(t *testing.T) {
	for _, c := range []struct {
		release Release
		want    map[string]float64 // ends
	}{
		{OnVirtual, map[string]float64{"J1": 400, "J4": 90, "J2": 90, "J3": 300}},
		{AtOnce, map[string]float64{"J1": 350, "J4": 60, "J2": 50, "J3": 250}},
	} {
		r := run(t, simtest.Config{Cluster: simtest.Nodes(1, 4)}, func(o *Config) { o.Release = c.release }, example()...)
		for key, at := range c.want {
			if got := r.End(key); got != at {
				t.Errorf("release %d: %s ends at %v, want %v", c.release, key, got, at)
			}
		}
	}
}

// slow is a model in which gangs of the model "heavy" run at half their speed when they are on several
// nodes.
type slow struct{}

func (slow) of(j *job.Job, spread bool) float64 {
	if spread && j.Model == "heavy" {
		return 0.5
	}
	return 1
}

func (m slow) Speed(j *job.Job, _ *cluster.Cluster, a *cluster.Alloc) float64 {
	for i := range a.Pieces {
		if a.Pieces[i].Node != a.Pieces[0].Node {
			return m.of(j, true)
		}
	}
	return m.of(j, false)
}

func (m slow) On(j *job.Job, _ *cluster.Cluster, _ cluster.TypeID, tasks int, spread bool) float64 {
	return m.of(j, spread && tasks > 1)
}

var _ perf.Typed = slow{}

// TestHold: two nodes of four have two and three GPUs taken. A heavy gang of three fits on both together,
// at half its speed. It waits for the first node to be free, or for Tau of its run time where it is
// spread; a gang that does not mind starts at once. Others may start while it is held, but not on what is
// kept for it.
func TestHold(t *testing.T) {
	before := []simtest.Job{{Key: "a", GPUs: 3, Run: 50}, {Key: "b", GPUs: 2, Run: 1000}}
	start := func(set func(*Config), j simtest.Job, more ...simtest.Job) *simtest.Run {
		return run(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Model: slow{}, Speeds: slow{}}, func(c *Config) {
			if c.Release = AtOnce; set != nil {
				set(c)
			}
		}, append(append(slices.Clone(before), j), more...)...)
	}
	heavy := simtest.Job{Key: "c", At: 10, GPUs: 3, Run: 1000, Model: "heavy"}
	light := heavy
	light.Model = "light"
	if at := start(nil, light).Start("c"); at != 10 {
		t.Errorf("a gang that does not mind starts at %v, want 10", at)
	}
	if at := start(nil, heavy).Start("c"); at != 50 {
		t.Errorf("a heavy gang starts at %v, want 50, when a node is free", at)
	}
	if at := start(func(c *Config) { c.Tau = 0.01 }, heavy).Start("c"); at != 30 {
		t.Errorf("with tau=0.01 it starts at %v, want 30: it waits for 0.01 of 2000 s", at)
	}
	if at := start(func(c *Config) { c.Theta = 2 }, heavy).Start("c"); at != 10 {
		t.Errorf("with theta=2 it is not heavy, and starts at %v, want 10", at)
	}
	r := start(nil, heavy, simtest.Job{Key: "d", At: 20, GPUs: 1, Run: 1500}, simtest.Job{Key: "e", At: 20, GPUs: 1, Run: 1500}, simtest.Job{Key: "f", At: 20, GPUs: 1, Run: 1500})
	if at := r.Start("c"); at != 50 {
		t.Errorf("with others behind it a heavy gang starts at %v, want 50", at)
	}
}

// TestNoteFields keeps a note as it is.
func TestNoteFields(t *testing.T) {
	if n := NewNote().(*note); n.since >= 0 || n.done >= 0 || n.held >= 0 {
		t.Errorf("an empty note says %+v", n)
	}
}
