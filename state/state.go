// Package state is all that a run knows at one moment: the cluster and its
// ledger, the tenants, and the record of every job. It is a fold over the event
// log: the engine changes it, event by event, and nothing else does.
//
// Nouns: a class is the set of jobs of equal demand in the same pool; a slot
// holds the Alloc of one job. A job belongs to the pool that bears the name of
// its tenant, or to pool 0 when there is none.
package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/dense"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/unit"
)

const chunk = 4096

// State is a run at one moment.
type State struct {
	Now     time.Duration
	Cluster *cluster.Cluster
	Tenants *tenant.Tree

	NoNote job.Note // stands for the note of a job that has none: policies read it once

	records   [][]job.Record // in chunks, so that a record never moves
	n         int
	submitted int64    // for life: one more than the highest serial
	ended     []job.ID // in the order in which they left for good
	lefts     []int32  // of those of them that had ended before this log began: what CarryPast was told
	pools     []poolJobs
	poolOf    []cluster.PoolID // of each tenant; -1 not looked up yet

	classes classes

	homes map[job.ID]*cluster.Alloc // what frozen jobs held: their memory stays there

	runtimes []string   // of each device: the backbone whose runtime it holds
	used     []Used     // of each device: what was measured last
	on       [][]job.ID // of each device, see On
	windows  [][]sample

	learnt map[perf.Pair]float64 // of jobs that share a device, see perf.Learner

	slots  []*cluster.Alloc
	spare  []int32
	booked bool
	moving []moving // their new devices are not booked yet
}

// moving is a job whose new devices are not booked yet, or only new parts of those
// that it had, where it stays.
type moving struct {
	id    job.ID
	stays bool
}

type poolJobs struct{ waiting, running dense.Set }

// New returns a state with no jobs.
func New(c *cluster.Cluster, t *tenant.Tree) *State {
	return &State{
		Cluster: c, Tenants: t, pools: make([]poolJobs, c.Pools()),
		classes: classes{of: map[classKey]int32{}, memo: map[memoKey]int32{}}, homes: map[job.ID]*cluster.Alloc{},
		learnt: map[perf.Pair]float64{},
	}
}

// Jobs is the number of jobs submitted so far.
func (s *State) Jobs() int { return s.n }

// Submitted is the number of jobs submitted so far, those that earlier logs tell of
// included.
func (s *State) Submitted() int64 { return s.submitted }

// Ended are the jobs that have left for good, in the order in which they left.
// It must not be changed.
func (s *State) Ended() []job.ID { return s.ended }

// Known tells whether a job with that number was submitted.
func (s *State) Known(id job.ID) bool { return id >= 0 && int(id) < s.n }

// Record is the record of a known job. Only the fold changes it: what a job holds
// and where it stands by the methods of State, the rest in place.
func (s *State) Record(id job.ID) *job.Record { return &s.records[id/chunk][id%chunk] }

// Waiting are the jobs of a pool that wait, by number.
func (s *State) Waiting(p cluster.PoolID) *dense.Set { return &s.pools[p].waiting }

// Running are the jobs of a pool that were given devices, by number.
func (s *State) Running(p cluster.PoolID) *dense.Set { return &s.pools[p].running }

// Class is what all jobs of a class have in common.
func (s *State) Class(c int32) *Class { return &s.classes.list[c] }

// Classes is the number of classes so far.
func (s *State) Classes() int { return len(s.classes.list) }

// Alloc is what a job holds, or nil.
func (s *State) Alloc(id job.ID) *cluster.Alloc {
	if slot := s.Record(id).Slot; slot >= 0 {
		return s.slots[slot]
	}
	return nil
}

// Home is what a frozen job held when it was stopped, where its memory still
// is; nil for every other job. It must not be changed.
func (s *State) Home(id job.ID) *cluster.Alloc {
	if len(s.homes) == 0 {
		return nil
	}
	return s.homes[id]
}

