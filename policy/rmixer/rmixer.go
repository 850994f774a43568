// Package rmixer is the scheduler of Tian et al., "Sophisticated Orchestrating
// Concurrent DLRM Training on CPU/GPU Platform", IEEE TPDS 35(11), 2024.
// Recommendation models leave most of a GPU idle. So several of them run on one
// at a time, chosen so that they need different things of it, and some run on
// the processors instead.
//
// Nouns:
//   - A device is a GPU, or a part of a node's processors (a host device,
//     cluster.GPUType.Host). It has workers, each of which runs one job.
//   - Use is how much of a GPU a job keeps busy when alone, in percent.
//   - The class of a job is 1 (compute-intensive), 0 (memory-intensive) or -1
//     (neither).
//   - Booked memory is the estimate of a job's peak times a factor.
//   - A batch is the jobs that come within a window and are put in order
//     together.
//   - The list is the jobs of all closed batches that wait, in order. Its tail
//     is the part from which processors may take.
//   - A gang is a job of several tasks or devices, which is not of the model of
//     the paper: it runs alone on whole GPUs.
//
// Units: use in percent, memory in bytes, in settings MiB.
//
// Sources: the paper is known by its abstract; the algorithm is that of the
// authors' code (Gardenia-Tian/RMixer, MIT) and of its recorded run. CoGNN's BMC
// (SC 2022), monolithic and MPS execution are the baselines of the authors.
// docs/policies/rmixer.md says what is from where.
package rmixer

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/policy/rmixer/memory"
	"github.com/norn-scheduler/norn/sched"
)

// JobPolicy is which job a device takes next.
type JobPolicy uint8

// The job policies.
const (
	DyMix      JobPolicy = iota // most use first, of another class than most that run there; processors take from the tail
	DyType                      // most memory first, of another class than most that run there
	DyArin                      // most and least use in turn
	DyMemo                      // most and least memory in turn
	DySequ                      // by class, most memory first
	DyRand                      // in random order
	Static                      // as DyType, in rounds
	CoGNN                       // most and least memory in turn, in rounds (BMC)
	Monolithic                  // in order of arrival, one job on each GPU
	MPS                         // in order of arrival, in rounds
	DyPair                      // most use first; of some from all over the list, the one with which all run fastest as is believed; processors take from the tail
)

// DevicePolicy is which device takes a job next; GPUs go before host devices.
type DevicePolicy uint8

// The device policies.
const (
	LeastBooked DevicePolicy = iota // dyMix: the least memory booked
	MostFree                        // dyMemo: the most memory not booked
	FewestJobs                      // dyWork
	LeastUse                        // dyArin: the least use of its jobs together
	InOrder                         // dySequ: the first with a free worker
)

// Config is the settings of the policy.
type Config struct {
	Jobs       JobPolicy
	Devices    DevicePolicy
	GPUWorkers int
	CPUWorkers int
	Beta       float64
	Factor     float64 // booked over estimated memory
	Context    int     // MiB

	ShapeFactor float64 // the same, where it is estimated from the shapes of layers

	Idle    int // MiB
	Guard   int // MiB
	Window  time.Duration
	Batch   int // 0: no limit
	Unknown float64
	Track   bool
	Seed    int
	Look    int // jobs that DyPair chooses from
	Place   place.Strategy
}

// NewConfig returns the defaults: those of the authors' code, but for a window of 30 s
// and for beta, which is 2 there and 4 in their recorded run.
func NewConfig() *Config {
	return &Config{
		GPUWorkers: 4, CPUWorkers: 2, Beta: 3.5, Factor: 1.2, ShapeFactor: 2, Context: int(perf.Context / unit.MiB), Idle: 308, Guard: 1000,
		Window: 30 * time.Second, Unknown: intensive, Track: true, Look: 32, Place: place.Pack,
	}
}

// intensive is the use from which on a job is compute-intensive.
const intensive = 15

