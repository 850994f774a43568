package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/local/cgroup"
	"github.com/norn-scheduler/norn/local/rundir"
)

// patience is how long processes that were killed may take to end.
const patience = 30 * time.Second

// doubted is for how long processes are looked at again of which it cannot be told whose
// they are: those that are about to become another program, or to end. On a busy machine
// that takes a while.
const doubted = 5 * time.Second

// Clean kills all that a run has left whose runner was lost, and returns when it
// is gone, or with an error that names processes which do not end. The caller
// holds the lock of the folder. The processes of a run whose description is lost or
// damaged have all of marks, as NAME=value, in their environment.
func Clean(dir string, marks ...string) error {
	var run rundir.Run
	described, err := rundir.Read(dir, rundir.RunFile, &run)
	if err != nil && !errors.Is(err, rundir.ErrDamaged) {
		return err
	}
	if _, is := begun(dir); !is && !described && !has(dir, rundir.StatusFile) {
		return nil // nothing was launched
	}
	var st rundir.Status
	rundir.Read(dir, rundir.StatusFile, &st) // without it there are other ways
	if st.Boot != "" && st.Boot != BootID() {
		return nil
	}
	l := leftover{status: &st, marks: marks, group: groupOf(dir)}
	if described && err == nil {
		l.marks = marksOf(run.Env, run.Job, run.Run)
	}
	if run.Restore != "" { // what CRIU restored has the environment of the run that it was saved from
		if saved, err := readImages(run.Restore); err == nil {
			l.older = saved.Marks
		}
	}
	began := time.Now()
	l.latest = sinceBoot() + ticksPerSecond // children that its processes start until they are killed are among them
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		left, doubt, err := l.find()
		for _, p := range left {
			err = errors.Join(err, signalTo(p.Proc, unix.SIGKILL))
		}
		if l.group != nil {
			err = errors.Join(err, l.group.Kill())
		}
		took := time.Since(began)
		if len(left) == 0 && err == nil && (!doubt || took > doubted) {
			break
		}
		if took > patience {
			return fmt.Errorf("job %s, run %d: processes %v do not end: %w", run.Job, run.Run, numbers(left), err)
		}
		time.Sleep(wait)
	}
	if l.group != nil {
		return l.group.Remove()
	}
	return nil
}

func numbers(ps []process) []int {
	out := make([]int, len(ps))
	for i, p := range ps {
		out[i] = p.PID
	}
	return out
}

// leftover finds what a run has left.
type leftover struct {
	status *rundir.Status
	marks  []string
	older  []string // of the run that this one was restored from
	group  *cgroup.Group
	known  []rundir.Proc // found before
	latest uint64        // in ticks since boot: a process that began later is none of the run's
}

// sinceBoot is the present moment in ticks since boot.
func sinceBoot() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return math.MaxUint64 - ticksPerSecond // any process may be the run's
	}
	return uint64(t.Nano() / (int64(time.Second) / ticksPerSecond))
}

// find lists the processes of the run. These are the processes of its cgroup,
// its tasks, and processes with its marks in their environment. Children of any
// of these belong to it, and so does a session that one of them leads. The
// session of the runner belongs to it once one of them is in that session,
// because a number is not given anew while its session exists. If doubt is
// true, there may be more.
func (l *leftover) find() (out []process, doubt bool, err error) {
	var inGroup []int
	if l.group != nil {
		inGroup, _ = l.group.Procs()
	}
	all, err := processes()
	self := os.Getpid()
	known := slices.Concat(l.known, l.status.Tasks)
	l.known = nil
	ours, sessions := map[int]bool{}, map[int]bool{}
	take := func(p process) {
		ours[p.PID] = true
		l.known = append(l.known, p.Proc)
		if p.session == p.PID || p.session == l.status.PID {
			sessions[p.session] = true
		}
		if !p.ended() {
			out = append(out, p)
		}
	}
	for _, p := range all {
		if p.PID == self {
			continue
		}
		env, now := environ(p)
		if slices.Contains(known, p.Proc) || slices.Contains(inGroup, p.PID) || marked(env, l.marks) || marked(env, l.older) {
			take(p)
		}
		doubt = doubt || !now && p.Start <= l.latest
	}
	for more := len(out) > 0; more; {
		more = false
		for _, p := range all {
			if p.PID != self && !ours[p.PID] && (ours[p.parent] || sessions[p.session]) {
				take(p)
				more = true
			}
		}
	}
	return out, doubt, err
}

// marksOf are the variables that tell processes of a run from all others.
func marksOf(env []string, job string, run int) []string {
	out := []string{rundir.EnvJob + "=" + job, rundir.EnvRun + "=" + strconv.Itoa(run)}
	for _, name := range []string{rundir.EnvToken, rundir.EnvSocket} {
		if value, ok := lookup(env, name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// environ is the environment of a process, each variable between zero bytes; empty
// when it may not be read. One that has become another program meanwhile, is about
// to, or is about to end, has none for a moment, or half of one: ok is false. One
// that ends has given back its memory, and cannot be asked, before it closes its
// files, so that it still holds its locks.
func environ(p process) (env []byte, ok bool) {
	if p.ended() || p.kernel {
		return nil, true
	}
	env, err := os.ReadFile(p.folder + "/environ")
	if errors.Is(err, os.ErrPermission) {
		return nil, true
	}
	unread := err != nil
	now, err := readProcess(p.PID)
	if unread {
		return nil, err != nil || now.ended()
	}
	same := now.envStart == p.envStart && now.envEnd == p.envEnd && now.envEnd != 0
	none := now.envStart == now.envEnd
	ok = err != nil || now.ended() || same && (len(env) > 0 || none)
	return slices.Concat([]byte{0}, env), ok
}

// marked tells whether an environment has all of the marks.
func marked(env []byte, marks []string) bool {
	if len(marks) == 0 || len(env) == 0 {
		return false
	}
	for _, m := range marks {
		if !bytes.Contains(env, []byte("\x00"+m+"\x00")) {
			return false
		}
	}
	return true
}

// begin notes, before anything is started, that the run has begun, and the cgroup
// that it has: in the lock file. So it is not begun twice, and what it leaves can be
// found though status.json was never written. It need not be durable: what is lost
// when the machine goes down has not been left running.
func begin(lock *os.File, g *cgroup.Group) error {
	path := "-"
	if g != nil && g.Holds() {
		path = g.Path()
	}
	_, err := lock.WriteAt([]byte(path+"\n"), 0)
	return err
}

// begun tells whether a run has begun, and the cgroup that it has.
func begun(dir string) (path string, ok bool) {
	f, err := os.Open(filepath.Join(dir, rundir.LockFile))
	if err != nil {
		return "", false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	path, ok = strings.CutSuffix(string(b), "\n")
	return strings.TrimPrefix(path, "-"), ok && err == nil
}

// groupOf is the cgroup that a run has made; nil: none.
func groupOf(dir string) *cgroup.Group {
	path, ok := begun(dir)
	if !ok || path == "" {
		return nil
	}
	if g := cgroup.Find(path); g.Holds() {
		return g
	}
	return nil
}
