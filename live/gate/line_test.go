package gate

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/policy/tokens"
)

// call is a call of a policy, with what it needs to be called again.
type call struct {
	what          string
	id            int
	client        int
	input, output int
	weights       []float64
	at            time.Duration
}

// recorded is a policy that writes down how it is called.
type recorded struct {
	tokens.Policy
	mu    sync.Mutex
	calls []call
}

func (p *recorded) note(c call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
}

func (p *recorded) Arrive(r *tokens.Request) bool {
	p.note(call{what: "arrive", id: r.ID, client: r.Client, input: r.Input, at: r.Arrived})
	return p.Policy.Arrive(r)
}

func (p *recorded) Next(now time.Duration) *tokens.Request {
	r := p.Policy.Next(now)
	c := call{what: "next", id: -1, at: now}
	if r != nil {
		c.id = r.ID
	}
	p.note(c)
	return r
}

func (p *recorded) Admit(r *tokens.Request) { p.note(call{what: "admit", id: r.ID}); p.Policy.Admit(r) }
func (p *recorded) Token(r *tokens.Request) { p.note(call{what: "token", id: r.ID}); p.Policy.Token(r) }
func (p *recorded) Finish(r *tokens.Request) {
	p.note(call{what: "finish", id: r.ID})
	p.Policy.Finish(r)
}

func (p *recorded) Withdraw(r *tokens.Request) {
	p.note(call{what: "withdraw", id: r.ID})
	p.Policy.Withdraw(r)
}

func (p *recorded) Settle(r *tokens.Request, input, output int) {
	p.note(call{what: "settle", id: r.ID, input: input, output: output})
	p.Policy.Settle(r, input, output)
}

func (p *recorded) Reweigh(weights []float64) {
	p.note(call{what: "reweigh", weights: slices.Clone(weights)})
	p.Policy.Reweigh(weights)
}

// again plays what was written down on a policy as it is simulated, and tells its counters. Whoever the gate has admitted must be
// who was next.
func (p *recorded) again(t interface{ Fatalf(string, ...any) }, made tokens.Policy, clients int) (counters []float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests := map[int]*tokens.Request{}
	next := -1
	for i, c := range p.calls {
		r := requests[c.id]
		switch c.what {
		case "arrive":
			requests[c.id] = &tokens.Request{ID: c.id, Client: c.client, Input: c.input, Arrived: c.at}
			made.Arrive(requests[c.id])
		case "next":
			next = -1
			if r := made.Next(c.at); r != nil {
				next = r.ID
			}
			if next != c.id {
				t.Fatalf("call %d: the gate was told that %d is next, and the policy says %d", i, c.id, next)
			}
		case "admit":
			if c.id != next {
				t.Fatalf("call %d: request %d was admitted, and %d was next", i, c.id, next)
			}
			made.Admit(r)
		case "token":
			made.Token(r)
		case "settle":
			made.Settle(r, c.input, c.output)
		case "finish":
			made.Finish(r)
		case "withdraw":
			made.Withdraw(r)
		case "reweigh":
			made.Reweigh(c.weights)
		}
	}
	for c := range clients {
		n, _ := made.Counter(c)
		counters = append(counters, n)
	}
	return counters
}

// testLine is a line without a gate, with a clock that stands still.
func testLine(p tokens.Policy, limit int, clients ...string) (*line, *time.Duration) {
	now := new(time.Duration)
	l := &line{now: func() time.Duration { return *now }, limit: limit, reserve: 10, most: 1000, each: 1000, policy: p, numbers: map[string]*account{}, tickets: map[int]*ticket{}}
	var all []Client
	for _, c := range clients {
		all = append(all, Client{Name: c, Weight: 1})
	}
	l.take(all, newMeters(l).of)
	return l, now
}

