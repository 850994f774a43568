package tokens

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/policy/param"
)

// Lift is how the counter of a client is lifted that comes back.
type Lift uint8

// The lifts.
const (
	Paper    Lift = iota // to the least counter of those who wait; when nobody waits, to that of the client who waited last
	Artifact             // when nobody waits, not at all [the published code]
	None                 // never: the least counter goes first
)

// Predict is how many tokens of output a request is taken to have when it is admitted.
type Predict uint8

// The predictions.
const (
	Nothing Predict = iota // none
	Mean                   // the mean of the last five requests of the client
	Oracle                 // what it will have, with an error
)

// VTC is the settings of virtual token counters.
type VTC struct {
	Cost    Cost
	Lift    Lift
	Weights []string // client:weight
	Predict Predict
	Error   float64 // of an oracle: predictions are within this part of the truth
	Seed    int     // of these errors

	lifts bool // the lift is a setting
}

// NewVTC returns the defaults.
func NewVTC() *VTC { return &VTC{Cost: Cost{Input: 1, Output: 2}, lifts: true} }

// NewLCF returns the settings of least counter first.
func NewLCF() *VTC { return &VTC{Cost: Cost{Input: 1, Output: 2}, Lift: None} }

// Params implements Config.
func (c *VTC) Params() param.Set {
	set := append(c.Cost.params(),
		param.Words("weights", &c.Weights, "client:weight", "clients that are to have more service than others or less, as in alice:2,bob:0.5; all others have 1"))
	if !c.lifts {
		return set
	}
	return append(set,
		param.Choice("lift", &c.Lift, []param.Option[Lift]{{Name: "paper", Value: Paper}, {Name: "artifact", Value: Artifact}, {Name: "none", Value: None}},
			"the counter of a client that comes back: lifted to the least of those who wait, else to that of who waited last; artifact: only to the least of those who wait; or not at all"),
		param.Choice("predict", &c.Predict, []param.Option[Predict]{{Name: "nothing", Value: Nothing}, {Name: "mean", Value: Mean}, {Name: "oracle", Value: Oracle}},
			"tokens of output that are charged when a request is admitted: none, the mean of the last five of the client, or the truth"),
		param.Float("error", &c.Error, 0, 1, "share", "by which an oracle is wrong at most"),
		param.Int("seed", &c.Seed, 0, math.MaxInt32, "", "of its errors"),
	)
}

// Policy implements Config.
func (c *VTC) Policy(s Setup) (Policy, error) {
	v := &vtc{cfg: *c, queues: newQueues(len(s.Clients)), counters: make([]float64, len(s.Clients)), weights: make([]float64, len(s.Clients)), recent: make([][]int, len(s.Clients)), at: make([]int, len(s.Clients))}
	for i := range v.weights {
		v.weights[i], v.at[i] = 1, -1
	}
	for _, text := range c.Weights {
		name, value, _ := strings.Cut(text, ":")
		w, err := strconv.ParseFloat(value, 64)
		if err != nil || !(w > 0) || w > 1e9 {
			return nil, fmt.Errorf("weights: %q is no client with a weight above 0, as in alice:2", text)
		}
		known := false
		for i, client := range s.Clients {
			if client == name {
				v.weights[i], known = w, true
			}
		}
		if !known {
			return nil, fmt.Errorf("weights: no request is of client %q%s", name, param.Near(name, s.Clients))
		}
	}
	v.rand = rand.New(rand.NewPCG(uint64(c.Seed), 0x746f6b656e73))
	return v, nil
}

// vtc is a counter for each client.
type vtc struct {
	queues
	idle
	cfg      VTC
	counters []float64
	weights  []float64
	recent   [][]int // by client: output of its last requests
	rand     *rand.Rand
	heap     []int // clients who wait, the least counter first
	at       []int // by client: its place in the heap, or -1
}

// before tells whether one client goes before another: ties go by name.
func (v *vtc) before(a, b int) bool {
	if v.counters[a] != v.counters[b] {
		return v.counters[a] < v.counters[b]
	}
	return a < b
}

// Arrive implements Policy.
func (v *vtc) Arrive(r *Request) bool {
	if c := r.Client; v.at[c] < 0 {
		switch {
		case v.cfg.Lift == None:
		case v.n > 0:
			v.counters[c] = max(v.counters[c], v.counters[v.heap[0]])
		case v.left >= 0 && v.cfg.Lift == Paper:
			v.counters[c] = max(v.counters[c], v.counters[v.left])
		}
		v.at[c] = len(v.heap)
		v.heap = append(v.heap, c)
		v.fix(c)
	}
	v.push(r)
	return true
}

