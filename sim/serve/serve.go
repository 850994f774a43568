// Package serve simulates a server of a large language model that batches continuously, and whose
// queue is ordered by a policy of package policy/tokens.
//
// Nouns:
//   - A request is one of a trace (trace.Request).
//   - The batch is the requests that are being served. A step produces a token for each of them. Requests
//     enter the batch between steps, by a prefill of their input, and leave it with their last token.
//   - The pool is the tokens for which the server has memory. A request is admitted when its input
//     and output fit beside those of the batch, as the published server reserves them.
//   - Service is counted as the paper does: a token of input 1, one of output 2.
//
// All times are simulated, and a run is a function of its trace, server and policy.
//
// Source: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024. Times of steps
// follow from memory traffic and arithmetic (Server).
package serve

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/tokens"
	"github.com/norn-scheduler/norn/trace"
)

// Server is a GPU with a model.
type Server struct {
	Name  string
	About string
	Pool  int // tokens
	Every int // steps between two looks at the queue; the published server has 10

	Weights   float64 // bytes of the model, read in each step
	PerToken  float64 // bytes of a token in the pool, read in each step of its request
	Flops     float64 // of a token of input
	Bandwidth float64 // bytes/s that are reached
	Compute   float64 // flop/s that are reached
	Overhead  time.Duration
}

// Servers are the presets. Of the bandwidth and the arithmetic of data sheets 80 % and 50 % are taken to be
// reached. A token in the pool has 2 x layers x width x 2 bytes. One of input takes 2 flop a weight.
func Servers() []Server {
	const gb, tera = 1e9, 1e12
	return []Server{
		{Name: "a10g-7b", About: "Llama 2 7B on an A10G, pool of 10,000 tokens, as in the paper", Pool: 10_000, Every: 1,
			Weights: 13.5 * gb, PerToken: 524_288, Flops: 13.5e9, Bandwidth: 0.8 * 600 * gb, Compute: 0.5 * 125 * tera, Overhead: 5 * time.Millisecond},
		{Name: "a100-13b", About: "Llama 2 13B on an A100 of 80 GB, pool of 35,000 tokens, as in the paper", Pool: 35_000, Every: 1,
			Weights: 26 * gb, PerToken: 819_200, Flops: 26e9, Bandwidth: 0.8 * 2039 * gb, Compute: 0.5 * 312 * tera, Overhead: 5 * time.Millisecond},
		{Name: "h100-8b", About: "Llama 3 8B on an H100 of 80 GB, pool of 400,000 tokens", Pool: 400_000, Every: 1,
			Weights: 16 * gb, PerToken: 131_072, Flops: 16e9, Bandwidth: 0.8 * 3350 * gb, Compute: 0.5 * 989 * tera, Overhead: 5 * time.Millisecond},
	}
}

// FindServer is the preset of a name.
func FindServer(name string) (Server, error) {
	var names []string
	for _, s := range Servers() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Server{}, fmt.Errorf("server %q is not known; known are: %s", name, strings.Join(names, ", "))
}

// prefill is how long it takes to read so many tokens of input.
func (s *Server) prefill(input int) time.Duration {
	return s.Overhead + seconds(max(s.Weights/s.Bandwidth, s.Flops*float64(input)/s.Compute))
}

