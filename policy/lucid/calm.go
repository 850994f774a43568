package lucid

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// calm is the jobs with parts of devices about which nothing is to be decided until something
// happens to them, to the jobs beside them, or to their devices. So a decision need not look at
// all pairs.
type calm struct {
	jobs    map[job.ID]bool     // whether it is the guest of a pair that was measured
	beside  map[job.ID][]job.ID // those of them that are beside a job, or were
	pairs   int                 // that were measured
	placed  int                 // of View.Placed, those that were seen
	decided time.Duration       // when a decision was made last
}

// calmed has no jobs yet.
func calmed(v *sched.View) calm {
	return calm{jobs: map[job.ID]bool{}, beside: map[job.ID][]job.ID{}, placed: len(v.Placed())}
}

// stir wakes the jobs to which something may have happened since the last decision.
func (f *followed) stir(v *sched.View) {
	for _, ch := range v.Changes() {
		f.disturb(ch.Job)
	}
	on := func(d cluster.DeviceID) {
		for _, id := range v.On(d) {
			f.disturb(id)
		}
	}
	placed := v.Placed()
	for ; f.calm.placed < len(placed); f.calm.placed++ {
		id := placed[f.calm.placed]
		f.disturb(id)
		if a := v.Alloc(id); a != nil {
			for i := range a.Shares {
				on(a.Shares[i].Device)
			}
		}
	}
	for d := range v.Measured(f.calm.decided) {
		on(d)
	}
	f.calm.decided = v.Now
}

// disturb wakes a job and those beside it.
func (f *followed) disturb(id job.ID) {
	f.wake(id)
	for _, other := range f.calm.beside[id] {
		f.wake(other)
	}
	delete(f.calm.beside, id)
}

// wake has decisions look at a job again.
func (f *followed) wake(id job.ID) {
	measured, calm := f.calm.jobs[id]
	if !calm {
		return
	}
	if measured {
		f.calm.pairs--
	}
	delete(f.calm.jobs, id)
	f.parted.Add(int(id))
}

// settle takes the jobs with parts of devices that are calm out of those at which each
// decision looks.
func (l *policy) settle(v *sched.View) {
	f := &l.runs
	for j := range each(v, &f.parted) {
		measured, calm := l.rests(v, j)
		if !calm {
			continue
		}
		if f.calm.jobs[j.ID] = measured; measured {
			f.calm.pairs++
		}
		f.parted.Remove(int(j.ID))
		a := v.Alloc(j.ID)
		for i := range a.Shares {
			for _, other := range v.On(a.Shares[i].Device) {
				if by := f.calm.beside[other]; other != j.ID && !slices.Contains(by, j.ID) {
					f.calm.beside[other] = append(by, j.ID)
				}
			}
		}
	}
}

// rests tells whether nothing is to be decided about a job until something happens: it cannot
// have more of its devices, and is in no pair that is to be looked at. A guest is calm when its
// pair uses its GPUs as was told, and has done so for as long as is looked at. measured tells of
// such a pair.
func (l *policy) rests(v *sched.View, j sched.Job) (measured, is bool) {
	a := v.Alloc(j.ID)
	if !shares(j) {
		return false, true
	}
	others := func(s cluster.Share) bool { return len(v.On(s.Device)) != 1 }
	if j.Phase() != job.Running || !slices.ContainsFunc(a.Shares, others) {
		return false, false
	}
	host := only(v, a, j.ID)
	if l.cfg.Unstable == 0 || host == job.None || !later(j, v.Job(host)) {
		return false, true
	}
	h := v.Job(host)
	if h.Phase() != job.Running || l.ripe(j, h) > v.Now {
		return false, false
	}
	return v.UsedOver(a.Shares[0].Device, 0).Known, l.steady(v, j, h)
}

// rounding is by how much a mean of equal measurements may be off.
const rounding = 1e-9

// steady tells whether the GPUs of a pair are used as was told, and will be until they are
// measured again.
func (l *policy) steady(v *sched.View, guest, host sched.Job) bool {
	told, known := l.told(guest, host)
	if !known {
		return true
	}
	for _, s := range v.Alloc(guest.ID).Shares {
		w := v.UsedOver(s.Device, l.over())
		if w.Known && (w.Since > v.Now-l.over() || w.Use-told.use > l.cfg.Unstable-rounding || l.swells(v, s.Device, w.Memory-told.memory)) {
			return false
		}
	}
	return true
}
