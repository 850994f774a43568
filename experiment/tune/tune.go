// Package tune finds settings of a policy that are good for the jobs of a cluster, by simulation. It is
// norn tune as a library.
//
// Nouns:
//   - A Knob is a coordinate of the settings, a Point is one of each, a Space all of them.
//   - A Trial is a point that was proposed. It is measured (simulated), or passed over because a model
//     foretells that it is worse than the best so far.
//   - The objective is one figure of a run, in seconds or as a ratio, of which less is better. The
//     reward is that of the defaults over it, so more is better and 1 is as good as the defaults.
//   - The later jobs are those that were not looked at while the settings were chosen.
//
// Source: Gao et al., "AutoSched: An Adaptive Self-configured Framework for Scheduling Deep Learning
// Training Workloads", ICS 2024, section 5: the causal tuner. Its generator of jobs to come and its
// aggregation of jobs are not here: past jobs are simulated as they are.
package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/report"
)

// Objective is a figure of a run of which less is better.
type Objective struct {
	Name  string // as a user writes it
	Text  string // in a sentence
	Ratio bool   // it is no time
	Of    func(*report.Result) float64
}

// Objectives are all that can be tuned for.
func Objectives() []Objective {
	return []Objective{
		{"mean-jct", "the mean completion time", false, func(r *report.Result) float64 { return r.JCT.Mean.Seconds() }},
		{"p99-jct", "the 99th percentile of completion times", false, func(r *report.Result) float64 { return r.JCT.P99.Seconds() }},
		{"mean-wait", "the mean wait", false, func(r *report.Result) float64 { return r.Wait.Mean.Seconds() }},
		{"makespan", "the makespan", false, func(r *report.Result) float64 { return r.Makespan.Seconds() }},
		{"mean-rho", "the mean finish-time fairness", true, func(r *report.Result) float64 { return r.Fairness.Mean }},
		{"worst-rho", "the worst finish-time fairness", true, func(r *report.Result) float64 { return r.Fairness.Worst }},
	}
}

// Metrics are what settings bring about, and through which they bear on the objective.
type Metrics struct {
	Wait        float64 // mean, in seconds
	Held        float64 // mean time on devices, in seconds
	Lost        float64 // GPU-hours, to transitions
	Preemptions float64
	Busy        float64 // GPU time held of that available, up to the last arrival
}

func (m *Metrics) values() []float64 { return []float64{m.Wait, m.Held, m.Lost, m.Preemptions, m.Busy} }

// Measure is what a simulation has shown.
type Measure struct {
	Objective float64
	Left      int // jobs that had not ended
	Metrics   Metrics
}

// measure reads a result. Settings under which jobs are left that ended under others are no good.
func (o *Objective) measure(r *report.Result) *Measure {
	return &Measure{Objective: o.Of(r), Left: r.Jobs.Left(), Metrics: Metrics{
		Wait: r.Wait.Mean.Seconds(), Held: (r.JCT.Mean - r.Wait.Mean).Seconds(), Lost: r.GPU.Transitions(),
		Preemptions: float64(r.Preemptions), Busy: r.UtilisationArrivals,
	}}
}

// Trial is a point that was proposed.
type Trial struct {
	Choice   experiment.Choice
	Foretold float64  // reward; 0: nothing was foretold
	Measured *Measure // nil: it was passed over

	point Point
}

// Tuner searches. Jobs are those that settings are chosen by, Later those that they are tried on.
type Tuner struct {
	Experiment  *experiment.Experiment
	Jobs, Later experiment.Jobs
	Objective   Objective
	Trials      int    // simulations, at most, beside those that check the best settings
	Seed        uint64 // of proposals

	// Told is told of each trial, and the best reward so far; nil: nobody is.
	Told func(t *Trial, best float64)
}

// AutoSched's constants: a proposal is passed over when less is foretold of it than this part of the best
// reward, but for some, so that the model is corrected where it errs.
const (
	promising = 0.95
	trusting  = 0.9
)

