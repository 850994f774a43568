package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// question is a policy that is asked for decisions, in a world that gives it something
// to decide.
type question struct {
	policy string // with settings, as tables name it
	assume experiment.Assumption
	by     string        // how jobs that share a GPU slow each other down, see experiment.Slowdown
	bound  time.Duration // of the longest decision at full size; 0: there is none
}

// questions are the policies whose decisions are measured. The first one is the reference.
func questions() []question {
	const simple = time.Millisecond
	return []question{
		{policy: "fifo", bound: simple},
		{policy: "fifo(mode=easy)", bound: simple},
		{policy: "sjf", bound: simple},
		{policy: "srtf", bound: simple},
		{policy: "srsf", bound: simple},
		{policy: "las", bound: simple},
		{policy: "tiresias", bound: simple},
		{policy: "tiresias(rank=gittins)", bound: simple},
		{policy: "philly", bound: simple},
		{policy: "pai", bound: simple},
		{policy: "qssf", bound: simple},
		{policy: "drf", bound: simple},
		{policy: "maxmin", bound: simple},
		{policy: "fairshare", bound: simple},
		{policy: "fgd", bound: simple},
		{policy: "afs", assume: experiment.AssumeGoodput, bound: 10 * time.Millisecond},
		{policy: "afs-p", assume: experiment.AssumeGoodput, bound: 10 * time.Millisecond},
		{policy: "bsbf", assume: experiment.AssumeBatches, bound: 100 * time.Millisecond},
		{policy: "gimbal", assume: experiment.AssumeTasks, by: experiment.ByParts, bound: 10 * time.Millisecond},
		{policy: "antman", assume: experiment.AssumeUse, by: experiment.ByGaps},
		{policy: "gandiva", assume: experiment.AssumeUse},
		{policy: "pollux", assume: experiment.AssumeGoodput, bound: 500 * time.Millisecond},
		{policy: "sia", assume: experiment.AssumeGoodput, bound: time.Second},
		{policy: "muri-s", assume: experiment.AssumeStages, bound: 100 * time.Millisecond},
		{policy: "muri-l", assume: experiment.AssumeStages, bound: 100 * time.Millisecond},
		{policy: "themis", bound: 100 * time.Millisecond},
		{policy: "ymir", assume: experiment.AssumeTuning, bound: 100 * time.Millisecond},
		{policy: "titan", assume: experiment.AssumeTransfer, bound: 100 * time.Millisecond},
		{policy: "lucid", assume: experiment.AssumeUse},
		{policy: "gavel"},
		{policy: "pop"},
	}
}

// crowd is a cluster of nodes of eight GPUs, and a number of jobs that are there at once.
type crowd struct{ nodes, jobs int }

// The sizes at which decisions are measured.
var (
	smallCrowd = crowd{125, 200}
	largeCrowd = crowd{1250, 2000}
)

// window is how long jobs come and go while decisions are measured: a few rounds of
// those policies that have any.
const window = 20 * time.Minute

// entries are jobs like those of Philly. The first ones are there from the start, the
// others come at a load of 1.0 while decisions are measured. So few jobs ask for more
// GPUs than there are only if most are large: of the small ones few are there at first.
func (c crowd) entries() ([]trace.Entry, error) {
	g, err := gen.New(gen.Options{Like: gen.Philly, Jobs: 200 * c.jobs, GPUs: 8 * c.nodes, Load: 1, MaxRun: 24 * time.Hour, Seed: 1})
	if err != nil {
		return nil, err
	}
	var out []trace.Entry
	var begins time.Duration
	small := 0
	for {
		var e trace.Entry
		if err := g.Next(&e); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		if len(out) < c.jobs && e.Job.Demand.GPUs() < large {
			if small++; small%oneIn != 0 {
				continue
			}
		}
		if len(out) < c.jobs {
			begins = e.Job.Submit
		} else if e.Job.Submit > begins+window {
			return out, nil
		}
		e.Job.Submit = max(0, e.Job.Submit-begins)
		out = append(out, e)
	}
}

// Of the jobs that ask for fewer GPUs than a large one, one in so many is there at first.
const (
	large = 16
	oneIn = 40
)

// asked is what the decisions of a policy took, in units of a meter.
type asked struct {
	first int64   // the one when all jobs came at once
	later []int64 // those after it
}

func (a *asked) worst() int64 { return slices.Max(a.later) }

// mean is that of the later decisions.
func (a *asked) mean() int64 {
	sum := int64(0)
	for _, v := range a.later {
		sum += v
	}
	return sum / int64(len(a.later))
}

// least takes each decision from the run in which it took least.
func (a *asked) least(b *asked) {
	a.first = min(a.first, b.first)
	for i := range min(len(a.later), len(b.later)) {
		a.later[i] = min(a.later[i], b.later[i])
	}
}

