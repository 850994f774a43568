package rounds

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// deal gives out devices.
type deal struct {
	failed []pick
	alloc  cluster.Alloc // of who keeps devices, and of a pair
	guest  cluster.Alloc
}

// begin gives devices to everybody who was taken, and takes them from the others.
// Those who are to be together on a node come first. In decreasing size, who holds devices of the right type keeps them if nobody
// larger has taken them, then the others of that size are placed. Who finds no
// place among the devices of her type, though enough are free, gets those of
// another type if that works.
func (d *deal) begin(r *Round) {
	v, p := r.View, r.Plan
	d.failed = d.failed[:0]
	same := !slices.ContainsFunc(r.picks, func(k pick) bool { return !k.holds(r) }) // nobody new, nobody elsewhere
	for _, j := range r.Jobs {
		if j.Running() && !(same && r.Served(j.ID)) {
			p.Stop(j.ID, job.Reason{Code: job.UsedShare, Need: int32(min(j.Service(), 1<<30)), Job: job.None})
		}
	}
	if same {
		r.picks = r.picks[:0]
	}
	slices.SortStableFunc(r.picks, func(a, b pick) int { return cmp.Or(first(a.near, b.near), cmp.Compare(b.milli, a.milli)) })
	for from := 0; from < len(r.picks); {
		to := from
		for to < len(r.picks) && r.picks[to].milli == r.picks[from].milli && r.picks[to].near == r.picks[from].near {
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
	if len(d.failed) > 0 {
		d.others(r)
	}
	for _, j := range r.Jobs {
		if p.Alloc(j.ID) == nil {
			p.Wait(j.ID, waits(v, r, j))
		}
	}
}

// others gives what was meant for jobs that found no place to whoever fits.
func (d *deal) others(r *Round) {
	for _, j := range r.Jobs {
		if !r.Served(j.ID) {
			r.Plan.Start(j.ID, OneType(r.run.Place))
		}
	}
}

// first puts what is true ahead of what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// holds tells whether a job runs on devices of the type and number that it is to have,
// beside whom it is to.
func (k *pick) holds(r *Round) bool {
	j := r.View.Job(k.job)
	return k.suits(r, j) && r.Beside(j) == k.with && !r.parted(j)
}

// suits tells whether what a job holds suits the pick.
func (k *pick) suits(r *Round, j sched.Job) bool {
	t, ok := r.TypeOf(j)
	return ok && t == k.t && j.Tasks() == k.tasks && !mixed(r.View.Alloc(j.ID), r.View.Cluster()) && (!k.near || r.View.Alloc(j.ID).Nodes() == 1)
}

// keep lets a job, or one of a pair with the other, keep its devices, if they are the
// right ones and still free.
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
	if !r.Plan.StartSize(k.job, k.tasks, On(r.run.Place, k.t)) {
		return false
	}
	if k.with == job.None {
		return true
	}
	d.alloc.CopyFrom(r.Plan.Alloc(k.job))
	r.Plan.Stop(k.job, job.Reason{Code: job.UsedShare, Job: job.None})
	return d.part(r, k, k.job) && d.start(r, k)
}

// start starts a job, or a pair, on what was dealt to it, if that is free.
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
	if r.Served(j.ID) { // it has found no place
		return job.Reason{Code: job.NotYet, At: r.run.Grid.Next(v.Now), Job: job.None}
	}
	return job.Reason{Code: job.Outranked, Job: job.None}
}

// fill gives free devices to who was taken inside a round.
func (d *deal) fill(r *Round) {
	d.startBare(r)
	failed := false
	for _, k := range r.picks {
		if !r.Plan.StartSize(k.job, k.tasks, On(r.run.Place, k.t)) && !r.Plan.StartSize(k.job, k.tasks, OneType(r.run.Place)) {
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