// Next implements Policy.
func (v *vtc) Next(time.Duration) *Request {
	if v.n == 0 {
		return nil
	}
	return v.of[v.heap[0]][0]
}

// Admit implements Policy.
func (v *vtc) Admit(r *Request) {
	v.pop(r.Client)
	r.predicted = v.predict(r)
	v.charge(r, v.cfg.Cost.Of(r.Input, r.predicted))
	if len(v.of[r.Client]) == 0 {
		v.leave(r.Client)
	}
}

// Token implements Policy.
func (v *vtc) Token(r *Request) {
	if r.produced >= r.predicted {
		v.charge(r, v.cfg.Cost.next(r.Input, r.produced))
	}
	r.produced++
}

// Finish implements Policy: what was predicted in vain is given back.
func (v *vtc) Finish(r *Request) {
	if r.produced < r.predicted {
		v.charge(r, v.cfg.Cost.Of(r.Input, r.produced)-r.charged)
	}
	if v.cfg.Predict == Mean && r.produced > 0 {
		list := append(v.recent[r.Client], r.produced)
		v.recent[r.Client] = list[max(0, len(list)-5):]
	}
}

// Withdraw implements Policy. The client whose request was last taken out to be served stays the one to whom others are lifted.
func (v *vtc) Withdraw(r *Request) {
	if !v.withdraw(r) && v.at[r.Client] >= 0 {
		v.leave(r.Client)
	}
}

// Settle implements Policy.
func (v *vtc) Settle(r *Request, input, output int) {
	r.Input, r.produced, r.predicted = input, output, min(r.predicted, output)
	v.charge(r, v.cfg.Cost.Of(input, output)-r.charged)
}

// Reweigh implements Policy: what was charged so far stays as it is.
func (v *vtc) Reweigh(weights []float64) {
	v.grow(len(weights))
	for len(v.counters) < len(weights) {
		v.counters, v.recent, v.at = append(v.counters, 0), append(v.recent, nil), append(v.at, -1)
	}
	v.weights = slices.Clone(weights)
}

// Counter implements Policy.
func (v *vtc) Counter(client int) (float64, bool) { return v.counters[client], true }

// Copy implements Policy. Errors of an oracle are drawn anew.
func (v *vtc) Copy(of func(*Request) *Request) Policy {
	out := &vtc{queues: v.queues.copy(of), cfg: v.cfg, counters: slices.Clone(v.counters), weights: v.weights, heap: slices.Clone(v.heap), at: slices.Clone(v.at)}
	out.rand = rand.New(rand.NewPCG(uint64(v.cfg.Seed), 0x746f6b656e73))
	for _, list := range v.recent {
		out.recent = append(out.recent, slices.Clone(list))
	}
	return out
}

// charge adds to the counter of the client of a request.
func (v *vtc) charge(r *Request, service float64) {
	r.charged += service
	v.counters[r.Client] += service / v.weights[r.Client]
	v.fix(r.Client)
}

// predict is how many tokens of output a request is charged beforehand.
func (v *vtc) predict(r *Request) int {
	switch v.cfg.Predict {
	case Mean:
		sum := 0
		for _, n := range v.recent[r.Client] {
			sum += n
		}
		return sum / max(1, len(v.recent[r.Client]))
	case Oracle:
		return max(0, int(math.Round(float64(r.Output)*(1+v.cfg.Error*(2*v.rand.Float64()-1)))))
	}
	return 0
}

// leave takes a client out of those who wait.
func (v *vtc) leave(client int) {
	i, last := v.at[client], v.heap[len(v.heap)-1]
	v.heap[i], v.at[last] = last, i
	v.heap, v.at[client] = v.heap[:len(v.heap)-1], -1
	if last != client {
		v.fix(last)
	}
}

// fix moves a client to its place among those who wait.
func (v *vtc) fix(client int) {
	i := v.at[client]
	if i < 0 {
		return
	}
	for up := (i - 1) / 2; i > 0 && v.before(client, v.heap[up]); up = (i - 1) / 2 {
		v.heap[i], v.at[v.heap[up]] = v.heap[up], i
		i = up
	}
	for {
		least := 2*i + 1
		if least+1 < len(v.heap) && v.before(v.heap[least+1], v.heap[least]) {
			least++
		}
		if least >= len(v.heap) || !v.before(v.heap[least], client) {
			break
		}
		v.heap[i], v.at[v.heap[least]] = v.heap[least], i
		i = least
	}
	v.heap[i], v.at[client] = client, i
}
