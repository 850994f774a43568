package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Group holds the processes of one run.
type Group struct {
	m      *Manager
	path   string
	limits Limits
	lacks  lacks
}

// Path is where the group is in the hierarchy; empty when it exists nowhere.
func (g *Group) Path() string {
	if !g.Holds() {
		return ""
	}
	return g.path
}

// Holds tells whether the group exists, and so holds the processes born in it.
func (g *Group) Holds() bool { return g.m.tree != nil && len(g.m.tree.folders(g.path)) > 0 }

// Isolation says what is in force for the group and what not, a sentence each.
func (g *Group) Isolation() []string { return g.lacks.of(g.limits, g.m.version()) }

// Bear runs start, which starts processes and returns their numbers, so that
// they are born in the group: start passes fd to clone3 as their cgroup, unless
// it is negative. Where birth in a group is not possible they are moved to it when
// start has returned. The caller has locked its goroutine to its thread.
//
// The error is that of start, or says that this thread could not leave the group
// again.
func (g *Group) Bear(start func(fd int) ([]int, error)) error {
	if !g.Holds() {
		_, err := start(-1)
		return err
	}
	fd, leave, err := g.m.tree.enter(g.path)
	if err == nil {
		_, err = start(fd)
		return errors.Join(err, leave())
	}
	pids, err := start(-1)
	for _, pid := range pids {
		if aerr := g.m.tree.add(g.path, pid); aerr != nil && !errors.Is(aerr, unix.ESRCH) {
			g.lacks = all("its processes could not be moved to their cgroup: " + reason(aerr))
		}
	}
	return err
}

// CanFreeze tells whether the group can be frozen.
func (g *Group) CanFreeze() bool { return g.Holds() && g.lacks[freezer] == "" }

// Freeze asks that all processes stop. They have when Frozen says so: one that is
// inside the kernel stops when it comes out. It is asked again until then, as
// version 1 may miss processes that are just being born; there it helps to thaw
// the group now and then, too.
func (g *Group) Freeze() error { return g.m.tree.freeze(g.path, true) }

// Thaw lets them go on.
func (g *Group) Thaw() error { return g.m.tree.freeze(g.path, false) }

// Frozen tells whether all processes have stopped.
func (g *Group) Frozen() (bool, error) { return g.m.tree.frozen(g.path) }

// Update changes the limits on CPU time and memory of a group in which processes
// live, and its weight; Hidden stays as it is. Memory is never limited to less than
// the group cannot do without, and a little room: where the wish is less, the limit
// falls as far as that, short is true, and it is worth asking again. Isolation says
// what is in force then.
func (g *Group) Update(l Limits) (short bool) {
	if !g.Holds() {
		return false
	}
	l.Hidden = g.limits.Hidden
	if l.Memory > 0 && g.lacks[memory] == "" {
		used := g.m.tree.inUse(g.path)
		least := used + max(room, used/16)
		if now := g.limits.Memory; now > 0 {
			least = min(least, now)
		}
		if short = l.Memory < least; short {
			l.Memory = least
		}
	}
	lacks, busy := g.m.tree.update(g.path, l, g.lacks)
	if busy {
		l.Memory = g.limits.Memory
	}
	g.limits, g.lacks = l, lacks
	return short || busy
}

// room is what is left free when a limit on memory is lowered, at the least.
const room = 4 << 20

// Procs lists the processes of the group, and of groups below it, but for this one.
func (g *Group) Procs() ([]int, error) {
	if g.m.tree == nil {
		return nil, nil
	}
	var pids []int
	for _, top := range g.m.tree.folders(g.path) {
		err := filepath.WalkDir(top, func(at string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return skipGone(err)
			}
			here, err := listed(at)
			for _, pid := range here {
				if pid != os.Getpid() && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
			return skipGone(err)
		})
		if err != nil {
			return pids, err
		}
	}
	return pids, nil
}

// listed are the processes in one folder.
func listed(dir string) (pids []int, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, word := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// skipGone forgives a folder that vanished while it was looked at.
func skipGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// Kill sends SIGKILL to all processes of the group, frozen ones too.
func (g *Group) Kill() error {
	pids, err := g.Procs()
	if len(pids) == 0 {
		return err
	}
	return g.m.tree.kill(g.path, pids)
}

// OOM is how often memory ran out in the group.
func (g *Group) OOM() OOM {
	if !g.Holds() {
		return OOM{}
	}
	return g.m.tree.oom(g.path)
}

// Remove removes the group, which must have no processes, and the groups that
// its processes have made below it. One that does not exist is no error.
func (g *Group) Remove() error {
	if g.m.tree == nil {
		return nil
	}
	var first error
	for _, dir := range g.m.tree.folders(g.path) {
		if err := removeTree(dir); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// removeTree removes folders from the deepest up: files of cgroups cannot be
// removed. A process that has just ended still keeps its group for a moment.
func removeTree(dir string) error {
	var dirs []string
	filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, at)
		}
		return nil
	})
	slices.Reverse(dirs)
	for _, d := range dirs {
		var err error
		for wait := time.Millisecond; wait < 100*time.Millisecond; wait *= 2 {
			if err = unix.Rmdir(d); !errors.Is(err, unix.EBUSY) {
				break
			}
			time.Sleep(wait)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("cgroup %s: %w", d, err)
		}
	}
	return nil
}

// killEach sends SIGKILL to processes.
func killEach(pids []int) error {
	var first error
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) && first == nil {
			first = fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return first
}

// write writes to a file of a group.
func write(dir, name, text string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
}

// counter reads a line "name N" of a file of a group; 0 when there is none.
func counter(dir, file, name string) int {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && key == name {
			n, _ := strconv.Atoi(value)
			return n
		}
	}
	return 0
}
