// Package themis keeps finish times fair: nobody is to finish later than with one
// share of the cluster to herself. GPUs are leased; when they are given out anew,
// they are offered to the jobs that are worst off, which bid for them.
//
// Nouns:
//   - An app is a party that shares: a job, or all jobs of a search (job.Job.App).
//   - Its rho is its finish time divided by that in its own share of the
//     cluster.
//   - A term is the time of a lease.
//   - A Bid is what rho would be with so many GPUs, on one node or anywhere.
//   - The auction is a partial allocation: a winner pays in GPUs.
//
// Source: Mahajan, Balasubramanian, Singhvi, Venkataraman, Akella, Phanishayee,
// Chawla, "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
package themis

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/lease"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Variant is how GPUs are given out.
type Variant uint8

// The variants.
const (
	ByAuction Variant = iota
	ByRho             // to the worst off first, as re-implementations do
)

// Rest is who gets what nobody has won.
type Rest uint8

// The ways to give out the rest.
const (
	ByLot   Rest = iota // those drawn by chance, who did not bid first, as in the paper
	ToWorst             // who is worst off, whether it bid or not
)

// Config is the settings of the policy.
type Config struct {
	Variant Variant
	Rest    Rest
	Term    time.Duration
	Fair    float64 // f
	Place   place.Strategy
}

// NewConfig returns the defaults: those of the paper.
func NewConfig() *Config {
	return &Config{Term: 10 * time.Minute, Fair: 0.8, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("variant", &c.Variant, []param.Option[Variant]{{Name: "auction", Value: ByAuction}, {Name: "greedy", Value: ByRho}},
			"GPUs are auctioned, or given to the worst off first"),
		param.Choice("rest", &c.Rest, []param.Option[Rest]{{Name: "lot", Value: ByLot}, {Name: "worst", Value: ToWorst}},
			"what nobody has won goes by lot to those who did not bid first, or to the worst off"),
		param.Duration("term", &c.Term, "how long a job keeps its GPUs before they are given out anew (lease)"),
		param.Float("fair", &c.Fair, 0, 1, "share", "share of jobs, the best off, that must not bid (f)"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.RunTimes), "a job is taken to be half done, and to take ten minutes at least")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Term <= 0 {
		return nil, errors.New("term must be above 0")
	}
	return &policy{cfg: *c, terms: lease.Terms{Length: c.Term, Place: c.Place, Aligned: true, Refill: true, Grow: true}}, nil
}

type policy struct {
	cfg   Config
	terms lease.Terms
	crowd crowd
	luck  *rand.Rand
	err   error
}

// Decide implements sched.Policy.
func (t *policy) Decide(v *sched.View, p *sched.Plan) {
	t.crowd.follow(v)
	// Luck is a function of the moment, so that a policy which is asked once more,
	// because it starts anew, has the same.
	t.luck = rand.New(rand.NewPCG(uint64(v.Now), uint64(v.Submitted())))
	t.err = nil
	t.terms.Decide(v, p, t.serve)
	if t.err != nil {
		p.Invalidate(t.err)
	}
}

// NextWake implements sched.Waker.
func (t *policy) NextWake(v *sched.View) time.Duration { return t.terms.NextWake(v) }

// Why implements sched.Explainer.
func (t *policy) Why(*sched.View, job.ID) job.Reason {
	return job.Reason{Code: job.Outranked, Job: job.None}
}

// serve is one pass.
func (t *policy) serve(s *lease.Pass) {
	apps := t.apps(s)
	if t.cfg.Variant == ByRho {
		for i := range apps {
			for k := range apps[i].parts {
				greedy(s, &apps[i].parts[k])
			}
		}
		return
	}
	n := Participants(len(apps), t.cfg.Fair)
	if t.err = t.auction(s, apps[:n]); t.err != nil {
		return
	}
	free := offered(s.View).Free
	for i := range apps {
		for k := range apps[i].parts {
			if p := &apps[i].parts[k]; p.take > 0 {
				free[p.kind] -= p.need(p.take)
			}
		}
	}
	if t.cfg.Rest == ToWorst {
		for i := range apps {
			for apps[i].step(s.View, free) {
			}
		}
	} else {
		t.lottery(s.View, free, apps[n:])
		t.lottery(s.View, free, apps[:n])
	}
	give(s, apps)
}