// Result is what came of a search.
type Result struct {
	Default, Best experiment.Choice // Best is Default where nothing better was found
	Trials        []Trial
	Effects       []Effect // of the settings of Best, the largest first

	Was, Is           Measure // of Default and Best, on the jobs
	LaterWas, LaterIs Measure // on the later jobs; zero: there are none
}

// Effect is what a changed setting is worth.
type Effect struct {
	Setting experiment.Setting
	Without Measure // with the default of this setting alone
}

// Simulated is how many proposals were.
func (r *Result) Simulated() (n int) {
	for i := range r.Trials {
		if r.Trials[i].Measured != nil {
			n++
		}
	}
	return n
}

// Gain is the part by which the objective falls, by which the settings were chosen.
func (r *Result) Gain() float64 { return 1 - r.Is.Objective/r.Was.Objective }

// LaterGain is the same on the later jobs; ok is false where there are none.
func (r *Result) LaterGain() (gain float64, ok bool) {
	if r.LaterWas.Objective == 0 {
		return 0, false
	}
	return 1 - r.LaterIs.Objective/r.LaterWas.Objective, true
}

// Search tries settings of a policy. Those that the choice sets stay. It fails where the policy has
// nothing to set, and on errors of simulations.
func (t *Tuner) Search(ctx context.Context, c experiment.Choice) (*Result, error) {
	space, err := NewSpace(c)
	if err != nil {
		return nil, err
	}
	s := &search{Tuner: t, space: space, rand: rand.New(rand.NewPCG(t.Seed, 0x74756e65)), known: map[string]*Measure{}}
	r := &Result{Default: c}
	was, err := s.simulate(ctx, c, t.Jobs)
	if err != nil {
		return nil, err
	}
	if was.Objective <= 0 || math.IsNaN(was.Objective) || math.IsInf(was.Objective, 0) {
		return nil, fmt.Errorf("%s under %s is %v: there is nothing to make better", t.Objective.Text, c, was.Objective)
	}
	r.Was = *was
	if err := s.trials(ctx, r); err != nil {
		return nil, err
	}
	if err := s.prune(ctx, r); err != nil {
		return nil, err
	}
	if len(t.Later) > 0 {
		for choice, to := range map[*experiment.Choice]*Measure{&r.Default: &r.LaterWas, &r.Best: &r.LaterIs} {
			m, err := s.simulate(ctx, *choice, t.Later)
			if err != nil {
				return nil, err
			}
			*to = *m
		}
	}
	return r, nil
}

// search is one search.
type search struct {
	*Tuner
	space *Space
	rand  *rand.Rand
	known map[string]*Measure // by choice, of Jobs
}

// trials tries points until all trials are made.
func (s *search) trials(ctx context.Context, r *Result) error {
	proposals := newSampler(s.space, s.rand, max(4, s.Trials/4))
	proposals.best = 1
	best := 1.0
	var of *model
	for measured, asked := 0, 0; measured < s.Trials && asked < 20*s.Trials; asked++ {
		t := Trial{point: proposals.next()}
		var err error
		if t.Choice, err = s.space.Choice(t.point); err != nil { // settings that do not go together
			proposals.tell(0, false)
			continue
		}
		if of != nil {
			t.Foretold = of.foretell(t.point)
		}
		if of != nil && t.Foretold <= promising*best && s.rand.Float64() < trusting {
			proposals.tell(max(0, t.Foretold), false)
		} else if t.Measured = s.known[t.Choice.String()]; t.Measured != nil {
			proposals.tell(r.reward(t.Measured), false)
			continue
		} else {
			if t.Measured, err = s.simulate(ctx, t.Choice, s.Jobs); err != nil {
				return err
			}
			s.known[t.Choice.String()] = t.Measured
			measured++
			reward := r.reward(t.Measured)
			best = max(best, reward)
			proposals.tell(reward, true)
		}
		r.Trials = append(r.Trials, t)
		if s.Told != nil {
			s.Told(&r.Trials[len(r.Trials)-1], best)
		}
		if t.Measured != nil {
			if of = learn(s.space, r.Trials, r.Was.Objective); of != nil {
				proposals.freeze(of)
			}
		}
	}
	return nil
}