// Params binds the settings.
func (c *Config) Params() param.Set {
	jobs := []param.Option[JobPolicy]{
		{Name: "dyMix", Value: DyMix}, {Name: "dyType", Value: DyType}, {Name: "dyArin", Value: DyArin}, {Name: "dyMemo", Value: DyMemo}, {Name: "dySequ", Value: DySequ},
		{Name: "dyRand", Value: DyRand}, {Name: "static", Value: Static}, {Name: "cognn", Value: CoGNN}, {Name: "monolithic", Value: Monolithic}, {Name: "mps", Value: MPS},
		{Name: "dyPair", Value: DyPair},
	}
	devices := []param.Option[DevicePolicy]{
		{Name: "dyMix", Value: LeastBooked}, {Name: "dyMemo", Value: MostFree}, {Name: "dyWork", Value: FewestJobs}, {Name: "dyArin", Value: LeastUse}, {Name: "dySequ", Value: InOrder},
	}
	return param.Set{
		param.Choice("job-policy", &c.Jobs, jobs, "which job a device takes next"),
		param.Choice("device-policy", &c.Devices, devices, "which device takes a job next: least or most free booked memory, fewest jobs, least use, first"),
		param.Int("gpu-workers", &c.GPUWorkers, 1, maxWorkers, "jobs", "jobs on one GPU at a time"),
		param.Int("cpu-workers", &c.CPUWorkers, 0, maxWorkers, "jobs", "jobs on one host device at a time; 0: none run on processors"),
		param.Float("beta", &c.Beta, 0, 1e6, "ratio", "processors take no more jobs when at most this many times the workers of all GPUs are left of them"),
		param.Float("mem-factor", &c.Factor, 1, 100, "ratio", "booked over estimated memory"),
		param.Float("shape-factor", &c.ShapeFactor, 1, 100, "ratio", "booked over estimated memory of jobs of which nothing but the shapes of their layers is known"),
		param.Int("context-mb", &c.Context, 1, 1<<20, "MiB", "what CUDA and the framework take in each process, for estimates made from the shape of a model"),
		param.Int("worker-idle-mb", &c.Idle, 0, 1<<20, "MiB", "memory of an idle worker: no less than this for each is booked on a GPU"),
		param.Int("guard-mb", &c.Guard, 0, 1<<30, "MiB", "a GPU on which more than this beyond what is booked was measured takes no job"),
		param.Duration("batch-window", &c.Window, "how long a batch collects jobs from its first on"),
		param.Int("batch-size", &c.Batch, 0, 1<<30, "jobs", "number of jobs with which a batch is closed at once; 0: only by time"),
		param.Float("unknown-use", &c.Unknown, 0, 100, "percent", "use of jobs about which neither the trace nor the table of models tells anything, until it is measured"),
		param.Bool("track", &c.Track, "measure the use of jobs about which nothing is known"),
		param.Int("seed", &c.Seed, 0, 1<<30, "", "of dyRand"),
		param.Int("look", &c.Look, 1, 1<<20, "jobs", "how many jobs that fit dyPair chooses from, from all over the list"),
		place.Param(&c.Place),
	}
}

// maxWorkers keeps the share of a worker at a thousandth of a device or more.
const maxWorkers = 100

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Use), fmt.Sprintf("a job of an unknown model is taken to keep %g %% of a GPU busy until it is measured", c.Unknown)).
		And(need.Of(need.Memory), "the memory of a job of an unknown model is not known until it has run out").
		If(c.CPUWorkers > 0, need.Of(need.Processors), "all jobs run on GPUs")
}

// Policy makes the policy. It fails when a batch would be closed neither by time nor
// by number.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Window == unit.Never && c.Batch == 0 {
		return nil, errors.New("batch-window=never needs a batch-size: no batch would ever be closed")
	}
	r := &policy{cfg: *c, models: memory.Models(), byName: map[string]*memory.Model{}}
	if c.Jobs == Monolithic {
		r.cfg.GPUWorkers, r.cfg.CPUWorkers = 1, 0
	}
	if c.Jobs == MPS {
		r.cfg.CPUWorkers = 0
	}
	return r, nil
}

// rounds tells whether all devices are filled at once, and again when all jobs
// have ended.
func (p JobPolicy) rounds() bool { return p == Static || p == CoGNN || p == MPS }

// alternates tells whether a device takes jobs from both ends of the list in turn.
func (p JobPolicy) alternates() bool { return p == DyArin || p == DyMemo || p == CoGNN }

// tails tells whether processors take jobs from the tail of the list only.
func (p JobPolicy) tails() bool { return p == DyMix || p == DyPair }

// complements tells whether a device takes jobs of another class than most that
// run there.
func (p JobPolicy) complements() bool { return p == DyMix || p == DyType || p == Static }
