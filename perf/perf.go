// Package perf is how fast a job runs with what it holds, and what it costs to
// change that.
//
// Nouns:
//   - A speed is progress per second relative to the reference configuration:
//     the size the user asked for, together on one node, on the reference GPU
//     type, alone.
//   - A Model gives the speed of a job on an Alloc.
//   - A transition is a start, a stop, a resume, a move or a resize.
//   - Costs is the one place that says what each transition costs.
package perf

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Model tells how fast jobs run. The simulator owns one, which is the truth;
// a policy may be given another, which is what it believes.
type Model interface {
	// Speed is the speed of j on a, at least 0, 1 in the reference
	// configuration.
	Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64
}

// Typed is a Model that can tell speeds before anything is placed, as policies
// need it that choose between GPU types.
type Typed interface {
	Model
	// On is the speed of j alone with so many tasks of its first role on GPUs of
	// type t, on one node or spread over several. It is 0 if the job cannot run on
	// them.
	On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64
}

// Reference runs every job at speed 1 wherever it is.
type Reference struct{}

// Speed is 1.
func (Reference) Speed(*job.Job, *cluster.Cluster, *cluster.Alloc) float64 { return 1 }

// On is 1.
func (Reference) On(*job.Job, *cluster.Cluster, cluster.TypeID, int, bool) float64 { return 1 }

// Analytic is a simple model for jobs about which nothing is measured.
//
// speed = scaling x type x spread, where
//
//   - scaling = (n/n0)^Scaling for an elastic job on n instead of n0 tasks;
//   - type = the speed of the slowest GPU type it holds (a gang waits for its
//     slowest member);
//   - spread = Spread^d for a gang on several nodes, d being the steps in the
//     topology tree from the first of them to the farthest.
type Analytic struct {
	Scaling float64 // exponent, 1 is linear
	Spread  float64 // factor for each step, 1 is no penalty
}

// Speed implements Model.
func (m Analytic) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	speed := m.scaling(j, a.Tasks(0))
	slowest := math.Inf(1)
	for i := range a.Shares {
		if s := c.Type(c.TypeOf(a.Shares[i].Device)).Speed; s > 0 {
			slowest = min(slowest, s)
		} else {
			slowest = min(slowest, 1)
		}
	}
	if !math.IsInf(slowest, 1) {
		speed *= slowest
	}
	if m.Spread != 1 && len(a.Pieces) > 1 {
		far := 0
		for i := range a.Pieces[1:] {
			far = max(far, c.Distance(a.Pieces[0].Node, a.Pieces[i+1].Node))
		}
		speed *= math.Pow(m.Spread, float64(far))
	}
	return speed
}

// On implements Typed. Nodes apart are taken to be one step apart.
func (m Analytic) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	speed := m.scaling(j, tasks)
	if s := c.Type(t).Speed; s > 0 {
		speed *= s
	}
	if spread {
		speed *= m.Spread
	}
	return speed
}

// scaling is the speed of a job with so many tasks.
func (m Analytic) scaling(j *job.Job, tasks int) float64 {
	asked := int(j.Demand.Roles[0].Tasks)
	if !j.Demand.Elastic() || tasks == asked {
		return 1
	}
	return math.Pow(float64(tasks)/float64(asked), m.Scaling)
}

// Cost is the price of each transition in time during which the job holds its
// devices and makes no progress.
type Cost struct {
	Start      time.Duration // first start
	Checkpoint time.Duration // before it leaves its devices
	Restore    time.Duration // start after a stop, instead of Start
	Migrate    time.Duration // after it has moved, instead of Restore
	Resize     time.Duration // after its size has changed
	InPlace    time.Duration // after its size or place has changed, where tasks join and leave a running job (job.InPlace)
	TimeSliced time.Duration // after its size or place has changed, where its workers take turns (job.TimeSliced)
}

// Zero tells whether every transition is free.
func (c Cost) Zero() bool { return c == Cost{} }

// Tier is the Cost of jobs with at least so many GPUs.
type Tier struct {
	GPUs int
	Cost Cost
}

// Costs is the cost model of a run: what a transition costs a job of a given
// size. The zero Costs makes everything free, as most published simulators do.
type Costs struct {
	Base  Cost
	Tiers []Tier // in increasing order of GPUs; the last that applies counts

	// Switch is what starting, restoring and resizing cost jobs of a backbone,
	// instead.
	Switch map[string]Switch
}

// Free tells whether every transition of every job is free.
func (c *Costs) Free() bool { return c.Base.Zero() && len(c.Tiers) == 0 && len(c.Switch) == 0 }

// Begin is what it costs a job to begin on devices, at its first start or a later
// one. warm tells that all of them hold a runtime of its backbone.
func (c *Costs) Begin(j *job.Job, gpus int, first, warm bool) time.Duration {
	if s, ok := c.Switch[j.Backbone]; ok && j.Backbone != "" {
		if warm {
			return s.Warm
		}
		return s.Cold
	}
	if cost := c.Of(gpus); !first {
		return cost.Restore
	} else {
		return cost.Start
	}
}

// Save is how long a job that leaves its devices for good, or is stopped, keeps them until
// its weights are written: 0 but for pipelines (Switch.Save).
func (c *Costs) Save(j *job.Job) time.Duration {
	if j.Pipelined() && j.Backbone != "" {
		return c.Switch[j.Backbone].Save
	}
	return 0
}

// Reshape is what it costs a running job to go on with gpus on other devices. warm tells that
// all of these hold a runtime of its backbone, moved that its size is the same, and stays that
// a task keeps its device.
func (c *Costs) Reshape(j *job.Job, gpus int, warm, moved, stays bool) time.Duration {
	switch {
	case j.Resize == job.InPlace && stays:
		return c.Of(gpus).InPlace
	case j.Resize == job.TimeSliced && stays:
		return c.Of(gpus).TimeSliced
	case moved:
		return c.Of(gpus).Migrate
	}
	if _, ok := c.Switch[j.Backbone]; ok && j.Backbone != "" {
		return c.Begin(j, gpus, false, warm)
	}
	return c.Of(gpus).Resize
}

// Of is the Cost for a job of that many GPUs.
func (c *Costs) Of(gpus int) Cost {
	cost := c.Base
	for _, t := range c.Tiers {
		if gpus < t.GPUs {
			break
		}
		cost = t.Cost
	}
	return cost
}
