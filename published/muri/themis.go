package muri

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/published/yarn"
	"github.com/norn-scheduler/norn/sched"
)

// themis is the schedule of that name, as which the simulator of Muri plays Themis: at
// every event GPUs are shared out for the least worst finish-time ratio, and jobs that
// have had least of their share go first. Its ratios compare seconds with iterations,
// for the time alone leaves out how long an iteration takes.
type themis struct {
	clock   *clock
	total   int
	place   *yarn.Packing
	hold    yarn.Holdings
	list    []int32 // runnable jobs, as the published loop last sorted them
	jobs    []fair  // by number
	running []int32
	last    float64 // the event before
}

// fair is what is remembered of a job, and what it is given at an event.
type fair struct {
	held   bool
	seen   bool    // at an event before
	left   float64 // iterations to go, then
	alone  float64 // its part of the GPUs that it asks for, then, were they shared evenly
	passed float64 // iterations over parts: what it would have taken so far
	due    float64 // seconds that it should have run

	share   float64 // of the GPUs that it asks for
	deficit float64
	first   float64 // who goes first: those with most
}

func newThemis(s yarn.Spec, c *clock) *themis {
	return &themis{clock: c, total: s.Total(), place: yarn.New(s), jobs: make([]fair, len(c.work.facts))}
}

// Decide implements sched.Policy.
func (t *themis) Decide(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Ended:
			t.list = slices.DeleteFunc(t.list, func(id int32) bool { return id == int32(ch.Job) })
		case sched.Arrived:
			t.list = append(t.list, int32(ch.Job))
		}
	}
	t.running = t.running[:0]
	if len(t.list) > 0 {
		t.share()
		t.choose(p)
	}
	t.last = t.clock.now
	t.clock.foresee(t.running, func(a, b float64) bool { return a == b })
}

// share says what part of its GPUs each job is to have, and who goes first.
func (t *themis) share() {
	even := math.Ceil(float64(t.total) / float64(len(t.list)))
	all := make([]ratio, len(t.list))
	for i, id := range t.list {
		f, p, j := &t.clock.work.facts[id], &t.clock.jobs[id], &t.jobs[id]
		if j.seen {
			j.passed += (j.left - p.left) / j.alone
		}
		j.seen, j.left, j.alone = true, p.left, min(1, even/float64(f.gpus))
		all[i] = ratio{gpus: float64(f.gpus), passed: t.clock.now - f.submit, left: p.left * p.iteration, alone: j.passed + p.left/j.alone}
	}
	leastRatio(all, float64(t.total))
	for i, id := range t.list {
		j, executed := &t.jobs[id], t.clock.jobs[id].executed
		j.share, j.deficit = all[i].share, j.due-executed
		if j.first = j.share * 1e9; executed != 0 {
			j.first = j.share / executed
		}
		j.due += j.share * (t.clock.now - t.last)
	}
}

// choose has jobs run in order, as far as they find room, once as they come and then
// the largest first; only who found room both times runs.
func (t *themis) choose(p *sched.Plan) {
	slices.SortStableFunc(t.list, func(a, b int32) int {
		x, y := &t.jobs[a], &t.jobs[b]
		return cmp.Or(cmp.Compare(y.first, x.first), cmp.Compare(y.deficit, x.deficit), cmp.Compare(y.share, x.share))
	})
	gpus := func(id int32) int { return t.clock.work.facts[id].gpus }
	chosen := map[int32]bool{}
	t.place.Empty()
	for _, id := range t.list {
		chosen[id] = t.place.Fit(gpus(id))
	}
	slices.SortStableFunc(t.list, func(a, b int32) int { return gpus(b) - gpus(a) })
	t.place.Empty()
	for _, id := range t.list {
		switch runs := chosen[id] && t.place.Fit(gpus(id)); {
		case runs:
			t.running = append(t.running, id)
		case t.jobs[id].held:
			t.jobs[id].held = false
			p.Stop(job.ID(id), outranked)
		}
	}
	for _, id := range t.running {
		if !t.jobs[id].held {
			t.jobs[id].held = true
			t.clock.started(id)
			p.StartOn(job.ID(id), t.hold.Of(gpus(id)))
		}
	}
}

// NextWake implements sched.Waker.
func (t *themis) NextWake(v *sched.View) time.Duration { return t.clock.nextEvent(math.Inf(1), v.Now) }

// ratio is a job whose finish-time ratio (passed + left/share) / alone is to be small.
type ratio struct {
	gpus, passed, left, alone float64

	share float64 // the answer, 0 to 1
	least float64 // that it needs for the worst ratio
}

// needs is the share of a job at which its ratio is so much.
func (r *ratio) needs(worst float64) float64 { return r.left / (worst*r.alone - r.passed) }

// leastRatio finds shares for which the worst ratio is least, where the jobs have so many
// GPUs together. Where the worst job has all that it asks for, GPUs are left over; which
// of the many answers is taken is decided by the interior-point method of the published
// code, which ends in the analytic centre of them.
func leastRatio(all []ratio, gpus float64) {
	worst := 0.0 // if all had what they ask for
	for i := range all {
		worst = max(worst, (all[i].passed+all[i].left)/all[i].alone)
	}
	used := func(worst float64) (sum float64) {
		for i := range all {
			all[i].least = min(1, max(0, all[i].needs(worst)))
			sum += all[i].gpus * all[i].least
		}
		return sum
	}
	if used(worst) > gpus {
		low, high := worst, 2*worst
		for used(high) > gpus {
			high *= 2
		}
		for range 100 {
			if mid := (low + high) / 2; used(mid) > gpus {
				low = mid
			} else {
				high = mid
			}
		}
		used(high)
		for i := range all {
			all[i].share = all[i].least
		}
		return
	}
	centre(all, gpus)
}

// ratioWeight is how much more the distance from the least share counts in the analytic
// centre than that from the largest one: the ratio is bounded by a line and a cone, whose
// barriers come to so much when the variable between them is taken where it is best.
const ratioWeight = 1.5

// centre puts shares between the least ones and 1 where the product of all slacks, that
// of the GPUs included, is greatest. With a price on GPUs each share is the root of a
// quadratic equation; the price is one over the GPUs that are left.
func centre(all []ratio, gpus float64) {
	at := func(price float64) (left float64) {
		left = gpus
		for i := range all {
			r := &all[i]
			room, cost := 1-r.least, price*r.gpus
			b := cost*room + ratioWeight + 1
			r.share = r.least + 2*ratioWeight*room/(b+math.Sqrt(b*b-4*cost*ratioWeight*room))
			left -= r.gpus * r.share
		}
		return left
	}
	low, high := math.Log(1e-9), math.Log(1e12)
	for range 100 {
		mid := (low + high) / 2
		if price := math.Exp(mid); at(price) < 1/price {
			low = mid
		} else {
			high = mid
		}
	}
	at(math.Exp(high))
}
