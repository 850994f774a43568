package rmixer

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// tracker measures the use of jobs about which nothing is known, as the
// exponential average of what is measured each second on their device, less the
// use of those beside them.
type tracker struct {
	learnt map[string]int32 // model -> use of the job of it that has ended last
	ended  int              // how many of View.Ended have been looked at
}

const (
	every   = time.Second
	keeps   = 0.8 // weight of what was measured before
	samples = 30  // after so many the first one weighs a thousandth
)

// learn takes in what was measured of the jobs that have ended.
func (r *policy) learn(v *sched.View) {
	if v.First || r.learnt == nil {
		r.learnt, r.ended = map[string]int32{}, 0
	}
	all := v.Ended()
	for _, id := range all[r.ended:] {
		j := v.Job(id)
		if s := recall(j); s.closed && s.samples > 0 && r.tracks(j.Spec()) {
			r.learnt[j.Spec().Model] = s.tracked
		}
	}
	r.ended = len(all)
}

// tracks tells whether the use of a job is to be measured.
func (r *policy) tracks(j *job.Job) bool {
	return r.cfg.Track && (j.Hints == nil || j.Hints.GPUUse == 0) && single(j) && r.model(j) == nil
}

// measure takes the samples that are due. It is not woken for them: a world that
// measures tells of it, and is answered. Seconds in which nothing was told count as the
// one that was.
func (r *policy) measure(v *sched.View, p *sched.Plan) {
	for i := range r.devices.all {
		d := &r.devices.all[i]
		used := v.Used(d.id)
		if d.host || !used.Known {
			continue
		}
		for _, id := range d.jobs {
			j := v.Job(id)
			if !r.tracks(j.Spec()) {
				continue
			}
			s := r.recall(j)
			due := min(int64((v.Now-j.Since())/every), samples) - int64(s.samples)
			if due <= 0 {
				continue
			}
			others := d.use - int64(s.use)
			now := math.Min(1e5, math.Max(0, 1e5*used.Use-float64(others)))
			was := float64(s.use)
			s.tracked = int32(math.Round(now + (was-now)*math.Pow(keeps, float64(due))))
			s.use, s.samples = s.tracked, s.samples+uint8(due)
			d.use = others + int64(s.use)
			r.note(v, p, id, s)
		}
	}
}

// beyond is how much more of a GPU's memory was measured to be in use than is
// booked: an estimate was wrong, or memory was not given back yet.
func (r *policy) beyond(v *sched.View, d *device) unit.Bytes {
	used := v.Used(d.id)
	if d.host || !used.Known {
		return 0
	}
	return max(0, used.Memory-d.booked())
}
