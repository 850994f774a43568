package trace_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/trace"
)

// data is a file of published data.
func data(t testing.TB, path string) string {
	return shared.Path(t, "data/"+path)
}

// readAll reads a whole trace.
func readAll(t testing.TB, path string, opt trace.Options) ([]trace.Entry, trace.Info) {
	t.Helper()
	r, err := trace.Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	return drain(t, r)
}

// readText reads a trace from a string.
func readText(t testing.TB, text string, opt trace.Options) ([]trace.Entry, trace.Info) {
	t.Helper()
	r, err := trace.NewReader(strings.NewReader(text), "test", opt)
	if err != nil {
		t.Fatal(err)
	}
	return drain(t, r)
}

func drain(t testing.TB, r *trace.Reader) ([]trace.Entry, trace.Info) {
	t.Helper()
	defer r.Close()
	var all []trace.Entry
	var e trace.Entry
	for {
		err := r.Next(&e)
		if errors.Is(err, io.EOF) {
			return all, r.Info()
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

// list is a source of given entries.
type list struct{ entries []trace.Entry }

func (l *list) Next(e *trace.Entry) error {
	if len(l.entries) == 0 {
		return io.EOF
	}
	*e = l.entries[0]
	l.entries = l.entries[1:]
	return nil
}

// lines writes entries as Norn's JSON Lines, without the first line: a short
// and complete way to say what a test expects.
func lines(t testing.TB, entries []trace.Entry) []string {
	t.Helper()
	var out strings.Builder
	if _, err := trace.WriteJSON(&out, &list{entries}); err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	return all[1:]
}

// equalLines compares entries with what is expected of them.
func equalLines(t *testing.T, got []trace.Entry, want ...string) {
	t.Helper()
	have := lines(t, got)
	for i := range max(len(have), len(want)) {
		var h, w string
		if i < len(have) {
			h = have[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if h != w {
			t.Errorf("job %d:\n have %s\n want %s", i, h, w)
		}
	}
}
