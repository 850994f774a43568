package reproduce

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/report"
)

// Studies of systems that change the sizes of jobs.

// pollux: mean JCT 0.76 h; Optimus with an oracle and tuned jobs 1.5 h, Tiresias with tuned
// jobs 1.2 h, on a testbed. Of its simulator one workload is published: 2,446, 5,302 and
// 3,470 s.
func pollux() []Study {
	const sim, tiresias = "data/pollux_sia/workloads_pollux/workloads/workload-%s.csv --cluster pollux --assume goodput --cost restore=30s,resize=30s,migrate=30s", "tiresias(limits=57600)"
	return []Study{{
		System: "pollux", Name: "workloads", CPU: 100, Policy: "pollux",
		About:  "the authors' workloads on 16x4 GPUs, gradients that get noisier, 30 s for a restart or another size",
		Worlds: each(sim, "1", "2", "3", "4", "5", "6", "7", "8"), Quick: each(sim, "1", "3", "6"),
		Claims: []Claim{
			{Baseline: tiresias, Metric: meanJCT(), Published: exactly(1.58), Tolerance: 0.15, Place: "table 2: 37 % lower"},
			{Baseline: "optimus", Metric: meanJCT(), Published: exactly(1.97), Tolerance: 0.15, Place: "table 2: 49 % lower"},
			{Baseline: tiresias, Metric: makespan(), Published: exactly(1.5), Tolerance: 0.25, Place: "table 2"},
			{Baseline: "optimus", Metric: makespan(), Published: exactly(1.25), Tolerance: 0.25, Place: "table 2"},
		},
	}}
}

