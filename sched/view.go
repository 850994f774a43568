// Package sched is one decision, with no effects. A Policy looks at a View and
// writes into a Plan what should hold from now on.
//
// Nouns:
//   - A View is what may be known at the moment v.Now.
//   - A Change is what happened to one job since the policy was last asked.
//   - A Plan is a transaction over a what-if copy of the cluster.
//   - A Reason (job.Reason) says why a job waits or was stopped.
//
// # Writing a policy
//
// A policy is a function of the view alone. It has no clock, no randomness but
// v.Rand, and it keeps no reference to v or p. It may keep only what it could
// make again from a view. On its first call, and on the first after a restart,
// the view lists every active job as a Change, so code that follows the changes
// needs nothing else. The policy writes everything else on the job with
// Plan.Remember.
package sched

import (
	"cmp"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/tenant"
)

// Policy decides which jobs run, and where.
type Policy interface {
	// Decide looks at the view and writes into the plan what should hold from now
	// on. A job that it does not mention stays as it is.
	Decide(v *View, p *Plan)
}

// Waker is a policy that decides at moments of its own, such as the beginnings
// of rounds or the ends of leases.
type Waker interface {
	// NextWake is the next moment at which the policy wants to decide even if
	// nothing happens, or unit.Never. It is asked after every Decide. A moment
	// that is not after v.Now is an error.
	NextWake(v *View) time.Duration
}

// Explainer is a policy that can say more about a waiting job than the plan
// knows.
type Explainer interface {
	// Why says why a job waits, after a Decide that left it waiting.
	Why(v *View, id job.ID) job.Reason
}

// Divider is a policy whose instances in the pools of a partitioned cluster share
// what they learn from history.
type Divider interface {
	Policy
	// Divide makes the policy of a further pool. The state that it shares with this
	// one must be a function of the views alone, whichever instance saw them.
	Divide() Policy
}

// ChangeKind says what happened to a job.
type ChangeKind uint8

// The kinds of changes. A policy hears of everything that the world did. It
// hears of the effects of its own plans only where those take time, so it is
// not told of its own starts.
const (
	Arrived ChangeKind = iota // it waits for the first time, or again after a hold
	Stopped                   // it waits again: preempted, evicted, or its attempt failed
	Ended                     // it has left for good
	Runs                      // first call only: it was given devices before
	Altered                   // its estimate or speed changed
)

// Change is what happened to one job since the last call.
type Change struct {
	Job  job.ID
	Kind ChangeKind
}

// View is what a policy may know at one moment. It is valid during one call.
type View struct {
	Now     time.Duration
	First   bool // the policy is asked for the first time since it was made
	Woken   bool // the moment it asked for in NextWake has come
	Rand    *rand.Rand
	Costs   *perf.Costs
	Speeds  perf.Typed     // what the scheduler believes of speeds, see TypeSpeed
	Sharing perf.Sharing   // what it believes of jobs that share a device, perhaps learnt as it goes
	Pool    cluster.PoolID // the part of the cluster it decides on, see All
	All     bool           // it decides on every pool

	Variability *perf.Variability // how far it believes that devices of a type differ; nil: they are alike

	Sockets *perf.Sockets // what was measured of jobs on the CPU sockets of a node; nil: nothing

	Transfer perf.Transfer // what it believes that merged jobs learn from each other
	Profiles bool          // jobs can hold devices to be measured (Plan.Profile); else they start there
	Each     solve.Each    // has independent work done, perhaps side by side

	// Lag is the longest time for which the world must watch jobs after their
	// allocations change until it knows their new speeds. It is 0 where speeds are
	// known at once.
	Lag time.Duration

	changes []Change
	nodes   bool
	state   *state.State
}

// NewView makes the view of a state. It is meant for the engine and for tests.
func NewView(s *state.State, changes []Change, nodes bool) View {
	return View{Now: s.Now, All: true, Speeds: perf.Analytic{Scaling: 1, Spread: 1}, Sharing: perf.Alone{}, Transfer: perf.Strangers{}, Each: solve.Serial{}, state: s, changes: changes, nodes: nodes}
}

