package themis_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/policy/themis"
)

// draw makes apps whose value grows with each GPU, by less and less; with scale
// their values are proportional to what they get of a GPU's worth, as those of
// jobs with much work left are.
func draw(t *rapid.T, apps, gpus int) []themis.Bidder {
	var out []themis.Bidder
	for range apps {
		value, gain := 0.0, float64(rapid.IntRange(1, 50).Draw(t, "value"))
		rho := []float64{1e9}
		for range gpus {
			value += gain
			gain *= float64(rapid.IntRange(20, 100).Draw(t, "gain")) / 100
			rho = append(rho, 1/value)
		}
		out = append(out, bidder(rho...))
	}
	return out
}

// weigh gives apps weights, which the auctioneer knows, whatever they bid.
func weigh(t *rapid.T, apps []themis.Bidder) {
	for i := range apps {
		apps[i].Weight = float64(rapid.IntRange(1, 80).Draw(t, "weight")) / 10
	}
}

// value is what an app really has from an award, if it can use parts of GPUs.
func value(real, bid themis.Bidder, a themis.Award) float64 {
	gpus, keep := won(bid, a)
	if gpus == 0 {
		return 1e-9
	}
	return keep / real.Bids[gpus-1].Rho
}

// TestTruthful: no app gains by telling other values than its own (section 5.1,
// theorem of Cole, Gkatzelis and Goel on which it stands): values are homogeneous
// there, so that a part of a win is worth that part.
func TestTruthful(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 6).Draw(t, "gpus")
		apps := draw(t, rapid.IntRange(2, 4).Draw(t, "apps"), gpus)
		weigh(t, apps)
		honest, err := themis.Auction([]int64{int64(gpus)}, apps)
		if err != nil {
			t.Fatal(err)
		}
		lie := slices.Clone(apps)
		lie[0] = draw(t, 1, gpus)[0]
		lie[0].Weight = apps[0].Weight
		after, err := themis.Auction([]int64{int64(gpus)}, lie)
		if err != nil {
			t.Fatal(err)
		}
		if was, now := value(apps[0], apps[0], honest[0]), value(apps[0], lie[0], after[0]); now > was*(1+1e-9) {
			t.Fatalf("app 0 of %v on %d GPUs has %v, and %v when it bids %v", apps, gpus, was, now, lie[0])
		}
	})
}

// TestFairest: before the payment, the split has the greatest product of values, each
// to the power of its weight,
// of all splits, which is checked by trying them all. So it is Pareto
// efficient. The part that an app keeps is above 0 and at most 1. No more is
// given out than there is.
func TestFairest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 5).Draw(t, "gpus")
		apps := draw(t, rapid.IntRange(1, 3).Draw(t, "apps"), gpus)
		weigh(t, apps)
		awards, err := themis.Auction([]int64{int64(gpus)}, apps)
		if err != nil {
			t.Fatal(err)
		}
		got, used := 0.0, int64(0)
		for i, a := range awards {
			n, keep := won(apps[i], a)
			if keep <= 0 || keep > 1 {
				t.Fatalf("app %d keeps %v", i, keep)
			}
			used += n
			got -= apps[i].Weight * math.Log(rho(apps[i], int(n)))
		}
		if best := most(apps, gpus); got < best-1e-9*math.Abs(best) || used > int64(gpus) {
			t.Fatalf("%v on %d GPUs: a product of exp(%v) with %d GPUs, could be exp(%v)", apps, gpus, got, used, best)
		}
	})
}

func rho(b themis.Bidder, gpus int) float64 {
	if gpus == 0 {
		return b.Rho
	}
	return b.Bids[gpus-1].Rho
}

// most is the greatest product of values, as a logarithm.
func most(apps []themis.Bidder, gpus int) float64 {
	if len(apps) == 0 {
		return 0
	}
	best := math.Inf(-1)
	for n := range gpus + 1 {
		best = max(best, most(apps[1:], gpus-n)-apps[0].Weight*math.Log(rho(apps[0], n)))
	}
	return best
}
