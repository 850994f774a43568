// Package rundir is the folder of one run of a job: all that the daemon and the
// runner of that run say to each other. Everything goes through files that are
// replaced whole, so that either side may die at any moment and find out
// afterwards where things stand; signals and datagrams only say "look again".
// Each file of JSON ends with a checksum of itself (package internal/sealed).
//
// Nouns:
//   - A run is one launch of a job.
//   - The runner is the process that starts its tasks, watches over them and
//     outlives the daemon.
//   - Run says what to launch, and Want what the daemon wants of the run now.
//   - Status says how far the run has come, and Exit how it ended.
//
// # Files
//
//	run.json     the daemon, once, before it launches the runner
//	want.json    the daemon, whenever it wants something else; then SIGUSR1 to the runner
//	limits.json  the daemon, when the run may use more or less than before; likewise
//	status.json  the runner, when its tasks have started and whenever its state changes
//	exit.json    the runner, once, when nothing of the run is left: the last thing it does
//	lock         locked (flock) by the runner as long as it lives
//	saved.json   the daemon: the last checkpoint that the job reported
//	input        a pipe to the runner of a task with a terminal: lines of api.Input
//	output.log   what the tasks write, the present file; output.log.1 the one before, ...
//
// After it has written status.json or exit.json the runner sends one datagram,
// "JOB RUN", to the socket that Run.Notify names, if anybody listens there.
//
// # Who may be sure of what
//
// A run without exit.json whose lock is free has no runner. The process that
// holds the lock decides about the run: a runner that finds exit.json, or
// cannot get the lock, ends without having started anything. So a launch may be
// repeated after a crash, and still happens once.
//
// Times are Unix nanoseconds, spans seconds.
package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/sealed"
)

// Names of the files.
const (
	RunFile    = "run.json"
	WantFile   = "want.json"
	LimitsFile = "limits.json"
	StatusFile = "status.json"
	ExitFile   = "exit.json"
	LockFile   = "lock"
	SavedFile  = "saved.json"
	OutputFile = "output.log"
	InputFile  = "input"
)

// Run is what to launch.
type Run struct {
	Job  string `json:"job"`
	Run  int    `json:"run"` // from 1
	Name string `json:"name,omitempty"`

	Command []string `json:"command"`
	Dir     string   `json:"dir"`
	Env     []string `json:"env"`            // of every task, NAME=value; the runner adds those of Task and of the rendezvous
	User    *User    `json:"user,omitempty"` // nil: that of the daemon
	Tasks   []Task   `json:"tasks"`          // by rank
	// Umask and ULimits are those of its processes, as in api.JobSpec.
	Umask   string            `json:"umask,omitempty"`
	ULimits map[string]string `json:"ulimits,omitempty"`

	Cgroup  string   `json:"cgroup,omitempty"` // name of its cgroup below the daemon's, such as job-17-1; empty: none
	Parent  string   `json:"parent,omitempty"` // of Cgroup, as a path in the hierarchy, such as /norn
	Limits           // at first
	Devices []string `json:"devices,omitempty"`
	// Hidden are the device files that the run must not open: those of the GPUs
	// that it does not hold.
	Hidden []string `json:"hidden,omitempty"`
	// Period is the time in which a run that is throttled is stopped and goes on once;
	// 0: the runner's own.
	Period api.Seconds `json:"period,omitempty"`

	Stop    api.Stop    `json:"stop"`              // with every default filled in
	Restore string      `json:"restore,omitempty"` // folder of CRIU's images to go on from; empty: begin anew
	Images  string      `json:"images,omitempty"`  // folder to which CRIU writes
	Limit   api.Seconds `json:"limit,omitempty"`   // the run is ended after so long; 0: never

	// On is what it was launched on, for a daemon whose log has lost that; it means nothing
	// to the runner.
	On *cluster.Alloc `json:"on,omitempty"`

	Owner string `json:"owner,omitempty"` // the name of its user
	// Log is a file to which what the tasks write goes, too, as in api.JobSpec.
	Log string `json:"log,omitempty"`
	// PTY: its one task has a terminal of its own; what is typed comes by InputFile.
	PTY bool `json:"pty,omitempty"`

	LogBytes api.Bytes `json:"log_bytes"` // at which output.log is put aside
	LogKeep  int       `json:"log_keep"`  // how many such files are kept
	Notify   string    `json:"notify,omitempty"`
}

