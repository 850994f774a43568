package reproduce

import (
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	ledger "github.com/norn-scheduler/norn/policy/astraea"
	"github.com/norn-scheduler/norn/report"
)

// Metric is one figure of a run.
type Metric struct {
	Key    string // in names of claims
	Name   string // in tables
	Higher bool   // more is better; otherwise less is
	Of     func(*experiment.Outcome) float64
}

func stat(key, name string, of func(*report.Result) time.Duration) Metric {
	return Metric{Key: key, Name: name, Of: func(o *experiment.Outcome) float64 { return of(o.Result).Seconds() }}
}

// meanOf is the mean of figures of jobs.
func meanOf(key, name string, of func(*experiment.Outcome) []float64) Metric {
	return Metric{Key: key, Name: name, Of: func(o *experiment.Outcome) float64 {
		sum, all := 0.0, of(o)
		for _, x := range all {
			sum += x
		}
		return sum / max(1, float64(len(all)))
	}}
}

// quantileOf is a quantile of figures of jobs, which are in order; 1 where there are none.
func quantileOf(key, name string, at float64, of func(*experiment.Outcome) []float64) Metric {
	return Metric{Key: key, Name: name, Of: func(o *experiment.Outcome) float64 {
		all := of(o)
		if len(all) == 0 {
			return 1
		}
		return all[int(at*float64(len(all)-1))]
	}}
}

// The metrics. Times are in seconds.

func meanJCT() Metric {
	return stat("mean-jct", "mean JCT", func(r *report.Result) time.Duration { return r.JCT.Mean })
}

func medianJCT() Metric {
	return stat("median-jct", "median JCT", func(r *report.Result) time.Duration { return r.JCT.Median })
}

func p99JCT() Metric {
	return stat("p99-jct", "99th percentile of JCT", func(r *report.Result) time.Duration { return r.JCT.P99 })
}

func meanWait() Metric {
	return stat("mean-wait", "mean wait", func(r *report.Result) time.Duration { return r.Wait.Mean })
}

// gpuTime is the GPU time that jobs had.
func gpuTime() Metric {
	return Metric{Key: "gpu-time", Name: "GPU time of jobs", Of: func(o *experiment.Outcome) float64 { return o.Result.GPU.Held }}
}

// energy is what nodes and GPUs have consumed, in kWh.
func energy() Metric {
	return Metric{Key: "energy", Name: "energy", Of: func(o *experiment.Outcome) float64 { return o.Result.Energy.KWh }}
}

// nodesBusy is the part of the time of nodes that are awake in which jobs had anything of them.
func nodesBusy() Metric {
	return Metric{Key: "nodes-busy", Name: "nodes busy, of those awake", Higher: true, Of: func(o *experiment.Outcome) float64 { return o.Result.Energy.Busy }}
}

// wakes is how often nodes were woken, a day.
func wakes() Metric {
	return Metric{Key: "wakes", Name: "wakes a day", Of: func(o *experiment.Outcome) float64 { return o.Result.Energy.Slept.Wakes }}
}

// delayed is the share of the jobs that waited for a node to wake up.
func delayed() Metric {
	return Metric{Key: "delayed", Name: "share of jobs delayed by wakes", Of: func(o *experiment.Outcome) float64 {
		return float64(o.Result.Energy.Slept.Delayed) / float64(o.Result.Jobs.Submitted)
	}}
}

// deadlines is the share of deadlines that were met.
func deadlines() Metric {
	return Metric{Key: "deadlines", Name: "share of deadlines met", Higher: true, Of: func(o *experiment.Outcome) float64 { return o.Result.Promises.Share() }}
}

// promises is the share of the jobs of a tier that had the GPU fraction which it is promised.
func promises(tier job.Tier) Metric {
	return Metric{Key: "promises-" + tier.String(), Name: "share of " + tier.String() + " promises kept", Higher: true, Of: func(o *experiment.Outcome) float64 {
		for _, t := range o.Result.Tiers {
			if t.Tier == tier.String() {
				return t.Share
			}
		}
		return 0
	}}
}

