package job

import (
	"fmt"
	"go/parser"
	"go/token"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// arrow is one method of Record that changes the phase or what a job holds.
type arrow struct {
	name string
	take func(r *Record, now time.Duration) error
}

// arrows are all of them.
var arrows = []arrow{
	{"Hold", func(r *Record, now time.Duration) error { return r.Hold(now) }},
	{"Release", func(r *Record, now time.Duration) error { return r.Release(now) }},
	{"Assign", func(r *Record, now time.Duration) error { return r.Assign(now, 2, 2000) }},
	{"Begin", func(r *Record, now time.Duration) error { return r.Begin(now, time.Second, 2, 2000) }},
	{"SetSpeed", func(r *Record, now time.Duration) error { return r.SetSpeed(now, 0.5) }},
	{"SetProgress", func(r *Record, now time.Duration) error { return r.SetProgress(now, time.Second) }},
	{"Profile", func(r *Record, _ time.Duration) error { return r.Profile() }},
	{"SetMerge", func(r *Record, now time.Duration) error { return r.SetMerge(now, After, 3, 0) }},
	{"Reshape", func(r *Record, now time.Duration) error { return r.Reshape(now, time.Second, 3, 3000, ToSize) }},
	{"Preempt", func(r *Record, now time.Duration) error { return r.Preempt(now, r.ProgressAt(now)) }},
	{"PreemptNow", func(r *Record, now time.Duration) error { return r.PreemptNow(now, r.ProgressAt(now)) }},
	{"Gone", func(r *Record, now time.Duration) error { return r.Gone(now) }},
	{"Evict", func(r *Record, now time.Duration) error { return r.Evict(now, 0) }},
	{"Fail", func(r *Record, now time.Duration) error { return r.Fail(now, 0) }},
	{"Finish", func(r *Record, now time.Duration) error { return r.Finish(now, Done) }},
	{"Cancel", func(r *Record, now time.Duration) error { return r.Cancel(now) }},
}

// route brings a new record into a phase.
var route = map[Phase][]string{
	Held: {"Hold"}, Waiting: {}, Assigned: {"Assign"}, Running: {"Begin"}, Stopping: {"Begin", "Preempt"},
	Done: {"Begin", "Finish"}, Cancelled: {"Cancel"},
}

func in(t *testing.T, phase Phase) *Record {
	t.Helper()
	r := &Record{}
	r.Submit(&Job{Key: "j7"}, 0)
	for _, name := range route[phase] {
		if err := follow(name, r, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if phase == FailedPhase {
		if err := errorsOf(follow("Begin", r, time.Second), r.Finish(time.Second, FailedPhase)); err != nil {
			t.Fatal(err)
		}
	}
	if r.Phase != phase {
		t.Fatalf("the way to %s leads to %s", phase, r.Phase)
	}
	return r
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func follow(name string, r *Record, now time.Duration) error {
	i := slices.IndexFunc(arrows, func(a arrow) bool { return a.name == name })
	return arrows[i].take(r, now)
}

// drawn reads the table of arrows in the package comment: name -> from -> to.
func drawn(t *testing.T) map[string]map[Phase]Phase {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "job.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	phase := func(name string) Phase {
		i := slices.Index(phaseNames[:], name)
		if i < 0 {
			t.Fatalf("the table names the phase %q", name)
		}
		return Phase(i)
	}
	table := map[string]map[Phase]Phase{}
	for line := range strings.Lines(file.Doc.Text()) {
		left, to, ok := strings.Cut(line, "->")
		words := strings.Fields(left)
		if !ok || len(words) < 2 || strings.ContainsAny(left, "-<>") {
			continue
		}
		table[words[0]] = map[Phase]Phase{}
		for _, from := range words[1:] {
			if table[words[0]][phase(from)] = phase(from); strings.TrimSpace(to) != "same" {
				table[words[0]][phase(from)] = phase(strings.TrimSpace(to))
			}
		}
	}
	return table
}

// TestArrows tries every transition from every phase. The table in the package
// comment says which are allowed. Every other one is an error that names the
// job and changes nothing.
func TestArrows(t *testing.T) {
	table := drawn(t)
	if len(table) != len(arrows)+1 { // and Submit
		t.Fatalf("the package comment has %d arrows, the test %d and Submit", len(table), len(arrows))
	}
	for _, a := range arrows {
		froms, known := table[a.name]
		if !known {
			t.Errorf("%s is not in the table of the package comment", a.name)
		}
		for _, phase := range []Phase{Held, Waiting, Assigned, Running, Stopping, Done, FailedPhase, Cancelled} {
			r := in(t, phase)
			before := *r
			err := a.take(r, 2*time.Second)
			to, allowed := froms[phase]
			switch {
			case allowed && (err != nil || r.Phase != to):
				t.Errorf("%s from %s: %v, %s; want %s", a.name, phase, err, r.Phase, to)
			case !allowed && err == nil:
				t.Errorf("%s from %s leads to %s, which the table does not have", a.name, phase, r.Phase)
			case !allowed && (!strings.Contains(err.Error(), "job j7: cannot ") || !strings.HasSuffix(err.Error(), "it is "+phase.String())):
				t.Errorf("%s from %s: the error is %v", a.name, phase, err)
			case !allowed && *r != before:
				t.Errorf("%s from %s failed and changed the record", a.name, phase)
			}
		}
		if err := a.take(&Record{}, 0); err == nil || !strings.Contains(err.Error(), "never submitted") {
			t.Errorf("%s of a job that was never submitted: %v", a.name, err)
		}
	}
	for _, outcome := range []Phase{Done, FailedPhase, Cancelled} {
		if r := in(t, Running); r.Finish(2*time.Second, outcome) != nil || r.Phase != outcome || r.End != 2*time.Second {
			t.Errorf("Finish as %s leads to %s at %v", outcome, r.Phase, r.End)
		}
	}
	if err := in(t, Running).Finish(2*time.Second, Waiting); err == nil {
		t.Error("a job ended as waiting")
	}
}

// ticks is a record kept second by second.
type ticks struct {
	held, waited, ready int // seconds; ready: seconds of delay to go
	service, lost       float64
	progress            float64 // seconds
	speed               float64
	milli               unit.Milli
}

func (k *ticks) pass(phase Phase) {
	if phase != Running && phase != Stopping {
		k.waited++
		return
	}
	gpus := float64(k.milli) / 1000
	k.held++
	k.service += gpus
	switch {
	case phase == Stopping:
		k.lost += gpus
	case k.ready > 0:
		k.ready--
		k.lost += gpus
	default:
		k.progress += k.speed
	}
}

// keep is what is left of the progress when a job leaves its devices.
func (k *ticks) keep(kept float64) {
	if k.speed > 0 {
		k.lost += (k.progress - kept) / k.speed * float64(k.milli) / 1000
	}
	k.progress = kept
}

// TestRecordAgainstTicks walks at random through the lifecycle and compares the
// times, the service and the progress with those counted second by second.
func TestRecordAgainstTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Record
		r.Submit(&Job{Key: "j", Submit: 3 * time.Second}, 3*time.Second)
		k := ticks{}
		now := 3
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			for range rapid.IntRange(0, 6).Draw(t, "seconds") {
				if !r.Phase.Over() {
					k.pass(r.Phase)
				}
				now++
			}
			if err := stepBoth(t, &r, &k, time.Duration(now)*time.Second); err != nil {
				t.Fatal(err)
			}
			compareTicks(t, &r, &k, time.Duration(now)*time.Second)
		}
	})
}

