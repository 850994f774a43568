// Package state is all that a run knows at one moment: the cluster and its
// ledger, the tenants, and the record of every job. It is a fold over the event
// log. Only the engine changes it, event by event.
//
// Nouns: a class is the set of jobs of equal demand in the same pool; a slot
// holds the Alloc of one job. A job belongs to the pool named like its tenant,
// or to pool 0 when there is none.
package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/tenant"
)

// State is a run at one moment.
type State struct {
	Now     time.Duration
	Cluster *cluster.Cluster
	Tenants *tenant.Tree

	Readings Readings // what was measured of jobs
	Loans    Loans    // what the owners of borrowed nodes want back
	Homes    Homes    // where tenants have jobs

	NoNote job.Note // stands for the missing note of any job; policies read it once

	records   dense.Rows[job.Record]
	submitted int64    // over all logs: one more than the highest serial
	ended     []job.ID // jobs that have left for good, in the order in which they left
	lefts     []int32  // for each job that had ended before this log began, the argument left of CarryPast
	pools     []poolJobs

	classes classes

	pinned map[job.ID]*cluster.Alloc // the devices on which frozen jobs have left their memory

	runtimes []string   // of each device: the backbone whose runtime it has
	used     []Used     // of each device: the latest measurement
	on       [][]job.ID // of each device, see On
	windows  [][]sample

	learnt map[perf.Pair]float64 // of jobs that share a device, see perf.Learner

	lists Lists

	slots  []*cluster.Alloc
	spare  []int32
	booked bool
	moving []moving // jobs whose new devices are not booked yet
}

// moving is a job whose new allocation is not booked yet. The allocation may
// differ in devices, or only in the parts of the same devices.
type moving struct {
	id    job.ID
	stays bool
}

type poolJobs struct{ waiting, running dense.Set }

// New returns a state with no jobs.
func New(c *cluster.Cluster, t *tenant.Tree) *State {
	s := &State{
		Cluster: c, Tenants: t, pools: make([]poolJobs, c.Pools()),
		classes: classes{of: map[classKey]int32{}, memo: map[memoKey]int32{}}, pinned: map[job.ID]*cluster.Alloc{},
		learnt: map[perf.Pair]float64{},
	}
	s.lists.state = s
	return s
}

// Jobs is the number of jobs submitted so far.
func (s *State) Jobs() int { return s.records.Len() }

// Submitted is the number of jobs submitted so far, including those in earlier
// logs.
func (s *State) Submitted() int64 { return s.submitted }

// Ended are the jobs that have left for good, in the order in which they left.
// It must not be changed.
func (s *State) Ended() []job.ID { return s.ended }

// Known tells whether a job with that number was submitted.
func (s *State) Known(id job.ID) bool { return id >= 0 && int(id) < s.Jobs() }

// Record is the record of a known job. Only the fold changes it. Allocation and
// phase change through the methods of State, the other fields in place.
func (s *State) Record(id job.ID) *job.Record { return s.records.At(int(id)) }

// Waiting is the set of the waiting jobs of a pool, by number.
func (s *State) Waiting(p cluster.PoolID) *dense.Set { return &s.pools[p].waiting }

// Running is the set of the jobs of a pool that have devices, by number.
func (s *State) Running(p cluster.PoolID) *dense.Set { return &s.pools[p].running }

// Class is what all jobs of a class have in common.
func (s *State) Class(c int32) *Class { return &s.classes.list[c] }

// Classes is the number of classes so far.
func (s *State) Classes() int { return len(s.classes.list) }

// Alloc is the allocation of a job, or nil.
func (s *State) Alloc(id job.ID) *cluster.Alloc {
	if slot := s.Record(id).Slot; slot >= 0 {
		return s.slots[slot]
	}
	return nil
}

// PinnedPlace is the allocation that a frozen job had when it was stopped,
// where its memory still is. It is nil for every other job. It must not be
// changed.
func (s *State) PinnedPlace(id job.ID) *cluster.Alloc {
	if len(s.pinned) == 0 {
		return nil
	}
	return s.pinned[id]
}

// Frozen is the GPU memory that frozen jobs keep on a device, in bytes. It
// counts only jobs that have declared how much they need.
func (s *State) Frozen(d cluster.DeviceID) unit.Bytes {
	var sum unit.Bytes
	for id, pinned := range s.pinned {
		sum += Keeps(s.Record(id).Job, pinned, d)
	}
	return sum
}

