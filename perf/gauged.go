package perf

import (
	"github.com/norn-scheduler/norn/cluster"
)

// Gauged is a Sharing that tells how busy jobs keep a device.
type Gauged interface {
	Sharing
	// Busy is the part of the multiprocessors of a device of type t that a job keeps
	// busy, from 0 to 1, with its part beside others with theirs.
	Busy(s Sharer, others []Sharer, t cluster.GPUType) float64
}

// Spilling is a Sharing in which some jobs put into main memory what other jobs
// leave them no room for on a device. So memory never runs out because of them.
type Spilling interface {
	Sharing
	// Spills tells whether a job is one of those.
	Spills(s Sharer) bool
}

// Capping is a Sharing under which some jobs cannot take more of the memory of
// a device than they hold of it (Share.Memory). When they try, only they fail.
type Capping interface {
	Sharing
	// Caps tells whether a job is one of those.
	Caps(s Sharer) bool
}

// loaded is by what its demand is multiplied.
func (s Sharer) loaded() float64 {
	if s.Load <= 0 {
		return 1
	}
	return s.Load
}

// sm is the part of the multiprocessors that a sharer could keep busy now: all of them
// when it tells nothing.
func (s Sharer) sm() float64 {
	d, told := Hinted(s.Job)
	if !told {
		return 1
	}
	return min(1, max(0, d[SM])*s.loaded())
}

// bandwidth is the part of the bandwidth of memory that it uses now.
func (s Sharer) bandwidth() float64 {
	d, _ := Hinted(s.Job)
	return min(1, max(0, d[Bandwidth])*s.loaded())
}
