// Package report turns the events of a run into figures: what every job got,
// what the cluster did, how fair it was, and how policies compare.
//
// Nouns:
//   - A Collector follows a run event by event, live or from its log folded
//     again.
//   - A Result is the outcome of the run: its Summary, its tenants, its sizes
//     of jobs and its reasons to wait.
//   - A Table compares the results of several policies.
//   - A page is one HTML file with all of it and with charts.
//
// docs/reports.md defines every metric, with its formula, unit and source.
//
// Units: times are durations since the start of the run and are written in
// seconds; GPU time is counted in GPU-hours, parts of a GPU as parts.
package report

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// Options say what a Collector keeps beside what the figures need. All of it is
// for the page and the files, and costs time and memory.
type Options struct {
	Series       bool // utilisation, queue and idle GPUs over time, distributions, and what jobs.csv has beside records
	Intervals    bool // which job had which device, and when
	MaxIntervals int  // how many of them, those of the most GPU time first; 0: DefaultIntervals
}

// DefaultIntervals is how many intervals a Collector keeps unless told
// otherwise.
const DefaultIntervals = 60_000

// Collector follows one run. It implements engine.Sink. Once warm, an event
// costs it no allocation; it keeps 32 bytes for each job, more for one that
// changes its pace, and leaves all else to the records of the state.
//
// It may join a run that has begun: it then knows the jobs as the state has
// them, and counts time from then on. It is not safe for concurrent use.
type Collector struct {
	opt    Options
	joined bool

	jobs   [][]track // by job number, in chunks
	paces  map[job.ID]paces
	waits  [][modes]tally // by tenant
	sizes  [sizes][modes]tally
	queue  int        // jobs that wait
	lacked stints     // jobs without devices, by cause
	demand unit.Milli // asked for by active jobs
	ahead  unit.Milli // held by jobs that were only assigned their devices
	behind unit.Milli // held by jobs that are leaving theirs
	supply supply
	loans  loans
	energy energy
	flow   flow

	falls falls
	late  latencies

	first, arrival, end moment // the first and the last submission, the last end

	series  *series
	shares  *shares
	waiters *waiters
	holders [sizes]unit.Milli // devices of jobs of each size
	details details
	allocs  *allocations
}

const chunk = 4096

// track is what a Collector remembers about a job.
type track struct {
	load    float64       // until it is over: integral of the load at its submission; then: mean load of its life
	work    time.Duration // progress when it was last told
	failed  time.Duration // work of its failed attempts
	stretch int32         // place of its open interval, + 1
	size    uint8
	mode    mode
}

// mode is where a job stands, as far as time is counted: one of the reasons to
// wait, or one of the modes named below.
type mode uint8

const (
	absent   mode = 0
	waiting  mode = 1 // + the code of the reason
	onHold   mode = waiting + mode(job.OnHold)
	assigned mode = 60 // its devices are still being left by others
	running  mode = 61
	stopping mode = 62
	over     mode = 63
	modes         = int(assigned) + 1 // absent, and those in which a job waits
)

// NewCollector returns a collector that has seen nothing.
func NewCollector(opt Options) *Collector {
	if opt.MaxIntervals <= 0 {
		opt.MaxIntervals = DefaultIntervals
	}
	c := &Collector{opt: opt, late: latencies{}}
	if opt.Series {
		c.series, c.shares, c.waiters = newSeries(), newShares(), newWaiters()
	}
	if opt.Intervals {
		c.allocs = newAllocations(opt.MaxIntervals)
	}
	return c
}

