package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// Result is what came of a run. It does not change when the run goes on, and
// holds on to nothing of the state but, with Options.Intervals, the jobs that
// its intervals name.
type Result struct {
	Summary
	Tenants []Group // by name
	Sizes   []Group // by size, those with any jobs
	Reasons []Wait  // in the order of job.ReasonCode, those with any time
	Dues    []Due   // what tenants had and were due, most due first; with Options.Series
	Made    *Origin // what the run was made from; nil: it is not told
	Told    bool    // it is what a trace tells of what really happened: only times are known

	// Estimates is the source of the run times by which the policy went, such as
	// oracle; empty: it goes by none.
	Estimates string
	// ToldBeliefs tells that the policy, which could have learnt them, was told the true
	// speeds and gains of jobs.
	ToldBeliefs bool
	Lacks       []string // what the policy lives on and the run does not have, with what it does instead

	curves  *curves   // with Options.Series
	series  *series   // with Options.Series
	details []detail  // with Options.Series, by job
	late    latencies // services with targets
	chart   *timeline // with Options.Intervals
}

// Result computes the figures of the run so far. The state must be the one that
// the collector was told of, as it is after the last event. Neither is changed,
// so that a live run may be asked again and again.
func (c *Collector) Result(s *state.State) *Result {
	f, e := c.flow, c.energy
	if c.joined {
		e.advance(max(0, s.Now-f.now))
		f.advance(max(f.now, s.Now))
	}
	n := newNumbers(c, s)
	for id := range job.ID(s.Jobs()) {
		if r := s.Record(id); !r.Past {
			n.job(r, c.track(id))
		}
	}
	r := n.result()
	last := f.moment()
	if r.Jobs.Running == 0 && c.end.known {
		last = c.end // who waits now will wait for ever
	}
	r.times(c, last)
	r.waits(c, f.micros)
	r.Borrowed = c.loans.result(last.now)
	r.Losses = c.falls.result()
	r.Energy = e.result(f.now)
	r.late = c.late.copy()
	if c.series != nil {
		r.series = c.series.upTo(c.flow.now, f.now) // jobs may wait for longer than any runs
		r.details = n.details
		r.Dues = c.shares.upTo(c.flow.now, last.now).dues(s)
	}
	if c.allocs != nil {
		r.chart = newTimeline(c.allocs, s, c.first.now, last.now)
	}
	return r
}

// times fills in what depends on when the run began and ended.
func (r *Result) times(c *Collector, last moment) {
	share := func(a, b moment) float64 {
		if b.supply <= a.supply {
			return 0
		}
		return (b.allocated - a.allocated) / (b.supply - a.supply)
	}
	if c.end.known {
		r.Makespan = c.end.now - c.first.now
	}
	if c.first.known {
		r.Utilisation = share(c.first, last)
		r.UtilisationArrivals = share(c.first, c.arrival)
		r.GPU.Available = (last.supply - c.first.supply) / 1000 / 3600
	}
}

// waits fills in the time waited for each reason.
func (r *Result) waits(c *Collector, micros int64) {
	for m := waiting; int(m) < modes; m++ {
		code := job.ReasonCode(m - waiting)
		w := Wait{Reason: code.String(), Kind: kindOf(code), Cause: causeOf(code)}
		if m == assigned {
			w = Wait{Reason: "handover", Kind: Other, Cause: Handover}
		}
		for t := range c.waits {
			w.Hours += c.waits[t][m].spent(micros) / 3600
		}
		if w.Hours <= 0 {
			continue
		}
		r.Reasons = append(r.Reasons, w)
		r.Waiting.add(w.Kind, w.Hours)
		r.Causes[w.Cause] += w.Hours
		for i := range r.Tenants {
			g := &r.Tenants[i]
			if int(g.tenant) < len(c.waits) {
				g.waited(&w, c.waits[g.tenant][m].spent(micros)/3600)
			}
		}
		for i := range r.Sizes {
			g := &r.Sizes[i]
			g.waited(&w, c.sizes[g.size][m].spent(micros)/3600)
		}
	}
}

