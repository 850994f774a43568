// Package pal places gangs on GPUs that differ although they are of one type: it weighs how slow the
// slowest GPU of a gang is against what it costs to be on several nodes.
//
// Nouns:
//   - The score of a GPU is the run time of a job there, relative to a typical GPU (perf.Variability).
//     Jobs of one class have the same scores.
//   - A bin is GPUs whose scores for a class are about the same (Bins). They count as equal.
//   - The penalty of a job is its run time on several nodes over that on one, as the scheduler
//     believes, or as it is set.
//   - The head is the longest prefix of the order of jobs for which there are GPUs.
//   - A Rule is by what GPUs are chosen: PAL by both, PMFirst by scores alone. Packed and Random know no
//     scores, and are what the paper compares with.
//
// At the beginning of each round all places are chosen anew. The head gets GPUs in the order of
// classes, the most sensitive first, so the order of jobs decides who runs, and the class who chooses.
// A job that is given the GPUs that it had goes on; another one is moved. With sticky, a job keeps its
// GPUs as long as no job ahead of it needs them. Between rounds, jobs start on what is free. The policy
// keeps nothing between calls but bins, which follow from the view.
//
// Source: "PAL: A Variability-Aware Policy for Scheduling ML Workloads in GPU Clusters", SC 2024, arXiv
// 2408.11919, and its code, blox-pal.
package pal

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/devices"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Order is who goes first.
type Order uint8

// The orders.
const (
	FIFO Order = iota // submission
	LAS               // least attained service: GPU time
	SRTF              // shortest remaining time
)

// Rule is by what GPUs are chosen.
type Rule uint8

// The rules.
const (
	PAL     Rule = iota // scores, and what it costs to be on several nodes
	PMFirst             // scores alone
	Packed              // as few nodes as can be had
	Random              // nothing
)

// Config is the settings of the policy.
type Config struct {
	Order   Order
	Rule    Rule
	Sticky  bool
	Round   time.Duration
	Fill    bool    // start jobs between rounds
	Penalty float64 // of a job on several nodes; 0: as is believed
	Sigma   float64 // standard deviations from which on a score is a bin of its own
	Bins    int     // at most, of the other scores
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Round: 5 * time.Minute, Fill: true, Sigma: 3, Bins: 10}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("order", &c.Order, []param.Option[Order]{{Name: "fifo", Value: FIFO}, {Name: "las", Value: LAS}, {Name: "srtf", Value: SRTF}},
			"who goes first: submission, least attained service, shortest remaining time"),
		param.Choice("place", &c.Rule, []param.Option[Rule]{{Name: "pal", Value: PAL}, {Name: "pm-first", Value: PMFirst}, {Name: "packed", Value: Packed}, {Name: "random", Value: Random}},
			"by what GPUs are chosen: their scores and nodes, their scores alone, nodes alone, nothing"),
		param.Bool("sticky", &c.Sticky, "a job keeps its GPUs as long as no job ahead of it needs them; false: places are chosen anew in each round"),
		param.Duration("round", &c.Round, "choose places so often"),
		param.Bool("fill", &c.Fill, "start jobs between rounds on what is free"),
		param.Float("penalty", &c.Penalty, 0, 100, "", "by how much longer a gang takes to run on several nodes than on one; 0: as is believed of speeds"),
		param.Float("sigma", &c.Sigma, 0, 100, "", "a score above the mean by more than so many standard deviations is a bin of its own"),
		param.Int("bins", &c.Bins, 2, 100, "", "bins of the other scores, at most"),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(c.Rule <= PMFirst, need.Of(need.Devices), "GPUs are chosen as if they were alike").
		If(c.Rule == PAL && c.Penalty == 0, need.Of(need.Spread), "it chooses by scores alone").
		If(c.Order == SRTF, need.Of(need.RunTimes), "jobs go in order of submission")
}

