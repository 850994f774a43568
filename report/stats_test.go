package report

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func seconds(vs ...float64) []time.Duration {
	out := make([]time.Duration, len(vs))
	for i, v := range vs {
		out[i] = time.Duration(math.Round(v * 1e9))
	}
	return out
}

// TestQuantiles compares with what numpy.quantile says of the same values.
func TestQuantiles(t *testing.T) {
	for _, c := range []struct {
		values            []float64
		mean              float64
		p50, p90, p99, mx float64
	}{
		{[]float64{7}, 7, 7, 7, 7, 7},
		{[]float64{1, 2}, 1.5, 1.5, 1.9, 1.99, 2},
		{[]float64{4, 1, 3, 2}, 2.5, 2.5, 3.7, 3.97, 4},
		{[]float64{15, 20, 35, 40, 50}, 32, 35, 46, 49.6, 50},
		{[]float64{3, 6, 7, 8, 8, 10, 13, 15, 16, 20}, 10.6, 9, 16.4, 19.64, 20},
		{[]float64{0, 0, 0, 100}, 25, 0, 70, 97, 100},
	} {
		s := describe(seconds(c.values...))
		want := Stats{len(c.values), seconds(c.mean)[0], seconds(c.p50)[0], seconds(c.p90)[0], seconds(c.p99)[0], seconds(c.mx)[0]}
		if s != want {
			t.Errorf("%v: %+v, want %+v", c.values, s, want)
		}
	}
	hundred := make([]time.Duration, 101)
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * time.Second
	}
	if s := describe(hundred); s.Median != 50*time.Second || s.P90 != 90*time.Second || s.P99 != 99*time.Second {
		t.Errorf("0 to 100: %+v", s)
	}
	if s := describe(nil); s != (Stats{}) {
		t.Errorf("nothing: %+v", s)
	}
}

// TestQuantilesAgainstSorting compares the selection with sorting.
func TestQuantilesAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		most := rapid.Int64Range(1, 1<<40).Draw(t, "most")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		xs := make([]time.Duration, n)
		for i := range xs {
			xs[i] = time.Duration(r.Int64N(most))
		}
		sorted := slices.Clone(xs)
		slices.Sort(sorted)
		at := func(p float64) time.Duration {
			place := float64(n-1) * p
			k := int(place)
			if k+1 == n {
				return sorted[k]
			}
			return sorted[k] + time.Duration(math.Round(float64(sorted[k+1]-sorted[k])*(place-float64(k))))
		}
		s := describe(xs)
		if s.Median != at(0.5) || s.P90 != at(0.9) || s.P99 != at(0.99) || s.Max != sorted[n-1] {
			t.Fatalf("%+v, want %v %v %v %v", s, at(0.5), at(0.9), at(0.99), sorted[n-1])
		}
		slices.Sort(xs)
		if !slices.Equal(xs, sorted) {
			t.Fatal("describe changed the values")
		}
	})
}

// TestMeanIsExact sums what no 64-bit number holds.
func TestMeanIsExact(t *testing.T) {
	var sum total
	for range 100 {
		sum.add(math.MaxInt64)
	}
	if m := sum.mean(100); m != math.MaxInt64 {
		t.Errorf("mean %d", m)
	}
	if m := (total{}).mean(0); m != 0 {
		t.Errorf("mean of nothing: %v", m)
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want float64
	}{
		{[]float64{1, 1, 1, 1}, 1},
		{[]float64{1, 0, 0, 0}, 0.25},
		{[]float64{3, 1}, 0.8},
		{[]float64{1, 2, 3}, 36.0 / 42},
		{nil, 1},
		{[]float64{0, 0}, 1},
	} {
		if got := jain(c.xs); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.xs, got, c.want)
		}
	}
}

func TestStatsJSON(t *testing.T) {
	b, err := json.Marshal([]Stats{{}, {N: 1, Mean: 1500 * time.Millisecond, Max: time.Second}})
	if err != nil || string(b) != `[null,{"mean":1.5,"median":0,"p90":0,"p99":0,"max":1}]` {
		t.Errorf("%s %v", b, err)
	}
}

// TestSeries compares a series with the curve that it was told, however often
// its buckets were joined.
func TestSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSeries()
		now := time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "start"))
		begin := now
		var sum, seconds, most float64
		least := math.Inf(1)
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]int64 {
			return [2]int64{rapid.Int64Range(0, 1<<rapid.IntRange(10, 45).Draw(t, "scale")).Draw(t, "dt"), rapid.Int64Range(0, 100).Draw(t, "v")}
		}), 1, 60).Draw(t, "steps")
		for _, step := range steps {
			v, dt := float64(step[1]), time.Duration(step[0])
			s.set(level{used: v / 100, queue: v, gpus: gpus{idle: v}})
			s.advance(now, now+dt)
			now += dt
			if dt > 0 {
				sum += v * dt.Seconds()
				seconds += dt.Seconds()
				most, least = max(most, v), min(least, v)
			}
		}
		if len(s.buckets) > points {
			t.Fatalf("%d buckets", len(s.buckets))
		}
		var got, told, high float64
		low := math.Inf(1)
		for _, b := range s.buckets {
			got += b.queue.sum
			told += b.seconds
			if b.seconds > 0 {
				high, low = max(high, b.queue.max), min(low, b.queue.min)
			}
			if math.Abs(b.used.sum*100-b.queue.sum) > 1e-6*max(1, b.queue.sum) {
				t.Fatalf("%+v", b)
			}
		}
		if seconds == 0 {
			return
		}
		if math.Abs(got-sum) > 1e-6*max(1, sum) || math.Abs(told-seconds) > 1e-6*seconds || high != most || low != least {
			t.Fatalf("integral %v over %v s from %v to %v, want %v over %v s from %v to %v", got, told, low, high, sum, seconds, least, most)
		}
		if end := s.start + time.Duration(len(s.buckets))*s.width; s.start != begin || end < now || end-s.width > now {
			t.Fatalf("from %v to %v, want %v to %v", s.start, end, begin, now)
		}
	})
}

func TestCurves(t *testing.T) {
	var c counts
	if _, _, ok := c.within(); ok {
		t.Error("nothing lies within something")
	}
	values := []float64{0, 0.5, 1, 1, 10, 1e12}
	for _, v := range values {
		c.add(v, secondsGrid[:])
	}
	first, last, ok := c.within()
	if !ok || first != 0 || last != gridPoints-1 {
		t.Fatalf("from %d to %d", first, last)
	}
	shares := c.shares(first, last)
	for i, x := range secondsGrid[first : last+1] {
		want := 0.0
		for _, v := range values {
			if v <= x {
				want += 1.0 / float64(len(values))
			}
		}
		if math.Abs(shares[i]-want) > 1e-5 {
			t.Fatalf("share up to %v is %v, want %v", x, shares[i], want)
		}
	}
	if shares[3*perDecade] != 0.66667 {
		t.Errorf("%v of the values are at most 1 second, want 4 of 6", shares[3*perDecade])
	}
}
