package reproduce

// Studies of systems that order and place whole jobs.

// helios: table 5 of the paper, mean JCT in s under FIFO, SJF, QSSF: Venus 64,702, 21,095,
// 18,349; Philly 86,072, 34,272, 37,324; mean wait Venus 52,933, 9,325, 6,580; Philly
// 56,531, 4,731, 7,783.
func helios() []Study {
	const fifo, sjf = "fifo(place=consolidated)", "sjf(block=true,place=consolidated)"
	philly := "data/philly/philly_jobs_reconstructed.csv.gz --attempts merge --from 2017-10-01 --to 2017-12-01 --tenant 6214e9,7f04ca,11cb48,b436b2,ee9e8c,e13805,6c71a0,2869ce,ed69ec,103959,0e4a51 --cluster philly-qssf"
	return []Study{{
		System: "helios", Name: "venus", CPU: 1, Policy: "qssf",
		About:  "6,000 jobs like those of Venus in September 2020, which is not to be had, on its 15 virtual clusters",
		Worlds: loads(1, "golden/inputs/lucid_synth6000_cluster_full_log.csv.gz --gpu-only --cluster helios-venus-lucid"),
		Claims: []Claim{
			{Baseline: fifo, Metric: meanJCT(), Published: between(1.5, 6.5), Place: "section 6.1"},
			{Baseline: sjf, Metric: meanJCT(), Published: exactly(1.15), Tolerance: 0.15, Place: "table 5, Venus"},
			{Baseline: fifo, Metric: meanWait(), Published: between(4.8, 20.2), Tolerance: 0.25, Place: "section 6.1"},
		},
	}, {
		System: "helios", Name: "philly", CPU: 20, Policy: "qssf",
		About:  "October and November of Philly on 352x8 GPUs in 11 virtual clusters",
		Worlds: loads(1, philly), Quick: loads(1, philly+" --limit 25000"),
		Claims: []Claim{
			{Baseline: fifo, Metric: meanJCT(), Published: exactly(2.31), Tolerance: 0.25, Place: "table 5, Philly"},
			{Baseline: sjf, Metric: meanJCT(), Published: exactly(0.92), Tolerance: 0.15, Place: "table 5, Philly"},
			{Baseline: fifo, Metric: meanWait(), Published: exactly(7.26), Tolerance: 0.25, Place: "table 5, Philly"},
		},
	}, {
		System: "helios", Name: "sleep", CPU: 4, Policy: fifo,
		About:  "half a year of Venus, as far as it is published, on 133 nodes, of which idle ones sleep by CES",
		Worlds: loads(1, "data/helios/venus_gpu_jobs.csv.gz --whole --gpu-only --cluster 133x8:V100 --sleep ces"),
		Claims: []Claim{
			{Metric: nodesBusy(), Published: exactly(0.962), Tolerance: 0.25, Place: "table 6, Venus"},
			{Metric: wakes(), Published: exactly(1.1), Tolerance: 0.25, Place: "table 6, Venus"},
			{Metric: delayed(), Published: exactly(0.00127), Tolerance: 0.25, Place: "section 6.3, 251 of 198,000 jobs of four clusters"},
		},
	}}
}

// philly: what delays gangs is mostly that free GPUs are scattered.
func philly() []Study {
	return []Study{{
		System: "philly", Name: "log", CPU: 2, Policy: "philly",
		About:  "the whole log on its 2,490 GPUs, virtual clusters with equal quotas",
		Worlds: loads(1, "data/philly/philly_jobs_reconstructed.csv.gz --cluster philly"),
		Claims: []Claim{
			{Metric: fragmented(), Published: exactly(0.8), Tolerance: 0.25, Place: "section 3.1.1, recalled by the specification"},
		},
	}}
}

