package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// Job is a job where runs are compared: by what it is told apart from others, and how it
// fared where its trace was taken.
type Job struct {
	User, Tenant string

	GPUs   int32 // asked for, a part counting as one
	Submit time.Duration
	Length time.Duration // run time over all attempts
	Was    Fate          // where its trace was taken; not Ended: that is not known
}

// JobOf is a job of a trace. Its trace tells the waits of jobs that had ended.
func JobOf(e *trace.Entry) Job {
	j, t := &e.Job, &e.Truth
	out := Job{User: j.User, Tenant: j.Tenant, GPUs: gpusOf(j), Submit: j.Submit, Length: t.Total()}
	if t.HasWait && !t.AtLeast {
		out.Was = Fate{JCT: t.Wait + out.Length, Wait: t.Wait, Ended: true}
	}
	return out
}

// gpusOf is how many GPUs a job asks for, a part counting as one.
func gpusOf(j *job.Job) int32 {
	return int32((j.Demand.Milli(j.Demand.Roles[0].Tasks) + 999) / 1000)
}

// Fate is what became of a job in a run.
type Fate struct {
	JCT, Wait   time.Duration
	Preemptions int32
	Ended       bool
}

// FateOf is what became of a job, by its record. A service that is not there to end has none.
func FateOf(r *job.Record) Fate {
	if !r.Phase.Over() || endless(r.Job) {
		return Fate{}
	}
	return Fate{r.End - r.Job.Submit, r.WaitAt(r.End), r.Preemptions, true}
}

// Fates are those of all jobs of a run, by their numbers.
func Fates(s *state.State) []Fate {
	out := make([]Fate, s.Jobs())
	for id := range out {
		out[id] = FateOf(s.Record(job.ID(id)))
	}
	return out
}

// Comparison sets runs of the same jobs beside a baseline, job by job. It keeps its
// results, so the fields are not changed once it was asked, and one goroutine asks at a
// time.
type Comparison struct {
	Jobs []Job // that are compared
	Runs []Run
	Base int // the baseline, one of Runs

	// Grown are the same policies on clusters with more or fewer nodes. They are told of in
	// Growths alone.
	Grown []Run

	pairs   map[[2]int]*Versus // of a baseline and a run
	classes [groupings][]Class
}

// Run is a run that is compared.
type Run struct {
	Name     string
	Policy   string // simulated
	Growth   string // what its cluster has more or fewer, such as "+4 nodes"; empty: nothing
	GPUs     int    // of its cluster; 0: that is not told
	Real     bool   // it is what really happened
	Check    bool   // it simulates what really happened: classes of jobs are not told of it
	Informed bool   // its policy knew true run times
	Fates    []Fate // in the order of Comparison.Jobs; jobs that it never met may be missing at the end
}

// fate is what became of a job in a run.
func (c *Comparison) fate(run, k int) Fate { return c.Runs[run].fate(k) }

func (r *Run) fate(k int) Fate {
	if k < len(r.Fates) {
		return r.Fates[k]
	}
	return Fate{}
}

// Versus is a run beside the baseline. All times are of the jobs that ended in both.
type Versus struct {
	Jobs        int // that ended in both
	Left        int // ended in the baseline, and not here
	Base, Here  Times
	Hours       float64 // sum of all changes of JCTs
	Preemptions int     // here
	Same        bool    // every job ends at the same moment, after the same wait
}

// Times are those of some jobs in a run.
type Times struct {
	JCT, Wait Stats
	Makespan  time.Duration // first submission to last end
}

// Change is by what part the mean JCT is above that of the baseline; -0.1 is a tenth less.
func (v *Versus) Change() float64 { return relative(v.Base.JCT.Mean, v.Here.JCT.Mean) }

// relative is by what part a time is above another; 0 where that is none.
func relative(was, is time.Duration) float64 {
	if was == 0 {
		return 0
	}
	return float64(is-was) / float64(was)
}

// Versus sets one run beside the baseline.
func (c *Comparison) Versus(run int) *Versus { return c.beside(c.Base, run) }

// beside sets one run beside another.
func (c *Comparison) beside(base, run int) *Versus {
	at := [2]int{base, run}
	if v := c.pairs[at]; v != nil {
		return v
	}
	v := &Versus{Same: true}
	room := make([]time.Duration, 4*len(c.Jobs))
	jct, wait := [2][]time.Duration{}, [2][]time.Duration{}
	for side := range 2 {
		from := 2 * side * len(c.Jobs)
		jct[side], wait[side] = room[from:from:from+len(c.Jobs)], room[from+len(c.Jobs):from+len(c.Jobs):from+2*len(c.Jobs)]
	}
	var first time.Duration
	var last [2]time.Duration
	var sum [2]float64 // s
	for k := range c.Jobs {
		of := [2]Fate{c.fate(base, k), c.fate(run, k)}
		v.Same = v.Same && of[0].Ended == of[1].Ended && of[0].JCT == of[1].JCT && of[0].Wait == of[1].Wait
		if !of[0].Ended || !of[1].Ended {
			if of[0].Ended {
				v.Left++
			}
			continue
		}
		came := c.Jobs[k].Submit
		if v.Jobs == 0 || came < first {
			first = came
		}
		v.Jobs++
		v.Preemptions += int(of[1].Preemptions)
		sum[0], sum[1] = sum[0]+of[0].JCT.Seconds(), sum[1]+of[1].JCT.Seconds()
		for side, f := range of {
			jct[side], wait[side], last[side] = append(jct[side], f.JCT), append(wait[side], f.Wait), max(last[side], came+f.JCT)
		}
	}
	times := func(side int) Times { return Times{describe(jct[side]), describe(wait[side]), last[side] - first} }
	v.Base = times(0)
	if v.Here = v.Base; base != run {
		v.Here = times(1)
	}
	v.Hours = (sum[1] - sum[0]) / 3600
	if c.pairs == nil {
		c.pairs = map[[2]int]*Versus{}
	}
	c.pairs[at] = v
	return v
}

