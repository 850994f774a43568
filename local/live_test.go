package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

// here is a daemon inside the test, and who talks to it: its own user, as an
// operator.
type here struct {
	*local.Daemon
	t     *testing.T
	setup setup
	me    server.Caller
	work  string // folder in which the jobs run

	stop  context.CancelFunc
	ended chan error
}

var background = context.Background()

// newHere starts a daemon with slots in a folder of its own.
func newHere(t *testing.T, policy string, slots int, edit func(*local.Options)) *here {
	t.Helper()
	return newHereAt(t, "", policy, slots, edit)
}

// newHereAt starts a daemon with slots on a state folder, or one of its own.
func newHereAt(t *testing.T, at, policy string, slots int, edit func(*local.Options)) *here {
	t.Helper()
	dir := t.TempDir()
	if at == "" {
		at = filepath.Join(dir, "s")
	}
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	h := &here{
		t: t, setup: setup{State: at, Slots: slots, Policy: policy, Edit: edit},
		me: server.Caller{User: u.Username, UID: uint32(os.Getuid()), Local: true, Operator: true}, work: filepath.Join(dir, "work"),
	}
	if err := os.Mkdir(h.work, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.down()
		endRuns(t, h.setup.State)
	})
	h.up()
	return h
}

// up starts the daemon.
func (h *here) up() {
	h.t.Helper()
	opt, err := h.setup.options()
	if err != nil {
		h.t.Fatal(err)
	}
	d, err := local.Open(opt)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	h.Daemon, h.stop, h.ended = d, cancel, make(chan error, 1)
	go func() { h.ended <- d.Run(ctx) }()
}

// down ends the daemon as norn down does.
func (h *here) down() {
	if h.Daemon == nil {
		return
	}
	h.stop()
	if err := <-h.ended; err != nil {
		h.t.Errorf("the daemon: %v", err)
	}
	h.Close()
	h.Daemon = nil
}

// endRuns ends what still runs of the runs in a state folder that no daemon has.
func endRuns(t *testing.T, state string) {
	t.Helper()
	dirs, _ := filepath.Glob(filepath.Join(state, "runs", "*", "*"))
	residents, _ := filepath.Glob(filepath.Join(state, "residents", "*"))
	dirs = append(dirs, residents...)
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, rundir.ExitFile)); err == nil {
			continue
		}
		until(t, "the runner of "+dir+" ends", func() bool {
			killRunner(dir)
			lock, err := rundir.Lock(dir)
			if err == nil {
				err = runner.Clean(dir, rundir.EnvJob+"="+filepath.Base(filepath.Dir(dir)), rundir.EnvRun+"="+filepath.Base(dir), rundir.EnvSocket+"="+filepath.Join(state, "norn.sock"))
				lock.Close()
			}
			return err == nil
		})
	}
}

// killRunner kills the runner of a run, and tells whether there was one.
func killRunner(dir string) bool {
	var s rundir.Status
	rundir.Read(dir, rundir.StatusFile, &s)
	return runner.Alive(rundir.Proc{PID: s.PID, Start: s.Start}) && syscall.Kill(s.PID, syscall.SIGKILL) == nil
}

// sh is a job that runs a script.
func (h *here) sh(gpus float64, script string) api.JobSpec {
	return api.JobSpec{
		Command: []string{"/bin/sh", "-c", script}, Dir: h.work, GPUs: api.Fixed(gpus),
		Env: map[string]string{"PATH": os.Getenv("PATH")},
	}
}

// awaits is a script that waits until a file is made, and then ends.
func awaits(name string) string { return "while [ ! -e " + name + " ]; do sleep 0.05; done" }

// submit hands a job in.
func (h *here) submit(spec api.JobSpec) string {
	h.t.Helper()
	ids, err := h.Submit(background, h.me, spec)
	if err != nil {
		h.t.Fatal(err)
	}
	return ids[0]
}

// make makes a file that jobs look for.
func (h *here) make(name string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.work, name), nil, 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// made waits for a file that a job makes.
func (h *here) made(name string) {
	h.t.Helper()
	until(h.t, name+" is made", func() bool {
		_, err := os.Stat(filepath.Join(h.work, name))
		return err == nil
	})
}

// text is what stands in a file.
func (h *here) text(name string) string {
	h.t.Helper()
	b, err := os.ReadFile(filepath.Join(h.work, name))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(b)
}

// job is how a job stands.
func (h *here) job(id string) api.Job {
	h.t.Helper()
	all, err := h.Jobs(background, h.me, api.Query{IDs: []string{id}})
	if err != nil || len(all) == 0 {
		h.t.Fatalf("job %s: %v, %v", id, all, err)
	}
	return all[0]
}

// until waits until a job is in a state.
func (h *here) until(id string, s api.State) (j api.Job) {
	h.t.Helper()
	until(h.t, fmt.Sprintf("job %s is %s", id, s), func() bool {
		j = h.job(id)
		if j.State.Over() && j.State != s {
			h.t.Fatalf("job %s is %s (%s), not %s", id, j.State, j.Reason, s)
		}
		return j.State == s
	})
	return j
}

// running waits until the processes of a job run, for at least the n-th time.
func (h *here) running(id string, n int) api.Job {
	h.t.Helper()
	var j api.Job
	until(h.t, "job "+id+" runs", func() bool {
		j = h.job(id)
		return j.State == api.Running && j.Reason == "" && j.Run >= n
	})
	return j
}

// do carries out a verb.
func (h *here) do(v server.Verb, id string) {
	h.t.Helper()
	if err := h.Do(background, h.me, v, id); err != nil {
		h.t.Fatal(err)
	}
}

