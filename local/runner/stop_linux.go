package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/local/rundir"
)

// settle freezes or thaws as is wanted, and returns how long it may wait until it
// looks again.
func (r *runner) settle(now time.Time) time.Duration {
	p := &r.pause
	if r.status.State == "" {
		return pollWant // it is still being restored
	}
	waits, next := r.waits(now)
	stop := p.wanted || waits
	switch {
	case stop == p.done && stop == p.begun: // as it was
	case !stop:
		if r.thaw(); p.begun {
			return rekill // that failed
		}
	case !r.freeze():
		p.wait = min(max(2*p.wait, time.Millisecond), longestWait)
		return min(p.wait, next)
	case r.reap() || r.over(): // nothing was left to stop: it had just ended
		return 0
	default:
		p.done, p.wait = true, 0
	}
	r.stands(now)
	return next
}

// stands notes where the run stands: frozen when that was wanted, and running while
// it waits for its turn.
func (r *runner) stands(now time.Time) {
	p := &r.pause
	state := rundir.Running
	if p.wanted {
		state = rundir.Frozen
		if p.since.IsZero() {
			p.since = now
		}
	} else {
		r.unpause()
	}
	if r.leave == nil && (state != r.status.State || r.status.Seq != r.want.Seq) {
		r.status.State, r.status.Seq, r.changed = state, r.want.Seq, true
	}
}

// unpause counts the time in which the run was stopped for good.
func (r *runner) unpause() {
	if p := &r.pause; !p.since.IsZero() {
		p.total += time.Since(p.since)
		p.since = time.Time{}
	}
}

// freeze has all processes stopped, and tells whether they are. It is called
// until they are.
func (r *runner) freeze() bool {
	if r.freezer() {
		if r.pause.wait >= longestWait { // it does not succeed: see Freeze
			r.group.Thaw()
		}
		if err := r.group.Freeze(); err != nil {
			complain(err)
			return false
		}
		r.pause.begun = true
		ok, err := r.group.Frozen()
		return ok && err == nil
	}
	r.pause.begun = true
	return r.suspend()
}

// suspend stops processes by a signal, and tells whether all have stopped. One
// that is inside the kernel, such as a parent that waits for a stopped child to
// execute a program, stops before it goes on.
func (r *runner) suspend() bool {
	all, err := descendants(os.Getpid())
	stopped := err == nil
	told := map[rundir.Proc]bool{}
	for _, p := range all {
		if !p.stopped() {
			stopped = stopped && p.state == 'D' && r.pause.told[p.Proc]
			if err := signalTo(p.Proc, syscall.SIGSTOP); err != nil {
				complain(err)
			}
		}
		told[p.Proc] = true
	}
	r.pause.told = told
	return stopped
}

// freezer tells whether the cgroup can freeze the run.
func (r *runner) freezer() bool { return r.group != nil && r.group.CanFreeze() }

// thaw lets all processes go on. Where that fails pause.begun stays.
func (r *runner) thaw() {
	p := &r.pause
	if !p.begun {
		return
	}
	if r.freezer() {
		if err := r.group.Thaw(); err != nil {
			complain(err)
			return
		}
	} else {
		r.resume()
	}
	r.unpause()
	p.begun, p.done, p.wait = false, false, 0
}

// resume lets processes go on that were stopped by a signal.
func (r *runner) resume() {
	all, err := descendants(os.Getpid())
	if err != nil {
		complain(err)
	}
	for _, d := range all {
		if d.stopped() || r.pause.told[d.Proc] {
			if err := signalTo(d.Proc, syscall.SIGCONT); err != nil {
				complain(err)
			}
		}
	}
}

// helper is a program that works on the run from outside.
type helper struct {
	pid  int
	done func(ws syscall.WaitStatus)
}

