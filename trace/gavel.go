package trace

import (
	"bytes"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Traces of Gavel (OSDI 2020) and Shockwave (NSDI 2023): lines of fields
// separated by tabs, without a header. A job tells its steps; Shockwave's tells
// its run time too.

const gavelProfile = "a table of throughputs of Gavel (JSON), for the GPU type of Options.GPU or v100"

// gavelRow is what several columns of a line say together.
type gavelRow struct{ slo float64 }

// gavelSpeed is the speed of a job type on so many GPUs, in steps per second.
type gavelSpeed func(jobType string, gpus int) (float64, bool)

func newGavelSpeed(in *Input) (gavelSpeed, error) {
	if in.Options.Profile == "" {
		in.Nominal("steps at the speeds that Gavel measured on V100 GPUs")
		return gavelNominal, nil
	}
	table, err := readGavelProfile(in.Options.Profile, in.Options.GPU)
	if err != nil {
		return nil, err
	}
	in.Nominal("steps at the speeds in " + in.Options.Profile)
	return table.speed, nil
}

// gavelJob stores "ResNet-18 (batch size 64)": the whole as the name, for tables
// of throughputs are keyed by it, and its parts.
func gavelJob(r *Row, v []byte) error {
	r.Job.Name = r.Text(v)
	model, rest, found := bytes.Cut(v, []byte(" (batch size "))
	r.Job.Model = r.Text(model)
	if !found {
		return nil
	}
	return Batch(r, bytes.TrimSuffix(rest, []byte{')'}))
}

func gavelWeight(r *Row, v []byte) error {
	w := 1.0
	err := setWeight(&w, v)
	if w != 1 {
		r.Hints().Weight = w
	}
	return err
}

func gavelTarget(r *Row, v []byte) error {
	slo, ok := ParseFloat(v)
	if !ok || slo > mostTarget {
		return Want("a multiple of the run time, 1e9 at most; 0 and less are none")
	}
	RowState[gavelRow](r).slo = slo
	return nil
}

const mostTarget = 1e9

// gavelDeadline turns the target, a multiple of the run time, into a deadline.
func gavelDeadline(r *Row) error {
	slo := RowState[gavelRow](r).slo
	if slo <= 0 {
		return nil
	}
	d, err := unit.Seconds(r.Truth.Work.Seconds() * slo)
	if err != nil || d > century {
		return r.Wrong("SLO", "a deadline within 100 years")
	}
	r.Job.Deadline = r.Job.Submit + d
	return nil
}

// bySteps sets the run time from the steps.
func (each gavelSpeed) bySteps(r *Row) error {
	gpus := r.Shape.GPUs / unit.One
	if gpus < 1 {
		return r.Wrong("scale_factor", "one GPU or more")
	}
	speed, ok := each(r.Job.Name, int(gpus))
	if !ok || speed <= 0 {
		return r.Wrong("job_type", "a job type whose speed is known")
	}
	if err := r.setWork("total_steps", r.Job.Units/speed); err != nil {
		return err
	}
	return gavelDeadline(r)
}

// headless makes a format of lines without a header. It matches a file whose
// first line has as many fields as the table has columns, numbers in those
// named, and text in the first of the others.
func headless(name, title string, comma byte, numbers []int, text int, table func(in *Input) (*Table, error)) Format {
	var columns []Column
	if shape, err := table(noInput()); err == nil { // an error is that of a profile, and none is named
		columns = shape.Columns
	}
	return Format{
		Name: name, Title: title, Columns: columns,
		Match: func(h *Head) int {
			first := h.Columns(0, comma)
			if len(first) != len(columns) {
				return 0
			}
			for _, n := range numbers {
				if _, ok := ParseFloat(first[n]); !ok {
					return 0
				}
			}
			if _, number := ParseFloat(first[text]); number {
				return 0
			}
			return len(first)
		},
		Decode: func(in *Input) (Source, error) {
			t, err := table(in)
			if err != nil {
				return nil, err
			}
			t.Comma, t.NoHeader = comma, true
			return t.open(in)
		},
	}
}

// gavelMSR is the layout of Gavel's traces with the arrivals of Philly.
func gavelMSR() Format {
	f := headless("gavel-msr", "Gavel, generated models with Philly's arrivals (OSDI 2020)", '\t', []int{3, 4, 5, 6}, 0, func(in *Input) (*Table, error) {
		speed, err := newGavelSpeed(in)
		if err != nil {
			return nil, err
		}
		return &Table{
			Columns: []Column{
				Col("job_type", gavelJob),
				Unused("command"),
				Unused("num_steps_arg"),
				Unused("needs_data_dir"),
				Col("total_steps", Units("steps")),
				Col("arrival_time", Submit(time.Second)),
				Col("scale_factor", GPUs),
			},
			Finish: speed.bySteps,
		}, nil
	})
	f.Order, f.Profile = Sorted, gavelProfile
	return f
}

// gavel is the layout of Gavel's own traces.
func gavel() Format {
	f := headless("gavel", "Gavel (OSDI 2020)", '\t', []int{4, 5, 6, 7, 8, 9}, 0, func(in *Input) (*Table, error) {
		speed, err := newGavelSpeed(in)
		if err != nil {
			return nil, err
		}
		return &Table{
			Columns: []Column{
				Col("job_type", gavelJob),
				Unused("command"),
				Unused("working_dir"),
				Unused("num_steps_arg"),
				Unused("needs_data_dir"),
				Col("total_steps", Units("steps")),
				Col("scale_factor", GPUs),
				Col("priority_weight", gavelWeight),
				Col("SLO", gavelTarget),
				Col("arrival_time", Submit(time.Second)),
			},
			Finish: speed.bySteps,
		}, nil
	})
	f.Profile = gavelProfile
	return f
}

// shockwave is the layout of Shockwave's traces.
func shockwave() Format {
	f := headless("shockwave", "Shockwave, jobs that adapt their batch size (NSDI 2023)", '\t', []int{4, 5, 6, 8, 9, 10, 11}, 7, func(in *Input) (*Table, error) {
		speed, err := newShockwaveSpeed(in)
		if err != nil {
			return nil, err
		}
		return &Table{
			Columns: []Column{
				Col("job_type", gavelJob),
				Unused("command"),
				Unused("working_dir"),
				Unused("num_steps_arg"),
				Unused("needs_data_dir"),
				Col("total_steps", Units("steps")),
				Col("scale_factor", GPUs),
				Col("mode", hintText(func(h *job.Hints) *string { return &h.Adapts })),
				Col("priority_weight", gavelWeight),
				Col("SLO", gavelTarget),
				Col("duration", Work(time.Second)),
				Col("arrival_time", Submit(time.Second)),
			},
			Finish: func(r *Row) error {
				speed.adapts(r)
				return gavelDeadline(r)
			},
		}, nil
	})
	f.Profile = gavelProfile
	return f
}
