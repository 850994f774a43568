package rounds

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// deal gives out the devices of a round.
type deal struct {
	failed []pick
	alloc  cluster.Alloc // scratch: the devices that a job keeps, or those of a pair
	guest  cluster.Alloc
}

// begin gives devices to all jobs that were served, and takes them from the
// others. Jobs that may use only some nodes come first, and then those that must
// be on a single node. Sizes follow in decreasing order. Within a size, jobs that have devices of the right type
// keep them unless a larger job has taken them, and then the others are placed.
// A job that finds no place on its type, although enough devices are free, gets
// those of another type if it fits there.
func (d *deal) begin(r *Round) {
	v, p := r.View, r.Plan
	d.failed = d.failed[:0]
	same := !slices.ContainsFunc(r.picks, func(k pick) bool { return !k.holds(r) }) // no served job is new or elsewhere
	for _, j := range r.Jobs {
		if j.Running() && !(same && r.Served(j.ID)) {
			p.Stop(j.ID, job.Reason{Code: job.UsedShare, Need: int32(min(j.Service(), 1<<30)), Job: job.None})
		}
	}
	if same {
		r.picks = r.picks[:0]
	}
	slices.SortStableFunc(r.picks, func(a, b pick) int {
		return cmp.Or(first(a.bound, b.bound), first(a.near, b.near), cmp.Compare(b.milli, a.milli))
	})
	for from := 0; from < len(r.picks); {
		to := from
		for to < len(r.picks) && r.picks[to].milli == r.picks[from].milli && r.picks[to].near == r.picks[from].near && r.picks[to].bound == r.picks[from].bound {
			to++
		}
		size := r.picks[from:to]
		for i := range size {
			if d.keep(r, &size[i]) {
				size[i].milli = 0
			}
		}
		for _, k := range size {
			if k.milli > 0 && !d.place(r, &k) {
				d.failed = append(d.failed, k)
			}
		}
		from = to
	}
	d.startBare(r)
	for _, k := range d.failed {
		p.StartSize(k.job, k.tasks, OneType(r.run.Place))
		if k.with != job.None {
			p.Start(k.with, OneType(r.run.Place))
		}
	}
	if len(d.failed) > 0 || r.bound() {
		d.others(r)
	}
	for _, j := range r.Jobs {
		if p.Alloc(j.ID) == nil {
			p.Wait(j.ID, waits(v, r, j))
		}
	}
}

// bound tells whether there are jobs that may use only some nodes. They may have been
// placed elsewhere than the rule thought, or not have been served although there is room.
func (r *Round) bound() bool {
	return slices.ContainsFunc(r.Jobs, func(j sched.Job) bool { return r.View.Class(j.Class()).Restricted() })
}

// others gives what was meant for jobs that found no place, or another one, to whoever fits.
func (d *deal) others(r *Round) {
	for _, j := range r.Jobs {
		if !r.Served(j.ID) {
			r.Plan.Start(j.ID, OneType(r.run.Place))
		}
	}
}

// first compares two values so that true comes before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// holds tells whether a job already runs on devices of the right type and
// number, beside the right partner.
func (k *pick) holds(r *Round) bool {
	j := r.View.Job(k.job)
	return k.suits(r, j) && r.Beside(j) == k.with && !r.parted(j)
}

// suits tells whether the allocation of a job suits the pick.
func (k *pick) suits(r *Round, j sched.Job) bool {
	t, ok := r.TypeOf(j)
	return ok && t == k.t && j.Tasks() == k.tasks && !mixed(r.View.Alloc(j.ID), r.View.Cluster()) && (!k.near || r.View.Alloc(j.ID).Nodes() == 1) &&
		r.run.there(j.ID, r.View.Alloc(j.ID))
}

// keep lets a job keep its devices, if they are the right ones and still free.
// For a pair, both jobs share the devices of one of them.
func (d *deal) keep(r *Round, k *pick) bool {
	for _, id := range [2]job.ID{k.job, k.with} {
		if id == job.None || !k.suits(r, r.View.Job(id)) {
			continue
		}
		d.alloc.CopyFrom(r.View.Alloc(id))
		if d.part(r, k, id) && d.start(r, k) {
			return true
		}
	}
	return false
}

// place finds devices for a job, or for a pair.
func (d *deal) place(r *Round, k *pick) bool {
	if k.near && r.Plan.StartSize(k.job, k.tasks, On(place.Consolidated, k.t)) {
		return true
	}
	if !r.Plan.StartSize(k.job, k.tasks, On(r.run.where(k.job), k.t)) {
		return false
	}
	if k.with == job.None {
		return true
	}
	d.alloc.CopyFrom(r.Plan.Alloc(k.job))
	r.Plan.Stop(k.job, job.Reason{Code: job.UsedShare, Job: job.None})
	return d.part(r, k, k.job) && d.start(r, k)
}

// start starts a job, or a pair, on the devices in d.alloc, if they are free.
func (d *deal) start(r *Round, k *pick) bool {
	c := r.View.Cluster()
	mark := c.Mark()
	free := c.Allocate(&d.alloc) == nil && (k.with == job.None || c.Allocate(&d.guest) == nil)
	c.Undo(mark)
	return free && r.Plan.StartOn(k.job, &d.alloc) && (k.with == job.None || r.Plan.StartOn(k.with, &d.guest))
}

// mixed tells whether an Alloc has devices of several types.
func mixed(a *cluster.Alloc, c *cluster.Cluster) bool {
	return slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { return c.TypeOf(s.Device) != c.TypeOf(a.Shares[0].Device) })
}

// waits is why a job waits for the next round.
func waits(v *sched.View, r *Round, j sched.Job) job.Reason {
	if r.Served(j.ID) { // it was served and has found no place
		return job.Reason{Code: job.NotYet, At: r.run.Grid.Next(v.Now), Job: job.None}
	}
	return job.Reason{Code: job.Outranked, Job: job.None}
}

// fill gives free devices to the jobs that were served inside a round.
func (d *deal) fill(r *Round) {
	d.startBare(r)
	failed := r.bound()
	for _, k := range r.picks {
		if !r.Plan.StartSize(k.job, k.tasks, On(r.run.where(k.job), k.t)) && !r.Plan.StartSize(k.job, k.tasks, OneType(r.run.Place)) {
			failed = true
		}
	}
	if failed {
		d.others(r)
	}
}

// startBare starts jobs without GPUs where they fit.
func (d *deal) startBare(r *Round) {
	for _, id := range r.bare {
		r.Plan.Start(id, r.run.Place)
	}
}
