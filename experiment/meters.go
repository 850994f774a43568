package experiment

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/loss"
	"github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/policy/muxflow"
	"github.com/norn-scheduler/norn/policy/sia"
	"github.com/norn-scheduler/norn/policy/synergy"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace/gen"
)

// useMeter measures jobs as the counters of GPUs do: what a job uses while it is alone there,
// and how fast it is beside others. Each measurement errs.
type useMeter struct{ seed uint64 }

// deviceMeter measures how fast jobs go, for those who learn from it how devices differ. Each
// measurement errs.
type deviceMeter struct{ seed uint64 }

// Measure implements sim.Meter.
func (m deviceMeter) Measure(l *sim.Look, to *perf.Reading) {
	if l.Speed <= 0 || to.When == perf.InProfile {
		return
	}
	to.Setup.Seats = l.Seats()
	to.Add(perf.Relative, l.Speed*(1+useError*(2*random(m.seed, l).Float64()-1)))
}

const (
	useError = 0.03        // of a measurement, at most
	useFor   = time.Minute // on devices for itself, after which a job is not measured there again
)

// Measure implements sim.Meter.
func (m useMeter) Measure(l *sim.Look, to *perf.Reading) {
	if l.Job.Demand.GPUs() == 0 || to.Setup.How != job.Apart {
		return
	}
	rng := random(m.seed, l)
	measured := func(x float64) float64 { return min(1, x*(1+useError*(2*rng.Float64()-1))) }
	if len(l.Beside) > 0 {
		if l.Factor == 0 {
			return
		}
		others := make([]float64, len(l.Beside))
		for i := range l.Beside {
			others[i] = float64(perf.SerialOf(l.Beside[i].Job))
		}
		to.Add(perf.Factor, measured(l.Factor))
		to.Add(perf.Neighbours, others...)
		return
	}
	if l.Ran > useFor {
		return
	}
	use, told := perf.Hinted(l.Job)
	if !told {
		use[perf.SM] = 1 // as the world takes it
	}
	to.Add(perf.GPUUse, measured(use[perf.SM]))
	to.Add(perf.MemoryUse, measured(use[perf.Bandwidth]))
	memory := l.Truth.GPUMemory
	if memory == 0 {
		memory = perf.MemoryOf(l.Job)
	}
	to.Add(perf.GPUMemory, float64(memory))
}

// stepMeter measures the steps of jobs that adapt their batches, as an agent in their training
// does. Each time errs.
type stepMeter struct {
	seed  uint64
	truth *perf.Adaptive
	types map[string]cluster.GPUType
}

const stepError = 0.03 // of a time, at most

// Measure implements sim.Meter.
func (m stepMeter) Measure(l *sim.Look, to *perf.Reading) {
	s := &to.Setup
	seen, ok := m.truth.Measures(l.Job, m.types[s.Type], s.Tasks, s.Spread, s.Batch)
	if !ok || to.When == perf.InProfile {
		return
	}
	rng := random(m.seed, l)
	erring := func(x float64) float64 { return x * (1 + stepError*(2*rng.Float64()-1)) }
	pass := erring(seen.Pass)
	to.Add(sia.Local, float64(seen.Local))
	to.Add(sia.Pass, pass)
	to.Add(sia.Step, pass+erring(seen.Step-seen.Pass))
}

// serves tells whether a believer learns from what is measured: steps.
func (stepMeter) serves(of perf.Believer) bool { _, ok := of.(perf.TypeReporter); return ok }

// Losses is a meter of jobs that report how their losses fall. Where nobody looks, nothing is measured.
func Losses(of gen.QualityMeter) sim.Meter { return lossMeter{of} }

// lossMeter measures how losses fall, for believers that keep what jobs report of them.
type lossMeter struct{ gen.QualityMeter }

func (lossMeter) serves(of perf.Believer) bool { _, ok := of.(loss.Recorder); return ok }

// servedMeter measures what useMeter does, and beside a service what that uses at the moment and the
// share of the job.
type servedMeter struct{ useMeter }

// Measure implements sim.Meter.
func (m servedMeter) Measure(l *sim.Look, to *perf.Reading) {
	m.useMeter.Measure(l, to)
	if len(l.Beside) != 1 || l.Factor == 0 || l.Job.Kind == job.Inference || l.Beside[0].Job.Kind != job.Inference {
		return
	}
	rng := random(m.seed+1, l)
	use, _ := perf.Hinted(l.Beside[0].Job)
	load := l.Beside[0].Load
	if load <= 0 {
		load = 1
	}
	erring := func(x float64) float64 { return min(1, x*load*(1+useError*(2*rng.Float64()-1))) }
	to.Add(muxflow.Share, float64(l.Own.Share.Milli)/1000)
	to.Add(muxflow.ServiceUse, erring(use[perf.SM]))
	to.Add(muxflow.ServiceBandwidth, erring(use[perf.Bandwidth]))
}

// mixMeter measures of each job what the meters of its kind do.
type mixMeter struct {
	served  servedMeter
	rations rationMeter
	tuned   *gen.TuningMeter
}

// Measure implements sim.Meter.
func (m mixMeter) Measure(l *sim.Look, to *perf.Reading) {
	if l.Job.Kind == job.FineTuning {
		m.tuned.Measure(l, to)
		return
	}
	m.served.Measure(l, to)
	m.rations.Measure(l, to)
}