// numbers is the pass over the records at the end.
type numbers struct {
	c       *Collector
	s       *state.State
	r       Result
	tenants []sums
	sizes   [sizes]sums
	all     sums

	jct, wait, first []time.Duration
	promised         promised
	tiers            tiered
	kinds            kinded
	worst            *job.Job
	details          []detail // nil: they are not kept
}

// sums is what is summed up over the jobs of a group.
type sums struct {
	jobs, ended, rated int
	jct, wait          total
	gpu                float64 // GPU-seconds allocated
	rho                float64
	unfair             int
}

func newNumbers(c *Collector, s *state.State) *numbers {
	n := &numbers{c: c, s: s, tenants: make([]sums, s.Tenants.Len())}
	n.jct = make([]time.Duration, 0, len(s.Ended()))
	n.wait = make([]time.Duration, 0, len(s.Ended()))
	n.first = make([]time.Duration, 0, s.Jobs()-s.Past())
	if c.series != nil {
		n.r.curves, n.details = &curves{}, c.details.Slice()
	}
	return n
}

// job counts one job.
func (n *numbers) job(r *job.Record, t *track) {
	n.count(r)
	n.promised.job(r)
	n.tiers.job(r, r.Fraction(n.s.Now))
	gpu := r.ServiceAt(n.s.Now)
	n.kinds.job(r, gpu, n.s, n.c.late)
	groups := [3]*sums{&n.all, &n.tenants[r.Tenant], &n.sizes[t.size]}
	for _, g := range groups {
		g.jobs++
		g.gpu += gpu
	}
	n.r.GPU.Lost += lost(r, n.s.Now)
	n.r.GPU.Failed += r.Failed
	if r.FirstStart < 0 {
		return
	}
	n.first = append(n.first, r.FirstStart-r.Job.Submit)
	if !r.Phase.Over() || endless(r.Job) {
		return
	}
	jct, wait := r.End-r.Job.Submit, r.WaitAt(n.s.Now)
	n.jct, n.wait = append(n.jct, jct), append(n.wait, wait)
	rho, rated := n.rho(r, t, jct)
	for _, g := range groups {
		g.ended++
		g.jct.add(jct)
		g.wait.add(wait)
		if rated {
			g.rated++
			g.rho += rho
		}
	}
	if rated {
		n.rate(r, rho)
	}
	if cv := n.r.curves; cv != nil {
		cv.jct.add(jct.Seconds(), secondsGrid[:])
		cv.wait.add(wait.Seconds(), secondsGrid[:])
	}
}

// endless tells of a service that it is not there to end soon.
func endless(j *job.Job) bool { return j.Kind == job.Inference && j.Stop == job.Pinned }

// count counts how the job ended, and what was done to it.
func (n *numbers) count(r *job.Record) {
	jobs := &n.r.Jobs
	jobs.Submitted++
	switch r.Phase {
	case job.Done:
		jobs.Finished++
	case job.FailedPhase:
		jobs.Failed++
	case job.Cancelled:
		jobs.Cancelled++
	case job.Held:
		jobs.Held++
	case job.Running, job.Stopping:
		jobs.Running++
	default:
		jobs.Waiting++
		if r.Reason.Code == job.Refused {
			jobs.Refused++
		} else if r.Reason.Never() {
			jobs.Impossible++
		}
	}
	if r.FirstStart < 0 {
		jobs.NeverStarted++
	}
	n.r.Starts += int(r.Starts)
	n.r.Preemptions += int(r.Preemptions)
	n.r.Migrations += int(r.Migrations)
	n.r.Resizes += int(r.Resizes)
	n.r.Failures += int(r.Failures)
}

// rho is the finish-time fairness of a job that has ended; ok is false when it
// has done nothing, or asked for no GPU.
func (n *numbers) rho(r *job.Record, t *track, jct time.Duration) (rho float64, ok bool) {
	alone := n.c.paces[r.Job.ID].alone(r.Progress) + t.failed
	if alone <= 0 || n.s.Class(r.Class).GPUs == 0 {
		return 0, false
	}
	return jct.Seconds() / (alone.Seconds() * max(1, t.load)), true
}

