package lucid

import (
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/profiles"
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

// Of is the score of a job by what its user tells of it; ok is false when that is nothing, or
// not how much memory it takes.
func (a Analyser) Of(j *job.Job) (s Score, u profiles.Use, ok bool) {
	u, ok = profiles.Told(j)
	if m := j.Demand.Roles[0].GPUMemory; m > 0 {
		u.Memory = m
	}
	if !ok || u.Memory <= 0 {
		return Jumbo, u, false
	}
	return a.Score(&u), u, true
}

// Score is the score of a job that uses so much alone.
func (a Analyser) Score(u *profiles.Use) Score {
	switch {
	case u.GPU <= a.Tiny:
		return Tiny
	case u.GPU <= a.Medium && (a.Large == 0 || u.Memory < a.Large):
		return Medium
	}
	return Jumbo
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

// Curve is the speed of a job beside another one, over that alone, by the part of the time for
// which the kernels of both would run together: the sum of their uses. No job is slower up to
// 60 %. At 100 % 0.92 of the speed is left, and 0.57 at 195 %, in straight
// lines. It is fitted to the 1,388 pairs that the authors measured.
func Curve(use float64) float64 {
	switch {
	case use <= 0.6:
		return 1
	case use <= 1:
		return 1 - 0.08*(use-0.6)/0.4
	}
	return max(slowest, 0.92-0.35*(use-1)/0.95)
}
