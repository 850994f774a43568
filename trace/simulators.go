package trace

import (
	"bytes"
	"time"

	"github.com/norn-scheduler/norn/job"
)

// Inputs of published simulators that tell how long jobs run. Their times are
// since a zero of their own.

// tiresias is the input of the simulator of Tiresias (NSDI 2019).
func tiresias() Format {
	return CSV("tiresias", "Tiresias simulator (NSDI 2019)", func(*Input) *Table {
		return &Table{Columns: []Column{
			Col("job_id", Key),
			Col("num_gpu", GPUs),
			Col("submit_time", Submit(time.Second)),
			Col("iterations", Units("iterations")),
			Col("model_name", Model),
			Col("duration", Work(time.Second)),
			Col("interval", nil),
		}}
	})
}

// muri is the input of the simulator of Muri (SIGCOMM 2022): as Tiresias', in
// milliseconds, with the times of the stages of an iteration.
func muri() Format {
	return CSV("muri", "Muri simulator, with stage times (SIGCOMM 2022)", func(in *Input) *Table {
		known := map[job.Hints]*job.Hints{}
		stage := func(n int) Column {
			name := "resource_time_" + string(rune('0'+n))
			return Col(name, Time(time.Millisecond, func(r *Row) *time.Duration { return &r.Hints().Stages[n] }))
		}
		return &Table{
			Columns: []Column{
				Col("job_id", Key),
				Col("num_gpu", GPUs),
				Col("submit_time", Submit(time.Millisecond)),
				Col("iterations", Units("iterations")),
				Col("model_name", Model),
				Col("batch_size", Batch),
				Col("duration", Work(time.Millisecond)),
				Unused("interval"),
				Col("iteration_time", Time(time.Millisecond, func(r *Row) *time.Duration { return &r.Hints().Iteration })),
				stage(0), stage(1), stage(2),
				Col("priority", muriClass),
			},
			Finish: func(r *Row) error { return shareHints(r, known) },
		}
	})
}

// muriClass stores the class of a job, of which AntMan alone takes notice there: 0 is
// guaranteed, 1 opportunistic.
func muriClass(r *Row, v []byte) error {
	if err := Priority(r, v); err != nil {
		return err
	}
	switch r.Job.Priority {
	case 0:
		r.Hints().QoS = "guaranteed"
	case 1:
		r.Hints().QoS = "opportunistic"
	}
	return nil
}

// shareHints gives jobs with equal hints the same ones.
func shareHints(r *Row, known map[job.Hints]*job.Hints) error {
	if !r.told {
		return nil
	}
	h, ok := known[r.hints]
	if !ok {
		h = new(job.Hints)
		*h = r.hints
		known[r.hints] = h
	}
	r.Job.Hints, r.told, r.hints = h, false, job.Hints{}
	return nil
}

// elasticFlow is the input of the simulator of ElasticFlow (ASPLOS 2023).
func elasticFlow() Format {
	return CSV("elasticflow", "ElasticFlow simulator, with deadlines (ASPLOS 2023)", func(*Input) *Table {
		return &Table{
			Columns: []Column{
				Col("job_id", Key),
				Col("submit_time", Submit(time.Second)),
				Col("iteration", Units("iterations")),
				Col("model_name", Model),
				Col("ddl", Deadline(time.Second)),
				Col("batch_size", Batch),
				Col("num_gpu", GPUs),
				Col("duration", Work(time.Second)),
				Ignored("real_iteration"),
				Ignored("real_duration"),
				Opt("best_effort", Flag(bestEffort)),
			},
			Finish: func(r *Row) error {
				if *bestEffort(r) {
					r.Job.Deadline = 0
				}
				return nil
			},
		}
	})
}

type bestEffortRow struct{ yes bool }

// bestEffort is whether the job of a row has no deadline.
func bestEffort(r *Row) *bool { return &RowState[bestEffortRow](r).yes }

// chronus is the input of the simulator of Chronus (SoCC 2021), in minutes.
func chronus() Format {
	f := CSV("chronus", "Chronus simulator, with deadlines and their worth (SoCC 2021)", func(in *Input) *Table {
		list := func(to func(c *chronusRow) *[]float64) Setter {
			return func(r *Row, v []byte) error { return numbers(to(RowState[chronusRow](r)), v, "-") }
		}
		return &Table{
			Columns: []Column{
				Col("job_id", Key),
				Col("user", Tenant),
				Col("num_gpu", func(r *Row, v []byte) error {
					if string(v) == "0" {
						return LeaveOut("it asks for no GPU, and what else it needs is not told")
					}
					return GPUs(r, v)
				}),
				Col("submit_time", Submit(time.Minute)),
				Col("iterations", Units("iterations")),
				Col("model_name", Model),
				Col("duration", Work(time.Minute)),
				Unused("interval"),
				Col("expect_time_list", list(func(c *chronusRow) *[]float64 { return &c.by })),
				Col("expect_value_list", list(func(c *chronusRow) *[]float64 { return &c.value })),
				Col("best_effort", Flag(func(r *Row) *bool { return &RowState[chronusRow](r).bestEffort })),
				Col("job_type", hintText(func(h *job.Hints) *string { return &h.QoS })),
			},
			Finish: finishChronus,
		}
	})
	f.Order = Unsorted
	return f
}

