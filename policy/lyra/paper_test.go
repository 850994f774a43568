package lyra_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/policy/lyra"
)

// example is the loaned servers of the worked example of reclaiming: S1 to S6 of 8 GPUs, with
// jobs a (S1 6, S2 6), b (S3 8), c (S4 8, S5 2), and e (S5 2, S6 8).
func example() (jobs [][]lyra.Part, servers []int) {
	return [][]lyra.Part{{{1, 6}, {2, 6}}, {{3, 8}}, {{4, 8}, {5, 2}}, {{5, 2}, {6, 8}}}, []int{1, 2, 3, 4, 5, 6}
}

const a, b, c, e = 0, 1, 2, 3

// TestReclaimExample: who is preempted for so many servers, by the cost of a server and then
// its collateral damage (section 4; table of the specification).
func TestReclaimExample(t *testing.T) {
	for want, who := range map[int][]int{1: {c}, 2: {a}, 3: {a, c}, 4: {a, c, e}} {
		jobs, servers := example()
		preempted, vacated := lyra.Reclaim(jobs, servers, want, lyra.Cost, nil)
		if !slices.Equal(preempted, who) || len(vacated) != want {
			t.Errorf("%d servers: preempts %v and vacates %v, not %v", want, preempted, vacated, who)
		}
	}
}

// TestReclaimFewest: by the number of jobs S1 to S4 and S6 are alike, which misses that S1 goes
// with S2: for servers 3 and 4 alone two jobs would be preempted.
func TestReclaimFewest(t *testing.T) {
	jobs, _ := example()
	if who, _ := lyra.Reclaim(jobs, []int{3, 4, 5, 6}, 2, lyra.Fewest, nil); len(who) != 2 {
		t.Errorf("two servers by the number of jobs preempt %v", who)
	}
	if who, _ := lyra.Reclaim(jobs, []int{5, 6}, 1, lyra.Fewest, nil); !slices.Equal(who, []int{e}) {
		t.Errorf("S6 has one job and S5 two: %v", who)
	}
}

// fewest is the least number of jobs whose preemption vacates so many servers.
func fewest(jobs [][]lyra.Part, servers []int, want int) int {
	best := len(jobs)
	for set := range 1 << len(jobs) {
		vacant, n := 0, 0
		for _, s := range servers {
			stays := false
			for j, parts := range jobs {
				stays = stays || set&(1<<j) == 0 && slices.ContainsFunc(parts, func(p lyra.Part) bool { return p.Server == s })
			}
			if !stays {
				vacant++
			}
		}
		for j := range jobs {
			n += set >> j & 1
		}
		if vacant >= want {
			best = min(best, n)
		}
	}
	return best
}

// TestReclaimAgainstBruteForce: on small cases the heuristic vacates exactly what is wanted, and
// preempts hardly more than the least that is possible; the other rules preempt more.
func TestReclaimAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var sums [4]int
	for range 400 {
		var jobs [][]lyra.Part
		servers := []int{0, 1, 2, 3, 4, 5}
		free := []int{8, 8, 8, 8, 8, 8}
		for range 2 + r.IntN(7) {
			var parts []lyra.Part
			for range 1 + r.IntN(3) {
				s := r.IntN(6)
				if g := 1 + r.IntN(8); g <= free[s] && !slices.ContainsFunc(parts, func(p lyra.Part) bool { return p.Server == s }) {
					parts = append(parts, lyra.Part{Server: s, GPUs: g})
					free[s] -= g
				}
			}
			if len(parts) > 0 {
				jobs = append(jobs, parts)
			}
		}
		want := 1 + r.IntN(4)
		least := fewest(jobs, servers, want)
		for rule := lyra.Cost; rule <= lyra.Random; rule++ {
			preempted, vacated := lyra.Reclaim(jobs, servers, want, rule, func(s int) uint64 { return uint64(s*7919+want) % 13 })
			if len(vacated) != want || len(preempted) < least {
				t.Fatalf("rule %d: %v of %v preempted, %v vacated, at least %d are needed", rule, preempted, jobs, vacated, least)
			}
			sums[rule] += len(preempted)
		}
		sums[3] += least
	}
	t.Logf("preempted: cost %d, fewest %d, random %d, least %d", sums[0], sums[1], sums[2], sums[3])
	if float64(sums[0]) > 1.06*float64(sums[3]) || sums[0] > sums[1] || sums[1] > sums[2] {
		t.Errorf("preempted: cost %d, fewest %d, random %d, least %d", sums[0], sums[1], sums[2], sums[3])
	}
}