// step is how long a step takes with so many tokens of its requests in the pool.
func (s *Server) step(batch, context int) time.Duration {
	read := (s.Weights + s.PerToken*float64(context)) / s.Bandwidth
	return s.Overhead + seconds(max(read, s.Flops*float64(batch)/s.Compute))
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// Served is what became of a request.
type Served struct {
	*trace.Request
	Refused bool
	Started time.Duration // admitted
	First   time.Duration // its first token was there
	Ended   time.Duration // its last token was
}

// Watch is told of a run as it goes on; any of its functions may be nil.
type Watch struct {
	// Admitted is called after a request was admitted.
	Admitted func(now time.Duration, r *tokens.Request)
	// Stepped is called after each step.
	Stepped func(now time.Duration, p tokens.Policy)
}

// Clients are the names of all clients of a trace, in order.
func Clients(requests []trace.Request) []string {
	seen := map[string]bool{}
	var names []string
	for i := range requests {
		if name := requests[i].Client; !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Run serves a trace, which must be in the order of time. It fails where a request is larger than the pool, or when the
// context ends.
func Run(ctx context.Context, s *Server, requests []trace.Request, clients []string, p tokens.Policy, w Watch) (*Result, error) {
	l := &loop{server: s, policy: p, watch: w, trace: requests, result: newResult(s, requests, clients)}
	number := make(map[string]int, len(clients))
	for i, name := range clients {
		number[name] = i
	}
	l.queued = make([]tokens.Request, len(requests))
	for i := range requests {
		r := &requests[i]
		c, known := number[r.Client]
		switch {
		case !known:
			return nil, fmt.Errorf("request %d: client %q is not among the clients", i, r.Client)
		case r.Input < 1 || r.Output < 1:
			return nil, fmt.Errorf("request %d of %s: has %d tokens of input and %d of output; it needs one of each at least", i, r.Client, r.Input, r.Output)
		case r.Input+r.Output > s.Pool:
			return nil, fmt.Errorf("request %d of %s: needs %d tokens of memory, and server %s has %d", i, r.Client, r.Input+r.Output, s.Name, s.Pool)
		case i > 0 && r.At < requests[i-1].At:
			return nil, fmt.Errorf("request %d of %s: comes at %s, before the one ahead of it", i, r.Client, r.At)
		}
		l.queued[i] = tokens.Request{ID: i, Client: c, Arrived: r.At, Input: r.Input, Output: r.Output}
	}
	if err := l.run(ctx); err != nil {
		return nil, err
	}
	l.result.finish()
	return l.result, nil
}

// loop is a run.
type loop struct {
	server *Server
	policy tokens.Policy
	watch  Watch
	trace  []trace.Request
	queued []tokens.Request
	result *Result

	now     time.Duration
	arrived int // of the trace
	batch   []*tokens.Request
	held    int // tokens of the pool
	context int // tokens of the batch that are there
	steps   int // since the last look at the queue
}

func (l *loop) run(ctx context.Context) error {
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		l.arrive()
		if l.steps == 0 || len(l.batch) == 0 {
			l.admit()
		}
		if len(l.batch) > 0 {
			l.decode()
			continue
		}
		next := l.policy.Wake(l.now)
		if l.arrived < len(l.trace) {
			next = min(next, l.trace[l.arrived].At)
		}
		if next >= unit.Never {
			return nil
		}
		l.now = max(l.now, next)
	}
}

// arrive puts the requests that have come by now into the queue.
func (l *loop) arrive() {
	for ; l.arrived < len(l.trace) && l.trace[l.arrived].At <= l.now; l.arrived++ {
		if !l.policy.Arrive(&l.queued[l.arrived]) {
			l.result.Served[l.arrived].Refused = true
		}
	}
}

// admit takes requests into the batch as long as the next one fits, and reads their input.
func (l *loop) admit() {
	input, from := 0, len(l.batch)
	for {
		r := l.policy.Next(l.now)
		if r == nil || l.held+r.Input+r.Output > l.server.Pool {
			break
		}
		l.policy.Admit(r)
		l.held += r.Input + r.Output
		l.context += r.Input
		input += r.Input
		l.batch = append(l.batch, r)
		l.result.Served[r.ID].Started = l.now
		if l.watch.Admitted != nil {
			l.watch.Admitted(l.now, r)
		}
	}
	if input > 0 {
		l.now += l.server.prefill(input)
		for _, r := range l.batch[from:] {
			l.result.serve(l.now, r.Client, float64(r.Input), 1)
		}
	}
}

// decode produces a token for each request of the batch.
func (l *loop) decode() {
	l.now += l.server.step(len(l.batch), l.context)
	l.context += len(l.batch)
	stay := l.batch[:0]
	for _, r := range l.batch {
		l.policy.Token(r)
		l.result.serve(l.now, r.Client, 1, 2)
		s := &l.result.Served[r.ID]
		if r.Produced() == 1 {
			s.First = l.now
		}
		if r.Produced() < r.Output {
			stay = append(stay, r)
			continue
		}
		s.Ended = l.now
		l.policy.Finish(r)
		l.held -= r.Input + r.Output
		l.context -= r.Input + r.Output
	}
	clear(l.batch[len(stay):])
	l.batch = stay
	l.steps = (l.steps + 1) % max(1, l.server.Every)
	if l.watch.Stepped != nil {
		l.watch.Stepped(l.now, l.policy)
	}
}
