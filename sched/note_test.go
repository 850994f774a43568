package sched_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// remark is a note with a field of every kind.
type remark struct {
	seen, again bool
	tasks       int
	bits        uint64
	rate        float64
	text        string
	ran, at     time.Duration
	with        job.ID
	home        cluster.NodeID
	device      cluster.DeviceID
	mates       []job.ID
	values      []float64
	claims      []claim
}

type claim struct {
	kind   string
	target float64
	with   job.ID
}

func (*remark) Kind() string { return "remark" }

func (n *remark) Fields(f *sched.Fields) {
	f.Bool("seen", &n.seen)
	f.Bool("again", &n.again)
	sched.Int(f, "tasks", &n.tasks)
	sched.Int(f, "bits", &n.bits)
	f.Float("rate", &n.rate)
	f.Text("text", &n.text)
	f.Duration("ran", &n.ran)
	f.Moment("at", &n.at)
	f.Ref("with", &n.with)
	f.Node("home", &n.home)
	f.Device("device", &n.device)
	f.Refs("mates", &n.mates)
	f.Floats("values", &n.values)
	sched.List(f, "claims", &n.claims, func(c *claim, f *sched.Fields) {
		f.Text("kind", &c.kind)
		f.Float("target", &c.target)
		f.Ref("with", &c.with)
	})
}

func drawRemark(t *rapid.T) *remark {
	ids := rapid.Custom(func(t *rapid.T) job.ID { return job.ID(rapid.Int32Range(-1, 1<<31-1).Draw(t, "job")) })
	times := rapid.SampledFrom([]time.Duration{0, -1, 1, -5 * time.Second, 1<<53 + 1, unit.MaxScaled, unit.Never})
	n := &remark{
		seen: rapid.Bool().Draw(t, "seen"), again: rapid.Bool().Draw(t, "again"), tasks: rapid.Int().Draw(t, "tasks"), bits: rapid.Uint64().Draw(t, "bits"),
		rate: rapid.Float64().Draw(t, "rate"), text: rapid.SampledFrom([]string{"", "a", `{"job":1}`, "\"\n"}).Draw(t, "text"),
		ran: times.Draw(t, "ran"), at: times.Draw(t, "at"), with: ids.Draw(t, "with"), home: cluster.NodeID(ids.Draw(t, "home")), device: cluster.DeviceID(ids.Draw(t, "device")),
		mates: rapid.SliceOfN(ids, 0, 3).Draw(t, "mates"), values: rapid.SliceOfN(rapid.Float64(), 0, 3).Draw(t, "values"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "claims") {
		n.claims = append(n.claims, claim{rapid.SampledFrom([]string{"", "V100"}).Draw(t, "kind"), rapid.Float64().Draw(t, "target"), ids.Draw(t, "with")})
	}
	return n
}

// shape is a remark without the difference between no list and an empty one.
func (n remark) shape() remark {
	if len(n.mates) == 0 {
		n.mates = nil
	}
	if len(n.values) == 0 {
		n.values = nil
	}
	return n
}

// TestNote: a note that is written is read again exactly, and twice.
func TestNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawRemark(t)
		written, err := sched.Written(n)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, ok := sched.NoteOf[remark](written)
			if ok != (written != nil) || !reflect.DeepEqual(got.shape(), n.shape()) {
				t.Fatalf("%+v is read as %+v, %v, from %s", *n, got, ok, written.Fields())
			}
		}
	})
}

// TestRenumbered: every job that a note refers to gets its new number, and a text
// that looks like a reference stays as it is.
func TestRenumbered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawRemark(t)
		written, err := sched.Written(n)
		if err != nil {
			t.Fatal(err)
		}
		now := func(id job.ID) job.ID {
			if id < 0 || id%3 == 0 {
				return job.None
			}
			return id / 2
		}
		got, _ := sched.NoteOf[remark](written.Renumbered(now))
		want := *n
		want.with = now(n.with)
		want.mates = nil
		for _, id := range n.mates {
			want.mates = append(want.mates, now(id))
		}
		want.claims = nil
		for _, c := range n.claims {
			c.with = now(c.with)
			want.claims = append(want.claims, c)
		}
		if written == nil {
			return
		}
		if !reflect.DeepEqual(got.shape(), want.shape()) {
			t.Fatalf("%+v became %+v, want %+v", *n, got, want)
		}
	})
}

