package lucid

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/unit"
)

// memo is what is remembered about a job.
type memo struct {
	at    int64          // moment at which it came to be measured, which counts if it did begin then
	node  cluster.NodeID // that was lent for it; -1: none
	apart bool           // it was taken from a pair that used more than it told: it shares no more
}

// Of a memo the first number is the mark, with the node, plus one, and whether it is apart in
// the bits above.
const (
	mark     = 0x6c75636964
	nodeBit  = 40
	nodeBits = 22
	apartBit = nodeBit + nodeBits
	never    = math.MaxInt64 // measured no more
)

func (m memo) pack() job.Memo {
	word := int64(mark) | int64(m.node+1)<<nodeBit
	if m.apart {
		word |= 1 << apartBit
	}
	return job.Memo{word, m.at}
}

func unpack(m job.Memo) memo {
	if m[0]&(1<<nodeBit-1) != mark {
		return memo{at: never, node: -1} // it is not this policy's
	}
	return memo{m[1], cluster.NodeID(m[0]>>nodeBit&(1<<nodeBits-1)) - 1, m[0]>>apartBit&1 != 0}
}

// memo is what is remembered about a job, this decision included.
func (l *policy) memo(j sched.Job) memo {
	if m, ok := l.news[j.ID]; ok {
		return m
	}
	return unpack(j.Memo())
}

func (l *policy) remember(p *sched.Plan, id job.ID, m memo) {
	l.news[id] = m
	p.Remember(id, m.pack())
}

// measured tells whether a running job is being measured, and until when at most.
func (l *policy) measured(v *sched.View, j sched.Job) (until time.Duration, ok bool) {
	first, ran := j.FirstStart()
	if !ran || j.Phase() != job.Running || time.Duration(l.memo(j).at) > first || j.Failures()+j.Preemptions() > 0 || !l.short(j) {
		return 0, false
	}
	if l.cfg.ProfileTime >= unit.Never-first {
		return unit.Never, true
	}
	return first + l.cfg.ProfileTime, true
}

// short tells whether a job is one to be measured.
func (l *policy) short(j sched.Job) bool {
	return beside.Plain(j) && j.GPUs() <= l.cfg.ProfileGPUs && j.Spec().Stop != job.Pinned
}

// release ends the measurements that have taken their time. Who was measured may
// start elsewhere at once.
func (l *policy) release(v *sched.View, p *sched.Plan) {
	l.queue = l.queue[:0]
	for j := range v.Running() {
		if until, ok := l.measured(v, j); ok && v.Now >= until {
			p.Stop(j.ID, job.Reason{Code: job.Profiled, Job: job.None})
			m := l.memo(j)
			m.at = never
			l.remember(p, j.ID, m)
			l.queue = append(l.queue, waiting{j.ID, l.rank(j)})
		}
	}
}

// measure starts new jobs on the profiler's nodes, those with the fewest GPUs before
// others, until one of a pool has no room: Algorithm 1. Then nodes are lent to the
// profiler, or given back.
func (l *policy) measure(v *sched.View, p *sched.Plan, fresh []waiting) {
	slices.SortStableFunc(fresh, func(a, b waiting) int { return cmp.Compare(v.Job(a.id).GPUs(), v.Job(b.id).GPUs()) })
	left := map[cluster.PoolID]int{} // jobs that wait to be measured
	for _, w := range fresh {
		left[v.Job(w.id).Pool()]++
	}
	blocked := map[cluster.PoolID]bool{}
	l.wants = false
	for _, w := range fresh {
		j := v.Job(w.id)
		pool := j.Pool()
		m := memo{at: int64(v.Now), node: -1}
		fits := !blocked[pool] && l.consolidate(v, j, true)
		if !fits && !blocked[pool] {
			m.node = l.lend(v, j, left[pool])
			fits = m.node >= 0 && l.consolidate(v, j, true)
		}
		if fits {
			p.StartOn(w.id, &l.alloc)
			l.remember(p, w.id, m)
			left[pool]--
			continue
		}
		blocked[pool] = true
		p.Hold(w.id, beside.Because("it waits to be measured, and the GPUs for that are taken"))
	}
	l.giveBack(v, p, left)
}

// profilable tells whether a node of the profiler could hold a job if it were empty.
func (l *policy) profilable(v *sched.View, j sched.Job) bool {
	if !l.profiles {
		return false
	}
	for _, n := range v.Cluster().PoolNodes(j.Pool()) {
		if l.reserved[n] && len(l.devices(v, n, v.Class(j.Class()), true)) >= j.GPUs() {
			return true
		}
	}
	return false
}
