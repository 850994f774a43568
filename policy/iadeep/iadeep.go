// Package iadeep lets training jobs of one GPU share GPUs. It chooses jobs to
// share by the slowdown that it predicts, which it learns as they run. Then it
// tunes the batch sizes of the jobs on a GPU so that they slow each other down
// less.
//
// Nouns:
//   - A crowd is the set of jobs on a GPU.
//   - The interference of a crowd is the extra time that its jobs take for the
//     same progress than alone, summed up.
//   - The PD of a job is the time per unit of useful progress divided by that
//     alone with its own batch. It is 1 divided by its speed.
//   - A tuning is a series of trials of other batches on one GPU, where no
//     other job is placed meanwhile.
//   - The owner of a tuning is the job that came last.
//
// Source: Geng et al., "Interference-aware Multiplexing for Deep Learning in GPU
// Clusters: A Middleware Approach", SC 2023, and its published code for what the paper
// leaves open.
package iadeep

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Choice is how a GPU is chosen for a job.
type Choice uint8

// The ways to choose.
const (
	OnNode    Choice = iota // the node with the most memory left, there the GPU with the least interference [the published code]
	InCluster               // the GPU with the least interference of all
	FirstFit                // the fullest node, there the first GPU that holds it [as the code's AntMan mode]
)

// Config is the settings of the policy.
type Config struct {
	Choice  Choice
	Most    int     // jobs on a GPU; in the published code their memory alone is a limit
	Util    float64 // use of a GPU, and of its memory, from which on it takes no more jobs
	Explore int     // crowds known up to which one that is not is taken to disturb nobody
	Place   place.Strategy

	Tune     bool
	Trials   int           // measured in a tuning, the first one as it is
	Samples  int           // of them around its own batch, for a job that comes to several
	Step     int           // between those, in samples
	Steps    int           // of training that a trial takes
	Settling time.Duration // that a trial takes of a job that does not tell how long a step is
	Left     time.Duration // of work with which a job is left alone
	Rounds   int
	Patience int
	Tol      float64

	// Known is what is known of crowds to begin with.
	Known map[perf.Crowd]float64
}

// NewConfig returns the defaults, those of the published code where it has them.
func NewConfig() *Config {
	return &Config{
		Most: 5, Util: 0.99, Explore: 21, Place: place.Pack,
		Tune: true, Trials: 9, Samples: 5, Step: 16, Steps: 10, Settling: 5 * time.Second, Left: time.Minute, Rounds: 50, Patience: 10, Tol: 0.01,
	}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("choose", &c.Choice, []param.Option[Choice]{{Name: "node", Value: OnNode}, {Name: "cluster", Value: InCluster}, {Name: "first-fit", Value: FirstFit}},
			"the GPU: an idle one or that with the least interference on the node with the most memory left, or in the whole cluster, or the first that holds the job on the fullest node"),
		param.Int("jobs", &c.Most, 1, 100, "jobs", "on a GPU, if their memory allows"),
		param.Float("util", &c.Util, 0, 1, "share", "use of a GPU, and of its memory, from which on it takes no more jobs"),
		param.Int("explore", &c.Explore, 0, 1_000_000, "crowds", "known up to which one that is not is taken to disturb nobody; beyond, it is predicted from them"),
		param.Bool("tune", &c.Tune, "tune the batches of jobs that share a GPU"),
		param.Int("trials", &c.Trials, 1, 50, "trials", "in a tuning, the first one without any change"),
		param.Int("samples", &c.Samples, 0, 50, "trials", "around its own batch, of a job that comes to several others"),
		param.Int("step", &c.Step, 1, 1_000_000, "samples", "from one of those to the next"),
		param.Int("steps", &c.Steps, 1, 1_000_000, "steps", "of training that a trial takes"),
		param.Duration("settling", &c.Settling, "that a trial takes of jobs that do not tell how long a step is"),
		param.Duration("left", &c.Left, "work with which a job is not tuned any more"),
		param.Int("rounds", &c.Rounds, 1, 1000, "trials", "after which a tuning ends in any case"),
		param.Int("patience", &c.Patience, 1, 1000, "trials", "in a row without news after which it ends"),
		param.Float("tol", &c.Tol, 0, 1, "share", "by which the best must change to be news"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Use, need.Stages, need.Pairs), "every job keeps its GPUs busy, and sharing gains nothing").
		And(need.Of(need.Memory), fmt.Sprintf("any %d jobs are taken to fit into the memory of a GPU", c.Most)).
		If(c.Tune, need.Of(need.Batches), "the batches that it tunes change no speed").
		If(c.Tune, need.Of(need.RunTimes), "jobs are tuned that have little left")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Settling <= 0 {
		return nil, errors.New("settling must be above 0s")
	}
	return &policy{cfg: *c, learnt: newLearnt(c.Known, c.Explore)}, nil
}

