package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace"
)

// splitter writes a log anew as several, one behind the other.
type splitter struct {
	t     fataler
	s     *state.State
	h     eventlog.Header
	out   bytes.Buffer
	w     *eventlog.Writer
	local map[job.ID]job.ID // numbers in the present log, by those in the whole
	jobs  int               // in the present log
	cuts  int
}

// split divides a log before the events of the given numbers, or as soon behind
// them as no job is about to move. With torn, each but the last breaks off in the
// middle of a line that nobody has acted on.
func split(t fataler, log []byte, torn bool, at ...int) []byte {
	r, err := eventlog.NewReader(bytes.NewReader(log), "whole.log")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, tenants, err := r.Header.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := &splitter{t: t, s: state.New(c, tenants), h: r.Header, local: map[job.ID]job.ID{}}
	p.begin(&r.Header, nil)
	var ev eventlog.Event
	for i := 0; ; i++ {
		if err := r.Next(&ev); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(at) > 0 && i >= at[0] && p.s.Settle() == nil {
			for at = at[1:]; len(at) > 0 && i >= at[0]; at = at[1:] {
			}
			p.cut(&ev, torn)
		}
		line := p.line(&ev)
		if err := engine.Apply(p.s, &ev); err != nil {
			t.Fatal(err)
		}
		p.write(&line)
	}
	if err := p.w.Close(); err != nil {
		t.Fatal(err)
	}
	return p.out.Bytes()
}

func (p *splitter) begin(h *eventlog.Header, events []eventlog.Event) {
	var err error
	if p.w, err = eventlog.NewWriter(&p.out, h, eventlog.Plain); err != nil {
		p.t.Fatal(err)
	}
	for i := range events {
		p.write(&events[i])
	}
}

func (p *splitter) write(ev *eventlog.Event) {
	if err := p.w.Write(ev); err != nil {
		p.t.Fatal(err)
	}
}

// cut begins a new log.
func (p *splitter) cut(next *eventlog.Event, torn bool) {
	if torn {
		line := p.line(next)
		b, err := line.Append(nil)
		if err != nil {
			p.t.Fatal(err)
		}
		if err := p.w.Flush(); err != nil {
			p.t.Fatal(err)
		}
		p.out.Write(b[:len(b)*2/3])
		if next.Kind == eventlog.Submit {
			p.jobs--
			delete(p.local, next.Job)
		}
	}
	if err := p.w.Close(); err != nil {
		p.t.Fatal(err)
	}
	past := p.cuts % 3 // of the jobs that have ended
	p.cuts++
	h, events := simtest.Opening(p.s, simtest.Numbering{Past: past})
	h.World, h.Policy, h.Origin = p.h.World, p.h.Policy, p.h.Origin
	p.local, p.jobs = map[job.ID]job.ID{}, 0
	ended := p.s.Ended()
	for i := range job.ID(p.s.Jobs()) {
		if !p.s.Record(i).Phase.Over() || slices.Contains(ended[max(0, len(ended)-past):], i) {
			p.local[i] = job.ID(p.jobs)
			p.jobs++
		}
	}
	p.begin(&h, events)
}

// line is an event with the numbers of the present log.
func (p *splitter) line(ev *eventlog.Event) eventlog.Event {
	out := *ev
	if ev.Spec != nil {
		p.local[ev.Job] = job.ID(p.jobs)
		p.jobs++
	}
	if ev.Job >= 0 {
		out.Job = p.local[ev.Job]
	}
	if ev.Reason.Job >= 0 {
		n, known := p.local[ev.Reason.Job]
		if !known {
			n = job.None
		}
		out.Reason.Job = n
	}
	out.Note = ev.Note.Renumbered(func(id job.ID) job.ID {
		n, known := p.local[id]
		if !known {
			n = job.None
		}
		return n
	})
	return out
}

// events counts the events of a log.
func events(log []byte) int { return bytes.Count(log, []byte("\n")) - 1 }

