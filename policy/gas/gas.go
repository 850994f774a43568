// Package gas chooses at its start on how many GPUs a job is to run, by the time and the energy that
// are predicted for each number: many while GPUs are idle, few while jobs queue. Nobody is preempted,
// and no size changes afterwards.
//
// Nouns:
//   - A size is a number of tasks; the least one is the fewest that the job can run with.
//   - The efficiency of a size is its speed for each task, over that of the least size.
//   - The load that a job sees is what the other waiting jobs ask for, over the GPUs that are free.
//   - A job is late when it was submitted longer ago than Starve.
//
// Source: Chen, Han, Zhou and Chen, "GAS: GPU Allocation Strategy for Deep Learning Training Tasks",
// IEEE SmartWorld 2022. Of it only the abstract was at hand. The rule is a reasoned design that keeps
// what the abstract promises, not the authors'.
package gas

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of the policy.
type Config struct {
	Low, High float64 // the efficiency that is asked for without load, and with a load of 1 or more
	Slack     float64 // the energy that is allowed, over the least
	Idle      float64 // the load below which energy does not count
	Stretch   float64 // times as long as at the size that it asks for a job may take
	Starve    time.Duration
	Largest   int
	Place     place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Low: 0.5, High: 0.9, Slack: 1.05, Idle: 0.25, Stretch: 1.5, Starve: time.Hour, Largest: 64, Place: place.Consolidated}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Float("theta_lo", &c.Low, 0, 1, "ratio", "efficiency that is asked for when no other job waits"),
		param.Float("theta_hi", &c.High, 0, 1, "ratio", "efficiency that is asked for when others ask for all free GPUs or more"),
		param.Float("energy_slack", &c.Slack, 1, 1000, "ratio", "energy that a size may take, over that of the best one"),
		param.Float("low_load", &c.Idle, 0, 1000, "ratio", "load below which energy does not count"),
		param.Float("stretch", &c.Stretch, 1, 1e6, "ratio", "how much longer a job may take than at the size that it asks for"),
		param.Duration("starve", &c.Starve, "time since its submission after which a job goes first"),
		param.Int("largest", &c.Largest, 1, 1<<20, "tasks", "the most that an elastic job gets"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Elastic), "jobs run on the numbers of GPUs that they ask for, the shortest first").
		And(need.Of(need.RunTimes), "jobs go by submission")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.High < c.Low {
		return nil, errors.New("theta_hi must be theta_lo or more")
	}
	return &policy{cfg: *c}, nil
}

type policy struct {
	cfg        Config
	queue      queue.Queue // the shortest at their least size first
	came       queue.Queue // the same jobs, by submission
	late       queue.Queue // by submission
	infeasible sched.Infeasible
	asked      map[job.ID]int // GPUs that waiting jobs ask for
	demand     int            // all of them

	taken []job.ID // by this decision

	blocked  job.ID        // a late job that does not fit; job.None: there is none
	at       time.Duration // when it is expected to start; 0: nobody knows
	reserved cluster.Alloc // on what it is expected to start then
}

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	for _, id := range o.infeasible.Reconsider(v) {
		o.add(v, p, v.Job(id))
	}
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Arrived, sched.Stopped:
			o.add(v, p, v.Job(ch.Job))
		case sched.Altered:
			if o.queue.Has(ch.Job) {
				o.queue.Add(ch.Job, v.Job(ch.Job).Class(), length(v, v.Job(ch.Job)))
			}
		case sched.Ended:
			o.remove(ch.Job)
			o.infeasible.Remove(ch.Job)
		}
	}
	o.age(v)
	o.blocked = job.None
	free := v.Free()
	visit := func(id job.ID) queue.Step {
		if o.start(v, p, v.Job(id), free) {
			o.taken = append(o.taken, id)
			return queue.Took
		}
		return queue.SkipClass
	}
	o.late.Walk(nil, func(id job.ID) queue.Step {
		step := visit(id)
		if step != queue.Took && o.blocked == job.None && !v.Job(id).Spec().Demand.Elastic() {
			if !o.reserve(v, p, id) { // nobody knows when it can start: then it is next
				return queue.Stop
			}
		}
		return step
	})
	if o.blocked == job.None || o.at > 0 {
		o.queue.Walk(nil, visit)
	}
	for _, id := range o.taken {
		o.remove(id)
	}
	o.taken = o.taken[:0]
}

// add takes in a job that waits from now on.
func (o *policy) add(v *sched.View, p *sched.Plan, j sched.Job) {
	o.remove(j.ID)
	if !resize.Shrinks(v, j) && o.infeasible.Rejects(p, j.ID, o.cfg.Place) {
		return
	}
	if o.asked == nil {
		o.asked = map[job.ID]int{}
	}
	o.asked[j.ID] = j.GPUs()
	o.demand += j.GPUs()
	o.queue.Add(j.ID, j.Class(), length(v, j))
	o.came.Add(j.ID, 0, queue.Key{A: int64(j.Submit())})
}

// remove forgets a job.
func (o *policy) remove(id job.ID) {
	o.demand -= o.asked[id]
	delete(o.asked, id)
	o.queue.Remove(id)
	o.came.Remove(id)
	o.late.Remove(id)
}

// age lets jobs go first that were submitted too long ago.
func (o *policy) age(v *sched.View) {
	if o.cfg.Starve == unit.Never {
		return
	}
	for id, ok := o.came.First(); ok && v.Now-v.Job(id).Submit() > o.cfg.Starve; id, ok = o.came.First() {
		o.came.Remove(id)
		o.queue.Remove(id)
		o.late.Add(id, v.Job(id).Class(), queue.Key{A: int64(v.Job(id).Submit())})
	}
}

