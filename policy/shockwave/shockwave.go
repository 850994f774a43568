// Package shockwave plans the rounds of a window ahead. Over time every job
// gets a fair share, no job ends later than its share would have let it, and
// the whole is done early. The plan is an equilibrium of a market in which jobs
// buy rounds.
//
// Nouns: a round is a lease of all jobs that run. A window is the rounds that a
// plan is for. A job's progress is the part of its epochs that are done. Its
// due time is when it would end with an equal share. A forecast is how long it
// will still take.
//
// Source: Zheng, Pan, Agarwal, Venkataraman, Akella, "Shockwave: Fair and Efficient
// Cluster Scheduling for Dynamic Adaptation in Machine Learning", NSDI 2023, and the
// code published with it.
package shockwave

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of the policy.
type Config struct {
	Round  time.Duration
	Window int
	Replan int
	K      float64
	Lambda float64
	RhoMax float64
	Place  place.Strategy
}

// NewConfig returns the defaults: those of the paper for 32 GPUs.
func NewConfig() *Config {
	return &Config{Round: 2 * time.Minute, Window: 20, Replan: 8, K: 1e-3, Lambda: 12, RhoMax: 1, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("round", &c.Round, "length of a round"),
		param.Int("window", &c.Window, 1, 1000, "rounds", "rounds that are planned ahead"),
		param.Int("replan", &c.Replan, 1, maxReplan, "rounds", "rounds after which the window is planned anew where nobody came or left"),
		param.Float("k", &c.K, 0, math.Inf(1), "1/s", "weight of the longest remaining time"),
		param.Float("lambda", &c.Lambda, 0, 1000, "power", "how much more jobs count that are late"),
		param.Float("rhomax", &c.RhoMax, 0, math.Inf(1), "ratio", "a job is late when it would end after so many times what is due"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.RunTimes), "a job is taken to be half done, and to take ten minutes at least")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case c.Round <= 0:
		return nil, errors.New("round must be above 0")
	case c.Replan > c.Window:
		return nil, errors.New("replan must not be above window")
	}
	s := &policy{cfg: *c}
	s.Grid, s.Place, s.Rule = rounds.Grid(c.Round), c.Place, s
	return s, nil
}

type policy struct {
	rounds.Policy
	cfg  Config
	jobs []planned
}

// planned is a job and what is remembered of it.
type planned struct {
	Job
	job   sched.Job
	known bool
	due   Due
	plan  uint32 // by round from the last plan on: it runs
}

// maxReplan is as many rounds of a plan as are remembered.
const maxReplan = 16

// Serve implements rounds.Rule: the plan at the beginning of a round; inside one,
// and where the plan leaves GPUs idle, those with most left to do.
func (s *policy) Serve(r *rounds.Round) {
	s.gather(r)
	if r.Begins && len(s.jobs) > 0 {
		offset := s.follow(r)
		for i := range s.jobs {
			if s.jobs[i].plan&(1<<offset) != 0 {
				serve(r, s.jobs[i].job)
			}
		}
	}
	slices.SortStableFunc(s.jobs, func(a, b planned) int { return cmp.Compare(b.Left, a.Left) })
	for i := range s.jobs {
		serve(r, s.jobs[i].job)
	}
}

// serve lets a job run on the first type that has room.
func serve(r *rounds.Round, j sched.Job) {
	for _, t := range r.Types {
		if r.Served(j.ID) || r.Speed(j, t) > 0 && r.Serve(j, t) {
			return
		}
	}
}

// gather lists the jobs.
func (s *policy) gather(r *rounds.Round) {
	s.jobs = s.jobs[:0]
	for _, j := range r.Jobs {
		x := planned{job: j}
		x.Job = s.look(r, j)
		x.recall(int(r.Number))
		s.jobs = append(s.jobs, x)
	}
}

// share is a hundredth of a job, which is an epoch of one that tells of none.
const share = 100

