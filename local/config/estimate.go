package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/yamltext"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
)

// Estimates are the sources of run times: run.User and run.History, the one that
// is asked first in front. None: nothing is known of run times.
type Estimates []experiment.From

// String writes the sources as the file has them.
func (e Estimates) String() string {
	names := make([]string, len(e))
	for i, from := range e {
		names[i] = experiment.Estimate{From: from}.String()
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// read takes a source, or a list of them.
func (e *Estimates) read(n ast.Node) error {
	*e = nil
	one := func(n ast.Node) error {
		text, err := yamltext.Scalar(n)
		if err != nil {
			return err
		}
		from, err := source(text)
		if err != nil {
			return yamltext.Fault(n, "%v", err)
		}
		for _, known := range *e {
			if known == from {
				return yamltext.Fault(n, "%s is given twice", text)
			}
		}
		*e = append(*e, from)
		return nil
	}
	if _, ok := n.(*ast.SequenceNode); ok {
		return yamltext.List("sources of estimates", one)(n)
	}
	if text, err := yamltext.Scalar(n); err == nil && text == "none" {
		return nil
	}
	return one(n)
}

// source reads the name of a source that there is outside of a simulation.
func source(name string) (experiment.From, error) {
	for _, from := range []experiment.From{experiment.User, experiment.History} {
		if name == (experiment.Estimate{From: from}).String() {
			return from, nil
		}
	}
	return 0, fmt.Errorf("%q: write user, history, or a list of them such as [user, history]; [] for none", name)
}

// Make makes the estimator: the first source that knows a job decides, and all
// learn from what has ended.
func (e Estimates) Make() predict.Estimator {
	if len(e) == 0 {
		return predict.None{}
	}
	var all firstOf
	for _, from := range e {
		if from == experiment.History {
			all = append(all, predict.NewHistory(predict.DefaultRolling()))
		} else {
			all = append(all, predict.User{})
		}
	}
	return all
}

// firstOf is several estimators, the one that is asked first in front.
type firstOf []predict.Estimator

// Estimate implements predict.Estimator.
func (all firstOf) Estimate(j *job.Job) (time.Duration, bool) {
	for _, e := range all {
		if d, ok := e.Estimate(j); ok {
			return d, true
		}
	}
	return 0, false
}

// Observe implements predict.Estimator.
func (all firstOf) Observe(j *job.Job, ran time.Duration) {
	for _, e := range all {
		e.Observe(j, ran)
	}
}
