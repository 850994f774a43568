package eventlog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/tenant"
)

var packings = []eventlog.Compression{eventlog.Plain, eventlog.Gzip, eventlog.Zstd}

// written is a log in memory.
func written(t fataler, h eventlog.Header, c eventlog.Compression, events ...eventlog.Event) []byte {
	var out bytes.Buffer
	w, err := eventlog.NewWriter(&out, &h, c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if err := w.Write(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type fataler interface{ Fatal(...any) }

// read reads a log to its end, and returns what ended it; nil for its true end.
func read(log []byte) (h eventlog.Header, events []eventlog.Event, whole int64, err error) {
	r, err := eventlog.NewReader(bytes.NewReader(log), "test.log")
	if err != nil {
		return h, nil, 0, err
	}
	defer r.Close()
	for {
		var ev eventlog.Event
		if err := r.Next(&ev); errors.Is(err, io.EOF) {
			return r.Header, events, r.Whole(), nil
		} else if err != nil {
			return r.Header, events, r.Whole(), err
		}
		if ev.Alloc != nil {
			own := &cluster.Alloc{}
			own.CopyFrom(ev.Alloc)
			ev.Alloc = own
		}
		if ev.Foreign != nil {
			own := *ev.Foreign
			own.GPUs = slices.Clone(own.GPUs)
			ev.Foreign = &own
		}
		if ev.NodeSpec != nil {
			own := *ev.NodeSpec
			ev.NodeSpec = &own
		}
		events = append(events, ev)
	}
}

// mended is a text as it is written: bytes that are not UTF-8 are replaced.
func mended(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// TestRoundTrip writes events of every kind with random contents and reads
// them again, packed in every way.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		header := drawHeader(t)
		var events []eventlog.Event
		for kind := eventlog.Submit; kind <= eventlog.Device; kind++ {
			events = append(events, drawEvent(t, kind))
		}
		events = append(events, drawEvent(t, eventlog.Recall))
		packing := rapid.SampledFrom(packings).Draw(t, "packing")
		got, again, _, err := read(written(t, header, packing, events...))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(filled(got), filled(header)) {
			t.Fatalf("header: got\n%+v\nwant\n%+v", got, header)
		}
		if len(again) != len(events) {
			t.Fatalf("%d events of %d", len(again), len(events))
		}
		for i := range events {
			equal(t, &again[i], &events[i])
		}
	})
}

// filled is a header in which nothing and a list of nothing are the same.
func filled(h eventlog.Header) eventlog.Header {
	if len(h.Pools) == 0 {
		h.Pools = nil
	}
	return h
}

func equal(t *rapid.T, got, want *eventlog.Event) {
	a, b := *got, *want
	if (a.Spec == nil) != (b.Spec == nil) || a.Spec != nil && !reflect.DeepEqual(a.Spec, b.Spec) {
		t.Fatalf("%s: job\n%+v\nwant\n%+v", want.Kind, a.Spec, b.Spec)
	}
	if (a.Alloc == nil) != (b.Alloc == nil) || a.Alloc != nil && !a.Alloc.Equal(b.Alloc) {
		t.Fatalf("%s: devices\n%+v\nwant\n%+v", want.Kind, a.Alloc, b.Alloc)
	}
	if (a.NodeSpec == nil) != (b.NodeSpec == nil) || a.NodeSpec != nil && !reflect.DeepEqual(a.NodeSpec, b.NodeSpec) {
		t.Fatalf("%s: node\n%+v\nwant\n%+v", want.Kind, a.NodeSpec, b.NodeSpec)
	}
	if (a.Foreign == nil) != (b.Foreign == nil) || a.Foreign != nil && !a.Foreign.Equal(b.Foreign) {
		t.Fatalf("%s: others use\n%+v\nwant\n%+v", want.Kind, a.Foreign, b.Foreign)
	}
	a.Foreign, b.Foreign = nil, nil
	if !a.Note.Equal(b.Note) {
		t.Fatalf("%s: note\n%s\nwant\n%s", want.Kind, a.Note.Fields(), b.Note.Fields())
	}
	a.Spec, b.Spec, a.Alloc, b.Alloc, a.NodeSpec, b.NodeSpec, a.Note, b.Note = nil, nil, nil, nil, nil, nil, nil, nil
	if a != b {
		t.Fatalf("%s:\n%+v\nwant\n%+v", want.Kind, a, b)
	}
}

// TestTextIsMended says what becomes of text that is not UTF-8.
func TestTextIsMended(t *testing.T) {
	d := job.GPUs(1)
	for _, bad := range []string{"a\xffb", "\xc3", "\xed\xa0\x80"} {
		log := written(t, eventlog.Header{Policy: bad}, eventlog.Plain, eventlog.Event{Kind: eventlog.Submit, Spec: &job.Job{Key: bad, Demand: &d}})
		h, events, _, err := read(log)
		if err != nil {
			t.Fatal(err)
		}
		if h.Policy == bad || strings.Trim(h.Policy, "ab\uFFFD") != "" || events[0].Spec.Key != h.Policy {
			t.Errorf("%q became %q and %q", bad, h.Policy, events[0].Spec.Key)
		}
	}
	if mended("\xff") != "\uFFFD" {
		t.Error("the replacement is not what it is said to be")
	}
}

// TestRefuses checks that what could not be read again is not written.
func TestRefuses(t *testing.T) {
	nan := 0.0
	nan /= nan
	for name, ev := range map[string]eventlog.Event{
		"a time below zero":   {Kind: eventlog.Gone, Time: -1},
		"a time of 200 years": {Kind: eventlog.Gone, Time: 200 * 365 * 24 * time.Hour},
		"an endless pause":    {Kind: eventlog.Start, Delay: unit.Never},
		"progress below zero": {Kind: eventlog.Preempt, Kept: -5},
		"an endless estimate": {Kind: eventlog.Estimate, Estimate: unit.Never},
		"a speed of NaN":      {Kind: eventlog.Speed, Speed: nan},
		"a job of no demand":  {Kind: eventlog.Submit, Spec: &job.Job{Key: "x"}},
	} {
		if line, err := ev.Append(nil); err == nil {
			t.Errorf("%s is written as %s", name, line)
		}
	}
	var out bytes.Buffer
	w, err := eventlog.NewWriter(&out, &eventlog.Header{}, eventlog.Plain)
	if err != nil {
		t.Fatal(err)
	}
	bad := eventlog.Event{Kind: eventlog.Gone, Time: -1}
	first := w.Write(&bad)
	if good := (eventlog.Event{Kind: eventlog.Gone, Job: 1}); first == nil || w.Write(&good) != first || w.Close() != first {
		t.Errorf("the first error %v is not kept", first)
	}
	if _, events, _, err := read(out.Bytes()); err != nil || len(events) != 0 {
		t.Errorf("after an event that was refused the log holds %v, %v", events, err)
	}
}

// TestHeaderBuilds checks that the cluster and the tenants that a header
// describes are those that it was made from.
func TestHeaderBuilds(t *testing.T) {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "V100", Memory: 16 * unit.GiB, Speed: 1.5})
	rack, err := c.AddDomain("rack", "r1", 0)
	if err != nil {
		t.Fatal(err)
	}
	spec := cluster.NodeSpec{Name: "a", GPUs: []cluster.GPUs{{Type: typ, Count: 4}}, Domain: rack, Pool: c.AddPool("vc1"), CPU: 96000}
	for range 3 {
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	c.SetHealth(1, cluster.Cordoned)
	c.SetPower(2, cluster.Asleep)
	c.SetBroken(5, true)
	tree := tenant.NewTree(time.Hour)
	lab, err := tree.Add("lab", tenant.Root, 4000, 8000, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Add("group", lab, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	var h eventlog.Header
	h.Describe(c, tree)
	got, events, _, err := read(written(t, h, eventlog.Plain, eventlog.Inventory(c)...))
	if err != nil {
		t.Fatal(err)
	}
	again, tenants, err := got.Build()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for i := range events {
		kinds = append(kinds, events[i].Kind.String())
		if events[i].Kind == eventlog.NodeAdd {
			if _, err := again.AddNode(*events[i].NodeSpec); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := []string{"node-add", "node-add", "node-set", "node-add", "node-set", "device"}; !slices.Equal(kinds, want) {
		t.Errorf("the inventory is %v, want %v", kinds, want)
	}
	level, name, parent := again.Domain(rack)
	if again.Type(typ) != c.Type(typ) || level != "rack" || name != "r1" || parent != 0 || again.PoolName(1) != "vc1" || !reflect.DeepEqual(*again.Node(2), *c.Node(2)) {
		t.Errorf("%+v %s %s %d %s %+v", again.Type(typ), level, name, parent, again.PoolName(1), again.Node(2))
	}
	if tenants.HalfLife() != time.Hour || tenants.Len() != 3 {
		t.Fatalf("half-life %v, %d tenants", tenants.HalfLife(), tenants.Len())
	}
	for i := range tenant.ID(3) {
		if a, b := tenants.At(i), tree.At(i); a.Name != b.Name || a.Parent != b.Parent || a.Guarantee != b.Guarantee || a.Limit != b.Limit || a.Weight != b.Weight {
			t.Errorf("tenant %+v, want %+v", a, b)
		}
	}
}

// TestOpening says what is told of files that are no logs, or not of this
// version.
func TestOpening(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "test.log:1: is no event log",
		"\n":                              "test.log:1: is no event log",
		"job,gpus\n1,2\n":                 "test.log:1: is no event log",
		"hello":                           "test.log:1: is no event log",
		`{"norn":"trace","version":1}`:    "test.log:1: is no event log",
		"{\"norn\":\"trace\"}\n":          "test.log:1: is no event log",
		"{}\n":                            "test.log:1: is no event log",
		"{\"norn\":\"eventlog\"}\n":       "test.log:1: is an event log of version 0, this program reads versions 1 to 2",
		`{"norn":"eventlog","version":1}`: "test.log:1: the log breaks off here",
		`{"norn":"even`:                   "test.log:1: the log breaks off here",
		"{\"norn\":\"eventlog\",\"version\":3,\"new\":{\"x\":[1]}}\n":   "test.log:1: is an event log of version 3, this program reads versions 1 to 2: a newer norn is needed",
		"{\"norn\":\"eventlog\",\"version\":2,\"new\":1}\n":             "test.log:1: the line has no checksum at its end",
		"{\"norn\":\"eventlog\",\"version\":2,\"crc\":\"01234567\"}\n":  "test.log:1: the checksum is wrong",
		"{\"norn\":\"eventlog\",\"version\":1} x\n":                     "test.log:1: expected the end of the line at byte",
		"{\"norn\":\"eventlog\",\"version\":1,\"seed\":\"-1\"}\n":       "test.log:1: ",
		"{\"norn\":\"eventlog\",\"version\":1,\"origin\":\"today\"}\n":  "test.log:1: ",
		"{\"norn\":\"eventlog\",\"version\":1,\"types\":[{\"na\":}]}\n": "test.log:1: expected a number",
	} {
		_, _, _, err := read([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if strings.Contains(want, "is no event log") != errors.Is(err, eventlog.ErrNotLog) || strings.Contains(want, "breaks off") != errors.Is(err, eventlog.ErrTorn) {
			t.Errorf("%q: a wrong kind of error: %v", text, err)
		}
	}
}

// TestHeaderSettings checks that values with = and commas in them are read, also as
// earlier programs wrote a flag of several values, and a name without a value.
func TestHeaderSettings(t *testing.T) {
	log := `{"norn":"eventlog","version":1,"settings":["limits=1,2"],"conditions":["cost=restore=30s,start=5s","whole"]}` + "\n"
	h, _, _, err := read([]byte(log))
	if err != nil {
		t.Fatal(err)
	}
	if want := []eventlog.Setting{{Name: "limits", Value: "1,2"}}; !slices.Equal(h.Settings, want) {
		t.Errorf("settings %v, want %v", h.Settings, want)
	}
	if want := []eventlog.Setting{{Name: "cost", Value: "restore=30s,start=5s"}, {Name: "whole"}}; !slices.Equal(h.Conditions, want) {
		t.Errorf("conditions %v, want %v", h.Conditions, want)
	}
}

// TestBadLines checks that an error names file and line and says what is wrong.
func TestBadLines(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "expected an object at byte 1",
		`{}`:                         "an event without its kind (e)",
		`{"t":1}`:                    "an event without its kind (e)",
		`{"t":-1,"e":"gone"}`:        "expected a number, 0 or more at byte",
		`{"t":1,"e":"gone"}`:         "gone without its job (j)",
		`{"t":1,"e":"submit","j":0}`: "submit without the job (spec)",
		`{"t":1,"e":"submit","j":0,"spec":{"job":"a"}}`:                                             "job a: ",
		`{"t":1,"e":"submit","j":0,"spec":{"job":"a","gpus":1,"work":5}}`:                           `no field "work"`,
		`{"t":1,"e":"move","j":0}`:                                                                  "move without the devices (on)",
		`{"t":1,"e":"assign","j":0,"on":[]}`:                                                        "assign without the devices (on)",
		`{"t":1,"e":"end","j":0}`:                                                                   "end without its outcome (outcome)",
		`{"t":1,"e":"end","j":0,"outcome":"running"}`:                                               `no outcome "running"`,
		`{"t":1,"e":"speed","j":0}`:                                                                 "speed without its value (speed)",
		`{"t":1,"e":"speed","j":0,"speed":-1}`:                                                      "a speed of -1",
		`{"t":1,"e":"wait","j":0,"why":"boredom"}`:                                                  `no reason "boredom"`,
		`{"t":1,"e":"wait","j":0,"why":"not-yet","at":"soon"}`:                                      "expected seconds, or never",
		`{"t":1,"e":"memo","j":0,"kind":"a","note":[1]}`:                                            "expected an object",
		`{"t":1,"e":"dance","j":[]}`:                                                                "",
		`{"t":1,"e":"dance","j":[}`:                                                                 "expected",
		`{"t":1,"e":"dance","j":0}`:                                                                 "",
		`{"t":1,"e":"gone","j":0,"x":{"y":[1]}}`:                                                    "",
		`{"t":1,"e":"memo","j":0,"memo":[1,2]}`:                                                     "",
		`{"t":1,"e":"node-set"}`:                                                                    "node-set without its node (n)",
		`{"t":1,"e":"node-set","n":1,"health":"well"}`:                                              `"well" is none of [up cordoned down]`,
		`{"t":1,"e":"device","broken":true}`:                                                        "device without its number (d)",
		`{"t":1,"e":"start","j":0,"on":[{"n":0,"gpu":[0.5],"d":[1]}]}`:                              "as many parts (gpu) as devices (d)",
		`{"t":1,"e":"node-add","gpus":[[0.5,8]]}`:                                                   "expected a whole number",
		`{"t":1,"e":"node-add","gpus":[[0,8,1]]}`:                                                   "a type and a count of GPUs",
		`{"t":1,"e":"node-add","gpus":[[0]]}`:                                                       "a type and a count of GPUs",
		`{"t":1,"e":"node-add","gpus":[[0,3]],"links":[[1,5],[1,5]]}`:                               "2 links: those of each device to all before it are needed",
		`{"t":1,"e":"node-add","gpus":[[0,2]],"links":[[9,5]]}`:                                     "expected a whole number from 0 to 4",
		`{"t":1,"e":"node-add","gpus":[[0,2]],"links":[[1]]}`:                                       "a link is its class and its speed",
		`{"t":1,"e":"node-add","gpus":[[0,2]],"nvlinks":[[1,2]]}`:                                   "the links (links) before their NVLinks",
		`{"t":1,"e":"node-add","gpus":[[0,3]],"links":[[1,5],[1,5],[1,5]],"nvlinks":[[1,2],[2,2]]}`: "as many NVLinks as links (links)",
		`{"t":1,"e":"node-add","gpus":[[0,2]],"links":[[1,5]],"nvlinks":[[1,2],[1,2]]}`:             "as many NVLinks as links (links)",
		`{"t":1,"e":"node-add","gpus":[[0,2]],"links":[[1,5]],"nvlinks":[[1]]}`:                     "NVLinks are their count and their generation",
		`{"t":1,"e":"node-add","gpus":[[0,2]],"links":[[1,5]],"nvlinks":[[1,2,3]]}`:                 "NVLinks are their count and their generation",
		`{"t":1,"e":"node-add","gpus":[[0,2]],"links":[[1,5]],"nvlinks":[[256,2]]}`:                 "expected a whole number from 0 to 255",
		`{"t":1,"e":"gone","j":0} `:                                                                 "",
		`{"t":1,"e":"gone","j":0}}`:                                                                 "expected the end of the line",
		`{"t":1,"e":"gone","j":0`:                                                                   "expected a comma or the end of the object",
		`{"t":1,"e":"submit","j":0,"spec":` + strings.Repeat("[", 1000):                             "expected an object",
		`{"t":1e400,"e":"gone","j":0}`:                                                              "expected a number, 0 or more",
		`{"t":1,"e":"start","j":0,"on":[{"n":0,"role":9}]}`:                                         "expected a whole number from 0 to 7",
	} {
		log := `{"norn":"eventlog","version":1}` + "\n" + `{"t":0,"e":"gone","j":0}` + "\n" // without checksums
		_, events, _, err := read([]byte(log + line + "\n"))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), "test.log:3: ") || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want test.log:3: %s", line, err, want)
		case want != "" && len(events) != 1:
			t.Errorf("%s: %d events before the error, want 1", line, len(events))
		}
	}
}

// torn are events of a size that makes a packed log several blocks long.
func torn(n int) []eventlog.Event {
	events := make([]eventlog.Event, n)
	for i := range events {
		events[i] = eventlog.Event{
			Time: time.Duration(i*i) * time.Millisecond, Kind: eventlog.Wait, Job: job.ID(i), Estimate: -1, Speed: 1, With: job.None, Node: -1, Device: -1,
			Reason: job.Reason{Code: job.Because, Job: job.None, Text: fmt.Sprintf("reason %d of many", i*7919%10007)},
		}
	}
	return events
}

// TestTorn cuts logs off at every place near the end, and at some far from it:
// all whole events are there, in order, and the error says where the log
// breaks off. A cut between two lines of a plain log cannot be told from an end.
func TestTorn(t *testing.T) {
	longtest.Skip(t)
	events := torn(20_000)
	for _, packing := range packings {
		log := written(t, eventlog.Header{Policy: "fifo"}, packing, events...)
		for cut := len(log) - 1; cut > 200; cut -= 1 + (len(log)-cut)*(len(log)-cut)/97 {
			_, got, whole, err := read(log[:cut])
			if ended := packing == eventlog.Plain && log[cut-1] == '\n'; ended != (err == nil) {
				t.Fatalf("packing %d cut at %d of %d: %v", packing, cut, len(log), err)
			}
			if err != nil && !errors.Is(err, eventlog.ErrTorn) {
				t.Fatalf("packing %d cut at %d of %d: %v", packing, cut, len(log), err)
			}
			want := fmt.Sprintf("test.log:%d: the log breaks off here", len(got)+2)
			if whole == 0 && packing != eventlog.Plain { // not even the first block is there
				want = "test.log:1: the log breaks off here"
			}
			if err != nil && err.Error() != want {
				t.Fatalf("%v, want %s", err, want)
			}
			if packing == eventlog.Plain && (whole > int64(cut) || log[whole-1] != '\n' || bytes.IndexByte(log[whole:cut], '\n') >= 0) {
				t.Fatalf("cut at %d: whole lines end at %d", cut, whole)
			}
			for i := range got {
				if got[i] != events[i] {
					t.Fatalf("packing %d cut at %d: event %d is %+v, want %+v", packing, cut, i, got[i], events[i])
				}
			}
		}
	}
}

// TestFlushed checks that what was flushed survives a crash, however the log is
// packed.
func TestFlushed(t *testing.T) {
	events := torn(500)
	for _, packing := range packings {
		var out bytes.Buffer
		w, err := eventlog.NewWriter(&out, &eventlog.Header{}, packing)
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			if i == 300 {
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Write(&events[i]); err != nil {
				t.Fatal(err)
			}
		}
		// No Close: the program was killed here.
		_, got, _, err := read(out.Bytes())
		if len(got) != 300 || packing != eventlog.Plain && !errors.Is(err, eventlog.ErrTorn) {
			t.Errorf("packing %d: %d events of 300 that were flushed, %v", packing, len(got), err)
		}
	}
}

// TestChecksums changes single bytes of a log, takes lines out, doubles them and has
// two change places: the reader says in which line the log is not as it was written,
// and what it gave out before is right. Only lines missing at the end are not told.
func TestChecksums(t *testing.T) {
	events := torn(40)
	log := written(t, eventlog.Header{Policy: "fifo"}, eventlog.Plain, events...)
	lines := bytes.SplitAfter(log, []byte("\n"))
	lines = lines[:len(lines)-1]
	check := func(what string, from int, bad []byte) {
		t.Helper()
		_, got, _, err := read(bad)
		if err == nil {
			t.Fatalf("%s: no error", what)
		}
		if len(got) > from || !slices.Equal(got, events[:len(got)]) {
			t.Fatalf("%s: %d events before %v", what, len(got), err)
		}
	}
	for at := range log {
		if log[at] == '\n' {
			continue // the line is torn, or two are one
		}
		for _, bit := range []byte{0x01, 0x10} {
			bad := bytes.Clone(log)
			if bad[at] ^= bit; bad[at] != '\n' {
				check(fmt.Sprintf("byte %d", at), bytes.Count(log[:at], []byte("\n")), bad)
			}
		}
	}
	for i := 1; i < len(lines)-1; i++ {
		check(fmt.Sprintf("without line %d", i+1), i, bytes.Join(slices.Delete(slices.Clone(lines), i, i+1), nil))
		check(fmt.Sprintf("line %d twice", i+1), i+1, bytes.Join(slices.Insert(slices.Clone(lines), i, lines[i]), nil))
		other := slices.Clone(lines)
		other[i], other[i+1] = other[i+1], other[i]
		check(fmt.Sprintf("line %d behind the next", i+1), i, bytes.Join(other, nil))
	}
}

// TestNoBombs checks that a small packed file cannot make its reader hold a
// large one.
func TestNoBombs(t *testing.T) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(written(t, eventlog.Header{}, eventlog.Plain))
	block := bytes.Repeat([]byte("a"), 1<<20)
	for range 256 {
		z.Write(block)
	}
	z.Close()
	if _, _, _, err := read(out.Bytes()); err == nil || !strings.Contains(err.Error(), "test.log:2: the line is too long") {
		t.Errorf("%v", err)
	}
	garbage := append([]byte{0x28, 0xb5, 0x2f, 0xfd}, "not zstd at all"...)
	if _, _, _, err := read(garbage); err == nil || !strings.HasPrefix(err.Error(), "test.log") {
		t.Errorf("%v", err)
	}
	if _, _, _, err := read([]byte{0x1f, 0x8b, 9, 9}); err == nil || !strings.HasPrefix(err.Error(), "test.log") {
		t.Errorf("%v", err)
	}
}

