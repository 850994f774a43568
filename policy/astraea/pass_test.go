package astraea

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// pass serves on so many free GPUs, in terms of 900 s, and returns who was taken.
func pass(free float64, turns ...turn) (took []job.ID) {
	phases(turns, 900, func(c *candidate) bool {
		if c.demand > free {
			return false
		}
		free -= c.demand
		took = append(took, c.job.ID)
		return true
	})
	return took
}

func of(n int, gpus, rho float64) candidate {
	return candidate{job: sched.Job{ID: job.ID(n)}, demand: gpus, rho: rho}
}

// The two-phase pass of algorithm 1 by hand: 8 GPUs, T1 at 0.5 and T2 at 0.95 of
// 7200 GPU-seconds. T1's poorest job brings T1 to 1.0, T2's brings T2 to 1.45, and
// then nothing is left.
func TestTwoPhases(t *testing.T) {
	for _, c := range []struct {
		third float64 // GPUs of T2's job
		want  []job.ID
	}{
		{4, []job.ID{2, 3}},
		{6, []job.ID{2, 1}}, // it does not fit, T2 is out, and T1 has its other job
	} {
		t1 := turn{tenant: 1, had: 3600, fair: 7200, jobs: []candidate{of(2, 4, 0.3), of(1, 2, 0.6)}}
		t2 := turn{tenant: 2, had: 6840, fair: 7200, jobs: []candidate{of(3, c.third, 0.9)}}
		if got := pass(8, t1, t2); !slices.Equal(got, c.want) {
			t.Errorf("with %v GPUs for j3: %v, want %v", c.third, got, c.want)
		}
	}
}

// TestNotPassedOver: a job is never passed over for another of its tenant that is
// richer.
func TestNotPassedOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var turns []turn
		owner, place := map[job.ID]int{}, map[job.ID]int{}
		for k := range rapid.IntRange(1, 4).Draw(t, "tenants") {
			x := turn{had: float64(rapid.IntRange(0, 9).Draw(t, "had")) * 1000, fair: 5000}
			for range rapid.IntRange(1, 5).Draw(t, "jobs") {
				x.jobs = append(x.jobs, of(len(owner), float64(rapid.IntRange(1, 4).Draw(t, "gpus")), float64(rapid.IntRange(0, 9).Draw(t, "rho"))))
				owner[job.ID(len(owner))] = k
			}
			slices.SortStableFunc(x.jobs, func(a, b candidate) int { return cmp.Compare(a.rho, b.rho) })
			for i, c := range x.jobs {
				place[c.job.ID] = i
			}
			turns = append(turns, x)
		}
		next := map[int]int{}
		for _, id := range pass(float64(rapid.IntRange(0, 16).Draw(t, "free")), turns...) {
			if k := owner[id]; place[id] != next[k] {
				t.Fatalf("tenant %d: its job number %d is served before number %d", k, place[id], next[k])
			}
			next[owner[id]]++
		}
	})
}
