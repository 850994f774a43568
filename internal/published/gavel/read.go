package gavel

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// workload is a trace: the jobs, and what the published code computes with.
type workload struct {
	jobs  harness.Jobs
	facts []facts
}

// facts is what is known of a job, by number, which is also its name.
type facts struct {
	model   string
	arrives float64 // seconds
	steps   int64
	gpus    int
	weight  float64
	speed   []float64 // by type: steps per second
}

const maxSteps = 1_000_000_000_000_000

// readSpeeds reads measured throughputs.
func readSpeeds(path string) (*perf.Table, error) { return trace.ReadThroughputs(path, "v100") }

// readTrace reads a trace: lines of ten fields, separated by tabs, without a header,
// in order of arrival.
func readTrace(path string, speeds *perf.Table, m *machine) (*workload, error) {
	text, err := harness.ReadFile(path)
	if err != nil {
		return nil, err
	}
	w := &workload{}
	demands := map[int]*job.Demand{}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		f, err := readJob(strings.Split(strings.TrimSuffix(line, "\r"), "\t"), speeds, m)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, i+1, err)
		}
		if i > 0 && f.arrives < w.facts[i-1].arrives {
			return nil, fmt.Errorf("%s, line %d: arrives before the job ahead of it", path, i+1)
		}
		if demands[f.gpus] == nil {
			d := job.GPUs(f.gpus)
			demands[f.gpus] = &d
		}
		w.facts = append(w.facts, f)
		w.jobs = append(w.jobs, trace.Entry{
			Job: job.Job{
				ID: job.ID(i), Key: strconv.Itoa(i), Name: f.model, Submit: nanos(f.arrives), Demand: demands[f.gpus], Retries: -1,
			},
			Truth: trace.Truth{Work: harness.Seconds(harness.MaxSeconds)}, // the clock ends it
		})
	}
	return w, nil
}

// readJob reads one job: type, command, folder, argument, data, steps, GPUs, weight,
// SLO, arrival.
func readJob(v []string, speeds *perf.Table, m *machine) (f facts, err error) {
	if len(v) != 10 {
		return f, fmt.Errorf("has %d fields, there should be 10", len(v))
	}
	var err1, err2, err3, err4 error
	f.model = v[0]
	f.steps, err1 = strconv.ParseInt(v[5], 10, 64)
	f.gpus, err2 = strconv.Atoi(v[6])
	f.weight, err3 = strconv.ParseFloat(v[7], 64)
	f.arrives, err4 = strconv.ParseFloat(v[9], 64)
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return f, err
	}
	if f.steps < 1 || f.steps > maxSteps || f.gpus < 1 || f.gpus > maxGPUs || !(f.weight > 0) || !(f.arrives >= 0 && f.arrives <= harness.MaxSeconds) {
		return f, fmt.Errorf("%d steps on %d GPUs with weight %v from %v on is out of range", f.steps, f.gpus, f.weight, f.arrives)
	}
	for _, t := range m.types {
		rate, ok := speeds.Rate(perf.Measured{Job: f.model, GPUs: f.gpus, Type: t.name})
		if !ok {
			return f, fmt.Errorf("no speed of %q on %d GPUs of type %s was measured", f.model, f.gpus, t.name)
		}
		f.speed = append(f.speed, rate)
	}
	return f, nil
}

// machine is a cluster: types in the order of their names, as the published code
// sorts them.
type machine struct{ types []gpuType }

type gpuType struct {
	name string
	gpus int
}

// maxGPUs bounds the GPUs of a type.
const maxGPUs = 1_000_000

// readMachine reads V100:P100:K80=12:12:12.
func readMachine(name string) (*machine, error) {
	fail := func() (*machine, error) {
		return nil, harness.Unknown("cluster of gavel", name, []string{"types=GPUs, as in V100:P100:K80=12:12:12"})
	}
	types, counts, ok := strings.Cut(name, "=")
	names, numbers := strings.Split(types, ":"), strings.Split(counts, ":")
	if !ok || len(names) != len(numbers) {
		return fail()
	}
	m := &machine{}
	for i := range names {
		n, ok := harness.Digits(numbers[i])
		if !ok || n > maxGPUs || names[i] == "" {
			return fail()
		}
		if n > 0 {
			m.types = append(m.types, gpuType{strings.ToLower(names[i]), int(n)})
		}
	}
	slices.SortFunc(m.types, func(a, b gpuType) int { return strings.Compare(a.name, b.name) })
	if len(m.types) == 0 || len(m.types) > 60 {
		return fail()
	}
	return m, nil
}

// build makes a node of each type: where a job sits makes no difference.
func (m *machine) build() (*cluster.Cluster, error) {
	c := cluster.New()
	for _, t := range m.types {
		id, err := c.AddType(cluster.GPUType{Name: t.name})
		if err != nil {
			return nil, err
		}
		if _, err := c.AddNode(cluster.NodeSpec{Name: t.name, Pooled: true, GPUs: []cluster.GPUs{{Type: id, Count: t.gpus}}}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// nanos is a time in seconds as the engine counts.
func nanos(s float64) time.Duration { return time.Duration(s*1e9 + 0.5) }
