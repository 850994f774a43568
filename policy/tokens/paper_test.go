package tokens

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// arrival is requests of a client at a tick.
type arrival struct{ tick, client, count int }

// ticks runs a server in which one request fits at a time, of 10 tokens of input and 5 of output, for so many ticks:
// arrivals, then an admission, then a token. It tells who was admitted when, and the counters just after.
func ticks(t *testing.T, c *VTC, clients []string, arrivals []arrival, n int) (log []start, p *vtc) {
	t.Helper()
	made, err := c.Policy(Setup{Clients: clients, Pool: 15})
	if err != nil {
		t.Fatal(err)
	}
	p = made.(*vtc)
	var runs *Request
	ids := 0
	for tick := range n {
		for _, a := range arrivals {
			for range a.count {
				if a.tick == tick {
					p.Arrive(&Request{ID: ids, Client: a.client, Input: 10, Output: 5})
					ids++
				}
			}
		}
		if r := p.Next(time.Duration(tick)); runs == nil && r != nil {
			p.Admit(r)
			runs = r
			log = append(log, start{tick, r.Client, p.counters[r.Client]})
		}
		if runs == nil {
			continue
		}
		if p.Token(runs); runs.Produced() == runs.Output {
			p.Finish(runs)
			runs = nil
		}
	}
	return log, p
}

// start is an admission, with the counter of the client just after it.
type start struct {
	tick, client int
	counter      float64
}

// Specification, section 5.1: the counters of two clients, one of whom comes later.
func TestCounters(t *testing.T) {
	const a, b = 0, 1
	log, p := ticks(t, NewVTC(), []string{"A", "B"}, []arrival{{0, a, 4}, {12, b, 3}}, 35)
	want := []start{{0, a, 10}, {5, a, 30}, {10, a, 50}, {15, b, 64}, {20, a, 70}, {25, b, 84}, {30, b, 104}}
	if !slices.Equal(log, want) {
		t.Errorf("admitted %v, want %v", log, want)
	}
	if p.counters[a] != 80 || p.counters[b] != 114 {
		t.Errorf("counters %v and %v at the end, want 80 and 114", p.counters[a], p.counters[b])
	}
}

// Section 5.2: least counter first has who comes later go first until it has caught up.
func TestLeastCounterFirst(t *testing.T) {
	const a, b = 0, 1
	log, p := ticks(t, NewLCF(), []string{"A", "B"}, []arrival{{0, a, 4}, {12, b, 3}}, 35)
	var order []int
	for _, s := range log {
		order = append(order, s.client)
	}
	if !slices.Equal(order, []int{a, a, a, b, b, b, a}) || p.counters[a] != 80 || p.counters[b] != 60 {
		t.Errorf("order %v, counters %v and %v", order, p.counters[a], p.counters[b])
	}
}

// Section 5.3: in an idle system who comes is lifted to who waited last; in the published code it is not.
func TestLiftOfIdleSystem(t *testing.T) {
	for lift, want := range map[Lift]float64{Paper: 20, Artifact: 0, None: 0} {
		c := NewVTC()
		c.Lift = lift
		log, p := ticks(t, c, []string{"A", "B"}, []arrival{{0, 0, 1}, {6, 1, 1}}, 6)
		if len(log) != 1 || p.counters[0] != 20 {
			t.Fatalf("A has %v", p.counters[0])
		}
		p.Arrive(&Request{Client: 1, Input: 10, Output: 5})
		if p.counters[1] != want {
			t.Errorf("lift %d: B is lifted to %v, want %v", lift, p.counters[1], want)
		}
	}
}

// Section 5.4: of two clients who always wait, with weights 1 and 2, the second has twice the service.
func TestWeights(t *testing.T) {
	c := NewVTC()
	c.Weights = []string{"B:2"}
	log, _ := ticks(t, c, []string{"A", "B"}, []arrival{{0, 0, 40}, {0, 1, 40}}, 150)
	served := [2]int{}
	for _, s := range log {
		served[s.client]++
	}
	if served[0]+served[1] != 30 || served[1] < 19 || served[1] > 21 {
		t.Errorf("%v requests of each, want 10 and 20 within one", served)
	}
	for _, text := range []string{"C:2", "B:0", "B:x", "B"} {
		c.Weights = []string{text}
		if _, err := c.Policy(Setup{Clients: []string{"A", "B"}}); err == nil {
			t.Errorf("weight %q is taken", text)
		}
	}
}

// Section 2.4: what is predicted is charged as a request is admitted, only tokens beyond it are charged later, and
// what was predicted in vain is given back.
func TestPredictions(t *testing.T) {
	for _, x := range []struct {
		predicted, output            int
		admitted, decoding, finished float64
	}{{0, 3, 10, 16, 16}, {3, 3, 16, 16, 16}, {2, 4, 14, 18, 18}, {6, 2, 22, 22, 14}} {
		c := NewVTC()
		c.Predict = Mean
		made, err := c.Policy(Setup{Clients: []string{"A"}})
		if err != nil {
			t.Fatal(err)
		}
		p := made.(*vtc)
		p.recent[0] = []int{x.predicted}
		r := &Request{Input: 10, Output: x.output}
		p.Arrive(r)
		p.Admit(p.Next(0))
		admitted := p.counters[0]
		for range x.output {
			p.Token(r)
		}
		decoding := p.counters[0]
		p.Finish(r)
		if admitted != x.admitted || decoding != x.decoding || p.counters[0] != x.finished {
			t.Errorf("%+v: %v, %v and %v", x, admitted, decoding, p.counters[0])
		}
	}
}

