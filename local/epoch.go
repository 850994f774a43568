package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// epoch is the event log that is being written.
type epoch struct {
	n       int // its number, from 1
	file    *os.File
	out     *eventlog.Writer
	size    *counter
	events  int // in it
	carried int // of them, that were there from the start
	dirty   bool
	err     error
}

// counter counts what is written to a file.
type counter struct {
	file *os.File
	n    int64
}

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.file.Write(b)
	c.n += int64(n)
	return n, err
}

func (e *epoch) write(ev *eventlog.Event) {
	e.events++
	e.dirty = true
	if err := e.out.Write(ev); e.err == nil {
		e.err = err
	}
}

// sync makes what was written durable.
func (e *epoch) sync() error {
	if !e.dirty || e.err != nil {
		return e.err
	}
	e.dirty = false
	if e.err = e.out.Flush(); e.err == nil {
		e.err = datasync(e.file)
	}
	return e.err
}

// bytes is how long the log is.
func (e *epoch) bytes() int64 {
	if e.size == nil {
		return 0
	}
	return e.size.n
}

func (e *epoch) close() {
	if e.file != nil {
		e.file.Close()
	}
}

// nextOf is the condition of a header that tells the number of the next job.
const nextOf = "next="

// begin writes a new log that starts with what is left of a state, and returns
// the state that reading it gives: the same jobs with new numbers. The log
// appears whole or not at all.
func (d *Daemon) begin(n int, origin time.Time, was *state.State, c *cluster.Cluster, tenants *tenant.Tree) (*state.State, error) {
	h := eventlog.Header{
		World: "local", Policy: d.choice.Policy, Settings: settings(d.choice), Estimate: d.opt.Estimates,
		Conditions: []string{nextOf + strconv.FormatInt(d.next.Load(), 10)}, Cluster: d.opt.Machine.Name, Origin: origin,
	}
	if err := d.store.syncHistory(); err != nil { // what ended in the log before is told there alone from now on
		return nil, fmt.Errorf("the history of jobs: %w", err)
	}
	events := append(inventory(c, was.Now), d.carried(was)...)
	events = append(events, d.intentions(events)...)
	events = append(events, eventlog.Lessons(was)...)
	h.Describe(c, tenants)
	h.Begins = was.Now
	h.Usage = usage(was, tenants)

	path := d.store.logPath(n)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	e := epoch{n: n, file: file, size: &counter{file: file}}
	fresh, err := e.fill(&h, events)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = rundir.Sync(d.store.dir + "/events")
	}
	if err != nil {
		file.Truncate(0) // where there is no room it takes none
		file.Close()
		return nil, fmt.Errorf("a new event log: %w", err)
	}
	d.epoch.close()
	d.epoch = e
	return fresh, nil
}

// inventory is the events that add the nodes of a cluster at a moment.
func inventory(c *cluster.Cluster, at time.Duration) []eventlog.Event {
	events := eventlog.Inventory(c)
	for i := range events {
		events[i].Time = at
	}
	return events
}

// fill writes the beginning of a log, and folds it.
func (e *epoch) fill(h *eventlog.Header, events []eventlog.Event) (*state.State, error) {
	c, tenants, err := h.Build()
	if err != nil {
		return nil, err
	}
	if e.out, err = eventlog.NewWriter(e.size, h, eventlog.Plain); err != nil {
		return nil, err
	}
	s := state.New(c, tenants)
	for i := range events {
		if err := engine.Apply(s, &events[i]); err != nil {
			return nil, err
		}
		e.write(&events[i])
	}
	if err := s.Settle(); err != nil {
		return nil, err
	}
	s.Now = h.Begins
	e.dirty, e.carried = true, e.events
	return s, e.sync()
}

// carried is what is left of a state, for a new log. What one policy noted on a
// job means nothing to another, and a job whose devices are gone was frozen for
// nothing.
func (d *Daemon) carried(was *state.State) []eventlog.Event {
	events := eventlog.Carried(was)
	for i := range events {
		ev := &events[i]
		if d.st != nil && d.rolling != nil {
			ev.Record.Memo = job.Memo{}
		}
		if d.refit && !ev.Record.Phase.Holds() {
			ev.Alloc = nil
		}
	}
	return events
}

// intentions are what is wanted of runs that are carried over and have still to leave.
func (d *Daemon) intentions(carried []eventlog.Event) (out []eventlog.Event) {
	for i := range carried {
		ev := &carried[i]
		if ev.Kind != eventlog.Carry || ev.Record.Phase != job.Running && ev.Record.Phase != job.Stopping {
			continue
		}
		if why, ok := d.byKey[ev.Spec.Key].intention(); ok {
			out = append(out, eventlog.Event{Time: ev.Time, Kind: eventlog.Wait, Job: ev.Job, Reason: why})
		}
	}
	return out
}

// usage is what the tenants of a new tree had used according to an old one.
func usage(was *state.State, now *tenant.Tree) []float64 {
	out := make([]float64, now.Len())
	any := false
	for i := range out {
		if id, ok := was.Tenants.Lookup(now.At(tenant.ID(i)).Name); ok || i == 0 {
			out[i] = was.Tenants.Usage(id, was.Now)
			any = any || out[i] != 0
		}
	}
	if !any {
		return nil
	}
	return out
}

// tenants is the configured tree with everybody else who has jobs or has used
// anything.
func (d *Daemon) tenants(was *state.State) (*tenant.Tree, error) {
	t, err := d.opt.Tenants()
	if err != nil {
		return nil, err
	}
	for i := tenant.ID(1); int(i) < was.Tenants.Len(); i++ {
		if was.Tenants.Usage(i, was.Now) > 0.5 {
			t.Get(was.Tenants.At(i).Name)
		}
	}
	return t, nil
}

