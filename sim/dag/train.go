package dag

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/policy/stages"
)

// Training is how the network of Decima is trained: it imitates a heuristic first, and then goes on by policy gradients,
// in episodes that grow longer.
type Training struct {
	Options
	Templates []*Template
	Gap       time.Duration // mean time between two arrivals
	Seed      uint64
	Agents    int // that run each arrival sequence
	Workers   int // agents that run at once; the result does not depend on it
	Imitate   int // iterations that imitate
	Plan      int // iterations over which entropy falls and episodes grow
}

// Point is a point of the curve of learning.
type Point struct {
	Iteration int     `json:"iteration"`
	Hours     float64 `json:"hours"`     // of training so far
	Relative  float64 `json:"relative"`  // time in the system, divided by that under fair, in the episodes since the last point
	Validated float64 `json:"validated"` // mean JCT on the validation sequences, divided by that under fair
}

// Checkpoint is a training that can go on. It is the file of weights too: Best are the weights that decima is run with.
type Checkpoint struct {
	Seed      uint64    `json:"seed"`
	Iteration int       `json:"iteration"`
	Hours     float64   `json:"hours"`
	Lowest    float64   `json:"lowest"` // of Validated
	Curve     []Point   `json:"curve"`
	Best      []float64 `json:"best"`
	Values    []float64 `json:"values,omitempty"`
	First     []float64 `json:"first,omitempty"`  // moments of Adam
	Second    []float64 `json:"second,omitempty"` //
	Steps     int       `json:"steps,omitempty"`  // of Adam
}

// ReadCheckpoint reads a checkpoint or a file of weights.
func ReadCheckpoint(in io.Reader) (*Checkpoint, error) {
	c := new(Checkpoint)
	if err := json.NewDecoder(in).Decode(c); err != nil {
		return nil, err
	}
	if _, err := stages.NewWeights(c.Best); err != nil {
		return nil, err
	}
	for _, list := range [][]float64{c.Values, c.First, c.Second} {
		if len(list) != 0 && len(list) != len(c.Best) {
			return nil, fmt.Errorf("%d values beside %d weights", len(list), len(c.Best))
		}
	}
	return c, nil
}

// Start is a training that has not begun.
func (t *Training) Start() *Checkpoint {
	w := stages.Draw(rand.New(rand.NewPCG(t.Seed, 0x5eed)))
	n := len(w.Values)
	return &Checkpoint{Seed: t.Seed, Lowest: 1e9, Best: append([]float64(nil), w.Values...), Values: w.Values, First: make([]float64, n), Second: make([]float64, n)}
}

// episode is a run of one agent.
type episode struct {
	trace   []Job
	options Options
	spent   float64
	at      []time.Duration // of choices
	area    []float64       // time spent in the system before them
	choices []stages.Choice
	jobs    []string // of choices: a choice of another run has other jobs
	returns []float64

	declined []bool // of all questions, those without a choice
}

// recorder notes what a policy chooses.
type recorder struct {
	stages.Policy
	to *episode
}

func (r *recorder) Next(v *stages.View) (stages.Choice, bool) {
	c, ok := r.Policy.Next(v)
	e := r.to
	e.declined = append(e.declined, !ok)
	if ok {
		e.at, e.area = append(e.at, v.Now), append(e.area, v.Spent)
		e.jobs = append(e.jobs, c.Job.ID)
		e.choices = append(e.choices, stages.Choice{Stage: c.Stage, Limit: c.Limit})
	}
	return c, ok
}

// repeater makes the choices of an episode again, and learns from them.
type repeater struct {
	*stages.Learner
	from      *episode
	advantage []float64
	bonus     float64
	n, asked  int
}

func (r *repeater) Next(v *stages.View) (stages.Choice, bool) {
	r.asked++
	if r.from.declined[r.asked-1] {
		return stages.Choice{}, false
	}
	c := r.from.choices[r.n]
	for _, j := range v.Jobs {
		if j.ID == r.from.jobs[r.n] {
			c.Job = j
		}
	}
	r.Learn(v, c, r.advantage[r.n], r.bonus)
	r.n++
	return c, true
}

