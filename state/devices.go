package state

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Used is the latest measurement of the use of a device.
type Used struct {
	Use    float64    // part of the time for which it was busy, 0 to 1
	Memory unit.Bytes // bytes of its memory that were taken
	Known  bool       // whether it was measured at all
}

// Used is the latest measurement of a device.
func (s *State) Used(d cluster.DeviceID) Used {
	if int(d) >= len(s.used) {
		return Used{}
	}
	return s.used[d]
}

// SetUsed notes a measurement of a device: use from 0 to 1, memory in bytes.
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

// Learnt is what was learnt of jobs that share a device, for the field Learnt
// of a perf.Learner. Only the state may change it.
func (s *State) Learnt() map[perf.Pair]float64 { return s.learnt }

// Learn notes what is believed of a pair from now on.
func (s *State) Learn(x perf.Lesson) { s.learnt[x.Pair] = x.Factor }

// Runtime is the backbone of the job that began last on a device. Its weights
// and its runtime are still loaded there. It is empty when that job had no
// backbone.
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

// SetMerge notes how a job is trained from now on. kept is the part of its work
// that still counts.
func (s *State) SetMerge(id job.ID, how job.Merge, with job.ID, kept time.Duration) error {
	r := s.Record(id)
	if how != job.Apart && (!s.Known(with) || with == id) {
		return fmt.Errorf("job %s: cannot be trained with job number %d", r.Job.Key, with)
	}
	return r.SetMerge(s.Now, how, with, kept)
}
