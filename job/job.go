// Package job is the work: what a user submitted (Job), what it asks for
// (Demand), and what has become of it so far (Record).
//
// Nouns:
//   - A Job is a gang of tasks in one or more roles.
//   - A Demand is its shape.
//   - A Record is its lifecycle.
//   - An attempt runs from the start to an end or a failure.
//   - Service is the GPU-time allocated.
//   - Progress is work done, counted as the time that it would have taken in
//     the reference configuration: the size the user asked for, on the
//     reference GPU type, alone.
//
// # Lifecycle
//
//	             submit
//	               |
//	       hold    v      assign               begin
//	held <-----> waiting --------> assigned --------> running -----> done
//	       free   ^ ^ ^               |                ^ | | \-----> failed
//	              | | |    preempt    |                | | |  \----> cancelled
//	              | | +---------------+                | | |
//	              | |                begin             | | |  resize, move: stays running
//	              | +------------------ (from waiting) + | |
//	              |        gone               preempt    | |
//	              +-------------- stopping <-------------+ |
//	              |                                        |
//	              +----------------------------------------+
//	                preempt at no cost, evict, fail with a retry left
//
// A job is assigned while the devices meant for it are still being left by
// others, and stopping while it leaves its own (writing a checkpoint). Record
// has one method for each transition, and these are all of them:
//
//	Submit      unknown                               -> waiting
//	Hold        waiting                               -> held
//	Release     held                                  -> waiting
//	Assign      waiting                               -> assigned
//	Begin       waiting assigned                      -> running
//	SetSpeed    running                               -> running
//	SetProgress running                               -> running
//	Reshape     running                               -> running
//	Profile     running                               -> running
//	SetMerge    held waiting assigned running stopping  -> same
//	Preempt     running                               -> stopping
//	PreemptNow  running assigned                      -> waiting
//	Gone        stopping                              -> waiting
//	Evict       running assigned stopping             -> waiting
//	Fail        running                               -> waiting
//	Finish      running stopping                      -> done
//	Cancel      waiting held assigned running stopping -> cancelled
//
// Finish goes to done, failed or cancelled, as the outcome says. A transition
// that is not in the table is an error that names the job, and changes nothing.
package job

