package pipeline

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Mode is how a job runs its phases.
type Mode uint8

// The modes.
const (
	Piped   Mode = iota // side by side, cores divided by a Controller
	Fixed               // side by side, half of the cores each
	Coupled             // one batch after the other: sampled, then trained on, on all cores
)

// String is the name of the mode: piped, fixed or coupled.
func (m Mode) String() string { return [...]string{"piped", "fixed", "coupled"}[m] }

// Config is what is simulated: a job on so many whole cores of one server.
type Config struct {
	Plan    Plan
	Cores   int
	Batches int
	Mode    Mode
	Period  float64 // seconds between steps of the controller; 0: 1
	Borrow  bool    // an idle core of a phase runs operators of the other one, where the queue allows it
	Memory  float64 // of a batch that is in flight or in the queue; 0: none
	Cap     float64 // of memory; 0: none
	Start   int     // cores that sample at first; 0: half
}

// Sample is how a job stood at a step of its controller.
type Sample struct {
	At              float64
	Split           int // cores that sample
	Queue, InFlight int
	Memory          float64
	Idle, Ready     int // cores that were idle, and operators that were allowed to run and did not
}

// Result is what came of a simulation.
type Result struct {
	Seconds float64 // until the last batch was trained on
	Rate    float64 // batches a second over the second half of them, where these end apart
	Busy    float64 // part of the time of the cores
	Samples []Sample
}

// Foretold is the rate that a job has in the long run, in batches a second, with a fixed number of
// cores for sampling: the least of both phases. Coupled, it is one over the time that a batch takes
// on all cores, of which each phase can use no more than its DAG has operators side by side.
func (c *Config) Foretold(split int) float64 {
	s, t := c.Plan.Costs()
	if c.Mode != Coupled {
		return min(float64(split)/s, float64(c.Cores-split)/t)
	}
	return 1 / coupledTime(c.Plan.Operators(), c.Cores)
}

// coupledTime is how long one batch takes on so many cores, by list scheduling.
func coupledTime(ops []Operator, cores int) float64 {
	done := make([]float64, len(ops))
	free := make([]float64, cores)
	left := make([]bool, len(ops))
	for range ops {
		best, at := -1, 0.0
		for i := range ops {
			if left[i] || slices.ContainsFunc(ops[i].Needs, func(n int) bool { return !left[n] }) {
				continue
			}
			ready := ops[i].Wait
			for _, n := range ops[i].Needs {
				ready = max(ready, done[n]+ops[i].Wait)
			}
			if start := max(ready, slices.Min(free)); best < 0 || start < at || start == at && ops[i].Level > ops[best].Level {
				best, at = i, start
			}
		}
		core := slices.Index(free, slices.Min(free))
		done[best], left[best] = at+ops[best].Cost, true
		free[core] = done[best]
	}
	return slices.Max(done)
}

// Simulate runs a job until all its batches are trained on.
func Simulate(c Config) (*Result, error) {
	if err := c.Plan.Check(); err != nil {
		return nil, err
	}
	if c.Cores < 2 || c.Batches < 2 || c.Start < 0 || c.Start >= c.Cores {
		return nil, fmt.Errorf("%d cores of which %d sample, and %d batches: there must be two cores or more, one for each phase, and two batches or more", c.Cores, c.Start, c.Batches)
	}
	if c.Cap > 0 && c.Memory > c.Cap {
		return nil, fmt.Errorf("a batch takes %v of the memory of %v", c.Memory, c.Cap)
	}
	if c.Period <= 0 {
		c.Period = 1
	}
	j := &running{Config: c, ops: c.Plan.Operators(), control: NewController(unit.Milli(c.Cores)*unit.One, 1)}
	if c.Start > 0 {
		j.control.Split = unit.Milli(c.Start) * unit.One
	}
	if c.Cap > 0 {
		j.control.MemoryHigh = c.Cap
	}
	if c.Mode == Coupled {
		j.control.InFlight, j.Borrow = 1, true
	}
	j.run()
	return j.result(), nil
}

// running is a job while it is simulated.
type running struct {
	Config
	ops     []Operator
	control *Controller

	now     float64
	events  events
	ready   [2][]Ready  // by phase, sorted
	waits   map[int]int // batch x operator -> needs that are left
	begun   int         // batches
	flight  int         // batches that are being sampled
	queue   []int       // batches that are ready to be trained on
	done    []float64   // when batches were trained on
	active  [2]int      // cores, by the phase of their operators
	made    int
	busy    float64
	samples []Sample
}

// event is the end of an operator, of its wait for another server, or a step of the controller.
type event struct {
	at     float64
	kind   eventKind
	batch  int
	op     int
	number int
}

type eventKind uint8

const (
	ends eventKind = iota
	answered
	adjusts
)

type events struct {
	all  []event
	made int
}

func (e *events) Len() int { return len(e.all) }
func (e *events) Less(i, k int) bool {
	a, b := &e.all[i], &e.all[k]
	return a.at < b.at || a.at == b.at && a.number < b.number
}
func (e *events) Swap(i, k int) { e.all[i], e.all[k] = e.all[k], e.all[i] }
func (e *events) Push(x any)    { e.all = append(e.all, x.(event)) }
func (e *events) Pop() any {
	last := e.all[len(e.all)-1]
	e.all = e.all[:len(e.all)-1]
	return last
}

