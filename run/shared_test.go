package run_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/trace"
)

// data is a file of published data. Where it is missing the test is skipped, but
// not in continuous integration.
func data(t testing.TB, path string) string {
	t.Helper()
	file := filepath.Join("..", "..", "shared", "data", filepath.FromSlash(path))
	if _, err := os.Stat(file); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the published data is missing: %v", err)
		}
		t.Skipf("the published data is missing: %v", err)
	}
	return file
}

// jobsOf reads a trace of the published data.
func jobsOf(t testing.TB, path string, opt trace.Options) run.Jobs {
	t.Helper()
	r, err := trace.Open(data(t, path), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	jobs, err := run.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}
