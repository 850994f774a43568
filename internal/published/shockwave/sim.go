package shockwave

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/internal/regime"
	"github.com/norn-scheduler/norn/policy/shockwave"
)

// The figures of the simulator.
const (
	length   = 120.0 // seconds of a round
	overhead = 20.0  // seconds that a job loses which did not run in the round before
	replan   = 8     // rounds after which the window is planned anew
)

// task is a job of the trace.
type task struct {
	id      int
	model   string
	mode    string
	first   int // batch size it begins with
	batch   int
	gpus    int
	arrives float64
	alone   float64 // seconds it takes by itself
	steps   int64   // to be done
	did     int64
	ran     float64 // seconds
	change  int     // of its batch size when it has run next: 1 up, -1 down
	profile *profile

	start, end float64 // of its first round; when it ended
	begun      bool
	speeds     func(batch int) (float64, bool)
}

func (t *task) speed() float64 {
	s, _ := t.speeds(t.batch)
	return s
}

// epoch is the number of epochs of so many steps, begun ones among them.
func (t *task) epoch(steps int64) int {
	n := int64(regime.Iterations(t.model, t.batch))
	return int((steps + n - 1) / n)
}

// lease is a task in a round.
type lease struct {
	*task
	steps  int64
	finish float64
}

// machine is the loop of the published simulator.
type machine struct {
	gpus   int
	window shockwave.Window
	queue  []*task // that have not arrived
	active []*task // by number
	over   []*task

	now                  float64
	round                int
	roundStart, roundEnd float64
	running              []lease
	before               map[int]bool // who ran in the round before this

	ptr     int // number of the round as the planner counts
	solves  int // rounds since the last time that a new plan was due
	resolve bool
	reshare bool
	planned int // the round in which the plan begins
	plan    [][]*task
	relaxed int
}

// next is one turn of the loop: the end of a round, and the beginning of the next.
func (m *machine) next() bool {
	if len(m.active)+len(m.queue) == 0 {
		return false
	}
	if len(m.running) > 0 {
		m.now = 0
		for _, l := range m.running {
			m.now = max(m.now, l.finish)
		}
		m.roundStart, m.roundEnd = m.roundEnd, m.now
	} else if len(m.queue) > 0 {
		m.now = m.queue[0].arrives
	}
	ran := m.settle()
	for _, t := range m.active {
		t.watch()
	}
	if m.now != 0 {
		m.report(ran)
	}
	for len(m.queue) > 0 && m.queue[0].arrives <= m.now {
		m.add(m.queue[0])
		m.queue = m.queue[1:]
	}
	if len(m.active) == 0 {
		return false
	}
	m.dispatch()
	m.round++
	return true
}

// settle counts what the tasks of the round have done, and returns them.
func (m *machine) settle() []lease {
	ran := m.running
	m.running = nil
	slices.SortFunc(ran, func(a, b lease) int { return cmp.Or(cmp.Compare(b.finish, a.finish), cmp.Compare(a.id, b.id)) })
	now := map[int]bool{}
	for _, l := range ran {
		now[l.id] = true
		took, factor := l.finish-m.roundStart, 1.0
		if m.round != 1 && !m.before[l.id] && took > length-5 {
			factor = (took - overhead) / took
			took -= overhead
		}
		t := l.task
		n := int64(float64(l.steps) * factor)
		t.ran += took
		t.did += n
		t.end = l.finish
		speed := 0.0
		if took > 0 {
			speed = float64(n) / took
		}
		t.profile.measured = append(t.profile.measured, measured{m.round, speed, t.batch})
		over := t.did >= t.steps || t.ran > math.Floor(t.alone*1.5)
		t.rescale()
		if over {
			m.active = slices.DeleteFunc(m.active, func(o *task) bool { return o == t })
			m.over = append(m.over, t)
			m.resolve, m.reshare = true, true
		}
	}
	m.before = now
	return ran
}

