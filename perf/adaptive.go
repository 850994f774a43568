package perf

import (
	"math"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Adaptive is the speed of jobs by their goodput: that with the batch that they train
// with where they run, relative to that with what their user asked for, on one node. A
// job trains with the batch that it was told (job.Chosen), or else with its own
// (job.Job.Batch). A job that tells none chooses the best for its allocation by itself,
// as an agent in its training does. A job is known by what it trains (job.Job.Model).
// One that is not known runs as Otherwise says. On a GPU type on which it was measured
// (Measured) its steps take as long as there, on others those of the reference type,
// faster by the speed of the type. On several GPU types, a gang is as slow as on the
// slowest of them.
//
// As the noise of its gradients grows, larger batches become worth more (With). A job
// that runs all the time as its user asked has speed 1 on average.
//
// An Adaptive can be used by several runs at once.
type Adaptive struct {
	Otherwise Typed // nil: Analytic with no penalty

	curves map[string]*curve
	types  map[string]map[string]*curve // by GPU type
}

// curve is what a job reaches on each number of GPUs up to most.
type curve struct {
	Goodput
	best  [2][]reached   // together, spread
	fixed map[int]*fixed // by batch: the first one, and each that is twice the one before
}

// fixed is the goodputs with one batch, together and spread, by number of GPUs.
type fixed [2][tabled + 1]float64

type reached struct {
	batch Batch
	value float64
}

// tabled is up to how many GPUs goodputs are kept.
const tabled = 64

// NewAdaptive makes the model of jobs that train the given ones, named in lower case.
func NewAdaptive(models map[string]Goodput) *Adaptive {
	return &Adaptive{curves: curvesOf(models), types: map[string]map[string]*curve{}}
}

// Measured adds how models train on a GPU type, given by its name.
func (m *Adaptive) Measured(gpu string, models map[string]Goodput) { m.types[gpu] = curvesOf(models) }

func curvesOf(models map[string]Goodput) map[string]*curve {
	all := map[string]*curve{}
	for name, g := range models {
		c := &curve{Goodput: g, fixed: map[int]*fixed{}}
		for k := range tabled + 1 {
			for i := range c.best {
				b, value := g.Best(k, i == 1)
				c.best[i] = append(c.best[i], reached{b, value})
			}
		}
		for batch := range g.Batches.Doubled() {
			f := new(fixed)
			for k := range tabled + 1 {
				f[0][k], f[1][k] = g.Fixed(k, false, batch), g.Fixed(k, true, batch)
			}
			c.fixed[batch] = f
		}
		all[name] = c
	}
	return all
}

// Knows tells whether a job trains something that the model knows.
func (m *Adaptive) Knows(j *job.Job) bool { return m.curve(j) != nil }

func (m *Adaptive) curve(j *job.Job) *curve { return m.curves[strings.ToLower(j.Model)] }

// on is what a job reaches on a GPU type, and by what that is faster. The job must be known.
func (m *Adaptive) on(j *job.Job, t cluster.GPUType) (c *curve, faster float64) {
	if c := m.types[t.Name][strings.ToLower(j.Model)]; c != nil {
		return c, 1
	}
	if faster = t.Speed; faster <= 0 {
		faster = 1
	}
	return m.curve(j), faster
}

func (c *curve) at(replicas int, spread bool) reached {
	i := 0
	if spread {
		i = 1
	}
	if replicas <= tabled {
		return c.best[i][max(0, replicas)]
	}
	b, value := c.Best(replicas, spread)
	return reached{b, value}
}

// own is the batch that a job trains with unless it is told another one; 0: the best.
func (c *curve) own(j *job.Job) int {
	if j.Batch <= 0 {
		return 0
	}
	return min(max(j.Batch, c.Batches.First), c.Batches.Most)
}

// value is the goodput with a batch of so many samples; 0: with the best.
func (c *curve) value(g *Goodput, replicas int, spread bool, batch int) float64 {
	if batch > 0 {
		return g.Fixed(replicas, spread, batch)
	}
	_, value := g.Best(replicas, spread)
	return value
}

// believed is the goodput with a batch of so many samples, or 0 for the best, and the noise
// of the middle of the training.
func (c *curve) believed(replicas int, spread bool, batch int) float64 {
	switch {
	case batch == 0:
		return c.at(replicas, spread).value
	case replicas > tabled:
		return c.Fixed(replicas, spread, batch)
	}
	table := c.fixed[batch]
	switch {
	case table == nil:
		return c.Fixed(replicas, spread, batch)
	case spread:
		return table[1][max(0, replicas)]
	}
	return table[0][max(0, replicas)]
}

// On implements Typed, with the noise of the middle of the training and the job's own
// batch.
func (m *Adaptive) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool) float64 {
	known := m.curve(j)
	if known == nil {
		return m.otherwise().On(j, c, t, tasks, spread)
	}
	own := known.own(j)
	asked := known.believed(replicas(j, int(j.Demand.Roles[0].Tasks)), false, own)
	if asked == 0 {
		return m.otherwise().On(j, c, t, tasks, spread)
	}
	there, faster := m.on(j, c.Type(t))
	return there.believed(replicas(j, tasks), spread, own) / asked * faster
}

