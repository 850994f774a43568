// Package runner is the process that launches one run of a job, watches over
// it, and outlives the daemon. Package rundir defines the messages between the
// two.
//
// Nouns:
//   - A run is one launch of a job.
//   - A task is one process of its gang: a main process that may have started
//     others.
//   - Processes that the main ones leave behind are what is left.
//   - A successor is one of those that goes on with the work of a main process
//     that ended by the signal to leave, as the child of a shell script does.
//   - A helper is a program that works on the run from outside: a checkpoint
//     command, or CRIU.
//
// # How a run is held together
//
// All that a run starts is a descendant of its runner, which is a subreaper: a
// process whose parent ends becomes a child of the runner, whatever groups and
// sessions it has left. Main processes are killed by the kernel when the runner
// dies (PDEATHSIG), but for those of jobs that CRIU saves, as they would be killed
// when CRIU has restored them and ends. Where cgroups are permitted the run is in one, which is
// frozen and ended as a whole. Clean finds what a lost runner left by its cgroup,
// by its session, and by the NORN_ variables in the environment of processes.
//
// # How it leaves
//
// The main processes get a signal and time, then everything is killed. Signals go
// to main processes only: a worker of a data loader that ends by SIGTERM makes its
// training process fail instead of writing a checkpoint. When a main process ends
// by that signal, its children get it in turn.
//
// # Limits and turns
//
// What the run may use can change while it runs (limits.json): the limits of its
// cgroup then change in place. A run that is throttled is stopped for its part of each
// period, as for freezing, and counts as running; all runners go by the same clock, so
// that the runs on one device can take turns. This needs no daemon, and ends with the
// runner's order to leave, and with the runner.
//
// # Environment
//
// A task finds the environment of its submission, the variables of package
// rundir, and those by which frameworks meet:
//
//	torchrun  MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
//	          NODE_RANK GROUP_RANK TORCHELASTIC_RESTART_COUNT
//	MPI, PMI  OMPI_COMM_WORLD_RANK _SIZE _LOCAL_RANK _LOCAL_SIZE, PMI_RANK PMI_SIZE
//	JAX       JAX_COORDINATOR_ADDRESS JAX_NUM_PROCESSES JAX_PROCESS_ID
//
// MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and LOCAL_RANK replace what the
// submission says; the others do not.
//
// Times are seconds in files, memory is bytes.
package runner

import (
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
)

// Verb is the hidden verb of norn by which a runner is started: norn runner DIR.
const Verb = "runner"

// CannotRun is the exit code of a job whose program could not be started, as shells have
// it.
const CannotRun = 126

// Usage is what the processes of a run have used: CPU time since it began, and the
// main memory that they take now. Memory that several of them share counts for each.
type Usage struct {
	CPU    time.Duration
	Memory api.Bytes
	PIDs   []int // the processes, but for the runner
}

// lookup is the value of a variable; the last one counts.
func lookup(env []string, name string) (value string, ok bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if rest, has := strings.CutPrefix(env[i], name); has && strings.HasPrefix(rest, "=") {
			return rest[1:], true
		}
	}
	return "", false
}
