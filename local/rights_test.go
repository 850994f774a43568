package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local"
)

// others are two users as the socket tells of them, neither of them root.
func others() (ann, bob server.Caller) {
	return server.Caller{User: "65533", UID: 65533, Local: true}, server.Caller{User: "65534", UID: 65534, Local: true}
}

// letIn lets other users work where the jobs run.
func (h *here) letIn() {
	h.t.Helper()
	for dir := filepath.Dir(h.work); dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := os.Chmod(h.work, 0o777); err != nil {
		h.t.Fatal(err)
	}
}

// As root, a job runs as the user who submitted it, with her rights and no more.
func TestRunsAsItsUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run jobs as others")
	}
	h := newHere(t, "fifo", 1, nil)
	_, bob := others()
	secret := filepath.Join(h.work, "secret")
	if err := os.WriteFile(secret, []byte("of root"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.letIn()
	spec := h.sh(1, `id -u; id -g; cat secret || echo refused; ls $0 || echo hidden; cat /proc/$PPID/environ || echo "not her runner"`)
	spec.Command = append(spec.Command, h.setup.State)
	ids, err := h.Submit(background, bob, spec)
	if err != nil {
		t.Fatal(err)
	}
	a := ids[0]
	if j := h.until(a, api.Done); j.User != bob.User {
		t.Errorf("it is a job of %s", j.User)
	}
	out, err := h.Output(background, bob, a, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	text := readAll(t, out)
	for _, want := range []string{"65534\n65534\n", "refused\n", "hidden\n", "not her runner\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it wrote %q, want %q", text, want)
		}
	}
	if strings.Contains(text, "of root") {
		t.Errorf("it could read what is root's: %q", text)
	}
	for _, path := range []string{h.setup.State, filepath.Join(h.setup.State, "runs"), h.runDir(a, 1), filepath.Join(h.setup.State, "jobs", a)} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v, %v", path, info.Mode(), err)
		}
	}
	spec.User = "root"
	_, err = h.Submit(background, bob, spec)
	refused(t, err, api.Denied, "user 65534 may not submit jobs for root")
}

// A norn that is not root's runs jobs as its own user alone.
func TestRunsAsItself(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root can run jobs as others")
	}
	h := newHere(t, "fifo", 1, nil)
	ann, _ := others()
	_, err := h.Submit(background, ann, h.sh(1, "true"))
	refused(t, err, api.Denied, "cannot run jobs as 65533; a norn that serves several users runs as root")
}

// Jobs of others do not exist for a user. She can neither see nor change them,
// nor learn of them by the way.
func TestOthersJobs(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	ann, bob := others()
	if os.Getuid() != 0 { // jobs of others are then those of the daemon's own user
		ann = h.me
		ann.Operator = false
	}
	spec := h.sh(1, "touch up; "+awaits("enough"))
	h.letIn()
	ids, err := h.Submit(background, ann, spec)
	if err != nil {
		t.Fatal(err)
	}
	a := ids[0]
	h.made("up")
	h.running(a, 1)
	ended, err := h.Submit(background, ann, h.sh(1, "true"))
	if err != nil {
		t.Fatal(err)
	}
	h.until(ended[0], api.Done)
	events, err := h.Watch(soon(t), bob, 0)
	if err != nil {
		t.Fatal(err)
	}
	for len(events) > 0 {
		if e := <-events; e.Job != "" {
			t.Errorf("she is told of %+v", e)
		}
	}
	for _, id := range []string{a, ended[0]} {
		none := "there is no job " + id
		for _, v := range []server.Verb{server.Cancel, server.Hold, server.Release, server.Requeue} {
			refused(t, h.Do(background, bob, v, id), api.Unknown, none)
		}
		refused(t, h.Resize(background, bob, id, api.Resize{GPUs: 1}), api.Unknown, none)
		_, err := h.Why(background, bob, id)
		refused(t, err, api.Unknown, none)
		_, err = h.Output(background, bob, id, 0)
		refused(t, err, api.Unknown, none)
		after := h.sh(1, "true")
		after.After = []api.After{{Job: id}}
		if os.Getuid() == 0 { // else she cannot submit at all
			_, err = h.Submit(background, bob, after)
			refused(t, err, api.Invalid, `it cannot come after job "`+id+`": there is no such job`)
		}
	}
	if all, err := h.Jobs(background, bob, api.Query{All: true}); err != nil || len(all) != 0 {
		t.Errorf("she sees %+v, %v", all, err)
	}
	refused(t, h.Log(background, bob, nil), api.Denied, "only an operator may read it")
	if all, err := h.Jobs(background, ann, api.Query{All: true}); err != nil || len(all) != 2 {
		t.Errorf("her own jobs are %+v, %v", all, err)
	}
	h.make("enough")
	h.until(a, api.Done)
}

