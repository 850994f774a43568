// Package simtest tests policies: it runs small histories through the engine and the
// simulator. A history is a handful of jobs, a cluster and a policy. After every
// instant it checks what must always hold.
//
// Nouns: a Job is one line of a history, and a Config is everything else. A Run
// is the outcome. A World is a random Config with random jobs, as a Shape
// allows.
//
// Go and Try run a history that a test wrote down. Properties runs random ones,
// and tests a policy against the contract of package sched. Every gang is
// whole, every waiting job has a reason, and every job that can run ends. A
// policy that is replaced by a new one decides the same.
//
// The package is public, beside the simulator that it drives, as httptest is beside
// http: a policy in a module of its own is tested like those of the table.
//
// Times of Job and of the methods of Run are seconds; all others are durations.
package simtest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/policy/sleep"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace"
)

// Job is one job of a history, times in seconds.
type Job struct {
	Key       string
	At        float64 // submission
	GPUs      int
	Run       float64   // true run time of the last attempt
	Fails     []float64 // true run times of the failed attempts before it
	Tenant    string
	Partition string
	User      string
	Model     string
	Demand    *job.Demand // instead of GPUs
	Spec      func(*job.Job)
	Serial    int64 // its number for life; 0: its place in the list

	GPUMemory unit.Bytes   // that it really takes of each GPU; 0: as it tells
	Course    []trace.Turn // what it trains with as it goes on; nil: what its user asked for
}

// Config is a run.
type Config struct {
	Cluster   *cluster.Cluster
	Tenants   *tenant.Tree
	Make      func() (sched.Policy, error) // one that is an io.Closer is closed at its end
	Estimator predict.Estimator            // nil: the oracle
	Costs     perf.Costs
	Model     perf.Model
	Speeds    perf.Typed        // what the policy believes of speeds
	Sockets   *perf.Sockets     // what was measured of jobs on sockets, which the policy knows; nil: nothing
	Varied    *perf.Variability // how far devices of a type differ, which the policy knows; nil: they are alike
	Sharing   perf.Sharing      // what it believes of jobs that share a device
	Believe   engine.Believe    // what it believes from what is measured
	Sleep     sleep.Config      // chooses nodes that sleep; nil: none does
	Seed      uint64
	World     func(*sim.Config) // changes the simulated world
	Restart   bool              // replace the policy by a new one at random moments
	Unchecked bool              // leave out the slow checks
	Shared    bool              // the policy gives jobs parts of the GPUs that they ask for
	Busy      bool              // the policy leaves no GPUs idle beside a job that waits and fits on them
	Sinks     []engine.Sink
}

// Nodes is a cluster of n nodes of g GPUs in one rack.
func Nodes(n, g int) *cluster.Cluster {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"}) // cannot fail: the first type
	for range n {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: g}}}); err != nil {
			panic(err) // only for sizes that no test should ask for
		}
	}
	return c
}

// Run is a finished run.
type Run struct {
	State *state.State
	Log   []string // every event, readable
	byKey map[string]job.ID
}

// Record is what became of a job.
func (r *Run) Record(key string) *job.Record {
	id, ok := r.byKey[key]
	if !ok {
		return nil
	}
	return r.State.Record(id)
}

// Start is when a job first ran, in seconds; -1 when it never did.
func (r *Run) Start(key string) float64 { return seconds(r.Record(key).FirstStart) }

// End is when a job ended, in seconds; -1 when it did not.
func (r *Run) End(key string) float64 { return seconds(r.Record(key).End) }

// JCT is the time from submission to end, in seconds.
func (r *Run) JCT(key string) float64 {
	return r.End(key) - seconds(r.Record(key).Job.Submit)
}

// MeanJCT is the mean over all jobs.
func (r *Run) MeanJCT() float64 {
	sum := 0.0
	for key := range r.byKey {
		sum += r.JCT(key)
	}
	return sum / float64(len(r.byKey))
}

// Preemptions is the number of preemptions of all jobs.
func (r *Run) Preemptions() int {
	n := 0
	for i := range r.State.Jobs() {
		n += int(r.State.Record(job.ID(i)).Preemptions)
	}
	return n
}

func seconds(d time.Duration) float64 {
	if d < 0 {
		return -1
	}
	return d.Seconds()
}

