package lucid

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Score is how much a job disturbs others, and is disturbed by them.
type Score uint8

// The scores, by the mean speed beside all others relative to alone: at least 0.95,
// at least 0.85, less.
const (
	Tiny Score = iota
	Medium
	Jumbo
)

var scoreNames = [...]string{"tiny", "medium", "jumbo"}

func (s Score) String() string { return scoreNames[s] }

// Analyser tells the score of a job from what was measured of it alone: the
// part of the time for which its kernels run, and the memory that it takes. A
// job that uses the GPU little but fills its memory is no good neighbour
// either.
type Analyser struct {
	Tiny, Medium float64    // use of the GPU up to which a job has this score, 0 to 1
	Large        unit.Bytes // memory from which a job is a jumbo, unless it is tiny; 0: never
}

// Of is the score of a job; ok is false when nothing was measured of it, or not how
// much memory it takes.
func (a Analyser) Of(j *job.Job) (s Score, memory unit.Bytes, ok bool) {
	h := j.Hints
	if memory = j.Demand.Roles[0].GPUMemory; memory == 0 && h != nil {
		memory = h.GPUMemory
	}
	if h == nil || h.GPUUse <= 0 || memory <= 0 {
		return Jumbo, memory, false
	}
	switch {
	case h.GPUUse <= a.Tiny:
		return Tiny, memory, true
	case h.GPUUse <= a.Medium && (a.Large == 0 || memory < a.Large):
		return Medium, memory, true
	}
	return Jumbo, memory, true
}

// Side is one of two jobs that may share.
type Side struct {
	GPUs   int
	Score  Score
	Memory unit.Bytes // of each GPU
	Rank   float64    // predicted run time x GPUs
}

// Limits are when two jobs may share.
type Limits struct {
	Scores int        // most, of both together; 0 is for two tiny jobs alone
	Memory unit.Bytes // of a GPU
	Ratio  float64    // rank of who comes, over that of who is there, at most
}

// Allow tells whether a job may come to the GPUs of another one.
func (l Limits) Allow(comes, there Side) bool {
	return comes.GPUs == there.GPUs && int(comes.Score)+int(there.Score) <= l.Scores &&
		comes.Memory+there.Memory < l.Memory && comes.Rank <= l.Ratio*there.Rank
}

// Curve is the Sharing of jobs of which no pair was measured, by the part of
// the time for which their kernels would run together. No job is slower up to
// 60 %. At 100 % 0.92 of the speed is left, and 0.57 at 195 %, in straight
// lines. It is fitted to the 1,388 pairs that the authors measured.
type Curve struct{}

// Beside implements perf.Sharing. A job that tells nothing counts as always busy.
func (Curve) Beside(j *job.Job, others []*job.Job, _ cluster.GPUType) float64 {
	if len(others) == 0 {
		return 1
	}
	use := busy(j)
	for _, o := range others {
		use += busy(o)
	}
	switch {
	case use <= 0.6:
		return 1
	case use <= 1:
		return 1 - 0.08*(use-0.6)/0.4
	}
	return max(0.05, 0.92-0.35*(use-1)/0.95)
}

func busy(j *job.Job) float64 {
	if j.Hints == nil || j.Hints.GPUUse <= 0 {
		return 1
	}
	return min(1, j.Hints.GPUUse)
}
