package perf

import (
	"math"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Stepping is what is known of a sort of jobs that can take another number of samples
// at a time through a GPU than their users want. Times are relative: a job runs at
// speed 1 with its own batch.
type Stepping struct {
	Own int // samples that each GPU takes in a step, as its user wants

	// Of the memory of a GPU: what each sample takes. The rest does not depend on the
	// batch.
	Sample unit.Bytes

	// Steady is the part of a pass with its own batch that takes as long with any.
	Steady float64

	// Noise is the gradient noise scale in samples, for a job whose steps become as
	// small or large as its batches. A sample is then worth (Noise + Own) / (Noise
	// + batch) of its worth with the job's own batch. 0: it adds gradients up over
	// several passes until it has its own batch, and a sample is always worth the
	// same.
	Noise float64

	// Exchange is the time in which gradients are exchanged, divided by the time of
	// a pass with its own batch. Overlap says how well the last pass hides it. With
	// 1 both follow each other; with more they take (pass^Overlap +
	// exchange^Overlap)^(1/Overlap).
	Exchange, Overlap float64
}

// pass is how long it takes b samples to go through, over its own batch.
func (s *Stepping) pass(b int) float64 {
	return s.Steady + (1-s.Steady)*float64(b)/float64(s.Own)
}

// Worth is what a sample is worth in a step of b, over one in a step of its own batch.
func (s *Stepping) Worth(b int) float64 {
	if s.Noise <= 0 {
		return 1
	}
	return (s.Noise + float64(s.Own)) / (s.Noise + float64(b))
}

// Rate is the speed of a job that is alone with b samples at a time.
func (s *Stepping) Rate(b int) float64 {
	if b <= 0 || b == s.Own {
		return 1
	}
	own := overlapped(1, s.Exchange, max(1, s.Overlap))
	if s.Noise > 0 {
		return float64(b) / float64(s.Own) * s.Worth(b) * own / overlapped(s.pass(b), s.Exchange, max(1, s.Overlap))
	}
	passes := math.Ceil(float64(s.Own) / float64(b))
	return own / ((passes-1)*s.pass(b) + overlapped(s.pass(b), s.Exchange, max(1, s.Overlap)))
}

// Grows is how much more of the memory of a GPU b samples take than its own batch
// does; less when negative.
func (s *Stepping) Grows(b int) unit.Bytes {
	if b <= 0 {
		return 0
	}
	return unit.Bytes(b-s.Own) * s.Sample
}

// Batched is a Sharing of jobs some of which can train with other batches.
type Batched interface {
	Sharing
	// Stepping is what is known of a job; nil: it cannot.
	Stepping(j *job.Job) *Stepping
}

// Rebatched is a Sharing of jobs that are told how many samples to take at a
// time (Share.Batch). With their own batches they slow each other down as Of
// says. With others on the device, the slowdown of each job is multiplied by
// the root of the product of batch divided by own batch, over all jobs there.
// So smaller batches disturb less. A job that would take 1 + s times as long
// takes 1 + s x sqrt(x1 x2 ...) times as long. On top of that comes what the
// batch is worth to the job itself (Stepping.Rate).
type Rebatched struct {
	Of    Sharing
	Steps func(*job.Job) *Stepping // nil for a job that cannot
}

// Stepping implements Batched.
func (m Rebatched) Stepping(j *job.Job) *Stepping { return m.Steps(j) }

// Beside implements Sharing: all have their own batches.
func (m Rebatched) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	return m.Of.Beside(j, others, t)
}

// Among implements Portioned. Other than with a Sharing of jobs with their own batches,
// the factor may be above 1.
func (m Rebatched) Among(s Sharer, others []Sharer, t cluster.GPUType) float64 {
	factor := 1.0
	if len(others) > 0 || s.Share.Throttle > 0 {
		factor = Among(m.Of, s, others, t)
	}
	if awake := 1 - s.Throttled(); factor > 0 && factor < awake {
		size := m.size(s)
		for _, o := range others {
			size *= m.size(o)
		}
		factor = awake / (1 + (awake/factor-1)*math.Sqrt(size))
	}
	if st := m.Steps(s.Job); st != nil {
		factor *= st.Rate(int(s.Share.Batch))
	}
	return factor
}

// size is the batch of a sharer over its own one.
func (m Rebatched) size(s Sharer) float64 {
	if st := m.Steps(s.Job); st != nil && s.Share.Batch > 0 {
		return float64(s.Share.Batch) / float64(st.Own)
	}
	return 1
}

// Busy implements Gauged, where Of does, and else by the hints.
func (m Rebatched) Busy(s Sharer, others []Sharer, t cluster.GPUType) float64 {
	if g, ok := m.Of.(Gauged); ok {
		return g.Busy(s, others, t)
	}
	if d, told := Hinted(s.Job); told {
		return min(1, max(0, d[SM]))
	}
	return 0
}
