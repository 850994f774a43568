package perf

import (
	"time"

	"github.com/norn-scheduler/norn/job"
)

// Task is what transfer depends on: which data a backbone is tuned on.
type Task struct{ Backbone, Dataset string }

// Gain is what one task gives another one of the same backbone.
type Gain struct {
	From, To Task
	After    float64 // how many times less work To takes from the weights of From
	Together float64 // how many times fewer passes over its data To takes when trained with From
}

// Gains is a Transfer from a table. A pair that is not in the table gains
// nothing.
//
// Two jobs that are trained as one go through both data sets as often as the
// one that needs more passes. That number takes the gain into account, as in
// Ymir (ICS 2024, section 4). Work is counted in samples, and an epoch of both
// is the samples of both.
type Gains struct {
	// Rate is how many samples a job goes through in a second in the reference
	// configuration; nil: it is the same for all.
	Rate func(*job.Job) float64

	tasks   map[Task]int
	samples []float64
	after   [][]float64
	both    [][]float64
}

// NewGains makes a table from the sizes of data sets, in samples, and the gains.
// Where the size of one is not known, or 0, all count as equal.
func NewGains(samples map[Task]float64, gains []Gain) *Gains {
	g := &Gains{tasks: map[Task]int{}}
	index := func(t Task) int {
		i, known := g.tasks[t]
		if !known {
			i = len(g.samples)
			g.tasks[t] = i
			g.samples = append(g.samples, max(0, samples[t]))
		}
		return i
	}
	type cell struct{ from, to int }
	cells := make([]cell, len(gains))
	for i, gain := range gains {
		cells[i] = cell{index(gain.From), index(gain.To)}
	}
	for range g.samples {
		g.after, g.both = append(g.after, ones(len(g.samples))), append(g.both, ones(len(g.samples)))
	}
	for i, gain := range gains {
		if gain.After > 0 {
			g.after[cells[i].from][cells[i].to] = gain.After
		}
		if gain.Together > 0 {
			g.both[cells[i].from][cells[i].to] = gain.Together
		}
	}
	return g
}

func ones(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// Task is the number of the task of a job, -1 for one that is not in the table.
func (g *Gains) Task(j *job.Job) int { return g.TaskOf(Task{j.Backbone, j.Dataset}) }

// TaskOf is the number of a task, -1 for one that is not in the table.
func (g *Gains) TaskOf(t Task) int {
	if i, known := g.tasks[t]; known {
		return i
	}
	return -1
}

// Samples is how many samples a job goes through in a run time in the reference
// configuration, or that run time in seconds where no rates are known.
func (g *Gains) Samples(j *job.Job, d time.Duration) float64 {
	if g.Rate == nil {
		return d.Seconds()
	}
	return g.Rate(j) * d.Seconds()
}

// After implements Transfer.
func (g *Gains) After(j, first *job.Job) float64 { return g.AfterTask(g.Task(j), g.Task(first)) }

// AfterTask is After for tasks: what the second takes after the first.
func (g *Gains) AfterTask(j, first int) float64 {
	if j < 0 || first < 0 {
		return 1
	}
	return g.after[first][j]
}

// Together implements Transfer.
func (g *Gains) Together(a, b *job.Job, left [2]time.Duration) (fa, fb float64) {
	return g.TogetherTask(g.Task(a), g.Task(b), g.Samples(a, left[0]), g.Samples(b, left[1]))
}

// TogetherTask is Together for tasks with so many samples left to go through.
func (g *Gains) TogetherTask(a, b int, left, other float64) (fa, fb float64) {
	if left+other <= 0 {
		return 1, 1
	}
	da, db, ga, gb := 1.0, 1.0, 1.0, 1.0
	if a < 0 || b < 0 { // strangers take turns
		return left / (left + other), other / (left + other)
	}
	if g.samples[a] > 0 && g.samples[b] > 0 {
		da, db = g.samples[a], g.samples[b]
	}
	ga, gb = g.both[b][a], g.both[a][b]
	both := max(left/(ga*da), other/(gb*db)) * (da + db)
	return left / both, other / both
}

// TaskOf names what a job is trained on: its data set, or where it tells none its sort.
func TaskOf(j *job.Job) string {
	if j.Dataset != "" {
		return j.Dataset
	}
	return SortOf(j)
}