// TestKnapsackExample is the optimum by capacity. A' has 2 to 3 workers of two GPUs and runs for
// 100 s, B 2 to 6 of one GPU and 20 s, A 2 to 6 of one GPU and 50 s.
func TestKnapsackExample(t *testing.T) {
	first := []lyra.Elastic{{Work: 300, Base: 2, More: 1, Each: 2}, {Work: 120, Base: 2, More: 4, Each: 1}}
	for i, want := range []float64{20, 50, 70, 80, 86, 90} {
		if got := value(t, first, int64(i+1)); math.Abs(got-want) > 1e-9 {
			t.Errorf("capacity %d: %v, not %v", i+1, got, want)
		}
	}
	second := []lyra.Elastic{{Work: 300, Base: 2, More: 4, Each: 1}, {Work: 120, Base: 2, More: 4, Each: 1}}
	if more, err := lyra.Scale(second, []int64{4}); err != nil || !slices.Equal(more, []int{3, 1}) {
		t.Errorf("%v, %v for four GPUs, not three and one", more, err)
	}
	if got := value(t, second, 4); math.Abs(got-110) > 1e-9 {
		t.Errorf("four GPUs are worth %v, not 110", got)
	}
}

// value is the sum of gains of the best division, which is checked to fit.
func value(t interface{ Fatalf(string, ...any) }, jobs []lyra.Elastic, gpus ...int64) (sum float64) {
	more, err := lyra.Scale(jobs, gpus)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for i := range jobs {
		if more[i] < 0 || more[i] > jobs[i].More {
			t.Fatalf("job %d of %+v has %d more", i, jobs[i], more[i])
		}
		gpus[jobs[i].Side] -= int64(more[i] * jobs[i].Each)
		sum += jobs[i].Gain(more[i])
	}
	if slices.Min(gpus) < 0 {
		t.Fatalf("more than there is: %v of %+v", gpus, jobs)
	}
	return sum
}

// TestKnapsackAgainstBruteForce: the division is worth as much as the best of all.
func TestKnapsackAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := make([]lyra.Elastic, rapid.IntRange(0, 5).Draw(t, "jobs"))
		for i := range jobs {
			jobs[i] = lyra.Elastic{
				Work: float64(rapid.IntRange(0, 1000).Draw(t, "work")), Base: rapid.IntRange(1, 4).Draw(t, "base"),
				More: rapid.IntRange(0, 4).Draw(t, "more"), Each: rapid.IntRange(1, 3).Draw(t, "each"), Side: rapid.IntRange(0, 1).Draw(t, "side"),
			}
		}
		gpus := []int64{int64(rapid.IntRange(0, 12).Draw(t, "own")), int64(rapid.IntRange(0, 12).Draw(t, "lent"))}
		var best func(i int, left [2]int64) float64
		best = func(i int, left [2]int64) (most float64) {
			if i == len(jobs) {
				return 0
			}
			for k := 0; k <= jobs[i].More && int64(k*jobs[i].Each) <= left[jobs[i].Side]; k++ {
				rest := left
				rest[jobs[i].Side] -= int64(k * jobs[i].Each)
				most = max(most, jobs[i].Gain(k)+best(i+1, rest))
			}
			return most
		}
		want := best(0, [2]int64(gpus))
		if got := value(t, jobs, slices.Clone(gpus)...); math.Abs(got-want) > 1e-6*(1+want) {
			t.Fatalf("%v, not %v", got, want)
		}
	})
}

// TestLargestKnapsack: the largest program that the paper saw, 354 items and 245 GPUs, and one of
// 500 elastic jobs are solved to the proven optimum, as the number of steps shows.
func TestLargestKnapsack(t *testing.T) {
	for _, size := range []struct{ jobs, gpus int }{{118, 245}, {500, 4000}} {
		r := rand.New(rand.NewPCG(uint64(size.jobs), 1))
		jobs := make([]lyra.Elastic, size.jobs)
		for i := range jobs {
			jobs[i] = lyra.Elastic{Work: 1000 + r.ExpFloat64()*1e5, Base: 2, More: 3, Each: []int{1, 2, 4, 8}[r.IntN(4)]}
		}
		more, err := lyra.Scale(jobs, []int64{int64(size.gpus)})
		if err != nil || slices.Max(more) == 0 {
			t.Error(fmt.Sprint(size), more, err)
		}
	}
}
