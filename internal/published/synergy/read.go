package synergy

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// machine is a cluster of equal servers.
type machine struct{ servers, gpus, cpus, memory, disk int }

// readMachine reads "4x8 GPU, 24 CPU, 500 GB". The disks read 500 MB/s.
func readMachine(text string) (machine, error) {
	m := machine{disk: 500}
	var rest string
	n, err := fmt.Sscanf(strings.ReplaceAll(text, " ", ""), "%dx%dGPU,%dCPU,%dGB%s", &m.servers, &m.gpus, &m.cpus, &m.memory, &rest)
	if n != 4 || err == nil || m.servers < 1 || m.servers > 100_000 || m.gpus < 1 || m.gpus > 64 || m.cpus < 1 || m.cpus > 1_000_000 || m.memory < 1 || m.memory > 1_000_000 {
		return m, harness.Unknown("cluster of synergy", text, []string{`servers, GPUs, CPUs and memory of each, as in "4x8 GPU, 24 CPU, 500 GB"`})
	}
	return m, nil
}

// fair is the vector of a GPU in proportion.
func (m machine) fair() vector {
	g := float64(m.gpus)
	return vector{1, float64(m.cpus) / g, float64(m.memory) / g, float64(m.disk) / g}
}

// profile is what the simulator knows of a model, for each GPU.
type profile struct {
	cpus, memory float64
	speedup      float64 // with these
	iteration    float64 // seconds, in proportion
}

// diskEach is what every model is taken to need of the disk: a slip in the published
// code, which writes the profiled speed to another field.
const diskEach = 500.0 / 8

// profiles are the figures of simulator/models, as the simulator uses them: those of
// one GPU for any number of them.
var profiles = map[string]profile{
	"alexnet": {12, 125, 2.94, 0.6}, "res18": {9, 62.5, 2.4, 0.64}, "res50": {4, 62.5, 1.15, 0.78}, "mobilenet": {6, 62.5, 1.55, 0.71},
	"shufflenet": {12, 125, 2.89, 0.615}, "gnmt": {1, 20, 1, 0.12}, "transformer": {1, 20, 1, 0.67}, "lstm": {1, 20, 1, 0.011},
	"m5": {6, 187.5, 2.5, 0.6}, "deepspeech": {3, 62.5, 1, 0.757},
}

// otherModel is what a job of an unknown model is taken to be.
const otherModel = "alexnet"

// workload is a trace.
type workload struct {
	jobs   harness.Jobs
	tasks  []*task // by number
	lines  []int32 // the place in the file of each
	static bool    // all jobs are there at the start
}

// readTrace reads a trace: five fields a line and no header, number, model, arrival
// in seconds, iterations, GPUs.
func readTrace(path string, m machine) (*workload, error) {
	text, err := harness.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return readText(filepath.Base(path), text, m)
}

func readText(name, text string, m machine) (*workload, error) {
	w := &workload{static: true}
	var shapes job.Interner
	var tasks []*task
	for i, line := range strings.Split(strings.TrimRight(text, "\r\n"), "\n") {
		t, err := readTask(strings.TrimSpace(line), m)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, i+1, err)
		}
		w.static = w.static && t.arrives <= float64(i+1)/1000
		tasks = append(tasks, t)
		w.jobs = append(w.jobs, trace.Entry{
			Job: job.Job{
				Key: t.key, Model: t.model, Submit: nanos(t.arrives), Demand: shapes.Get(job.GPUs(t.gpus)), Retries: -1,
				Units: t.total, Unit: "iterations",
			},
			Truth: trace.Truth{Work: harness.Seconds(harness.MaxSeconds)}, // the loop ends it
		})
	}
	w.lines = w.jobs.Sort()
	for i, line := range w.lines {
		w.tasks = append(w.tasks, tasks[line])
		w.tasks[i].id = job.ID(i)
	}
	return w, nil
}

// inFile are the tasks in the order of the file.
func (w *workload) inFile() []*task {
	out := make([]*task, len(w.tasks))
	for i, line := range w.lines {
		out[line] = w.tasks[i]
	}
	return out
}

// sizes are the gangs that the simulator knows.
var sizes = []int{1, 2, 4, 8, 16}

func readTask(line string, m machine) (*task, error) {
	f := strings.Split(line, ",")
	if len(f) < 5 {
		return nil, fmt.Errorf("%d fields, expected number, model, arrival, iterations and GPUs", len(f))
	}
	t := &task{key: strings.TrimSpace(f[0]), model: f[1], last: -1}
	var err error
	if _, err = strconv.Atoi(t.key); err != nil {
		return nil, fmt.Errorf("%q is not a number of a job", f[0])
	}
	if t.arrives, err = strconv.ParseFloat(strings.TrimSpace(f[2]), 64); err != nil || !(t.arrives >= 0 && t.arrives <= harness.MaxSeconds) {
		return nil, fmt.Errorf("%q is not a time of arrival in seconds", f[2])
	}
	n, err := strconv.ParseInt(strings.TrimSpace(f[3]), 10, 64)
	if err != nil || n < 0 || n > 1e12 {
		return nil, fmt.Errorf("%q is not a number of iterations", f[3])
	}
	t.total = float64(n)
	if t.gpus, err = strconv.Atoi(strings.TrimSpace(f[4])); err != nil || !slices.Contains(sizes, t.gpus) {
		return nil, fmt.Errorf("job %s asks for %q GPUs; the simulator knows models on 1, 2, 4, 8 and 16", t.key, f[4])
	}
	return t, t.demand(m)
}

// demand is what a job asks for: what its model wants for each GPU, cut to a server,
// with the speed on a straight line in cores between its share and what it wants.
func (t *task) demand(m machine) error {
	p, known := profiles[t.model]
	if !known {
		p = profiles[otherModel]
	}
	g, server, share := float64(t.gpus), vector{float64(m.gpus), float64(m.cpus), float64(m.memory), float64(m.disk)}, m.fair()
	t.want = vector{g, g * p.cpus, g * p.memory, g * diskEach}
	t.best, t.iteration = p.speedup, p.iteration
	cut := false
	for i := 1; i < len(t.want); i++ {
		if t.want[i] <= server[i] {
			continue
		}
		if t.want[i], cut = server[i], true; t.gpus > m.gpus {
			t.want[i], t.best, cut = g*share[i], 1, false
		}
	}
	if cut {
		ideal, own := g*p.cpus, g*share[1]
		if ideal == own {
			return fmt.Errorf("job %s: the simulator cannot say how fast %s is on %d GPUs of this cluster", t.key, t.model, t.gpus)
		}
		t.best = 1 + (t.best-1)/(ideal-own)*(t.want[1]-own)
	}
	t.speedup = t.best
	return nil
}

func nanos(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// milli and bytes are cores and GB as Norn books them; what cannot be told apart from
// a whole number of thousandths is one.
func milli(cpus float64) unit.Milli { return unit.Milli(math.Floor(cpus*1000 + 1e-6)) }
func bytes(gb float64) unit.Bytes   { return unit.Bytes(gb * float64(unit.GiB)) }
