package rmixer_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/rmixer"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
)

// The oracle is section 3 of the specification as it stands: lists that are sorted and
// walked, counters that are counted up and down, no index. All jobs come at 0.
type (
	oracle struct {
		cfg   rmixer.Config
		jobs  []*oracleJob // in order
		devs  []*oracleDevice
		ended int
		now   float64
	}
	oracleJob struct {
		key        string
		memory     float64 // MiB
		use        float64
		class      int
		gpu, cpu   float64 // run times; cpu 0: not there
		assigned   bool
		start, end float64
		device     int
		front      bool
	}
	oracleDevice struct {
		host    bool
		workers int
		running []*oracleJob
		high    int
		low     int
	}
)

const gpuMemory = 16160.0

func (d *oracleDevice) used() float64 {
	sum := 0.0
	for _, j := range d.running {
		sum += math.Ceil(1.2*j.memory*(1<<20)) / (1 << 20)
	}
	if d.host {
		return sum
	}
	return max(sum, 308*float64(d.workers))
}

// executable is whether a job can start on a device.
func (d *oracleDevice) executable(j *oracleJob) bool {
	if len(d.running) >= d.workers || d.host && j.cpu == 0 {
		return false
	}
	return d.host || math.Ceil(1.2*j.memory*(1<<20))/(1<<20)+d.used() < gpuMemory
}

// count is how many jobs of a class run on a device.
func (d *oracleDevice) count(class int) int {
	n := 0
	for _, j := range d.running {
		if j.class == class {
			n++
		}
	}
	return n
}

// order sorts the batch.
func (o *oracle) order() {
	slices.SortStableFunc(o.jobs, func(a, b *oracleJob) int {
		switch o.cfg.Jobs {
		case rmixer.DyMix, rmixer.DyArin:
			return -cmp.Compare(a.use, b.use)
		case rmixer.DyType, rmixer.DyMemo, rmixer.Static, rmixer.CoGNN:
			return -cmp.Compare(a.memory, b.memory)
		case rmixer.DySequ:
			return cmp.Or(-cmp.Compare(a.class, b.class), -cmp.Compare(a.memory, b.memory))
		}
		return 0
	})
}

// next is the job that a device takes, and whether from the front.
func (o *oracle) next(d *oracleDevice) (pick *oracleJob, front bool) {
	scan := func(back bool, fits func(int, *oracleJob) bool) *oracleJob {
		for n := range o.jobs {
			i := n
			if back {
				i = len(o.jobs) - 1 - n
			}
			if j := o.jobs[i]; !j.assigned && d.executable(j) && fits(i, j) {
				return j
			}
		}
		return nil
	}
	every := func(int, *oracleJob) bool { return true }
	switch o.cfg.Jobs {
	case rmixer.DyMix, rmixer.DyType, rmixer.Static:
		if o.cfg.Jobs == rmixer.DyMix && d.host {
			g, c := o.workers(false), o.workers(true)
			if float64(o.ended) >= float64(len(o.jobs))-o.cfg.Beta*float64(g) {
				return nil, false
			}
			last := -1
			j := scan(true, func(i int, _ *oracleJob) bool { last = i; return true })
			if j == nil || last*(g+c) < g*len(o.jobs) {
				return nil, false
			}
			return j, false
		}
		most := 1
		for _, c := range []int{0, -1} {
			if d.count(c) > d.count(most) {
				most = c
			}
		}
		if j := scan(false, func(_ int, j *oracleJob) bool { return j.class != most }); j != nil {
			return j, false
		}
	case rmixer.DyArin, rmixer.DyMemo, rmixer.CoGNN:
		if d.high > d.low {
			return scan(true, every), false
		}
		return scan(false, every), true
	}
	return scan(false, every), false
}

func (o *oracle) workers(host bool) int {
	n := 0
	for _, d := range o.devs {
		if d.host == host {
			n += d.workers
		}
	}
	return n
}

// rank is the place of a device, least first.
func (o *oracle) rank(d *oracleDevice) float64 {
	switch o.cfg.Devices {
	case rmixer.FewestJobs:
		return float64(len(d.running))
	case rmixer.LeastUse:
		sum := 0.0
		for _, j := range d.running {
			sum += math.Round(1000 * j.use)
		}
		return sum
	case rmixer.InOrder:
		return 0
	}
	return d.used() // most free is least used on equal devices
}

// dispatch starts jobs until no device takes one.
func (o *oracle) dispatch() {
	for {
		type choice struct {
			at int
			d  *oracleDevice
		}
		var order []choice
		for i, d := range o.devs {
			if len(d.running) < d.workers {
				order = append(order, choice{i, d})
			}
		}
		slices.SortStableFunc(order, func(a, b choice) int {
			if a.d.host != b.d.host {
				if a.d.host {
					return 1
				}
				return -1
			}
			return cmp.Compare(o.rank(a.d), o.rank(b.d))
		})
		var j *oracleJob
		var front bool
		for _, c := range order {
			if j, front = o.next(c.d); j != nil {
				j.device = c.at
				break
			}
		}
		if j == nil {
			return
		}
		d := o.devs[j.device]
		j.assigned, j.start, j.end, j.front = true, o.now, o.now+j.gpu, front
		if d.host {
			j.end = o.now + j.cpu
		}
		if d.running = append(d.running, j); front {
			d.high++
		} else {
			d.low++
		}
	}
}

