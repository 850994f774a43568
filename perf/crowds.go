package perf

import (
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Crowd names the jobs on a device by their sorts, as many times as there are jobs of
// each, in order: it is a multiset. NewCrowd makes one.
type Crowd string

// NewCrowd is the crowd of some sorts, which it puts in order.
func NewCrowd(sorts []string) Crowd {
	slices.Sort(sorts)
	return Crowd(strings.Join(sorts, "+"))
}

// Sorts are the sorts of a crowd, in order.
func (c Crowd) Sorts() []string { return strings.Split(string(c), "+") }

// Crowds is a Sharing measured for whole crowds. It gives the time that all
// jobs on a device lose together: the sum of (time there - time alone) / time
// alone over its jobs. Each of them bears a part of it in proportion to how
// busy it keeps the device (job.Hints.GPUUse; all the same where one of them
// does not tell).
//
// Source: the interference tables of IADeep, "Interference-aware Multiplexing for Deep
// Learning in GPU Clusters", SC 2023. That it is borne in proportion is ours: only sums
// were published.
type Crowds struct {
	Sum map[Crowd]float64 // above -1 for each job

	// Pressure stands in for a crowd that was not measured: each job on the device
	// adds what its sort weighs, for each of the others; 0: nothing.
	Pressure map[string]float64

	// Else tells of jobs with others of a sort of which neither is known; nil: such a
	// sort weighs nothing.
	Else Sharing
}

// Of is the sum for a crowd.
func (m Crowds) Of(c Crowd) (sum float64, measured bool) { return m.of(c.Sorts()) }

// of is the sum for the jobs of some sorts, in order.
func (m Crowds) of(sorts []string) (sum float64, measured bool) {
	if sum, measured = m.measured(sorts); measured {
		return sum, true
	}
	for _, s := range sorts {
		sum += m.Pressure[s] * float64(len(sorts)-1)
	}
	return sum, false
}

// measured is the sum that was measured for the jobs of some sorts, in order.
func (m Crowds) measured(sorts []string) (sum float64, ok bool) {
	if len(m.Sum) > 0 {
		sum, ok = m.Sum[Crowd(strings.Join(sorts, "+"))]
	}
	return sum, ok
}

// Beside implements Sharing. Nobody becomes faster: what was measured below 0 counts as
// 0.
func (m Crowds) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	if len(others) == 0 || t.Host {
		return 1
	}
	sorts := make([]string, 0, 4)
	sorts = append(sorts, SortOf(j))
	own, all, told := use(j), use(j), use(j) > 0
	for _, o := range others {
		sorts = append(sorts, SortOf(o))
		all, told = all+use(o), told && use(o) > 0
	}
	slices.Sort(sorts)
	if m.Else != nil && !m.knows(sorts) {
		return m.Else.Beside(j, others, t)
	}
	part := 1 / float64(len(sorts))
	if told {
		part = own / all
	}
	sum, _ := m.of(sorts)
	return 1 / (1 + max(0, sum)*part)
}

// knows tells whether anything is known of all sorts, which are in order.
func (m Crowds) knows(sorts []string) bool {
	if _, ok := m.measured(sorts); ok {
		return true
	}
	for _, s := range sorts {
		if _, ok := m.Pressure[s]; !ok {
			return false
		}
	}
	return true
}

// use is how busy a job keeps its GPUs, as far as it tells.
func use(j *job.Job) float64 {
	if j.Hints == nil {
		return 0
	}
	return min(1, max(0, j.Hints.GPUUse))
}