// save has the run write a checkpoint, as its user said that it can, and leave.
func (r *runner) save(grace time.Duration) {
	if grace <= 0 {
		grace = r.run.Stop.Grace.Duration()
	}
	stop := &r.run.Stop
	switch {
	case r.helper != nil: // it is still being restored: what it is restored from stays
		r.exit.Error = "it was told to leave while it was restored; the checkpoint that it was restored from is as it was"
		r.depart(rundir.Left, 0, 0)
	case stop.CRIU:
		r.dump(grace)
	case len(stop.Command) > 0:
		r.saveBy(stop.Command, grace)
	default:
		sig, err := signalNamed(stop.Signal)
		if err != nil {
			r.exit.Error = err.Error()
		}
		r.depart(rundir.Left, sig, grace)
	}
}

// signalNamed is a signal by its name. It is SIGTERM when there is no such signal.
func signalNamed(name string) (syscall.Signal, error) {
	if name == "" {
		return syscall.SIGTERM, nil
	}
	if sig := rundir.Signal(name); sig != 0 {
		return sig, nil
	}
	return syscall.SIGTERM, fmt.Errorf("there is no signal %q; SIGTERM was sent", name)
}

// saveBy runs a checkpoint command. Processes that are alive when it has ended
// are told to end.
func (r *runner) saveBy(command []string, grace time.Duration) {
	r.depart(rundir.Left, 0, grace)
	env := newVariables(environment(&r.run, 0, r.status.Port))
	env.set("NORN_PIDS", r.pids())
	out, err := r.log.pipe(-1, "[checkpoint] ")
	if err == nil {
		defer out.Close()
		takes := inheritance(&r.run)
		p := &program{args: command, env: env.list, dir: r.run.Dir, user: r.run.User, out: out, takes: &takes}
		err = r.help(p, func(ws syscall.WaitStatus) {
			if code, _ := exitOf(ws); code != 0 {
				r.exit.Error = "the checkpoint command failed: " + describe(ws)
			}
			r.tellTasks(syscall.SIGTERM)
		})
	}
	if err != nil {
		r.exit.Error = "the checkpoint command: " + err.Error()
		r.tellTasks(syscall.SIGTERM)
	}
}

// pids are the main processes that live.
func (r *runner) pids() string {
	var out []string
	for _, t := range r.tasks {
		if !t.ended {
			out = append(out, strconv.Itoa(t.PID))
		}
	}
	return strings.Join(out, " ")
}

// help starts a helper in the cgroup of the run.
func (r *runner) help(p *program, done func(syscall.WaitStatus)) error {
	return r.bear(func(fd int) ([]int, error) {
		p.cgroup = fd
		pid, err := p.start()
		if err != nil {
			return nil, err
		}
		r.helper = &helper{pid: pid, done: done}
		return []int{pid}, nil
	})
}

// describe says how a process ended, for a reader.
func describe(ws syscall.WaitStatus) string {
	code, sig := exitOf(ws)
	if sig != "" {
		return "it was ended by " + sig
	}
	return "exit status " + strconv.Itoa(code)
}

// images is what is kept beside the files of CRIU.
type images struct {
	Pipe  string   `json:"pipe"`  // to which the saved processes write
	Marks []string `json:"marks"` // in their environment
}

const imagesFile = "norn.json"

func readImages(dir string) (*images, error) {
	var i images
	b, err := os.ReadFile(filepath.Join(dir, imagesFile))
	if err == nil {
		err = json.Unmarshal(b, &i)
	}
	return &i, err
}

// dump has CRIU save the run, which ends the processes. If it fails they go on,
// and are told to end.
func (r *runner) dump(grace time.Duration) {
	r.depart(rundir.Left, 0, grace)
	dir := r.run.Images
	err := r.prepareImages(dir)
	if err == nil {
		p := r.criu("dump", "--tree", strconv.Itoa(r.tasks[0].PID), "--images-dir", dir, "--log-file", "dump.log")
		err = r.help(p, func(ws syscall.WaitStatus) {
			if code, _ := exitOf(ws); code != 0 {
				r.exit.Error = fmt.Sprintf("CRIU could not save it: %s: %s", describe(ws), lastError(filepath.Join(dir, "dump.log")))
			} else if err := syncAll(dir); err != nil {
				r.exit.Error = "its CRIU images are not safe on disk: " + err.Error()
			} else {
				r.exit.Images = true
			}
			r.tellTasks(syscall.SIGTERM)
		})
	}
	if err != nil {
		r.exit.Error = "CRIU could not save it: " + err.Error()
		r.tellTasks(syscall.SIGTERM)
	}
}

