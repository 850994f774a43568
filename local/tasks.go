package local

import (
	"context"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

// task is the running job behind a token.
type task struct {
	d     *Daemon
	token string
}

// TaskOf implements server.Backend.
func (d *Daemon) TaskOf(token string) (server.Task, error) {
	if _, ok := d.tokens.get(token); !ok {
		return nil, errNoTask
	}
	return task{d, token}, nil
}

var errNoTask = api.Refuse(api.NoToken, "this token belongs to no run that goes on")

// with does something for the job of the task.
func (t task) with(ctx context.Context, f func(*entry) error) error {
	return t.d.Loop.Ask(ctx, func() error {
		key, _ := t.d.tokens.get(t.token)
		l := t.d.by(key)
		if l == nil || l.token != t.token {
			return errNoTask
		}
		return f(l)
	})
}

// Allocation implements server.Task.
func (t task) Allocation(ctx context.Context) (a api.Allocation, err error) {
	err = t.with(ctx, func(l *entry) error {
		alloc, spec := t.d.State().Alloc(l.ID), l.Spec
		a = api.Allocation{
			Job: l.Key, Run: l.Run, Tasks: 1, Devices: t.d.opt.Machine.names(alloc), Elastic: spec.GPUs.Elastic(), Batch: t.d.ordered(l),
			StopMode: spec.Stop.Mode, Grace: spec.Stop.Grace, Resumable: l.Run > 1 && !l.forget && resumable(spec),
		}
		if alloc != nil {
			a.GPUs = float64(t.d.State().Cluster.GPUMilli(alloc)) / 1000
			a.CPUs, a.Memory = live.Beside(alloc)
			a.Host = t.d.opt.Machine.onHost(alloc)
		}
		a.Tasks = spec.Tasks.Of(len(a.Devices))
		a.Merge = t.d.merged(l)
		if alloc != nil {
			a.Throttle, a.GPUMemory = live.ThrottleOf(alloc), t.d.opt.Machine.cap(alloc, t.d.opt.Machine.devices(alloc))
		}
		return nil
	})
	return a, err
}

// Report implements server.Task.
func (t task) Report(ctx context.Context, r api.Report) (o api.Order, err error) {
	if err := t.d.MayChange(); err != nil {
		return o, err
	}
	err = t.with(ctx, func(l *entry) error {
		o = t.d.order(l)
		if r.Checkpoint != nil {
			if err := t.d.saw(l, r.Checkpoint); err != nil {
				return err
			}
		}
		if r.Rank == 0 {
			trainers{t.d}.switched(l)
			l.Report = merge(l.Report, &r)
			l.Losses.Add(&r)
			t.d.judge(l, &r)
			listener{t.d}.trainsWith(l, l.Report)
			gauges{t.d}.gaugeSpeed(l, l.Report)
			readings{t.d}.report(l, &r)
			if r.Paced && !l.limits.Paced {
				t.d.paces(l)
			}
		}
		return nil
	})
	return o, err
}

// saw notes a checkpoint. The work that the job has done so far can no longer
// be lost.
func (d *Daemon) saw(l *entry, c *api.Checkpoint) error {
	l.forget = false
	l.saved = rundir.Saved{At: rundir.Now(), Progress: int64(d.State().Record(l.ID).ProgressAt(d.Loop.Now())), Point: *c}
	if r := d.State().Record(l.ID); r.Phase == job.Running {
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Saved, Job: l.ID, Kept: time.Duration(l.saved.Progress)})
	}
	saved, dir := l.saved, d.store.runDir(l.Key, l.Run)
	d.Loop.Act(&l.Lane, func() {
		if err := rundir.Write(dir, rundir.SavedFile, saved); err != nil {
			d.log.Error("a checkpoint cannot be noted", "job", l.Key, "error", err)
		}
	})
	return nil
}

// merge is the later report, completed with values that only the earlier one
// has.
func merge(was, now *api.Report) *api.Report {
	out := *now
	if was == nil {
		return &out
	}
	keep(&out.Step, was.Step)
	keep(&out.Steps, was.Steps)
	keep(&out.Epoch, was.Epoch)
	keep(&out.Samples, was.Samples)
	keep(&out.Loss, was.Loss)
	keep(&out.StepTime, was.StepTime)
	keep(&out.Alone, was.Alone)
	keep(&out.Paced, was.Paced)
	keep(&out.Compute, was.Compute)
	keep(&out.Sync, was.Sync)
	keep(&out.GradSqr, was.GradSqr)
	keep(&out.GradVar, was.GradVar)
	keep(&out.Batch, was.Batch)
	keep(&out.Noise, was.Noise)
	keep(&out.LocalBatch, was.LocalBatch)
	keep(&out.Accumulation, was.Accumulation)
	keep(&out.LearningRate, was.LearningRate)
	keep(&out.Memory, was.Memory)
	keep(&out.GPUMemory, was.GPUMemory)
	keep(&out.Finished, was.Finished)
	if out.Stages == nil {
		out.Stages = was.Stages
	}
	if out.Quality == nil {
		out.Quality = was.Quality
	}
	if out.Embedding == nil {
		out.Embedding = was.Embedding
	}
	if out.Checkpoint == nil {
		out.Checkpoint = was.Checkpoint
	}
	return &out
}

// keep keeps an earlier value where the later report tells none.
func keep[T comparable](to *T, was T) {
	var none T
	if *to == none {
		*to = was
	}
}

// order is the present order to the tasks of a job.
func (d *Daemon) order(l *entry) api.Order {
	if l.stage == leaving && stopModeOf(l.Spec) == job.Checkpoint {
		return api.Order{Kind: api.StopNow, Grace: l.Spec.Stop.Grace, Why: l.Why}
	}
	o := api.Order{Kind: api.GoOn, Throttle: l.limits.Throttle}
	if batch := d.ordered(l); batch > 0 {
		o.Kind, o.Batch = api.BatchSize, batch
	}
	return o
}

// Order implements server.Task: it waits until there is another order than at first.
func (t task) Order(ctx context.Context) (o api.Order, err error) {
	var first *api.Order
	for {
		var changed chan struct{}
		err := t.with(context.WithoutCancel(ctx), func(l *entry) error {
			o, changed = t.d.order(l), l.changed
			return nil
		})
		if err != nil || o.Kind == api.StopNow || first != nil && o != *first {
			return o, err
		}
		if first == nil {
			was := o
			first = &was
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return o, nil
		case <-t.d.Loop.Stopped():
			return o, nil
		}
	}
}

// resumable tells whether a job that was stopped goes on from a checkpoint that it wrote.
func resumable(s *api.JobSpec) bool {
	mode := stopModeOf(s)
	return mode == job.Checkpoint || mode == job.LastSave
}
