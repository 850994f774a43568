// Package fair divides by max-min fairness: nobody can get more without somebody
// getting less who has as little or less.
//
// Nouns: what somebody gets, divided by her weight, is her level. Fill raises all
// levels together over one divisible resource, as water fills vessels that are
// joined.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 1992, section 6.5.2.
package fair

import (
	"fmt"
	"math"
	"slices"
)

// Claim is what somebody may get of a resource.
type Claim struct {
	Weight float64 // above zero
	Cap    float64 // she wants no more than this; may be infinite
}

// Fill divides an amount: by claim, what each gets. All levels are the same but
// for those who have all they want. Something is left only when everybody has.
func Fill(amount float64, claims []Claim) ([]float64, error) {
	if !(amount >= 0) || math.IsInf(amount, 1) {
		return nil, fmt.Errorf("the amount to be divided is %v", amount)
	}
	order := make([]int, len(claims)) // by the level at which they are full
	weight := 0.0
	for i, c := range claims {
		if !(c.Weight > 0) || math.IsInf(c.Weight, 1) || !(c.Cap >= 0) {
			return nil, fmt.Errorf("claim %d has the weight %v and the cap %v", i, c.Weight, c.Cap)
		}
		order[i] = i
		weight += c.Weight
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := claims[a].Cap/claims[a].Weight, claims[b].Cap/claims[b].Weight
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	get := make([]float64, len(claims))
	for k, i := range order {
		c := claims[i]
		if level := amount / weight; c.Cap/c.Weight > level { // nor is anybody after it full
			for _, i := range order[k:] {
				get[i] = min(level*claims[i].Weight, claims[i].Cap)
			}
			break
		}
		get[i] = c.Cap
		amount = max(0, amount-c.Cap)
		weight -= c.Weight
	}
	return get, nil
}