// look is a job as a plan sees it. Of one that nobody can estimate it is assumed
// that it is half done, and that it takes ten minutes at least.
func (s *policy) look(r *rounds.Round, j sched.Job) Job {
	total, ok := j.Estimate()
	if !ok {
		total = max(10*time.Minute, 2*j.Progress())
	}
	total = max(total, j.Progress()+time.Second)
	speed := 0.0
	for _, t := range r.Types {
		speed = max(speed, r.Speed(j, t))
	}
	if speed <= 0 {
		speed = 1
	}
	x := Job{GPUs: max(1, int((r.Need(j)+999)/1000)), Epochs: epochs(j.Spec()), Left: (total - j.Progress()).Seconds() / speed}
	x.Epoch = total.Seconds() / speed / float64(x.Epochs)
	x.Done = min(int(float64(x.Epochs)*j.Progress().Seconds()/total.Seconds()), x.Epochs)
	x.Spent = float64(x.Done) * x.Epoch
	x.adapt(j, total.Seconds()/speed*j.Config().Reported.Times(), j.Progress().Seconds()/total.Seconds())
	return x
}

// epochs is the number of epochs of a job.
func epochs(j *job.Job) int {
	switch {
	case j.Hints != nil && j.Hints.Epochs > 0:
		return int(j.Hints.Epochs)
	case j.Unit == "epochs" && j.Units >= 1 && j.Units < 1e6:
		return int(math.Ceil(j.Units))
	}
	return share
}

// follow brings what is due and the plan up to date, and tells the place of this
// round in the plan.
func (s *policy) follow(r *rounds.Round) int {
	now, last := int(r.Number), -1
	changed := false
	for i := range s.jobs {
		if s.jobs[i].known {
			last = max(last, s.jobs[i].due.Since)
		} else {
			changed = true
		}
	}
	changed = changed || last < 0 || s.left(r, last)
	offset := 0
	if !changed {
		offset = (now - last) % s.cfg.Replan
	}
	if changed || offset == 0 {
		s.solve(r, changed)
		for i := range s.jobs {
			r.Plan.Remember(s.jobs[i].job.ID, s.jobs[i].note())
		}
		offset = 0
	}
	return offset
}

// left tells whether any job has left since a round began.
func (s *policy) left(r *rounds.Round, since int) bool {
	v := r.View
	start := s.Grid.Start(int64(since))
	ended := v.Ended()
	for i := len(ended) - 1; i >= 0; i-- {
		j := v.Job(ended[i])
		if j.Since() < start {
			return false
		}
		if v.Covers(j) && (j.Since() > start || since < int(r.Number)) {
			return true
		}
	}
	return false
}

// solve plans the window from this round on. Where jobs came or left, what is due is
// estimated anew.
func (s *policy) solve(r *rounds.Round, changed bool) {
	gpus := 0
	for _, t := range r.Types {
		gpus += int(r.Total(t) / 1000)
	}
	equal := min(1, float64(max(1, gpus))/float64(len(s.jobs)))
	jobs := make([]Job, len(s.jobs))
	for i := range s.jobs {
		x := &s.jobs[i]
		if changed {
			value := x.job.Submit().Seconds() + (x.Spent+x.Left)/equal
			if x.known {
				x.due.Add(int(r.Number), value)
			} else {
				x.known, x.due = true, NewDue(int(r.Number), value)
			}
		}
		x.Due = x.due.At(int(r.Number))
		jobs[i] = x.Job
	}
	w := Window{
		GPUs: gpus, First: int(r.Number), Rounds: s.cfg.Window, Length: r.Length.Seconds(),
		K: s.cfg.K, Lambda: s.cfg.Lambda, RhoMax: s.cfg.RhoMax,
	}
	plan := w.Make(jobs)
	for i := range s.jobs {
		s.jobs[i].plan = 0
		for t := range s.cfg.Replan {
			if plan.Runs[i][t] {
				s.jobs[i].plan |= 1 << t
			}
		}
	}
}

// note is what is remembered of a job.
type note struct {
	due  Due
	plan uint32 // bit t: it is to run in the t-th round of the plan
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "shockwave" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	f.Float("mean", &n.due.Mean)
	f.Float("last", &n.due.Last)
	sched.Int(f, "rounds", &n.due.Rounds)
	sched.Int(f, "since", &n.due.Since)
	sched.Int(f, "plan", &n.plan)
}

// note is what is remembered of a job.
func (x *planned) note() *note { return &note{x.due, x.plan} }

// recall reads the note of the job. One that tells of a round to come was written
// under another clock, and means nothing.
func (x *planned) recall(now int) {
	n, noted := sched.Recall[note](x.job)
	if x.known = noted && n.due.Since <= now; x.known {
		x.due, x.plan = n.due, n.plan
	}
}
