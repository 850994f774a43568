package ones

import (
	"math"
	"math/rand/v2"
	"testing"
)

// BenchmarkSearch is a search for 500 and 2,000 jobs on as many GPUs.
func BenchmarkSearch(b *testing.B) {
	for _, jobs := range []int{100, 500, 2000} {
		b.Run(map[int]string{100: "100", 500: "500", 2000: "2000"}[jobs], func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			p := &Problem{GPUs: jobs}
			left := jobs
			for i := range jobs {
				c := Claim{Least: 1, Limit: 1 << r.IntN(7), Each: 1, First: 1, Young: r.IntN(5) == 0}
				c.Allowed = max(1, c.Limit/2)
				if i%2 == 0 && left > 2 {
					c.Now = min(c.Allowed, 2)
					left -= c.Now
				}
				work, power := 1000*r.ExpFloat64(), 0.5+0.5*r.Float64()
				c.Usage = func(n int) float64 { return work * float64(n) / math.Pow(float64(n), power) }
				p.Claims = append(p.Claims, c)
			}
			for b.Loop() {
				NewConfig().Search.Run(p, rand.New(rand.NewPCG(3, 4)))
			}
		})
	}
}

// BenchmarkTeach is a regression on the most lessons that are taken.
func BenchmarkTeach(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var lessons []Lesson
	for range 2 * mostLessons {
		e := float64(1 + r.IntN(50))
		lessons = append(lessons, Lesson{Row{10000, 2.3, e, 2, 0.5}, e / 51})
	}
	for b.Loop() {
		Teach(lessons, rand.New(rand.NewPCG(3, 4)))
	}
}
