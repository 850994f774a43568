package replay_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace"
)

// asTrace reads a log as a trace.
func asTrace(t fataler, log []byte) *trace.Reader {
	r, err := trace.NewReader(bytes.NewReader(log), "test.log", trace.Options{Extra: []trace.Format{replay.Format()}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSameAgain replays the log of a run as a trace: under the same policy it
// gives the same log, byte by byte, and under another one each job still does
// the same work.
func TestSameAgain(t *testing.T) {
	simtest.FewDraws(t)
	table := policy.Table()
	for i, e := range table {
		t.Run(e.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				shape := rapid.SampledFrom([]simtest.Shape{{}, {Types: true}, {Parts: true}, {Costs: true}, {Tenants: true, Costs: true}}).Draw(t, "shape")
				w := simtest.Draw(t, shape)
				nodes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(t, "nodes")
				run := func(e policy.Entry, src trace.Source) ([]byte, []job.Record) {
					p, err := e.New().Policy()
					if err != nil {
						t.Fatal(err)
					}
					return record(t, w, shape, nodes, p, src)
				}
				log, records := run(e, simtest.Source(w.Jobs))
				again, _ := run(e, asTrace(t, log))
				if !bytes.Equal(log, again) {
					t.Fatalf("the log\n%s\nreplayed\n%s", log, again)
				}
				_, others := run(table[(i+1)%len(table)], asTrace(t, log))
				for id := range records {
					a, b := &records[id], &others[id]
					if a.Phase.Over() && b.Phase.Over() && (a.Phase != b.Phase || a.Progress != b.Progress || a.Failures != b.Failures) {
						t.Fatalf("job %s: %v of work and %d failures, under another policy %v and %d", a.Job.Key, a.Progress, a.Failures, b.Progress, b.Failures)
					}
				}
			})
		})
	}
}

// record runs a world and returns its log and its records.
func record(t *rapid.T, w simtest.World, shape simtest.Shape, nodes []int, p sched.Policy, src trace.Source) ([]byte, []job.Record) {
	w.Fresh(t, shape, nodes)
	if w.Tenants == nil {
		w.Tenants = tenant.NewTree(0)
	}
	log := newLogged(t, w.Cluster, w.Tenants, eventlog.Plain)
	s := play(t, &w, p, src, log)
	var records []job.Record
	for id := range job.ID(s.Jobs()) {
		records = append(records, *s.Record(id))
	}
	return log.bytes(t), records
}

