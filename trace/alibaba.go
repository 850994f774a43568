package trace

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/unit"
)

// Traces of Alibaba, of Microsoft ITP, of Shanghai AI Lab and of ALCF.

// itp is the log of one of ten clusters of Microsoft, March to May 2021, as
// ElasticFlow (ASPLOS 2023) publishes it; in its variant for the simulator each
// job has a generated model, batch size and deadline.
func itp() Format {
	f := CSV("itp", "Microsoft ITP, one cluster (ASPLOS 2023)", func(in *Input) *Table {
		return &Table{Columns: []Column{
			Col("job_id", Key),
			Col("submission_time", Submit(time.Second)),
			Opt("num_iteration", Units("iterations")),
			Opt("model_name", Model),
			Opt("deadline", Deadline(time.Second)),
			Opt("batch_size", Batch),
			Col("duration", Work(time.Second)),
			Col("num_gpu", GPUs),
		}}
	})
	f.Order = Sorted
	return f
}

// pai2020 is a sample of the tasks of Alibaba PAI, July and August 2020 (Weng
// et al., NSDI 2022).
func pai2020() Format {
	return arrivalList("pai-2020", "Alibaba PAI 2020, a sample of terminated GPU tasks (NSDI 2022)", "ali-")
}

// paiSimulator is the input of the simulator that is published with the PAI
// trace: gangs of equal instances, each with parts of a GPU or several.
func paiSimulator() Format {
	f := CSV("pai", "Alibaba PAI simulator (NSDI 2022)", func(in *Input) *Table {
		var none bool
		return &Table{
			Columns: []Column{
				Col("job_id", Key),
				Col("user", User),
				Col("gpu_type", func(r *Row, v []byte) error {
					if none = string(v) == "CPU"; none {
						return nil
					}
					return Types(r, v)
				}),
				Col("num_gpu", GPUs),
				Col("num_cpu", CPUs),
				Col("submit_time", Submit(time.Second)),
				Col("num_inst", Tasks),
				Col("duration", Work(time.Second)),
				Opt("user_dur", Time(time.Second, func(r *Row) *time.Duration { return &r.Hints().UserEstimate })),
				Opt("group_dur", Time(time.Second, func(r *Row) *time.Duration { return &r.Hints().GroupEstimate })),
				Opt("group_gpu_dur", Time(time.Second, func(r *Row) *time.Duration { return &r.Hints().GroupSizeEstimate })),
				Opt("group", func(r *Row, v []byte) error { r.Hints().Group = r.Text(v); return nil }),
			},
			Finish: func(r *Row) error {
				s := &r.Shape
				s.Tasks = max(1, s.Tasks)
				if none {
					s.GPUs = 0
				}
				if s.GPUs > 1<<40 || s.CPUs > 1<<40 {
					return Want("fewer GPUs and CPUs")
				}
				s.GPUs *= unit.Milli(s.Tasks)
				s.CPUs *= unit.Milli(s.Tasks)
				return nil
			},
		}
	})
	f.Aliases = []string{"pai-simulator"}
	return f
}

// noEnd is the nominal run time of pods whose deletion is not told: they stay
// for as long as any experiment lasts.
const noEnd = 1000 * 24 * time.Hour

// openb is a list of pods of a Kubernetes cluster of Alibaba, 2023 (Weng et
// al., ATC 2023), with parts of GPUs. Some of the published lists have no times.
func openb() Format {
	f := CSV("openb", "Alibaba openb 2023, pods with parts of GPUs (ATC 2023)", func(in *Input) *Table {
		p := &openbRow{in: in}
		return &Table{
			Columns: []Column{
				Col("name", Key),
				Col("cpu_milli", func(r *Row, v []byte) error { return openbAmount((*int64)(&r.Shape.CPUs), v, 1) }),
				Col("memory_mib", Memory(unit.MiB)),
				Col("num_gpu", GPUs),
				Col("gpu_milli", func(_ *Row, v []byte) error { return openbAmount(&p.milli, v, 1) }),
				Opt("gpu_spec", Types),
				Opt("qos", func(r *Row, v []byte) error { r.Hints().QoS = r.Text(v); return nil }),
				Opt("pod_phase", p.phase),
				Opt("creation_time", Submit(time.Second)),
				Opt("deletion_time", func(_ *Row, v []byte) error { p.dead = -1; return openbTime(&p.dead, v) }),
				Opt("scheduled_time", func(_ *Row, v []byte) error { p.placed = -1; return openbTime(&p.placed, v) }),
			},
			Finish: p.finish,
		}
	})
	f.Order = AnyOrder
	return f
}

