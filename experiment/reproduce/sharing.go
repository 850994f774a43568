package reproduce

// Studies of systems that let jobs share GPUs.

// lucid: table 4 of the paper has mean JCTs in hours of FIFO 18.57, 14.21, 36.85 (Venus,
// Saturn, Philly), SJF 5.86, 2.36, 9.41, QSSF 5.15, 2.41, 9.03, Tiresias 4.09, 1.89, 9.02,
// Lucid 3.58, 1.79, 6.84. There all jobs are placed on as few nodes as can be, and
// Tiresias has a limit of 18,000 GPU-seconds and pays 40 s for a restart.
func lucid() []Study {
	const (
		tiresias = "tiresias(limits=18000,consolidate=all)"
		fifo     = "fifo(place=consolidated)"
		qssf     = "qssf(place=consolidated)"
		sjf      = "sjf(block=true,place=consolidated)"
	)
	return []Study{{
		System: "lucid", Name: "philly-week", Policy: "lucid", CPU: 35,
		About:  "first week of October 2017 of Philly on 108x8 GPUs, models drawn from those measured by the authors",
		Worlds: seeded(3, World{Sim: "data/philly/philly_jobs_reconstructed.csv.gz --whole --gpu-only --cluster 108x8:P100 --from 2017-10-01 --to 2017-10-08 --attempts merge --pairs data/lucid/colocate_info.csv --cost restore=40s --seed %d"}),
		Claims: []Claim{
			{Baseline: tiresias, Metric: meanJCT(), Published: exactly(1.32), Tolerance: 0.1, Place: "table 4"},
			{Baseline: qssf, Metric: meanJCT(), Published: exactly(1.32), Tolerance: 0.25, Place: "table 4"},
			{Baseline: sjf, Metric: meanJCT(), Published: exactly(1.38), Tolerance: 0.25, Place: "table 4"},
			{Baseline: fifo, Metric: meanJCT(), Published: exactly(5.39), Tolerance: 0.25, Place: "table 4"},
			{Baseline: tiresias, Metric: meanWait(), Published: atLeast(1.8), Place: "section 4.3"},
		},
	}, {
		System: "lucid", Name: "venus", Policy: "lucid", CPU: 20,
		About:  "6,000 jobs like those of Venus in September 2020, which is not to be had, on its 15 virtual clusters",
		Worlds: loads(1, "golden/inputs/lucid_synth6000_cluster_full_log.csv.gz --gpu-only --cluster helios-venus-lucid --cost restore=40s"),
		Claims: []Claim{
			{Baseline: tiresias, Metric: meanJCT(), Published: exactly(1.14), Tolerance: 0.25, Place: "table 4, Venus"},
			{Baseline: qssf, Metric: meanJCT(), Published: exactly(1.44), Tolerance: 0.25, Place: "table 4, Venus"},
			{Baseline: sjf, Metric: meanJCT(), Published: exactly(1.64), Tolerance: 0.25, Place: "table 4, Venus"},
			{Baseline: fifo, Metric: meanJCT(), Published: between(3, 5.19), Tolerance: 0.25, Place: "table 4, Venus"},
			{Baseline: tiresias, Metric: meanWait(), Published: atLeast(1.8), Place: "table 4, Venus"},
		},
	}}
}

// muri: figures 9 and 10 of the paper, by simulation; in traces with a prime all jobs come
// at once. Tiresias is the simulator's own, with a limit of 3,250 and 7,200 GPU-seconds.
func muri() []Study {
	const (
		short, long = "muri-s(round=0s)", "muri-l(round=0s)"
		tiresias    = "tiresias(limits=3250,7200)"
	)
	figures := []struct {
		trace                  string
		srtf, srsf, las, bound float64
	}{
		{"1", 1.58, 1.13, 3.11, 0.25}, {"2", 1.99, 1.65, 2.91, 0.25}, {"3", 2.26, 2.16, 3.92, 0.15}, {"4", 1.59, 1.33, 3.07, 0.15},
	}
	var out []Study
	for _, f := range figures {
		out = append(out, Study{
			System: "muri", Name: "trace" + f.trace, Policy: short, CPU: 10,
			About:  "the authors' trace " + f.trace + " on 8x8 GPUs",
			Worlds: loads(1, "golden/inputs/muri_trace"+f.trace+".csv.gz --cluster 8x8"),
			Claims: []Claim{
				{Baseline: "srtf", Metric: meanJCT(), Published: exactly(f.srtf), Tolerance: f.bound, Place: "figure 9"},
				{Baseline: "srsf", Metric: meanJCT(), Published: exactly(f.srsf), Tolerance: f.bound, Place: "figure 9"},
				{Policy: long, Baseline: tiresias, Metric: meanJCT(), Published: exactly(f.las), Tolerance: f.bound, Place: "figure 10"},
			},
		})
	}
	return out
}
