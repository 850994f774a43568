// Package config is the configuration of the daemon: one file, one struct, every
// default in one place (Default).
//
// Nouns:
//   - A Config is all that an operator decides.
//   - An entry is one key of the file, with its meaning.
//   - A Tenant is a party that shares the machine.
//   - A Token proves over TCP who calls. The file holds only its SHA-256 hash.
//
// Units: time.Duration, memory in bytes, CPU cores and GPUs in thousandths
// (unit.Milli). In the file they are written as 1h30m, 512MiB, 0.5.
//
// An unknown key is an error, and every error tells file, line and what to write.
// Write prints a whole file with a comment for each key; read again it gives an
// equal Config.
package config

import (
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
)

// Config is all that an operator decides.
type Config struct {
	State     string // folder, an absolute path
	Socket    string // an absolute path
	Devices   Devices
	SlotMem   unit.Bytes // of each declared slot; 0: not known
	Counted   job.Slots  // counted resources of the machine
	Host      Host
	Reserve   Reserve
	Labels    []label.Label // of the machine
	Taints    []label.Taint
	Policy    experiment.Choice
	Estimates Estimates
	Tenants   []Tenant
	Gains     []Gain
	Speeds    []Speed
	HalfLife  time.Duration // of the usage of tenants; 0: that of the policy
	Operators []string      // names of users, or their uids
	Jobs      Jobs
	Health    Health
	Sharing   Sharing
	Logs      Logs
	Disk      Disk
	History   History
	Limits    Limits
	Listen    Listen
	Isolation Isolation
	Metrics   bool
	LogLevel  slog.Level
}

// Devices is what is shared out: every GPU that is found, those in Only, or declared
// Slots.
type Devices struct {
	Auto  bool
	Slots []Slots
	Only  []string // by name (gpu0), number, UUID or PCI address
}

// Slots is so many declared slots of a type.
type Slots struct {
	Type  string
	Count int
}

// slotType is the type of slots of which nothing more is said.
const slotType = "slot"

// Host is the machine's processors as devices, for jobs that can do without GPUs:
// so many equal parts of them.
type Host struct {
	Slots  int
	Memory unit.Bytes // of each; 0: an equal part of the machine's
}

// Reserve is what jobs never get of the machine.
type Reserve struct {
	CPUs   unit.Milli
	Memory unit.Bytes
}

// Jobs is what holds for a job that does not say otherwise.
type Jobs struct {
	Stop         job.StopMode
	Grace        time.Duration // for a checkpoint, before it is killed
	CancelGrace  time.Duration // between SIGTERM and SIGKILL of a job that is cancelled
	Retry        int           // starts after a failure; -1: always
	Backoff      time.Duration // before the first of them, doubled each time
	CPUs         unit.Milli    // of a job without GPUs
	ResidentIdle time.Duration // a resident trainer that no job uses is kept for so long
}

// Health is when something counts as broken.
type Health struct {
	Sample      time.Duration // between two looks at the devices
	Checkpoints int           // so many that fail in a row: the job is held
	CrashWithin time.Duration // a run that fails so soon after its start counts as a crash
	CrashTimes  int           // so many crashes in a row: the job is held
}

// Sharing is how jobs get along that share a device.
type Sharing struct {
	MPS    Switch        // CUDA MPS: on for those who begin with a part of a GPU, for all, or for none
	Period time.Duration // in which one that is throttled is stopped and goes on once
	// Its speed is believed to be another one when its reports have shown for SpeedFor
	// that it differs by SpeedMargin of what was believed; 0: they are not looked at.
	SpeedFor    time.Duration
	SpeedMargin float64
	// One that uses more than MemoryFactor times the memory that is booked for it, for
	// MemoryFor, leaves; 0: it does not.
	MemoryFactor float64
	MemoryFor    time.Duration
}

// Logs is what is kept of what a run writes.
type Logs struct {
	Bytes unit.Bytes // of one file
	Keep  int        // files beside the one that is written
	// Retain is for how long they are kept when the job has ended; 0: for ever.
	Retain time.Duration
}

// Disk is how much must be free where the state lies.
type Disk struct {
	Reserve unit.Bytes // with less free nothing new is started
	Refuse  unit.Bytes // with less free nothing new is taken in
}

// History is how much is remembered.
type History struct {
	Jobs    int           // ended ones that are listed
	Compact int           // events after which a log is put aside and a new one begun
	Keep    time.Duration // of logs that were put aside; 0: for ever
}

// Limits protect users of the machine from each other.
type Limits struct {
	Body        unit.Bytes    // of a request
	Connections int           // at a time
	Header      time.Duration // within which a request must have said what it wants
	Jobs        int           // that have not ended
	Array       int           // jobs of one array
	User        Quota         // of each user but operators
	Tenant      Quota         // of each tenant
}

// Quota is how much one user, or one tenant, may have and ask for. 0: no limit.
type Quota struct {
	Queued   int           // jobs that wait or are held
	Running  int           // jobs that run, or may start
	GPUs     unit.Milli    // that these ask for
	Memory   unit.Bytes    // likewise, in main memory
	Array    int           // jobs of one array
	Priority int           // of a job
	Grace    time.Duration // of a job, for its checkpoint
	PIDs     int           // processes and threads of a user
}

