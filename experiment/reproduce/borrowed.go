package reproduce

import (
	"bytes"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// Studies of systems that borrow nodes.

// lyra: mean queueing and JCT in seconds of simulations of a trace that is not published.
// Baseline 3072 and 16610, Lyra 2010 and 11236, ideal 1157 and 8891, loaning only 2212 and
// 12947, scaling only 2275 and 12048. With loaning only 14.94 % of the jobs are preempted, by
// the number of jobs 17.48 %, at random 20.89 %.
func lyra() []Study {
	const about = "jobs like the published ones, generated, on 55x8 GPUs beside 65 servers of an inference cluster that count as 4 GPUs each; 63 s for a restart, which begins anew"
	worlds := func(n int, ideal bool) (out []World) {
		for seed := range n {
			out = append(out, loaned(uint64(seed+1), ideal))
		}
		return out
	}
	const loaning, scaling = "lyra(scaling=false)", "lyra(loaning=false)"
	jct := func(policy, baseline string, published float64, place string) Claim {
		return Claim{Policy: policy, Baseline: baseline, Metric: meanJCT(), Published: exactly(published), Tolerance: 0.33, Place: place}
	}
	return []Study{{
		System: "lyra", Name: "basic", CPU: 40, Policy: "lyra", About: about,
		Worlds: worlds(5, false), Quick: worlds(3, false),
		Claims: []Claim{
			jct("", "fifo", 1.48, "table 5, basic"),
			{Baseline: "fifo", Metric: meanWait(), Published: exactly(1.53), Tolerance: 0.33, Place: "table 5, basic"},
			jct(loaning, "fifo", 1.28, "loaning only"),
			jct(scaling, "fifo", 1.38, "scaling only"),
			jct("", loaning, 1.15, "loaning only"),
			jct("", scaling, 1.07, "scaling only"),
			{Policy: loaning, Baseline: "lyra(scaling=false,reclaim=fewest)", Metric: stopped(), Published: exactly(1.17), Tolerance: 0.33, Place: "SCF"},
			{Policy: loaning, Baseline: "lyra(scaling=false,reclaim=random)", Metric: stopped(), Published: exactly(1.4), Tolerance: 0.33, Place: "random"},
		},
	}, {
		System: "lyra", Name: "ideal", CPU: 20, Policy: "lyra", About: about + "; every job is elastic and may run on both",
		Worlds: worlds(5, true), Quick: worlds(3, true),
		Claims: []Claim{jct("", "fifo", 1.87, "table 5, ideal")},
	}}
}

// loaned is a training cluster beside one that lends it servers. FIFO borrows none.
func loaned(seed uint64, ideal bool) World {
	return World{Make: func(_ string, c experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		spec, err := clusterspec.ReadText("cluster.yaml", []byte("nodes:\n- {count: 55, gpus: 8xV100}\n- {count: 65, gpus: 4xT4, labels: {lender: inference}}\n"))
		if err != nil {
			return nil, nil, err
		}
		jobs, err := gen.NewLoaned(gen.Loaned{GPUs: 440, Seed: seed, Ideal: ideal})
		if err != nil {
			return nil, nil, err
		}
		loans, err := diurnal(seed)
		if c.Policy == "fifo" {
			loans = []trace.Loan{{Lender: "inference"}}
		}
		x := &experiment.Experiment{Spec: spec, Whole: true, Seed: 1, Costs: &perf.Costs{Base: perf.Cost{Restore: 63 * time.Second}}}
		x.World = func(cfg *sim.Config) { cfg.Loans = loans }
		return x, experiment.Jobs(jobs).Source(), err
	}}
}

// diurnal is what an inference cluster lends that is busy by day, without notice.
func diurnal(seed uint64) ([]trace.Loan, error) {
	d := gen.NewDiurnal()
	d.Seed, d.Span = seed, 25*24*time.Hour
	var text bytes.Buffer
	if err := d.Write(&text); err != nil {
		return nil, err
	}
	return trace.ReadLoans(&text, "generated", trace.LoanOptions{Headroom: trace.DefaultHeadroom})
}
