package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
)

// TestPolicyNew: the module that is written is in the form of gofmt, passes go vet and its
// tests, and compares its policy, all without a network.
func TestPolicyNew(t *testing.T) {
	longtest.Skip(t)
	dir := filepath.Join(t.TempDir(), "a folder")
	out, _ := works(t, "policy", "new", "my-ratio", dir, "--norn", filepath.Join("..", ".."))
	if !strings.Contains(out, "wrote the policy my-ratio into "+dir) || strings.Contains(out, "tidy") {
		t.Errorf("%s", out)
	}
	tool := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=", "RAPID_CHECKS=10")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	if got := tool("gofmt", "-l", "."); got != "" {
		t.Errorf("gofmt would change %s", got)
	}
	tool("go", "vet", "./...")
	tests := tool("go", "test", "-v", "-count=1", "./...")
	for _, name := range []string{"TestProperties/plain", "TestProperties/operated", "TestProperties/where", "TestHistory"} {
		if !strings.Contains(tests, "--- PASS: "+name+" ") {
			t.Errorf("%s did not pass:\n%s", name, tests)
		}
	}
	jobs := file(t, "jobs.csv", "job,submit,duration,gpus\nfirst,0,60,4\nlong,10,100,4\nshort,20,10,4\n")
	table := tool("go", "run", "./compare", "-cluster", "1x4", "-policy", "fifo,my-ratio,my-ratio(least=1h)", jobs)
	if !strings.Contains(table, "\nfifo                     2m ") || !strings.Contains(table, "\nmy-ratio *            1m30s ") || !strings.Contains(table, "\nmy-ratio(least… *        2m ") {
		t.Errorf("%s", table)
	}

	// A policy that breaks the contract fails the property tests.
	policy := filepath.Join(dir, "myratio.go")
	text, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(text), "for _, j := range jobs {", "for _, j := range jobs[:min(1, len(jobs))] {", 1)
	if broken == string(text) {
		t.Fatal("the policy has changed: break it in another way")
	}
	if err := os.WriteFile(policy, []byte(broken), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-run", "TestProperties/where", "./...")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "was left waiting") {
		t.Errorf("a policy that lets one job that can never run block the others passes: %v\n%s", err, out)
	}
}

// TestPolicyNewRefuses: what cannot be written is told, and nothing is written.
func TestPolicyNewRefuses(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("full/x", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"there is a policy srtf already", []string{"srtf"}},
		{"there is a policy exec already", []string{"exec"}},
		{"small letters and digits", []string{"My Policy"}},
		{"cannot be the name of a Go package", []string{"func"}},
		{"write a path such as example.org/mine", []string{"mine", "--module", "a b"}},
		{"there is no clone of Norn in it", []string{"mine", "--norn", "full"}},
		{"name a clone with --norn DIR", []string{"mine"}},
		{"full has files in it", []string{"mine", "full", "--norn", root}},
	} {
		if _, errOut, code := norn(t, append([]string{"policy", "new"}, c.args...)...); code == 0 || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: %d, %s", c.args, code, errOut)
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}
