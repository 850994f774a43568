// Package energy predicts before a job runs how long its steps take, and what energy it needs, on
// any number of GPUs, from a few steps that were measured of its model.
//
// Nouns:
//   - A Sample is a measurement: the time of a step, and the power of a GPU in it, of a model with
//     a batch for each GPU, on so many GPUs of a type.
//   - A Fit is what follows from the samples of one model on one GPU type.
//   - A Work is how much a job trains.
//   - An Outlook is what a Fit says of a Work.
//
// The time of a step is Launch + Sample x batch, and on several GPUs the exchange of gradients: on
// one node Near x (n-1)/n, over k nodes Far x 2(n-1)/n + Hop x k. The power of a GPU is Idle + Busy
// x the part of the step in which it computes. All coefficients are at least 0 and follow by least
// squares of relative errors.
//
// Source: there is none for the formulas beyond the title of "Offline performance and energy
// consumption prediction model of deep learning training tasks" (2023), whose text was not at hand.
package energy

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/perf"
)

// Sample is one measurement.
type Sample struct {
	Model, GPU  string
	GPUs, Nodes int
	Batch       int     // samples of a step, for each GPU
	Step        float64 // seconds
	Watts       float64 // of each GPU, on average; 0: not measured
}

// Fit is what is known of a model on a GPU type. Times are in seconds.
type Fit struct {
	Model  string  `json:"model"`
	GPU    string  `json:"gpu"`
	Launch float64 `json:"launch_s"`    // of a step, whatever its batch
	Sample float64 `json:"sample_s"`    // for each sample of a GPU
	Near   float64 `json:"near_s"`      // exchange within a node
	Far    float64 `json:"far_s"`       // exchange between nodes
	Hop    float64 `json:"hop_s"`       // for each node
	Idle   float64 `json:"idle_watts"`  // of a GPU that waits
	Busy   float64 `json:"busy_watts"`  // above that, of one that computes
	Told   bool    `json:"told"`        // Idle and Busy are those of the data sheet: no power was measured
	Starts bool    `json:"launch_busy"` // a GPU computes while a step is launched, too
	N      int     `json:"measurements"`
	Off    float64 `json:"residual"` // standard deviation of the relative errors of steps
}

// features are what the coefficients of a step are multiplied by.
func features(gpus, nodes, batch int) []float64 {
	f := []float64{1, float64(batch), 0, 0, 0}
	part := float64(gpus-1) / float64(gpus)
	if nodes > 1 {
		f[3], f[4] = 2*part, float64(nodes)
	} else {
		f[2] = part
	}
	return f
}

// New fits what was measured of one model on one GPU type. It fails without two samples of
// different batches, and where samples are of several models or types or cannot be.
func New(samples []Sample) (*Fit, error) {
	if len(samples) == 0 {
		return nil, errors.New("nothing was measured")
	}
	f := &Fit{Model: samples[0].Model, GPU: samples[0].GPU, N: len(samples)}
	var rows [][]float64
	var steps []float64
	batches := map[int]bool{}
	for _, s := range samples {
		if err := s.check(); err != nil {
			return nil, err
		}
		if s.Model != f.Model || s.GPU != f.GPU {
			return nil, fmt.Errorf("samples of %s on %s and of %s on %s", f.Model, f.GPU, s.Model, s.GPU)
		}
		batches[s.Batch] = true
		rows, steps = append(rows, features(s.GPUs, s.Nodes, s.Batch)), append(steps, s.Step)
	}
	if len(batches) < 2 {
		return nil, fmt.Errorf("%s on %s: measure at least two batches, better three on one GPU and one on two and four GPUs", f.Model, f.GPU)
	}
	c := nonNegative(rows, steps)
	f.Launch, f.Sample, f.Near, f.Far, f.Hop = c[0], c[1], c[2], c[3], c[4]
	for _, s := range samples {
		f.Off += math.Pow(f.Step(s.GPUs, s.Nodes, s.Batch)/s.Step-1, 2) / float64(len(samples))
	}
	f.Off = math.Sqrt(f.Off)
	f.power(samples)
	return f, nil
}

// check says what is wrong with a sample, or nil.
func (s *Sample) check() error {
	switch {
	case s.GPUs < 1 || s.Nodes < 1 || s.Nodes > s.GPUs || s.Batch < 1:
		return fmt.Errorf("%s on %s: %d GPUs on %d nodes with a batch of %d for each", s.Model, s.GPU, s.GPUs, s.Nodes, s.Batch)
	case !(s.Step > 0) || math.IsInf(s.Step, 1) || !(s.Watts >= 0) || math.IsInf(s.Watts, 1):
		return fmt.Errorf("%s on %s: a step of %v seconds at %v watts", s.Model, s.GPU, s.Step, s.Watts)
	}
	return nil
}

// power fits the power of a GPU, or takes that of its data sheet.
func (f *Fit) power(samples []Sample) {
	var rows [][]float64
	var watts []float64
	for _, s := range samples {
		if s.Watts > 0 {
			rows, watts = append(rows, []float64{1, f.Use(s.GPUs, s.Nodes, s.Batch)}), append(watts, s.Watts)
		}
	}
	if len(rows) < 2 {
		d := perf.DrawOf(f.GPU)
		f.Idle, f.Busy, f.Told, f.Starts = d.Idle, d.Busy-d.Idle, true, true
		return
	}
	c := nonNegative(rows, watts)
	f.Idle, f.Busy = c[0], c[1]
}

