package cgroup

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
)

// v2 is version 2: one hierarchy.
type v2 struct {
	root      string // where it is mounted
	own       string // path of this process
	super     bool   // this process may do everything
	delegated bool   // systemd has left own to this process
}

// leaf is where the daemon moves to in a cgroup of its own.
const leaf = "norn-daemon"

// v2Names are the controllers that must be passed on for what groups do.
var v2Names = []string{cpu: "cpu", memory: "memory"}

func (*v2) version() string { return "cgroup v2" }

func (t *v2) dir(path string) string { return filepath.Join(t.root, path) }

func (t *v2) prepare(parent string) (string, lacks) {
	if parent == "" {
		parent = t.suits()
	}
	var l lacks
	if err := writable(t.dir(parent)); err != nil {
		return parent, all(reason(err))
	}
	for p, name := range v2Names {
		l[p] = t.pass(parent, name)
	}
	if !t.super {
		l[devices] = "only root may restrict them"
	}
	return parent, l
}

// suits is the folder in which groups can best be made.
func (t *v2) suits() string {
	switch {
	case path.Base(t.own) == leaf: // this process has moved there before
		return path.Dir(t.own)
	case t.own != "/" && (t.delegated || !t.super && t.alone()) && t.vacate() == nil:
		return t.own
	case t.super:
		return "/norn"
	}
	return path.Join(path.Dir(t.own), "norn")
}

// alone tells whether no other process lives in the cgroup of this one.
func (t *v2) alone() bool {
	b, err := os.ReadFile(filepath.Join(t.dir(t.own), "cgroup.procs"))
	return err == nil && strings.TrimSpace(string(b)) == strconv.Itoa(os.Getpid())
}

// vacate moves this process to a leaf of its cgroup.
func (t *v2) vacate() error {
	dir := filepath.Join(t.dir(t.own), leaf)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return write(dir, "cgroup.procs", strconv.Itoa(os.Getpid()))
}

// pass has a controller passed on from the top down to groups in the parent, and
// says why it is not.
func (t *v2) pass(parent, controller string) string {
	has := func(dir, file string) bool {
		b, _ := os.ReadFile(filepath.Join(t.dir(dir), file))
		return slices.Contains(strings.Fields(strings.ReplaceAll(string(b), "+", "")), controller)
	}
	if !has("/", "cgroup.controllers") {
		return "this machine has no cgroups for it (" + controller + ")"
	}
	if has(parent, "cgroup.subtree_control") {
		return ""
	}
	child, err := cgroup2.Load(path.Join(parent, "job"), cgroup2.WithMountpoint(t.root))
	if err == nil {
		err = child.ToggleControllers([]string{controller}, cgroup2.Enable)
	}
	switch {
	case has(parent, "cgroup.subtree_control"):
		return ""
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || err == nil:
		return "systemd has not delegated it to Norn (" + controller + ")"
	}
	return reason(err)
}

func (t *v2) create(path string, lim Limits, l lacks) lacks {
	m, err := cgroup2.Load(path, cgroup2.WithMountpoint(t.root))
	if err == nil {
		err = os.MkdirAll(t.dir(path), 0o755)
	}
	if err != nil {
		return all(reason(err))
	}
	if (lim.CPUs > 0 || lim.Weight > 0) && l[cpu] == "" {
		l[cpu] = reason(updateCPU(m, lim))
	}
	if n := int64(lim.Memory); n > 0 && l[memory] == "" {
		l[memory] = reason(m.Update(&cgroup2.Resources{Memory: &cgroup2.Memory{Max: &n}}))
		if exists(filepath.Join(t.dir(path), "memory.swap.max")) { // kernels without swap have none
			l[memory] += reason(write(t.dir(path), "memory.swap.max", "0"))
		}
	}
	if len(lim.Hidden) > 0 && l[devices] == "" {
		l[devices] = reason(t.hide(path, lim.Hidden))
	}
	if !exists(filepath.Join(t.dir(path), "cgroup.freeze")) {
		l[freezer] = "this kernel has none for cgroup v2"
	}
	return l
}

