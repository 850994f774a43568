package lyra

import (
	"github.com/norn-scheduler/norn/solve/choose"
)

// Elastic is a job that may have further workers.
type Elastic struct {
	Work float64 // worker-seconds that it has left
	Base int     // workers that it has in any case, above 0
	More int     // further workers that it can use
	Each int     // GPUs of a worker, above 0
	Side int     // on which side its workers are
}

// Gain is by how many seconds so many further workers shorten a job that scales linearly.
func (e *Elastic) Gain(more int) float64 {
	return e.Work/float64(e.Base) - e.Work/float64(e.Base+more)
}

// Scale is how many further workers each job has for the largest sum of gains within so many
// GPUs of each side: a multiple-choice knapsack, solved exactly. It fails where capacities
// are too large for that.
//
// Source: Li et al., "Lyra", EuroSys 2023, section 5.2.
func Scale(jobs []Elastic, gpus []int64) ([]int, error) {
	rows := make([][]choose.Option, len(jobs))
	for i := range jobs {
		e := &jobs[i]
		for k := 1; k <= e.More && int64(k*e.Each) <= gpus[e.Side]; k++ {
			if v := e.Gain(k); v > 0 {
				rows[i] = append(rows[i], choose.Option{Kind: e.Side, Need: int64(k * e.Each), Value: v})
			}
		}
	}
	answer, err := choose.Best(gpus, rows, choose.Limits{})
	if err != nil {
		return nil, err
	}
	out := make([]int, len(jobs))
	for i, pick := range answer.Pick {
		if pick != choose.None {
			out[i] = pick + 1 // gains grow, so that none was left out before it
		}
	}
	return out, nil
}
