package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWithParent: who is killed leaves no process behind.
func TestWithParent(t *testing.T) {
	if dir := os.Getenv("NORN_TEST_PARENT"); dir != "" {
		p := &Process{name: "sleep", path: "/bin/sh", args: []string{"-c", "exec sleep 1000"}, log: filepath.Join(dir, "log")}
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "pid"), fmt.Append(nil, p.PID()), 0o644); err != nil {
			t.Fatal(err)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	dir := t.TempDir()
	parent := exec.Command(os.Args[0], "-test.run=^TestWithParent$")
	parent.Env = append(os.Environ(), "NORN_TEST_PARENT="+dir)
	var end *exec.ExitError
	if out, err := parent.CombinedOutput(); !errors.As(err, &end) || end.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v %s", err, out)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		stat, err := os.ReadFile(filepath.Join("/proc", string(pid), "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n, err := strconv.Atoi(string(pid)); err == nil {
		_ = syscall.Kill(n, syscall.SIGKILL)
	}
	t.Errorf("process %s outlives who started it", pid)
}

// TestProcess: a program that ends before it is ready is an error that shows its output,
// and so is one that is not ready in time.
func TestProcess(t *testing.T) {
	never := func(context.Context) error { return errors.New("not yet") }
	p := &Process{name: "false", path: "/bin/sh", args: []string{"-c", "echo out of luck; exit 3"}, log: filepath.Join(t.TempDir(), "log"), ready: never}
	err := p.Start(t.Context())
	if err == nil || err.Error() != "false ended before it was ready: exit status 3\nout of luck" {
		t.Error(err)
	}
	p.args = []string{"-c", "exec sleep 1000"}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = p.Start(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "false is not ready") || !strings.Contains(err.Error(), "not yet") {
		t.Error(err)
	}
	if p.PID() == 0 {
		t.Error("who waited for it ended it")
	}
	if err := p.Stop(); err != nil || p.PID() != 0 {
		t.Errorf("it runs still: %v", err)
	}
	p.path = "/nowhere"
	if err := p.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "false: ") {
		t.Error(err)
	}
}
