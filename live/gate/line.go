package gate

import (
	"cmp"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/tokens"
)

// account is a client with what the gate knows of it. All but its name, number and counts is guarded by the line.
type account struct {
	name   string
	number int
	counts *counts

	weight float64
	most   int  // of its requests that wait at once; 0: as the line has it
	gone   bool // taken out of the file of keys

	waiting, running int
	inFlight         int     // tokens
	bodies           int64   // bytes of requests that are kept for it
	perByte          float64 // tokens of a byte of its prompts, as the server has counted them
	output           float64 // mean tokens of its last answers; 0: none was seen
}

// belief is by how much one more observation changes a mean.
const belief = 0.2

// state is where a request is in its life.
type state uint8

const (
	waiting state = iota
	running
	refused // by problem, while it waited
	over
)

// ticket is a request in the line.
type ticket struct {
	*tokens.Request
	account  *account
	asked    ask
	holds    int // tokens in flight that count for it
	state    state
	ready    chan struct{} // closed when it does not wait any more
	problem  *problem      // of one that was refused
	admitted time.Duration
	first    time.Duration // its first token; 0: none yet
	last     time.Duration // its last one so far
	label    string        // X-Request-Id, as the client has set it
}

// line is the requests that wait and those that the server answers, with the policy that says who is next. Times are
// since the gate began.
type line struct {
	now     func() time.Duration
	limit   int // tokens in flight
	reserve int // tokens of output for which there must be room when a request begins
	most    int // requests that wait, in all
	each    int // of one client, where the file of keys says nothing

	mu       sync.Mutex
	policy   tokens.Policy
	accounts []*account          // by number
	numbers  map[string]*account // by name
	tickets  map[int]*ticket     // by ID: those that wait or run
	next     int                 // ID
	waiting  int
	inFlight int
	halted   *problem // why nobody is admitted; nil: all is well
	closed   *problem // why nobody is let in any more
	alarm    *time.Timer
	pace     tokens.Pace
	foreseen foreseen
}

// enter puts a request of a client into the line, or says why not.
func (l *line) enter(a *account, q ask, label string) (*ticket, *problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	input := q.input(a.perByte)
	switch most := cmp.Or(a.most, l.each); {
	case l.closed != nil:
		return nil, l.closed
	case a.gone:
		return nil, takenBack(a)
	case l.halted != nil:
		return nil, l.halted
	case input > l.limit:
		return nil, wrong(http.StatusBadRequest, "the prompt has some %d tokens, and no more than %d are let to the server at once", input, l.limit)
	case a.waiting >= most:
		return nil, &problem{http.StatusTooManyRequests, rateLimited, "rate_limit_exceeded", fmt.Sprintf("%s of %s wait already, as many as may: GET /gate/queue tells when they start", unit.Count(a.waiting, "request"), a.name), l.freed(a)}
	case l.waiting >= l.most:
		return nil, &problem{http.StatusServiceUnavailable, serverError, "overloaded", fmt.Sprintf("%s wait already, as many as may", unit.Count(l.waiting, "request")), retryDown}
	}
	now := l.now()
	t := &ticket{
		Request: &tokens.Request{ID: l.next, Client: a.number, Arrived: now, Input: input},
		account: a, asked: q, ready: make(chan struct{}), label: label,
	}
	t.holds = min(l.limit, input+q.outputs(l.reserve))
	if !l.policy.Arrive(t.Request) {
		a.counts.refused.Inc()
		return nil, &problem{http.StatusTooManyRequests, rateLimited, "rate_limit_exceeded", "the policy of this gate lets no more requests of " + a.name + " through in this minute", time.Minute - now%time.Minute}
	}
	l.next++
	l.tickets[t.ID] = t
	l.waiting++
	a.waiting++
	l.admit()
	return t, nil
}

func takenBack(a *account) *problem {
	return &problem{http.StatusUnauthorized, badRequest, "invalid_api_key", "the key of " + a.name + " was taken back", 0}
}

// admit lets requests to the server as long as there is room for the next one. Nobody goes ahead of one for which there
// is none yet.
func (l *line) admit() {
	if l.halted != nil {
		return
	}
	now := l.now()
	for {
		r := l.policy.Next(now)
		if r == nil {
			break
		}
		t := l.tickets[r.ID]
		if t.holds > l.limit-l.inFlight {
			return
		}
		l.policy.Admit(r)
		t.state, t.admitted = running, now
		l.waiting--
		t.account.waiting--
		t.account.running++
		l.hold(t, t.holds)
		t.account.counts.waited.Observe((now - r.Arrived).Seconds())
		close(t.ready)
	}
	if wake := l.policy.Wake(now); wake < unit.Never && l.waiting > 0 {
		if l.alarm != nil {
			l.alarm.Stop()
		}
		l.alarm = time.AfterFunc(wake-now, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.admit()
		})
	}
}

// hold counts tokens in flight, or with a negative number gives them back.
func (l *line) hold(t *ticket, n int) {
	l.inFlight += n
	t.account.inFlight += n
}