// cluster is this machine, all of it in working order.
func (d *Daemon) cluster() (*cluster.Cluster, error) {
	c := cluster.New()
	for _, t := range d.opt.Machine.Types {
		if _, err := c.AddType(t); err != nil {
			return nil, err
		}
	}
	_, err := c.AddNode(d.opt.Machine.Node)
	return c, err
}

// roll begins a new epoch with what is left of the present one: what has ended
// leaves the memory, and a new policy comes into force.
func (d *Daemon) roll() error {
	if d.rolling != nil {
		d.lets = d.lets || d.rolling.Policy != d.choice.Policy
		d.choice = *d.rolling
	}
	was, old := d.st, d.epoch.n
	tenants, err := d.tenants(was)
	if err != nil {
		return err
	}
	c, err := d.cluster()
	if err != nil {
		return err
	}
	copyHealth(was.Cluster, c)
	fresh, err := d.begin(old+1, d.clock.origin, was, c, tenants)
	if err != nil {
		return err
	}
	d.adopt(fresh)
	d.rolling = nil
	if err := d.newEngine(); err != nil {
		return err
	}
	d.kick = true
	d.acting.Go(func() {
		if err := d.store.pack(old); err != nil {
			d.log.Warn("an old event log stays unpacked", "log", old, "error", err)
		}
	})
	return nil
}

// adopt makes a state the present one. Jobs keep what is known of them and get
// new numbers.
func (d *Daemon) adopt(fresh *state.State) {
	d.st, d.shapes = fresh, job.Interner{}
	d.jobs = make([]*liveJob, fresh.Jobs())
	for i := range d.jobs {
		r := fresh.Record(job.ID(i))
		l := d.byKey[r.Job.Key]
		l.id, d.jobs[i] = job.ID(i), l
		d.shapes.Get(*r.Job.Demand)
	}
}

// copyHealth takes over what is drained or broken.
func copyHealth(from, to *cluster.Cluster) {
	if from.Nodes() == 0 {
		return
	}
	to.SetHealth(0, from.Health(0))
	for i := range cluster.DeviceID(min(from.Devices(), to.Devices())) {
		to.SetBroken(i, from.Broken(i))
	}
}

// logCopy streams logs, oldest first, to a writer; of the last one so many bytes.
func (d *Daemon) logCopy(w io.Writer, last int, size int64) error {
	epochs, err := d.store.epochs()
	if err != nil {
		return err
	}
	for _, n := range epochs {
		if n > last {
			break
		}
		in, err := d.store.openLog(n)
		if err != nil {
			return err
		}
		var part io.Reader = in
		if n == last {
			part = io.LimitReader(in, size)
		}
		_, err = io.Copy(w, part)
		if cerr := in.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nextIn is the number of the next job that a log tells of.
func nextIn(h *eventlog.Header) int64 {
	for _, c := range h.Conditions {
		if v, ok := strings.CutPrefix(c, nextOf); ok {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				return n
			}
		}
	}
	return 1
}

// foldLog reads what a daemon left behind. A tail that was torn by a crash, in
// the middle of a line or of a set of moves, is cut off: nothing of it had been
// acted on. sink makes the one that watches; a log that was cut off is read again.
func (s *store) foldLog(n int, sink func() engine.Sink) (*state.State, *eventlog.Header, error) {
	for {
		st, h, good, err := s.foldOnce(n, sink())
		if err == nil && st.Settle() == nil {
			return st, h, nil
		}
		if err != nil && !errors.Is(err, eventlog.ErrTorn) {
			return nil, nil, err
		}
		if err := os.Truncate(s.logPath(n), good); err != nil {
			return nil, nil, fmt.Errorf("cutting off the torn end of %s: %w", s.logPath(n), err)
		}
	}
}

// foldOnce folds a log to its end. good is how much of it makes a state that can
// be.
func (s *store) foldOnce(n int, sink engine.Sink) (st *state.State, h *eventlog.Header, good int64, err error) {
	in, err := s.openLog(n)
	if err != nil {
		return nil, nil, 0, err
	}
	defer in.Close()
	r, err := eventlog.NewReader(in, s.logPath(n))
	if err != nil {
		return nil, nil, 0, err
	}
	defer r.Close()
	c, tenants, err := r.Header.Build()
	if err != nil {
		return nil, nil, 0, r.Wrap(err)
	}
	st, h = state.New(c, tenants), &r.Header
	var ev eventlog.Event
	for {
		if st.Settle() == nil {
			good = r.Whole()
		}
		if err := r.Next(&ev); errors.Is(err, io.EOF) {
			st.Now = max(st.Now, h.Begins)
			return st, h, good, nil
		} else if err != nil {
			return nil, nil, good, err
		}
		if err := engine.Apply(st, &ev); err != nil {
			return nil, nil, good, r.Wrap(err)
		}
		sink.Event(&ev, st)
	}
}

// choiceOf is the policy that a log was written under.
func choiceOf(h *eventlog.Header) run.Choice {
	c := run.Choice{Policy: h.Policy}
	for _, s := range h.Settings {
		if name, value, ok := strings.Cut(s, "="); ok {
			c.Settings = append(c.Settings, run.Setting{Name: name, Value: value})
		}
	}
	return c
}

// settings are those of a choice, as a header lists them.
func settings(c run.Choice) []string {
	var out []string
	for _, s := range c.Settings {
		out = append(out, s.Name+"="+s.Value)
	}
	return out
}