// Limits is what a run may use, as far as that may change while it runs.
type Limits struct {
	CPUs   float64   `json:"cpus,omitempty"`   // CPU time in cores; 0: no limit
	Memory api.Bytes `json:"mem,omitempty"`    // 0: no limit
	Weight int       `json:"weight,omitempty"` // of its CPU time where that is short, 1 to 10000; 0: the usual 100
	// Throttle is how many thousandths of the time it is kept from running, so that
	// others have the devices for themselves; 1000: it is stopped.
	Throttle int `json:"throttle,omitempty"`
	// Phase is where in each period its turn begins, in thousandths of that: those who
	// share a device take turns so.
	Phase int `json:"phase,omitempty"`
	// Paced: it keeps to Throttle by itself, and is stopped only where that is 1000.
	Paced bool `json:"paced,omitempty"`
}

// User is whom a run runs as.
type User struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
}

// Task is one process of the gang.
type Task struct {
	Env []string `json:"env,omitempty"` // its own, such as CUDA_VISIBLE_DEVICES
}

// Want is what the daemon wants of a run. A larger Seq replaces a smaller one.
type Want struct {
	Seq   int         `json:"seq"`
	State WantState   `json:"state"`
	Grace api.Seconds `json:"grace,omitempty"` // Save, End: time before it is killed
	Why   string      `json:"why,omitempty"`
	// Purpose is the daemon's own note of what shall become of the job when the
	// run has left.
	Purpose string `json:"purpose,omitempty"`
}

// WantState is how a run should be.
type WantState string

// The wishes. The zero value is Go.
const (
	Go     WantState = "go"     // it runs
	Freeze WantState = "freeze" // it is stopped in memory
	Save   WantState = "save"   // it leaves: writes a checkpoint, as Run.Stop says, and is killed after Grace
	End    WantState = "end"    // it leaves: SIGTERM, and SIGKILL after Grace; nothing is kept
)

// Status is where a run stands.
type Status struct {
	State     RunState `json:"state"`
	Seq       int      `json:"seq"` // of the Want that it follows
	PID       int      `json:"pid"` // of the runner
	Start     uint64   `json:"start"`
	Boot      string   `json:"boot"`
	Up        int64    `json:"up,omitempty"` // when the runner came up, or was told which run is its own
	Began     int64    `json:"began"`        // when its tasks started
	Tasks     []Proc   `json:"tasks"`
	Port      int      `json:"port,omitempty"` // MASTER_PORT
	Cgroup    string   `json:"cgroup,omitempty"`
	Isolation []string `json:"isolation"` // what is in force and what is not, for a reader
}

// RunState is where a run stands.
type RunState string

// The states of a run.
const (
	Running RunState = "running"
	Frozen  RunState = "frozen"
	Leaving RunState = "leaving"
)

// Proc is a process that cannot be mistaken for a later one of the same number:
// with its start, in clock ticks since the machine was booted.
type Proc struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Exit is how a run ended.
type Exit struct {
	Ended   int64      `json:"ended"`
	Cause   Cause      `json:"cause"`
	Exit    api.Exit   `json:"exit"`
	Tasks   []api.Exit `json:"tasks,omitempty"` // by rank
	Seq     int        `json:"seq"`             // of the Want that it followed
	Asked   WantState  `json:"asked,omitempty"` // Save or End: it had been told to leave before it ended
	Killed  bool       `json:"killed,omitempty"`
	Images  bool       `json:"images,omitempty"` // CRIU wrote a checkpoint that is whole
	Error   string     `json:"error,omitempty"`  // of NotStarted, and of a checkpoint that failed
	CPUTime float64    `json:"cpu_time"`         // of all tasks
	MaxRSS  api.Bytes  `json:"max_rss"`          // of the largest task
}

