//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fake is a folder that looks like a hierarchy of version 2. Its files do not
// behave, but show what was written to them.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func content(t *testing.T, at ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(at...))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func TestParent(t *testing.T) {
	me := strconv.Itoa(os.Getpid())
	for name, c := range map[string]struct {
		tree  v2
		files map[string]string
		want  string
		moved bool
	}{
		"root at a shell": {v2{own: "/user.slice/session-1.scope", super: true}, nil, "/norn", false},
		"root, delegated": {v2{own: "/system.slice/norn.service", super: true, delegated: true}, nil, "/system.slice/norn.service", true},
		"root, delegated, again": {v2{own: "/system.slice/norn.service/norn-daemon", super: true, delegated: true}, nil,
			"/system.slice/norn.service", false},
		"root in a container": {v2{own: "/", super: true}, nil, "/norn", false},
		"user, alone": {v2{own: "/u/app.slice/run-1.scope"},
			map[string]string{"u/app.slice/run-1.scope/cgroup.procs": me + "\n"}, "/u/app.slice/run-1.scope", true},
		"user, not alone": {v2{own: "/u/app.slice/term.scope"},
			map[string]string{"u/app.slice/term.scope/cgroup.procs": "1\n" + me + "\n"}, "/u/app.slice/norn", false},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"cgroup.controllers": "cpu memory pids\n"}
			for k, v := range c.files {
				files[k] = v
			}
			tr := c.tree
			tr.root = fake(t, files)
			m := detect(&tr, "")
			if m.Parent() != c.want {
				t.Errorf("parent %s, want %s", m.Parent(), c.want)
			}
			at := filepath.Join(tr.root, c.want, leaf, "cgroup.procs")
			if _, err := os.Stat(at); (err == nil) != c.moved {
				t.Errorf("moved to the leaf: %v", err == nil)
			}
			if c.moved && content(t, at) != me {
				t.Error("another process was moved")
			}
		})
	}
}

