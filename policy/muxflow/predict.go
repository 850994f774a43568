package muxflow

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict/boost"
	"github.com/norn-scheduler/norn/sched"
)

// Learn is how predicted speeds are learnt.
type Learn struct {
	Every time.Duration
	Rows  int // jobs that must have ended before
}

// features are what the speed of a pair depends on: the peak use of the service, the
// bandwidth of memory that it uses, the share, and what the job uses alone of both.
type features [5]float64

// formula is the speed by Worth.
func (x features) formula() float64 { return Worth(x[3], x[4], int(x[2]*1000+0.5), x[1]) }

// Trees is how the predictor grows its trees: what a small network does in the paper.
func Trees() boost.Config {
	return boost.Config{Trees: 300, Depth: 5, Leaf: 3, Bins: 64, Rate: 0.1}
}

// predictor predicts speeds. It is a function of the jobs that ended before the last
// moment at which it learnt.
type predictor struct {
	cfg   Learn
	epoch time.Duration // it has learnt from those that ended before; 0: nothing
	model *boost.Model
}

// worth is the predicted speed of a pair, 0 to 1.
func (l *predictor) worth(from Source, x features) float64 {
	if from == Formula || l.model == nil {
		return x.formula()
	}
	return min(1, max(0, l.model.Predict(x[:])))
}

// ready learns anew when it is time to.
func (l *predictor) ready(v *sched.View, from Source) error {
	if from == Formula || l.cfg.Every >= unit.Never {
		return nil
	}
	epoch := v.Now / l.cfg.Every * l.cfg.Every
	if epoch == l.epoch {
		return nil
	}
	l.epoch = epoch
	var x, y []float64
	for _, id := range v.Ended() {
		j := v.Job(id)
		if j.Since() >= epoch {
			break
		}
		if n, _ := sched.Recall[note](j); n.seen.known {
			row := n.seen.features(j.Spec())
			x, y = append(x, row[:]...), append(y, n.seen.speed)
		}
	}
	if len(y) < l.cfg.Rows {
		l.model = nil
		return nil
	}
	var err error
	l.model, err = boost.Train(Trees(), x, y)
	return err
}

// begin forgets what was seen of a job, which begins on a slot.
func (l *predictor) begin(p *sched.Plan, j sched.Job) { p.Forget(j.ID) }

// forget forgets what was seen of an offline job, which begins without a service.
func (l *predictor) forget(p *sched.Plan, j sched.Job) {
	if n, _ := sched.Recall[note](j); n.seen.known {
		p.Forget(j.ID)
	}
}

// see has remembered how fast a job of one GPU is beside a service.
func (l *predictor) see(p *sched.Plan, j sched.Job, s *slot, share int32) {
	n := note{since: -1, seen: seen{true, s.peak, s.bandwidth, share, min(1, max(0, j.Speed()))}}
	if was, _ := sched.Recall[note](j); was != n {
		p.Remember(j.ID, &n)
	}
}

// features are those of a pair in which a job was seen.
func (s *seen) features(j *job.Job) features {
	use, bandwidth := demand(j)
	return features{s.peak, s.bandwidth, float64(s.share) / 1000, use, bandwidth}
}
