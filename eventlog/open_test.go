package eventlog_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/norn-scheduler/norn/eventlog"
)

// put writes a file, with its folder.
func put(t *testing.T, text string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// begun is a log of one event.
func begun(policy string) string {
	return `{"norn":"eventlog","version":1,"world":"local","policy":"` + policy + `","types":[{"name":"A100"}]}` + "\n" + `{"t":0,"e":"node-add","name":"box","gpus":[[0,2]]}` + "\n"
}

// TestOpen finds the log in a folder, or says why there is none.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	put(t, begun("fifo"), dir, "fifo", "events.log")
	put(t, begun("srtf"), dir, "two", "events.log")
	put(t, begun("srtf"), dir, "two", "events.log.gz")
	put(t, "jobs", dir, "none", "jobs.csv")
	for path, want := range map[string]string{"fifo": "fifo", filepath.Join("two", "events.log"): "srtf"} {
		f, err := eventlog.Open(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if f.Header.Policy != want || filepath.Base(f.Path) != "events.log" {
			t.Errorf("%s: %s of policy %s", path, f.Path, f.Header.Policy)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	for path, want := range map[string]string{
		"": "holds several runs; name one: ", "two": "holds 2 event logs; name the file", "none": "holds no event log", "nowhere": "no such file",
		filepath.Join("none", "jobs.csv"): "is no event log",
	} {
		if _, err := eventlog.Open(filepath.Join(dir, path)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// TestOpenState reads the logs of a state folder one behind the other: a packed one
// first, and one that is just being packed once.
func TestOpenState(t *testing.T) {
	dir := t.TempDir()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, string(z.EncodeAll([]byte(begun("fifo")), nil)), dir, "events", "000001.log.zst")
	put(t, begun("srtf"), dir, "events", "000002.log")
	put(t, "half packed", dir, "events", "000002.log.zst")
	put(t, "just begun", dir, "events", "000003.log.new")
	f, err := eventlog.OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var policies []string
	for {
		policies = append(policies, f.Header.Policy)
		var ev eventlog.Event
		for err = f.Next(&ev); err == nil; err = f.Next(&ev) {
		}
		if !errors.Is(err, eventlog.ErrAnother) {
			break
		}
		if _, err := f.Another(); err != nil {
			t.Fatal(err)
		}
	}
	if !errors.Is(err, io.EOF) || strings.Join(policies, " ") != "fifo srtf" {
		t.Errorf("%v, logs of %q", err, policies)
	}
	if f, err := eventlog.OpenState(t.TempDir()); f != nil || err != nil {
		t.Errorf("%v, %v", f, err)
	}
}
