package rounds

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// Round is one round, as a Rule sees it. It is valid during one call of Serve.
type Round struct {
	View   *sched.View
	Plan   *sched.Plan
	Begins bool             // the round begins now; otherwise only free devices can be given out
	Number int64            // of the round
	Length time.Duration    // of each round
	Jobs   []sched.Job      // jobs that may be served, by number: waiting ones and, when the round begins, running ones
	Alone  []sched.Job      // when the round begins: jobs that go on because they have not made any progress yet, by number
	Types  []cluster.TypeID // the GPU types of the cluster, in its order

	run    *Policy
	total  []unit.Milli // by type: what is given out in this round
	left   []unit.Milli // by type: what no job has taken yet
	shared []unit.Milli // by type: total, and the devices of jobs that are left alone for now
	picks  []pick
	served dense.Set
	bare   []job.ID // waiting jobs that need no GPUs
	paired bool     // a round has begun in which jobs may share devices

	nodes    nodes
	classes  int  // number of classes that were looked at
	bareJobs bool // there are jobs without GPUs
}

// pick is a job that was served.
type pick struct {
	job   job.ID
	with  job.ID // the job that shares its devices, or job.None
	t     cluster.TypeID
	tasks int
	milli unit.Milli
	near  bool // on a single node
	bound bool // to some nodes, or to one place
}

// open begins a round before any job has been looked at.
func (r *Round) open(run *Policy, v *sched.View, p *sched.Plan) {
	r.View, r.Plan, r.run = v, p, run
	r.Number, r.Length = run.Grid.Number(v.Now), time.Duration(run.Grid)
}

// room tells whether anything could be given out inside the round: a GPU, a
// part of one, or what jobs without GPUs need.
func (r *Round) room() bool {
	v := r.View
	for ; r.classes < v.Classes() && !r.bareJobs; r.classes++ {
		r.bareJobs = v.Class(int32(r.classes)).Amount.GPU == 0
	}
	if r.bareJobs {
		return true
	}
	for pool := range v.EachPool() {
		if v.Cluster().FreeMilli(pool, 0) > 0 {
			return true
		}
	}
	return false
}

// gather finds the jobs that may be served and the devices to give out. When
// the round begins, these are all; inside a round they are the waiting jobs and
// the free devices.
func (r *Round) gather(begins bool) {
	v := r.View
	r.Alone = r.Alone[:0]
	r.Jobs, r.Types, r.picks, r.bare = r.Jobs[:0], r.Types[:0], r.picks[:0], r.bare[:0]
	r.served.Clear()
	types := v.Cluster().Types()
	r.total = append(r.total[:0], make([]unit.Milli, types)...)
	for t := range types {
		m := cluster.TypeMask(1) << t
		n := v.FreeOf(m)
		if begins {
			n = v.TotalOf(m)
		}
		if r.total[t] = unit.Milli(n) * unit.One; v.TotalOf(m) > 0 {
			r.Types = append(r.Types, cluster.TypeID(t))
		}
	}
	if !begins {
		r.addParts()
	}
	for j := range v.Waiting() {
		r.waiting(j)
	}
	if begins {
		r.running()
	}
	r.left = append(r.left[:0], r.total...)
}

// running looks at the running jobs when a round begins.
func (r *Round) running() {
	r.paired = r.run.Pairs
	for j := range r.View.Running() {
		if Stays(r.View, j) || !withGPUs(j) {
			r.withhold(j)
		} else if r.stuck(j) {
			r.Alone = append(r.Alone, j)
		} else if j.Ready() < r.View.Now {
			r.Jobs = append(r.Jobs, j)
		} else {
			r.Alone = append(r.Alone, j)
		}
	}
	slices.SortFunc(r.Jobs, func(a, b sched.Job) int { return cmp.Compare(a.ID, b.ID) })
	r.shared = append(r.shared[:0], r.total...)
	for _, j := range r.Alone {
		r.served.Add(int(j.ID))
		r.withhold(j)
	}
	if r.run.Together {
		r.nodes.count(r)
	}
}

// addParts adds the free parts of devices that are in partial use.
func (r *Round) addParts() {
	v := r.View
	for t := range r.total {
		m := cluster.TypeMask(1) << t
		r.total[t] = 0
		for pool := range v.EachPool() {
			r.total[t] += v.Cluster().FreeMilli(pool, m)
		}
	}
}

// waiting looks at a waiting job.
func (r *Round) waiting(j sched.Job) {
	switch why := r.Plan.Never(j.ID, OneType(r.run.Place)); {
	case why.Code != job.NoReason:
		r.Plan.Wait(j.ID, why)
	case !withGPUs(j):
		r.bare = append(r.bare, j.ID)
	default:
		r.Jobs = append(r.Jobs, j)
	}
}

