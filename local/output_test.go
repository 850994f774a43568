package local_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/rundir"
)

// readAll reads what is there.
func readAll(t *testing.T, out io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// lines are the numbers from a to b, one a line.
func lines(a, b int) string {
	var out strings.Builder
	for n := a; n <= b; n++ {
		fmt.Fprintf(&out, "%04d\n", n)
	}
	return out.String()
}

// The output of a job is read across rotated files, from the beginning or only
// the end, while it runs and afterwards. A follower misses nothing.
func TestOutput(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Defaults.LogBytes, o.Defaults.LogKeep = 500, 4 })
	open := func(id string, run int) server.Output {
		t.Helper()
		out, err := h.Output(background, h.me, id, run)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { out.Close() })
		return out
	}
	a := h.submit(h.sh(1, "touch up; "+awaits("go")+`; n=0; while [ $n -lt 250 ]; do n=$((n+1)); printf "%04d\n" $n; done; touch half; `+awaits("on")+"; echo last"))
	h.made("up")
	h.running(a, 1)
	follower := open(a, 0)
	if text := readAll(t, follower); text != "" {
		t.Errorf("before it wrote anything: %q", text)
	}
	h.make("go")
	h.made("half")
	until(t, "all is in its files", func() bool { return strings.HasSuffix(readAll(t, open(a, 1)), lines(250, 250)) })
	for tail, want := range map[int]string{0: "", 1: lines(250, 250), 3: lines(248, 250), 150: lines(101, 250)} {
		out := open(a, 1)
		if err := out.Tail(tail); err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, out); text != want {
			t.Errorf("the last %d lines are %q", tail, text)
		}
	}
	h.make("on")
	h.until(a, api.Done)
	var followed strings.Builder
	for {
		followed.WriteString(readAll(t, follower))
		if err := follower.Wait(soon(t)); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	whole := readAll(t, open(a, 1))
	if followed.String() != whole || !strings.HasSuffix(whole, lines(250, 250)+"last\n") || len(whole) > 5*550 {
		t.Errorf("the follower read %d bytes, what is kept are %d, and end with %q", followed.Len(), len(whole), whole[max(0, len(whole)-20):])
	}
	if files, _ := filepath.Glob(filepath.Join(h.runDir(a, 1), rundir.OutputFile+"*")); len(files) < 2 || len(files) > 5 {
		t.Errorf("it is kept in %v", files)
	}
	_, err := h.Output(background, h.me, a, 2)
	refused(t, err, api.Unknown, "job 1 has no run 2 whose output is kept; its last one is 1")
	held := h.sh(1, "true")
	held.Held = true
	b := h.submit(held)
	_, err = h.Output(background, h.me, b, 0)
	refused(t, err, api.Conflict, "job 2 has written nothing yet, it is held")
	h.do(server.Cancel, b)
	_, err = h.Output(background, h.me, b, 0)
	refused(t, err, api.Conflict, "job 2 never ran: it is cancelled")
}

// The end of what is kept, where a file has just been put aside, where lines have
// no end, and where there is nothing.
func TestTail(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	a := h.submit(h.sh(1, "true"))
	h.until(a, api.Done)
	for name, c := range map[string]struct {
		files []string // oldest first
		tail  int
		want  string
	}{
		"nothing":               {nil, 3, ""},
		"empty":                 {[]string{""}, 3, ""},
		"just put aside":        {[]string{"1\n2\n3\n", ""}, 2, "2\n3\n"},
		"over files":            {[]string{"1\n2\n", "3\n", "4\n5\n"}, 4, "2\n3\n4\n5\n"},
		"more than there are":   {[]string{"1\n2\n", "3\n"}, 9, "1\n2\n3\n"},
		"exactly as many":       {[]string{"1\n2\n", "3\n"}, 3, "1\n2\n3\n"},
		"the last has no end":   {[]string{"1\n", "2\n3"}, 2, "2\n3"},
		"one of a file":         {[]string{"1\n2\n", "3\n4\n"}, 2, "3\n4\n"},
		"none":                  {[]string{"1\n2\n"}, 0, ""},
		"a line without an end": {[]string{strings.Repeat("x", 1<<17)}, 1, strings.Repeat("x", 1<<17)},
		"a long line":           {[]string{"1\n" + strings.Repeat("x", 1<<17) + "\n"}, 1, strings.Repeat("x", 1<<17) + "\n"},
	} {
		old, _ := filepath.Glob(filepath.Join(h.runDir(a, 1), rundir.OutputFile+"*"))
		for _, path := range old {
			os.Remove(path)
		}
		for i, text := range c.files {
			path := filepath.Join(h.runDir(a, 1), rundir.OutputFile)
			if n := len(c.files) - 1 - i; n > 0 {
				path += fmt.Sprint(".", n)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := h.Output(background, h.me, a, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := out.Tail(c.tail); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text := readAll(t, out); text != c.want {
			t.Errorf("%s: %.40q, want %.40q", name, text, c.want)
		}
		if err := out.Wait(soon(t)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the run is over, and waiting for more ends with %v", name, err)
		}
		out.Close()
	}
}

// TestOutputOfARunThatBegins: who asks for the output of a run whose folder is not made yet
// is not refused, and reads it from its beginning.
func TestOutputOfARunThatBegins(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	a := h.submit(h.sh(1, "echo hello; "+awaits("on")))
	h.running(a, 1)
	dir := h.runDir(a, 1)
	until(t, "it has written", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, rundir.OutputFile))
		return err == nil && len(b) > 0
	})
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	out, err := h.Output(background, h.me, a, 1)
	if err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, out); text != "" {
		t.Errorf("before there is anything it reads %q", text)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if err := out.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, out); text != "hello\n" {
		t.Errorf("it reads %q", text)
	}
	h.make("on")
	h.until(a, api.Done)
}