// pai: table of the published simulator's output, mean JCT in s: SJF 5,988.61, SJGG
// 6,001.94, SJG 6,071.01, SJU 6,278.33, FIFO 7,918.47; mean wait 949.91 to 2,879.77.
func pai() []Study {
	const sjf, sjgg, sjg, sju, fifo = "pai(by=estimate,predict=trace)", "pai(by=group-size,predict=trace)", "pai(by=group,predict=trace)", "pai(by=user,predict=trace)", "pai(by=submit,predict=trace)"
	const place = "figure 19; the simulator's output"
	return []Study{{
		System: "pai", Name: "synthetic", CPU: 1, Policy: sjf,
		About:  "10,000 generated jobs in the columns of the authors' trace, which is not to be had, on a node of 300 GPUs",
		Worlds: loads(1, "golden/inputs/pai_synth10k.csv.gz --cluster g300 --any-type"),
		Claims: []Claim{
			{Baseline: fifo, Metric: meanJCT(), Published: exactly(1.32), Tolerance: 0.25, Place: place},
			{Policy: sjgg, Baseline: fifo, Metric: meanWait(), Published: exactly(2.99), Tolerance: 0.25, Place: place},
			{Baseline: sjgg, Metric: meanJCT(), Published: exactly(1), Tolerance: 0.01, Place: place + ", 1.002"},
			{Baseline: sjg, Metric: meanJCT(), Published: exactly(1.014), Tolerance: 0.05, Place: place},
			{Baseline: sju, Metric: meanJCT(), Published: exactly(1.048), Tolerance: 0.05, Place: place},
		},
	}, {
		System: "pai", Name: "sample", CPU: 1, Policy: "pai(by=group-size)",
		About:  "60,105 tasks of the real log on 64x8 GPUs; groups are names of roles, and predictions are learnt",
		Worlds: loads(1, "data/alibaba_pai2020/pai_terminated_tasks_sample60k.csv.gz --cluster 64x8"),
		Claims: []Claim{
			{Baseline: "pai(by=submit)", Metric: meanWait(), Published: exactly(2.99), Tolerance: 0.25, Place: place},
			{Policy: "pai(by=estimate)", Baseline: "pai(by=group-size)", Metric: meanJCT(), Published: exactly(1), Tolerance: 0.01, Place: place + ", 1.002"},
		},
	}}
}

// tiresias: 5.5 times less mean JCT than a FIFO with consolidation, 2 times less than
// Gandiva, close to schedulers that know run times.
func tiresias() []Study {
	const best, fifo = "tiresias(limits=3200,32000,320000)", "fifo(place=consolidated)"
	return []Study{{
		System: "tiresias", Name: "testbed", CPU: 1, Policy: best,
		About:  "480 jobs like those of Philly, generated, load 1 on 15x4 GPUs, 10 s for a restart",
		Worlds: seeded(5, World{Generate: "--like philly --jobs 480 --gpus 60 --max-gpus 16 --max-run 2d --offered-load 1.0 --seed %d", Sim: "jobs.jsonl --cluster 15x4 --assume use --cost restore=10s --seed %d"}),
		Claims: []Claim{
			{Baseline: fifo, Metric: meanJCT(), Published: exactly(5.5), Tolerance: 0.25, Place: "abstract"},
			{Baseline: "gandiva(pack=false)", Metric: meanJCT(), Published: exactly(2), Tolerance: 0.25, Place: "abstract"},
			{Baseline: "srsf", Metric: meanJCT(), Published: atLeast(0.67), Place: "specification, acceptance F"},
			{Baseline: "tiresias(limits=3200,32000,320000,rank=gittins)", Metric: meanJCT(), Published: exactly(1), Tolerance: 0.05, Place: "section 5.4, recalled by the specification"},
			{Baseline: fifo, Metric: medianJCT(), Published: better(), Place: "section 5.2"},
		},
	}, {
		System: "tiresias", Name: "philly", CPU: 6, Policy: longLimits,
		About:  "the first 20,000 jobs of Philly on 100x8 GPUs",
		Worlds: loads(1, "data/philly/philly_jobs_reconstructed.csv.gz --limit 20000 --cluster 100x8"),
		Claims: []Claim{
			{Baseline: fifo, Metric: meanJCT(), Published: atLeast(1.5), Place: "specification, acceptance F"},
			{Baseline: "srsf", Metric: meanJCT(), Published: atLeast(0.67), Place: "specification, acceptance F"},
		},
	}}
}

// gandiva: between FIFO and Tiresias in mean JCT, as the paper of Tiresias has it; early
// feedback, whose time falls by 77 % on 16 GPUs.
func gandiva() []Study {
	const fifo = "fifo(place=consolidated)"
	w := World{Generate: "--like philly --jobs 480 --gpus 64 --max-gpus 16 --max-run 2d --offered-load 1.0 --seed %d", Sim: "jobs.jsonl --cluster 16x4 --assume use --cost restore=1s,migrate=2s --seed %d"}
	return []Study{{
		System: "gandiva", Name: "philly64", CPU: 2, Policy: "gandiva",
		About:  "480 jobs like those of Philly, generated, load 1 on 16x4 GPUs, that use their GPUs as measured",
		Worlds: seeded(5, w),
		Claims: []Claim{
			{Baseline: fifo, Metric: meanJCT(), Published: better(), Place: "specification, acceptance F"},
			{Baseline: fifo, Metric: firstStart(), Published: atLeast(4.3), Place: "section 6, recalled by the specification"},
			{Baseline: "gandiva(pack=false)", Metric: meanJCT(), Published: better(), Place: "section 6: packing"},
			{Policy: "tiresias(limits=3200,32000,320000)", Baseline: "gandiva(pack=false)", Metric: meanJCT(), Published: better(), Place: "specification, acceptance F"},
		},
	}}
}
