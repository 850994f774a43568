package rmixer

import (
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// together is the job, of some from all over the list that fit, with which all jobs of a
// device run fastest in the sum, as the scheduler believes; nil when none fits. On an
// empty device it is the first.
func (r *policy) together(v *sched.View, p *sched.Plan, d *device) *item {
	fits := func(it *item) bool { return r.fits(v, p, d, it) }
	if len(d.jobs) == 0 {
		return r.list.first(anyClass, d.room(), fits)
	}
	var best *item
	most := 0.0
	r.near = r.list.spread(r.near[:0], r.cfg.Look, fits)
	for _, it := range r.near {
		if s := r.pace(v, d, it.key.ID); s > most {
			most, best = s, it
		}
	}
	return best
}

// pace is the sum of the speeds of the jobs of a device and one more, over their speeds
// alone.
func (r *policy) pace(v *sched.View, d *device, more job.ID) float64 {
	all := append(r.group[:0], v.Job(more).Spec())
	for _, id := range d.jobs {
		all = append(all, v.Job(id).Spec())
	}
	r.group = all
	t := v.Cluster().Type(d.typ)
	sum := 0.0
	for i := range all { // each in turn stands first, the others behind it
		all[0], all[i] = all[i], all[0]
		sum += v.Sharing.Beside(all[0], all[1:], t)
	}
	return sum
}
