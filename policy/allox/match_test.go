package allox

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/solve/assign"
)

// three are the jobs of the spec's examples: times on a GPU and on a CPU node.
func three() [][]float64 { return [][]float64{{2, 3}, {4, 10}, {6, 7}} }

// Acceptance 1 and 2: the matching with both machines free, and with the GPU busy
// until 3.
func TestMatching(t *testing.T) {
	for _, c := range []struct {
		free []float64
		want []Spot
		sum  float64
	}{
		{[]float64{0, 0}, []Spot{{0, 2}, {0, 1}, {1, 1}}, 15},
		{[]float64{3, 0}, []Spot{{1, 2}, {0, 1}, {1, 1}}, 20},
	} {
		p := Problem{Free: c.free, Kind: []int{0, 1}, Time: three()}
		got, sum := p.Solve()
		if !slices.Equal(got, c.want) || sum != c.sum {
			t.Errorf("free at %v: %v, sum %v; want %v, %v", c.free, got, sum, c.want, c.sum)
		}
	}
}

// best is the least sum of completion times over all ways to spread the jobs:
// on each machine the shortest goes first.
func best(p *Problem, on []int) float64 {
	if j := len(on); j < len(p.Time) {
		least := math.Inf(1)
		for i := range p.Free {
			if !math.IsInf(p.Time[j][p.Kind[i]], 1) && (p.Forbids == nil || !p.Forbids(j, i)) {
				least = min(least, best(p, append(on, i)))
			}
		}
		return least
	}
	sum := 0.0
	for i, now := range p.Free {
		var times []float64
		for j, at := range on {
			if at == i {
				times = append(times, p.Time[j][p.Kind[i]])
			}
		}
		slices.Sort(times)
		for _, t := range times {
			now += t
			sum += now
		}
	}
	return sum
}

// realised is the sum of completion times when every machine runs its queue.
func realised(p *Problem, spots []Spot) float64 {
	sum := 0.0
	for i, now := range p.Free {
		var line []int
		for j, s := range spots {
			if s.Machine == i {
				line = append(line, j)
			}
		}
		slices.SortFunc(line, func(a, b int) int { return spots[b].Last - spots[a].Last })
		for _, j := range line {
			now += p.Time[j][p.Kind[i]]
			sum += now
		}
	}
	return sum
}

// The matching is optimal against every other way, has no gaps, and its sum is that of
// the completions which it leads to.
func TestMatchingOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.IntRange(1, 3).Draw(t, "kinds")
		p := Problem{}
		for range rapid.IntRange(1, 4).Draw(t, "machines") {
			p.Free = append(p.Free, float64(rapid.SampledFrom([]int{0, 0, 1, 5, 30}).Draw(t, "free")))
			p.Kind = append(p.Kind, rapid.IntRange(0, kinds-1).Draw(t, "kind"))
		}
		for range rapid.IntRange(1, 6).Draw(t, "jobs") {
			times := make([]float64, kinds)
			for k := range times {
				if times[k] = float64(rapid.IntRange(0, 12).Draw(t, "time")); times[k] == 12 {
					times[k] = math.Inf(1)
				}
			}
			times[p.Kind[0]] = float64(rapid.IntRange(0, 12).Draw(t, "time on the first"))
			p.Time = append(p.Time, times)
		}
		forbidden := rapid.IntRange(-1, len(p.Free)-1).Draw(t, "forbidden") // to odd jobs
		if forbidden > 0 {
			p.Forbids = func(j, i int) bool { return j%2 == 1 && i == forbidden }
		}
		if rapid.Bool().Draw(t, "alike") {
			for i, k := range p.Kind {
				if i == forbidden && p.Forbids != nil {
					k = kinds
				}
				p.Alike = append(p.Alike, k)
			}
		}
		spots, sum := p.Solve()
		if want := best(&p, nil); sum != want {
			t.Fatalf("%+v: sum %v of %v, the least is %v", p, sum, spots, want)
		}
		if got := realised(&p, spots); got != sum {
			t.Fatalf("%+v: %v leads to %v, not %v", p, spots, got, sum)
		}
		for i := range p.Free {
			var lasts []int
			for _, s := range spots {
				if s.Machine == i {
					lasts = append(lasts, s.Last)
				}
			}
			slices.Sort(lasts)
			for k, last := range lasts {
				if last != k+1 {
					t.Fatalf("machine %d has spots %v", i, lasts)
				}
			}
		}
	})
}