// pairMeter measures what useMeter does, and in a stay only to be measured how fast a job is beside
// reference jobs and they beside it, for half a minute each after one to warm up.
type pairMeter struct {
	useMeter
	of         perf.Pairs
	references []string
}

const pairProbe = 30 * time.Second // of a measurement beside one reference

// Measure implements sim.Meter.
func (m pairMeter) Measure(l *sim.Look, to *perf.Reading) {
	m.useMeter.Measure(l, to)
	if to.When != perf.InProfile || len(l.Beside) > 0 {
		return
	}
	rng := random(m.seed+1, l)
	own := m.of.Name(l.Job)
	var at, speeds, theirs []float64
	for _, k := range rng.Perm(len(m.references)) {
		if len(at) >= int(l.Ran/pairProbe)-1 {
			break
		}
		speed, ok := m.of.Of(perf.Pair{Job: own, Beside: m.references[k], Type: to.Setup.Type})
		their, both := m.of.Of(perf.Pair{Job: m.references[k], Beside: own, Type: to.Setup.Type})
		if !ok || !both {
			continue
		}
		erring := func(x float64) float64 { return min(1, x*(1+useError*(2*rng.Float64()-1))) }
		at, speeds, theirs = append(at, float64(k)), append(speeds, erring(speed)), append(theirs, erring(their))
	}
	if len(at) > 0 {
		to.Add(gavel.Reference, at...)
		to.Add(gavel.Own, speeds...)
		to.Add(gavel.Theirs, theirs...)
	}
}

// everyReference is of how many sorts of measured jobs one is a reference.
const everyReference = 3

// references is what is known of measured pairs before anything is measured in a run: every third
// sort of jobs, by name, beside each other.
func references(of perf.Pairs) perf.Pairs {
	all := gavel.References(of)
	known := of
	known.Speed, known.Else = map[perf.Pair]float64{}, nil
	is := map[string]bool{}
	for i := 0; i < len(all); i += everyReference {
		is[all[i]] = true
	}
	for p, s := range of.Speed {
		if is[p.Job] && is[p.Beside] {
			known.Speed[p] = s
		}
	}
	return known
}

// random is the source of the errors of one look at a job.
func random(seed uint64, l *sim.Look) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(l.Job.Key)) // never fails
	return rand.New(rand.NewPCG(seed^h.Sum64(), uint64(l.Number)))
}

// rationMeter measures jobs as Synergy's optimistic profiling does: in a stay only to be
// measured, for half a minute each with fewer and fewer of the cores that the job holds.
// How much of its data set a job reads from the disk, and how fast, follows from what
// memory is worth to it in truth.
type rationMeter struct {
	of   *perf.Grids
	seed uint64
}

const (
	rationProbe = 30 * time.Second // of a measurement with one number of cores
	rationEpoch = 100              // iterations of an epoch, of a second each in the reference
	rationError = 0.02             // of a measurement, at most
)

// Measure implements sim.Meter.
func (m rationMeter) Measure(l *sim.Look, to *perf.Reading) {
	gpus, g := to.Setup.Tasks, m.of.Grid(l.Job)
	if to.When != perf.InProfile || gpus < 1 || to.Setup.CPU < unit.One {
		return
	}
	rng := random(m.seed, l)
	p := perf.GridProfile{GPUs: gpus, Cores: int(to.Setup.CPU / unit.One)}
	memory := to.Setup.Memory / unit.Bytes(gpus)
	points := p.Explore(func(cores int) time.Duration {
		rate := 1.0
		if g != nil {
			rate = g.Rate(perf.Ration{CPU: unit.Milli(cores) * unit.One / unit.Milli(gpus), Memory: memory})
		}
		return time.Duration((1 + rationError*(2*rng.Float64()-1)) / rate * float64(time.Second))
	})
	points = points[:min(len(points), max(0, int(l.Ran/rationProbe)-1))] // the first was to warm up
	if len(points) == 0 {
		return
	}
	var cores, times []float64
	for _, at := range points {
		cores, times = append(cores, float64(at.Cores)), append(times, at.Iteration.Seconds())
	}
	to.Add(synergy.Cores, cores...)
	to.Add(synergy.Iteration, times...)
	to.Add(synergy.Iterations, rationEpoch)
	if dataset, disk := reads(g); disk > 0 {
		to.Add(synergy.Dataset, float64(dataset)*float64(gpus))
		to.Add(synergy.Disk, disk*float64(gpus))
	}
}

// reads is the bytes that an epoch of a job reads, and the bytes a second that the disk
// gives it, both for each of its GPUs. The two smallest amounts of memory of its grid
// tell them. Both are 0 where memory is worth nothing.
func reads(g *perf.Grid) (dataset unit.Bytes, disk float64) {
	if g == nil || len(g.Memory) < 2 {
		return 0, 0
	}
	last := g.Rates[len(g.CPUs)-1]
	m1, m2, r1, r2 := float64(g.Memory[0]), float64(g.Memory[1]), last[0], last[1]
	if r2 <= r1 {
		return 0, 0
	}
	all := (m2*r2 - m1*r1) / (r2 - r1)
	return unit.Bytes(all), (all - m1) * r1 / rationEpoch
}
