// Package antman lets jobs use the gaps of others. A job within its tenant's
// quota is guaranteed its GPUs and runs as if alone. A job beyond the quota
// runs as a guest on GPUs that are little used. It is slowed down, or its
// memory moved to the host, as soon as the owner of the GPU feels it. Nobody is
// ever stopped.
//
// Nouns:
//   - An owner holds whole GPUs, which count against its tenant's quota.
//   - A guest holds nothing of its GPUs (Share.Milli is 0), and runs in the
//     gaps.
//   - The pace of a guest is the part of the time for which it is not
//     throttled, in thousandths.
//   - A cap is what it may keep in the memory of a GPU (Share.Memory); the rest
//     lies in main memory. The coordinator (coordinator.go) sets paces and
//     caps, each period, while anything moves.
//
// Source: Xiao et al., "AntMan: Dynamic Scaling on GPU Clusters for Deep Learning",
// OSDI 2020; the authors' scheduler plugin for Kubernetes. The loop of the coordinator
// is ours: theirs is not public.
package antman

import (
	"errors"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/tenant"
)

// Config is the settings of the policy.
type Config struct {
	Use     float64       // mean use of a GPU below which it takes guests
	Memory  float64       // GiB in use below which it does
	Window  time.Duration // over which both are looked at
	Look    time.Duration // how often waiting guests look again while the window moves
	Guests  int           // on a GPU
	Wait    time.Duration // after which a job within its quota begins as a guest
	Reserve bool          // a gang within its quota keeps GPUs until it has all
	Margin  float64       // GiB of a GPU's memory that guests leave free beside an owner
	Loop    Loop
	Place   place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{
		Use: 0.8, Memory: 16, Window: 30 * time.Second, Look: 10 * time.Second, Guests: 1, Wait: 5 * time.Minute, Reserve: true, Margin: 0.5,
		Loop: Loop{Period: time.Second, Slack: 0.02, Down: 200, Up: 50}, Place: place.Consolidated,
	}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Float("use", &c.Use, 0, 1, "share", "mean use of a GPU below which it takes a guest"),
		param.Float("memory", &c.Memory, 0, 1e6, "GiB", "taken of a GPU's memory below which it takes a guest"),
		param.Duration("window", &c.Window, "over which use (mean) and memory (most) are looked at, 1m at most"),
		param.Duration("look", &c.Look, "how often jobs that wait to be guests look again, while what was measured changes"),
		param.Int("guests", &c.Guests, 1, 100, "jobs", "that run as guests on a GPU, at most"),
		param.Duration("wait", &c.Wait, "after which a job within its quota that finds no GPUs begins as a guest"),
		param.Bool("reserve", &c.Reserve, "a gang within its quota that finds no GPUs keeps those of the nodes where most are free, as many as it needs"),
		param.Duration("period", &c.Loop.Period, "between two steps of the coordinator"),
		param.Float("slack", &c.Loop.Slack, 0, 1, "share", "by which an owner may be slower than alone before guests are slowed down"),
		param.Int("down", &c.Loop.Down, 1, 1000, "thousandths", "by which a guest is slowed down in a step"),
		param.Int("up", &c.Loop.Up, 1, 1000, "thousandths", "by which it is let go in a step"),
		param.Float("margin", &c.Margin, 0, 1e3, "GiB", "of a GPU's memory that guests leave free beside an owner"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Quotas, need.Classes), "every job is within its quota, and begins as a guest only after a wait").
		And(need.Of(need.Use), "it cannot tell which GPUs have gaps").
		And(need.Of(need.Memory), "it cannot tell which GPUs have gaps")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case c.Window <= 0 || c.Window > state.UsedWindow:
		return nil, errors.New("window must be above 0s, and 1m at most")
	case c.Look <= 0 || c.Loop.Period <= 0:
		return nil, errors.New("look and period must be above 0s")
	}
	return &policy{cfg: *c, spent: map[tenant.ID]unit.Milli{}}, nil
}

// Class is what a job is owed.
type Class uint8

// The classes.
const (
	Auto          Class = iota // guaranteed within its tenant's quota, else a guest
	Guaranteed                 // never a guest
	Opportunistic              // always a guest
)

// ClassOf reads the class of a job from its hints: what Kubernetes, Alibaba and
// the paper call it. A job that declares none, or something else, is Auto.
func ClassOf(j *job.Job) Class {
	if j.Hints == nil || j.Hints.QoS == "" {
		return Auto
	}
	switch strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(j.Hints.QoS)) {
	case "guaranteed", "guarantee", "resourceguarantee", "rg", "ls", "lsr", "lse":
		return Guaranteed
	case "opportunistic", "op", "besteffort", "be":
		return Opportunistic
	}
	return Auto
}