// reward is that of a measure.
func (r *Result) reward(m *Measure) float64 {
	if m.Left > r.Was.Left || !(m.Objective > 0) {
		return 0
	}
	return r.Was.Objective / m.Objective
}

// negligible is the part of the objective that a setting must be worth.
const negligible = 0.005

// prune takes the best trial, and gives those of its settings their defaults that are not worth anything.
func (s *search) prune(ctx context.Context, r *Result) error {
	r.Best, r.Is = r.Default, r.Was
	for i := range r.Trials {
		if m := r.Trials[i].Measured; m != nil && r.reward(m) > r.reward(&r.Is) {
			r.Best, r.Is = r.Trials[i].Choice, *m
		}
	}
	for i := 0; i < len(r.Best.Settings); {
		without, m, err := s.without(ctx, r.Best, i)
		if err != nil {
			return err
		}
		if m != nil && m.Left <= r.Was.Left && m.Objective <= r.Is.Objective*(1+negligible) {
			r.Best, r.Is, i = without, *m, 0
			continue
		}
		i++
	}
	for i, set := range r.Best.Settings {
		_, m, err := s.without(ctx, r.Best, i)
		if err != nil {
			return err
		}
		if m != nil && !slices.Contains(r.Default.Settings, set) {
			r.Effects = append(r.Effects, Effect{set, *m})
		}
	}
	slices.SortStableFunc(r.Effects, func(a, b Effect) int {
		switch {
		case a.Without.Objective > b.Without.Objective:
			return -1
		case a.Without.Objective < b.Without.Objective:
			return 1
		}
		return 0
	})
	return nil
}

// without simulates a choice with the default of one of its settings. The measure is nil where the others
// do not go with that, or the user has set it.
func (s *search) without(ctx context.Context, c experiment.Choice, i int) (experiment.Choice, *Measure, error) {
	out := experiment.Choice{Policy: c.Policy, Settings: slices.Delete(slices.Clone(c.Settings), i, i+1)}
	if slices.Contains(s.space.fixed, c.Settings[i]) {
		return out, nil, nil
	}
	if _, err := out.Make(); err != nil {
		return out, nil, nil
	}
	if m := s.known[out.String()]; m != nil {
		return out, m, nil
	}
	m, err := s.simulate(ctx, out, s.Jobs)
	s.known[out.String()] = m
	return out, m, err
}

// simulate runs jobs under a choice.
func (s *search) simulate(ctx context.Context, c experiment.Choice, jobs experiment.Jobs) (*Measure, error) {
	o, err := s.Experiment.Run(ctx, c, jobs.Source())
	if err != nil {
		return nil, err
	}
	if o == nil || o.Result == nil {
		return nil, errors.New("the simulation of " + c.String() + " has no result")
	}
	return s.Objective.measure(o.Result), nil
}

// Split divides jobs by the time of their submission: the later part of them is for trying settings on
// that were chosen by the others. Their time and their numbers begin anew.
func Split(all experiment.Jobs, later float64) (jobs, rest experiment.Jobs) {
	at := len(all) - int(float64(len(all))*later)
	jobs, rest = slices.Clone(all[:at]), slices.Clone(all[at:])
	for i := range rest {
		j, by := &rest[i].Job, all[at].Job.Submit
		j.ID, j.Submit = job.ID(i), j.Submit-by
		if j.Deadline > 0 {
			j.Deadline = max(1, j.Deadline-by)
		}
		if j.Hints != nil && j.Hints.Worth[0].By > 0 {
			h := *j.Hints
			for k := range h.Worth {
				if h.Worth[k].By > 0 {
					h.Worth[k].By = max(1, h.Worth[k].By-by)
				}
			}
			j.Hints = &h
		}
	}
	return jobs, rest
}
