package gavel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// gandiva is the loop for Gandiva, where two jobs of one size may share GPUs. When
// more GPUs are asked for than there are, jobs are paired at random, and each pair, or
// job that is left, is to have an equal share of the time.
//
// Every two jobs of one size are looked at in each round, like a job, whether they are
// a pair of the policy or not: with no share to their name they come last, and take
// what GPUs are left.
type gandiva struct {
	*scheduler
	speeds  colocated
	random  *python
	partner map[int]int        // who is paired with whom
	pairs   map[pair]*progress // every two active jobs of one size
	running []run
	alloc   cluster.Alloc
}

// pair is two jobs, the one that came first first; or one job, twice.
type pair struct{ a, b int }

func (p pair) single() bool { return p.a == p.b }

// jobs are the one or two jobs.
func (p pair) jobs() []int {
	if p.single() {
		return []int{p.a}
	}
	return []int{p.a, p.b}
}

// run is a job or pair in a round.
type run struct {
	pair
	t      int
	steps  [2]int64
	finish float64
}

// colocated is measured throughputs of two jobs that share GPUs of a type, steps/s.
type colocated map[colocation][2]float64

type colocation struct {
	typ  string
	gpus int
	a, b string // models
}

// readColocated reads them: type -> "('model', GPUs)" -> "('model', GPUs)" -> [first, second].
func readColocated(path string, w *workload) (colocated, error) {
	text, err := harness.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all map[string]map[string]map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	names := map[string]facts{} // of the jobs that there are
	for _, f := range w.facts {
		names[fmt.Sprintf("('%s', %d)", f.model, f.gpus)] = f
	}
	out := colocated{}
	for typ, jobs := range all {
		for a, f := range names {
			for b, v := range jobs[a] {
				other, ok := names[b]
				if !ok || other.gpus != f.gpus {
					continue
				}
				var speeds [2]float64
				if err := json.Unmarshal(v, &speeds); err != nil {
					return nil, fmt.Errorf("%s: the speeds of %s beside %s on %s: %w", path, a, b, typ, err)
				}
				out[colocation{typ, f.gpus, f.model, other.model}] = speeds
			}
		}
	}
	return out, nil
}

func newGandiva(s *scheduler, speeds colocated) *gandiva {
	return &gandiva{scheduler: s, speeds: speeds, random: newPython(seed), partner: map[int]int{}, pairs: map[pair]*progress{}}
}

// of is what is known of a job, or of two.
func (g *gandiva) of(p pair) *progress {
	if p.single() {
		return &g.jobs[p.a]
	}
	return g.pairs[p]
}

// speed is the steps per second of a job, or of each of two, on a type; 0 where that
// was not measured.
func (g *gandiva) speed(p pair, t int) (v [2]float64) {
	a, b := &g.work.facts[p.a], &g.work.facts[p.b]
	if p.single() {
		v[0] = a.speed[t]
		return v
	}
	return g.speeds[colocation{g.mach.types[t].name, a.gpus, a.model, b.model}]
}

// cannot tells whether a job, or one of two, does no steps on a type.
func (g *gandiva) cannot(p pair, t int) bool {
	v := g.speed(p, t)
	return v[0] <= 0 || !p.single() && v[1] <= 0
}

// Decide implements sched.Policy.
func (g *gandiva) Decide(v *sched.View, p *sched.Plan) {
	if !g.begins(v, len(g.running) > 0, g.end()) {
		return
	}
	g.settle(v, p)
	first := g.next
	g.arrive()
	for id := first; id < g.next; id++ {
		g.meet(id)
	}
	g.lease(p)
}

// end is when the longest of the round ends.
func (g *gandiva) end() float64 {
	end := 0.0
	for _, r := range g.running {
		end = max(end, r.finish)
	}
	return end
}

// NextWake implements sched.Waker.
func (g *gandiva) NextWake(v *sched.View) time.Duration {
	if len(g.running) == 0 {
		return g.scheduler.NextWake(v)
	}
	return max(nanos(g.end()), v.Now+1)
}

// meet makes pairs of a job that comes and all others of its size. Unlike a job, a
// pair has not received half a round to begin with.
func (g *gandiva) meet(id int) {
	n := len(g.mach.types)
	for _, other := range g.active {
		if other < id && g.gpus(other) == g.gpus(id) {
			g.pairs[pair{other, id}] = &progress{received: make([]float64, n), deficit: make([]float64, n), target: make([]float64, n)}
		}
	}
}

func (g *gandiva) gpus(id int) int { return g.work.facts[id].gpus }

