package themis_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/norn-scheduler/norn/policy/themis"
)

// BenchmarkAuction holds auctions of 64 GPUs among as many apps as bid of 100, 500
// and 2,000 (a fifth of them), each of which could use up to 8.
func BenchmarkAuction(b *testing.B) {
	for _, apps := range []int{100, 500, 2000} {
		b.Run(fmt.Sprint(apps), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			var bidders []themis.Bidder
			for range themis.Participants(apps, 0.8) {
				worth := 1 + 9*r.Float64()
				rho := []float64{1e9}
				for n := range 1 + r.IntN(8) {
					rho = append(rho, worth/float64(n+1)+r.Float64())
				}
				bidders = append(bidders, bidder(rho...))
			}
			for b.Loop() {
				if _, err := themis.Auction(offer(64), bidders); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
