package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestMissing: without programs the error names the command that builds them, and only
// where they are required does a test fail for it.
func TestMissing(t *testing.T) {
	t.Setenv("NORN_KUBE_BIN", t.TempDir())
	_, err := Run(t.Context(), t.TempDir())
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), Command) {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), t.TempDir(), KubeScheduler())
	if !errors.Is(err, ErrMissing) || !strings.HasSuffix(err.Error(), Command+" etcd kube-apiserver kube-scheduler builds them") {
		t.Fatal(err)
	}
	for value, want := range map[string]bool{"": true, "required": false} {
		t.Setenv(Required, value)
		if got := skips(err); got != want {
			t.Errorf("with %s=%q: skipped %v", Required, value, got)
		}
	}
	if skips(errors.New("etcd ended")) {
		t.Error("an environment that does not start skips a test")
	}
}

// TestBuild: builders at the same time build each program once, whole; what is there is
// not built again; a build that fails leaves nothing that looks like a program.
func TestBuild(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("the stand-in for go is a shell script")
	}
	stand, home := t.TempDir(), t.TempDir()
	calls := filepath.Join(stand, "calls")
	script := "#!/bin/sh\necho \"$4 $7\" >> " + calls + "\nsleep 0.1\necho half > $4\ncase $7 in */kubectl) echo no such luck; exit 1;; esac\necho whole > $4\n"
	if err := os.WriteFile(filepath.Join(stand, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", stand+":"+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("HOME", home)
	t.Setenv("NORN_KUBE_BIN", "")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := Build(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	dir, err := Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if folder, err := Folder(); err != nil || folder != dir || !strings.HasPrefix(dir, home) {
		t.Errorf("built in %s, looked for in %s, %v", dir, folder, err)
	}
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, name := range []string{etcd, apiServer, controllerManager} {
		want += filepath.Join(dir, name) + ".partial " + packageOf(name) + "\n"
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "whole\n" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if string(text) != want {
		t.Errorf("built\n%swant\n%s", text, want)
	}
	if _, err := Build(t.Context(), kubectl); err == nil || !strings.Contains(err.Error(), "building kubectl: exit status 1: no such luck") {
		t.Error(err)
	}
	if _, err := find([]string{kubectl}); !errors.Is(err, ErrMissing) {
		t.Errorf("a program that could not be built is there: %v", err)
	}
	if _, err := Build(t.Context(), "kubelet"); err == nil {
		t.Error("what nobody pins was built")
	}
}
