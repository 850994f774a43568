package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
)

// standing is how all jobs stand, such as "1 done, 2 running".
func (h *here) standing() string {
	h.t.Helper()
	all, err := h.Jobs(background, h.me, api.Query{All: true})
	if err != nil {
		h.t.Fatal(err)
	}
	var out []string
	for _, j := range all {
		out = append(out, j.ID+" "+string(j.State))
	}
	return strings.Join(out, ", ")
}

// found is what was found wrong, one line each.
func found(all []api.Finding) string {
	var out []string
	for _, f := range all {
		out = append(out, fmt.Sprintf("%s (job %s): %s; %s", f.File, f.Job, f.Text, f.Done))
	}
	return strings.Join(out, "\n")
}

// tells checks that something was found wrong that is told with some words.
func tells(t *testing.T, all []api.Finding, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(found(all), w) {
			t.Errorf("nothing is told of %q, but\n%s", w, found(all))
		}
	}
}

// mixed has jobs stand in all ways: 1 is done, 2 failed, 3 was cancelled, 4 runs, 5 waits,
// 6 to 8 are held, 9_1 and 9_2 wait for 4.
func mixed(t *testing.T) *here {
	t.Helper()
	h := newHere(t, "fifo", 1, nil)
	h.until(h.submit(h.sh(1, "true")), api.Done)
	h.until(h.submit(h.sh(1, "exit 3")), api.Failed)
	held := h.sh(1, "true")
	held.Held = true
	c := h.submit(held)
	h.do(server.Cancel, c)
	h.until(c, api.Cancelled)
	d := h.submit(h.sh(1, "touch up; "+awaits("enough")))
	h.made("up")
	h.running(d, 1)
	h.submit(h.sh(1, "true"))
	for range 3 {
		h.submit(held)
	}
	after := h.sh(1, "true")
	after.After, after.Array = []api.After{{Job: d}}, "1-2"
	h.submit(after)
	return h
}

const mixedStands = "1 done, 2 failed, 3 cancelled, 4 running, 5 waiting, 6 held, 7 held, 8 held, 9_1 held, 9_2 held"

// ends has the jobs of mixed come to their ends, once each.
func (h *here) ends() {
	h.t.Helper()
	h.make("enough")
	for _, id := range []string{"4", "5", "9_1", "9_2"} {
		h.until(id, api.Done)
		if j := h.job(id); j.Run != 1 {
			h.t.Errorf("job %s was started %d times", id, j.Run)
		}
	}
	for _, id := range []string{"6", "7", "8"} {
		h.do(server.Release, id)
		h.until(id, api.Done)
	}
}

