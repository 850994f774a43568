package rounds

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// Two jobs that share devices have a half of each of them. They have the same
// size and one role, take whole devices, and may be stopped.

// half is the part of a device that each of two jobs has, in thousandths.
const half = int32(unit.One / 2)

// Pairable tells whether a job may share its devices with another one at all.
func Pairable(j sched.Job) bool {
	d := j.Spec().Demand
	for _, role := range d.Roles[1:] {
		if role.Tasks > 0 {
			return false
		}
	}
	stop := j.Spec().Stop
	return d.Roles[0].GPU > 0 && d.Roles[0].GPU%unit.One == 0 && stop != job.Pinned && stop != job.Restart
}

// Alike tells whether two jobs take their devices in the same way, so that they may share
// them, and may use the same nodes.
func Alike(a, b sched.Job) bool {
	d, e := a.Spec().Demand, b.Spec().Demand
	x, y := &d.Roles[0], &e.Roles[0]
	return x.GPU == y.GPU && x.Tasks == y.Tasks && d.Condition(a.Pool()) == e.Condition(b.Pool())
}

// ServePair serves two jobs that share devices of one type in this round. It is
// false if either job cannot, or if too few devices are left.
func (r *Round) ServePair(a, b sched.Job, t cluster.TypeID) bool {
	tasks := tasksOf(a)
	milli := need(a, tasks)
	if r.left[t] < milli || r.Served(a.ID) || r.Served(b.ID) || a.ID == b.ID || !Pairable(a) || !Pairable(b) || !Alike(a, b) || !r.Can(a, t) || !r.Can(b, t) {
		return false
	}
	r.left[t] -= milli
	r.served.Add(int(a.ID))
	r.served.Add(int(b.ID))
	r.picks = append(r.picks, pick{job: a.ID, with: b.ID, t: t, tasks: tasks, milli: milli})
	return true
}

// Beside is the one job that shares the devices of a running job when a round
// begins. It is job.None if there is none, or several.
func (r *Round) Beside(j sched.Job) job.ID {
	a := r.View.Alloc(j.ID)
	if !r.paired || a == nil || len(a.Shares) == 0 || a.Shares[0].Milli != half {
		return job.None
	}
	on := r.View.On(a.Shares[0].Device)
	if len(on) != 2 {
		return job.None
	}
	return on[0] + on[1] - j.ID
}

// stuck tells whether a job shares devices with one that is left alone, and so
// must be left alone itself.
func (r *Round) stuck(j sched.Job) bool {
	with := r.Beside(j)
	if with == job.None {
		return false
	}
	other := r.View.Job(with)
	return Stays(r.View, other) || other.Ready() >= r.View.Now
}

// parted tells whether a job has a half of devices on which no other job runs.
func (r *Round) parted(j sched.Job) bool {
	a := r.View.Alloc(j.ID)
	return r.paired && len(a.Shares) > 0 && a.Shares[0].Milli == half && Pairable(j) && r.Beside(j) == job.None
}

// part turns d.alloc, the allocation of one job, into what each of a pair gets.
// For a job without a partner it makes it all of the devices. It is false if
// that is impossible.
func (d *deal) part(r *Round, k *pick, of job.ID) bool {
	if !r.run.Pairs || !Pairable(r.View.Job(of)) {
		return k.with == job.None
	}
	for i := range d.alloc.Shares {
		s := &d.alloc.Shares[i]
		switch {
		case s.Milli > int32(unit.One): // devices that are only counted cannot be told apart
			return k.with == job.None
		case k.with == job.None:
			s.Milli = int32(unit.One)
		default:
			s.Milli = half
		}
	}
	if k.with != job.None {
		d.guest.CopyFrom(&d.alloc)
		dress(&d.alloc, r.View.Job(k.job))
		dress(&d.guest, r.View.Job(k.with))
	}
	return true
}

// dress adds the cores and the memory that a job needs to its allocation.
func dress(a *cluster.Alloc, j sched.Job) {
	role := &j.Spec().Demand.Roles[0]
	for i := range a.Pieces {
		p := &a.Pieces[i]
		p.CPU, p.Memory = role.CPU*unit.Milli(p.Tasks), role.Memory*unit.Bytes(p.Tasks)
	}
	for i := range a.Shares {
		a.Shares[i].Memory = role.GPUMemory
	}
}

// void tells whether an entry of a job is the claim of a pair that no longer
// exists. That is so if one of the two no longer shares devices, or if the
// other one has ended, whether it is still known or not.
func (s *Shares) void(r *Round, i int, e entry) bool {
	switch {
	case !e.pair:
		return false
	case s.accounts[i].solo || e.with == job.None || r.View.Job(e.with).Phase().Over():
		return true
	}
	k, here := s.place(e.with)
	return here && s.accounts[k].solo
}

// pairBids adds the bids of the pairs whose claims are noted on a job.
func (s *Shares) pairBids(r *Round, t cluster.TypeID, i int) {
	id := s.jobs[i].ID
	for _, e := range s.accounts[i].entries {
		if !e.pair || e.t != t || e.Target <= 0 || s.void(r, i, e) || r.Served(id) || r.Served(e.with) {
			continue
		}
		if _, here := s.place(e.with); here {
			s.bids = append(s.bids, Bid{Job: id, With: e.with, Type: t, Priority: e.Priority(), Deficit: e.Deficit, Target: e.Target})
		}
	}
}
