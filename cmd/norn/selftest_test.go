//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/internal/longtest"
)

// TestMain lets this program stand in for norn where it is started as norn would be: as
// the daemon, the runners and the jobs of a self-test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Getenv(asNorn) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// asNorn is the variable that makes this program norn.
const asNorn = "TEST_AS_NORN"

// checked is a check as norn selftest --json writes it.
type checked struct {
	Check, Result, Text string
	Seconds             float64
}

// selftests runs norn selftest as a process of its own, and returns what came of the
// checks, and the exit code.
func selftests(t *testing.T, env []string, args ...string) (map[string]checked, int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], append([]string{"selftest", "--json"}, args...)...)
	c.Env = append(append(os.Environ(), asNorn+"=yes", "TMPDIR="+shortDir(t)), env...)
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	err := c.Run()
	var all struct {
		Failed int
		Checks []checked
	}
	if jerr := json.Unmarshal(out.Bytes(), &all); jerr != nil {
		t.Fatalf("%v, %v\n%s%s", err, jerr, out.Bytes(), errOut.Bytes())
	}
	by, failed := map[string]checked{}, 0
	for _, one := range all.Checks {
		if by[one.Check] = one; one.Result == "failed" {
			failed++
		}
	}
	if failed != all.Failed || (c.ProcessState.ExitCode() == exitFailed) != (failed > 0) {
		t.Errorf("exit code %d, %d failed, %d are said to have", c.ProcessState.ExitCode(), failed, all.Failed)
	}
	return by, c.ProcessState.ExitCode()
}

// shortDir is a folder whose path is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "st-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestSelftest: without a GPU the checks that need none are made, and nothing fails.
func TestSelftest(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	all, code := selftests(t, []string{"PATH=" + t.TempDir()}) // no nvidia-smi, no python3
	if code != 0 || len(all) < 20 {
		t.Errorf("exit code %d, %d checks", code, len(all))
	}
	for name, c := range all {
		want := "not here"
		switch name {
		case "slots", "freeze", "preempt", "guard", "daemon", "runner":
			want = "ok"
		case "cgroup": // if it may
			want = c.Result
		}
		if c.Result != want || c.Text == "" || c.Result == "failed" {
			t.Errorf("%+v", c)
		}
	}
}

// twoGPUs is the environment of a machine with two GPUs that are none, made of
// testdata/gpus.
func twoGPUs(t *testing.T) []string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skip("there is no C compiler to make a driver with")
	}
	dir := shortDir(t)
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-o", "libcuda.so.1"}, {"-shared", "-fPIC", "-o", "libnvidia-ml.so.1"}, {"-DPROGRAM", "-o", "nvidia-smi"},
	} {
		args[len(args)-1] = filepath.Join(dir, args[len(args)-1])
		if out, err := exec.Command(cc, append(args, "testdata/gpus/gpus.c")...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	mps, err := os.ReadFile("../../local/mps/testdata/nvidia-cuda-mps-control")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nvidia-cuda-mps-control"), mps, 0o700); err != nil {
		t.Fatal(err)
	}
	python := "#!/bin/sh\nexit 1\n" // without PyTorch
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(python), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "used"), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{"LD_LIBRARY_PATH=" + dir, "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"), "FAKE_GPUS=" + filepath.Join(dir, "used"), "TMPDIR=" + dir}
}

// TestSelftestGPUs makes all checks of GPUs on a machine that does what it should.
func TestSelftestGPUs(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	all, _ := selftests(t, twoGPUs(t), "--only", "types,memory,topology,mig,pinned,none,sampling,turns,mps,mps-limit,gpu-guard,gpu-freeze,gpu-preempt,gpu-runner,torch")
	for name, c := range all {
		if want := map[bool]string{true: "not here", false: "ok"}[name == "torch"]; c.Result != want {
			t.Errorf("%+v", c)
		}
	}
	for name, want := range map[string]string{
		"types": "gpu0 is NVIDIA X100 (X100), gpu1 is NVIDIA X100 (X100)", "pinned": "the job on gpu0 sees it alone; the job on gpu1 sees it alone",
		"topology": "1 pairs PIX", "mps": "with 50 and 50 of 100 multiprocessors; nvidia-smi lists 2 of the two",
	} {
		if !strings.Contains(all[name].Text, want) {
			t.Errorf("%+v", all[name])
		}
	}
}

