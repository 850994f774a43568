package trace

import (
	"time"

	"github.com/norn-scheduler/norn/job"
)

// alibabaDLRM is the trace of recommendation services of Alibaba on disaggregated
// nodes, 2025 (NSDI 2025): instances on CPU nodes (CN), and instances of one GPU on
// heterogeneous nodes (HN).
func alibabaDLRM() Format {
	f := CSV("alibaba-dlrm", "Alibaba 2025, instances of recommendation services (NSDI 2025)", func(in *Input) *Table {
		d := &dlrmRow{in: in}
		moment := func(to *time.Duration) Setter {
			return func(_ *Row, v []byte) error { *to = -1; return setTime(to, v, time.Second) }
		}
		return &Table{
			Columns: []Column{
				Col("instance_sn", Key),
				Col("role", func(r *Row, v []byte) error { r.Hints().QoS = r.Text(v); return nil }),
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
				Col("creation_time", moment(&d.born)),
				Opt("scheduled_time", moment(&d.placed)),
				Col("deletion_time", moment(&d.dead)),
			},
			Finish: d.finish,
		}
	})
	f.Order = AnyOrder
	return f
}

// dlrmRow is the moments of an instance; -1 where they are outside of the trace.
type dlrmRow struct {
	in                 *Input
	born, placed, dead time.Duration
}

func (d *dlrmRow) finish(r *Row) error {
	r.Job.Kind = job.Inference
	r.Shape.Tasks = 1
	if d.born < 0 {
		d.in.Note("instances that were there before the trace are submitted at its beginning")
		r.Truth.AtLeast = true
	}
	r.Job.Submit = max(0, d.born)
	if d.dead < 0 {
		d.in.Note("instances without a time of deletion stay for 1,000 days")
		r.Truth.Work, r.Truth.AtLeast = noEnd, true
		return nil
	}
	if d.dead < r.Job.Submit {
		return Want("a deletion after the creation")
	}
	r.Truth.Work = d.dead - r.Job.Submit
	if d.born >= 0 && d.placed >= d.born {
		r.Truth.Wait, r.Truth.HasWait = d.placed-d.born, true
	}
	return nil
}
