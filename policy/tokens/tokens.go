// Package tokens is policies that decide whose request a server of a language model takes in
// next. They are to requests and tokens what the policies beside it are to jobs and GPUs.
//
// Nouns:
//   - A client sends requests. Clients are numbered in the order of their names.
//   - A request has input tokens, which are known, and output tokens, which are known only when
//     they have all been produced.
//   - The service of a client is what it has been given: Cost.Input for each token of input taken in and
//     Cost.Output for each token produced, or whatever a Cost says.
//   - A counter is the service that a policy has charged to a client, divided by the weight of
//     the client.
//   - To admit a request is to take it into the batch. It stays there until its last token.
//
// Source: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024, and its published
// code for what the paper leaves open.
package tokens

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/param"
)

// Request is a request as a policy sees it.
type Request struct {
	ID      int           // its number, in the order of arrival
	Client  int           // from 0
	Arrived time.Duration // since the run began
	Input   int           // tokens
	Output  int           // tokens; only predictors that say so may look at it (Oracle)

	produced  int     // tokens so far
	predicted int     // tokens that were charged as it was admitted
	charged   float64 // of its service, to its client
}

// Produced is the tokens that were produced so far.
func (r *Request) Produced() int { return r.produced }

// Policy decides which request is admitted next. A server calls it from one goroutine.
type Policy interface {
	// Arrive puts a request into the queue. It is refused when the result is false.
	Arrive(r *Request) bool
	// Next is the request to be admitted next; nil when none waits that may be. A server that has no room for
	// it admits nobody else in its place.
	Next(now time.Duration) *Request
	// Admit takes the request that Next has returned out of the queue.
	Admit(r *Request)
	// Token charges one token that was produced for an admitted request.
	Token(r *Request)
	// Finish tells that an admitted request has all its tokens.
	Finish(r *Request)
	// Wake is the moment after now at which Next may return a request that it does not return now,
	// though nothing happens; unit.Never when there is none.
	Wake(now time.Duration) time.Duration

	// Withdraw takes a request out of the queue that was not admitted, because its client has gone.
	Withdraw(r *Request)
	// Settle tells how many tokens an admitted request has had in truth, where they were estimated or counted
	// one by one so far: what was charged too much or too little is charged back. Finish follows.
	Settle(r *Request, input, output int)
	// Reweigh gives each client a weight, by number. There may be more clients than before, and never fewer.
	Reweigh(weights []float64)
	// Counter is the counter of a client; ok is false where the policy keeps none.
	Counter(client int) (counter float64, ok bool)
	// Copy is a policy with the same queue and counters. In the place of each request that waits it has the one that
	// of gives for it.
	Copy(of func(*Request) *Request) Policy
}

// Setup is what a policy is made for.
type Setup struct {
	Clients []string // by number, in the order of names
	Pool    int      // tokens for which the server has memory
}

// Config is the settings of one policy.
type Config interface {
	// Params binds the settings.
	Params() param.Set
	// Policy makes the policy. It fails on settings that cannot be.
	Policy(s Setup) (Policy, error)
}

// Entry is a policy of the table.
type Entry struct {
	Name, About string
	New         func() Config
}

// Table is all policies of tokens, in the order in which they are listed.
func Table() []Entry {
	return []Entry{
		{"fcfs", "requests in the order in which they came", func() Config { return new(FCFS) }},
		{"rpm", "as fcfs, with a limit on the requests of a client in a minute", func() Config { return NewRPM() }},
		{"lcf", "the client with the least service goes first, whatever it has missed while it was away", func() Config { return NewLCF() }},
		{"vtc", "virtual token counters: as lcf, but nobody hoards credit while it is away", func() Config { return NewVTC() }},
		{"drr", "deficit round robin with quanta of tokens", func() Config { return NewDRR() }},
		{"rr", "clients take turns, a request each", func() Config { return new(RR) }},
	}
}

// Cost is what tokens cost.
type Cost struct {
	Input, Output float64 // of a token
	Profiled      bool    // the cost that was fitted to measured times instead, see Of
}

// Of is the service of a request with so many tokens of input and output. Profiled is the quadratic form that the
// published code has fitted to a 7b model on an A10G: 0.21 x + 0.1008 y + 0.00399 x y + 0.00325 y² +
// 1.146.
func (c *Cost) Of(input, output int) float64 {
	x, y := float64(input), float64(output)
	if c.Profiled {
		return 0.21*x + 0.1008*y + 0.00399*x*y + 0.00325*y*y + 1.146
	}
	return c.Input*x + c.Output*y
}

// next is what one more token of output costs.
func (c *Cost) next(input, output int) float64 {
	if c.Profiled {
		return c.Of(input, output+1) - c.Of(input, output)
	}
	return c.Output
}

// params binds the costs.
func (c *Cost) params() param.Set {
	return param.Set{
		param.Float("input", &c.Input, 0, 1e6, "units", "service of a token of input"),
		param.Float("output", &c.Output, 0, 1e6, "units", "service of a token of output"),
		param.Bool("profiled", &c.Profiled, "service is a quadratic form of the tokens of a request, fitted to a 7b model on an A10G, instead of input and output"),
	}
}

// queues is the requests that wait, by client and in the order of arrival.
type queues struct {
	of   [][]*Request // by client; the first one is next
	n    int
	left int // the client whose request was taken out last; -1: none yet
}

func newQueues(clients int) queues { return queues{of: make([][]*Request, clients), left: -1} }

func (q *queues) push(r *Request) {
	q.of[r.Client] = append(q.of[r.Client], r)
	q.n++
}

func (q *queues) pop(client int) {
	list := q.of[client]
	list[0] = nil
	if q.of[client] = list[1:]; len(list) == 1 {
		q.of[client] = nil
	}
	q.n--
	q.left = client
}

// withdraw takes out a request that is not the one that goes next, or is. It tells whether any of its client is left.
func (q *queues) withdraw(r *Request) bool {
	list := q.of[r.Client]
	if i := slices.Index(list, r); i >= 0 {
		list = slices.Delete(list, i, i+1)
		q.n--
	}
	if q.of[r.Client] = list; len(list) == 0 {
		q.of[r.Client] = nil
	}
	return len(list) > 0
}

// grow makes room for so many clients.
func (q *queues) grow(clients int) {
	for len(q.of) < clients {
		q.of = append(q.of, nil)
	}
}

func (q *queues) copy(of func(*Request) *Request) queues {
	out := queues{of: make([][]*Request, len(q.of)), n: q.n, left: q.left}
	for c, list := range q.of {
		out.of[c] = copies(list, of)
	}
	return out
}

// copies are what stands for the requests of a list.
func copies(list []*Request, of func(*Request) *Request) []*Request {
	if len(list) == 0 {
		return nil
	}
	out := make([]*Request, len(list))
	for i, r := range list {
		out[i] = of(r)
	}
	return out
}

// idle is what policies have in common that need nothing but the queue.
type idle struct{}

// Settle implements Policy.
func (idle) Settle(r *Request, input, output int) { r.Input, r.produced = input, output }

// Reweigh implements Policy: where nothing is charged, weights mean nothing.
func (idle) Reweigh([]float64) {}

// Counter implements Policy.
func (idle) Counter(int) (float64, bool) { return 0, false }

// Token implements Policy.
func (idle) Token(r *Request) { r.produced++ }

// Finish implements Policy.
func (idle) Finish(*Request) {}

// Wake implements Policy.
func (idle) Wake(time.Duration) time.Duration { return unit.Never }
