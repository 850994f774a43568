package resize_test

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// sized gives jobs the sizes that are written for a moment, in place.
type sized map[time.Duration]map[string]int

// Decide implements sched.Policy.
func (s sized) Decide(v *sched.View, p *sched.Plan) {
	sizes, due := s[v.Now]
	if !due {
		return
	}
	claims, _ := resize.Claims(v, 0, func(sched.Job) bool { return false })
	for _, c := range claims {
		c.Tasks = sizes[c.Job.Spec().Key]
	}
	resize.CarryOutInPlace(v, p, claims, place.Pack)
}

// NextWake implements sched.Waker.
func (s sized) NextWake(v *sched.View) time.Duration { return (v.Now/time.Second + 1) * time.Second }

func elastic(key string, at float64) simtest.Job {
	d := job.GPUs(1)
	d.Roles[0].Min, d.Roles[0].Max = 1, 8
	return simtest.Job{Key: key, At: at, Run: 100, Demand: &d, Spec: func(j *job.Job) { j.Resize = job.InPlace }}
}

// TestInPlace is acceptance 4 of the specification of ONES: of GPUs that belong to a, a, b and
// nobody, a is to have one, b two and c one. One GPU changes hands. A job that shrinks or grows
// stays where it is, and pays for a resize in place; one that finds no room for all of its tasks has
// as many as fit.
func TestInPlace(t *testing.T) {
	costs := perf.Costs{Base: perf.Cost{Resize: 30 * time.Second, InPlace: 2 * time.Second}}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Costs: costs, Make: func() (sched.Policy, error) {
		return sized{time.Second: {"a": 2, "b": 1}, 10 * time.Second: {"a": 1, "b": 2, "c": 1}}, nil
	}}, elastic("a", 1), elastic("b", 1), elastic("c", 9))
	log := strings.Join(run.Log, "\n")
	for _, want := range []string{"1 start b on n0[0]", "1 start a on n0[1-2]", "10 resize a on n0[1] delay=2", "10 start c on n0[2]", "10 resize b on n0[0,3] delay=2"} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in\n%s", want, log)
		}
	}
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 3), Costs: costs, Make: func() (sched.Policy, error) {
		return sized{time.Second: {"a": 4, "b": 1}, 10 * time.Second: {"a": 3, "b": 1, "c": 0}, 20 * time.Second: {"a": 8, "b": 1}}, nil
	}}, elastic("a", 1), elastic("b", 1))
	log = strings.Join(run.Log, "\n")
	for _, want := range []string{"10 resize a on ", "20 resize a on n0[1-2]+n1[0-2] delay=2"} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in\n%s", want, log)
		}
	}
}