type policy struct {
	cfg    Config
	guests []job.ID  // as this decision stands
	held   dense.Set // those that were guests when it was looked last, and more that have left since
	placed int       // of View.Placed, those that were looked at for guests
	stale  bool      // the guests that are listed are not as they stand

	on      func(cluster.DeviceID) []job.ID // who is on a device, as this decision stands
	holding func(job.ID) *cluster.Alloc     // what a job holds then

	queue   queue
	spent   map[tenant.ID]unit.Milli // of quotas, in this decision
	spots   []spot
	filled  dense.Set      // of their devices, those that take no more guests
	listed  bool           // spots are those of this decision
	refused map[int32]bool // classes that found no place as guests in this decision
	alloc   cluster.Alloc
	loop    loop
}

// Decide implements sched.Policy.
func (f *policy) Decide(v *sched.View, p *sched.Plan) {
	if f.stale || v.NodesChanged() || moved(v.Changes()) {
		f.list(v)
	}
	f.on, f.holding = p.On, p.Alloc
	defer f.close()
	clear(f.spent)
	f.refused, f.listed = map[int32]bool{}, false
	f.queue.clear()
	waiting := f.waiting(v)
	if waiting {
		f.release(v, p)
	}
	f.own(v, p)
	if waiting {
		f.visit(v, p)
	}
	f.coordinate(v, p)
}

// moved tells whether anybody came to devices or left them, as far as it is told.
func moved(changes []sched.Change) bool {
	for _, ch := range changes {
		if ch.Kind != sched.Altered {
			return true
		}
	}
	return false
}

// list notes who is a guest. Only those who were placed since it was done last may have
// become one.
func (f *policy) list(v *sched.View) {
	look := func(id job.ID) {
		if a := v.Alloc(id); a != nil && IsGuest(a) {
			f.held.Add(int(id))
		}
	}
	placed := v.Placed()
	if v.First {
		f.held.Clear()
		f.placed = len(placed)
		for j := range v.Running() {
			look(j.ID)
		}
	}
	for ; f.placed < len(placed); f.placed++ {
		if id := placed[f.placed]; v.Covers(v.Job(id)) {
			look(id)
		}
	}
	f.guests, f.stale = f.guests[:0], false
	for i := range f.held.All() {
		if a := v.Alloc(job.ID(i)); a != nil && IsGuest(a) {
			f.guests = append(f.guests, job.ID(i))
		} else {
			f.held.Remove(i)
		}
	}
}

// close ends a decision.
func (f *policy) close() { f.on, f.holding = nil, nil }

// counts are how many owners and guests are on a device.
func (f *policy) counts(d cluster.DeviceID) (owners, guests int) {
	for _, id := range f.on(d) {
		if IsGuest(f.holding(id)) {
			guests++
		} else {
			owners++
		}
	}
	return owners, guests
}

// IsGuest tells whether who holds an alloc is a guest.
func IsGuest(a *cluster.Alloc) bool {
	for i := range a.Shares {
		if a.Shares[i].Milli > 0 {
			return false
		}
	}
	return len(a.Shares) > 0
}

// waiting tells whether any job waits.
func (f *policy) waiting(v *sched.View) bool {
	for range v.Waiting() {
		return true
	}
	return false
}

// NextWake implements sched.Waker: the coordinator has a step to do, who waits looks
// again, or has waited for long enough.
func (f *policy) NextWake(v *sched.View) time.Duration {
	if f.stale {
		f.list(v)
	}
	f.on, f.holding = v.On, v.Alloc
	defer f.close()
	at := f.nextStep(v)
	looks := false
	for j := range v.Waiting() {
		if j.Reason().Never() || !visitor(j) {
			continue
		}
		class := ClassOf(j.Spec())
		if class == Auto && f.cfg.Wait < unit.Never-j.Since() {
			if until := j.Since() + f.cfg.Wait; until > v.Now {
				at = min(at, until)
			}
		}
		looks = looks || class != Guaranteed
	}
	if looks && f.changing(v) {
		at = min(at, beside.Next(v.Now, f.cfg.Look))
	}
	return at
}

// changing tells whether anything was measured of a device within the window: what it
// shows of that device still changes.
func (f *policy) changing(v *sched.View) bool {
	for d := range v.Devices() {
		if w := v.UsedOver(d, 0); w.Known && v.Now-w.Since < f.cfg.Window {
			return true
		}
	}
	return false
}
