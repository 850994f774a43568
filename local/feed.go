package local

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/server"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/unit"
)

// Event implements engine.Sink: every event goes to the log, to the watchers, and
// into the life of its job.
func (d *Daemon) Event(ev *eventlog.Event, s *state.State) {
	d.epoch.write(ev)
	d.tally.count(ev)
	if ev.Kind == eventlog.Submit {
		d.appear()
	}
	text := eventText(ev, s, d.opt.Machine.Devices)
	e := api.Event{Time: d.clock.wall(ev.Time), Kind: ev.Kind.String()}
	if aboutJob(ev.Kind) {
		l := d.jobs[ev.Job]
		text = l.where.text(ev, s, d.opt.Machine.Devices, text)
		e.Job, e.User = l.key, l.stored.User
		if text != "" {
			l.remember(e.Time, text)
		}
		if s.Record(ev.Job).Phase.Over() {
			d.bury(ev.Job)
		}
	}
	if e.Text = text; text != "" {
		d.feed.publish(e)
	}
}

// where is which devices a job was last told to be on, and since when it is there,
// whatever parts of them it has been given; 0: as its record has it.
type where struct {
	on    []cluster.DeviceID
	since time.Duration
}

// text is what is said of an event: of a move to the devices on which the job is
// already, that it holds other parts of them.
func (w *where) text(ev *eventlog.Event, s *state.State, devices []Device, text string) string {
	a := s.Alloc(ev.Job)
	if a == nil {
		w.on = nil
		return text
	}
	same := len(w.on) == len(a.Shares)
	for i := range a.Shares {
		same = same && w.on[i] == a.Shares[i].Device
	}
	if same && ev.Kind == eventlog.Move {
		return goesOn + on(s, ev.Job, devices) + beside(a)
	}
	if ev.Kind == eventlog.Start || ev.Kind == eventlog.Move || ev.Kind == eventlog.Resize {
		w.since = ev.Time
	}
	w.on = w.on[:0]
	for i := range a.Shares {
		w.on = append(w.on, a.Shares[i].Device)
	}
	return text
}

// goesOn begins what is said of a job that holds other parts of its devices.
const goesOn = "goes on with "

// beside says what a job holds beside devices, and for how long it leaves these to
// others.
func beside(a *cluster.Alloc) string {
	out := ""
	if cpus, mem := cpusOf(a); cpus > 0 || mem > 0 {
		out = fmt.Sprintf(", %v CPU cores, %v of memory", cpus, unit.Bytes(mem))
	}
	if t := throttleOf(a); t > 0 {
		out += fmt.Sprintf("; throttled by %v%%", float64(t)/10)
	}
	return out
}

func aboutJob(k eventlog.Kind) bool {
	return k != eventlog.NodeAdd && k != eventlog.NodeSet && k != eventlog.Device && k != eventlog.Used && k != eventlog.Learnt
}

// eventText says an event for a reader; empty for those that nobody need know.
func eventText(ev *eventlog.Event, s *state.State, devices []Device) string {
	name := func(id job.ID) string {
		if s.Known(id) {
			return s.Record(id).Job.Key
		}
		return "that has ended"
	}
	why := func(prefix string) string {
		if ev.Reason.Code == job.NoReason {
			return prefix
		}
		return prefix + ": " + ev.Reason.Sentence(name)
	}
	switch ev.Kind {
	case eventlog.Submit:
		return "submitted: " + ev.Spec.Demand.String()
	case eventlog.Start:
		return "starts on " + on(s, ev.Job, devices)
	case eventlog.Merge:
		return ev.How.Sentence(name(ev.With))
	case eventlog.Assign:
		return "is given " + on(s, ev.Job, devices) + ", which others are still leaving"
	case eventlog.Preempt:
		return why("is stopped")
	case eventlog.Gone:
		return "has left its devices"
	case eventlog.Evict:
		return why("is thrown back") + keptText(ev.Kept)
	case eventlog.Fail:
		return why("failed") + keptText(ev.Kept)
	case eventlog.End:
		return "ends: " + ev.Outcome.String()
	case eventlog.Cancel:
		return "is cancelled"
	case eventlog.Hold:
		return why("is held")
	case eventlog.Free:
		return "is released"
	case eventlog.Wait:
		if p := s.Record(ev.Job).Phase; p == job.Running || p == job.Stopping {
			return why("is to leave its devices")
		}
		return strings.Replace(why("waits"), ": waits ", " ", 1)
	case eventlog.Move:
		return "moves to " + on(s, ev.Job, devices)
	case eventlog.Resize:
		return fmt.Sprintf("is resized to %d, on %s", s.Record(ev.Job).Tasks, on(s, ev.Job, devices))
	case eventlog.NodeSet:
		return "the machine is " + ev.Health.String()
	case eventlog.Device:
		if ev.Broken {
			return nameOf(devices, int(ev.Device)) + " takes no new work"
		}
		return nameOf(devices, int(ev.Device)) + " takes new work"
	}
	return ""
}

