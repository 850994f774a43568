package trace

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
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
		estimate := func(name string, to func(h *job.Hints) *time.Duration) Column {
			return Opt(name, Time(time.Second, func(r *Row) *time.Duration { return to(r.Hints()) })).Or("unknown")
		}
		return &Table{
			Columns: []Column{
				Col("job_id", Key),
				Col("user", User),
				Col("gpu_type", func(r *Row, v []byte) error {
					if string(v) == "CPU" {
						RowState[paiRow](r).noGPU = true
						return nil
					}
					return Types(r, v)
				}),
				Col("num_gpu", GPUs),
				Col("num_cpu", CPUs),
				Col("submit_time", Submit(time.Second)),
				Col("num_inst", Tasks),
				Col("duration", Work(time.Second)),
				estimate("user_dur", func(h *job.Hints) *time.Duration { return &h.UserEstimate }),
				estimate("group_dur", func(h *job.Hints) *time.Duration { return &h.GroupEstimate }),
				estimate("group_gpu_dur", func(h *job.Hints) *time.Duration { return &h.GroupSizeEstimate }),
				Opt("group", hintText(func(h *job.Hints) *string { return &h.Group })).Or("none"),
			},
			Finish: finishPAI,
		}
	})
	f.Aliases = []string{"pai-simulator"}
	return f
}

type paiRow struct{ noGPU bool }

// finishPAI turns what each instance asks for into what all of them do.
func finishPAI(r *Row) error {
	s := &r.Shape
	s.Tasks = max(1, s.Tasks)
	if RowState[paiRow](r).noGPU {
		s.GPUs = 0
	}
	if s.GPUs > 1<<40 || s.CPUs > 1<<40 {
		return Want("fewer GPUs and CPUs for each of num_inst: 1e9 at most")
	}
	s.GPUs *= unit.Milli(s.Tasks)
	s.CPUs *= unit.Milli(s.Tasks)
	return nil
}

// noEnd is the nominal run time of pods whose deletion is not told: they stay
// for as long as any experiment lasts.
const noEnd = 1000 * 24 * time.Hour

// openb is a list of pods of a Kubernetes cluster of Alibaba, 2023 (Weng et
// al., ATC 2023), with parts of GPUs. Some of the published lists have no times.
func openb() Format {
	f := CSV("openb", "Alibaba openb 2023, pods with parts of GPUs (ATC 2023)", func(in *Input) *Table {
		milli := func(to func(r *Row) *unit.Milli) Setter {
			return func(r *Row, v []byte) error { return setWhole((*int64)(to(r)), v) }
		}
		return &Table{
			Columns: []Column{
				Col("name", Key),
				Col("cpu_milli", milli(func(r *Row) *unit.Milli { return &r.Shape.CPUs })),
				Col("memory_mib", Memory(unit.MiB)),
				Col("num_gpu", GPUs),
				Col("gpu_milli", milli(func(r *Row) *unit.Milli { return &RowState[openbRow](r).part })),
				Opt("gpu_spec", Types).Or("any type"),
				Opt("qos", hintText(func(h *job.Hints) *string { return &h.QoS })).Or("none"),
				Opt("pod_phase", openbPhase),
				Opt("creation_time", Submit(time.Second)),
				Opt("deletion_time", lifeAt(func(r *Row) *stay { return &RowState[openbRow](r).dead })).Or("stays for 1,000 days, a lower bound"),
				Opt("scheduled_time", lifeAt(func(r *Row) *stay { return &RowState[openbRow](r).placed })).Or("wait unknown"),
			},
			Finish: finishOpenb,
		}
	})
	f.Order = AnyOrder
	return f
}

// openbRow is what several columns say of a pod.
type openbRow struct {
	part         unit.Milli // of a GPU
	placed, dead stay
}

// stay is a moment of the life of a pod, which need not be told.
type stay struct {
	at   time.Duration
	told bool
}

// lifeAt is a setter of a moment, in seconds, that to says where to store.
func lifeAt(to func(r *Row) *stay) Setter {
	return func(r *Row, v []byte) error {
		s := to(r)
		s.told = true
		return setTime(&s.at, v, time.Second)
	}
}

