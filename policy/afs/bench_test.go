package afs_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/norn-scheduler/norn/policy/afs"
)

// BenchmarkDivide divides twice as many GPUs as there are jobs, each of which can use
// up to 32.
func BenchmarkDivide(b *testing.B) {
	for _, jobs := range []int{100, 500, 2000} {
		b.Run(fmt.Sprint(jobs), func(b *testing.B) {
			works, speeds := make([]float64, jobs), make([][]float64, jobs)
			for i := range jobs {
				works[i] = float64(1000 + i*7919%100000)
				for n := range 32 {
					speeds[i] = append(speeds[i], math.Pow(float64(n+1), 0.5+float64(i%40)/100))
				}
			}
			c := claims(works, speeds...)
			for b.Loop() {
				for _, c := range c {
					c.Type = afs.NoType
				}
				afs.Divide([]int64{int64(2*jobs) * 1000}, c)
			}
		})
	}
}