// Believer makes what is believed of GPUs from how fast jobs go on them.
func (c *Config) Believer(perf.Prior) perf.Believer { return devices.New() }

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Round <= 0 || c.Round == unit.Never {
		return nil, errors.New("round must be above 0s, and not never")
	}
	if c.Penalty != 0 && c.Penalty < 1 {
		return nil, errors.New("penalty must be 0, or 1 and more")
	}
	return &policy{cfg: *c}, nil
}

type policy struct {
	cfg   Config
	bins  bins
	aware aware
}

// claim is a job that may run.
type claim struct {
	id    job.ID
	gpus  int
	key   float64 // smallest first
	runs  bool    // on devices that it may be taken off
	class int     // of those of the head
}

// outranked is why jobs are stopped, and why they wait behind others.
var outranked = job.Reason{Code: job.Outranked, Job: job.None}

// Decide implements sched.Policy.
func (o *policy) Decide(v *sched.View, p *sched.Plan) {
	begins := v.Now%o.cfg.Round == 0
	if !begins && !o.cfg.Fill {
		return
	}
	for pool := range v.EachPool() {
		switch all := o.claims(v, p, pool, begins); {
		case !begins || o.cfg.Sticky:
			o.keep(v, p, all)
		default:
			o.anew(v, p, pool, all)
		}
	}
}

// NextWake implements sched.Waker: rounds go on as long as there is anything to place.
func (o *policy) NextWake(v *sched.View) time.Duration {
	next := (v.Now/o.cfg.Round + 1) * o.cfg.Round
	for range v.Running() {
		return next
	}
	for j := range v.Waiting() {
		if !j.Reason().Never() {
			return next
		}
	}
	return unit.Never
}

// Why implements sched.Explainer.
func (o *policy) Why(v *sched.View, _ job.ID) job.Reason {
	if o.cfg.Fill || v.Now%o.cfg.Round == 0 {
		return outranked
	}
	return job.Reason{Code: job.NotYet, At: (v.Now/o.cfg.Round + 1) * o.cfg.Round, Job: job.None}
}

// claims lists the jobs of a pool in order: those that wait and, if it is asked for, those that may be
// taken off their devices.
func (o *policy) claims(v *sched.View, p *sched.Plan, pool cluster.PoolID, running bool) (all []*claim) {
	for j := range v.Waiting() {
		if j.Pool() != pool {
			continue
		}
		if why := p.Never(j.ID, place.Pack); why.Code != job.NoReason {
			p.Wait(j.ID, why)
			continue
		}
		all = append(all, o.claim(v, j))
	}
	if running {
		for j := range v.Running() {
			if j.Pool() == pool && movable(v, j) {
				c := o.claim(v, j)
				c.runs = true
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b *claim) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id)) })
	return all
}

func (o *policy) claim(v *sched.View, j sched.Job) *claim {
	c := &claim{id: j.ID, gpus: j.GPUs()}
	switch left, known := j.Remaining(); {
	case o.cfg.Order == LAS:
		c.key = j.RunTime().Seconds() * float64(c.gpus)
	case o.cfg.Order == SRTF && known:
		c.key = left.Seconds()
	case o.cfg.Order == SRTF:
		c.key = unit.Never.Seconds()
	}
	return c
}

// movable tells whether a job may be taken off its devices: it is on working ones, loses nothing by it,
// and has made progress since it came there, so that jobs that start slowly do not change places for ever.
func movable(v *sched.View, j sched.Job) bool {
	return j.Phase() == job.Running && !j.Profiling() && j.Ready() < v.Now && j.Spec().Stop == job.Checkpoint &&
		ofWholeGPUs(j.Spec().Demand) && v.Cluster().UsableAlloc(v.Alloc(j.ID))
}

