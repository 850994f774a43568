// Package eventlog is the one record of a run: what the world told and what was
// decided, in order. A state is a fold over it; reports, explanations and
// what-ifs are computed from it.
//
// Nouns: an Event is one line of the log; the Header says what run it is; a
// Writer appends, a Reader reads. docs/formats.md describes the encoding, JSON
// Lines, one event a line.
//
// Units: times in seconds since the start of the run, written exactly;
// devices and cores in whole and decimal numbers; memory in bytes.
package eventlog

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Kind is what an event tells.
type Kind uint8

// The kinds of events. The comment says which fields each uses beside Time.
const (
	Submit     Kind = iota // Spec, Estimate, Held
	Start                  // Job, Alloc (unless it was assigned), Delay, Speed, Profile
	Assign                 // Job, Alloc
	Preempt                // Job, Kept, AtOnce, Reason
	Gone                   // Job
	Evict                  // Job, Kept, Reason
	Fail                   // Job, Kept, Reason
	End                    // Job, Outcome
	Cancel                 // Job
	Hold                   // Job, Reason
	Free                   // Job
	Wait                   // Job, Reason: why it waits has changed
	Move                   // Job, Alloc, Delay, Speed, Reason where it makes room for a job or loses devices to their owner
	Resize                 // Job, Alloc, Delay, Speed
	Speed                  // Job, Speed
	Progress               // Job, Kept: the work it has done
	Estimate               // Job, Estimate, Reason where the text says from what it was learnt
	Memo                   // Job, Note: what a policy remembers about it, nil for nothing
	NodeAdd                // NodeSpec
	NodeLabels             // Node, NodeSpec with its labels and taints alone: they have changed
	NodeSet                // Node, Health, Power, Reason where an operator has ordered it or its owner lends it or takes it back
	Device                 // Device, Broken, Reason where an operator has ordered it
	Merge                  // Job, With, How, Kept: the work that counts; how it is trained has changed
	Used                   // Device, Use, Memory: what was measured of a device
	Learnt                 // Pair, Speed: what is believed from now on of jobs that share a device
	Carry                  // Spec, Record, Alloc (where it holds devices), Frozen, Estimate, Reason: taken over from an earlier log
	Past                   // Spec, Record, Left: a job that had ended before the log began
	Measured               // Job, Measured: what the world measured of it
	Config                 // Job, Reported: what it trains with has changed
	Saved                  // Job, Kept: the work in the state that it has saved; Every: the work from each save to the next, from now on, 0 where it tells of each
	Foreign                // Node, Foreign: what others use of it from now on
	Recall                 // Reason, TakenBack: the lender wants so many of its nodes back; none: no more
	kinds
)

var kindNames = [kinds]string{
	"submit", "start", "assign", "preempt", "gone", "evict", "fail", "end", "cancel", "hold", "free", "wait",
	"move", "resize", "speed", "progress", "estimate", "memo", "node-add", "node-labels", "node-set", "device", "merge", "used", "learnt", "carry", "past", "measured", "config", "saved", "foreign", "recall",
}

func (k Kind) String() string { return kindNames[k] }

// Event is one thing that happened or was decided.
type Event struct {
	Time time.Duration
	Kind Kind

	Job      job.ID
	Spec     *job.Job
	Record   *job.Record // of Carry: what had become of the job; what it holds and why it waits stand beside it
	Alloc    *cluster.Alloc
	Delay    time.Duration // before it makes progress
	Kept     time.Duration // progress that it keeps
	Every    time.Duration // of Saved
	Estimate time.Duration // -1: none
	Speed    float64       // progress per second
	Reason   job.Reason
	Note     *job.Note
	Outcome  job.Phase // how it ended
	AtOnce   bool      // it left its devices in no time
	Profile  bool      // it only holds its devices
	With     job.ID    // the other job that it is trained with; -1: none
	How      job.Merge
	Frozen   bool  // of Carry: it is assigned the devices where its memory is
	Held     bool  // of Submit: the job does not wait; Hold says why, as the next event about it
	Left     int32 // of Past: how many of the others had ended before it

	NodeSpec *cluster.NodeSpec
	Node     cluster.NodeID
	Device   cluster.DeviceID
	Health   cluster.Health
	Power    cluster.Power
	Broken   bool
	Foreign  *cluster.Foreign
	Use      float64    // of the device, 0 to 1
	Memory   unit.Bytes // in use on the device

	Reported job.Reported // what the job says of its training

	Pair perf.Pair // of Learnt: Speed is that of the first beside the second, over its speed alone

	Measured *perf.Reading // may be kept
}

// HasSaved and TrainsWith begin what Saved and Config events tell of jobs that run.
const (
	HasSaved   = "has saved its state"
	TrainsWith = "trains with "
)

// SavedText is what a Saved event tells, in words after the name of the job.
func (ev *Event) SavedText() string {
	if ev.Every > 0 {
		return "saves its state after every " + unit.Human(ev.Every) + " of work"
	}
	return HasSaved + ", with " + unit.Human(ev.Kept) + " of work done"
}