// Whatever is lost of the log, with the mark beside it or without, and with it the
// history: the jobs are there again as their folders tell, nobody runs twice, and no
// number is given again.
func TestLogIsLost(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	for _, c := range []struct {
		name string
		lose []string
		cut  bool
	}{
		{"log", []string{"events/*.log*"}, false},
		{"log and mark", []string{"events/*"}, false},
		{"log and history", []string{"events/*", "history.jsonl"}, false},
		{"end of the log", nil, true},
		{"end of the log, and history", []string{"history.jsonl"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := mixed(t)
			h.down()
			for _, pattern := range c.lose {
				all, err := filepath.Glob(filepath.Join(h.setup.State, pattern))
				if err != nil || len(all) == 0 {
					t.Fatalf("%v, %v", all, err)
				}
				for _, path := range all {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			if c.cut { // before the first job, at the end of a line
				b, err := os.ReadFile(lastLog(t, h))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(lastLog(t, h), int64(bytes.Index(b, []byte(`"submit"`))-len(`{"t":0.0,"e":`))); err != nil {
					t.Fatal(err)
				}
				b = b[:bytes.Index(b, []byte(`"submit"`))]
				if err := os.Truncate(lastLog(t, h), int64(bytes.LastIndexByte(b, '\n')+1)); err != nil {
					t.Fatal(err)
				}
			}
			h.up()
			want := mixedStands
			if slices.Contains(c.lose, "history.jsonl") { // nothing is left that tells of the cancellation
				want = strings.Replace(want, "3 cancelled", "3 held", 1)
			}
			if have := h.standing(); have != want {
				t.Errorf("jobs are %s\nwant     %s", have, want)
			}
			if len(h.Findings()) == 0 {
				t.Error("nothing is told")
			}
			if id := h.submit(h.sh(0, "true")); id != "10" {
				t.Errorf("the next job is %s", id)
			}
			h.down()
			h.up() // all is well again
			if all := h.Findings(); len(all) > 0 {
				t.Errorf("at the next start again: %s", found(all))
			}
			h.ends()
		})
	}
}

// A line of the log that was changed costs what stands behind it, and of that all that
// the folders and the history tell is put back.
func TestLogIsChanged(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := mixed(t)
	h.down()
	name := lastLog(t, h)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(`"job":"2"`))
	b[at+len(`"job":"`)] = '7'
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	h.up()
	tells(t, h.Findings(), "the checksum is wrong", "the log is set aside", "it is put back: it is running")
	if have := h.standing(); have != mixedStands {
		t.Errorf("jobs are %s\nwant     %s", have, mixedStands)
	}
	if kept, _ := filepath.Glob(filepath.Join(h.setup.State, "aside", "events-*")); len(kept) != 1 {
		t.Errorf("set aside: %v", kept)
	}
	h.ends()
}

// A description that is torn costs its own job, which can be cancelled, and nobody else.
// The one that runs goes on to its end.
func TestSpecIsTorn(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := mixed(t)
	h.down()
	for _, id := range []string{"4", "5", "6"} {
		path := filepath.Join(h.setup.State, "jobs", id, "spec.json")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b[:len(b)/2], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.up()
	until(t, "job 5 is held", func() bool { return h.job("5").State == api.Held })
	tells(t, h.Findings(), "jobs/5/spec.json (job 5)", "is never started again: norn cancel 6")
	for _, id := range []string{"5", "6"} {
		if j := h.job(id); j.State != api.Held || !strings.Contains(j.Reason, "its submission is lost") {
			t.Errorf("job %s is %s (%s)", id, j.State, j.Reason)
		}
		refused(t, h.Do(background, h.me, server.Release, id), api.Conflict, "norn cancel "+id+" ends it")
		h.do(server.Cancel, id)
		h.until(id, api.Cancelled)
	}
	h.make("enough")
	h.until("4", api.Done)
	h.until("9_1", api.Done)
	h.do(server.Release, "7")
	h.until("7", api.Done)
}

// Files of a refused submission are not taken for a lost job.
func TestRefusedIsNotPutBack(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Limits.Jobs = 1 })
	held := h.sh(1, "true")
	held.Held = true
	h.submit(held)
	_, err := h.Submit(background, h.me, held)
	refused(t, err, api.Unavailable, "at most 1")
	if all, _ := os.ReadDir(filepath.Join(h.setup.State, "jobs")); len(all) != 1 {
		t.Errorf("%d folders of jobs", len(all))
	}
	h.down()
	// A crash between the description and the log.
	if err := os.CopyFS(filepath.Join(h.setup.State, "jobs", "3"), os.DirFS(filepath.Join(h.setup.State, "jobs", "1"))); err != nil {
		t.Fatal(err)
	}
	asJSON(t, filepath.Join(h.setup.State, "jobs", "3", "spec.json"), func(s *map[string]any) { (*s)["id"] = "3"; delete(*s, "crc") })
	h.up()
	if have := h.standing(); have != "1 held" || len(h.Findings()) > 0 {
		t.Errorf("jobs are %s; %s", have, found(h.Findings()))
	}
	h.do(server.Cancel, "1")
	if id := h.submit(held); id != "4" {
		t.Errorf("the next job is %s", id)
	}
}

