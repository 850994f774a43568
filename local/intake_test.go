package local_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/internal/longtest"
)

// A log that is torn right behind the submission of a job that is held, or that waits for
// another, does not let it start.
func TestTornBehindSubmission(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"held", "after"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHere(t, "fifo", 2, nil)
			first := h.submit(h.sh(1, "touch up; "+awaits("enough")))
			h.running(first, 1)
			spec := h.sh(1, "true")
			if spec.Held = name == "held"; !spec.Held {
				spec.After = []api.After{{Job: first}}
			}
			id := h.submit(spec)
			h.down()
			log := lastLog(t, h)
			b, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.LastIndex(b, []byte(`"e":"hold"`))
			if at < 0 {
				t.Fatalf("nothing is held in\n%s", b)
			}
			if err := os.Truncate(log, int64(bytes.LastIndexByte(b[:at], '\n')+5)); err != nil { // in the middle of that line
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(h.setup.State, "events", "mark")); err != nil { // which was not written yet
				t.Fatal(err)
			}
			h.up()
			until(t, "it is said why it is held", func() bool { return h.job(id).Reason != "" })
			if j := h.job(id); j.State != api.Held || j.Run != 0 {
				t.Errorf("job %s is %s: %s", id, j.State, j.Reason)
			}
			h.make("enough")
			h.until(first, api.Done)
			if spec.Held {
				h.do(server.Release, id)
			}
			h.until(id, api.Done)
		})
	}
}

// A program that is not there, or that cannot be run, ends its job as a shell would: with
// exit code 127 or 126, and says why.
func TestProgramIsMissing(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	h.make("plain")
	for _, c := range []struct {
		command []string
		code    int
		words   string
	}{
		{[]string{"no-such-program"}, 127, "cannot run no-such-program: no such file in PATH"},
		{[]string{"/no/such/program"}, 127, "cannot run /no/such/program: no such file"},
		{[]string{"./plain"}, 126, "cannot run ./plain: permission denied"},
		{[]string{"/"}, 126, "cannot run /: "},
	} {
		spec := h.sh(1, "")
		spec.Command = c.command
		j := h.until(h.submit(spec), api.Failed)
		if j.Exit == nil || j.Exit.Code != c.code || !strings.Contains(j.Reason, c.words) {
			t.Errorf("%v: %+v, %q", c.command, j.Exit, j.Reason)
		}
	}
	spec := h.sh(1, "true")
	spec.Dir = "/no/such/folder"
	if j := h.until(h.submit(spec), api.Failed); j.Exit == nil || j.Exit.Code != 126 || !strings.Contains(j.Reason, "working directory /no/such/folder") {
		t.Errorf("%+v, %q", j.Exit, j.Reason)
	}
}

// A job that was cancelled and has still to end is no running job any more.
func TestCancelledIsStopping(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	id := h.submit(h.sh(1, "trap 'touch told; "+awaits("enough")+"; exit 1' TERM; touch up; while :; do sleep 0.05; done"))
	h.made("up")
	h.running(id, 1)
	h.do(server.Cancel, id)
	h.made("told")
	j := h.job(id)
	if j.State != api.Stopping || !strings.Contains(j.Reason, "cancelled it") {
		t.Errorf("it is %s: %s", j.State, j.Reason)
	}
	for state, want := range map[api.State]int{api.Running: 0, api.Stopping: 1} {
		if all, err := h.Jobs(background, h.me, api.Query{States: []api.State{state}}); err != nil || len(all) != want {
			t.Errorf("%d jobs are %s, %v", len(all), state, err)
		}
	}
	if s, err := h.Status(background); err != nil || s.Running != 0 || s.Stopping != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	h.make("enough")
	h.until(id, api.Cancelled)
}

// A job that is told to leave before it can know what to do has lost nothing, and no
// checkpoint of it has failed.
func TestPreemptedBeforeItsHandler(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "srtf", 1, nil)
	spec := h.sh(1, "touch up; exec sleep 600")
	spec.Stop.Mode, spec.Estimate = "checkpoint", 600
	id := h.submit(spec)
	h.made("up")
	h.running(id, 1)
	short := h.sh(1, "touch up2; "+awaits("enough"))
	short.Estimate = 1
	other := h.submit(short)
	h.made("up2")
	j := h.job(id)
	if strings.Contains(j.Reason, "checkpoint failed") || j.Failures != 0 {
		t.Errorf("it is %s: %s", j.State, j.Reason)
	}
	w := h.why(id)
	life := strings.Join(w.Life, "\n")
	if strings.Contains(life, "failed") || !strings.Contains(life, "before it could save anything") {
		t.Errorf("its life:\n%s", life)
	}
	h.make("enough")
	h.until(other, api.Done)
	h.running(id, 2)
	h.do(server.Cancel, id)
	h.until(id, api.Cancelled)
}

