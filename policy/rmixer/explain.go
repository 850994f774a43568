package rmixer

import (
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// Why implements sched.Explainer: a job waits for its batch, for a round to end, for
// a worker, for memory, or for memory that nobody should be using.
func (r *policy) Why(v *sched.View, id job.ID) job.Reason {
	j := v.Job(id)
	switch {
	case r.open.jobs.Has(int(id)) && r.closes(v) != unit.Never:
		return job.Reason{Code: job.NotYet, Job: job.None, At: r.closes(v)}
	case r.open.jobs.Has(int(id)):
		return because("waits for a batch of %d jobs; %d have come", r.cfg.Batch, r.open.jobs.Len())
	case !r.list.has(id):
		return job.Reason{Code: job.NeedGPUs, Need: int32(j.GPUs()), Have: int32(v.Free()), Job: job.None}
	case r.cfg.Jobs.rounds() && r.devices.running > 0:
		return because("waits for the next round, which begins when all that runs has ended")
	}
	return r.short(v, &r.list.items[id])
}

func because(format string, args ...any) job.Reason {
	return job.Reason{Code: job.Because, Job: job.None, Text: fmt.Sprintf(format, args...)}
}

// short says what a job of the list is short of, on the device that would take it
// first if it could.
func (r *policy) short(v *sched.View, it *item) job.Reason {
	var taken, best, guarded *device
	devices := 0
	for i := range r.devices.all {
		d := &r.devices.all[i]
		if d.host || it.gpu == cannot || !v.Class(it.kind).Mask.Has(d.typ) || !v.Cluster().In(d.node, v.Class(it.kind).Scope) {
			continue
		}
		devices++
		first := func(than *device) bool { return than == nil || d.order(r.cfg.Devices) < than.order(r.cfg.Devices) }
		switch {
		case !r.vacant(v, d):
			if first(taken) {
				taken = d
			}
		case !r.ready(v, d):
			if first(guarded) {
				guarded = d
			}
		case first(best):
			best = d
		}
	}
	also := ""
	if it.host {
		also = "; the processors take others first, or no more of this batch"
	}
	switch {
	case devices == 0:
		return because("waits for a worker of the processors: no GPU will do%s", also)
	case best != nil:
		if booked, ok := best.take(it.need, false); !ok {
			return because("%v are booked for it%s, but %s has %v left%s%s", booked0(it.need, booked), r.source(v, it.key.ID), v.Cluster().DeviceName(best.id), left(best), r.beside(v, best), also)
		}
		return because("the CPU or memory of the nodes with free workers is short%s", also)
	case guarded != nil:
		return because("more memory of %s is in use than is booked%s: waits until it is given back%s", v.Cluster().DeviceName(guarded.id), r.beside(v, guarded), also)
	}
	if devices == 1 {
		return because("no worker of %s is free%s%s", v.Cluster().DeviceName(taken.id), r.beside(v, taken), also)
	}
	return because("no worker of %d GPUs is free, the next may be one of %s%s%s", devices, v.Cluster().DeviceName(taken.id), r.beside(v, taken), also)
}

// source says from what the memory that is booked for a job is made, where that is not
// its own word.
func (r *policy) source(v *sched.View, id job.ID) string {
	j := v.Job(id)
	m, from := r.believed(j.Spec())
	if m == 0 || from == ownWord {
		return ""
	}
	text := fmt.Sprintf(" (%g x %.0f MiB from %s", r.factor(from), float64(m)/float64(unit.MiB), from)
	if n := r.recall(j).ooms; n > 0 {
		text += fmt.Sprintf(", doubled %s as its memory ran out", unit.Count(int(n), "time"))
	}
	return text + ")"
}

// booked0 is what is to be booked for a job that does not fit.
func booked0(need, whole unit.Bytes) unit.Bytes {
	if need > 0 {
		return need
	}
	return whole
}

// left is the memory that is not booked.
func left(d *device) unit.Bytes { return max(0, d.total-d.booked()) }

// beside names the jobs that run on a device.
func (r *policy) beside(v *sched.View, d *device) string {
	if len(d.jobs) == 0 {
		return ""
	}
	var names []string
	for _, id := range d.jobs {
		if names = append(names, v.Job(id).Spec().Key); len(names) == 8 && len(d.jobs) > 8 {
			names = append(names, fmt.Sprintf("%d more", len(d.jobs)-8))
			break
		}
	}
	return ", which runs " + strings.Join(names, ", ")
}
