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
// of each as it ends, one at a time; it may be nil. A single choice streams the
// trace; several share one copy of it in memory.
func (x *Experiment) All(ctx context.Context, choices []Choice, src trace.Source, done func(*Outcome)) ([]*Outcome, error) {
	if len(choices) == 1 {
		o, err := x.Run(ctx, choices[0], src)
		if err == nil && done != nil {
			done(o)
		}
		return []*Outcome{o}, err
	}
	jobs, err := ReadAll(src)
	if err != nil {
		return nil, err
	}
	return x.parallel(ctx, choices, jobs, done)
}

func (x *Experiment) parallel(ctx context.Context, choices []Choice, jobs Jobs, done func(*Outcome)) ([]*Outcome, error) {
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
				if outcomes[i], errs[i] = x.Run(ctx, choices[i], jobs.Source()); errs[i] != nil {
					cancel()
					continue
				}
				if done != nil {
					told.Lock()
					done(outcomes[i])
					told.Unlock()
				}
			}
		})
	}
	all.Wait()
	return outcomes, firstCause(errs)
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
func ReadAll(src trace.Source) (Jobs, error) {
	var jobs Jobs
	for {
		var e trace.Entry
		if err := src.Next(&e); errors.Is(err, io.EOF) {
			return jobs, nil
		} else if err != nil {
			return nil, err
		}
		jobs = append(jobs, e)
	}
}

// Source serves the jobs from the start.
func (j Jobs) Source() trace.Source { return &memory{jobs: j} }

type memory struct {
	jobs Jobs
	next int
}

// Next implements trace.Source.
func (m *memory) Next(e *trace.Entry) error {
	if m.next == len(m.jobs) {
		return io.EOF
	}
	*e = m.jobs[m.next]
	m.next++
	return nil
}