// With the controllers passed on, limits are written.
func TestLimits2(t *testing.T) {
	dir := fake(t, map[string]string{
		"cgroup.controllers":          "cpuset cpu memory pids\n",
		"norn/cgroup.subtree_control": "cpu memory\n",
		"norn/job-1-1/cpu.max":        "max 100000\n", "norn/job-1-1/memory.max": "max\n", "norn/job-1-1/memory.swap.max": "max\n",
		"norn/job-1-1/cgroup.freeze": "0\n", "norn/job-1-1/cgroup.kill": "", "norn/job-1-1/cgroup.procs": "",
		"norn/job-1-1/memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\n",
		"norn/job-1-1/cgroup.events": "populated 1\nfrozen 1\n",
	})
	m := detect(&v2{root: dir, own: "/", super: true}, "/norn")
	g, err := m.Create("job-1-1", Limits{CPUs: 2, Memory: 4 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"cpu.max": "200000 100000", "memory.max": "4294967296", "memory.swap.max": "0"} {
		if got := content(t, dir, "norn/job-1-1", file); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	want := "memory is limited to 4GiB (cgroup v2)\nCPU time is limited to 2 cores (cgroup v2)\nit is paused by the freezer (cgroup v2)"
	if got := strings.Join(g.Isolation(), "\n"); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := g.OOM(); got != (OOM{Kills: 1, Limit: true}) {
		t.Errorf("%+v", got)
	}
	if err := g.Freeze(); err != nil || content(t, dir, "norn/job-1-1/cgroup.freeze") != "1" {
		t.Error("not frozen", err)
	}
	if ok, err := g.Frozen(); !ok || err != nil {
		t.Error(ok, err)
	}
	if err := g.Thaw(); err != nil || content(t, dir, "norn/job-1-1/cgroup.freeze") != "0" {
		t.Error("not thawed", err)
	}
}

// Limits change while processes live in the group; memory is not limited to less than
// they use, but for what the kernel can drop, and comes down later.
func TestUpdate2(t *testing.T) {
	dir := fake(t, map[string]string{
		"cgroup.controllers":          "cpuset cpu memory pids\n",
		"norn/cgroup.subtree_control": "cpu memory\n",
		"norn/job-1-1/cpu.max":        "max 100000\n", "norn/job-1-1/cpu.weight": "100\n", "norn/job-1-1/memory.max": "max\n",
		"norn/job-1-1/memory.current": "1073741824\n", "norn/job-1-1/memory.stat": "anon 1\ninactive_file 536870912\n",
		"norn/job-1-1/cgroup.freeze": "0\n", "norn/job-1-1/cgroup.procs": "",
	})
	m := detect(&v2{root: dir, own: "/", super: true}, "/norn")
	g, err := m.Create("job-1-1", Limits{CPUs: 2, Memory: 2 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		to               Limits
		short            bool
		cpu, weight, mem string
	}{
		{Limits{CPUs: 1.5, Memory: 1 << 30, Weight: 300}, false, "150000 100000", "300", "1073741824"},
		{Limits{CPUs: 0.5, Memory: 128 << 20, Weight: 1}, true, "50000 100000", "1", "570425344"}, // 512 MiB and a 16th of it
		{Limits{Memory: 4 << 30}, false, "max 100000", "100", "4294967296"},
		{Limits{Weight: 20_000}, false, "max 100000", "10000", "max"},
	} {
		if short := g.Update(c.to); short != c.short {
			t.Errorf("%+v: short %v", c.to, short)
		}
		have := [3]string{}
		for i, file := range []string{"cpu.max", "cpu.weight", "memory.max"} {
			have[i] = content(t, dir, "norn/job-1-1", file)
		}
		if want := [3]string{c.cpu, c.weight, c.mem}; have != want {
			t.Errorf("%+v: %q, want %q", c.to, have, want)
		}
	}
	g.Update(Limits{CPUs: 2, Memory: 64 << 20, Weight: 50})
	if text := strings.Join(g.Isolation(), "\n"); !strings.Contains(text, "memory is limited to 544MiB") || !strings.Contains(text, "it counts 0.5 times as much") {
		t.Error(text)
	}
}

// Limits that cannot be passed on are reported.
func TestUndelegated(t *testing.T) {
	dir := fake(t, map[string]string{"cgroup.controllers": "memory pids\n"})
	m := detect(&v2{root: dir, own: "/u/a.scope"}, "/u/norn")
	text := strings.Join(m.Isolation(), "\n")
	for _, want := range []string{
		"CPU limits of jobs are not enforced: this machine has no cgroups for it (cpu)",
		"memory limits of jobs are not enforced: systemd has not delegated it to Norn (memory)",
		"jobs are told their devices, but can open those of others: only root may restrict them",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	g, err := m.Create("job-1-1", Limits{CPUs: 1, Memory: 1 << 30, Hidden: []string{"/dev/null"}})
	if err != nil {
		t.Fatal(err)
	}
	text = strings.Join(g.Isolation(), "\n")
	if !strings.Contains(text, "memory is not limited: systemd has not delegated it to Norn (memory)") || g.CanFreeze() {
		t.Errorf("got\n%s", text)
	}
}

// Controllers are asked for on the way down to the parent.
func TestPass(t *testing.T) {
	dir := fake(t, map[string]string{
		"cgroup.controllers": "memory\n", "cgroup.subtree_control": "", "norn/cgroup.subtree_control": "",
	})
	m := detect(&v2{root: dir, own: "/", super: true}, "")
	if m.lacks[memory] != "" {
		t.Error(m.Isolation())
	}
	for _, at := range []string{"", "norn"} {
		if got := content(t, dir, at, "cgroup.subtree_control"); got != "+memory" {
			t.Errorf("/%s: %q", at, got)
		}
	}
}
