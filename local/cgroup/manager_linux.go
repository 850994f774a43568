package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/containerd/cgroups/v3"
	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
)

// tree is one of the two versions. Paths are those of groups in the hierarchy,
// such as /norn/job-17-1.
type tree interface {
	version() string
	// prepare makes the folder in which groups are made; an empty parent stands
	// for the one that suits. It returns the folder and what groups in it cannot do.
	prepare(parent string) (string, lacks)
	// create makes a group and puts the limits in force, and returns what it cannot
	// do, beside that which is known already.
	create(path string, l Limits, known lacks) lacks
	// update changes the limits on CPU time and memory, and the weight, of a group in
	// which processes live; it returns as create does. busy: the memory in use did not
	// permit its limit, which is what it was.
	update(path string, l Limits, known lacks) (_ lacks, busy bool)
	// inUse is the memory of the group that the kernel cannot simply drop.
	inUse(path string) api.Bytes
	// folders are those of a group that exist, the best to list processes first.
	folders(path string) []string
	// enter arranges that processes started by this thread are born in the group:
	// with fd as the cgroup of clone3 unless it is negative, until leave is called.
	enter(path string) (fd int, leave func() error, err error)
	add(path string, pid int) error
	freeze(path string, on bool) error
	frozen(path string) (bool, error)
	kill(path string, pids []int) error
	oom(path string) OOM
}

// Manager is a folder of the hierarchy below which groups are made.
type Manager struct {
	tree   tree // nil: this machine has no cgroups
	parent string
	lacks  lacks
}

// root is where cgroups are mounted.
const root = "/sys/fs/cgroup"

// Detect finds out what groups can do on this machine, and makes the folder that
// they will live in. An empty parent stands for the folder that suits (see the
// package); another is a path in the hierarchy, such as one that Parent returned
// to another process. The notes are those of Isolation.
func Detect(parent string) (*Manager, []string) {
	m := detect(mounted(), parent)
	return m, m.Isolation()
}

// Find is the group at a path that Group.Path returned to another process, or
// would be there.
func Find(at string) *Group {
	return &Group{m: &Manager{tree: mounted(), parent: path.Dir(at)}, path: path.Clean("/" + at)}
}

// mounted is the version that this machine has; nil: none.
func mounted() tree {
	own, unified, err := cgroups.ParseCgroupFileUnified("/proc/self/cgroup")
	if err != nil {
		own, unified = nil, "/"
	}
	switch cgroups.Mode() {
	case cgroups.Unified:
		return &v2{root: root, own: unified, super: os.Geteuid() == 0, delegated: delegated(filepath.Join(root, unified))}
	case cgroups.Legacy, cgroups.Hybrid:
		return &v1{root: root, own: own}
	}
	return nil
}

func detect(t tree, parent string) *Manager {
	m := &Manager{tree: t, parent: parent, lacks: all("this machine has no cgroups")}
	if t != nil {
		m.parent, m.lacks = t.prepare(parent)
	}
	return m
}

// delegated tells whether systemd has left a cgroup to those who live in it.
func delegated(dir string) bool {
	var b [8]byte
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		if n, err := unix.Getxattr(dir, name, b[:]); err == nil && string(b[:n]) == "1" {
			return true
		}
	}
	return false
}

// Parent is the path in the hierarchy below which groups are made.
func (m *Manager) Parent() string { return m.parent }

// Isolation says what groups can do here and what not, a sentence each.
func (m *Manager) Isolation() []string { return m.lacks.general(m.version()) }

func (m *Manager) version() string {
	if m.tree == nil {
		return ""
	}
	return m.tree.version()
}

// Create makes a group. It fails when the name is none, or is that of a group in
// which processes live; what the machine does not permit is left out.
func (m *Manager) Create(name string, l Limits) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	g := &Group{m: m, path: path.Join("/", m.parent, name), lacks: m.lacks, limits: l}
	if pids, _ := g.Procs(); len(pids) > 0 {
		return nil, errors.New("cgroup " + g.path + " is in use by other processes")
	}
	if m.tree != nil {
		g.lacks = m.tree.create(g.path, l, m.lacks)
	}
	return g, nil
}

// Remove removes the folder in which groups are made, if it is empty.
func (m *Manager) Remove() error {
	g := Group{m: m, path: path.Join("/", m.parent)}
	if g.path == "/" {
		return nil
	}
	return g.Remove()
}

// reason says in words why something was not possible.
func reason(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, fs.ErrPermission): // EACCES, EPERM
		return "Norn has no permission to make cgroups"
	case errors.Is(err, syscall.EROFS):
		return "cgroups are read-only here"
	case errors.Is(err, syscall.EBUSY):
		return "other processes share the cgroup of Norn"
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// writable makes a folder if need be, and tells why groups cannot be made in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return unix.Access(dir, unix.W_OK)
}
