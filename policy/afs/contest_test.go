package afs_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/policy/afs"
)

// literal is AFS-L by definition: for each task all claims are compared again. The
// claims have their least sizes already.
func literal(free []int64, claims []*afs.Claim) {
	speed := func(c *afs.Claim, n int) float64 { return c.Speed(c.Type, n) }
	for {
		var s *afs.Claim
		for _, j := range claims {
			if j.Size == 0 || j.Size == j.Steps || j.Each > free[j.Type] || speed(j, j.Size+1) <= speed(j, j.Size) {
				continue
			}
			if s == nil {
				s = j
				continue
			}
			a, b := s, j
			shorter := j.Left/speed(j, j.Size) < s.Left/speed(s, s.Size)
			if shorter {
				a, b = j, s
			}
			pa, pa1, pb, pb1 := speed(a, a.Size), speed(a, a.Size+1), speed(b, b.Size), speed(b, b.Size+1)
			if longer := (pb1-pb)/pb1*float64(a.Each) > (pa1-pa)/pa*float64(b.Each); longer != shorter {
				s = j
			}
		}
		if s == nil {
			return
		}
		free[s.Type] -= s.Each
		s.Size++
	}
}

// TestDivideLiterally: Divide gives what the rule gives when all claims are compared for
// each task, on one and on two GPU types, with steps that take one GPU and several.
func TestDivideLiterally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := []int64{int64(rapid.IntRange(1, 60).Draw(t, "free")) * 1000, int64(rapid.IntRange(0, 60).Draw(t, "others")) * 1000}
		c := slices.Concat(draw(t), draw(t), draw(t), draw(t))
		for i := range c {
			c[i].Types = rapid.SampledFrom([][]int{{0}, {1}}).Draw(t, "types")
			c[i].Each = rapid.SampledFrom([]int64{500, 1000, 1000, 2000}).Draw(t, "each")
			c[i].First = c[i].Each
		}
		afs.Divide(free, c)
		want := make([]*afs.Claim, len(c))
		left := slices.Clone(free)
		for i := range c {
			twin := *c[i]
			if want[i] = &twin; twin.Size > 0 {
				twin.Size = 1
				left[twin.Type] -= twin.First
			}
		}
		literal(left, want)
		if !slices.Equal(sizes(c), sizes(want)) {
			t.Fatalf("%v, want %v", sizes(c), sizes(want))
		}
	})
}

// regulated is what Regulate is by definition: for each step all jobs are looked at again.
func regulated(shares []int, ranges []afs.Range, node int) []int {
	legal := func(n int) bool { return n%node == 0 || n < node && n&(n-1) == 0 }
	out, left := slices.Clone(shares), 0
	for i, s := range shares {
		r := s
		for r > 0 && !legal(r) {
			r--
		}
		if r >= ranges[i].Least {
			out[i], left = r, left+s-r
		}
	}
	for {
		best, step := -1, 0
		for i, s := range shares {
			next := out[i] + 1
			for !legal(next) {
				next++
			}
			if d := next - out[i]; s > 0 && next <= ranges[i].Most && d <= left &&
				(best < 0 || s-out[i] > shares[best]-out[best] || s-out[i] == shares[best]-out[best] && d < step) {
				best, step = i, d
			}
		}
		if best < 0 {
			return out
		}
		out[best] += step
		left -= step
	}
}

// TestRegulateLiterally: regulated shares are those of the definition.
func TestRegulateLiterally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "node")
		var shares []int
		var ranges []afs.Range
		for range rapid.IntRange(1, 12).Draw(t, "jobs") {
			least := rapid.IntRange(1, 4).Draw(t, "least")
			s := rapid.IntRange(least, 30).Draw(t, "share")
			shares = append(shares, s)
			ranges = append(ranges, afs.Range{Least: least, Most: rapid.IntRange(s, 40).Draw(t, "most")})
		}
		if got, want := afs.Regulate(shares, ranges, node), regulated(shares, ranges, node); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v of %v on nodes of %d: %v, want %v", shares, ranges, node, got, want)
		}
	})
}
