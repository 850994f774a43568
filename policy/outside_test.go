package policy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutside builds and tests a policy in a module of its own, which uses this one as a
// library: everything that a policy, its settings and its tests mention is public.
// Nothing is fetched: both modules need the same others.
func TestOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a module")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write("go.mod", fmt.Appendf(nil, "module example.org/ratio\n\ngo 1.26.0\n\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %[2]s\n", "github.com/norn-scheduler/norn", filepath.ToSlash(root)))
	write("go.sum", read(filepath.Join(root, "go.sum")))
	sources, err := filepath.Glob("testdata/outside/*.go")
	if err != nil || len(sources) != 2 {
		t.Fatalf("%v, %v", sources, err)
	}
	for _, name := range sources {
		write(filepath.Base(name), read(name))
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-v", "-count=1", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"TestProperties/plain", "TestProperties/operated", "TestHistory", "TestRun"} {
		if !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Errorf("%s did not pass:\n%s", name, out)
		}
	}
}
