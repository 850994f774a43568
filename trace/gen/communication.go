package gen

import (
	"math"
	"math/rand/v2"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// Communication is how jobs communicate that do not tell it: what a step computes, loads and synchronises, and in
// which way, drawn from a seed and the number of the job. It is a model of speeds: a job is as fast as its trace says
// where it is placed as it was meant to be, and slower or faster elsewhere by the time of a step (perf.Iteration).
//
// Jobs of one GPU synchronise nothing. Of the others, parameterServers go by parameter servers over the network,
// wherever they are; the rest reduce gradients, over the links of a node where they are on one, and else over the
// network. Those that fit on a node were meant to be on one. The GPUs of a job on one node load their input by the same
// way to the host.
//
// Source: "Characterizing Deep Learning Training Workloads on Alibaba-PAI", IISWC 2019, of which no traces and no text
// were at hand. The ranges are ours, and such that three of its findings hold, as the specification recalls them
// (TestCommunicationMix). Weights and gradients take 62 % of GPU time. Of the jobs with parameter servers 60 % are faster
// with all-reduce in a node. Four times the network makes these 1.7 times as fast.
type Communication struct {
	Seed uint64
	Of   perf.Typed // what speeds are but for communication
}

// The draws. Computation has a median of computeMedian seconds and log-normal width computeWidth; the part of
// synchronisation by parameter servers in that and computation is uniform between syncLow and syncHigh; input is
// log-normal in units of the computation.
const (
	parameterServers = 0.65
	computeMedian    = 0.15
	computeWidth     = 0.8
	syncLow          = 0.5
	syncHigh         = 0.98
	inputLog         = -1.2
	inputWidth       = 1
	nodeGPUs         = 8 // of the machines of the paper
)

// Step is a step of a job, with the way in which it was meant to synchronise; ok is false for a job that is no gang of
// whole GPUs in one role.
func (m *Communication) Step(j *job.Job) (s perf.Iteration, ok bool) {
	if r := &j.Demand.Roles[0]; r.GPU < unit.One || j.Demand.Roles[1].Tasks > 0 {
		return s, false
	}
	serial := uint64(perf.SerialOf(j))
	r := rand.New(rand.NewPCG(m.Seed, serial))
	h := perf.PAIHardware()
	compute := computeMedian * math.Exp(computeWidth*r.NormFloat64())
	share := syncLow + (syncHigh-syncLow)*r.Float64()
	input := compute * math.Exp(inputLog+inputWidth*r.NormFloat64())
	served := r.Float64() < parameterServers
	s = perf.Iteration{Flops: compute * 5 / 6 * perf.Efficiency * h.Flops, Memory: compute / 6 * perf.Efficiency * h.Memory, Input: input * h.Host}
	if j.Demand.GPUs() == 1 {
		return s, true
	}
	one := perf.Iteration{Weights: 1, Sync: perf.ParameterServer}
	s.Weights = compute * share / (1 - share) / one.On(h, 1).Total()
	switch {
	case served:
		s.Sync = perf.ParameterServer
	case j.Demand.GPUs() <= nodeGPUs:
		s.Sync = perf.AllReduceLocal
	default:
		s.Sync = perf.AllReduce
	}
	return s, true
}

// time is the time of a step of a job in seconds, with so many of its GPUs on each of its nodes, and on one node alone
// or not.
func (m *Communication) time(s perf.Iteration, each int, spread bool) float64 {
	switch {
	case s.Sync == perf.AllReduceLocal && spread:
		s.Sync = perf.AllReduce
	case s.Sync == perf.AllReduce && !spread:
		s.Sync = perf.AllReduceLocal
	}
	return s.On(perf.PAIHardware(), each).Total()
}

// factor is by how much a job is faster than where it was meant to be.
func (m *Communication) factor(j *job.Job, each int, spread bool) float64 {
	s, ok := m.Step(j)
	if !ok {
		return 1
	}
	meant := m.time(s, min(j.Demand.GPUs(), nodeGPUs), j.Demand.GPUs() > nodeGPUs)
	return meant / m.time(s, each, spread)
}

// Speed implements perf.Model. A gang goes at the pace of the node on which most of it is.
func (m *Communication) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	most, nodes := int32(0), map[cluster.NodeID]int32{}
	for i := range a.Pieces {
		nodes[a.Pieces[i].Node] += a.Pieces[i].Shares
		most = max(most, nodes[a.Pieces[i].Node])
	}
	return m.Of.Speed(j, c, a) * m.factor(j, int(most), len(nodes) > 1)
}

// On implements perf.Typed. A gang that is spread is taken to have all GPUs of a node on most of its nodes, where it
// is as large as that, and else half of itself.
func (m *Communication) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	gpus := tasks * int(j.Demand.Roles[0].GPU/unit.One)
	each := min(gpus, nodeGPUs)
	if spread && gpus <= nodeGPUs {
		each = (gpus + 1) / 2
	}
	return m.Of.On(j, c, t, tasks, spread) * m.factor(j, each, spread)
}

// AssumedCommunication is a trace of which the jobs of several whole GPUs are counted that Communication tells of.
type AssumedCommunication struct {
	Source trace.Source
	Of     *Communication
	Jobs   int // so far
}

// Next implements trace.Source.
func (a *AssumedCommunication) Next(e *trace.Entry) error {
	err := a.Source.Next(e)
	if err == nil && e.Job.Demand.GPUs() > 1 {
		if _, ok := a.Of.Step(&e.Job); ok {
			a.Jobs++
		}
	}
	return err
}
