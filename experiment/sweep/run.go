package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/report"
)

// Sweep is a plan that is carried out.
type Sweep struct {
	Plan   *Plan
	Lab    Lab
	Store  *Store         // nil: nothing is kept
	AtOnce int            // simulations at a time; 0: as many as there are processors
	Memory int64          // bytes that traces and simulations may take together, as Weight has it; 0: no bound
	Watch  func(Progress) // is told of each run that is there, one at a time; nil: nobody
}

// Progress is how far a sweep has come.
type Progress struct {
	Total, Done int           // runs; those that were kept are done from the start
	Kept        int           // of those that are done
	Left        time.Duration // until the end, as far as runs so far tell; 0: they do not
}

// Results is what came of a sweep.
type Results struct {
	Plan *Plan
	Runs []*Run // in the order of worlds and policies; after an error, those that have ended
}

// Weight is about how many bytes a simulation takes for each job, its trace included: measured
// on traces of 100,000 jobs.
const Weight = 4000

// Run makes the runs that are not kept yet, side by side, and returns all. It ends at the
// first error, and when the context ends: what had ended by then is kept, and returned.
func (s *Sweep) Run(ctx context.Context) (*Results, error) {
	all, err := s.tasks(ctx)
	if err != nil {
		return nil, err
	}
	r := &runner{Sweep: s, ctx: ctx, room: newRoom(s.Memory), spent: map[string]*spent{}}
	r.workers = s.AtOnce
	if r.workers <= 0 {
		r.workers = runtime.GOMAXPROCS(0)
	}
	r.all(all)
	res := &Results{Plan: s.Plan}
	for _, t := range all {
		if t.run.Figures != nil {
			res.Runs = append(res.Runs, t.run)
		}
	}
	if r.failed == nil {
		r.failed = ctx.Err()
	}
	return res, r.failed
}

// Count says how many runs there are, and how many of them are kept, and makes none.
func (s *Sweep) Count(ctx context.Context) (Progress, error) {
	all, err := s.tasks(ctx)
	p := Progress{Total: len(all)}
	for _, t := range all {
		if t.run.Kept {
			p.Done++
		}
	}
	p.Kept = p.Done
	return p, err
}

// task is a run, which may have been made already.
type task struct {
	run *Run
	in  *opened
	key string
	id  *Identity
}

// opened is a world that is open as long as there are runs to be made in it.
type opened struct {
	world *World
	once  sync.Once
	jobs  *experiment.Loaded
	notes []string
	err   error

	counting sync.Mutex
	left     int // runs to be made
}

// tasks are all runs; those that are kept have their figures.
func (s *Sweep) tasks(ctx context.Context) ([]*task, error) {
	var out []*task
	for _, w := range s.Plan.Worlds() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		id, err := s.Lab.Identity(w)
		if err != nil {
			return nil, err
		}
		in := &opened{world: w}
		for _, c := range s.Plan.Policies {
			t := &task{run: &Run{World: w, Cluster: id.Cluster, Choice: c}, in: in, id: &id}
			if v := w.Value(AxisCluster); v != "" {
				t.run.Cluster = v
			}
			if t.key, err = keyOf(id.Made, c.String()); err != nil {
				return nil, err
			}
			if s.Store != nil {
				k, err := s.Store.find(t.key)
				if err != nil {
					return nil, err
				}
				if k != nil {
					t.run.take(k)
					t.run.Kept = true
				}
			}
			if t.run.Figures == nil {
				in.left++
			}
			out = append(out, t)
		}
	}
	return out, nil
}

// take takes over what is kept.
func (r *Run) take(k *kept) {
	r.Figures, r.Seconds, r.Remarks, r.Notes = k.Figures, k.Seconds, k.Remarks, k.Notes
}

// spent is the time that runs of a policy took.
type spent struct {
	seconds    float64
	runs, left int
}

// runner makes runs.
type runner struct {
	*Sweep
	ctx     context.Context
	workers int
	room    *room

	mu     sync.Mutex // of what follows
	spent  map[string]*spent
	total  int
	done   int
	kept   int
	failed error
}

