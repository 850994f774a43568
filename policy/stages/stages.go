// Package stages is policies that share executors among jobs that are graphs of stages. They are to stages
// what the policies beside it are to jobs and GPUs.
//
// Nouns:
//   - A stage has tasks that may run side by side, and parents, which finish before any of its tasks starts.
//   - An executor runs one task at a time. Executors are equal. One that changes its job takes time for that.
//   - A job holds the executors that are at it, that move to it, or that are to move to it when their task ends.
//   - A stage is saturated when each of its tasks was launched or has an executor on its way.
//   - The frontier is the stages that are not saturated and whose parents all are.
//   - The source is the job that free executors come from. They need not move to stay there.
//
// Times in graphs are seconds.
//
// Source: Mao et al., "Learning Scheduling Algorithms for Data Processing Clusters", SIGCOMM 2019, and its
// published code for what the paper leaves open.
package stages

import (
	"time"

	"github.com/norn-scheduler/norn/policy/param"
)

// Stage is a stage as a policy knows it.
type Stage struct {
	Name    string
	Parents []int   // stages of the same job, by number
	Tasks   int     // at least 1
	Mean    float64 // s; estimated run time of a task
}

// Job is a graph of stages without a cycle.
type Job struct {
	ID      string
	Arrived time.Duration // since the run began
	Stages  []Stage
}

// Progress is how far a stage is.
type Progress struct {
	Left    int // tasks that were not launched yet
	Coming  int // executors that are on their way to it or wait there
	Running int // tasks
}

// Open is the tasks that no executor is meant for yet.
func (p *Progress) Open() int { return max(0, p.Left-p.Coming) }

// Active is a job that has arrived and is not finished.
type Active struct {
	*Job
	Held     int // executors
	Progress []Progress
	Version  int // changes whenever Held or Progress do

	order []int   // stages, children before parents
	below [][]int // children of each stage
	embed *embedding
}

// Activate makes a job that has just arrived.
func Activate(j *Job) *Active {
	a := &Active{Job: j, Progress: make([]Progress, len(j.Stages)), below: make([][]int, len(j.Stages))}
	waits := make([]int, len(j.Stages)) // children that are not in the order yet
	for i := range j.Stages {
		a.Progress[i].Left = j.Stages[i].Tasks
		for _, p := range j.Stages[i].Parents {
			a.below[p] = append(a.below[p], i)
			waits[p]++
		}
	}
	for i := range waits {
		if waits[i] == 0 {
			a.order = append(a.order, i)
		}
	}
	for k := 0; k < len(a.order); k++ {
		for _, p := range j.Stages[a.order[k]].Parents {
			if waits[p]--; waits[p] == 0 {
				a.order = append(a.order, p)
			}
		}
	}
	return a
}

// Frontier appends the stages of the frontier to a list, in the order of their numbers.
func (a *Active) Frontier(to []int) []int {
	for i := range a.Progress {
		if a.Progress[i].Open() > 0 && a.ready(i, false) {
			to = append(to, i)
		}
	}
	return to
}

// ready tells whether all parents of a stage are saturated, or finished.
func (a *Active) ready(stage int, finished bool) bool {
	for _, p := range a.Stages[stage].Parents {
		q := &a.Progress[p]
		if q.Open() > 0 || finished && q.Left+q.Running > 0 {
			return false
		}
	}
	return true
}

// Runnable tells whether all parents of a stage are finished.
func (a *Active) Runnable(stage int) bool { return a.ready(stage, true) }

// Work is the seconds that its tasks take that were not launched yet.
func (a *Active) Work() float64 {
	sum := 0.0
	for i := range a.Progress {
		sum += a.left(i)
	}
	return sum
}

func (a *Active) left(stage int) float64 {
	return float64(a.Progress[stage].Left) * a.Stages[stage].Mean
}

// paths are, for each stage, the seconds from its start to the end of the job with executors without end; wide counts the
// work of all its tasks instead of one, as the published heuristic does.
func (a *Active) paths(wide bool) []float64 {
	out := make([]float64, len(a.Stages))
	for _, i := range a.order {
		longest := 0.0
		for _, c := range a.below[i] {
			longest = max(longest, out[c])
		}
		own := a.Stages[i].Mean
		if wide {
			own = a.left(i)
		}
		out[i] = longest + own
	}
	return out
}

// View is what a policy sees when executors are free.
type View struct {
	Now       time.Duration // since the run began
	Spent     float64       // s; time that jobs have been in the system so far, summed
	Executors int           // in all
	Free      int           // of them, those that are to be assigned now
	Source    *Active       // where they are; nil: at no job
	Jobs      []*Active     // in the order of arrival
}

// Choice is a stage that is to have executors, up to a limit of what its job holds.
type Choice struct {
	Job   *Active
	Stage int
	Limit int // executors
}

// Assign is the number of executors that a choice gets: no more than are free, than the stage has open tasks, and than
// the limit leaves. Free executors that are at the job already count once.
func (v *View) Assign(c Choice) int {
	room := c.Limit - c.Job.Held
	if c.Job == v.Source {
		room += v.Free
	}
	return max(0, min(c.Job.Progress[c.Stage].Open(), room, v.Free))
}

// Policy decides where free executors go. A world calls it until none is free or it declines.
type Policy interface {
	// Next is the next choice, of a stage in the frontier. ok is false where the executors are to stay idle until
	// something happens.
	Next(v *View) (c Choice, ok bool)
}

// Config is the settings of one policy.
type Config interface {
	// Params binds the settings.
	Params() param.Set
	// Policy makes the policy. It fails on settings that cannot be.
	Policy() (Policy, error)
}

// Entry is a policy of the table.
type Entry struct {
	Name, About string
	New         func() Config
}

// Table is all policies of stages, in the order in which they are listed. Weights are those of decima.
func Table(weights *Weights) []Entry {
	return []Entry{
		{"fifo", "jobs in the order of arrival take all executors that they can use", func() Config { return new(FIFO) }},
		{"fair", "jobs have equal shares", func() Config { return &Weighted{} }},
		{"weighted", "jobs have shares by a power of their work", func() Config { return &Weighted{Alpha: -1} }},
		{"sjf-cp", "the job with the least work left first, in it the critical path", func() Config { return new(Shortest) }},
		{"partition", "jobs have equal limits, and executors stay at their job while it can use them", func() Config { return new(Partition) }},
		{"graphene", "shares by a power of work, and in a job the stages first that are troublesome", func() Config { return &Graphene{Alpha: -1, Trouble: 0.5} }},
		{"decima", "a graph network scores stages and limits", func() Config { return &Decima{Weights: weights} }},
	}
}

// Acyclic tells whether no stage comes before itself. Parents must be numbers of stages.
func Acyclic(all []Stage) bool {
	return len(Activate(&Job{Stages: all}).order) == len(all)
}
