package replica_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/norn-scheduler/norn/policy/replica"
)

// BenchmarkSolve is data sets in ten regions, half of them in two, each read by a class of its own.
func BenchmarkSolve(b *testing.B) {
	for _, sets := range []int{100, 500} {
		b.Run(fmt.Sprint(sets), func(b *testing.B) {
			for b.Loop() {
				p := &replica.Problem{Move: 0.001}
				r := rand.New(rand.NewPCG(1, 2))
				for range 10 {
					p.Supply, p.Storage = append(p.Supply, []float64{1000}), append(p.Storage, 1e5)
				}
				for d := range sets {
					held := make([]bool, 10)
					held[r.IntN(2)+8*(d%2)] = true
					p.Held, p.Size = append(p.Held, held), append(p.Size, 100)
					p.Classes = append(p.Classes, replica.Class{GPUs: 9500 / float64(sets), Types: []bool{true}, Reads: []int{d}})
				}
				p.Solve()
			}
		})
	}
}
