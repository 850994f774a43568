package ones

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
)

// round is one division of the GPUs of a pool.
type round struct {
	o    *policy
	v    *sched.View
	p    *sched.Plan
	pool cluster.PoolID

	claims []claimant // by number
}

// claimant is a job for which a size is chosen.
type claimant struct {
	*resize.Claim
	note   note
	was    note
	epochs float64 // done
	work   float64 // done, in whatever rate counts
	rho    float64
	rate   *rates
	asked  int // tasks
}

// early is how many epochs a job does before anything is foretold of it, and before its limit
// is looked at again.
const early = 2

// decide divides the GPUs.
func (r *round) decide() {
	all, gpus := resize.Claims(r.v, r.pool, func(j sched.Job) bool { return resize.Stays(r.v, j) })
	rng := rand.New(rand.NewPCG(uint64(r.o.cfg.Seed)^uint64(r.v.Now), uint64(r.pool)))
	for _, c := range all {
		r.claims = append(r.claims, r.describe(c, rng))
	}
	r.limits(gpus)
	p := Problem{GPUs: gpus}
	for i := range r.claims {
		p.Claims = append(p.Claims, r.claims[i].claim())
	}
	d := r.o.cfg.Search.Run(&p, rng)
	for i := range r.claims {
		c := &r.claims[i]
		r.remember(c, d[i])
		c.Tasks = d[i]
	}
	resize.CarryOutInPlace(r.v, r.p, all, r.o.cfg.Place)
}

// describe finds what is known of a job.
func (r *round) describe(c *resize.Claim, rng *rand.Rand) claimant {
	x := claimant{Claim: c, asked: int(c.Job.Spec().Demand.Roles[0].Tasks)}
	x.note, _ = sched.Recall[note](c.Job)
	x.was = x.note
	if x.note.Limit == 0 && r.o.cfg.First == Asked {
		x.note.Limit = x.asked
	}
	x.note.Limit = min(max(x.note.Limit, c.Least), c.Most)
	var g Regression
	alpha, beta := 0.0, 0.0
	b, learns := r.v.Speeds.(*believer)
	row, reports := Row{}, false
	if learns {
		row, reports = b.row(c.Job.Spec())
	}
	x.rate = &rates{v: r.v, j: c.Job, largest: resize.LargestNode(r.v, c.Job)}
	if reports {
		h := b.History(c.Job.Spec())
		x.epochs, x.work = row.Epochs, row.Epochs
		x.rate.measured(h.Rates)
		alpha, beta = b.regression().Beta(&row)
	} else { // a minute of its work counts as an epoch
		x.epochs = c.Job.Progress().Minutes()
		x.work = c.Job.Progress().Seconds()
		alpha, beta = g.Beta(&Row{Epochs: x.epochs})
	}
	x.note.Scaled, x.note.Changed = min(x.note.Scaled, x.epochs), min(x.note.Changed, x.epochs) // it may have begun anew
	x.rho = draw(alpha, beta, rng)
	return x
}

// young tells whether nothing is foretold of a job.
func (c *claimant) young() bool { return c.epochs < early }

// settled tells whether a running job may be changed: it has done an epoch since it was last.
func (c *claimant) settled() bool { return c.epochs >= c.note.Changed+1 }

// limits gives jobs the right to grow: each that runs and has done two epochs since its limit was
// looked at last, and has as many tasks as that, gets twice as many. The largest of them is cut
// where it has half of the GPUs and runs for longer than the median.
func (r *round) limits(gpus int) {
	var runs []float64
	var largest *claimant
	for i := range r.claims {
		c := &r.claims[i]
		if _, started := c.Job.FirstStart(); started {
			runs = append(runs, c.Job.RunTime().Seconds())
		}
		if c.Rigid() || !c.Job.Running() || c.epochs < c.note.Scaled+early {
			continue
		}
		c.note.Scaled = c.epochs
		if c.Job.Tasks() >= c.note.Limit {
			c.note.Limit = min(c.Most, 2*c.note.Limit)
		}
		c.note.Size = max(c.Least, min(c.note.Limit, r.o.cfg.Times*c.asked))
		if largest == nil || c.Job.Tasks()*c.Each > largest.Job.Tasks()*largest.Each {
			largest = c
		}
	}
	if largest == nil || largest.Job.Tasks()*largest.Each < gpus/2 {
		return
	}
	slices.Sort(runs)
	if median := runs[len(runs)/2]; median > 0 && largest.Job.RunTime().Seconds() > median {
		n := Shrunk(largest.Job.Tasks(), largest.Job.RunTime().Seconds()/median, r.o.cfg.Lambda)
		largest.note.Size = min(largest.Most, max(largest.Least, n))
		largest.note.Limit = largest.note.Size
	}
}