// Keeps is the GPU memory, in bytes, that a job keeps on a device of its
// allocation when it is frozen there. It is 0 for a job that has not declared
// how much it needs.
func Keeps(j *job.Job, a *cluster.Alloc, d cluster.DeviceID) (sum unit.Bytes) {
	shares := a.Shares
	for i := range a.Pieces {
		p := &a.Pieces[i]
		for _, share := range shares[:p.Shares] {
			if share.Device == d {
				sum += j.Demand.Roles[p.Role].GPUMemory
			}
		}
		shares = shares[p.Shares:]
	}
	return sum
}

// PinnedPlaces is the number of frozen jobs.
func (s *State) PinnedPlaces() int { return len(s.pinned) }

// Booked tells the state whether the ledger already has the changes that
// follow. It has them (true) when a plan has booked them. At the start it does
// not.
func (s *State) Booked(yes bool) { s.booked = yes }

// Submit makes a job known. Its number must be the next one.
func (s *State) Submit(j *job.Job, estimate time.Duration) error {
	if int(j.ID) != s.Jobs() {
		return fmt.Errorf("job %s: has number %d, the next one is %d", j.Key, j.ID, s.Jobs())
	}
	if j.Demand == nil {
		return fmt.Errorf("job %s: has no demand", j.Key)
	}
	cluster.Settle(s.Cluster)
	r := s.records.Add()
	r.Submit(j, s.Now)
	r.Estimate = estimate
	r.Tenant = s.Tenants.Get(j.Tenant)
	r.Pool = s.Homes.pool(s, r.Tenant, j)
	s.classes.sort(r, s.Cluster)
	s.pools[r.Pool].waiting.Add(int(j.ID))
	s.submitted = max(s.submitted, r.Serial()+1)
	return nil
}

// Carry makes a job known that had been submitted in an earlier log, as it
// stood when that log ended. For a job with devices, a is its allocation, which
// is copied. For a frozen job it is the pinned place, and for any other job
// nil.
func (s *State) Carry(j *job.Job, past *job.Record, a *cluster.Alloc, estimate time.Duration, why job.Reason) error {
	if err := mayStand(s, j, past, a); err != nil {
		return err
	}
	if err := s.Submit(j, estimate); err != nil {
		return err
	}
	defer s.lists.Reckon(j.ID)
	return s.stand(j.ID, past, a, why)
}

// CarryPast makes a job known that had ended in an earlier log. left is the
// number of jobs made known by CarryPast that had ended before it.
func (s *State) CarryPast(j *job.Job, past *job.Record, estimate time.Duration, why job.Reason, left int) error {
	switch {
	case !past.Phase.Over():
		return fmt.Errorf("job %s: has not ended, it is %s", j.Key, past.Phase)
	case past.Since > s.Now:
		return fmt.Errorf("job %s: is %s since %v, which has not come yet", j.Key, past.Phase, past.Since)
	case left < 0 || left > maxPast:
		return fmt.Errorf("job %s: %d jobs cannot have ended before it", j.Key, left)
	case len(s.ended) > s.Past():
		return fmt.Errorf("job %s: had ended before this log began, and comes after one that ended in it", j.Key)
	}
	if err := s.Submit(j, estimate); err != nil {
		return err
	}
	r := s.Record(j.ID)
	s.pools[r.Pool].waiting.Remove(int(j.ID))
	if err := r.Carry(past); err != nil {
		return err
	}
	r.Reason = why
	at, _ := slices.BinarySearch(s.lefts, int32(left))
	s.lefts = slices.Insert(s.lefts, at, int32(left))
	s.ended = slices.Insert(s.ended, at, j.ID)
	return nil
}

// maxPast is the largest number of ended jobs that are carried over into a log.
const maxPast = 1 << 16

// Past is the number of jobs that had ended before this log began. They are the
// first of Ended.
func (s *State) Past() int { return len(s.lefts) }

// mayStand checks the record of a job that comes from another log.
func mayStand(s *State, j *job.Job, past *job.Record, a *cluster.Alloc) error {
	if since := max(past.Since, past.Placed); since > s.Now {
		return fmt.Errorf("job %s: is %s since %v, which has not come yet", j.Key, past.Phase, since)
	}
	if !isPinnedPlace(j, past, a) && past.Phase.HasDevices() != (a != nil) {
		return fmt.Errorf("job %s: is %s, and a job holds devices exactly when it is assigned or running", j.Key, past.Phase)
	}
	if a != nil {
		if err := s.Cluster.Valid(a); err != nil {
			return fmt.Errorf("job %s: %w", j.Key, err)
		}
	}
	return nil
}

