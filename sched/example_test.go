package sched_test

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// responseRatio first starts the job that has waited longest for its length,
// and stops no job (highest response ratio next, Brinch Hansen 1971). It keeps
// nothing between calls, so a restart changes nothing.
type responseRatio struct{}

func (responseRatio) Decide(v *sched.View, p *sched.Plan) {
	jobs := slices.SortedStableFunc(v.Waiting(), func(a, b sched.Job) int {
		return cmp.Compare(ratio(b), ratio(a)) // ties stay in order of submission
	})
	for _, j := range jobs {
		p.Start(j.ID, place.Consolidated) // if it does not fit, the plan notes why
	}
}

// ratio is the response time of a job that would start now, divided by its run
// time.
func ratio(j sched.Job) float64 {
	left, known := j.Remaining() // an estimate, whose source depends on the experiment
	if !known || left <= 0 {
		return 1
	}
	return float64(j.Wait()+left) / float64(left)
}

// This policy of thirty lines runs on four jobs and a node of four GPUs. After
// a minute "short" has waited for four times its length and "long" for half of
// its own.
func ExamplePolicy() {
	run, err := simtest.Try(simtest.Config{
		Cluster: simtest.Nodes(1, 4),
		Make:    func() (sched.Policy, error) { return responseRatio{}, nil },
	},
		simtest.Job{Key: "first", At: 0, GPUs: 3, Run: 60},
		simtest.Job{Key: "long", At: 10, GPUs: 4, Run: 100},
		simtest.Job{Key: "short", At: 20, GPUs: 2, Run: 10},
		simtest.Job{Key: "small", At: 30, GPUs: 1, Run: 50},
	)
	if err != nil {
		fmt.Println(err)
	}
	for _, line := range run.Log {
		fmt.Println(line)
	}
	// Output:
	// 0 submit first
	// 0 start first on n0[0-2]
	// 10 submit long
	// 10 wait long: needs 4 GPUs; 1 free
	// 20 submit short
	// 20 wait short: needs 2 GPUs; 1 free
	// 30 submit small
	// 30 start small on n0[3]
	// 60 end first done
	// 60 start short on n0[0-1]
	// 70 end short done
	// 80 end small done
	// 80 start long on n0[0-3]
	// 180 end long done
}
