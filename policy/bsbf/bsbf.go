// Package bsbf serves the shortest job first, preempts nobody, and lets a job that
// finds too few free GPUs share those of running jobs where that lets the pair end
// sooner in the mean: best sharing benefit first.
//
// Nouns: a partner is a running job that would share; a pair is a waiting job and
// a partner; how much slower each becomes beside the other is what the scheduler
// believes of sharing (View.Sharing). No GPU has more than two jobs, and who
// shares with one job shares that GPU with no other.
//
// A partner gives half of each shared GPU away, in the books, and gets it back
// when it is alone again; its processes do not notice.
//
// Source: "Scheduling Deep Learning Jobs in Multi-Tenant GPU Clusters via Wise
// Resource Sharing" (SJF-BSBF), arXiv 2407.13088, 2024.
//
// A job that comes may take its batch in two, four or more passes and add their
// gradients up. It must be known what that costs the job and how much memory it
// saves (perf.Batched). Of the passes that fit, the policy takes those with
// which the pair ends soonest.
package bsbf

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Share is when jobs share.
type Share uint8

// The rules.
const (
	Benefit Share = iota // where the pair ends sooner in the mean, best first [SJF-BSBF]
	First                // whenever it fits, in the order of the devices [SJF-FFS]
	Never                // SJF
)

// Config is the settings of the policy.
type Config struct {
	Share  Share
	Passes bool          // take batches in several passes where that helps
	Every  time.Duration // how often those who wait look for partners
	OneBox bool          // look on single nodes first
	Place  place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Passes: true, Every: time.Minute, OneBox: true, Place: place.Consolidated}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("share", &c.Share, []param.Option[Share]{{Name: "benefit", Value: Benefit}, {Name: "first-fit", Value: First}, {Name: "never", Value: Never}},
			"with whom a job shares: where the pair ends sooner, with anybody, or with nobody"),
		param.Bool("subbatch", &c.Passes, "jobs that come take their batches in several passes where they share sooner, or better, that way"),
		param.Duration("interval", &c.Every, "how often jobs that wait look for partners; those that come look at once"),
		param.Bool("consolidate", &c.OneBox, "look for shared GPUs on one node before looking on several"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	shares := c.Share != Never
	return need.List(nil).
		If(c.Share != First, need.Of(need.RunTimes), fmt.Sprintf("it acts as fifo(mode=skip,place=%s)", c.Place)).
		If(c.Share == First, need.Of(need.RunTimes), "jobs go by submission").
		If(shares, need.Of(need.Use, need.Stages, need.Pairs), "every job is taken to keep its GPUs busy all of the time").
		If(shares, need.Of(need.Memory), "any two jobs are taken to fit into the memory of a GPU").
		If(shares && c.Passes, need.Of(need.Batches), "it acts as bsbf(subbatch=false)")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Every <= 0 {
		return nil, errors.New("interval must be above 0s")
	}
	return &policy{cfg: *c}, nil
}

type policy struct {
	cfg   Config
	queue []waiting
	board board
	looks look
	sorts beside.Sorts
	alloc cluster.Alloc

	refused refused // of the job that looked for partners last, with the last of the batches that it could have
}

type waiting struct {
	id   job.ID
	left float64
}

// Decide implements sched.Policy.
func (f *policy) Decide(v *sched.View, p *sched.Plan) {
	for j := range v.Running() {
		if j.Phase() == job.Running && shareable(j) {
			beside.Restore(p, j.ID) // the half of a GPU that a partner has left
		}
	}
	f.queue, f.board.made = f.queue[:0], false
	for j := range v.Waiting() {
		if why := p.Never(j.ID, f.cfg.Place); why.Code != job.NoReason {
			p.Wait(j.ID, why)
			continue
		}
		evicted(p, j) // so that it is noted at once
		f.queue = append(f.queue, waiting{j.ID, left(j)})
	}
	slices.SortStableFunc(f.queue, func(a, b waiting) int { return cmp.Compare(a.left, b.left) })
	for _, w := range f.queue {
		if p.Start(w.id, f.cfg.Place) {
			f.board.started(v, p, w.id)
			continue
		}
		if f.cfg.Share != Never {
			f.beside(v, p, w)
		}
	}
}

// beside has a job share that found no room, or says why it does not.
func (f *policy) beside(v *sched.View, p *sched.Plan, w waiting) {
	switch j := v.Job(w.id); {
	case evicted(p, j):
		p.Wait(w.id, beside.Because("too few GPUs are free, and it shares no more: it was thrown off a GPU that it shared, whose memory did not suffice"))
	case !beside.Plain(j):
		p.Wait(w.id, beside.Because("too few GPUs are free, and only gangs of a fixed number of whole GPUs share"))
	case !shareable(j):
		p.Wait(w.id, beside.Because("too few GPUs are free, and nobody knows how long it runs, so that nobody can tell whether sharing pays"))
	case f.due(v) || j.Since() == v.Now:
		if !f.share(v, p, w) {
			p.Wait(w.id, f.refused.reason())
		}
	case j.Reason().Code == job.Because:
		p.Wait(w.id, j.Reason()) // as it was when it last looked for partners
	}
}