// ask simulates a crowd until the window is over, or the decisions have cost so much, and
// meters each decision.
func (q *question) ask(c crowd, meter func() int64, enough int64) (*asked, error) {
	choice, err := experiment.ParseChoice(q.policy)
	if err != nil {
		return nil, err
	}
	jobs, err := c.entries()
	if err != nil {
		return nil, err
	}
	spec, err := clusterspec.Parse(fmt.Sprintf("%dx8:V100", c.nodes))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	m := &metered{meter: meter, enough: enough, stop: stop}
	entry, err := choice.Entry()
	if err != nil {
		return nil, err
	}
	own := entry
	own.New = func() policy.Config { return &meteredConfig{entry.New(), m} }
	x := experiment.Experiment{Spec: spec, Seed: 1, Assume: q.assume, Slowdown: experiment.Slowdown{By: q.by}}
	_, err = x.Run(ctx, experiment.Own(own, choice.Settings...), trace.FromMemory(jobs))
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	if len(m.costs) < 2 {
		return nil, fmt.Errorf("%s made %d decisions, too few to measure", q.policy, len(m.costs))
	}
	return &asked{first: m.costs[0], later: m.costs[1:]}, nil
}

// meteredConfig is the settings of a policy that is metered.
type meteredConfig struct {
	policy.Config
	m *metered
}

// Policy makes the policy.
func (c *meteredConfig) Policy() (sched.Policy, error) {
	p, err := c.Config.Policy()
	m := *c.m // Choice.Make is also called to check settings
	*c.m = metered{Policy: p, meter: m.meter, enough: m.enough, stop: m.stop}
	return c.m, err
}

// Shares tells whether the policy puts several jobs on a GPU as it is set.
func (c *meteredConfig) Shares() bool {
	s, ok := c.Config.(interface{ Shares() bool })
	return ok && s.Shares()
}

// metered is a policy whose decisions are metered until they are enough.
type metered struct {
	sched.Policy
	meter  func() int64
	enough int64
	stop   func()

	costs []int64
	sum   int64
}

// Decide implements sched.Policy.
func (m *metered) Decide(v *sched.View, p *sched.Plan) {
	before := m.meter()
	m.Policy.Decide(v, p)
	cost := m.meter() - before
	m.costs = append(m.costs, cost)
	if m.sum += cost; v.Now > window || m.sum > m.enough && len(m.costs) > 10 {
		m.stop()
	}
}

// NextWake implements sched.Waker.
func (m *metered) NextWake(v *sched.View) time.Duration {
	if w, ok := m.Policy.(sched.Waker); ok {
		return w.NextWake(v)
	}
	return unit.Never
}

// Why implements sched.Explainer.
func (m *metered) Why(v *sched.View, id job.ID) job.Reason {
	if w, ok := m.Policy.(sched.Explainer); ok {
		return w.Why(v, id)
	}
	return job.Reason{Code: job.Outranked, Job: job.None}
}

// processCPU is the CPU time, user and system, that this process has used, in nanoseconds.
func processCPU() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are right
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// longest is the CPU time that decisions of one run are measured for.
const longest = int64(8 * time.Second)

// decisions measures the CPU time of single decisions in this process. Of each decision
// the least of several runs counts.
func decisions(w io.Writer, repeat int, only string) error {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as norn has it
	fmt.Fprintf(w, "### One decision at %d GPUs with %d jobs, which come and go\n\nProcess CPU. Growth is the longest decision in times that at %d GPUs with %d jobs.\n\n"+
		"| policy | assumed | all jobs come at once | mean | longest | growth | bound | |\n|---|---|--:|--:|--:|--:|---|---|\n",
		8*largeCrowd.nodes, largeCrowd.jobs, 8*smallCrowd.nodes, smallCrowd.jobs)
	for _, q := range questions() {
		if !among(q.policy, only) {
			continue
		}
		small, err := q.measure(smallCrowd, repeat)
		if err != nil {
			return err
		}
		large, err := q.measure(largeCrowd, repeat)
		if err != nil {
			return err
		}
		bound, met := "", ""
		if q.bound > 0 {
			bound, met = millis(q.bound), verdict(large.worst() <= int64(q.bound))
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %.1f | %s | %s |\n", q.policy, strings.Trim(string(q.assume)+", "+q.by, ", "), millis(time.Duration(large.first)),
			millis(time.Duration(large.mean())), millis(time.Duration(large.worst())), float64(large.worst())/float64(max(1, small.worst())), bound, met)
	}
	fmt.Fprintln(w)
	return nil
}

// measure asks a policy several times.
func (q *question) measure(c crowd, repeat int) (*asked, error) {
	var best *asked
	for range repeat {
		runtime.GC()
		a, err := q.ask(c, processCPU, longest)
		switch {
		case err != nil:
			return nil, err
		case best == nil:
			best = a
		default:
			best.least(a)
		}
	}
	return best, nil
}
