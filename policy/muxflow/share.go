package muxflow

import (
	"math"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Shares is how large the share of an offline job is, in thousandths but where it says
// otherwise.
type Shares struct {
	Fixed    float64 // for everybody, 0 to 1; 0: by the rule
	HeadRoom float64 // by which a service may use more than at its peak, as a part of that
	Min, Max int
	Step     int
	Change   int // by which a share changes at least
}

// Of is the share beside a service that uses so much at its peak: what that and its
// head room leave, in whole steps.
func (s Shares) Of(peak float64) int {
	return s.cut(1 - peak*(1+s.HeadRoom))
}

// cut brings a part into whole steps between the limits.
func (s Shares) cut(part float64) int {
	steps := math.Floor(part*1000/float64(s.Step) + 1e-9)
	return min(s.Max, max(s.Min, int(steps)*s.Step))
}

// For is the share of a job that could use so much by itself beside a service with a
// peak: that of the rule, or less, where both together would else use more than a limit.
func (s Shares) For(peak, use, limit float64) int { return s.within(s.Of(peak), peak, use, limit) }

// within is For where the rule says a share.
func (s Shares) within(share int, peak, use, limit float64) int {
	if s.Fixed > 0 {
		return int(math.Round(s.Fixed * 1000))
	}
	if left := limit - peak; min(use, float64(share)/1000) > left {
		share = min(share, s.cut(left))
	}
	return share
}

// demand is what a job uses by itself: of the multiprocessors, all where it tells
// nothing, and of the bandwidth of memory.
func demand(j *job.Job) (use, bandwidth float64) {
	d, told := perf.Hinted(j)
	if !told {
		return 1, 0
	}
	return min(1, max(0, d[perf.SM])), min(1, max(0, d[perf.Bandwidth]))
}

// Worth is the speed of an offline job with a share, in thousandths, relative to alone:
// it could use so much of the multiprocessors, and of the bandwidth of memory, of which
// the service uses a part too.
func Worth(use, bandwidth float64, share int, online float64) float64 {
	w := 1 / (1 + online*bandwidth)
	if part := float64(share) / 1000; use > part {
		w *= part / use
	}
	return w
}
