package gen

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// Datacenter says what workload is wanted of a cluster that trains, tunes, serves and computes
// graphs, all at once.
//
//   - Services have a part of the GPUs (Serving), one for each instance. They have as many
//     instances as those of Alibaba's recommendation services, cut to what there is, 8 cores and
//     a latency target. Four in ten instances are there from eight in the morning to eight in
//     the evening alone; the others always. What they use of their GPUs is that of Services.
//   - Training jobs are like Philly's, at most a day long, and train models whose need of cores
//     was measured (DefaultMix).
//   - Fine-tuning jobs are those of FineTuning.
//   - Graph jobs train on graphs whose batches processors sample. They tell the cores that they
//     need for each GPU.
//
// Load is what the last three demand of the GPUs that services do not have at night, in the
// proportion of Parts.
//
// Sources: alibaba_dlrm2025 (156 services; deciles of their instances on GPUs; 8 cores for each
// GPU in the median), the Philly log, Titan's and Ymir's tables (FineTuning), Synergy's profiles.
// How services follow the day is in the spirit of Lyra's lender (42 % of its nodes in use before
// dawn, 95 % in the afternoon). Shares of kinds, the sizes and times of graph jobs and the cores
// that they need are ours: no published trace has all four kinds.
type Datacenter struct {
	GPUs    int           // of the cluster; 0: 128
	Span    time.Duration // from the first to the last submission; 0: three days
	Load    float64       // 0: 0.9
	Serving float64       // part of the GPUs, 0 to 1; 0: 0.25
	Parts   [3]float64    // training, fine-tuning, graphs, of what they demand together; zero: 0.65, 0.2, 0.15
	Target  float64       // latency of services over that alone; 0: 1.2
	Seed    uint64
}

const (
	servingCores = 8 * unit.One // of an instance
	dayShare     = 0.4          // of the instances, which are there by day alone
	dayStart     = 8 * time.Hour
	dayLength    = 12 * time.Hour
)

// instancesDLRM are the deciles of the numbers of instances on GPUs of 156 services.
var instancesDLRM = [11]float64{1, 2, 4, 6, 10, 15, 26, 42, 70, 127, 660}

func (o *Datacenter) check() error {
	o.GPUs, o.Span, o.Load = cmp.Or(o.GPUs, 128), cmp.Or(o.Span, 3*day), cmp.Or(o.Load, 0.9)
	o.Serving, o.Target = cmp.Or(o.Serving, 0.25), cmp.Or(o.Target, 1.2)
	if o.Parts == [3]float64{} {
		o.Parts = [3]float64{0.65, 0.2, 0.15}
	}
	switch {
	case o.GPUs < 8 || o.GPUs > maxGPUs:
		return fmt.Errorf("generator: a data centre of %d GPUs; it has 8 or more", o.GPUs)
	case o.Span < 0 || o.Span > longest:
		return fmt.Errorf("generator: a span of %v", o.Span)
	case !(o.Load > 0 && o.Load <= 1000):
		return fmt.Errorf("generator: a load of %v: write a number above 0, such as 0.9", o.Load)
	case !(o.Serving > 0 && o.Serving < 1):
		return fmt.Errorf("generator: services on a part of %v of the GPUs: write a number between 0 and 1", o.Serving)
	case !(o.Target >= 1):
		return fmt.Errorf("generator: a latency target of %v times the latency alone", o.Target)
	}
	return nil
}

// NewDatacenter makes the workload, in order of submission. It fails on numbers that make no sense.
func NewDatacenter(o Datacenter) ([]trace.Entry, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	out, always := o.services()
	left := o.GPUs - always
	training, err := o.training(left)
	if err != nil {
		return nil, err
	}
	tuning, err := o.tuning(left)
	if err != nil {
		return nil, err
	}
	out = append(append(append(out, training...), tuning...), o.graphs(left)...)
	slices.SortStableFunc(out, func(a, b trace.Entry) int { return cmp.Compare(a.Job.Submit, b.Job.Submit) })
	for i := range out {
		out[i].Job.ID = job.ID(i)
	}
	return out, nil
}

