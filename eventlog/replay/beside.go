package replay

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
)

// shown is how many of the jobs on a device are named.
const shown = 8

// mates are the jobs that run on the devices of one, by number.
func mates(s *state.State, id job.ID) (out []job.ID) {
	a := s.Alloc(id)
	if a == nil || !slices.ContainsFunc(a.Shares, func(x cluster.Share) bool { return s.Cluster.Sharers(x.Device) > 1 }) {
		return nil
	}
	for i := range s.Running(s.Record(id).Pool).All() {
		if other := job.ID(i); other != id && common(a, s.Alloc(other)) {
			out = append(out, other)
		}
	}
	return out
}

// beside names the jobs that run on the devices of one, as far as it has only a part
// of them; empty when it has them for itself.
func beside(s *state.State, id job.ID) string {
	var names []string
	all := mates(s, id)
	for _, other := range all[:min(shown, len(all))] {
		names = append(names, s.Record(other).Job.Key)
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if len(names) == 0 {
		return ""
	}
	return ", beside " + strings.Join(names, ", ")
}

// Mate is a job that shares devices with another one, with the reasons for and
// against that, as far as a scheduler knows them: the use and the memory of
// both, and the speeds learnt of like jobs.
type Mate struct {
	Job     job.ID
	Grounds []string
}

// Mates are the jobs that share devices with one, by number; name is what jobs are called.
func Mates(s *state.State, id job.ID, name func(job.ID) string) (out []Mate) {
	for _, other := range mates(s, id) {
		m := Mate{Job: other}
		for _, text := range []string{busy(s, id, other), booked(s, id, other), learnt(s, id, other, name(other))} {
			if text != "" {
				m.Grounds = append(m.Grounds, text)
			}
		}
		out = append(out, m)
	}
	return out
}

// busy says what two jobs keep busy of a GPU: how long their steps are at each stage, or
// else for which part of the time they use it.
func busy(s *state.State, id, other job.ID) string {
	a, b := s.Record(id).Job.Hints, s.Record(other).Job.Hints
	none := [3]time.Duration{}
	switch {
	case a == nil || b == nil:
		return ""
	case a.Stages != none && b.Stages != none:
		return fmt.Sprintf("its steps are %s, the other's %s", stages(a.Stages), stages(b.Stages))
	case a.GPUUse > 0 && b.GPUUse > 0:
		return fmt.Sprintf("alone it keeps a GPU busy for %.0f%% of the time, the other for %.0f%%", 100*a.GPUUse, 100*b.GPUUse)
	}
	return ""
}

func stages(of [3]time.Duration) string {
	var parts []string
	for i, what := range [...]string{"loading", "computing", "exchanging"} {
		if of[i] > 0 {
			parts = append(parts, unit.Human(of[i])+" of "+what)
		}
	}
	return strings.Join(parts, ", ")
}

// booked says what two jobs have of the memory of the first device that they share.
func booked(s *state.State, id, other job.ID) string {
	mine, theirs := s.Alloc(id).Shares, s.Alloc(other).Shares
	for i := range mine {
		at := slices.IndexFunc(theirs, func(x cluster.Share) bool { return x.Device == mine[i].Device })
		if at < 0 {
			continue
		}
		if has := s.Cluster.Type(s.Cluster.TypeOf(mine[i].Device)).Memory; has > 0 && mine[i].Memory > 0 && theirs[at].Memory > 0 {
			return fmt.Sprintf("%v of its %v of memory are booked for both", mine[i].Memory+theirs[at].Memory, has)
		}
		return ""
	}
	return ""
}

// learnt says how two jobs were seen to disturb each other, they or others of their sort.
func learnt(s *state.State, id, other job.ID, name string) string {
	var parts []string
	a, b := s.Record(id).Job, s.Record(other).Job
	t := s.Cluster.Type(s.Cluster.TypeOf(s.Alloc(id).Shares[0].Device)).Name
	if f, ok := s.Learnt()[perf.Pair{Job: perf.SortOf(a), Beside: perf.SortOf(b), Type: t}]; ok {
		parts = append(parts, fmt.Sprintf("it runs at %.3g times its speed alone", f))
	}
	if f, ok := s.Learnt()[perf.Pair{Job: perf.SortOf(b), Beside: perf.SortOf(a), Type: t}]; ok {
		parts = append(parts, fmt.Sprintf("%s at %.3g", name, f))
	}
	if len(parts) == 0 {
		return ""
	}
	return "of such two it was learnt: " + strings.Join(parts, ", ")
}
