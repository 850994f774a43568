package trace

import (
	"bytes"
	"time"

	"github.com/norn-scheduler/norn/unit"
)

// Traces of Gavel (OSDI 2020) and Shockwave (NSDI 2023): lines of fields
// separated by tabs, without a header. A job tells its steps; Shockwave's tells
// its run time too.

const gavelProfile = "a table of throughputs of Gavel (JSON), for the GPU type of Options.GPU or v100"

// gavelRow is what several columns of a line say together.
type gavelRow struct {
	in    *Input
	speed func(jobType string, gpus int) (float64, bool)
	slo   float64
}

func newGavelRow(in *Input) (*gavelRow, error) {
	g := &gavelRow{in: in, speed: gavelNominal}
	if in.Options.Profile == "" {
		in.Nominal("steps at the speeds that Gavel measured on V100 GPUs")
		return g, nil
	}
	table, err := readGavelProfile(in.Options.Profile, in.Options.GPU)
	if err != nil {
		return nil, err
	}
	in.Nominal("steps at the speeds in " + in.Options.Profile)
	g.speed = table.speed
	return g, nil
}

// jobType stores "ResNet-18 (batch size 64)": the whole as the name, for tables
// of throughputs are keyed by it, and its parts.
func (g *gavelRow) jobType(r *Row, v []byte) error {
	r.Job.Name = r.Text(v)
	model, rest, found := bytes.Cut(v, []byte(" (batch size "))
	r.Job.Model = r.Text(model)
	if !found {
		return nil
	}
	return Batch(r, bytes.TrimSuffix(rest, []byte{')'}))
}

func (g *gavelRow) weight(r *Row, v []byte) error {
	w, ok := ParseFloat(v)
	if !ok || w < 0 {
		return wantAmount
	}
	if w != 1 {
		r.Hints().Weight = w
	}
	return nil
}

func (g *gavelRow) target(_ *Row, v []byte) error {
	slo, ok := ParseFloat(v)
	if !ok {
		return wantNumber
	}
	g.slo = slo
	return nil
}

// setDeadline turns the target, a multiple of the run time, into a deadline.
func (g *gavelRow) setDeadline(r *Row) error {
	if g.slo <= 0 {
		return nil
	}
	d, err := unit.Seconds(r.Truth.Work.Seconds() * g.slo)
	r.Job.Deadline = r.Job.Submit + d
	if err == nil && d > century {
		err = Want("a target within a century")
	}
	return err
}

// bySteps sets the run time from the steps.
func (g *gavelRow) bySteps(r *Row) error {
	gpus := r.Shape.GPUs / unit.One
	speed, ok := g.speed(r.Job.Name, int(gpus))
	if !ok || speed <= 0 {
		return Want("a job type whose speed is known, not " + r.Job.Name)
	}
	work, err := unit.Seconds(r.Job.Units / speed)
	if err != nil {
		return err
	}
	r.Truth.Work = work
	return g.setDeadline(r)
}

// headless makes a format of lines without a header. It matches a file whose
// first line has as many fields as the table has columns, numbers in those
// named, and text in the first of the others.
func headless(name, title string, comma byte, numbers []int, text int, table func(in *Input) (*Table, error)) Format {
	return Format{
		Name: name, Title: title,
		Match: func(h *Head) int {
			first := h.Columns(0, comma)
			t, err := table(&Input{Options: &Options{}, info: &Info{}, pool: &pool{}})
			if err != nil || len(first) != len(t.Columns) {
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
		g, err := newGavelRow(in)
		if err != nil {
			return nil, err
		}
		return &Table{
			Columns: []Column{
				Col("job_type", g.jobType),
				Unused("command"),
				Unused("num_steps_arg"),
				Unused("needs_data_dir"),
				Col("total_steps", Units("steps")),
				Col("arrival_time", Submit(time.Second)),
				Col("scale_factor", GPUs),
			},
			Finish: g.bySteps,
		}, nil
	})
	f.Order, f.Profile = Sorted, gavelProfile
	return f
}

// gavel is the layout of Gavel's own traces.
func gavel() Format {
	f := headless("gavel", "Gavel (OSDI 2020)", '\t', []int{4, 5, 6, 7, 8, 9}, 0, func(in *Input) (*Table, error) {
		g, err := newGavelRow(in)
		if err != nil {
			return nil, err
		}
		return &Table{
			Columns: []Column{
				Col("job_type", g.jobType),
				Unused("command"),
				Unused("working_dir"),
				Unused("num_steps_arg"),
				Unused("needs_data_dir"),
				Col("total_steps", Units("steps")),
				Col("scale_factor", GPUs),
				Col("priority_weight", g.weight),
				Col("SLO", g.target),
				Col("arrival_time", Submit(time.Second)),
			},
			Finish: g.bySteps,
		}, nil
	})
	f.Profile = gavelProfile
	return f
}

// shockwave is the layout of Shockwave's traces.
func shockwave() Format {
	return headless("shockwave", "Shockwave, jobs that adapt their batch size (NSDI 2023)", '\t', []int{4, 5, 6, 8, 9, 10, 11}, 7, func(in *Input) (*Table, error) {
		g := &gavelRow{in: in}
		return &Table{
			Columns: []Column{
				Col("job_type", g.jobType),
				Unused("command"),
				Unused("working_dir"),
				Unused("num_steps_arg"),
				Unused("needs_data_dir"),
				Col("total_steps", Units("steps")),
				Col("scale_factor", GPUs),
				Col("mode", func(r *Row, v []byte) error { r.Hints().Adapts = r.Text(v); return nil }),
				Col("priority_weight", g.weight),
				Col("SLO", g.target),
				Col("duration", Work(time.Second)),
				Col("arrival_time", Submit(time.Second)),
			},
			Finish: g.setDeadline,
		}, nil
	})
}