// Within is the same view restricted to one pool, with the given changes.
func (v *View) Within(p cluster.PoolID, changes []Change) View {
	w := *v
	w.Pool, w.All, w.changes = p, false, changes
	return w
}

// Loosened is the same view for a policy around which another one has made room: as when nodes change, it
// is told that jobs may fit which did not.
func (v *View) Loosened() View {
	w := *v
	w.nodes = true
	return w
}

// Covers tells whether the policy decides on a job: whether it belongs to the
// view's pool.
func (v *View) Covers(j Job) bool { return v.All || j.r.Pool == v.Pool }

// PoolsOf are the pools to which jobs of a tenant belong: the one of its name, the first
// pool where there is none, and those that its jobs have named. It must not be changed.
func (v *View) PoolsOf(t tenant.ID) []cluster.PoolID { return v.state.Homes.Of(v.state, t) }

// Uses tells whether jobs of a tenant belong to the view's pool, or to any that it covers.
func (v *View) Uses(t tenant.ID) bool { return v.All || slices.Contains(v.PoolsOf(t), v.Pool) }

// Visits grows whenever PoolsOf of any tenant does.
func (v *View) Visits() int { return v.state.Homes.Visits() }

// Changes is what happened to jobs since the last call, in the order in which
// it happened. On the first call it lists every active job, by number.
func (v *View) Changes() []Change { return v.changes }

// NodesChanged tells whether nodes came, went, or changed health or power since
// the last call.
func (v *View) NodesChanged() bool { return v.nodes || v.First }

// Cluster is the cluster and its ledger. It must not be changed.
func (v *View) Cluster() *cluster.Cluster { return v.state.Cluster }

// Tenants is the tree of tenants that share the cluster. It must not be
// changed.
func (v *View) Tenants() *tenant.Tree { return v.state.Tenants }

// Recalls are the lenders that want some of their nodes back. It must not be changed.
func (v *View) Recalls() []state.Recall { return v.state.Loans.Recalls() }

// Alloc is what a job has, or nil. It must not be changed.
func (v *View) Alloc(id job.ID) *cluster.Alloc { return v.state.Alloc(id) }

// On lists the jobs that have a part of a device, of any pool, in order of
// arrival. The job that has had its present devices longest comes first, and
// ties go by number. A job that is moved or resized arrives anew; a job that
// gets another part of the same devices does not. The list must not be changed.
func (v *View) On(d cluster.DeviceID) []job.ID { return v.state.On(d) }

// PinnedPlace is the set of devices in whose memory a frozen job has left its
// state. The job can go on only there. It is nil for any other job. It must not
// be changed.
func (v *View) PinnedPlace(id job.ID) *cluster.Alloc { return v.state.PinnedPlace(id) }

// Frozen is the GPU memory that frozen jobs keep on a device, in bytes. It
// counts only jobs that have declared how much they need.
func (v *View) Frozen(d cluster.DeviceID) unit.Bytes { return v.state.Frozen(d) }

// Job is one job as it stands.
func (v *View) Job(id job.ID) Job { return Job{v.state.Record(id), id, v.Now, &v.state.NoNote} }

// Jobs is the number of jobs submitted so far. All job numbers are below it.
func (v *View) Jobs() int { return v.state.Jobs() }

// Submitted is the number of jobs submitted so far, including those in earlier
// logs. It is one more than the highest Job.Serial.
func (v *View) Submitted() int64 { return v.state.Submitted() }

// Used is the latest measurement of the use of a device.
func (v *View) Used(d cluster.DeviceID) state.Used { return v.state.Used(d) }

// UsedOver is the measured use of a device over the given last time, a minute
// at most.
func (v *View) UsedOver(d cluster.DeviceID, last time.Duration) state.Window {
	return v.state.UsedOver(d, last)
}

// Runtime is the backbone of the job that began last on a device. Its runtime
// is still loaded there. It is empty when that job had no backbone.
func (v *View) Runtime(d cluster.DeviceID) string { return v.state.Runtime(d) }

// Class is what all jobs of a class have in common.
func (v *View) Class(c int32) *state.Class { return v.state.Class(c) }

