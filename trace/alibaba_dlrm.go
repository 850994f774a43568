package trace

import (
	"github.com/norn-scheduler/norn/job"
)

// alibabaDLRM is the trace of recommendation services of Alibaba on disaggregated
// nodes, 2025 (NSDI 2025): instances on CPU nodes (CN), and instances of one GPU on
// heterogeneous nodes (HN).
func alibabaDLRM() Format {
	f := CSV("alibaba-dlrm", "Alibaba 2025, instances of recommendation services (NSDI 2025)", func(in *Input) *Table {
		at := func(to func(d *dlrmRow) *stay) Setter {
			return lifeAt(func(r *Row) *stay { return to(RowState[dlrmRow](r)) })
		}
		return &Table{
			Columns: []Column{
				Col("instance_sn", Key),
				Col("role", hintText(func(h *job.Hints) *string { return &h.QoS })),
				Col("app_name", func(r *Row, v []byte) error {
					r.Job.Name = r.Text(v)
					r.Hints().Group = r.Job.Name
					return nil
				}),
				Col("cpu_request", CPUs),
				Ignored("cpu_limit"),
				Col("gpu_request", GPUs),
				Ignored("gpu_limit"),
				Ignored("rdma_request"),
				Ignored("rdma_limit"),
				Col("memory_request", Memory(1<<30)),
				Ignored("memory_limit"),
				Ignored("disk_request"),
				Ignored("disk_limit"),
				Ignored("max_instance_per_node"),
				Col("creation_time", at(func(d *dlrmRow) *stay { return &d.born })).Or("there before the trace: submitted at 0, a lower bound"),
				Opt("scheduled_time", at(func(d *dlrmRow) *stay { return &d.placed })).Or("wait unknown"),
				Col("deletion_time", at(func(d *dlrmRow) *stay { return &d.dead })).Or("stays for 1,000 days, a lower bound"),
			},
			Finish: finishDLRM,
		}
	})
	f.Order = AnyOrder
	return f
}

// dlrmRow is the moments of an instance; those outside of the trace are not told.
type dlrmRow struct{ born, placed, dead stay }

func finishDLRM(r *Row) error {
	d := RowState[dlrmRow](r)
	r.Job.Kind = job.Inference
	r.Shape.Tasks = 1
	r.Truth.AtLeast = !d.born.told
	r.Job.Submit = d.born.at
	if !d.dead.told {
		r.Truth.Work, r.Truth.AtLeast = noEnd, true
		return nil
	}
	if d.dead.at < r.Job.Submit {
		return r.Wrong("deletion_time", "a deletion after the creation")
	}
	r.Truth.Work = d.dead.at - r.Job.Submit
	if d.born.told && d.placed.told && d.placed.at >= d.born.at {
		r.Truth.Wait, r.Truth.HasWait = d.placed.at-d.born.at, true
	}
	return nil
}