func keptText(kept time.Duration) string {
	if kept == 0 {
		return ""
	}
	return "; keeps " + unit.Human(kept) + " of work"
}

// on says which devices a job holds.
func on(s *state.State, id job.ID, devices []Device) string {
	a := s.Alloc(id)
	if a == nil || len(a.Shares) == 0 {
		return "the CPU"
	}
	var parts []string
	for i := range a.Shares {
		text := nameOf(devices, int(a.Shares[i].Device))
		if m := a.Shares[i].Milli; m < 1000 {
			text = fmt.Sprintf("%v of %s", unit.Milli(m), text)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// nameOf is what a device is called.
func nameOf(devices []Device, i int) string {
	if i < len(devices) {
		return devices[i].Name
	}
	return fmt.Sprintf("device %d", i)
}

// maxLife bounds what is remembered of a job.
const maxLife = 60

// remember notes what has happened to a job. Of a row of changes of what it holds of its
// devices, as when it is let go in steps, the first and the last are kept.
func (l *liveJob) remember(at time.Time, text string) {
	again := func(back int) bool { return strings.Contains(l.life[len(l.life)-back], " "+goesOn) }
	if strings.HasPrefix(text, goesOn) && len(l.life) > 1 && again(1) && again(2) {
		l.life = l.life[:len(l.life)-1]
	}
	if len(l.life) >= maxLife { // the beginning and what came last tell most
		l.life = append(l.life[:maxLife/4], l.life[maxLife/4+1:]...)
	}
	l.life = append(l.life, at.Format("2006-01-02 15:04:05")+" "+text)
}

// feed hands events to watchers. It may be used by any goroutine.
type feed struct {
	mu       sync.Mutex
	ring     []api.Event
	seq      int64 // of the last event
	watchers map[chan api.Event]server.Caller
}

// feedSize is how far back a watcher can go.
const feedSize = 4096

// begin sets the numbers of events: they go on growing from one daemon to the
// next, and stay below what programs that know only floating-point numbers can
// tell apart.
func (f *feed) begin(epoch int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq = int64(epoch) * 1_000_000_000
}

func (f *feed) init() { f.watchers = map[chan api.Event]server.Caller{} }

func (f *feed) last() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seq
}

func may(c server.Caller, e *api.Event) bool { return c.Operator || e.User == "" || e.User == c.User }

// publish tells an event. A watcher that does not keep up is sent away.
func (f *feed) publish(e api.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	e.Seq = f.seq
	if len(f.ring) == feedSize {
		copy(f.ring, f.ring[feedSize/4:])
		f.ring = f.ring[:feedSize-feedSize/4]
	}
	f.ring = append(f.ring, e)
	for ch, c := range f.watchers {
		if !may(c, &e) {
			continue
		}
		select {
		case ch <- e:
		default:
			delete(f.watchers, ch)
			close(ch)
		}
	}
}

// Watch implements server.Backend.
func (d *Daemon) Watch(ctx context.Context, c server.Caller, since int64) (<-chan api.Event, error) {
	f := &d.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan api.Event, feedSize+256)
	for i := range f.ring {
		if e := &f.ring[i]; e.Seq >= since && may(c, e) {
			ch <- *e
		}
	}
	f.watchers[ch] = c
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if _, ok := f.watchers[ch]; ok {
			delete(f.watchers, ch)
			close(ch)
		}
	})
	return ch, nil
}
