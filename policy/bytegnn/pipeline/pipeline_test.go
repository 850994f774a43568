package pipeline

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// sage is a plan of two hops whose batches take three core-seconds of sampling and one of training,
// as in acceptance 4 of the specification.
func sage() Plan {
	return Plan{Hops: []Hop{{0.25, 0.5, 0}, {0.75, 1.25, 0}}, Assemble: 0.25, Train: 0.9, Update: 0.1}
}

// Acceptance 4: of 16 cores 12 sample where sampling takes three times as long as training.
func TestBalanced(t *testing.T) {
	if got := Balanced(16*unit.One, unit.One, 3, 1); got != 12*unit.One {
		t.Errorf("%v of 16 cores sample, want 12", got)
	}
	if got := Balanced(1800, 100, 3, 1); got != 1400 && got != 1300 {
		t.Errorf("%v of 1.8 cores sample, want about 1.35", got)
	}
	if got := Balanced(2*unit.One, unit.One, 1000, 1); got != unit.One {
		t.Errorf("training has no core: %v of 2 sample", got)
	}
}

// Acceptance 4, simulated: with 8 of 16 cores for sampling 2.667 batches are made a second, and with
// the controller nearly four. Its split comes to 12 and stays beside it, also from either end.
func TestConverges(t *testing.T) {
	fixed, err := Simulate(Config{Plan: sage(), Cores: 16, Batches: 400, Mode: Fixed})
	if err != nil || math.Abs(fixed.Rate-8/3.) > 0.05 {
		t.Fatalf("half of the cores each: %+v, %v", fixed.Rate, err)
	}
	for _, start := range []int{0, 1, 15} {
		r, err := Simulate(Config{Plan: sage(), Cores: 16, Batches: 800, Start: start})
		if err != nil {
			t.Fatal(err)
		}
		if r.Rate < 0.95*4 || r.Rate > 4.2 {
			t.Errorf("from %d cores: %v batches a second, want nearly 4", start, r.Rate)
		}
		sum, late := 0.0, r.Samples[len(r.Samples)/2:]
		for _, s := range late {
			sum += float64(s.Split)
		}
		if mean := sum / float64(len(late)); math.Abs(mean-12) > 1 {
			t.Errorf("from %d cores: %v sample on average in the second half", start, mean)
		}
	}
}

// The pipeline beats one batch after the other by what the specification computes: the rate with
// balanced cores over that of a batch that has all cores, of which it can use few at a time.
func TestAgainstCoupled(t *testing.T) {
	for _, cores := range []int{4, 8, 16} {
		coupled := Config{Plan: sage(), Cores: cores, Batches: 200, Mode: Coupled}
		one, err := Simulate(coupled)
		if err != nil {
			t.Fatal(err)
		}
		piped := Config{Plan: sage(), Cores: cores, Batches: 200 * cores}
		both, err := Simulate(piped)
		if err != nil {
			t.Fatal(err)
		}
		if want := coupled.Foretold(0); math.Abs(one.Rate-want) > 0.01*want {
			t.Errorf("%d cores, coupled: %v batches a second, foretold %v", cores, one.Rate, want)
		}
		want := piped.Foretold(int(Balanced(unit.Milli(cores)*unit.One, unit.One, 3, 1)/unit.One)) / coupled.Foretold(0)
		if got := both.Rate / one.Rate; math.Abs(got-want) > 0.07*want {
			t.Errorf("%d cores: the pipeline is %v times as fast, foretold %v", cores, got, want)
		}
	}
}

// Acceptance 6: bottom levels 3 and 5 of batch 1 and 9 of batch 2 run as 5, 3, 9.
func TestOrder(t *testing.T) {
	op := func(level float64, out int) *Operator { return &Operator{Level: level, Out: out} }
	all := []Ready{{1, op(3, 0), 1}, {2, op(9, 0), 2}, {1, op(5, 0), 3}, {2, op(9, 2), 4}, {2, op(9, 2), 5}}
	slices.SortFunc(all, Before)
	var made []int
	for _, r := range all {
		made = append(made, r.Made)
	}
	if want := []int{3, 1, 4, 5, 2}; !slices.Equal(made, want) {
		t.Errorf("they run as %v, want %v", made, want)
	}
}

// The DAG of two hops: features of a hop and the next sample wait for a sample, the assembly for all
// features, and training for it. Bottom levels add up along the longest way.
func TestOperators(t *testing.T) {
	p := sage()
	ops := p.Operators()
	var names []string
	for i, o := range ops {
		names = append(names, o.Name)
		for _, n := range o.Needs {
			if n >= i {
				t.Errorf("%s comes before %s, for which it waits", o.Name, ops[n].Name)
			}
		}
	}
	if want := []string{"sample-1", "feature-1", "sample-2", "feature-2", "assemble", "train", "update"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if ops[0].Level != 0.25+0.75+1.25+0.25+1 || ops[0].Out != 2 || !slices.Equal(ops[4].Needs, []int{1, 3}) {
		t.Errorf("%+v, %+v", ops[0], ops[4])
	}
}

// Acceptance 7, over random plans, cores, limits and modes: all batches are trained on, also with one
// in flight. The queue is no longer than its band and what is in flight. Memory keeps to its cap, and
// no core is idle beside an operator that may run.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cost := rapid.Float64Range(0.01, 3)
		c := Config{
			Plan:  Plan{Assemble: cost.Draw(t, "assemble"), Train: cost.Draw(t, "train"), Update: 0.01},
			Cores: rapid.IntRange(2, 12).Draw(t, "cores"), Batches: rapid.IntRange(2, 200).Draw(t, "batches"),
			Mode: rapid.SampledFrom([]Mode{Piped, Fixed, Coupled}).Draw(t, "mode"), Borrow: rapid.Bool().Draw(t, "borrow"), Memory: 1,
		}
		for range rapid.IntRange(1, 3).Draw(t, "hops") {
			c.Plan.Hops = append(c.Plan.Hops, Hop{cost.Draw(t, "sample"), cost.Draw(t, "feature"), rapid.SampledFrom([]float64{0, 0, 2}).Draw(t, "remote")})
		}
		if rapid.Bool().Draw(t, "capped") {
			c.Cap = float64(rapid.IntRange(1, 10).Draw(t, "cap"))
		}
		r, err := Simulate(c)
		if err != nil {
			t.Fatal(err)
		}
		if r.Busy > 1+1e-9 || r.Rate <= 0 {
			t.Fatalf("%+v", r)
		}
		for _, s := range r.Samples {
			if s.Queue > 4+32 || c.Cap > 0 && s.Memory > c.Cap || s.Split < 1 || s.Split >= c.Cores || s.Ready > 0 {
				t.Fatalf("%+v of %+v", s, c)
			}
		}
	})
	for _, bad := range []Config{{}, {Plan: sage()}, {Plan: sage(), Cores: 2}, {Plan: sage(), Cores: 2, Batches: 2, Start: 2}, {Plan: Plan{Hops: []Hop{{}}}, Cores: 2, Batches: 2}, {Plan: sage(), Cores: 2, Batches: 2, Memory: 2, Cap: 1}} {
		if _, err := Simulate(bad); err == nil {
			t.Errorf("%+v is let through", bad)
		}
	}
}
