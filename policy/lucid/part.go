package lucid

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
)

// part takes pairs apart that use more of their GPUs than was told when they came
// together: rule 4 of the paper's section 3.3, "it introspectively evicts packed jobs
// if an unstable resource utilization pattern is detected". Which of the two it was
// cannot be seen; who came last leaves, and neither shares again. That less is used
// parts nobody: jobs load data and evaluate.
func (l *policy) part(v *sched.View, p *sched.Plan) {
	for guest, host := range l.pairs(v) {
		why, unstable := l.unstable(v, guest, host)
		if !unstable {
			continue
		}
		for _, j := range []sched.Job{guest, host} {
			n, _ := sched.Noted[note](p, j)
			n.apart = true
			p.Remember(j.ID, &n)
		}
		p.Stop(guest.ID, job.Reason{Code: job.MakesRoom, Job: host.ID, Text: why})
		l.runs.disturb(guest.ID)
		l.queue = append(l.queue, waiting{guest.ID, l.rank(v, guest)})
	}
}

// pairs yields the plain jobs that share all their GPUs with one other job that was
// there before, and that one. Those of calm pairs are left out.
func (l *policy) pairs(v *sched.View) func(yield func(guest, host sched.Job) bool) {
	return func(yield func(guest, host sched.Job) bool) {
		for j := range each(v, &l.runs.parted) {
			a := v.Alloc(j.ID)
			if l.cfg.Unstable == 0 || !shares(j) || j.Phase() != job.Running {
				continue
			}
			host := only(v, a, j.ID)
			if host == job.None {
				continue
			}
			if h := v.Job(host); later(j, h) && h.Phase() == job.Running && !yield(j, h) {
				return
			}
		}
	}
}

// later tells whether a job is the guest of another one: it came after it.
func later(j, h sched.Job) bool {
	return j.Since() > h.Since() || j.Since() == h.Since() && j.ID > h.ID
}

// only is the one other job with which a job shares all devices of its alloc; job.None:
// there are others, or none.
func only(v *sched.View, a *cluster.Alloc, id job.ID) job.ID {
	host := job.None
	for i := range a.Shares {
		on := v.On(a.Shares[i].Device)
		if len(on) != 2 || !beside.Divisible(v, a.Shares[i].Device) || host != job.None && on[0]+on[1]-id != host {
			return job.None
		}
		host = on[0] + on[1] - id
	}
	return host
}

// unstable tells whether a GPU that two jobs share is used for much more of its time than
// they told, or much more of its memory is taken, since both make progress. It is
// seen when they have been together for as long as is looked at.
func (l *policy) unstable(v *sched.View, guest, host sched.Job) (why string, is bool) {
	told, known := l.told(guest, host)
	if !known || l.ripe(guest, host) > v.Now {
		return "", false
	}
	for _, s := range v.Alloc(guest.ID).Shares {
		w := v.UsedOver(s.Device, l.over())
		switch {
		case w.Known && w.Use-told.use > l.cfg.Unstable:
			return fmt.Sprintf("makes room for job %s: the GPU that they share is busy for %.0f %% of the time, they told of %.0f %%", host.Spec().Key, 100*w.Use, 100*told.use), true
		case w.Known && l.swells(v, s.Device, w.Memory-told.memory):
			return fmt.Sprintf("makes room for job %s: %v of the GPU's memory are taken, they told of %v", host.Spec().Key, w.Memory, told.memory), true
		}
	}
	return "", false
}

// told is what two jobs told that they use of a GPU together; ok is false when one did not.
func (l *policy) told(guest, host sched.Job) (both taken, ok bool) {
	_, mine, ok := l.cfg.Analyser.Of(guest.Spec())
	_, theirs, known := l.cfg.Analyser.Of(host.Spec())
	return taken{min(1, busy(guest.Spec())+busy(host.Spec())), mine + theirs}, ok && known
}

// taken is what is used of a GPU: the part of the time for which it is busy, and memory.
type taken struct {
	use    float64
	memory unit.Bytes
}

// swells tells whether so much more of the memory of a GPU is taken than was told that a pair
// is parted.
func (l *policy) swells(v *sched.View, d cluster.DeviceID, more unit.Bytes) bool {
	has := v.Cluster().Type(v.Cluster().TypeOf(d)).Memory
	if has == 0 {
		has = unit.Bytes(l.cfg.Memory * float64(unit.GiB))
	}
	return float64(more) > l.cfg.Unstable*float64(has)
}

// ripe is when two jobs have been together for as long as is looked at.
func (l *policy) ripe(guest, host sched.Job) time.Duration {
	return max(guest.Ready(), host.Ready(), guest.Since()) + l.over()
}

// over is how far back the use of a GPU is looked at.
func (l *policy) over() time.Duration { return min(l.cfg.Watch, state.UsedWindow) }

// nextPart is the next moment at which it is seen whether a pair is unstable.
func (l *policy) nextPart(v *sched.View) time.Duration {
	at := unit.Never
	if l.runs.calm.pairs > 0 {
		at = beside.Next(v.Now, l.cfg.Check)
	}
	for guest, host := range l.pairs(v) {
		if !v.UsedOver(v.Alloc(guest.ID).Shares[0].Device, 0).Known {
			continue
		}
		if ripe := l.ripe(guest, host); ripe > v.Now {
			at = min(at, ripe)
		} else {
			at = min(at, beside.Next(v.Now, l.cfg.Check))
		}
	}
	return at
}
