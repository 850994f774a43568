package foreign

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// messages is where the standard error of programs goes in tests.
type messages struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (m *messages) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.Write(b)
}

func (m *messages) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.String()
}

// settings are those of a test: a machine may be busy, so budgets are long.
func settings(t testing.TB, mode string) Config {
	c := NewConfig()
	c.Command, c.Budget, c.Begin = child(t, mode), time.Minute, time.Minute
	return *c
}

// maker makes policies of a test, whose messages go to to.
func maker(c Config, to io.Writer, keep *[]*Policy) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		p, err := New(c)
		if err != nil {
			return nil, err
		}
		p.Stderr = to
		if keep != nil {
			*keep = append(*keep, p)
		}
		return p, nil
	}
}

// few are jobs on which first in, first out and shortest first differ.
func few() []simtest.Job {
	return []simtest.Job{
		{Key: "wide", At: 0, GPUs: 6, Run: 100}, {Key: "long", At: 5, GPUs: 4, Run: 300}, {Key: "short", At: 10, GPUs: 4, Run: 20},
		{Key: "small", At: 15, GPUs: 1, Run: 30}, {Key: "late", At: 200, GPUs: 8, Run: 10},
	}
}

// decisions are the lines of a log without the reasons for which jobs wait.
func decisions(r *simtest.Run) []string {
	return slices.DeleteFunc(slices.Clone(r.Log), func(line string) bool { return strings.Contains(line, " wait ") })
}

// same fails where two runs differ in what was decided.
func same(t *testing.T, got, want *simtest.Run) {
	t.Helper()
	if a, b := decisions(got), decisions(want); !slices.Equal(a, b) {
		t.Errorf("decided otherwise:\n%s\n--- as it should be:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

// fewDraws has a property tried on 12 random worlds, each with some processes, unless the
// command line or RAPID_CHECKS says how many.
func fewDraws(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() != "100" || os.Getenv("RAPID_CHECKS") != "" {
		return
	}
	t.Cleanup(func() { _ = flag.Set("rapid.checks", "100") })
	if err := flag.Set("rapid.checks", "12"); err != nil {
		t.Fatal(err)
	}
}

// TestSRTF: a program that serves the shortest remaining time first decides as srtf does, on
// random worlds, whenever it is killed.
func TestSRTF(t *testing.T) {
	longtest.Skip(t)
	fewDraws(t)
	kills, started := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		shape := simtest.Shape{Costs: rapid.Bool().Draw(rt, "costs")}
		w := simtest.Draw(rt, shape)
		for i := range w.Jobs {
			spec := w.Jobs[i].Spec
			w.Jobs[i].Spec = func(j *job.Job) {
				if spec(j); j.Stop == job.LastSave {
					j.Stop = job.Checkpoint // srtf asks to be woken when such a job has saved
				}
			}
		}
		nodes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 4).Draw(rt, "nodes")
		play := func(build func() (sched.Policy, error)) *simtest.Run {
			w.Make = build
			w.Fresh(rt, shape, nodes)
			run, err := simtest.Try(w.Config, w.Jobs...)
			if err != nil {
				rt.Fatal(err)
			}
			return run
		}
		want := play(shortest.NewSRTF().Policy)
		simtest.SameDecisions(rt, "the program", want.Log, play(maker(settings(t, "srtf"), io.Discard, nil)).Log)
		r := rand.New(rand.NewPCG(w.Seed, 7))
		killer := func() (sched.Policy, error) {
			p, err := New(settings(t, "srtf"))
			if err != nil {
				return nil, err
			}
			p.Stderr = io.Discard
			return &killed{Policy: p, now: func() bool { return r.IntN(3) == 0 }, kills: &kills}, nil
		}
		simtest.SameDecisions(rt, "a program that is killed", want.Log, play(killer).Log)
		started++
	})
	if kills < started/2 {
		t.Errorf("in %d runs %d processes were killed", started, kills)
	}
}

// killed is a program that is killed before some decisions.
type killed struct {
	*Policy
	now   func() bool
	kills *int
}

func (k *killed) Decide(v *sched.View, p *sched.Plan) {
	if k.proc != nil && k.now() {
		*k.kills++
		k.proc.kill()
	}
	k.Policy.Decide(v, p)
}