// give has the lease begin of what apps are to have: first of what must be on one node, the
// largest first, so that it finds one.
func give(s *lease.Pass, apps []app) {
	var whole []*part
	for i := range apps {
		for k := range apps[i].parts {
			if p := &apps[i].parts[k]; p.take > 0 && p.whole {
				whole = append(whole, p)
			}
		}
	}
	slices.SortStableFunc(whole, func(a, b *part) int { return cmp.Compare(b.need(b.take), a.need(a.take)) })
	for _, p := range whole {
		p.whole = s.ServeTogether(p.job, p.take, p.kind)
	}
	for i := range apps {
		for k := range apps[i].parts {
			switch p := &apps[i].parts[k]; {
			case p.take == 0 || p.whole:
			case p.kind >= 0:
				s.ServeOn(p.job, p.take, p.kind)
			default:
				s.ServeSize(p.job, p.take)
			}
		}
	}
	for i := range apps { // what did not fit where it was meant to leaves room
		for k := range apps[i].parts {
			if p := &apps[i].parts[k]; p.take == 0 {
				greedy(s, p)
			}
		}
	}
}

// Participants is how many of so many apps bid: the share that is not left out, one
// at least.
func Participants(apps int, fair float64) int {
	return min(apps, max(1, int(math.Ceil(float64(apps)*(1-fair)-1e-9))))
}

// greedy gives a job as much as it can use of what is left: on GPUs of one type, the one on
// which it is fastest, or else on several.
func greedy(s *lease.Pass, p *part) {
	for n := p.most; n >= p.least; n-- {
		for _, k := range byType(s.View, p.job, n) {
			if s.ServeOn(p.job, n, k) {
				return
			}
		}
		if s.ServeSize(p.job, n) {
			return
		}
	}
}

// byType are the GPU types that a job can have, that on which it is fastest with so many
// tasks first; none where the cluster has only one.
func byType(v *sched.View, j sched.Job, tasks int) (types []cluster.TypeID) {
	if v.Cluster().Types() == 1 {
		return nil
	}
	return rounds.FastestFirst(v, j, tasks)
}

// auction holds one among those who participate.
func (t *policy) auction(s *lease.Pass, apps []app) error {
	v := s.View
	o := offered(v)
	bidders := make([]Bidder, len(apps))
	for i := range apps {
		a := &apps[i]
		bidders[i].Weight = a.weight()
		if a.held > 0 {
			bidders[i].Rho = a.with(a.held).Rho()
		}
		for _, k := range a.types(v) {
			a.bid(v, k, &o, &bidders[i])
		}
	}
	awards, err := Auction(o.Offer, bidders)
	if err != nil {
		return err
	}
	for i, w := range awards {
		if w.Bid < 0 {
			continue
		}
		a := &apps[i]
		a.replay(v, &o, a.rows[w.Bid])
		a.pay(w.Keep, t.luck.Float64)
	}
	return nil
}

// types are the GPU types that some job of an app can have.
func (a *app) types(v *sched.View) (out []cluster.TypeID) {
	for i := range a.parts {
		v.Class(a.parts[i].job.Class()).EachType(v.Cluster(), func(k cluster.TypeID) bool {
			if len(a.parts) == 1 || !slices.Contains(out, k) {
				out = append(out, k)
			}
			return true
		})
	}
	return out
}

// starved is by how much worse off an app is taken to be with nothing of what is offered than
// with the least that it bids for. That it could never end would make every loser's loss, and so
// every winner's payment, as large as all that is won.
const starved = 2

// mostRows is how many bids an app of several jobs makes on one type, as far as they are spread
// evenly over the numbers of GPUs.
const mostRows = 64

// bid adds what an app bids for GPUs of a type: the least that its jobs can run with, one after
// the other, and then a task more, as far as there is room. Where a job is slower when it is
// spread over nodes there is a bid for GPUs on one node, and one for GPUs anywhere.
func (a *app) bid(v *sched.View, k cluster.TypeID, o *lots, to *Bidder) {
	every := 1
	if len(a.parts) > 1 {
		all := 0
		for i := range a.parts {
			all += 1 + a.parts[i].most - a.parts[i].least
		}
		every = (all + mostRows - 1) / mostRows
	}
	a.reset()
	for steps := 1; a.grow(v, k, o.Free[k]); steps++ {
		if steps%every != 0 {
			continue
		}
		need, near, far := int64(0), a.held, a.held
		var pieces []int64
		for i := range a.parts {
			p := &a.parts[i]
			if p.take == 0 {
				continue
			}
			n := p.need(p.take)
			need += n
			one := p.rate(v, k, p.take, n > o.span[k])
			near += one
			if p.sensitive(v, k, o) {
				pieces = append(pieces, n)
				one = p.rate(v, k, p.take, true)
			}
			far += one
		}
		add := func(rate float64, pieces []int64) {
			if rate <= a.held {
				return
			}
			b := Bid{int(k), need, pieces, a.with(rate).Rho()}
			to.Bids = append(to.Bids, b)
			a.rows = append(a.rows, row{k, steps, pieces != nil})
			if a.held == 0 {
				to.Rho = max(to.Rho, starved*b.Rho)
			}
		}
		add(near, pieces)
		if pieces != nil {
			add(far, nil)
		}
	}
	a.reset()
}

