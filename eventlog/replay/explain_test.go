package replay_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace"
)

var update = flag.Bool("update", false, "write the expected texts of this package anew")

// golden holds a text against the file of its name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s\n(go test ./eventlog/replay -update writes it anew)", name, got, want)
	}
}

func open(t *testing.T, log []byte) *eventlog.Reader {
	t.Helper()
	r, err := eventlog.NewReader(bytes.NewReader(log), "test.log")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func explain(t *testing.T, log []byte, name string) (*replay.Life, string) {
	t.Helper()
	life, err := replay.Explain(open(t, log), name)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := life.Write(&out); err != nil {
		t.Fatal(err)
	}
	return life, out.String()
}

// history runs a few jobs on two nodes of four GPUs and returns the log.
func history(t *testing.T, name string, settings map[string]string, costs perf.Cost, jobs ...simtest.Job) []byte {
	t.Helper()
	e, err := policy.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := e.New()
	for k, v := range settings {
		if err := cfg.Params().Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	p, err := cfg.Policy()
	if err != nil {
		t.Fatal(err)
	}
	w := simtest.World{Config: simtest.Config{Cluster: simtest.Nodes(2, 4), Tenants: tenant.NewTree(0), Costs: perf.Costs{Base: costs}}}
	log := newLogged(t, w.Cluster, w.Tenants, eventlog.Plain)
	play(t, &w, p, simtest.Source(jobs), log)
	return log.bytes(t)
}

// crowd is jobs that get into each other's way.
func crowd() []simtest.Job {
	return []simtest.Job{
		{Key: "wide", At: 0, GPUs: 6, Run: 400, Tenant: "a"},
		{Key: "late", At: 10, GPUs: 8, Run: 100, Tenant: "b"},
		{Key: "small", At: 20, GPUs: 2, Run: 50, Tenant: "b", Fails: []float64{30}},
		{Key: "huge", At: 30, GPUs: 9, Run: 10, Tenant: "a"},
		{Key: "after", At: 40, GPUs: 1, Run: 500, Tenant: "a"},
	}
}

// TestExplain tells lives of jobs: one that waits behind another, one that can
// never run, one that is preempted for another and comes back, one that fails.
func TestExplain(t *testing.T) {
	costs := perf.Cost{Start: 5 * time.Second, Checkpoint: 3 * time.Second, Restore: 8 * time.Second}
	var out strings.Builder
	for _, run := range []struct {
		policy   string
		settings map[string]string
		jobs     []string
	}{
		{"fifo", nil, []string{"late", "huge", "#2"}},
		{"fifo", map[string]string{"mode": "easy"}, []string{"late", "after"}},
		{"srtf", nil, []string{"wide", "late"}},
		{"tiresias", map[string]string{"limits": "300"}, []string{"wide", "small"}},
	} {
		log := history(t, run.policy, run.settings, costs, crowd()...)
		for _, name := range run.jobs {
			_, text := explain(t, log, name)
			out.WriteString("== " + run.policy + " " + name + "\n" + text + "\n")
		}
	}
	golden(t, "lives.txt", out.String())
}

// TestExplainDeadline tells by when jobs are to end, and whether they do.
func TestExplainDeadline(t *testing.T) {
	log := history(t, "fifo", nil, perf.Cost{},
		simtest.Job{Key: "punctual", GPUs: 8, Run: 60, Spec: func(j *job.Job) { j.Deadline = 100 * time.Second }},
		simtest.Job{Key: "late", GPUs: 8, Run: 60, Spec: func(j *job.Job) { j.Deadline, j.Soft = 100*time.Second, true }})
	for key, want := range map[string][2]string{
		"punctual": {"submitted, to end within 1m40s\n", "ends: done, 40s before its deadline"},
		"late":     {"submitted, to end within 1m40s (soft)\n", "ends: done, 20s after its deadline"},
	} {
		if _, text := explain(t, log, key); !strings.Contains(text, want[0]) || !strings.Contains(text, want[1]) {
			t.Errorf("%s: %s", key, text)
		}
	}
}

// TestExplainEvery tells of every kind of event that a job can meet.
func TestExplainEvery(t *testing.T) {
	log, err := os.ReadFile(filepath.Join("testdata", "every.log"))
	if err != nil {
		t.Fatal(err)
	}
	_, hero := explain(t, log, "hero")
	_, first := explain(t, log, "first")
	golden(t, "every.txt", hero+"\n"+first)
}

// reasons finds in a log, without the help of this package, when a job waited
// and was stopped.
func reasons(t *testing.T, log []byte, id job.ID) (waits, stops int) {
	t.Helper()
	r := open(t, log)
	var ev eventlog.Event
	for r.Next(&ev) == nil {
		if ev.Job != id {
			continue
		}
		switch ev.Kind {
		case eventlog.Wait:
			waits++
		case eventlog.Preempt, eventlog.Evict, eventlog.Fail:
			stops++
		}
	}
	return waits, stops
}

// TestExplainTellsAll checks that every wait and every stop of every job is told
// with a reason.
func TestExplainTellsAll(t *testing.T) {
	waits, stops := 0, 0
	for _, e := range policy.Table() {
		log := history(t, e.Name, nil, perf.Cost{Checkpoint: time.Second}, crowd()...)
		for i, j := range crowd() {
			life, text := explain(t, log, j.Key)
			w, s := reasons(t, log, job.ID(i))
			waits, stops = waits+w, stops+s
			told := 0
			for _, step := range life.Steps {
				for _, begin := range []string{"waits: ", "is stopped: ", "is thrown back: "} {
					if strings.HasPrefix(step.What, begin) && len(step.What) > len(begin)+5 && !strings.Contains(step.What, "no reason is known") {
						told++
					}
				}
			}
			if told != w+s {
				t.Errorf("%s: job %s waits %d times and is stopped %d times, %d are told:\n%s", e.Name, j.Key, w, s, told, text)
			}
			if life.Record.Starts == 0 && life.Record.Phase == job.Waiting && w == 0 {
				t.Errorf("%s: job %s never runs and is not told why:\n%s", e.Name, j.Key, text)
			}
		}
	}
	if (waits < 20 || stops < 10) && !testing.Short() {
		t.Errorf("only %d waits and %d stops in all", waits, stops)
	}
}

// TestExplainMemory: where the memory of a job comes from is told where the job is
// submitted.
func TestExplainMemory(t *testing.T) {
	shape, err := job.ParseShape("layers deep 1024x1024; optimizer adam")
	if err != nil {
		t.Fatal(err)
	}
	log := history(t, "fifo", nil, perf.Cost{}, simtest.Job{Key: "a", GPUs: 1, Run: 10, Spec: func(j *job.Job) { j.Batch, j.Hints = 64, &job.Hints{Shape: shape} }}, simtest.Job{Key: "b", GPUs: 1, Run: 10})
	_, text := explain(t, log, "a")
	if want := "submitted\n            takes 899 MiB of the memory of each GPU, estimated from the shapes of its layers with 64 samples a batch: 6 MiB of parameters, 12 MiB of optimizer state, "; !strings.Contains(text, want) {
		t.Errorf("want %q in\n%s", want, text)
	}
	if _, text := explain(t, log, "b"); strings.Contains(text, "memory") {
		t.Errorf("of a job that tells nothing:\n%s", text)
	}
}

// TestExplainRoutine tells of what a job reports again and again while it runs the last, and how
// often; of another batch by itself.
func TestExplainRoutine(t *testing.T) {
	var course []trace.Turn
	for i, batch := range []int32{32, 32, 32, 64, 64} {
		course = append(course, trace.Turn{From: time.Duration(i) * time.Second, Reported: job.Reported{Batch: batch, Noise: float64(100 + i)}})
	}
	_, text := explain(t, history(t, "fifo", nil, perf.Cost{}, simtest.Job{Key: "a", GPUs: 1, Run: 10, Course: course}), "a")
	if want := "trains with a batch of 32, a gradient noise of 102 (3 times)"; !strings.Contains(text, want) || strings.Count(text, "trains with") != 2 {
		t.Errorf("want %q in\n%s", want, text)
	}
	if want := "trains with a batch of 64, a gradient noise of 104 (2 times)"; !strings.Contains(text, want) {
		t.Errorf("want %q in\n%s", want, text)
	}
}

// TestExplainUnknown says what is said about a job that is not there.
func TestExplainUnknown(t *testing.T) {
	jobs := crowd()
	jobs[3].Spec = func(j *job.Job) { j.Name = "nightly" }
	log := history(t, "fifo", nil, perf.Cost{}, jobs...)
	for name, want := range map[string]string{
		"smal":    "test.log has no job smal among its 5; did you mean small?",
		"#5":      "test.log has no job #5 among its 5",
		"#":       "test.log has no job # among its 5",
		"#x":      "test.log has no job #x among its 5",
		"nightly": "test.log has no job nightly; one of that name is job huge",
	} {
		if _, err := replay.Explain(open(t, log), name); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestExplainTorn tells of a log that breaks off as far as it goes.
func TestExplainTorn(t *testing.T) {
	log := history(t, "fifo", nil, perf.Cost{}, crowd()...)
	at := bytes.Index(log, []byte(`"e":"end"`)) // of the first job to end
	life, text := explain(t, log[:at], "late")
	if !life.Torn || !strings.Contains(text, "the log breaks off") || !strings.Contains(text, "is waiting at the end of the log") || !life.JSON().Torn {
		t.Errorf("%s", text)
	}
	if life, text := explain(t, log, "late"); life.Torn || strings.Contains(text, "breaks off") {
		t.Errorf("%s", text)
	}
	list, err := replay.Jobs(open(t, log[:at]))
	if err != nil || !list.Torn || len(list.Jobs) != 5 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestJSON checks the form for other programs.
func TestJSON(t *testing.T) {
	life, _ := explain(t, history(t, "fifo", nil, perf.Cost{}, crowd()...), "late")
	text, err := json.Marshal(life.JSON())
	if err != nil {
		t.Fatal(err)
	}
	var got replay.LifeJSON
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Job != "late" || got.Tenant != "b" || got.GPUs != 8 || got.SubmitS != 10 || got.WaitS != 390 || got.RunS != 100 || got.Starts != 1 || got.State != "done" || len(got.Steps) != len(life.Steps) {
		t.Errorf("%s", text)
	}
}

// TestList lists the jobs of a log, those that waited longest first.
func TestList(t *testing.T) {
	list, err := replay.Jobs(open(t, history(t, "fifo", nil, perf.Cost{}, crowd()...)))
	if err != nil {
		t.Fatal(err)
	}
	var all, some strings.Builder
	if err := list.Write(&all, 0); err != nil {
		t.Fatal(err)
	}
	if err := list.Write(&some, 2); err != nil {
		t.Fatal(err)
	}
	golden(t, "list.txt", all.String())
	if n := strings.Count(some.String(), "\n"); n != 3 {
		t.Errorf("%d lines for two jobs:\n%s", n, some.String())
	}
}

// guests starts two jobs on one GPU, the second at 10 s, and throttles it at 20 s for
// ten seconds.
type guests struct{}

func (guests) Decide(v *sched.View, p *sched.Plan) {
	half := &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: 1}}, Shares: []cluster.Share{{Milli: 500, Memory: 3 * unit.GiB}}}
	for j := range v.Waiting() {
		p.StartOn(j.ID, half)
	}
	throttle := map[time.Duration]int32{20 * time.Second: 500, 30 * time.Second: 0}
	if to, ok := throttle[v.Now]; ok {
		p.Adjust(1, func(a *cluster.Alloc) { a.Shares[0].Throttle = to })
	}
}

func (guests) NextWake(v *sched.View) time.Duration {
	return (v.Now/(10*time.Second) + 1) * 10 * time.Second
}

// TestExplainCompany: the life of a job tells with which job it shared its GPU,
// for how long, and how fast both were compared with alone. It tells what that
// cost. It also tells why they share, as far as that was known: their declared
// use, and what was learnt of like jobs.
func TestExplainCompany(t *testing.T) {
	cl := cluster.New()
	typ, _ := cl.AddType(cluster.GPUType{Name: "A", Memory: 16 * unit.GiB})
	if _, err := cl.AddNode(cluster.NodeSpec{Name: "n0", GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
		t.Fatal(err)
	}
	w := simtest.World{Config: simtest.Config{Cluster: cl, Tenants: tenant.NewTree(0), Sharing: &perf.Learner{}, World: func(c *sim.Config) {
		c.Sharing = perf.Pairs{Speed: map[perf.Pair]float64{{Job: "a", Beside: "b"}: 0.8, {Job: "b", Beside: "a"}: 0.5}}
	}}}
	named := func(model string, h job.Hints) func(*job.Job) {
		return func(j *job.Job) { j.Model, j.Hints = model, &h }
	}
	stages := func(load, gpu time.Duration) job.Hints { return job.Hints{Stages: [3]time.Duration{load, gpu}} }
	log := newLogged(t, w.Cluster, w.Tenants, eventlog.Plain)
	play(t, &w, guests{}, simtest.Source([]simtest.Job{
		{Key: "a", GPUs: 1, Run: 60, Spec: named("a", job.Hints{GPUUse: 0.4})}, {Key: "b", At: 10, GPUs: 1, Run: 20, Spec: named("b", job.Hints{GPUUse: 0.7})},
		{Key: "c", At: 100, GPUs: 1, Run: 60, Spec: named("a", stages(time.Second, 0))}, {Key: "d", At: 110, GPUs: 1, Run: 20, Spec: named("b", stages(time.Millisecond, 90*time.Millisecond))},
	}), log)
	// b has done 5 at 20, 7.5 at 30 and ends at 55; a lost 2, 1 and 5 seconds beside it.
	var out strings.Builder
	for _, name := range []string{"a", "b", "d"} {
		life, text := explain(t, log.bytes(t), name)
		out.WriteString(text + "\n")
		if c := life.JSON().Company; len(c) != 1 || name != "d" && c[0].ForS != 45 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	golden(t, "company.txt", out.String())
}
