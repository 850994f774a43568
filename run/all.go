package run

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/norn-scheduler/norn/trace"
)

// All simulates a trace under several choices, as many at once as there are
// processors, and returns the outcomes in the order of the choices. Done is told
// of each as it ends, one at a time; it may be nil, and an error of it ends all.
// A single choice streams the trace, unless Total is to be told; several share
// one copy of it in memory.
//
// On an error, and when the context ends, the outcomes of those that had ended
// are returned too; those of the others are nil.
func (x *Experiment) All(ctx context.Context, choices []Choice, src trace.Source, done func(*Outcome) error) ([]*Outcome, error) {
	if done == nil {
		done = func(*Outcome) error { return nil }
	}
	if len(choices) == 1 && x.Total == nil {
		o, err := x.Run(ctx, choices[0], src)
		if err == nil {
			err = done(o)
		}
		return []*Outcome{o}, err
	}
	jobs, err := readAll(ctx, src)
	if err != nil {
		return make([]*Outcome, len(choices)), err
	}
	if x.Total != nil {
		x.Total(len(jobs))
	}
	return x.parallel(ctx, choices, jobs, done)
}

func (x *Experiment) parallel(ctx context.Context, choices []Choice, jobs Jobs, done func(*Outcome) error) ([]*Outcome, error) {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes := make([]*Outcome, len(choices))
	errs := make([]error, len(choices))
	var next, told sync.Mutex
	at := 0
	take := func() int {
		next.Lock()
		defer next.Unlock()
		at++
		return at - 1
	}
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(choices)) {
		all.Go(func() {
			for i := take(); i < len(choices) && ctx.Err() == nil; i = take() {
				if outcomes[i], errs[i] = x.Run(ctx, choices[i], jobs.Source()); errs[i] == nil {
					told.Lock()
					errs[i] = done(outcomes[i])
					told.Unlock()
				}
				if errs[i] != nil {
					cancel()
				}
			}
		})
	}
	all.Wait()
	return outcomes, firstCause(append(errs, outer.Err()))
}

// firstCause is the first error that is not the echo of another.
func firstCause(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Jobs is a trace in memory.
type Jobs []trace.Entry

// ReadAll reads a trace to its end.
func ReadAll(src trace.Source) (Jobs, error) { return readAll(context.Background(), src) }

func readAll(ctx context.Context, src trace.Source) (Jobs, error) {
	var jobs Jobs
	for {
		var e trace.Entry
		if err := src.Next(&e); errors.Is(err, io.EOF) {
			return jobs, nil
		} else if err != nil {
			return nil, err
		}
		if jobs = append(jobs, e); len(jobs)%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// Source serves the jobs from the start.
func (j Jobs) Source() trace.Source { return trace.FromMemory(j) }