// Listen is the API over TCP.
type Listen struct {
	Address   string // host:port; empty: none
	Cert, Key string // files in PEM; empty: no TLS
	Tokens    []Token
}

// Isolation is how jobs are confined.
type Isolation struct {
	Cgroups Switch
	Parent  string // cgroup below which those of jobs are made, such as /norn
}

// Switch is on, off, or on where it works.
type Switch uint8

// The positions of a Switch.
const (
	Auto Switch = iota // on where it works, with a note where it does not
	On                 // the daemon does not start without it
	Off
)

func (s Switch) String() string { return [...]string{"auto", "on", "off"}[s] }

// Default is the configuration of whoever runs this program, where there is no
// file.
func Default() *Config { return defaults(self()) }

// defaults are all defaults.
func defaults(who user) *Config {
	c := &Config{
		State:     who.state(),
		Devices:   Devices{Auto: true},
		Reserve:   Reserve{Memory: 512 * unit.MiB},
		Policy:    experiment.Choice{Policy: "fifo", Settings: []experiment.Setting{{Name: "mode", Value: "easy"}}},
		Estimates: Estimates{experiment.User, experiment.History},
		Jobs:      Jobs{Stop: job.Pinned, Grace: time.Minute, CancelGrace: 10 * time.Second, Backoff: 10 * time.Second, CPUs: unit.One, ResidentIdle: 5 * time.Minute},
		Health:    Health{Sample: 10 * time.Second, Checkpoints: 3, CrashWithin: 10 * time.Second, CrashTimes: 5},
		Sharing:   Sharing{Period: 500 * time.Millisecond, SpeedFor: 30 * time.Second, SpeedMargin: 0.1, MemoryFactor: 1.2, MemoryFor: 30 * time.Second},
		Logs:      Logs{Bytes: 16 * unit.MiB, Keep: 4, Retain: 90 * day},
		Disk:      Disk{Reserve: 512 * unit.MiB, Refuse: 128 * unit.MiB},
		History:   History{Jobs: 1000, Compact: 50_000, Keep: 365 * day},
		Limits: Limits{Body: 4 * unit.MiB, Connections: 4096, Header: 10 * time.Second, Jobs: 100_000, Array: 10_000,
			User:   Quota{Queued: 25_000, Array: 10_000, Priority: 1000, Grace: time.Hour, PIDs: 32_768},
			Tenant: Quota{Queued: 50_000, Array: 10_000, Priority: 1000, Grace: time.Hour, PIDs: 32_768},
		},
		Isolation: Isolation{Parent: "/norn"},
		Metrics:   true,
		LogLevel:  slog.LevelInfo,
	}
	c.Socket = who.socket(c.State)
	return c
}

const day = 24 * time.Hour

// user is who runs this program, as far as places depend on it.
type user struct {
	uid                           int
	home                          string // empty: none
	config, stateHome, runtimeDir string // of XDG; empty: not given
}

// self is the present user. Paths that are not absolute do not count, as XDG
// has it.
func self() user {
	path := func(name string) string {
		if p := os.Getenv(name); filepath.IsAbs(p) {
			return p
		}
		return ""
	}
	return user{os.Geteuid(), path("HOME"), path("XDG_CONFIG_HOME"), path("XDG_STATE_HOME"), path("XDG_RUNTIME_DIR")}
}

// state is the folder of the state; empty where the user has no home.
func (u user) state() string {
	switch {
	case u.uid == 0:
		return "/var/lib/norn"
	case u.stateHome != "":
		return filepath.Join(u.stateHome, "norn")
	case u.home != "":
		return filepath.Join(u.home, ".local", "state", "norn")
	}
	return ""
}

// socket is the path of the API's socket.
func (u user) socket(state string) string {
	switch {
	case u.uid == 0:
		return "/run/norn.sock"
	case u.runtimeDir != "":
		return filepath.Join(u.runtimeDir, "norn.sock")
	case state != "":
		return filepath.Join(state, "norn.sock")
	}
	return ""
}

// Path is where the file is looked for: /etc/norn/norn.yaml for root, else
// norn/norn.yaml in $XDG_CONFIG_HOME or ~/.config. Empty where the user has no
// home.
func Path() string { return self().path() }

func (u user) path() string {
	switch {
	case u.uid == 0:
		return "/etc/norn/norn.yaml"
	case u.config != "":
		return filepath.Join(u.config, "norn", "norn.yaml")
	case u.home != "":
		return filepath.Join(u.home, ".config", "norn", "norn.yaml")
	}
	return ""
}

// Operator tells whether a local user may see and touch what is not hers: root,
// whom the daemon runs as, and those that the file names.
func (c *Config) Operator(name string, uid uint32) bool {
	if uid == 0 || int64(uid) == int64(os.Geteuid()) {
		return true
	}
	number := strconv.FormatUint(uint64(uid), 10)
	for _, o := range c.Operators {
		if o == name && name != "" || o == number {
			return true
		}
	}
	return false
}

// CgroupParent is the cgroup below which those of jobs are made: one for each state
// folder, so that two daemons do not take each other's jobs for their own.
func (c *Config) CgroupParent() string {
	h := fnv.New32a()
	io.WriteString(h, c.State)
	return fmt.Sprintf("%s-%08x", strings.TrimSuffix(c.Isolation.Parent, "/"), h.Sum32())
}