// TestDamaged flips bits of packed logs: what is read before the error is right.
func TestDamaged(t *testing.T) {
	events := torn(5000)
	for _, packing := range packings[1:] {
		log := written(t, eventlog.Header{}, packing, events...)
		for at := 30; at < len(log); at += len(log)/50 + 1 {
			bad := bytes.Clone(log)
			bad[at] ^= 0x10
			_, got, _, err := read(bad)
			if err == nil && !slices.Equal(got, events) {
				t.Errorf("packing %d, byte %d: damage is not noticed", packing, at)
			}
		}
	}
}

// TestNoAllocations checks that writing and reading an event costs none, once
// warm.
func TestNoAllocations(t *testing.T) {
	ev := eventlog.Event{
		Time: 90 * time.Second, Kind: eventlog.Start, Job: 7, Delay: time.Second, Speed: 0.75,
		Alloc: &cluster.Alloc{Pieces: []cluster.Piece{{Node: 3, Tasks: 2, Shares: 2}}, Shares: []cluster.Share{{Device: 24, Milli: 1000}, {Device: 25, Milli: 1000}}},
	}
	w, err := eventlog.NewWriter(io.Discard, &eventlog.Header{}, eventlog.Plain)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if err := w.Write(&ev); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for writing an event", n)
	}
	many := make([]eventlog.Event, 3000)
	for i := range many {
		many[i] = ev
	}
	r, err := eventlog.NewReader(bytes.NewReader(written(t, eventlog.Header{}, eventlog.Plain, many...)), "test.log")
	if err != nil {
		t.Fatal(err)
	}
	var got eventlog.Event
	if n := testing.AllocsPerRun(2000, func() {
		if err := r.Next(&got); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for reading an event", n)
	}
}
