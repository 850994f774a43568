package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// Loop collects what happens in a live world into instants, and sees to it that an
// instant's decisions are durable before anything of them is done and before anybody is
// told.
//
// All of it belongs to one goroutine, that of the loop, but for what may be called from
// any goroutine and says so.
type Loop struct {
	Clock Clock

	log     *slog.Logger
	durable func() error         // makes what was decided durable
	settled func() time.Duration // the moment up to which everything is decided
	mark    func() (undo func()) // takes back what a request has noted elsewhere

	now       time.Duration
	awake     time.Time
	events    []eventlog.Event
	touched   map[job.ID]bool
	later     []func() error // what has to wait for the next instant
	spent     []func() error // room for it
	acts      []func()
	answers   []func()
	timers    timers
	requested bool // decide, even if nothing has happened
	halted    bool // this instant is the last one
	requests  chan *request
	stopped   chan struct{}
	acting    sync.WaitGroup
}

// request is something that is to be done in the goroutine of the loop.
type request struct {
	run  func() error
	done chan error // nil: nobody waits for it
}

// ErrLater is what a request returns that concerns a job to which something has happened
// in this very instant: it has to see what came of it, and is tried again.
var ErrLater = errors.New("later")

// ErrAway refuses what is asked of a loop that has ended.
var ErrAway = api.Refuse(api.Unavailable, "norn is stopping")

// Hooks is what a Loop needs of those who decide.
type Hooks struct {
	Durable func() error         // makes what was decided durable
	Settled func() time.Duration // the moment up to which everything is decided
	Mark    func() (undo func()) // is called before each request; undo takes back what it has noted outside the loop
}

// NewLoop makes a loop.
func NewLoop(log *slog.Logger, h Hooks) *Loop {
	return &Loop{
		log: log, durable: h.Durable, settled: h.Settled, mark: h.Mark,
		touched: map[job.ID]bool{}, requests: make(chan *request, 1024), stopped: make(chan struct{}),
	}
}

// Now is the moment of the present instant.
func (l *Loop) Now() time.Duration { return l.now }

// SetNow sets the moment of an instant that did not come from Next.
func (l *Loop) SetNow(now time.Duration) { l.now = now }

// Awake is when the present instant began, in time of day.
func (l *Loop) Awake() time.Time { return l.awake }

// Emit tells the engine that something has happened.
func (l *Loop) Emit(ev eventlog.Event) {
	ev.Time = l.now
	l.events = append(l.events, ev)
}

// Events are those of this instant that the engine has not been told yet.
func (l *Loop) Events() []eventlog.Event { return l.events }

// Touch marks a job as one to which something has happened in this instant; it
// fails with ErrLater when something has already.
func (l *Loop) Touch(id job.ID) error {
	if l.touched[id] {
		return ErrLater
	}
	l.touched[id] = true
	return nil
}

// Mark marks a job as one to which something has happened in this instant.
func (l *Loop) Mark(id job.ID) { l.touched[id] = true }

// Later has something done in the next instant.
func (l *Loop) Later(f func() error) { l.later = append(l.later, f) }

// At has something done at a moment.
func (l *Loop) At(at time.Duration, f func()) { l.timers.add(at, f) }

// Every has something done now and again and again.
func (l *Loop) Every(period time.Duration, f func()) {
	var again func()
	again = func() {
		f()
		l.At(l.now+period, again)
	}
	l.At(l.now, again)
}

// RequestDecision has the policy decide although nothing may have happened.
func (l *Loop) RequestDecision() { l.requested = true }

// Halt makes this instant the last one.
func (l *Loop) Halt() { l.halted = true }

// Halted tells whether this instant is the last one.
func (l *Loop) Halted() bool { return l.halted }

// Go does something in a goroutine that End waits for. It may be called from any
// goroutine.
func (l *Loop) Go(f func()) { l.acting.Go(f) }

// Stopped is closed when the loop has ended. It may be called from any goroutine.
func (l *Loop) Stopped() <-chan struct{} { return l.stopped }

// End refuses what is still asked, and waits for what is still done.
func (l *Loop) End() {
	close(l.stopped)
	l.acting.Wait()
}

// lateness is how late a moment of the policy's own may come and still be that moment.
const lateness = time.Second

