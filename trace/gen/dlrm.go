package gen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/rmixer/memory"
	"github.com/norn-scheduler/norn/trace"
)

// DLRM says what batch of recommendation jobs is wanted: one of the task lists
// of the evaluation of RMixer (TPDS 2024). Each job trains one of its models
// for 500 iterations on one GPU or, in several times the time, on processors.
type DLRM struct {
	List TaskList
	Jobs int           // 0: 24; the paper has 24 and 72
	Gap  time.Duration // mean time between submissions; 0: all at once
	Seed uint64

	// Outliers is how many jobs take 1.4 times the memory that they are estimated to
	// take; the others take 0.8 to 1.19 times that.
	Outliers int

	// CPUs is the cores of the node that the jobs load their data with; 0: 40.
	CPUs int
}

// TaskList is what a batch is made of.
type TaskList uint8

// The task lists of the paper.
const (
	MemoryList    TaskList = iota // that of the recorded run
	BalanceList                   // as many jobs of each class
	BandwidthList                 // half of them memory-intensive
	ComputingList                 // half of them compute-intensive
	taskLists
)

var taskListNames = [taskLists]string{"memory", "balance", "bandwidth", "computing"}

func (l TaskList) String() string { return taskListNames[l] }

// ParseTaskList reads the name of a task list. The error lists the known ones.
func ParseTaskList(s string) (TaskList, error) {
	for l, name := range taskListNames {
		if strings.EqualFold(s, name) {
			return TaskList(l), nil
		}
	}
	return 0, fmt.Errorf("no task list is called %q: write one of %s", s, strings.Join(taskListNames[:], ", "))
}

// taskList is the networks of each list of 24 jobs. That of memory is the authors'
// recorded run, in its order; the others are not published, and made here so that
// they are what they are called.
var taskList = [taskLists]string{
	MemoryList:    "dien din bert4rec deepfm difm deepfm dcn dpin difm bst din widedeep difm dcn bst din dien difm dmr deepfm dien dien dcn bst",
	BalanceList:   "difm dien dcn widedeep bst din dcn2 dien deepfm dlrm bst dcn bert4rec dien din dmr bst deepfm dpin dien dcn difm bst din",
	BandwidthList: "dien bst difm dien bst dcn dien bst dcn2 dien bst din widedeep dien bst deepfm dlrm dien bst dcn dmr din dpin deepfm",
	ComputingList: "difm dcn2 dien widedeep dlrm dcn difm bert4rec bst widedeep dcn2 din dmr dlrm dien dpin difm deepfm dien bst dcn bst din deepfm",
}

// network is what is known of one model as a job.
type network struct {
	seconds float64 // of the recorded run, 4 jobs on a V100; of 2 on processors where it says so
	batch   int
	memory  float64 // bandwidth of GPU memory that it keeps busy, 0 to 1
	host    float64 // way to the host
	cores   float64 // that load its data
}

// networks are calibrated by the recorded run: the time of each is the mean of
// its times there. dlrm and dcn2 are not in it, and deepfm only on processors;
// theirs is taken from networks alike, and by what processors take more than a
// GPU. Their use beside multiprocessors was not measured: memory-intensive ones
// 0.3 to 0.5 of the bandwidth, those of neither class 2 to 4 cores.
var networks = map[string]network{
	"difm":     {161.84, 512, 0.15, 0.05, 1},
	"widedeep": {42.83, 512, 0.10, 0.05, 1},
	"dcn2":     {54, 512, 0.15, 0.05, 1},
	"dlrm":     {45, 512, 0.15, 0.05, 1},
	"bert4rec": {28.34, 512, 0.10, 0.02, 1},
	"dmr":      {82.54, 256, 0.15, 0.05, 1},
	"dpin":     {54.38, 256, 0.10, 0.05, 1},
	"dien":     {113.01, 32, 0.45, 0.05, 1},
	"bst":      {60.54, 32, 0.35, 0.05, 1},
	"dcn":      {46.08, 512, 0.10, 0.10, 2},
	"din":      {58.58, 32, 0.10, 0.10, 3},
	"deepfm":   {36.5, 512, 0.10, 0.10, 4}, // recorded on processors: 87.5
}