// criu is a call of CRIU. It runs as this process does: what it restores becomes
// whom it was.
func (r *runner) criu(args ...string) *program {
	return &program{
		args: append([]string{"criu"}, append(args, "--manage-cgroups=ignore", "--file-locks")...),
		env:  append(os.Environ(), marksOf(r.run.Env, r.run.Job, r.run.Run)...), dir: "/", out: os.Stderr,
	}
}

// prepareImages makes the folder of images, and notes what restoring will need.
func (r *runner) prepareImages(dir string) error {
	if len(r.tasks) != 1 || r.tasks[0].ended {
		return errors.New("it can save jobs of one task only")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := ownFolder(dir); err != nil {
		return err
	}
	pipe, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/1", r.tasks[0].PID))
	if err != nil {
		return err
	}
	marks := marksOf(r.run.Env, r.run.Job, r.run.Run)
	if saved, err := readImages(r.run.Restore); r.run.Restore != "" && err == nil {
		marks = saved.Marks
	}
	b, err := json.Marshal(images{Pipe: pipe, Marks: marks})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, imagesFile), b, 0o600)
}

// ownFolder refuses a folder of images that others may write to: CRIU gives
// processes whatever rights the images say.
func ownFolder(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s belongs to another user, or others may write to it", dir)
	}
	return nil
}

// syncAll makes all files of a folder durable.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// lastError is the last line of a log of CRIU that tells of an error.
func lastError(file string) string {
	b, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, "Error") {
			return strings.TrimSpace(line)
		}
	}
	return "see " + file
}

// restore has CRIU bring the run back from images. Its processes become children
// of this one when CRIU ends.
func (r *runner) restore(fd int) ([]int, error) {
	dir := r.run.Restore
	if err := ownFolder(dir); err != nil {
		return nil, err
	}
	saved, err := readImages(dir)
	if err != nil {
		return nil, fmt.Errorf("the checkpoint cannot be restored: %w", err)
	}
	out, err := r.log.pipe(0, "")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	pidfile := filepath.Join(r.dir, "restored.pid")
	p := r.criu("restore", "--images-dir", dir, "--restore-detached", "--pidfile", pidfile,
		"--log-file", "restore.log", "--inherit-fd", "fd[3]:"+saved.Pipe)
	p.extra, p.cgroup = []*os.File{out}, fd
	os.Remove(pidfile)
	pid, err := p.start()
	if err != nil {
		return nil, fmt.Errorf("the checkpoint cannot be restored: %w", err)
	}
	r.helper = &helper{pid: pid, done: func(ws syscall.WaitStatus) { r.restored(ws, pidfile) }}
	return []int{pid}, nil
}

// restored takes over what CRIU has restored.
func (r *runner) restored(ws syscall.WaitStatus, pidfile string) {
	fail := func(why string) {
		r.exit.Error, r.exit.Exit.Code = "the checkpoint cannot be restored: "+why, CannotRun
		r.leave = &leave{cause: rundir.NotStarted}
	}
	if code, _ := exitOf(ws); code != 0 {
		if r.leave == nil {
			fail(describe(ws) + ": " + lastError(filepath.Join(r.run.Restore, "restore.log")))
		}
		return
	}
	b, err := os.ReadFile(pidfile)
	pid, nerr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err = errors.Join(err, nerr); err != nil {
		fail(err.Error())
		return
	}
	p, err := readProcess(pid)
	if err != nil || p.parent != os.Getpid() {
		fail(fmt.Sprintf("process %d is not there, or is no child of its runner", pid))
		return
	}
	r.addTask(pid, 0)
	r.started()
	if r.leave != nil { // it was told to leave meanwhile
		r.tellTasks(syscall.SIGTERM)
	}
}
