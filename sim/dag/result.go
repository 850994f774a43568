package dag

import (
	"bytes"
	_ "embed" // weights
	"encoding/csv"
	"io"
	"slices"
	"strconv"

	"github.com/norn-scheduler/norn/policy/stages"
)

//go:embed weights.json
var shipped []byte

// Shipped is the training whose weights decima has where no others are named.
func Shipped() (*Checkpoint, error) { return ReadCheckpoint(bytes.NewReader(shipped)) }

// Weights are those of a checkpoint that decima is run with.
func (c *Checkpoint) Weights() (*stages.Weights, error) { return stages.NewWeights(c.Best) }

// Summary is a result as programs read it. Times are seconds.
type Summary struct {
	Policy    string  `json:"policy"`
	Jobs      int     `json:"jobs"`
	Executors int     `json:"executors"`
	Ended     float64 `json:"ended_s"`
	Mean      float64 `json:"jct_mean_s"`
	P50       float64 `json:"jct_p50_s"`
	P90       float64 `json:"jct_p90_s"`
	P99       float64 `json:"jct_p99_s"`
	Busy      float64 `json:"busy"` // part of the time of executors that they ran tasks
	Moves     int     `json:"moves"`
	Choices   int     `json:"choices"`
}

// Summary is the result of a run that went on to its end, under the name of a policy.
func (r *Result) Summary(policy string, o Options) *Summary {
	s := &Summary{Policy: policy, Jobs: len(r.Jobs), Executors: o.Executors, Ended: r.Ended.Seconds(), Moves: r.Moves, Choices: r.Asked}
	if len(r.Jobs) == 0 {
		return s
	}
	times := make([]float64, len(r.Jobs))
	for i := range r.Jobs {
		times[i] = (r.Jobs[i].Ended - r.Jobs[i].Arrived).Seconds()
		s.Mean += times[i] / float64(len(times))
	}
	slices.Sort(times)
	at := func(q float64) float64 { return times[int(q*float64(len(times)-1)+0.5)] }
	s.P50, s.P90, s.P99 = at(0.5), at(0.9), at(0.99)
	s.Busy = r.Busy / max(1e-9, s.Ended*float64(o.Executors))
	return s
}

// WriteJobs writes the life of each job as CSV, in seconds.
func (r *Result) WriteJobs(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"job", "arrival_s", "end_s", "jct_s"}) // Flush tells of errors
	text := func(s float64) string { return strconv.FormatFloat(s, 'f', -1, 64) }
	for _, j := range r.Jobs {
		_ = out.Write([]string{j.ID, text(j.Arrived.Seconds()), text(j.Ended.Seconds()), text((j.Ended - j.Arrived).Seconds())})
	}
	out.Flush()
	return out.Error()
}