// entries reads a trace to its end.
func entries(t *testing.T, r *trace.Reader) []trace.Entry {
	t.Helper()
	var all []trace.Entry
	for {
		var e trace.Entry
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

// TestTruthOfALog says what a log tells about jobs of every fate: ended, failed,
// taken back, still running, never run with and without an estimate.
func TestTruthOfALog(t *testing.T) {
	log := `{"norn":"eventlog","version":1,"world":"kube","policy":"x","origin":"2026-03-01T08:00:00Z","types":[{"name":"g"}]}
{"t":0,"e":"node-add","name":"n0","gpus":[[0,8]]}
{"t":5,"e":"submit","j":0,"spec":{"job":"done","submit":5,"gpus":1}}
{"t":5,"e":"start","j":0,"on":[{"n":0,"d":[0]}],"delay":2}
{"t":5,"e":"submit","j":1,"spec":{"job":"failed","submit":5,"gpus":1}}
{"t":5,"e":"start","j":1,"on":[{"n":0,"d":[1]}]}
{"t":6,"e":"submit","j":2,"spec":{"job":"killed","submit":6,"gpus":1}}
{"t":6,"e":"start","j":2,"on":[{"n":0,"d":[2]}],"speed":0.5}
{"t":7,"e":"submit","j":3,"spec":{"job":"runs","submit":7,"gpus":1}}
{"t":7,"e":"start","j":3,"on":[{"n":0,"d":[3]}]}
{"t":8,"e":"submit","j":4,"spec":{"job":"guessed","submit":8,"gpus":1},"est":70}
{"t":8,"e":"submit","j":5,"spec":{"job":"said","submit":8,"gpus":1,"estimate":80}}
{"t":8,"e":"submit","j":6,"spec":{"job":"unknown","submit":8,"gpus":1}}
{"t":9,"e":"submit","j":7,"spec":{"job":"unlucky","submit":9,"gpus":1}}
{"t":9,"e":"start","j":7,"on":[{"n":0,"d":[4]}]}
{"t":20,"e":"fail","j":7,"why":"failed"}
{"t":20,"e":"start","j":7,"on":[{"n":0,"d":[4]}]}
{"t":25,"e":"end","j":0,"outcome":"done"}
{"t":25,"e":"end","j":1,"outcome":"failed"}
{"t":26,"e":"cancel","j":2}
{"t":30,"e":"preempt","j":7,"kept":10,"at_once":true,"why":"makes-room"}
{"t":40,"e":"wait","j":7,"why":"outranked"}
`
	r := asTrace(t, []byte(log))
	all := entries(t, r)
	info := r.Info()
	type truth struct {
		work     time.Duration
		outcome  trace.Outcome
		atLeast  bool
		attempts int
	}
	want := map[string]truth{
		"done":    {18 * time.Second, trace.Passed, false, 0},
		"failed":  {20 * time.Second, trace.Failed, false, 0},
		"killed":  {10 * time.Second, trace.Killed, false, 0},
		"runs":    {33 * time.Second, trace.Passed, true, 0},
		"guessed": {70 * time.Second, trace.Passed, true, 0},
		"said":    {80 * time.Second, trace.Passed, true, 0},
		"unlucky": {10 * time.Second, trace.Passed, true, 1},
	}
	if len(all) != len(want) || info.Format != "log" || !info.Origin.Equal(time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)) {
		t.Fatalf("%d jobs of %d, %+v", len(all), len(want), info)
	}
	for _, e := range all {
		got := truth{e.Truth.Work, e.Truth.Outcome, e.Truth.AtLeast, len(e.Truth.Attempts)}
		if got != want[e.Job.Key] {
			t.Errorf("%s: %+v, want %+v", e.Job.Key, got, want[e.Job.Key])
		}
		if e.Job.Key == "unlucky" && e.Truth.Attempts[0] != 11*time.Second {
			t.Errorf("its first attempt ran for %v", e.Truth.Attempts[0])
		}
	}
	if info.LeftOut != 1 || !strings.Contains(info.Problems[0].Error(), "job unknown: never ran") {
		t.Errorf("%+v", info)
	}
	// Rows are accounted for, those that are left out too.
	if info.Rows != info.Jobs+info.Folded+info.LeftOut+info.Bad+info.Filtered {
		t.Errorf("%+v", info)
	}
}

// TestTornTrace takes the jobs of a log that breaks off as they stood then, and
// says so.
func TestTornTrace(t *testing.T) {
	log, err := os.ReadFile(filepath.Join("testdata", "every.log"))
	if err != nil {
		t.Fatal(err)
	}
	r := asTrace(t, log[:bytes.Index(log, []byte(`{"t":1000,`))+20])
	all := entries(t, r)
	if len(all) != 2 || !all[1].Truth.AtLeast || !strings.Contains(strings.Join(r.Info().Notes, ";"), "line 30: the log breaks off here: jobs") {
		t.Errorf("%+v, %v", all, r.Info().Notes)
	}
}

// TestBadLogs checks that what cannot have happened is an error that names file
// and line.
func TestBadLogs(t *testing.T) {
	head := `{"norn":"eventlog","version":1,"types":[{"name":"g"}]}
{"t":0,"e":"node-add","name":"n0","gpus":[[0,2]]}
{"t":5,"e":"submit","j":0,"spec":{"job":"a","submit":5,"gpus":1}}
{"t":5,"e":"submit","j":1,"spec":{"job":"b","submit":5,"gpus":1}}
{"t":5,"e":"start","j":0,"on":[{"n":0,"d":[0]}]}
`
	for lines, want := range map[string]string{
		`{"t":4,"e":"gone","j":0}`:                                    "test.log:6: an event at 4s follows one at 5s",
		`{"t":6,"e":"gone","j":7}`:                                    "test.log:6: gone: job number 7 is not known",
		`{"t":6,"e":"gone","j":0}`:                                    "test.log:6: job a: cannot stop it, it is running",
		`{"t":6,"e":"end","j":1,"outcome":"done"}`:                    "test.log:6: job b: cannot end it, it is waiting",
		`{"t":6,"e":"start","j":1}`:                                   "test.log:6: job b: starts on no devices",
		`{"t":6,"e":"start","j":1,"on":[{"n":0,"d":[0]}]}`:            "test.log:6: job b: ",
		`{"t":6,"e":"start","j":1,"on":[{"n":0,"d":[9]}]}`:            "test.log:6: job b: device number 9 is not known",
		`{"t":6,"e":"start","j":1,"on":[{"n":3,"d":[1]}]}`:            "test.log:6: job b: node number 3 is not known",
		`{"t":6,"e":"submit","j":5,"spec":{"job":"c","gpus":1}}`:      "test.log:6: job c: has number 5, the next one is 2",
		`{"t":6,"e":"node-set","n":9,"health":"down"}`:                "test.log:6: node number 9 is not known",
		`{"t":6,"e":"device","d":9,"broken":true}`:                    "test.log:6: device number 9 is not known",
		`{"t":6,"e":"node-add","name":"x","gpus":[[7,1]]}`:            `test.log:6: node "x": unknown GPU type 7`,
		`{"t":6,"e":"node-add","name":"x","gpus":[[0,2]],"links":[]}`: `test.log:6: node "x": links are given for 1 devices`,
		`{"t":6,"e":"speed","j":1,"speed":2}`:                         "test.log:6: job b: ",
		"{\"t\":6,\"e\":\"start\",\"j\":1,\"on\":[{\"n\":0,\"d\":[1]}]}\n{\"t\":7,\"e\":\"move\",\"j\":1,\"on\":[{\"n\":0,\"d\":[0]}]}":                                                "test.log:7: job b: moves to where it does not fit",
		"{\"t\":6,\"e\":\"start\",\"j\":1,\"on\":[{\"n\":0,\"d\":[1]}]}\n{\"t\":7,\"e\":\"move\",\"j\":1,\"on\":[{\"n\":0,\"d\":[0]}]}\n{\"t\":8,\"e\":\"speed\",\"j\":1,\"speed\":1}": "test.log:8: job b: moves to where it does not fit",
	} {
		r, err := eventlog.NewReader(strings.NewReader(head+lines+"\n"), "test.log")
		if err != nil {
			t.Fatal(err)
		}
		_, err = replay.Fold(r)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", lines, err, want)
		}
	}
	if _, err := trace.NewReader(strings.NewReader(head+"{}\n"), "test.log", trace.Options{Extra: []trace.Format{replay.Format()}}); err == nil || !strings.Contains(err.Error(), "test.log:6: ") {
		t.Errorf("%v", err)
	}
	bad := strings.Replace(head, `"types"`, `"domains":[{"level":"rack","parent":9}],"types"`, 1)
	r, err := eventlog.NewReader(strings.NewReader(bad), "test.log")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replay.Fold(r); err == nil || !strings.HasPrefix(err.Error(), "test.log:1: ") {
		t.Errorf("%v", err)
	}
}