// produced charges tokens that the server has produced for a request.
func (l *line) produced(t *ticket, n int) {
	if n <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.state != running {
		return
	}
	t.last = l.now()
	if t.first == 0 {
		t.first = t.last
		t.account.counts.first.Observe((t.last - t.Arrived).Seconds())
	}
	for range n {
		l.policy.Token(t.Request)
	}
	if more := t.Input + t.Produced() - t.holds; more > 0 {
		t.holds += more
		l.hold(t, more)
	}
	if l.waiting > 0 {
		l.admit() // it may be somebody else's turn now, for whom there is room
	}
}

// leave takes a request out, wherever it is. used is what the server says that it has had; nil: it says nothing, and
// what was estimated and counted holds.
func (l *line) leave(t *ticket, used *usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := t.account
	switch t.state {
	case waiting:
		l.policy.Withdraw(t.Request)
		l.waiting--
		a.waiting--
		a.counts.left.Inc()
		close(t.ready)
	case running:
		if n := l.unseen(t); used == nil && n > 0 {
			used = &usage{t.Input, n}
		}
		l.learn(t, used)
		if used != nil {
			l.policy.Settle(t.Request, used.Prompt, used.Completion)
		}
		l.policy.Finish(t.Request)
		a.counts.input.Add(float64(t.Input))
		a.counts.output.Add(float64(t.Produced()))
		a.running--
		l.hold(t, -t.holds)
	default:
		return
	}
	t.state = over
	delete(l.tickets, t.ID)
	l.admit()
}

// unseen is how many tokens the server is taken to have produced for an answer that was to come as a whole, and did not come: as
// many as it makes in that time. Else a client that leaves just before each answer would be charged for none.
func (l *line) unseen(t *ticket) int {
	if t.asked.stream || t.asked.silent || t.admitted == 0 {
		return 0
	}
	n := t.asked.believed(t.account.output)
	if l.pace.Token > 0 {
		n = 1 + int(min(mostOfAnyKind, max(0, l.now()-t.admitted-l.pace.First)/l.pace.Token))
	}
	if t.asked.most > 0 {
		n = min(n, t.asked.most)
	}
	return n * t.asked.choices
}

// learn takes from a request that has ended how long prompts and answers of its client are, and how fast the server is. used is
// nil where the server does not say what it had.
func (l *line) learn(t *ticket, used *usage) {
	a, output := t.account, t.Produced()
	if used != nil {
		output = used.Completion
		if n := t.asked.text; n >= 32 && used.Prompt > 0 && t.asked.exact == 0 && t.asked.images == 0 {
			a.perByte += belief * (min(4, max(0.05, float64(used.Prompt)/float64(n))) - a.perByte)
		}
	}
	if output > 0 {
		if a.output == 0 {
			a.output = float64(output)
		}
		a.output += belief * (float64(output) - a.output)
	}
	if t.first == 0 || t.Produced() < 2 {
		return
	}
	mean := func(old *time.Duration, seen time.Duration) {
		if *old == 0 {
			*old = seen
		}
		*old += time.Duration(belief * float64(seen-*old))
	}
	mean(&l.pace.First, t.first-t.admitted)
	mean(&l.pace.Token, (t.last-t.first)/time.Duration(t.Produced()-1))
}

// halt refuses all who wait, and all who come until it is lifted by resume. Counters stay.
func (l *line) halt(p *problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted = p
	l.refuse(p, func(*ticket) bool { return true })
}

// close is halt for good.
func (l *line) close(p *problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = p
	if l.alarm != nil {
		l.alarm.Stop()
	}
	l.refuse(p, func(*ticket) bool { return true })
}

// refuse takes requests out of the line that wait.
func (l *line) refuse(p *problem, which func(*ticket) bool) {
	for id, t := range l.tickets {
		if t.state != waiting || !which(t) {
			continue
		}
		l.policy.Withdraw(t.Request)
		t.state, t.problem = refused, p
		l.waiting--
		t.account.waiting--
		delete(l.tickets, id)
		close(t.ready)
	}
}

// resume lets requests through again.
func (l *line) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted = nil
	l.admit()
}

// take puts clients in the place of those that there were. Who stays, or comes back, has its number and its counter;
// requests that wait of those who have gone are refused.
func (l *line) take(clients []Client, counts func(name string) *counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		a.gone = true
	}
	for _, c := range clients {
		a := l.numbers[c.Name]
		if a == nil {
			a = &account{name: c.Name, number: len(l.accounts), perByte: usualPerByte, counts: counts(c.Name)}
			l.accounts = append(l.accounts, a)
			l.numbers[c.Name] = a
		}
		a.weight, a.most, a.gone = c.Weight, c.Waiting, false
	}
	weights := make([]float64, len(l.accounts))
	for i, a := range l.accounts {
		weights[i] = a.weight
	}
	l.policy.Reweigh(weights)
	for _, a := range l.accounts {
		if a.gone {
			l.refuse(takenBack(a), func(t *ticket) bool { return t.account == a })
		}
	}
	l.admit()
}

// keep counts bytes of the body of a request that are kept, or with a negative number given back, and tells whether there is
// room for them: most in all, half of that for one client.
func (l *line) keep(a *account, n, most int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := n
	for _, o := range l.accounts {
		total += o.bodies
	}
	if n > 0 && (total > most || a.bodies+n > most/2) {
		return false
	}
	a.bodies += n
	return true
}
