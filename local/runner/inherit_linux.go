package runner

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/rundir"
)

// inherited is what a process of the run takes over from who submitted the job: never more
// than this process has.
type inherited struct {
	umask  int // -1: that of this process
	limits []limit
}

// limit is a limit on a process.
type limit struct {
	name     string
	resource int
	want     unix.Rlimit
	// early limits are those that programs look at when they begin, and that do no harm to
	// this process for a moment: it has them itself while it starts the program.
	early bool
}

// resources are the limits by their names.
var resources = [...]struct {
	name     string
	resource int
	early    bool
}{
	{"as", unix.RLIMIT_AS, false}, {"core", unix.RLIMIT_CORE, true}, {"cpu", unix.RLIMIT_CPU, false}, {"data", unix.RLIMIT_DATA, false},
	{"fsize", unix.RLIMIT_FSIZE, false}, {"nofile", unix.RLIMIT_NOFILE, true}, {"nproc", unix.RLIMIT_NPROC, false}, {"stack", unix.RLIMIT_STACK, true},
}

// Resource is the number by which the kernel knows a limit on a process, by its name as in
// api.ULimitNames; ok is false for any other name.
func Resource(name string) (number int, ok bool) {
	for _, r := range resources {
		if r.name == name {
			return r.resource, true
		}
	}
	return 0, false
}

// inheritance is what the processes of a run take over.
func inheritance(run *rundir.Run) (in inherited) {
	in.umask = -1
	if mask, err := api.ParseUmask(run.Umask); err == nil {
		in.umask = mask
	}
	for _, r := range resources {
		soft, hard, err := api.ParseULimit(run.ULimits[r.name])
		var has unix.Rlimit
		if err != nil || unix.Getrlimit(r.resource, &has) != nil {
			continue
		}
		want := unix.Rlimit{Cur: min(soft, has.Max), Max: min(hard, has.Max)}
		// That on processes holds for all of a user, and so for this one unless it is root.
		early := r.early || r.resource == unix.RLIMIT_NPROC && os.Geteuid() == 0
		in.limits = append(in.limits, limit{r.name, r.resource, want, early})
	}
	return in
}

// mask has this process have the mask of rights of the run, and returns how it has its own
// again.
func (in *inherited) mask() (end func()) {
	if in.umask < 0 {
		return func() {}
	}
	was := syscall.Umask(in.umask)
	return func() { syscall.Umask(was) }
}

// begin has this process be as what it starts shall be, and returns how it becomes again
// as it was. It must be called in the thread that starts the program.
func (in *inherited) begin() (end func()) {
	unmask := in.mask()
	var was []limit
	for _, l := range in.limits {
		var has syscall.Rlimit
		if !l.early || syscall.Getrlimit(l.resource, &has) != nil {
			continue
		}
		most := has.Max // that only root could raise again
		if os.Geteuid() == 0 {
			most = l.want.Max
		}
		if syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: l.want.Cur, Max: most}) == nil { // package syscall, which passes that of files on then
			was = append(was, limit{resource: l.resource, want: unix.Rlimit{Cur: has.Cur, Max: has.Max}})
		}
	}
	return func() {
		for _, l := range was {
			syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: l.want.Cur, Max: l.want.Max})
		}
		unmask()
	}
}

// finish gives a process that was started the limits that it has not got by begin.
func (in *inherited) finish(pid int) {
	for _, l := range in.limits {
		if err := unix.Prlimit(pid, l.resource, &l.want, nil); err != nil && err != unix.ESRCH {
			complain(fmt.Errorf("process %d: its limit %s: %w", pid, l.name, err))
		}
	}
}
