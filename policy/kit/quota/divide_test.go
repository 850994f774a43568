package quota_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/policy/kit/quota"
)

func drawParts(t *rapid.T) (parts []quota.Part, capacity int) {
	for range rapid.IntRange(1, 5).Draw(t, "n") {
		parts = append(parts, quota.Part{
			Promise: float64(rapid.IntRange(0, 4).Draw(t, "promise")), Cap: float64(rapid.IntRange(0, 7).Draw(t, "cap")),
			Weight: float64(rapid.IntRange(1, 4).Draw(t, "weight")),
		})
	}
	return parts, rapid.IntRange(0, 14).Draw(t, "capacity")
}

func rat(f float64) *big.Rat { return new(big.Rat).SetFloat64(f) }

// rise is the exact division by definition. It raises the water in steps, each
// up to the next level at which a part begins or ceases to rise.
func rise(parts []quota.Part, capacity float64, basis quota.Basis) []*big.Rat {
	left, shares := rat(capacity), make([]*big.Rat, len(parts))
	short := new(big.Rat)
	for i, q := range parts {
		shares[i] = rat(min(q.Promise, q.Cap))
		short.Add(short, shares[i])
	}
	scarce := short.Cmp(left) > 0
	speed := make([]*big.Rat, len(parts))
	from := make([]*big.Rat, len(parts))
	for i, q := range parts {
		speed[i], from[i] = rat(q.Weight), new(big.Rat)
		if scarce {
			speed[i], shares[i] = rat(q.Promise), new(big.Rat)
		} else {
			left.Sub(left, shares[i])
			if basis == quota.All {
				from[i].Quo(rat(q.Promise), speed[i])
			}
		}
	}
	level := new(big.Rat)
	for {
		var next *big.Rat // the level up to which nothing changes
		slope := new(big.Rat)
		earlier := func(at *big.Rat) {
			if next == nil || at.Cmp(next) < 0 {
				next = at
			}
		}
		for i, q := range parts {
			room := new(big.Rat).Sub(rat(q.Cap), shares[i])
			if room.Sign() <= 0 || speed[i].Sign() == 0 {
				continue
			}
			if from[i].Cmp(level) > 0 {
				earlier(from[i])
				continue
			}
			slope.Add(slope, speed[i])
			earlier(room.Quo(room, speed[i]).Add(room, level))
		}
		if slope.Sign() > 0 {
			earlier(new(big.Rat).Add(level, new(big.Rat).Quo(left, slope)))
		}
		if next == nil || next.Cmp(level) == 0 {
			return shares
		}
		step := new(big.Rat).Sub(next, level)
		for i, q := range parts {
			if from[i].Cmp(level) <= 0 && rat(q.Cap).Cmp(shares[i]) > 0 {
				more := new(big.Rat).Mul(step, speed[i])
				shares[i] = new(big.Rat).Add(shares[i], more)
				left.Sub(left, more)
			}
		}
		level = next
	}
}

// TestDivideExactly compares Divide with raising the water in exact arithmetic.
func TestDivideExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, capacity := drawParts(t)
		for _, basis := range []quota.Basis{quota.Borrowed, quota.All} {
			quota.Divide(parts, float64(capacity), basis)
			for i, want := range rise(parts, float64(capacity), basis) {
				if w, _ := want.Float64(); math.Abs(parts[i].Share-w) > 1e-12*(1+w) {
					t.Fatalf("basis %d, part %d of %+v over %d: want %v", basis, i, parts, capacity, want)
				}
			}
		}
	})
}

// TestDivideAgainstAll compares Divide with every division in whole numbers.
// None gives more to the part that is served worst, then to the next worst, and
// so on. A part is served by what it has above its promise for each unit of
// weight.
func TestDivideAgainstAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, capacity := drawParts(t)
		promised := 0.0
		for i := range parts {
			parts[i].Promise = min(parts[i].Promise, parts[i].Cap)
			promised += parts[i].Promise
		}
		capacity = max(capacity, int(promised))
		quota.Divide(parts, float64(capacity), quota.Borrowed)
		level := func(i int, x float64) float64 { return (x - parts[i].Promise) / parts[i].Weight }
		var best []float64
		for i := range parts {
			best = append(best, level(i, parts[i].Share))
		}
		slices.Sort(best)
		x := make([]float64, len(parts))
		var try func(i, left int)
		try = func(i, left int) {
			if i < len(parts) {
				for n := int(parts[i].Promise); n <= min(left, int(parts[i].Cap)); n++ {
					x[i] = float64(n)
					try(i+1, left-n)
				}
				return
			}
			var other []float64
			for i := range x {
				other = append(other, level(i, x[i]))
			}
			slices.Sort(other)
			for k := range other {
				if math.Abs(other[k]-best[k]) < 1e-9 {
					continue
				}
				if other[k] > best[k] {
					t.Fatalf("%v is fairer than %+v over %d", x, parts, capacity)
				}
				return
			}
		}
		try(0, capacity)
	})
}

func part(promise, most, weight float64) quota.Part {
	return quota.Part{Promise: promise, Cap: most, Weight: weight}
}

// TestDivideExamples checks examples that are small enough to be worked out by
// hand.
func TestDivideExamples(t *testing.T) {
	for _, c := range []struct {
		what     string
		parts    []quota.Part
		capacity float64
		basis    quota.Basis
		want     []float64
	}{
		{"equal", []quota.Part{part(0, 9, 1), part(0, 9, 1)}, 8, quota.Borrowed, []float64{4, 4}},
		{"who asks for little gets it, the others divide the rest", []quota.Part{part(0, 2, 1), part(0, 9, 1), part(0, 9, 1)}, 10, quota.Borrowed, []float64{2, 4, 4}},
		{"weights divide what is not promised", []quota.Part{part(4, 20, 1), part(0, 20, 3)}, 12, quota.Borrowed, []float64{6, 6}},
		{"weights divide all", []quota.Part{part(4, 20, 1), part(0, 20, 3)}, 12, quota.All, []float64{4, 8}},
		{"promises are cut alike when nodes are lost", []quota.Part{part(4, 20, 1), part(8, 20, 1)}, 6, quota.Borrowed, []float64{2, 4}},
		{"enough for all", []quota.Part{part(1, 3, 1), part(0, 2, 5)}, 9, quota.All, []float64{3, 2}},
	} {
		quota.Divide(c.parts, c.capacity, c.basis)
		for i, want := range c.want {
			if math.Abs(c.parts[i].Share-want) > 1e-12 {
				t.Errorf("%s: part %d gets %v, want %v", c.what, i, c.parts[i].Share, want)
			}
		}
	}
}
