package ymir

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/ymir/estimator"
	"github.com/norn-scheduler/norn/policy/ymir/solver"
	"github.com/norn-scheduler/norn/sched"
)

// The ways to merge, as tags: who of the pair goes first, by place in the problem.
const (
	alone = iota
	firstFirst
	secondFirst
	together
)

// solve is one division of a quota among the jobs of a backbone.
type solve struct {
	y        *policy
	v        *sched.View
	table    tabled
	sizes    []int
	scarce   bool // there are fewer GPUs than jobs
	fair     int  // place in sizes
	twice    int
	entities []entity
}

// entity is a job, or a pair that is trained together and stays one.
type entity struct {
	task
	mate *task // of a pair
	how  job.Merge
	fs   [2]float64 // Together: the factors on both speeds
	size int        // place in sizes of what it holds, -1 nothing

	bound  job.ID // with which job it is merged, one after the other, before the second has begun; job.None: with none
	second bool   // bound: it is the second
}

// outcome is what an entity, or two that are merged, shall have.
type outcome struct {
	jobs  []sched.Job // one, or two: of a temporal pair the first one runs
	how   job.Merge
	fresh bool // the pair is merged now
	gpus  int

	factor float64 // After, fresh: on the speed of the second one, as believed
	split  bool    // one alone that was to go on from another one, and is not to any more

	// For a temporal pair with so many GPUs, in seconds: when its second is believed to end
	// if it goes on from the first, and how long it would take by itself, with no more than
	// its fair share.
	ends  func(gpus int) float64
	alone func(gpus int) float64
	sizes []int // that there are
}

