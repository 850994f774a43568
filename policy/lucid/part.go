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
		l.queue = append(l.queue, waiting{guest.ID, l.rank(guest)})
	}
}

// pairs yields the plain jobs that share all their GPUs with one other job that was
// there before, and that one.
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
			h := v.Job(host)
			later := j.Since() > h.Since() || j.Since() == h.Since() && j.ID > h.ID
			if later && h.Phase() == job.Running && !yield(j, h) {
				return
			}
		}
	}
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
	over := l.over()
	if v.Now-max(guest.Ready(), host.Ready(), guest.Since()) < over {
		return "", false
	}
	_, mine, ok := l.analyse(guest.Spec())
	_, theirs, known := l.analyse(host.Spec())
	if !ok || !known {
		return "", false
	}
	use := min(1, mine.GPU+theirs.GPU)
	for _, s := range v.Alloc(guest.ID).Shares {
		w := v.UsedOver(s.Device, over)
		has := v.Cluster().Type(v.Cluster().TypeOf(s.Device)).Memory
		if has == 0 {
			has = unit.Bytes(l.cfg.Memory * float64(unit.GiB))
		}
		switch {
		case w.Known && w.Use-use > l.cfg.Unstable:
			return fmt.Sprintf("makes room for job %s: the GPU that they share is busy for %.0f %% of the time, they told of %.0f %%", host.Spec().Key, 100*w.Use, 100*use), true
		case w.Known && float64(w.Memory-mine.Memory-theirs.Memory) > l.cfg.Unstable*float64(has):
			return fmt.Sprintf("makes room for job %s: %v of the GPU's memory are taken, they told of %v", host.Spec().Key, w.Memory, mine.Memory+theirs.Memory), true
		}
	}
	return "", false
}

// over is how far back the use of a GPU is looked at.
func (l *policy) over() time.Duration { return min(l.cfg.Watch, state.UsedWindow) }

// nextPart is the next moment at which it is seen whether a pair is unstable.
func (l *policy) nextPart(v *sched.View) time.Duration {
	at := unit.Never
	for guest, host := range l.pairs(v) {
		if !v.UsedOver(v.Alloc(guest.ID).Shares[0].Device, 0).Known {
			continue
		}
		if ripe := max(guest.Ready(), host.Ready(), guest.Since()) + l.over(); ripe > v.Now {
			at = min(at, ripe)
		} else {
			at = min(at, beside.Next(v.Now, l.cfg.Check))
		}
	}
	return at
}
