package live

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
)

// trial is a loop whose instants a test notes.
type trial struct {
	*Loop
	settled time.Duration
	did     []string // what was done, in order
	failing error    // of what makes it durable
	log     strings.Builder
}

func newTrial() *trial {
	t := &trial{}
	t.Loop = NewLoop(slog.New(slog.NewTextHandler(&t.log, nil)), Hooks{
		Durable: func() error { t.did = append(t.did, "durable"); return t.failing },
		Settled: func() time.Duration { return t.settled },
		Mark:    func() func() { return func() { t.did = append(t.did, "undone") } },
	})
	t.Clock = NewClock(time.Now(), 0)
	return t
}

// instant is one turn of the loop, up to the moment at which the engine decides.
func (t *trial) instant(tt *testing.T) []eventlog.Event {
	tt.Helper()
	now, events, err := t.Next(unit.Never, nil)
	if err != nil {
		tt.Fatal(err)
	}
	t.settled = now
	return slices.Clone(events)
}

// A decision is durable before it is carried out and before any user is
// answered.
func TestDecideWriteActAnswer(t *testing.T) {
	l := newTrial()
	acted := make(chan struct{})
	answered := make(chan error, 1)
	go func() {
		answered <- l.Ask(context.Background(), func() error {
			l.Act(nil, func() { close(acted) })
			l.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: 3})
			return nil
		})
	}()
	if events := l.instant(t); len(events) != 1 || events[0].Job != 3 || events[0].Time != l.Now() {
		t.Fatalf("%+v", events)
	}
	select {
	case <-acted:
		t.Error("it was done before it was durable")
	case <-answered:
		t.Error("it was answered before it was durable")
	default:
	}
	if err := l.Commit(); err != nil {
		t.Fatal(err)
	}
	<-acted
	if err := <-answered; err != nil {
		t.Error(err)
	}
	l.failing = errors.New("no room")
	l.Act(nil, func() { t.Error("what could not be written was done") })
	if err := l.Commit(); !errors.Is(err, l.failing) {
		t.Error(err)
	}
	l.End()
	if err := l.Ask(context.Background(), func() error { return nil }); !errors.Is(err, ErrAway) {
		t.Errorf("a loop that has ended: %v", err)
	}
}

// To a job only one thing happens in an instant; who comes later sees what came of it.
func TestTouchedTwice(t *testing.T) {
	l := newTrial()
	order := make(chan string, 8)
	for range 3 {
		l.Later(func() error {
			if err := l.Touch(7); err != nil {
				order <- "waits"
				return err
			}
			order <- "goes"
			l.Emit(eventlog.Event{Kind: eventlog.Hold, Job: 7})
			return nil
		})
	}
	for range 3 {
		if events := l.instant(t); len(events) != 1 {
			t.Errorf("%+v", events)
		}
		if err := l.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	close(order)
	var have []string
	for s := range order {
		have = append(have, s)
	}
	if want := []string{"goes", "waits", "waits", "goes", "waits", "goes"}; !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
}

// A request that panics is an error for who asked; what it had noted is taken back, and
// what others note in the same instant is not.
func TestPanickingRequest(t *testing.T) {
	l := newTrial()
	first, second := make(chan error, 1), make(chan error, 1)
	l.later = append(l.later,
		l.attend(&request{done: first, run: func() error {
			l.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: 1})
			l.Act(nil, func() { t.Error("the act of a mistake was done") })
			panic("a mistake")
		}}),
		l.attend(&request{done: second, run: func() error {
			l.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: 2})
			return nil
		}}))
	if events := l.instant(t); len(events) != 1 || events[0].Job != 2 {
		t.Errorf("%+v", events)
	}
	if err := l.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err == nil || !strings.Contains(err.Error(), "a mistake") {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
	if !slices.Contains(l.did, "undone") || !strings.Contains(l.log.String(), "loop_test.go") {
		t.Errorf("%v; the log: %s", l.did, l.log.String())
	}
	l.End()
}

// Acts of one lane are done in order, those of others do not wait for them.
func TestLanes(t *testing.T) {
	l := newTrial()
	var lane, other Lane
	block, free := make(chan struct{}), make(chan struct{})
	var order []int
	l.Act(&lane, func() { <-block; order = append(order, 1) })
	l.Act(&lane, func() { order = append(order, 2) })
	l.Act(&other, func() { close(free) })
	noted := lane
	if err := l.Commit(); err != nil {
		t.Fatal(err)
	}
	<-free
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := noted.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("its acts are not done: %v", err)
	}
	close(block)
	if err := noted.Wait(context.Background()); err != nil || !slices.Equal(order, []int{1, 2}) {
		t.Errorf("%v, %v", order, err)
	}
	if err := (Lane{}).Wait(ctx); err != nil {
		t.Error(err)
	}
	l.End()
}

// Timers come at their moments, again and again where that is wanted, and a moment of
// the policy's own is an instant at exactly that moment.
func TestTimers(t *testing.T) {
	l := newTrial()
	times := 0
	l.Every(time.Millisecond, func() {
		if times++; times == 3 {
			l.RequestDecision()
		}
	})
	if events := l.instant(t); len(events) > 0 || times < 3 {
		t.Errorf("%d times, %+v", times, events)
	}
	wake := l.Now() + 20*time.Millisecond
	if now, _, err := l.Next(wake, nil); err != nil || now != wake {
		t.Errorf("woken at %v, want %v (%v)", now, wake, err)
	}
	if _, _, timers := l.Waiting(); timers != 1 {
		t.Errorf("%d timers", timers)
	}
}

// A clock goes on from where the log ends, whatever the wall clock says.
func TestClock(t *testing.T) {
	c := NewClock(time.Now().Add(time.Hour), 5*time.Minute) // the wall clock was set back
	if now := c.Now(); now < 5*time.Minute || now > 6*time.Minute {
		t.Errorf("it is %v", now)
	}
	at := c.Now()
	if have := c.Since(c.Wall(at)); have < at-time.Microsecond || have > at+time.Microsecond {
		t.Errorf("%v, want %v", have, at)
	}
	if !c.Wall(-1).IsZero() {
		t.Error("what never was has no time of day")
	}
}

// A clock turns any time of day into a moment, and back where moments reach.
func TestClockFarAway(t *testing.T) {
	now := time.Now()
	c := NewClock(now.Add(-time.Hour), 0)
	for _, at := range []time.Time{now, now.Add(-time.Hour), now.Add(365 * 24 * time.Hour)} {
		if back := c.Wall(c.Since(at)); back.Sub(at).Abs() > time.Millisecond {
			t.Errorf("%v becomes %v", at, back)
		}
	}
	for _, at := range []time.Time{now.AddDate(280, 0, 0), now.AddDate(2000, 0, 0)} {
		if since := c.Since(at); since < 250*365*24*time.Hour {
			t.Errorf("%v is %v after the origin", at, since)
		}
	}
	if since := c.Since(time.Time{}); since >= 0 {
		t.Errorf("the zero time is %v after the origin", since)
	}
}
