package ymir

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Titan is the settings of Titan, which divides GPUs for the least sum of remaining times,
// each over that at the fair share, and trains two jobs as one where that is better than one
// after the other. It differs from Ymir in that
//   - a pair counts as one job, by its time over TranWt;
//   - only as many jobs have GPUs as there are GPUs, those with the least left, and each of
//     them has one at least;
//   - all backbones are one problem, nothing is measured, and nobody goes on from another one.
//
// Source: "Titan: A Scheduler for Foundation Model Fine-tuning Workloads", SoCC 2022, and
// the code published with it (gaow0007/TitanSched). docs/policies/titan.md lists what is
// our own.
type Titan struct {
	Interval time.Duration
	Merge    bool
	Filter   float64
	Stay     float64
}

// NewTitan returns the defaults: those of the published runs, but for Stay, which is 0 there.
func NewTitan() *Titan { return &Titan{Interval: 2 * time.Minute, Merge: true, Filter: 1.1, Stay: 0.1} }

// Params binds the settings.
func (c *Titan) Params() param.Set {
	return param.Set{
		param.Duration("interval", &c.Interval, "how often GPUs are divided anew; remaining times below it count as it"),
		param.Bool("merge", &c.Merge, "two jobs of a backbone that have not begun may be trained as one"),
		param.Float("filter", &c.Filter, 0, 100, "ratio", "pairs with a smaller TranWt are not considered"),
		param.Float("stay", &c.Stay, 0, 1, "share", "a job is resized only when that gains this share of its cost"),
	}
}

// Needs says what the policy lives on.
func (c *Titan) Needs() need.List {
	return need.List(nil).
		If(c.Merge, need.Of(need.Backbones), "it acts as titan(merge=false)").
		And(need.Of(need.Elastic), "jobs have the numbers of GPUs that they ask for").
		And(need.Of(need.RunTimes), "every job is taken to need an hour")
}

// waits is what it costs to leave a job without GPUs: more than any division among others
// can save.
const waits = 1e4

// Policy makes the policy.
func (c *Titan) Policy() (sched.Policy, error) {
	if c.Interval <= 0 || c.Interval > longest {
		return nil, errors.New("interval must be above 0 and a day at most")
	}
	cfg := Config{Interval: c.Interval, Gap: c.Interval, Queued: waits, ExactMax: 12, Filter: c.Filter, Guard: math.Inf(1), Stay: c.Stay, Modes: Spatial, Objective: Remaining}
	if !c.Merge {
		cfg.Modes = Neither
	}
	return &policy{cfg: cfg, seen: map[speedKey]float64{}}, nil
}

// titan tells whether the rules are those of Titan.
func (y *policy) titan() bool { return y.cfg.Objective == Remaining }

// shortest parts jobs into as many as there are GPUs, those with the least left on one GPU,
// and the others. Two that are trained as one count as one.
func (y *policy) shortest(v *sched.View, jobs []sched.Job, node, gpus int) (some, others []sched.Job) {
	type timed struct {
		j    sched.Job
		left float64
	}
	all := make([]timed, 0, len(jobs))
	at := make(map[job.ID]int, len(jobs))
	for _, j := range jobs {
		least, _ := j.Spec().Demand.Roles[0].Range()
		at[j.ID] = len(all)
		all = append(all, timed{j, y.left(j) / believed(v, j, max(1, int(least)), node)})
	}
	for i := range all {
		if k, here := at[mate(all[i].j)]; here {
			all[i].left = min(all[i].left, all[k].left)
		}
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.j.ID, b.j.ID)) })
	chosen := map[job.ID]bool{}
	for _, t := range all {
		if !chosen[mate(t.j)] {
			if gpus == 0 {
				others = append(others, t.j)
				continue
			}
			gpus--
		}
		chosen[t.j.ID] = true
		some = append(some, t.j)
	}
	slices.SortFunc(some, func(a, b sched.Job) int { return cmp.Compare(a.ID, b.ID) })
	return some, others
}

// mate is the job with which a job is trained as one.
func mate(j sched.Job) job.ID {
	if with, how := j.Merged(); how == job.Together {
		return with
	}
	return job.None
}

// remaining is the cost of a job or a pair, by how long it takes at a size and at the fair
// share. It is lower where a pair is better than its jobs one after the other.
func (s *solve) remaining(time, fair, tranWt float64) float64 {
	if math.IsInf(time, 1) || math.IsNaN(time) {
		return math.Inf(1)
	}
	least := s.y.cfg.Interval.Seconds()
	return max(time, least) / max(fair, least) / tranWt
}
