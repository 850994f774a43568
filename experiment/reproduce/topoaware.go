package reproduce

import (
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
)

// The worlds of the topology-aware scheduler: the jobs that its authors published, with the run times that they
// measured on a machine with four P100 at two sockets, alone on one socket and on two, and beside each other.

const (
	topoPolicy   = "topology-aware"
	topoAtOnce   = "topology-aware(postpone=false)"
	topoBestFit  = "topology-aware(rule=best-fit,postpone=false)"
	topoFirst    = "topology-aware(rule=first,postpone=false,skip=false)" // FCFS: who does not fit holds up all others
	topoMeasured = " --profile data/gpu_topo_aware/profiles/prof_from_experiments.json --sockets data/gpu_topo_aware/profiles/prof_from_experiments.json"
)

// slowedBy is by how much longer jobs run than alone on one socket, on average over those that count.
func slowedBy(key, name string, counts func(*job.Job) bool) Metric {
	return Metric{Key: key, Name: "mean of the run time of " + name + " over that alone on one socket", Of: func(o *experiment.Outcome) float64 {
		return 1 + lost(o, counts)
	}}
}

// lostBy is the part of their run time alone on one socket by which jobs take longer, on average over those that
// count.
func lostBy(key, name string, counts func(*job.Job) bool) Metric {
	return Metric{Key: key, Name: "mean part of the run time that " + name + " lose by their places and neighbours", Of: func(o *experiment.Outcome) float64 {
		return lost(o, counts)
	}}
}

func lost(o *experiment.Outcome, counts func(*job.Job) bool) float64 {
	sum, n := 0.0, 0
	for _, r := range records(o, 0, o.State.Jobs()) {
		if counts(r.Job) && r.Progress > 0 {
			sum += (r.End-r.FirstStart).Seconds()/r.Progress.Seconds() - 1
			n++
		}
	}
	return sum / float64(max(1, n))
}

// topologyAware: up to 1.30 times as fast as FCFS and Best Fit.
func topologyAware() []Study {
	all := lostBy("lost", "jobs", func(*job.Job) bool { return true })
	pairs := slowedBy("slowed-pairs", "jobs of two GPUs with small batches", func(j *job.Job) bool { return j.Demand.GPUs() == 2 && j.Batch <= 4 })
	return []Study{
		{
			System: topoPolicy, Name: "five", CPU: 1, Policy: topoPolicy,
			About:  "the authors' 100 jobs on 5x4 P100, run times as measured",
			Worlds: loads(1, "data/gpu_topo_aware/workloads-100.json"+topoMeasured+" --cluster 5x4:P100/minsky"),
			Claims: []Claim{
				{Baseline: topoFirst, Metric: meanJCT(), Published: between(1, 1.30), Tolerance: 0.25, Place: "abstract, up to, against FCFS"},
				{Baseline: topoBestFit, Metric: meanJCT(), Published: between(1, 1.30), Tolerance: 0.25, Place: "abstract, up to, against Best Fit"},
				{Baseline: "fifo(mode=skip)", Metric: meanJCT(), Published: better(), Place: "ours: a baseline that may overtake, and chooses GPUs by their links"},
				{Baseline: topoAtOnce, Metric: meanJCT(), Published: better(), Place: "with postponing over without"},
				{Baseline: topoFirst, Metric: pairs, Published: better(), Place: "acceptance F: jobs that mind where they are gain"},
			},
		},
		{
			System: topoPolicy, Name: "large", CPU: 8, Policy: topoAtOnce,
			About:  "the authors' 10,000 jobs on 200x4 P100, run times as measured",
			Worlds: loads(1, "data/gpu_topo_aware/workloads-10000.json.gz"+topoMeasured+" --cluster 200x4:P100/minsky"),
			Claims: []Claim{
				{Baseline: topoBestFit, Metric: all, Published: better(), Place: "acceptance F: fewer slowdowns than Best Fit"},
				{Policy: topoBestFit, Baseline: topoFirst, Metric: all, Published: better(), Place: "acceptance F: Best Fit no worse than FCFS"},
				{Baseline: "fifo", Metric: all, Published: better(), Place: "ours: against GPUs that are chosen by their links alone"},
				{Baseline: "topology-aware(postpone=false,cost=loss)", Metric: all, Published: better(), Place: "ours: against another reading of what a slowdown costs"},
			},
		},
	}
}
