package main

import (
	"fmt"
	"math"

	"github.com/norn-scheduler/norn/perf/predict/loss"
)

// unit is how many steps of the optimiser Ymir's rule counts as one: a fifth of an epoch.
const unit = 25

// lengths is how well Ymir's rule foretells how long the tasks of a family take.
type lengths struct {
	Family  string   `json:"family"`
	Profile []length `json:"profile"` // by length of the profile
}

// length is what profiles of so many steps foretell. Errors are the mean of
// |foretold - needed| / needed.
type length struct {
	Steps  int     `json:"steps"`
	Rule   float64 `json:"rule"`   // against the same rule with the whole trace
	Target float64 `json:"target"` // against the steps to the target
	After  float64 `json:"after"`  // the same, of tasks that go on from others, with their measured gains
	Tasks  []known `json:"tasks"`
}

// known is a task with one seed.
type known struct {
	Task   string  `json:"task"`
	Rule   float64 `json:"rule"`   // K, as the rule tells it from the profile
	Whole  float64 `json:"whole"`  // K, as the rule tells it from the whole trace
	Needed float64 `json:"needed"` // steps to the target
}

// lengths foretells from profiles of one, two, four and six times the usual length. The
// steps that the other tasks of the family have needed turn the answer of the rule into
// steps to a target.
func (f *family) lengths() (lengths, error) {
	out := lengths{Family: f.Family}
	for _, times := range []int{1, 2, 4, 6} {
		l := length{Steps: times * f.Profile}
		for _, t := range f.Tasks {
			for seed, trace := range t.Loss {
				k, err := iterations(trace, l.Steps, 0)
				if err != nil {
					return out, fmt.Errorf("%s %s: %w", f.Family, t.Task, err)
				}
				whole, err := iterations(trace, math.MaxInt, 0)
				if err != nil {
					return out, fmt.Errorf("%s %s: %w", f.Family, t.Task, err)
				}
				l.Tasks = append(l.Tasks, known{t.Task, k, whole, t.K[seed]})
			}
		}
		for _, k := range l.Tasks {
			n := float64(len(l.Tasks))
			l.Rule += off(k.Rule, k.Whole) / n
			l.Target += off(k.Rule*l.share(k.Task), k.Needed) / n
		}
		l.After = f.lengthsAfter(l)
		out.Profile = append(out.Profile, l)
	}
	return out, nil
}

// off is the relative error of what is foretold.
func off(foretold, needed float64) float64 { return math.Abs(foretold-needed) / needed }

// share is which part of K tasks need to their targets, in the mean over all tasks but one.
func (l *length) share(but string) float64 {
	sum, n := 0.0, 0.0
	for _, k := range l.Tasks {
		if k.Task != but {
			sum, n = sum+k.Needed/k.Rule, n+1
		}
	}
	if n == 0 {
		return 1
	}
	return sum / n
}

// lengthsAfter is the mean error of what is foretold of tasks that go on from others.
func (f *family) lengthsAfter(l length) float64 {
	sum, n := 0.0, 0.0
	for _, p := range f.After {
		for seed, trace := range f.task(p.To).Loss {
			k, err := iterations(trace, l.Steps, f.gain(p))
			if p.From != p.To && err == nil && seed < len(p.K) {
				sum, n = sum+off(k*l.share(p.To), p.K[seed]), n+1
			}
		}
	}
	return sum / max(1, n)
}

// iterations is K as the first steps of a trace tell it, for a job with some gain.
func iterations(trace [][2]float64, steps int, gain float64) (float64, error) {
	var s []loss.Sample
	for _, p := range trace {
		if p[0] <= float64(steps) {
			s = append(s, loss.Sample{K: p[0] / unit, Loss: p[1]})
		}
	}
	c, err := loss.Fit(loss.Normalize(s))
	if err != nil {
		return 0, err
	}
	return unit * float64(c.Iterations(gain)), nil
}

func printLengths(all []lengths) {
	title("Steps needed, foretold from the losses of a profile: mean errors")
	fmt.Printf("%-10s %8s %22s %11s %16s\n", "family", "profile", "against the whole trace", "the target", "the target, after")
	for _, f := range all {
		for _, l := range f.Profile {
			fmt.Printf("%-10s %8d %21.0f%% %11.0f%% %15.0f%%\n", f.Family, l.Steps, 100*l.Rule, 100*l.Target, 100*l.After)
		}
	}
}
