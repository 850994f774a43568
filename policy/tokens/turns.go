package tokens

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/policy/param"
)

// RR is round robin by requests. It has no settings.
type RR struct{}

// Params implements Config.
func (*RR) Params() param.Set { return nil }

// Policy implements Config.
func (*RR) Policy(s Setup) (Policy, error) { return &rr{queues: newQueues(len(s.Clients))}, nil }

// rr goes round the clients.
type rr struct {
	queues
	idle
	turn int // the client whose turn it is
}

// Arrive implements Policy.
func (q *rr) Arrive(r *Request) bool {
	q.push(r)
	return true
}

// Next implements Policy.
func (q *rr) Next(time.Duration) *Request {
	if q.n == 0 {
		return nil
	}
	for len(q.of[q.turn]) == 0 {
		q.turn = (q.turn + 1) % len(q.of)
	}
	return q.of[q.turn][0]
}

// Admit implements Policy.
func (q *rr) Admit(r *Request) {
	q.pop(r.Client)
	q.turn = (r.Client + 1) % len(q.of)
}

// Withdraw implements Policy.
func (q *rr) Withdraw(r *Request) { q.withdraw(r) }

// Reweigh implements Policy: turns are the same for all, whatever their weight.
func (q *rr) Reweigh(weights []float64) { q.grow(len(weights)) }

// Copy implements Policy.
func (q *rr) Copy(of func(*Request) *Request) Policy {
	return &rr{queues: q.queues.copy(of), turn: q.turn}
}

// DRR is the settings of deficit round robin.
type DRR struct {
	Cost    Cost
	Quantum float64
}

// NewDRR returns the defaults.
func NewDRR() *DRR { return &DRR{Cost: Cost{Input: 1, Output: 2}} }

// Params implements Config.
func (c *DRR) Params() param.Set {
	return append(c.Cost.params(), param.Float("quantum", &c.Quantum, 0, 1e12, "units", "service that a client may have in its turn; 0: a twentieth of the tokens for which the server has memory"))
}

// Policy implements Config.
func (c *DRR) Policy(s Setup) (Policy, error) {
	d := &drr{rr: rr{queues: newQueues(len(s.Clients))}, cfg: *c, budget: make([]float64, len(s.Clients))}
	if d.cfg.Quantum == 0 {
		d.cfg.Quantum = max(1, float64(s.Pool)/20)
	}
	return d, nil
}

// drr goes round the clients with a budget for each. Output is paid as it is produced, so that a
// budget may fall below 0: then the client is passed over until its quanta have paid that.
type drr struct {
	rr
	cfg    DRR
	budget []float64
	began  bool // the client whose turn it is has had its quantum
}

// Next implements Policy.
func (d *drr) Next(time.Duration) *Request {
	if d.n == 0 {
		return nil
	}
	for {
		c := d.turn
		if len(d.of[c]) > 0 {
			if !d.began {
				d.began = true
				if d.budget[c] <= 0 {
					d.budget[c] += d.cfg.Quantum
				}
			}
			if d.budget[c] > 0 {
				return d.of[c][0]
			}
		}
		d.skip()
	}
}

// skip gives the turn to the next client. Where all who wait are deep in debt, as many rounds as none of them is
// paid in are gone through at once.
func (d *drr) skip() {
	d.began = false
	if d.turn = (d.turn + 1) % len(d.of); d.turn != 0 {
		return
	}
	rounds := -1.0
	for c, list := range d.of {
		if len(list) == 0 {
			continue
		}
		if n := -d.budget[c] / d.cfg.Quantum; rounds < 0 || n < rounds {
			rounds = max(0, n)
		}
	}
	whole := float64(int64(min(rounds, 1e15)))
	for c, list := range d.of {
		if len(list) > 0 && whole > 0 {
			d.budget[c] += whole * d.cfg.Quantum
		}
	}
}

// Admit implements Policy.
func (d *drr) Admit(r *Request) {
	d.pop(r.Client)
	d.budget[r.Client] -= d.cfg.Cost.Of(r.Input, 0)
	if len(d.of[r.Client]) == 0 { // who goes away takes no credit along
		d.budget[r.Client] = min(0, d.budget[r.Client])
	}
}

// Token implements Policy.
func (d *drr) Token(r *Request) {
	d.budget[r.Client] -= d.cfg.Cost.next(r.Input, r.produced)
	r.produced++
}

// Withdraw implements Policy.
func (d *drr) Withdraw(r *Request) {
	if !d.withdraw(r) {
		d.budget[r.Client] = min(0, d.budget[r.Client])
	}
}

// Settle implements Policy.
func (d *drr) Settle(r *Request, input, output int) {
	d.budget[r.Client] += d.cfg.Cost.Of(r.Input, r.produced) - d.cfg.Cost.Of(input, output)
	d.idle.Settle(r, input, output)
}

// Reweigh implements Policy: quanta are the same for all, whatever their weight.
func (d *drr) Reweigh(weights []float64) {
	d.grow(len(weights))
	for len(d.budget) < len(weights) {
		d.budget = append(d.budget, 0)
	}
}

// Copy implements Policy.
func (d *drr) Copy(of func(*Request) *Request) Policy {
	return &drr{rr: rr{queues: d.queues.copy(of), turn: d.turn}, cfg: d.cfg, budget: slices.Clone(d.budget), began: d.began}
}