// Event implements engine.Sink: it is told of every event after the event was
// folded into the state.
func (c *Collector) Event(ev *eventlog.Event, s *state.State) {
	switch ev.Kind {
	case eventlog.Measured:
		c.falls.event(ev, s)
		return
	case eventlog.Memo, eventlog.Estimate, eventlog.Used, eventlog.Learnt, eventlog.Past, eventlog.Recall:
		return
	}
	c.advance(s.Now)
	c.loans.event(ev, s)
	c.energy.event(ev, s)
	c.late.event(ev, s)
	if !c.joined {
		c.join(ev, s)
		return
	}
	switch ev.Kind {
	case eventlog.NodeAdd, eventlog.NodeSet, eventlog.NodeLabels, eventlog.Device, eventlog.Foreign:
		c.nodes(ev, s)
		return
	}
	if ev.Kind == eventlog.Carry { // as it stands, like those that are there at the first event
		c.follow(ev.Job, &eventlog.Event{Kind: eventlog.Submit}, s)
		c.submitted()
		return
	}
	c.follow(ev.Job, ev, s)
	if ev.Kind == eventlog.Submit {
		c.submitted()
	}
}

// join takes over a run as the state has it after its first event.
func (c *Collector) join(ev *eventlog.Event, s *state.State) {
	c.joined = true
	c.nodes(ev, s)
	for id := range job.ID(s.Jobs()) {
		if !s.Record(id).Past {
			c.follow(id, &eventlog.Event{Kind: eventlog.Submit}, s)
		}
	}
	if s.Jobs() > s.Past() {
		c.submitted()
	}
}

func (c *Collector) submitted() {
	if c.arrival = c.flow.moment(); !c.first.known {
		c.first = c.arrival
	}
}

// follow brings what is known of a job up to its record.
func (c *Collector) follow(id job.ID, ev *eventlog.Event, s *state.State) {
	r, t := s.Record(id), c.track(id)
	if ev.Kind == eventlog.Fail {
		t.failed += max(0, t.work+ranSince(r, s.Now)-r.Progress)
	}
	t.work = r.Progress
	if ev.Kind == eventlog.Config {
		c.pace(r, s.Now)
	}
	was, is := t.mode, modeOf(r)
	demand, leaving := c.demand, c.behind-c.ahead
	reshaped := ev.Kind == eventlog.Move || ev.Kind == eventlog.Resize
	if is != was {
		if t.mode = is; was == absent {
			t.load, t.size = c.flow.load, sizeOf(s.Class(r.Class).GPUs)
		}
		c.leave(t, was, r)
		c.enter(t, is, r)
		if active[was] != active[is] {
			c.activate(r, s, active[is])
		}
	} else if !reshaped {
		return
	}
	if was >= assigned || is >= assigned {
		c.flow.allocated = s.Tenants.At(tenant.Root).Used.GPU + c.behind - c.ahead
		if c.allocs != nil {
			c.allocation(id, t, was, ev, s)
		}
	}
	if is == over && was != over && r.Starts > 0 {
		c.end = c.flow.moment()
	}
	if c.series != nil {
		c.detail(r, t, was, ev.Kind, s)
		c.series.set(c.level())
		c.shares.follow(r, c.demand-demand, c.behind-c.ahead-leaving, s)
	}
}

// ranSince is the progress that a job made since it was last told, in the
// attempt that has just ended.
func ranSince(r *job.Record, now time.Duration) time.Duration {
	if now <= r.Ready {
		return 0
	}
	if r.Speed == 1 {
		return now - r.Ready
	}
	return time.Duration(float64(now-r.Ready)*r.Speed + 0.5)
}

// modeOf is the mode of a job.
func modeOf(r *job.Record) mode {
	switch r.Phase {
	case job.Waiting:
		return waiting + mode(min(int(r.Reason.Code), int(assigned-waiting)-1))
	case job.Held:
		return onHold
	case job.Assigned:
		return assigned
	case job.Running:
		return running
	case job.Stopping:
		return stopping
	case job.Unknown:
		return absent
	}
	return over
}

// active tells for each mode whether a job in it asks for its share of the
// cluster: whoever is on hold or can never run does not.
var active = func() (is [over + 1]bool) {
	for m := waiting; m < over; m++ {
		never := m < assigned && job.Reason{Code: job.ReasonCode(m - waiting)}.Never()
		is[m] = m != onHold && !never
	}
	return is
}()

