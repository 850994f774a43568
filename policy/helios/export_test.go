package helios

import (
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/learner"
	"github.com/norn-scheduler/norn/sched"
)

// Blend weighs the rolling estimate against that of the trees.
var Blend = learner.Blend

// Predict is the run time in seconds that a policy of this package would predict
// for a job that began to wait now, and what the rolling estimate alone says.
func Predict(p sched.Policy, v *sched.View, j *job.Job) (both, rolling float64, err error) {
	l := p.(*policy).learner
	l.Follow(v)
	d, _ := l.Rolling(j)
	both, err = l.Predict(j)
	return both, d.Seconds(), err
}