type openbRow struct {
	in           *Input
	milli        int64
	dead, placed time.Duration // -1 unknown, 0 when the file has no such column
}

func openbAmount(to *int64, v []byte, scale int64) error {
	n, ok := ParseInt(v)
	if !ok || n < 0 || n > 1<<40 {
		return wantCount
	}
	*to = n * scale
	return nil
}

func openbTime(to *time.Duration, v []byte) error { return setTime(to, v, time.Second) }

func (p *openbRow) phase(r *Row, v []byte) error {
	switch string(v) {
	case "Failed":
		r.Truth.Outcome = Failed
	case "Pending": // deleted before it had a place
		r.Truth.Outcome = Killed
	}
	return nil
}

func (p *openbRow) finish(r *Row) error {
	s := &r.Shape
	s.Tasks = 1
	if s.GPUs == unit.One && p.milli > 0 && p.milli < 1000 {
		s.GPUs = unit.Milli(p.milli)
	}
	if p.dead <= 0 {
		p.in.Note("pods without a time of deletion stay for 1,000 days")
		r.Truth.Work, r.Truth.AtLeast = noEnd, true
		return nil
	}
	if p.dead < r.Job.Submit {
		return Want("a deletion after the creation")
	}
	r.Truth.Work = p.dead - r.Job.Submit
	if p.placed > 0 || p.placed == 0 && r.Job.Submit == 0 {
		r.Truth.Wait, r.Truth.HasWait = max(0, p.placed-r.Job.Submit), true
	}
	return nil
}

// kalos is the subset of the trace of the cluster Kalos (Acme, NSDI 2024) that
// is published in the layout of a simulator: run times are told as iterations
// of half a second.
func kalos() Format {
	f := CSV("kalos", "Shanghai AI Lab Acme Kalos, converted (NSDI 2024)", func(in *Input) *Table {
		var workers, each, cpus unit.Milli
		var iterations float64
		return &Table{
			Columns: []Column{
				Col("job_id", Key),
				Col("arrival_time", Submit(time.Second)),
				Col("num_iteration", Number(func(*Row) *float64 { return &iterations })),
				Unused("iteration_computing_time"),
				Ignored("iteration_networking_time"),
				Col("gpu_workers", func(_ *Row, v []byte) error { return setMilli(&workers, v) }),
				Unused("ps"),
				Col("gpu_per_worker", func(_ *Row, v []byte) error { return setMilli(&each, v) }),
				Col("cpu_per_gpu_worker", func(_ *Row, v []byte) error { return setMilli(&cpus, v) }),
				Ignored("cpu_per_ps_worker"),
				Ignored("tensorsizes"),
				Ignored("profiled_network"),
			},
			Finish: func(r *Row) error {
				nodes := workers / unit.One
				if nodes < 1 || nodes > 1e5 || each > 1e6 || cpus > 1e6 {
					return Want("a number of workers and GPUs")
				}
				r.Shape.Tasks = int32(nodes)
				r.Shape.GPUs = nodes * each
				r.Shape.CPUs = r.Shape.GPUs / unit.One * cpus
				var err error
				r.Truth.Work, err = unit.Seconds(iterations / 2)
				return err
			},
		}
	})
	f.Order = Sorted
	return f
}

// thetaGPU is the log of 24 nodes of ALCF with 8 GPUs each, 2023, with real
// queueing delays and the wall times that users asked for. It counts nodes,
// and a node of its scheduler may be one GPU or a whole machine.
func thetaGPU() Format {
	f := CSV("thetagpu", "ALCF ThetaGPU 2023 (as used by lumos)", func(in *Input) *Table {
		each := unit.Milli(max(1, in.Options.NodeGPUs))
		in.Note(fmt.Sprintf("the file counts nodes, each of which may be one GPU or eight; it is taken as %d (--node-gpus says otherwise)", each))
		return &Table{
			Columns: []Column{
				Ignored(""),
				Col("job", Key),
				Col("user", User),
				Col("project", Tenant),
				Unused("state"),
				Unused("gpu_num"),
				Unused("cpu_num"),
				Col("node_num", GPUs),
				Col("submit_time", Submit(time.Second)),
				Col("wait_time", Wait(time.Second)),
				Col("run_time", Work(time.Second)),
				Col("wall_time", Estimate(time.Second)),
				Unused("node_hour"),
				Col("new_status", Ended),
			},
			Finish: func(r *Row) error {
				if each > 1 && r.Shape.GPUs < 1<<40 {
					r.Shape.Tasks = int32(min(r.Shape.GPUs/unit.One, 1<<20))
					r.Shape.GPUs *= each
				}
				return nil
			},
		}
	})
	f.Clock, f.Order = Unix, Unsorted
	return f
}
