package gen

import (
	"math/rand/v2"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// AssumedDeadlines is a trace in which jobs without a deadline are each given one. It is the
// submission plus the run time times a factor that is drawn evenly from Least to Most. Services
// have none. Draws go by a seed and the number of the job.
//
// Source of the rule: ElasticFlow (ASPLOS 2023), with factors from 0.5 to 1.5.
type AssumedDeadlines struct {
	Source      trace.Source
	Seed        uint64
	Least, Most float64 // above 0
	Soft        float64 // part of the deadlines that are soft, 0 to 1
	None        float64 // part of the jobs that are given none, 0 to 1
	Jobs        int     // given one so far
}

// deadlineStream keeps the draws of deadlines apart from those of other assumptions.
const deadlineStream = 0xdead_11fe

// Next implements trace.Source.
func (a *AssumedDeadlines) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	j := &e.Job
	if j.Deadline != 0 || j.Kind == job.Inference {
		return nil
	}
	rng := rand.New(rand.NewPCG(a.Seed^deadlineStream, uint64(j.ID)))
	factor, none, soft := a.Least+(a.Most-a.Least)*rng.Float64(), rng.Float64(), rng.Float64()
	if none < a.None {
		return nil
	}
	j.Deadline = j.Submit + max(1, time.Duration(factor*float64(e.Truth.Total())))
	j.Soft = soft < a.Soft
	a.Jobs++
	return nil
}