type policy struct {
	cfg    Config
	learnt *learnt
	tuned  []bool // by device: a tuning is going on
	crowds crowds
	scores []float64 // by node: the part of its GPUs' memory that is left
	room   []bool    // by node: one of its GPUs may take a job
	open   []bool    // by device: one more job may come
	busy   []bool    // by device: it has no time or memory left
	wake   time.Duration
	why    map[refused]job.Reason // of the classes that were refused in this decision
	alloc  cluster.Alloc
}

// refused are jobs that are alike to the policy.
type refused struct {
	class int32
	sort  string
}

// Decide implements sched.Policy.
func (f *policy) Decide(v *sched.View, p *sched.Plan) {
	f.wake = unit.Never
	f.learnt.follow(v)
	f.survey(v)
	for d := range v.Devices() {
		if f.tuned[d] {
			f.advance(v, p, d, slices.Sorted(slices.Values(v.On(d))))
		}
	}
	f.even(v, p)
	f.crowds.reset(v)
	f.look(v)
	clear(f.why)
	for j := range v.Waiting() { // in order of submission
		if why := p.Never(j.ID, f.cfg.Place); why.Code != job.NoReason {
			p.Wait(j.ID, why)
			continue
		}
		if n, _ := sched.Recall[note](j); j.OutOfMemory() && !n.evicted {
			f.remember(v, p, j.ID, note{evicted: true}) // which this decision does not see yet
		}
		if !shareable(j) || j.OutOfMemory() {
			p.Start(j.ID, f.cfg.Place)
			f.close(p.Alloc(j.ID))
			continue
		}
		f.place(v, p, j)
	}
	if len(f.why) > 0 && p.Fresh() && f.cfg.Settling < unit.Never-v.Now {
		f.wake = min(f.wake, v.Now+f.cfg.Settling)
	}
}

// NextWake implements sched.Waker: a trial is over.
func (f *policy) NextWake(*sched.View) time.Duration { return f.wake }

// shareable tells whether a job may share a GPU: one task with one whole GPU, whose
// memory is not kept on another, and has not run out where it shared.
func shareable(j sched.Job) bool {
	n, _ := sched.Recall[note](j)
	return beside.Plain(j) && j.Spec().Demand.Roles[0].Tasks == 1 && j.Spec().Stop != job.Freeze && !n.evicted
}

// survey notes where batches are being tuned.
func (f *policy) survey(v *sched.View) {
	f.tuned = append(f.tuned[:0], make([]bool, v.Cluster().Devices())...)
	for j := range v.Running() {
		if owns(j) {
			f.tuned[v.Alloc(j.ID).Shares[0].Device] = true
		}
	}
	if f.why == nil {
		f.why = map[refused]job.Reason{}
	}
}

// close notes that somebody begins on devices with this plan.
func (f *policy) close(a *cluster.Alloc) {
	for i := 0; a != nil && i < len(a.Shares); i++ {
		f.open[a.Shares[i].Device] = false
	}
}

// even gives the jobs on a GPU equal parts of it in the books, and those that have
// become alone their own batches.
func (f *policy) even(v *sched.View, p *sched.Plan) {
	for d := range v.Devices() {
		on := p.On(d)
		if len(on) == 0 || !beside.Divisible(v, d) || f.tuned[d] && len(on) > 1 || !f.mine(v, on) {
			continue
		}
		part := int32(int(unit.One) / len(on))
		f.adjust(p, d, func(s *cluster.Share) {
			if s.Milli = part; len(on) == 1 {
				s.Batch = 0
			}
		})
	}
}

// mine tells whether all jobs of a GPU share as this policy has them do.
func (f *policy) mine(v *sched.View, on []job.ID) bool {
	return !slices.ContainsFunc(on, func(id job.ID) bool { return !shareable(v.Job(id)) })
}

// adjust changes the parts that jobs of one GPU hold, the ones that shrink first; it
// changes nothing when one of them cannot be changed.
func (f *policy) adjust(p *sched.Plan, d cluster.DeviceID, change func(*cluster.Share)) bool {
	return p.Try(func() bool {
		for _, id := range beside.Largest(p, d) {
			if !p.Adjust(id, func(a *cluster.Alloc) { change(&a.Shares[0]) }) {
				return false
			}
		}
		return true
	})
}

// Why implements sched.Explainer.
func (f *policy) Why(v *sched.View, id job.ID) job.Reason {
	j := v.Job(id)
	if why, ok := f.why[refused{j.Class(), perf.SortOf(j.Spec())}]; ok && shareable(j) {
		return why
	}
	return beside.NeedsGPUs(v, j)
}