func updateCPU(m *cgroup2.Manager, lim Limits) error {
	quota, period := quotaOf(lim.CPUs)
	most, weight := cgroup2.NewCPUMax(&quota, &period), lim.weight()
	if quota < 0 {
		most = cgroup2.NewCPUMax(nil, &period)
	}
	return m.Update(&cgroup2.Resources{CPU: &cgroup2.CPU{Max: most, Weight: &weight}})
}

func (t *v2) update(path string, lim Limits, l lacks) (_ lacks, busy bool) {
	m, err := cgroup2.Load(path, cgroup2.WithMountpoint(t.root))
	if err != nil {
		l[cpu], l[memory] = reason(err), reason(err)
		return l, false
	}
	if l[cpu] == "" {
		l[cpu] = reason(updateCPU(m, lim))
	}
	if l[memory] == "" {
		most := "max"
		if lim.Memory > 0 {
			most = strconv.FormatInt(int64(lim.Memory), 10)
		}
		l[memory] = reason(write(t.dir(path), "memory.max", most))
	}
	return l, false
}

func (t *v2) inUse(path string) api.Bytes {
	dir := t.dir(path)
	b, _ := os.ReadFile(filepath.Join(dir, "memory.current"))
	used, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return api.Bytes(max(0, used-counter(dir, "memory.stat", "inactive_file")))
}

// hide attaches a program to the group that denies device files.
func (t *v2) hide(path string, files []string) error {
	deny, err := rules(files)
	if len(deny) == 0 {
		return err
	}
	every := int64(-1)
	open := specs.LinuxDeviceCgroup{Allow: true, Type: "a", Major: &every, Minor: &every, Access: "rwm"}
	insts, license, ferr := cgroup2.DeviceFilter(append([]specs.LinuxDeviceCgroup{open}, deny...))
	if ferr != nil {
		return ferr
	}
	fd, oerr := unix.Open(t.dir(path), unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if oerr != nil {
		return oerr
	}
	defer unix.Close(fd)
	_, lerr := cgroup2.LoadAttachCgroupDeviceFilter(insts, license, fd)
	return errors.Join(err, lerr)
}

func (t *v2) folders(path string) []string {
	if dir := t.dir(path); exists(dir) {
		return []string{dir}
	}
	return nil
}

// enter opens the group for clone3, if the kernel and the permissions are so that
// processes can be born in it.
func (t *v2) enter(path string) (int, func() error, error) {
	fd, err := unix.Open(t.dir(path), unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	// A process that gets as far as not finding its program has been born.
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}}
	if _, err := syscall.ForkExec("/norn/no/such/program", nil, attr); !errors.Is(err, unix.ENOENT) {
		unix.Close(fd)
		return -1, nil, err
	}
	return fd, func() error { return unix.Close(fd) }, nil
}

func (t *v2) add(path string, pid int) error {
	return write(t.dir(path), "cgroup.procs", strconv.Itoa(pid))
}

func (t *v2) freeze(path string, on bool) error {
	return write(t.dir(path), "cgroup.freeze", map[bool]string{false: "0", true: "1"}[on])
}

func (t *v2) frozen(path string) (bool, error) {
	return counter(t.dir(path), "cgroup.events", "frozen") == 1, nil
}

func (t *v2) kill(path string, pids []int) error {
	if file := "cgroup.kill"; exists(filepath.Join(t.dir(path), file)) { // since Linux 5.14
		return write(t.dir(path), file, "1")
	}
	return killEach(pids)
}

func (t *v2) oom(path string) OOM {
	dir := t.dir(path)
	return OOM{Kills: counter(dir, "memory.events", "oom_kill"), Limit: counter(dir, "memory.events", "max") > 0}
}
