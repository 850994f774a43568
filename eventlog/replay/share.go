package replay

import (
	"fmt"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/quota"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/tenant"
)

// due says what the tenant of a job has and what it is due at this moment, as
// docs/reports.md defines it; empty where no other tenant has jobs.
func due(s *state.State, r *job.Record) string {
	asked, has, there := make([]unit.Milli, s.Tenants.Len()), make([]unit.Milli, s.Tenants.Len()), unit.Milli(0)
	count := func(jobs *dense.Set, allocated bool) {
		for id := range jobs.All() {
			r := s.Record(job.ID(id))
			t := quota.Top(s.Tenants, r.Tenant)
			asked[t] += s.Class(r.Class).Amount.GPU
			if allocated {
				has[t] += r.Milli
			}
		}
	}
	for p := range cluster.PoolID(s.Cluster.Pools()) {
		count(s.Waiting(p), false)
		count(s.Running(p), true)
		there += unit.Milli(s.Cluster.TotalGPUs(p, 0)) * unit.One
	}
	parts, who, all := make([]quota.Part, len(asked)), 0, unit.Milli(0)
	for t := range parts {
		use := max(asked[t], has[t])
		parts[t] = quota.PartOf(s.Tenants, tenant.ID(t), float64(use), 1)
		if all += asked[t]; use > 0 {
			who++
		}
	}
	t := quota.Top(s.Tenants, r.Tenant)
	if who < 2 {
		return ""
	}
	quota.Divide(parts, float64(there), quota.Borrowed)
	name := "those of no tenant hold %v of %v GPUs and are due"
	if t != tenant.Root {
		name = "its tenant " + s.Tenants.At(t).Name + " holds %v of %v GPUs and is due"
	}
	text := fmt.Sprintf(name+" %.3g: it asks for %v, %d tenants for %v", has[t], there, parts[t].Share/float64(unit.One), asked[t], who, all)
	if e := s.Tenants.At(t); t != tenant.Root && e.Guarantee > 0 {
		text += fmt.Sprintf("; %v are guaranteed to it", e.Guarantee)
	}
	return text
}
