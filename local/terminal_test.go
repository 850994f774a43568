package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local/rundir"
)

// The output of a job also goes to the file that its user names, with all placeholders,
// over its runs, and with her rights and her mask.
func TestLogOfTheUser(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	h.letIn()
	spec := h.sh(1, `echo "run $NORN_RUN"; [ $NORN_RUN = 2 ]`)
	spec.Name, spec.Log, spec.Umask, spec.Retry = "a/b", "%x-%j-%A-%a-%u-100%%.out", "077", api.Retry{Limit: 1}
	spec.Array = "7"
	h.submit(spec)
	h.until("1_7", api.Done)
	name := "a-b-1_7-1-7-" + h.me.User + "-100%.out"
	if have := h.text(name); have != "run 1\nrun 2\n" || have[6:] != h.wrote("1_7") {
		t.Errorf("it has %q, norn has %q", have, h.wrote("1_7"))
	}
	if info, err := os.Stat(filepath.Join(h.work, name)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	spec = h.sh(1, "echo well")
	for log, words := range map[string]string{"/proc/nothing": "no such file", "../work": "is a directory", "pipe": "no such device or address"} {
		spec.Log = log
		if log == "pipe" {
			if err := mkfifo(filepath.Join(h.work, log)); err != nil {
				t.Fatal(err)
			}
		}
		id := h.submit(spec)
		h.until(id, api.Done)
		if have := h.wrote(id); !strings.HasSuffix(have, "well\n") || !strings.Contains(have, "[norn] ") || !strings.Contains(have, "cannot be written: ") || !strings.Contains(have, words) {
			t.Errorf("%s: it wrote %q", log, have)
		}
	}
	spec.Log = "%q.out"
	_, err := h.Submit(background, h.me, spec)
	refused(t, err, api.Invalid, "has a placeholder that is none")
	if os.Getuid() != 0 {
		return
	}
	_, bob := others()
	secret := filepath.Join(h.work, "of-root")
	if err := os.WriteFile(secret, []byte("of root\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for log, want := range map[string]string{"of-root": "permission denied", "of-bob": ""} {
		spec.Log = log
		ids, err := h.Submit(background, bob, spec)
		if err != nil {
			t.Fatal(err)
		}
		h.until(ids[0], api.Done)
		if have := h.wrote(ids[0]); !strings.Contains(have, want) {
			t.Errorf("%s: %q", log, have)
		}
	}
	if have := h.text("of-root"); have != "of root\n" {
		t.Errorf("what is root's is now %q", have)
	}
	if owner, err := ownerOf(filepath.Join(h.work, "of-bob")); err != nil || owner != bob.UID || h.text("of-bob") != "well\n" {
		t.Errorf("it belongs to %d, %v: %q", owner, err, h.text("of-bob"))
	}
}

// A job with a terminal is typed at, knows how large that is, can be interrupted, and ends
// with its shell; one without refuses it, and so do jobs of others.
func TestTerminal(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	spec := h.sh(1, "")
	spec.Command, spec.PTY = []string{"/bin/sh", "-i"}, true
	spec.Env["PS1"] = "$ "
	id := h.submit(spec)
	h.running(id, 1)
	types := func(text string) {
		t.Helper()
		until(t, "it is typed", func() bool { return h.Input(background, h.me, id, api.Input{Data: []byte(text)}) == nil })
	}
	shows := func(text string) {
		t.Helper()
		defer func() {
			if t.Failed() {
				t.Logf("it shows %q", h.wrote(id))
			}
		}()
		until(t, "it shows "+text, func() bool { return strings.Contains(h.wrote(id), text) })
	}
	until(t, "it has a size", func() bool {
		return h.Input(background, h.me, id, api.Input{Rows: 33, Cols: 101}) == nil
	})
	types("stty size; tty >/dev/null && echo a-$((1+1))-terminal\r")
	shows("33 101\r\n")
	shows("a-2-terminal\r\n")
	types("sleep 600\r")
	shows("sleep 600\r\n")
	until(t, "the shell is back", func() bool { // it may not have started what it is to interrupt, and forgets what is typed at the same moment
		types("\x03")
		time.Sleep(50 * time.Millisecond)
		types("echo inter$((2-2))rupted\r")
		time.Sleep(50 * time.Millisecond)
		return strings.Contains(h.wrote(id), "inter0rupted\r\n")
	})
	h.down()
	h.up() // who is at it stays
	types("echo still-$((40+2))\r" + strings.Repeat("true 456789\r", 500) + "echo all-$((1+1))\r")
	shows("still-42\r\n")
	shows("all-2\r\n")
	_, bob := others()
	refused(t, h.Input(background, bob, id, api.Input{Data: []byte("x")}), api.Unknown, "there is no job "+id)
	types("exit 3\r")
	if j := h.until(id, api.Failed); j.Exit.Code != 3 || !j.PTY {
		t.Errorf("%+v", j)
	}
	refused(t, h.Input(background, h.me, id, api.Input{Data: []byte("x")}), api.Conflict, "has ended")
	other := h.submit(h.sh(1, awaits("enough")))
	h.running(other, 1)
	refused(t, h.Input(background, h.me, other, api.Input{Data: []byte("x")}), api.Conflict, "has no terminal")
	spec.Tasks = api.Tasks{N: 2}
	_, err := h.Submit(background, h.me, spec)
	refused(t, err, api.Invalid, "has one task")
	h.make("enough")
	h.until(other, api.Done)
}

// A shell that is cancelled ends, and its children with it.
func TestTerminalIsCancelled(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	spec := h.sh(1, "trap '' TERM HUP; touch up; "+awaits("never"))
	spec.PTY = true
	id := h.submit(spec)
	h.made("up")
	h.running(id, 1)
	h.do(server.Cancel, id)
	h.until(id, api.Cancelled)
	h.gone(id, 1)
	if _, err := os.Lstat(filepath.Join(h.runDir(id, 1), rundir.InputFile)); err != nil {
		t.Error(err)
	}
}
