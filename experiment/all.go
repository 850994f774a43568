package experiment

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// Growth is a cluster with more or fewer nodes than that of an experiment.
type Growth struct {
	Name string // what it has more or fewer, such as "+4 nodes"
	Spec *clusterspec.Spec
}

// All prepares a trace and simulates it under several choices, as many at once as there
// are processors. It returns the outcomes in the order of the choices. Done is told
// of each as it ends, one at a time; it may be nil, and an error of it ends all.
// A single choice streams the trace, unless Total is to be told; several share
// one copy of it in memory.
//
// On an error, and when the context ends, the outcomes of those that had ended
// are returned too; those of the others are nil. Errors are those of Run.
func (x *Experiment) All(ctx context.Context, choices []Choice, src trace.Source, done func(*Outcome) error) ([]*Outcome, error) {
	return x.AllOn(ctx, choices, nil, src, done)
}

// attempt is a choice on a cluster.
type attempt struct {
	on     *Experiment
	choice Choice
}

// AllOn is All, with each choice simulated on larger and smaller clusters, too. The trace
// is prepared for the cluster of the experiment, once. Outcomes come in the order of the
// choices on that cluster, then on the others, one after the other.
func (x *Experiment) AllOn(ctx context.Context, choices []Choice, growths []Growth, src trace.Source, done func(*Outcome) error) ([]*Outcome, error) {
	if done == nil {
		done = func(*Outcome) error { return nil }
	}
	prepared, err := Prepare(src, x.Preparation())
	if err != nil {
		return make([]*Outcome, len(choices)*(1+len(growths))), err
	}
	if len(choices) == 1 && len(growths) == 0 && x.Total == nil {
		o, err := x.Run(ctx, choices[0], prepared)
		if err == nil {
			err = done(o)
		}
		return []*Outcome{o}, err
	}
	loaded, err := x.load(ctx, prepared)
	if err != nil {
		return make([]*Outcome, len(choices)*(1+len(growths))), err
	}
	all, err := x.attempts(choices, growths)
	if err != nil {
		return make([]*Outcome, len(choices)*(1+len(growths))), err
	}
	if x.Total != nil {
		x.Total(len(loaded.jobs))
	}
	most := runtime.GOMAXPROCS(0)
	if x.Timed { // runs beside each other would slow each other's decisions down
		most = 1
	}
	return parallel(ctx, most, all, loaded.run, done)
}

// Loaded is a prepared trace in memory, on which any number of choices are simulated, also at once.
type Loaded struct {
	on     *Experiment // with what it assumes
	jobs   Jobs
	begins time.Time
	notes  []string
	told   []string // of what was assumed
}

// Load prepares a trace and reads it to its end. It fails as Prepare does, on an error of the
// trace, and when the context ends.
func (x *Experiment) Load(ctx context.Context, src trace.Source) (*Loaded, error) {
	prepared, err := Prepare(src, x.Preparation())
	if err != nil {
		return nil, err
	}
	l, err := x.load(ctx, prepared)
	if err != nil {
		return nil, err
	}
	l.on, err = x.assuming()
	return l, err
}

func (x *Experiment) load(ctx context.Context, prepared *Prepared) (*Loaded, error) {
	jobs, err := readAll(ctx, prepared)
	if err != nil {
		return nil, err
	}
	return &Loaded{jobs: jobs, begins: prepared.Begins(), notes: prepared.types.remarks(), told: prepared.Remarks()}, nil
}

// Jobs is how many jobs there are.
func (l *Loaded) Jobs() int { return len(l.jobs) }

// Remarks says what was assumed of how many jobs.
func (l *Loaded) Remarks() []string { return l.told }

// Run simulates the jobs under one choice. Errors are those of Experiment.Run.
func (l *Loaded) Run(ctx context.Context, c Choice) (*Outcome, error) {
	return l.run(ctx, attempt{l.on, c})
}

func (l *Loaded) run(ctx context.Context, a attempt) (*Outcome, error) {
	o, err := a.on.simulate(ctx, a.choice, l.jobs.Source(), l.begins)
	if err == nil {
		o.notes = l.notes
	}
	return o, err
}

// attempts are all choices on all clusters.
func (x *Experiment) attempts(choices []Choice, growths []Growth) ([]attempt, error) {
	var out []attempt
	for i := -1; i < len(growths); i++ {
		y := *x
		if i >= 0 {
			y.Spec, y.growth = growths[i].Spec, &growths[i]
		}
		on, err := y.assuming()
		if err != nil {
			return nil, err
		}
		for _, c := range choices {
			out = append(out, attempt{on, c})
		}
	}
	return out, nil
}

// parallel runs all attempts, so many at once.
func parallel(ctx context.Context, most int, choices []attempt, run func(context.Context, attempt) (*Outcome, error), done func(*Outcome) error) ([]*Outcome, error) {
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
	for range min(most, len(choices)) {
		all.Go(func() {
			for i := take(); i < len(choices) && ctx.Err() == nil; i = take() {
				if outcomes[i], errs[i] = run(ctx, choices[i]); errs[i] == nil {
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