func (c *Collector) leave(t *track, m mode, r *job.Record) {
	switch m {
	case absent, running, over:
		return
	case stopping:
		c.behind -= r.Milli
		return
	case assigned:
		c.ahead -= r.Milli
	case onHold:
	default:
		c.queue--
	}
	c.lacked[causeOfMode[m]]--
	c.waits[r.Tenant][m].leave(c.flow.micros)
	c.sizes[t.size][m].leave(c.flow.micros)
}

func (c *Collector) enter(t *track, m mode, r *job.Record) {
	for int(r.Tenant) >= len(c.waits) {
		c.waits = append(c.waits, [modes]tally{})
	}
	switch m {
	case absent, running:
		return
	case over:
		t.load = c.flow.load - t.load
		if life := (r.End - r.Job.Submit).Seconds(); life > 0 {
			t.load /= life
		}
		return
	case stopping:
		c.behind += r.Milli
		return
	case assigned:
		c.ahead += r.Milli
	case onHold:
	default:
		c.queue++
	}
	c.lacked[causeOfMode[m]]++
	c.waits[r.Tenant][m].enter(c.flow.micros)
	c.sizes[t.size][m].enter(c.flow.micros)
}

// activate adds a job to what is asked of the cluster, or takes it away.
func (c *Collector) activate(r *job.Record, s *state.State, yes bool) {
	gpu := s.Class(r.Class).Amount.GPU
	if !yes {
		gpu = -gpu
	}
	c.demand += gpu
	c.flow.weigh(c.demand, c.supply.total)
}

func (c *Collector) track(id job.ID) *track {
	for int(id/chunk) >= len(c.jobs) {
		c.jobs = append(c.jobs, make([]track, chunk))
	}
	return &c.jobs[id/chunk][id%chunk]
}

// tally counts the time that jobs spend in a mode without looking at them in
// between: whoever enters takes the time off, whoever leaves puts it on.
type tally struct {
	jobs   int64
	micros int64
}

func (t *tally) enter(micros int64) {
	t.jobs++
	t.micros -= micros
}

func (t *tally) leave(micros int64) {
	t.jobs--
	t.micros += micros
}

// spent is the time spent up to a moment, of all jobs together.
func (t tally) spent(micros int64) float64 { return float64(t.micros+t.jobs*micros) / 1e6 }

// flow is what goes on now, and its integrals over time.
type flow struct {
	now    time.Duration
	micros int64 // now

	allocated, supply unit.Milli // devices allocated, devices there
	ratio             float64    // load: devices asked for, for each device there

	allocatedTime, supplyTime float64 // milli x seconds
	load                      float64 // ratio x seconds
}

// advance moves on to a moment not before the last one.
func (f *flow) advance(now time.Duration) {
	dt := (now - f.now).Seconds()
	f.allocatedTime += float64(f.allocated) * dt
	f.supplyTime += float64(f.supply) * dt
	f.load += f.ratio * dt
	f.now, f.micros = now, micros(now)
}

// weigh sets the load. While no device is there, the last load stands.
func (f *flow) weigh(demand, there unit.Milli) {
	if f.supply = there; there > 0 {
		f.ratio = float64(demand) / float64(there)
	}
}

// moment is a flow at one moment.
type moment struct {
	known             bool
	now               time.Duration
	allocated, supply float64 // milli x seconds
}

func (f *flow) moment() moment { return moment{true, f.now, f.allocatedTime, f.supplyTime} }

func (c *Collector) advance(now time.Duration) {
	if now == c.flow.now {
		return
	}
	if c.joined {
		c.energy.advance(now - c.flow.now)
	} else {
		c.flow.now = now // time counts from the first event on
	}
	if c.series != nil {
		c.series.advance(c.flow.now, now)
		c.shares.advance(c.flow.now, now)
	}
	c.flow.advance(now)
}

// used is the share of the devices that is held.
func (c *Collector) used() float64 {
	if c.supply.total == 0 {
		return 0
	}
	return float64(c.flow.allocated) / float64(c.supply.total)
}
