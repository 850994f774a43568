// Package shockwave makes Norn behave like the simulator that was published with
// Shockwave (Zheng et al., NSDI 2023; uw-mad-dash/shockwave), a fork of Gavel's, for
// its own policy.
//
// Nouns: a task is a job of the trace, whose batch size changes as it runs; a profile
// is what the scheduler is told of it; rounds are as in Gavel's simulator, of two
// minutes. The window is planned by package policy/shockwave.
//
// Units: seconds from the zero of the trace; steps.
package shockwave

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/regime"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/shockwave"
	"github.com/norn-scheduler/norn/trace"
)

// Outcome is what became of a trace.
type Outcome struct {
	Result   *harness.Result
	Makespan float64
	Rho      []float64 // by job: JCT over the time alone times jobs per GPU
	Rounds   int
	Relaxed  int // windows in which not everybody could end in time
}

// Planned is the name of the simulator's own policy.
const Planned = "shockwave"

// Authors is the window with the parameters that the authors use for so many GPUs.
func Authors(gpus int) shockwave.Window {
	w := shockwave.Window{Rounds: 20, K: 1e-3, Lambda: 12, RhoMax: 1}
	switch {
	case gpus >= 256:
		w.K, w.Lambda = 1e5, 5
	case gpus >= 128:
		w.Lambda = 15
	case gpus >= 64:
		w.K, w.Lambda = 10, 5
	}
	return w
}

// Run runs a trace on so many V100 GPUs, with the throughputs in a table, under the
// simulator's own policy.
func Run(ctx context.Context, tracePath, speedsPath string, gpus int, w shockwave.Window) (*Outcome, error) {
	speeds, err := trace.ReadThroughputs(speedsPath, "v100")
	if err != nil {
		return nil, err
	}
	tasks, err := readTrace(tracePath, speeds)
	if err != nil {
		return nil, err
	}
	m := &machine{gpus: gpus, window: w, queue: tasks}
	if err := m.play(ctx, tasks, m.next); err != nil {
		return nil, err
	}
	return m.outcome(tasks), nil
}

func (m *machine) outcome(tasks []*task) *Outcome {
	o := &Outcome{Makespan: m.now, Rounds: m.round, Relaxed: m.relaxed, Result: &harness.Result{Columns: []string{"job_id", "submit", "start", "end", "jct"}}}
	o.Result.Append = func(dst []byte, r *harness.Row) []byte {
		dst = append(dst, r.Key...)
		for _, v := range []float64{r.Submit, r.Start, r.End, r.JCT()} {
			dst = harness.AppendFloat(append(dst, ','), v)
		}
		return dst
	}
	for _, t := range tasks {
		o.Result.Rows = append(o.Result.Rows, harness.Row{Key: strconv.Itoa(t.id), Submit: t.arrives, Start: t.start, End: t.end, Preempt: -1, Job: int32(t.id)})
		o.Rho = append(o.Rho, (t.end-t.arrives)/(t.alone*max(1, float64(len(tasks))/float64(m.gpus))))
	}
	return o
}

// readTrace reads a trace: lines of twelve fields, separated by tabs, without a
// header, in order of arrival.
func readTrace(path string, speeds *perf.Table) ([]*task, error) {
	text, err := harness.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var tasks []*task
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		t, err := readTask(strings.Split(strings.TrimSuffix(line, "\r"), "\t"), i, speeds)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, i+1, err)
		}
		if i > 0 && t.arrives < tasks[i-1].arrives {
			return nil, fmt.Errorf("%s, line %d: arrives before the job ahead of it", path, i+1)
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// maxSteps bounds the steps of a job.
const maxSteps = 1_000_000_000

// readTask reads one job: type, command, folder, argument, data, steps, GPUs, mode,
// weight, SLO, duration, arrival.
func readTask(v []string, id int, speeds *perf.Table) (*task, error) {
	if len(v) != 12 {
		return nil, fmt.Errorf("has %d fields, there should be 12", len(v))
	}
	model, rest, ok := strings.Cut(v[0], " (batch size ")
	batch, err1 := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	steps, err2 := strconv.ParseInt(v[5], 10, 64)
	gpus, err3 := strconv.Atoi(v[6])
	arrives, err4 := strconv.ParseFloat(v[11], 64)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return nil, err
		}
	}
	t := &task{id: id, model: model, mode: v[7], first: batch, batch: batch, gpus: gpus, arrives: arrives, steps: steps}
	switch {
	case !ok || regime.Samples(model) == 0:
		return nil, fmt.Errorf("%q is not a job type of Shockwave", v[0])
	case batch < 1 || steps < 1 || steps > maxSteps || gpus < 1 || !(arrives >= 0 && arrives <= harness.MaxSeconds):
		return nil, fmt.Errorf("%d steps on %d GPUs from %v on is out of range", steps, gpus, arrives)
	}
	known := map[int]float64{} // by batch size: it is asked for in each round
	t.speeds = func(batch int) (s float64, ok bool) {
		if s, ok = known[batch]; ok {
			return s, true
		}
		if s, ok = speeds.Rate(perf.Measured{Job: fmt.Sprintf("%s (batch size %d)", model, batch), GPUs: gpus, Type: "v100"}); ok {
			known[batch] = s
		}
		return s, ok
	}
	epochs := int(math.Ceil(float64(steps) / float64(regime.Iterations(model, batch))))
	var batches []int
	s := regime.Shape{Model: model, Batch: batch, GPUs: gpus}
	switch t.mode {
	case "gns":
		batches = gns(s, epochs)
	case "accordion":
		batches = accordion(s, epochs)
	case "static":
		batches = gns(regime.Shape{}, epochs)
		for i := range batches {
			batches[i] = batch
		}
	default:
		return nil, fmt.Errorf("%q is not a mode of Shockwave: static, accordion, gns", t.mode)
	}
	for _, b := range batches {
		if _, ok := t.speeds(b); !ok {
			return nil, fmt.Errorf("no speed of %s with batch size %d on %d GPUs was measured", model, b, gpus)
		}
	}
	t.profile, t.alone = newProfile(model, batches, func(b int) float64 { s, _ := t.speeds(b); return s })
	return t, nil
}
