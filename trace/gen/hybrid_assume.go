package gen

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// AssumedHybrid is a trace in which jobs of 1 to 16 whole GPUs train a large model that can be laid
// out in parallel in many ways, each with a batch of 256 unless it tells another one. A job that tells a
// model of perf.LargeModels trains that. A job that tells no model is given one that fits into the
// GPUs for which it asks, drawn from a seed and its name. These jobs can run on any power of two of
// GPUs, from the least with which they run anywhere up to 16, and on every GPU type on which they
// run, the one that they ask for first. How long they run as they asked is left as it is, and so is
// every other job.
type AssumedHybrid struct {
	Source  trace.Source
	Seed    uint64
	Cluster *cluster.Cluster
	Plans   *perf.Plans // nil: as large models were measured
	Jobs    int         // given something so far

	in job.Interner
}

const (
	mostHybrid  = 16
	hybridBatch = 256
)

// Next implements trace.Source.
func (a *AssumedHybrid) Next(e *trace.Entry) error {
	if err := a.Source.Next(e); err != nil {
		return err
	}
	j := &e.Job
	d := *j.Demand
	d.Types = ""
	if !d.Plain() || j.Demand.GPUs() > mostHybrid || j.Kind == job.Inference {
		return nil
	}
	if j.Model == "" {
		a.draw(j)
	}
	if _, large := perf.LargeModel(j.Model); !large {
		return nil
	}
	if j.Batch == 0 {
		j.Batch = hybridBatch
	}
	least, most, types := a.sizes(j)
	if least == 0 {
		return nil
	}
	d.Types = types
	if !d.Elastic() {
		asked := d.Roles[0].Tasks
		d.Roles[0].Min, d.Roles[0].Max = min(least, asked), max(most, asked)
	}
	j.Demand = a.in.Get(d)
	a.Jobs++
	return nil
}

// sizes is the least and the most GPUs, powers of two, with which a job can run on any type, and
// the types on which it can: first those for which it asks. least is 0 where it cannot run at all.
func (a *AssumedHybrid) sizes(j *job.Job) (least, most int32, types string) {
	plans := a.Plans
	if plans == nil {
		plans = &perf.Plans{}
	}
	var all []string
	asked := j.Demand.Types
	if asked != "" {
		all = strings.Split(asked, "|")
	}
	for t := range cluster.TypeID(a.Cluster.Types()) {
		name, runs := a.Cluster.Type(t).Name, false
		for n := int32(1); n <= mostHybrid && !a.Cluster.Type(t).Host; n *= 2 {
			if plans.Runs(j, a.Cluster, t, int(n)) {
				runs, most = true, max(most, n)
				if least == 0 || n < least {
					least = n
				}
			}
		}
		if runs && !slices.ContainsFunc(all, func(a string) bool { return strings.EqualFold(a, name) }) {
			all = append(all, name)
		}
	}
	return least, most, strings.Join(all, "|")
}

// draw gives a job that tells no model one that fits into the GPUs for which it asks.
func (a *AssumedHybrid) draw(j *job.Job) {
	first, _, _ := strings.Cut(j.Demand.Types, "|")
	var memory unit.Bytes
	for i := range cluster.TypeID(a.Cluster.Types()) {
		t := a.Cluster.Type(i)
		if first == "" || strings.EqualFold(t.Name, first) {
			memory = perf.MemoryForLarge(t)
			break
		}
	}
	var fit []string
	for _, m := range perf.LargeModels() {
		if m.Memory <= memory*unit.Bytes(j.Demand.GPUs()) {
			fit = append(fit, m.Name)
		}
	}
	if len(fit) > 0 {
		j.Model = fit[rand.New(rand.NewPCG(a.Seed, hash(cmp.Or(j.Name, j.Key)))).IntN(len(fit))]
	}
}
