// Package local is the world of one machine. It runs jobs as processes, lets
// the engine decide which of them run, and keeps everything in one state
// folder. So it may die at any moment and go on from there.
//
// Nouns:
//   - The Daemon is a live world (package live), with this machine as its
//     World.
//   - An entry is a job with its run. A run is one launch of the job; its
//     runner (package local/runner) outlives the daemon.
//   - An act is something that must be done only after the decision for it is
//     on disk.
//
// Ownership: intake checks submissions; the launcher starts runs and talks to
// them; condition looks after the machine and its devices; gauges measure
// speeds; trainers keep resident trainers; packing keeps servers of CUDA MPS;
// recovery finds runs again.
//
// # The order of things
//
// Every instant has four steps. Events are collected from users, runners and
// timers. The engine folds them in and decides. The log is made durable. Then
// the acts are carried out and users are answered. After a crash between any
// two steps, the next daemon looks: the log tells what was decided, and the
// folder of each run tells what became of it. Whatever was decided and not done
// is done again.
//
// Units: times since the origin of the log as time.Duration; GPUs and CPUs in
// thousandths; memory in bytes.
package local

import (
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/tenant"
)

// Options is the configuration of a daemon.
type Options struct {
	State  string // folder of logs, jobs and outputs; made when it is not there
	Exe    string // the norn program, which runners are launched from
	Socket string // of the API, for the processes of jobs

	Machine Machine
	Tenants func() (*tenant.Tree, error) // a fresh tree of the configured tenants
	Policy  experiment.Choice
	// Speeds is the believed speed of jobs on each type of device; nil: as the
	// types say.
	Speeds perf.Typed

	// Transfer is the belief about what merged jobs learn from each other; nil:
	// nothing.
	Transfer perf.Transfer
	// Estimator predicts run times; it has seen nothing yet. Estimates is its
	// name, for logs.
	Estimator predict.Estimator
	Estimates string

	Operator func(uid uint32, user string) bool
	// TenantOf is the tenant of a user's job. The user may have asked for one, and
	// TenantOf refuses a tenant that is not hers. nil: the tenant that she asked
	// for.
	TenantOf func(user, asked string) (string, error)

	MPS      MPS
	Defaults Defaults
	Limits   Limits
	Log      *slog.Logger
	Version  string
}

// Limits keep the daemon and its disk in bounds.
type Limits struct {
	Reserve api.Bytes     // with less free on the disk nothing new is started
	Refuse  api.Bytes     // with less free on the disk submissions are refused
	Compact int           // events after which a new log is begun
	Recent  int           // ended jobs that are kept in memory
	Jobs    int           // that have not ended
	Array   int           // jobs of one array
	Quotas  live.Quotas   // of users and tenants
	Outputs time.Duration // how long outputs of ended jobs are kept; 0: for ever
	Logs    time.Duration // how long ended logs are kept; 0: for ever
	Sample  time.Duration // between two looks at the devices
}

// Defaults are what jobs get that do not say otherwise, and the limits of
// patience.
type Defaults struct {
	Stop        api.Stop
	Retry       api.Retry
	CPUs        float64 // of a job without GPUs
	CancelGrace api.Seconds
	// ResidentIdle is the time for which a resident trainer is kept that no job
	// uses.
	ResidentIdle time.Duration
	LogBytes     api.Bytes
	LogKeep      int
	Cgroup       string // parent of the runs' cgroups; empty: none

	live.Patience

	// Period is the time in which a job that is throttled is stopped and goes on
	// once; 0: the runner's own.
	Period time.Duration
	// If the reports of a job show for SpeedFor that its speed differs from the
	// believed one by the fraction SpeedMargin, its speed is corrected. SpeedFor 0:
	// reports correct nothing.
	SpeedFor    time.Duration
	SpeedMargin float64
	// A job that shares a device is evicted when it uses more than MemoryFactor
	// times its booked memory there, for MemoryFor. MemoryFactor 0: it is not.
	MemoryFactor float64
	MemoryFor    time.Duration
}

// MPS is how jobs share GPUs through CUDA MPS.
type MPS struct {
	Program string // path of its control program; empty: they do not
	Always  bool   // jobs that hold whole GPUs, too: a policy may put others beside them later
}

// Machine is the machine that jobs share.
type Machine struct {
	Name      string
	Types     []cluster.GPUType
	Node      cluster.NodeSpec // with types as numbers in Types
	Counted   job.Slots        // counted resources
	Devices   []Device         // in the order of the node's devices
	NUMA      int
	Isolation []string
	Sample    func() []Sample // nil: nothing can be measured
	// Forgive makes the Sampler disregard past troubles of a device. It is called
	// between two Samples; nil: there is nothing to forgive.
	Forgive func(device int)
}

// counted is how much the machine has of each counted resource.
func (m *Machine) counted() map[string]int64 {
	return maps.Collect(m.Counted.All())
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
	// Cores is the number of processors that it stands for, if no driver can
	// measure it. Its use is then the use of processors by the jobs on it. 0: it is
	// a GPU.
	Cores float64
}

// Sample is a measurement of a device.
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
