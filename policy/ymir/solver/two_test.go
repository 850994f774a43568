package solver

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// whole is the division without pruning.
func whole(p *Problem, units []unit) (Solution, int) {
	d := division{p: p}
	d.divide(units)
	cells := 0
	for _, s := range d.steps {
		cells += len(s.pick)
	}
	return d.answer(), cells
}

// TestPrunedDivision: what is left out changes no division, also among many equal ones.
func TestPrunedDivision(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 2000 {
		p := random(r, 1+r.IntN(12), r.IntN(40))
		if n%2 == 0 { // costs of few different values, so that many divisions are equal
			for i := range p.Jobs {
				for k, c := range p.Jobs[i].Cost {
					p.Jobs[i].Cost[k] = math.Round(4*c) / 4
				}
				p.Jobs[i].Queued = math.Round(4 * p.Jobs[i].Queued)
			}
		}
		mate := greedy(len(p.Jobs), p.Merges)
		want, _ := whole(p, p.units(mate))
		got, err := TwoStage(p)
		if err != nil {
			t.Fatal(err)
		}
		if got.Cost != want.Cost || !slices.Equal(got.Jobs, want.Jobs) {
			t.Fatalf("%d: %+v\npruned  %+v\nwithout %+v", n, p, got, want)
		}
	}
}

// TestDivisionGrows: the work of a division grows with the number of jobs, not with its
// square, where there are as many more GPUs.
func TestDivisionGrows(t *testing.T) {
	work := func(jobs int) float64 {
		r := rand.New(rand.NewPCG(7, 8))
		p := &Problem{GPUs: 3 * jobs, Sizes: []int{1, 2, 3, 4, 5, 6, 7, 8, 16}}
		for range jobs {
			e := Entity{Queued: 4 + 0.004*r.Float64()}
			fair := 1 + r.Float64()
			for _, s := range p.Sizes {
				e.Cost = append(e.Cost, fair/math.Pow(float64(s), 0.6+0.3*r.Float64()))
			}
			p.Jobs = append(p.Jobs, e)
		}
		units := p.units(greedy(jobs, nil))
		p.prune(units)
		_, cells := whole(p, units)
		return float64(cells)
	}
	if small, large := work(100), work(1000); large > 20*small {
		t.Errorf("%v entries for 100 jobs, %v for 1,000", small, large)
	}
}
