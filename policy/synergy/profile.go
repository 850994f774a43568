package synergy

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
)

// release ends the measurements whose time is up, and notes which models are measured.
func (s *policy) release(v *sched.View, p *sched.Plan) {
	clear(s.measuring)
	if s.measurable(v) == nil {
		return
	}
	for j := range v.Running() {
		switch {
		case !j.Profiling():
		case v.Now >= s.ends(j):
			p.Stop(j.ID, job.Reason{Code: job.Profiled, Job: job.None})
		default:
			s.measuring[model(j.Spec())] = true
		}
	}
}

// ends is when the measurement of a job ends.
func (s *policy) ends(j sched.Job) time.Duration { return unit.Later(j.Ready(), s.cfg.Profile) }

// over is when the next measurement ends.
func (s *policy) over(v *sched.View) time.Duration {
	at := unit.Never
	if s.measurable(v) == nil {
		return at
	}
	for j := range v.Running() {
		if j.Profiling() {
			at = min(at, max(v.Now, s.ends(j)))
		}
	}
	return at
}

// measurable is what is believed of cores and memory, where that can be learnt; else nil.
func (s *policy) measurable(v *sched.View) perf.Measurable {
	m, _ := v.Speeds.(perf.Measurable)
	if !v.Profiles || s.cfg.Profile <= 0 || s.cfg.Share == Proportional {
		return nil
	}
	return m
}

// start starts a job on what it was dealt. One of whose model nothing is known is measured
// there first, with all cores and memory that are left on the node.
func (s *policy) start(v *sched.View, p *sched.Plan, c *claim) {
	a := s.write(c)
	m, j := s.measurable(v), v.Job(c.id)
	if m == nil || len(a.Pieces) != 1 || c.pinned || j.Spec().Stop == job.Pinned || !s.worth(p, j) {
		p.StartOn(c.id, a)
		return
	}
	piece, n := &a.Pieces[0], c.parts[0].server
	all := piece.CPU + max(0, n.left.CPU)
	if !n.cores || !n.memory || !m.Unmeasured(j.Spec(), all/unit.Milli(c.gpus)) {
		p.StartOn(c.id, a)
		return
	}
	piece.CPU, piece.Memory = all, piece.Memory+max(0, n.left.Memory)
	n.left = perf.Ration{}
	note, _ := sched.Noted[note](p, j)
	note.measured = true
	if p.Profile(c.id, a) {
		p.Remember(c.id, &note)
		s.measuring[model(j.Spec())] = true
	}
}

// worth tells whether a job may be measured: it was not yet, nobody of its model is at
// the moment, and it is not believed to end sooner.
func (s *policy) worth(p *sched.Plan, j sched.Job) bool {
	n, _ := sched.Noted[note](p, j)
	left, known := j.Remaining()
	return !n.measured && !s.measuring[model(j.Spec())] && !(known && left <= s.cfg.Profile)
}
