package reproduce

import "fmt"

// Studies of systems for unlike GPUs, processors and memory, and of fair rounds.

// synergy: 1.4 times the makespan of static FIFO on the physical cluster, and mean JCT at
// load 1.5 to 3.4 times, of the jobs in the steady state. At the load of the artifact its
// own simulator gives under FIFO 86.8 h in proportion and 21.9 h with tune.
func synergy() []Study {
	return []Study{{
		System: "synergy", Name: "static", CPU: 1, Policy: "synergy(order=fifo)",
		About:  "the authors' 100 jobs, all at once, on 4x8 GPUs",
		Worlds: limits(100, "golden/inputs/synergy_static100.trace.gz --cluster 4x8:V100 --assume cpu --beliefs true"),
		Claims: []Claim{
			{Baseline: "synergy(order=fifo,share=proportional)", Metric: makespan(), Published: exactly(1.4), Tolerance: 0.1, Place: "section 5.2, physical cluster"},
		},
	}, synergyAt("load", "one GPU each", 9, "", 0.25), synergyAt("gangs", "gangs of 1 to 8 GPUs", 3.6, " --gangs", 0.25)}
}

// synergyAt is the workload of the paper's simulations at a load.
func synergyAt(name, sizes string, perHour float64, flags string, tolerance float64) Study {
	world := func(jobs int) World {
		return World{Generate: fmt.Sprintf("--like synergy --jobs %d --per-hour %g%s --seed %%d", jobs, perHour, flags), Sim: "jobs.jsonl --cluster synergy --assume cpu --beliefs true --seed %d"}
	}
	study := func(from, to int) []Claim {
		var out []Claim
		for _, order := range []string{"srtf", "las", "fifo"} {
			out = append(out, Claim{Policy: "synergy(order=" + order + ")", Baseline: "synergy(order=" + order + ",share=proportional)", Metric: steadyJCT(from, to),
				Published: between(1.5, 3.4), Tolerance: tolerance, Place: "abstract; section 5.3"})
		}
		return out
	}
	return Study{
		System: "synergy", Name: name, CPU: 20, About: fmt.Sprintf("the workload of the paper, generated, %s, %g jobs an hour on 16x8 GPUs", sizes, perHour),
		Worlds: seeded(3, world(5000)), Quick: seeded(3, world(2000)), Claims: study(1000, 2000),
	}
}

// gavelFiles are the speeds of the authors, true and believed.
const gavelFiles = " --speeds data/gavel/simulation_throughputs.json.gz --profile data/gavel/simulation_throughputs.json.gz"

