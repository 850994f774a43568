package cassini_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/policy/cassini"
)

const ms = time.Millisecond

// gbit is Gbit/s in GB/s.
const gbit = 0.125

// circle sends 40 Gbit/s, or what is given, up to some time of its period.
func circle(period, up time.Duration, gbps ...float64) cassini.Circle {
	speed := 40.0
	if len(gbps) > 0 {
		speed = gbps[0]
	}
	return cassini.Circle{Period: period, Arcs: []cassini.Arc{{From: 0, To: up, GBps: speed * gbit}}}
}

// TestScores: acceptance A, B and D of the specification, on a link of 50 Gbit/s.
func TestScores(t *testing.T) {
	for _, k := range []struct {
		name    string
		circles []cassini.Circle
		shifts  []time.Duration
		want    float64
	}{
		{"A, both at once", []cassini.Circle{circle(100*ms, 50*ms), circle(100*ms, 50*ms)}, []time.Duration{0, 0}, 0.70},
		{"A, a quarter later", []cassini.Circle{circle(100*ms, 50*ms), circle(100*ms, 50*ms)}, []time.Duration{0, 25 * ms}, 0.85},
		{"A, half later", []cassini.Circle{circle(100*ms, 50*ms), circle(100*ms, 50*ms)}, []time.Duration{0, 50 * ms}, 1},
		{"B, at once", []cassini.Circle{circle(100*ms, 60*ms), circle(100*ms, 60*ms)}, []time.Duration{0, 0}, 0.64},
		{"B, the best from", []cassini.Circle{circle(100*ms, 60*ms), circle(100*ms, 60*ms)}, []time.Duration{0, 40 * ms}, 0.88},
		{"B, to", []cassini.Circle{circle(100*ms, 60*ms), circle(100*ms, 60*ms)}, []time.Duration{0, 60 * ms}, 0.88},
		{"B, beyond", []cassini.Circle{circle(100*ms, 60*ms), circle(100*ms, 60*ms)}, []time.Duration{0, 65 * ms}, 0.85},
		{"C, at once", []cassini.Circle{circle(40*ms, 10*ms), circle(60*ms, 10*ms)}, []time.Duration{0, 0}, 0.95},
		{"D", []cassini.Circle{circle(100*ms, 60*ms, 60), circle(100*ms, 60*ms, 60), circle(100*ms, 60*ms, 60)}, []time.Duration{0, 0, 0}, -0.56},
		{"all the time", []cassini.Circle{circle(100*ms, 100*ms), circle(100*ms, 50*ms)}, []time.Duration{0, 30 * ms}, 0.70},
	} {
		if got := cassini.NewLink(50*gbit, k.circles).Score(k.shifts); math.Abs(got-k.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", k.name, got, k.want)
		}
	}
}

// TestFit: acceptance A to C: the best shifts, the smallest of equal ones.
func TestFit(t *testing.T) {
	for _, k := range []struct {
		name    string
		circles []cassini.Circle
		want    float64
		shift   time.Duration
	}{
		{"A", []cassini.Circle{circle(100*ms, 50*ms), circle(100*ms, 50*ms)}, 1, 50 * ms},
		{"B", []cassini.Circle{circle(100*ms, 60*ms), circle(100*ms, 60*ms)}, 0.88, 100 * ms * 29 / 72}, // the first angle from 40 ms on
		{"C", []cassini.Circle{circle(40*ms, 10*ms), circle(60*ms, 10*ms)}, 1, 10 * ms},
		{"C, 20 ms", []cassini.Circle{circle(40*ms, 20*ms), circle(60*ms, 10*ms)}, 0.95, 0},
	} {
		score, shifts := cassini.NewLink(50*gbit, k.circles).Fit(5)
		if math.Abs(score-k.want) > 1e-9 || shifts[0] != 0 || shifts[1] != k.shift {
			t.Errorf("%s: %v at %v, want %v at %v", k.name, score, shifts, k.want, k.shift)
		}
	}
	// every shift of C with 20 ms is as good
	l := cassini.NewLink(50*gbit, []cassini.Circle{circle(40*ms, 20*ms), circle(60*ms, 10*ms)})
	for at := time.Duration(0); at < 60*ms; at += ms {
		if got := l.Score([]time.Duration{0, at}); math.Abs(got-0.95) > 1e-9 {
			t.Errorf("at %v: %v", at, got)
		}
	}
	// three and four jobs that send for a third and a quarter of their time
	for n, up := range map[int]time.Duration{3: 40 * ms, 4: 30 * ms} {
		var circles []cassini.Circle
		for range n {
			circles = append(circles, circle(120*ms, up))
		}
		if score, shifts := cassini.NewLink(50*gbit, circles).Fit(5); score < 1-1e-9 {
			t.Errorf("%d jobs: %v at %v", n, score, shifts)
		}
	}
}

// TestAnyhow: jobs whose periods have no common multiple below 10 s meet at every angle. The score is the mean over
// them, and no shift is told.
func TestAnyhow(t *testing.T) {
	l := cassini.NewLink(50*gbit, []cassini.Circle{circle(997*ms, 500*ms), circle(991*ms, 400*ms)})
	score, shifts := l.Fit(5)
	want := 1 - 500./997*400/991*30/50
	if l.Unified() || math.Abs(score-want) > 1e-6 || shifts[1] != 0 {
		t.Errorf("%v at %v, want %v", score, shifts, want)
	}
}

// TestFitIsBest: no other angle is better for two jobs, a job alone that the link can carry fits, and rotating all
// jobs by as much changes nothing.
func TestFitIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		periods := []time.Duration{40 * ms, 60 * ms, 100 * ms, 120 * ms}
		var circles []cassini.Circle
		for range rapid.IntRange(1, 5).Draw(t, "jobs") {
			p := rapid.SampledFrom(periods).Draw(t, "period")
			from := time.Duration(rapid.IntRange(0, 19).Draw(t, "from")) * p / 20
			to := from + time.Duration(rapid.IntRange(1, 20-int(from*20/p)).Draw(t, "for"))*p/20
			circles = append(circles, cassini.Circle{Period: p, Arcs: []cassini.Arc{{From: from, To: to, GBps: rapid.Float64Range(1, 80).Draw(t, "Gbit/s") * gbit}}})
		}
		l := cassini.NewLink(50*gbit, circles)
		score, shifts := l.Fit(5)
		if got := l.Score(shifts); math.Abs(got-score) > 1e-9 {
			t.Fatalf("score %v, but %v at %v", score, got, shifts)
		}
		moved := make([]time.Duration, len(shifts))
		by := time.Duration(rapid.IntRange(0, 600).Draw(t, "by")) * ms
		for i, s := range shifts {
			if s < 0 || s >= circles[i].Period {
				t.Fatalf("shift %v of a period of %v", s, circles[i].Period)
			}
			moved[i] = s + by
		}
		if got := l.Score(moved); math.Abs(got-score) > 1e-9 {
			t.Fatalf("score %v, but %v rotated by %v", score, got, by)
		}
		other := make([]time.Duration, len(shifts))
		for i := range other {
			other[i] = circles[i].Period * time.Duration(rapid.IntRange(0, 71).Draw(t, "other")) / 72
		}
		other[0] = 0
		if got := l.Score(other); len(circles) <= 3 && got > score+1e-6 {
			t.Fatalf("score %v at %v, but %v at %v", score, shifts, got, other)
		}
	})
}
