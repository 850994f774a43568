package live

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// Names is what devices are called.
type Names func(cluster.DeviceID) string

// Whereabouts is which devices a job was last told to be on, and since when it is there,
// whatever parts of them it has been given; 0: as its record has it.
type Whereabouts struct {
	on    []cluster.DeviceID
	Since time.Duration
}

// Text is what is said of an event: of a move to the devices on which the job is
// already, that it has other parts of them.
func (w *Whereabouts) Text(ev *eventlog.Event, s *state.State, names Names, text string) string {
	a := s.Alloc(ev.Job)
	if a == nil {
		w.on = nil
		return text
	}
	same := len(w.on) == len(a.Shares)
	for i := range a.Shares {
		same = same && w.on[i] == a.Shares[i].Device
	}
	if same && ev.Kind == eventlog.Move {
		return goesOn + On(s, ev.Job, names) + besideText(a)
	}
	if ev.Kind == eventlog.Start || ev.Kind == eventlog.Move || ev.Kind == eventlog.Resize {
		w.Since = ev.Time
	}
	w.on = w.on[:0]
	for i := range a.Shares {
		w.on = append(w.on, a.Shares[i].Device)
	}
	return text
}

// goesOn begins what is said of a job that has other parts of its devices.
const goesOn = "goes on with "

// besideText says what a job has beside devices, and for how long it leaves these to
// others.
func besideText(a *cluster.Alloc) string {
	out := ""
	if cpus, mem := Beside(a); cpus > 0 || mem > 0 {
		out = fmt.Sprintf(", %v CPU cores, %v of memory", cpus, unit.Bytes(mem))
	}
	if t := ThrottleOf(a); t > 0 {
		out += fmt.Sprintf("; throttled by %v%%", float64(t)/10)
	}
	return out
}

// AboutJob tells whether a kind of events tells of a job.
func AboutJob(k eventlog.Kind) bool {
	return k != eventlog.NodeAdd && k != eventlog.NodeLabels && k != eventlog.NodeSet && k != eventlog.Device && k != eventlog.Used && k != eventlog.Learnt && k != eventlog.Foreign && k != eventlog.Recall
}

// EventText says an event for a reader; empty for those that nobody need know.
func EventText(ev *eventlog.Event, s *state.State, names Names) string {
	name := func(id job.ID) string {
		if s.Known(id) {
			return s.Record(id).Job.Key
		}
		return "that has ended"
	}
	why := func(prefix string) string {
		if ev.Reason.Code == job.NoReason {
			return prefix
		}
		return prefix + ": " + ev.Reason.Sentence(name)
	}
	switch ev.Kind {
	case eventlog.Submit:
		return "submitted: " + ev.Spec.Demand.String()
	case eventlog.Start:
		return "starts on " + On(s, ev.Job, names)
	case eventlog.Config:
		return eventlog.TrainsWith + ev.Reported.String()
	case eventlog.Saved:
		return ev.SavedText()
	case eventlog.Merge:
		return ev.How.Sentence(name(ev.With))
	case eventlog.Assign:
		return "is given " + On(s, ev.Job, names) + ", which others are still leaving"
	case eventlog.Preempt:
		return why("is stopped")
	case eventlog.Gone:
		return "has left its devices"
	case eventlog.Evict:
		return why("is thrown back") + keptText(ev.Kept)
	case eventlog.Fail:
		return why("failed") + keptText(ev.Kept)
	case eventlog.End:
		return "ends: " + ev.Outcome.String()
	case eventlog.Cancel:
		return "is cancelled"
	case eventlog.Hold:
		return why("is held")
	case eventlog.Free:
		return "is released"
	case eventlog.Wait:
		if p := s.Record(ev.Job).Phase; p == job.Running || p == job.Stopping {
			return why("is to leave its devices")
		}
		return strings.Replace(why("waits"), ": waits ", " ", 1)
	case eventlog.Estimate:
		if ev.Reason.Text != "" {
			return "is estimated to run for " + unit.Human(ev.Estimate) + ": " + ev.Reason.Text
		}
	case eventlog.Move:
		return why("moves to " + On(s, ev.Job, names))
	case eventlog.Resize:
		return why(fmt.Sprintf("is resized to %d, on %s", s.Record(ev.Job).Tasks, On(s, ev.Job, names)))
	case eventlog.NodeSet:
		if several(s.Cluster) {
			return "node " + s.Cluster.Node(ev.Node).Name + " is " + ev.Health.String()
		}
		return "the machine is " + ev.Health.String()
	case eventlog.Device:
		if ev.Broken {
			return names(ev.Device) + " takes no new work"
		}
		return names(ev.Device) + " takes new work"
	}
	return ""
}

func keptText(kept time.Duration) string {
	if kept == 0 {
		return ""
	}
	return "; keeps " + unit.Human(kept) + " of work"
}

// On says which devices a job has; of several nodes, how many on which of them.
func On(s *state.State, id job.ID, names Names) string {
	a := s.Alloc(id)
	if a != nil && several(s.Cluster) {
		return onNodes(s.Cluster, a)
	}
	if a == nil || len(a.Shares) == 0 {
		return "the CPU"
	}
	var parts []string
	for i := range a.Shares {
		text := names(a.Shares[i].Device)
		if m := a.Shares[i].Milli; m < 1000 {
			text = fmt.Sprintf("%v of %s", unit.Milli(m), text)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// onNodes says how many GPUs of which nodes an Alloc has: 8 GPUs of a-1, or 32 GPUs of 4
// nodes: a-1 to a-4.
func onNodes(c *cluster.Cluster, a *cluster.Alloc) string {
	where, what := nodesOf(c, a), "the CPU"
	if len(where) > 1 {
		what = "the CPUs"
	}
	if gpus := c.GPUMilli(a); gpus == unit.One {
		what = "1 GPU"
	} else if gpus > 0 {
		what = fmt.Sprintf("%v GPUs", gpus)
	}
	if len(where) == 1 {
		return what + " of " + where[0]
	}
	return fmt.Sprintf("%s of %d nodes: %s", what, len(where), api.Packed(where))
}

// nodesOf are the names of the nodes on which an Alloc has anything, in order.
func nodesOf(c *cluster.Cluster, a *cluster.Alloc) []string {
	ids := make([]cluster.NodeID, len(a.Pieces))
	for i := range a.Pieces {
		ids[i] = a.Pieces[i].Node
	}
	slices.Sort(ids)
	var out []string
	for _, id := range slices.Compact(ids) {
		out = append(out, c.Node(id).Name)
	}
	slices.SortFunc(out, trace.CompareKeys)
	return out
}

// ThrottleOf is for how many thousandths of the time a job leaves its devices to
// others: a gang goes at the pace of its slowest task.
func ThrottleOf(a *cluster.Alloc) int {
	most := int32(0)
	for i := range a.Shares {
		most = max(most, a.Shares[i].Throttle)
	}
	return int(min(1000, most))
}

// Beside is what an Alloc has beside devices.
func Beside(a *cluster.Alloc) (cpus float64, mem api.Bytes) {
	for i := range a.Pieces {
		cpus += float64(a.Pieces[i].CPU) / 1000
		mem += api.Bytes(a.Pieces[i].Memory)
	}
	return cpus, mem
}
