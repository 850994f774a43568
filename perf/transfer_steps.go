package perf

import (
	"math"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Step is how long a backbone takes for one step of data-parallel training with a
// global batch on some GPUs:
//
//	rounds x (Fixed + Sample x batch of a GPU in a round) + Sync(GPUs)
//
// A GPU takes no more than Batch samples in a round and goes several rounds for
// more (accumulation). Sync is 0 on one GPU, Near + NearGPU x GPUs on one node,
// and Far + FarGPU x GPUs over several. Times are in seconds.
type Step struct {
	Fixed, Sample, Batch float64
	Near, NearGPU        float64
	Far, FarGPU          float64
}

// Seconds is the time of a step.
func (s Step) Seconds(batch float64, gpus int, spread bool) float64 {
	each := math.Ceil(batch / float64(gpus))
	rounds := max(1, math.Ceil(each/s.Batch))
	t := rounds * (s.Fixed + s.Sample*math.Ceil(each/rounds))
	switch {
	case gpus == 1:
	case spread:
		t += s.Far + s.FarGPU*float64(gpus)
	default:
		t += s.Near + s.NearGPU*float64(gpus)
	}
	return t
}

// Pipeline is the time of a step of training in stages, one on each GPU, with a part of the
// layers each. The batch goes through them in parts, of which there are four for each stage
// where the batch suffices, so that stages work side by side:
//
//	(parts + stages - 1) x (Fixed + Sample x samples of a part) / stages
//
// What stages hand on to each other is small beside that, and is not counted.
// (Huang et al., "GPipe", NeurIPS 2019.)
func (s Step) Pipeline(batch float64, stages int) float64 {
	k := float64(stages)
	part := max(1, min(s.Batch, math.Ceil(batch/(4*k))))
	return (math.Ceil(batch/part) + k - 1) * (s.Fixed + s.Sample*part) / k
}

// Steps is a Model for fine-tuning jobs, from how long their backbones take for a
// step. Pipelines have a stage on each GPU. Jobs of other backbones, or without a batch size, scale linearly.
type Steps struct {
	ByBackbone map[string]Step
	NodeGPUs   int // of a node: larger reference configurations are over several; 0: all are on one
}

// seconds is the time of a step of a job with so many tasks, and of one in its
// reference configuration.
func (m *Steps) seconds(j *job.Job, tasks int, spread bool) (now, reference float64, ok bool) {
	s, known := m.ByBackbone[j.Backbone]
	if !known || j.Batch <= 0 || tasks <= 0 {
		return 0, 0, false
	}
	asked := max(1, int(j.Demand.Roles[0].Tasks))
	batch := float64(j.Batch)
	if j.Pipelined() {
		return s.Pipeline(batch, tasks), s.Pipeline(batch, asked), true
	}
	return s.Seconds(batch, tasks, spread), s.Seconds(batch, asked, m.NodeGPUs > 0 && asked > m.NodeGPUs), true
}

// Speed implements Model. Each task has one device, or a part of one.
func (m *Steps) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	tasks := a.Tasks(0)
	now, reference, ok := m.seconds(j, tasks, a.Nodes() > 1)
	if !ok {
		return Analytic{Scaling: 1, Spread: 1}.Speed(j, c, a)
	}
	return reference / now
}

// On implements Typed. All GPU types are alike.
func (m *Steps) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	now, reference, ok := m.seconds(j, tasks, spread)
	if !ok {
		return Analytic{Scaling: 1, Spread: 1}.On(j, c, t, tasks, spread)
	}
	return reference / now
}

// Rate is how many samples a job goes through in a second in its reference
// configuration, 1 for a job about which nothing is known.
func (m *Steps) Rate(j *job.Job) float64 {
	_, reference, ok := m.seconds(j, 1, false)
	if !ok {
		return 1
	}
	return float64(j.Batch) / reference
}
