package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/rundir"
)

// task is one process of the gang.
type task struct {
	rundir.Proc
	ended      bool
	successors map[int]bool // that go on with its work; see the package
	exit       api.Exit
}

// over tells whether nothing of the task is left that matters.
func (t *task) over() bool { return t.ended && len(t.successors) == 0 }

// program is what is to be started for the run.
type program struct {
	args   []string
	env    []string
	dir    string
	user   *rundir.User // nil: that of this process
	out    *os.File     // its output and its errors
	extra  []*os.File   // from descriptor 3 on
	alone  bool         // in a session of its own, and not killed with this process: CRIU saves it
	cgroup int          // descriptor; negative: none
	takes  *inherited   // from who submitted it; nil: nothing
	// terminal: out is a terminal, which it has for its own and reads from, too.
	terminal bool
}

// startTasks starts all tasks. Those that it has started when it fails are killed
// by sweep.
func (r *runner) startTasks(fd int) ([]int, error) {
	if len(r.run.Command) == 0 || len(r.run.Tasks) == 0 {
		return nil, errors.New("the job has no command or no tasks")
	}
	var pids []int
	takes := inheritance(&r.run)
	for rank := range r.run.Tasks {
		prefix := ""
		if len(r.run.Tasks) > 1 {
			prefix = fmt.Sprintf("[%d] ", rank)
		}
		out, err := r.outputOf(rank, prefix)
		if err != nil {
			return pids, fmt.Errorf("task %d: %w", rank, err)
		}
		p := program{
			args: r.run.Command, env: environment(&r.run, rank, r.status.Port), dir: r.run.Dir, user: r.run.User,
			out: out, alone: r.run.Stop.CRIU, terminal: r.run.PTY, cgroup: fd, takes: &takes,
		}
		pid, err := p.start()
		out.Close()
		if err != nil {
			if len(r.run.Tasks) > 1 {
				err = fmt.Errorf("task %d of %d: %w", rank, len(r.run.Tasks), err)
			}
			return pids, err
		}
		pids = append(pids, pid)
		r.addTask(pid, rank)
	}
	return pids, nil
}

// outputOf is where a task writes: a pipe, or a terminal of its own.
func (r *runner) outputOf(rank int, prefix string) (*os.File, error) {
	if r.run.PTY {
		return r.terminal()
	}
	out, err := r.log.pipe(rank, prefix)
	if err != nil {
		return nil, fmt.Errorf("no pipe for its output: %w", err)
	}
	return out, nil
}

func (r *runner) addTask(pid, rank int) {
	start, err := StartTime(pid)
	if err != nil {
		complain(err)
	}
	t := &task{Proc: rundir.Proc{PID: pid, Start: start}, exit: api.Exit{Task: rank}}
	r.tasks = append(r.tasks, t)
	r.status.Tasks = append(r.status.Tasks, t.Proc)
}

