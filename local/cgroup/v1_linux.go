package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// v1 is version 1: a hierarchy for each controller.
type v1 struct {
	root string            // folder of the hierarchies
	own  map[string]string // path of this process by controller

	stuck bool // a thread of this process could not leave a group
}

// v1Names are the controllers by what they do.
var v1Names = [parts]string{cpu: "cpu", memory: "memory", devices: "devices", freezer: "freezer"}

// v1Order is the order in which the folders of a group are listed.
var v1Order = [parts]part{freezer, memory, cpu, devices}

func (*v1) version() string { return "cgroup v1" }

func (t *v1) dir(p part, path string) string { return filepath.Join(t.root, v1Names[p], path) }

func (t *v1) prepare(parent string) (string, lacks) {
	if parent == "" {
		parent = "/norn"
	}
	var l lacks
	for p := range parts {
		if _, err := os.Stat(t.dir(p, "")); err != nil {
			l[p] = fmt.Sprintf("this machine has no cgroups for it (%s)", v1Names[p])
			continue
		}
		l[p] = reason(writable(t.dir(p, parent)))
	}
	return parent, l
}

func (t *v1) create(path string, lim Limits, l lacks) lacks {
	res, err := resources(lim)
	// What has no limit stays where it is, but for memory, so that its end is counted.
	idle := [parts]bool{cpu: res.CPU == nil, devices: len(lim.Hidden) == 0}
	for _, p := range v1Order {
		if l[p] != "" || idle[p] {
			continue
		}
		want := &specs.LinuxResources{}
		var s cgroup1.Subsystem
		switch p {
		case cpu:
			s, want.CPU = cgroup1.NewCpu(t.root), res.CPU
		case memory:
			s, want.Memory = cgroup1.NewMemory(t.root, cgroup1.OptionalSwap()), res.Memory
		case devices:
			s, want.Devices = cgroup1.NewDevices(t.root), res.Devices
		case freezer:
			s = cgroup1.NewFreezer(t.root)
		}
		one := func() ([]cgroup1.Subsystem, error) { return []cgroup1.Subsystem{s}, nil }
		_, cerr := cgroup1.New(cgroup1.StaticPath(path), want, cgroup1.WithHierarchy(one))
		if p == devices {
			cerr = errors.Join(err, cerr)
		}
		l[p] = reason(cerr)
	}
	return l
}

// resources are the limits as the library takes them. The error is that of a
// device file; the rules for the others are there.
func resources(lim Limits) (*specs.LinuxResources, error) {
	res := &specs.LinuxResources{}
	if lim.CPUs > 0 {
		quota, period := quotaOf(lim.CPUs)
		res.CPU = &specs.LinuxCPU{Quota: &quota, Period: &period}
	}
	if n := int64(lim.Memory); n > 0 {
		res.Memory = &specs.LinuxMemory{Limit: &n, Swap: &n} // Swap is memory and swap together
	}
	var err error
	res.Devices, err = rules(lim.Hidden)
	return res, err
}

// quotaOf is a limit on CPU time as microseconds in a period of them.
func quotaOf(cpus float64) (int64, uint64) {
	const period = 100_000
	return max(1000, int64(cpus*period)), period // the kernel takes no less than 1 ms
}

// rules deny all that can be done with device files.
func rules(files []string) ([]specs.LinuxDeviceCgroup, error) {
	var out []specs.LinuxDeviceCgroup
	var bad error
	for _, name := range files {
		var st unix.Stat_t
		switch err := unix.Stat(name, &st); {
		case errors.Is(err, unix.ENOENT):
			continue
		case err != nil:
			bad = fmt.Errorf("%s: %w", name, err)
			continue
		}
		kind := map[uint32]string{unix.S_IFCHR: "c", unix.S_IFBLK: "b"}[st.Mode&unix.S_IFMT]
		if kind == "" {
			bad = fmt.Errorf("%s is no device file", name)
			continue
		}
		major, minor := int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
		out = append(out, specs.LinuxDeviceCgroup{Type: kind, Major: &major, Minor: &minor, Access: "rwm"})
	}
	return out, bad
}

func (t *v1) folders(path string) []string {
	var out []string
	for _, p := range v1Order {
		if dir := t.dir(p, path); exists(dir) {
			out = append(out, dir)
		}
	}
	return out
}

func exists(dir string) bool {
	_, err := os.Lstat(dir)
	return err == nil
}

// self is the thread that writes it to the tasks of a group. By its number, as any
// other thread, it would be moved only when all processors have passed a point of
// rest (a grace period of RCU), which takes many milliseconds.
const self = "0"

// enter moves this thread to the group, as a process is born where the thread is
// that forks it. The way back is opened first: a thread that stays would be frozen
// with the group.
func (t *v1) enter(path string) (int, func() error, error) {
	var back []*os.File
	leave := func() error {
		var first error
		for _, f := range back {
			_, err := f.WriteString(self)
			if f.Close(); err != nil && first == nil {
				first = fmt.Errorf("cannot leave cgroup %s: %w", path, err)
				t.stuck = true
			}
		}
		return first
	}
	for _, p := range v1Order {
		if !exists(t.dir(p, path)) {
			continue
		}
		home, err := os.OpenFile(filepath.Join(t.dir(p, t.own[v1Names[p]]), "tasks"), os.O_WRONLY, 0)
		if err == nil {
			err = write(t.dir(p, path), "tasks", self)
			back = append(back, home)
		}
		if err != nil {
			leave()
			return -1, nil, err
		}
	}
	return -1, leave, nil
}

func (t *v1) add(path string, pid int) error {
	for _, dir := range t.folders(path) {
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

func (t *v1) freeze(path string, on bool) error {
	state := "THAWED"
	if on {
		state = "FROZEN"
	}
	return write(t.dir(freezer, path), "freezer.state", state)
}

func (t *v1) frozen(path string) (bool, error) {
	b, err := os.ReadFile(filepath.Join(t.dir(freezer, path), "freezer.state"))
	return strings.TrimSpace(string(b)) == "FROZEN", err
}

// kill freezes the group so that no process forks while it is listed, where that
// is possible; signals are taken when it is thawed.
func (t *v1) kill(path string, pids []int) error {
	if !t.stuck {
		t.freeze(path, true)
		defer t.freeze(path, false)
	}
	return killEach(pids)
}

// oom takes the limit for reached when use has come close to it: not every kernel
// counts the requests that failed.
func (t *v1) oom(path string) OOM {
	dir := t.dir(memory, path)
	number := func(file string) int {
		b, _ := os.ReadFile(filepath.Join(dir, "memory."+file))
		n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		return n
	}
	const huge = 4 << 20 // a large page is refused some way below the limit
	limit := number("limit_in_bytes")
	return OOM{
		Kills: counter(dir, "memory.oom_control", "oom_kill"),
		Limit: limit > 0 && number("max_usage_in_bytes") >= limit-huge,
	}
}
