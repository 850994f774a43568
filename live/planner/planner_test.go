package planner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
)

// TestMain lets this program stand in for norn.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == Verb {
		os.Exit(Main(os.Args[2]))
	}
	os.Exit(m.Run())
}

// newPlanner is a Planner of this program.
func newPlanner(t *testing.T, lim Limits) *Planner {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return New(exe, lim, slog.New(slog.DiscardHandler))
}

// past writes the log of a machine of two GPUs, of which four jobs have ended after they
// ran.
func past(t *testing.T) func(io.Writer) error {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "experiment", "testdata", "events.log"))
	if err != nil {
		t.Fatal(err)
	}
	return func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
}

// stuck writes a log without end, and tells when that has begun.
func stuck(log func(io.Writer) error, began chan<- struct{}) func(io.Writer) error {
	return func(w io.Writer) error {
		if err := log(w); err != nil {
			return err
		}
		close(began)
		for { // a line that goes on, until the process has gone
			if _, err := w.Write([]byte(" ")); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func refused(t *testing.T, err error, kind api.ErrorKind, word string) {
	t.Helper()
	var no *api.Error
	if !errors.As(err, &no) || no.Kind != kind || !strings.Contains(no.Text, word) {
		t.Errorf("have %v, want a refusal of kind %d with %q", err, kind, word)
	}
}

var question = api.WhatIf{Policies: []string{"srtf", "tiresias(limits=60)"}}

// What happened stands beside the check and what was tried, and the figures are those of
// the log.
func TestAnswer(t *testing.T) {
	p, err := newPlanner(t, Limits{}).Answer(context.Background(), "ann", question, past(t))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, r := range p.Runs {
		rows = append(rows, r.Kind+" "+r.Name)
	}
	if have, want := strings.Join(rows, "|"), "real as it was|check fifo(mode=skip), simulated|plan srtf|plan tiresias(limits=60)"; have != want {
		t.Errorf("rows %s, want %s", have, want)
	}
	if p.Compared != 4 || p.Verdict == "" || len(p.Assumptions) == 0 || p.From.IsZero() || strings.Join(p.InForce, " ") != "fifo fifo(mode=skip)" {
		t.Errorf("%+v", p)
	}
	for _, r := range p.Runs {
		if r.Ended != 4 || r.JCT <= 0 || r.Utilisation <= 0 || r.Utilisation > 1 {
			t.Errorf("%+v", r)
		}
	}
	jobs := 0
	for _, u := range p.Users {
		jobs += u.Jobs
		if len(u.JCT) != len(p.Runs) {
			t.Errorf("%+v", u)
		}
	}
	if jobs != p.Compared {
		t.Errorf("users have %d jobs", jobs)
	}
	q := question
	q.Until = p.From.Add(30 * time.Minute)
	_, err = newPlanner(t, Limits{}).Answer(context.Background(), "ann", q, past(t))
	refused(t, err, api.Conflict, "none has ended")
}

// Machines of other sizes are tried under the policy that was in force, and under others where
// they are named.
func TestSizes(t *testing.T) {
	p := newPlanner(t, Limits{})
	for policies, want := range map[string]int{"": 1, "srtf": 2} {
		q := api.WhatIf{Policies: strings.Fields(policies), Grow: "1gpu,2gpus"}
		out, err := p.Answer(context.Background(), "ann", q, past(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Runs) != 1+want || len(out.Growths) != want {
			t.Fatalf("%d runs, %+v", len(out.Runs), out.Growths)
		}
		for _, g := range out.Growths {
			if len(g.Points) != 3 || g.Sentence == "" || g.Points[0].Growth != "" || g.Points[2].Growth != "+2 GPUs" || g.Points[2].GPUs != 4 || g.Points[0].Jobs != 4 {
				t.Errorf("%+v", g)
			}
			if g.Points[2].Wait > g.Points[0].Wait {
				t.Errorf("with two GPUs more jobs wait %v, without %v", g.Points[2].Wait, g.Points[0].Wait)
			}
		}
	}
	_, err := p.Answer(context.Background(), "ann", api.WhatIf{Grow: "-2gpus"}, past(t))
	refused(t, err, api.Invalid, "one at least")
}

// A question that makes no sense starts no process.
func TestSenseless(t *testing.T) {
	p := New("/nowhere/norn", Limits{}, slog.New(slog.DiscardHandler))
	now := time.Now()
	for _, c := range []struct {
		q    api.WhatIf
		word string
	}{
		{api.WhatIf{Policies: []string{"srft"}}, "srft"},
		{api.WhatIf{Policies: []string{"srtf", "srtf"}}, "twice"},
		{api.WhatIf{Policies: []string{"tiresias(limits=x)"}}, "limits"},
		{api.WhatIf{Policies: []string{"fifo("}}, "parenthesis"},
		{api.WhatIf{Policies: []string{"fifo"}, Since: now, Until: now}, "not after"},
		{api.WhatIf{}, "name a policy"},
		{api.WhatIf{Policies: []string{"fifo"}, Grow: "1,2,3,4,5"}, "4 sizes at most"},
	} {
		_, err := p.Answer(context.Background(), "ann", c.q, nil)
		refused(t, err, api.Invalid, c.word)
	}
}

// A user has one at a time, all users have a few, and who leaves makes room.
func TestOneAtATime(t *testing.T) {
	p, log := newPlanner(t, Limits{AtOnce: 2}), past(t)
	ended := make(chan error, 2)
	var leave []context.CancelFunc
	for _, user := range []string{"ann", "bob"} {
		ctx, cancel := context.WithCancel(context.Background())
		leave = append(leave, cancel)
		began := make(chan struct{})
		go func() {
			_, err := p.Answer(ctx, user, question, stuck(log, began))
			ended <- err
		}()
		<-began
	}
	_, err := p.Answer(context.Background(), "ann", question, log)
	refused(t, err, api.Conflict, "one at a time")
	_, err = p.Answer(context.Background(), "eve", question, log)
	refused(t, err, api.Unavailable, "2 what-ifs")
	leave[0]()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("who left is told %v", err)
	}
	if _, err := p.Answer(context.Background(), "ann", question, log); err != nil {
		t.Errorf("after she left: %v", err)
	}
	leave[1]()
	<-ended
}

// Time, memory and the length of the past have limits, which are told.
func TestLimits(t *testing.T) {
	log := past(t)
	_, err := newPlanner(t, Limits{Time: 300 * time.Millisecond}).Answer(context.Background(), "ann", question, stuck(log, make(chan struct{})))
	refused(t, err, api.Unavailable, "ended after 300ms")
	_, err = newPlanner(t, Limits{Jobs: 3}).Answer(context.Background(), "ann", question, log)
	refused(t, err, api.Conflict, "a what-if plays 3 at most")
	_, err = newPlanner(t, Limits{Memory: 1 << 20}).Answer(context.Background(), "ann", question, stuck(log, make(chan struct{})))
	refused(t, err, api.Unavailable, "more than 1MiB of memory")
}

// What the cgroup may still take is found in the files of version 2.
func TestFreeMemory(t *testing.T) {
	dir := t.TempDir()
	self, group := filepath.Join(dir, "self"), filepath.Join(dir, "fs", "norn.slice")
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want int64) {
		t.Helper()
		if have := freeMemory(self, filepath.Join(dir, "fs")); have != want {
			t.Errorf("have %d, want %d", have, want)
		}
	}
	check(-1)
	put(self, "4:memory:/old\n0::/norn.slice\n")
	check(-1)
	put(filepath.Join(group, "memory.current"), "300\n")
	put(filepath.Join(group, "memory.max"), "max\n")
	check(-1)
	put(filepath.Join(group, "memory.max"), "1000\n")
	check(700)
	put(filepath.Join(group, "memory.max"), "200\n")
	check(0)
	put(self, "4:memory:/norn.slice\n")
	check(-1)
}

// A log that cannot be read to its end is not answered by a part of it, and a process that
// fails fails nobody else.
func TestMishaps(t *testing.T) {
	log := past(t)
	lost := errors.New("the disk is gone")
	_, err := newPlanner(t, Limits{}).Answer(context.Background(), "ann", question, func(w io.Writer) error {
		if err := log(w); err != nil {
			return err
		}
		return lost
	})
	if !errors.Is(err, lost) {
		t.Errorf("have %v", err)
	}
	_, err = newPlanner(t, Limits{}).Answer(context.Background(), "ann", question, func(w io.Writer) error {
		_, err := io.WriteString(w, "no log\n")
		return err
	})
	refused(t, err, api.Unavailable, "the event log")
	for _, program := range []string{"true", "false"} {
		p := New(program, Limits{}, slog.New(slog.DiscardHandler))
		_, err := p.Answer(context.Background(), "ann", question, log)
		refused(t, err, api.Unavailable, "without an answer")
	}
}

// The process ends when the daemon has died, although its input has no end.
func TestOrphan(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, Verb, `{"Question":{"policies":["fifo"]},"Limits":{"Memory":1073741824}}`)
	c.ExtraFiles = []*os.File{theirs}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	ours.Close() // as the kernel does for a daemon that was killed
	if err := c.Wait(); c.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
}

// The process gives way to all others, and is gone when who asked has left.
func TestProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks at /proc")
	}
	p, began := newPlanner(t, Limits{}), make(chan struct{})
	ctx, leave := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Answer(ctx, "ann", question, stuck(past(t), began))
		ended <- err
	}()
	<-began
	dir := childDir(t)
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name)) // it may be gone
		return string(text)
	}
	deadline := time.Now().Add(10 * time.Second)
	for read("oom_score_adj") != "1000\n" {
		if time.Now().After(deadline) {
			t.Fatalf("it is not offered first when memory is short: %q", read("oom_score_adj"))
		}
		time.Sleep(time.Millisecond)
	}
	threads, err := filepath.Glob(filepath.Join(dir, "task", "*", "stat"))
	if err != nil || len(threads) == 0 {
		t.Fatal(threads, err)
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if nice := strings.Fields(rest)[16]; nice != "19" {
			t.Errorf("a thread has nice %s", nice)
		}
	}
	leave()
	<-ended
	if _, err := os.Stat(dir); err == nil {
		t.Error("it goes on after who asked has left")
	}
}

// childDir is the folder in /proc of the process that was started.
func childDir(t *testing.T) string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		text, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(text), ") ")
		words, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if f := strings.Fields(rest); len(f) > 1 && f[1] == fmt.Sprint(os.Getpid()) && strings.Contains(string(words), Verb) {
			return filepath.Dir(path)
		}
	}
	t.Fatal("no process was started")
	return ""
}
