package sia

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/internal/published/gavel"
	policies "github.com/norn-scheduler/norn/policy/gavel"
)

// shares is Gavel as the simulator has it: the greatest sum of steps in a second, at the
// sizes and batches that users ask for. Steps are not scaled, so that jobs with short
// ones come first.
type shares struct {
	pools []pool
	round float64 // seconds

	had   map[int][]float64 // seconds that each job had on each pool, and half a round
	total []float64         // of all jobs that ever were, by pool
	last  map[int]hold
}

// hold is the GPUs of a pool that a job has, by number.
type hold struct {
	pool int
	gpus []int
}

func newShares(p Policy, pools []pool) *shares {
	return &shares{pools: pools, round: float64(p.round), had: map[int][]float64{}, total: make([]float64, len(pools)), last: map[int]hold{}}
}

// decide implements planner.
func (s *shares) decide(_ int, active []*task) map[int]grant {
	for _, t := range active {
		if s.had[t.id] == nil {
			s.had[t.id] = slices.Repeat([]float64{s.round / 2}, len(s.pools))
			for k := range s.pools {
				s.total[k] += s.round / 2
			}
		}
	}
	now := map[int]hold{}
	for k, jobs := range s.serve(active) {
		s.assign(k, jobs, now)
	}
	s.last = now
	out := map[int]grant{}
	for id, h := range now {
		g := grant{on: s.pools[h.pool].typ}
		for _, n := range h.gpus {
			g.nodes = append(g.nodes, n/s.pools[h.pool].gpus)
		}
		out[id] = g
		s.had[id][h.pool] += s.round
		s.total[h.pool] += s.round
	}
	return out
}

// allocation is the part of the time that each job is to have on each pool.
func (s *shares) allocation(active []*task) map[int][]float64 {
	order := slices.Clone(active)
	slices.SortFunc(order, func(a, b *task) int { return cmp.Compare(a.name, b.name) })
	p := &policies.Problem{}
	for _, pool := range s.pools {
		p.Capacity = append(p.Capacity, float64(pool.nodes*pool.gpus))
	}
	for _, t := range order {
		j := policies.Job{ID: int64(t.id), Size: float64(t.asks), Weight: 1}
		for _, pool := range s.pools {
			j.Speed = append(j.Speed, t.foretold(pool))
		}
		p.Jobs = append(p.Jobs, j)
	}
	a, err := gavel.Throughput(p)
	if err != nil {
		panic(err) // speeds are above 0, and to have nothing is always possible
	}
	out := map[int][]float64{}
	for i, t := range order {
		for k := range a[i] {
			a[i][k] = math.RoundToEven(a[i][k]*1e5) / 1e5
		}
		out[t.id] = a[i]
	}
	return out
}

// foretold is the steps in a second of a task as its user asked for it, on a pool.
func (t *task) foretold(on pool) float64 {
	if t.asks > on.nodes*on.gpus {
		return 0.1
	}
	var placement []int
	for left := t.asks; left > 0; left -= on.gpus {
		placement = append(placement, min(left, on.gpus))
	}
	s := t.speedsOf(on.typ)
	local := ceil(float64(t.target) / float64(t.asks))
	accum := ceil(float64(local)/float64(s.localMostOn(placement))) - 1
	if t.asks == 1 {
		accum = max(1, accum)
	}
	each := min(ceil(float64(local)/float64(accum+1)), t.app.most()/(t.asks*(accum+1)))
	step, sync := s.times(placement, each)
	rate := 1 / (step + (step-sync)*float64(accum))
	if slow, ok := t.quirks.slow[t.app.name]; ok {
		rate /= slow
	}
	return rate
}

// serve chooses who runs in the round, by pool: those first who have had least of what
// they are to have. Who is to have nothing runs as well where there is room.
func (s *shares) serve(active []*task) [][]*task {
	type entry struct {
		t                  *task
		pool               int
		priority, fraction float64
	}
	share := s.allocation(active)
	var queue []entry
	for k := range s.pools {
		for _, t := range active {
			x := share[t.id][k]
			e := entry{t, k, 0, x}
			if x > 0 {
				e.priority = x / (s.had[t.id][k] / s.total[k])
			}
			queue = append(queue, e)
		}
	}
	slices.SortStableFunc(queue, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(b.fraction, a.fraction))
	})
	served := map[int]bool{}
	left := make([]int, len(s.pools))
	for k, p := range s.pools {
		left[k] = p.nodes * p.gpus
	}
	out := make([][]*task, len(s.pools))
	for _, e := range queue {
		if !served[e.t.id] && e.t.asks <= left[e.pool] {
			served[e.t.id] = true
			left[e.pool] -= e.t.asks
			out[e.pool] = append(out[e.pool], e.t)
		}
	}
	return out
}

// assign gives jobs GPUs of a pool, the largest jobs first: of those of one size first
// what they had, then the next ones from the first node on. Each of these passes begins
// where the one before ended, so that a job may be spread over nodes.
func (s *shares) assign(k int, jobs []*task, now map[int]hold) {
	slices.SortStableFunc(jobs, func(a, b *task) int { return cmp.Compare(b.asks, a.asks) })
	taken := map[int]bool{}
	next := 0
	for len(jobs) > 0 {
		same := slices.IndexFunc(jobs, func(t *task) bool { return t.asks != jobs[0].asks })
		if same < 0 {
			same = len(jobs)
		}
		for _, t := range jobs[:same] {
			h, ok := s.last[t.id]
			if ok && h.pool == k && !slices.ContainsFunc(h.gpus, func(g int) bool { return taken[g] }) {
				now[t.id] = h
				for _, g := range h.gpus {
					taken[g] = true
				}
			}
		}
		for _, t := range jobs[:same] {
			h := now[t.id]
			for h.pool = k; len(h.gpus) < t.asks; next++ {
				if !taken[next] {
					taken[next] = true
					h.gpus = append(h.gpus, next)
				}
			}
			now[t.id] = h
		}
		jobs = jobs[same:]
	}
}
