package astraea_test

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/astraea"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

const minute = 60.0

func terms(d time.Duration) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := astraea.NewConfig()
		c.Term = d
		return c.Policy()
	}
}

// Section 3.2, the example of three jobs: Job1 of 6 GPUs, Job2 and Job3 of 3, each
// of 40 minutes, in terms of 10 on 6 GPUs. Job1 has terms 1, 4, 7 and 8, the
// others the rest; all three have had 120 GPU-minutes by the end of the sixth.
func TestThreeJobs(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 6), Make: terms(10 * time.Minute)},
		simtest.Job{Key: "Job1", GPUs: 6, Run: 40 * minute}, simtest.Job{Key: "Job2", GPUs: 3, Run: 40 * minute}, simtest.Job{Key: "Job3", GPUs: 3, Run: 40 * minute})
	for key, want := range map[string]float64{"Job1": 80, "Job2": 60, "Job3": 60} {
		if got := run.End(key) / minute; got != want {
			t.Errorf("%s ends at minute %v, want %v", key, got, want)
		}
	}
	// Stops: Job1 at 10, Job2 and Job3 at 30, Job1 at 40.
	if n := run.Preemptions(); n != 4 {
		t.Errorf("%d preemptions, want 4: renewed terms cost none\n%v", n, run.Log)
	}
}

func two(t *testing.T) *tenant.Tree {
	t.Helper()
	tree := tenant.NewTree(0)
	for _, name := range []string{"T1", "T2"} {
		if _, err := tree.Add(name, tenant.Root, 0, 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// Section 4.3 (lending): T2 uses all 8 GPUs while T1, of the same quota, is idle for
// an hour. Then T1 gets every term that ends until both have had the same, which
// takes another hour.
func TestLending(t *testing.T) {
	var jobs []simtest.Job
	for i := range 16 {
		j := simtest.Job{Key: string(rune('a' + i)), Tenant: "T2", GPUs: 1, Run: 10 * 3600}
		if i >= 8 {
			j.Tenant, j.At = "T1", 3600
		}
		jobs = append(jobs, j)
	}
	had := services{at: map[time.Duration][2]float64{}}
	simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 8), Tenants: two(t), Make: terms(15 * time.Minute), Sinks: []engine.Sink{had},
	}, jobs...)
	for at, want := range map[time.Duration][2]float64{
		60 * time.Minute: {0, 28800}, 90 * time.Minute: {14400, 28800}, 120 * time.Minute: {28800, 28800}, 150 * time.Minute: {36000, 36000},
	} {
		if got := had.at[at]; got != want {
			t.Errorf("after %v: T1 and T2 have had %v GPU-seconds, want %v", at, got, want)
		}
	}
}

// services is the GPU-seconds that T1 and T2 have had at each moment of an event.
type services struct{ at map[time.Duration][2]float64 }

func (s services) Event(ev *eventlog.Event, st *state.State) {
	var sum [2]float64
	for i := range st.Jobs() {
		r := st.Record(job.ID(i))
		k := 0
		if r.Job.Tenant == "T2" {
			k = 1
		}
		sum[k] += r.ServiceAt(max(ev.Time, r.Since))
	}
	s.at[ev.Time] = sum
}

// apart is how far at most any job was from its fair part of three GPUs among five
// jobs, in GPU-seconds, while all five were there.
type apart struct {
	until time.Duration
	most  float64
}

func (a *apart) Event(ev *eventlog.Event, st *state.State) {
	if ev.Time > a.until || st.Jobs() < 5 {
		return
	}
	for i := range st.Jobs() {
		r := st.Record(job.ID(i))
		a.most = max(a.most, math.Abs(r.ServiceAt(max(ev.Time, r.Since))-0.6*ev.Time.Seconds()))
	}
}

// Section 4.2, free GPUs are offered again and again: the large job a is the poorest
// of its tenant and does not fit beside b, which stays; d, which fits, waits until
// it is poorer. a has had 36000 of 37200 GPU-seconds by then, d 900 of 900, and a
// gains 4/3 a second, d 1: 900/(900 + t) = 36000/(37200 + 4/3 t) at t = 31.03 s.
func TestOvertakes(t *testing.T) {
	stays := func(j *job.Job) { j.Stop = job.Pinned }
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: terms(15 * time.Minute)},
		simtest.Job{Key: "a", GPUs: 4, Run: 20000}, simtest.Job{Key: "b", GPUs: 1, At: 9000, Run: 10000, Spec: stays},
		simtest.Job{Key: "d", GPUs: 1, At: 9000, Run: 1500})
	// 900 s of 1500 are done by 9900, when a stands before d; the rest takes 600 more.
	if got, want := run.End("d"), 9900+31.034483+600; math.Abs(got-want) > 0.001 {
		t.Errorf("d ends at %v, want %v\n%v", got, want, run.Log)
	}
}

// TestEqualJobs: jobs that are alike have had the same, to within a lease.
func TestEqualJobs(t *testing.T) {
	var jobs []simtest.Job
	for i := range 5 {
		jobs = append(jobs, simtest.Job{Key: string(rune('a' + i)), GPUs: 1, Run: 3600})
	}
	far := &apart{until: 5000 * time.Second}
	simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 3), Make: terms(time.Minute), Sinks: []engine.Sink{far}}, jobs...)
	if far.most == 0 || far.most > 60 {
		t.Errorf("a job was %v GPU-seconds from its fair part, want at most a lease of 60", far.most)
	}
}