// Speed implements Model.
func (m *Adaptive) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	if m.curve(j) == nil || len(a.Shares) == 0 {
		return m.otherwise().Speed(j, c, a)
	}
	return slowestOf(c, a, func(t cluster.TypeID) float64 { return m.On(j, c, t, a.Tasks(0), a.Nodes() > 1) })
}

// With implements Configured.
func (m *Adaptive) With(j *job.Job, c *cluster.Cluster, a *cluster.Alloc, cfg job.Config) float64 {
	known := m.curve(j)
	if known == nil || len(a.Shares) == 0 {
		return With(m.otherwise(), j, c, a, cfg)
	}
	k, batch := replicas(j, a.Tasks(0)), known.own(j)
	asked := known.asked(replicas(j, int(j.Demand.Roles[0].Tasks)), batch)
	if asked == 0 {
		return With(m.otherwise(), j, c, a, cfg)
	}
	if cfg.Chosen.Batch > 0 {
		batch = int(cfg.Chosen.Batch) * k
	}
	return slowestOf(c, a, func(t cluster.TypeID) float64 {
		there, faster := m.on(j, c.Type(t))
		g := there.Goodput.At(cfg.Reported.Noise)
		return there.value(&g, k, a.Nodes() > 1, batch) / asked * faster
	})
}

// asked is the goodput of a job as its user asked, with a batch of its own or the best: the
// mean over the training, in which each part of it takes its time.
func (c *curve) asked(replicas, batch int) float64 {
	if len(c.Stages) == 0 {
		return c.value(&c.Goodput, replicas, false, batch)
	}
	time := 0.0
	for i, s := range c.Stages {
		until := 1.0
		if i+1 < len(c.Stages) {
			until = c.Stages[i+1].From
		}
		g := c.Goodput.At(s.Noise)
		time += (until - s.From) / c.value(&g, replicas, false, batch)
	}
	if math.IsInf(time, 1) {
		return 0
	}
	return 1 / time
}

// slowestOf is the least of what holds for the GPU types of an Alloc.
func slowestOf(c *cluster.Cluster, a *cluster.Alloc, of func(cluster.TypeID) float64) float64 {
	least := math.Inf(1)
	var seen cluster.TypeMask
	for i := range a.Shares {
		if t := c.TypeOf(a.Shares[i].Device); seen>>t&1 == 0 {
			seen |= 1 << t
			least = min(least, of(t))
		}
	}
	return least
}

// Report implements Reporter: a job measures itself with the batch size that is best
// where it runs.
func (m *Adaptive) Report(j *job.Job, tasks int, spread bool) (Report, bool) {
	known := m.curve(j)
	if known == nil {
		return Report{}, false
	}
	k := replicas(j, tasks)
	at := known.at(k, spread)
	if at.value == 0 {
		return Report{}, false
	}
	return Report{
		Measurement: Measurement{k, spread, at.batch.Local, known.Time.Pass(at.batch.Local), known.Time.Step(k, spread, at.batch.Local)},
		Noise:       known.Noise, Batches: known.Batches,
	}, true
}

// Measures is what a job sees of its steps on GPUs of a type where it trains with a batch of
// so many samples on all of them together; 0: its own. ok is false for a job that is not
// known.
func (m *Adaptive) Measures(j *job.Job, t cluster.GPUType, tasks int, spread bool, batch int) (seen Measurement, ok bool) {
	if m.curve(j) == nil {
		return Measurement{}, false
	}
	there, faster := m.on(j, t)
	k := replicas(j, tasks)
	if batch <= 0 {
		batch = there.own(j)
	}
	local := there.at(k, spread).batch.Local
	if batch > 0 {
		k = min(k, max(1, batch/max(1, there.Batches.LocalMin)))
		spread = spread && k > 1
		local = there.Batches.split(float64(batch), k).Local
	}
	return Measurement{k, spread, local, there.Time.Pass(local) / faster, there.Time.Step(k, spread, local) / faster}, local > 0
}

// ReportOn implements TypeReporter.
func (m *Adaptive) ReportOn(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, spread bool, local int) (Report, bool) {
	if m.curve(j) == nil {
		return Report{}, false
	}
	there, faster := m.on(j, c.Type(t))
	k := replicas(j, tasks)
	if local <= 0 {
		at := there.at(k, spread)
		if local = at.batch.Local; at.value == 0 {
			return Report{}, false
		}
	}
	return Report{
		Measurement: Measurement{k, spread, local, there.Time.Pass(local) / faster, there.Time.Step(k, spread, local) / faster},
		Noise:       there.Noise, Batches: there.Batches,
	}, true
}

func (m *Adaptive) otherwise() Typed {
	if m.Otherwise != nil {
		return m.Otherwise
	}
	return Analytic{Scaling: 1, Spread: 1}
}

// replicas is the number of GPUs of a job with so many tasks.
func replicas(j *job.Job, tasks int) int { return j.Demand.GPUsAt(int32(tasks)) }

var (
	_ TypeReporter = (*Adaptive)(nil)
	_ Configured   = (*Adaptive)(nil)
)