// lives are the lives of all jobs of a log, and its list.
func lives(t fataler, log []byte, jobs int) string {
	var out strings.Builder
	for i := range jobs {
		r, err := eventlog.NewReader(bytes.NewReader(log), "test.log")
		if err != nil {
			t.Fatal(err)
		}
		life, err := replay.Explain(r, fmt.Sprintf("#%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if err := life.Write(&out); err != nil {
			t.Fatal(err)
		}
	}
	r, err := eventlog.NewReader(bytes.NewReader(log), "test.log")
	if err != nil {
		t.Fatal(err)
	}
	list, err := replay.Jobs(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Write(&out, 0); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// lines are events as a sink is told of them.
type lines struct{ strings.Builder }

// Event implements engine.Sink.
func (l *lines) Event(ev *eventlog.Event, s *state.State) {
	l.WriteString(simtest.Line(ev, s) + "\n")
}

// told is what a sink is told of a log.
func told(t fataler, log []byte) string {
	r, err := eventlog.NewReader(bytes.NewReader(log), "test.log")
	if err != nil {
		t.Fatal(err)
	}
	var l lines
	if _, err := replay.Fold(r, &l); err != nil {
		t.Fatal(err)
	}
	return l.String()
}

// all reads a log as a trace to its end.
func all(t fataler, log []byte) []trace.Entry {
	r := asTrace(t, log)
	var out []trace.Entry
	for {
		var e trace.Entry
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
}

// TestLogsAreOne divides logs of random runs at random events, and finds what the
// whole log tells: the same state and report, the same trace, the same lives.
func TestLogsAreOne(t *testing.T) {
	table := policy.Table()
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(table).Draw(t, "policy")
		shape := rapid.SampledFrom(append(shapes, simtest.Shape{Packed: true, Shared: true, Costs: true})).Draw(t, "shape")
		w := simtest.Draw(t, shape)
		w.AnyStop(t)
		nodes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(t, "nodes")
		if rapid.Bool().Draw(t, "operated") {
			w.Operate(t, nodes)
		}
		w.Fresh(t, shape, nodes)
		if w.Tenants == nil {
			w.Tenants = tenant.NewTree(time.Minute)
		}
		p, err := e.New().Policy()
		if err != nil {
			t.Fatal(err)
		}
		if !shape.Packed && rapid.IntRange(0, 3).Draw(t, "restless") == 0 {
			p = restless{}
		} else if shape.Pools {
			p = policy.Partitioned(func() (sched.Policy, error) { return e.New().Policy() })
		}
		log := newLogged(t, w.Cluster, w.Tenants, eventlog.Plain)
		play(t, &w, p, simtest.Source(w.Jobs), log)
		whole := log.bytes(t)
		// A log begins with what the nodes are: one is not divided within that.
		first := min(events(whole)-1, strings.Count(string(whole[:max(0, bytes.Index(whole, []byte(`"e":"submit"`)))]), "\n"))
		at := rapid.SliceOfNDistinct(rapid.IntRange(max(1, first), events(whole)-1), 1, 3, rapid.ID).Draw(t, "at")
		slices.Sort(at)
		torn := rapid.Bool().Draw(t, "torn")
		parts := split(t, whole, torn, at...)
		if a, b := told(t, whole), told(t, parts); a != b {
			t.Fatalf("events\n%s\nof the parts\n%s", a, b)
		}
		one, figuresOfOne := fold(t, whole)
		several, figuresOfSeveral := fold(t, parts)
		same(t, one, several, figuresOfOne, figuresOfSeveral)
		if a, b := all(t, whole), all(t, parts); !reflect.DeepEqual(a, b) {
			t.Fatalf("%d jobs\n%+v\nof the parts %d\n%+v", len(a), a, len(b), b)
		}
		if a, b := lives(t, whole, len(w.Jobs)), lives(t, parts, len(w.Jobs)); a != gap.ReplaceAllString(b, "") {
			t.Fatalf("lives\n%s\nof the parts\n%s", a, b)
		}
		if notes := strings.Count(strings.Join(asTrace(t, parts).Info().Notes, "\n"), "breaks off here, and another one goes on"); torn && notes == 0 || !torn && notes > 0 {
			t.Fatalf("%d logs break off", notes)
		}
	})
}

// gap is a step that tells of a log which breaks off.
var gap = regexp.MustCompile(`(?m)^.*the log breaks off, and another one goes on\n`)

// head begins a log of one node, and carry a log that goes on.
const head = `{"norn":"eventlog","version":1,"origin":"2026-03-01T08:00:00Z","types":[{"name":"g"}]}
{"t":0,"e":"node-add","name":"box","gpus":[[0,2]]}
{"t":5,"e":"submit","j":0,"spec":{"job":"1","submit":5,"gpus":1},"est":100}
{"t":5,"e":"start","j":0,"on":[{"n":0,"d":[1]}]}
{"t":6,"e":"submit","j":1,"spec":{"job":"2","submit":6,"gpus":2}}
{"t":6,"e":"wait","j":1,"why":"need-gpus","need":2,"have":1}
{"t":7,"e":"submit","j":2,"spec":{"job":"3","submit":7,"gpus":1}}
{"t":7,"e":"start","j":2,"on":[{"n":0,"d":[0]}]}
{"t":9,"e":"end","j":2,"outcome":"done"}
`

const goesOn = `{"norn":"eventlog","version":1,"origin":"2026-03-01T08:00:00Z","begins":20,"types":[{"name":"h"},{"name":"g"}]}
`

// TestOtherMachine goes on on a machine with other GPUs: who ran was thrown back,
// or runs where the same GPU is now.
func TestOtherMachine(t *testing.T) {
	const machine = `{"t":20,"e":"node-add","name":"box","gpus":[[0,1],[1,4]]}
{"t":20,"e":"device","d":4,"broken":true}
`
	const waits = `{"t":20,"e":"carry","j":1,"spec":{"job":"2","submit":6,"gpus":2},"why":"need-gpus","need":2,"have":1,"record":{"phase":"waiting","since":6}}
{"t":21,"e":"start","j":1,"on":[{"n":0,"d":[0,1]}]}
{"t":30,"e":"submit","j":2,"spec":{"job":"4","submit":30,"gpus":1}}
{"t":30,"e":"start","j":2,"on":[{"n":0,"d":[3]}]}
{"t":40,"e":"end","j":1,"outcome":"done"}
`
	for text, want := range map[string]string{
		`{"t":20,"e":"carry","j":0,"spec":{"job":"1","submit":5,"gpus":1},"est":100,"why":"node-lost","text":"the devices are others","record":{"phase":"waiting","since":9,"first_start":5,"tasks":1,"gpus":1,"held":4,"service":4,"starts":1,"preemptions":1}}
`: "08:00:20  is thrown back: the devices are others; none of its work is kept\n",
		`{"t":20,"e":"carry","j":0,"spec":{"job":"1","submit":5,"gpus":1},"est":100,"on":[{"n":0,"d":[2]}],"record":{"phase":"running","since":5,"first_start":5,"tasks":1,"gpus":1,"ready":5,"rate":1,"starts":1}}
`: "08:00:20  moves to box[2]\n",
	} {
		log := []byte(head + goesOn + machine + text + waits)
		s, _ := fold(t, log)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		if c := s.Cluster; c.Nodes() != 2 || c.Health(0) != cluster.Down || c.Health(1) != cluster.Up || !c.Broken(6) || c.Broken(5) || c.DeviceFree(5) != 0 {
			t.Errorf("%d nodes, %v and %v", c.Nodes(), c.Health(0), c.Health(1))
		}
		if r := s.Record(1); s.Jobs() != 4 || r.Job.Key != "2" || r.Phase != job.Done || r.End != 40*time.Second || s.Record(3).Job.Key != "4" {
			t.Errorf("%d jobs, %+v", s.Jobs(), r)
		}
		if _, life := explain(t, log, "1"); !strings.Contains(life, want) {
			t.Errorf("%s\nshould tell %s", life, want)
		}
	}
}

// TestMissingPart goes on from a log whose end is lost: jobs that it would have
// told of are taken as they are carried, and those that are not carried are held.
func TestMissingPart(t *testing.T) {
	log := []byte(head + `{"t":10,"e":"su` + goesOn + `{"t":20,"e":"node-add","name":"box","gpus":[[1,2]]}
{"t":20,"e":"carry","j":0,"spec":{"job":"9","submit":15,"gpus":2},"on":[{"n":0,"d":[0,1]}],"record":{"phase":"running","since":15,"first_start":15,"tasks":2,"gpus":2,"ready":15,"rate":1,"starts":1}}
{"t":20,"e":"carry","j":1,"spec":{"job":"2","submit":6,"gpus":2},"why":"behind","for":0,"record":{"phase":"waiting","since":6}}
{"t":25,"e":"end","j":0,"outcome":"done"}
`)
	s, _ := fold(t, log)
	if r := s.Record(3); s.Jobs() != 4 || r.Job.Key != "9" || r.Progress != 10*time.Second || s.Record(1).Reason.Job != 3 {
		t.Errorf("%d jobs, %+v, %+v", s.Jobs(), r, s.Record(1).Reason)
	}
	_, life := explain(t, log, "1")
	if !strings.Contains(life, "08:00:09  the log breaks off, and another one goes on\n2026-03-01 08:00:20  is put on hold: its end was told") {
		t.Errorf("%s", life)
	}
	if _, life := explain(t, log, "3"); strings.Contains(life, "breaks off") { // it had ended before
		t.Errorf("%s", life)
	}
	r := asTrace(t, log)
	found := entries(t, r)
	if len(found) != 3 || !found[0].Truth.AtLeast || found[2].Job.Key != "9" || found[2].Truth.Work != 10*time.Second {
		t.Errorf("%+v", found)
	}
	if notes := strings.Join(r.Info().Notes, ";"); !strings.Contains(notes, "line 10: the log breaks off here, and another one goes on") {
		t.Errorf("%s", notes)
	}
	list, err := replay.Jobs(open(t, log))
	if err != nil || list.Gaps != 1 || list.Torn {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestEmptyParts goes on from logs in which nothing happened, and breaks off in
// the opening of the last.
func TestEmptyParts(t *testing.T) {
	const carried = `{"t":20,"e":"node-add","name":"box","gpus":[[1,2]]}
{"t":20,"e":"carry","j":0,"spec":{"job":"1","submit":5,"gpus":1},"est":100,"on":[{"n":0,"d":[1]}],"record":{"phase":"running","since":5,"first_start":5,"tasks":1,"gpus":1,"ready":5,"rate":1,"starts":1}}
{"t":20,"e":"carry","j":1,"spec":{"job":"2","submit":6,"gpus":2},"why":"need-gpus","need":2,"have":1,"record":{"phase":"waiting","since":6}}
`
	log := head + goesOn + carried + goesOn + carried
	if s, _ := fold(t, []byte(log)); s.Jobs() != 3 || s.Now != 20*time.Second || s.Record(0).ProgressAt(s.Now) != 15*time.Second {
		t.Errorf("%d jobs at %v, %+v", s.Jobs(), s.Now, s.Record(0))
	}
	for cut := len(log) - 1; cut > len(head)+len(goesOn)+len(carried); cut-- {
		if log[cut-1] == '\n' {
			continue // what is missing cannot be seen
		}
		s, err := replay.Fold(open(t, []byte(log[:cut])))
		if !errors.Is(err, eventlog.ErrTorn) || s.Jobs() != 3 || s.Record(0).Phase != job.Running {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}

// TestBadParts checks that logs which do not belong together are an error.
func TestBadParts(t *testing.T) {
	const box = `{"t":20,"e":"node-add","name":"box","gpus":[[1,2]]}
`
	for second, want := range map[string]string{
		head: "test.log:10: another log begins here, at 0s, but the one before goes on to 9s: they belong one behind the other, oldest first",
		strings.Replace(goesOn, "2026-03-01", "2026-03-02", 1):                                                                                                "test.log:10: another log begins here, but its zero is 2026-03-02T08:00:00Z and that of the one before 2026-03-01T08:00:00Z: they are not of one machine",
		strings.Replace(goesOn, `"version":1`, `"version":9`, 1):                                                                                              "test.log:10: is an event log of version 9",
		goesOn + box + `{"t":20,"e":"carry","j":1,"spec":{"job":"1","gpus":1},"record":{"phase":"waiting"}}` + "\n":                                           "job 1: has number 1, the next one is 0",
		goesOn + box + `{"t":21,"e":"submit","j":1,"spec":{"job":"7","gpus":1}}` + "\n":                                                                       "job 7: has number 1, the next one is 0",
		goesOn + box + `{"t":21,"e":"gone","j":0}` + "\n":                                                                                                     "gone: job number 0 is not known",
		goesOn + box + `{"t":21,"e":"node-set","n":1,"health":"down"}` + "\n":                                                                                 "node number 1 is not known",
		goesOn + box + `{"t":20,"e":"carry","j":0,"spec":{"job":"1","gpus":1},"on":[{"n":0,"d":[7]}],"record":{"phase":"running","tasks":1,"gpus":1}}` + "\n": "device number 7 is not known",
		goesOn + `{"t":20,"e":"node-add","name":"box","gpus":[[5,2]]}` + "\n":                                                                                 `node "box": unknown GPU type 5`,
		goesOn + `{"t":20,"e":"node-add","name":"box","gpus":[[0,2]],"pool":3}` + "\n":                                                                        `node "box": unknown pool 3`,
		strings.Replace(goesOn, `"types"`, `"tenants":[{"name":"a","parent":4}],"types"`, 1):                                                                  `tenant "a": unknown parent`,
		strings.Replace(goesOn, `"types"`, `"domains":[{"level":"rack","parent":9}],"types"`, 1):                                                              "unknown parent domain 9",
		goesOn + box + `{"t":20,"e":"carry","j":0,"spec":{"job":"1","gpus":1},"on":[{"n":0,"d":[1]}],"record":{"phase":"waiting"}}` + "\n":                    "a job holds devices exactly when it is assigned or running",
	} {
		_, err := replay.Fold(open(t, []byte(head+second)))
		if err == nil || !strings.HasPrefix(err.Error(), "test.log:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", second, err, want)
		}
	}
}