// Text that is not the number of a job is refused, whatever it would be as a
// path.
func TestNoJob(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	h.until(h.submit(h.sh(1, "true")), api.Done)
	for _, id := range []string{"../1", "1/../2", "1_", "_1", "", "1_-1", "99999999999999999999", "1\x00"} {
		_, err := h.Output(background, h.me, id, 0)
		refused(t, err, api.Unknown, fmt.Sprintf("there is no job %q", id))
	}
}

// A submission that makes no sense is refused, and says why.
func TestRefusedSubmissions(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 2, func(o *local.Options) {
		for i := range o.Machine.Devices {
			o.Machine.Devices[i].Memory = 8 << 30
		}
		o.Machine.Types[0].Memory = 8 << 30
	})
	for want, change := range map[string]func(*api.JobSpec){
		"the job has no command":                                func(s *api.JobSpec) { s.Command = nil },
		"the command contains a zero byte":                      func(s *api.JobSpec) { s.Command = []string{"a\x00"} },
		`the working directory "here" must be an absolute path`: func(s *api.JobSpec) { s.Dir = "here" },
		`a variable "A=B" that cannot be`:                       func(s *api.JobSpec) { s.Env = map[string]string{"A=B": ""} },
		"the job needs 3 GPUs; this machine has 2":              func(s *api.JobSpec) { s.GPUs = api.Fixed(3) },
		"the job needs 65 CPUs; this machine has 64":            func(s *api.JobSpec) { s.CPUs = 65 },
		"of memory on each GPU; the largest here has 8":         func(s *api.JobSpec) { s.GPUMem = 9 << 30 },
		`no way to stop "later"`:                                func(s *api.JobSpec) { s.Stop.Mode = "later" },
		`no signal "HOME"`:                                      func(s *api.JobSpec) { s.Stop.Signal = "HOME" },
		"2 GPUs cannot be dealt out evenly to 3 tasks":          func(s *api.JobSpec) { s.GPUs, s.Tasks = api.Fixed(2), api.Tasks{N: 3} },
		"job turns of 1-4:2 GPUs resizes time-sliced: it has 2 workers": func(s *api.JobSpec) {
			s.Name, s.GPUs, s.Resize = "turns", api.Range{Least: 1, Most: 4, Ask: 2}, "time-sliced"
		},
		"can have one task, or one per GPU":                      func(s *api.JobSpec) { s.GPUs, s.Tasks = api.Range{Least: 1, Most: 2, Ask: 2}, api.Tasks{N: 2} },
		"a job can be retried 0 times or more, or -1 for always": func(s *api.JobSpec) { s.Retry.Limit = -2 },
		"a size or a time is negative":                           func(s *api.JobSpec) { s.Limit = -1 },
		"contains control characters":                            func(s *api.JobSpec) { s.Name = "a\nb" },
		"CRIU saves jobs without GPUs and of one task only":      func(s *api.JobSpec) { s.Stop.CRIU = true },
		"command and environment have 1048580 bytes together":    func(s *api.JobSpec) { s.Command = []string{"true", strings.Repeat("x", 1<<20)}; s.Env = nil },
		"no GPU here is of a type that the job accepts (A100)":   func(s *api.JobSpec) { s.Types = []string{"A100"} },
		"user no-such-user is not known on this machine":         func(s *api.JobSpec) { s.User = "no-such-user" },
	} {
		spec := h.sh(1, "true")
		change(&spec)
		_, err := h.Submit(background, h.me, spec)
		refused(t, err, api.Invalid, want)
	}
	if all, err := h.Jobs(background, h.me, api.Query{All: true}); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