// Frozen is the GPU memory that frozen jobs keep on a device, as far as they have
// told how much they need.
func (s *State) Frozen(d cluster.DeviceID) unit.Bytes {
	var sum unit.Bytes
	for id, home := range s.homes {
		sum += Keeps(s.Record(id).Job, home, d)
	}
	return sum
}

// Keeps is the GPU memory that a job keeps on a device when it is frozen where it is, as
// far as it has told how much it needs.
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

// Homes is the number of frozen jobs.
func (s *State) Homes() int { return len(s.homes) }

// Booked tells the state that the ledger already shows what the following
// changes say, because a plan has booked it (true), or that it does not
// (false, as at the start).
func (s *State) Booked(yes bool) { s.booked = yes }

// Submit makes a job known. Its number must be the next one.
func (s *State) Submit(j *job.Job, estimate time.Duration) error {
	if int(j.ID) != s.n {
		return fmt.Errorf("job %s: has number %d, the next one is %d", j.Key, j.ID, s.n)
	}
	if j.Demand == nil {
		return fmt.Errorf("job %s: has no demand", j.Key)
	}
	if s.n%chunk == 0 {
		s.records = append(s.records, make([]job.Record, chunk))
	}
	s.n++
	r := s.Record(j.ID)
	r.Submit(j, s.Now)
	r.Estimate = estimate
	r.Tenant = s.Tenants.Get(j.Tenant)
	r.Pool = s.pool(r.Tenant, j.Tenant)
	s.classes.sort(r, s.Cluster)
	s.pools[r.Pool].waiting.Add(int(j.ID))
	s.submitted = max(s.submitted, r.Serial()+1)
	return nil
}

// Carry makes a job known that had been submitted in an earlier log, as it stood
// when that ended. A job that holds devices needs them in a, which is copied; a
// is the home of one that is frozen, and nil for any other.
func (s *State) Carry(j *job.Job, past *job.Record, a *cluster.Alloc, estimate time.Duration, why job.Reason) error {
	if err := mayStand(s, j, past, a); err != nil {
		return err
	}
	if err := s.Submit(j, estimate); err != nil {
		return err
	}
	return s.stand(j.ID, past, a, why)
}

// CarryPast makes a job known that had ended in an earlier log. left is how many
// of those that had ended before, and are made known too, had ended before it.
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

// maxPast bounds how many jobs that had ended are carried over into a log.
const maxPast = 1 << 16

// Past is the number of jobs that had ended before this log began: they are the
// first of Ended.
func (s *State) Past() int { return len(s.lefts) }

// mayStand checks what is told of a job in another log.
func mayStand(s *State, j *job.Job, past *job.Record, a *cluster.Alloc) error {
	if since := max(past.Since, past.Placed); since > s.Now {
		return fmt.Errorf("job %s: is %s since %v, which has not come yet", j.Key, past.Phase, since)
	}
	if !isHome(j, past, a) && past.Phase.Holds() != (a != nil) {
		return fmt.Errorf("job %s: is %s, and a job holds devices exactly when it is assigned or running", j.Key, past.Phase)
	}
	if a != nil {
		if err := s.Cluster.Valid(a); err != nil {
			return fmt.Errorf("job %s: %w", j.Key, err)
		}
	}
	return nil
}

// isHome tells whether a is not what a job holds but where its memory is.
func isHome(j *job.Job, past *job.Record, a *cluster.Alloc) bool {
	return a != nil && j.Stop == job.Freeze && (past.Phase == job.Waiting || past.Phase == job.Stopping || past.Phase == job.Held)
}