// length orders jobs by the time that they need at their least size. Those of which nobody knows it
// come last, by submission.
func length(v *sched.View, j sched.Job) queue.Key {
	least, _ := j.Spec().Demand.Roles[0].Range()
	left, known := j.Remaining()
	speed := resize.BestSpeed(v, j, int(least), math.MaxInt)
	if !known || speed <= 0 {
		return queue.Key{A: math.MaxInt64}
	}
	return queue.Key{A: int64(min(float64(left)/speed, math.MaxInt64/2))}
}

// start starts a job at the largest size that is right for it and fits. Where a late job has a
// reservation, the job must end in time or be on other devices.
func (o *policy) start(v *sched.View, p *sched.Plan, j sched.Job, free int) bool {
	load := float64(o.demand-o.asked[j.ID]) / float64(max(1, free))
	for _, s := range o.sizes(v, j, load) {
		ok := false
		if left, known := j.Remaining(); o.blocked == job.None || known && s.speed > 0 && float64(left)/s.speed <= float64(o.at-v.Now) {
			ok = p.StartSize(j.ID, s.tasks, o.cfg.Place)
		} else {
			p.Without(&o.reserved, func() { ok = p.StartSize(j.ID, s.tasks, o.cfg.Place) })
		}
		if ok {
			return true
		}
	}
	return false
}

// reserve keeps devices for a late job that was just refused. The result is false where nobody knows
// when they will be free.
func (o *policy) reserve(v *sched.View, p *sched.Plan, id job.ID) bool {
	why := p.Why()
	at, on, ok := p.Expect(id, o.cfg.Place)
	if o.blocked, o.at = id, 0; !ok {
		return false
	}
	why.At, o.at = at, at
	p.Wait(id, why)
	o.reserved.CopyFrom(on)
	return true
}

// size is a number of tasks that a job may have, with what is predicted of it.
type size struct {
	tasks      int
	speed      float64
	efficiency float64
	energy     float64 // for each unit of work, over that of the least size
}

// sizes are those that are right for a job, from the largest: efficient enough for the load, and
// without much more energy than the best. Where none is, that is the least size.
func (o *policy) sizes(v *sched.View, j sched.Job, load float64) []size {
	theta := o.cfg.Low + (o.cfg.High-o.cfg.Low)*min(1, load)
	all := o.predicted(v, j)
	best := math.Inf(1)
	for _, s := range all {
		best = min(best, s.energy)
	}
	right := slices.DeleteFunc(slices.Clone(all), func(s size) bool {
		return s.efficiency < theta || s.energy > o.cfg.Slack*best && load >= o.cfg.Idle
	})
	if len(right) == 0 {
		return all[len(all)-1:]
	}
	return right
}

// predicted are the sizes of a job, from the largest: what it asks for, its least size and its
// doubles, without those at which it would take too long.
func (o *policy) predicted(v *sched.View, j sched.Job) []size {
	d := j.Spec().Demand
	asked := int(d.Roles[0].Tasks)
	least, most := d.Roles[0].Range()
	largest := resize.LargestNode(v, j)
	if !d.Elastic() {
		return []size{{tasks: asked, speed: resize.BestSpeed(v, j, asked, largest), efficiency: 1, energy: 1}}
	}
	var tasks []int
	for n := int(least); n <= min(int(most), max(int(least), o.cfg.Largest)); n *= 2 {
		tasks = append(tasks, n)
	}
	if !slices.Contains(tasks, asked) {
		tasks = append(tasks, asked)
	}
	slices.Sort(tasks)
	draw := drawOf(v, j)
	first := resize.BestSpeed(v, j, tasks[0], largest)
	out := make([]size, 0, len(tasks))
	for _, n := range slices.Backward(tasks) {
		s := size{tasks: n, speed: resize.BestSpeed(v, j, n, largest)}
		if first > 0 {
			s.efficiency = s.speed / first * float64(tasks[0]) / float64(n)
		}
		s.energy = Energy(draw, s.efficiency)
		out = append(out, s)
	}
	slow := resize.BestSpeed(v, j, asked, largest) / o.cfg.Stretch
	return slices.DeleteFunc(out, func(s size) bool { return s.tasks < asked && s.speed < slow })
}

// Energy is the energy that a unit of work takes with GPUs of an efficiency, over that with an
// efficiency of 1. A GPU computes for a part of its time that is its efficiency, and draws more while
// it does; its part of the node draws the same at all times.
func Energy(d perf.Draw, efficiency float64) float64 {
	if efficiency <= 0 {
		return math.Inf(1)
	}
	always := d.Idle + perf.DrawBesideGPU
	return (always + (d.Busy-d.Idle)*min(1, efficiency)) / (always + d.Busy - d.Idle) / efficiency
}

// drawOf is the power of the GPU on which a job is fastest.
func drawOf(v *sched.View, j sched.Job) perf.Draw {
	c, best, speed := v.Cluster(), "", -1.0
	for t := range cluster.TypeID(c.Types()) {
		if s := v.TypeSpeed(j, t, 1, false); !c.Type(t).Host && s > speed {
			best, speed = c.Type(t).Name, s
		}
	}
	return perf.DrawOf(best)
}

// Why implements sched.Explainer.
func (o *policy) Why(v *sched.View, id job.ID) job.Reason {
	least, _ := v.Job(id).Spec().Demand.Roles[0].Range()
	return job.Reason{Code: job.NeedGPUs, Need: int32(v.Job(id).Spec().Demand.GPUsAt(least)), Have: int32(v.Free()), Job: job.None}
}