// Step is the time of a step in seconds.
func (f *Fit) Step(gpus, nodes, batch int) (seconds float64) {
	for i, x := range features(gpus, nodes, batch) {
		seconds += x * []float64{f.Launch, f.Sample, f.Near, f.Far, f.Hop}[i]
	}
	return seconds
}

// Use is the part of a step in which a GPU computes.
func (f *Fit) Use(gpus, nodes, batch int) float64 {
	busy := f.Sample * float64(batch)
	if f.Starts {
		busy += f.Launch
	}
	if step := f.Step(gpus, nodes, batch); step > 0 {
		return busy / step
	}
	return 0
}

// Watts is the power of a GPU.
func (f *Fit) Watts(gpus, nodes, batch int) float64 { return f.Idle + f.Busy*f.Use(gpus, nodes, batch) }

// Work is how much a job trains.
type Work struct {
	Samples int     // of an epoch
	Epochs  float64 // above 0
	Batch   int     // for each GPU
	Startup float64 // seconds
}

// Machine is what GPUs stand in.
type Machine struct {
	GPUs   int     // of a node
	Beside float64 // watts of a node beside its GPUs, in equal parts for each of them
	PUE    float64 // watts of the building for each watt of its machines; 0 counts as 1
}

// Outlook is what a job needs on so many GPUs.
type Outlook struct {
	GPUs       int     `json:"gpus"`
	Nodes      int     `json:"nodes"`
	Step       float64 `json:"step_s"`
	Time       float64 `json:"time_s"`
	Speedup    float64 `json:"speedup"`    // over one GPU
	Efficiency float64 `json:"efficiency"` // of that, for each GPU
	Use        float64 `json:"use"`
	Watts      float64 `json:"gpu_watts"` // of each GPU
	Power      float64 `json:"watts"`     // of all GPUs, with their parts of nodes and building
	KWh        float64 `json:"kwh"`
}

// Of is what a job needs on so many GPUs, on as few nodes as possible.
func (f *Fit) Of(w Work, gpus int, m Machine) Outlook {
	nodes := (gpus + m.GPUs - 1) / max(1, m.GPUs)
	o := Outlook{GPUs: gpus, Nodes: nodes, Step: f.Step(gpus, nodes, w.Batch), Use: f.Use(gpus, nodes, w.Batch), Watts: f.Watts(gpus, nodes, w.Batch)}
	o.Time = f.time(w, gpus, nodes)
	o.Speedup = f.time(w, 1, 1) / o.Time
	o.Efficiency = o.Speedup / float64(gpus)
	o.Power = float64(gpus) * (o.Watts + m.Beside/float64(max(1, m.GPUs))) * max(1, m.PUE)
	o.KWh = o.Power * o.Time / 3.6e6
	return o
}

// time is how long a job takes, in seconds.
func (f *Fit) time(w Work, gpus, nodes int) float64 {
	steps := (w.Samples + w.Batch*gpus - 1) / (w.Batch * gpus)
	return w.Epochs*float64(steps)*f.Step(gpus, nodes, w.Batch) + w.Startup
}

// Least is the outlook with the least energy among those that take at most so many seconds; Fastest the
// one with the least time among those that need at most so many watts. ok is false where there is none.
func Least(all []Outlook, seconds float64) (best Outlook, ok bool) {
	return pick(all, func(o Outlook) bool { return o.Time <= seconds }, func(o Outlook) float64 { return o.KWh })
}

// Fastest: see Least.
func Fastest(all []Outlook, watts float64) (best Outlook, ok bool) {
	return pick(all, func(o Outlook) bool { return o.Power <= watts }, func(o Outlook) float64 { return o.Time })
}

func pick(all []Outlook, may func(Outlook) bool, by func(Outlook) float64) (best Outlook, ok bool) {
	for _, o := range all {
		if may(o) && (!ok || by(o) < by(best)) {
			best, ok = o, true
		}
	}
	return best, ok
}

// Errors are the mean relative errors of a fit on samples: of steps, of power and of energy. Those without
// power count for steps alone.
func (f *Fit) Errors(samples []Sample) (step, watts, joules float64) {
	n, powered := 0.0, 0.0
	for _, s := range samples {
		has, draws := f.Step(s.GPUs, s.Nodes, s.Batch), f.Watts(s.GPUs, s.Nodes, s.Batch)
		n++
		step += math.Abs(has/s.Step - 1)
		if s.Watts > 0 {
			powered++
			watts += math.Abs(draws/s.Watts - 1)
			joules += math.Abs(has*draws/(s.Step*s.Watts) - 1)
		}
	}
	return step / max(1, n), watts / max(1, powered), joules / max(1, powered)
}

// Halves divides samples into every other one by batch, GPUs and nodes, to fit, and those between, to hold
// the fit against.
func Halves(samples []Sample) (fit, held []Sample) {
	all := slices.Clone(samples)
	slices.SortStableFunc(all, func(a, b Sample) int {
		return slices.Compare([]int{a.Batch, a.GPUs, a.Nodes}, []int{b.Batch, b.GPUs, b.Nodes})
	})
	for i, s := range all {
		if i%2 == 0 {
			fit = append(fit, s)
		} else {
			held = append(held, s)
		}
	}
	return fit, held
}