// Next waits until something happens, or until wake. That is then an instant of its own,
// at exactly that moment, as in the simulator: a policy with rounds knows them by the
// time. It is part of engine.World.
func (l *Loop) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	l.events = out
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		settled := l.settled()
		l.now = max(l.Clock.Now(), settled)
		if late := l.now - wake; late >= 0 && late < lateness && wake >= settled {
			l.now, l.awake = wake, time.Now()
			return wake, l.events, nil
		}
		if err := l.collect(); err != nil {
			return l.now, l.events, err
		}
		if len(l.events) > 0 || l.requested || l.now >= wake || l.halted {
			l.requested, l.awake = false, time.Now()
			return l.now, l.events, nil
		}
		if err := l.Commit(); err != nil { // answers to questions
			return l.now, l.events, err
		}
		if len(l.later) > 0 { // nothing stands in its way any more
			continue
		}
		timer.Reset(min(wake, l.timers.next(), l.now+time.Hour) - l.now)
		select {
		case r := <-l.requests:
			l.later = append(l.later, l.attend(r))
		case <-timer.C:
		}
	}
}

// collect carries out what is due, as far as it fits into one instant.
func (l *Loop) collect() error {
	for _, f := range l.timers.due(l.now) {
		l.later = append(l.later, func() error { f(); return nil })
	}
	for range 256 { // so that an instant does not grow without end
		select {
		case r := <-l.requests:
			l.later = append(l.later, l.attend(r))
			continue
		default:
		}
		break
	}
	work := l.later
	l.later = l.spent // f may add to it
	for _, f := range work {
		switch err := f(); {
		case errors.Is(err, ErrLater):
			l.later = append(l.later, f)
		case err != nil:
			return err
		}
	}
	clear(work)
	l.spent = work[:0]
	return nil
}

// attend is a request as a piece of work: who asked is answered when what it led
// to is durable.
func (l *Loop) attend(r *request) func() error {
	if r.done == nil {
		return r.run
	}
	return func() error {
		err := l.attempt(r.run)
		if errors.Is(err, ErrLater) {
			return err
		}
		l.answers = append(l.answers, func() { r.done <- err })
		return nil
	}
}

// attempt carries out what somebody has asked for. A mistake in it is an error for
// who asked and nobody else: what it had noted for this instant is taken back.
func (l *Loop) attempt(run func() error) (err error) {
	undo, events, later, acts := l.mark(), len(l.events), len(l.later), len(l.acts)
	defer func() {
		if p := recover(); p != nil {
			l.log.Error("a request made norn panic", "panic", p, "stack", string(debug.Stack()))
			l.events, l.later, l.acts = l.events[:events], l.later[:later], l.acts[:acts]
			undo()
			err = fmt.Errorf("a request made norn panic: %v", p)
		}
	}()
	return run()
}

// Commit makes what was decided durable, then does it, and answers those who asked.
func (l *Loop) Commit() error {
	if err := l.durable(); err != nil {
		return err
	}
	for _, act := range l.acts {
		act()
	}
	for _, answer := range l.answers {
		answer()
	}
	clear(l.acts)
	clear(l.answers)
	clear(l.touched)
	l.acts, l.answers = l.acts[:0], l.answers[:0]
	return nil
}

// Serve answers one request at once, or returns after a while. It is for a loop that
// decides nothing yet.
func (l *Loop) Serve(patience time.Duration) {
	l.now = max(l.Clock.Now(), l.settled())
	select {
	case r := <-l.requests:
		if err := l.attempt(r.run); r.done != nil {
			r.done <- err
		}
	case <-time.After(patience):
	}
}

// Post has f carried out in the goroutine of the loop, unless that has ended. It may be
// called from any goroutine.
func (l *Loop) Post(f func() error) {
	select {
	case l.requests <- &request{run: f}:
	case <-l.stopped:
	}
}

// Ask has f carried out in the goroutine of the loop and returns what it returned,
// when that is durable. It may be called from any goroutine.
func (l *Loop) Ask(ctx context.Context, f func() error) error {
	r := &request{run: f, done: make(chan error, 1)}
	select {
	case l.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.stopped:
		return ErrAway
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-l.stopped:
		select {
		case err := <-r.done:
			return err
		default:
			return ErrAway
		}
	}
}

// Waiting is how much is still to be done: requests that wait, work for the next
// instant, and timers.
func (l *Loop) Waiting() (requests, work, timers int) {
	return len(l.requests), len(l.later) + len(l.acts), len(l.timers.all)
}
