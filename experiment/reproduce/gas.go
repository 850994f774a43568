package reproduce

import (
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// gas: against FIFO and SJF makespan 19.6 to 19.8 % lower, queueing 84.4 to 93.9 %, energy 22.2 to
// 22.5 %, cost 21.3 to 21.6 %. Its workload is not known. The specification asks for jobs that ask
// for more than they can use well, at a load of 0.9.
func gas() []Study {
	const fifo, sjf = "fifo(place=consolidated)", "sjf(block=true,place=consolidated)"
	study := func(name, about string, double bool, days ...int) Study {
		s := Study{System: "gas", Name: name, CPU: 30, Policy: "gas", About: about}
		for _, day := range days {
			s.Worlds = append(s.Worlds, doubled(day, double))
		}
		s.Quick = s.Worlds[:3]
		for _, base := range []string{fifo, sjf} {
			s.Claims = append(s.Claims,
				Claim{Baseline: base, Metric: makespan(), Published: between(1.244, 1.247), Tolerance: 0.25, Place: "abstract"},
				Claim{Baseline: base, Metric: meanWait(), Published: between(6.41, 16.4), Tolerance: 0.25, Place: "abstract"},
				Claim{Baseline: base, Metric: energy(), Published: between(1.285, 1.29), Tolerance: 0.25, Place: "abstract"},
				Claim{Baseline: base, Metric: gpuTime(), Published: between(1.271, 1.276), Tolerance: 0.25, Place: "abstract: cost"},
			)
		}
		return s
	}
	return []Study{
		study("doubled", "weeks of Philly on 32x8 V100, of which all jobs ask for twice as many GPUs, with the curves of seven models, at a load of 0.9", true, 56, 63, 70, 77, 84),
	}
}

// doubled is a week of Philly from a day on, at a load of 0.9. With double, every job asks for twice
// the GPUs, on which it takes as long as the log says.
func doubled(day int, double bool) World {
	return phillyWeek(day, 0.9, func(n int) int {
		if double {
			return min(2*n, weekGPUs)
		}
		return n
	}, func(x *experiment.Experiment) { x.Assume = experiment.AssumeScaling })
}

// weekGPUs are those of the cluster of phillyWeek, 32x8.
const weekGPUs = 256

// phillyWeek is a week of Philly from a day on, whose arrivals are drawn apart or together until its jobs ask
// for a part of the GPUs that is load. A job asks for as many GPUs as asks says of those in the log, on
// which it takes as long as there. set changes the experiment.
func phillyWeek(day int, load float64, asks func(gpus int) int, set func(*experiment.Experiment)) World {
	const path = "data/philly/philly_jobs_reconstructed.csv.gz"
	return World{Needs: []string{path}, Make: func(data string, _ experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		from := time.Duration(day) * 24 * time.Hour
		jobs, err := openTrace(data, path, trace.Options{Merge: true, Sort: true, From: from, To: from + 7*24*time.Hour, Rebase: true})
		if err != nil {
			return nil, nil, err
		}
		demands, asked := map[int]*job.Demand{}, 0.0
		for i := range jobs {
			e := &jobs[i]
			n := asks(e.Job.Demand.GPUs())
			if demands[n] == nil {
				d := job.GPUs(n)
				demands[n] = &d
			}
			e.Job.Demand = demands[n]
			asked += float64(n) * e.Truth.Work.Seconds()
		}
		stretch := asked / weekGPUs / load / (7 * 24 * time.Hour).Seconds()
		for i := range jobs {
			jobs[i].Job.Submit = time.Duration(float64(jobs[i].Job.Submit) * stretch)
		}
		x, err := plain("32x8:V100")
		if err != nil {
			return nil, nil, err
		}
		set(x)
		return x, renumbered(jobs).Source(), nil
	}}
}