// TestProperties holds a program to what every policy owes the engine.
func TestProperties(t *testing.T) {
	longtest.Skip(t)
	fewDraws(t)
	for name, shape := range map[string]simtest.Shape{
		"tenants": {Tenants: true, Costs: true}, "parts": {Parts: true, Types: true}, "operated": {Operated: true, Failures: true, Costs: true}, "pools": {Pools: true},
		"where": {Where: true, Due: true},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*Policy
			simtest.Properties(t, shape, maker(settings(t, "srtf"), io.Discard, &all))
			for _, p := range all {
				if remarks := p.Remarks(); remarks != nil {
					t.Errorf("a program failed: %q", remarks)
				}
			}
		})
	}
}

// TestDies: a program that ends after each answer, and sometimes without one, is started
// again, told everything, and decides the same.
func TestDies(t *testing.T) {
	var all []*Policy
	var said messages
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: maker(settings(t, "dies"), &said, &all)}, few()...)
	same(t, run, simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: shortest.NewSRTF().Policy}, few()...))
	if remarks := all[0].Remarks(); len(remarks) != 1 || !strings.Contains(remarks[0], "was started again") || !strings.Contains(remarks[0], "exit status 7") {
		t.Errorf("remarks: %q", remarks)
	}
	for _, text := range []string{"-decide=dies): enough\n", "-decide=dies): it ended: exit status 7\n"} {
		if !strings.Contains(said.String(), text) {
			t.Errorf("%q is not among what was said:\n%s", text, said.String())
		}
	}
}

// TestGivesUp: first in, first out takes over from a program that fails several times in a
// row, and says so.
func TestGivesUp(t *testing.T) {
	for mode, want := range map[string]string{
		"nonsense": "line 2 of its answers: expected an object at byte 1: starting job 3",
		"unknown":  `act 1 of its plan: unknown field "gpus"`,
		"other":    "it answers decision 2, and was asked for decision 1",
		"old":      `line 1, its greeting: it must begin with {"hello":1}`,
		"hangs":    "it did not answer within 300ms",
		"mute":     "its greeting: it did not answer within 300ms",
	} {
		t.Run(mode, func(t *testing.T) {
			var all []*Policy
			var said messages
			c := settings(t, mode)
			if c.Tries = 2; mode == "hangs" {
				c.Budget = 300 * time.Millisecond
			}
			if mode == "mute" {
				c.Begin = 300 * time.Millisecond
			}
			run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: maker(c, &said, &all)}, few()...)
			same(t, run, simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: fifo.NewConfig().Policy}, few()...))
			remarks := all[0].Remarks()
			if len(remarks) != 1 || !strings.Contains(remarks[0], "failed 2 times in a row at 0s, and first in, first out (fifo) has decided from then on") || !strings.Contains(remarks[0], want) {
				t.Errorf("remarks: %q", remarks)
			}
			if n := strings.Count(said.String(), want); n != 2 || !strings.Contains(said.String(), "first in, first out (fifo) decides from here on, at 0s\n") {
				t.Errorf("said %d times:\n%s", n, said.String())
			}
		})
	}
}

// TestBadPlans: a plan that makes no sense ends the run, with an error that names the job,
// the line and the act.
func TestBadPlans(t *testing.T) {
	for mode, want := range map[string]string{
		"twice":    `it made a plan that cannot be: line 2 of its answers, act 2 of the plan, {"start":0}: job wide: cannot start it: it holds devices already`,
		"stranger": `line 2 of its answers, act 1 of the plan, {"stop":77}: there is no job 77`,
		"sleeper":  "it wants to be woken at 0s, which is not later",
	} {
		_, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(2, 4), Make: maker(settings(t, mode), io.Discard, nil)}, few()...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// TestDevices: a program names devices, moves a job to others, is woken, says why a job
// waits, and plans what does not fit as a whole.
func TestDevices(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: maker(settings(t, "last"), io.Discard, nil)},
		simtest.Job{Key: "a", At: 0, GPUs: 2, Run: 100}, simtest.Job{Key: "b", At: 10, GPUs: 3, Run: 100}, simtest.Job{Key: "c", At: 20, GPUs: 8, Run: 10})
	log := strings.Join(run.Log, "\n")
	for _, line := range []string{"0 start a on n1[3,2]", "10 start b on n0[3]+n1[1,0]", `20 wait c: there are "too few" devices`, "50 move a on n0[0-1]", "110 start c on n0[3,2,1,0]+n1[3,2,1,0]"} {
		if !strings.Contains(log, line) {
			t.Errorf("no line %q in\n%s", line, log)
		}
	}
	if run.Preemptions() != 0 {
		t.Errorf("%d jobs were stopped in vain\n%s", run.Preemptions(), log)
	}
}