// entries are all jobs and pairs, in the order in which the published code came to
// know them: each job when it came, followed by its pairs with those before it.
func (g *gandiva) entries() []pair {
	out := make([]pair, 0, len(g.active)+len(g.pairs))
	for _, id := range g.active {
		out = append(out, pair{id, id})
	}
	for p := range g.pairs {
		out = append(out, p)
	}
	slices.SortFunc(out, func(x, y pair) int {
		first := func(p pair) int {
			if p.single() {
				return -1
			}
			return p.a
		}
		return cmp.Or(cmp.Compare(x.b, y.b), cmp.Compare(first(x), first(y)))
	})
	return out
}

// settle counts what those of the round have done.
func (g *gandiva) settle(v *sched.View, p *sched.Plan) {
	slices.SortFunc(g.running, func(x, y run) int {
		pairs := func(r run) int {
			if r.single() {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(y.finish, x.finish), cmp.Compare(pairs(x), pairs(y)), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	for _, r := range g.running {
		took := r.finish - g.roundStart
		ids := r.jobs()
		for _, id := range ids {
			g.jobs[id].latest = r.finish
			if v.Job(job.ID(id)).Running() {
				p.Stop(job.ID(id), job.Reason{Code: job.UsedShare, Job: job.None})
			}
		}
		if !g.works(r) || took <= 0 {
			g.fail(r, v.Now)
			continue
		}
		if r.single() {
			g.jobs[r.a].failures = 0
		}
		share := g.of(r.pair)
		share.received[r.t] += took
		g.worked[r.t] += took
		for i, id := range ids {
			if j := &g.jobs[id]; j.done+r.steps[i] >= g.work.facts[id].steps {
				g.leave(id)
			}
			g.jobs[id].done += r.steps[i]
		}
	}
	g.running = g.running[:0]
}

// works tells whether each worker of each job has a step.
func (g *gandiva) works(r run) bool {
	for i, id := range r.jobs() {
		if r.steps[i] < int64(g.gpus(id)) {
			return false
		}
	}
	return true
}

// fail notes that a round came to nothing. A job gives up in the end, a pair never.
func (g *gandiva) fail(r run, now time.Duration) {
	g.dirty = true
	if !r.single() {
		return
	}
	if g.jobs[r.a].failures++; g.jobs[r.a].failures >= maxFailures {
		g.clock.Ends = append(g.clock.Ends, harness.End{Job: job.ID(r.a), At: now, GivenUp: true})
		g.leave(r.a)
	}
}

// leave forgets a job and its pairs.
func (g *gandiva) leave(id int) {
	g.active = slices.DeleteFunc(g.active, func(other int) bool { return other == id })
	maps.DeleteFunc(g.pairs, func(p pair, _ *progress) bool { return p.a == id || p.b == id })
	g.dirty = true
}

// reset begins a new allocation.
func (g *gandiva) reset() {
	elapsed := g.now - g.lastReset
	entries := g.entries()
	for t := range g.worked {
		g.worked[t] = 0
		for _, p := range entries {
			j := g.of(p)
			should := 0.0
			if j.shared {
				should = j.target[t] * elapsed
			}
			j.deficit[t] += should - (j.received[t] - roundLength/2)
			j.received[t] = roundLength / 2
			g.worked[t] += j.received[t]
		}
	}
	g.lastReset, g.dirty = g.now, false
	for _, p := range entries {
		j := g.of(p)
		j.shared = true
		clear(j.target)
	}
	g.share()
}

// share finds who has a share, and gives each an equal one.
func (g *gandiva) share() {
	g.part()
	asked, there := 0, 0
	for _, id := range g.active {
		asked += g.gpus(id)
	}
	for _, t := range g.mach.types {
		there += t.gpus
	}
	var sharers []pair
	if asked <= there {
		for _, id := range g.active {
			sharers = append(sharers, pair{id, id})
		}
	} else {
		g.join()
		for _, id := range g.active {
			switch other, ok := g.partner[id]; {
			case !ok:
				sharers = append(sharers, pair{id, id})
			case id < other:
				sharers = append(sharers, pair{id, other})
			}
		}
	}
	for _, p := range sharers {
		target, sum := g.of(p).target, 0.0
		for t, typ := range g.mach.types {
			target[t] = float64(typ.gpus) / float64(len(sharers)) / float64(g.gpus(p.a))
			sum += target[t]
		}
		for t := range target {
			target[t] /= max(sum, 1)
		}
	}
}

// part takes pairs apart of which one has left, that cannot run together on some type,
// or whose throughputs, each over that alone, sum to less than 1, over all types
// together.
func (g *gandiva) part() {
	for a, b := range g.partner {
		if !slices.Contains(g.active, a) || !slices.Contains(g.active, b) || g.gain(pair{min(a, b), max(a, b)}) < 1 {
			delete(g.partner, a)
			delete(g.partner, b)
		}
	}
}

// gain is what the policy takes a pair to give.
func (g *gandiva) gain(p pair) float64 {
	sum := 0.0
	for t := range g.mach.types {
		if g.cannot(p, t) {
			return 0
		}
		for i, v := range g.speed(p, t) {
			sum += v / g.work.facts[p.jobs()[i]].speed[t]
		}
	}
	return sum
}

// join pairs jobs that have no partner, at random, in as many tries as there are such
// jobs: two of unequal size are put back.
func (g *gandiva) join() {
	var free []int
	for _, id := range g.active {
		if _, ok := g.partner[id]; !ok {
			free = append(free, id)
		}
	}
	for tries := len(free); len(free) > 1 && tries > 0; tries-- {
		i, k := g.two(len(free))
		a, b := free[i], free[k]
		if g.gpus(a) != g.gpus(b) {
			continue
		}
		g.partner[a], g.partner[b] = b, a
		free = slices.DeleteFunc(free, func(id int) bool { return id == a || id == b })
	}
}

// two are two different numbers below n, as random.sample(range(n), 2) draws them.
func (g *gandiva) two(n int) (i, k int) {
	const small = 21 // up to here it takes from a copy of the list, beyond it draws again
	i, k = g.random.below(n), 0
	if n <= small {
		if k = g.random.below(n - 1); k == i {
			k = n - 1 // which has taken its place
		}
		return i, k
	}
	for k = g.random.below(n); k == i; {
		k = g.random.below(n)
	}
	return i, k
}

// bid is how urgent a job or pair is on a type.
type bid struct {
	pair
	priority, deficit, target float64
}

func (g *gandiva) bid(p pair, t int) bid {
	j := g.of(p)
	b := bid{pair: p, deficit: j.deficit[t]}
	if !j.shared {
		return b
	}
	b.target = j.target[t]
	switch {
	case b.target == 0 || g.cannot(p, t):
	case g.worked[t] == 0 || j.received[t]/g.worked[t] == 0:
		b.priority = b.target * 1e9
	default:
		b.priority = b.target / (j.received[t] / g.worked[t])
	}
	return b
}

// lease finds who runs in the next round. Types are not shuffled.
func (g *gandiva) lease(p *sched.Plan) {
	if g.dirty && (g.now-g.lastReset >= resetAfter || g.lastReset == 0) {
		g.reset()
	}
	entries := g.entries()
	taken := map[int]bool{}
	for _, t := range g.order {
		left := g.mach.types[t].gpus
		bids := make([]bid, 0, len(entries))
		for _, e := range entries {
			bids = append(bids, g.bid(e, t))
		}
		slices.SortStableFunc(bids, func(x, y bid) int {
			return cmp.Or(cmp.Compare(y.priority, x.priority), cmp.Compare(y.deficit, x.deficit), cmp.Compare(y.target, x.target))
		})
		for _, b := range bids {
			if left == 0 || taken[b.a] || taken[b.b] || g.cannot(b.pair, t) || g.gpus(b.a) > left {
				continue
			}
			taken[b.a], taken[b.b] = true, true
			left -= g.gpus(b.a)
			if g.of(b.pair).shared { // otherwise it is counted, but not placed
				g.dispatch(p, b.pair, t)
			}
		}
	}
	if len(g.running) == 0 && g.next == len(g.jobs) && len(g.active) > 0 && g.dirty {
		g.lastReset = 0 // nobody runs or will come: the loop looks again at once
		g.lease(p)
	}
}

// dispatch lets a job or pair run in the next round: until the last of a pair is done.
func (g *gandiva) dispatch(p *sched.Plan, e pair, t int) {
	r := run{pair: e, t: t, finish: g.now}
	speed, ids := g.speed(e, t), e.jobs()
	for i, id := range ids {
		r.steps[i] = min(int64(speed[i]*roundLength), g.work.facts[id].steps-g.jobs[id].done)
		r.finish = max(r.finish, g.now+float64(r.steps[i])/speed[i])
	}
	g.running = append(g.running, r)
	for i, id := range ids {
		if g.works(r) && g.jobs[id].done+r.steps[i] >= g.work.facts[id].steps {
			g.clock.Ends = append(g.clock.Ends, harness.End{Job: job.ID(id), At: nanos(r.finish)})
		}
		gpus := int32(g.gpus(id))
		g.alloc.Reset()
		g.alloc.Pieces = append(g.alloc.Pieces, cluster.Piece{Node: cluster.NodeID(t), Tasks: gpus, Shares: 1})
		g.alloc.Shares = append(g.alloc.Shares, cluster.Share{Device: cluster.DeviceID(t), Milli: gpus * 1000 / int32(len(ids))})
		p.StartOn(job.ID(id), &g.alloc)
	}
}
