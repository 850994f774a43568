package perf_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// TestCompleteTwin: a sort with few measurements, all of them as of another
// sort, is taken for that one. This holds beside references and beside another
// newcomer. Measured pairs stay, and a sort without measurements stays unknown.
func TestCompleteTwin(t *testing.T) {
	heavy := []float64{0.9, 0.8, 0.7, 0.5, 0.3}
	p := perf.Pairs{Speed: map[perf.Pair]float64{}}
	name := func(i int) string { return fmt.Sprint("s", i) }
	for a, x := range heavy {
		for b, y := range heavy {
			p.Speed[perf.Pair{Job: name(a), Beside: name(b), Type: "v"}] = 1 - (1-x)*(1-y)
		}
	}
	at := func(a, b string) float64 { return p.Speed[perf.Pair{Job: a, Beside: b, Type: "v"}] }
	for _, b := range []string{"s0", "s2"} { // the new one is as s4
		p.Speed[perf.Pair{Job: "new", Beside: b, Type: "v"}] = at("s4", b)
	}
	p.Speed[perf.Pair{Job: "other", Beside: "s1", Type: "v"}] = at("s0", "s1")
	p.Speed[perf.Pair{Job: "other", Beside: "s3", Type: "v"}] = at("s0", "s3")
	got := perf.Complete(p)
	for pair, s := range p.Speed {
		if got.Speed[pair] != s {
			t.Errorf("%v was measured at %v and is now %v", pair, s, got.Speed[pair])
		}
	}
	for _, k := range []struct {
		job, beside string
		want        float64
	}{{"new", "s3", at("s4", "s3")}, {"s3", "new", at("s3", "s4")}, {"new", "other", at("s4", "s0")}, {"new", "new", at("s4", "s4")}} {
		if s := got.Speed[perf.Pair{Job: k.job, Beside: k.beside, Type: "v"}]; s != k.want {
			t.Errorf("%s beside %s is estimated at %v, want %v", k.job, k.beside, s, k.want)
		}
	}
	if _, ok := got.Speed[perf.Pair{Job: "stranger", Beside: "s0", Type: "v"}]; ok {
		t.Error("something is known of a stranger")
	}
	if none := perf.Complete(perf.Pairs{}); len(none.Speed) != 0 {
		t.Errorf("an empty table has %d pairs", len(none.Speed))
	}
}

// TestCompleteMeasured leaves one sort after the other out of the table that Gavel
// published, but for a part of its pairs with the others, and estimates the rest.
func TestCompleteMeasured(t *testing.T) {
	measured, err := trace.ReadPairs(shared.Path(t, "data/gavel/simulation_throughputs.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	truth := measured.Table.Speed
	last := math.Inf(1)
	for _, part := range []float64{0.1, 0.4, 0.8} {
		off, flat, right, n := 0.0, 0.0, 0, 0
		for _, one := range measured.Models {
			r := rand.New(rand.NewPCG(7, uint64(100*part)))
			p := perf.Pairs{Speed: map[perf.Pair]float64{}}
			for _, a := range measured.Models {
				for _, b := range measured.Models {
					for _, typ := range []string{"v100", "p100", "k80"} {
						ab, ba := perf.Pair{Job: a.Name(), Beside: b.Name(), Type: typ}, perf.Pair{Job: b.Name(), Beside: a.Name(), Type: typ}
						mine := a.Name() == one.Name() || b.Name() == one.Name()
						if _, ok := truth[ab]; ok && (!mine || a.Name() < b.Name() && r.Float64() < part) {
							p.Speed[ab], p.Speed[ba] = truth[ab], truth[ba] // both are seen at once
						}
					}
				}
			}
			mean := 0.0
			for _, s := range p.Speed {
				mean += s / float64(len(p.Speed))
			}
			got := perf.Complete(p)
			for pair, s := range truth {
				if _, known := p.Speed[pair]; known || pair.Job != one.Name() {
					continue
				}
				back := perf.Pair{Job: pair.Beside, Beside: pair.Job, Type: pair.Type}
				guess, ok := got.Speed[pair]
				if !ok {
					continue // nothing of it was measured
				}
				off += math.Abs(guess - s)
				flat += math.Abs(mean - s)
				if (s+truth[back] > 1) == (guess+got.Speed[back] > 1) {
					right++
				}
				n++
			}
		}
		off, flat = off/float64(n), flat/float64(n)
		t.Logf("%2.0f %% measured: off by %.3f of the speed alone (the mean of all: %.3f); whether to share is right in %.1f %% of %d", 100*part, off, flat, 100*float64(right)/float64(n), n)
		if off > 0.6*flat || off > last+0.01 || float64(right) < 0.8*float64(n) {
			t.Errorf("with %v measured estimates are off by %v, the mean of all pairs by %v, and right in %d of %d", part, off, flat, right, n)
		}
		last = off
	}
}