// claim is the job as the search sees it.
func (c *claimant) claim() Claim {
	out := Claim{Least: c.Least, Limit: c.note.Limit, Allowed: c.Least, Each: max(1, c.Each), First: max(1, c.GPUs()), Young: c.young(), Now: c.Job.Tasks()}
	if c.Rigid() {
		out.Limit = c.Least
	}
	switch {
	case c.Job.Running():
		out.Allowed = max(c.Job.Tasks(), c.note.Size)
		if c.note.Size > 0 && c.note.Size < c.Job.Tasks() && c.note.Limit == c.note.Size { // its limit was cut
			out.Allowed = c.note.Size
		}
		out.Locked = !c.settled()
	case c.note.Size > 0: // it is to come back
		out.Allowed, out.Now = c.note.Size, 0
	default:
		out.Now = 0
	}
	out.Allowed = min(max(out.Allowed, c.Least), out.Limit)
	left := c.work * (1/c.rho - 1)
	out.Usage = func(tasks int) float64 {
		x := c.rate.at(tasks)
		if x <= 0 {
			return math.Inf(1)
		}
		return left * float64(tasks) / x
	}
	return out
}

// remember notes what becomes of a job: a waiting one that gets nothing once more may have half
// as much the next time.
func (r *round) remember(c *claimant, tasks int) {
	n := c.note
	switch {
	case tasks > 0 && c.Job.Running() && tasks != c.Job.Tasks(), tasks > 0 && !c.Job.Running():
		n.Changed, n.Size = c.epochs, tasks
		n.Limit = max(n.Limit, tasks)
	case tasks == 0 && c.Job.Running():
		n.Size = c.Job.Tasks()
	case tasks == 0 && n.Size > c.Least:
		n.Size = max(c.Least, n.Size/2)
		n.Limit = n.Size
	}
	if n != c.was {
		sched.Remember(r.p, c.Job.ID, n)
	}
}

// rates are how fast a job is with each number of tasks.
type rates struct {
	v       *sched.View
	j       sched.Job
	largest int
	known   []point // by tasks; none: by what is believed of speeds
}

// point is the mean rate with so many tasks.
type point struct {
	tasks int
	rate  float64
	times int
}

// recent is of how many reports with one number of tasks the mean is taken.
const recent = 5

// measured takes in the rates that a job has reported, the latest first.
func (x *rates) measured(reports func(yield func(rate float64, tasks int) bool)) {
	reports(func(rate float64, tasks int) bool {
		i, found := slices.BinarySearchFunc(x.known, tasks, func(p point, n int) int { return cmp.Compare(p.tasks, n) })
		if !found {
			x.known = slices.Insert(x.known, i, point{tasks: tasks})
		}
		if p := &x.known[i]; p.times < recent {
			p.times++
			p.rate += (rate - p.rate) / float64(p.times)
		}
		return true
	})
}

// at is the rate with so many tasks: as measured, or on the line through the next two sizes, of
// which one may be none at all.
func (x *rates) at(tasks int) float64 {
	if len(x.known) == 0 {
		return resize.BestSpeed(x.v, x.j, tasks, x.largest)
	}
	i, found := slices.BinarySearchFunc(x.known, tasks, func(p point, n int) int { return cmp.Compare(p.tasks, n) })
	if found {
		return x.known[i].rate
	}
	i = min(i, len(x.known)-1)
	a, b := point{}, x.known[i]
	if i > 0 {
		a = x.known[i-1]
	}
	return max(0, a.rate+(b.rate-a.rate)*float64(tasks-a.tasks)/float64(b.tasks-a.tasks))
}
