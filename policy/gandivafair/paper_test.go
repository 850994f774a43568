package gandivafair_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/policy/gandivafair"
)

// quanta runs gangs on one server for so many quanta.
func quanta(n int, gpus float64, members []gandivafair.Member) (runs []string, used []float64) {
	used = make([]float64, len(members))
	for range n {
		order := make([]int, len(members))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return members[a].Before(members[b]) })
		free := gpus
		var on []string
		for _, i := range order {
			if m := &members[i]; m.GPUs <= free {
				free -= m.GPUs
				used[i] += m.GPUs
				on = append(on, string(rune('A'+i)))
				m.Charge(1)
			}
		}
		slices.Sort(on)
		runs = append(runs, strings.Join(on, " "))
	}
	return runs, used
}

// Section 3.2 (gang-aware stride): five gangs with a ticket each on four GPUs, by
// hand. Over 1000 quanta all have the same GPU-time, and no GPU is ever idle.
func TestGangStride(t *testing.T) {
	gangs := func() []gandivafair.Member {
		var out []gandivafair.Member
		for _, n := range []float64{1, 1, 2, 2, 4} {
			out = append(out, gandivafair.Member{GPUs: n, Tickets: 1})
		}
		return out
	}
	want := []string{"E", "C D", "A B C", "A B D", "A B C", "A B D", "E", "A B C", "A B D", "A B C"}
	if got, _ := quanta(10, 4, gangs()); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, used := quanta(1000, 4, gangs()); !slices.Equal(used, []float64{799, 799, 802, 800, 800}) {
		t.Errorf("GPU-quanta %v, want 799 799 802 800 800", used)
	}
}

// Two users of equal tickets, one with a gang of four, one with four single jobs:
// they alternate.
func TestUsersOfUnlikeJobs(t *testing.T) {
	m := []gandivafair.Member{{GPUs: 4, Tickets: 4}, {GPUs: 1, Tickets: 1}, {GPUs: 1, Tickets: 1}, {GPUs: 1, Tickets: 1}, {GPUs: 1, Tickets: 1}}
	if got, _ := quanta(6, 4, m); !slices.Equal(got, []string{"A", "B C D E", "A", "B C D E", "A", "B C D E"}) {
		t.Errorf("%q", got)
	}
}

func near(got, want []float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
}

// Entitlements are capped by demand, and what that leaves goes to the others.
func TestEntitle(t *testing.T) {
	for _, c := range []struct{ demand, want []float64 }{
		{[]float64{1, 8, 8}, []float64{1, 3.5, 3.5}}, {[]float64{3, 5, 8}, []float64{8.0 / 3, 8.0 / 3, 8.0 / 3}},
	} {
		users := make([]gandivafair.Trader, len(c.demand))
		for i, d := range c.demand {
			users[i] = gandivafair.Trader{Tickets: 1, Demand: []float64{d}}
		}
		if err := gandivafair.Entitle([]float64{8}, users); err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, u := range users {
			got = append(got, u.Has[0])
		}
		if !near(got, c.want) {
			t.Errorf("demands %v: %v, want %v", c.demand, got, c.want)
		}
	}
}

// Section 3.4 (trading) by hand: users whose jobs run 1, 5 and 4 times as fast on
// the fast generation, each with 4 fast and 4 slow GPUs.
func TestTrade(t *testing.T) {
	users := make([]gandivafair.Trader, 3)
	many := math.Inf(1)
	for i, gain := range []float64{1, 5, 4} {
		users[i] = gandivafair.Trader{Tickets: 1, Demand: []float64{many, many}, Speed: []float64{gain, 1}}
	}
	if err := gandivafair.Entitle([]float64{12, 12}, users); err != nil {
		t.Fatal(err)
	}
	deals := gandivafair.Trade(users, []int{0, 1}, 0.05)
	want := []gandivafair.Deal{{Buyer: 1, Fast: 0, Slow: 1, GPUs: 1, Price: 4}, {Buyer: 2, Fast: 0, Slow: 1, GPUs: 1.6, Price: 2.5}}
	if !slices.Equal(deals, want) {
		t.Errorf("deals %v, want %v", deals, want)
	}
	for i, has := range [][]float64{{1.4, 12}, {5, 0}, {5.6, 0}} {
		if !near(users[i].Has, has) {
			t.Errorf("user %d has %v, want %v", i, users[i].Has, has)
		}
	}
	for i, want := range []float64{13.4, 25, 22.4} {
		if got := users[i].Has[0]*users[i].Speed[0] + users[i].Has[1]; math.Abs(got-want) > 1e-9 {
			t.Errorf("user %d has %v slow GPUs' worth, want %v", i, got, want)
		}
	}
}
