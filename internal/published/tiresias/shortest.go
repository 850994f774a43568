package tiresias

import (
	"time"

	"github.com/norn-scheduler/norn/internal/published/backlog"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// shortest is sjf, shortest and shortest-gpu: at every arrival and completion
// all runnable jobs are sorted by a key and placed from scratch, whoever fits;
// running jobs that are not placed are preempted.
type shortest struct {
	place scheme
	key   func(gpus, remaining int64) int64
	hold  yarn.Holdings
	list  backlog.List
	end   []int64 // of a running job, else the time that remains; seconds
}

// The keys.
func size(gpus, _ int64) int64                     { return gpus }
func remainingTime(_, remaining int64) int64       { return remaining }
func remainingGPUTime(gpus, remaining int64) int64 { return gpus * remaining }

// Decide implements sched.Policy.
func (s *shortest) Decide(v *sched.View, p *sched.Plan) {
	now := int64(v.Now / time.Second)
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Ended {
			s.list.Remove(int32(ch.Job))
		}
	}
	// Running jobs come down before those that arrive now join, behind equals.
	s.list.Rekey(s.list.Running(), func(id int32) int64 { return s.key(s.list.GPUs(id), s.end[id]-now) })
	for _, ch := range v.Changes() {
		if ch.Kind == sched.Arrived {
			s.arrive(v.Job(ch.Job))
		}
	}
	s.place.Empty()
	stops, starts := s.list.Scan(func(_ int32, gpus int) bool { return s.place.Fit(gpus) })
	for _, id := range stops {
		s.list.Stop(id)
		s.end[id] -= now
		p.Stop(job.ID(id), outranked)
	}
	for _, id := range starts {
		s.list.Start(id)
		s.end[id] += now
		p.StartOn(job.ID(id), s.hold.Of(int(s.list.GPUs(id))))
	}
}

func (s *shortest) arrive(j sched.Job) {
	left, _ := j.Remaining()
	for int(j.ID) >= len(s.end) {
		s.end = append(s.end, make([]int64, max(256, len(s.end)))...)
	}
	s.end[j.ID] = int64(left / time.Second)
	s.list.Add(int32(j.ID), j.GPUs(), s.key(int64(j.GPUs()), s.end[j.ID]), s.list.Back())
}
