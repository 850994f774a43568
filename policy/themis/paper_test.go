package themis_test

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/policy/themis"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 5e-5*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// Section 4.2, table 1: an app of successive halving on 16 GPUs among four apps,
// with a budget of 10,000 s, every job taken to be like the median one.
func TestHalving(t *testing.T) {
	h := themis.Halving{
		Phases: []themis.Phase{{Jobs: 4, Iterations: 8}, {Jobs: 2, Iterations: 16}, {Jobs: 1, Iterations: 36}},
		Serial: []float64{80, 100, 100, 120}, Most: 8,
	}
	for gpus, want := range map[int][2]float64{1: {10000, 4}, 2: {5000, 2}, 4: {2500, 1}, 8: {1250, 0.5}, 16: {850, 0.34}} {
		left := h.Left(float64(gpus))
		near(t, "time left", left, want[0])
		near(t, "rho", themis.Situation{Left: left, Speed: 1, Alone: 10000.0 / 16, Contenders: 4}.Rho(), want[1])
	}
}

// Section 4.2, a job alone: 1000 iterations of 2 s, at most 4 GPUs, on 4 GPUs of
// two machines at a slowdown of 1.1, after 300 s among three apps.
func TestRho(t *testing.T) {
	s := themis.Situation{Elapsed: 300, Left: 2000, Speed: 4 / 1.1, Alone: 500, Contenders: 3}
	near(t, "rho", s.Rho(), 0.5667)
}

// bidder is an app whose rho on 0, 1, 2, ... GPUs is known.
func bidder(rho ...float64) themis.Bidder {
	b := themis.Bidder{Rho: rho[0]}
	for n, r := range rho[1:] {
		b.Bids = append(b.Bids, themis.Bid{Need: int64(n + 1), Rho: r})
	}
	return b
}

// won is how many GPUs an app wins and which part of them it keeps.
func won(b themis.Bidder, a themis.Award) (gpus int64, keep float64) {
	if a.Bid < 0 {
		return 0, a.Keep
	}
	return b.Bids[a.Bid].Need, a.Keep
}

// Section 5.1, the partial allocation by hand.
func TestAuction(t *testing.T) {
	for _, c := range []struct {
		name string
		free int64
		apps []themis.Bidder
		gpus []int64
		keep []float64
	}{
		{"A gives back a half", 3, []themis.Bidder{bidder(8, 4, 2, 2), bidder(6, 3, 2, 1.5)}, []int64{2, 1}, []float64{0.5, 1}},
		{"both give back a half", 4, []themis.Bidder{bidder(1e9, 4, 2, 4.0/3, 1), bidder(1e9, 4, 2, 4.0/3, 1)}, []int64{2, 2}, []float64{0.5, 0.5}},
		{"alone", 2, []themis.Bidder{bidder(4, 2, 1)}, []int64{2}, []float64{1}},
	} {
		awards, err := themis.Auction(themis.Offer{Free: []int64{c.free}}, c.apps)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range awards {
			gpus, keep := won(c.apps[i], a)
			if gpus != c.gpus[i] || math.Abs(keep-c.keep[i]) > 1e-9 {
				t.Errorf("%s: app %d wins %d GPUs and keeps %v of them, want %d and %v", c.name, i, gpus, keep, c.gpus[i], c.keep[i])
			}
		}
	}
}

// whole adds bids for GPUs of one machine to those for GPUs anywhere.
func whole(b themis.Bidder, rho ...float64) themis.Bidder {
	for n, r := range rho {
		if r > 0 {
			b.Bids = append(b.Bids, themis.Bid{Need: int64(n + 1), Pieces: []int64{int64(n + 1)}, Rho: r})
		}
	}
	return b
}

// Section 3.1: bids are for GPUs on each machine. Three apps could each use two GPUs, which are
// worth twice as much on one machine (rho 2 instead of 4). On machines of three GPUs only two
// apps find two together; the third, whose GPUs are worth as much on two machines, takes those.
// If there were only machines of two GPUs each would have one to itself.
func TestMachines(t *testing.T) {
	apps := []themis.Bidder{whole(bidder(8, 8, 4), 0, 2), whole(bidder(8, 8, 4), 0, 2), whole(bidder(8, 8, 3), 0, 2)}
	for _, c := range []struct {
		rooms []int64
		want  [3]int // together, apart
	}{{[]int64{3, 3}, [3]int{2, 2, 1}}, {[]int64{2, 2, 2}, [3]int{2, 2, 2}}, {[]int64{1, 1, 1, 1, 1, 1}, [3]int{1, 1, 1}}, {[]int64{6}, [3]int{2, 2, 2}}} {
		awards, err := themis.Auction(themis.Offer{Free: []int64{6}, Rooms: [][]int64{c.rooms}}, apps)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range awards {
			if a.Bid != c.want[i] {
				t.Errorf("machines of %v: app %d wins bid %d, want %d", c.rooms, i, a.Bid, c.want[i])
			}
		}
	}
}

// Section 3.2: the filter lets the worst off bid, at least one.
func TestParticipants(t *testing.T) {
	for _, c := range []struct {
		apps int
		fair float64
		want int
	}{{10, 0.8, 2}, {11, 0.8, 3}, {1, 0.8, 1}, {3, 1, 1}, {3, 0, 3}, {0, 0.8, 0}} {
		if got := themis.Participants(c.apps, c.fair); got != c.want {
			t.Errorf("%d apps, f=%v: %d bid, want %d", c.apps, c.fair, got, c.want)
		}
	}
}
