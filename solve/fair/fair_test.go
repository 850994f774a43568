package fair_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/norn-scheduler/norn/solve/fair"
)

func TestFill(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for range 2000 {
		claims := make([]fair.Claim, rng.IntN(8))
		for i := range claims {
			claims[i] = fair.Claim{Weight: 0.1 + rng.Float64(), Cap: 5 * rng.Float64()}
			if rng.IntN(4) == 0 {
				claims[i].Cap = math.Inf(1)
			}
		}
		amount := 10 * rng.Float64()
		get, err := fair.Fill(amount, claims)
		if err != nil {
			t.Fatal(err)
		}
		sum, wanted, level := 0.0, 0.0, 0.0
		for i, c := range claims {
			if get[i] < 0 || get[i] > c.Cap {
				t.Fatalf("%v gets %v", c, get[i])
			}
			sum += get[i]
			wanted += c.Cap
			level = max(level, get[i]/c.Weight)
		}
		if math.Abs(sum-min(amount, wanted)) > 1e-9 {
			t.Fatalf("%v of %v is given out to %v", sum, amount, claims)
		}
		for i, c := range claims { // who is below the others has all she wants
			if get[i]/c.Weight < level-1e-9 && get[i] < c.Cap-1e-9 {
				t.Fatalf("amount %v, claims %v: %v is not fair", amount, claims, get)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []fair.Claim{{0, 1}, {math.NaN(), 1}, {1, -1}, {1, math.NaN()}} {
		if _, err := fair.Fill(1, []fair.Claim{c}); err == nil {
			t.Errorf("claim %v is accepted", c)
		}
	}
	if _, err := fair.Fill(math.NaN(), nil); err == nil {
		t.Error("an amount that is no number is accepted")
	}
}

func ExampleFill() {
	get, _ := fair.Fill(10, []fair.Claim{{Weight: 1, Cap: 2}, {Weight: 1, Cap: 9}, {Weight: 2, Cap: 9}})
	fmt.Printf("%.2f\n", get)
	// Output: [2.00 2.67 5.33]
}