type chronusRow struct {
	by, value  []float64
	bestEffort bool
}

// numbers reads numbers joined by sep.
func numbers(to *[]float64, v []byte, sep string) error {
	for part := range bytes.SplitSeq(v, []byte(sep)) {
		f, ok := ParseFloat(part)
		if !ok || f < 0 || f > 1e8 {
			return Want("numbers, 0 or more and 1e8 at most, joined by " + sep)
		}
		*to = append(*to, f)
	}
	return nil
}

// finish turns minutes after the submission into deadlines: the first is the
// deadline of the job, and all of them with their values are hints.
func finishChronus(r *Row) error {
	c := RowState[chronusRow](r)
	if c.bestEffort {
		return nil
	}
	h := r.Hints()
	if len(c.by) != len(c.value) || len(c.by) > len(h.Worth) {
		return r.Wrong("expect_value_list", "as many values as deadlines, four at most")
	}
	for i, minutes := range c.by {
		h.Worth[i] = job.Worth{By: r.Job.Submit + time.Duration(minutes*float64(time.Minute)), Value: c.value[i]}
	}
	r.Job.Deadline, r.Job.Soft = h.Worth[0].By, h.QoS == "soft"
	return nil
}

// palPhilly is the layout of most traces of PAL (SC 2024).
func palPhilly() Format {
	return CSV("pal", "PAL, Blox (SC 2024)", func(*Input) *Table {
		return &Table{Columns: []Column{
			Col("job_id", Key),
			Col("num_gpus", GPUs),
			Col("submit_time", Submit(time.Second)),
			Col("duration", Work(time.Second)),
			Col("model", Model),
			Opt("batch_size", Batch),
		}}
	})
}

// palShockwave is the layout of PAL's traces that tell iterations; they take a
// second each, as the same jobs with a run time in its other traces show.
func palShockwave() Format {
	return CSV("pal-iterations", "PAL, with iterations of one second (SC 2024)", func(in *Input) *Table {
		in.Nominal("iterations of one second")
		return &Table{
			Columns: []Column{
				Col("name", Key),
				Col("model_name", Model),
				Col("time", Submit(time.Second)),
				Col("num_iters", Units("iterations")),
				Col("num_replicas", GPUs),
			},
			Finish: func(r *Row) error {
				return r.setWork("num_iters", r.Job.Units)
			},
		}
	})
}

// rubick is the input of the simulator of Rubick (MLSys 2025).
func rubick() Format {
	return CSV("rubick", "Rubick simulator, with parallel plans (MLSys 2025)", func(*Input) *Table {
		return &Table{Columns: []Column{
			Col("name", Key),
			Col("submission_time", Submit(time.Second)),
			Col("duration", Work(time.Second)),
			Col("application", Model),
			Col("num_gpus", GPUs),
			Col("num_cpus", CPUs),
			Unused("bandwidth"),
			Col("exec_plan", hintText(func(h *job.Hints) *string { return &h.Plan })),
			Col("steps", Units("steps")),
			Col("is_sla", func(r *Row, v []byte) error {
				sla, ok := ParseFlag(v)
				if sla {
					r.Hints().QoS = "sla"
				}
				if !ok {
					return wantFlag
				}
				return nil
			}),
		}}
	})
}

// mapa is the job file of the simulator of MAPA (SC 2021).
func mapa() Format {
	return headless("mapa", "MAPA simulator, with communication patterns (SC 2021)", ',', []int{0, 2, 3, 4}, 1, func(*Input) (*Table, error) {
		return &Table{Columns: []Column{
			Col("num_gpus", GPUs),
			Col("topology", hintText(func(h *job.Hints) *string { return &h.Pattern })),
			Col("arrival", Submit(time.Second)),
			Col("duration", Work(time.Second)),
			Col("sensitive", Flag(func(r *Row) *bool { return &r.Hints().Sensitive })),
			Col("script", func(r *Row, v []byte) error {
				r.Job.Name = r.Text(v)
				r.Job.Model = r.Text(bytes.TrimSuffix(v, []byte(".sh")))
				return nil
			}),
		}}, nil
	})
}
