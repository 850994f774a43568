package state

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Used is what was measured last of a device.
type Used struct {
	Use    float64    // of its time, 0 to 1
	Memory unit.Bytes // taken of its memory
	Known  bool       // it was measured
}

// Used is what was measured last of a device.
func (s *State) Used(d cluster.DeviceID) Used {
	if int(d) >= len(s.used) {
		return Used{}
	}
	return s.used[d]
}

// SetUsed notes what was measured of a device.
func (s *State) SetUsed(d cluster.DeviceID, use float64, memory unit.Bytes) error {
	if d < 0 || int(d) >= s.Cluster.Devices() {
		return fmt.Errorf("device number %d is not known", d)
	}
	for int(d) >= len(s.used) {
		s.used = append(s.used, Used{})
	}
	s.used[d] = Used{use, memory, true}
	s.sampled(d, use, memory)
	return nil
}

// Learnt is what was learnt of jobs that share a device: the Learnt of a
// perf.Learner. Nobody but the state may change it.
func (s *State) Learnt() map[perf.Pair]float64 { return s.learnt }

// Learn notes what is believed of a pair from now on.
func (s *State) Learn(x perf.Lesson) { s.learnt[x.Pair] = x.Factor }

// Runtime is the backbone of the job that began last on a device: its weights and
// its runtime are there still. Empty when that job had none.
func (s *State) Runtime(d cluster.DeviceID) string {
	if int(d) >= len(s.runtimes) {
		return ""
	}
	return s.runtimes[d]
}

// load notes that a job begins on devices.
func (s *State) load(j *job.Job, a *cluster.Alloc) {
	if j.Backbone == "" && len(s.runtimes) == 0 {
		return
	}
	for i := range a.Shares {
		d := a.Shares[i].Device
		for int(d) >= len(s.runtimes) {
			s.runtimes = append(s.runtimes, "")
		}
		s.runtimes[d] = j.Backbone
	}
}

// SetMerge notes how a job is trained from now on; kept is the work of it that
// counts.
func (s *State) SetMerge(id job.ID, how job.Merge, with job.ID, kept time.Duration) error {
	r := s.Record(id)
	if how != job.Apart && (!s.Known(with) || with == id) {
		return fmt.Errorf("job %s: cannot be trained with job number %d", r.Job.Key, with)
	}
	return r.SetMerge(s.Now, how, with, kept)
}