// sensitive tells whether a job that could be on one node would be slower on several.
func (p *part) sensitive(v *sched.View, k cluster.TypeID, o *lots) bool {
	return p.take > 1 && p.need(p.take) <= o.span[k] && p.rate(v, k, p.take, true) < p.rate(v, k, p.take, false)
}

// reset takes back what an app was to have.
func (a *app) reset() {
	for i := range a.parts {
		a.parts[i].take, a.parts[i].kind, a.parts[i].whole = 0, -1, false
	}
}

// replay gives an app what stands behind a bid.
func (a *app) replay(v *sched.View, o *lots, r row) {
	for range r.steps {
		a.grow(v, r.kind, o.Free[r.kind])
	}
	for i := range a.parts {
		if p := &a.parts[i]; p.take > 0 {
			p.whole = r.whole && p.sensitive(v, r.kind, o)
		}
	}
}

// grow gives an app the next step on GPUs of a type, as long as so much is free in all: the
// least that a job can run with, or else one task more to the one that has fewest.
func (a *app) grow(v *sched.View, k cluster.TypeID, free int64) bool {
	next, used := -1, int64(0)
	for i := range a.parts {
		p := &a.parts[i]
		if p.take > 0 {
			used += p.need(p.take)
		} else if len(a.parts) > 1 && v.TypeSpeed(p.job, k, p.least, false) <= 0 {
			continue
		}
		if p.take < p.most && (next < 0 || p.take < a.parts[next].take) {
			next = i
		}
	}
	if next < 0 {
		return false
	}
	p := &a.parts[next]
	n := max(p.take+1, p.least)
	used += p.need(n)
	if p.take > 0 {
		used -= p.need(p.take)
	}
	if p.need(n) == 0 || used > free {
		return false
	}
	p.take, p.kind = n, k
	return true
}

// lots is an Offer in thousandths of a GPU, with the most that is free of each type on one
// machine.
type lots struct {
	Offer
	span []int64
}

// offered is what is to be given out.
func offered(v *sched.View) (o lots) {
	c := v.Cluster()
	for k := range cluster.TypeID(c.Types()) {
		free, span, rooms := int64(0), int64(0), []int64(nil)
		for pool := range v.EachPool() {
			free += int64(c.FreeMilli(pool, 1<<k))
			for _, n := range c.PoolNodes(pool) {
				if here := int64(c.NodeFreeGPUs(n, 1<<k)) * int64(unit.One); here > 0 {
					rooms, span = append(rooms, here), max(span, here)
				}
			}
		}
		o.Free, o.Rooms, o.span = append(o.Free, free), append(o.Rooms, rooms), append(o.span, span)
	}
	return o
}

// lottery gives what is left, a step at a time, to apps drawn by chance: the least
// that a job can run with, then one task more.
func (t *policy) lottery(v *sched.View, free []int64, apps []app) {
	var in []*app
	for i := range apps {
		in = append(in, &apps[i])
	}
	for len(in) > 0 {
		k := t.luck.IntN(len(in))
		if !in[k].step(v, free) {
			in = slices.Delete(in, k, k+1)
		}
	}
}

// step gives an app its next step, if there is room for it: jobs without GPUs come first.
func (a *app) step(v *sched.View, free []int64) bool {
	for i := range a.parts {
		if p := &a.parts[i]; p.take == 0 && p.begin(v, free) {
			return true
		}
	}
	for i := range a.parts {
		if p := &a.parts[i]; p.take > 0 && p.take < p.most && p.kind >= 0 && free[p.kind] >= p.each {
			p.take++
			free[p.kind] -= p.each
			return true
		}
	}
	return false
}

// begin gives a job the least that it can run with, on GPUs of the type on which it is
// fastest of those that have room.
func (p *part) begin(v *sched.View, free []int64) bool {
	need := p.need(p.least)
	types := byType(v, p.job, p.least)
	if types == nil {
		types = []cluster.TypeID{0}
	}
	for _, k := range types {
		if need <= free[k] {
			p.kind, p.take = k, p.least
			free[k] -= need
			return true
		}
	}
	return false
}