// gavel: on the physical cluster mean JCT 3.4 h and 5.1 h (simulated 3.7 and 5.4), makespan
// 17.7 h and 21.3 h. At saturation up to 3.5 times less JCT with single GPUs and 2.2 times
// with gangs. Their 300 jobs reach no steady state, so their load curve is of the order; the
// paper's counts of jobs are generated.
func gavel() []Study {
	const blind = "gavel(aware=false)"
	single := "golden/inputs/gavel_gen300s.trace.gz" + gavelFiles + " --cluster 2x4:V100+2x4:P100+2x4:K80 --load "
	gangs := "golden/inputs/gavel_gen300m.trace.gz" + gavelFiles + " --cluster 3x4:V100+3x4:P100+3x4:K80 --load "
	return []Study{{
		System: "gavel", Name: "physical", CPU: 2, Policy: "gavel",
		About:  "the authors' 96 jobs, all at once, on 3x4 GPUs of each of three types, speeds as measured",
		Worlds: limits(96, "golden/inputs/gavel_max_min_fairness.trace.gz --cluster 3x4:V100+3x4:P100+3x4:K80"+gavelFiles),
		Claims: []Claim{
			{Baseline: blind, Metric: meanJCT(), Published: exactly(1.5), Tolerance: 0.25, Place: "table 3, physical cluster"},
			{Policy: "gavel(objective=makespan)", Baseline: "gavel(objective=fifo,aware=false)", Metric: makespan(), Published: exactly(1.2), Tolerance: 0.25, Place: "table 3, physical cluster"},
			{Policy: "gavel(objective=makespan)", Baseline: "gandiva", Metric: makespan(), Published: exactly(1.4), Tolerance: 0.25, Place: "section 7.3"},
			{Policy: "gavel(objective=ftf)", Baseline: "gavel(objective=ftf,aware=false)", Metric: meanJCT(), Published: between(1, 3), Tolerance: 0.1, Place: "section 7.3, 3 at saturation"},
		},
	}, {
		System: "gavel", Name: "single", CPU: 2, Policy: "gavel",
		About:  "300 jobs of one GPU by the authors' generator on 2x4 GPUs of each of three types, arrivals 1, 1.5 and 2 times as fast",
		Worlds: []World{{Sim: single + "1"}, {Sim: single + "1.5"}, {Sim: single + "2"}},
		Claims: []Claim{
			{Baseline: blind, Metric: meanJCT(), Published: between(1.33, 3.5), Place: "figure 8, 3.5 at saturation"},
			{Policy: "gavel(objective=fifo)", Baseline: "gavel(objective=fifo,aware=false)", Metric: meanJCT(), Published: between(1, 2.7), Tolerance: 0.1, Place: "section 7.3, 2.7 at saturation"},
			{Baseline: "gavel(packed=true)", Metric: meanJCT(), Published: atLeast(0.7), Place: "space sharing is no worse"},
		},
	}, {
		System: "gavel", Name: "multiple", CPU: 1, Policy: "gavel",
		About:  "300 jobs of 1 to 8 GPUs by the authors' generator on 3x4 GPUs of each of three types, arrivals 1, 1.5 and 2 times as fast",
		Worlds: []World{{Sim: gangs + "1"}, {Sim: gangs + "1.5"}, {Sim: gangs + "2"}},
		Claims: []Claim{
			{Baseline: blind, Metric: meanJCT(), Published: between(1.5, 2.5), Tolerance: 0.1, Place: "figure 9, 2.2 at saturation"},
		},
	}, gavelSteady("steady", "of one GPU", 5.6, "", 90, Claim{Baseline: blind, Metric: settledJCT(), Published: exactly(3.5), Tolerance: 0.25, Place: "figure 8, 5.6 jobs an hour"}),
		gavelSteady("steady-below", "of one GPU", 4, "", 60, Claim{Baseline: blind, Metric: settledJCT(), Published: better(), Place: "figure 8, below saturation"}),
		gavelSteady("steady-gangs", "of 1 to 8 GPUs", 2.6, " --gangs", 240, Claim{Baseline: blind, Metric: settledJCT(), Published: exactly(2.2), Tolerance: 0.25, Place: "figure 9, 2.6 jobs an hour"})}
}

// gavelSteady is the workload of the paper's simulations at a load.
func gavelSteady(name, sizes string, perHour float64, flags string, cpu float64, claim Claim) Study {
	world := func(jobs int) World {
		return World{Generate: fmt.Sprintf("--like gavel --jobs %d --per-hour %g%s --seed %%d", jobs, perHour, flags), Sim: "jobs.jsonl --speeds data/gavel/simulation_throughputs.json.gz --cluster 9x4:V100+9x4:P100+9x4:K80 --seed %d"}
	}
	return Study{
		System: "gavel", Name: name, CPU: cpu, Policy: "gavel", About: fmt.Sprintf("jobs %s like the authors', generated, %g an hour on 9x4 GPUs of each of three types", sizes, perHour),
		Worlds: seeded(3, world(5500)), Quick: seeded(3, world(550)), Claims: []Claim{claim},
	}
}

// pop: mean JCT changes by less than 5 % for up to 8 parts.
func pop() []Study {
	sim := "golden/inputs/gavel_gen300s.trace.gz" + gavelFiles + " --cluster 2x4:V100+2x4:P100+2x4:K80"
	s := Study{
		System: "pop", Name: "single", CPU: 2, About: "300 jobs of one GPU by Gavel's generator on 2x4 GPUs of each of three types",
		Worlds: loads(1.5, sim),
	}
	for _, parts := range []string{"2", "4", "8"} {
		s.Claims = append(s.Claims, Claim{Policy: "pop(parts=" + parts + ")", Baseline: "gavel", Metric: meanJCT(), Published: exactly(1), Tolerance: 0.05, Place: "section 7; released logs"})
	}
	return []Study{s}
}

