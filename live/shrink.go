package live

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// CanShrink tells whether a job that runs can go on with fewer tasks, or elsewhere, with all of its work. One that is
// measured or is trained together with another cannot.
func CanShrink(r *job.Record) bool {
	return r.Job.Demand.Elastic() && r.Job.Stop == job.Checkpoint && !r.Profiling && r.Merged == job.Apart
}

// Shrink has a job that can shrink go on at once without the devices that it is losing: on others with as many tasks as it
// has, or with as many as there is room for. lost tells whether an allocation has some of those that it loses; why says of
// them that their owner takes them back. Where there is no room, trapped is called.
func Shrink(d *Daemon, l *Job, lost func(*cluster.Alloc) bool, why string, trapped func()) {
	d.Loop.RequestDecision()
	d.eng.Order(func(v *sched.View, p *sched.Plan) {
		now := p.Alloc(l.ID)
		if now == nil || !lost(now) || v.Job(l.ID).Phase() != job.Running {
			return
		}
		least, _ := v.Job(l.ID).Spec().Demand.Roles[0].Range()
		for n := now.Tasks(0); n >= int(least); n-- {
			moves := func() bool {
				return p.Stop(l.ID, job.Reason{Code: job.TakenBack, Job: job.None, Text: why}) && p.StartSize(l.ID, n, place.Pack)
			}
			if p.Try(moves) {
				return
			}
		}
		trapped()
	})
}
