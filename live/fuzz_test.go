package live

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzHistory reads a history of any text. Each line counts as a job or as damaged. After the
// damaged lines were set aside, the jobs are what they were, and nothing is damaged.
func FuzzHistory(f *testing.F) {
	f.Add([]byte(`{"log":1,"n":0,"job":{"id":"1","name":"a","user":"u","state":"done","gpus":"1-4","tasks":1,"ran":3,"command":["x"]}}` + "\n"))
	f.Add([]byte("{\"log\":1,\"n\":0,\"job\":{\"id\":\"1\"},\"crc\":\"00000000\"}\n{\"n\":-1}\n\n{\"log\":1,\"n\":1,\"job\":{\"id\":\"2\"}}\ntorn"))
	f.Add([]byte("{\"log\":1e3,\"n\":null,\"job\":{\"id\":\"\\ud800\",\"gpus\":1e300,\"ran\":-1}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "history.jsonl"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenJournal(dir)
		if err != nil {
			t.Fatal(err)
		}
		read := func(most int) (ids []string, damaged []int) {
			ended, damaged, err := s.Load(&Recent{Most: most}, func(e *Ended) { ids = append(ids, e.Job.ID) })
			if err != nil || ended != len(ids) || ended+len(damaged) != bytes.Count(text, []byte("\n")) {
				t.Fatalf("%d jobs visited, %d ended, lines %v of %d damaged: %v", len(ids), ended, damaged, bytes.Count(text, []byte("\n")), err)
			}
			return ids, damaged
		}
		read(0)
		ids, _ := read(1 << 30)
		if err := s.SetAsideLines(); err != nil {
			t.Fatal(err)
		}
		text, _ = os.ReadFile(filepath.Join(dir, "history.jsonl"))
		again, damaged := read(1 << 30)
		if len(again) != len(ids) || len(damaged) > 0 {
			t.Fatalf("%q were %q, lines %v are damaged still", again, ids, damaged)
		}
	})
}