// isPinnedPlace tells whether a is not the allocation of a job but its pinned place.
func isPinnedPlace(j *job.Job, past *job.Record, a *cluster.Alloc) bool {
	return a != nil && j.Stop == job.Freeze && (past.Phase == job.Waiting || past.Phase == job.Stopping || past.Phase == job.Held)
}

// stand gives a job that has just been submitted the record that it has in
// another log.
func (s *State) stand(id job.ID, past *job.Record, a *cluster.Alloc, why job.Reason) error {
	r := s.Record(id)
	if err := r.Carry(past); err != nil {
		return err
	}
	r.Reason = why
	switch {
	case isPinnedPlace(r.Job, past, a):
		s.pinned[id] = new(cluster.Alloc)
		s.pinned[id].CopyFrom(a)
		s.pinned[id].Slots = s.Class(r.Class).Slots
	case a != nil:
		if int(past.Tasks) != a.Tasks(0) || past.Milli != s.Cluster.GPUMilli(a) {
			return fmt.Errorf("job %s: runs %d tasks on %v GPUs, but holds others", r.Job.Key, past.Tasks, past.Milli)
		}
		defer s.open(a)()
		return s.give(id, r, a)
	}
	if r.Phase != job.Waiting {
		s.pools[r.Pool].waiting.Remove(int(id))
	}
	return nil
}

// Hold is the transition from waiting to held.
func (s *State) Hold(id job.ID, why job.Reason) error {
	r := s.Record(id)
	if err := r.Hold(s.Now); err != nil {
		return err
	}
	r.Reason = why
	s.pools[r.Pool].waiting.Remove(int(id))
	return nil
}

// Release is the transition from held to waiting.
func (s *State) Release(id job.ID) error {
	r := s.Record(id)
	return s.left(id, r, false, job.Reason{}, r.Release(s.Now))
}

// Begin starts a job on a copy of a. It makes progress after delay. A job that
// was assigned its devices before keeps those, and a is ignored.
func (s *State) Begin(id job.ID, a *cluster.Alloc, delay time.Duration) error {
	r := s.Record(id)
	delete(s.pinned, id)
	if r.Phase == job.Assigned {
		a := s.Alloc(id)
		s.load(r.Job, a)
		s.departs(id, a)
		err := r.Begin(s.Now, delay, r.Tasks, r.Milli)
		s.lists.place(id)
		s.arrives(id, a)
		return err
	}
	s.load(r.Job, a)
	if err := r.Begin(s.Now, delay, int32(a.Tasks(0)), s.Cluster.GPUMilli(a)); err != nil {
		return err
	}
	return s.give(id, r, a)
}

// Assign gives a job devices that others are still leaving.
func (s *State) Assign(id job.ID, a *cluster.Alloc) error {
	r := s.Record(id)
	if err := r.Assign(s.Now, int32(a.Tasks(0)), s.Cluster.GPUMilli(a)); err != nil {
		return err
	}
	return s.give(id, r, a)
}

func (s *State) give(id job.ID, r *job.Record, a *cluster.Alloc) error {
	r.Slot = s.newSlot()
	own := s.slots[r.Slot]
	own.CopyFrom(a)
	own.Slots = s.Class(r.Class).Slots
	if !s.booked {
		if err := s.Cluster.Allocate(own); err != nil {
			s.spare = append(s.spare, r.Slot)
			r.Slot = -1
			return fmt.Errorf("job %s: %w", r.Job.Key, err)
		}
	}
	r.Config.Chosen = chosen(a)
	s.arrives(id, a)
	s.lists.place(id)
	s.pools[r.Pool].waiting.Remove(int(id))
	s.pools[r.Pool].running.Add(int(id))
	s.Tenants.Hold(r.Tenant, s.amount(r), 1, s.Now)
	return nil
}

// take takes a job's devices away.
func (s *State) take(id job.ID, r *job.Record) {
	s.Tenants.Hold(r.Tenant, s.amount(r), -1, s.Now)
	if !s.booked {
		s.Cluster.Release(s.slots[r.Slot])
	}
	s.departs(id, s.slots[r.Slot])
	s.slots[r.Slot].Reset()
	s.spare = append(s.spare, r.Slot)
	r.Slot, r.Config.Chosen = -1, job.Chosen{}
	s.pools[r.Pool].running.Remove(int(id))
}

// amount is what a job with devices has, as it counts for its tenant.
func (s *State) amount(r *job.Record) tenant.Amount {
	c := &s.classes.list[r.Class]
	if r.Tasks == c.Demand.Roles[0].Tasks {
		a := c.Amount
		a.GPU = r.Milli // less where the policy gave it only a part of its demand
		return a
	}
	a := tenant.Amount{GPU: r.Milli}
	alloc := s.slots[r.Slot]
	for i := range alloc.Pieces {
		a.CPU += alloc.Pieces[i].CPU
		a.Memory += alloc.Pieces[i].Memory
	}
	return a
}

