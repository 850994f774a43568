package gen

import (
	"cmp"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// The drawn values are near the measured ones, in each quarter of the
// distributions and in the dependence between resources (Spearman's rank
// correlation).
func TestUseIsNearThatMeasured(t *testing.T) {
	rows := shared.Rows(t, "data/lucid/single_data.csv")
	var measured, drawn [3][]float64
	for _, row := range rows[1:] {
		for i, scale := range []float64{100, 100, 1024} {
			v, err := strconv.ParseFloat(row[5+i], 64)
			if err != nil {
				t.Fatal(err)
			}
			measured[i] = append(measured[i], v/scale)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		use, bandwidth, memory := drawUse(rng)
		drawn[0], drawn[1], drawn[2] = append(drawn[0], use), append(drawn[1], bandwidth), append(drawn[2], float64(memory)/float64(unit.GiB))
	}
	for i, near := range []float64{0.05, 0.05, 0.6} {
		a, b := slices.Sorted(slices.Values(measured[i])), slices.Sorted(slices.Values(drawn[i]))
		for _, q := range []float64{0.25, 0.5, 0.75} {
			if x, y := a[int(q*float64(len(a)))], b[int(q*float64(len(b)))]; math.Abs(x-y) > near {
				t.Errorf("figure %d at %v: %v was measured, %v is drawn", i, q, x, y)
			}
		}
	}
	for _, pair := range [][2]int{{0, 1}, {0, 2}} {
		x, y := spearman(measured[pair[0]], measured[pair[1]]), spearman(drawn[pair[0]], drawn[pair[1]])
		if math.Abs(x-y) > 0.1 {
			t.Errorf("figures %v go together by %.2f as measured, by %.2f as drawn", pair, x, y)
		}
	}
}

// spearman is the rank correlation.
func spearman(a, b []float64) float64 {
	rank := func(x []float64) []float64 {
		order := make([]int, len(x))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(x[i], x[j]) })
		out := make([]float64, len(x))
		for r, i := range order {
			out[i] = float64(r)
		}
		return out
	}
	ra, rb := rank(a), rank(b)
	mean := float64(len(a)-1) / 2
	var ab, aa, bb float64
	for i := range ra {
		x, y := ra[i]-mean, rb[i]-mean
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

// Jobs that tell what they use keep it, and jobs without GPUs are given nothing.
func TestAssumedUse(t *testing.T) {
	n := 0
	a := &AssumedUse{Seed: 1, Source: entries(func(e *trace.Entry) error {
		if n++; n > 100 {
			return io.EOF
		}
		d := job.GPUs(1)
		e.Job = job.Job{ID: job.ID(n), Demand: &d}
		switch n {
		case 1:
			e.Job.Hints = &job.Hints{GPUUse: 0.123}
		case 2:
			d.Roles[0].GPU = 0
		case 3:
			e.Job.Hints = &job.Hints{GPUMemory: unit.MiB}
		}
		return nil
	})}
	var e trace.Entry
	for a.Next(&e) == nil {
		h := e.Job.Hints
		switch {
		case n == 1 && (h.GPUUse != 0.123 || h.GPUMemory != 0), n == 2 && h != nil, n == 3 && (h.GPUMemory != unit.MiB || h.GPUUse == 0):
			t.Errorf("job %d: %+v", n, h)
		case n > 3 && (h.GPUUse <= 0 || h.GPUUse > 1 || h.MemoryUse < 0 || h.MemoryUse > 1 || h.GPUMemory < 2*unit.GiB):
			t.Errorf("job %d: %+v", n, h)
		}
	}
	if a.Jobs != 98 {
		t.Errorf("%d jobs were given something", a.Jobs)
	}
}