// stateFiles are the files of a state folder that hold what matters.
func stateFiles(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && (strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".jsonl") || strings.HasSuffix(path, ".log") && e.Name() != "runner.log" && e.Name() != "output.log") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Each byte of each file of the state, changed: fsck finds it, or nothing but the
// checksum's own letters was changed.
func TestEveryByteIsChecked(t *testing.T) {
	t.Parallel()
	h := mixed(t)
	if err := h.Drain(background, h.me, api.Drain{Devices: []string{"slot0"}, Why: "loud"}); err != nil {
		t.Fatal(err)
	}
	h.down()
	opt, err := h.setup.options()
	if err != nil {
		t.Fatal(err)
	}
	if all, err := local.Fsck(opt, false); err != nil || len(all.Findings) > 0 || all.Logs != 1 || all.Ended != 3 || all.Jobs != 9 || all.Runs != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	files, flips, missed := stateFiles(t, h.setup.State), 0, 0
	for _, path := range files {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "runs/4/1/status.json") { // its runner lives, and writes it anew
			if err := os.WriteFile(path, whole[:len(whole)/2], 0o600); err != nil {
				t.Fatal(err)
			}
			until(t, "the runner writes its status anew", func() bool {
				ok, err := rundir.Read(filepath.Dir(path), rundir.StatusFile, new(rundir.Status))
				return ok && err == nil
			})
			continue
		}
		stride := 1 + len(whole)/60
		if testing.Short() {
			stride = 1 + len(whole)/10
		}
		for i := 0; i < len(whole); i += stride {
			b := slices.Clone(whole)
			b[i] ^= 1 << (i % 7)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			all, err := local.Fsck(opt, false)
			if err != nil {
				t.Fatalf("byte %d of %s: %v", i, path, err)
			}
			flips++
			if len(all.Findings) == 0 && !inSeal(whole, i) {
				missed++
				t.Errorf("byte %d of %s, %q, is not found as %q", i, path, whole[i], b[i])
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d bytes of %d files were changed, %d were not found", flips, len(files), missed)
	if len(files) < 15 {
		t.Errorf("only %v", files)
	}
}

// inSeal tells whether a byte is one of a checksum's own, whose key may be changed into
// one that says nothing: the line then counts as one of an older version without checksum.
func inSeal(whole []byte, at int) bool {
	line := whole[bytes.LastIndexByte(whole[:at], '\n')+1:]
	at -= len(whole) - len(line)
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	seal := bytes.LastIndex(line, []byte(`"crc":"`))
	return seal >= 0 && at >= seal
}

// rewritten tells whether a file is the status of job 4, whose runner lives, and has been
// written anew by it since it was changed.
func rewritten(path string) bool {
	ok, err := rundir.Read(filepath.Dir(path), rundir.StatusFile, new(rundir.Status))
	return strings.HasSuffix(path, "runs/4/1/status.json") && ok && err == nil
}

// Bytes of the files that a daemon needs, changed: it starts and tells, every job that has
// its description comes to its end, and nobody runs twice at once.
func TestStartsOnChangedFiles(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := mixed(t)
	h.down()
	files := stateFiles(t, h.setup.State)
	starts := 0
	for _, path := range files {
		for _, part := range []int{3, 2} {
			whole, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // an earlier log, which is packed by now
			}
			if err != nil {
				t.Fatal(err)
			}
			b := slices.Clone(whole)
			at := len(b) / part
			for inSeal(whole, at) {
				at--
			}
			b[at] ^= 4
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			h.up()
			if starts++; len(h.Findings()) == 0 && !rewritten(path) {
				if all, err := h.Fsck(background, h.me, false); err != nil || len(all.Findings) == 0 {
					t.Errorf("nothing is told of %s, changed at %d (%v)", path, at, err)
				}
			}
			if j := h.job("4"); j.State != api.Running && j.State != api.Waiting {
				t.Errorf("job 4 is %s (%s) after %s was changed at %d", j.State, j.Reason, path, at)
			}
			if _, err := h.Fsck(background, h.me, true); err != nil {
				t.Error(err)
			}
			h.down()
			if _, err := os.Stat(path); err == nil && !strings.HasPrefix(path, filepath.Join(h.setup.State, "events")) {
				if err := os.WriteFile(path, whole, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if starts < 20 {
		t.Errorf("only %d starts", starts)
	}
}

// norn fsck --repair through the daemon writes anew what that knows, sets aside what it
// does not, and finds nothing when it is asked again.
func TestRepairWhileUp(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := mixed(t)
	damage := func(name string) {
		path := filepath.Join(h.setup.State, name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"jobs/4/spec.json", "jobs/5/spec.json", "jobs/1/spec.json", "runs/4/1/want.json", "runs/1/1/exit.json", "history.jsonl"} {
		damage(name)
	}
	first, err := h.Fsck(background, h.me, false)
	if err != nil || len(first.Findings) != 6 {
		t.Fatalf("%s, %v", found(first.Findings), err)
	}
	done, err := h.Fsck(background, h.me, true)
	if err != nil || slices.ContainsFunc(done.Findings, func(f api.Finding) bool { return f.Done == "" }) {
		t.Errorf("%s, %v", found(done.Findings), err)
	}
	tells(t, done.Findings, "jobs/5/spec.json (job 5)", "it is written anew", "it is set aside")
	if again, err := h.Fsck(background, h.me, true); err != nil || len(again.Findings) > 0 {
		t.Errorf("again: %s, %v", found(again.Findings), err)
	}
	var w rundir.Want
	if ok, err := rundir.Read(h.runDir("4", 1), rundir.WantFile, &w); !ok || err != nil || w.State != rundir.Go {
		t.Errorf("%+v, %v", w, err)
	}
	_, err = h.Fsck(background, server.Caller{User: "eve", UID: 4242, Local: true}, false)
	refused(t, err, api.Denied, "only an operator")
	h.down()
	h.up()
	if have := h.standing(); have != mixedStands {
		t.Errorf("jobs are %s\nwant     %s", have, mixedStands)
	}
	h.ends()
}

// norn fsck --repair without a daemon mends what norn up would, says so, and has nothing
// to say when it is called again. It refuses a folder that a daemon has.
func TestRepairWhileDown(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := mixed(t)
	opt, err := h.setup.options()
	if err != nil {
		t.Fatal(err)
	}
	h.down()
	if err := os.Remove(lastLog(t, h)); err != nil {
		t.Fatal(err)
	}
	look, err := local.Fsck(opt, false)
	if err != nil {
		t.Fatal(err)
	}
	tells(t, look.Findings, "the log is gone", "jobs/6 (job 6): the log has lost it; it is put back: it is held")
	if again, err := local.Fsck(opt, false); err != nil || found(again.Findings) != found(look.Findings) {
		t.Errorf("who only looks changes something: %s, %v", found(again.Findings), err)
	}
	for i := range 3 {
		all, err := local.Fsck(opt, true)
		if err != nil || (i == 0) != (len(all.Findings) > 0) {
			t.Errorf("repair %d: %s, %v", i+1, found(all.Findings), err)
		}
	}
	h.up()
	if have := h.standing(); have != mixedStands {
		t.Errorf("jobs are %s\nwant     %s", have, mixedStands)
	}
	if _, err := local.Fsck(opt, true); err == nil || !strings.Contains(err.Error(), "another norn runs on the state folder") {
		t.Errorf("%v", err)
	}
	h.ends()
}

// A job that this machine could not run now is put back all the same, and nobody has to
// leave devices because fsck is told of fewer.
func TestPutBackOnFewerDevices(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := mixed(t)
	h.down()
	if err := os.Remove(lastLog(t, h)); err != nil {
		t.Fatal(err)
	}
	fewer := h.setup
	fewer.Slots = 0
	opt, err := fewer.options()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := local.Fsck(opt, true); err == nil || !strings.Contains(err.Error(), "a machine with other devices") {
		t.Errorf("%v", err)
	}
	all, err := local.Fsck(opt, false)
	if err != nil {
		t.Fatal(err)
	}
	tells(t, all.Findings, "jobs/6 (job 6): the log has lost it; it is put back: it is held")
	h.up()
	if have := h.standing(); have != mixedStands {
		t.Errorf("jobs are %s\nwant     %s", have, mixedStands)
	}
	h.down()
	if _, err := local.Fsck(opt, true); err == nil || !strings.Contains(err.Error(), "a machine with other devices") {
		t.Errorf("%v", err)
	}
	h.up()
	h.ends()
}

// A job that has ended while its history cannot be written is listed all the same, and is
// told by the history once, when that can be written again.
func TestHistoryIsTriedAgain(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 2, func(o *local.Options) { o.Limits.Compact = 4 })
	history, real := filepath.Join(h.setup.State, "history.jsonl"), filepath.Join(t.TempDir(), "not", "yet")
	if err := os.Symlink(real, history); err != nil {
		t.Fatal(err)
	}
	a, b := h.submit(h.sh(1, "true")), h.submit(h.sh(1, "true"))
	h.until(a, api.Done)
	h.until(b, api.Done)
	for range 10 { // more than a log holds
		h.submit(h.sh(1, awaits("enough")))
	}
	listed := func() (n int) {
		t.Helper()
		all, err := h.Jobs(background, h.me, api.Query{All: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if all[i].State == api.Done {
				n++
			}
		}
		return n
	}
	if n := listed(); n != 2 {
		t.Errorf("%d jobs are listed as done while the history cannot be written", n)
	}
	if err := os.Mkdir(filepath.Dir(real), 0o700); err != nil {
		t.Fatal(err)
	}
	lines := func() int {
		text, _ := os.ReadFile(real)
		return strings.Count(string(text), "\n")
	}
	until(t, "the history tells of both", func() bool { return lines() == 2 })
	h.down()
	h.up()
	if n := listed(); n != 2 || lines() != 2 {
		t.Errorf("%d jobs are listed as done, of %d in the history", n, lines())
	}
}

// A run whose description is lost or damaged while it runs, and whose runner is then
// killed, is over all the same, with the processes that it left.
func TestDescriptionOfARunIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(string) error{
		"removed":   os.Remove,
		"shortened": func(path string) error { return os.Truncate(path, 7) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHere(t, "fifo", 1, nil)
			id := h.submit(h.sh(1, `test $NORN_RUN = 1 || exit 0; setsid sh -c 'echo $$ >left; touch up; exec sleep 1000' & wait`))
			h.made("up")
			h.running(id, 1)
			b, err := os.ReadFile(filepath.Join(h.work, "left"))
			if err != nil {
				t.Fatal(err)
			}
			left, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err != nil {
				t.Fatal(err)
			}
			dir := h.runDir(id, 1)
			if err := lose(filepath.Join(dir, rundir.RunFile)); err != nil {
				t.Fatal(err)
			}
			killRunner(dir)
			h.until(id, api.Done)
			if j := h.job(id); j.Run != 2 {
				t.Errorf("%+v", j)
			}
			if start, err := runner.StartTime(left); err == nil && runner.Alive(rundir.Proc{PID: left, Start: start}) {
				t.Errorf("process %d of the lost run is there", left)
			}
		})
	}
}