// Cause is why a run ended.
type Cause string

// The causes.
const (
	Exited     Cause = "exited"      // by itself: all tasks with 0, or one failed and the others were ended
	Left       Cause = "left"        // it was told to, by Want
	TimeLimit  Cause = "time-limit"  // it reached Run.Limit
	NotStarted Cause = "not-started" // a task could not be launched
	RunnerLost Cause = "runner-lost" // written by the daemon: the runner died, what it left was killed
)

// Saved is the last checkpoint that a job reported.
type Saved struct {
	At       int64          `json:"at"`
	Progress int64          `json:"progress"` // of the job, in nanoseconds of run time
	Point    api.Checkpoint `json:"point"`
}

// Begin makes the folder of a run with what to launch and what is wanted of it,
// durably. It may be repeated.
func Begin(dir string, run *Run, want Want) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := put(dir, RunFile, run); err != nil {
		return err
	}
	if err := put(dir, WantFile, want); err != nil {
		return err
	}
	if err := Sync(dir); err != nil {
		return err
	}
	return Sync(filepath.Dir(dir))
}

// Write replaces a file of the folder, durably.
func Write(dir, name string, v any) error {
	if err := put(dir, name, v); err != nil {
		return err
	}
	return Sync(dir)
}

// put replaces a file of the folder. Its contents are durable, its name is not.
func put(dir, name string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	tmp := filepath.Join(dir, "."+name)
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(sealed.Seal(b), '\n'))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, filepath.Join(dir, name))
	}
	if err != nil {
		os.Remove(tmp)
	}
	return err
}

// Sync makes the names in a folder durable.
func Sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// ErrDamaged is the error of a file that is there and is not as it was written.
var ErrDamaged = errors.New("is damaged")

// Read reads a file of the folder; ok is false when there is none. It fails with
// ErrDamaged, wrapped, on one that is not as it was written. Files without a checksum, as
// older programs wrote them, are believed where they can be read.
func Read(dir, name string, v any) (ok bool, err error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err = sealed.Check(b); err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return false, fmt.Errorf("%s %w: %w", filepath.Join(dir, name), ErrDamaged, err)
	}
	return true, nil
}

// ErrHeld is the error of a lock that another process holds.
var ErrHeld = errors.New("is held by another process")

// Now is the present moment as it stands in files.
func Now() int64 { return time.Now().UnixNano() }

// Variables that every task finds in its environment, beside those that its user
// gave. The daemon sets the first group, the runner the second.
const (
	EnvJob        = "NORN_JOB"         // 17, or 17_3
	EnvRun        = "NORN_RUN"         // 1, 2, ...
	EnvName       = "NORN_JOB_NAME"    //
	EnvArrayID    = "NORN_ARRAY_ID"    // of an array: 17
	EnvArrayIndex = "NORN_ARRAY_INDEX" // of an array: 3
	EnvGPUs       = "NORN_GPUS"        // that the job holds
	EnvWorkers    = "NORN_WORKERS"     // that take turns on the tasks there are (job.TimeSliced)
	EnvSocket     = "NORN_SOCKET"      // of the daemon's API
	EnvToken      = "NORN_TOKEN"       // of this run, for reports
	EnvResident   = "NORN_RESIDENT"    // socket of the resident trainer, for it and for those that hand it work
	EnvVisible    = "CUDA_VISIBLE_DEVICES"

	EnvMasterAddr = "MASTER_ADDR" // and RANK, WORLD_SIZE, ... as torchrun, Open MPI, PMI and JAX name them
	EnvMasterPort = "MASTER_PORT"
)
