package engine

import (
	"fmt"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
)

// Apply folds one event into a state. It fails on an event that is impossible
// in that state, with an error that names the job or node. The state is then
// invalid.
func Apply(s *state.State, ev *eventlog.Event) error {
	if ev.Time < s.Now {
		return fmt.Errorf("an event at %v follows one at %v", ev.Time, s.Now)
	}
	if ev.Kind != eventlog.Move && ev.Kind != eventlog.Resize || ev.Time > s.Now {
		if err := s.Settle(); err != nil {
			return err
		}
	}
	s.Now = ev.Time
	if ev.Reason.Code == job.NoReason { // equal in a run and in its log
		ev.Reason = job.Reason{Job: job.None}
	}
	switch ev.Kind {
	case eventlog.Submit:
		if err := s.Submit(ev.Spec, ev.Estimate); err != nil || !ev.Held {
			return err
		}
		return s.Hold(ev.Spec.ID, job.Reason{Job: job.None})
	case eventlog.Carry:
		if err := s.Carry(ev.Spec, ev.Record, ev.Alloc, ev.Estimate, ev.Reason); err != nil || !ev.Frozen {
			return err
		}
		return s.KeepPinnedPlace(ev.Job)
	case eventlog.Past:
		return s.CarryPast(ev.Spec, ev.Record, ev.Estimate, ev.Reason, int(ev.Left))
	case eventlog.NodeAdd:
		_, err := s.AddNode(*ev.NodeSpec)
		return err
	case eventlog.NodeLabels, eventlog.NodeSet, eventlog.Foreign:
		return aboutNode(s, ev)
	case eventlog.Device:
		if int(ev.Device) >= s.Cluster.Devices() || ev.Device < 0 {
			return fmt.Errorf("device number %d is not known", ev.Device)
		}
		s.Cluster.SetBroken(ev.Device, ev.Broken)
		return nil
	}
	switch ev.Kind {
	case eventlog.Used:
		return s.SetUsed(ev.Device, ev.Use, ev.Memory)
	case eventlog.Recall:
		s.Loans.Recall(ev.Reason)
		return nil
	case eventlog.Learnt:
		s.Learn(perf.Lesson{Pair: ev.Pair, Factor: ev.Speed})
		return nil
	}
	if !s.Known(ev.Job) {
		return fmt.Errorf("%s: job number %d is not known", ev.Kind, ev.Job)
	}
	if ev.Kind == eventlog.Measured {
		if err := s.Readings.Add(ev.Job, ev.Measured); err != nil {
			return fmt.Errorf("job %s: %w", s.Record(ev.Job).Job.Key, err)
		}
		return nil
	}
	if ev.Alloc != nil {
		if err := s.Cluster.Valid(ev.Alloc); err != nil {
			return fmt.Errorf("job %s: %w", s.Record(ev.Job).Job.Key, err)
		}
	} else if ev.Kind == eventlog.Start && s.Record(ev.Job).Phase != job.Assigned {
		return fmt.Errorf("job %s: starts on no devices", s.Record(ev.Job).Job.Key)
	}
	defer s.Lists().Reckon(ev.Job)
	return applyJob(s, ev)
}

func applyJob(s *state.State, ev *eventlog.Event) error {
	switch ev.Kind {
	case eventlog.Start:
		if err := s.Begin(ev.Job, ev.Alloc, ev.Delay); err != nil {
			return err
		}
		if ev.Profile {
			return s.Record(ev.Job).Profile()
		}
		return setSpeed(s, ev)
	case eventlog.Merge:
		return s.SetMerge(ev.Job, ev.How, ev.With, ev.Kept)
	case eventlog.Assign:
		return s.Assign(ev.Job, ev.Alloc)
	case eventlog.Preempt:
		return s.Preempt(ev.Job, ev.Kept, ev.AtOnce, ev.Reason)
	case eventlog.Gone:
		return s.Gone(ev.Job)
	case eventlog.Evict:
		return s.Evict(ev.Job, ev.Kept, ev.Reason)
	case eventlog.Fail:
		return s.Fail(ev.Job, ev.Kept, ev.Reason)
	case eventlog.End:
		return s.Finish(ev.Job, ev.Outcome)
	case eventlog.Cancel:
		return s.Cancel(ev.Job)
	case eventlog.Hold:
		if r := s.Record(ev.Job); r.Phase == job.Held && r.Reason.Code == job.NoReason { // it was submitted so: now it is said why
			r.Reason = ev.Reason
			return nil
		}
		return s.Hold(ev.Job, ev.Reason)
	case eventlog.Free:
		return s.Release(ev.Job)
	case eventlog.Wait:
		s.Record(ev.Job).Reason = ev.Reason
	case eventlog.Move, eventlog.Resize:
		if err := s.Reshape(ev.Job, ev.Alloc, ev.Delay, ev.Kind == eventlog.Move); err != nil {
			return err
		}
		return setSpeed(s, ev)
	case eventlog.Speed:
		return s.Record(ev.Job).SetSpeed(s.Now, ev.Speed)
	case eventlog.Progress:
		return s.Record(ev.Job).SetProgress(s.Now, ev.Kept)
	case eventlog.Estimate:
		s.Record(ev.Job).Estimate = ev.Estimate
	case eventlog.Config:
		return s.Record(ev.Job).Report(ev.Reported)
	case eventlog.Saved:
		return s.Record(ev.Job).Saved(ev.Kept, ev.Every)
	case eventlog.Memo:
		s.Record(ev.Job).Note = ev.Note
	default:
		return fmt.Errorf("event kind %d is not known", ev.Kind)
	}
	return nil
}

// setSpeed gives a job the speed with which it was started or reshaped, unless
// it has that speed already. Before, it has its old speed, or the reference
// speed at a start.
func setSpeed(s *state.State, ev *eventlog.Event) error {
	if s.Record(ev.Job).Speed == ev.Speed {
		return nil
	}
	return s.Record(ev.Job).SetSpeed(s.Now, ev.Speed)
}

// aboutNode folds an event about a node that is there.
func aboutNode(s *state.State, ev *eventlog.Event) error {
	if int(ev.Node) >= s.Cluster.Nodes() || ev.Node < 0 {
		return fmt.Errorf("node number %d is not known", ev.Node)
	}
	switch ev.Kind {
	case eventlog.NodeLabels:
		return state.SetLabels(s, ev.Node, ev.NodeSpec.Labels, ev.NodeSpec.Taints)
	case eventlog.Foreign:
		return s.Cluster.SetForeign(ev.Node, *ev.Foreign)
	}
	s.Cluster.SetHealth(ev.Node, ev.Health)
	s.Cluster.SetPower(ev.Node, ev.Power)
	return nil
}
