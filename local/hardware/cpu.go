package hardware

import (
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// findCPUs counts the CPUs that this process may use: its affinity, which is
// inside of its cpuset, and the quotas of its cgroup and of those above.
func (m *Machine) findCPUs(t tree) {
	cpus := cpuList(t.fields("/proc/self/status", ":")["Cpus_allowed_list"])
	if len(cpus) == 0 {
		cpus = cpuList(t.word("/sys/devices/system/cpu/online"))
	}
	m.CPUs = unit.Milli(len(cpus)) * unit.One
	if len(cpus) == 0 {
		m.CPUs = unit.Milli(runtime.NumCPU()) * unit.One
	}
	if quota, limited := t.cpuQuota(); limited && quota < m.CPUs {
		m.note("%v of %v CPU cores may be used: the cgroup that Norn runs in has a quota", quota, m.CPUs)
		m.CPUs = quota
	}
	const nodes = "/sys/devices/system/node"
	for _, name := range t.list(nodes, "node") {
		id, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
		if err != nil {
			continue
		}
		n := NUMANode{ID: id, Memory: kilobytes(t.fields(path.Join(nodes, name, "meminfo"), ":")["Node "+strconv.Itoa(id)+" MemTotal"])}
		for _, cpu := range cpuList(t.word(path.Join(nodes, name, "cpulist"))) {
			if slices.Contains(cpus, cpu) {
				n.CPUs = append(n.CPUs, cpu)
			}
		}
		m.NUMA = append(m.NUMA, n)
	}
}

// findMemory is what the machine has, or what the cgroup of this process and
// those above allow.
func (m *Machine) findMemory(t tree) {
	m.Memory = kilobytes(t.fields("/proc/meminfo", ":")["MemTotal"])
	if limit, limited := t.memoryLimit(); limited && (m.Memory == 0 || limit < m.Memory) {
		m.note("%v of %v memory may be used: the cgroup that Norn runs in has a limit", limit, m.Memory)
		m.Memory = limit
	}
}

// kilobytes reads an amount as meminfo has it: 16384 kB.
func kilobytes(s string) unit.Bytes {
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(s, "kB")), 10, 64)
	if err != nil || n < 0 || n > 1<<50 {
		return 0
	}
	return unit.Bytes(n) * unit.KiB
}

// cpuQuota is the least quota of CPU time, in cores.
func (t tree) cpuQuota() (unit.Milli, bool) {
	least, limited := unit.Milli(0), false
	take := func(quota, period string) {
		q, err := strconv.ParseInt(quota, 10, 64)
		p, perr := strconv.ParseInt(period, 10, 64)
		if err != nil || perr != nil || q <= 0 || p <= 0 || q > 1<<50 {
			return
		}
		if v := unit.Milli(max(1, q*1000/p)); !limited || v < least {
			least, limited = v, true
		}
	}
	v2, v1 := t.cgroups("cpu")
	for _, dir := range v2 {
		quota, period, _ := strings.Cut(t.word(path.Join(dir, "cpu.max")), " ")
		take(quota, period)
	}
	for _, dir := range v1 {
		take(t.word(path.Join(dir, "cpu.cfs_quota_us")), t.word(path.Join(dir, "cpu.cfs_period_us")))
	}
	return least, limited
}

// memoryLimit is the least limit on memory.
func (t tree) memoryLimit() (unit.Bytes, bool) {
	least, limited := unit.Bytes(0), false
	v2, v1 := t.cgroups("memory")
	take := func(file string) {
		if n, ok := t.number(file); ok && n > 0 && n < 1<<60 && (!limited || unit.Bytes(n) < least) {
			least, limited = unit.Bytes(n), true
		}
	}
	for _, dir := range v2 {
		take(path.Join(dir, "memory.max"))
	}
	for _, dir := range v1 {
		take(path.Join(dir, "memory.limit_in_bytes"))
	}
	return least, limited
}

// cgroups are the folders of the cgroup of this process and of those above it,
// in the hierarchy of version 2 and in that of version 1 with a controller.
func (t tree) cgroups(controller string) (v2, v1 []string) {
	own := map[string]string{} // path by controller; of version 2 by ""
	for line := range strings.SplitSeq(t.word("/proc/self/cgroup"), "\n") {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			own[name] = parts[2]
		}
	}
	for line := range strings.SplitSeq(t.word("/proc/self/mountinfo"), "\n") {
		left, right, _ := strings.Cut(line, " - ")
		at, kind := strings.Fields(left), strings.Fields(right)
		if len(at) < 5 || len(kind) < 3 {
			continue
		}
		root, mount := unescape(at[3]), unescape(at[4])
		switch {
		case kind[0] == "cgroup2":
			v2 = append(v2, upwards(root, mount, own[""])...)
		case kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), controller):
			v1 = append(v1, upwards(root, mount, own[controller])...)
		}
	}
	return v2, v1
}

// upwards are the folders from that of a cgroup up to where its hierarchy is
// mounted; root is which cgroup is mounted there. A cgroup that lies elsewhere,
// as seen from inside a container, has the folder of the mount alone.
func upwards(root, mount, cgroup string) []string {
	inside, ok := strings.CutPrefix(path.Clean("/"+cgroup)+"/", strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return []string{mount}
	}
	var dirs []string
	for dir := path.Join("/", inside); ; dir = path.Dir(dir) {
		dirs = append(dirs, path.Join(mount, dir))
		if dir == "/" {
			return dirs
		}
	}
}

// unescape undoes how mountinfo writes spaces.
func unescape(s string) string { return strings.ReplaceAll(s, `\040`, " ") }