// restJCT is the mean JCT of jobs without a deadline beside others that have one.
func restJCT() Metric {
	return stat("best-effort-jct", "mean JCT of best-effort jobs", func(r *report.Result) time.Duration {
		for _, c := range r.Promises.Classes {
			if c.Class == "best-effort" {
				return c.JCT
			}
		}
		return 0
	})
}

func firstStart() Metric {
	return stat("first-start", "mean time to the first run", func(r *report.Result) time.Duration { return r.FirstStart.Mean })
}

func makespan() Metric {
	return stat("makespan", "makespan", func(r *report.Result) time.Duration { return r.Makespan })
}

// lossTime is the mean time in seconds until the losses of jobs have fallen by so many percent
// of what they fall in all.
func lossTime(percent string, of func(*report.Losses) time.Duration) Metric {
	return stat("loss-"+percent, "mean time to "+percent+" % of the loss reduction", func(r *report.Result) time.Duration {
		if r.Losses == nil {
			return 0
		}
		return of(r.Losses)
	})
}

func worstRho() Metric {
	return Metric{Key: "worst-rho", Name: "worst rho", Of: func(o *experiment.Outcome) float64 { return o.Result.Fairness.Worst }}
}

// worstApp is the worst finish-time fairness of an app (Themis, section 4.2): the time from
// its first submission to its last end, over its share. The share is the time that its work
// takes on the whole cluster alone, times the number of apps on average over its life. It takes as long as its
// longest job at least, for which the paper does not allow. A job of no app is one.
func worstApp() Metric {
	return Metric{Key: "worst-app-rho", Name: "worst rho of an app", Of: func(o *experiment.Outcome) float64 {
		worst := 0.0
		all := appsOf(o)
		for _, a := range all {
			together := 0.0 // app-seconds
			for _, b := range all {
				together += max(0, min(a.ended, b.ended).Seconds()-max(a.came, b.came).Seconds())
			}
			alone := max(a.longest, a.work/min(float64(o.State.Cluster.TotalGPUs(0, 0)), a.most))
			worst = max(worst, (a.ended-a.came).Seconds()/(alone*together/(a.ended-a.came).Seconds()))
		}
		return worst
	}}
}

// meanApp is the mean time in seconds from the first submission of an app to its last end.
func meanApp() Metric {
	return Metric{Key: "mean-app", Name: "mean completion time of apps", Of: func(o *experiment.Outcome) float64 {
		sum := time.Duration(0)
		all := appsOf(o)
		for _, a := range all {
			sum += a.ended - a.came
		}
		return sum.Seconds() / float64(len(all))
	}}
}

// search is what became of an app.
type search struct {
	came, ended time.Duration
	work, most  float64 // GPU-seconds, and GPUs that its jobs could use at once
	longest     float64 // seconds that its longest job takes with all that it can use
}

// appsOf are the apps of a run, in order of submission.
func appsOf(o *experiment.Outcome) []*search {
	type name struct{ user, app string }
	known := map[name]*search{}
	var out []*search
	for _, r := range records(o, 0, o.State.Jobs()) {
		key := name{r.Job.User, r.Job.App}
		a := known[key]
		if a == nil || key.app == "" {
			a = &search{came: r.Job.Submit}
			out, known[key] = append(out, a), a
		}
		_, most := r.Job.Demand.Roles[0].Range()
		a.ended = max(a.ended, r.End)
		a.work += r.Progress.Seconds() * float64(r.Job.Demand.GPUs())
		a.most += float64(r.Job.Demand.Milli(most)) / 1000
		a.longest = max(a.longest, r.Progress.Seconds()*float64(r.Job.Demand.Roles[0].Tasks)/float64(most))
	}
	return out
}

func unfair() Metric {
	return Metric{Key: "unfair", Name: "share of jobs with rho above 1", Of: func(o *experiment.Outcome) float64 { return o.Result.Fairness.Unfair }}
}

// losers is the share of jobs that had less than 95 % of their fair GPU time.
func losers() Metric {
	return Metric{Key: "losers", Name: "share of jobs with less than 95 % of their fair GPU time", Of: func(o *experiment.Outcome) float64 { return ledger.Losers(o.State) }}
}

