package runner

import (
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/local/rundir"
)

// environment is that of a task: of the submission, of the task, and the
// variables by which the tasks of a gang find each other.
func environment(run *rundir.Run, rank, port int) []string {
	size, self := strconv.Itoa(len(run.Tasks)), strconv.Itoa(rank)
	master := strconv.Itoa(port)
	env := newVariables(run.Env)
	for _, kv := range run.Tasks[rank].Env {
		name, value, _ := strings.Cut(kv, "=")
		env.set(name, value)
	}
	for _, kv := range [][2]string{
		{rundir.EnvMasterAddr, loopback}, {rundir.EnvMasterPort, master},
		{"RANK", self}, {"WORLD_SIZE", size}, {"LOCAL_RANK", self},
	} {
		env.set(kv[0], kv[1])
	}
	for _, kv := range [][2]string{
		{"LOCAL_WORLD_SIZE", size}, {"NODE_RANK", "0"}, {"GROUP_RANK", "0"},
		{"TORCHELASTIC_RESTART_COUNT", strconv.Itoa(max(0, run.Run-1))},
		{"OMPI_COMM_WORLD_RANK", self}, {"OMPI_COMM_WORLD_SIZE", size},
		{"OMPI_COMM_WORLD_LOCAL_RANK", self}, {"OMPI_COMM_WORLD_LOCAL_SIZE", size},
		{"PMI_RANK", self}, {"PMI_SIZE", size},
		{"JAX_COORDINATOR_ADDRESS", loopback + ":" + master}, {"JAX_NUM_PROCESSES", size}, {"JAX_PROCESS_ID", self},
		{rundir.EnvJob, run.Job}, {rundir.EnvRun, strconv.Itoa(run.Run)},
	} {
		if !env.has(kv[0]) {
			env.set(kv[0], kv[1])
		}
	}
	return env.list
}

const loopback = "127.0.0.1"

// variables are NAME=value, each name once.
type variables struct {
	list []string
	at   map[string]int
}

func newVariables(env []string) *variables {
	v := &variables{at: make(map[string]int, len(env)+20)}
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			v.set(name, value)
		}
	}
	return v
}

func (v *variables) has(name string) bool {
	_, ok := v.at[name]
	return ok
}

func (v *variables) set(name, value string) {
	kv := name + "=" + value
	if i, ok := v.at[name]; ok {
		v.list[i] = kv
		return
	}
	v.at[name] = len(v.list)
	v.list = append(v.list, kv)
}