// anew gives all jobs new places. Who is in the head has enough GPUs. One that finds no place all the
// same, since it asks for particular ones, does not keep the others of the head from theirs.
func (o *policy) anew(v *sched.View, p *sched.Plan, pool cluster.PoolID, all []*claim) {
	for _, c := range all {
		if c.runs {
			p.Stop(c.id, outranked)
		}
	}
	head, free := 0, v.Cluster().FreeGPUs(pool, 0)
	for head < len(all) && all[head].gpus <= free {
		free -= all[head].gpus
		all[head].class = v.Variability.Class(v.Job(all[head].id).Spec())
		head++
	}
	slices.SortStableFunc(all[:head], func(a, b *claim) int { return cmp.Compare(a.class, b.class) })
	placed := true
	for i, c := range all {
		if i >= head && !placed {
			p.Wait(c.id, outranked)
		} else if !o.start(v, p, c) {
			placed = false
		}
	}
}

// keep starts waiting jobs in order until one does not fit. Running jobs behind it make room for it, the
// last one first.
func (o *policy) keep(v *sched.View, p *sched.Plan, all []*claim) {
	for i, c := range all {
		if p.Alloc(c.id) != nil || o.start(v, p, c) {
			continue
		}
		why := p.Why()
		if p.Try(func() bool { return o.makeRoom(v, p, c, all[i+1:]) }) {
			continue
		}
		p.Wait(c.id, why)
		for _, rest := range all[i+1:] {
			if p.Alloc(rest.id) == nil {
				p.Wait(rest.id, job.Reason{Code: job.Behind, Job: c.id})
			}
		}
		return
	}
}

// makeRoom stops jobs of a list from its end until a job fits.
func (o *policy) makeRoom(v *sched.View, p *sched.Plan, c *claim, list []*claim) bool {
	for _, last := range slices.Backward(list) {
		if last.runs && p.Alloc(last.id) != nil {
			p.Stop(last.id, job.Reason{Code: job.MakesRoom, Job: c.id})
			if o.start(v, p, c) {
				return true
			}
		}
	}
	return false
}

// start starts a job by the rule.
func (o *policy) start(v *sched.View, p *sched.Plan, c *claim) bool {
	switch o.cfg.Rule {
	case Packed:
		return p.Start(c.id, place.Pack)
	case Random:
		return p.Start(c.id, place.Random)
	}
	j := v.Job(c.id)
	bins := o.bins.of(v, v.Variability.Class(j.Spec()), &o.cfg)
	o.aware.bin, o.aware.apart = func(d cluster.DeviceID) float64 { return bins[d] }, nil
	if o.cfg.Rule == PAL {
		o.aware.apart = func(t cluster.TypeID) float64 { return penalty(v, j, t, &o.cfg) }
	}
	return p.Start(c.id, &o.aware)
}

// penalty is by how much longer a job takes on several nodes.
func penalty(v *sched.View, j sched.Job, t cluster.TypeID, cfg *Config) float64 {
	if cfg.Penalty > 0 {
		return cfg.Penalty
	}
	tasks := int(j.Spec().Demand.Roles[0].Tasks)
	near, far := v.TypeSpeed(j, t, tasks, false), v.TypeSpeed(j, t, tasks, true)
	if near > 0 && far > 0 {
		return near / far
	}
	return 1
}

// bins are the values of the bins of all devices, by class, of one Variability and one inventory.
type bins struct {
	from    *perf.Variability
	version uint64
	byClass map[int][]float64
}

// of is the values of the bins of all devices for a class.
func (b *bins) of(v *sched.View, class int, cfg *Config) []float64 {
	c := v.Cluster()
	if b.byClass == nil || b.from != v.Variability || b.version != c.Version() {
		*b = bins{v.Variability, c.Version(), map[int][]float64{}}
	}
	values, known := b.byClass[class]
	if !known {
		values = make([]float64, c.Devices())
		for d := range values {
			values[d] = v.Variability.Score(class, c, cluster.DeviceID(d))
		}
		values = Bins(values, cfg.Sigma, cfg.Bins)
		b.byClass[class] = values
	}
	return values
}
