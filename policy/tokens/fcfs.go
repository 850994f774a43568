package tokens

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/param"
)

// FCFS is first come, first served. It has no settings.
type FCFS struct{}

// Params implements Config.
func (*FCFS) Params() param.Set { return nil }

// Policy implements Config.
func (*FCFS) Policy(Setup) (Policy, error) { return new(fcfs), nil }

// fcfs is one queue.
type fcfs struct {
	idle
	queue []*Request
}

// Arrive implements Policy.
func (f *fcfs) Arrive(r *Request) bool {
	f.queue = append(f.queue, r)
	return true
}

// Next implements Policy.
func (f *fcfs) Next(time.Duration) *Request {
	if len(f.queue) == 0 {
		return nil
	}
	return f.queue[0]
}

// Admit implements Policy.
func (f *fcfs) Admit(*Request) {
	f.queue[0] = nil
	f.queue = f.queue[1:]
}

// Withdraw implements Policy.
func (f *fcfs) Withdraw(r *Request) {
	if i := slices.Index(f.queue, r); i >= 0 {
		f.queue = slices.Delete(f.queue, i, i+1)
	}
}

// Copy implements Policy.
func (f *fcfs) Copy(of func(*Request) *Request) Policy { return &fcfs{queue: copies(f.queue, of)} }

// Beyond is what becomes of requests beyond a limit.
type Beyond uint8

// What becomes of them.
const (
	Refuse Beyond = iota // they are refused [the published code]
	Delay                // they wait for the next minute
)

// RPM is the settings of a limit on requests.
type RPM struct {
	Limit  int // requests of a client in a minute
	Beyond Beyond
}

// NewRPM returns the defaults.
func NewRPM() *RPM { return &RPM{Limit: 5} }

// Params implements Config.
func (c *RPM) Params() param.Set {
	return param.Set{
		param.Int("limit", &c.Limit, 1, 1_000_000, "requests", "of a client in each minute since the run began"),
		param.Choice("beyond", &c.Beyond, []param.Option[Beyond]{{Name: "refuse", Value: Refuse}, {Name: "delay", Value: Delay}}, "requests beyond the limit are refused, or wait for the next minute"),
	}
}

// Policy implements Config.
func (c *RPM) Policy(s Setup) (Policy, error) {
	return &rpm{cfg: *c, minute: make([]time.Duration, len(s.Clients)), used: make([]int, len(s.Clients))}, nil
}

// rpm is fcfs behind a limit: a request has a minute in which it may go.
type rpm struct {
	fcfs
	cfg    RPM
	minute []time.Duration // by client: the last in which it has used any
	used   []int           // of that minute
	later  []held          // those that wait for their minute, in the order of the minutes
}

// held is a request that may go from some moment on.
type held struct {
	r  *Request
	at time.Duration
}

// Arrive implements Policy.
func (l *rpm) Arrive(r *Request) bool {
	l.release(r.Arrived)
	minute := r.Arrived / time.Minute
	if l.minute[r.Client] < minute {
		l.minute[r.Client], l.used[r.Client] = minute, 0
	}
	if l.used[r.Client] >= l.cfg.Limit {
		if l.cfg.Beyond == Refuse {
			return false
		}
		l.minute[r.Client]++
		l.used[r.Client] = 0
	}
	l.used[r.Client]++
	if at := l.minute[r.Client] * time.Minute; at > r.Arrived {
		i := len(l.later)
		for i > 0 && l.later[i-1].at > at {
			i--
		}
		l.later = append(l.later, held{})
		copy(l.later[i+1:], l.later[i:])
		l.later[i] = held{r, at}
		return true
	}
	return l.fcfs.Arrive(r)
}

// Next implements Policy.
func (l *rpm) Next(now time.Duration) *Request {
	l.release(now)
	return l.fcfs.Next(now)
}

// release queues those whose minute has come, ahead of all who come from now on.
func (l *rpm) release(now time.Duration) {
	for len(l.later) > 0 && l.later[0].at <= now {
		l.fcfs.Arrive(l.later[0].r)
		l.later = l.later[1:]
	}
}

// Wake implements Policy.
func (l *rpm) Wake(now time.Duration) time.Duration {
	if len(l.later) == 0 {
		return unit.Never
	}
	return max(now+1, l.later[0].at)
}

// Withdraw implements Policy. What has gone counts against the limit nevertheless.
func (l *rpm) Withdraw(r *Request) {
	if i := slices.IndexFunc(l.later, func(h held) bool { return h.r == r }); i >= 0 {
		l.later = slices.Delete(l.later, i, i+1)
		return
	}
	l.fcfs.Withdraw(r)
}

// Reweigh implements Policy: the limit is the same for all, whatever their weight.
func (l *rpm) Reweigh(weights []float64) {
	for len(l.used) < len(weights) {
		l.minute, l.used = append(l.minute, 0), append(l.used, 0)
	}
}

// Copy implements Policy.
func (l *rpm) Copy(of func(*Request) *Request) Policy {
	out := &rpm{fcfs: fcfs{queue: copies(l.queue, of)}, cfg: l.cfg, minute: slices.Clone(l.minute), used: slices.Clone(l.used)}
	for _, h := range l.later {
		out.later = append(out.later, held{of(h.r), h.at})
	}
	return out
}