// run plays the batch to its end.
func (o *oracle) run() {
	o.order()
	rounds := o.cfg.Jobs == rmixer.Static || o.cfg.Jobs == rmixer.CoGNN || o.cfg.Jobs == rmixer.MPS
	for {
		busy := slices.ContainsFunc(o.devs, func(d *oracleDevice) bool { return len(d.running) > 0 })
		if !rounds || !busy {
			o.dispatch()
		}
		next := math.Inf(1)
		for _, d := range o.devs {
			for _, j := range d.running {
				next = min(next, j.end)
			}
		}
		if math.IsInf(next, 1) {
			return
		}
		o.now = next
		for _, d := range o.devs {
			d.running = slices.DeleteFunc(d.running, func(j *oracleJob) bool {
				if j.end != next {
					return false
				}
				if j.front {
					d.high--
				} else {
					d.low--
				}
				o.ended++
				return true
			})
		}
	}
}

// TestOracle compares every job and device policy with the oracle on random batches.
func TestOracle(outer *testing.T) {
	for range 10 { // a thousand batches
		againstOracle(outer)
	}
}

func againstOracle(outer *testing.T) {
	models := []struct {
		name  string
		class int
	}{{"difm", 1}, {"widedeep", 1}, {"dmr", 1}, {"dien", 0}, {"bst", 0}, {"dcn", -1}, {"din", -1}}
	rapid.Check(outer, func(t *rapid.T) {
		cfg := *rmixer.NewConfig()
		cfg.Jobs = rapid.SampledFrom([]rmixer.JobPolicy{rmixer.DyMix, rmixer.DyMix, rmixer.DyType, rmixer.DyArin, rmixer.DyMemo, rmixer.DySequ, rmixer.Static, rmixer.CoGNN, rmixer.MPS}).Draw(t, "jobs")
		cfg.Devices = rapid.SampledFrom([]rmixer.DevicePolicy{rmixer.LeastBooked, rmixer.MostFree, rmixer.FewestJobs, rmixer.LeastUse, rmixer.InOrder}).Draw(t, "devices")
		cfg.GPUWorkers, cfg.Beta, cfg.Window = rapid.IntRange(1, 4).Draw(t, "workers"), float64(rapid.IntRange(0, 3).Draw(t, "beta")), 0
		gpus, host := rapid.IntRange(1, 3).Draw(t, "gpus"), cfg.Jobs == rmixer.DyMix && rapid.Bool().Draw(t, "host")
		o := oracle{cfg: cfg}
		for range gpus {
			o.devs = append(o.devs, &oracleDevice{workers: cfg.GPUWorkers})
		}
		if host {
			o.devs = append(o.devs, &oracleDevice{host: true, workers: cfg.CPUWorkers})
		}
		var ones []one
		for i := range rapid.IntRange(1, 30).Draw(t, "batch") {
			m := rapid.SampledFrom(models).Draw(t, "model")
			j := &oracleJob{
				key: fmt.Sprint(i), memory: float64(rapid.IntRange(1, 8).Draw(t, "memory") * 1000), use: float64(rapid.IntRange(1, 60).Draw(t, "use")),
				class: m.class, gpu: float64(rapid.IntRange(1, 9).Draw(t, "gpu")), cpu: float64(rapid.IntRange(0, 20).Draw(t, "cpu")),
			}
			o.jobs = append(o.jobs, j)
			ones = append(ones, one{key: j.key, model: m.name, run: j.gpu, cpu: j.cpu, memory: int64(j.memory), use: j.use / 100})
		}
		all := slices.Clone(o.jobs)
		o.run()
		r, err := simtest.Try(simtest.Config{
			Cluster: node(outer, 1, gpus, int64(gpuMemory), host), Shared: true, Make: config(func(c *rmixer.Config) { *c = cfg }),
			World: func(c *sim.Config) { c.Source = trace.FromMemory(entries(ones)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range all {
			rec := r.Record(j.key)
			if rec.Phase != job.Done || math.Abs(r.Start(j.key)-j.start) > 1e-6 || math.Abs(r.End(j.key)-j.end) > 1e-6 {
				t.Fatalf("policy %d, %d: job %s from %v to %v, the oracle says %v to %v on device %d", cfg.Jobs, cfg.Devices, j.key, r.Start(j.key), r.End(j.key), j.start, j.end, j.device)
			}
		}
	})
}
