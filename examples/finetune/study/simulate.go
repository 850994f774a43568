package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// fleet is a batch of jobs of the measured tasks, and the slots on which they run.
type fleet struct {
	policies                string
	slots, jobs             int
	step, every, cold, warm time.Duration
	seed                    uint64
}

// outcome is what came of the batch under one policy. Times are seconds.
type outcome struct {
	Policy   string  `json:"policy"`
	Gains    string  `json:"gains"`  // what the policy believes of them: measured, or foretold by the estimator
	Starts   string  `json:"starts"` // warm: runtimes stay loaded; cold: every start loads the backbone
	JCT      float64 `json:"mean_jct"`
	Makespan float64 `json:"makespan"`
	After    int     `json:"after"`    // jobs that went on from another one
	Together int     `json:"together"` // jobs that were trained as one with another one
}

// simulate runs the batch under all policies. All have the same world.
func (s fleet) simulate(ctx context.Context, m *measured) ([]outcome, error) {
	choices, err := experiment.ParseChoices(s.policies)
	if err != nil {
		return nil, err
	}
	spec, err := clusterspec.Parse(fmt.Sprintf("1x%d", s.slots))
	if err != nil {
		return nil, err
	}
	truth, believed := perf.NewGains(nil, m.gains()), perf.NewGains(nil, m.foretold())
	var out []outcome
	for _, c := range choices {
		for _, w := range []struct {
			gains, starts string
			belief        perf.Transfer
			warm          time.Duration
		}{{"measured", "warm", truth, s.warm}, {"measured", "cold", truth, s.cold}, {"foretold", "warm", believed, s.warm}} {
			if w.gains == "foretold" && (c.Policy != "ymir" || strings.Contains(c.String(), "merge=none")) {
				continue
			}
			costs := perf.Costs{Switch: map[string]perf.Switch{}}
			for _, f := range m.Families {
				costs.Switch[f.Family] = perf.Switch{Cold: s.cold, Warm: w.warm}
			}
			x := experiment.Experiment{
				Spec: spec, Seed: s.seed, Costs: &costs, Estimate: experiment.Estimate{From: experiment.User},
				World: func(c *sim.Config) { c.Transfer = truth }, Transfer: w.belief,
			}
			done, err := x.Run(ctx, c, trace.FromMemory(s.batch(m)))
			if err != nil {
				return nil, err
			}
			o := outcome{Policy: c.String(), Gains: w.gains, Starts: w.starts}
			o.count(done)
			out = append(out, o)
		}
	}
	return out, nil
}

// count takes the figures of a run.
func (o *outcome) count(done *experiment.Outcome) {
	n := done.State.Jobs()
	for i := range n {
		r := done.State.Record(job.ID(i))
		o.JCT += (r.End - r.Job.Submit).Seconds() / float64(n)
		o.Makespan = max(o.Makespan, r.End.Seconds())
		switch r.Merged {
		case job.After:
			o.After++
		case job.Together:
			o.Together++
		}
	}
}

// batch is the jobs in a random order that depends on the seed. Each takes the steps that
// its task took with one of the seeds of the measurement; its user knows their mean.
func (s fleet) batch(m *measured) []trace.Entry {
	var out []trace.Entry
	demand := job.GPUs(1)
	for _, f := range m.Families {
		for _, t := range f.Tasks {
			for i := range s.jobs {
				j := job.Job{
					Key: fmt.Sprintf("%s-%d", t.Task, i+1), Name: t.Task, Demand: &demand, Kind: job.FineTuning, Model: f.Family,
					Backbone: f.Family, Dataset: t.Task, Stop: job.Checkpoint, Estimate: s.took(mean(t.K)),
				}
				out = append(out, trace.Entry{Job: j, Truth: trace.Truth{Work: s.took(t.K[i%len(t.K)])}})
			}
		}
	}
	rand.New(rand.NewPCG(s.seed, 0)).Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	for i := range out {
		out[i].Job.ID, out[i].Job.Submit = job.ID(i), time.Duration(i)*s.every
	}
	return out
}

// took is the time of so many steps.
func (s fleet) took(steps float64) time.Duration {
	return time.Duration(steps * float64(s.step)).Round(time.Millisecond)
}

// gains are what was measured.
func (m *measured) gains() []perf.Gain {
	return m.table(func(f *family, how string, p pair) float64 { return f.speedUp(p) })
}

// foretold are the gains that similarity and a regression of all other pairs tell, of the
// logarithm of how many times fewer steps a task needs.
func (m *measured) foretold() []perf.Gain {
	return m.table(func(f *family, how string, p pair) float64 {
		speedUp, err := f.regressed(how, p, func(p pair) float64 { return math.Log(f.speedUp(p)) })
		if err != nil {
			return 1
		}
		return math.Exp(speedUp)
	})
}

// table makes a table of gains of all pairs.
func (m *measured) table(speedUp func(f *family, how string, p pair) float64) []perf.Gain {
	var out []perf.Gain
	for i := range m.Families {
		f := &m.Families[i]
		task := func(name string) perf.Task { return perf.Task{Backbone: f.Family, Dataset: name} }
		for _, p := range f.After {
			out = append(out, perf.Gain{From: task(p.From), To: task(p.To), After: speedUp(f, after, p)})
		}
		for _, p := range f.Together {
			out = append(out, perf.Gain{From: task(p.From), To: task(p.To), Together: speedUp(f, together, p)})
		}
	}
	return out
}

func printOutcomes(all []outcome, s fleet) {
	title(fmt.Sprintf("%d slots, simulated: a job comes every %v, a step takes %v, a cold start %v, a warm one %v", s.slots, s.every, s.step, s.cold, s.warm))
	fmt.Printf("%-52s %-9s %-6s %9s %9s %6s %9s\n", "policy", "gains", "starts", "mean JCT", "makespan", "after", "together")
	for _, o := range all {
		fmt.Printf("%-52s %-9s %-6s %8.1fs %8.1fs %6d %9d\n", o.Policy, o.Gains, o.Starts, o.JCT, o.Makespan, o.After, o.Together)
	}
}
