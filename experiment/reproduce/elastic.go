package reproduce

// Studies of systems that change the sizes of jobs.

// pollux: mean JCT 0.76 h; Optimus+oracle, tuned 1.5 h; Tiresias, tuned 1.2 h (testbed).
func pollux() []Study {
	return []Study{{
		System: "pollux", Name: "workloads", Policy: "pollux", CPU: 60,
		About:  "the authors' workloads on 16x4 GPUs, batch sizes chosen by the jobs",
		Worlds: each("data/pollux_sia/workloads_pollux/workloads/workload-%s.csv --cluster pollux --assume goodput", "1", "2", "3", "4", "5", "6", "7", "8"),
		Quick:  each("data/pollux_sia/workloads_pollux/workloads/workload-%s.csv --cluster pollux --assume goodput", "1", "3", "6"),
		Claims: []Claim{
			{Baseline: "tiresias(limits=57600)", Metric: meanJCT(), Published: exactly(1.58), Tolerance: 0.15, Place: "table 2"},
			{Baseline: "optimus", Metric: meanJCT(), Published: exactly(1.97), Tolerance: 0.25, Place: "table 2"},
		},
	}}
}