// start starts the program, or fails with an error fit for its user.
func (p *program) start() (pid int, err error) {
	attr := &syscall.ProcAttr{
		Dir: p.dir, Env: p.env, Files: []uintptr{^uintptr(0), p.out.Fd(), p.out.Fd()},
		Sys: &syscall.SysProcAttr{Setpgid: !p.alone && !p.terminal, Setsid: p.alone || p.terminal, Setctty: p.terminal},
	}
	if attr.Dir == "" {
		attr.Dir = "/"
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	if attr.Files[0] = null.Fd(); p.terminal {
		attr.Files[0] = p.out.Fd()
	}
	for _, f := range p.extra {
		attr.Files = append(attr.Files, f.Fd())
	}
	if !p.alone {
		attr.Sys.Pdeathsig = syscall.SIGKILL
	}
	if p.cgroup >= 0 {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, p.cgroup
	}
	if attr.Sys.Credential, err = credential(p.user); err != nil {
		return 0, err
	}
	err = syscall.ENOENT
	other := attr.Sys.Credential != nil
	for _, file := range candidates(p.args[0], attr.Dir, p.env, other) {
		pid, ferr := p.fork(file, attr)
		switch {
		case ferr == nil:
			return pid, nil
		case errors.Is(ferr, syscall.EACCES): // a later one may do
			if strings.Contains(p.args[0], "/") || !other && isThere(attr.Dir, file) {
				err = ferr // if it is certain that there is one, and her own rights say so
			}
		case !errors.Is(ferr, syscall.ENOENT) && !errors.Is(ferr, syscall.ENOTDIR):
			return 0, p.explain(ferr, attr)
		}
	}
	return 0, p.explain(err, attr)
}

// fork starts a file as the program.
func (p *program) fork(file string, attr *syscall.ProcAttr) (pid int, err error) {
	if p.takes == nil {
		return syscall.ForkExec(file, p.args, attr)
	}
	end := p.takes.begin()
	pid, err = syscall.ForkExec(file, p.args, attr)
	end()
	if err == nil {
		p.takes.finish(pid)
	}
	return pid, err
}

// credential is whom a program runs as. Only root can become somebody else.
func credential(u *rundir.User) (*syscall.Credential, error) {
	self := uint32(os.Geteuid())
	switch {
	case u == nil || self != 0 && u.UID == self:
		return nil, nil
	case self != 0:
		return nil, fmt.Errorf("cannot run as user %d: Norn runs as user %d, and only root can become another", u.UID, self)
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}, nil
}

// isThere tells whether there is a file, as this process sees it.
func isThere(dir, file string) bool {
	_, err := os.Stat(inside(dir, file))
	return err == nil
}

// candidates are the files that the name of a program may stand for. Those that are
// certainly none are left out, but for another user: what this process sees is not what
// she may know.
func candidates(name, dir string, env []string, other bool) []string {
	if strings.Contains(name, "/") || name == "" {
		return []string{name}
	}
	path, ok := lookup(env, "PATH")
	if !ok {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	var out []string
	for _, at := range filepath.SplitList(path) {
		file := filepath.Join(at, name)
		if !strings.Contains(file, "/") { // an empty entry is the working directory
			file = "./" + file
		}
		if st, err := os.Stat(inside(dir, file)); !other && (os.IsNotExist(err) || err == nil && (st.IsDir() || st.Mode()&0o111 == 0)) {
			continue
		}
		out = append(out, file)
	}
	return out
}

// inside is where a file is for a process that works in a folder.
func inside(dir, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

// notFound is the error of a program that is not there.
type notFound struct{ error }

// notThere is the exit code of a program that is not there, as shells have it.
const notThere = 127

// codeOf is the exit code of a program that could not be started.
func codeOf(err error) int {
	if errors.As(err, new(*notFound)) {
		return notThere
	}
	return CannotRun
}

// explain says why the program could not be started.
func (p *program) explain(err error, attr *syscall.ProcAttr) error {
	// A name that is too long is found out when all before it has succeeded.
	_, before := syscall.ForkExec("/"+strings.Repeat("n", 300), []string{"n"}, attr)
	switch {
	case errors.Is(before, syscall.ENAMETOOLONG):
		text := fmt.Errorf("cannot run %s: %s", p.args[0], p.why(err, attr.Dir))
		if errors.Is(err, syscall.ENOENT) {
			return &notFound{text}
		}
		return text
	case errors.Is(before, syscall.EPERM) && p.user != nil:
		return fmt.Errorf("cannot run as user %d: permission denied", p.user.UID)
	case errors.Is(before, syscall.ENOENT), errors.Is(before, syscall.EACCES), errors.Is(before, syscall.ENOTDIR):
		return fmt.Errorf("working directory %s: %w", attr.Dir, before)
	}
	return fmt.Errorf("cannot run %s: %s", p.args[0], p.why(before, attr.Dir))
}

// why is what an error means to a user.
func (p *program) why(err error, dir string) string {
	name := p.args[0]
	switch {
	case errors.Is(err, syscall.ENOENT) && name != "" && !strings.Contains(name, "/"):
		return "no such file in PATH"
	case errors.Is(err, syscall.ENOENT):
		if st, err := os.Stat(inside(dir, name)); err == nil && !st.IsDir() {
			return "the interpreter that it names does not exist"
		}
		return "no such file"
	case errors.Is(err, syscall.ENOEXEC):
		return "it is no program for this machine, and no script that begins with #! and an interpreter"
	case errors.Is(err, syscall.E2BIG):
		return "its arguments and environment are too long"
	case errors.Is(err, syscall.EAGAIN):
		return "the limit on processes is reached"
	case errors.Is(err, syscall.EINVAL):
		return "its arguments or environment hold a zero byte"
	}
	return reasonOf(err).Error()
}

// exitOf says how a process ended.
func exitOf(ws syscall.WaitStatus) (code int, sig string) {
	if ws.Signaled() {
		sig = unix.SignalName(ws.Signal())
		if sig == "" { // those for real time have no names
			sig = fmt.Sprintf("SIG%d", int(ws.Signal()))
		}
		return 128 + int(ws.Signal()), sig
	}
	return ws.ExitStatus(), ""
}
