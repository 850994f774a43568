package gen

import (
	"bytes"
	"fmt"
	"sort"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen/internal/logs"
)

func TestRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		time.Second: 5 * time.Minute, 5 * time.Minute: 5 * time.Minute, 5*time.Minute + 1: 10 * time.Minute,
		13 * time.Hour: 18 * time.Hour, 300 * 24 * time.Hour: 365 * 24 * time.Hour, 400 * 24 * time.Hour: 400 * 24 * time.Hour,
	} {
		if got := roundUp(d); got != want {
			t.Errorf("%v is rounded up to %v instead of %v", d, got, want)
		}
	}
}

// TestEstimates holds what users say against the wall times that those of
// ThetaGPU asked for: run time over time asked for, of jobs of a minute and
// more that ended before their limit.
func TestEstimates(t *testing.T) {
	data := shared.Path(t, "data")
	ran, asked, err := logs.ThetaGPU(data)
	if err != nil {
		t.Fatal(err)
	}
	var real []float64
	for i := range ran {
		if ran[i] >= 60 && ran[i] < asked[i] {
			real = append(real, ran[i]/asked[i])
		}
	}
	var w bytes.Buffer
	fmt.Fprintln(&w, "| | p10 | p25 | p50 | p75 | p90 |\n|---|--:|--:|--:|--:|--:|")
	line := func(name string, ratios []float64) float64 {
		sort.Float64s(ratios)
		fmt.Fprintf(&w, "| %s |", name)
		for _, p := range []float64{.1, .25, .5, .75, .9} {
			fmt.Fprintf(&w, " %.3f |", ratios[int(p*float64(len(ratios)-1))])
		}
		fmt.Fprintln(&w)
		return ratios[len(ratios)/2]
	}
	want := line("ThetaGPU", real)
	for l := range likes {
		var ratios []float64
		each(t, Options{Like: l, Jobs: 50_000, Seed: 1}, func(e *trace.Entry) {
			if run := e.Truth.Total(); run >= time.Minute {
				ratios = append(ratios, run.Seconds()/e.Job.Estimate.Seconds())
			}
		})
		if got := line(l.String(), ratios); got < want/4 || got > want*4 {
			t.Errorf("%v: half of the jobs run for %.3f of what their users say, on ThetaGPU %.3f", l, got, want)
		}
	}
	fmt.Fprintln(&w)
	document(t, "estimates", w.String())
}
