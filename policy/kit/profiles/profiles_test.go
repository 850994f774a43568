package profiles

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

func reading(gpu, bandwidth float64, memory unit.Bytes) *perf.Reading {
	m := &perf.Reading{When: perf.InRun, Setup: perf.Setup{Tasks: 1}}
	m.Add(perf.GPUUse, gpu)
	m.Add(perf.MemoryUse, bandwidth)
	m.Add(perf.GPUMemory, float64(memory))
	return m
}

// The belief about a job is what was measured of it; else what was measured of jobs alike, if
// that was nearly the same each time; else what its user tells, where that counts.
func TestBook(t *testing.T) {
	told := &job.Hints{GPUUse: 0.9, GPUMemory: unit.GiB}
	a, b := &job.Job{ID: 1, Model: "bert", Hints: told}, &job.Job{ID: 2, Model: "bert", Hints: told}
	other := &job.Job{ID: 3, User: "u", Name: "train-17", Hints: told}
	var book Book
	if _, _, ok := book.Of(a); ok {
		t.Error("something is believed before anything was measured")
	}
	if !book.Observe(a, reading(0.5, 0.2, 3*unit.GiB)) || !book.Observe(a, reading(0.54, 0.2, 4*unit.GiB)) {
		t.Error("a measurement alone tells nothing")
	}
	u, from, ok := book.Of(a)
	if math.Abs(u.GPU-0.52) > 1e-9 || math.Abs(u.Bandwidth-0.2) > 1e-9 || u.Memory != 4*unit.GiB || !ok || from.String() != "as 2 measurements of it tell" {
		t.Errorf("of the job itself: %+v, %v, %v", u, from, ok)
	}
	if like, from, ok := book.Of(b); like != u || !ok || from.String() != "as 2 measurements of jobs alike tell" {
		t.Errorf("of a job like it: %+v, %v, %v", like, from, ok)
	}
	if _, n := book.Own(b); n != 0 || book.All()[0] != 1 || len(book.All()) != 1 {
		t.Errorf("the job like it was measured %d times, measured were %v", n, book.All())
	}
	book.Observe(b, reading(0.7, 0.2, unit.GiB))
	if _, _, ok := book.Of(&job.Job{ID: 4, Model: "bert", Hints: told}); ok {
		t.Error("jobs that are not alike after all tell of another one")
	}
	beside := reading(0.1, 0.1, unit.GiB)
	beside.Setup.Beside = []string{"bert"}
	if book.Observe(other, beside) || book.Observe(other, &perf.Reading{}) {
		t.Error("a measurement beside others tells of the use alone")
	}
	book.Told = true
	if u, from, ok := book.Of(other); !ok || u.GPU != 0.9 || u.Memory != unit.GiB || from.String() != "as its user tells" {
		t.Errorf("of what its user tells: %+v, %v, %v", u, from, ok)
	}
	book.Observe(other, reading(0.3, 0.1, 0))
	book.Observe(other, reading(0.3, 0.1, 0))
	if u, _, ok := book.Of(&job.Job{ID: 9, User: "u", Name: "train-18"}); !ok || u.GPU != 0.3 {
		t.Errorf("of a job with a name like its: %+v, %v", u, ok)
	}
}