// Scope is the nodes that a job may use: its pool, or the part of it that the job
// asks for and that does not repel it. It stands for a pool wherever the cluster is
// asked for nodes and what is free there.
func (v *View) Scope(j Job) cluster.PoolID { return v.state.Class(j.r.Class).Scope }

// Admits tells whether a job may be where an allocation is: on nodes of its scope
// and, where it demands that, in one place of the topology.
func (v *View) Admits(j Job, a *cluster.Alloc) bool {
	return v.state.Class(j.r.Class).Admits(v.state.Cluster, a)
}

// Classes is the number of classes so far.
func (v *View) Classes() int { return v.state.Classes() }

// Pools is the number of pools of the cluster.
func (v *View) Pools() int { return v.state.Cluster.Pools() }

// EachPool yields the pools that the policy decides about: its own, or all.
func (v *View) EachPool() iter.Seq[cluster.PoolID] {
	first, last := v.span()
	return func(yield func(cluster.PoolID) bool) {
		for p := first; p <= last && yield(p); p++ {
		}
	}
}

// Devices yields the devices of the nodes that the policy decides about, by number.
func (v *View) Devices() iter.Seq[cluster.DeviceID] {
	return func(yield func(cluster.DeviceID) bool) {
		c := v.state.Cluster
		for d := range cluster.DeviceID(c.Devices()) {
			if (v.All || c.Node(c.NodeOf(d)).Pool == v.Pool) && !yield(d) {
				return
			}
		}
	}
}

// span is the first and the last pool that the policy decides about.
func (v *View) span() (first, last cluster.PoolID) {
	if v.All {
		return 0, cluster.PoolID(v.Pools() - 1)
	}
	return v.Pool, v.Pool
}

// Waiting yields the jobs that wait, in order of submission. The plan may be
// changed while they are visited.
func (v *View) Waiting() iter.Seq[Job] { return v.each((*state.State).Waiting) }

// Running yields the jobs that were given devices before this call, in order of
// submission.
func (v *View) Running() iter.Seq[Job] { return v.each((*state.State).Running) }

// each yields the members of one set of a pool, or of that set of all pools
// merged by number.
func (v *View) each(set func(*state.State, cluster.PoolID) *dense.Set) iter.Seq[Job] {
	first, last := v.span()
	return func(yield func(Job) bool) {
		for at := 0; ; at++ {
			next := -1
			for p := first; p <= last; p++ {
				if i := set(v.state, p).Next(at); i >= 0 && (next < 0 || i < next) {
					next = i
				}
			}
			if at = next; next < 0 || !yield(v.Job(job.ID(next))) {
				return
			}
		}
	}
}

// TypeSpeed is the speed at which the scheduler believes that a job runs with
// so many tasks on GPUs of type t. The tasks are on one node, or spread over
// several. A job that has reported another pace is believed to keep it. The
// speed is 1 in the reference configuration, and 0 on a type on
// which the job cannot run or asked not to.
func (v *View) TypeSpeed(j Job, t cluster.TypeID, tasks int, spread bool) float64 {
	if mask := j.r.Mask; mask != 0 && mask&(1<<t) == 0 || v.state.Class(j.r.Class).NoType {
		return 0
	}
	return perf.On(v.Speeds, j.r.Job, v.state.Cluster, t, tasks, spread) * j.r.Config.Reported.Times()
}

// Free is the number of wholly free GPUs.
func (v *View) Free() int { return v.sum((*cluster.Cluster).FreeGPUs, 0) }

// FreeOf is the number of wholly free GPUs of some types.
func (v *View) FreeOf(m cluster.TypeMask) int { return v.sum((*cluster.Cluster).FreeGPUs, m) }

// Total is the number of usable GPUs.
func (v *View) Total() int { return v.sum((*cluster.Cluster).TotalGPUs, 0) }

// TotalOf is the number of usable GPUs of some types.
func (v *View) TotalOf(m cluster.TypeMask) int { return v.sum((*cluster.Cluster).TotalGPUs, m) }

func (v *View) sum(f func(*cluster.Cluster, cluster.PoolID, cluster.TypeMask) int, m cluster.TypeMask) int {
	n := 0
	for p := range v.EachPool() {
		n += f(v.state.Cluster, p, m)
	}
	return n
}