// all makes all runs that are missing.
func (r *runner) all(all []*task) {
	var missing []*task
	for _, t := range all {
		p := t.run.Choice.String()
		if r.spent[p] == nil {
			r.spent[p] = &spent{}
		}
		if r.total++; t.run.Kept {
			r.count(t.run)
			r.kept++
		} else {
			r.spent[p].left++
			missing = append(missing, t)
		}
	}
	r.tell()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	next := make(chan *task)
	var workers sync.WaitGroup
	for range min(r.workers, len(missing)) {
		workers.Go(func() {
			for t := range next {
				if err := r.make(ctx, t); err != nil {
					r.fail(err)
					cancel()
				}
			}
		})
	}
	for _, t := range missing {
		select {
		case next <- t:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
}

// fail notes an error: the first that is not the echo of another.
func (r *runner) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil || errors.Is(r.failed, context.Canceled) {
		r.failed = err
	}
}

// count counts a run that is there. The caller holds mu, or nobody else runs yet.
func (r *runner) count(run *Run) {
	s := r.spent[run.Choice.String()]
	s.seconds += run.Seconds
	s.runs++
	r.done++
}

// tell tells how far it has come. The caller holds mu, or nobody else runs yet.
func (r *runner) tell() {
	if r.Watch == nil {
		return
	}
	seconds, runs := 0.0, 0
	for _, s := range r.spent {
		seconds, runs = seconds+s.seconds, runs+s.runs
	}
	left := 0.0
	for _, s := range r.spent {
		switch {
		case s.runs > 0:
			left += float64(s.left) * s.seconds / float64(s.runs)
		case runs > 0:
			left += float64(s.left) * seconds / float64(runs)
		}
	}
	r.Watch(Progress{r.total, r.done, r.kept, time.Duration(left / float64(r.workers) * 1e9)})
}

// make makes a run, and keeps it.
func (r *runner) make(ctx context.Context, t *task) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	defer t.in.release()
	jobs, err := t.in.open(ctx, r.Lab)
	if err != nil {
		return err
	}
	weight := int64(jobs.Jobs()) * Weight
	if err := r.room.take(ctx, weight); err != nil {
		return err
	}
	defer r.room.give(weight)
	begun := time.Now()
	o, err := jobs.Run(ctx, t.run.Choice)
	if errors.Is(err, context.Canceled) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s, seed %d: %w", t.in.world.Trace.Name, t.in.world.Seed, err)
	}
	k := &kept{t.id.Made, t.run.Choice.String(), o.Result.Figures(), o.Remarks(), t.in.notes, time.Since(begun).Seconds()}
	if text := report.LacksText(o.Result.Lacks); text != "" {
		k.Remarks = append(k.Remarks, text)
	}
	if r.Store != nil {
		if err := r.Store.keep(t.key, k); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.run.take(k)
	r.spent[t.run.Choice.String()].left--
	r.count(t.run)
	r.tell()
	return nil
}

// open opens the world once.
func (o *opened) open(ctx context.Context, lab Lab) (*experiment.Loaded, error) {
	o.once.Do(func() {
		w, err := lab.Open(ctx, o.world)
		if err == nil {
			o.jobs, err = w.Experiment.Load(ctx, w.Jobs)
			if c, ok := w.Jobs.(io.Closer); ok {
				defer c.Close()
			}
		}
		if o.err = err; err != nil {
			return
		}
		if o.notes = o.jobs.Remarks(); w.Remarks != nil {
			o.notes = append(o.notes, w.Remarks()...)
		}
	})
	return o.jobs, o.err
}

// release lets go of the jobs when no run needs them any more.
func (o *opened) release() {
	o.counting.Lock()
	defer o.counting.Unlock()
	if o.left--; o.left == 0 {
		o.jobs = nil
	}
}

// room is the memory that there is.
type room struct {
	size int64 // 0: without a bound
	mu   sync.Mutex
	used int64
	free chan struct{} // is closed when some was given back
}

func newRoom(size int64) *room { return &room{size: size, free: make(chan struct{})} }

// take waits until there is room; whoever is alone has enough.
func (r *room) take(ctx context.Context, n int64) error {
	for {
		r.mu.Lock()
		if r.size == 0 || r.used == 0 || r.used+n <= r.size {
			r.used += n
			r.mu.Unlock()
			return nil
		}
		free := r.free
		r.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// give gives room back.
func (r *room) give(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	close(r.free)
	r.free = make(chan struct{})
}
