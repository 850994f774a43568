package solver

import (
	"math"
	"math/rand/v2"
	"testing"
)

// mix is a problem as the policy poses it: jobs of nine data sets with times from
// a minute to hours, costs T(a)/T(fair), and ways to merge by data set.
type mix struct {
	time  []float64
	task  []int
	after [9][9]float64
	sizes []int
	fair  float64
}

func newMix(r *rand.Rand, jobs, gpus int, sizes []int) (*mix, *Problem) {
	m := &mix{sizes: sizes, fair: math.Ceil(float64(gpus) / float64(jobs))}
	for i := range m.after {
		for j := range m.after {
			m.after[i][j] = min(10, max(0.5, math.Exp(0.5+0.8*r.NormFloat64())))
		}
	}
	p := &Problem{GPUs: gpus, Sizes: sizes, Merges: m}
	for i := range jobs {
		m.time = append(m.time, 60*math.Exp(r.NormFloat64()*1.5))
		m.task = append(m.task, r.IntN(9))
		e := Entity{Queued: 4 * (1 + 1e-3*float64(i)/float64(jobs))}
		for _, a := range sizes {
			c := math.Inf(1)
			if a <= 16 {
				c = m.speed(m.fair) / m.speed(float64(a))
			}
			e.Cost = append(e.Cost, c)
		}
		p.Jobs = append(p.Jobs, e)
	}
	return m, p
}

func (m *mix) speed(a float64) float64 { return math.Pow(a, 0.85) }

func (m *mix) tranWt(i, j int) float64 {
	a, b := m.time[i], m.time[j]
	f, g := m.after[m.task[i]][m.task[j]], m.after[m.task[j]][m.task[i]]
	both := 2*min(a, b) + max(a, b)
	return max(both/(2*a+b/f), both/(2*b+a/g), both/(2*max(a, b)/max(f, g)*1.8))
}

// Fresh is true of all jobs.
func (m *mix) Fresh(int) bool { return true }

// Gain is what a pair saves at its fair share.
func (m *mix) Gain(i, j int) float64 { return 2 - 2/m.tranWt(i, j) }

// Ways is the best way alone.
func (m *mix) Ways(i, j int, to []Way) []Way {
	w := Way{Entity: Entity{Queued: math.Inf(1)}}
	for _, a := range m.sizes {
		c := math.Inf(1)
		if a <= 16 {
			c = 2 / m.tranWt(i, j) * m.speed(2*m.fair) / m.speed(float64(a))
		}
		w.Cost = append(w.Cost, c)
	}
	return append(to, w)
}

func sizesUpTo(n int) []int {
	sizes := []int{1, 2, 3}
	for a := 4; a <= n; a += 4 {
		sizes = append(sizes, a)
	}
	return sizes
}

// BenchmarkTwoStage3000 is the target of 3,000 jobs on 240 GPUs: 0.5 s.
func BenchmarkTwoStage3000(b *testing.B) {
	_, p := newMix(rand.New(rand.NewPCG(1, 1)), 3000, 240, sizesUpTo(240))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := TwoStage(p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExact12 is the target of 12 jobs: 50 ms, on 32 and on 240 GPUs.
func BenchmarkExact12(b *testing.B) {
	for name, gpus := range map[string]int{"8 GPUs": 8, "32 GPUs": 32, "240 GPUs": 240} {
		b.Run(name, func(b *testing.B) {
			var p [8]*Problem
			for i := range p {
				_, p[i] = newMix(rand.New(rand.NewPCG(2, uint64(i))), 12, gpus, sizesUpTo(gpus))
			}
			n := 0
			for b.Loop() {
				if _, err := Exact(p[n%len(p)]); err != nil {
					b.Fatal(err)
				}
				n++
			}
		})
	}
}
