package themis

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/lease"
	"github.com/norn-scheduler/norn/sched"
)

// app is a party that GPUs may be given to: a job, or the jobs of a search.
type app struct {
	parts []part // its jobs that may be given GPUs, in the order in which it serves them
	now   Situation
	held  float64                    // rate of its jobs that are not to be given any now
	left  func(rate float64) float64 // seconds that it still takes; nil: of a single job, as now says
	rho   float64
	rows  []row // of each of its bids
}

// part is a job of an app.
type part struct {
	job         sched.Job
	each        int64 // thousandths of a GPU a task
	least, most int   // tasks
	size        float64
	alone       float64 // speed with as much as it can use
	rung        int     // of its search that it has come to

	kind  cluster.TypeID // of the GPUs that it is to have, -1 any
	take  int            // tasks that it is to have, 0 none
	whole bool           // on one node
}

// row is what stands behind a bid: so many steps of the app on GPUs of a type, each job on
// one node or on any.
type row struct {
	kind  cluster.TypeID
	steps int
	whole bool
}

// need is what so many tasks take, in thousandths of a GPU.
func (p *part) need(tasks int) int64 { return int64(p.job.Spec().Demand.Milli(int32(tasks))) }

// rate is the work that a job does in a second with so many tasks on GPUs of a type, in that
// of the first job of its app.
func (p *part) rate(v *sched.View, k cluster.TypeID, tasks int, spread bool) float64 {
	return v.TypeSpeed(p.job, k, tasks, spread) * p.size
}

// with is the situation of an app that does so much work a second.
func (a *app) with(rate float64) Situation {
	s := a.now
	if a.left == nil {
		s.Speed = rate
		return s
	}
	s.Left, s.Speed = a.left(rate), 1
	return s
}

// apps are the parties of a pass, the worst off first.
func (t *policy) apps(s *lease.Pass) []app {
	apps := make([]app, 0, len(s.Candidates))
	alone := make([]part, 0, len(s.Candidates))
	var searches []*search
	for _, j := range s.Candidates {
		if a := t.crowd.search[j.ID]; a == nil {
			alone = append(alone, newPart(s.View, j))
			apps = append(apps, t.single(s.View, alone[len(alone)-1:]))
		} else if !a.served {
			a.served = true
			searches = append(searches, a)
		}
	}
	for _, a := range searches {
		a.served = false
		apps = append(apps, t.several(s, a))
	}
	slices.SortFunc(apps, func(a, b app) int {
		if c := cmp.Compare(b.rho, a.rho); c != 0 {
			return c
		}
		return cmp.Compare(a.parts[0].job.ID, b.parts[0].job.ID)
	})
	return apps
}

func newPart(v *sched.View, j sched.Job) part {
	d := j.Spec().Demand
	least, most := d.Roles[0].Range()
	p := part{job: j, each: int64(d.Roles[0].GPU), least: int(least), most: int(most), size: 1, kind: -1}
	v.Class(j.Class()).EachType(v.Cluster(), func(k cluster.TypeID) bool {
		n := int64(most)
		if p.each > 0 {
			n = min(n, int64(v.TotalOf(1<<k))*int64(unit.One)/p.each)
		}
		if n > 0 {
			p.alone = max(p.alone, v.TypeSpeed(j, k, int(n), false))
		}
		return true
	})
	if p.alone <= 0 {
		p.alone = 1 // on several types, or on none for now
	}
	return p
}

// total is how long a job runs in all in its reference configuration. Of a job that nobody
// can estimate it is assumed that it is half done, and that it takes ten minutes at least.
func total(j sched.Job) time.Duration {
	all, ok := j.Estimate()
	if !ok {
		all = max(10*time.Minute, 2*j.Progress())
	}
	return max(all, j.Progress()+time.Second)
}

// single is a job that is an app by itself.
func (t *policy) single(v *sched.View, parts []part) app {
	j, alone := parts[0].job, parts[0].alone
	all := total(j)
	a := app{parts: parts}
	a.now = Situation{
		Elapsed: (v.Now - j.Submit()).Seconds(), Left: (all - j.Progress()).Seconds(),
		Alone: all.Seconds() / alone, Contenders: t.crowd.mean(j.Submit(), t.crowd.came[j.ID], v.Now),
	}
	// With nothing of what is offered everybody is starved. Those are worst off who
	// would be even if they had all they can use from now on.
	full := a.now
	full.Speed = alone
	a.rho = full.Rho()
	return a
}

