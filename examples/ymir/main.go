// Command ymir compares Ymir with other schedulers on generated workloads of
// fine-tuning jobs, as docs/policies/ymir.md shows it:
//
//	go run ./examples/ymir -family roberta -gpus 240 -jobs 1500 -load 1 ymir optimus tiresias srtf
//
// A scheduler is named with its settings behind colons: ymir:merge=none:profile=0s.
// Schedulers but Ymir begin every job without a warm runtime, unless -warm says all.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

type study struct {
	families  string
	foretold  string
	warm      string
	order     string
	beliefs   string
	seeds     int
	workload  gen.FineTuning
	schedules []string
}

func main() {
	var s study
	flag.StringVar(&s.families, "family", "vit,roberta,vicuna", "foundation models, joined by commas; each is simulated by itself, and those joined by + together")
	flag.IntVar(&s.workload.GPUs, "gpus", 240, "GPUs, on nodes of 4")
	flag.IntVar(&s.workload.Jobs, "jobs", 1500, "jobs at load 1; others in proportion")
	flag.Float64Var(&s.workload.Load, "load", 1, "load")
	flag.IntVar(&s.workload.DataSets, "sets", 0, "data sets of a family; 0: all nine")
	flag.Uint64Var(&s.workload.Seed, "seed", 1, "of the first workload")
	flag.IntVar(&s.seeds, "seeds", 3, "workloads, over which figures are averaged")
	flag.StringVar(&s.foretold, "gains", "measured", "how gains are foretold: measured, regressed or not")
	flag.StringVar(&s.beliefs, "beliefs", "true", "what Ymir believes: true, but for the errors of the paper, or learnt from what is measured")
	flag.StringVar(&s.warm, "warm", "ymir", "who keeps runtimes warm: ymir, all or none")
	flag.Float64Var(&s.workload.Pipelines, "pipelines", 0, "share of the jobs that are pipelines, 0 to 1")
	flag.StringVar(&s.order, "order", "ymir", "who lays out a pipeline in the reverse order of the one that it follows: ymir or none")
	flag.Parse()
	if s.schedules = flag.Args(); len(s.schedules) == 0 {
		s.schedules = []string{"ymir", "optimus", "tiresias", "srtf"}
	}
	if err := s.run(); err != nil {
		fmt.Fprintln(os.Stderr, "ymir:", err)
		os.Exit(1)
	}
}

func (s *study) run() error {
	ways := map[string]gen.Foretold{"measured": gen.Measured, "regressed": gen.Regressed, "not": gen.Unforetold}
	how, known := ways[s.foretold]
	if !known {
		return fmt.Errorf("gains are foretold as measured, regressed or not, not %q", s.foretold)
	}
	s.workload.Foretold = how
	s.workload.Jobs = int(float64(s.workload.Jobs)*s.workload.Load + 0.5)
	fmt.Printf("%-16s %-34s %9s %9s %9s %9s %8s %8s %8s %8s %9s %10s\n", "family", "scheduler", "mean", "median", "p99", "to first", "temporal", "spatial", "rho", "rho>1", "CPU", "pipelines")
	for _, family := range strings.Split(s.families, ",") {
		if err := s.family(family); err != nil {
			return err
		}
	}
	return nil
}

// family simulates the workloads of a family under all schedulers.
func (s *study) family(name string) error {
	var first float64
	for _, schedule := range s.schedules {
		sum := figures{}
		for k := range s.seeds {
			o := s.workload
			o.Families, o.Seed = strings.Split(name, "+"), o.Seed+uint64(k)
			f, err := s.simulate(o, schedule)
			if err != nil {
				return err
			}
			sum.add(f, s.seeds)
		}
		if first == 0 {
			first = sum.mean
		}
		fmt.Printf("%-16s %-34s %8.0fs %8.0fs %8.0fs %8.2fx %7.1f%% %7.1f%% %8.2f %7.1f%% %8.1fs %9.0fs\n",
			name, schedule, sum.mean, sum.median, sum.p99, sum.mean/first, 100*sum.temporal, 100*sum.spatial, sum.rho, 100*sum.unfair, sum.cpu, sum.pipelines)
	}
	return nil
}

// figures are what came of a run.
type figures struct{ mean, median, p99, temporal, spatial, rho, unfair, cpu, pipelines float64 }

func (f *figures) add(g figures, of int) {
	n := float64(of)
	f.mean, f.median, f.p99 = f.mean+g.mean/n, f.median+g.median/n, f.p99+g.p99/n
	f.temporal, f.spatial, f.cpu = f.temporal+g.temporal/n, f.spatial+g.spatial/n, f.cpu+g.cpu/n
	f.rho, f.unfair, f.pipelines = f.rho+g.rho/n, f.unfair+g.unfair/n, f.pipelines+g.pipelines/n
}

// simulate runs one workload under one scheduler.
func (s *study) simulate(o gen.FineTuning, schedule string) (figures, error) {
	w, err := gen.NewFineTuning(o)
	if err != nil {
		return figures{}, err
	}
	spec, err := clusterspec.Parse(fmt.Sprintf("%dx4", (o.GPUs+3)/4))
	if err != nil {
		return figures{}, err
	}
	choice := experiment.Choice{}
	for i, part := range strings.Split(schedule, ":") {
		if i == 0 {
			choice.Policy = part
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		choice.Settings = append(choice.Settings, experiment.Setting{Name: key, Value: value})
	}
	costs := perf.Costs{Switch: map[string]perf.Switch{}}
	for name, c := range w.Switch {
		if s.warm == "none" || s.warm != "all" && choice.Policy != "ymir" {
			c.Warm = c.Cold
		}
		c.Reverse = c.Reverse && s.order != "none" && choice.Policy == "ymir"
		costs.Switch[name] = c
	}
	x := experiment.Experiment{
		Spec: spec, Estimate: experiment.Estimate{From: experiment.User}, Seed: o.Seed, Model: w.Speeds, Costs: &costs,
	}
	if choice.Policy == "ymir" {
		x.World, x.Transfer = func(c *sim.Config) { c.Transfer, c.Meter = w.Truth, w.Meter }, w.Belief
		if x.Beliefs, err = experiment.ParseBeliefs(s.beliefs); err != nil {
			return figures{}, err
		}
		if x.Beliefs == experiment.LearntBeliefs {
			x.Estimate.From = experiment.None
		}
	}
	began := time.Now()
	out, err := x.Run(context.Background(), choice, w.Source())
	if err != nil {
		return figures{}, err
	}
	f := count(out.State)
	f.cpu, f.rho, f.unfair = time.Since(began).Seconds(), out.Result.Fairness.Mean, out.Result.Fairness.Unfair
	return f, nil
}

// count takes the figures of a run. Times are seconds.
func count(s *state.State) figures {
	var f figures
	var jct []float64
	n, pipelines := float64(s.Jobs()), 0.0
	for i := range s.Jobs() {
		r := s.Record(job.ID(i))
		d := (r.End - r.Job.Submit).Seconds()
		jct = append(jct, d)
		f.mean += d / n
		if r.Job.Pipelined() {
			pipelines++
			f.pipelines += (d - f.pipelines) / pipelines // the mean so far
		}
		switch {
		case r.Merged == job.Together:
			f.spatial += 1 / n
		case r.Merged == job.After: // both of such a pair count, as in the paper
			f.temporal += 2 / n
		}
	}
	slices.Sort(jct)
	f.median, f.p99 = jct[len(jct)/2], jct[len(jct)*99/100]
	return f
}
