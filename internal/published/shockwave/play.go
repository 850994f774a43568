package shockwave

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// play carries the loop out: next is one turn of it. The jobs of a round are
// those that the engine is told to run, on devices that the ledger books. A job
// that ends holds them until the round is over, as in the loop.
func (m *machine) play(ctx context.Context, tasks []*task, next func() bool) error {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "v100"})
	if err != nil {
		return err
	}
	if _, err := c.AddNode(cluster.NodeSpec{Pooled: true, GPUs: []cluster.GPUs{{Type: typ, Count: m.gpus}}}); err != nil {
		return err
	}
	var jobs harness.Jobs
	for i, t := range tasks {
		d := job.GPUs(t.gpus)
		jobs = append(jobs, trace.Entry{
			Job:   job.Job{ID: job.ID(i), Key: strconv.Itoa(t.id), Name: t.model, Submit: nanos(t.arrives), Demand: &d, Retries: -1},
			Truth: trace.Truth{Work: harness.Seconds(harness.MaxSeconds)}, // the loop ends it
		})
	}
	p := &player{machine: m, next: next}
	setup := harness.Setup{
		Cluster: c, Policy: p, World: sim.Config{Source: jobs.Source()},
		Around: func(w *sim.Sim) harness.World { p.clock.Sim = w; return &p.clock },
	}
	end, err := setup.Run(ctx)
	if err != nil {
		return err
	}
	for i := range tasks {
		if r := end.Record(job.ID(i)); r.Phase != job.Done {
			return fmt.Errorf("job %s: was left %s", r.Job.Key, r.Phase)
		}
	}
	return nil
}

// nanos is a time in seconds as the engine counts.
func nanos(s float64) time.Duration { return time.Duration(s*1e9 + 0.5) }

// player is the loop as a policy.
type player struct {
	*machine
	next  func() bool
	clock clock
	ended int  // tasks whose end was told
	due   bool // the round has begun, and its tasks are to be started
	alloc cluster.Alloc
}

// Decide implements sched.Policy. Where tasks end, the next ones are started once
// they have.
func (p *player) Decide(v *sched.View, plan *sched.Plan) {
	if !p.due {
		if v.Now < p.turn() || !p.next() && p.ended == len(p.over) {
			return
		}
		p.due = true
		if p.ended < len(p.over) {
			for _, t := range p.over[p.ended:] {
				p.clock.ends = append(p.clock.ends, job.ID(t.id))
			}
			p.ended = len(p.over)
			return
		}
	}
	p.due = false
	for j := range v.Running() {
		plan.Stop(j.ID, job.Reason{Code: job.UsedShare, Job: job.None})
	}
	for _, l := range p.running {
		p.alloc.Reset()
		p.alloc.Pieces = append(p.alloc.Pieces, cluster.Piece{Tasks: int32(l.gpus), Shares: 1})
		p.alloc.Shares = append(p.alloc.Shares, cluster.Share{Milli: int32(l.gpus) * 1000})
		plan.StartOn(job.ID(l.id), &p.alloc)
	}
}

// turn is when the loop goes on: when the round is over or, if nobody runs, when
// somebody comes.
func (p *player) turn() time.Duration {
	switch {
	case len(p.running) > 0:
		end := 0.0
		for _, l := range p.running {
			end = max(end, l.finish)
		}
		return nanos(end)
	case len(p.queue) > 0:
		return nanos(p.queue[0].arrives)
	}
	return unit.Never
}

// NextWake implements sched.Waker.
func (p *player) NextWake(v *sched.View) time.Duration {
	if p.due {
		return v.Now + 1 // those who end come before
	}
	return max(p.turn(), v.Now+1)
}

// clock is the simulated world with the ends of tasks as the loop tells them.
type clock struct {
	*sim.Sim
	ends []job.ID
	now  time.Duration
}

// Attach implements replay.World.
func (c *clock) Attach(s *state.State) error { return c.Sim.Attach(s) }

// Next implements engine.World.
func (c *clock) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	if len(c.ends) == 0 {
		now, out, err := c.Sim.Next(wake, out)
		c.now = now
		return now, out, err
	}
	for _, id := range c.ends {
		c.Sim.Stop(id)
		out = append(out, eventlog.Event{Time: c.now, Kind: eventlog.End, Job: id, Outcome: job.Done})
	}
	c.ends = c.ends[:0]
	return c.now, out, nil
}