func (n *numbers) rate(r *job.Record, rho float64) {
	if rho > 1 {
		n.all.unfair++
	}
	if f := &n.r.Fairness; n.worst == nil || rho > f.Worst {
		f.Worst, n.worst = rho, r.Job
	}
	if cv := n.r.curves; cv != nil {
		cv.rho.add(rho, rhoGrid[:])
		n.details[r.Job.ID].rho = rho
	}
}

// lost is the GPU-seconds that a job held in vain. Of a pause that goes on, the
// part that lies ahead does not count.
func lost(r *job.Record, now time.Duration) float64 {
	if r.Phase == job.Running && r.Ready > now {
		return r.Lost - float64(r.Milli)/1000*(r.Ready-now).Seconds()
	}
	return r.Lost
}

// result sums up.
func (n *numbers) result() *Result {
	r := &n.r
	r.JCT, r.Wait, r.FirstStart = describe(n.jct), describe(n.wait), describe(n.first)
	r.GPU.Held, r.GPU.Lost, r.GPU.Failed = n.all.gpu/3600, r.GPU.Lost/3600, r.GPU.Failed/3600
	for t := range n.tenants {
		if n.tenants[t].jobs > 0 {
			g := n.tenants[t].group(n.s.Tenants.At(tenant.ID(t)).Name)
			g.tenant = tenant.ID(t)
			r.Tenants = append(r.Tenants, g)
		}
	}
	sortGroups(r.Tenants)
	for i := range n.sizes {
		if n.sizes[i].jobs > 0 {
			g := n.sizes[i].group(sizeNames[i])
			g.size = i
			r.Sizes = append(r.Sizes, g)
		}
	}
	r.Promises, r.Tiers, r.Kinds = n.promised.result(), n.tiers.result(), n.kinds.result()
	n.fairness(&r.Fairness)
	return r
}

func (n *numbers) fairness(f *Fairness) {
	f.Rated = n.all.rated
	if f.Rated > 0 {
		f.Mean = n.all.rho / float64(f.Rated)
		f.Unfair = float64(n.all.unfair) / float64(f.Rated)
		f.WorstJob = n.worst.Key
	}
	var means []float64
	for i := range n.r.Tenants {
		if g := &n.r.Tenants[i]; g.Rated > 0 {
			means = append(means, g.Rho)
		}
	}
	f.Jain = jain(means)
}

func (g *sums) group(name string) Group {
	out := Group{
		Name: name, Jobs: g.jobs, Ended: g.ended, Rated: g.rated,
		JCT: g.jct.mean(g.ended), Wait: g.wait.mean(g.ended), GPUHours: g.gpu / 3600,
	}
	if g.rated > 0 {
		out.Rho = g.rho / float64(g.rated)
	}
	return out
}

// WriteSummary writes the figures as JSON; docs/reports.md names every field.
func (r *Result) WriteSummary(w io.Writer) error {
	b, err := json.MarshalIndent(struct {
		Made *Origin `json:"made,omitempty"`
		*Summary
		Makespan json.RawMessage `json:"makespan_s"` // null when no job has ended
		Reasons  []Wait          `json:"wait_reasons"`
		Tenants  []Group         `json:"tenants"`
		Sizes    []Group         `json:"sizes"`
		Dues     []Due           `json:"shares,omitempty"`

		Estimates string   `json:"estimates,omitempty"`
		Lacks     []string `json:"lacks"`
	}{r.Made, &r.Summary, r.makespan(), some(r.Reasons), some(r.Tenants), some(r.Sizes), r.Dues, r.Estimates, some(r.Lacks)}, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

func (r *Result) makespan() json.RawMessage {
	if r.JCT.N == 0 {
		return nil
	}
	return unit.AppendSeconds(nil, r.Makespan)
}

// some turns a missing list into an empty one, which is written as [].
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
