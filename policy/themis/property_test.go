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

func offer(gpus int) themis.Offer { return themis.Offer{Free: []int64{int64(gpus)}} }

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
		honest, err := themis.Auction(offer(gpus), apps)
		if err != nil {
			t.Fatal(err)
		}
		lie := slices.Clone(apps)
		lie[0] = draw(t, 1, gpus)[0]
		lie[0].Weight = apps[0].Weight
		after, err := themis.Auction(offer(gpus), lie)
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
		awards, err := themis.Auction(offer(gpus), apps)
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

// onMachines is an offer of a few machines.
func onMachines(t *rapid.T, machines, most int) themis.Offer {
	o := themis.Offer{Free: []int64{0}, Rooms: [][]int64{nil}}
	for range machines {
		room := int64(rapid.IntRange(1, most).Draw(t, "room"))
		o.Free[0], o.Rooms[0] = o.Free[0]+room, append(o.Rooms[0], room)
	}
	return o
}

// local is an app whose GPUs are worth more on one machine than on several.
func local(t *rapid.T, gpus int) themis.Bidder {
	apart := draw(t, 1, gpus)[0]
	for _, b := range apart.Bids {
		if rapid.Bool().Draw(t, "together") && b.Need > 1 {
			better := float64(rapid.IntRange(30, 95).Draw(t, "better")) / 100
			apart.Bids = append(apart.Bids, themis.Bid{Need: b.Need, Pieces: []int64{b.Need}, Rho: b.Rho * better})
		}
	}
	apart.Rho = 2 * apart.Bids[0].Rho
	return apart
}

// splits tries all bids of all apps, and all machines for each piece, and returns the
// greatest product of values, as a logarithm.
func splits(o themis.Offer, apps []themis.Bidder, free int64) float64 {
	if len(apps) == 0 {
		return 0
	}
	a := &apps[0]
	best := splits(o, apps[1:], free)
	for _, b := range a.Bids {
		gain := a.Weight * math.Log(a.Rho/b.Rho)
		switch {
		case b.Need > free:
		case len(b.Pieces) == 0:
			best = max(best, gain+splits(o, apps[1:], free-b.Need))
		default:
			for m := range o.Rooms[0] {
				if o.Rooms[0][m] >= b.Need {
					o.Rooms[0][m] -= b.Need
					best = max(best, gain+splits(o, apps[1:], free-b.Need))
					o.Rooms[0][m] += b.Need
				}
			}
		}
	}
	return best
}

// TestFairestOnMachines: a split among few apps that bid for GPUs of machines has the greatest
// product of values of all that the machines have room for, which is checked by trying them
// all. An app keeps the difference that it makes to the others.
func TestFairestOnMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, apps := onMachines(t, rapid.IntRange(1, 3).Draw(t, "machines"), 4), []themis.Bidder(nil)
		for range rapid.IntRange(1, 3).Draw(t, "apps") {
			apps = append(apps, local(t, rapid.IntRange(1, 4).Draw(t, "gpus")))
		}
		weigh(t, apps)
		awards, err := themis.Auction(o, apps)
		if err != nil {
			t.Fatal(err)
		}
		gain := func(i int) float64 {
			if k := awards[i].Bid; k >= 0 {
				return apps[i].Weight * math.Log(apps[i].Rho/apps[i].Bids[k].Rho)
			}
			return 0
		}
		sum := 0.0
		for i := range apps {
			sum += gain(i)
		}
		if best := splits(o, apps, o.Free[0]); math.Abs(sum-best) > 1e-9*(1+best) {
			t.Fatalf("%v on %v: a product of exp(%v), could be exp(%v)", apps, o, sum, best)
		}
		for i, a := range awards {
			others := slices.Delete(slices.Clone(apps), i, i+1)
			want := 1.0
			if a.Bid >= 0 {
				want = min(1, math.Exp(-(splits(o, others, o.Free[0])-(sum-gain(i)))/apps[i].Weight))
			}
			if math.Abs(a.Keep-want) > 1e-9 {
				t.Fatalf("%v on %v: app %d keeps %v, want %v", apps, o, i, a.Keep, want)
			}
		}
	})
}

// TestManyOnMachines: of many bids, too, what is won fits the machines, and whoever has won
// nothing finds no room for the least of its bids.
func TestManyOnMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, apps := onMachines(t, rapid.IntRange(2, 5).Draw(t, "machines"), 5), []themis.Bidder(nil)
		for range rapid.IntRange(8, 14).Draw(t, "apps") {
			apps = append(apps, local(t, rapid.IntRange(2, 5).Draw(t, "gpus")))
		}
		weigh(t, apps)
		awards, err := themis.Auction(o, apps)
		if err != nil {
			t.Fatal(err)
		}
		free, pieces := o.Free[0], []int64(nil)
		for i, a := range awards {
			if a.Bid >= 0 {
				free -= apps[i].Bids[a.Bid].Need
				pieces = append(pieces, apps[i].Bids[a.Bid].Pieces...)
			}
		}
		if free < 0 || !packs(o.Rooms[0], pieces) {
			t.Fatalf("%v on %v is won, %v on one machine each", o.Free[0]-free, o.Rooms[0], pieces)
		}
		for i, a := range awards {
			if a.Bid < 0 && apps[i].Bids[0].Need <= free {
				t.Fatalf("app %d of %v wins nothing, though %d GPUs are left", i, apps, free)
			}
		}
	})
}

// packs tries all machines for each piece.
func packs(rooms, pieces []int64) bool {
	if len(pieces) == 0 {
		return true
	}
	for m := range rooms {
		if rooms[m] >= pieces[0] {
			rooms[m] -= pieces[0]
			ok := packs(rooms, pieces[1:])
			if rooms[m] += pieces[0]; ok {
				return true
			}
		}
	}
	return false
}
