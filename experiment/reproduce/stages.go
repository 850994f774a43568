package reproduce

// Jobs that are graphs of stages. The paper's queries were measured; what each stage took is in the published simulator. The
// sequences are not among those of the training, which has other seeds.

// tunedShare is weighted fair sharing with the power that is best on ten other sequences.
const tunedShare = "weighted(alpha=0)"

func decima() []Study {
	claims := []Claim{
		{Baseline: tunedShare, Metric: meanJCT(), Place: "abstract: 21 % less than the best heuristic", Published: exactly(1.27), Tolerance: 0.15},
		{Baseline: "partition", Metric: meanJCT(), Place: "abstract: better than heuristics", Published: better()},
		{Baseline: "sjf-cp", Metric: meanJCT(), Place: "abstract: better than heuristics", Published: better()},
		{Policy: "partition", Baseline: "fifo", Metric: meanJCT(), Place: "specification, 5.7", Published: atLeast(2)},
		{Policy: "sjf-cp", Baseline: "fifo", Metric: meanJCT(), Place: "specification, 5.7", Published: atLeast(2)},
	}
	world := World{Generate: "--like tpch --templates data/decima/tpch_dags.json.gz --jobs 200 --seed %d", Sim: TraceFile + " --executors 50"}
	made := World{Generate: "--like tpch --jobs 200 --seed %d", Sim: TraceFile + " --executors 50"}
	return []Study{
		{
			System: "decima", Name: "measured", Policy: "decima", CPU: 120, Claims: claims, Worlds: seeded(20, world), Quick: seeded(5, world),
			About: "200 measured queries of TPC-H, Poisson arrivals every 25 s, 50 executors",
		},
		{
			System: "decima", Name: "generated", Policy: "decima", CPU: 120, Claims: claims, Worlds: seeded(20, made), Quick: seeded(5, made),
			About: "200 generated queries that resemble those measured, which decima was not trained on, Poisson arrivals every 25 s, 50 executors",
		},
	}
}