// sizesOf are the sizes that may be given: 1, 2, 3 and up to a node, whole nodes
// from there on, and what rigid jobs need.
func sizesOf(most, node int, jobs []sched.Job) []int {
	var sizes []int
	for a := 1; a <= most; a++ {
		if a < node || a%node == 0 {
			sizes = append(sizes, a)
		}
	}
	for _, j := range jobs {
		if d := j.Spec().Demand; !d.Elastic() || !plain(j) {
			sizes = append(sizes, max(1, d.GPUs()))
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// usable is the most GPUs that any elastic job can use, 1 at least.
func usable(jobs []sched.Job) int {
	most := int32(1)
	for _, j := range jobs {
		if plain(j) {
			_, n := j.Spec().Demand.Roles[0].Range()
			most = max(most, n)
		}
	}
	return int(most)
}

// roundUp is the place of the first size that is no smaller.
func roundUp(sizes []int, gpus int) int {
	at, _ := slices.BinarySearch(sizes, gpus)
	return min(at, len(sizes)-1)
}

// run divides GPUs among jobs.
func (s *solve) run(pool cluster.PoolID, gpus int, jobs []sched.Job) ([]outcome, error) {
	node := s.y.nodeGPUs(s.v, pool)
	s.sizes = sizesOf(max(1, min(gpus, usable(jobs))), node, jobs)
	share := (gpus + len(jobs) - 1) / max(1, len(jobs))
	if s.y.titan() {
		share = max(1, gpus/max(1, len(jobs)))
	}
	s.fair, s.twice = roundUp(s.sizes, share), roundUp(s.sizes, 2*s.sizes[roundUp(s.sizes, share)])
	s.scarce = gpus < len(jobs)
	s.table, _ = s.v.Transfer.(tabled)
	s.gather(jobs, node)
	s.rank()
	p := &solver.Problem{GPUs: gpus, Sizes: s.sizes, Merges: s, Jobs: make([]solver.Entity, 0, len(s.entities))}
	for i := range s.entities {
		p.Jobs = append(p.Jobs, s.cost(&s.entities[i]))
	}
	if s.y.cfg.Modes == Neither {
		p.Merges = nil
	}
	solveIt := solver.TwoStage
	if len(p.Jobs) <= s.y.cfg.ExactMax {
		solveIt = solver.Exact
	}
	got, err := solveIt(p)
	if err != nil {
		return nil, err
	}
	return s.outcomes(got), nil
}

// gather makes entities of jobs: those that are merged and have both not ended are
// one.
func (s *solve) gather(jobs []sched.Job, node int) {
	at := make(map[job.ID]int, len(jobs)) // job -> place in jobs
	s.entities = make([]entity, 0, len(jobs))
	for i, j := range jobs {
		at[j.ID] = i
	}
	for _, j := range jobs {
		with, how := j.Merged()
		k, here := at[with]
		switch {
		case how == job.Apart || how == job.Together && !here || how == job.After && over(s.v, with):
			s.entities = append(s.entities, s.alone(j, node))
		case how == job.After:
			continue // it is bound to the first, below, or waits for it
		case j.ID < with:
			e := s.alone(j, node)
			other := s.task(jobs[k], node)
			e.mate, e.how = &other, job.Together
			e.fs[0], e.fs[1] = s.observed(&e)
			s.entities = append(s.entities, e)
		}
	}
	s.bind(jobs, at, node)
}

// bind makes entities of the jobs that are to go on from another one that has not ended.
// The first such job of each, as long as it has not begun, may still be taken apart from it,
// and may not be merged with anybody else; the others wait for theirs.
func (s *solve) bind(jobs []sched.Job, at map[job.ID]int, node int) {
	for _, j := range jobs {
		with, how := j.Merged()
		if _, here := at[with]; how != job.After || !here {
			continue
		}
		for i := range s.entities {
			e := &s.entities[i]
			if e.j.ID != with || e.mate != nil || e.bound != job.None {
				continue
			}
			follower := s.alone(j, node)
			if follower.one *= follower.rate; !follower.fresh {
				break
			}
			follower.rate, follower.bound, follower.second, e.bound = 1, with, true, j.ID
			s.entities = append(s.entities, follower)
			break
		}
	}
}

// task is a job as it stands.
func (s *solve) task(j sched.Job, node int) task {
	t := task{j: j, left: s.y.left(j), rate: 1, speed: make([]float64, len(s.sizes)), one: math.Inf(1)}
	d := j.Spec().Demand
	rigid := !plain(j) || !d.Elastic()
	for i, a := range s.sizes {
		tasks := a
		switch {
		case rigid && a != max(1, d.GPUs()):
			continue
		case rigid:
			tasks = int(d.Roles[0].Tasks)
		case !fits(j, a) || pipeline(j) && a%node != 0:
			continue
		}
		k := speedKey{j.Spec().Backbone, tasks}
		seen, known := s.y.seen[k]
		if !known {
			seen = 1
		}
		t.speed[i] = believed(s.v, j, tasks, node) * seen / s.y.noise.speed.Factor(int64(tasks), int64(len(k.backbone)))
	}
	within := func(at int) int {
		for k := at; k >= 0; k-- {
			if t.speed[k] > 0 {
				return k
			}
		}
		for k := at; k < len(t.speed); k++ {
			if t.speed[k] > 0 {
				return k
			}
		}
		return at
	}
	t.fair, t.twice = within(s.fair), within(s.twice)
	n, _ := sched.Recall[note](j)
	switch with, how := j.Merged(); {
	case how != job.After:
	case n.factor > 0:
		t.rate = n.factor
	case with != job.None:
		first := task{j: s.v.Job(with)}
		if s.table != nil {
			first.number, t.number = s.table.Task(first.j.Spec()), s.table.Task(j.Spec())
		}
		t.rate = s.after(&first, &t)
	}
	if s.table != nil {
		t.number, t.amount = s.table.Task(j.Spec()), 0
		t.amount = s.table.Samples(j.Spec(), 1e9) * t.left
	}
	t.one = t.time(within(0))
	t.fresh = j.Progress() == 0 && !j.Running()
	t.free, t.bans = free(j), len(n.bans) > 0
	return t
}

func (s *solve) alone(j sched.Job, node int) entity {
	e := entity{task: s.task(j, node), size: -1, bound: job.None}
	if a := s.v.Alloc(j.ID); a != nil && j.Running() && !j.Profiling() {
		if at, ok := slices.BinarySearch(s.sizes, max(1, len(a.Shares))); ok {
			e.size = at
		}
	}
	// The gain from another job is measured while it runs.
	with, how := j.Merged()
	if b := learnt(s.v); b != nil {
		if how == job.After && with != job.None {
			e.one *= e.rate
			e.rate = b.After(j.Spec(), s.v.Job(with).Spec())
			e.one /= e.rate
		}
		return e
	}
	if how == job.After && e.size >= 0 && j.Speed() > 0 && e.speed[e.size] > 0 {
		e.one *= e.rate
		e.rate = j.Speed() / e.speed[e.size]
		e.one /= e.rate
	}
	return e
}

// observed are the factors on the speeds of two jobs that are trained as one: as
// they are seen while they run, and as they are believed otherwise.
func (s *solve) observed(e *entity) (fa, fb float64) {
	fa, fb = s.together(&e.task, e.mate)
	if learnt(s.v) != nil || e.size < 0 || e.speed[e.size] <= 0 || e.mate.speed[e.size] <= 0 {
		return fa, fb
	}
	if a, b := e.j.Speed(), e.mate.j.Speed(); a > 0 && b > 0 && e.mate.j.Running() {
		return a / e.speed[e.size], b / e.mate.speed[e.size]
	}
	return fa, fb
}

// rank sets what it costs to leave each job without GPUs: a little more the less it
// has left, so that shorter ones win ties.
func (s *solve) rank() {
	all := make([]*task, 0, len(s.entities))
	for i := range s.entities {
		e := &s.entities[i]
		if all = append(all, &e.task); e.mate != nil {
			all = append(all, e.mate)
		}
	}
	slices.SortStableFunc(all, func(a, b *task) int { return cmp.Or(cmp.Compare(a.one, b.one), cmp.Compare(a.j.ID, b.j.ID)) })
	for i, t := range all {
		t.queued = s.y.cfg.Queued * (1 + 1e-3*(1-float64(i)/float64(len(all))))
	}
}

// cost is what an entity costs at each size.
func (s *solve) cost(e *entity) solver.Entity {
	out := solver.Entity{Cost: make([]float64, len(s.sizes)), Queued: e.queued}
	for a := range s.sizes {
		switch {
		case e.mate != nil:
			out.Cost[a] = s.pairCost(&e.task, e.mate, e.how, e.fs, a)
		case s.y.titan():
			out.Cost[a] = s.remaining(e.time(a), e.time(e.fair), 1)
		default:
			out.Cost[a] = s.objective(e.time(a)/e.time(e.fair), 1, 1)
		}
	}
	if e.mate != nil {
		out.Queued += e.mate.queued
	}
	if s.y.cfg.Objective == LiteralMax {
		out.Queued = s.objective(math.Inf(1), 1, 1)
		if e.mate != nil {
			out.Queued *= 2
		}
	}
	s.stay(e, out.Cost)
	return out
}

// stay makes every other size of what runs cost a little more: a resize must gain
// that much.
func (s *solve) stay(e *entity, cost []float64) {
	if e.size < 0 || math.IsInf(cost[e.size], 1) {
		return
	}
	extra := s.y.cfg.Stay * cost[e.size]
	for a := range cost {
		if a != e.size {
			cost[a] += extra
		}
	}
}

// literalTop is more than any ratio of times.
const literalTop = 1e5

// objective is the cost of jobs that take so many times as long as at their fair
// share; weight is their number.
func (s *solve) objective(slowdown, tranWt, weight float64) float64 {
	if math.IsNaN(slowdown) {
		return math.Inf(1)
	}
	if s.y.cfg.Objective == LiteralMax {
		return solver.Literal(weight*tranWt/slowdown, weight*literalTop)
	}
	return weight / tranWt * slowdown
}

// pair is how long two jobs take when merged at a size, and their TranWt.
func (s *solve) pair(a, b *task, how job.Merge, fs [2]float64, size int) (time, tranWt float64) {
	ta, tb := a.time(size), b.time(size)
	if math.IsInf(ta, 1) || math.IsInf(tb, 1) {
		return math.Inf(1), 1
	}
	if how == job.Together {
		time = max(ta/fs[0], tb/fs[1])
		return time, estimator.TranWt(ta, tb, estimator.TogetherSum(time))
	}
	return ta + tb, estimator.TranWt(ta, tb*b.rate, estimator.AfterSum(ta, tb))
}

// pairCost is what a pair costs at a size: the sum of how many times as long each takes as
// alone at its fair share. So what the pair gains is held against two jobs side by side, and
// where GPUs are idle the second must gain more than it waits.
func (s *solve) pairCost(a, b *task, how job.Merge, fs [2]float64, size int) float64 {
	switch s.y.cfg.Objective {
	case LiteralMax:
		time, tranWt := s.pair(a, b, how, fs, size)
		fair, _ := s.pair(a, b, how, fs, min(a.twice, b.twice))
		return s.objective(time/fair, tranWt, 2)
	case Remaining:
		time, tranWt := s.pair(a, b, how, fs, size)
		fair, _ := s.pair(a, b, how, fs, min(a.fair, b.fair))
		return s.remaining(time, fair, tranWt)
	}
	ta, tb := a.time(size), b.time(size)
	if math.IsInf(ta, 1) || math.IsInf(tb, 1) {
		return math.Inf(1)
	}
	if how == job.Together {
		both := max(ta/fs[0], tb/fs[1])
		return both/a.time(a.fair) + both/b.time(b.fair)
	}
	return ta/a.time(a.fair) + (ta+tb)/(b.time(b.fair)*b.rate)
}

// mergeable tells whether two entities may be merged.
func (s *solve) mergeable(a, b *entity) bool {
	if a.bound != job.None || b.bound != job.None {
		return a.bound == b.j.ID
	}
	if a.j.Spec().Backbone != b.j.Spec().Backbone || !job.MayMerge(a.j.Spec(), b.j.Spec()) {
		return false
	}
	if !s.y.cfg.Started && !(a.fresh && b.fresh) {
		return false
	}
	return a.free && b.free && a.mate == nil && b.mate == nil && (a.fresh || b.fresh) && !(a.bans && banned(a.j, b.j.ID)) && !(b.bans && banned(b.j, a.j.ID))
}

// free tells whether a job is not merged yet and may be.
func free(j sched.Job) bool {
	_, how := j.Merged()
	return how == job.Apart && tunes(j) && j.Spec().Dataset != "" && plain(j) && !pipeline(j) && j.Spec().Stop == job.Checkpoint
}

// Fresh implements solver.Merges: nobody is merged with a job that has begun but one that has
// not.
func (s *solve) Fresh(i int) bool { return s.entities[i].fresh }

// Gain implements solver.Merges. It is what a pair saves with twice the fair share,
// compared with both jobs at theirs, which costs 1 each. Where there are fewer GPUs than
// jobs, the pair has the share of one, compared with that one and another one that waits.
func (s *solve) Gain(i, j int) float64 {
	a, b := &s.entities[i], &s.entities[j]
	if !s.mergeable(a, b) {
		return 0
	}
	at, apart := min(a.twice, b.twice), 2.0
	if s.scarce { // the two have a GPU at most, which only one of them can have
		at, apart = min(a.fair, b.fair), 1+s.y.cfg.Queued
	}
	w, cost := s.best(a, b, at)
	switch {
	case w <= 1 || w < s.y.cfg.Filter:
		return 0
	case s.y.cfg.Objective == LiteralMax:
		return 2 - 2/w
	case s.y.titan():
		return 2 - 1/w
	}
	return apart - cost
}

// Ways implements solver.Merges.
func (s *solve) Ways(i, j int, to []solver.Way) []solver.Way {
	a, b := &s.entities[i], &s.entities[j]
	switch {
	case a.bound == b.j.ID && b.second:
		return s.way(to, a, b, job.After, firstFirst)
	case a.bound == b.j.ID:
		return s.way(to, b, a, job.After, secondFirst)
	case s.y.cfg.Modes != Spatial:
		if b.fresh {
			to = s.way(to, a, b, job.After, firstFirst)
		}
		if a.fresh {
			to = s.way(to, b, a, job.After, secondFirst)
		}
	}
	if s.y.cfg.Modes != Temporal && a.fresh && b.fresh {
		to = s.way(to, a, b, job.Together, together)
	}
	return to
}

// way adds a way to merge, unless it pays at no size.
func (s *solve) way(to []solver.Way, a, b *entity, how job.Merge, tag int) []solver.Way {
	second := b.task
	var fs [2]float64
	if how == job.After {
		second.rate = s.after(&a.task, &b.task)
	} else {
		fs[0], fs[1] = s.together(&a.task, &b.task)
	}
	w := solver.Way{Entity: solver.Entity{Cost: make([]float64, len(s.sizes)), Queued: math.Inf(1)}, Tag: tag}
	pays := false
	for k := range s.sizes {
		time, tranWt := s.pair(&a.task, &second, how, fs, k)
		w.Cost[k] = s.pairCost(&a.task, &second, how, fs, k)
		pays = pays || tranWt >= s.y.cfg.Filter && !math.IsInf(time, 1)
	}
	if !pays {
		return to
	}
	s.stay(a, w.Cost)
	return append(to, w)
}

// outcomes turns a solution into what everybody shall have.
func (s *solve) outcomes(got solver.Solution) []outcome {
	var out []outcome
	for i, c := range got.Jobs {
		e := &s.entities[i]
		switch {
		case c.Mate != solver.None && c.Mate < i:
			continue
		case c.Mate != solver.None:
			first, second := &e.task, &s.entities[c.Mate].task
			if c.Tag == secondFirst {
				first, second = second, first
			}
			pair := outcome{jobs: []sched.Job{first.j, second.j}, how: job.Together, fresh: true, gpus: c.GPUs}
			if c.Tag != together {
				s.follows(&pair, first, second)
				pair.fresh = e.bound == job.None
			}
			out = append(out, pair)
		case e.mate != nil:
			out = append(out, outcome{jobs: []sched.Job{e.j, e.mate.j}, how: e.how, gpus: c.GPUs})
		default:
			out = append(out, outcome{jobs: []sched.Job{e.j}, gpus: c.GPUs, split: e.second})
		}
	}
	return out
}

// follows says of a pair that its second job goes on from the first one.
func (s *solve) follows(o *outcome, first, second *task) {
	o.how, o.factor, o.sizes = job.After, s.after(first, second), s.sizes
	o.ends = func(gpus int) float64 {
		if k, found := slices.BinarySearch(s.sizes, gpus); found {
			return first.time(k) + second.time(k)/o.factor
		}
		return math.Inf(1)
	}
	o.alone = func(gpus int) float64 {
		if gpus > s.sizes[second.fair] {
			return math.Inf(1) // it would have to give them up soon
		}
		if k, found := slices.BinarySearch(s.sizes, gpus); found {
			return second.time(k)
		}
		return math.Inf(1)
	}
}
