package sdk_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// srtf is the command of the example, examples/policy/srtf.py.
func srtf(t testing.TB) string {
	t.Helper()
	folder, err := filepath.Abs("python")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", folder)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	return `"` + python(t) + `" ../examples/policy/srtf.py`
}

// TestPolicyThirtyLines: the example is as short as the pages say.
func TestPolicyThirtyLines(t *testing.T) {
	text := run(t, "-c", "print(open('../../examples/policy/srtf.py').read())")
	page, err := os.ReadFile("../docs/external-policies.md")
	if _, code, ok := strings.Cut(text, `exec(examples/policy/srtf.py)'."""`); err != nil || !ok || !bytes.Contains(page, []byte("```python"+strings.TrimRight(code, "\n")+"\n```")) {
		t.Errorf("docs/external-policies.md has another program: %v", err)
	}
	n := 0
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, `"""`) {
			n++
		}
	}
	if n > 30 {
		t.Errorf("%d lines", n)
	}
}

// TestPolicySample: on the built-in trace the example decides as srtf does, event by event.
// Only the reasons for which jobs wait are in other words.
func TestPolicySample(t *testing.T) {
	longtest.Skip(t)
	spec, err := clusterspec.Parse(gen.SampleCluster)
	if err != nil {
		t.Fatal(err)
	}
	choices, err := experiment.ParseChoices("srtf,exec("+srtf(t)+",budget=1m,begin=1m)", foreign.Entry())
	if err != nil {
		t.Fatal(err)
	}
	src, err := experiment.OpenSample(trace.Options{Limit: 600})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	var said bytes.Buffer
	logs := map[string]*log{}
	var guard sync.Mutex
	x := experiment.Experiment{Spec: spec, Seed: 1, Messages: &said, Log: func(run string) (experiment.Log, error) {
		guard.Lock()
		defer guard.Unlock()
		logs[run] = new(log)
		return experiment.Log{WriteCloser: logs[run], Compression: eventlog.Plain}, nil
	}}
	outcomes, err := x.All(context.Background(), choices, src, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	want, got := logs[outcomes[0].Name].decisions(), logs[outcomes[1].Name].decisions()
	if len(want) < 2000 || !slices.Equal(got, want) {
		t.Errorf("%d events, not those %d of srtf", len(got), len(want))
	}
	if r := outcomes[0].Result; r.Preemptions == 0 || outcomes[1].Result.JCT != r.JCT {
		t.Errorf("JCT %+v, and %+v under srtf, which preempted %d times", outcomes[1].Result.JCT, r.JCT, r.Preemptions)
	}
	if said.Len() > 0 {
		t.Errorf("said: %s", said.String())
	}
}

// log is an event log in memory.
type log struct{ bytes.Buffer }

func (*log) Close() error { return nil }

// decisions are the events of a log without their checksums and the reasons of waits.
func (l *log) decisions() (out []string) {
	for line := range strings.Lines(l.String()) {
		if line, _, _ = strings.Cut(line, `,"crc":`); !strings.Contains(line, `"e":"wait"`) && !strings.HasPrefix(line, `{"norn"`) {
			out = append(out, line)
		}
	}
	return out
}

// TestPolicyKilled: the example keeps what every policy owes the engine, and decides the
// same when it is killed and started anew at random moments.
func TestPolicyKilled(t *testing.T) {
	longtest.Skip(t)
	command := srtf(t)
	var said bytes.Buffer
	build := func() (sched.Policy, error) {
		c := foreign.NewConfig()
		c.Command, c.Budget, c.Begin = command, time.Minute, time.Minute
		p, err := foreign.New(*c)
		if err == nil {
			p.Stderr = &said
		}
		return p, err
	}
	defer func() {
		if said.Len() > 0 { // nothing of the example fails, as fifo would decide in its place then
			t.Errorf("said: %s", said.String())
		}
	}()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == "100" && os.Getenv("RAPID_CHECKS") == "" {
		t.Cleanup(func() { _ = flag.Set("rapid.checks", "100") })
		if err := flag.Set("rapid.checks", "4"); err != nil { // each has some ten processes
			t.Fatal(err)
		}
	}
	simtest.Properties(t, simtest.Shape{Costs: true, Failures: true, Parts: true, Operated: true}, build)
	plain := []simtest.Job{
		{Key: "wide", GPUs: 6, Run: 100}, {Key: "long", At: 5, GPUs: 4, Run: 300}, {Key: "short", At: 10, GPUs: 4, Run: 20}, {Key: "late", At: 200, GPUs: 8, Run: 10},
	}
	for _, restart := range []bool{false, true} {
		got := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: build, Restart: restart}, plain...)
		want := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: shortest.NewSRTF().Policy}, plain...)
		for _, j := range plain {
			if got.End(j.Key) != want.End(j.Key) {
				t.Errorf("restarts %v: %s ends at %g s, under srtf at %g s", restart, j.Key, got.End(j.Key), want.End(j.Key))
			}
		}
	}
}
