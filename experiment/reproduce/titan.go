package reproduce

import "fmt"

// titanStudies: mean JCTs of the published runs (gaow0007/TitanSched, result/cluster), on
// clusters that grow with the workload, with and without jobs that are trained as one. They
// take a pair to be done when the first of its jobs is; ours goes by the passes that were
// measured of both.
func titanStudies() []Study {
	const alone = "titan(merge=false)"
	of := func(model string, optimus, themis, srtf, tiresias, merged float64) Study {
		s := Study{
			System: "titan", Name: model, CPU: 1, Policy: alone,
			About: "the published workloads of jobs that tune " + model + ", on 8x4, 12x4 and 16x4 GPUs, at the speeds and gains that were measured",
			Claims: []Claim{
				{Baseline: "optimus(interval=300s)", Metric: meanJCT(), Published: exactly(optimus), Tolerance: 0.25, Place: "published runs"},
				{Baseline: "themis", Metric: meanJCT(), Published: exactly(themis), Tolerance: 0.25, Place: "published runs"},
				{Baseline: "srtf", Metric: meanJCT(), Published: exactly(srtf), Tolerance: 0.25, Place: "published runs"},
				{Baseline: "tiresias", Metric: meanJCT(), Published: exactly(tiresias), Tolerance: 0.25, Place: "published runs"},
				{Policy: "titan", Baseline: alone, Metric: meanJCT(), Published: exactly(merged), Tolerance: 0.25, Place: "published runs, a pair being done with its first job"},
			},
		}
		for _, w := range []struct {
			density string
			nodes   int
		}{{"1", 8}, {"1.5", 12}, {"2", 16}} {
			s.Worlds = append(s.Worlds, World{Sim: fmt.Sprintf("data/titan/traces_main.zip/main/FM-%s-%s/workload-0.csv --cluster %dx4 --assume transfer", w.density, model, w.nodes)})
		}
		s.Quick = s.Worlds
		return s
	}
	return []Study{
		of("vit", 1.19, 2.18, 2.69, 4.10, 1.58),
		of("vit-large", 1.11, 1.80, 2.03, 2.39, 1.57),
		of("roberta-base", 1.20, 1.59, 1.88, 1.90, 1.33),
		of("roberta-large", 1.81, 2.77, 2.97, 3.01, 1.38),
	}
}