// defaultCPUs is the cores of a node that does not tell.
const defaultCPUs = 40

const (
	// crowd is how much slower jobs were in the recorded run than alone: three other
	// processes, 3 % each.
	crowd = 1.09
	// jitter is how much jobs of one network differ there.
	jitter = 0.02
)

// withoutGPUs is how many times as long a job takes on processors, by its class from
// -1 on: the first as recorded (din 142.7 against 58.6 s), the others assumed.
var withoutGPUs = [3]float64{2.4, 4, 8}

// NewDLRM makes a batch. Equal options make equal batches.
func NewDLRM(o DLRM) ([]trace.Entry, error) {
	if o.Jobs == 0 {
		o.Jobs = 24
	}
	if o.CPUs == 0 {
		o.CPUs = defaultCPUs
	}
	switch {
	case o.List >= taskLists:
		return nil, fmt.Errorf("generator: unknown task list %d", o.List)
	case o.Jobs < 0 || o.Jobs > maxJobs || o.Outliers < 0 || o.Outliers > o.Jobs || o.Gap < 0 || o.CPUs < 0:
		return nil, fmt.Errorf("generator: %d jobs, %d of them outliers, every %v, %d cores: these cannot be", o.Jobs, o.Outliers, o.Gap, o.CPUs)
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x646c726d))
	order := strings.Fields(taskList[o.List])
	models := memory.Models()
	var in job.Interner
	out := make([]trace.Entry, o.Jobs)
	at := time.Duration(0)
	for i := range out {
		name := order[i%len(order)]
		m, ok := memory.Find(models, name)
		if !ok {
			return nil, fmt.Errorf("generator: no model %q", name) // cannot be: the lists are checked by a test
		}
		out[i] = dlrm(&o, rng, m, networks[name], &in)
		out[i].Job.ID, out[i].Job.Key, out[i].Job.Submit = job.ID(i), fmt.Sprintf("%s-%d", name, i+1), at
		if o.Gap > 0 {
			at += time.Duration(rng.ExpFloat64() * float64(o.Gap)).Truncate(time.Millisecond)
		}
	}
	for _, i := range rng.Perm(o.Jobs)[:o.Outliers] {
		out[i].Truth.GPUMemory = unit.Bytes(1.4 * float64(out[i].Job.Demand.Roles[0].GPUMemory))
	}
	return out, nil
}

// dlrm is one job of a batch, without number and time.
func dlrm(o *DLRM, rng *rand.Rand, m *memory.Model, n network, in *job.Interner) trace.Entry {
	data, network, _ := cutModel(m.Name)
	alone := n.seconds / crowd * (1 + jitter*(2*rng.Float64()-1))
	work := time.Duration(math.Round(alone*1000)) * time.Millisecond
	peak := m.Peak(int64(n.batch), 0)
	demand := job.GPUs(1)
	demand.Roles[0].GPUMemory = peak
	cpu := time.Duration(float64(work) * withoutGPUs[m.Class+1]).Truncate(time.Millisecond)
	return trace.Entry{
		Job: job.Job{
			Name: network, Demand: in.Get(demand), Kind: job.Recommendation, Model: m.Name, Dataset: data, Batch: n.batch,
			Units: 500, Unit: "iterations", Estimate: work, Stop: job.Restart, Retries: -1,
			Hints: &job.Hints{
				GPUUse: use(m), MemoryUse: n.memory, HostUse: n.host, CPUUse: min(1, n.cores/float64(o.CPUs)), GPUMemory: peak,
				CPUTime: cpu, CPUEstimate: cpu, Iteration: work / 500,
			},
		},
		Truth: trace.Truth{Work: work, GPUMemory: unit.Bytes((0.8 + 0.39*rng.Float64()) * float64(peak))},
	}
}

// cutModel is the data set and the network of a model's name.
func cutModel(name string) (data, network string, ok bool) { return strings.Cut(name, "_") }

// use is how much of a GPU a model keeps busy, 0 to 1.
func use(m *memory.Model) float64 { return math.Round(100*m.Use) / 1e4 }