// TestSelftestFails: each check fails on a machine, or a driver, that does not do what
// the check is about, and says why.
func TestSelftestFails(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	env := twoGPUs(t)
	for _, c := range []struct{ fault, check, says string }{
		{"product", "types", `gpu0: the product is "NVIDIA X100", in nvidia-smi "NVIDIA X200"`},
		{"mismatch", "types", "NVIDIA X100 at 0000:18:00.0 was not found; NVIDIA X100 at 0000:28:00.0 was not found; NVIDIA GPUs cannot be looked for"},
		{"total", "memory", "gpu0: 4.00GiB of memory, in nvidia-smi 4GiB"},
		{"topology", "topology", "gpu0 and gpu1: linked by pcie, in nvidia-smi SYS"},
		{"mig", "mig", "gpu0: taken to be in MIG mode: true, in nvidia-smi: false"},
		{"unpinned", "pinned", "and sees [GPU-00010203-0405-0607-0809-0a0b0c0d0e0f GPU-1"},
		{"unpinned", "none", "a job that asked for no GPU sees [GPU-0"},
		{"twice", "sampling", "used"},
		{"turns", "mps", "with 100 and 100 of 100 multiprocessors"},
		{"unlimited", "mps-limit", "a job that had booked"},
		{"lazy", "gpu-preempt", "would be right"},
		{"rot", "gpu-freeze", "was changed"},
	} {
		t.Run(c.fault+" "+c.check, func(t *testing.T) {
			all, _ := selftests(t, append(env, "FAKE_FAULT="+c.fault), "--only", c.check)
			if got := all[c.check]; got.Result != "failed" || !strings.Contains(got.Text, c.says) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestSelftestBlind: without GPUs that Norn has found none can be tried, and without
// nvidia-smi nothing is compared.
func TestSelftestBlind(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	env := twoGPUs(t)
	all, _ := selftests(t, append(env, "FAKE_FAULT=mismatch"), "--only", "memory,pinned,mps")
	for name, c := range all {
		if c.Result != "not here" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if err := os.Remove(filepath.Join(strings.TrimPrefix(env[0], "LD_LIBRARY_PATH="), "nvidia-smi")); err != nil {
		t.Fatal(err)
	}
	all, _ = selftests(t, env, "--only", "types,topology,sampling,pinned,mps")
	for name, c := range all {
		if want := map[bool]string{true: "ok", false: "not here"}[name == "pinned" || name == "mps"]; c.Result != want {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestSelftestTorch has a PyTorch job stopped and resumed where there is PyTorch.
func TestSelftestTorch(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	all, _ := selftests(t, []string{"PATH=/usr/bin" + string(os.PathListSeparator) + os.Getenv("PATH")}, "--only", "torch")
	if c := all["torch"]; c.Result == "not here" {
		t.Skip(c.Text)
	} else if c.Result != "ok" || !strings.Contains(c.Text, "stopped at step 1") {
		t.Errorf("%+v", c)
	}
}

// TestSelftestInterrupted: nothing is left of a self-test that is interrupted.
func TestSelftestInterrupted(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	c := exec.CommandContext(t.Context(), os.Args[0], "selftest", "--only", "guard")
	c.Env = append(os.Environ(), asNorn+"=yes", "TMPDIR="+dir)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var told struct{ PID int }
	for told.PID == 0 { // until a job works
		for _, path := range matches(t, dir+"/norn-st-*/guard/notes/good.1") {
			text, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(text, &told)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if code := c.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if left := matches(t, dir+"/*"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	if err := syscall.Kill(told.PID, 0); err == nil && !zombie(told.PID) {
		t.Errorf("process %d of a job is left", told.PID)
	}
}

// matches are the files of a pattern.
func matches(t *testing.T, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// zombie tells whether a process has ended, and only its parent has not taken note.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

// TestSelftestOnly: a check that is not known is a mistake of the command line.
func TestSelftestOnly(t *testing.T) {
	_, errOut, code := norn(t, "selftest", "--only", "typos")
	if code != exitUsage || !strings.Contains(errOut, "--only typos: there is no such check") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}