// Section 2.5: the cost that was fitted to measured times; each token costs what it adds to that.
func TestProfiledCost(t *testing.T) {
	c := Cost{Profiled: true}
	if got, want := c.Of(100, 200), 21+20.16+79.8+130+1.146; math.Abs(got-want) > 1e-9 {
		t.Errorf("%v, want %v", got, want)
	}
	sum := c.Of(100, 0)
	for y := range 200 {
		sum += c.next(100, y)
	}
	if math.Abs(sum-c.Of(100, 200)) > 1e-6 {
		t.Errorf("tokens one by one cost %v, all at once %v", sum, c.Of(100, 200))
	}
}

// A limit of requests in a minute refuses those beyond it, or has them wait for the next minute.
func TestLimit(t *testing.T) {
	for _, beyond := range []Beyond{Refuse, Delay} {
		p, err := (&RPM{Limit: 2, Beyond: beyond}).Policy(Setup{Clients: []string{"A", "B"}})
		if err != nil {
			t.Fatal(err)
		}
		taken := 0
		for i := range 5 {
			if p.Arrive(&Request{ID: i, Arrived: time.Duration(i) * time.Second}) {
				taken++
			}
		}
		p.Arrive(&Request{ID: 5, Client: 1, Arrived: 5 * time.Second})
		var order []int
		for _, now := range []time.Duration{6 * time.Second, time.Minute, 2 * time.Minute} {
			for r := p.Next(now); r != nil; r = p.Next(now) {
				p.Admit(r)
				order = append(order, r.ID)
			}
			order = append(order, -1)
		}
		want := []int{0, 1, 5, -1, -1, -1}
		if beyond == Delay {
			want = []int{0, 1, 5, -1, 2, 3, -1, 4, -1}
		}
		if !slices.Equal(order, want) || beyond == Refuse && taken != 2 || beyond == Delay && taken != 5 {
			t.Errorf("beyond %d: %d taken, order %v, want %v", beyond, taken, order, want)
		}
	}
}

// Clients take turns under round robin, and by quanta under deficit round robin, also one whose debt is of many quanta.
func TestTurns(t *testing.T) {
	for _, x := range []struct {
		c    Config
		want []int
	}{
		{new(RR), []int{0, 1, 2, 0, 1, 2, 0, 0, 0}},
		{&DRR{Cost: Cost{Input: 1, Output: 2}, Quantum: 20}, []int{0, 0, 1, 1, 2, 2, 0, 0, 0}},
		{&DRR{Cost: Cost{Input: 1e9, Output: 2}, Quantum: 1}, []int{0, 1, 2, 0, 1, 2, 0, 0, 0}},
	} {
		p, err := x.c.Policy(Setup{Clients: []string{"A", "B", "C"}, Pool: 100})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []int{0, 0, 0, 0, 0, 1, 1, 2, 2} {
			p.Arrive(&Request{ID: i, Client: c, Input: 10})
		}
		var order []int
		for r := p.Next(0); r != nil; r = p.Next(0) {
			p.Admit(r)
			order = append(order, r.Client)
		}
		if !slices.Equal(order, x.want) {
			t.Errorf("%T: order %v, want %v", x.c, order, x.want)
		}
	}
}

// The heap of clients is in order, whatever happens: Next is always the first request of the client with the
// least counter of those who wait. Without predictions these counters are within U = max(w_p L_in, w_q M) of each other
// (section 2.3).
func TestLeastIsNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewVTC()
		c.Predict = rapid.SampledFrom([]Predict{Nothing, Mean, Oracle}).Draw(t, "predict")
		c.Error = 0.5
		made, err := c.Policy(Setup{Clients: []string{"A", "B", "C", "D", "E"}})
		if err != nil {
			t.Fatal(err)
		}
		p := made.(*vtc)
		var runs []*Request
		const pool = 30
		held := 0
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				p.Arrive(&Request{ID: i, Client: rapid.IntRange(0, 4).Draw(t, "client"), Input: rapid.IntRange(1, 9).Draw(t, "input"), Output: rapid.IntRange(1, 5).Draw(t, "output")})
			case 2:
				if r := p.Next(0); r != nil && held+r.Input+r.Output <= pool {
					p.Admit(r)
					held += r.Input + r.Output
					runs = append(runs, r)
				}
			case 3:
				for _, r := range runs {
					p.Token(r)
				}
				runs = slices.DeleteFunc(runs, func(r *Request) bool {
					if r.Produced() == r.Output {
						p.Finish(r)
						held -= r.Input + r.Output
					}
					return r.Produced() == r.Output
				})
			}
			least, most := -1, 0.0
			for c, list := range p.of {
				if len(list) == 0 {
					continue
				}
				if most = max(most, p.counters[c]); least < 0 || p.counters[c] < p.counters[least] {
					least = c
				}
			}
			if least >= 0 && most-p.counters[least] > 2*pool && c.Predict == Nothing {
				t.Fatalf("counters of those who wait differ by %v, U is %d", most-p.counters[least], 2*pool)
			}
			switch r := p.Next(0); {
			case r == nil && least >= 0:
				t.Fatal("nobody is next")
			case r != nil && (r.Client != least || r != p.of[least][0]):
				t.Fatalf("client %d is next, and %d has the least counter: %v", r.Client, least, p.counters)
			}
		}
	})
}