// TestOtherNotes: a policy does not read notes of another kind, or text that is
// no note. All fields are then those of an empty note.
func TestOtherNotes(t *testing.T) {
	nothing := remark{at: -1, with: job.None, home: cluster.None, device: cluster.None}
	for _, n := range []*job.Note{
		nil, job.NewNote("other", []byte(`{"tasks":3}`)), job.NewNote("remark", []byte(`{"tasks":"three"}`)), job.NewNote("remark", []byte(`{"tasks":`)),
		job.NewNote("remark", []byte(`{"with":5}`)), job.NewNote("remark", []byte(`{"at":"late"}`)), job.NewNote("remark", []byte(`{"claims":[1]}`)),
	} {
		if got, ok := sched.NoteOf[remark](n); ok || !reflect.DeepEqual(got, nothing) {
			t.Errorf("%s %s is read as %+v, %v", n.Kind(), n.Fields(), got, ok)
		}
	}
	if got, ok := sched.NoteOf[remark](job.NewNote("remark", []byte(`{"later":[{}],"tasks":3}`))); !ok || got.tasks != 3 {
		t.Errorf("a note with a field that is not known is read as %+v, %v", got, ok)
	}
}

// TestNoNumbers: the error of a note that cannot be written names the field.
func TestNoNumbers(t *testing.T) {
	for _, n := range []*remark{{rate: math.NaN()}, {rate: math.Inf(-1)}, {values: []float64{1, math.Inf(1)}}, {ran: unit.Never - 1}} {
		if _, err := sched.Written(n); err == nil || !strings.HasPrefix(err.Error(), "field ") {
			t.Errorf("%+v: %v", *n, err)
		}
	}
}

// FuzzNote: reading a note never panics, whatever the log says, and a note that
// was read can be written again.
func FuzzNote(f *testing.F) {
	f.Add(`{"tasks":3,"with":{"job":4},"claims":[{"kind":"a"},{}],"at":"never","values":[1,2.5]}`)
	f.Add(`{"claims":[{"with":{"job":-1}}],"ran":-1.5}`)
	f.Add(`{"with":{"job":`)
	f.Fuzz(func(t *testing.T, text string) {
		n := job.NewNote("remark", []byte(text)).Renumbered(func(id job.ID) job.ID { return id })
		got, ok := sched.NoteOf[remark](n)
		if !ok {
			return
		}
		again, err := sched.Written(&got)
		if err != nil {
			return // a list may hold numbers that no policy could have written
		}
		if read, _ := sched.NoteOf[remark](again); !reflect.DeepEqual(read.shape(), got.shape()) {
			t.Fatalf("%+v is read again as %+v", got, read)
		}
	})
}

// TestRecallAgain: the second Recall of a note, or of a missing one, allocates
// nothing. Policies recall the notes of all jobs in each decision.
func TestRecallAgain(t *testing.T) {
	s := state.New(cluster.New(), tenant.NewTree(0))
	for id := range job.ID(2) {
		d := job.Demand{Roles: [job.MaxRoles]job.Role{{Name: "worker", Tasks: 1, GPU: unit.One}}}
		if err := s.Submit(&job.Job{ID: id, Key: "j", Demand: &d}, -1); err != nil {
			t.Fatal(err)
		}
	}
	n, err := sched.Written(&remark{at: time.Second, with: 7})
	if err != nil {
		t.Fatal(err)
	}
	s.Record(1).Note = n
	v := sched.NewView(s, nil, false)
	allocs := testing.AllocsPerRun(100, func() {
		if n, ok := sched.Recall[remark](v.Job(0)); ok || n.at != -1 || n.with != job.None {
			t.Errorf("of a job without a note is remembered %+v", n)
		}
		if n, ok := sched.Recall[remark](v.Job(1)); !ok || n.at != time.Second || n.with != 7 {
			t.Errorf("of a job with a note is remembered %+v", n)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
