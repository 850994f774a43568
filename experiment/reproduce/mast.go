package reproduce

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/replica"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// The world of MAST: five regions of 160 GPUs. Users have put most data into one of them, so that the jobs of the
// high band ask there for 2.63 times the GPUs that it has, which is what the paper measured before. They ask for 0.85
// of all GPUs, those of the low band for 0.1 more, evenly.

const (
	mastRegions = 5
	mastNodes   = 20 // in each region
	mastHigh    = 0.85
	mastLow     = 0.1
	mastWorst   = 2.63 // published, before
	mastDays    = 14
	mastWarm    = 3 // days that are not counted: data is not moved before the first of them has ended
)

// mastStatic is the scheduling before: each job where its data is, in order of submission.
const mastStatic = "fifo(mode=skip,priority=true)"

// placements is the region of each job of the high band in each run, as a world notes it for a metric.
type placements struct {
	sync.Mutex
	of map[*state.State]map[job.ID]string
}

// watch notes the region in which jobs begin.
func (p *placements) watch(string) engine.Sink { return (*placing)(p) }

type placing placements

// Event implements engine.Sink.
func (p *placing) Event(ev *eventlog.Event, s *state.State) {
	if ev.Kind != eventlog.Start {
		return
	}
	p.Lock()
	defer p.Unlock()
	if p.of[s] == nil {
		p.of[s] = map[job.ID]string{}
	}
	_, p.of[s][ev.Job], _ = s.Cluster.Domain(cluster.PlaceOf(s.Cluster, s.Alloc(ev.Job).Pieces[0].Node, replica.Level))
}

// worst is the most that jobs of the high band asked for of a region, over what it has, of those that came after the
// warm-up.
func (p *placements) worst() Metric {
	return Metric{Key: "worst-load", Name: "largest demand of the high band in a region over its GPUs", Of: func(o *experiment.Outcome) float64 {
		p.Lock()
		defer p.Unlock()
		demand, worst := map[string]float64{}, 0.0
		for id, region := range p.of[o.State] {
			if r := o.State.Record(id); r.Job.Priority > 0 && r.Job.Submit >= mastWarm*24*time.Hour {
				demand[region] += float64(r.Job.Demand.GPUs()) * r.Progress.Hours()
				worst = max(worst, demand[region]/(mastNodes*8*(mastDays-mastWarm)*24))
			}
		}
		return worst
	}}
}

// mastWorld is two weeks of jobs. Under mast data is moved, where moves says so; under other policies it stays.
func mastWorld(draw uint64, p *placements, moves bool) World {
	return World{Make: func(_ string, c experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		spec := &clusterspec.Spec{Types: []cluster.GPUType{{Name: "V100"}}, Levels: []clusterspec.Level{{Name: replica.Level}}}
		data := &replica.Catalogue{GBps: 100, Storage: map[string]unit.Bytes{}}
		for r := range mastRegions {
			name := fmt.Sprint("r", r)
			spec.Nodes = append(spec.Nodes, clusterspec.Group{Name: name + "n{0}", Count: mastNodes, GPUs: []clusterspec.GPUs{{Type: "V100", Count: 8}}, Place: []string{name}})
			data.Storage[name] = 6e15
		}
		x := &experiment.Experiment{Spec: spec, Seed: draw, Data: data, Watch: p.watch}
		if moves && c.String() == "mast" {
			var err error
			if x.Move, err = replica.Parse("tetris"); err != nil {
				return nil, nil, err
			}
		}
		return x, renumbered(mastJobs(draw, data)).Source(), nil
	}}
}

// mastJobs makes the jobs, and the data that they read. A data set is read by those of one home region.
func mastJobs(draw uint64, data *replica.Catalogue) (jobs experiment.Jobs) {
	const share = mastWorst / mastRegions / mastHigh // of the high band that the first region is home to
	r := rand.New(rand.NewPCG(draw, 0))
	for i := range 100 {
		home := i % mastRegions
		data.Data = append(data.Data, replica.Data{Name: fmt.Sprint("d", i), Size: unit.Bytes(10+r.IntN(190)) * 1e12, In: []string{fmt.Sprint("r", home)}})
	}
	var shapes job.Interner
	for band, load := range []float64{mastLow, mastHigh} {
		at := 0.0 // hours
		for i := 0; ; i++ {
			gpus, hours := 8<<r.IntN(4), 0.5+7*r.Float64()
			if at += r.ExpFloat64() * 30 * 4 / (load * mastRegions * mastNodes * 8); at >= mastDays*24 {
				break
			}
			home := r.IntN(mastRegions)
			if band > 0 {
				if home = 0; r.Float64() >= share {
					home = 1 + r.IntN(mastRegions-1)
				}
			}
			j := job.Job{
				Key: fmt.Sprintf("%d-%05d", band, i), Submit: time.Duration(at * float64(time.Hour)), Demand: shapes.Get(job.GPUs(gpus)), Priority: int32(band),
				Dataset: fmt.Sprint("d", home+mastRegions*int(20*r.Float64()*r.Float64())), Stop: job.LastSave,
			}
			jobs = append(jobs, trace.Entry{Job: j, Truth: trace.Truth{Work: time.Duration(hours * float64(time.Hour))}})
		}
	}
	slices.SortStableFunc(jobs, func(a, b trace.Entry) int { return cmp.Compare(a.Job.Submit, b.Job.Submit) })
	return jobs
}

// mastStudies: the worst ratio of demand to GPUs of a region falls from 2.63 to 0.98 for work of high priority.
func mastStudies() []Study {
	about := fmt.Sprintf("two weeks of jobs on five regions of %d GPUs, load %g, most data in one region at first", mastNodes*8, mastHigh+mastLow)
	p := &placements{of: map[*state.State]map[job.ID]string{}}
	moved := Study{
		System: "mast", Name: "moved", CPU: 4, Policy: "mast", About: about + ", moved once a day",
		Claims: []Claim{
			{Metric: p.worst(), Published: exactly(0.98), Tolerance: 0.25, Place: "abstract, after"},
			{Baseline: mastStatic, Metric: p.worst(), Published: exactly(mastWorst / 0.98), Tolerance: 0.25, Place: "abstract, before over after; before is made so"},
			{Baseline: mastStatic, Metric: meanWait(), Published: better(), Place: "acceptance 6: jobs where users put the data"},
		},
	}
	still := Study{
		System: "mast", Name: "still", CPU: 4, Policy: "mast", About: about + ", which stays there",
		Claims: []Claim{{Baseline: mastStatic, Metric: meanWait(), Published: between(0.8, 2), Place: "acceptance 6: little is won where data stays"}},
	}
	for draw := range uint64(3) {
		moved.Worlds = append(moved.Worlds, mastWorld(draw, p, true))
		still.Worlds = append(still.Worlds, mastWorld(draw, p, false))
	}
	return []Study{moved, still}
}
