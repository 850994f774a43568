package trace_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// lm is a line of the traces of Shockwave: 23 epochs of LM with a batch of 10, 5968 steps
// each, under GNS.
const lm = "LM (batch size 10)\tpython3 main.py\tlanguage_modeling\t--steps\t1\t134583\t1\tgns\t1\t-1.000000\t1418\t0\n"

// entries reads a trace of a few lines.
func entries(t *testing.T, text string) []trace.Entry {
	t.Helper()
	r, err := trace.NewReader(strings.NewReader(text), "test", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all []trace.Entry
	for e := (trace.Entry{}); r.Next(&e) == nil; e = (trace.Entry{}) {
		all = append(all, e)
	}
	return all
}

// A job of Shockwave's has the course of its mode: LM doubles its batch after 11 and 21
// epochs, with which it is 1.434 and 1.9732 times as fast. It tells the batch sizes, and
// not when they come.
func TestShockwaveCourse(t *testing.T) {
	e := entries(t, lm)[0]
	epoch := 1418 * time.Second / 23
	want := []trace.Turn{
		{Reported: job.Reported{Batch: 10, Pace: 1}},
		{From: 11 * epoch, Reported: job.Reported{Batch: 20, Epoch: 11, Pace: 1.434}},
		{From: 21 * epoch, Reported: job.Reported{Batch: 40, Epoch: 21, Pace: 1.9732}},
	}
	for i := range e.Truth.Course {
		e.Truth.Course[i].From = e.Truth.Course[i].From.Round(time.Microsecond)
		want[min(i, 2)].From = want[min(i, 2)].From.Round(time.Microsecond)
	}
	if !slices.Equal(e.Truth.Course, want) {
		t.Errorf("its course is %+v, want %+v", e.Truth.Course, want)
	}
	if h := e.Job.Hints; h.Epochs != 23 || h.Modes != [job.MaxModes]job.Mode{{Batch: 10, Pace: 1}, {Batch: 20, Pace: 1.434}, {Batch: 40, Pace: 1.9732}} {
		t.Errorf("it tells %d epochs with %v", h.Epochs, h.Modes)
	}
	static := entries(t, strings.Replace(lm, "gns", "static", 1))[0]
	if static.Truth.Course != nil || static.Job.Hints.Modes[0].Batch != 0 || static.Job.Hints.Epochs != 23 {
		t.Errorf("a job that never changes has the course %v", static.Truth.Course)
	}
}

// Norn's JSON Lines carry a course and what is told of it.
func TestCourseInJSON(t *testing.T) {
	all := entries(t, lm+strings.Replace(lm, "gns", "accordion", 1))
	var out bytes.Buffer
	if _, err := trace.WriteJSON(&out, trace.FromMemory(all)); err != nil {
		t.Fatal(err)
	}
	again := entries(t, out.String())
	for i := range all {
		if !slices.Equal(all[i].Truth.Course, again[i].Truth.Course) || *all[i].Job.Hints != *again[i].Job.Hints || len(all[i].Truth.Course) < 2 {
			t.Errorf("job %d comes back with %+v, %+v", i, again[i].Truth.Course, again[i].Job.Hints)
		}
	}
	for _, bad := range []string{
		`"course":[{"from":5,"batch":3}]`, `"course":[{"batch":3},{"from":9},{"from":9}]`, `"course":[{"batch":-1}]`, `"hints":{"modes":[[0,1]]}`,
		`"hints":{"modes":[[1,0]]}`, `"hints":{"modes":[[1,1],[2,1],[3,1],[4,1],[5,1],[6,1],[7,1]]}`, `"course":[{"pace":1e300}]`,
	} {
		r, err := trace.NewReader(strings.NewReader(`{"job":"a","gpus":1,"work":10,`+bad+"}\n"), "test", trace.Options{})
		var e trace.Entry
		if err == nil {
			err = r.Next(&e)
		}
		if err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
