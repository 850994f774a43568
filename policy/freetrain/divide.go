package freetrain

import (
	"slices"

	"github.com/norn-scheduler/norn/solve/choose"
)

// Trainer is a job that may have any number of nodes within bounds, or none.
type Trainer struct {
	Least, Most int       // nodes, above 0
	Each        int       // GPUs of a node; 0: 1
	Has         int       // nodes that it has, 0: none
	Stays       bool      // it must not lose all that it has
	Rate        []float64 // by number of nodes from 0 on, at least up to Most and Has; Rate[0] is 0
	Up, Down    float64   // seconds without progress after it got more nodes, or fewer
}

// Worth is what a number of nodes is worth over a horizon of so many seconds: what is done in it,
// less what is not done during the change.
func (t *Trainer) Worth(nodes int, horizon float64) float64 {
	return horizon*t.Rate[nodes] - t.cost(nodes)
}

// cost is what is not done during a change to a number of nodes. To start costs nothing.
func (t *Trainer) cost(nodes int) float64 {
	switch {
	case nodes > t.Has:
		return t.Up * t.Rate[t.Has]
	case nodes < t.Has:
		return t.Down * t.Rate[t.Has]
	}
	return 0
}

// stays is by how much staying is worth more than it is, relative to the whole, so that of two
// divisions that are worth the same the present one is chosen.
const stays = 1e-9

// Divide is how many nodes each trainer has for the largest sum of worth, within so many GPUs.
// Nodes are alike and nobody moves, so only their number matters. It is the multiple-choice
// knapsack to which BFTrainer's integer program comes down, solved exactly. It fails where
// there are too many GPUs for that.
func Divide(trainers []Trainer, gpus int, horizon float64) ([]int, error) {
	rows := make([][]choose.Option, len(trainers))
	all := 0.0 // more than any division is worth
	for i := range trainers {
		t := &trainers[i]
		all += horizon*slices.Max(t.Rate) + max(t.Up, t.Down)*t.Rate[t.Has]
	}
	for i := range trainers {
		t := &trainers[i]
		nothing := t.Worth(0, horizon) // to have no nodes is no option: others are worth so much more
		for n := t.Least; n <= t.Most; n++ {
			need := n * max(1, t.Each)
			if need > gpus {
				break
			}
			v := t.Worth(n, horizon) - nothing
			if n == t.Has {
				v += stays * horizon * t.Rate[n]
			}
			if t.Stays {
				v += all
			}
			if v > 0 {
				rows[i] = append(rows[i], choose.Option{Need: int64(need), Value: v})
			}
		}
	}
	answer, err := choose.Best([]int64{int64(gpus)}, rows, choose.Limits{})
	if err != nil {
		return nil, err
	}
	out := make([]int, len(trainers))
	for i, pick := range answer.Pick {
		if pick != choose.None {
			out[i] = int(rows[i][pick].Need) / max(1, trainers[i].Each)
		}
	}
	return out, nil
}

// Share gives everybody the same number of nodes within their bounds, in order, and what is left to
// the first of those who can use it: the heuristic with which BFTrainer is compared.
func Share(trainers []Trainer, gpus int) []int {
	out := make([]int, len(trainers))
	if len(trainers) == 0 {
		return out
	}
	equal := gpus / len(trainers)
	for i := range trainers {
		t := &trainers[i]
		each := max(1, t.Each)
		if n := min(t.Most, max(t.Least, equal/each)); n*each <= gpus {
			out[i] = n
			gpus -= n * each
		}
	}
	for i := range trainers {
		t := &trainers[i]
		if each := max(1, t.Each); out[i] > 0 {
			more := min(t.Most-out[i], gpus/each)
			out[i] += more
			gpus -= more * each
		}
	}
	return out
}
