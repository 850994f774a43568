package tokens

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Specification, section 5.1, from tick 12 on: the forecast has the starts that come.
func TestForecast(t *testing.T) {
	_, p := ticks(t, NewVTC(), []string{"A", "B"}, []arrival{{0, 0, 3}}, 12) // A3 runs since 10 and has made two tokens
	runs := &Request{ID: 2, Client: 0, Input: 10, produced: 2, charged: 14}
	var waiting []Load
	for id, client := range []int{0, 1, 1, 1} {
		r := &Request{ID: 3 + id, Client: client, Input: 10}
		p.Arrive(r)
		waiting = append(waiting, Load{Request: r, Holds: 15, Output: 5})
	}
	before := slices.Clone(p.counters)
	got := Foresee(p, 12, []Load{{runs, 15, 5, 10}}, waiting, 15, Pace{First: 1, Token: 1}).Starts()
	want := []Start{{4, 0, 15}, {3, 1, 20}, {5, 2, 25}, {6, 3, 30}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !slices.Equal(before, p.counters) || runs.produced != 2 || p.Next(0).ID != 3 || p.n != 4 {
		t.Errorf("the forecast has changed the policy: %v, %v", p.counters, p.of)
	}
	if got := Foresee(p, 12, nil, waiting, 30, Pace{}).Starts(); len(got) != 4 || got[1].At != 12 || got[0].At != 12 {
		t.Errorf("with room for two at once: %v", got)
	}
}

// A limit by minutes is foreseen, too.
func TestForecastOfLimit(t *testing.T) {
	p, err := (&RPM{Limit: 1, Beyond: Delay}).Policy(Setup{Clients: []string{"A"}})
	if err != nil {
		t.Fatal(err)
	}
	var waiting []Load
	for id := range 3 {
		r := &Request{ID: id, Input: 1}
		p.Arrive(r)
		waiting = append(waiting, Load{Request: r, Holds: 2, Output: 1})
	}
	want := []Start{{0, 0, 0}, {1, 1, time.Minute}, {2, 2, 2 * time.Minute}}
	if got := Foresee(p, 0, nil, waiting, 10, Pace{}).Starts(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What a request has had in truth is what its client is charged, whatever was estimated, counted or predicted; weights hold
// from then on, and who is new begins at nothing.
func TestSettle(t *testing.T) {
	for _, predict := range []Predict{Nothing, Mean} {
		c := NewVTC()
		c.Predict = predict
		made, err := c.Policy(Setup{Clients: []string{"A"}})
		if err != nil {
			t.Fatal(err)
		}
		p := made.(*vtc)
		p.Reweigh([]float64{2})
		p.recent[0] = []int{8}
		r := &Request{Input: 10}
		p.Arrive(r)
		p.Admit(p.Next(0))
		p.Token(r)
		p.Settle(r, 16, 3)
		p.Finish(r)
		if p.counters[0] != (16+2*3)/2 {
			t.Errorf("predict %d: %v, want 11", predict, p.counters[0])
		}
		p.Reweigh([]float64{1, 4})
		r = &Request{Client: 1, Input: 4}
		p.Arrive(r)
		p.Admit(p.Next(0))
		if got, ok := p.Counter(1); !ok || got != 11+1+float64(r.predicted)/2 {
			t.Errorf("who is new has %v: lifted to 11, and 4 tokens at a weight of 4 make 12", got)
		}
	}
}

// Whatever is withdrawn, settled and changed, every policy hands out each request that is left once, those of a client in
// the order in which they came, and a copy hands out the same.
func TestLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(Table()).Draw(t, "policy")
		cfg := e.New()
		if e.Name == "rpm" {
			cfg.(*RPM).Beyond = Delay
		}
		clients := 3
		p, err := cfg.Policy(Setup{Clients: []string{"A", "B", "C"}, Pool: 100})
		if err != nil {
			t.Fatal(err)
		}
		var waiting, running []*Request
		now := time.Duration(0)
		take := func(list *[]*Request, label string) *Request {
			i := rapid.IntRange(0, len(*list)-1).Draw(t, label)
			r := (*list)[i]
			*list = slices.Delete(*list, i, i+1)
			return r
		}
		for i := range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 10).Draw(t, "seconds")) * time.Second
			switch step := rapid.IntRange(0, 6).Draw(t, "step"); {
			case step <= 2:
				r := &Request{ID: i, Client: rapid.IntRange(0, clients-1).Draw(t, "client"), Arrived: now, Input: rapid.IntRange(1, 9).Draw(t, "input")}
				if p.Arrive(r) {
					waiting = append(waiting, r)
				}
			case step == 3 && len(waiting) > 0:
				p.Withdraw(take(&waiting, "withdrawn"))
			case step == 4 && len(running) > 0:
				r := take(&running, "ended")
				p.Settle(r, rapid.IntRange(0, 20).Draw(t, "input"), rapid.IntRange(0, 20).Draw(t, "output"))
				p.Finish(r)
			case step == 5 && rapid.Bool().Draw(t, "new"):
				clients++
				weights := make([]float64, clients)
				for c := range weights {
					weights[c] = float64(rapid.IntRange(1, 4).Draw(t, "weight"))
				}
				p.Reweigh(weights)
			default:
				if r := p.Next(now); r != nil {
					p.Admit(r)
					p.Token(r)
					waiting, running = slices.DeleteFunc(waiting, func(o *Request) bool { return o == r }), append(running, r)
				}
			}
		}
		copied := p.Copy(func(r *Request) *Request { own := *r; return &own })
		var order, again []int
		last := map[int]int{}
		for ; now < unit.Never; now = p.Wake(now) {
			for r := p.Next(now); r != nil; r = p.Next(now) {
				p.Admit(r)
				if last[r.Client] > r.ID || !slices.Contains(waiting, r) {
					t.Fatalf("%s: request %d comes after %d of its client; those who wait: %v", e.Name, r.ID, last[r.Client], waiting)
				}
				last[r.Client] = r.ID
				order = append(order, r.ID)
			}
			for r := copied.Next(now); r != nil; r = copied.Next(now) {
				copied.Admit(r)
				again = append(again, r.ID)
			}
		}
		if len(order) != len(waiting) || !slices.Equal(order, again) {
			t.Errorf("%s: %d wait, %v came, of the copy %v", e.Name, len(waiting), order, again)
		}
	})
}