// steadyJCT is the mean JCT in seconds of the jobs in [from, to), by submission.
func steadyJCT(from, to int) Metric {
	return Metric{Key: "steady-jct", Name: "mean JCT of the steady state", Of: func(o *experiment.Outcome) float64 {
		var sum time.Duration
		for _, r := range records(o, from, to) {
			sum += r.End - r.Job.Submit
		}
		return sum.Seconds() / float64(to-from)
	}}
}

// settledJCT is the mean JCT in seconds of the jobs between 8 and 10 elevenths of a trace:
// of 5,500 jobs numbers 4,000 to 4,999.
func settledJCT() Metric {
	return Metric{Key: "settled-jct", Name: "mean JCT of the steady state", Of: func(o *experiment.Outcome) float64 {
		n := o.State.Jobs()
		return steadyJCT(n*8/11, n*10/11).Of(o)
	}}
}

// jain is Jain's index of the slowdowns of jobs, 0 to 1: of JCT over the run time alone
// on what a job asks for.
func jain() Metric {
	return Metric{Key: "jain", Name: "Jain's index of slowdowns", Higher: true, Of: func(o *experiment.Outcome) float64 {
		var sum, squares, n float64
		for _, r := range records(o, 0, o.State.Jobs()) {
			if r.End < 0 || r.Progress <= 0 {
				continue
			}
			x := (r.End - r.Job.Submit).Seconds() / r.Progress.Seconds()
			sum, squares, n = sum+x, squares+x*x, n+1
		}
		return sum * sum / (n * squares)
	}}
}

// fragmented is the part of the delay of jobs with more than 4 GPUs, 0 to 1, for which
// free GPUs were too scattered.
func fragmented() Metric {
	return Metric{Key: "fragmented", Name: "share of fragmentation in the delay of jobs above 4 GPUs", Of: func(o *experiment.Outcome) float64 {
		var all report.Waiting
		for _, g := range o.Result.Sizes {
			if g.Name != "1" && g.Name != "2-4" {
				all.Fairness, all.Fragmentation = all.Fairness+g.Waiting.Fairness, all.Fragmentation+g.Waiting.Fragmentation
			}
		}
		return all.Fragmentation / (all.Fairness + all.Fragmentation)
	}}
}

// unallocated is the part of so many GPUs, 0 to 1, that no pod has when the last one has
// been submitted.
func unallocated(gpus float64) Metric {
	return Metric{Key: "unallocated", Name: "GPUs not allocated when all are asked for", Of: func(o *experiment.Outcome) float64 {
		all, held := records(o, 0, o.State.Jobs()), 0.0
		last := all[len(all)-1].Job.Submit
		for _, r := range all {
			if r.FirstStart >= 0 && r.FirstStart <= last {
				held += float64(r.Job.Demand.Milli(1)) / 1000
			}
		}
		return 1 - held/gpus
	}}
}

// work is what all jobs have done, in seconds of the reference configuration.
func work() Metric {
	return Metric{Key: "work", Name: "work done", Higher: true, Of: func(o *experiment.Outcome) float64 {
		sum := 0.0
		for _, r := range records(o, 0, o.State.Jobs()) {
			sum += r.Progress.Seconds()
		}
		return sum
	}}
}

// stopped is how often jobs were preempted, in all. One is added, so that none is a figure, too.
func stopped() Metric {
	return Metric{Key: "preemptions", Name: "preemptions", Of: func(o *experiment.Outcome) float64 { return 1 + float64(o.Result.Preemptions) }}
}

// restarts is how often a job is stopped, moved or resized on average.
func restarts() Metric {
	return Metric{Key: "restarts", Name: "restarts of a job", Of: func(o *experiment.Outcome) float64 {
		n := 0.0
		for _, r := range records(o, 0, o.State.Jobs()) {
			n += float64(r.Preemptions + r.Migrations + r.Resizes)
		}
		return n / float64(o.State.Jobs())
	}}
}

// records are those of the jobs in [from, to) that there are.
func records(o *experiment.Outcome, from, to int) []*job.Record {
	var out []*job.Record
	for i := from; i < min(to, o.State.Jobs()); i++ {
		out = append(out, o.State.Record(job.ID(i)))
	}
	return out
}