// Source turns jobs into a trace. They must be in order of submission.
func Source(jobs []Job) trace.Source {
	var in job.Interner
	var entries []trace.Entry
	for _, j := range jobs {
		demand := j.Demand
		if demand == nil {
			demand = in.Get(job.GPUs(j.GPUs))
		}
		e := trace.Entry{
			Job: job.Job{
				Key: j.Key, Name: j.Key, Submit: duration(j.At), Demand: demand,
				Tenant: j.Tenant, Partition: j.Partition, User: j.User, Model: j.Model, Retries: -1, Serial: j.Serial,
			},
			Truth: trace.Truth{Work: duration(j.Run), GPUMemory: j.GPUMemory, Course: j.Course},
		}
		for _, f := range j.Fails {
			e.Truth.Attempts = append(e.Truth.Attempts, duration(f))
		}
		if j.Spec != nil {
			j.Spec(&e.Job)
		}
		e.Job.ID = job.ID(len(entries))
		entries = append(entries, e)
	}
	return trace.FromMemory(entries)
}

func duration(s float64) time.Duration {
	d, err := unit.Seconds(s)
	if err != nil {
		panic(err) // only for times that no test should ask for
	}
	return d
}

// Go runs jobs to the end as Try does, and fails the test on its error.
func Go(t testing.TB, cfg Config, jobs ...Job) *Run {
	t.Helper()
	run, err := Try(cfg, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// restarting is a world that tells when time moves on.
type restarting struct {
	*sim.Sim
	state *state.State
	on    func() error // is told before anything of the later moment happens
}

// Next implements engine.World.
func (w *restarting) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	now, out, err := w.Sim.Next(wake, out)
	at := now
	if errors.Is(err, io.EOF) {
		at = wake
	} else if err != nil {
		return now, out, err
	}
	if at > w.state.Now {
		if e := w.on(); e != nil {
			return now, out, e
		}
	}
	return now, out, err
}

// Try runs jobs to the end and checks after every instant, unless cfg.Unchecked is
// set. It fails on an error of cfg.Make, on a plan that the engine refuses, on a broken
// invariant, and where the run has no end. The Run tells how far it came, also on an
// error; it is nil where the policy could not be made.
func Try(cfg Config, jobs ...Job) (*Run, error) {
	policy, err := cfg.Make()
	if err != nil {
		return nil, err
	}
	defer func() { closePolicy(policy) }()
	sc := sim.Config{Source: Source(jobs), Costs: cfg.Costs, Model: cfg.Model, Seed: cfg.Seed, Variability: cfg.Varied, Linked: perf.NewLinked(0, cfg.Sockets)}
	if cfg.World != nil {
		cfg.World(&sc)
	}
	world := sim.New(sc)
	if cfg.Estimator == nil {
		cfg.Estimator = world.Oracle()
	}
	var sleeper sched.Sleeper
	if cfg.Sleep != nil {
		if sleeper, err = cfg.Sleep.Sleeper(); err != nil {
			return nil, err
		}
	}
	run := &Run{byKey: map[string]job.ID{}}
	watch := &checker{run: run}
	moves := &restarting{Sim: world}
	e := engine.New(engine.Config{
		Cluster: cfg.Cluster, Tenants: cfg.Tenants, Policy: policy, PolicyName: "test", Estimator: cfg.Estimator,
		Costs: &cfg.Costs, Speeds: cfg.Speeds, Variability: cfg.Varied, Linked: perf.NewLinked(0, cfg.Sockets), Sharing: cfg.Sharing, Transfer: sc.Transfer, Believe: cfg.Believe, Sleeper: sleeper, Seed: cfg.Seed, Sinks: append([]engine.Sink{watch}, cfg.Sinks...),
	}, moves)
	run.State, moves.state = e.State(), e.State()
	if err := world.Attach(run.State); err != nil {
		return run, err
	}
	r := rand.New(rand.NewPCG(cfg.Seed, 99))
	due := false
	moves.on = func() error { // a restart takes time: it is never in the middle of a moment
		if !due {
			return nil
		}
		due = false
		fresh, err := cfg.Make()
		if err == nil {
			closePolicy(policy)
			policy = fresh
			e.SetPolicy("test", fresh)
		}
		return err
	}
	for range maxSteps {
		due = due || cfg.Restart && r.IntN(4) == 0
		if err := e.Step(); errors.Is(err, io.EOF) {
			return run, nil
		} else if err != nil {
			return run, err
		}
		if watch.err != nil {
			return run, watch.err
		}
		if !cfg.Unchecked {
			if err := check(run.State, &cfg); err != nil {
				return run, fmt.Errorf("at %v: %w", run.State.Now, err)
			}
		}
	}
	run.Log = run.Log[:min(len(run.Log), 500)]
	return run, fmt.Errorf("the run does not end; its first lines are")
}

// closePolicy ends a policy that has a life of its own, such as a program.
func closePolicy(p sched.Policy) {
	if c, ok := p.(io.Closer); ok {
		_ = c.Close() // nothing of it is needed any more
	}
}

// maxSteps is far more than any small history takes.
const maxSteps = 20_000

// check verifies the invariants of every run. The ledger agrees with the
// allocations, gangs are whole, no job is where it is believed to stand still,
// and every waiting job has a reason.
func check(s *state.State, cfg *Config) error {
	if err := s.Check(); err != nil {
		return err
	}
	for i := range s.Jobs() {
		id := job.ID(i)
		r := s.Record(id)
		switch {
		case r.Phase == job.Waiting && r.Reason.Code == job.NoReason:
			return fmt.Errorf("job %s waits without a reason", r.Job.Key)
		case r.Phase == job.Waiting && r.Reason.Code > job.Because && r.Since < s.Now:
			return fmt.Errorf("job %s waits since %v for the reason %v", r.Job.Key, r.Since, r.Reason.Code)
		case r.Phase == job.Waiting && cfg.Busy:
			if err := fits(s, id); err != nil {
				return err
			}
		case r.Phase.HasDevices():
			if err := cmp.Or(whole(s, id, cfg.Shared), moves(s, id, cfg.Speeds)); err != nil {
				return err
			}
		}
	}
	return nil
}

// whole checks that a job holds all its tasks.
func whole(s *state.State, id job.ID, shared bool) error {
	r, a := s.Record(id), s.Alloc(id)
	d := r.Job.Demand
	for role := range d.Roles {
		least, most := d.Roles[role].Range()
		if role > 0 {
			least, most = d.Roles[role].Tasks, d.Roles[role].Tasks
		}
		if n := int32(a.Tasks(uint8(role))); n < least || n > most {
			return fmt.Errorf("job %s runs with %d tasks of role %d, its gang is %d to %d", r.Job.Key, n, role, least, most)
		}
	}
	if want := d.Milli(int32(a.Tasks(0))); a.Milli() > want || a.Milli() < want && !shared {
		return fmt.Errorf("job %s holds %v GPUs, its gang needs %v", r.Job.Key, a.Milli(), want)
	}
	return nil
}

// checker writes the readable log.
type checker struct {
	run *Run
	err error
	on  map[job.ID][]cluster.NodeID // where each job was when it was looked at last
}

// Event implements engine.Sink.
func (c *checker) Event(ev *eventlog.Event, s *state.State) {
	if ev.Kind == eventlog.Submit {
		c.run.byKey[ev.Spec.Key] = ev.Spec.ID
		c.run.State = s
	}
	c.run.Log = append(c.run.Log, Line(ev, s))
	if ev.Alloc != nil && c.err == nil {
		c.err = c.inside(ev, s)
	}
}

// inside checks that a job that was given devices is on nodes that it may use, or on none
// but those on which it was already: what changes about nodes does not disturb it.
func (c *checker) inside(ev *eventlog.Event, s *state.State) error {
	r, a := s.Record(ev.Job), s.Alloc(ev.Job)
	if a == nil {
		return nil // it left a pinned place
	}
	was, on := c.on[ev.Job], []cluster.NodeID{}
	for i := range a.Pieces {
		on = append(on, a.Pieces[i].Node)
	}
	if c.on == nil {
		c.on = map[job.ID][]cluster.NodeID{}
	}
	c.on[ev.Job] = on
	stays := (ev.Kind == eventlog.Move || ev.Kind == eventlog.Resize) && !slices.ContainsFunc(on, func(n cluster.NodeID) bool { return !slices.Contains(was, n) })
	if !stays && !s.Class(r.Class).Admits(s.Cluster, a) {
		return fmt.Errorf("at %v job %s gets devices where it must not be, on %s: it asks for %v", s.Now, r.Job.Key, On(s, a), r.Job.Demand)
	}
	return nil
}

// foreign says what others use of a node, and what of that jobs hold.
func foreign(c *cluster.Cluster, n cluster.NodeID) string {
	say := func(f cluster.Foreign) (out string) {
		if f.CPU > 0 {
			out += " cpu=" + f.CPU.String()
		}
		if f.Memory > 0 {
			out += " memory=" + f.Memory.String()
		}
		for _, g := range f.GPUs {
			out += fmt.Sprintf(" gpu %d=%v", g.Device, unit.Milli(g.Milli))
		}
		for i, name := range c.SlotNames() {
			if f.Slots[i] > 0 {
				out += fmt.Sprintf(" %s=%d", name, f.Slots[i])
			}
		}
		return out
	}
	out := cmp.Or(say(c.Foreign(n)), " nothing")
	if over := say(c.Overbooked(n)); over != "" {
		out += "; overbooked by" + over
	}
	return out
}

// Line writes an event for a reader: time, what, which job, and details.
func Line(ev *eventlog.Event, s *state.State) string {
	var b strings.Builder
	b.WriteString(unit.FormatSeconds(ev.Time) + " " + ev.Kind.String())
	name := func(id job.ID) string { return s.Record(id).Job.Key }
	switch ev.Kind {
	case eventlog.NodeAdd:
		b.WriteString(" " + ev.NodeSpec.Name)
		return b.String()
	case eventlog.NodeLabels:
		fmt.Fprintf(&b, " %s %v %v", s.Cluster.Node(ev.Node).Name, ev.NodeSpec.Labels, ev.NodeSpec.Taints)
		return b.String()
	case eventlog.NodeSet:
		fmt.Fprintf(&b, " %s %s %s", s.Cluster.Node(ev.Node).Name, ev.Health, ev.Power)
		return b.String()
	case eventlog.Device:
		fmt.Fprintf(&b, " %d broken=%v", ev.Device, ev.Broken)
		return b.String()
	case eventlog.Foreign:
		b.WriteString(" " + s.Cluster.Node(ev.Node).Name + foreign(s.Cluster, ev.Node))
		return b.String()
	case eventlog.Used:
		fmt.Fprintf(&b, " %d use=%g memory=%d", ev.Device, ev.Use, ev.Memory)
		return b.String()
	case eventlog.Learnt:
		fmt.Fprintf(&b, " %s beside %s on %s: %g", ev.Pair.Job, ev.Pair.Beside, ev.Pair.Type, ev.Speed)
		return b.String()
	}
	b.WriteString(" " + name(ev.Job))
	switch ev.Kind {
	case eventlog.Start, eventlog.Assign, eventlog.Move, eventlog.Resize:
		b.WriteString(" on " + On(s, s.Alloc(ev.Job)))
		if ev.Profile {
			b.WriteString(" profile")
		}
		if ev.Delay > 0 {
			b.WriteString(" delay=" + unit.FormatSeconds(ev.Delay))
		}
	case eventlog.Preempt, eventlog.Evict, eventlog.Fail:
		if ev.Kept > 0 {
			b.WriteString(" kept=" + unit.FormatSeconds(ev.Kept))
		}
		b.WriteString(": " + ev.Reason.Sentence(name))
	case eventlog.Wait, eventlog.Hold:
		b.WriteString(": " + ev.Reason.Sentence(name))
	case eventlog.End:
		b.WriteString(" " + ev.Outcome.String())
	case eventlog.Merge:
		if b.WriteString(" " + ev.How.String()); ev.How != job.Apart {
			b.WriteString(" " + name(ev.With))
		}
		if ev.Kept > 0 {
			b.WriteString(" kept=" + unit.FormatSeconds(ev.Kept))
		}
	case eventlog.Memo:
		b.WriteString(" " + noted(ev.Note, s))
	case eventlog.Saved:
		b.WriteString(" " + unit.FormatSeconds(ev.Kept))
		if ev.Every > 0 {
			b.WriteString(" every=" + unit.FormatSeconds(ev.Every))
		}
	case eventlog.Config:
		fmt.Fprintf(&b, " batch=%d noise=%g epoch=%d pace=%g", ev.Reported.Batch, ev.Reported.Noise, ev.Reported.Epoch, ev.Reported.Pace)
	case eventlog.Speed:
		fmt.Fprintf(&b, " %g", ev.Speed)
	case eventlog.Estimate:
		b.WriteString(" " + unit.FormatSeconds(ev.Estimate))
	case eventlog.Measured:
		b.WriteString(" " + ev.Measured.When.String())
		for _, v := range ev.Measured.Values {
			fmt.Fprintf(&b, " %s=%v", v.Name, v.Series)
		}
	}
	return b.String()
}

// On writes an Alloc for a reader: n0[0-3]+n1[2], and n1 alone where it holds no
// GPU there.
func On(s *state.State, a *cluster.Alloc) string {
	var parts []string
	shares := a.Shares
	for _, p := range a.Pieces {
		first, _ := s.Cluster.DeviceRange(p.Node)
		var ids []string
		for i := 0; i < int(p.Shares); i++ {
			k := i
			for k+1 < int(p.Shares) && shares[k+1].Device == shares[k].Device+1 {
				k++
			}
			id := fmt.Sprint(shares[i].Device - first)
			if k > i {
				id += fmt.Sprintf("-%d", shares[k].Device-first)
			}
			if shares[i].Milli%1000 != 0 || shares[i].Milli > 1000 {
				id += "x" + unit.Milli(shares[i].Milli).String()
			}
			ids = append(ids, id)
			i = k
		}
		shares = shares[p.Shares:]
		name := s.Cluster.Node(p.Node).Name
		if len(ids) > 0 {
			name += "[" + strings.Join(ids, ",") + "]"
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, "+")
}

// noted writes a note for a reader. A job that it refers to is named by its number
// for life, so that notes read the same in every log.
func noted(n *job.Note, s *state.State) string {
	n = n.Renumbered(func(id job.ID) job.ID {
		if !s.Known(id) {
			return job.None
		}
		return job.ID(s.Record(id).Serial())
	})
	return n.Kind() + n.Fields()
}