// sia: mean JCT, p99 and makespan in hours on 64 unlike GPUs. Of Philly's samples Sia has 0.6,
// 9.5 and 14.2, Pollux 1.0, 14.9 and 24.5, Gavel with tuned jobs 1.9, 30 and 33.8. Of Helios'
// samples they have 0.7, 10.9 and 14.9; 1.0, 15 and 25.5; 2.5, 38.7 and 43. A job has 2.9
// restarts, 5.8 and 5.7. On equal GPUs mean JCT is 1.9, 2.0 and 4.3 h. Without profiles JCT is 1/0.7 of that with bootstrapping,
// which is 8 % above that with the truth.
func sia() []Study {
	const gavel, profiles = "gavel(objective=throughput)", "data/pollux_sia/workloads_sia/"
	mixed := func(of string) string {
		return profiles + of + "/workload-%s.csv --cluster sia --assume goodput --cost restore=30s,resize=30s,migrate=30s"
	}
	against := func(table string, pollux, tuned [3]float64) (all []Claim) {
		for i, m := range []Metric{meanJCT(), p99JCT(), makespan()} {
			all = append(all,
				Claim{Baseline: "pollux", Metric: m, Published: exactly(pollux[i]), Tolerance: 0.25, Place: table},
				Claim{Baseline: gavel, Metric: m, Published: exactly(tuned[i]), Tolerance: 0.25, Place: table})
		}
		return append(all, Claim{Policy: "pollux", Baseline: gavel, Metric: meanJCT(), Published: exactly(math.Round(100*tuned[0]/pollux[0]) / 100), Tolerance: 0.25, Place: table})
	}
	philly, helios := mixed("philly"), mixed("saturn")
	return []Study{{
		System: "sia", Name: "philly", CPU: 60, Policy: "sia",
		About:  "the authors' samples of Philly on 24 T4s, 24 RTX 2080 Ti and 16 A100s, gradients that get noisier, 30 s for a restart or another size",
		Worlds: each(philly, "1", "2", "3", "4", "5", "6", "7", "8"), Quick: each(philly, "2", "4", "6"),
		Claims: append(against("table 3, Philly", [3]float64{1.67, 1.57, 1.73}, [3]float64{3.17, 3.16, 2.38}),
			Claim{Baseline: "pollux", Metric: restarts(), Published: exactly(2), Tolerance: 0.25, Place: "section 5.3, Philly"},
			Claim{Baseline: "sia(profiles=none)", Metric: meanJCT(), Published: exactly(1.43), Tolerance: 0.25, Place: "section 5.7: bootstrapping has a 30 % lower JCT"},
			Claim{Policy: "sia(profiles=oracle)", Baseline: "sia", Metric: meanJCT(), Published: exactly(1.08), Tolerance: 0.1, Place: "section 5.7: bootstrapping is 8 % behind"}),
	}, {
		System: "sia", Name: "helios", CPU: 80, Policy: "sia",
		About:  "the authors' samples of Helios (Saturn) on 24 T4s, 24 RTX 2080 Ti and 16 A100s, gradients that get noisier, 30 s for a restart or another size",
		Worlds: each(helios, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"), Quick: each(helios, "1", "2", "3"),
		Claims: against("table 3, Helios", [3]float64{1.43, 1.38, 1.71}, [3]float64{3.57, 3.55, 2.89}),
	}, {
		System: "sia", Name: "equal", CPU: 60, Policy: "sia",
		About:  "the authors' samples of Philly on 16x4 T4s, gradients that get noisier, 30 s for a restart or another size",
		Worlds: each(strings.Replace(philly, "--cluster sia", "--cluster pollux", 1), "1", "2", "3", "4", "5", "6", "7", "8"),
		Quick:  each(strings.Replace(philly, "--cluster sia", "--cluster pollux", 1), "2", "4", "6"),
		Claims: []Claim{
			{Baseline: "pollux", Metric: meanJCT(), Published: exactly(1.05), Tolerance: 0.1, Place: "table 4"},
			{Baseline: gavel, Metric: meanJCT(), Published: exactly(2.26), Tolerance: 0.25, Place: "table 4"},
		},
	}}
}

// elasticflow: on 128 GPUs 1.46 to 7.65 times as many jobs meet their deadlines as under any of
// the others.
func elasticflow() []Study {
	const sim = "data/microsoft_itp/elasticflow/195job.csv.gz --cluster 16x8:A100 --assume scaling"
	var claims []Claim
	for _, baseline := range []string{"edf", "gandiva", "tiresias", "themis", "chronus"} {
		claims = append(claims, Claim{Baseline: baseline, Metric: deadlines(), Published: between(1.46, 7.65), Tolerance: 0.1, Place: "abstract"})
	}
	return []Study{{
		System: "elasticflow", Name: "testbed", CPU: 5, Policy: "elasticflow",
		About:  "the authors' 195 jobs on 16x8 A100s, elastic at published speeds",
		Worlds: loads(1, sim), Claims: claims,
	}}
}

// chronus: up to 14.7 times fewer deadlines are missed, and JCT of best-effort jobs is up to 19.9
// times lower.
func chronus() []Study {
	const policy, sim = "chronus", "data/chronus/trace_job_Philly_MIX1.csv.gz --cluster 120x8 --whole"
	return []Study{{
		System: "chronus", Name: "mixed", CPU: 220, Policy: policy,
		About:  "the authors' mixed trace of Philly on 120x8 GPUs; in the quick form 4,000 jobs of it",
		Worlds: loads(1, sim), Quick: loads(1, sim+" --limit 4000"),
		Claims: []Claim{
			{Baseline: "tiresias", Metric: deadlines(), Published: better(), Place: "abstract: fewest deadlines are missed"},
			{Baseline: "srtf", Metric: deadlines(), Published: better(), Place: "abstract: fewest deadlines are missed"},
			{Baseline: "edf", Metric: restJCT(), Published: between(1, 19.9), Place: "abstract: up to 19.9 times"},
		},
	}}
}

// optimus: mean JCT 2.39 and makespan 1.63 times below those of a fair scheduler.
func optimus() []Study {
	return []Study{{
		System: "optimus", Name: "elastic", CPU: 1, Policy: "optimus",
		About:  "160 jobs like those of Pollux, generated, load 1.2 on 16x4 GPUs, at the sizes they ask for under drf",
		Worlds: seeded(3, World{Generate: "--like pollux --jobs 160 --gpus 64 --offered-load 1.2 --seed %d", Sim: "jobs.jsonl --cluster 16x4 --assume goodput --seed %d"}),
		Claims: []Claim{
			{Baseline: "drf", Metric: meanJCT(), Published: exactly(2.39), Tolerance: 0.25, Place: "abstract: 139 %"},
			{Baseline: "drf", Metric: makespan(), Published: exactly(1.63), Tolerance: 0.25, Place: "abstract: 63 %"},
		},
	}}
}

// slaq: 90 % of the loss is gone after 39 s instead of 71 s, 95 % after 68 s instead of 98 s, under
// a fair scheduler with equal shares.
func slaq() []Study {
	const quality, equal = "slaq(interval=3s,delay=0s,largest=640)", "slaq(interval=3s,delay=0s,largest=640,share=equal)"
	s := Study{
		System: "slaq", Name: "jobs", CPU: 60, Policy: quality,
		About: "160 jobs whose losses fall, generated, one every 15 s on 640 units, every 3 s at no cost, against equal shares",
		Claims: []Claim{
			{Baseline: equal, Metric: lossTime("90", func(l *report.Losses) time.Duration { return l.To90.Mean }), Published: atLeast(1 / 0.7), Place: "specification, acceptance F; 1.82 in section 6"},
			{Baseline: equal, Metric: lossTime("95", func(l *report.Losses) time.Duration { return l.To95.Mean }), Published: exactly(1.44), Tolerance: 0.25, Place: "section 6, recalled by the specification"},
		},
	}
	for seed := range uint64(5) {
		s.Worlds = append(s.Worlds, improving(160, seed+1))
	}
	s.Quick = s.Worlds[:3]
	return []Study{s}
}

// afs: AFS-L 1.2 to 2.7 times below SRTF over eleven traces; trace 9 (light) SRTF 31.1,
// SRSF 32.8, AFS-L 15.2 h. AFS-P 1.9 to 3.1 times below Tiresias-L and within twice AFS-L.
func afs() []Study {
	heavy := []World{Elastic("7f04ca", 400, 0), Elastic("0e4a51", 500, 0), Elastic("103959", 1000, 0)}
	light := []World{Elastic("2869ce", 0, 0), Elastic("2869ce", 0, 0.98), Elastic("2869ce", 0, 1.02)}
	return []Study{{
		System: "afs", Name: "trace9", CPU: 2, Policy: "afs",
		About:  "a virtual cluster of Philly (2869ce) on 16x4 GPUs, elastic, speeds as measured by the authors",
		Worlds: light,
		Claims: []Claim{
			{Baseline: "srtf", Metric: meanJCT(), Published: exactly(2.05), Tolerance: 0.05, Place: "table 4, trace 9"},
			{Baseline: "srsf", Metric: meanJCT(), Published: exactly(2.16), Tolerance: 0.05, Place: "table 4, trace 9"},
			{Policy: "afs-p", Baseline: "tiresias", Metric: meanJCT(), Published: between(1.9, 3.1), Tolerance: 0.25, Place: "section 6.2"},
			{Policy: "afs-p", Baseline: "afs", Metric: meanJCT(), Published: atLeast(0.5), Place: "section 6.2"},
		},
	}, {
		System: "afs", Name: "philly", CPU: 1, Policy: "afs",
		About:  "the first 400, 500 and 1,000 jobs of three virtual clusters of Philly (7f04ca, 0e4a51, 103959) on 16x4 GPUs",
		Worlds: heavy,
		Claims: []Claim{
			{Baseline: "srtf", Metric: meanJCT(), Published: between(1.2, 2.7), Place: "section 6.2"},
			{Baseline: "srsf", Metric: meanJCT(), Published: better(), Place: "section 6.2"},
			{Policy: "afs-p", Baseline: "tiresias", Metric: meanJCT(), Published: between(1.9, 3.1), Tolerance: 0.25, Place: "section 6.2"},
		},
	}}
}

// ymir: baselines 1.66 to 22.3 times slower, the gap growing with the load, Optimus
// closest (1.6 to 3); merging gains 1.4 to 1.7 times.
func ymir() []Study {
	at := func(name string, load float64, jobs int) Study {
		s := Study{
			System: "ymir", Name: name, Policy: "ymir", CPU: 25,
			About: fmt.Sprintf("generated fine-tuning of ViT, RoBERTa and Vicuna on 60x4 GPUs, load %g", load),
			Claims: []Claim{
				{Baseline: "optimus(interval=300s)", Metric: meanJCT(), Published: between(1.6, 3), Tolerance: 0.25, Place: "figure of the simulation, read off by the specification"},
				{Baseline: "srtf", Metric: meanJCT(), Published: between(3, 7), Tolerance: 0.25, Place: "figure of the simulation, read off by the specification"},
				{Baseline: "tiresias", Metric: meanJCT(), Published: between(1.66, 22.3), Place: "section on simulation"},
				{Baseline: "ymir(merge=none)", Metric: meanJCT(), Published: between(1.4, 1.7), Tolerance: 0.25, Place: "ablation"},
				{Baseline: "tiresias", Metric: unfair(), Published: better(), Place: "finish-time fairness"},
			},
		}
		for i, family := range []string{"vit", "roberta", "vicuna"} {
			s.Worlds = append(s.Worlds, tuned(family, load, 1500, uint64(i+1)))
			s.Quick = append(s.Quick, tuned(family, load, jobs, uint64(i+1)))
		}
		return s
	}
	return []Study{at("load1", 1, 500), at("load1.5", 1.5, 500), {
		System: "ymir", Name: "philly", CPU: 15, Policy: "ymir",
		About:  "a virtual cluster of Philly (2869ce) on 16x4 GPUs whose jobs are taken to tune",
		Worlds: seeded(3, World{Sim: "data/philly/pcs/trace_2869ce.csv --cluster 16x4 --assume tuning --beliefs true --seed %d"}),
		Claims: []Claim{
			{Baseline: "optimus(interval=300s)", Metric: meanJCT(), Published: atLeast(1.3), Place: "specification, acceptance 7"},
			{Baseline: "tiresias", Metric: meanJCT(), Published: atLeast(1.6), Place: "specification, acceptance 7"},
			{Baseline: "ymir(merge=none)", Metric: meanJCT(), Published: atLeast(1.3), Place: "specification, acceptance 7"},
		},
	}}
}
