package perf_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// sends is a job that sends in bursts in each iteration.
func sends(t testing.TB, id job.ID, iteration time.Duration, bursts string) *job.Job {
	t.Helper()
	b, err := job.ParseBursts(bursts)
	if err != nil {
		t.Fatal(err)
	}
	return &job.Job{ID: id, Hints: &job.Hints{Iteration: iteration, Bursts: b}}
}

// shifted is an allocation with a beat.
func shifted(a *cluster.Alloc, period, shift time.Duration) *cluster.Alloc {
	a.Beat = cluster.Beat{Period: period, Shift: shift}
	return a
}

// TestBursts: acceptance G of CASSINI's specification. Two jobs send 5 GB/s (40 Gbit/s) for half of each iteration
// of 100 ms over an uplink of 6.25 GB/s (50 Gbit/s). At once, both get 25 Gbit/s, so that 2 Gbit take 80 ms and an
// iteration 130 ms; half an iteration apart, 100 ms.
func TestBursts(t *testing.T) {
	const ms = time.Millisecond
	const slow, fast = "0s-50ms@5", "60ms-61ms@0.1"
	for name, k := range map[string]struct {
		bursts [2]string
		shifts [2]time.Duration
		want   [2]float64
	}{
		"at once":               {[2]string{slow, slow}, [2]time.Duration{0, 0}, [2]float64{1.3, 1.3}},
		"in turns":              {[2]string{slow, slow}, [2]time.Duration{0, 50 * ms}, [2]float64{1, 1}},
		"both by as much":       {[2]string{slow, slow}, [2]time.Duration{30 * ms, 80 * ms}, [2]float64{1, 1}},
		"half of it at once":    {[2]string{slow, "25ms-75ms@5"}, [2]time.Duration{0, 0}, [2]float64{1.15, 1.15}}, // 25 ms of each at 25 Gbit/s take 40 ms
		"in turns of their own": {[2]string{slow, "50ms-100ms@5"}, [2]time.Duration{0, 0}, [2]float64{1, 1}},
		"slow enough together":  {[2]string{"0s-50ms@3", "0s-50ms@3.25"}, [2]time.Duration{0, 0}, [2]float64{1, 1}},
		"too fast for the link": {[2]string{"0s-50ms@12.5", fast}, [2]time.Duration{0, 0}, [2]float64{1.5, 1}},
	} {
		c := racks(t, 2, 2, 1, 6.25, 1)
		n := perf.NewNetwork()
		for i := range 2 {
			n.Enter(sends(t, job.ID(i), 100*ms, k.bursts[i]), c, shifted(on(c, cluster.DeviceID(i), cluster.DeviceID(2+i)), 100*ms, k.shifts[i]))
		}
		for i := range 2 {
			if got, ok := n.Takes(job.ID(i)); !ok || math.Abs(got-k.want[i]) > 1e-3 {
				t.Errorf("%s: iterations of job %d take %v times as long, want %v", name, i, got, k.want[i])
			}
		}
	}
}

// TestBurstsOfAll: an iteration beside others never takes less than alone, and comes to an end. Who entered first makes
// no difference, and jobs that leave leave no trace.
func TestBurstsOfAll(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		c := racks(tt, 3, 3, 2, rapid.SampledFrom([]float64{2, 5, 6.25, 20}).Draw(t, "uplink"), 1)
		n, again := perf.NewNetwork(), perf.NewNetwork()
		var jobs []*job.Job
		var allocs []*cluster.Alloc
		for i := range rapid.IntRange(1, 8).Draw(t, "jobs") {
			iteration := time.Duration(rapid.IntRange(10, 200).Draw(t, "ms")) * time.Millisecond
			from := time.Duration(rapid.IntRange(0, 9).Draw(t, "from")) * iteration / 10
			j := &job.Job{ID: job.ID(i), Hints: &job.Hints{Iteration: iteration, Bursts: job.Bursts{{From: from, To: from + iteration/10, GBps: rapid.Float64Range(0.1, 15).Draw(t, "GB/s")}}}}
			if rapid.IntRange(0, 3).Draw(t, "sends always") == 0 {
				j.Hints = &job.Hints{Sensitive: true}
			}
			a := on(c, cluster.DeviceID(rapid.IntRange(0, 5).Draw(t, "device")), cluster.DeviceID(rapid.IntRange(6, 17).Draw(t, "other")))
			if rapid.Bool().Draw(t, "told") {
				a.Beat = cluster.Beat{Period: iteration + time.Duration(rapid.IntRange(0, 5).Draw(t, "longer"))*time.Millisecond, Shift: time.Duration(rapid.IntRange(0, 9).Draw(t, "shift")) * iteration / 10}
			}
			jobs, allocs = append(jobs, j), append(allocs, a)
			n.Enter(j, c, a)
		}
		n.Changed(nil)
		gone := rapid.IntRange(0, len(jobs)-1).Draw(t, "gone")
		n.Leave(job.ID(gone))
		for i := len(jobs) - 1; i >= 0; i-- {
			if i != gone {
				again.Enter(jobs[i], c, allocs[i])
			}
		}
		for i, j := range jobs {
			times, ok := n.Takes(j.ID)
			if other, same := again.Takes(j.ID); ok != same || math.Abs(times-other) > 1e-9 {
				t.Fatalf("job %d: %v, and %v in another order", i, times, other)
			}
			if ok != (i != gone && j.Hints.Iteration > 0) {
				t.Fatalf("job %d: known %v", i, ok)
			}
			if rate, sending := n.Rate(j.ID); sending && !(rate > 0 && rate <= 15) {
				t.Fatalf("job %d sends %v GB/s", i, rate)
			}
			if ok && !(times >= 1 && times < 100) {
				t.Fatalf("job %d takes %v times as long", i, times)
			}
		}
	})
}
