package reproduce

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// The world of EasyScale: the trace of its artifact on 32 V100s, 16 P100s and 16 T4s. Rows tell the model,
// the workers, the epochs, the GPU type that is preferred, and whether a job may be on several types at once.
// They do not tell run times, and neither does the artifact tell how many steps an epoch of its simulator
// has. Steps are taken to be the same for all, and are fitted on one published figure.

const (
	// easyscaleSteps are the mini-batches of an epoch, of all workers together: with so many the jobs hold as many
	// GPU-seconds under easyscale(mix=false) as in the published run (trace_alloc.csv, 217,980).
	easyscaleSteps = 117

	easyscaleHomo = "easyscale(mix=false)"
)

// easyscaleSpeeds are the speeds of the GPU types. That of a P100 is the one of the example of the
// specification; a T4 is slower by its peak of single precision (8.1 and 9.3 TFLOPS).
var easyscaleSpeeds = map[string]float64{"V100": 1, "P100": 0.5, "T4": 0.435}

// easyscaleWorld is the trace, submitted so many times as fast. A job is elastic but under fifo. It is on
// the type that it prefers; with mixing, one that may be on several is on any.
func easyscaleWorld(load float64) World {
	const rows, steps = "data/easyscale/test.csv", "data/easyscale/context_switch.csv"
	return World{Needs: []string{rows, steps}, Make: func(data string, c experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		list, err := readRows(filepath.Join(data, filepath.FromSlash(rows)))
		if err != nil {
			return nil, nil, err
		}
		times, err := readRows(filepath.Join(data, filepath.FromSlash(steps)))
		if err != nil {
			return nil, nil, err
		}
		step := map[string]float64{}
		for _, row := range times {
			step[row["model"]] = onesJob{key: row["model"], row: row, fails: &err}.number("disable")
		}
		x, err := plain("4x8:V100+8x2:P100+4x4:T4")
		if err != nil {
			return nil, nil, err
		}
		for i := range x.Spec.Types {
			x.Spec.Types[i].Speed = easyscaleSpeeds[x.Spec.Types[i].Name]
		}
		x.Costs = &perf.Costs{Base: perf.Cost{Start: 20 * time.Second}}
		var jobs experiment.Jobs
		for i, row := range list {
			r := onesJob{key: row["name"], row: row, fails: &err}
			workers := int(r.number("max_parallelism"))
			d := job.GPUs(workers)
			if d.Types = strings.ToUpper(row["preferred_gpu"]); c.String() == "easyscale" && row["enable_heterogeneous_deterministic"] != "0" {
				d.Types = ""
			}
			if c.Policy != "fifo" {
				d.Roles[0].Min, d.Roles[0].Max = 1, int32(workers)
			}
			seconds := r.number("epochs") * easyscaleSteps * step[row["application"]] / float64(max(1, workers))
			jobs = append(jobs, trace.Entry{
				Job:   job.Job{Key: fmt.Sprint(i, "-", row["name"]), Name: row["application"], Model: row["application"], Demand: &d, Resize: job.TimeSliced, Submit: time.Duration(r.number("time") / load * float64(time.Second))},
				Truth: trace.Truth{Work: time.Duration(seconds * float64(time.Second))},
			})
		}
		slices.SortStableFunc(jobs, func(a, b trace.Entry) int { return cmp.Compare(a.Job.Submit, b.Job.Submit) })
		return x, renumbered(jobs).Source(), err
	}}
}

// easyscale: mean JCT 676.7 s, without mixing types 1,070.5 s, under YARN's capacity scheduler 8,905 s;
// makespan 6,000 s, 6,720 s and 16,560 s.
func easyscale() []Study {
	s := Study{
		System: "easyscale", Name: "trace", CPU: 1, Policy: "easyscale",
		About: "the trace of the artifact on 4x8 V100s, 8x2 P100s and 4x4 T4s, with run times by epochs and published steps, fitted to the published GPU-seconds; 20 s for a start",
		Claims: []Claim{
			{Baseline: "fifo", Metric: meanJCT(), Published: exactly(13.2), Tolerance: 0.33, Place: "artifact: 8,905 s, 676.7 s"},
			{Policy: easyscaleHomo, Baseline: "fifo", Metric: meanJCT(), Published: exactly(8.32), Tolerance: 0.33, Place: "artifact: 8,905 s, 1,070.5 s"},
			{Metric: meanJCT(), Published: exactly(676.7), Tolerance: 0.25, Place: "artifact"},
			{Policy: easyscaleHomo, Metric: meanJCT(), Published: exactly(1070.5), Tolerance: 0.25, Place: "artifact"},
			{Metric: makespan(), Published: exactly(6000), Tolerance: 0.1, Place: "artifact"},
			{Policy: easyscaleHomo, Metric: makespan(), Published: exactly(6720), Tolerance: 0.1, Place: "artifact"},
			{Baseline: easyscaleHomo, Metric: meanJCT(), Published: exactly(1.58), Tolerance: 0.25, Place: "artifact: 1,070.5 s, 676.7 s"},
			{Baseline: "fifo", Metric: makespan(), Published: exactly(2.76), Tolerance: 0.25, Place: "artifact: 16,560 s, 6,000 s"},
			{Policy: easyscaleHomo, Baseline: "fifo", Metric: makespan(), Published: exactly(2.46), Tolerance: 0.25, Place: "artifact: 16,560 s, 6,720 s"},
		},
	}
	for _, load := range []float64{1, 0.98, 1.02} {
		s.Worlds = append(s.Worlds, easyscaleWorld(load))
	}
	return []Study{s}
}
