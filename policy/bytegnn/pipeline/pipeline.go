// Package pipeline schedules the sampling and the training of one job that trains on a graph, on
// the cores that it has: how many go to each phase, and which operator runs next.
//
// Nouns:
//   - An Operator is a piece of work of one batch that runs on one core: sampling a hop, fetching
//     features, assembling a batch, training on it.
//   - The DAG of a batch says which operators wait for which. A Plan makes it.
//   - The queue holds batches that are sampled and not yet trained on. Its band is from QueueLow to
//     QueueHigh.
//   - A Controller divides cores between sampling and training (coarse level); Before orders
//     operators (fine level).
//
// Units: costs are core-seconds, cores are in thousandths.
//
// Source: ByteGNN (PVLDB 15(6), 2022) has the two levels and their aims. The rules are those of
// section 2 of our specification, since the paper's formulas were not at hand.
package pipeline

import (
	"cmp"
	"fmt"
	"math"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Phase is the part of the work to which an operator belongs.
type Phase uint8

// The phases.
const (
	Sampling Phase = iota
	Training
)

// Operator is one operator of a batch.
type Operator struct {
	Name  string
	Phase Phase
	Cost  float64 // core-seconds
	Wait  float64 // seconds for which it waits for another server before, on no core
	Needs []int   // the operators of its batch for which it waits, by place
	Level float64 // bottom level: cost of the longest way from its start to the end of its batch
	Out   int     // operators that wait for it
}

// Hop is one step of the expansion of a neighbourhood.
type Hop struct {
	Sample, Feature float64 // core-seconds of choosing neighbours and of fetching their features
	Remote          float64 // seconds until another server answers; 0: all is local
}

// Plan is what is done for each batch.
type Plan struct {
	Hops     []Hop
	Assemble float64 // core-seconds
	Train    float64 // core-seconds
	Update   float64 // core-seconds
}

// Check says what is wrong with a plan, or nil.
func (p *Plan) Check() error {
	if len(p.Hops) == 0 {
		return fmt.Errorf("a sampling plan needs at least one hop")
	}
	costs := []float64{p.Assemble, p.Train, p.Update}
	for _, h := range p.Hops {
		costs = append(costs, h.Sample, h.Feature, h.Remote)
	}
	for _, c := range costs {
		if !(c >= 0) || math.IsInf(c, 1) {
			return fmt.Errorf("a cost of %v core-seconds: write a number, 0 or above", c)
		}
	}
	if s, t := p.Costs(); s <= 0 || t <= 0 {
		return fmt.Errorf("a batch takes %v core-seconds of sampling and %v of training: both must be above 0", s, t)
	}
	return nil
}

// Costs are the core-seconds of sampling and of training of a batch.
func (p *Plan) Costs() (sampling, training float64) {
	for _, h := range p.Hops {
		sampling += h.Sample + h.Feature
	}
	return sampling + p.Assemble, p.Train + p.Update
}

// Operators are the DAG of a batch, in an order in which each comes after those that it needs. Each hop
// has a sample of the frontier before it and the features of the new one; the assembly of the batch
// and the training follow.
func (p *Plan) Operators() []Operator {
	var out []Operator
	var features []int
	before := -1
	for i, h := range p.Hops {
		sample := Operator{Name: fmt.Sprintf("sample-%d", i+1), Cost: h.Sample, Wait: h.Remote}
		if before >= 0 {
			sample.Needs = []int{before}
		}
		before = len(out)
		features = append(features, before+1)
		out = append(out, sample, Operator{Name: fmt.Sprintf("feature-%d", i+1), Cost: h.Feature, Wait: h.Remote, Needs: []int{before}})
	}
	at := len(out)
	out = append(out,
		Operator{Name: "assemble", Cost: p.Assemble, Needs: features},
		Operator{Name: "train", Phase: Training, Cost: p.Train, Needs: []int{at}},
		Operator{Name: "update", Phase: Training, Cost: p.Update, Needs: []int{at + 1}})
	for i := len(out) - 1; i >= 0; i-- {
		out[i].Level += out[i].Cost
		for _, n := range out[i].Needs {
			out[n].Level = max(out[n].Level, out[i].Level)
			out[n].Out++
		}
	}
	return out
}

// Ready is an operator that could run.
type Ready struct {
	Batch int // the older the smaller
	Op    *Operator
	Made  int // order of creation
}

// Before orders operators that are ready: the older batch first, then the longer way to the end of
// the batch, then the one for which more others wait, then the one that was made first.
func Before(a, b Ready) int {
	return cmp.Or(cmp.Compare(a.Batch, b.Batch), cmp.Compare(b.Op.Level, a.Op.Level), cmp.Compare(b.Op.Out, a.Op.Out), cmp.Compare(a.Made, b.Made))
}

// Balanced is how many of some cores sample where sampling and training keep pace, in steps: both
// have at least one step.
func Balanced(cores, step unit.Milli, sampling, training float64) unit.Milli {
	if sampling+training <= 0 {
		return max(step, cores/2/step*step)
	}
	want := float64(cores) * sampling / (sampling + training) / float64(step)
	return min(max(step, unit.Milli(math.Round(want))*step), cores-step)
}

// Controller divides the cores of a job between sampling and training, in steps, and limits the
// batches in flight.
type Controller struct {
	Cores, Step         unit.Milli
	QueueLow, QueueHigh int
	InFlight            int     // limit of batches in flight
	Most                int     // of that limit
	MemoryHigh          float64 // which batches must not exceed; 0: any

	Split unit.Milli // cores that sample; the others train

	sampled, trained float64 // core-seconds of a batch, exponential averages; 0: not known
}

// weight is that of a new measurement in the averages.
const weight = 0.2

// NewController is a Controller with the defaults of the specification for so many workers: a
// queue of 2 to 4 and 8 batches in flight for each, half of the cores for either phase.
func NewController(cores unit.Milli, workers int) *Controller {
	workers = max(1, workers)
	c := &Controller{Cores: cores, Step: unit.One, QueueLow: 2, QueueHigh: 4 * workers, InFlight: 8 * workers, Most: 32 * workers}
	if cores < 2*c.Step {
		c.Step = max(1, cores/8)
	}
	c.Split = max(c.Step, cores/2/c.Step*c.Step)
	return c
}

// Sampled takes in the core-seconds that the sampling of a batch took.
func (c *Controller) Sampled(cost float64) { average(&c.sampled, cost) }

// Trained takes in the core-seconds that the training of a batch took.
func (c *Controller) Trained(cost float64) { average(&c.trained, cost) }

func average(to *float64, x float64) {
	if *to == 0 {
		*to = x
		return
	}
	*to += weight * (x - *to)
}

// Admits tells whether the sampling of another batch may begin, which then takes memory in all. None
// begins while the queue is above its band: with the least of cores and one batch in flight, sampling
// may still be faster than training.
func (c *Controller) Admits(queue, inFlight int, memory float64) bool {
	return queue <= c.QueueHigh && inFlight < c.InFlight && (c.MemoryHigh <= 0 || memory <= c.MemoryHigh)
}

// Standing is how a job stands at a step of its controller.
type Standing struct {
	Queue, InFlight int
	Memory          float64 // of its batches
	Idle            bool    // a core that samples has nothing to do
}

// Adjust is one step of the controller, once a period. Where the queue is short, sampling gets a step
// of cores, or a batch more in flight where that is what holds it up. Where the queue is long,
// training gets a step. Where memory is short, or there is no step to give, a batch less is in flight.
// Otherwise it is a step towards balance.
//
// The specification has a batch less with each step to training. In real jobs that left one batch in
// flight, and cores idle while it waited for other servers.
func (c *Controller) Adjust(at Standing) {
	full := c.MemoryHigh > 0 && at.Memory > c.MemoryHigh
	switch {
	case full || at.Queue > c.QueueHigh && c.Split == c.Step:
		c.move(-c.Step)
		c.InFlight = max(1, c.InFlight-1)
	case at.Queue > c.QueueHigh:
		c.move(-c.Step)
	case at.Queue < c.QueueLow && at.Idle && at.InFlight >= c.InFlight && c.InFlight < c.Most:
		c.InFlight++
	case at.Queue < c.QueueLow && !c.ahead():
		c.move(c.Step)
	case c.sampled > 0 && c.trained > 0:
		switch want := Balanced(c.Cores, c.Step, c.sampled, c.trained); {
		case want > c.Split:
			c.move(c.Step)
		case want < c.Split:
			c.move(-c.Step)
		}
	}
}

// ahead tells whether sampling has a step more than its balance already: batches that are not ready
// yet are under way then, and still more cores would only be taken back.
func (c *Controller) ahead() bool {
	return c.sampled > 0 && c.trained > 0 && c.Split > Balanced(c.Cores, c.Step, c.sampled, c.trained)
}

func (c *Controller) move(by unit.Milli) { c.Split = min(max(c.Step, c.Split+by), c.Cores-c.Step) }
