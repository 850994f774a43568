package fgd

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// Target is the workload for which nodes are kept whole: shapes of tasks and how
// much each counts, which add up to 1.
type Target struct {
	shapes  []shape
	weights []float64
}

// NewTarget makes the target of the tasks of jobs, each of whose demands counts so
// often: the most frequent shapes that together make up the popularity, 0 to 1, of
// all. Types are the acceptable GPU types of each demand.
func NewTarget(demands []*job.Demand, types []cluster.TypeMask, counts []float64, popularity float64) *Target {
	sum := map[shape]float64{}
	total := 0.0
	for i, d := range demands {
		if s, ok := shapeOf(d, types[i]); ok {
			s.memory, s.deviceMemory = 0, 0 // which fragments nothing, as far as the paper goes
			sum[s] += counts[i]
			total += counts[i]
		}
	}
	t := &Target{}
	for s := range sum {
		t.shapes = append(t.shapes, s)
	}
	slices.SortFunc(t.shapes, func(a, b shape) int {
		return cmp.Or(cmp.Compare(sum[b], sum[a]), cmp.Compare(b.cpu, a.cpu), cmp.Compare(b.milli, a.milli), cmp.Compare(b.count, a.count),
			cmp.Compare(b.types, a.types))
	})
	kept := 0.0
	for i, s := range t.shapes {
		if i > 0 && kept >= popularity*total {
			t.shapes = t.shapes[:i]
			break
		}
		kept += sum[s]
	}
	for i := range t.shapes {
		t.weights = append(t.weights, sum[t.shapes[i]]/kept)
	}
	return t
}

// fragment is how much of the idle GPUs of a node, in thousandths of one, a task
// drawn from the target cannot use, in the mean [FGD, section 3].
func (t *Target) fragment(n *node) float64 {
	sum := 0.0
	if n.idle == 0 {
		return 0
	}
	for i := range t.shapes {
		s := &t.shapes[i]
		lost := n.idle
		if s.count > 0 && n.cpu >= s.cpu {
			lost = n.useless(s)
		}
		sum += t.weights[i] * float64(lost)
	}
	return sum
}

// useless is what of the idle GPUs of a node with enough CPU is of no use to a
// task: those with too little left, and all of them if the others are too few.
func (n *node) useless(s *shape) int64 {
	lost, room := int64(0), int32(0)
	for d, free := range n.free {
		switch {
		case !s.types.Has(n.types[d]):
			lost += int64(free)
		case free < s.milli:
			lost += int64(free)
		default:
			room++
		}
	}
	if room < s.count {
		return n.idle
	}
	return lost
}

// learned is the target of the jobs seen so far. It changes when their number has
// grown by an eighth, so that it depends on the jobs alone, whenever it is asked
// for.
type learned struct {
	of     int // the first so many jobs
	target *Target
}

func (l *learned) follow(v *sched.View, popularity float64) (changed bool) {
	of := 1
	for of+max(1, of/8) <= v.Jobs() {
		of += max(1, of/8)
	}
	if of = min(of, v.Jobs()); of == l.of && l.target != nil {
		return false
	}
	counts := make([]float64, v.Classes())
	for id := range job.ID(of) {
		j := v.Job(id)
		counts[j.Class()] += float64(j.Spec().Demand.Roles[0].Tasks)
	}
	var demands []*job.Demand
	var types []cluster.TypeMask
	var often []float64
	for c, n := range counts {
		if class := v.Class(int32(c)); n > 0 && !class.NoType {
			demands, types, often = append(demands, class.Demand), append(types, class.Mask), append(often, n)
		}
	}
	l.of, l.target = of, NewTarget(demands, types, often, popularity)
	return true
}