// refused is why GPUs were not shared with a job.
type refused struct {
	memory bool // that of a GPU does not hold both
	slower bool // a pair would end later than one after the other
	pairs  bool // two jobs share a GPU already
	alone  bool // who is on a GPU shares with nobody, or has just begun
	beside bool // a node has too little CPU or memory left
}

func (r *refused) reason() job.Reason {
	var why []string
	for _, k := range []struct {
		is   bool
		text string
	}{
		{r.slower, "the two would end later than one after the other"}, {r.memory, "the GPU memory does not hold both"},
		{r.pairs, "two jobs share the GPU already"}, {r.alone, "the job there shares with nobody, or has just begun"}, {r.beside, "CPU or memory beside the GPUs is short"},
	} {
		if k.is {
			why = append(why, k.text)
		}
	}
	if len(why) == 0 {
		return beside.Because("too few GPUs are free or can be shared")
	}
	return beside.Because("too few GPUs are free or can be shared: where it cannot share, %s", strings.Join(why, ", or "))
}

// due tells whether all who wait look for partners: what is left of the
// partners shrinks as time goes by. A job that has just come looks at once.
func (f *policy) due(v *sched.View) bool { return v.Now%f.cfg.Every == 0 }

// NextWake implements sched.Waker.
func (f *policy) NextWake(v *sched.View) time.Duration {
	if f.cfg.Share != Never {
		for j := range v.Waiting() {
			if !j.Reason().Never() {
				return beside.Next(v.Now, f.cfg.Every)
			}
		}
	}
	return unit.Never
}

// left is what a job has to do alone, in seconds; one without an estimate goes last.
func left(j sched.Job) float64 {
	if d, known := j.Remaining(); known {
		return d.Seconds()
	}
	return math.Inf(1)
}

// shareable tells whether a job may share: a gang of tasks of one whole GPU each.
func shareable(j sched.Job) bool { return beside.Plain(j) && !math.IsInf(left(j), 1) }

// spot is a GPU that a job could have: free, or shared with a partner.
type spot struct {
	device  cluster.DeviceID
	partner job.ID // None: it is free
	mean    float64
}

// share starts a job on free GPUs and on some that it shares, with the batch with which
// the last of the pairs ends soonest; 0 is its own one. It tells whether the job was started.
func (f *policy) share(v *sched.View, p *sched.Plan, w waiting) bool {
	var best []spot
	least, with := math.Inf(1), int32(0)
	for _, b := range f.batches(v, w.id) {
		chosen := f.choose(v, p, w, b)
		if chosen == nil {
			continue
		}
		last := 0.0
		for _, s := range chosen {
			last = max(last, s.mean)
		}
		if best == nil || last < least {
			best, least, with = chosen, last, b
		}
	}
	return best != nil && f.take(v, p, w.id, best, with)
}

// batches are those that a job may have: its own one, 0, and what several passes make of
// that.
func (f *policy) batches(v *sched.View, id job.ID) []int32 {
	out := []int32{0}
	if st := stepping(v, id); st != nil && f.cfg.Passes && st.Noise == 0 {
		for b := st.Own / 2; b >= 1; b /= 2 {
			out = append(out, int32(b))
		}
	}
	return out
}

// stepping is what is known of the batches of a job; nil: nothing.
func stepping(v *sched.View, id job.ID) *perf.Stepping {
	if m, ok := v.Sharing.(perf.Batched); ok {
		return m.Stepping(v.Job(id).Spec())
	}
	return nil
}

// memory is what a job takes of each of its GPUs with a batch, as far as it asks for any, or
// tells in its hints.
func memory(v *sched.View, id job.ID, b int32) unit.Bytes {
	m := perf.MemoryOf(v.Job(id).Spec())
	if st := stepping(v, id); st != nil && m > 0 {
		m = max(1, m+st.Grows(int(b)))
	}
	return m
}

// alone is how fast a job is alone with a batch, over its own one.
func alone(v *sched.View, id job.ID, b int32) float64 {
	if st := stepping(v, id); st != nil {
		return st.Rate(int(b))
	}
	return 1
}

// take starts a job on chosen GPUs with a batch.
func (f *policy) take(v *sched.View, p *sched.Plan, id job.ID, chosen []spot, b int32) bool {
	slices.SortFunc(chosen, func(a, b spot) int { return cmp.Compare(a.device, b.device) })
	f.gang(v, id, chosen, b)
	if !beside.Join(p, id, &f.alloc) {
		return false
	}
	f.board.started(v, p, id)
	return true
}

// gang makes the alloc of a job on chosen GPUs, which are in order.
func (f *policy) gang(v *sched.View, id job.ID, chosen []spot, b int32) {
	role := &v.Job(id).Spec().Demand.Roles[0]
	f.alloc.Reset()
	for _, s := range chosen {
		milli := beside.Whole
		if s.partner != job.None {
			milli = beside.Half
		}
		beside.AddTask(&f.alloc, v.Cluster().NodeOf(s.device), role, cluster.Share{Device: s.device, Milli: milli, Memory: min(memory(v, id, b), v.Cluster().DeviceMemoryFree(s.device)), Batch: b})
	}
}