// TestPageExample folds the example of docs/formats.md.
func TestPageExample(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "### An example\n")
	example, _, _ = strings.Cut(example, "\n### ")
	var log strings.Builder
	for _, line := range strings.Split(example, "\n") {
		if rest, is := strings.CutPrefix(line, "    "); is {
			log.WriteString(rest + "\n")
		}
	}
	s, _ := fold(t, []byte(log.String()))
	if s.Jobs() != 2 || s.Record(1).Phase != job.Done || s.Record(0).Phase != job.Running || s.Record(0).Progress != time.Minute {
		t.Errorf("%+v\n%+v", s.Record(0), s.Record(1))
	}
}

// FuzzFold folds anything, explains it and reads it as a trace: errors, but no
// panic.
func FuzzFold(f *testing.F) {
	every, err := os.ReadFile(filepath.Join("testdata", "every.log"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(every)
	lines := bytes.SplitAfter(every, []byte("\n"))
	for i := 4; i < len(lines); i += 3 { // each event out of its order
		moved := append(bytes.Join(lines[:4], nil), lines[i]...)
		f.Add(append(moved, bytes.Join(lines[4:], nil)...))
	}
	f.Add([]byte(head + goesOn + `{"t":20,"e":"node-add","name":"box","gpus":[[1,2]]}
{"t":20,"e":"carry","j":0,"spec":{"job":"1","submit":5,"gpus":1},"on":[{"n":0,"d":[1]}],"record":{"phase":"running","since":5,"first_start":5,"tasks":1,"gpus":1,"rate":1,"starts":1}}
{"t":20,"e":"carry","j":1,"spec":{"job":"2","submit":6,"gpus":2},"why":"node-lost","need":0,"record":{"phase":"waiting","since":6}}
{"t":21,"e":"preempt","j":0,"kept":3,"why":"makes-room","for":1}
{"t":22,"e":"su` + goesOn))
	f.Fuzz(func(t *testing.T, log []byte) {
		if len(log) > 1<<14 {
			return
		}
		r, err := eventlog.NewReader(bytes.NewReader(log), "test.log")
		if err != nil {
			return
		}
		defer r.Close()
		if life, err := replay.Explain(r, "hero"); err == nil {
			if err := life.Write(io.Discard); err != nil {
				t.Fatal(err)
			}
		}
		tr, err := trace.NewReader(bytes.NewReader(log), "test.log", trace.Options{Extra: []trace.Format{replay.Format()}})
		if err != nil {
			return
		}
		var e trace.Entry
		for err == nil {
			err = tr.Next(&e)
		}
	})
}
