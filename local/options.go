// Package local is the world of one machine: it runs jobs as processes, lets the
// engine decide who runs, and keeps everything in one state folder, so that it
// may die at any moment and go on from there.
//
// Nouns: the Daemon is what every live world has (package live), with this machine
// as its World; an entry is a job with its run, which is one launch of it, and whose
// runner (package local/runner) outlives the daemon; an act is what must only be done
// once the decision for it is on disk.
//
// Ownership: intake checks what is submitted; the launcher starts runs and talks to
// them; condition looks after devices; gauges, trainers and packing are what they say;
// recovery finds runs again.
//
// # The order of things
//
// Every instant has four steps: events are collected from users, runners and
// timers; the engine folds them in and decides; the log is made durable; the
// acts are carried out and users are answered. A crash between any two of them is
// mended by looking: the log says what was decided, the folder of each run says
// what became of it, and what was decided but not done is done again.
//
// Units: times since the origin of the log as time.Duration; GPUs and CPUs in
// thousandths; memory in bytes.
package local

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/predict"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/tenant"
)

// Options is all that a daemon must be told.
type Options struct {
	State  string // folder of logs, jobs and outputs; made when it is not there
	Exe    string // the norn program, which runners are launched from
	Socket string // of the API, for the processes of jobs

	Machine Machine
	Tenants func() (*tenant.Tree, error) // a fresh tree of the configured tenants
	Policy  run.Choice
	// Speeds is how fast jobs are believed to run on each type of device; nil: as the
	// types say.
	Speeds perf.Typed

	// Transfer is what is believed that merged jobs learn from each other; nil: nothing.
	Transfer perf.Transfer
	// Estimator predicts run times; it has seen nothing yet. Estimates is its
	// name, for logs.
	Estimator predict.Estimator
	Estimates string

	Operator func(uid uint32, user string) bool
	// TenantOf is the tenant that a job of a user counts for who has asked for one,
	// or for none; it refuses one that is not hers. nil: the one that is asked for.
	TenantOf func(user, asked string) (string, error)

	MPS      MPS
	Defaults Defaults
	Limits   Limits
	Log      *slog.Logger
	Version  string
}

// Limits are what keeps the daemon and its disk in bounds.
type Limits struct {
	Reserve api.Bytes     // with less free on the disk nothing new is started
	Refuse  api.Bytes     // with less free nothing new is taken
	Compact int           // events after which a new log is begun
	Recent  int           // ended jobs that are kept in memory
	Jobs    int           // that have not ended
	Array   int           // jobs of one array
	Quotas  live.Quotas   // of users and tenants
	Outputs time.Duration // of ended jobs are kept for so long; 0: for ever
	Logs    time.Duration // that have ended are kept for so long; 0: for ever
	Sample  time.Duration // between two looks at the devices
}

// Defaults are what jobs get that do not say otherwise, and the limits of
// patience.
type Defaults struct {
	Stop        api.Stop
	Retry       api.Retry
	CPUs        float64 // of a job without GPUs
	CancelGrace api.Seconds
	// ResidentIdle is for how long a resident trainer is kept that no job uses.
	ResidentIdle time.Duration
	LogBytes     api.Bytes
	LogKeep      int
	Cgroup       string // parent of the runs' cgroups; empty: none

	live.Patience

	// Period is the time in which a job that is throttled is stopped and goes on
	// once; 0: the runner's own.
	Period time.Duration
	// A job whose reports show for SpeedFor that its speed differs by SpeedMargin of
	// what is believed runs at that speed from then on. SpeedFor 0: reports show nothing.
	SpeedFor    time.Duration
	SpeedMargin float64
	// A job that shares a device and uses more than MemoryFactor times the memory that
	// is booked for it there, for MemoryFor, is thrown off; 0: it is not.
	MemoryFactor float64
	MemoryFor    time.Duration
}

// MPS is how jobs share GPUs through CUDA MPS.
type MPS struct {
	Program string // path of its control program; empty: they do not
	Always  bool   // jobs that hold whole GPUs, too: a policy may put others beside them later
}

// Machine is what is shared out.
type Machine struct {
	Name      string
	Types     []cluster.GPUType
	Node      cluster.NodeSpec // with types as numbers in Types
	Devices   []Device         // in the order of the node's devices
	NUMA      int
	Isolation []string
	Sample    func() []Sample // nil: nothing can be measured
	// Forgive takes what a device was measured to have gone wrong before as no trouble any
	// more. It is called between two Samples; nil: nothing.
	Forgive func(device int)
}

// name is what a device is called.
func (m *Machine) name(i cluster.DeviceID) string {
	if int(i) < len(m.Devices) {
		return m.Devices[i].Name
	}
	return fmt.Sprintf("device %d", i)
}

// Device is a GPU, a declared slot, or a part of the processors (a host device,
// whose type is one of a host).
type Device struct {
	Name    string
	Type    string
	UUID    string
	PCI     string
	NUMA    int
	Memory  api.Bytes
	Env     string   // variable that shows it to a process, such as CUDA_VISIBLE_DEVICES; empty: none
	Visible string   // its value there; empty: none of these devices
	Files   []string // that a process must open to use it
	Host    bool     // a part of the processors
	Packs   bool     // CUDA MPS lets several processes compute on it at once
	// Cores is how many processors it stands for, if it is none that a driver could
	// measure: its use is that of processors by the jobs on it. 0: it is a GPU.
	Cores float64
}

// Sample is what was measured of a device.
type Sample struct {
	Used    api.Bytes
	Util    float64
	Celsius float64
	Watts   float64
	Trouble string // why it must not be used; empty: it works
	OK      bool   // it could be measured

	Processes []Process // on a GPU, where its driver tells them
}

// Process is a process on a GPU.
type Process struct {
	PID  int
	Used api.Bytes // of the memory of the GPU
}
