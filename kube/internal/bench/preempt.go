package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	batch "k8s.io/api/batch/v1"

	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
	"github.com/norn-scheduler/norn/kube/names"
)

// Sizes of the preemption: Jobs that fill the cluster, and those that take their place.
const (
	fillers   = 200
	newcomers = 100
	jobPods   = 8
)

// preempt has a full cluster give room to short Jobs. The limit is the least scheduler with a
// user who suspends as many Jobs by hand.
func (b *bench) preempt(ctx context.Context) error {
	limit, err := b.preempted(ctx, func(ctx context.Context, c *cluster) (func() error, error) {
		ctx, end := context.WithCancel(ctx)
		_, err := startLeast(ctx, c, fillers)
		return func() error { end(); return nil }, err
	}, true)
	if err != nil {
		return fmt.Errorf("limit: %w", err)
	}
	mine, err := b.preempted(ctx, func(ctx context.Context, c *cluster) (func() error, error) {
		n, err := b.startNorn(ctx, c, "--policy", "srtf")
		if err != nil {
			return nil, err
		}
		return n.stop, nil
	}, false)
	if err != nil {
		return fmt.Errorf("norn: %w", err)
	}
	b.add(row{
		Bar: "B4", Scenario: "100 Jobs of 8 preempt on a full cluster", What: "asked to last bound, s", Norn: mine.Seconds(), Limit: limit.Seconds(),
		Bound: "1.5 times the limit", Met: mine <= limit*3/2,
	})
	return nil
}

// preempted is how long it takes until all newcomers are bound.
func (b *bench) preempted(ctx context.Context, scheduler func(context.Context, *cluster) (func() error, error), byHand bool) (took time.Duration, err error) {
	c, err := start(ctx, shape{nodes: fillers, options: []testenv.Option{testenv.ControllerManager(testenv.Raised()...)}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	stop, err := scheduler(ctx, c)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	one := func(prefix, estimate string) func(i int) error {
		return func(i int) error {
			return c.makeJob(ctx, fmt.Sprintf("%s%05d", prefix, i), jobPods, 1, func(j *batch.Job) {
				j.Labels[names.Stop] = "checkpoint"
				j.Annotations = map[string]string{names.Estimate: estimate}
				j.Spec.Template.Annotations = map[string]string{fakekubelet.SaveTime: "0s", sizeNote: strconv.Itoa(jobPods)}
			})
		}
	}
	if err := each(fillers, clients, one("old", "100h")); err != nil {
		return 0, err
	}
	err = until(ctx, "all Jobs of before run", 5*time.Minute, func() (bool, error) {
		_, running, _ := c.count()
		return running >= fillers*jobPods, nil
	})
	if err != nil {
		return 0, err
	}
	b.say("the cluster is full")
	began := time.Now()
	if err := each(newcomers, clients, one("new", "1m")); err != nil {
		return 0, err
	}
	if byHand {
		if err := each(newcomers, workers, func(i int) error { return suspend(ctx, c.client, fmt.Sprintf("old%05d", i), true) }); err != nil {
			return 0, err
		}
	}
	var last time.Time
	err = until(ctx, "all newcomers are bound", 10*time.Minute, func() (bool, error) {
		n := 0
		n, last = c.boundPods("new")
		return n >= newcomers*jobPods, nil
	})
	return last.Sub(began), err
}
