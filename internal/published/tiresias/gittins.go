package tiresias

import (
	_ "embed"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/backlog"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// samples is the distribution of GPU time, in GPU-seconds, that the published
// simulator ships and learns from: yarn-gput1000.csv, one number a line.
//
//go:embed samples.txt
var samples string

// history is what the published code knows about run times.
type history struct {
	values []int64   // sorted
	index  []float64 // Gittins index of a service just below each value
	rank   []int64   // place of that index among all, the largest first
	zero   int64     // the rank of index zero
	sums   []int64   // sums[i] is the sum of the first i values
}

// learn reads the samples. They are part of the program: a sample that is not
// a number is left out.
func learn() *history {
	h := &history{}
	for line := range strings.Lines(samples) {
		if v, ok := harness.Digits(strings.TrimSpace(line)); ok {
			h.values = append(h.values, v)
		}
	}
	slices.Sort(h.values)
	h.sums = make([]int64, len(h.values)+1)
	for i, v := range h.values {
		h.sums[i+1] = h.sums[i] + v
	}
	for _, v := range h.values {
		h.index = append(h.index, h.gittins(v-1))
	}
	h.order()
	return h
}

// order ranks the indexes.
func (h *history) order() {
	distinct := append([]float64{0}, h.index...)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	place := func(index float64) int64 {
		at, _ := slices.BinarySearch(distinct, index)
		return int64(len(distinct) - 1 - at)
	}
	for _, index := range h.index {
		h.rank = append(h.rank, place(index))
	}
	h.zero = place(0)
}

// above is the place of the first sample above a service.
func (h *history) above(service int64) int {
	return sort.Search(len(h.values), func(i int) bool { return h.values[i] > service })
}

// quantum is how far ahead the index looks, in GPU-seconds.
const quantum = 3250

// gittins is the index of a service below the largest sample: the chance to
// end within the quantum over the service expected until then. The expectation
// is cut to a whole number, since Python 2 divides so, and both are rounded.
func (h *history) gittins(service int64) float64 {
	n := len(h.values)
	from := h.above(service)
	to := n - 1
	if service+quantum <= h.values[n-1]-1 {
		to = h.above(service + quantum)
	}
	chance := round(float64(to-from)/float64(n-from), 5)
	expected := (h.sums[to] - h.sums[from] + quantum*int64(n-to)) / int64(n-from)
	return round(chance*1e6/float64(expected), 4)
}

// rankOf is the rank of a service; jobs of a lower rank go first.
func (h *history) rankOf(service int64) int64 {
	if at := h.above(service); at < len(h.rank) {
		return h.rank[at]
	}
	return h.zero
}

// expected is the mean of the samples above a service but for the largest one,
// rounded to two decimals: what shortest-expected takes for what remains. (It
// does not subtract the service.)
func (h *history) expected(service int64) float64 {
	n := len(h.values)
	switch at := h.above(service); {
	case at == n-1:
		return float64(h.values[at])
	case at >= n:
		return 0
	default:
		return round(float64(h.sums[n-1]-h.sums[at])/float64(n-1-at), 2)
	}
}

// round rounds a number that is not negative to so many decimals, exactly, and
// halves up, as Python 2 does.
func round(v float64, decimals int) float64 {
	// The shortest decimal that reads back as v tells whether v is a half: a
	// half that v can hold has few digits.
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if dot := strings.IndexByte(s, '.'); dot >= 0 && len(s) == dot+decimals+2 && s[len(s)-1] == '5' {
		if exact := strconv.FormatFloat(v, 'f', 60, 64); strings.TrimRight(exact, "0") == s {
			v = math.Nextafter(v, math.Inf(1))
		}
	}
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'f', decimals, 64), 64)
	return r
}

// dlasGittins is dlas-gpu-gittins: the queues of dlas-gpu, of which each is
// sorted by Gittins index, the largest first, then by submission.
type dlasGittins struct {
	history *history
	total   int64
	hold    yarn.Holdings
	queues  [lastQueue + 1]backlog.List
	jobs    []gittinsJob
	moved   []int32
	stops   []int32
	starts  []int32
	wake    int64
}

