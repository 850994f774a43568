package reproduce

// Studies of systems for unlike GPUs, processors and memory, and of fair rounds.

// synergy: 1.4 times the makespan of static FIFO, mean JCT at load 1.5 to 3.4 times.
func synergy() []Study {
	return []Study{{
		System: "synergy", Name: "static", Policy: "synergy(order=fifo)", CPU: 1,
		About:  "the authors' 100 jobs, all at once, on 4x8 GPUs",
		Worlds: loads(1, "golden/inputs/synergy_static100.trace.gz --cluster 4x8:V100 --assume cpu"),
		Claims: []Claim{
			{Baseline: "synergy(order=fifo,share=proportional)", Metric: makespan(), Published: exactly(1.4), Tolerance: 0.1, Place: "section 5.2, physical cluster"},
		},
	}}
}

// gavel: the run on the authors' physical cluster.
func gavel() []Study {
	return []Study{{
		System: "gavel", Name: "physical", Policy: "gavel", CPU: 2,
		About:  "the authors' 96 jobs on 3x4 GPUs of each of three types, speeds as measured",
		Worlds: loads(1, "golden/inputs/gavel_max_min_fairness.trace.gz --cluster 3x4:V100+3x4:P100+3x4:K80 --speeds data/gavel/simulation_throughputs.json.gz --profile data/gavel/simulation_throughputs.json.gz"),
		Claims: []Claim{
			{Baseline: "gavel(aware=false)", Metric: meanJCT(), Published: exactly(1.5), Tolerance: 0.25, Place: "table 3, physical cluster"},
		},
	}}
}

// shockwave: result files of the authors, 120 jobs on 32 GPUs.
func shockwave() []Study {
	const ftf, ossp = "gavel(objective=ftf)", "gavel(objective=makespan)"
	return []Study{{
		System: "shockwave", Name: "tacc120", Policy: "shockwave", CPU: 2,
		About:  "the authors' 120 jobs on 8x4 GPUs",
		Worlds: loads(1, "golden/inputs/shockwave_tacc120.trace.gz --cluster 8x4:V100 --speeds data/shockwave/tacc_throughputs.json.gz"),
		Claims: []Claim{
			{Baseline: "gavel", Metric: makespan(), Published: exactly(1.37), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: ftf, Metric: makespan(), Published: exactly(1.32), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: "allox", Metric: makespan(), Published: exactly(1.34), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: ossp, Metric: makespan(), Published: exactly(1.00), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: "gavel", Metric: meanJCT(), Published: exactly(1.13), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: ftf, Metric: meanJCT(), Published: exactly(1.13), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: "allox", Metric: meanJCT(), Published: exactly(1.00), Tolerance: 0.1, Place: "shipped results"},
			{Baseline: "gavel", Metric: unfair(), Published: better(), Place: "shipped results: 27.5 % to 7.5 %"},
		},
	}}
}
