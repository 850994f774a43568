package perf

import (
	"cmp"
	"math"
	"math/bits"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Cell is GPUs on which a large model is laid out: so many nodes with equally many GPUs of one
// type each.
type Cell struct {
	Type        string // in lower case
	Nodes, Each int
}

// Plans is how fast jobs train large models in each cell, with the best parallel plan there. A
// job is known by its model and its batch. Its speed is relative to that on the GPUs that it asks
// for, together on as few nodes as possible. They are of the first type that it names on which it
// can run, or else of the first such type of the cluster.
//
// What was measured of a model and a batch counts alone. A cell that was not measured follows from
// others (Arena, EuroSys 2026). It is 0.9 times as fast for each time that its GPUs are divided among
// twice as many nodes as in one that was. It is as fast as one on more nodes. Or else it is 1.8 times
// as fast for each larger model of the family that was.
//
// Where nothing was measured of a model and a batch, Large.Iteration tells. A job cannot run in a cell in
// which nothing is known of it or whose memory does not suffice, nor where an iteration takes more
// than five minutes. Of other numbers of GPUs than powers of two, some are idle.
//
// A job that trains something else runs as Otherwise says. Plans must not change once they are used.
type Plans struct {
	Otherwise Typed // nil: Analytic with no penalty

	seconds map[Trained]map[Cell]float64
}

// Apart is how much slower a large model is taken to be on GPUs of twice as many nodes, where that
// was not measured.
const Apart = 0.9

const (
	smallerModel = 1.8 // of the speed, for the next smaller model
	mostSeconds  = 300 // of an iteration
	usualMemory  = 32 * unit.GiB
)

// Add notes how long an iteration takes in a cell; 0: the model cannot run there.
func (p *Plans) Add(of Trained, c Cell, seconds float64) {
	if p.seconds == nil {
		p.seconds = map[Trained]map[Cell]float64{}
	}
	of.Model = LargeName(of.Model)
	if p.seconds[of] == nil {
		p.seconds[of] = map[Cell]float64{}
	}
	p.seconds[of][c] = seconds
}

// Len is how many cells were measured.
func (p *Plans) Len() (n int) {
	for _, all := range p.seconds {
		n += len(all)
	}
	return n
}

// Knows tells whether anything is known of what a job trains.
func (p *Plans) Knows(j *job.Job) bool {
	_, fitted := LargeModel(j.Model)
	return j.Batch > 0 && (fitted || p.seconds[Trained{LargeName(j.Model), j.Batch}] != nil)
}

// rate is the iterations in a second of a job on so many GPUs of a type, on so many nodes; 0: it
// cannot run there.
func (p *Plans) rate(j *job.Job, t cluster.GPUType, gpus, nodes int) float64 {
	if gpus < 1 {
		return 0
	}
	gpus = 1 << (bits.Len(uint(gpus)) - 1)
	of, name := Trained{LargeName(j.Model), j.Batch}, strings.ToLower(t.Name)
	seconds, known := secondsIn(p.seconds[of], name, gpus, nodes)
	if !known {
		seconds, known = p.larger(of, name, gpus, nodes)
	}
	if !known && p.seconds[of] == nil {
		seconds = fitted(of, t, gpus)
	}
	if !(seconds > 0 && seconds <= mostSeconds) {
		return 0
	}
	return 1 / seconds
}

// secondsIn is the time of an iteration on so many GPUs, by what was measured on as many nodes, on
// fewer, or else on more. known: something was, be it that the model cannot run there.
func secondsIn(all map[Cell]float64, gpu string, gpus, nodes int) (seconds float64, known bool) {
	for n := 1 << (bits.Len(uint(nodes)) - 1); n >= 1; n /= 2 {
		if s, ok := all[Cell{gpu, n, gpus / n}]; ok {
			return s * math.Pow(Apart, -math.Log2(float64(nodes)/float64(n))), true
		}
	}
	for n := nodes + 1; n <= gpus; n++ {
		if s, ok := all[Cell{gpu, n, gpus / n}]; ok && gpus%n == 0 {
			return s, true
		}
	}
	return 0, false
}

// larger is the time of an iteration by what was measured of a larger model of the family.
func (p *Plans) larger(of Trained, gpu string, gpus, nodes int) (seconds float64, known bool) {
	family, faster := "", 1.0
	for _, m := range largeModels {
		name := m.Name[:strings.LastIndexByte(m.Name, '_')]
		switch {
		case m.Name == of.Model:
			family = name
		case family != "" && name == family:
			faster *= smallerModel
			if s, ok := secondsIn(p.seconds[Trained{m.Name, of.Batch}], gpu, gpus, nodes); ok {
				return s / faster, true
			}
		}
	}
	return 0, false
}

// fitted is the time of an iteration by Large.Iteration, on other types as on a V100, faster by
// the speed of the type; 0: the memory does not suffice, or the model is not known.
func fitted(of Trained, t cluster.GPUType, gpus int) float64 {
	m, ok := LargeModel(of.Model)
	if !ok {
		return 0
	}
	gpu, faster := t.Name, 1.0
	if !LargeType(gpu) {
		if gpu = "v100"; t.Speed > 0 {
			faster = t.Speed
		}
	}
	if MemoryForLarge(t)*unit.Bytes(gpus) < m.Memory {
		return 0
	}
	seconds, _ := m.Iteration(gpu, gpus, of.Batch)
	return seconds / faster
}

// MemoryForLarge is the memory of a GPU type, where the cluster does not tell it that of those that
// were measured.
func MemoryForLarge(t cluster.GPUType) unit.Bytes {
	if on := typeOfLarge(t.Name); t.Memory == 0 && on != nil {
		return on.memory
	}
	return cmp.Or(t.Memory, usualMemory)
}

// nodesFor is on how many nodes so many GPUs of a type are that are together.
func nodesFor(c *cluster.Cluster, t cluster.TypeID, gpus int) int {
	most := 1
	for p := range cluster.PoolID(c.Pools()) {
		most = max(most, c.MaxNodeGPUs(p, 1<<t))
	}
	return (gpus + most - 1) / most
}

// base is the rate at which the speed of a job is 1; 0: nothing is known of it, or it cannot run as it
// asks.
func (p *Plans) base(j *job.Job, c *cluster.Cluster) float64 {
	if !p.Knows(j) {
		return 0
	}
	gpus := j.Demand.GPUs()
	for name := range strings.SplitSeq(j.Demand.Types, "|") {
		for t := range cluster.TypeID(c.Types()) {
			if name != "" && !strings.EqualFold(c.Type(t).Name, name) {
				continue
			}
			if r := p.rate(j, c.Type(t), gpus, nodesFor(c, t, gpus)); r > 0 {
				return r
			}
		}
	}
	return 0
}

// On implements Typed. Spread GPUs that would find room on one node are on two.
func (p *Plans) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	gpus := j.Demand.GPUsAt(int32(tasks))
	base := p.base(j, c)
	if base == 0 || gpus == 0 {
		return p.otherwise().On(j, c, t, tasks, spread)
	}
	nodes := nodesFor(c, t, gpus)
	if spread && gpus > 1 {
		nodes = max(nodes, 2)
	}
	return p.rate(j, c.Type(t), gpus, nodes) / base
}

// Speed implements Model: a gang waits for its slowest member, and counts as divided equally among its
// nodes.
func (p *Plans) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	base := p.base(j, c)
	if base == 0 || len(a.Shares) == 0 {
		return p.otherwise().Speed(j, c, a)
	}
	gpus, nodes := int(a.Milli()/unit.One), a.Nodes()
	return slowestOf(c, a, func(t cluster.TypeID) float64 { return p.rate(j, c.Type(t), gpus, nodes) / base })
}

// Runs tells whether a job can run on so many GPUs of a type, together.
func (p *Plans) Runs(j *job.Job, c *cluster.Cluster, t cluster.TypeID, gpus int) bool {
	return p.rate(j, c.Type(t), gpus, nodesFor(c, t, gpus)) > 0
}

// Samples is what a job does in a second at speed 1, in samples; ok is false where it is not known.
func (p *Plans) Samples(j *job.Job, c *cluster.Cluster) (rate float64, ok bool) {
	rate = p.base(j, c) * float64(j.Batch)
	return rate, rate > 0 && !math.IsInf(rate, 1)
}

func (p *Plans) otherwise() Typed {
	if p.Otherwise != nil {
		return p.Otherwise
	}
	return Analytic{Scaling: 1, Spread: 1}
}