// TestNotes: what a program remembers about a job outlives the program.
func TestNotes(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: maker(settings(t, "notes"), io.Discard, nil)},
		simtest.Job{Key: "a", At: 0, GPUs: 2, Run: 15}, simtest.Job{Key: "b", At: 5, GPUs: 2, Run: 20})
	if run.Start("a") != 15 || run.Start("b") != 25 { // each is noted twice before
		t.Errorf("a starts at %g s, b at %g s\n%s", run.Start("a"), run.Start("b"), strings.Join(run.Log, "\n"))
	}
}

// TestPast: a program that asks for it is told of jobs that have ended, when it starts anew.
func TestPast(t *testing.T) {
	var said messages
	build := func() (sched.Policy, error) {
		p, err := New(settings(t, "past"))
		if err != nil {
			return nil, err
		}
		p.Stderr = &said
		return &killed{Policy: p, now: func() bool { return true }, kills: new(int)}, nil
	}
	simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: build},
		simtest.Job{Key: "a", At: 0, GPUs: 2, Run: 15}, simtest.Job{Key: "b", At: 5, GPUs: 2, Run: 20}, simtest.Job{Key: "c", At: 30, GPUs: 2, Run: 20})
	for _, line := range []string{"at 0 s 0 have ended", "at 5 s 0 have ended", "at 15 s 1 have ended", "at 25 s 2 have ended", "at 30 s 2 have ended", "at 50 s 3 have ended"} {
		if !strings.Contains(said.String(), line) {
			t.Errorf("nobody said %q:\n%s", line, said.String())
		}
	}
}

// TestOddNames: whatever jobs are called, a message is one line of JSON.
func TestOddNames(t *testing.T) {
	var all []*Policy
	odd := "a\"b\\c\nd\xff\u2028{"
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: maker(settings(t, "srtf"), io.Discard, &all)},
		simtest.Job{Key: odd, GPUs: 1, Run: 10, User: odd, Tenant: odd, Model: odd, Spec: func(j *job.Job) { j.App, j.Dataset = odd, odd }})
	if run.End(odd) != 10 || all[0].Remarks() != nil {
		t.Errorf("it ends at %g s; %q", run.End(odd), all[0].Remarks())
	}
}

// TestPage: the messages of docs/external-policies.md are those of a program that answers so.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/external-policies.md")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{Name: "n0", GPUs: []cluster.GPUs{{Type: typ, Count: 8}}}); err != nil {
		t.Fatal(err)
	}
	random := regexp.MustCompile(`"random":[0-9]+`)
	lines := func(text string) map[string]bool {
		out := map[string]bool{}
		for line := range strings.Lines(text) {
			if _, message, is := strings.Cut(line, `{"decision":`); is && strings.Contains(message, `"now":`) {
				out[random.ReplaceAllString(strings.TrimSpace(message), `"random":0`)] = true
			}
		}
		return out
	}
	var said messages
	nameless := func(j *job.Job) { j.Name = "" }
	config := settings(t, "page")
	config.Tries = 1
	simtest.Go(t, simtest.Config{Cluster: c, Make: maker(config, &said, nil)}, // from the third decision on it fails, and fifo decides
		simtest.Job{Key: "17", At: 0, GPUs: 4, Run: 3600, Spec: nameless}, simtest.Job{Key: "18", At: 60, GPUs: 8, Run: 300, Spec: nameless})
	told := lines(said.String())
	for message := range lines(string(page)) {
		if !told[message] {
			t.Errorf("nobody is told\n%s\nbut\n%s", message, said.String())
		}
		delete(told, message)
	}
	if len(told) > 1 {
		t.Errorf("the page lacks %v", told)
	}
}

