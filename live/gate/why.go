package gate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/tokens"
)

// foreseen is a forecast that is kept for a while.
type foreseen struct {
	until   time.Duration // it is good until then; 0: there is none
	again   time.Duration // not before then is there another one, whatever it lacks
	starts  map[int]tokens.Start
	soonest map[int]time.Duration // by number of a client: the first of its requests that wait
}

// What a forecast may cost: it is kept for forecastFor, and there is none for forecastTimes as long as it took.
const (
	forecastFor   = 250 * time.Millisecond
	forecastTimes = 20
)

// anyone stands for no request in particular.
const anyone = -1

// foresee is when those who wait are expected to be admitted, by ID. Where it may be, one request in particular is in it;
// others may have come since.
func (l *line) foresee(id int) map[int]tokens.Start {
	l.mu.Lock()
	now := l.now()
	f := &l.foreseen
	if _, there := f.starts[id]; now < f.again || now < f.until && (there || id == anyone) {
		defer l.mu.Unlock()
		return f.starts
	}
	var run, wait []tokens.Load
	for _, t := range l.tickets {
		load := tokens.Load{Request: t.Request, Holds: t.holds, Output: max(t.Produced(), t.asked.believed(t.account.output)), Began: t.admitted}
		if t.state == running {
			run = append(run, load)
		} else {
			wait = append(wait, load)
		}
	}
	byID := func(a, b tokens.Load) int { return a.Request.ID - b.Request.ID }
	slices.SortFunc(run, byID)
	slices.SortFunc(wait, byID)
	future := tokens.Foresee(l.policy, now, run, wait, l.limit, l.pace)
	f.again = now + time.Minute // while this one is made, nobody makes the same
	l.mu.Unlock()

	starts, soonest := make(map[int]tokens.Start, len(wait)), map[int]time.Duration{}
	clients := make(map[int]int, len(wait))
	for _, w := range wait {
		clients[w.Request.ID] = w.Request.Client
	}
	for _, s := range future.Starts() {
		starts[s.ID] = s
		if _, there := soonest[clients[s.ID]]; !there {
			soonest[clients[s.ID]] = s.At
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	done := l.now()
	l.foreseen = foreseen{until: done + forecastFor, again: done + forecastTimes*(done-now), starts: starts, soonest: soonest}
	return starts
}

// freed is after which time one of the requests of a client that wait is expected to be admitted, as far as that is known.
func (l *line) freed(a *account) time.Duration {
	return min(max(l.foreseen.soonest[a.number]-l.now(), time.Second), time.Minute)
}

// place is where a request stands, for its client.
type place struct {
	ID       int        `json:"id"`
	Label    string     `json:"request_id,omitempty"`
	Client   string     `json:"client"`
	Model    string     `json:"model,omitempty"`
	State    string     `json:"state"`
	Position *int       `json:"position,omitempty"` // requests that go first; nil: it runs, or came after the last forecast
	Counter  *float64   `json:"counter,omitempty"`
	Arrived  time.Time  `json:"arrived"`
	Expected *time.Time `json:"expected_start,omitempty"`
	Why      string     `json:"why,omitempty"`
	Input    int        `json:"input_tokens"`
	Output   int        `json:"output_tokens"`
	Holds    int        `json:"tokens_in_flight"` // of one that waits: those that it needs
}

// standing is a client with its requests.
type standing struct {
	Client  string   `json:"client"`
	Weight  float64  `json:"weight"`
	Counter *float64 `json:"counter,omitempty"`
	Waiting int      `json:"waiting"`
	Running int      `json:"running"`
	Holds   int      `json:"tokens_in_flight"`
}

// board is the answer of GET /gate/queue.
type board struct {
	Server   string     `json:"server"` // up, or what is wrong
	InFlight int        `json:"tokens_in_flight"`
	Limit    int        `json:"tokens_in_flight_limit"`
	Waiting  int        `json:"waiting"` // of all clients
	Clients  []standing `json:"clients"`
	Requests []place    `json:"requests"`
}

// queue tells a client about its requests, and an operator about all.
func (g *Gate) queue(w http.ResponseWriter, _ *http.Request, c caller) {
	text, err := json.Marshal(g.line.board(c.account, c.operator))
	if err != nil {
		g.Log.Error("the queue cannot be written", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	g.pass(w, http.StatusOK, append(text, '\n'))
}

// board is what one client may see, or all.
func (l *line) board(a *account, all bool) board {
	starts := l.foresee(anyone)
	l.mu.Lock()
	defer l.mu.Unlock()
	b := board{Server: "up", InFlight: l.inFlight, Limit: l.limit, Waiting: l.waiting, Requests: []place{}}
	if l.halted != nil {
		b.Server = l.halted.message
	}
	b.Clients = l.standings(func(o *account) bool { return o == a || all && !o.gone })
	next := l.nextOf(starts)
	for _, t := range l.tickets {
		if t.account == a || all {
			b.Requests = append(b.Requests, l.place(t, next, starts))
		}
	}
	slices.SortFunc(b.Requests, func(x, y place) int { return x.ID - y.ID })
	return b
}

// standings are clients, by name.
func (l *line) standings(which func(*account) bool) []standing {
	out := []standing{}
	for _, a := range l.accounts {
		if which(a) {
			out = append(out, standing{a.name, a.weight, l.counterOf(a), a.waiting, a.running, a.inFlight})
		}
	}
	slices.SortFunc(out, func(x, y standing) int { return strings.Compare(x.Client, y.Client) })
	return out
}

func (l *line) counterOf(a *account) *float64 {
	if c, ok := l.policy.Counter(a.number); ok {
		return &c
	}
	return nil
}

// place is where a request stands, by a forecast; next is the one that is expected to go next.
func (l *line) place(t, next *ticket, starts map[int]tokens.Start) place {
	now, clock := l.now(), time.Now()
	p := place{
		ID: t.ID, Label: t.label, Client: t.account.name, Model: t.asked.model, State: "running", Counter: l.counterOf(t.account),
		Arrived: clock.Add(t.Arrived - now).Truncate(time.Millisecond), Input: t.Input, Output: t.Produced(), Holds: t.holds,
	}
	if t.state == running {
		return p
	}
	p.State = "waiting"
	at, known := 0, false
	if s, ok := starts[t.ID]; ok {
		at, known = s.Position, true
		if l.pace.Token > 0 {
			start := clock.Add(max(0, s.At-now)).Truncate(time.Millisecond)
			p.Expected = &start
		}
	}
	free := max(0, l.limit-l.inFlight)
	switch {
	case next == nil:
		p.Why = "the policy lets it through later, by its limit on requests"
	case next == t:
		p.Position = new(int)
		p.Why = fmt.Sprintf("it is expected to go next, and needs %d tokens in flight; of %d, %d are free", t.holds, l.limit, free)
	case !known:
		p.Why = "it has just come: ask again"
	default:
		at = max(1, at) // those of a forecast may have gone meanwhile
		p.Position = &at
		p.Why = fmt.Sprintf("%s expected to go first; the next one needs %d tokens in flight, and of %d, %d are free", are(at), next.holds, l.limit, free)
		if c, ok := l.policy.Counter(next.Client); ok && next.account != t.account {
			p.Why += fmt.Sprintf("; its client has %.0f on its counter, and %s %.0f", c, t.account.name, *p.Counter)
		}
	}
	return p
}

// nextOf is the request that is expected to go next, by a forecast: charges for those that run may change whose turn it is until
// there is room. Where the forecast is too old, it is the one whose turn it is now.
func (l *line) nextOf(starts map[int]tokens.Start) *ticket {
	var next *ticket
	for id, s := range starts {
		if t := l.tickets[id]; t != nil && t.state == waiting && (next == nil || s.Position < starts[next.ID].Position) {
			next = t
		}
	}
	if next != nil {
		return next
	}
	if r := l.policy.Next(l.now()); r != nil {
		return l.tickets[r.ID]
	}
	return nil
}

// are is how many requests are, as a sentence begins.
func are(n int) string {
	if n == 1 {
		return "1 request is"
	}
	return unit.Count(n, "request") + " are"
}

// placeOf is where one request stands; ok is false when it does not wait.
func (l *line) placeOf(t *ticket) (place, bool) {
	starts := l.foresee(t.ID)
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.state != waiting {
		return place{}, false
	}
	return l.place(t, l.nextOf(starts), starts), true
}

// counter is the counter of a client, where there is one.
func (l *line) counter(a *account) (float64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.policy.Counter(a.number)
}

// find is the client of a name.
func (l *line) find(name string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.numbers[name]
}

// perByte is how many tokens a byte of a client's prompts has.
func (l *line) perByte(a *account) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return a.perByte
}

// trouble is why nobody is let through, or nil.
func (l *line) trouble() *problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return l.closed
	}
	return l.halted
}
