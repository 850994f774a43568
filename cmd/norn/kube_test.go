//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// stand is a program that stands in for norn-kube: it tells what it was given.
const stand = `#!/bin/sh
if [ "$1" = __complete ]; then printf 'manifests\tprint\n:4\n'; exit 0; fi
if [ "$1" = wait ]; then trap 'echo stopped; exit 9' TERM; echo waits; while :; do sleep 0.05; done; fi
echo "$@"; cat; echo oops >&2; exit 7
`

// TestKube: norn kube is norn-kube, with its arguments, files, signals and exit code.
func TestKube(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, kubeProgram), []byte(stand), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	start := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0], append([]string{"kube"}, args...)...)
		c.Env = append(os.Environ(), asNorn+"=yes")
		return c
	}
	var out, errOut bytes.Buffer
	c := start("up", "--policy", "srtf", "--help")
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader("input\n"), &out, &errOut
	if c.Run(); c.ProcessState.ExitCode() != 7 || out.String() != "up --policy srtf --help\ninput\n" || errOut.String() != "oops\n" {
		t.Errorf("exit code %d, %q, %q", c.ProcessState.ExitCode(), out.String(), errOut.String())
	}
	c = start("wait")
	from, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 100)
	if n, err := from.Read(line); err != nil || string(line[:n]) != "waits\n" {
		t.Fatalf("%q, %v", line[:n], err)
	}
	c.Process.Signal(syscall.SIGTERM)
	n, _ := from.Read(line)
	if c.Wait(); c.ProcessState.ExitCode() != 9 || string(line[:n]) != "stopped\n" {
		t.Errorf("exit code %d, %q", c.ProcessState.ExitCode(), line[:n])
	}
	if got := completions(t, "kube", "m"); !slices.Equal(got, []string{"manifests"}) {
		t.Errorf("completions %q", got)
	}
	if out, _ := works(t, "kube", "--help"); !strings.Contains(out, "norn docs kubernetes") {
		t.Errorf("%s", out)
	}
}

// TestKubeMissing: without norn-kube norn says how to get it.
func TestKubeMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, errOut, code := norn(t, "kube", "up"); code != exitFailed || !strings.Contains(errOut, "go install github.com/norn-scheduler/norn/cmd/norn-kube") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
	if got := completions(t, "kube", ""); len(got) > 0 {
		t.Errorf("completions %q", got)
	}
}
