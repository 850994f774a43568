package gen

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// Services is how online services use their GPUs.
//
// Each has a mean use of the multiprocessors of its own, uniform from 0 to
// twice Use. By the hour it follows a sine of a day between Low and 2 - Low
// times that mean. Neighbours in a list peak at about the same time of the day,
// within Apart. In each step of five minutes that is multiplied by a factor
// around 1 of log-normal spread Noise; in one of Bursts steps the first minute
// of it has Burst times as much.
type Services struct {
	Services int
	For      time.Duration // that each runs
	Seed     uint64
	Use      float64 // mean use of the multiprocessors, 0 to 1; 0: 0.16
	Low      float64 // part of its mean at night; 0: 0.4
	Apart    time.Duration
	Noise    float64 // 0: 0.1
	Burst    float64 // 0: 2
	Bursts   int     // 0: 200, one or two bursts a day
	Memory   unit.Bytes
}

// withDefaults fills what is zero.
func (s Services) withDefaults() Services {
	or := func(x *float64, other float64) {
		if *x <= 0 {
			*x = other
		}
	}
	or(&s.Use, 0.16)
	or(&s.Low, 0.4)
	or(&s.Noise, 0.1)
	or(&s.Burst, 2)
	if s.Apart == 0 {
		s.Apart = 3 * time.Hour
	}
	if s.Bursts <= 0 {
		s.Bursts = 200
	}
	if s.Memory <= 0 {
		s.Memory = 24 * unit.GiB
	}
	return s
}

const (
	loadStep  = 5 * time.Minute
	burstTime = time.Minute
	day       = 24 * time.Hour
)

// Load is how the demand of services changes with time, as a simulated world needs it.
// It is a function of the seed, the service's key and the time.
type Load struct{ of Services }

// Load is how the demand of the services changes with time.
func (s Services) Load() Load { return Load{s.withDefaults()} }

// At is by what the mean demand of a service is multiplied at a moment, and until when.
func (l Load) At(j *job.Job, now time.Duration) (times float64, until time.Duration) {
	if j.Kind != job.Inference {
		return 1, unit.Never
	}
	s := &l.of
	own := hash(j.Key) ^ s.Seed
	step := now / loadStep
	rng := rand.New(rand.NewPCG(own, uint64(step)+1))
	phase := float64(own>>11) / (1 << 53) * s.Apart.Seconds()
	at := (step * loadStep).Seconds() + phase
	times = 1 + (1-s.Low)*math.Sin(2*math.Pi*at/day.Seconds())
	times *= math.Exp(s.Noise * rng.NormFloat64())
	until = (step + 1) * loadStep
	if rng.IntN(s.Bursts) == 0 {
		if start := step * loadStep; now < start+burstTime {
			return times * s.Burst, start + burstTime
		}
	}
	return times, until
}

// hints draws what a service uses of its GPU, on average.
func (s *Services) hints(rng *rand.Rand) job.Hints {
	return job.Hints{
		GPUUse: max(0.01, 2*s.Use*rng.Float64()), MemoryUse: 0.3 * rng.Float64(),
		GPUMemory: unit.Bytes((0.24 + 0.36*rng.Float64()) * float64(s.Memory)), // 42 % on average
	}
}

// AssumedServices is a trace with services on GPUs of the cluster from the start, before
// the jobs of a source: jobs of kind job.Inference that are never stopped, each of which
// holds a GPU. Jobs of the source are left as they are.
type AssumedServices struct {
	Source trace.Source
	Of     Services
	Jobs   int // services so far
	demand *job.Demand
}

// Next implements trace.Source.
func (a *AssumedServices) Next(e *trace.Entry) error {
	if a.Jobs == a.Of.Services {
		err := a.Source.Next(e)
		if err == nil {
			e.Job.ID += job.ID(a.Jobs)
		}
		return err
	}
	if a.demand == nil {
		if a.Of.For <= 0 {
			return errors.New("services: how long they run is not told")
		}
		d := job.GPUs(1)
		a.demand, a.Of = &d, a.Of.withDefaults()
	}
	rng := rand.New(rand.NewPCG(a.Of.Seed, uint64(a.Jobs)))
	hints := a.Of.hints(rng)
	*e = trace.Entry{Job: job.Job{
		ID: job.ID(a.Jobs), Key: fmt.Sprintf("service-%d", a.Jobs+1), Name: "service", Demand: a.demand, Kind: job.Inference, Stop: job.Pinned,
		Hints: &hints,
	}, Truth: trace.Truth{Work: a.Of.For}}
	a.Jobs++
	return nil
}