func (s *State) newSlot() int32 {
	if n := len(s.spare); n > 0 {
		slot := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return slot
	}
	s.slots = append(s.slots, new(cluster.Alloc))
	return int32(len(s.slots) - 1)
}

// Preempt takes a job off its devices, with the progress that it keeps. The job
// waits again at once if leaving takes no time (atOnce) or if it had only been
// assigned. Otherwise it is stopping until Gone.
func (s *State) Preempt(id job.ID, kept time.Duration, atOnce bool, why job.Reason) error {
	r := s.Record(id)
	had := r.Phase.HasDevices()
	if r.Phase == job.Running && r.Job.Stop == job.Freeze {
		pinned := new(cluster.Alloc)
		pinned.CopyFrom(s.Alloc(id))
		s.pinned[id] = pinned
	}
	var err error
	if atOnce || r.Phase == job.Assigned {
		err = r.PreemptNow(s.Now, kept)
	} else {
		err = r.Preempt(s.Now, kept)
	}
	return s.left(id, r, had, why, err)
}

// Gone notes that a stopping job has left its devices and waits again.
func (s *State) Gone(id job.ID) error {
	r := s.Record(id)
	return s.left(id, r, false, r.Reason, r.Gone(s.Now))
}

// Evict notes that the world took a job off its devices and that it waits
// again.
func (s *State) Evict(id job.ID, kept time.Duration, why job.Reason) error {
	r := s.Record(id)
	delete(s.pinned, id)
	had := r.Phase.HasDevices()
	return s.left(id, r, had, why, r.Evict(s.Now, kept))
}

// Fail notes that an attempt failed and that the job waits for the next.
func (s *State) Fail(id job.ID, kept time.Duration, why job.Reason) error {
	r := s.Record(id)
	had := r.Phase.HasDevices()
	return s.left(id, r, had, why, r.Fail(s.Now, kept))
}

// Finish notes that a running job has ended.
func (s *State) Finish(id job.ID, outcome job.Phase) error {
	r := s.Record(id)
	had := r.Phase.HasDevices()
	return s.left(id, r, had, job.Reason{Code: job.Ended}, r.Finish(s.Now, outcome))
}

// Cancel notes that the user of a job has cancelled it.
func (s *State) Cancel(id job.ID) error {
	r := s.Record(id)
	had := r.Phase.HasDevices()
	return s.left(id, r, had, job.Reason{Code: job.UserRequest}, r.Cancel(s.Now))
}

// left completes a transition that took a job off its devices or out of the
// waiting jobs. had tells whether it had devices before.
func (s *State) left(id job.ID, r *job.Record, had bool, why job.Reason, err error) error {
	if err != nil {
		return err
	}
	r.Reason = why
	if had {
		s.take(id, r)
	}
	switch {
	case r.Phase == job.Waiting:
		s.pools[r.Pool].waiting.Add(int(id))
	case r.Phase.Over():
		s.pools[r.Pool].waiting.Remove(int(id))
		s.ended = append(s.ended, id)
		delete(s.pinned, id)
	}
	return nil
}

// Reshape replaces the allocation of a running job by a copy of a, at the cost
// of a pause. Several jobs may exchange places at one moment, so only Settle,
// after the last, tells whether all of them fit.
func (s *State) Reshape(id job.ID, a *cluster.Alloc, pause time.Duration, moved bool) error {
	r := s.Record(id)
	if r.Phase != job.Running {
		return r.Reshape(s.Now, pause, 0, 0, job.ToOthers) // returns the error
	}
	alloc, how := s.slots[r.Slot], job.ToSize
	switch {
	case alloc.SamePlaces(a):
		how = job.ToOtherPart
	case moved:
		how = job.ToOthers
	}
	s.Tenants.Hold(r.Tenant, s.amount(r), -1, s.Now)
	if how.Arrives() {
		s.departs(id, alloc)
	}
	if s.booked {
		alloc.CopyFrom(a)
	} else {
		s.Cluster.Release(alloc)
		alloc.CopyFrom(a)
		s.moving = append(s.moving, moving{id, how == job.ToOtherPart})
		s.book()
	}
	if err := r.Reshape(s.Now, pause, int32(a.Tasks(0)), s.Cluster.GPUMilli(a), how); err != nil {
		return err
	}
	s.lists.place(id)
	if how.Arrives() {
		s.arrives(id, a)
	}
	s.load(r.Job, a)
	r.Config.Chosen = chosen(a)
	s.Tenants.Hold(r.Tenant, s.amount(r), 1, s.Now)
	return nil
}