// TestClose: a decision that goes on when the policy is closed fails soon, and no process
// stays.
func TestClose(t *testing.T) {
	var all []*Policy
	c := settings(t, "hangs")
	build := maker(c, io.Discard, &all)
	_, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(2, 4), Make: func() (sched.Policy, error) {
		p, err := build()
		time.AfterFunc(500*time.Millisecond, func() { all[0].Close() })
		return p, err
	}}, few()...)
	if err == nil || !strings.Contains(err.Error(), "it was closed") {
		t.Errorf("%v", err)
	}
	if p, err := New(c); err != nil || p.Close() != nil {
		t.Errorf("a policy that was never asked: %v", err)
	}
}

// TestMake: what is wrong with a command is told before anything is simulated.
func TestMake(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("plain.py", []byte("pass\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"":                 "name the program: exec(./mine.py)",
		"./nowhere.py":     "there is no program ./nowhere.py",
		"plain.py":         "write ./plain.py for the file in this folder, or name its interpreter: python3 plain.py",
		"./plain.py":       "chmod +x makes a program of it",
		"python3 'half.py": "the closing ' is missing",
	} {
		c := NewConfig()
		c.Command = command
		if _, err := c.Policy(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", command, err)
		}
	}
	c := NewConfig()
	c.Command, c.Budget = child(t, "srtf"), 0
	if _, err := c.Policy(); err == nil || !strings.Contains(err.Error(), "more than 0") {
		t.Errorf("no budget: %v", err)
	}
}

// TestWords: quotes keep spaces together.
func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                            nil,
		"  ./a.py  ":                  {"./a.py"},
		"python3 a.py --x=1":          {"python3", "a.py", "--x=1"},
		`"/a b/c" 'd "e"' f"g h"`:     {"/a b/c", `d "e"`, "fg h"},
		"x ''":                        {"x", ""},
		filepath.Join("a", "b") + " ": {filepath.Join("a", "b")},
	} {
		if got, err := Words(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// planned is a policy that plans what an answer says, whenever it is asked.
type planned struct {
	Policy
	text string
}

func (f *planned) Decide(v *sched.View, p *sched.Plan) {
	for len(f.mirror.jobs) < v.Jobs() {
		f.mirror.jobs = append(f.mirror.jobs, told{})
	}
	a, err := readAnswer([]byte(f.text), 0, v.Now)
	if err != nil {
		p.Invalidate(err)
		return
	}
	f.wake = a.wake
	f.carryOut(v, p, a)
}

// FuzzAnswer: whatever a program writes, nothing panics, and what is wrong is told.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`{"decision":0,"plan":[{"start":0},{"start":1,"tasks":2,"place":"best-fit"},{"stop":0,"for":1,"why":"x"}],"wake":3.5}`,
		`{"decision":0,"plan":[{"all":[{"stop":0},{"all":[{"start":1,"devices":[0,1,1,0]}]}]}]}`,
		`{"decision":0,"plan":[{"move":0,"devices":[5,6]},{"resize":1,"tasks":4},{"wait":1,"why":"\u00e9"},{"remember":1,"note":"n"}],"wake":null}`,
		`{"decision":0,"plan":[{"start":0,"devices":[0,4]}]}`, `{}`, `[]`, `{"decision":0,"plan":[{"start":-1}]}`, `{"decision":0,"plan":[{"start":0,"start":0}]}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = readHello([]byte(text))
		if words, err := Words(text); err == nil && len(strings.Join(words, "")) > len(text) {
			t.Errorf("%q is %q", text, words)
		}
		elastic := job.GPUs(2)
		elastic.Roles[0].Min, elastic.Roles[0].Max = 1, 4
		parts := job.GPUs(2)
		parts.Roles[0].GPU = 500
		build := func() (sched.Policy, error) { return &planned{Policy{cfg: *NewConfig()}, text}, nil }
		_, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(2, 4), Make: build},
			simtest.Job{Key: "a", At: 0, GPUs: 2, Run: 10}, simtest.Job{Key: "b", At: 2, Demand: &elastic, Run: 10}, simtest.Job{Key: "c", At: 3, Demand: &parts, Run: 10})
		if panicked := (*engine.PanicError)(nil); errors.As(err, &panicked) {
			t.Errorf("%v\n%s", err, panicked.Stack)
		}
	})
}
