package reproduce

import "strings"

// Studies of systems that let jobs share GPUs.

// lucid: table 4 of the paper has mean JCTs in hours of FIFO 18.57, 14.21, 36.85 (Venus,
// Saturn, Philly), SJF 5.86, 2.36, 9.41, QSSF 5.15, 2.41, 9.03, Tiresias 4.09, 1.89, 9.02,
// Lucid 3.58, 1.79, 6.84. There all jobs are placed on as few nodes as can be, and
// Tiresias has a limit of 18,000 GPU-seconds and pays 40 s for a restart. Their simulator reads
// what jobs use from a file.
func lucid() []Study {
	const (
		tiresias = "tiresias(limits=18000,consolidate=all)"
		fifo     = "fifo(place=consolidated)"
		qssf     = "qssf(place=consolidated)"
		sjf      = "sjf(block=true,place=consolidated)"
	)
	return []Study{{
		System: "lucid", Name: "philly-week", CPU: 28, Policy: "lucid",
		About:  "first week of October 2017 of Philly on 108x8 GPUs, models drawn from those measured by the authors",
		Worlds: seeded(3, World{Sim: "data/philly/philly_jobs_reconstructed.csv.gz --whole --gpu-only --cluster 108x8:P100 --from 2017-10-01 --to 2017-10-08 --attempts merge --pairs data/lucid/colocate_info.csv --beliefs true --cost restore=40s --seed %d"}),
		Claims: []Claim{
			{Baseline: tiresias, Metric: meanJCT(), Published: exactly(1.32), Tolerance: 0.1, Place: "table 4"},
			{Baseline: qssf, Metric: meanJCT(), Published: exactly(1.32), Tolerance: 0.25, Place: "table 4"},
			{Baseline: sjf, Metric: meanJCT(), Published: exactly(1.38), Tolerance: 0.25, Place: "table 4"},
			{Baseline: fifo, Metric: meanJCT(), Published: exactly(5.39), Tolerance: 0.25, Place: "table 4"},
			{Baseline: tiresias, Metric: meanWait(), Published: atLeast(1.8), Place: "section 4.3"},
		},
	}, {
		System: "lucid", Name: "venus", CPU: 15, Policy: "lucid",
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

// muri: figures 9 and 10 of the paper, by simulation. The limits of Tiresias are those of
// the authors' simulator, 3,250 and 7,200 GPU-seconds, and those that docs/policies/tiresias.md
// recommends for jobs as long as these.
func muri() []Study {
	const short, long = "muri-s(round=0s)", "muri-l(round=0s)"
	figures := []struct {
		trace                  string
		srtf, srsf, las, bound float64
	}{
		{"1", 1.58, 1.13, 3.11, 0.25}, {"2", 1.99, 1.65, 2.91, 0.25}, {"3", 2.26, 2.16, 3.92, 0.15}, {"4", 1.59, 1.33, 3.07, 0.15},
	}
	var out []Study
	for _, f := range figures {
		s := Study{
			System: "muri", Name: "trace" + f.trace, Policy: short, CPU: 50,
			About:  "the authors' trace " + f.trace + " on 8x8 GPUs",
			Worlds: loads(1, "golden/inputs/muri_trace"+f.trace+".csv.gz --cluster 8x8"),
			Claims: []Claim{
				{Baseline: "srtf", Metric: meanJCT(), Published: exactly(f.srtf), Tolerance: f.bound, Place: "figure 9"},
				{Baseline: "srsf", Metric: meanJCT(), Published: exactly(f.srsf), Tolerance: f.bound, Place: "figure 9"},
				{Policy: long, Baseline: longLimits, Metric: meanJCT(), Published: exactly(f.las), Tolerance: f.bound, Place: "figure 10"},
			},
		}
		if f.trace != "3" {
			s.Quick = loads(1, "golden/inputs/muri_trace"+f.trace+".csv.gz --limit 1000 --cluster 8x8")
		} else {
			s.Claims = append(s.Claims,
				Claim{Policy: long, Baseline: "tiresias(limits=3250,7200)", Metric: meanJCT(), Published: exactly(f.las), Tolerance: f.bound, Place: "figure 10"},
				Claim{Policy: long, Baseline: "antman", Metric: meanJCT(), Published: exactly(3.44), Tolerance: 0.25, Place: "figure 10"})
		}
		out = append(out, s)
	}
	return out
}

// longLimits is Tiresias as its page recommends it for jobs that run for days.
const longLimits = "tiresias(limits=3200,32000,320000,3200000)"

// antman: on 64 GPUs mean JCT 2.05 times below that of YARN-CS and 1.84 times below that
// of Gandiva, makespan 1.76 and 1.67 times (recalled by the specification).
func antman() []Study {
	const yarn = "fifo(place=consolidated)"
	return []Study{{
		System: "antman", Name: "philly64", CPU: 13, Policy: "antman",
		About:  "jobs like those of Philly, generated, load 1 on 8x8 GPUs, that use their GPUs as measured",
		Worlds: seeded(3, World{Generate: "--like philly --gpus 64 --max-gpus 16 --max-run 2d --span 7d --offered-load 1.0 --seed %d", Sim: "jobs.jsonl --cluster 8x8:V100 --assume use --slowdown gaps --cost restore=30s --seed %d"}),
		Claims: []Claim{
			{Baseline: yarn, Metric: meanJCT(), Published: exactly(2.05), Tolerance: 0.25, Place: "section 5.4"},
			{Baseline: "gandiva", Metric: meanJCT(), Published: exactly(1.84), Tolerance: 0.25, Place: "section 5.4"},
			{Baseline: yarn, Metric: makespan(), Published: exactly(1.76), Tolerance: 0.25, Place: "section 5.4"},
			{Baseline: "gandiva", Metric: makespan(), Published: exactly(1.67), Tolerance: 0.25, Place: "section 5.4"},
		},
	}}
}

// iadeep: the abstract gives no ratio; the specification asks for 15 % less than sharing
// as AntMan does, and 10 % less than without tuning.
func iadeep() []Study {
	return []Study{{
		System: "iadeep", Name: "philly", CPU: 9, Policy: "iadeep",
		About:  "a virtual cluster of Philly (0e4a51) on 24x8 GPUs, tasks drawn from the authors' eight",
		Worlds: seeded(3, World{Sim: "data/philly/pcs/trace_0e4a51.csv --cluster 24x8:V100 --assume tasks --cost checkpoint=15s,restore=30s --seed %d"}),
		Claims: []Claim{
			{Baseline: "iadeep(choose=first-fit,tune=false)", Metric: meanJCT(), Published: atLeast(1.18), Place: "specification, section 6"},
			{Baseline: "iadeep(tune=false)", Metric: meanJCT(), Published: atLeast(1.11), Place: "specification, section 6"},
			{Baseline: "fifo", Metric: meanJCT(), Published: better(), Place: "abstract"},
		},
	}}
}

// muxflow: matching is to do at least 15 % more than a greedy choice with half of a GPU, with the
// speeds of the world told, as the specification has it.
func muxflow() []Study {
	return []Study{{
		System: "muxflow", Name: "services", CPU: 4, Policy: "muxflow",
		About:  "the built-in trace beside generated services on 6x8 GPUs",
		Worlds: seeded(3, World{Sim: "--cluster 6x8:V100 --assume services --beliefs true --seed %d"}),
		Claims: []Claim{
			{Baseline: "muxflow(match=greedy)", Metric: meanJCT(), Published: atLeast(1.15), Place: "specification, acceptance 6"},
			{Baseline: "muxflow(match=greedy,fixed=0.5)", Metric: meanJCT(), Published: between(1.1, 2.2), Tolerance: 0.25, Place: "specification, section 5"},
		},
	}}
}

// bsbf: mean JCT 27 to 33 % below preemptive schedulers, up to 17 % below first-fit
// sharing, makespan no worse than that of SJF.
func bsbf() []Study {
	return []Study{{
		System: "bsbf", Name: "muri-trace3", CPU: 25, Policy: "bsbf",
		About:  "Muri's trace 3 on 8x8 GPUs with the measured stages of its models, 30 s for a restart",
		Worlds: loads(1, "golden/inputs/muri_trace3.csv.gz --cluster 8x8 --cost restore=30s"),
		Quick:  loads(1, "golden/inputs/muri_trace3.csv.gz --limit 600 --cluster 8x8 --cost restore=30s"),
		Claims: []Claim{
			{Baseline: longLimits, Metric: meanJCT(), Published: between(1.37, 1.49), Tolerance: 0.25, Place: "abstract"},
			{Baseline: "bsbf(share=first-fit)", Metric: meanJCT(), Published: between(1.05, 1.2), Tolerance: 0.25, Place: "abstract"},
			{Baseline: "sjf", Metric: meanJCT(), Published: better(), Place: "abstract"},
			{Baseline: "sjf", Metric: makespan(), Published: better(), Tolerance: 0.01, Place: "specification, acceptance 6"},
		},
	}}
}

// gimbal: up to 1.32 times better than pairs of equal size, no objective worse.
func gimbal() []Study {
	const pairs, arrived, arrivedPairs = "gimbal(pack=equal,calibrate=false)", "gimbal(order=fifo)", "gimbal(order=fifo,pack=equal,calibrate=false)"
	w := World{
		Generate: "--like philly --gpus 64 --max-gpus 16 --max-run 1d --span 7d --offered-load 0.8 --seed %d",
		Sim:      "jobs.jsonl --cluster 8x8:V100 --assume batches --slowdown parts --cost checkpoint=15s,restore=30s,migrate=5s --seed %d",
	}
	brief := w
	brief.Generate = strings.Replace(w.Generate, "--span 7d", "--span 2d", 1)
	return []Study{{
		System: "gimbal", Name: "philly64", CPU: 60, Policy: "gimbal",
		About:  "jobs like those of Philly, generated, load 0.8 on 8x8 GPUs",
		Worlds: seeded(3, w), Quick: seeded(3, brief),
		Claims: []Claim{
			{Baseline: pairs, Metric: meanJCT(), Published: between(1.1, 1.35), Tolerance: 0.05, Place: "specification, acceptance 5"},
			{Policy: arrived, Baseline: arrivedPairs, Metric: meanJCT(), Published: between(1.1, 1.35), Tolerance: 0.25, Place: "specification, acceptance 5"},
			{Baseline: pairs, Metric: meanWait(), Published: better(), Place: "abstract"},
		},
	}}
}

// rmixer: up to 5.3 times the throughput of one job after the other on one GPU, and the
// order of its policies and baselines.
func rmixer() []Study {
	const mix = "rmixer(beta=4,batch-window=0)"
	other := func(job, device string) string {
		return "rmixer(job-policy=" + job + ",device-policy=" + device + ",cpu-workers=0,batch-window=0)"
	}
	nodes := func(gpus string) string {
		return "gpu-types: [{name: V100, memory: 16160MiB}, {name: cpu, host: true}]\nnodes: [{count: 1, gpus: [{type: V100, count: " + gpus + "}, {type: cpu, count: 1}]}]\n"
	}
	lists := func(gpus, jobs string) []World {
		var out []World
		for _, list := range []string{"balance", "bandwidth", "computing", "memory"} {
			out = append(out, World{Cluster: nodes(gpus), Generate: "--like dlrm --list " + list + " --jobs " + jobs + " --seed 1", Sim: "jobs.jsonl --cluster cluster.yaml --switching 0.03"})
		}
		return out
	}
	return []Study{{
		System: "rmixer", Name: "one-gpu", CPU: 1, Policy: mix,
		About:  "the four lists of 24 recommendation jobs, made by the authors' measurements, on one GPU and two workers on processors",
		Worlds: lists("1", "24"),
		Claims: []Claim{
			{Baseline: "rmixer(job-policy=monolithic,batch-window=0)", Metric: makespan(), Published: between(3, 5.3), Tolerance: 0.1, Place: "abstract, 5.3 at best"},
			{Baseline: other("dyMix", "dyMemo"), Metric: makespan(), Published: better(), Place: "specification, acceptance 6"},
			{Baseline: other("dyType", "dyMemo"), Metric: makespan(), Published: better(), Place: "specification, acceptance 6"},
			{Baseline: other("cognn", "dyMemo"), Metric: makespan(), Published: better(), Place: "specification, acceptance 6"},
		},
	}, {
		System: "rmixer", Name: "four-gpus", CPU: 1, Policy: mix,
		About:  "the four lists of 72 recommendation jobs on four GPUs and two workers on processors",
		Worlds: lists("4", "72"),
		Claims: []Claim{
			{Baseline: "rmixer(job-policy=monolithic,batch-window=0)", Metric: makespan(), Published: better(), Place: "abstract"},
			{Baseline: other("dyType", "dyMemo"), Metric: makespan(), Published: better(), Place: "specification, acceptance 6"},
			{Baseline: other("cognn", "dyMemo"), Metric: makespan(), Published: better(), Place: "specification, acceptance 6"},
		},
	}}
}
