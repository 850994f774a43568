package shockwave_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/shockwave"
	"github.com/norn-scheduler/norn/internal/shared"
)

// TestGolden: the 120 jobs of the TACC trace on 32 GPUs with the parameters of the
// authors: makespan, mean JCT and worst finish-time fairness are within 3 % of the
// result that they ship.
func TestGolden(t *testing.T) {
	o, err := shockwave.Run(context.Background(), shared.Path(t, "golden/inputs/shockwave_tacc120.trace.gz"), shared.Path(t, "data/shockwave/tacc_throughputs.json.gz"), 32, shockwave.Authors(32))
	if err != nil {
		t.Fatal(err)
	}
	sum, unfair := 0.0, 0
	for i, r := range o.Result.Rows {
		sum += r.JCT()
		if o.Rho[i] > 1.1 {
			unfair++
		}
	}
	shipped := read(t, "golden/shockwave/tacc120-shockwave-authors_shipped.csv")
	mean, worst := 0.0, 0.0
	for _, row := range shipped {
		mean += row["jct"] / float64(len(shipped))
		worst = max(worst, row["ftf"])
	}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"makespan", o.Makespan, 24197.424},
		{"mean JCT", sum / float64(len(o.Rho)), mean},
		{"worst rho", slices.Max(o.Rho), worst},
	} {
		t.Logf("%s %.4g, the authors have %.4g: %+.2f %%", c.what, c.got, c.want, 100*(c.got/c.want-1))
		if math.Abs(c.got/c.want-1) > 0.03 {
			t.Errorf("%s is %v, the authors have %v", c.what, c.got, c.want)
		}
	}
	// Of the baselines the best has 33208 s under max-min, and 17.5 % of jobs above 1.1.
	if o.Makespan*1.2 > 33208 || float64(unfair)/120 > 0.175/2 {
		t.Errorf("makespan %v, %d jobs above 1.1", o.Makespan, unfair)
	}
	t.Logf("%d rounds, %d jobs above 1.1", o.Rounds, unfair)
}

// read reads a result of numbers.
func read(t *testing.T, path string) (rows []map[string]float64) {
	t.Helper()
	lines := shared.Rows(t, path)
	for _, line := range lines[1:] {
		row := map[string]float64{}
		for i, name := range lines[0] {
			v, err := strconv.ParseFloat(line[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			row[name] = v
		}
		rows = append(rows, row)
	}
	return rows
}