// chosen is what a job is told that has a.
func chosen(a *cluster.Alloc) (c job.Chosen) {
	if len(a.Shares) > 0 {
		c.Batch = a.Shares[0].Batch
	}
	return c
}

// book books the devices of the jobs that have moved. Another job that moves at
// the same moment, but later in the log, may still have them.
func (s *State) book() {
	for some := true; some; {
		some = false
		kept := s.moving[:0]
		for _, m := range s.moving {
			if s.bookMove(m) != nil {
				kept = append(kept, m)
				continue
			}
			some = true
		}
		s.moving = kept
	}
}

func (s *State) bookMove(m moving) error {
	if m.stays {
		return s.Cluster.Reallocate(s.Alloc(m.id))
	}
	return s.Cluster.Allocate(s.Alloc(m.id))
}

// Settle checks that every job that has moved has its new devices. It must be
// called after the last of the moves of one moment.
func (s *State) Settle() error {
	if len(s.moving) == 0 {
		return nil
	}
	first := s.moving[0]
	return fmt.Errorf("job %s: moves to where it does not fit: %w", s.Record(first.id).Job.Key, s.bookMove(first))
}

// AddNode adds a node to the cluster.
func (s *State) AddNode(spec cluster.NodeSpec) (cluster.NodeID, error) {
	id, err := s.Cluster.AddNode(spec)
	for len(s.pools) < s.Cluster.Pools() {
		s.pools = append(s.pools, poolJobs{})
	}
	if len(spec.Taints) > 0 {
		s.classes.rescope(s.Cluster)
	}
	return id, err
}

// SetLabels gives a node other labels and taints. Jobs that run there go on.
func SetLabels(s *State, id cluster.NodeID, labels []label.Label, taints []label.Taint) error {
	err := s.Cluster.SetLabels(id, labels, taints)
	s.classes.rescope(s.Cluster)
	return err
}

// JobsOn appends the jobs that have anything on a node, by number.
func (s *State) JobsOn(node cluster.NodeID, out []job.ID) []job.ID {
	for p := range s.pools {
		for id := range s.pools[p].running.All() {
			for _, piece := range s.Alloc(job.ID(id)).Pieces {
				if piece.Node == node {
					out = append(out, job.ID(id))
					break
				}
			}
		}
	}
	return out
}

// Check verifies that the ledger, the tenants and the records agree. It is slow
// and meant for tests.
func (s *State) Check() error {
	if err := s.Cluster.Check(); err != nil {
		return err
	}
	used := make([]tenant.Amount, s.Tenants.Len())
	mark := s.Cluster.Mark()
	defer s.Cluster.Undo(mark)
	for i := range s.Jobs() {
		id := job.ID(i)
		r := s.Record(id)
		p := &s.pools[r.Pool]
		if p.waiting.Has(i) != (r.Phase == job.Waiting) || p.running.Has(i) != r.Phase.HasDevices() || (r.Slot >= 0) != r.Phase.HasDevices() {
			return fmt.Errorf("job %s is %s but is listed as waiting %v, running %v", r.Job.Key, r.Phase, p.waiting.Has(i), p.running.Has(i))
		}
		if r.Slot < 0 {
			continue
		}
		a := s.amount(r)
		for t := r.Tenant; t >= 0; t = s.Tenants.At(t).Parent {
			used[t].GPU += a.GPU
			used[t].CPU += a.CPU
			used[t].Memory += a.Memory
		}
		s.Cluster.Release(s.slots[r.Slot])
	}
	for t := range used {
		if got := s.Tenants.At(tenant.ID(t)).Used; got != used[t] {
			return fmt.Errorf("tenant %q is booked with %+v, its jobs hold %+v", s.Tenants.At(tenant.ID(t)).Name, got, used[t])
		}
	}
	if err := checkOn(s); err != nil {
		return err
	}
	if err := s.lists.check(); err != nil {
		return err
	}
	return checkEmpty(s)
}

// checkEmpty verifies that nothing is allocated once every job has given back
// its allocation.
func checkEmpty(s *State) error {
	for n := range s.Cluster.Nodes() {
		if s.Cluster.Busy(cluster.NodeID(n)) {
			return fmt.Errorf("node %s holds something that belongs to no job", s.Cluster.Node(cluster.NodeID(n)).Name)
		}
	}
	return s.Cluster.Check()
}
