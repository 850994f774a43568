package hardware

import (
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// TestCgroups: the least quota and limit on the way up counts, in either version,
// inside of a container or not.
func TestCgroups(t *testing.T) {
	v2 := map[string]string{
		"/proc/self/cgroup":    "0::/lab.slice/norn.service\n",
		"/proc/self/mountinfo": "24 30 0:22 / /proc rw - proc proc rw\n30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n",
	}
	v1 := map[string]string{
		"/proc/self/cgroup":    "4:memory:/lab/norn\n3:cpu,cpuacct:/lab/norn\n0::/\n",
		"/proc/self/mountinfo": "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
	}
	inside := map[string]string{ // a container that sees its own cgroup alone, mounted where the hierarchy would be
		"/proc/self/cgroup":    "4:memory:/docker/abc\n",
		"/proc/self/mountinfo": "31 30 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
	}
	for _, x := range []struct {
		what   string
		files  []map[string]string
		cpus   unit.Milli
		memory unit.Bytes
		notes  int
	}{
		{"none", nil, 8000, 64 * unit.GiB, 0},
		{"no limits", []map[string]string{v2, {"/sys/fs/cgroup/lab.slice/cpu.max": "max 100000", "/sys/fs/cgroup/lab.slice/memory.max": "max"}}, 8000, 64 * unit.GiB, 0},
		{"own", []map[string]string{v2, {"/sys/fs/cgroup/lab.slice/norn.service/cpu.max": "250000 100000", "/sys/fs/cgroup/lab.slice/norn.service/memory.max": "4294967296"}}, 2500, 4 * unit.GiB, 2},
		{"above", []map[string]string{v2, {
			"/sys/fs/cgroup/lab.slice/norn.service/cpu.max": "600000 100000", "/sys/fs/cgroup/lab.slice/cpu.max": "400000 100000",
			"/sys/fs/cgroup/lab.slice/norn.service/memory.max": "max", "/sys/fs/cgroup/lab.slice/memory.max": "8589934592",
		}}, 4000, 8 * unit.GiB, 2},
		{"above what there is", []map[string]string{v2, {"/sys/fs/cgroup/lab.slice/cpu.max": "9900000 100000", "/sys/fs/cgroup/lab.slice/memory.max": "1099511627776"}}, 8000, 64 * unit.GiB, 0},
		{"version 1", []map[string]string{v1, {
			"/sys/fs/cgroup/cpu,cpuacct/lab/cpu.cfs_quota_us": "150000", "/sys/fs/cgroup/cpu,cpuacct/lab/cpu.cfs_period_us": "100000",
			"/sys/fs/cgroup/cpu,cpuacct/lab/norn/cpu.cfs_quota_us": "-1", "/sys/fs/cgroup/cpu,cpuacct/lab/norn/cpu.cfs_period_us": "100000",
			"/sys/fs/cgroup/memory/lab/norn/memory.limit_in_bytes": "2147483648", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
		}}, 1500, 2 * unit.GiB, 2},
		{"inside", []map[string]string{inside, {"/sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824"}}, 8000, unit.GiB, 1},
		{"nonsense", []map[string]string{v2, {"/sys/fs/cgroup/lab.slice/cpu.max": "-5 0", "/sys/fs/cgroup/lab.slice/memory.max": "lots"}}, 8000, 64 * unit.GiB, 0},
	} {
		m := find(t, plant(t, with(x.files...)), Options{Declare: true})
		if m.CPUs != x.cpus || m.Memory != x.memory || len(m.Notes) != x.notes {
			t.Errorf("%s: %v cores, %v, %v", x.what, m.CPUs, m.Memory, m.Notes)
		}
	}
}

// TestAffinity: CPUs that the process may not use are not shared out.
func TestAffinity(t *testing.T) {
	m := find(t, plant(t, with(map[string]string{"/proc/self/status": "Cpus_allowed_list:\t1-2,5\n"})), Options{Declare: true})
	if m.CPUs != 3000 || !slices.Equal(m.NUMA[0].CPUs, []int{1, 2}) || !slices.Equal(m.NUMA[1].CPUs, []int{5}) {
		t.Errorf("%v, %+v", m.CPUs, m.NUMA)
	}
	m = find(t, plant(t, map[string]string{"/sys/devices/system/cpu/online": "0-2"}), Options{Declare: true})
	if m.CPUs != 3000 {
		t.Errorf("%v of 3 that are online", m.CPUs)
	}
}

// TestCPUList: lists as the kernel writes them, and what it never writes.
func TestCPUList(t *testing.T) {
	for text, want := range map[string][]int{
		"": nil, "0": {0}, "0-3,8": {0, 1, 2, 3, 8}, " 2 ": {2}, "3-1": nil, "a-b,4": {4}, "-1": nil, "0-999999999": nil,
	} {
		if got := cpuList(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestOrderOfNumbers: the tenth comes behind the second.
func TestOrderOfNumbers(t *testing.T) {
	root := plant(t, map[string]string{"/d/n10": "", "/d/n2": "", "/d/n1": "", "/d/x": ""})
	if got := strings.Join(tree(root).list("/d", "n"), " "); got != "n1 n2 n10" {
		t.Errorf("%s", got)
	}
}