type gittinsJob struct {
	submit, ran, since int64
	queue              int8
	running            bool
}

func newDlasGittins(spec yarn.Spec) *dlasGittins {
	return &dlasGittins{history: learn(), total: int64(spec.Total())}
}

// Decide implements sched.Policy.
func (g *dlasGittins) Decide(v *sched.View, p *sched.Plan) {
	now := int64(v.Now / time.Second)
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Ended:
			g.queues[g.jobs[ch.Job].queue].Remove(int32(ch.Job))
		case sched.Arrived:
			g.arrive(v.Job(ch.Job))
		}
	}
	g.update(now)
	g.walk(now)
	for _, id := range g.stops {
		j := &g.jobs[id]
		j.running = false
		j.ran += now - j.since
		p.Stop(job.ID(id), outranked)
	}
	for _, id := range g.starts {
		p.StartOn(job.ID(id), g.hold.Of(int(g.queues[0].GPUs(id))))
	}
	g.wake = g.nextJump(now)
}

// NextWake implements sched.Waker.
func (g *dlasGittins) NextWake(*sched.View) time.Duration {
	if g.wake == never {
		return unit.Never
	}
	return harness.Seconds(g.wake)
}

func (g *dlasGittins) arrive(j sched.Job) {
	for int(j.ID) >= len(g.jobs) {
		g.jobs = append(g.jobs, make([]gittinsJob, max(256, len(g.jobs)))...)
	}
	g.jobs[j.ID] = gittinsJob{submit: int64(j.Submit() / time.Second)}
	g.queues[0].Add(int32(j.ID), j.GPUs(), g.key(int32(j.ID), 0), g.queues[0].Back())
}

// key orders by index, then by submission.
func (g *dlasGittins) key(id int32, service int64) int64 {
	return g.history.rankOf(service)<<33 | g.jobs[id].submit
}

// update moves the jobs that sink, and ranks running jobs anew. They stay
// before the pending ones of equal key.
func (g *dlasGittins) update(now int64) {
	g.moved = g.moved[:0]
	for q := range g.queues {
		l := &g.queues[q]
		for _, id := range l.Running() {
			service := (g.jobs[id].ran + now - g.jobs[id].since) * l.GPUs(id)
			_, seq := l.Key(id)
			l.Set(id, g.key(id, service), seq)
			if q < lastQueue && service >= limits[q] {
				g.moved = append(g.moved, id)
			}
		}
	}
	slices.Sort(g.moved)
	for _, id := range g.moved {
		from := &g.queues[g.jobs[id].queue]
		g.jobs[id].queue++
		to := &g.queues[g.jobs[id].queue]
		key, _ := from.Key(id)
		to.Add(id, int(from.GPUs(id)), key, to.Back())
		from.Remove(id)
	}
}

// walk lets the jobs of each queue run that fit.
func (g *dlasGittins) walk(now int64) {
	free := g.total
	g.stops, g.starts = g.stops[:0], g.starts[:0]
	for q := range g.queues {
		l := &g.queues[q]
		stops, starts := l.Scan(func(_ int32, gpus int) bool {
			if int64(gpus) > free {
				return false
			}
			free -= int64(gpus)
			return true
		})
		for _, id := range stops {
			l.Stop(id)
		}
		for _, id := range starts {
			l.Start(id)
			if j := &g.jobs[id]; !j.running {
				j.running, j.since = true, now
				g.starts = append(g.starts, id)
			}
		}
		g.stops = append(g.stops, stops...)
		l.RunningFirst()
	}
	// A job that sank behind others may have run without a break until now.
	for _, id := range g.moved {
		if j := &g.jobs[id]; j.running && !slices.Contains(g.queues[j.queue].Running(), id) {
			g.stops = append(g.stops, id)
		}
	}
}

// nextJump is the next moment at which a job sinks, by the arithmetic of dlas.
func (g *dlasGittins) nextJump(now int64) int64 {
	jump := int64(never)
	for q := range lastQueue {
		l := &g.queues[q]
		for _, id := range l.Running() {
			j := &g.jobs[id]
			jump = min(jump, now+(limits[q]-(j.ran+now-j.since))/l.GPUs(id))
		}
	}
	return max(jump, now+1)
}
