package experiment_test

import (
	"testing"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/trace"
)

// data is a file of published data.
func data(t testing.TB, path string) string { return shared.Path(t, "data/"+path) }

// jobsOf reads a trace of the published data.
func jobsOf(t testing.TB, path string, opt trace.Options) experiment.Jobs {
	t.Helper()
	r, err := trace.Open(data(t, path), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	jobs, err := experiment.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}
