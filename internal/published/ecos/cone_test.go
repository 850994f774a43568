package ecos

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The point of a disc that is farthest out, and the smallest 1/x by the cone that
// stands for it: |(x-t, 2)| <= x+t.
func TestCones(t *testing.T) {
	x, err := Solve([]float64{-1, -1}, []Row{{Limit: 5}, {Index: []int{0}, Value: []float64{-1}}, {Index: []int{1}, Value: []float64{-1}}}, 3)
	if want := 5 / math.Sqrt2; err != nil || math.Abs(x[0]-want) > 1e-6 || math.Abs(x[1]-want) > 1e-6 {
		t.Errorf("%v, %v", x, err)
	}
	x, err = Solve([]float64{0, 1}, []Row{
		{Index: []int{0}, Value: []float64{1}, Limit: 4},
		{Index: []int{0, 1}, Value: []float64{-1, -1}}, {Index: []int{0, 1}, Value: []float64{-1, 1}}, {Limit: 2},
	}, 3)
	if err != nil || math.Abs(x[0]-4) > 1e-5 || math.Abs(x[1]-0.25) > 1e-6 {
		t.Errorf("%v, %v", x, err)
	}
	if x, err = Solve([]float64{1}, []Row{{Index: []int{0}, Value: []float64{1}, Limit: -2}, {Index: []int{0}, Value: []float64{-1}}, {Limit: 1}}, 2); !errors.Is(err, ErrFailed) {
		t.Errorf("a cone out of reach: %v, %v", x, err)
	}
}

// TestScaling: W(Wz) is s, its sparse form is W twice, and divide undoes product; as far
// as what is added stays within reach the sum stays inside.
func TestScaling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "rows")
		part := rapid.SliceOfN(rapid.Float64Range(-3, 3), n, n)
		inside := func(name string) []float64 {
			u := part.Draw(t, name)
			u[0] = norm(u[1:]) + rapid.Float64Range(0.1, 3).Draw(t, name+" more")
			return u
		}
		near := func(a, b []float64) bool {
			for i := range a {
				if math.Abs(a[i]-b[i]) > 1e-8*(1+norm(a)+norm(b)) {
					return false
				}
			}
			return true
		}
		k := &newCones([]int{n}, n)[0]
		s, z, d := inside("s"), inside("z"), part.Draw(t, "d")
		if !k.scaling(s, z) {
			t.Fatal("no scaling inside the cone")
		}
		lambda, b := make([]float64, n), make([]float64, n)
		k.times(z, lambda)
		if k.times(lambda, b); !near(b, s) {
			t.Fatalf("W(Wz) is %v, s %v", b, s)
		}
		// v'd and -u'd stand for v and u, since they make their rows zero.
		x, y := append(append([]float64(nil), d...), 0, 0), make([]float64, n+2)
		along := dot(k.q, d[1:])
		x[n], x[n+1] = -k.v1*along, k.u0*d[0]+k.u1*along
		k.square(x, y)
		k.times(d, b)
		k.times(b, b)
		if y[n], y[n+1] = y[n]/k.eta2, y[n+1]/k.eta2; !near(y[n:], []float64{0, 0}) {
			t.Fatalf("the rows of v and u have %v", y[n:])
		}
		if !near(y[:n], b) {
			t.Fatalf("W² d is %v, not %v", y[:n], b)
		}
		k.product(lambda, d, b)
		if k.divide(lambda, b, b); !near(b, d) {
			t.Fatalf("multiplied and divided is %v, not %v", b, d)
		}
		if far := k.reach(lambda, d); far > 1e-3 {
			for i := range b {
				b[i] = lambda[i] + d[i]/far
			}
			if edge := excess(b); math.Abs(edge) > 1e-6*(1+b[0]*b[0]) || b[0] < -1e-9 {
				t.Fatalf("at the edge the excess is %v", edge)
			}
		}
	})
}