// services are the instances, and how many of them are always there.
func (o *Datacenter) services() (out []trace.Entry, always int) {
	rng := rand.New(rand.NewPCG(o.Seed, 0x73657276))
	of := Services{Seed: o.Seed, Memory: 32 * unit.GiB}.withDefaults()
	all := max(1, int(math.Round(o.Serving*float64(o.GPUs))))
	d := job.GPUs(1)
	d.Roles[0].CPU, d.Where = servingCores, "!lender" // nodes that go back hold no service
	days := int(o.Span/day) + 1
	for service, made := 1, 0; made < all; service++ {
		at := 9 * rng.Float64() // no service has more than nine tenths of all have
		instances := int(math.Ceil(instancesDLRM[int(at)] + (at-math.Floor(at))*(instancesDLRM[int(at)+1]-instancesDLRM[int(at)])))
		instances = min(instances, max(1, all/4), all-made)
		for k := range instances {
			hints := of.hints(rng)
			hints.Latency = o.Target
			e := trace.Entry{
				Job: job.Job{
					Key: fmt.Sprintf("service-%d-%d", service, k+1), Name: fmt.Sprintf("service-%d", service), User: "online", Tenant: "online",
					Demand: &d, Kind: job.Inference, Stop: job.Pinned, Priority: 1, Hints: &hints,
				},
				Truth: trace.Truth{Work: time.Duration(days+1) * day},
			}
			if float64(k) < math.Floor((1-dayShare)*float64(instances)+0.5) {
				always++
				out = append(out, e)
				continue
			}
			for at := range days {
				e.Job.Submit, e.Truth.Work = time.Duration(at)*day+dayStart, dayLength
				one := e
				one.Job.Key += fmt.Sprintf("-day-%d", at+1)
				out = append(out, one)
			}
		}
		made += instances
	}
	return out, always
}

// training are the training jobs beside so many GPUs of services.
func (o *Datacenter) training(gpus int) ([]trace.Entry, error) {
	src, err := New(Options{Like: Philly, Seed: o.Seed, GPUs: gpus, Load: o.Load * o.Parts[0], Span: o.Span, MaxGPUs: min(32, gpus/2), MaxRun: day})
	if err != nil {
		return nil, err
	}
	use := &AssumedUse{Source: src, Seed: o.Seed}
	return readAll(&AssumedRations{Source: use, Seed: o.Seed, Grids: perf.MeasuredGrids()}, "train-")
}

// readAll reads a source; keys are given a prefix.
func readAll(src trace.Source, prefix string) (out []trace.Entry, err error) {
	for {
		var e trace.Entry
		if err := src.Next(&e); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		e.Job.Key = prefix + cmp.Or(e.Job.Key, strconv.Itoa(int(e.Job.ID)))
		out = append(out, e)
	}
}

// tuning are the fine-tuning jobs. They are spread evenly over the span; of a workload whose load
// is that of the part, those come that are submitted within it.
func (o *Datacenter) tuning(gpus int) ([]trace.Entry, error) {
	load := o.Load * o.Parts[1] / BaseLoad
	if load <= 0 {
		return nil, nil
	}
	for jobs := 64; ; jobs *= 2 {
		w, err := NewFineTuning(FineTuning{Jobs: jobs, GPUs: gpus, NodeGPUs: 8, Load: load, Seed: o.Seed})
		if err != nil {
			return nil, err
		}
		if w.Span < o.Span {
			continue
		}
		at, _ := slices.BinarySearchFunc(w.Entries, o.Span, func(e trace.Entry, t time.Duration) int { return cmp.Compare(e.Job.Submit, t) })
		entries := w.Entries[:at]
		for i := range entries {
			entries[i].Job.User, entries[i].Job.Tenant = "tuning", "tuning"
		}
		return readAll(&AssumedUse{Source: trace.FromMemory(entries), Seed: o.Seed + 1}, "tune-")
	}
}

// sizesGraph are the shares of graph jobs of 1, 2, 4 and 8 GPUs.
var sizesGraph = [...]float64{0.5, 0.2, 0.2, 0.1}

const (
	graphMedian    = 3600. // seconds
	graphDeviation = 1.2   // of its logarithm
	graphCores     = 4.    // the fewest cores for each GPU
	graphSpread    = 8.    // the most over the fewest, between which the logarithm is uniform
)

// graphs are the jobs that train on graphs.
func (o *Datacenter) graphs(gpus int) (out []trace.Entry) {
	rng := rand.New(rand.NewPCG(o.Seed, 0x6772617068))
	var shapes job.Interner
	demanded := o.Load * o.Parts[2] * float64(gpus) * o.Span.Seconds() // GPU-seconds
	for i := 0; demanded > 0; i++ {
		n := min(1<<drawn(rng, sizesGraph[:]), gpus)
		run := math.Round(min(day.Seconds(), max(60, graphMedian*math.Exp(graphDeviation*rng.NormFloat64()))))
		cores := unit.Milli(math.Round(graphCores*math.Pow(graphSpread, rng.Float64())*2) * 500)
		use, bandwidth, memory := drawUse(rng)
		out = append(out, trace.Entry{
			Job: job.Job{
				Key: fmt.Sprintf("graph-%d", i+1), Name: fmt.Sprintf("graphsage-%d", n), User: "graphs", Tenant: "graphs", Model: "graphsage",
				Submit: time.Duration(rng.Float64() * float64(o.Span)).Truncate(time.Second), Demand: shapes.Get(job.GPUs(n)), Kind: job.Graph,
				Hints: &job.Hints{GPUUse: use, MemoryUse: bandwidth, GPUMemory: memory, CPUPerGPU: cores},
			},
			Truth: trace.Truth{Work: time.Duration(run) * time.Second},
		})
		demanded -= float64(n) * run
	}
	return out
}