// Step is an iteration. It returns the time that jobs spent in the system, divided by that under fair.
func (t *Training) Step(ctx context.Context, c *Checkpoint) (float64, error) {
	w, err := stages.NewWeights(c.Values)
	if err != nil {
		return 0, err
	}
	rng := rand.New(rand.NewPCG(t.Seed, uint64(c.Iteration)))
	grown := min(1, float64(max(0, c.Iteration-t.Imitate))/float64(max(1, t.Plan)))
	load := Workload{Templates: t.Templates, Initial: 1 + rng.IntN(12), Gap: t.Gap, Seed: rng.Uint64()}
	horizon := min(3*3600, (200+800*grown)*(0.5+rng.ExpFloat64()))
	load.Streamed = int(1.5*horizon/t.Gap.Seconds()) + 5
	trace, err := load.Make()
	if err != nil {
		return 0, err
	}
	imitates := c.Iteration < t.Imitate
	all := make([]episode, t.Agents)
	for i := range all {
		all[i] = episode{trace: trace, options: t.Options}
		all[i].options.Seed, all[i].options.Until = rng.Uint64(), seconds(horizon)
		if imitates && i > 0 { // other sequences, as there is no baseline
			load.Seed = rng.Uint64()
			if all[i].trace, err = load.Make(); err != nil {
				return 0, err
			}
		}
	}
	err = t.each(func(i int) error {
		var p stages.Policy = &stages.Weighted{}
		if !imitates {
			draws := rand.New(rand.NewPCG(all[i].options.Seed, 1))
			p = &stages.Agent{Weights: w, Pick: func(logs []float64) int { return pick(draws, logs) }}
		}
		r, err := Run(ctx, all[i].options, all[i].trace, &recorder{p, &all[i]})
		if err == nil {
			all[i].spent = r.Spent
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	advantages := advantages(all, seconds(horizon), imitates)
	bonus := 0.0
	if !imitates {
		bonus = 0.005 * math.Pow(0.1, grown)
	}
	if err := t.learn(ctx, c, w, all, advantages, bonus); err != nil {
		return 0, err
	}
	c.Iteration++
	mean := 0.0
	for i := range all {
		mean += all[i].spent / float64(len(all))
	}
	fair, err := Run(ctx, all[0].options, trace, &stages.Weighted{})
	if err != nil {
		return 0, err
	}
	return mean / max(1e-9, fair.Spent), nil
}

// pick draws one of the options whose log probabilities are given.
func pick(rng *rand.Rand, logs []float64) int {
	u := rng.Float64()
	for i, l := range logs {
		if u -= math.Exp(l); u < 0 {
			return i
		}
	}
	return len(logs) - 1
}

// memory is the time over which what a choice leads to is counted, in seconds: later time in the system counts less.
const memory = 120

// advantages are the returns of choices, less the mean of what all agents have from the same moment on, in units of their
// standard deviation. All are 1 where a teacher is imitated.
func advantages(all []episode, end time.Duration, imitates bool) [][]float64 {
	out := make([][]float64, len(all))
	sum, n := 0.0, 0
	for i := range all {
		all[i].returns = returns(&all[i], end)
		out[i] = make([]float64, len(all[i].at))
	}
	for i := range all {
		for k, at := range all[i].at {
			if imitates {
				out[i][k] = 1
				continue
			}
			base := 0.0
			for o := range all {
				base += all[o].from(at, end) / float64(len(all))
			}
			out[i][k] = all[i].returns[k] - base
			sum += out[i][k] * out[i][k]
			n++
		}
	}
	if imitates {
		return out
	}
	deviation := math.Sqrt(sum/float64(max(1, n))) + 1e-6
	for i := range out {
		for k := range out[i] {
			out[i][k] = max(-4, min(4, out[i][k]/deviation))
		}
	}
	return out
}

// returns are, for each choice, minus the time that jobs spend in the system after it, in hundreds of seconds.
func returns(e *episode, end time.Duration) []float64 {
	out := make([]float64, len(e.at))
	next, area, after := end, e.spent, 0.0
	for k := len(e.at) - 1; k >= 0; k-- {
		after = -(area-e.area[k])/100 + math.Exp(-(next-e.at[k]).Seconds()/memory)*after
		next, area, out[k] = e.at[k], e.area[k], after
	}
	return out
}

// from is the return of an episode from a moment on, interpolated between its choices.
func (e *episode) from(at, end time.Duration) float64 {
	low, high := 0, len(e.at)
	for low < high {
		if mid := (low + high) / 2; e.at[mid] < at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	after, t := 0.0, end
	if low < len(e.at) {
		after, t = e.returns[low], e.at[low]
	}
	if low == 0 || t == at {
		return after
	}
	before, s := e.returns[low-1], e.at[low-1]
	return before + (after-before)*float64(at-s)/float64(max(1, t-s))
}

// each does something for each agent, so many at once.
func (t *Training) each(do func(i int) error) error {
	errs := make([]error, t.Agents)
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(1, t.Workers) {
		wg.Go(func() {
			for i := range next {
				errs[i] = do(i)
			}
		})
	}
	for i := range t.Agents {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// learn repeats the episodes, gathers the gradient, and takes a step of Adam.
func (t *Training) learn(ctx context.Context, c *Checkpoint, w *stages.Weights, all []episode, advantages [][]float64, bonus float64) error {
	learners := make([]*stages.Learner, len(all))
	err := t.each(func(i int) error {
		learners[i] = stages.NewLearner(w)
		o := all[i].options
		_, err := Run(ctx, o, all[i].trace, &repeater{Learner: learners[i], from: &all[i], advantage: advantages[i], bonus: bonus})
		learners[i].Finish()
		return err
	})
	if err != nil {
		return err
	}
	choices := 0
	for i := range all {
		choices += len(all[i].at)
	}
	g := make([]float64, len(c.Values))
	norm := 0.0
	for k := range g {
		for _, l := range learners {
			g[k] += l.Gradient[k]
		}
		g[k] /= float64(max(1, choices))
		norm += g[k] * g[k]
	}
	c.adam(g, min(1, 1/(math.Sqrt(norm)+1e-12)))
	return nil
}

// adam takes a step down a gradient.
func (c *Checkpoint) adam(g []float64, scale float64) {
	const rate, keep, keepSquare = 1e-3, 0.9, 0.999
	c.Steps++
	early, square := 1-math.Pow(keep, float64(c.Steps)), 1-math.Pow(keepSquare, float64(c.Steps))
	for i, d := range g {
		d *= scale
		c.First[i] = keep*c.First[i] + (1-keep)*d
		c.Second[i] = keepSquare*c.Second[i] + (1-keepSquare)*d*d
		c.Values[i] -= rate * c.First[i] / early / (math.Sqrt(c.Second[i]/square) + 1e-8)
	}
}

// Validate runs the network on sequences that it is not trained on, and keeps it where it is the best so far. It returns the mean
// JCT, divided by that under fair.
func (t *Training) Validate(ctx context.Context, c *Checkpoint) (float64, error) {
	w, err := stages.NewWeights(append([]float64(nil), c.Values...))
	if err != nil {
		return 0, err
	}
	const sequences = 4
	ours, fair := make([]float64, sequences), make([]float64, sequences)
	v := *t
	v.Agents = sequences
	err = v.each(func(i int) error {
		trace, err := (&Workload{Templates: t.Templates, Initial: 10, Streamed: 60, Gap: t.Gap, Seed: 1_000_000 + uint64(i)}).Make()
		if err != nil {
			return err
		}
		o := t.Options
		o.Seed = uint64(i)
		for _, p := range []stages.Policy{&stages.Agent{Weights: w}, &stages.Weighted{}} {
			r, err := Run(ctx, o, trace, p)
			if err != nil {
				return err
			}
			ours[i], fair[i] = fair[i], r.Spent
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	a, b := 0.0, 0.0
	for i := range ours {
		a, b = a+ours[i], b+fair[i]
	}
	if a/b < c.Lowest {
		c.Lowest, c.Best = a/b, w.Values
	}
	return a / b, nil
}