// A job has the mask of rights and the limits of who submitted it, from its first
// instruction on, and never more than the daemon has; the daemon's own stay.
func TestTakesOverMaskAndLimits(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	spec := h.sh(1, "umask; ulimit -Sn; ulimit -Hn; ulimit -Ss; ulimit -Sc; touch made; ls -l made | cut -c1-10; ulimit -n 100000000 || echo kept")
	spec.Umask = "027"
	spec.ULimits = map[string]string{"nofile": "123:456", "stack": "1048576", "core": "0"}
	id := h.submit(spec)
	h.until(id, api.Done)
	if have, want := h.wrote(id), "0027\n123\n456\n1024\n0\n-rw-r-----\n"; !strings.HasPrefix(have, want) || !strings.HasSuffix(have, "kept\n") {
		t.Errorf("it wrote\n%s\nwant\n%s", have, want)
	}
	spec.ULimits = map[string]string{"nofile": "unlimited"}
	id = h.submit(spec)
	h.until(id, api.Done)
	if have := h.wrote(id); strings.Contains(have, "unlimited\nunlimited") {
		t.Errorf("it has more than the daemon:\n%s", have)
	}
	for _, c := range []struct {
		umask  string
		limits map[string]string
		words  string
	}{
		{"999", nil, `"999" is no mask of rights`},
		{"", map[string]string{"memlock": "0"}, `no limit "memlock" of a process: write one of as, core, cpu`},
		{"", map[string]string{"nofile": "9:8"}, `"9:8" is no limit`},
	} {
		spec.Umask, spec.ULimits = c.umask, c.limits
		_, err := h.Submit(background, h.me, spec)
		refused(t, err, api.Invalid, c.words)
	}
}

// wrote is what the last run of a job wrote.
func (h *here) wrote(id string) string {
	h.t.Helper()
	out, err := h.Output(background, h.me, id, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	defer out.Close()
	return readAll(h.t, out)
}

// Groups that the process has given up which submits do not come back, and PATH does not
// tell what lies where its user may not look.
func TestNothingComesBack(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run jobs as others")
	}
	h := newHere(t, "fifo", 1, nil)
	h.letIn()
	_, bob := others()
	bob.GID, bob.Groups, bob.Grouped = 4711, []uint32{4712, 4713}, true
	run := func(c server.Caller, spec api.JobSpec) (api.Job, string) {
		t.Helper()
		ids, err := h.Submit(background, c, spec)
		if err != nil {
			t.Fatal(err)
		}
		until(t, "it has ended", func() bool { return h.job(ids[0]).State.Over() })
		return h.job(ids[0]), h.wrote(ids[0])
	}
	if _, text := run(bob, h.sh(1, "id -g; id -G")); text != "4711\n4711 4712 4713\n" {
		t.Errorf("bob has the groups %q", text)
	}
	root := h.me
	root.GID, root.Groups, root.Grouped = 0, []uint32{4712}, true
	if _, text := run(root, h.sh(1, "id -u; id -G")); text != "0\n0 4712\n" {
		t.Errorf("root has the groups %q", text)
	}
	secret := filepath.Join(h.work, "secret")
	if err := os.Mkdir(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(secret, "there"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, name := range []string{"there", "where"} {
		spec := h.sh(1, "")
		spec.Command, spec.Env = []string{name}, map[string]string{"PATH": secret + ":/bin"}
		j, _ := run(bob, spec)
		told = append(told, strings.ReplaceAll(j.Reason, name, "it"))
	}
	if told[0] != told[1] || !strings.Contains(told[0], "no such file in PATH") {
		t.Errorf("a file that is there and hidden is told of: %q", told)
	}
	spec := h.sh(1, "")
	spec.Command = []string{"sh", "-c", "true"}
	spec.Env = map[string]string{"PATH": secret + ":/nowhere:/bin"}
	if j, _ := run(bob, spec); j.State != api.Done {
		t.Errorf("what is behind a folder that is closed is not found: %s", j.Reason)
	}
}
