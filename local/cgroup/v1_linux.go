package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
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
	if dir := t.dir(cpu, parent); l[cpu] == "" && shares(dir) == usualShares {
		// All groups below count as one process on each processor, or more, against
		// those that are in none.
		write(dir, "cpu.shares", strconv.Itoa(usualShares*runtime.NumCPU()))
	}
	return parent, l
}

// usualShares is the weight of a group, and of a process beside it, as version 1 has it.
const usualShares = 1024

func shares(dir string) int {
	b, _ := os.ReadFile(filepath.Join(dir, "cpu.shares"))
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

func (t *v1) create(path string, lim Limits, l lacks) lacks {
	res, err := resources(lim)
	// A run without limits stays where it is, except for memory, so that its end is
	// counted.
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

// boundless is the largest number that version 1 takes for memory.
const boundless = math.MaxInt64 &^ 4095

func (t *v1) update(path string, lim Limits, l lacks) (_ lacks, busy bool) {
	if l[cpu] == "" && (lim.CPUs > 0 || lim.Weight > 0 || exists(t.dir(cpu, path))) {
		l[cpu] = reason(t.updateCPU(path, lim))
	}
	if l[memory] == "" && exists(t.dir(memory, path)) {
		err := t.updateMemory(t.dir(memory, path), int64(lim.Memory))
		if busy = errors.Is(err, unix.EBUSY); !busy { // it has taken more meanwhile
			l[memory] = reason(err)
		}
	}
	return l, busy
}

// updateMemory changes the limit on memory; 0: none. That on memory and swap together
// is never below that on memory, so it goes up first and comes down last (the library
// has this in mind, and mixes the two up with a third).
func (t *v1) updateMemory(dir string, n int64) error {
	if n <= 0 {
		n = boundless
	}
	files := []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	b, err := os.ReadFile(filepath.Join(dir, files[1]))
	if err != nil { // this kernel does not count swap
		files = files[:1]
	}
	if now, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > now {
		slices.Reverse(files)
	}
	for _, file := range files {
		if err := write(dir, file, strconv.FormatInt(n, 10)); err != nil {
			return err
		}
	}
	return nil
}

// updateCPU changes what a group gets of the processors. One that had no limit stood
// in no group of that hierarchy: its processes are moved to one, and looked for again
// until none was born outside meanwhile.
func (t *v1) updateCPU(path string, lim Limits) error {
	dir := t.dir(cpu, path)
	moved := exists(dir)
	res, _ := resources(Limits{CPUs: lim.CPUs, Weight: int(lim.weight())})
	if err := cgroup1.NewCpu(t.root).Update(path, res); err != nil {
		return err
	}
	for range maxMoves {
		if moved {
			return nil
		}
		inside, _ := listed(dir)
		all, err := listed(t.folders(path)[0])
		if err != nil {
			return err
		}
		moved = true
		for _, pid := range all {
			if slices.Contains(inside, pid) {
				continue
			}
			moved = false
			if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return errors.New("it makes processes faster than they can be moved")
}

// maxMoves is how often one looks for processes that are still to be moved.
const maxMoves = 100

func (t *v1) inUse(path string) api.Bytes {
	dir := t.dir(memory, path)
	b, _ := os.ReadFile(filepath.Join(dir, "memory.usage_in_bytes"))
	used, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return api.Bytes(max(0, used-counter(dir, "memory.stat", "total_inactive_file")))
}

// resources are the limits as the library takes them. The error is that of a
// device file; the rules for the others are there.
func resources(lim Limits) (*specs.LinuxResources, error) {
	res := &specs.LinuxResources{}
	if lim.CPUs > 0 || lim.Weight > 0 {
		quota, period := quotaOf(lim.CPUs)
		shares := max(2, lim.weight()*usualShares/usualWeight)
		res.CPU = &specs.LinuxCPU{Quota: &quota, Period: &period, Shares: &shares}
	}
	if n := int64(lim.Memory); n > 0 {
		res.Memory = &specs.LinuxMemory{Limit: &n, Swap: &n} // Swap is memory and swap together
	}
	var err error
	res.Devices, err = rules(lim.Hidden)
	return res, err
}

// quotaOf is a limit on CPU time as microseconds in a period of them; -1: none.
func quotaOf(cpus float64) (int64, uint64) {
	const period = 100_000
	if cpus <= 0 {
		return -1, period
	}
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
			bad = fmt.Errorf("%s is not a device file", name)
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