func setWhole(to *int64, v []byte) error {
	n, ok := ParseInt(v)
	if !ok || n < 0 || n > mostBatch {
		return wantBatch
	}
	*to = n
	return nil
}

func openbPhase(r *Row, v []byte) error {
	switch string(v) {
	case "Running", "Succeeded":
	case "Failed":
		r.Truth.Outcome = Failed
	case "Pending": // deleted before it had a place
		r.Truth.Outcome = Killed
	default:
		return Want("Pending, Running, Succeeded or Failed")
	}
	return nil
}

func finishOpenb(r *Row) error {
	s, p := &r.Shape, RowState[openbRow](r)
	s.Tasks = 1
	if s.GPUs == unit.One && p.part > 0 && p.part < unit.One {
		s.GPUs = p.part
	}
	if !p.dead.told {
		r.In.Note("pods without a time of deletion stay for 1,000 days")
		r.Truth.Work, r.Truth.AtLeast = noEnd, true
		return nil
	}
	if p.dead.at < r.Job.Submit {
		return r.Wrong("deletion_time", "a deletion after the creation")
	}
	r.Truth.Work = p.dead.at - r.Job.Submit
	if p.placed.told {
		r.Truth.Wait, r.Truth.HasWait = max(0, p.placed.at-r.Job.Submit), true
	}
	return nil
}

// kalos is the subset of the trace of the cluster Kalos (Acme, NSDI 2024) that
// is published in the layout of a simulator: run times are told as iterations
// of half a second.
func kalos() Format {
	f := CSV("kalos", "Shanghai AI Lab Acme Kalos, converted (NSDI 2024)", func(in *Input) *Table {
		amount := func(to func(k *kalosRow) *unit.Milli) Setter {
			return func(r *Row, v []byte) error { return setMilli(to(RowState[kalosRow](r)), v, mostGPUs, wantDevices) }
		}
		return &Table{
			Columns: []Column{
				Col("job_id", Key),
				Col("arrival_time", Submit(time.Second)),
				Col("num_iteration", Number(func(r *Row) *float64 { return &RowState[kalosRow](r).iterations })),
				Unused("iteration_computing_time"),
				Ignored("iteration_networking_time"),
				Col("gpu_workers", amount(func(k *kalosRow) *unit.Milli { return &k.workers })),
				Unused("ps"),
				Col("gpu_per_worker", amount(func(k *kalosRow) *unit.Milli { return &k.each })),
				Col("cpu_per_gpu_worker", amount(func(k *kalosRow) *unit.Milli { return &k.cpus })),
				Ignored("cpu_per_ps_worker"),
				Ignored("tensorsizes"),
				Ignored("profiled_network"),
			},
			Finish: finishKalos,
		}
	})
	f.Order = Sorted
	return f
}

// kalosRow is what each worker of a job holds and how long the job iterates.
type kalosRow struct {
	workers, each, cpus unit.Milli
	iterations          float64
}

func finishKalos(r *Row) error {
	k := RowState[kalosRow](r)
	nodes := k.workers / unit.One
	const most = 1000 * unit.One // GPUs of a worker, cores for each of them
	switch {
	case nodes < 1 || nodes > 1e5:
		return r.Wrong("gpu_workers", "1 to 100000 workers")
	case k.each > most:
		return r.Wrong("gpu_per_worker", "1000 GPUs at most")
	case k.cpus > most:
		return r.Wrong("cpu_per_gpu_worker", "1000 cores at most")
	}
	r.Shape.Tasks = int32(nodes)
	r.Shape.GPUs = nodes * k.each
	r.Shape.CPUs = r.Shape.GPUs / unit.One * k.cpus
	return r.setWork("num_iteration", k.iterations/2)
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
				Col("user", User).Or("unknown"),
				Col("project", Tenant).Or("none"),
				Unused("state"),
				Unused("gpu_num"),
				Unused("cpu_num"),
				Col("node_num", GPUs),
				Col("submit_time", Submit(time.Second)),
				Col("wait_time", Wait(time.Second)).Or("unknown"),
				Col("run_time", Work(time.Second)),
				Col("wall_time", Estimate(time.Second)).Or("no estimate"),
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
