package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/state"
)

// Remarks lists what a user should know before believing the figures, beside what
// Result.Lacks says. It lists GPU types that were taken for others, jobs without an
// estimate under an order that needs one, and preemptions that cost nothing. It lists
// jobs that could never run, with the reasons, and jobs that were left when the run ended.
func (o *Outcome) Remarks() []string {
	var astray, refused, never, left, unknown remark
	s := o.State
	nowhere := s.Cluster.Pools() > 1 && len(s.Cluster.PoolNodes(0)) == 0
	for id := range job.ID(s.Jobs()) {
		r := s.Record(id)
		if r.Estimate < 0 {
			unknown.note(r)
		}
		switch {
		case r.Phase.Over():
		case nowhere && r.Pool == 0:
			astray.note(r)
		case r.Phase == job.Waiting && r.Reason.Code == job.Refused:
			refused.note(r)
		case r.Phase == job.Waiting && r.Reason.Never():
			never.note(r)
		default:
			left.note(r)
		}
	}
	out := slices.Concat(o.said, o.notes)
	if o.needs.Has(need.RunTimes) && unknown.jobs > 0 && unknown.jobs < s.Jobs() {
		out = append(out, fmt.Sprintf("nothing was known of the run time of %s (--estimates says where estimates come from)", unit.CountOrNo(unknown.jobs, "job")))
	}
	for _, text := range []string{o.free.remark(), o.copied()} {
		if text != "" {
			out = append(out, text)
		}
	}
	if astray.jobs > 0 {
		why := "no partition bears the name of their tenant"
		if astray.named {
			why = "the cluster has neither the partition that they name nor one with the name of their tenant,"
		}
		out = append(out, fmt.Sprintf("%s of %s never ran, because %s and no node is outside the partitions (--whole ignores partitions)",
			unit.CountOrNo(astray.jobs, "job"), astray.who(), why))
	}
	if refused.jobs > 0 {
		out = append(out, fmt.Sprintf("%s refused; job %s, for one, %s", were(refused.jobs), refused.first.Job.Key, sentence(s, refused.first)))
	}
	if never.jobs > 0 {
		out = append(out, fmt.Sprintf("%s never ran; job %s, for one, %s", unit.CountOrNo(never.jobs, "job"), never.first.Job.Key, sentence(s, never.first)+types(never.first)))
	}
	if left.jobs > 0 {
		out = append(out, fmt.Sprintf("%s had not ended when nothing more could happen; job %s, for one, is %s: %s",
			unit.CountOrNo(left.jobs, "job"), left.first.Job.Key, left.first.Phase, sentence(s, left.first)))
	}
	return out
}

// remark is jobs of which something is to be said.
type remark struct {
	jobs    int
	first   *job.Record
	tenants []string
	named   bool // some name a partition
}

func (m *remark) note(r *job.Record) {
	if m.jobs++; m.first == nil {
		m.first = r
	}
	m.named = m.named || r.Job.Partition != ""
	if !slices.Contains(m.tenants, r.Job.Tenant) {
		m.tenants = append(m.tenants, r.Job.Tenant)
	}
}

// who names the tenants.
func (m *remark) who() string {
	const most = 5
	var names []string
	for _, t := range m.tenants[:min(most, len(m.tenants))] {
		if t == "" {
			t = "no tenant"
		}
		names = append(names, t)
	}
	if more := len(m.tenants) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// were says that so many jobs were something.
func were(jobs int) string {
	if jobs == 1 {
		return "1 job was"
	}
	return unit.Count(jobs, "job") + " were"
}

// types says which GPU types a job accepts, where that is why it never ran.
func types(r *job.Record) string {
	if r.Reason.Code != job.NoSuchType {
		return ""
	}
	d := r.Job.Demand
	var memory unit.Bytes
	for i := range d.Roles {
		memory = max(memory, d.Roles[i].GPUMemory)
	}
	var out string
	if d.Types != "" {
		out = "; it accepts " + d.Types + " (--any-type leaves GPU types out)"
	}
	if memory > 0 {
		out += "; it needs " + memory.String() + " of GPU memory (--gpu-only leaves memory out)"
	}
	return out
}

func sentence(s *state.State, r *job.Record) string {
	return r.Reason.Sentence(func(id job.ID) string {
		if !s.Known(id) {
			return fmt.Sprintf("#%d", id)
		}
		return s.Record(id).Job.Key
	})
}
