package gen

import (
	"io"
	"testing"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// entries makes one entry after the other.
type entries func(*trace.Entry) error

func (f entries) Next(e *trace.Entry) error { return f(e) }

// Jobs that tell no model are each given a measured one, all about equally often and the
// same again with the same seed; what a job tells is left as it is.
func TestAssumedModels(t *testing.T) {
	models := []trace.Profile{{Model: "a", GPUUse: 0.5, GPUMemory: unit.GiB}, {Model: "b", Dataset: "d", Batch: 32, Mixed: true}}
	draw := func(seed uint64) (drawn []string) {
		n := 0
		src := entries(func(e *trace.Entry) error {
			if n++; n > 1000 {
				return io.EOF
			}
			d := job.GPUs(1)
			e.Job = job.Job{ID: job.ID(n), Demand: &d}
			switch {
			case n == 1:
				e.Job.Model = "mine"
			case n == 2:
				d.Roles[0].GPU = 500
			case n == 3:
				e.Job.Hints = &job.Hints{GPUUse: 0.25, GPUMemory: 2 * unit.GiB}
			}
			return nil
		})
		a := &AssumedModels{Source: src, Seed: seed, Models: models}
		var e trace.Entry
		for a.Next(&e) == nil {
			drawn = append(drawn, e.Job.Model)
			if h := e.Job.Hints; e.Job.ID == 3 && (h.GPUUse != 0.25 || h.GPUMemory != 2*unit.GiB) {
				t.Errorf("what the job told is gone: %+v", h)
			}
		}
		if a.Jobs != 998 {
			t.Errorf("%d jobs were given something", a.Jobs)
		}
		return drawn
	}
	first, again, other := draw(1), draw(1), draw(2)
	count, same := map[string]int{}, 0
	for i, m := range first {
		count[m]++
		if m != again[i] {
			t.Fatalf("job %d: %s, then %s", i, m, again[i])
		}
		if m == other[i] {
			same++
		}
	}
	if count["mine"] != 1 || count[""] != 1 || count["a"] < 440 || count["a"] > 560 || same > 600 {
		t.Errorf("%v, %d as with another seed", count, same)
	}
}
