package muri

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/internal/published/ecos"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
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
	t.clock.foresee(t.running, isNear)
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
		all[i] = ratio{gpus: float64(f.gpus), passed: t.clock.now - f.submit, speed: 1 / p.iteration, left: p.left, alone: j.passed + p.left/j.alone}
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

// ratio is a job whose finish-time ratio (passed + left/(speed x share)) / alone is to be small.
type ratio struct {
	gpus, speed, passed, left, alone float64

	share float64 // the answer
}

// needs is the share at which the ratio is so much.
func (r *ratio) needs(worst float64) float64 {
	return r.left / (r.speed * (worst*r.alone - r.passed))
}

// leastRatio finds shares for which the worst ratio is least, where the jobs have so many
// GPUs together. Where the worst job has all that it asks for, GPUs are left over; which
// of the many answers is taken is where ECOS stops. The published code asks another
// solver where ECOS fails, which is rare; here each job has what it needs, then.
func leastRatio(all []ratio, gpus float64) {
	cost, rows, cones := leastRatioProgram(all, gpus)
	x, err := ecos.Solve(cost, rows, cones...)
	if err != nil && !errors.Is(err, ecos.ErrInaccurate) {
		leastShares(all, gpus)
		return
	}
	for i := range all {
		all[i].share = x[1+i]
	}
}

// leastRatioProgram is the program as cvxpy hands it to ECOS, variable by variable and
// row by row. The variables are the worst ratio, the shares, and for each job the time
// that an iteration takes, which is at least 1/(speed x share) by a cone. Of one job that
// time comes first, and there is no worst ratio.
func leastRatioProgram(all []ratio, gpus float64) (cost []float64, rows []ecos.Row, cones []int) {
	n := len(all)
	share := func(i int) int { return 1 + i }
	step := func(i int) int { return 1 + n + i }
	cost = make([]float64, 1+2*n)
	cost[0] = 1
	if n == 1 {
		step = func(int) int { return 0 }
		cost = []float64{1 / all[0].alone * all[0].left, 0}
	} else {
		for i := range all {
			part := 1 / all[i].alone // cvxpy divides once, and multiplies
			rows = append(rows, rowOf(-(part*all[i].passed), term{0, -1}, term{step(i), part * all[i].left}))
		}
	}
	for i := range all {
		rows = append(rows, rowOf(0, term{share(i), -1}))
	}
	var sum []term
	for i := range all {
		rows = append(rows, rowOf(1, term{share(i), 1}))
		sum = append(sum, term{share(i), all[i].gpus})
	}
	rows = append(rows, rowOf(gpus, sum...))
	for i := range all {
		speed := term{share(i), -all[i].speed}
		rows = append(rows, rowOf(0, speed, term{step(i), -1}), rowOf(0, speed, term{step(i), 1}), rowOf(2))
		cones = append(cones, 3)
	}
	return cost, rows, cones
}

// term is a variable of a program and its coefficient.
type term struct {
	variable int
	factor   float64
}

// rowOf is a row of a program.
func rowOf(limit float64, terms ...term) ecos.Row {
	slices.SortFunc(terms, func(a, b term) int { return a.variable - b.variable })
	r := ecos.Row{Limit: limit}
	for _, t := range terms {
		r.Index, r.Value = append(r.Index, t.variable), append(r.Value, t.factor)
	}
	return r
}

// leastShares gives each job what it needs for the least worst ratio, which it returns.
func leastShares(all []ratio, gpus float64) (worst float64) {
	for i := range all { // if all had what they ask for
		worst = max(worst, (all[i].passed+all[i].left/all[i].speed)/all[i].alone)
	}
	used := func(worst float64) (sum float64) {
		for i := range all {
			all[i].share = min(1, max(0, all[i].needs(worst)))
			sum += all[i].gpus * all[i].share
		}
		return sum
	}
	if used(worst) <= gpus {
		return worst
	}
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
	return high
}