// Past yields the jobs that have left for good and are not among the changes.
// They come in the order in which they left, ties by number. Past looks at
// every job; it is meant for a policy that starts anew and learns from history.
func (v *View) Past() iter.Seq[Job] {
	news := map[job.ID]bool{}
	for _, ch := range v.changes {
		news[ch.Job] = true
	}
	var past []job.ID
	for i := range v.state.Jobs() {
		id := job.ID(i)
		if r := v.state.Record(id); r.Phase.Over() && !news[id] && (v.All || r.Pool == v.Pool) {
			past = append(past, id)
		}
	}
	slices.SortStableFunc(past, func(a, b job.ID) int {
		return cmp.Compare(v.state.Record(a).End, v.state.Record(b).End)
	})
	return func(yield func(Job) bool) {
		for _, id := range past {
			if !yield(v.Job(id)) {
				return
			}
		}
	}
}

// Ended lists the jobs of all pools that have left for good, in the order in
// which they left. The list only grows, so a policy that learns from history
// remembers only how far it has read. A policy that starts anew begins at 0.
// The list must not be changed.
func (v *View) Ended() []job.ID { return v.state.Ended() }

// Placed lists the jobs of all pools that began or were assigned devices, and those whose
// allocation was changed, whoever decided it. Their Since is then another. The list only
// grows, as that of Ended does, but a policy that starts anew begins at its end. The list
// must not be changed.
func (v *View) Placed() []job.ID { return v.state.Lists().Placed() }

// Measured yields the devices of which the latest measurement was made at a moment or after
// it, in the order of these moments.
func (v *View) Measured(since time.Duration) iter.Seq[cluster.DeviceID] {
	return v.state.Lists().Measured(since)
}

// Job is a job as it stands at one moment. It is a handle: copying it is cheap,
// but a policy must not keep it beyond the call.
type Job struct {
	r    *job.Record
	ID   job.ID
	now  time.Duration
	none *job.Note // stands for the missing note of a job that has none, see Recall
}

// Spec is what the user submitted. It must not be changed.
func (j Job) Spec() *job.Job { return j.r.Job }

// GPUs is the number of GPUs it asks for.
func (j Job) GPUs() int { return j.r.Job.Demand.GPUs() }

// Submit is the moment at which it was submitted.
func (j Job) Submit() time.Duration { return j.r.Job.Submit }

// Phase is its phase in the lifecycle of package job.
func (j Job) Phase() job.Phase { return j.r.Phase }

// Waiting tells whether it waits.
func (j Job) Waiting() bool { return j.r.Phase == job.Waiting }

// Running tells whether it was given devices.
func (j Job) Running() bool { return j.r.Phase.HasDevices() }

// Since is the moment at which its phase began.
func (j Job) Since() time.Duration { return j.r.Since }

// FirstStart is the moment at which it first ran; ok is false before that.
func (j Job) FirstStart() (at time.Duration, ok bool) { return j.r.FirstStart, j.r.FirstStart >= 0 }

// Class is the number of the set of jobs with equal demands in its pool.
func (j Job) Class() int32 { return j.r.Class }

// Pool is the part of the cluster it belongs to.
func (j Job) Pool() cluster.PoolID { return j.r.Pool }

// Tenant is the tenant to which it belongs.
func (j Job) Tenant() tenant.ID { return j.r.Tenant }

// Tasks is the number of tasks of the first role that it runs with.
func (j Job) Tasks() int { return int(j.r.Tasks) }

// Allocated is the sum of the parts of devices that it has now, in
// thousandths of a GPU.
func (j Job) Allocated() unit.Milli {
	if !j.r.Phase.HasDevices() {
		return 0
	}
	return j.r.Milli
}

// Service is the GPU-seconds it has had so far.
func (j Job) Service() float64 { return j.r.ServiceAt(j.now) }

// RunTime is the time it has had devices so far.
func (j Job) RunTime() time.Duration { return j.r.AllocatedAt(j.now) }

// Wait is the time it has been without devices since it was submitted.
func (j Job) Wait() time.Duration { return j.r.WaitAt(j.now) }