// stepBoth takes one allowed arrow in the record and in the ticks.
func stepBoth(t *rapid.T, r *Record, k *ticks, now time.Duration) error {
	choose := func(names ...string) string { return rapid.SampledFrom(names).Draw(t, "arrow") }
	delay := rapid.IntRange(0, 4).Draw(t, "delay")
	milli := unit.Milli(rapid.IntRange(1, 4).Draw(t, "gpus")) * 500
	switch r.Phase {
	case Waiting:
		if choose("begin", "assign") == "assign" {
			k.milli = milli
			return r.Assign(now, 1, milli)
		}
		k.milli, k.ready, k.speed = milli, delay, 1
		return r.Begin(now, time.Duration(delay)*time.Second, 1, milli)
	case Assigned:
		if choose("begin", "preempt") == "preempt" {
			return r.PreemptNow(now, r.Progress)
		}
		k.ready, k.speed = delay, 1
		return r.Begin(now, time.Duration(delay)*time.Second, 1, k.milli)
	case Running:
		return stepRunning(t, r, k, now, delay, milli, choose("speed", "reshape", "preempt", "now", "fail", "evict", "finish", "nothing"))
	case Stopping:
		return r.Gone(now)
	}
	return nil
}

func stepRunning(t *rapid.T, r *Record, k *ticks, now time.Duration, delay int, milli unit.Milli, what string) error {
	kept := math.Floor(k.progress * float64(rapid.IntRange(0, 2).Draw(t, "kept")) / 2)
	keptTime := time.Duration(kept * float64(time.Second))
	switch what {
	case "speed":
		k.speed = float64(rapid.IntRange(1, 4).Draw(t, "speed")) / 2
		return r.SetSpeed(now, k.speed)
	case "reshape":
		k.ready, k.milli = delay, milli
		return r.Reshape(now, time.Duration(delay)*time.Second, 1, milli, Change(delay%3))
	case "nothing":
		return nil
	case "finish":
		return r.Finish(now, Done)
	}
	k.keep(kept)
	switch what {
	case "preempt":
		return r.Preempt(now, keptTime)
	case "now":
		return r.PreemptNow(now, keptTime)
	case "fail":
		return r.Fail(now, keptTime)
	}
	return r.Evict(now, keptTime)
}

func compareTicks(t *rapid.T, r *Record, k *ticks, now time.Duration) {
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
	got := fmt.Sprintf("%v with %v held, %v waited, progress %v, service %v, lost %v", r.Phase, r.AllocatedAt(now), r.WaitAt(now), r.ProgressAt(now), r.ServiceAt(now), r.Lost)
	unpaid := 0.0 // a delay is lost from its beginning, and given back when the job leaves before its end
	if r.Phase == Running {
		unpaid = float64(k.ready) * float64(k.milli) / 1000
	}
	if r.AllocatedAt(now) != time.Duration(k.held)*time.Second || r.WaitAt(now) != time.Duration(k.waited)*time.Second ||
		!near(r.ProgressAt(now).Seconds(), k.progress) || !near(r.ServiceAt(now), k.service) || !near(r.Lost, k.lost+unpaid) {
		t.Fatalf("at %v: %s; the ticks say %+v", now, got, *k)
	}
}
