package alloxsim

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// sides are the two ways to run a job.
const (
	onCPUs = iota
	onGPU
	sides
)

// nodeCPUs is how many CPUs a job has when it runs without a GPU.
const nodeCPUs = 32

// facts is a job of the trace.
type facts struct {
	key, queue string
	arrives    int64          // second
	time       [sides]float64 // seconds
	told       [sides]float64 // seconds, as its user believes
	memory     [sides]float64 // GiB
}

// readTrace reads the input of the simulator: jobs of one stage, one task of 32
// CPUs or one GPU, in order of arrival.
func readTrace(path string) ([]facts, error) {
	text, err := harness.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var jobs []facts
	for at := 0; at < len(lines); at += 4 {
		if len(lines) < at+4 {
			return nil, fmt.Errorf("%s, line %d: the file ends in the middle of a job", path, at+1)
		}
		f, line, err := readJob(lines[at : at+4])
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, at+line+1, err)
		}
		if n := len(jobs); n > 0 && f.arrives < jobs[n-1].arrives {
			return nil, fmt.Errorf("%s, line %d: arrives before the job ahead of it", path, at+2)
		}
		jobs = append(jobs, f)
	}
	return jobs, nil
}

// readJob reads the four lines of a job. line is the one in which an error was
// found.
func readJob(lines []string) (f facts, line int, err error) {
	if !strings.HasPrefix(lines[0], "#") {
		return f, 0, errors.New("# and the name of a job should be here")
	}
	head, stage := strings.Fields(lines[1]), strings.Fields(lines[2])
	if len(head) < 5 || head[0] != "1" {
		return f, 1, errors.New("stages (1), number, iterations, arrival and queue of a job should be here")
	}
	f.key, f.queue = head[1], head[4]
	arrives, ok := harness.Digits(head[3])
	if !ok || arrives > harness.MaxSeconds {
		return f, 1, fmt.Errorf("arrives at %q, which should be a whole second", head[3])
	}
	f.arrives = arrives
	v, err := numbers(stage)
	if err != nil {
		return f, 2, err
	}
	if v[0] != nodeCPUs || v[3] != 1 || v[6] != 1 {
		return f, 2, fmt.Errorf("asks for %v tasks of %v CPUs or %v GPUs; only jobs of one task of %d CPUs or one GPU can be run here", v[6], v[0], v[3], nodeCPUs)
	}
	f.memory = [sides]float64{v[1], v[4]}
	f.time = [sides]float64{v[2], v[5]}
	f.told = [sides]float64{v[2] * (1 + v[7]), v[5] * (1 + v[8])}
	if strings.TrimSpace(lines[3]) != "0" {
		return f, 3, errors.New("0 should be here, for a job of one stage has no edges")
	}
	return f, 0, nil
}

// numbers reads CPUs, memory, CPU time, GPUs, memory, GPU time, tasks, and the two
// errors, which may be missing.
func numbers(stage []string) (v [9]float64, err error) {
	if len(stage) < 9 {
		return v, fmt.Errorf("has %d fields, there should be 9 or 11", len(stage))
	}
	for i := range min(len(stage)-2, len(v)) {
		if v[i], err = strconv.ParseFloat(stage[i+2], 64); err != nil {
			return v, fmt.Errorf("field %d is %q, which should be a number", i+3, stage[i+2])
		}
		if math.IsNaN(v[i]) || v[i] > harness.MaxSeconds || i < 7 && v[i] < 0 || (i == 2 || i == 5) && v[i] == 0 || i >= 7 && v[i] < -1 {
			return v, fmt.Errorf("field %d, %v, is out of range", i+3, v[i])
		}
	}
	return v, nil
}

// machine is what the cluster has.
type machine struct {
	units  [sides]int // sets of 32 CPUs, and GPUs
	memory float64    // GiB
}

// maxUnits bounds the GPUs of a cluster.
const maxUnits = 100_000

// readMachine reads GPU=20;CPU=640;mem=2560GiB.
func readMachine(name string) (m machine, err error) {
	bad := harness.Unknown("cluster of alloxsim", name, []string{"GPU=20;CPU=640;mem=2560GiB (CPUs in multiples of 32)"})
	var have [3]int64
	parts := strings.Split(name, ";")
	if len(parts) != len(have) {
		return m, bad
	}
	for i, what := range []string{"GPU=", "CPU=", "mem="} {
		text, found := strings.CutPrefix(parts[i], what)
		if i == 2 {
			text = strings.TrimSuffix(text, "GiB")
		}
		n, ok := harness.Digits(text)
		if !found || !ok || n > maxUnits*nodeCPUs {
			return m, bad
		}
		have[i] = n
	}
	if have[0] < 1 || have[0] > maxUnits || have[1] < nodeCPUs || have[1]%nodeCPUs != 0 {
		return m, bad
	}
	return machine{[sides]int{int(have[1] / nodeCPUs), int(have[0])}, float64(have[2])}, nil
}

// perNode is how many devices can be told apart on a node.
const perNode = 64

// build makes nodes of which every 32 CPUs, or every GPU, are a device: first those of
// all CPUs. Memory is counted here and not in the ledger, since what a job needs
// depends on where it runs.
func (m machine) build() (*cluster.Cluster, error) {
	c := cluster.New()
	for side, t := range []cluster.GPUType{{Name: "cpus", Host: true}, {Name: "gpu"}} {
		id, err := c.AddType(t)
		if err != nil {
			return nil, err
		}
		for left := m.units[side]; left > 0; left -= perNode {
			spec := cluster.NodeSpec{Name: t.Name + strconv.Itoa(left), GPUs: []cluster.GPUs{{Type: id, Count: min(left, perNode)}}}
			if _, err := c.AddNode(spec); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// entries are the jobs of the run: each job of the trace, and behind it the runs
// that measure it.
func entries(jobs []facts) harness.Jobs {
	one := job.GPUs(1)
	all := make(harness.Jobs, 0, len(jobs)*perJob)
	for i := range jobs {
		for part := range perJob {
			key := jobs[i].key
			if part > 0 {
				key += "/measured" + strconv.Itoa(part)
			}
			all = append(all, trace.Entry{
				Job:   job.Job{ID: job.ID(len(all)), Key: key, Tenant: jobs[i].queue, Submit: harness.Seconds(jobs[i].arrives), Demand: &one, Retries: -1},
				Truth: trace.Truth{Work: harness.Seconds(harness.MaxSeconds)}, // the clock ends it
			})
		}
	}
	return all
}
