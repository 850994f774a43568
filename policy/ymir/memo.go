package ymir

import (
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// note is what is remembered of a job. Its second half is marked, so that what another
// policy remembered before is not taken for one of ours.
type note struct {
	ready   uint32    // when its estimation is done, in seconds rounded up, + 1; 0: it is not measured
	divided uint32    // when GPUs were last divided, in gaps, + 1; on one job of each pool
	bans    [2]uint32 // the last two jobs with which it must not be merged again, number + 1, in 24 bits
}

const (
	mark    = 0x594d << 48
	banBits = 24
	banMask = 1<<banBits - 1
)

func remembered(j sched.Job) note {
	a, b := uint64(j.Memo()[0]), uint64(j.Memo()[1])
	if b>>48<<48 != mark {
		return note{}
	}
	return note{uint32(a), uint32(a >> 32), [2]uint32{uint32(b & banMask), uint32(b >> banBits & banMask)}}
}

// change remembers something of a job besides what is remembered already.
func (y *policy) change(p *sched.Plan, j sched.Job, f func(*note)) {
	n, known := y.notes[j.ID]
	if !known {
		n = remembered(j)
	}
	f(&n)
	y.notes[j.ID] = n
	p.Remember(j.ID, job.Memo{int64(uint64(n.divided)<<32 | uint64(n.ready)), int64(mark | uint64(n.bans[1])<<banBits | uint64(n.bans[0]))})
}

// seconds is a moment in seconds, rounded up.
func seconds(t time.Duration) uint32 { return uint32((t + time.Second - 1) / time.Second) }

// banned tells whether a job must not be merged with another one.
func banned(j sched.Job, other job.ID) bool {
	n := remembered(j)
	return n.bans[0] == banOf(other) || n.bans[1] == banOf(other)
}

func (y *policy) ban(p *sched.Plan, j sched.Job, other job.ID) {
	y.change(p, j, func(n *note) { n.bans = [2]uint32{banOf(other), n.bans[0]} })
}

func banOf(id job.ID) uint32 { return uint32(id+1) & banMask }

// divided tells whether GPUs were divided at this very moment already.
func (y *policy) divided(v *sched.View) bool {
	at := y.gaps(v)
	for j := range v.Waiting() {
		if remembered(j).divided == at {
			return true
		}
	}
	for j := range v.Running() {
		if remembered(j).divided == at {
			return true
		}
	}
	return false
}

func (y *policy) gaps(v *sched.View) uint32 { return uint32(v.Now/y.cfg.Gap) + 1 }
