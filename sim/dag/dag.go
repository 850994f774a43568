package dag

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/norn-scheduler/norn/policy/stages"
)

// Options are what a run is made with.
type Options struct {
	Executors int
	Moving    time.Duration // how long an executor takes to move to another job
	WarmUp    time.Duration // added to the first task after that, where none was measured
	Seed      uint64        // of the run times of tasks
	Until     time.Duration // the run ends then; 0: when all jobs are finished
}

// Defaults are the options of the published runs.
func Defaults() Options {
	return Options{Executors: 50, Moving: 2 * time.Second, WarmUp: time.Second}
}

// Result is what came of a run.
type Result struct {
	Jobs  []Finished // in the order of the trace
	Ended time.Duration
	Spent float64 // s; time that jobs were in the system, summed
	Busy  float64 // s of executors that ran tasks
	Moves int     // of executors between jobs
	Asked int     // choices that the policy made
}

// Finished is a job of a result.
type Finished struct {
	ID      string
	Arrived time.Duration
	Ended   time.Duration // 0: not, as the run ended before
}

// executor is an executor.
type executor struct {
	at     *active
	stage  int // of its last task, or the one it moves to; -1: none yet
	fresh  bool
	busy   bool    // it runs a task
	goal   *active // where it goes when its task ends; nil: nowhere yet
	target int     // stage of goal
}

// active is a job in the system.
type active struct {
	*stages.Active
	job     *Job
	number  int
	idle    []int   // executors
	waiting [][]int // executors that wait for the parents of a stage
	left    int     // stages that are not finished
	done    bool
}

// event is what happens at a moment: a job arrives, an executor has arrived, or its task ends.
type event struct {
	at   time.Duration
	n    int // in the order in which events were made
	kind kind
	who  int // job or executor
}

type kind uint8

const (
	arrives kind = iota
	moved
	ended
)

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// world is a run.
type world struct {
	Options
	trace     []Job
	policy    stages.Policy
	rng       *rand.Rand
	queue     events
	made      int
	executors []executor
	loose     []int // executors at no job
	jobs      []*active
	by        map[*stages.Active]*active
	view      stages.View
	result    *Result
}

// Run carries out a trace, which must be in the order of time. It fails where the policy chooses what cannot be, or
// when the context ends.
func Run(ctx context.Context, o Options, trace []Job, p stages.Policy) (*Result, error) {
	if o.Executors < 1 {
		return nil, fmt.Errorf("%d executors; at least 1 is needed", o.Executors)
	}
	w := &world{Options: o, trace: trace, policy: p, rng: rand.New(rand.NewPCG(o.Seed, 0xdec1)), result: &Result{Jobs: make([]Finished, len(trace))}, by: map[*stages.Active]*active{}}
	w.view.Executors = o.Executors
	w.executors = make([]executor, o.Executors)
	for i := range w.executors {
		w.executors[i].stage = -1
		w.loose = append(w.loose, i)
	}
	for i := range trace {
		w.result.Jobs[i] = Finished{ID: trace[i].ID, Arrived: trace[i].Arrived}
		w.add(trace[i].Arrived, arrives, i)
	}
	for steps := 0; len(w.queue) > 0; steps++ {
		if steps%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := heap.Pop(&w.queue).(event)
		if o.Until > 0 && e.at >= o.Until {
			w.advance(o.Until)
			break
		}
		w.advance(e.at)
		if err := w.take(e); err != nil {
			return nil, fmt.Errorf("at %s: %w", e.at, err)
		}
	}
	if o.Until == 0 && len(w.jobs) > 0 {
		return nil, fmt.Errorf("%d jobs were never finished: the policy leaves executors idle for ever", len(w.jobs))
	}
	w.result.Ended, w.result.Spent = w.view.Now, w.view.Spent
	return w.result, nil
}

func (w *world) add(at time.Duration, k kind, who int) {
	w.made++
	heap.Push(&w.queue, event{at, w.made, k, who})
}

func (w *world) advance(to time.Duration) {
	w.view.Spent += float64(len(w.jobs)) * (to - w.view.Now).Seconds()
	w.view.Now = to
}

// take carries out an event and what follows from it at once.
func (w *world) take(e event) error {
	switch e.kind {
	case arrives:
		t := &w.trace[e.who]
		a := &active{Active: stages.Activate(&stages.Job{ID: t.ID, Arrived: t.Arrived, Stages: t.known}), job: t, number: e.who, left: len(t.Stages), waiting: make([][]int, len(t.Stages))}
		w.jobs = append(w.jobs, a)
		w.view.Jobs = append(w.view.Jobs, a.Active)
		w.by[a.Active] = a
		return w.assignAll()
	case moved:
		return w.reach(e.who)
	}
	return w.end(e.who)
}

// reach has an executor begin at the stage that it was sent to.
func (w *world) reach(n int) error {
	x := &w.executors[n]
	a := x.at
	a.Version++
	p := &a.Progress[x.target]
	switch {
	case a.done:
		p.Coming--
		x.at = nil
		w.loose = append(w.loose, n)
		return w.assignAll()
	case p.Left == 0: // others were quicker
		p.Coming--
		a.idle = append(a.idle, n)
		return w.assignAll()
	case !a.Runnable(x.target):
		a.waiting[x.target] = append(a.waiting[x.target], n)
		return nil
	}
	p.Coming--
	w.launch(n, x.target)
	return nil
}

