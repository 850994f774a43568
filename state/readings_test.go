package state

import (
	"testing"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// TestReadingsKept: a job keeps its first reading and its latest ones, in order, whatever
// others are measured in between.
func TestReadingsKept(t *testing.T) {
	var r Readings
	add := func(id job.ID, x float64) {
		m := &perf.Reading{When: perf.InRun}
		m.Add(perf.Rate, x)
		if err := r.Add(id, m); err != nil {
			t.Fatal(err)
		}
	}
	const n = 5 * perf.MostReadings
	for i := range n {
		add(0, float64(i))
		if i%10 == 0 {
			add(1, float64(i))
		}
		if len(r.all) > 4*perf.MostReadings+2 {
			t.Fatalf("after %d readings %d are in memory", i, len(r.all))
		}
	}
	var kept [2][]float64
	for _, m := range r.All() {
		x, _ := m.Figure(perf.Rate)
		kept[m.Job] = append(kept[m.Job], x)
	}
	if len(kept[0]) != perf.MostReadings || kept[0][0] != 0 || len(kept[1]) != n/10 {
		t.Fatalf("kept %v", kept)
	}
	for i, x := range kept[0][1:] {
		if want := float64(n - perf.MostReadings + 1 + i); x != want {
			t.Errorf("reading %d is %v, want %v", i+1, x, want)
		}
	}
}