// several is a search of several jobs. Those that are not among the candidates keep what
// they hold.
func (t *policy) several(s *lease.Pass, of *search) app {
	v := s.View
	a := app{}
	jobs := make([]part, 0, len(of.jobs))
	first := float64(max(1, v.Job(of.jobs[0]).Spec().Demand.GPUs()))
	for _, id := range of.jobs {
		p := newPart(v, v.Job(id))
		p.size = float64(p.job.Spec().Demand.GPUs()) / first
		jobs = append(jobs, p)
	}
	rates, all := together(v, jobs)
	h := newHalving(v, of, jobs, first)
	work, done := jobsLeft(v, of, jobs, first)
	if h == nil {
		a.left = work.left
		a.now.Alone = (work.work + done) / rates
	} else {
		a.left = func(rate float64) float64 { return max(1, h.Left(max(rate, idle)*first)) }
		a.now.Alone = h.atOnce().Left(all * first)
	}
	a.now.Elapsed, a.now.Contenders = (v.Now - of.since).Seconds(), t.crowd.mean(of.since, of.came, v.Now)
	a.rho = a.with(rates).Rho()
	for _, p := range jobs {
		if _, ok := slices.BinarySearchFunc(s.Candidates, p.job.ID, func(j sched.Job, id job.ID) int { return cmp.Compare(j.ID, id) }); ok {
			a.parts = append(a.parts, p)
		} else if on := v.Alloc(p.job.ID); on != nil && len(on.Shares) > 0 {
			a.held += p.rate(v, v.Cluster().TypeOf(on.Shares[0].Device), on.Tasks(0), on.Nodes() > 1)
		}
	}
	a.order()
	return a
}

// order is that in which an app serves its jobs: those on the lowest rung first, then those
// that run, and of others those first that take longest.
func (a *app) order() {
	slices.SortStableFunc(a.parts, func(x, y part) int {
		if c := cmp.Compare(x.rung, y.rung); c != 0 {
			return c
		}
		if x.job.Running() != y.job.Running() {
			if x.job.Running() {
				return -1
			}
			return 1
		}
		if x.job.Spec().Hints != nil && x.job.Spec().Hints.Rungs != (job.Rungs{}) {
			return cmp.Compare(x.job.ID, y.job.ID)
		}
		return cmp.Or(cmp.Compare(total(y.job)-y.job.Progress(), total(x.job)-x.job.Progress()), cmp.Compare(x.job.ID, y.job.ID))
	})
}

// together is the work that jobs do in a second when each has all it can use, as far as the
// GPUs of the cluster suffice; all is that of the whole cluster.
func together(v *sched.View, jobs []part) (rate, all float64) {
	gpus := float64(v.Total())
	for i := range jobs {
		p := &jobs[i]
		uses := max(1e-3, min(gpus, float64(p.need(p.most))/float64(unit.One)))
		rate += p.alone * p.size
		all = max(all, gpus*p.alone*p.size/uses)
	}
	return min(rate, all), all
}

// jobsLeft is what the jobs of a search have still to do, and the work that has been done by
// now, also by those that have ended.
func jobsLeft(v *sched.View, of *search, jobs []part, first float64) (left batch, done float64) {
	for i := range jobs {
		p := &jobs[i]
		rest := (total(p.job) - p.job.Progress()).Seconds()
		left.work += rest * p.size
		left.longest = max(left.longest, rest/p.alone)
		done += p.job.Progress().Seconds() * p.size
	}
	for _, id := range of.ended {
		j := v.Job(id)
		done += j.Progress().Seconds() * float64(j.Spec().Demand.GPUs()) / first
	}
	return left, done
}

// climb is a Halving with the rungs that it follows from.
type climb struct {
	Halving
	rungs job.Rungs
}

// atOnce is all the work of the search, from the first rung on, as if no rung waited for
// another: so the paper reckons the time of an app alone (section 4.2).
func (c *climb) atOnce() *Halving {
	all, jobs := 0.0, c.rungs[0].Jobs
	for _, r := range c.rungs.All() {
		all += float64(r.Jobs) * r.Units
	}
	return &Halving{Phases: []Phase{{int(jobs), all / float64(jobs)}}, Serial: c.Serial, Most: c.Most}
}