// allox: at high load mean JCT is up to 95 % below those of the baselines.
func allox() []Study {
	const cluster = "gpu-types: [{name: GPU}, {name: cpu, host: true}]\nnodes: [{count: 20, gpus: [{type: GPU, count: 1}, {type: cpu, count: 1}]}]\n"
	var hybrid []World
	for _, w := range loads(1, "golden/inputs/alloxsim_jobs_input_10_Google_debug.txt.gz --cluster cluster.yaml") {
		w.Cluster = cluster
		hybrid = append(hybrid, w)
	}
	return []Study{{
		System: "allox", Name: "hybrid", CPU: 3, Policy: "allox",
		About:  "the 10,000 jobs of ten users of the authors' simulator on 20 GPUs and 20 nodes without",
		Worlds: hybrid,
		Claims: []Claim{
			{Baseline: "sjf", Metric: meanJCT(), Published: better(), Place: "abstract: up to 95 % lower"},
			{Baseline: "drf", Metric: meanJCT(), Published: better(), Place: "abstract: up to 95 % lower"},
			{Baseline: "drf", Metric: p99JCT(), Published: better(), Place: "abstract: no starvation"},
			{Policy: "sjf", Baseline: "drf", Metric: meanJCT(), Published: better(), Place: "specification, acceptance 6"},
			{Policy: "allox(alpha=1)", Baseline: "allox", Metric: meanJCT(), Published: exactly(1), Tolerance: 0.25, Place: "section 5: nearly flat in alpha"},
		},
	}, {
		System: "allox", Name: "tacc120", CPU: 1, Policy: "allox",
		About:  "Shockwave's 120 jobs on 8x4 GPUs",
		Worlds: loads(1, tacc120),
		Claims: []Claim{
			{Baseline: "gavel", Metric: meanJCT(), Published: exactly(1.14), Tolerance: 0.25, Place: "Shockwave's shipped results"},
			{Policy: "gavel", Baseline: "allox", Metric: worstRho(), Published: exactly(1.68), Tolerance: 0.25, Place: "Shockwave's shipped results"},
		},
	}}
}

// tacc120 is the trace and cluster of Shockwave's authors. Speeds are those of jobs, without
// what a gang loses that is spread, as in their simulator.
const tacc120 = "golden/inputs/shockwave_tacc120.trace.gz --cluster 8x4:V100"

// shockwave: result files of the authors, 120 jobs on 32 GPUs.
func shockwave() []Study {
	const ftf, ossp = "gavel(objective=ftf)", "gavel(objective=makespan)"
	return []Study{{
		System: "shockwave", Name: "tacc120", CPU: 1, Policy: "shockwave",
		About:  "the authors' 120 jobs on 8x4 GPUs",
		Worlds: loads(1, tacc120),
		Claims: []Claim{
			{Baseline: "gavel", Metric: makespan(), Published: exactly(1.37), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: ftf, Metric: makespan(), Published: exactly(1.32), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: "allox", Metric: makespan(), Published: exactly(1.34), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: ossp, Metric: makespan(), Published: exactly(1.00), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: "gavel", Metric: meanJCT(), Published: exactly(1.13), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: ftf, Metric: meanJCT(), Published: exactly(1.13), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: "allox", Metric: meanJCT(), Published: exactly(1.00), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: ossp, Metric: meanJCT(), Published: exactly(1.99), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: "gavel", Metric: unfair(), Published: better(), Place: "shipped results: 27.5 % to 7.5 %"},
			{Baseline: ftf, Metric: unfair(), Published: better(), Place: "shipped results: 28.3 % to 7.5 %"},
			{Baseline: "allox", Metric: unfair(), Published: better(), Place: "shipped results: 30.8 % to 7.5 %"},
			{Baseline: "gavel", Metric: worstRho(), Published: exactly(1.66), Tolerance: 0.25, Place: "shipped results"},
			{Baseline: "allox", Metric: worstRho(), Published: exactly(2.78), Tolerance: 0.25, Place: "shipped results"},
		},
	}, shockwaveAsPublished()}
}

// shockwaveAsPublished has Gavel with the settings of the authors' simulator: rounds of two
// minutes, GPUs that are idle in a round left idle, and 20 s for a restart under all.
func shockwaveAsPublished() Study {
	const gavel, ftf = "gavel(idle=false,round=120s)", "gavel(idle=false,objective=ftf,round=120s)"
	return Study{
		System: "shockwave", Name: "tacc120-as-published", CPU: 1, Policy: "shockwave",
		About:  "the same with 20 s for a restart, and Gavel as in the authors' simulator",
		Worlds: loads(1, tacc120+" --cost restore=20s"),
		Claims: []Claim{
			{Baseline: gavel, Metric: makespan(), Published: exactly(1.37), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: ftf, Metric: makespan(), Published: exactly(1.32), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: gavel, Metric: meanJCT(), Published: exactly(1.13), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: ftf, Metric: meanJCT(), Published: exactly(1.13), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: gavel, Metric: unfair(), Published: better(), Place: "shipped results: 27.5 % to 7.5 %"},
			{Baseline: ftf, Metric: unfair(), Published: better(), Place: "shipped results: 28.3 % to 7.5 %"},
		},
	}
}