// reconsider tells jobs that could never run, and can now that nodes have changed, to wait for
// the next round, so that it takes place (Policy.NextWake).
func (r *Round) reconsider() {
	for j := range r.View.Waiting() {
		if sched.Revived(r.View, r.Plan, j, OneType(r.run.Place)) {
			r.Plan.Wait(j.ID, r.run.Why(r.View, j.ID))
		}
	}
}

// withGPUs tells whether a job needs GPUs at all.
func withGPUs(j sched.Job) bool { return need(j, int(j.Spec().Demand.Roles[0].Tasks)) > 0 }

func need(j sched.Job, tasks int) unit.Milli { return j.Spec().Demand.Milli(int32(tasks)) }

// Stays tells whether a running job is to be left alone as long as it runs
// where it does. The package comment lists such jobs.
func Stays(v *sched.View, j sched.Job) bool {
	if !j.Spec().Stop.Keeps() || j.Phase() == job.Assigned || j.Profiling() {
		return true
	}
	a, c := v.Alloc(j.ID), v.Cluster()
	return a == nil || slices.ContainsFunc(a.Pieces, func(p cluster.Piece) bool { return !c.Usable(p.Node) }) ||
		slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { return c.Broken(s.Device) })
}

// withhold takes the usable devices of a job off those that are given out.
func (r *Round) withhold(j sched.Job) {
	c := r.View.Cluster()
	for _, s := range r.View.Alloc(j.ID).Shares {
		if !c.Broken(s.Device) && c.Usable(c.NodeOf(s.Device)) {
			milli := unit.Milli(s.Milli)
			if r.parted(j) {
				milli = unit.One // no other job can have the rest
			}
			r.total[c.TypeOf(s.Device)] -= milli
		}
	}
}

// Total is the amount of a type that is given out in this round, in thousandths
// of a GPU.
func (r *Round) Total(t cluster.TypeID) unit.Milli { return r.total[t] }

// Shared is the amount of a type that the jobs of a beginning round share,
// including those that are left alone for now.
func (r *Round) Shared(t cluster.TypeID) unit.Milli { return r.shared[t] }

// Left is the amount of a type that no job has taken yet.
func (r *Round) Left(t cluster.TypeID) unit.Milli { return r.left[t] }

// Need is the amount that a job takes at the size it asks for.
func (r *Round) Need(j sched.Job) unit.Milli { return need(j, tasksOf(j)) }

func tasksOf(j sched.Job) int { return int(j.Spec().Demand.Roles[0].Tasks) }

// Can tells whether a type could hold a job if nothing else ran.
func (r *Round) Can(j sched.Job, t cluster.TypeID) bool {
	return r.Plan.Never(j.ID, On(r.run.Place, t)).Code == job.NoReason
}

// Speed is the speed at which the scheduler believes that a job runs on a type
// at the size it asks for. The job runs on a single node if one can hold it,
// otherwise spread. The speed is 0 if the type cannot hold the job.
func (r *Round) Speed(j sched.Job, t cluster.TypeID) float64 {
	if !r.Can(j, t) {
		return 0
	}
	together := j.GPUs() <= r.nodeGPUs(j, t)
	return r.View.TypeSpeed(j, t, tasksOf(j), !together)
}

func (r *Round) nodeGPUs(j sched.Job, t cluster.TypeID) int {
	return r.View.Cluster().MaxNodeGPUs(r.View.Scope(j), 1<<t)
}

// TypeOf is the GPU type of a running job's devices; ok is false for a waiting
// job.
func (r *Round) TypeOf(j sched.Job) (t cluster.TypeID, ok bool) {
	a := r.View.Alloc(j.ID)
	if a == nil || len(a.Shares) == 0 || !j.Running() {
		return 0, false
	}
	return r.View.Cluster().TypeOf(a.Shares[0].Device), true
}

// Served tells whether a job was served.
func (r *Round) Served(id job.ID) bool { return r.served.Has(int(id)) }

// Serve serves a job in this round, on devices of one type and at the size it
// asks for. It is false if too few devices are left, if the type can never hold
// the job, or if the job was served already.
func (r *Round) Serve(j sched.Job, t cluster.TypeID) bool { return r.ServeSize(j, t, tasksOf(j)) }

// ServeSize is Serve with so many tasks of the first role, for elastic jobs.
func (r *Round) ServeSize(j sched.Job, t cluster.TypeID, tasks int) bool {
	milli := need(j, tasks)
	if r.left[t] < milli || r.Served(j.ID) || !r.Can(j, t) {
		return false
	}
	r.left[t] -= milli
	r.served.Add(int(j.ID))
	r.picks = append(r.picks, pick{job: j.ID, with: job.None, t: t, tasks: tasks, milli: milli, bound: r.View.Class(j.Class()).Restricted()})
	return true
}
