package lucid

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// Lend is when nodes of a partition are lent to its profiler: the paper's time-aware
// scaling (section 3.2), as the published code has it for Venus.
type Lend struct {
	Nodes int           // at a time, at most; 0: none
	Above int           // more jobs than these wait to be measured: a node is lent
	Every time.Duration // how often that is seen
	Below int           // fewer jobs than these wait: an idle node is given back
	Back  time.Duration // how often that is seen
	Ahead float64       // GPUs foreseen for each ten minutes up to which it is given back, in times ProfileGPUs
}

// loan is a node that is lent to the profiler. It is noted on the job for which it was
// lent, also when that has ended, until the node is given back.
type loan struct {
	node cluster.NodeID
	job  job.ID
}

// recall finds the loans that stand, and counts their nodes as the profiler's.
func (l *policy) recall(v *sched.View) {
	if v.First {
		l.loans = l.loans[:0]
		for id := range job.ID(v.Jobs()) {
			if n, _ := sched.Recall[note](v.Job(id)); n.lent >= 0 && v.Covers(v.Job(id)) {
				l.loans = append(l.loans, loan{n.lent, id})
			}
		}
	}
	l.loans = slices.DeleteFunc(l.loans, func(o loan) bool {
		j := v.Job(o.job)
		n, _ := sched.Recall[note](j)
		return n.lent != o.node || !slices.Contains(v.Cluster().PoolNodes(j.Pool()), o.node)
	})
	for _, o := range l.loans {
		l.reserved[o.node] = true
	}
}

// lent is how many nodes of a pool are lent to its profiler.
func (l *policy) lent(v *sched.View, pool cluster.PoolID) (n int) {
	for _, o := range l.loans {
		if v.Job(o.job).Pool() == pool {
			n++
		}
	}
	return n
}

// lend lends the profiler a node for a job that has no room to be measured: the last
// idle one that could hold it, if so many wait as must, at the moments for that; -1:
// none.
func (l *policy) lend(v *sched.View, j sched.Job, wait int) cluster.NodeID {
	rule := &l.cfg.Lend
	if wait <= rule.Above || l.lent(v, j.Pool()) >= rule.Nodes {
		return -1
	}
	nodes := v.Cluster().PoolNodes(j.Pool())
	others, best := 0, cluster.NodeID(-1)
	for _, n := range nodes {
		if l.reserved[n] {
			continue
		}
		others++
		if l.idle(v, n) && len(l.devices(v, n, v.Class(j.Class()), false)) >= j.GPUs() {
			best = n
		}
	}
	if best < 0 || others < 2 {
		return -1 // the last one is not lent
	}
	if v.Now%rule.Every != 0 {
		l.wants = true
		return -1
	}
	l.loans = append(l.loans, loan{best, j.ID})
	l.reserved[best] = true
	return best
}

// idle tells whether nobody holds anything of a node's devices.
func (l *policy) idle(v *sched.View, n cluster.NodeID) bool {
	first, count := v.Cluster().DeviceRange(n)
	for d := first; d < first+cluster.DeviceID(count); d++ {
		if v.Cluster().DeviceFree(d) != unit.One {
			return false
		}
	}
	return true
}

// giveBack gives idle nodes back where few jobs wait to be measured and no more are
// foreseen than the profiler has room for.
func (l *policy) giveBack(v *sched.View, p *sched.Plan, left map[cluster.PoolID]int) {
	rule := &l.cfg.Lend
	if v.Now%rule.Back != 0 {
		return
	}
	for _, o := range l.loans {
		j := v.Job(o.job)
		if left[j.Pool()] < rule.Below && l.idle(v, o.node) && l.calm(v) {
			n, _ := sched.Noted[note](p, j)
			n.lent = cluster.None
			p.Remember(o.job, &n)
			l.reserved[o.node] = slices.Contains(l.own(v, j.Pool()), o.node)
		}
	}
}

// calm tells whether few GPUs are foreseen to be asked for.
func (l *policy) calm(v *sched.View) bool {
	next, err := l.requests.next(v)
	return err != nil || next <= l.cfg.Lend.Ahead*float64(l.cfg.ProfileGPUs)
}

// nextLoan is the next moment at which a node may be lent or given back.
func (l *policy) nextLoan(v *sched.View) time.Duration {
	at := unit.Never
	if l.wants {
		at = beside.Next(v.Now, l.cfg.Lend.Every)
	}
	for _, o := range l.loans {
		if l.idle(v, o.node) {
			at = min(at, beside.Next(v.Now, l.cfg.Lend.Back))
		}
	}
	return at
}
