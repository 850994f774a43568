package shockwave

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/internal/published/gavel"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	policies "github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/trace"
)

// Baseline is a policy of Gavel, or another one with shares of time, as this
// simulator runs it.
type Baseline struct {
	Name string
	Note string // what is odd about it; empty where nothing is

	share func(p *policies.Problem) (policies.Allocation, error)
	equal bool  // all jobs are taken to be equally fast
	match scipy // jobs are matched to GPUs, as this SciPy does
}

// Baselines are all of them, in the order in which they are shown.
func Baselines() []Baseline {
	return []Baseline{
		{Name: "max_min_fairness", share: gavel.MaxMin, equal: true},
		{Name: "finish_time_fairness", share: gavel.FinishTimes},
		{Name: "min_total_duration", Note: "to within 5 %", share: gavel.Halfway},
		{Name: "max_sum_throughput_perf", share: gavel.Throughput},
		{Name: "gandiva_fair", Note: "a share of the GPUs for each job, whatever its size", share: fairParts},
		{Name: "allox", Note: "of equal matchings the one that SciPy from 1.9 on finds", match: asTheyAre},
		{Name: "allox-scipy1.8", Note: "the one that SciPy 1.5 to 1.8 find", match: aboveLeast},
	}
}

// fairParts gives every job as much of the time as there are GPUs for each job.
func fairParts(p *policies.Problem) (policies.Allocation, error) {
	a := make(policies.Allocation, len(p.Jobs))
	for i := range a {
		x := p.Capacity[0] / float64(len(p.Jobs))
		a[i] = []float64{x / max(x, 1)}
	}
	return a, nil
}

// FindBaseline finds one by its name.
func FindBaseline(name string) (Baseline, error) {
	return harness.Find("policy of shockwave", name, Baselines(), func(b *Baseline) string { return b.Name })
}

// maxGPUs bounds the GPUs of a cluster.
const maxGPUs = 1_000_000

// Machine reads V100=32.
func Machine(name string) (gpus int, err error) {
	n, ok := harness.Digits(strings.TrimPrefix(name, "V100="))
	if !ok || !strings.HasPrefix(name, "V100=") || n < 1 || n > maxGPUs {
		return 0, harness.Unknown("cluster of shockwave", name, []string{"V100=GPUs, as in V100=32"})
	}
	return int(n), nil
}

// resetAfter is how long an allocation stays as it is at least, in seconds.
const resetAfter = 1000.0

const maxFailures = 5

// sharing is the loop of the simulator with a policy that shares out time.
type sharing struct {
	machine
	policy Baseline
	jobs   map[*task]*claim

	worked    float64 // seconds that all jobs have received since the last reset
	lastReset float64
	dirty     bool
}

// claim is what a task is due and has received.
type claim struct {
	shared                    bool // it is in the allocation
	target, received, deficit float64

	isolated, left, share float64 // finish-time fairness: time by itself so far; what it had to go at the last reset, and at what speed
	reset                 bool
	failures              int // in a row
}

// RunBaseline runs a trace on so many V100 GPUs, with the throughputs in a table.
func RunBaseline(ctx context.Context, tracePath, speedsPath string, gpus int, b Baseline) (*Outcome, error) {
	speeds, err := trace.ReadThroughputs(speedsPath, "v100")
	if err != nil {
		return nil, err
	}
	tasks, err := readTrace(tracePath, speeds)
	if err != nil {
		return nil, err
	}
	s := &sharing{machine: machine{gpus: gpus, queue: tasks}, policy: b, jobs: map[*task]*claim{}}
	if err := s.play(ctx, tasks, s.next); err != nil {
		return nil, err
	}
	o := s.outcome(tasks)
	o.Result.Append = func(dst []byte, r *harness.Row) []byte {
		dst = append(dst, r.Key...)
		for _, v := range []float64{r.Submit, r.Start, r.End, r.JCT()} {
			dst = harness.AppendFloat(append(dst, ','), v)
		}
		return dst
	}
	for i := range o.Result.Rows {
		r := &o.Result.Rows[i]
		r.End, _ = strconv.ParseFloat(strconv.FormatFloat(r.End, 'f', 6, 64), 64) // as it is printed
	}
	return o, nil
}

// next is one turn of the loop.
func (s *sharing) next() bool {
	if len(s.active)+len(s.queue) == 0 {
		return false
	}
	if len(s.running) > 0 {
		s.now = 0
		for _, l := range s.running {
			s.now = max(s.now, l.finish)
		}
		s.roundStart, s.roundEnd = s.roundEnd, s.now
	} else if len(s.queue) > 0 {
		s.now = s.queue[0].arrives
	}
	s.count()
	for _, t := range s.active {
		t.watch()
	}
	for len(s.queue) > 0 && s.queue[0].arrives <= s.now {
		s.active = append(s.active, s.queue[0])
		s.jobs[s.queue[0]] = &claim{received: length / 2}
		s.queue = s.queue[1:]
		s.dirty = true
	}
	if len(s.active) == 0 {
		return false
	}
	s.serve()
	s.round++
	return true
}

