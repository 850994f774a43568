package replay_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/job"
)

// TestVersion1 folds a log of format version 1, which has no checksums, and notes
// of two numbers, which mean nothing any more.
func TestVersion1(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "testdata", "version1.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := eventlog.NewReader(file, "version1.log")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := replay.Fold(r)
	if err != nil {
		t.Fatal(err)
	}
	ends := []time.Duration{117500 * time.Millisecond, 82500 * time.Millisecond, 410 * time.Second, 50 * time.Second}
	if s.Jobs() != len(ends) {
		t.Fatalf("%d jobs", s.Jobs())
	}
	for id, end := range ends {
		if rec := s.Record(job.ID(id)); rec.Phase != job.Done || rec.End != end || rec.Note != nil {
			t.Errorf("job %s is %s at %v, with the note %v", rec.Job.Key, rec.Phase, rec.End, rec.Note.Fields())
		}
	}
}
