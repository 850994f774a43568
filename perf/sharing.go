package perf

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Sharing tells how jobs slow each other down on a device. The simulator owns one,
// which is the truth; a policy may be given another, which is what it believes. Jobs of
// equal Traits are alike to it.
type Sharing interface {
	// Beside is the factor on the speed of j, above 0 and at most 1, beside others on
	// a device of type t. It is directed: the others may be slowed down more, or
	// less. Without others it is 1.
	Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64
}

// Alone is the Sharing of jobs that do not disturb each other.
type Alone struct{}

// Beside is 1.
func (Alone) Beside(*job.Job, []*job.Job, cluster.GPUType) float64 { return 1 }

// Transfer tells how much faster jobs of one backbone reach their targets when
// they are merged. The simulator owns one, which is the truth.
type Transfer interface {
	// After is the factor on the speed of j when it goes on from what first has
	// learnt, against starting from the backbone on the same devices.
	After(j, first *job.Job) float64
	// Together is the two factors on the speeds of a and b, whose work is left[0]
	// and left[1], when both are trained as one. They relate to devices that each
	// would otherwise have for itself.
	Together(a, b *job.Job, left [2]time.Duration) (fa, fb float64)
}

// Strangers is the Transfer of jobs that have nothing to learn from each other: two
// of them that are trained as one take turns.
type Strangers struct{}

// After is 1.
func (Strangers) After(_, _ *job.Job) float64 { return 1 }

// Together shares the time so that both end together.
func (Strangers) Together(_, _ *job.Job, left [2]time.Duration) (fa, fb float64) {
	if both := float64(left[0] + left[1]); both > 0 {
		return float64(left[0]) / both, float64(left[1]) / both
	}
	return 1, 1
}

// Switch is what it costs a fine-tuning job to begin on devices, by what they hold.
type Switch struct {
	Cold time.Duration // they hold no runtime of its backbone
	Warm time.Duration // all of them hold one

	// Save is how long a pipeline that leaves devices keeps them until its weights are
	// written, stage by stage, the last one first.
	Save time.Duration
	// Reverse tells that a pipeline lays its stages out in the reverse order of the one that
	// it follows, so that it loads its first stages while the other still writes its own.
	Reverse bool
}

// Follow is what it costs a pipeline of so many stages to begin on devices on which another
// writes its weights for some time yet, where it would cost it begin on clear ones. In the
// same order the first stage is the last to be clear. In the reverse order writing and
// loading overlap, but for one stage of the shorter of the two (a flow shop of two machines:
// Johnson, 1954).
func (s Switch) Follow(begin, save time.Duration, stages int) time.Duration {
	if !s.Reverse || stages < 1 {
		return save + begin
	}
	return max(save, begin) + min(save, begin)/time.Duration(stages)
}
