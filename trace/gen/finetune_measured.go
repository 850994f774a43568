package gen

import (
	"github.com/norn-scheduler/norn/internal/titan"
	"github.com/norn-scheduler/norn/perf"
)

// MeasuredFamilies are the four models of Titan's workloads (SoCC 2022): how fast they are,
// how often their tasks go through their data, and what tasks gain from each other, all as
// measured on V100s. Every start takes a model to be loaded anew, as there. Losses are as
// noisy as those of the model of their kind in Families.
func MeasuredFamilies() []Family {
	kin := map[string]Family{}
	for _, f := range Families() {
		kin[f.Name] = f
	}
	var out []Family
	for _, m := range titan.Models() {
		begin := m.Begin + titan.Save
		f := Family{Name: m.Name, Step: m.Step, Cost: perf.Switch{Cold: begin, Warm: begin}, After: m.After, Together: m.Together}
		like := kin["roberta"]
		if m.Name == "vit" || m.Name == "vit-large" {
			like = kin["vit"]
		}
		f.Correlation, f.LossNoise = like.Correlation, like.LossNoise
		for _, t := range m.Tasks {
			f.Sets = append(f.Sets, DataSet{t.Name, t.Samples, t.Batch, t.Jobs, t.Passes})
		}
		out = append(out, f)
	}
	return out
}

// measured is the gains of a family that were measured, from passes alone and with others.
func (f *Family) measured(tasks []tuned) []perf.Gain {
	ratio := func(alone, passes float64) float64 {
		if passes <= 0 {
			return 1
		}
		return alone / passes
	}
	var out []perf.Gain
	for i := range tasks {
		for j := range tasks {
			alone := tasks[j].epochs
			out = append(out, perf.Gain{From: tasks[i].task, To: tasks[j].task, After: ratio(alone, f.After[i][j]), Together: ratio(alone, f.Together[i][j])})
		}
	}
	return out
}
