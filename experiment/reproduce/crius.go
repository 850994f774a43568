package reproduce

import (
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
)

// horizon is for how long the authors' runs of the testbed's trace go.
const horizon = 22_000 * time.Second

// doneBy is the jobs that are done a time after the first was submitted.
func doneBy(after time.Duration) Metric {
	return Metric{Key: "done", Name: "jobs done by " + after.String(), Higher: true, Of: func(o *experiment.Outcome) float64 {
		done := 0
		for i := range o.State.Jobs() {
			if r := o.State.Record(job.ID(i)); r.Phase == job.Done && r.End-o.State.Record(0).Job.Submit <= after {
				done++
			}
		}
		return float64(done)
	}}
}

// criusStudies: mean JCT 48.9 % lower on a testbed of 32 A40s and 32 A10s, on which the authors' simulator has 139
// jobs done after six hours under Crius, 52 under FCFS and Gandiva, 63 under Gavel. In simulation, on 1,280 GPUs of four types,
// JCT 81.3 % lower than under FCFS, 76.6 % than under Gavel.
func criusStudies() []Study {
	const plans, fifo, nochange = "data/arena/prof_database_optimal.json", "fifo", "crius(types=false)"
	const large = " --assume hybrid --speeds " + plans + " --profile " + plans + " --cost restore=30s,resize=30s,migrate=30s"
	const testbed = "data/arena/runtime_trace.csv --cluster 16x2:A40+16x2:A10" + large
	const simulated = "data/arena/simulate_trace_philly.csv.gz --cluster 80x4:A100+20x16:V100+160x2:A40+160x2:A10" + large
	return []Study{{
		System: "crius", Name: "testbed", CPU: 1, Policy: "crius",
		About:  "the authors' 244 jobs for their testbed on 32 A40s and 32 A10s, two in a node, with the best plans that they measured, 30 s for a change",
		Worlds: loads(1, testbed),
		Claims: []Claim{
			{Baseline: fifo, Metric: meanJCT(), Published: exactly(1.96), Tolerance: 0.25, Place: "abstract: 48.9 % lower"},
			{Baseline: fifo, Metric: doneBy(horizon), Published: exactly(2.67), Tolerance: 0.25, Place: "artifact: 139 and 52 jobs, simulated"},
			{Baseline: "gavel", Metric: doneBy(horizon), Published: exactly(2.21), Tolerance: 0.25, Place: "artifact: 139 and 63 jobs, simulated"},
			{Baseline: "gandiva", Metric: doneBy(horizon), Published: exactly(2.67), Tolerance: 0.25, Place: "artifact: 139 and 52 jobs, simulated"},
			{Baseline: "gavel", Metric: meanJCT(), Published: better(), Place: "abstract"},
			{Baseline: "sia", Metric: meanJCT(), Published: better(), Place: "section 8"},
			{Baseline: "crius(scale=false)", Metric: meanJCT(), Published: better(), Place: "ablation: without other numbers of GPUs"},
			{Baseline: nochange, Metric: meanJCT(), Published: better(), Place: "ablation: without other types"},
		},
	}, {
		System: "crius", Name: "philly", CPU: 60, Policy: "crius",
		About:  "the authors' 1,938 jobs like Philly's on 1,280 GPUs of four types, with a fifth of the iterations or as much more time, as they have it; in the quick form 400 jobs of it",
		Worlds: loads(0.2, simulated), Quick: loads(0.2, simulated+" --limit 400"),
		Claims: []Claim{
			{Baseline: fifo, Metric: meanJCT(), Published: exactly(5.35), Tolerance: 0.25, Place: "81.3 % lower, by the specification"},
			{Baseline: "gavel", Metric: meanJCT(), Published: exactly(4.27), Tolerance: 0.25, Place: "76.6 % lower, by the specification"},
		},
	}}
}
