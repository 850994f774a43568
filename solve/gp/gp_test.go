package gp

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestOneObservation: with one value y at x the mean elsewhere is k(x,z) / (k(x,x) + n) y
// and the variance k(z,z) - k(x,z)^2 / (k(x,x) + n).
func TestOneObservation(t *testing.T) {
	k := Kernel{Smooth: 2, Length: 0.5, Linear: 0.3, Noise: 0.1}
	points := [][]float64{{0}, {0.25}, {1}}
	p := New(k, points)
	p.Observe(0, 3)
	for i, z := range points {
		c, v := k.At(points[0], z), k.At(points[0], points[0])+k.Noise
		near(t, p.Mean(i), c/v*3)
		near(t, p.Deviation(i), math.Sqrt(k.At(z, z)-c*c/v))
	}
	near(t, fits(p), -9/(2*(2.3+0.1))-math.Log(2*math.Pi*2.4)/2)
}

// TestTwoObservations: the same from the inverse of the 2 x 2 matrix, written out.
func TestTwoObservations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := func(name string) float64 { return rapid.Float64Range(0, 1).Draw(t, name) }
		k := Kernel{Smooth: 1, Length: 0.1 + f("length"), Linear: f("linear"), Noise: 0.01 + f("noise")}
		points := [][]float64{{f("a"), f("a")}, {f("b"), f("b")}, {f("z"), f("z")}}
		y := [2]float64{f("ya"), f("yb")}
		p := New(k, points)
		p.Observe(0, y[0])
		p.Observe(1, y[1])
		a, b, c := k.At(points[0], points[0])+k.Noise, k.At(points[1], points[1])+k.Noise, k.At(points[0], points[1])
		det := a*b - c*c
		ka, kb := k.At(points[0], points[2]), k.At(points[1], points[2])
		near(t, p.Mean(2), (ka*(b*y[0]-c*y[1])+kb*(a*y[1]-c*y[0]))/det)
		near(t, p.Deviation(2), math.Sqrt(max(0, k.At(points[2], points[2])-(ka*(b*ka-c*kb)+kb*(a*kb-c*ka))/det)))
		near(t, fits(p), -(y[0]*(b*y[0]-c*y[1])+y[1]*(a*y[1]-c*y[0]))/(2*det)-math.Log(det)/2-math.Log(2*math.Pi))
	})
}

type fatal interface {
	Helper()
	Fatalf(string, ...any)
}

func near(t fatal, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-7*max(1, math.Abs(want)) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// TestLinear: with a linear kernel and next to no noise, two values of a line tell all
// of it.
func TestLinear(t *testing.T) {
	p := New(Kernel{Linear: 100, Noise: 1e-9}, [][]float64{{0}, {1}, {0.3}})
	p.Observe(0, 2)
	p.Observe(1, 5)
	if math.Abs(p.Mean(2)-2.9) > 1e-4 || p.Deviation(2) > 1e-3 {
		t.Errorf("%v, %v", p.Mean(2), p.Deviation(2))
	}
}

// TestBeta: the bound of the first round with delta 0.1 is sqrt(2 ln(pi^2 / 0.6)).
func TestBeta(t *testing.T) {
	near(t, Beta(1, 0.1), 2.36655251)
	if Beta(50, 0.1) <= Beta(2, 0.1) {
		t.Error("the bounds do not widen")
	}
}

func grid(n, dims int) (points [][]float64) {
	for i := range n {
		x := float64(i) / float64(n-1)
		if dims == 1 {
			points = append(points, []float64{x})
			continue
		}
		for k := range n {
			points = append(points, []float64{x, float64(k) / float64(n-1)})
		}
	}
	return points
}

// bowl is a paraboloid whose foot, of the value 1, lies anywhere, and its least value at
// the points.
func bowl(points [][]float64, low ...float64) (f func(i int) float64, least float64) {
	f = func(i int) float64 {
		v := 1.0
		for d, x := range points[i] {
			v += (x - low[d]) * (x - low[d])
		}
		return v
	}
	least = math.Inf(1)
	for i := range points {
		least = min(least, f(i))
	}
	return f, least
}

// TestLeast: the search of bowls of one and two dimensions ends within its rounds, never
// above the value it began with; with the patience to ask for all it finds the least.
func TestLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.IntRange(1, 2).Draw(t, "dimensions")
		points := grid(map[int]int{1: 33, 2: 9}[dims], dims)
		f, least := bowl(points, rapid.Float64Range(0, 1).Draw(t, "x"), rapid.Float64Range(0, 1).Draw(t, "y"))
		start := rapid.IntRange(0, len(points)-1).Draw(t, "start")
		seen := leastOf(&Search{Kernel: Smooth(), Points: points}, []Seen{{start, f(start)}}, f)
		best := Best(seen).Value
		if len(seen) > Rounds+1 || best > f(start) || best < least {
			t.Fatalf("%d rounds, from %v to %v, the least is %v", len(seen), f(start), best, least)
		}
		seen = leastOf(&Search{Kernel: Smooth(), Points: points, Rounds: len(points), Patience: len(points)}, seen, f)
		if got := Best(seen).Value; len(seen) != len(points) || got != least {
			t.Fatalf("found %v of %d points, the least is %v", got, len(seen), least)
		}
	})
}

// TestLeastIsNear: the search ends when ten rounds have brought nothing, which may be too
// early. It always finds the least value on a line. On a square, of whose 81 points it asks
// for ASK in the mean, about one search in 90 ends more than 2 % above it, and none 5 %.
func TestLeastIsNear(t *testing.T) {
	for _, c := range []struct {
		n, dims, step int
		far           float64 // part of the searches that may end more than 2 % above
	}{{33, 1, 1, 0}, {9, 2, 4, 0.015}} {
		points := grid(c.n, c.dims)
		n, far, asked := 0, 0, 0
		for x := 0; x <= 32; x += c.step {
			for y := 0; y <= 32*(c.dims-1); y += c.step {
				f, least := bowl(points, float64(x)/32, float64(y)/32)
				for start := 0; start < len(points); start += c.step {
					seen := leastOf(&Search{Kernel: Smooth(), Points: points}, []Seen{{start, f(start)}}, f)
					got := Best(seen).Value
					asked += len(seen)
					if got > 1.05*least {
						t.Errorf("%d, %d from %d: found %v, the least is %v", x, y, start, got, least)
					}
					if n++; got > 1.02*least {
						far++
					}
				}
			}
		}
		t.Logf("%d dimensions: %d of %d searches end 2 %% above the least; %.1f points", c.dims, far, n, float64(asked)/float64(n))
		if float64(far) > c.far*float64(n) {
			t.Errorf("%d dimensions: %d of %d searches end 2 %% above the least", c.dims, far, n)
		}
	}
}

// fits is the logarithm of how likely the observations were under the kernel.
func fits(p *Process) float64 {
	sum := 0.0
	for i, at := range p.seen {
		before := p.kernel.At(p.points[at], p.points[at])
		for _, r := range p.rows[:i] {
			before -= r[at] * r[at]
		}
		v := max(0, before) + p.kernel.Noise
		sum -= p.left[i]*p.left[i]/2 + math.Log(2*math.Pi*v)/2
	}
	return sum
}

// leastOf measures a function until Next has enough, beginning with the values that were
// seen, and returns all that was seen. The function is asked for the value at a point.
func leastOf(s *Search, seen []Seen, measure func(point int) float64) []Seen {
	for {
		i, ok := s.Next(seen)
		if !ok {
			return seen
		}
		seen = append(seen, Seen{i, measure(i)})
	}
}