// RunTimeAt is the time for which it had been allocated devices at moment t of its
// present phase. For a moment before that phase it answers for the beginning of
// the phase.
func (j Job) RunTimeAt(t time.Duration) time.Duration { return j.r.AllocatedAt(max(t, j.r.Since)) }

// Ready is the moment from which a running job makes progress, after the pause
// of its start or its last move. It may lie in the past or in the future.
func (j Job) Ready() time.Duration { return j.r.Ready }

// Progress is the work that it has done so far, measured as run time in the
// reference configuration.
func (j Job) Progress() time.Duration { return j.r.ProgressAt(j.now) }

// Saved is the work in the last state that it has saved. It falls back to that when it
// dies, and with job.LastSave also when it is stopped.
func (j Job) Saved() time.Duration { return j.r.SavedAt(j.now) }

// Saves is when it saves its state, in work done.
func (j Job) Saves() job.Saves { return j.r.Saves }

// Unsaved tells whether stopping it now would throw away all that it has done since it
// began. A policy that does so again and again never lets it come to its end.
func (j Job) Unsaved() bool { return j.r.Unsaved(j.now) }

// NextSave is when it is expected to save its state next; ok is false where nobody can know.
func (j Job) NextSave() (at time.Duration, ok bool) { return j.r.NextSave(j.now) }

// AtStake is the time for which it would have to run again, at its present speed, if it
// were stopped now. It is 0 for a job that keeps its work, and leaves out what starting
// again takes.
func (j Job) AtStake() time.Duration {
	switch {
	case j.r.Phase != job.Running || j.r.Speed <= 0:
		return 0
	case j.r.Job.Stop == job.Restart:
		return time.Duration(float64(j.Progress()) / j.r.Speed)
	case j.r.Job.Stop == job.LastSave:
		return time.Duration(float64(j.Progress()-j.Saved()) / j.r.Speed)
	}
	return 0
}

// Estimate is the estimated run time in the reference configuration; ok is
// false when there is no estimate.
func (j Job) Estimate() (d time.Duration, ok bool) { return j.r.Estimate, j.r.Estimate >= 0 }

// Remaining is the estimate minus the progress, at least 0; ok is false without
// an estimate.
func (j Job) Remaining() (d time.Duration, ok bool) {
	return max(0, j.r.Estimate-j.r.ProgressAt(j.now)), j.r.Estimate >= 0
}

// TimeLeft is Remaining, or unit.Never without an estimate.
func (j Job) TimeLeft() time.Duration {
	if left, known := j.Remaining(); known {
		return left
	}
	return unit.Never
}

// ExpectedEnd is the moment at which a running job will end if the estimate
// holds; ok is false without an estimate. A job that has outrun its estimate is
// expected to end now.
func (j Job) ExpectedEnd() (at time.Duration, ok bool) {
	if at, ok = j.r.ExpectedEnd(); !ok {
		return at, false
	}
	return max(j.now, at), true
}

// Speed is its progress per second, 1 in the reference configuration.
func (j Job) Speed() float64 { return j.r.Speed }

// Config is what it trains with: what it has reported, and what it was told.
func (j Job) Config() job.Config { return j.r.Config }

// Merged tells with which job it is trained, and how. The first result is
// job.None when the second is Apart.
func (j Job) Merged() (with job.ID, how job.Merge) { return j.r.With, j.r.Merged }

// Profiling tells whether it has its devices only to be measured.
func (j Job) Profiling() bool { return j.r.Profiling }

// Preemptions is how often it was preempted or evicted.
func (j Job) Preemptions() int { return int(j.r.Preemptions) }

// Failures is how many of its attempts failed.
func (j Job) Failures() int { return int(j.r.Failures) }

// Reason is why it waits, or was last stopped.
func (j Job) Reason() job.Reason { return j.r.Reason }

// Serial is its number for life, in order of submission. Its ID changes when a new
// log begins; whoever deals jobs out, or draws for them, goes by the serial.
func (j Job) Serial() int64 { return j.r.Serial() }

// OutOfMemory tells whether it waits because it was evicted from devices whose
// memory did not suffice.
func (j Job) OutOfMemory() bool { return j.Waiting() && j.r.Reason.Code == job.OutOfMemory }