// The matching of many jobs costs what an assignment to every spot of every machine costs
// that knows of no groups.
func TestMatchingAgainstAssignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds, n := rapid.IntRange(1, 4).Draw(t, "kinds"), rapid.IntRange(1, 30).Draw(t, "jobs")
		p := Problem{}
		for range rapid.IntRange(1, 12).Draw(t, "machines") {
			p.Free = append(p.Free, float64(rapid.SampledFrom([]int{0, 0, 1, 5, 30, 100}).Draw(t, "free")))
			p.Kind = append(p.Kind, rapid.IntRange(0, kinds-1).Draw(t, "kind"))
			p.Alike = append(p.Alike, 2*p.Kind[len(p.Kind)-1]+rapid.IntRange(0, 1).Draw(t, "sort"))
		}
		forbidden := rapid.IntRange(0, 3).Draw(t, "forbidden")
		p.Forbids = func(j, i int) bool { return (j+p.Alike[i])%4 < forbidden }
		for range n {
			times := make([]float64, kinds)
			for k := range times {
				times[k] = float64(rapid.IntRange(0, 40).Draw(t, "time"))
			}
			p.Time = append(p.Time, times)
		}
		var cost []float64
		for j := range n {
			for i, free := range p.Free {
				for k := range n {
					if c := free + float64(k+1)*p.Time[j][p.Kind[i]]; p.Forbids(j, i) {
						cost = append(cost, math.Inf(1))
					} else {
						cost = append(cost, c)
					}
				}
			}
		}
		want, err := assign.Min(n, n*len(p.Free), cost)
		if err != nil {
			t.Fatal(err)
		}
		spots, sum := p.Solve()
		placed := 0
		for j, s := range spots {
			if s.Machine != None {
				placed++
				if p.Forbids(j, s.Machine) {
					t.Fatalf("job %d is on machine %d", j, s.Machine)
				}
			}
		}
		if sum != want.Cost || placed != want.Pairs {
			t.Fatalf("%d jobs for %v, by assignment %d for %v", placed, sum, want.Pairs, want.Cost)
		}
	})
}

// A job that can run nowhere has no spot.
func TestNowhere(t *testing.T) {
	p := Problem{Free: []float64{0}, Kind: []int{0}, Time: [][]float64{{math.Inf(1)}, {3}}}
	got, sum := p.Solve()
	if sum != 3 || got[0].Machine != None || got[1] != (Spot{0, 1}) {
		t.Errorf("%v, %v", got, sum)
	}
	if got, _ := (&Problem{Time: [][]float64{{}}}).Solve(); got[0].Machine != None {
		t.Errorf("without machines: %v", got)
	}
}

// ladder is so many jobs on a tenth as many machines of each kind, two thirds of them
// busy.
func ladder(jobs, kinds int) *Problem {
	r := rand.New(rand.NewPCG(1, uint64(jobs*10+kinds)))
	p := &Problem{}
	for k := range kinds {
		for i := range jobs / 10 {
			free := 0.0
			if i%3 > 0 {
				free = math.Round(1e12 * r.Float64())
			}
			p.Free, p.Kind = append(p.Free, free), append(p.Kind, k)
		}
	}
	for range jobs {
		size := 1e12 * math.Exp(2*r.NormFloat64())
		var times []float64
		for k := range kinds {
			times = append(times, math.Round(size/(0.3+r.Float64())/float64(1+k)))
		}
		p.Time = append(p.Time, times)
	}
	return p
}