// launch has an executor run the next task of a stage of its job.
func (w *world) launch(n, stage int) {
	x := &w.executors[n]
	a := x.at
	wave := rest
	switch {
	case x.fresh:
		wave = fresh
	case x.stage != stage:
		wave = first
	}
	x.fresh, x.busy, x.stage = false, true, stage
	a.Progress[stage].Left--
	a.Progress[stage].Running++
	a.Version++
	took := a.job.Stages[stage].draw(w.rng, wave, a.Held, w.WarmUp.Seconds())
	w.result.Busy += took
	w.add(w.view.Now+max(1, seconds(took)), ended, n)
}

// end is the end of a task.
func (w *world) end(n int) error {
	x := &w.executors[n]
	a, stage := x.at, x.stage
	p := &a.Progress[stage]
	x.busy = false
	p.Running--
	a.Version++
	finished := p.Left+p.Running == 0
	if finished {
		w.finish(a)
	}
	switch {
	case p.Left > 0:
		w.launch(n, stage)
		return nil
	case x.goal != nil:
		w.depart(n)
	case a.done:
		x.at = nil
		w.loose = append(w.loose, n)
	default:
		a.idle = append(a.idle, n)
		if err := w.assign(a, stage); err != nil {
			return err
		}
	}
	if finished {
		return w.assignAll()
	}
	return nil
}

// finish goes on after a stage that has finished: executors that wait for it begin, and the job may be finished.
func (w *world) finish(a *active) {
	for s, list := range a.waiting {
		if len(list) == 0 || !a.Runnable(s) {
			continue
		}
		a.waiting[s] = nil
		for _, n := range list {
			if a.Progress[s].Coming--; a.Progress[s].Left > 0 {
				w.launch(n, s)
			} else {
				a.idle = append(a.idle, n)
			}
		}
	}
	if a.left--; a.left > 0 {
		return
	}
	a.done = true
	w.result.Jobs[a.number].Ended = w.view.Now
	for i, j := range w.jobs {
		if j == a {
			w.jobs = append(w.jobs[:i], w.jobs[i+1:]...)
			w.view.Jobs = append(w.view.Jobs[:i], w.view.Jobs[i+1:]...)
			break
		}
	}
	delete(w.by, a.Active)
	for _, n := range a.idle {
		w.executors[n].at = nil
	}
	w.loose = append(w.loose, a.idle...)
	a.idle = nil
}

// assignAll assigns all idle executors, those at jobs first.
func (w *world) assignAll() error {
	for i := 0; i < len(w.jobs); i++ {
		if a := w.jobs[i]; len(a.idle) > 0 {
			if err := w.assign(a, -1); err != nil {
				return err
			}
		}
	}
	return w.assign(nil, -1)
}

// assign has the policy choose for the idle executors of a job (nil: for those at none), and for those that run the last
// tasks of a stage that has none left to launch (-1: none).
func (w *world) assign(from *active, draining int) error {
	pool := &w.loose
	w.view.Source = nil
	if from != nil {
		pool, w.view.Source = &from.idle, from.Active
	}
	var free []int
	free = append(free, *pool...)
	idle := len(free)
	if draining >= 0 {
		for n := range w.executors {
			if x := &w.executors[n]; x.busy && x.at == from && x.stage == draining && x.goal == nil {
				free = append(free, n)
			}
		}
	}
	for len(free) > 0 && len(w.view.Jobs) > 0 {
		w.view.Free = len(free)
		c, ok := w.policy.Next(&w.view)
		if !ok {
			break
		}
		w.result.Asked++
		to := w.by[c.Job]
		if to == nil || c.Stage < 0 || c.Stage >= len(c.Job.Stages) {
			return fmt.Errorf("the policy chose a stage that there is not")
		}
		count := w.view.Assign(c)
		if count < 1 {
			return fmt.Errorf("the policy chose stage %s of job %s with limit %d, which moves no executor", c.Job.Stages[c.Stage].Name, c.Job.ID, c.Limit)
		}
		for _, n := range free[:count] {
			w.send(n, to, c.Stage, idle > 0)
			idle--
		}
		free = free[count:]
	}
	*pool = append((*pool)[:0], free[:max(0, idle)]...)
	return nil
}

// send has an executor go to a stage: now, or when its task ends.
func (w *world) send(n int, to *active, stage int, now bool) {
	x := &w.executors[n]
	if x.at != nil {
		x.at.Held--
		x.at.Version++
	}
	to.Held++
	to.Progress[stage].Coming++
	to.Version++
	if x.goal, x.target = to, stage; now {
		w.depart(n)
	}
}

// depart has an executor go where it is to go.
func (w *world) depart(n int) {
	x := &w.executors[n]
	wait := time.Duration(0)
	if x.at != x.goal {
		wait = w.Moving
		x.fresh, x.stage = true, -1
		w.result.Moves++
	}
	x.at, x.goal = x.goal, nil
	w.add(w.view.Now+wait, moved, n)
}