func (j *running) at(t float64, kind eventKind, batch, op int) {
	j.events.made++
	heap.Push(&j.events, event{t, kind, batch, op, j.events.made})
}

func (j *running) run() {
	j.waits = map[int]int{}
	j.at(j.Period, adjusts, 0, 0)
	for len(j.done) < j.Batches {
		j.dispatch()
		j.admit() // behind what training has taken out of the queue
		j.dispatch()
		e := heap.Pop(&j.events).(event)
		j.busy += float64(j.active[0]+j.active[1]) * (e.at - j.now)
		j.now = e.at
		switch e.kind {
		case ends:
			j.end(e.batch, e.op)
		case answered:
			j.enter(e.batch, e.op)
		case adjusts:
			j.adjust()
		}
	}
}

func (j *running) memory() float64 { return j.Memory * float64(j.begun-len(j.done)) }

// admit begins to sample batches, as many as may be in flight.
func (j *running) admit() {
	for j.begun < j.Batches && j.control.Admits(len(j.queue), j.inFlight(), j.memory()+j.Memory) {
		for op := range j.ops {
			j.waits[j.begun*len(j.ops)+op] = len(j.ops[op].Needs)
		}
		j.flight++
		j.begun++
		for op := range j.ops {
			if len(j.ops[op].Needs) == 0 {
				j.free(j.begun-1, op)
			}
		}
	}
}

// inFlight is how many batches are in flight: coupled, until they are trained on.
func (j *running) inFlight() int {
	if j.Mode == Coupled {
		return j.begun - len(j.done)
	}
	return j.flight
}

// free has an operator whose needs are met wait for its server, or run.
func (j *running) free(batch, op int) {
	if w := j.ops[op].Wait; w > 0 {
		j.at(j.now+w, answered, batch, op)
		return
	}
	j.enter(batch, op)
}

// enter puts an operator among those that are ready.
func (j *running) enter(batch, op int) {
	of := &j.ops[op]
	j.made++
	r := Ready{batch, of, j.made}
	list := j.ready[of.Phase]
	at, _ := slices.BinarySearchFunc(list, r, Before)
	j.ready[of.Phase] = slices.Insert(list, at, r)
}

// allowed tells whether an operator of a phase may run on one more core.
func (j *running) allowed(p Phase) bool {
	if j.active[0]+j.active[1] >= j.Cores {
		return false
	}
	has := int(j.control.Split / unit.One)
	if p == Training {
		has = j.Cores - has
	}
	if j.active[p] < has {
		return true
	}
	return j.Borrow && (p == Training || len(j.queue) <= j.control.QueueHigh)
}

// dispatch has operators run while there are cores for them: training first.
func (j *running) dispatch() {
	for _, p := range [2]Phase{Training, Sampling} {
		for len(j.ready[p]) > 0 && j.allowed(p) {
			r := j.ready[p][0]
			j.ready[p] = j.ready[p][1:]
			if at := slices.Index(j.queue, r.Batch); p == Training && at >= 0 {
				j.queue = slices.Delete(j.queue, at, at+1)
			}
			j.active[p]++
			j.at(j.now+r.Op.Cost, ends, r.Batch, slices.IndexFunc(j.ops, func(o Operator) bool { return o.Name == r.Op.Name }))
		}
	}
}

// end is the end of an operator.
func (j *running) end(batch, op int) {
	j.active[j.ops[op].Phase]--
	switch j.ops[op].Name {
	case "assemble":
		j.flight--
		j.queue = append(j.queue, batch)
		s, _ := j.Plan.Costs()
		j.control.Sampled(s)
	case "update":
		_, t := j.Plan.Costs()
		j.control.Trained(t)
		j.done = append(j.done, j.now)
	}
	for next := range j.ops {
		if slices.Contains(j.ops[next].Needs, op) {
			key := batch*len(j.ops) + next
			if j.waits[key]--; j.waits[key] == 0 {
				delete(j.waits, key)
				j.free(batch, next)
			}
		}
	}
}

// adjust is a step of the controller.
func (j *running) adjust() {
	s := Sample{
		At: j.now, Split: int(j.control.Split / unit.One), Queue: len(j.queue), InFlight: j.flight, Memory: j.memory(),
		Idle: j.Cores - j.active[0] - j.active[1],
	}
	for _, p := range [2]Phase{Sampling, Training} {
		if j.allowed(p) {
			s.Ready += len(j.ready[p])
		}
	}
	j.samples = append(j.samples, s)
	if j.Mode == Piped {
		j.control.Adjust(Standing{len(j.queue), j.flight, j.memory(), j.active[Sampling] < int(j.control.Split/unit.One)})
	}
	j.at(j.now+j.Period, adjusts, 0, 0)
}

func (j *running) result() *Result {
	half := len(j.done) / 2
	r := &Result{Seconds: j.now, Rate: float64(len(j.done)) / j.now, Samples: j.samples, Busy: j.busy / j.now / float64(j.Cores)}
	if took := j.done[len(j.done)-1] - j.done[half-1]; took > 0 {
		r.Rate = float64(len(j.done)-half) / took
	}
	return r
}
