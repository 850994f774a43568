package trace

import (
	"errors"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
)

// Inputs of published simulators that tell how much work a job has and leave
// its run time to a table of speeds.

// pollux is the layout of the workloads of Pollux (OSDI 2021) and Sia (SOSP
// 2023). Its jobs can run on any number of GPUs.
func pollux() Format {
	f := CSV("pollux", "Pollux and Sia workloads (OSDI 2021, SOSP 2023)", func(in *Input) *Table {
		speeds := &polluxProfile{path: in.Options.Profile, gpu: in.Options.GPU, apps: map[string]*polluxMeasured{}}
		speed := speeds.speed
		if in.Options.Profile == "" {
			speed = polluxBuiltIn
			in.Nominal("training to convergence at speeds fitted to Pollux' profiles on T4 GPUs")
		} else {
			in.Nominal("training to convergence at the speeds in " + in.Options.Profile)
		}
		return &Table{
			Columns: []Column{
				Col("name", Key),
				Col("time", Submit(time.Second)),
				Col("application", Model),
				Col("num_replicas", GPUs),
				Col("batch_size", Batch),
			},
			Finish: func(r *Row) error {
				gpus := int(r.Shape.GPUs / unit.One)
				if gpus < 1 || gpus > polluxMost {
					return r.Wrong("num_replicas", "1 to 1000 replicas")
				}
				if r.Job.Batch < 1 {
					return r.Wrong("batch_size", "a batch size of 1 or more")
				}
				iterations, step, err := speed(r.Job.Model, gpus, r.Job.Batch)
				var unknown Want
				if errors.As(err, &unknown) {
					return r.Wrong("application", string(unknown))
				}
				if err != nil {
					return err
				}
				r.Job.Name = r.Job.Model
				r.Job.Units, r.Job.Unit = iterations, "iterations"
				r.Shape.Tasks, r.Shape.Min, r.Shape.Max = int32(gpus), 1, int32(max(gpus, polluxMax))
				return r.setWork("batch_size", round(iterations*step, 1e-3))
			},
		}
	})
	f.Aliases = []string{"sia"}
	f.Order, f.Profile = Sorted, "a folder of profiles of Pollux or Sia, for the cluster type of Options.GPU or Pollux' own"
	return f
}

const (
	polluxMax  = 64   // replicas that a job scales to, as its simulator bounds it
	polluxMost = 1000 // replicas that a row may ask for
)

func polluxBuiltIn(app string, gpus, batch int) (iterations, step float64, err error) {
	iterations, step, ok := polluxNominal(app, gpus, batch)
	if !ok {
		return 0, 0, Want("an application whose speed is built in, not " + app + " (or Options.Profile)")
	}
	return iterations, step, nil
}

// synergy is the layout of the traces of Synergy (OSDI 2022): lines of number,
// model, arrival, iterations and GPUs.
func synergy() Format {
	f := headless("synergy", "Synergy (OSDI 2022)", ',', []int{0, 2, 3, 4}, 1, func(in *Input) (*Table, error) {
		seconds := synergyIterations
		if in.Options.Profile == "" {
			in.Nominal("iterations at Synergy's speeds with three cores for each GPU")
		} else {
			var err error
			if seconds, err = readSynergyProfile(in.Options.Profile, in.Options.GPU); err != nil {
				return nil, err
			}
			in.Nominal("iterations at the speeds in " + in.Options.Profile)
		}
		return &Table{
			Columns: []Column{
				Col("id", Key),
				Col("model", Model),
				Col("arrival", Submit(time.Second)),
				Col("iterations", Units("iterations")),
				Col("gpus", GPUs),
			},
			Finish: func(r *Row) error {
				each, ok := seconds[r.Job.Model]
				if !ok {
					return r.Wrong("model", "a model whose speed is known")
				}
				return r.setWork("iterations", round(r.Job.Units*each, 1e-6))
			},
		}, nil
	})
	f.Profile = "the model summary of Synergy (CSV), for the server type of Options.GPU or models"
	return f
}

// arena is the layout of the traces of Arena, also called Crius (EuroSys 2026):
// large models on named GPU types.
func arena() Format {
	f := CSV("arena", "Arena and Crius, large models on given GPU types (EuroSys 2026)", func(in *Input) *Table {
		a := &arenaRow{path: in.Options.Profile}
		if a.path == "" {
			in.Nominal("iterations at speeds fitted to Arena's best measured plans")
		} else {
			in.Nominal("iterations at the speeds in " + a.path)
		}
		return &Table{
			Columns: []Column{
				Col("job_id", Key),
				Col("submission_time", Submit(time.Second)),
				Col("num_iteration", Units("iterations")),
				Col("model_name", Model),
				Col("deadline", Deadline(time.Second)),
				Col("batch_size", Batch),
				Col("num_gpu", GPUs),
				Col("gpu_type", Types),
			},
			Finish: a.finish,
		}
	})
	f.Clock, f.Profile = Either, "the best plans of Arena (JSON)"
	return f
}

type arenaRow struct {
	path  string
	table arenaTable
}

func (a *arenaRow) finish(r *Row) error {
	if a.path != "" && a.table == nil {
		table, err := readArenaProfile(a.path)
		if err != nil {
			return err
		}
		a.table = table
	}
	gpus := r.Shape.GPUs / unit.One
	each, ok := a.table.speed(r.Job.Model, r.Shape.Types, int(gpus), r.Job.Batch)
	known := perf.LargeType(r.Shape.Types)
	switch {
	case ok:
	case gpus < 1:
		return r.Wrong("num_gpu", "one GPU or more")
	case r.Job.Batch < 1:
		return r.Wrong("batch_size", "a batch size of 1 or more")
	case !known:
		return r.Wrong("gpu_type", "a GPU type whose speed is known")
	default:
		return r.Wrong("model_name", "a model and GPU type whose speed is known, not "+r.Job.Model+" on "+r.Shape.Types)
	}
	return r.setWork("num_iteration", round(r.Job.Units*each, 1e-3))
}

// ones is the layout of the traces of ONES (SC 2021). A job trains until it has
// reached an accuracy.
func ones() Format {
	f := CSV("ones", "ONES (SC 2021)", func(in *Input) *Table {
		in.Nominal("epochs and speeds of ONES' published training history")
		return &Table{
			Columns: []Column{
				Col("time", Submit(time.Second)),
				Col("model", Model),
				Col("task", Dataset),
				Col("epoch_size", Number(func(r *Row) *float64 { return &RowState[onesRow](r).epoch })),
				Unused("patience"),
				Col("batch_size", Batch),
				Unused("lr"),
				Unused("max_lr"),
				Unused("target_acc"),
				Col("num_gpus", GPUs),
			},
			Finish: finishONES,
		}
	})
	return f
}

type onesRow struct{ epoch float64 } // samples

func finishONES(r *Row) error {
	t, ok := onesTasks[r.Job.Model+"/"+r.Job.Dataset]
	if !ok {
		column := "model"
		for known := range onesTasks {
			if strings.HasPrefix(known, r.Job.Model+"/") {
				column = "task"
			}
		}
		return r.Wrong(column, "a model and task whose speed is built in, not "+r.Job.Model+" on "+r.Job.Dataset)
	}
	r.Job.Units, r.Job.Unit = RowState[onesRow](r).epoch*t.epochs, "samples"
	return r.setWork("epoch_size", round(r.Job.Units/t.samplesPerSecond, 1e-3))
}
