package reproduce

// Studies of systems whose aim is fairness.

// themis: the worst rho is 2.2 to 3.25 times below those of all baselines.
func themis() []Study {
	const greedy = "themis(variant=greedy)"
	worlds := []World{longJobs(1500, "16x8"), longJobs(2000, "16x8"), longJobs(2500, "16x8")}
	s := Study{System: "themis", Name: "philly", CPU: 20, Policy: "themis", About: "the first 1,500, 2,000 and 2,500 passed jobs of Philly, those of an hour and more, on 16x8 GPUs", Worlds: worlds}
	for _, b := range []string{"tiresias", "las", "srtf", "srsf", "afs", "gandiva(quantum=10m,measure=10m)"} {
		s.Claims = append(s.Claims, Claim{Baseline: b, Metric: worstRho(), Published: better(), Place: "section 8.3: 2.2 to 3.25"})
	}
	for _, b := range []string{"tiresias", "srtf", "afs", "gandiva(quantum=10m,measure=10m)"} {
		s.Claims = append(s.Claims, Claim{Baseline: b, Metric: jain(), Published: better(), Place: "section 8.3"})
	}
	s.Claims = append(s.Claims,
		Claim{Policy: greedy, Baseline: "srtf", Metric: worstRho(), Published: better(), Place: "section 8.3, as re-implementations do it"},
		Claim{Baseline: "srtf", Metric: meanJCT(), Published: atLeast(0.5), Place: "section 8.3: completion times stay near"})
	return []Study{s, searches("search", "jobs of one GPU", 1), searches("gangs", "jobs of up to 4 GPUs, slowed down where they are spread", 4)}
}

// searches is Themis on apps that search hyper-parameters, as the paper's workloads 1 and 2
// are.
func searches(name, about string, most int) Study {
	s := Study{System: "themis", Name: name, CPU: 20, Policy: "themis", About: "apps of 4 to 32 jobs that search by successive halving, generated, " + about + ", four times as much as 8x2+12x4 GPUs can do",
		Worlds: []World{searching(1200, most, 1), searching(1200, most, 2), searching(1200, most, 3)},
		Quick:  []World{searching(500, most, 1), searching(500, most, 2), searching(500, most, 3)}}
	for _, b := range []string{"tiresias", "las", "srtf", "srsf", "afs", "gandiva(quantum=10m,measure=10m)"} {
		s.Claims = append(s.Claims, Claim{Baseline: b, Metric: worstApp(), Published: better(), Place: "section 8.3: 2.2 to 3.25"})
	}
	s.Claims = append(s.Claims, Claim{Baseline: "srtf", Metric: meanApp(), Published: atLeast(0.5), Place: "section 8.3: completion times stay near"})
	return s
}

// astraea: jobs with a sharing loss 7.1 % (Themis 19.7 %, YARN-CS 73.6 %), mean JCT no
// worse than FIFO.
func astraea() []Study {
	const leases = "themis(variant=greedy,term=15m)"
	return []Study{{
		System: "astraea", Name: "philly", CPU: 4, Policy: "astraea",
		About:  "the first 1,500 passed jobs of Philly on 12x8 GPUs",
		Worlds: loads(1, "data/philly/sia_philly_passed_jobs.csv.gz --limit 1500 --sort --cluster 12x8"),
		Claims: []Claim{
			{Baseline: leases, Metric: losers(), Published: atLeast(2.77), Tolerance: 0.25, Place: "section 5.3, Venus"},
			{Baseline: "fifo", Metric: losers(), Published: atLeast(10.3), Tolerance: 0.25, Place: "section 5.3, Venus"},
			{Policy: leases, Baseline: "fifo", Metric: losers(), Published: better(), Place: "section 5.3, Venus"},
			{Baseline: "fifo", Metric: meanJCT(), Published: better(), Place: "specification, acceptance 6"},
		},
	}}
}

// gandivaFair: trading improves the whole by 20 to 30 %, and nobody loses.
func gandivaFair() []Study {
	return []Study{{
		System: "gandiva_fair", Name: "unlike", CPU: 6, Policy: "gandiva_fair",
		About:  "three users whose jobs gain unlike much from the faster of two generations, 12 GPUs of each, generated",
		Worlds: []World{unlike(1), unlike(2), unlike(3)},
		Claims: []Claim{
			{Baseline: "gandiva_fair(trade=false)", Metric: meanJCT(), Published: between(1.2, 1.3), Tolerance: 0.25, Place: "recalled by the specification"},
			{Baseline: "gandiva_fair(trade=false)", Metric: makespan(), Published: better(), Place: "recalled by the specification"},
		},
	}}
}

// fgd: GPUs that are not allocated when all are asked for, in per cent: gradient 4.77,
// best fit 7.14, packing 8.22, clustering 8.35, dot product 9.38, random 13.7.
func fgd() []Study {
	s := Study{
		System: "fgd", Name: "openb", CPU: 49, Policy: "fgd",
		About:  "pods of openb, drawn until all 6,212 GPUs are asked for, on its 1,213 nodes",
		Worlds: []World{inflated(1), inflated(2), inflated(3)},
	}
	for _, b := range []struct {
		score string
		ratio float64
	}{{"best-fit", 1.50}, {"packing", 1.72}, {"clustering", 1.75}, {"dot-product", 1.97}, {"random", 2.87}} {
		s.Claims = append(s.Claims, Claim{Baseline: "fgd(score=" + b.score + ")", Metric: unallocated(openbGPUs), Published: exactly(b.ratio), Tolerance: 0.25, Place: "figure 7, shipped results"})
	}
	return []Study{s}
}
