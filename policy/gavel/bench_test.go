package gavel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/norn-scheduler/norn/policy/gavel"
)

// ladder is a problem of so many jobs on so many GPU types, with a tenth as many
// GPUs as jobs of each type.
func ladder(jobs, types int) *gavel.Problem {
	r := rand.New(rand.NewPCG(1, uint64(jobs*10+types)))
	p := &gavel.Problem{Entities: []gavel.Entity{{Weight: 1}, {Weight: 2}, {Weight: 3}}}
	for range types {
		p.Capacity = append(p.Capacity, float64(jobs/10))
	}
	for range jobs {
		j := gavel.Job{
			Size: []float64{1, 1, 1, 1, 1, 1, 1, 2, 4, 8}[r.IntN(10)], Weight: 1, Left: 1e3 + 1e5*r.Float64(), Age: 1e4 * r.Float64(),
			Isolated: 1e4 * r.Float64(), Due: 1e6, Entity: r.IntN(3),
		}
		for k := range types {
			j.Speed = append(j.Speed, (0.3+r.Float64())*float64(1+k))
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// BenchmarkSettle is the ladder of decision times.
func BenchmarkSettle(b *testing.B) {
	for _, k := range []struct {
		name    string
		program gavel.Program
	}{
		{"las", gavel.MaxMin}, {"water-filling", gavel.WaterFilling}, {"hierarchical", gavel.Hierarchical}, {"makespan", gavel.Makespan},
		{"ftf", gavel.FinishTimes}, {"throughput", gavel.Throughput}, {"cost-slo", gavel.CostSLO}, {"fifo", gavel.FIFO}, {"sjf", gavel.ShortestFirst},
	} {
		for _, jobs := range []int{100, 500, 2000} {
			for _, types := range []int{3, 6} {
				p := ladder(jobs, types)
				b.Run(fmt.Sprintf("%s/%djobs/%dtypes", k.name, jobs, types), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if _, err := k.program(p); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
