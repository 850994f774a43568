package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/local"
)

// TestVersion1 opens a state folder whose log has format version 1: the jobs are
// there, those that have ended are told, numbers go on, and the next log is of the
// present version.
func TestVersion1(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 4, func(o *local.Options) {
		if _, err := os.Stat(filepath.Join(o.State, "events")); err == nil {
			return // it is opened again
		}
		if err := os.CopyFS(o.State, os.DirFS(filepath.Join("testdata", "version1"))); err != nil {
			t.Fatal(err)
		}
	})
	if j := h.job("1"); j.State != api.Done || j.Name != "first" {
		t.Errorf("job 1 is %s and called %s", j.State, j.Name)
	}
	for id, name := range map[string]string{"2": "second", "3": "third"} {
		if j := h.job(id); j.State != api.Held || j.Name != name {
			t.Errorf("job %s is %s and called %s", id, j.State, j.Name)
		}
	}
	if id := h.submit(h.sh(1, "exit 0")); id != "4" {
		t.Errorf("the next job has number %s", id)
	}
	h.until("4", api.Done)
	h.down()
	h.up()
	file, err := os.Open(lastLog(t, h))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := eventlog.NewReader(file, "the last log")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Header.Next != 5 {
		t.Errorf("the next job of the next log has number %d", r.Header.Next)
	}
}