// Arrivals, tokens, ends, departures, faults and changes of clients come at random. Who is admitted is always who is next by the
// policy as it is simulated, and fits. Nobody waits who is next and fits. The tokens in flight are those of the requests that
// run, counters are those of the policy, and each request is answered once.
func TestLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(tokens.Table()).Draw(t, "policy")
		cfg := e.New()
		if c, ok := cfg.(*tokens.RPM); ok {
			c.Beyond = tokens.Delay
		}
		fresh := func() tokens.Policy {
			p, err := cfg.Policy(tokens.Setup{Pool: 50})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		rec := &recorded{Policy: fresh()}
		names := []string{"a", "b", "c"}
		l, now := testLine(rec, 50, names...)
		var all []*ticket
		pick := func(s state) *ticket {
			list := slices.DeleteFunc(slices.Clone(all), func(t *ticket) bool { return t.state != s })
			if len(list) == 0 {
				return nil
			}
			return list[rapid.IntRange(0, len(list)-1).Draw(t, "of")]
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			*now += time.Duration(rapid.IntRange(0, 10).Draw(t, "seconds")) * time.Second
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2, 3:
				q := ask{exact: rapid.IntRange(1, 60).Draw(t, "input"), most: rapid.IntRange(0, 20).Draw(t, "most"), choices: 1}
				k, p := l.enter(l.accounts[rapid.IntRange(0, len(l.accounts)-1).Draw(t, "client")], q, "")
				if (p != nil) != (q.exact > 50 || l.halted != nil) {
					t.Fatalf("%+v: %+v", q, p)
				}
				if p == nil {
					all = append(all, k)
				}
			case 4, 5:
				if k := pick(running); k != nil {
					l.produced(k, rapid.IntRange(0, 30).Draw(t, "tokens"))
				}
			case 6:
				if k := pick(running); k != nil {
					l.leave(k, rapid.SampledFrom([]*usage{nil, {}, {Prompt: 7, Completion: 3}, {Prompt: 100, Completion: 200}}).Draw(t, "used"))
				}
			case 7:
				if k := pick(waiting); k != nil {
					l.leave(k, &usage{})
				}
			case 8:
				if l.halted == nil {
					l.halt(&problem{status: 503})
				} else {
					l.resume()
				}
			case 9:
				names = append(names, fmt.Sprint("x", len(names)))
				var clients []Client
				for _, n := range names {
					clients = append(clients, Client{Name: n, Weight: float64(rapid.IntRange(1, 3).Draw(t, "weight"))})
				}
				l.take(clients, newMeters(l).of)
			}
			check(t, l, all)
		}
		l.resume()
		for id := range l.foresee(anyone) {
			if k := l.tickets[id]; k == nil || k.state != waiting {
				t.Fatalf("request %d does not wait and is foreseen", id)
			}
		}
		for i, want := range rec.again(t, fresh(), len(l.accounts)) {
			if got, _ := l.policy.Counter(i); got != want {
				t.Fatalf("%s: client %d has a counter of %v, and as simulated %v", e.Name, i, got, want)
			}
		}
		if l.alarm != nil {
			l.alarm.Stop()
		}
	})
}

// check holds a line against the requests that are in it.
func check(t *rapid.T, l *line, all []*ticket) {
	holds, waits, runs := 0, map[*account]int{}, map[*account]int{}
	for _, k := range all {
		select {
		case <-k.ready:
			if k.state == waiting {
				t.Fatalf("request %d waits and was told that it does not", k.ID)
			}
		default:
			if k.state != waiting {
				t.Fatalf("request %d is in state %d and was not told", k.ID, k.state)
			}
		}
		if k.state == running {
			holds += k.holds
			runs[k.account]++
			if k.holds < k.Input+k.Produced() {
				t.Fatalf("request %d has %d tokens in flight, and holds %d", k.ID, k.Input+k.Produced(), k.holds)
			}
		}
		if k.state == waiting {
			waits[k.account]++
		}
		if (k.state == refused) != (k.problem != nil) {
			t.Fatalf("request %d is in state %d with %v", k.ID, k.state, k.problem)
		}
	}
	if l.inFlight != holds {
		t.Fatalf("%d tokens are in flight, and requests hold %d", l.inFlight, holds)
	}
	for _, a := range l.accounts {
		if a.waiting != waits[a] || a.running != runs[a] {
			t.Fatalf("%s has %d that wait and %d that run, counted %d and %d", a.name, waits[a], runs[a], a.waiting, a.running)
		}
	}
	if r := l.policy.Next(l.now()); r != nil && l.halted == nil && l.tickets[r.ID].holds <= l.limit-l.inFlight {
		t.Fatalf("request %d is next, fits, and waits", r.ID)
	}
}

// What clients are charged for their requests, through HTTP and all, is what the policy charges for what the server says: under
// lcf, which lifts nobody, a token of input 1 and one of output 2.
func TestCharged(t *testing.T) {
	f := newFake(t)
	h := newHouse(t, "http://"+f.addr, Options{Policy: tokens.NewLCF(), InFlight: 64, Reserve: 8}, "a", "b:2", "c:0.5")
	rec := &recorded{Policy: h.line.policy}
	h.line.mu.Lock()
	h.line.policy = rec
	rec.Reweigh([]float64{1, 2, 0.5})
	h.line.mu.Unlock()
	var all []<-chan answer
	want := map[string]float64{}
	weights := map[string]float64{"a": 1, "b": 2, "c": 0.5}
	for i := range 60 {
		client, input, output := string(rune('a'+i*i%7%3)), 1+i%5, 1+i*7%11
		prompt := ""
		for range input {
			prompt += "word "
		}
		all = append(all, h.later(t.Context(), client, fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"stream":%v}`, prompt, output, i%3 != 0)))
		want[client] += float64(input+2*output) / weights[client]
	}
	for _, a := range all {
		if got := <-a; got.status != 200 {
			t.Errorf("%+v", got)
		}
	}
	until(t, "all have ended", func() bool { return h.boardOf("a").InFlight == 0 })
	made, err := tokens.NewLCF().Policy(tokens.Setup{Pool: 64})
	if err != nil {
		t.Fatal(err)
	}
	again := rec.again(t, made, 3)
	for i, client := range []string{"a", "b", "c"} {
		got, _ := h.line.counter(h.line.find(client))
		if math.Abs(got-want[client]) > 1e-6 || got != again[i] {
			t.Errorf("%s has a counter of %v, as simulated %v; the server has given it %v", client, got, again[i], want[client])
		}
	}
}