import (
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// ID is the number of a job within a run: dense from zero, in order of
// submission, ties in the order of their keys. Every tie in Norn is broken by
// submit time and then by this number, which is one comparison of IDs.
type ID int32

// None is no job.
const None ID = -1

// Job is what a user submitted. It does not change once submitted. It holds
// nothing that a scheduler could not know: how long the job will really run is
// the simulator's secret.
type Job struct {
	ID        ID
	Serial    int64         // its number for life, where that is not ID; see Record.Serial
	Key       string        // the job's own name or number in its source
	Name      string        // what the user called it; the same for similar jobs
	User      string        // who submitted it
	Tenant    string        // virtual cluster, queue, project
	Partition string        // part of the cluster that it was submitted to; empty: that of its tenant
	App       string        // the search that it is one of the jobs of, among those of its user; empty: it is by itself
	Submit    time.Duration // since the start of the run
	Demand    *Demand       // shared between jobs of the same shape
	Kind      Kind
	Model     string        // what is trained: resnet50, bert
	Backbone  string        // fine-tuning: the foundation model
	Dataset   string        // what it is trained on
	Share     bool          // its user consents to its being merged with jobs of other users, see MayMerge
	Batch     int           // global batch size, 0 unknown
	Units     float64       // its work in its own units, 0 unknown
	Unit      string        // of Units: iterations, epochs, samples
	Priority  int32         // class, larger is more urgent
	Deadline  time.Duration // since the start of the run, 0 none: best effort
	Soft      bool          // its end is worth something after the deadline, too
	Estimate  time.Duration // the user's word on its run time, 0 none
	Tier      Tier          // what it is promised of the GPUs that it asks for
	Stop      StopMode      // what a preemption costs it
	Resize    ResizeMode    // how it comes to another size
	Retries   int32         // how often it is started again after a failure, -1 always
	Hints     *Hints        // what else its source tells; nil: nothing
}

// Pipeline is the Plan of a job whose layers are divided among its GPUs, stage by stage.
const Pipeline = "pipeline"

// Pipelined tells whether a job is laid out as a pipeline.
func (j *Job) Pipelined() bool { return j.Hints != nil && j.Hints.Plan == Pipeline }

// Hints are features of a job that only some sources tell and some predictors
// use. Zero means that the source does not tell. Hints are comparable.
type Hints struct {
	UserEstimate, GroupEstimate, GroupSizeEstimate time.Duration // run times predicted by the source
	Group                                          string        // recurrence key
	Rank                                           float64       // predicted priority of the source, smaller first; see HasRank
	HasRank                                        bool

	Iteration time.Duration    // time of one unit of its work in the reference configuration
	Stages    [3]time.Duration // of that: loading and CPU work, GPU, network; they may overlap
	Speed     float64          // units of its work per second, alone
	GPUUse    float64          // mean use of its GPUs when alone, 0 to 1
	MemoryUse float64          // mean use of the bandwidth of their memory when alone, 0 to 1
	HostUse   float64          // mean use of the way between them and the host when alone, 0 to 1
	CPUUse    float64          // mean use of the node's processors when alone, 0 to 1
	GPUMemory unit.Bytes       // memory of each GPU that it uses when alone
	Mixed     bool             // trains in mixed precision
	Shape     *Shape           // of its model, by which its memory can be estimated; nil: not told

	Weight    float64        // its share relative to that of other jobs
	QoS       string         // class of service, in the source's words
	Worth     [4]Worth       // what it is worth to end in time, in order of time
	Adapts    string         // how it changes its own batch size, in the source's words: static, gns
	Epochs    int32          // how often it goes through its data, 0 unknown
	Modes     [MaxModes]Mode // batch sizes that it may train with, in no order of time; none: its own alone
	Plan      string         // how it is laid out in parallel, in the source's words
	Pattern   string         // how its tasks talk to each other, in the source's words: ring
	Sensitive bool           // to the bandwidth between its tasks
	Bursts    Bursts         // when in an Iteration each of its nodes sends to others; none: not told

	LeastUtility float64 // of a place, 0 to 1, below which it is worth to it to wait for a better one

	Rungs Rungs // of the search by successive halving that its app is; none: it is none

	Sensitivity string // its class by how much it minds devices that are slower than others of their type (perf.Variability)

	CPUPerGPU unit.Milli // cores for each of its GPUs, below which it is slower in proportion (sampling, loading); 0: it does not mind
	Latency   float64    // of a service: the most that its latency may be over that alone; 0: it has no target

	CPUTime     time.Duration // run time without GPUs; 0: it needs them
	CPUEstimate time.Duration // the same as far as its user knows
	CPUs        unit.Milli    // that it needs instead of GPUs
	CPUMemory   unit.Bytes    // that it needs beside them
}

// Worth is what a job is worth when it ends by a moment.
type Worth struct {
	By    time.Duration // since the start of the run
	Value float64
}

// Kind is what sort of work a job does.
type Kind uint8

// The kinds of jobs.
const (
	Training Kind = iota
	FineTuning
	Recommendation
	Inference
	Graph // training on a graph, whose batches processors sample
)

var kindNames = [...]string{"training", "fine-tuning", "recommendation", "inference", "graph"}

func (k Kind) String() string { return kindNames[k] }

// ParseKind reads the name of a kind; the empty name is Training.
func ParseKind(s string) (Kind, bool) { return parseName[Kind](kindNames[:], s) }

// StopMode is what a job can do when it has to leave its devices.
type StopMode uint8

// The ways to stop.
const (
	Checkpoint StopMode = iota // saves its state and goes on from there
	Freeze                     // keeps its state in memory
	Restart                    // loses its work
	Pinned                     // must not be stopped
	LastSave                   // is ended at once, and goes on from the state that it last saved by itself
)

var stopNames = [...]string{"checkpoint", "freeze", "restart", "never", "last-save"}

func (m StopMode) String() string { return stopNames[m] }

// Keeps tells whether a job that is stopped so keeps all its work.
func (m StopMode) Keeps() bool { return m == Checkpoint || m == Freeze }

// ParseStopMode reads the name of a way to stop; the empty name is Checkpoint.
func ParseStopMode(s string) (StopMode, bool) { return parseName[StopMode](stopNames[:], s) }

// ResizeMode is how a running job comes to another number of tasks, or to other devices.
type ResizeMode uint8

// The ways to resize.
const (
	ByRestart  ResizeMode = iota // it is checkpointed and started again
	InPlace                      // tasks join and leave at a step boundary, as long as one stays
	TimeSliced                   // its workers stay as many as asked for, and take turns where it has fewer devices; the result is the same
)

var resizeNames = [...]string{"restart", "in-place", "time-sliced"}

// String is the name of the way: restart, in-place or time-sliced.
func (m ResizeMode) String() string { return resizeNames[m] }

// ResizeModes are the names of all ways to resize.
func ResizeModes() []string { return slices.Clone(resizeNames[:]) }

// ParseResizeMode reads the name of a way to resize; the empty name is ByRestart.
func ParseResizeMode(s string) (ResizeMode, bool) { return parseName[ResizeMode](resizeNames[:], s) }

func parseName[T ~uint8](names []string, s string) (T, bool) {
	if s == "" {
		return 0, true
	}
	for i, name := range names {
		if strings.EqualFold(name, s) {
			return T(i), true
		}
	}
	return 0, false
}

// MaxRoles is the largest number of roles in a gang.
const MaxRoles = 8

// Demand is the shape of a gang: its roles, and which GPU types will do. It is
// comparable, so equal shapes can be recognised and share one Demand.
type Demand struct {
	Roles [MaxRoles]Role // unused ones have no tasks; the first one is elastic if any is
	Types string         // acceptable GPU types joined by "|", best first; empty: any

	Where    string // the condition on the labels of its nodes, see package label; empty: none
	Tolerate string // the taints of nodes that it does not mind, see package label; empty: none
	Within   string // the level of the topology, or cluster.EachNode, of which it must stand in one place; empty: anywhere
	Prefer   bool   // it need not stand Within one place, but should where there is room
}

// Role is a group of equal tasks.
type Role struct {
	Name      string     // worker, ps, chief, evaluator
	Tasks     int32      // as the user asked
	Min, Max  int32      // range of an elastic role; zero: Tasks
	GPU       unit.Milli // for each task: whole devices (1000, 2000, ...) or a part of one (< 1000)
	GPUMemory unit.Bytes // for each device it uses; 0 unknown
	CPU       unit.Milli // for each task; 0 not accounted
	Memory    unit.Bytes // for each task; 0 not accounted
	Slots     Slots      // counted resources of the node, for each task
}

// GPUs is the demand for a gang of n single-GPU tasks on any device.
func GPUs(n int) Demand {
	var d Demand
	d.Roles[0] = Role{Tasks: int32(n), GPU: unit.One}
	return d
}

// Range is the smallest and the largest number of tasks with which the role
// can run.
func (r *Role) Range() (least, most int32) {
	least, most = r.Min, r.Max
	if least == 0 {
		least = r.Tasks
	}
	if most == 0 {
		most = r.Tasks
	}
	return least, most
}

// Elastic tells whether the gang can run with different numbers of tasks.
func (d *Demand) Elastic() bool {
	least, most := d.Roles[0].Range()
	return least != most
}

// Milli is the device time asked for, in thousandths of a device, when the
// first role has the given number of tasks.
func (d *Demand) Milli(tasks int32) unit.Milli {
	sum := d.Roles[0].GPU * unit.Milli(tasks)
	for i := 1; i < MaxRoles; i++ {
		sum += d.Roles[i].GPU * unit.Milli(d.Roles[i].Tasks)
	}
	return sum
}

// GPUs is the number of devices asked for at the user's size, parts rounded up
// together.
func (d *Demand) GPUs() int { return d.GPUsAt(d.Roles[0].Tasks) }

// GPUsAt is the same when the first role has the given number of tasks.
func (d *Demand) GPUsAt(tasks int32) int { return int((d.Milli(tasks) + 999) / 1000) }

// CPU is the number of cores asked for at the user's size.
func (d *Demand) CPU() unit.Milli {
	var sum unit.Milli
	for i := range d.Roles {
		sum += d.Roles[i].CPU * unit.Milli(d.Roles[i].Tasks)
	}
	return sum
}

// Memory is the main memory asked for at the user's size.
func (d *Demand) Memory() unit.Bytes {
	var sum unit.Bytes
	for i := range d.Roles {
		sum += d.Roles[i].Memory * unit.Bytes(d.Roles[i].Tasks)
	}
	return sum
}

// Plain tells whether the gang is just a number of whole devices, with nothing
// else accounted.
func (d *Demand) Plain() bool {
	r := &d.Roles[0]
	return d.Types == "" && r.GPU == unit.One && r.GPUMemory == 0 && r.CPU == 0 && r.Memory == 0 && r.Slots == "" && d.Roles[1].Tasks == 0 &&
		d.Where == "" && d.Tolerate == "" && d.Within == ""
}

// Condition says which nodes of a pool the gang may use.
func (d *Demand) Condition(p cluster.PoolID) cluster.Condition {
	c := cluster.Condition{Pool: p, Where: d.Where, Tolerate: d.Tolerate}
	if !d.Prefer {
		c.Level = d.Within
	}
	return c
}

// TypeMask is the set of acceptable GPU types of a cluster, without those that
// are known to have less memory than a task asks for; 0 means all of them. ok is
// false when the cluster has none.
func (d *Demand) TypeMask(c *cluster.Cluster) (m cluster.TypeMask, ok bool) {
	var memory unit.Bytes
	for i := range d.Roles {
		memory = max(memory, d.Roles[i].GPUMemory)
	}
	if d.Types == "" && memory == 0 {
		return c.GPUMask(), true
	}
	all := true
	d.EachType(c, func(t cluster.TypeID) bool {
		if has := c.Type(t).Memory; has == 0 || has >= memory {
			m |= 1 << t
		} else {
			all = false
		}
		return true
	})
	if all && d.Types == "" {
		return c.GPUMask(), true
	}
	return m, m != 0
}

// EachType calls visit for the acceptable GPU types that a cluster has, best
// first, until it returns false. If any type will do, it visits all types that
// are GPUs, in the order of the cluster.
func (d *Demand) EachType(c *cluster.Cluster, visit func(cluster.TypeID) bool) {
	if d.Types == "" {
		for t := range cluster.TypeID(c.Types()) {
			if !c.Type(t).Host && !visit(t) {
				return
			}
		}
		return
	}
	for name := range strings.SplitSeq(d.Types, "|") {
		if t, known := c.TypeByName(strings.TrimSpace(name)); known && !visit(t) {
			return
		}
	}
}

// JoinTypes adds GPU types, joined by "|", to those acceptable. Each is there once.
func JoinTypes(all, more string) string {
	for t := range strings.SplitSeq(more, "|") {
		if t != "" && !strings.Contains("|"+all+"|", "|"+t+"|") {
			if all != "" {
				all += "|"
			}
			all += t
		}
	}
	return all
}

// Check says what is wrong with a demand, or nil.
func (d *Demand) Check() error { return d.check() }
