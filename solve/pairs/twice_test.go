package pairs

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func (a twice) exact() *big.Float {
	high, low := new(big.Float).SetPrec(300).SetFloat64(a.high), new(big.Float).SetPrec(300).SetFloat64(a.low)
	return high.Add(high, low)
}

// TestTwice: sums, products, quotients and roots are right to thirty digits.
func TestTwice(t *testing.T) {
	number := func(t *rapid.T, name string) twice {
		v := twice{high: rapid.Float64Range(1e-20, 1e20).Draw(t, name)}
		return v.plus(twice{high: v.high * rapid.Float64Range(-1e-16, 1e-16).Draw(t, "rest")})
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := number(t, "a"), number(t, "b")
		x, y := a.exact(), b.exact()
		n := func() *big.Float { return new(big.Float).SetPrec(300) }
		check := func(name string, got twice, want, scale *big.Float) {
			off := n().Sub(got.exact(), want)
			if limit := n().Mul(n().Abs(scale), big.NewFloat(1e-30)); off.Abs(off).Cmp(limit) > 0 {
				t.Fatalf("%s of %v and %v: %v, want %v", name, a, b, got, want)
			}
		}
		sum := n().Add(x, y)
		check("the sum", a.plus(b), sum, sum)
		check("the difference", a.minus(b), n().Sub(x, y), sum)
		product, quotient, root := n().Mul(x, y), n().Quo(x, y), n().Sqrt(x)
		check("the product", a.times(b), product, product)
		check("the quotient", a.over(b), quotient, quotient)
		check("the root", a.root(), root, root)
	})
}