// Grouping is a way to tell jobs apart.
type Grouping uint8

// The groupings.
const (
	BySize Grouping = iota
	ByLength
	ByTenant
	ByUser
	groupings
)

// Groupings are all there are.
func Groupings() []Grouping { return []Grouping{BySize, ByLength, ByTenant, ByUser} }

// String is what jobs are told apart by.
func (g Grouping) String() string { return [groupings]string{"gpus", "length", "tenant", "user"}[g] }

// lengths are the upper bounds of lengths of jobs that are told apart, and how they are called.
var lengths = []struct {
	below time.Duration
	name  string
}{
	{time.Minute, "<1m"}, {10 * time.Minute, "1m-10m"}, {time.Hour, "10m-1h"}, {8 * time.Hour, "1h-8h"}, {24 * time.Hour, "8h-1d"}, {1 << 62, ">1d"},
}

// Of is the class of a job.
func (g Grouping) Of(j *Job) string {
	switch g {
	case BySize:
		return sizeNames[sizeOf(j.GPUs)]
	case ByLength:
		return lengths[lengthOf(j.Length)].name
	case ByTenant:
		return j.Tenant
	}
	return j.User
}

func lengthOf(d time.Duration) int {
	for i := range lengths {
		if d < lengths[i].below {
			return i
		}
	}
	return len(lengths) - 1
}

// Rank is where a class of known names stands among the others; 0 for all others.
func (g Grouping) Rank(name string) int {
	switch g {
	case BySize:
		return slices.Index(sizeNames[:], name)
	case ByLength:
		for i := range lengths {
			if lengths[i].name == name {
				return i
			}
		}
	}
	return 0
}

// Class is the jobs of one size, length, tenant or user.
type Class struct {
	By   Grouping
	Name string // as Grouping tells it; empty: no tenant or user
	Jobs int
	Runs []ClassRun // in the order of the runs
}

// ClassRun is how a class fared in a run: means over its jobs that ended in the baseline, too.
type ClassRun struct {
	Ended              int // the means are of these
	JCT, Wait          time.Duration
	BaseJCT, BaseWait  time.Duration
	jct, wait, was, w0 total
}

// Change is by what part the mean JCT is above that of the baseline.
func (r *ClassRun) Change() float64 { return relative(r.BaseJCT, r.JCT) }

// Classes are the jobs told apart: sizes and lengths from small to large, tenants and
// users by name.
func (c *Comparison) Classes(by Grouping) []Class {
	if c.classes[by] == nil {
		c.classes[by] = c.tellApart(by)
	}
	return c.classes[by]
}

func (c *Comparison) tellApart(by Grouping) []Class {
	at := map[string]int{}
	var out []Class
	for k := range c.Jobs {
		name := by.Of(&c.Jobs[k])
		i, known := at[name]
		if !known {
			i = len(out)
			at[name] = i
			out = append(out, Class{By: by, Name: name, Runs: make([]ClassRun, len(c.Runs))})
		}
		out[i].Jobs++
		was := c.fate(c.Base, k)
		for run := range c.Runs {
			if f := c.fate(run, k); f.Ended && was.Ended {
				out[i].Runs[run].add(f, was)
			}
		}
	}
	slices.SortFunc(out, func(a, b Class) int {
		return cmp.Or(cmp.Compare(by.Rank(a.Name), by.Rank(b.Name)), trace.CompareKeys(a.Name, b.Name))
	})
	for i := range out {
		out[i].means()
	}
	return out
}

func (r *ClassRun) add(f, was Fate) {
	r.Ended++
	r.jct.add(f.JCT)
	r.wait.add(f.Wait)
	r.was.add(was.JCT)
	r.w0.add(was.Wait)
}

func (x *Class) means() {
	for i := range x.Runs {
		r := &x.Runs[i]
		r.JCT, r.Wait, r.BaseJCT, r.BaseWait = r.jct.mean(r.Ended), r.wait.mean(r.Ended), r.was.mean(r.Ended), r.w0.mean(r.Ended)
	}
}

// Largest are the classes of most jobs, in the order in which they came, and the others as
// one.
func Largest(classes []Class, n int) []Class {
	if len(classes) <= n {
		return classes
	}
	order := slices.Clone(classes)
	slices.SortStableFunc(order, func(a, b Class) int { return cmp.Compare(b.Jobs, a.Jobs) })
	rest := Class{By: order[n].By, Name: fmt.Sprintf("%d more", len(order)-n), Runs: make([]ClassRun, len(order[n].Runs))}
	for i := range order[n:] {
		rest.join(&order[n+i])
	}
	rest.means()
	return append(order[:n:n], rest)
}

// join adds another class.
func (x *Class) join(y *Class) {
	x.Jobs += y.Jobs
	for i := range y.Runs {
		to, from := &x.Runs[i], &y.Runs[i]
		to.Ended += from.Ended
		for _, t := range [][2]*total{{&to.jct, &from.jct}, {&to.wait, &from.wait}, {&to.was, &from.was}, {&to.w0, &from.w0}} {
			t[0].join(*t[1])
		}
	}
}