// watch notes whether a task wants another batch size when it has run next.
func (t *task) watch() {
	s, e := regime.Shape{Model: t.model, Batch: t.first, GPUs: t.gpus}, t.epoch(t.did)
	switch t.mode {
	case "accordion":
		if t.model == "Transformer" {
			return
		}
		in := s.Critical(e)
		switch {
		case t.batch == t.first && !in && t.batch != regime.Largest(t.model):
			t.change = 1
		case t.batch != t.first && in:
			t.change = -1
		}
	case "gns":
		if s.GNS(e+1) > t.batch && t.batch != regime.Largest(t.model) {
			t.change = 1
		}
	}
}

// rescale changes the batch size of a task that wants it, and counts its steps anew
// so that its epochs are the same.
func (t *task) rescale() {
	change := t.change
	t.change = 0
	if change == 0 || t.first == regime.Largest(t.model) || t.mode == "static" {
		return
	}
	batch := 2 * t.batch
	if t.mode == "accordion" {
		batch = regime.Largest(t.model)
		if change < 0 {
			batch = t.first
		}
	}
	if _, ok := t.speeds(batch); !ok {
		return
	}
	was, is := int64(regime.Iterations(t.model, t.batch)), int64(regime.Iterations(t.model, batch))
	epochs := (t.steps + was - 1) / was
	steps := int64(math.Ceil(float64(t.steps) * (1 / (float64(batch) / float64(t.batch)))))
	if (steps+is-1)/is != epochs {
		steps = is * epochs
	}
	t.did = (t.did + was - 1) / was * is
	t.steps, t.batch = steps, batch
}

// report tells the planner which epoch the tasks of the round are in.
func (m *machine) report(ran []lease) {
	for _, l := range ran {
		l.profile.done = min(int(l.did/int64(regime.Iterations(l.model, l.batch))), len(l.profile.batches))
	}
	m.ptr++
	if m.solves++; m.solves >= replan {
		m.solves, m.resolve = 0, true
	}
}

// add takes a task in. The planner is told that it came now.
func (m *machine) add(t *task) {
	t.profile.submit = m.now
	m.active = append(m.active, t)
	m.resolve, m.reshare = true, true
}

// dispatch has the tasks of the round run.
func (m *machine) dispatch() {
	if m.resolve || m.ptr >= m.planned+len(m.plan) {
		m.makePlan()
		m.resolve = false
	}
	for _, t := range m.plan[m.ptr-m.planned] {
		l := lease{task: t, steps: min(int64(t.speed()*length), t.steps-t.did)}
		l.finish = m.now + float64(l.steps)/t.speed()
		if !t.begun {
			t.begun, t.start = true, m.now
		}
		m.running = append(m.running, l)
	}
}

// makePlan plans a window.
func (m *machine) makePlan() {
	if m.reshare {
		share := min(1, float64(m.gpus)/float64(len(m.active)))
		for _, t := range m.active {
			p := t.profile
			p.calibrate(length)
			value := p.submit + (p.spent()+p.left(length))/share
			if p.due == (shockwave.Due{}) {
				p.due = shockwave.NewDue(m.ptr, value)
			} else {
				p.due.Add(m.ptr, value)
			}
		}
		m.reshare = false
	}
	var jobs []shockwave.Job
	for _, t := range m.active {
		p := t.profile
		jobs = append(jobs, shockwave.Job{
			GPUs: t.gpus, Epochs: len(p.batches), Done: p.done, Epoch: p.mean(length), Left: p.left(length), Due: p.due.At(m.ptr),
		})
	}
	w := m.window
	w.GPUs, w.First, w.Length = m.gpus, m.ptr, length
	plan := w.Make(jobs)
	if plan.Relaxed {
		m.relaxed++
	}
	m.planned, m.plan = m.ptr, nil
	for r := range w.Rounds {
		var who []*task
		for i, t := range m.active {
			if plan.Runs[i][r] {
				who = append(who, t)
			}
		}
		m.plan = append(m.plan, who)
	}
}
