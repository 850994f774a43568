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

// sorts is a problem of so many jobs of one GPU that are of 26 sorts, on three types with
// a tenth as many GPUs each; where alike is false each has speeds of its own all the same.
func sorts(jobs int, alike bool) *gavel.Problem {
	r := rand.New(rand.NewPCG(2, uint64(jobs)))
	const kinds = 26
	p := &gavel.Problem{Capacity: []float64{float64(jobs / 10), float64(jobs / 10), float64(jobs / 10)}}
	var speeds [kinds][]float64
	for a := range kinds {
		speeds[a] = []float64{1, 0.3 + 0.5*r.Float64(), 0.1 + 0.3*r.Float64()}
		var row [][]float64
		for range kinds {
			f := 0.3 + 0.6*r.Float64()
			row = append(row, []float64{f, 0.9 * f, 0.8 * f})
		}
		p.Beside = append(p.Beside, row)
	}
	for range jobs {
		j := gavel.Job{Size: 1, Weight: 1, Left: 1e3 + 1e5*r.Float64(), Age: 1e4 * r.Float64(), Isolated: 1e4 * r.Float64(), Kind: r.IntN(kinds)}
		j.Speed = speeds[j.Kind]
		if !alike {
			f := 0.5 + r.Float64()
			j.Speed = []float64{f * j.Speed[0], f * j.Speed[1] * (0.9 + 0.2*r.Float64()), f * j.Speed[2]}
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// BenchmarkPacked is the ladder where jobs may share GPUs.
func BenchmarkPacked(b *testing.B) {
	for _, k := range []struct {
		name    string
		program gavel.Program
		alike   bool
	}{{"las/alike", gavel.MaxMin, true}, {"las/own", gavel.MaxMin, false}, {"ftf/alike", gavel.FinishTimes, true}} {
		for _, jobs := range []int{100, 500, 2000} {
			if jobs == 2000 && k.name != "las/alike" {
				continue
			}
			p := sorts(jobs, k.alike)
			b.Run(fmt.Sprintf("%s/%djobs", k.name, jobs), func(b *testing.B) {
				for b.Loop() {
					p.Pairs = nil
					if _, err := k.program(p); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