// why explains a job.
func (h *here) why(id string) api.Why {
	h.t.Helper()
	w, err := h.Why(background, h.me, id)
	if err != nil {
		h.t.Fatal(err)
	}
	return w
}

// refused checks that something was refused, and in which words.
func refused(t *testing.T, err error, kind api.ErrorKind, words string) {
	t.Helper()
	var no *api.Error
	if !errors.As(err, &no) || no.Kind != kind || !strings.Contains(no.Text, words) {
		t.Errorf("%v, want a refusal of kind %d with %q", err, kind, words)
	}
}

// runDir is the folder of a run.
func (h *here) runDir(id string, run int) string {
	return filepath.Join(h.setup.State, "runs", id, strconv.Itoa(run))
}

// task is the connection of a run's processes to the daemon.
func (h *here) task(id string, run int) server.Task {
	h.t.Helper()
	var r rundir.Run
	if ok, err := rundir.Read(h.runDir(id, run), rundir.RunFile, &r); !ok || err != nil {
		h.t.Fatalf("run %d of job %s: %v", run, id, err)
	}
	for _, v := range r.Env {
		if token, is := strings.CutPrefix(v, rundir.EnvToken+"="); is {
			task, err := h.TaskOf(token)
			if err != nil {
				h.t.Fatal(err)
			}
			return task
		}
	}
	h.t.Fatalf("run %d of job %s has no token", run, id)
	return nil
}

// entry is an event of the log.
type entry struct {
	eventlog.Event
	key  string // of its job
	line string // as histories write it
}

// log is the event log so far, without what one epoch took over from another.
func (h *here) log() []entry {
	h.t.Helper()
	return slices.DeleteFunc(h.wholeLog(), func(e entry) bool { return e.Kind == eventlog.Carry || e.Kind == eventlog.NodeAdd })
}

// wholeLog is the event log so far.
func (h *here) wholeLog() []entry {
	h.t.Helper()
	var all bytes.Buffer
	if err := h.Log(background, h.me, &all); err != nil {
		h.t.Fatal(err)
	}
	out, err := readLogs(all.String())
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// readLogs reads event logs that lie one behind the other.
func readLogs(text string) ([]entry, error) {
	const opening = `{"norn":"eventlog"`
	var out []entry
	for i, part := range strings.Split(text, opening)[1:] {
		r, err := eventlog.NewReader(strings.NewReader(opening+part), fmt.Sprint("log ", i+1))
		if err != nil {
			return nil, err
		}
		c, tenants, err := r.Header.Build()
		if err != nil {
			return nil, err
		}
		s := state.New(c, tenants)
		var ev eventlog.Event
		for {
			if err := r.Next(&ev); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if err := engine.Apply(s, &ev); err != nil {
				return nil, r.Wrap(err)
			}
			if ev.Kind == eventlog.Past {
				continue // an earlier log has told of it
			}
			e := entry{Event: ev, line: simtest.Line(&ev, s)}
			if ev.Kind != eventlog.NodeSet && ev.Kind != eventlog.Device && ev.Kind != eventlog.NodeAdd && ev.Kind != eventlog.Used && ev.Kind != eventlog.Learnt {
				e.key = s.Record(ev.Job).Job.Key
			}
			out = append(out, e)
		}
		r.Close()
	}
	return out, nil
}

// life is what the log tells of a job, and only of such kinds as are asked for.
func (h *here) life(id string, kinds ...eventlog.Kind) []entry {
	h.t.Helper()
	return slices.DeleteFunc(h.log(), func(e entry) bool {
		return e.key != id || len(kinds) > 0 && !slices.Contains(kinds, e.Kind)
	})
}

// told checks what the log tells of a job: the kinds of events, those aside that
// say only why it waits or what is believed of it.
func (h *here) told(id string, want string) {
	h.t.Helper()
	var kinds []string
	for _, e := range h.life(id) {
		switch e.Kind {
		case eventlog.Wait, eventlog.Estimate, eventlog.Memo, eventlog.Progress:
		default:
			kinds = append(kinds, e.Kind.String())
		}
	}
	if have := strings.Join(kinds, " "); have != want {
		h.t.Errorf("the log tells of job %s: %s\nwant %s", id, have, want)
	}
}

// last is the last event of a kind about a job.
func (h *here) last(id string, kind eventlog.Kind) entry {
	h.t.Helper()
	all := h.life(id, kind)
	if len(all) == 0 {
		h.t.Fatalf("the log tells of no %s of job %s", kind, id)
	}
	return all[len(all)-1]
}

// because checks a reason.
func because(t *testing.T, r job.Reason, code job.ReasonCode, words string) {
	t.Helper()
	if r.Code != code || !strings.Contains(r.Text, words) {
		t.Errorf("the reason is %+v, want %v with %q", r, code, words)
	}
}

// asJSON reads a file of JSON, changes it and writes it back.
func asJSON[T any](t *testing.T, path string, change func(*T)) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	change(&v)
	if b, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// gone waits until nothing runs any more in a folder of a run.
func (h *here) gone(id string, run int) {
	h.t.Helper()
	until(h.t, fmt.Sprintf("the runner of run %d of job %s is gone", run, id), func() bool {
		lock, err := rundir.Lock(h.runDir(id, run))
		if err == nil {
			lock.Close()
		}
		return err == nil
	})
}

// soon is a deadline that only a test that hangs reaches.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(background, time.Minute)
	t.Cleanup(cancel)
	return ctx
}