// stand has a job that has just been submitted stand as another log tells.
func (s *State) stand(id job.ID, past *job.Record, a *cluster.Alloc, why job.Reason) error {
	r := s.Record(id)
	if err := r.Carry(past); err != nil {
		return err
	}
	r.Reason = why
	switch {
	case isHome(r.Job, past, a):
		s.homes[id] = new(cluster.Alloc)
		s.homes[id].CopyFrom(a)
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

func (s *State) pool(t tenant.ID, name string) cluster.PoolID {
	for int(t) >= len(s.poolOf) {
		s.poolOf = append(s.poolOf, cluster.None)
	}
	if s.poolOf[t] == cluster.None {
		s.poolOf[t], _ = s.Cluster.PoolByName(name) // pool 0 when there is none
	}
	return s.poolOf[t]
}

// Hold and Free are the arrows between waiting and held.
func (s *State) Hold(id job.ID, why job.Reason) error {
	r := s.Record(id)
	if err := r.Hold(s.Now); err != nil {
		return err
	}
	r.Reason = why
	s.pools[r.Pool].waiting.Remove(int(id))
	return nil
}

// Free is the arrow from held to waiting.
func (s *State) Free(id job.ID) error {
	r := s.Record(id)
	return s.left(id, r, false, job.Reason{}, r.Free(s.Now))
}

// Begin starts a job on a copy of a; it makes progress after delay. A job that
// was assigned its devices before keeps those, and a is not looked at.
func (s *State) Begin(id job.ID, a *cluster.Alloc, delay time.Duration) error {
	r := s.Record(id)
	delete(s.homes, id)
	if r.Phase == job.Assigned {
		a := s.Alloc(id)
		s.load(r.Job, a)
		s.departs(id, a)
		err := r.Begin(s.Now, delay, r.Tasks, r.Milli)
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
	if !s.booked {
		if err := s.Cluster.Take(a); err != nil {
			return fmt.Errorf("job %s: %w", r.Job.Key, err)
		}
	}
	r.Slot = s.newSlot()
	s.slots[r.Slot].CopyFrom(a)
	s.arrives(id, a)
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
	r.Slot = -1
	s.pools[r.Pool].running.Remove(int(id))
}

// amount is what a job that was given devices holds.
func (s *State) amount(r *job.Record) tenant.Amount {
	c := &s.classes.list[r.Class]
	if r.Tasks == c.Demand.Roles[0].Tasks {
		a := c.Amount
		a.GPU = r.Milli // less where the policy gave it a part of what it asks for
		return a
	}
	a := tenant.Amount{GPU: r.Milli}
	held := s.slots[r.Slot]
	for i := range held.Pieces {
		a.CPU += held.Pieces[i].CPU
		a.Memory += held.Pieces[i].Memory
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

// Preempt takes a job off its devices, with the progress that it keeps. It
// waits again at once when leaving costs no time (atOnce) or when it had only
// been assigned, and is stopping until Gone otherwise.
func (s *State) Preempt(id job.ID, kept time.Duration, atOnce bool, why job.Reason) error {
	r := s.Record(id)
	held := r.Phase.Holds()
	if r.Phase == job.Running && r.Job.Stop == job.Freeze {
		home := new(cluster.Alloc)
		home.CopyFrom(s.Alloc(id))
		s.homes[id] = home
	}
	var err error
	if atOnce || r.Phase == job.Assigned {
		err = r.PreemptNow(s.Now, kept)
	} else {
		err = r.Preempt(s.Now, kept)
	}
	return s.left(id, r, held, why, err)
}

// Gone tells that a stopping job has left its devices and waits again.
func (s *State) Gone(id job.ID) error {
	r := s.Record(id)
	return s.left(id, r, false, r.Reason, r.Gone(s.Now))
}

// Evict tells that a job was thrown off its devices and waits again.
func (s *State) Evict(id job.ID, kept time.Duration, why job.Reason) error {
	r := s.Record(id)
	delete(s.homes, id)
	held := r.Phase.Holds()
	return s.left(id, r, held, why, r.Evict(s.Now, kept))
}

// Fail tells that an attempt failed and that the job waits for the next.
func (s *State) Fail(id job.ID, kept time.Duration, why job.Reason) error {
	r := s.Record(id)
	held := r.Phase.Holds()
	return s.left(id, r, held, why, r.Fail(s.Now, kept))
}

// Finish tells that a running job has ended.
func (s *State) Finish(id job.ID, outcome job.Phase) error {
	r := s.Record(id)
	held := r.Phase.Holds()
	return s.left(id, r, held, job.Reason{Code: job.Ended}, r.Finish(s.Now, outcome))
}

// Cancel tells that a job was taken back by its user.
func (s *State) Cancel(id job.ID) error {
	r := s.Record(id)
	held := r.Phase.Holds()
	return s.left(id, r, held, job.Reason{Code: job.UserRequest}, r.Cancel(s.Now))
}

// left completes an arrow of a record that led away from its devices or out of
// the waiting jobs: held tells whether it held devices before.
func (s *State) left(id job.ID, r *job.Record, held bool, why job.Reason, err error) error {
	if err != nil {
		return err
	}
	r.Reason = why
	if held {
		s.take(id, r)
	}
	switch {
	case r.Phase == job.Waiting:
		s.pools[r.Pool].waiting.Add(int(id))
	case r.Phase.Over():
		s.pools[r.Pool].waiting.Remove(int(id))
		s.ended = append(s.ended, id)
		delete(s.homes, id)
	}
	return nil
}

// Reshape changes what a running job holds to a copy of a, at the cost of a
// pause. Jobs may change places: whether all of them fit is known when the last
// has moved, and Settle says so.
func (s *State) Reshape(id job.ID, a *cluster.Alloc, pause time.Duration, moved bool) error {
	r := s.Record(id)
	if r.Phase != job.Running {
		return r.Reshape(s.Now, pause, 0, 0, job.ToOthers) // says what is wrong
	}
	held, how := s.slots[r.Slot], job.ToSize
	switch {
	case held.SamePlaces(a):
		how = job.ToOtherPart
	case moved:
		how = job.ToOthers
	}
	s.Tenants.Hold(r.Tenant, s.amount(r), -1, s.Now)
	if how.Arrives() {
		s.departs(id, held)
	}
	if s.booked {
		held.CopyFrom(a)
	} else {
		s.Cluster.Release(held)
		held.CopyFrom(a)
		s.moving = append(s.moving, moving{id, how == job.ToOtherPart})
		s.book()
	}
	if err := r.Reshape(s.Now, pause, int32(a.Tasks(0)), s.Cluster.GPUMilli(a), how); err != nil {
		return err
	}
	if how.Arrives() {
		s.arrives(id, a)
	}
	s.load(r.Job, a)
	s.Tenants.Hold(r.Tenant, s.amount(r), 1, s.Now)
	return nil
}

// book books the devices of the jobs that have moved. What one moves to may
// still be held by another that moves at the same moment but later in the log.
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
		return s.Cluster.Retake(s.Alloc(m.id))
	}
	return s.Cluster.Take(s.Alloc(m.id))
}

// Settle checks that every job which has moved holds its new devices. It must be
// asked behind the last of the moves of one moment.
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
	return id, err
}

// Holders appends the jobs that hold anything on a node, by number.
func (s *State) Holders(node cluster.NodeID, out []job.ID) []job.ID {
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
	for i := range s.n {
		id := job.ID(i)
		r := s.Record(id)
		p := &s.pools[r.Pool]
		if p.waiting.Has(i) != (r.Phase == job.Waiting) || p.running.Has(i) != r.Phase.Holds() || (r.Slot >= 0) != r.Phase.Holds() {
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
	return checkEmpty(s)
}

// checkEmpty verifies that nothing is held once every job has given back what
// it holds.
func checkEmpty(s *State) error {
	for n := range s.Cluster.Nodes() {
		if s.Cluster.Busy(cluster.NodeID(n)) {
			return fmt.Errorf("node %s holds something that belongs to no job", s.Cluster.Node(cluster.NodeID(n)).Name)
		}
	}
	return s.Cluster.Check()
}
