// Package themis keeps finish times fair: nobody is to finish later than with one
// share of the cluster to herself. GPUs are leased; when they are given out anew,
// they are offered to the jobs that are worst off, which bid for them.
//
// Nouns:
//   - An app is a party that shares, here a job.
//   - Its rho is its finish time divided by that in its own share of the
//     cluster.
//   - A term is the time of a lease.
//   - A Bid is what rho would be with so many GPUs.
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
	return &policy{cfg: *c, terms: lease.Terms{Length: c.Term, Place: c.Place, Aligned: true, Refill: true}}, nil
}

type policy struct {
	cfg   Config
	terms lease.Terms
	crowd crowd
	luck  *rand.Rand
	err   error
}

// app is a job that GPUs may be given to.
type app struct {
	job   sched.Job
	now   Situation // with nothing of what is offered
	rho   float64
	each  int64 // thousandths of a GPU a task
	kind  cluster.TypeID
	take  int   // tasks that it is to have
	sizes []int // tasks of each of its bids
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
	apps := make([]app, 0, len(s.Candidates))
	for _, j := range s.Candidates {
		apps = append(apps, t.app(s.View, j))
	}
	slices.SortFunc(apps, func(a, b app) int {
		if c := cmp.Compare(b.rho, a.rho); c != 0 {
			return c
		}
		return cmp.Compare(a.job.ID, b.job.ID)
	})
	if t.cfg.Variant == ByRho {
		for i := range apps {
			greedy(s, &apps[i])
		}
		return
	}
	n := Participants(len(apps), t.cfg.Fair)
	if t.err = t.auction(s, apps[:n]); t.err != nil {
		return
	}
	free, _ := offer(s.View)
	for i := range apps {
		if a := &apps[i]; a.take > 0 {
			free[a.kind] -= a.need(a.take)
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
	for i := range apps {
		if a := &apps[i]; a.take > 0 && a.kind >= 0 {
			s.ServeOn(a.job, a.take, a.kind)
		} else if a.take > 0 {
			s.ServeSize(a.job, a.take)
		}
	}
	for i := range apps { // what did not fit where it was meant to leaves room
		if apps[i].take == 0 {
			greedy(s, &apps[i])
		}
	}
}

// Participants is how many of so many apps bid: the share that is not left out, one
// at least.
func Participants(apps int, fair float64) int {
	return min(apps, max(1, int(math.Ceil(float64(apps)*(1-fair)-1e-9))))
}

// greedy gives an app as much as it can use of what is left: on GPUs of one type, the one on
// which it is fastest, or else on several.
func greedy(s *lease.Pass, a *app) {
	least, most := a.job.Spec().Demand.Roles[0].Range()
	for n := int(most); n >= int(least); n-- {
		for _, k := range byType(s.View, a.job, n) {
			if s.ServeOn(a.job, n, k) {
				return
			}
		}
		if s.ServeSize(a.job, n) {
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

// app is a job as the auction sees it. Of a job that nobody can estimate it is
// assumed that it is half done, and that it takes ten minutes at least.
func (t *policy) app(v *sched.View, j sched.Job) app {
	total, ok := j.Estimate()
	if !ok {
		total = max(10*time.Minute, 2*j.Progress())
	}
	total = max(total, j.Progress()+time.Second)
	d := j.Spec().Demand
	_, most := d.Roles[0].Range()
	a := app{job: j, each: int64(d.Roles[0].GPU), kind: -1}
	alone := 0.0
	v.Class(j.Class()).EachType(v.Cluster(), func(k cluster.TypeID) bool {
		n := int64(most)
		if a.each > 0 {
			n = min(n, int64(v.TotalOf(1<<k))*int64(unit.One)/a.each)
		}
		if n > 0 {
			alone = max(alone, v.TypeSpeed(j, k, int(n), false))
		}
		return true
	})
	if alone <= 0 {
		alone = 1 // on several types, or on none for now
	}
	a.now = Situation{
		Elapsed: (v.Now - j.Submit()).Seconds(), Left: (total - j.Progress()).Seconds(),
		Alone: total.Seconds() / alone, Contenders: t.crowd.mean(j, v.Now),
	}
	// With nothing of what is offered everybody is starved. Those are worst off who
	// would be even if they had all they can use from now on.
	full := a.now
	full.Speed = alone
	a.rho = full.Rho()
	return a
}

// auction holds one among those who participate.
func (t *policy) auction(s *lease.Pass, apps []app) error {
	v := s.View
	free, span := offer(v)
	bidders := make([]Bidder, len(apps))
	for i := range apps {
		a := &apps[i]
		bidders[i].Weight = a.weight()
		least, most := a.job.Spec().Demand.Roles[0].Range()
		v.Class(a.job.Class()).EachType(v.Cluster(), func(k cluster.TypeID) bool {
			for n := least; n <= most; n++ {
				with, need := a.now, a.need(int(n))
				if need == 0 || need > free[k] {
					break
				}
				if with.Speed = v.TypeSpeed(a.job, k, int(n), need > span[k]); with.Speed > 0 {
					bidders[i].Bids = append(bidders[i].Bids, Bid{int(k), need, with.Rho()})
					bidders[i].Rho = max(bidders[i].Rho, starved*with.Rho())
					a.sizes = append(a.sizes, int(n))
				}
			}
			return true
		})
	}
	awards, err := Auction(free, bidders)
	if err != nil {
		return err
	}
	for i, w := range awards {
		if w.Bid < 0 {
			continue
		}
		a := &apps[i]
		least, most := a.job.Spec().Demand.Roles[0].Range()
		a.kind = cluster.TypeID(bidders[i].Bids[w.Bid].Type)
		a.take = partial(a.sizes[w.Bid], int(least), int(most), w.Keep, t.luck.Float64)
	}
	return nil
}

// starved is by how much worse off an app is taken to be with nothing of what is offered than
// with the least that it bids for. That it could never end would make every loser's loss, and so
// every winner's payment, as large as all that is won.
const starved = 2

// weight is how much an app counts in an auction. It grows with the least number of GPUs
// that the app needs, since a gang stands for as many apps of one GPU. It also grows with
// rho, since a lease improves rho, in proportion, the less the longer an app has waited.
// The scheduler knows both; neither is bid.
func (a *app) weight() float64 {
	least, _ := a.job.Spec().Demand.Roles[0].Range()
	return max(1, float64(a.need(int(least)))/float64(unit.One)) * a.rho
}

// need is what so many tasks take, in thousandths of a GPU.
func (a *app) need(tasks int) int64 { return int64(a.job.Spec().Demand.Milli(int32(tasks))) }

// partial is how many of so many tasks an app keeps that has to give back a part of
// them. A gang that cannot run with what would be left keeps everything or nothing,
// as likely as the part that it keeps is large: on average it pays the same. One
// that could run with a single task pays that too.
func partial(tasks, least, most int, keep float64, draw func() float64) int {
	if n := int(math.Floor(float64(tasks)*keep + 1e-9)); n >= least {
		return n
	}
	if (least > 1 || least == most) && draw() < keep {
		return tasks
	}
	return 0
}

// offer is what is to be given out, in thousandths of a GPU: how much there is of
// each type, and how much of that on one node at most.
func offer(v *sched.View) (free, span []int64) {
	c := v.Cluster()
	for k := range cluster.TypeID(c.Types()) {
		free, span = append(free, 0), append(span, 0)
		for pool := range cluster.PoolID(v.Pools()) {
			if v.All || pool == v.Pool {
				free[k] += int64(c.FreeMilli(pool, 1<<k))
				for _, n := range c.PoolNodes(pool) {
					span[k] = max(span[k], int64(c.NodeFreeGPUs(n, 1<<k))*int64(unit.One))
				}
			}
		}
	}
	return free, span
}

// lottery gives what is left, a step at a time, to apps drawn by chance: the least
// that an app can run with, then one task more.
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

// step gives an app its next step, if there is room for it.
func (a *app) step(v *sched.View, free []int64) bool {
	least, most := a.job.Spec().Demand.Roles[0].Range()
	if a.take > 0 {
		if a.take >= int(most) || a.kind < 0 || free[a.kind] < a.each {
			return false
		}
		a.take++
		free[a.kind] -= a.each
		return true
	}
	need := a.need(int(least))
	types := byType(v, a.job, int(least))
	if types == nil {
		types = []cluster.TypeID{0}
	}
	for _, k := range types {
		if need <= free[k] {
			a.kind, a.take = k, int(least)
			free[k] -= need
			return true
		}
	}
	return false
}