// newHalving is a search that tells its rungs, as far as it has come; nil where it tells
// none, or nobody knows how long a unit of its work takes. It notes the rung of each job.
func newHalving(v *sched.View, of *search, jobs []part, first float64) *climb {
	c := &climb{}
	for i := range jobs {
		if h := jobs[i].job.Spec().Hints; h != nil && c.rungs == (job.Rungs{}) {
			c.rungs = h.Rungs
		}
		c.Most = max(c.Most, jobs[i].alone*jobs[i].size*first)
	}
	var units []float64 // that each job has done
	add := func(j sched.Job) (done float64) {
		if one := iteration(j); one > 0 {
			c.Serial = append(c.Serial, one*float64(max(1, j.Spec().Demand.GPUs())))
			done = j.Progress().Seconds() / one
		}
		units = append(units, done)
		return done
	}
	rungs := c.rungs.All()
	for i := range jobs {
		done := add(jobs[i].job) * (1 + 1e-9)
		for _, r := range rungs {
			if done -= r.Units; done < 0 {
				break
			}
			jobs[i].rung++
		}
	}
	for _, id := range of.ended {
		add(v.Job(id))
	}
	if len(rungs) == 0 || len(c.Serial) == 0 {
		return nil
	}
	c.Phases = phasesLeft(rungs, units)
	return c
}

// phasesLeft is what is left of each rung when jobs have done so many units of work.
func phasesLeft(rungs []job.Rung, units []float64) []Phase {
	var out []Phase
	from := 0.0
	for _, r := range rungs {
		done, through := 0.0, 0
		for _, u := range units {
			part := min(r.Units, max(0, u-from))
			done += part
			if part >= r.Units*(1-1e-9) {
				through++
			}
		}
		if n := max(0, int(r.Jobs)-through); n > 0 {
			out = append(out, Phase{n, max(0, float64(r.Jobs)*r.Units-done) / float64(n)})
		}
		from += r.Units
	}
	return out
}

// iteration is how long a unit of a job's work takes in its reference configuration, in
// seconds; 0 where nobody knows.
func iteration(j sched.Job) float64 {
	s := j.Spec()
	if s.Hints != nil && s.Hints.Iteration > 0 {
		return s.Hints.Iteration.Seconds()
	}
	if all, ok := j.Estimate(); ok && s.Units > 0 {
		return all.Seconds() / s.Units
	}
	return 0
}

// weight is how much an app counts in an auction. It grows with the least number of GPUs
// that the app needs, since a gang stands for as many apps of one GPU. It also grows with
// rho, since a lease improves rho, in proportion, the less the longer an app has waited.
// The scheduler knows both; neither is bid.
func (a *app) weight() float64 {
	gang := 1.0
	for i := range a.parts {
		gang = max(gang, float64(a.parts[i].need(a.parts[i].least))/float64(unit.One))
	}
	return gang * a.rho
}

// partial is how many of so many tasks a job keeps whose app has to give back a part of
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

// pay has an app give back all but a part of what it has won. Of several jobs those that it
// serves first keep theirs. A gang for which what is left does not suffice has it by lot.
func (a *app) pay(keep float64, draw func() float64) {
	if len(a.parts) == 1 {
		p := &a.parts[0]
		p.take = partial(p.take, p.least, p.most, keep, draw)
		return
	}
	budget := 0.0
	for i := range a.parts {
		budget += keep * float64(a.parts[i].need(a.parts[i].take))
	}
	cut, kept := -1, false
	var won int
	for i := range a.parts {
		p, had := &a.parts[i], a.parts[i].take
		for p.take > 0 && (p.take < p.least || float64(p.need(p.take)) > budget+1e-6) {
			p.take--
		}
		if p.take > 0 {
			kept = true
			budget -= float64(p.need(p.take))
		} else if had > 0 && cut < 0 {
			cut, won = i, had
		}
	}
	if cut < 0 {
		return
	}
	if p := &a.parts[cut]; (p.least > 1 || p.least == p.most && !kept) && draw() < budget/float64(p.need(won)) {
		p.take = won
	}
}