// count counts what the tasks of the round have done. The time that they
// received is computed as the loop does it: the last digit decides between
// equals.
func (s *sharing) count() {
	before, over := s.before, len(s.over)
	s.running = slices.DeleteFunc(s.running, s.fails)
	for _, l := range s.settle() {
		took := l.finish - s.roundStart
		if s.round != 1 && !before[l.id] && took > length-5 {
			took -= overhead
		}
		s.jobs[l.task].received += took
		s.worked += took
	}
	s.dirty = s.dirty || len(s.over) > over
}

// fails tells whether a task had nothing to do, and counts it. When its batch size
// grows, the epoch that it is in counts as done; if that was the last one, it has more
// than done its steps without having ended. It is then given a lease of no length
// until it is given up.
func (s *sharing) fails(l lease) bool {
	if l.steps > 0 || l.finish > s.roundStart {
		return false
	}
	s.dirty = true
	c := s.jobs[l.task]
	if c.failures++; c.failures == maxFailures {
		l.end = s.roundStart
		s.active = slices.DeleteFunc(s.active, func(t *task) bool { return t == l.task })
		s.over = append(s.over, l.task)
	}
	return true
}

// serve finds who runs in the next round, by priority, then what is owed, then the
// target, then the number.
func (s *sharing) serve() {
	if s.dirty && (s.now-s.lastReset >= resetAfter || s.lastReset == 0) {
		s.renew()
	}
	var bids []rounds.Bid
	for i, t := range s.active {
		c := s.jobs[t]
		b := rounds.Bid{Job: job.ID(i), Deficit: c.deficit}
		if c.shared {
			b.Target = c.target
			switch {
			case c.target == 0:
			case s.worked == 0 || c.received/s.worked == 0:
				b.Priority = c.target * 1e9
			default:
				b.Priority = c.target / (c.received / s.worked)
			}
		}
		bids = append(bids, b)
	}
	rounds.Sort(bids)
	left := s.gpus
	for _, b := range bids {
		t := s.active[b.Job]
		if t.gpus > left {
			continue
		}
		left -= t.gpus
		if !s.jobs[t].shared {
			continue // it is counted, but not placed
		}
		l := lease{task: t, steps: min(int64(t.speed()*length), t.steps-t.did)}
		l.finish = max(s.now, s.now+float64(l.steps)/t.speed())
		if !t.begun {
			t.begun, t.start = true, s.now
		}
		s.running = append(s.running, l)
	}
}

// renew begins a new allocation.
func (s *sharing) renew() {
	s.active = slices.Clone(s.active)
	elapsed := s.now - s.lastReset
	s.worked = 0
	p := &policies.Problem{Capacity: []float64{float64(s.gpus)}, Traces: true}
	for _, t := range s.active {
		c := s.jobs[t]
		should := 0.0
		if c.shared {
			should = c.target * elapsed
		}
		c.deficit += should - (c.received - length/2)
		c.received = length / 2
		s.worked += c.received
		j := policies.Job{Size: float64(t.gpus), Speed: []float64{t.speed()}, Weight: 1, Left: float64(t.steps - t.did), Age: s.now - t.arrives}
		if s.policy.equal {
			j.Speed[0] = 1
		}
		p.Jobs = append(p.Jobs, j)
	}
	for i, t := range s.active {
		c, j := s.jobs[t], &p.Jobs[i]
		if c.reset {
			c.isolated += (c.left - j.Left) / c.share
		}
		j.Isolated = c.isolated
		c.left, c.share, c.reset = j.Left, j.Speed[0]*p.Share(j, len(p.Jobs))[0], true
	}
	s.lastReset = s.now
	s.dirty = false
	a := s.allocate(p)
	for i, t := range s.active {
		s.jobs[t].shared, s.jobs[t].target = true, a[i][0]
	}
}

// allocate finds what each of the active jobs is due.
func (s *sharing) allocate(p *policies.Problem) policies.Allocation {
	if s.policy.match != noScipy {
		was := make([]float64, len(s.active))
		for i, t := range s.active {
			was[i] = s.jobs[t].target
		}
		return match(p, was, s.policy.match)
	}
	a, err := s.policy.share(p)
	if err != nil {
		a, _ = policies.Isolated(p)
	}
	return a
}
