package fgd

import "github.com/norn-scheduler/norn/sched"

// Fragment is how much of the idle GPUs of a cluster, in thousandths of one, a task
// drawn from the target cannot use, in the mean.
func (t *Target) Fragment(v *sched.View) float64 {
	var m mirror
	m.follow(v)
	sum := 0.0
	for i := range m.nodes {
		sum += t.fragment(&m.nodes[i])
	}
	return sum
}
