package muxflow

import (
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// restore gives those that have become alone on a GPU all of it: services, and offline
// jobs whose services have gone.
func (f *policy) restore(v *sched.View, p *sched.Plan) {
	for j := range v.Running() {
		if j.Phase() != job.Running || !f.cfg.mayOwn(j) || j.Spec().Demand.Roles[0].GPU%unit.One != 0 || !service(j) && !offline(j) {
			continue
		}
		part := func(s cluster.Share) bool { return s.Milli < beside.Whole && len(p.On(s.Device)) == 1 }
		if a := p.Alloc(j.ID); a != nil && slices.ContainsFunc(a.Shares, part) {
			beside.Restore(p, j.ID)
		}
	}
}

// mayOwn tells whether a job may have a whole GPU.
func (c *Config) mayOwn(j sched.Job) bool { return c.Idle || service(j) }

// begin starts services, and offline jobs on GPUs without one: services first, for which
// offline jobs make room.
func (f *policy) begin(v *sched.View, p *sched.Plan) {
	short := false // a service waits
	refused := map[int32]bool{}
	for pass := range 2 {
		for j := range v.Waiting() {
			if service(j) != (pass == 0) {
				continue
			}
			if why := p.Never(j.ID, f.cfg.Place); why.Code != job.NoReason {
				p.Wait(j.ID, why)
				continue
			}
			switch {
			case pass == 0 && !p.Start(j.ID, f.cfg.Place) && !f.clear(v, p, j):
				short = true
			case pass == 1 && (short || refused[j.Class()] || offline(j) && !f.cfg.Idle):
			case pass == 1:
				refused[j.Class()] = !p.Start(j.ID, f.cfg.Place)
			}
		}
	}
}

// clear starts a service on GPUs that offline jobs leave for it, the newest first.
func (f *policy) clear(v *sched.View, p *sched.Plan, j sched.Job) bool {
	var last []sched.Job
	for o := range v.Running() {
		if a := p.Alloc(o.ID); a != nil && o.Pool() == j.Pool() && offline(o) && f.wholly(v, a) {
			last = append(last, o)
		}
	}
	slices.Reverse(last)
	why := job.Reason{Code: job.MakesRoom, Job: j.ID}
	return p.Try(func() bool {
		for _, o := range last {
			p.Stop(o.ID, why)
			if p.Start(j.ID, f.cfg.Place) {
				return true
			}
		}
		return false
	})
}

// wholly tells whether an alloc is of devices without a service.
func (f *policy) wholly(v *sched.View, a *cluster.Alloc) bool {
	return !slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { return f.seat(v, s.Device).service != job.None })
}

// explain says why offline jobs wait.
func (f *policy) explain(v *sched.View, p *sched.Plan) {
	texts := map[int]string{} // by GPUs, negative for those that take too much memory
	for j := range v.Waiting() {
		if !offline(j) || p.Alloc(j.ID) != nil || p.Never(j.ID, f.cfg.Place).Code != job.NoReason {
			continue
		}
		n := j.GPUs()
		if evicted(p, j) {
			n = -n
		}
		text, known := texts[n]
		if !known {
			text = f.text(n)
			texts[n] = text
		}
		p.Wait(j.ID, job.Reason{Code: job.Because, Job: job.None, Text: text})
	}
}

// text says why a job waits that needs so many GPUs; negative: it took too much memory.
func (f *policy) text(gpus int) string {
	if gpus < 0 {
		return fmt.Sprintf("it took more memory than its part of a service's GPU: needs %s without one", unit.Count(-gpus, "GPU"))
	}
	text := fmt.Sprintf("needs %s, of services that use theirs little and beside which it runs at %g of its speed at least", unit.Count(gpus, "GPU"), f.cfg.Least)
	if f.cfg.Idle {
		text += ", or free ones"
	}
	return text
}

// Why implements sched.Explainer.
func (f *policy) Why(v *sched.View, id job.ID) job.Reason {
	return beside.NeedsGPUs(v, v.Job(id))
}
