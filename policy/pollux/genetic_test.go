package pollux

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// goodputs makes a Speedup of goodputs by GPUs, which do not depend on places.
func goodputs(fair int, by ...float64) func(int, bool) float64 {
	return func(k int, _ bool) float64 { return by[min(k, len(by))-1] / by[fair-1] }
}

// pair is the example of acceptance 3: two jobs, four GPUs on two nodes, both have two.
func pair(power, factor float64) *Problem {
	p := &Problem{
		Jobs: []Claim{
			{Speedup: goodputs(2, 10, 18, 24, 28), Factor: factor, Scale: 1, Most: 4, Each: Need{GPUs: 1}},
			{Speedup: goodputs(2, 10, 12, 13, 13.5), Factor: factor, Scale: 1, Most: 4, Each: Need{GPUs: 1}},
		},
		Nodes: []Need{{GPUs: 2}, {GPUs: 2}}, Now: Matrix{{0, 0, 2}, {1, 1, 2}}, Power: power, Avoid: true,
	}
	p.Prepare()
	return p
}

var threeToOne = Matrix{{0, 0, 2}, {0, 1, 1}, {1, 1, 1}}

func fitness(p *Problem, m Matrix) float64 {
	f, _ := p.Fitness(m)
	return f
}

// TestFitness is acceptance 3.
func TestFitness(t *testing.T) {
	at := func(age float64) float64 { return RestartFactor(age, 0, 30) }
	for _, c := range []struct {
		what                string
		power, factor, want float64
	}{
		{"without a price", -1, 1, 1.025641}, {"at 300 s", -1, at(300), .932401}, {"at 1200 s", -1, at(1200), 1.000625}, {"at break-even", -1, at(1170), 1},
		{"p = 1", 1, 1, 1.083333}, {"p = -10", -10, 1, .892336},
	} {
		p := pair(c.power, c.factor)
		if got := fitness(p, threeToOne); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: fitness of three to one is %v, want %v", c.what, got, c.want)
		}
		if got := fitness(p, p.Now); math.Abs(got-1) > 1e-12 {
			t.Errorf("%s: fitness of two to two is %v", c.what, got)
		}
	}
	if got := at(300); math.Abs(got-.909091) > 1e-6 {
		t.Errorf("factor %v", got)
	}
	if got := RestartFactor(100, 5, 30); got != 0 {
		t.Errorf("factor %v of a job that did nothing but restart", got)
	}
	// With the floor and the scale of the code, a change pays from 1165 s on.
	for age, pays := range map[float64]bool{1164: false, 1167: true} {
		p := pair(-1, at(age))
		p.Floor, p.Jobs[0].Scale, p.Jobs[1].Scale = 1e-3, .5, .5
		if got := fitness(p, threeToOne) > fitness(p, p.Now); got != pays {
			t.Errorf("at age %v a change pays: %v", age, got)
		}
	}
}

// may tells whether a Matrix may be: its order, and all limits.
func may(p *Problem, m Matrix) bool {
	rooms := slices.Clone(p.Nodes)
	spreads := make([]int, len(p.Nodes))
	for i := range m {
		c := &m[i]
		if c.Count <= 0 || i > 0 && order(m[i-1], *c) >= 0 || p.Jobs[c.Job].Can != nil && !p.Jobs[c.Job].Can[c.Node] {
			return false
		}
		rooms[c.Node].less(&p.Jobs[c.Job].Each, c.Count)
		if len(m.Row(int(c.Job))) > 1 {
			spreads[c.Node]++
		}
	}
	for j := range p.Jobs {
		row := m.Row(j)
		if k, _ := row.Replicas(); k > 0 && k < p.Jobs[j].Least || k > p.Jobs[j].Most || p.MaxNode > 0 && len(row) > p.MaxNode {
			return false
		}
	}
	for n := range rooms {
		if rooms[n].GPUs < 0 || rooms[n].CPU < 0 || rooms[n].Memory < 0 || p.Avoid && spreads[n] > 1 {
			return false
		}
	}
	return true
}

// all yields every Matrix of a small Problem that may be.
func all(p *Problem, yield func(Matrix)) {
	var m Matrix
	var next func(j, n int)
	next = func(j, n int) {
		switch {
		case j == len(p.Jobs):
			if may(p, m) {
				yield(m)
			}
			return
		case n == len(p.Nodes):
			next(j+1, 0)
			return
		}
		next(j, n+1)
		for k := int32(1); k <= p.Nodes[n].GPUs; k++ {
			m = append(m, Cell{int32(j), int32(n), k})
			next(j, n+1)
			m = m[:len(m)-1]
		}
	}
	next(0, 0)
}

func best(p *Problem) float64 {
	top := math.Inf(-1)
	all(p, func(m Matrix) { top = max(top, fitness(p, m)) })
	return top
}

var full = Search{Population: 100, Generations: 100}

// TestSearchOptimum: the search finds the optimum of acceptance 3, by brute force,
// whatever the seed.
func TestSearchOptimum(t *testing.T) {
	for _, power := range []float64{-1, 1, -10, 0} {
		for _, factor := range []float64{1, RestartFactor(300, 0, 30), RestartFactor(1200, 0, 30)} {
			p := pair(power, factor)
			want := best(p)
			for seed := range uint64(5) {
				got := full.Run(p, rand.New(rand.NewPCG(seed, 1)), p.Now)
				if f := fitness(p, got[0]); math.Abs(f-want) > 1e-12 {
					t.Errorf("p = %v, factor %v, seed %d: fitness %v, want %v", power, factor, seed, f, want)
				}
			}
		}
	}
}

// draw makes a random Problem whose Now may be.
func draw(t *rapid.T, jobs, nodes int) *Problem {
	p := &Problem{
		Power: rapid.SampledFrom([]float64{-1, 1, -4, 0, 0.5}).Draw(t, "power"), Floor: 1e-3, Avoid: rapid.Bool().Draw(t, "avoid"),
		MaxNode: rapid.IntRange(0, 3).Draw(t, "nodes of a job"),
	}
	unlike := rapid.Bool().Draw(t, "unlike")
	for range rapid.IntRange(1, nodes).Draw(t, "nodes") {
		n := Need{GPUs: int32(rapid.IntRange(1, 4).Draw(t, "gpus")), CPU: 1 << 40, Memory: 1 << 40}
		if unlike {
			n.CPU, n.Memory = int64(rapid.IntRange(1, 8).Draw(t, "cores")), int64(rapid.IntRange(1, 8).Draw(t, "memory"))
		}
		p.Nodes = append(p.Nodes, n)
	}
	for range rapid.IntRange(1, jobs).Draw(t, "jobs") {
		bend, apart := rapid.Float64Range(0, 1).Draw(t, "scaling"), rapid.Float64Range(0.3, 1).Draw(t, "apart")
		c := Claim{
			Speedup: func(k int, spread bool) float64 {
				s := math.Pow(float64(k), bend)
				if spread {
					s *= apart
				}
				return s
			},
			Factor: rapid.Float64Range(0, 1).Draw(t, "factor"), Scale: 1, Most: rapid.IntRange(1, 8).Draw(t, "most"), Each: Need{GPUs: 1},
		}
		c.Least = rapid.IntRange(0, c.Most).Draw(t, "least")
		if unlike {
			c.Each = Need{int32(rapid.IntRange(1, 2).Draw(t, "each")), int64(rapid.IntRange(0, 2).Draw(t, "cores each")), int64(rapid.IntRange(0, 2).Draw(t, "memory each"))}
			for range p.Nodes {
				c.Can = append(c.Can, rapid.IntRange(0, 3).Draw(t, "can") > 0)
			}
		}
		p.Jobs = append(p.Jobs, c)
	}
	p.Prepare()
	g := genetic{p: p, rng: rand.New(rand.NewPCG(1, 1)), known: map[uint64]bool{}}
	var any Matrix
	for j := range p.Jobs {
		for n := range p.Nodes {
			if k := rapid.IntRange(-3, 4).Draw(t, "now"); k > 0 {
				any = append(any, Cell{int32(j), int32(n), int32(k)})
			}
		}
	}
	p.Now = g.repair(nil, any)
	p.Prepare()
	return p
}

// TestSearchProperties: whatever the Problem, all that is found may be, nothing is
// worse than to leave everything as it is, nothing is better than the bound, and the
// same seed finds the same.
func TestSearchProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, 6, 4)
		if !may(p, p.Now) {
			t.Fatalf("repair leaves %v", p.Now)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		s := Search{Population: 20, Generations: 15}
		got := s.Run(p, rand.New(rand.NewPCG(seed, 0)), p.Now)
		for _, m := range got {
			if !may(p, m) {
				t.Fatalf("%v cannot be", m)
			}
		}
		if f := fitness(p, got[0]); f < fitness(p, p.Now)-1e-12 || f > p.Bound()+1e-9 {
			t.Fatalf("fitness %v, of now %v, bound %v", f, fitness(p, p.Now), p.Bound())
		}
		if again := s.Run(p, rand.New(rand.NewPCG(seed, 0)), p.Now); fmt.Sprint(got) != fmt.Sprint(again) {
			t.Fatalf("the same seed finds %v and %v", got, again)
		}
	})
}

// TestSearchNearOptimum: on small problems the search comes within 1 % of brute force
// nearly always.
func TestSearchNearOptimum(t *testing.T) {
	missed, n := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, 3, 2)
		p.Power = -1
		for j := range p.Jobs {
			p.Jobs[j].Least = min(p.Jobs[j].Least, 1)
		}
		want := best(p)
		got := full.Run(p, rand.New(rand.NewPCG(7, 7)), p.Now)
		if n++; fitness(p, got[0]) < want-0.01*math.Abs(want) {
			missed++
			t.Logf("want %v got %v %v\nnow %v jobs %+v nodes %+v avoid %v max %d", want, fitness(p, got[0]), got[0], p.Now, p.Jobs, p.Nodes, p.Avoid, p.MaxNode)
		}
	})
	if missed*20 > n {
		t.Errorf("%d of %d optima missed", missed, n)
	}
}

// TestFronts holds fronts against their definition.
func TestFronts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cs []*candidate
		for range rapid.IntRange(1, 30).Draw(t, "n") {
			cs = append(cs, &candidate{fitness: float64(rapid.IntRange(0, 5).Draw(t, "f")), utility: float64(rapid.IntRange(0, 5).Draw(t, "u"))})
		}
		g := genetic{born: cs, size: len(cs), known: map[uint64]bool{}}
		g.survive()
		for _, c := range cs {
			want := 0
			for _, o := range cs {
				if o.dominates(c) {
					want = max(want, o.front+1)
				}
			}
			if c.front != want {
				t.Fatalf("front %d, want %d", c.front, want)
			}
		}
	})
}

// BenchmarkSearch is a round of the published workload: 25 jobs on 16 nodes of 4 GPUs.
func BenchmarkSearch(b *testing.B) {
	p := &Problem{Power: -1, Floor: 1e-3, Avoid: true, MaxNode: 16}
	for range 16 {
		p.Nodes = append(p.Nodes, Need{GPUs: 4})
	}
	for j := range 25 {
		bend := 0.5 + float64(j%5)/10
		p.Jobs = append(p.Jobs, Claim{Speedup: func(k int, spread bool) float64 { return math.Pow(float64(k), bend) }, Factor: 0.9, Scale: 1. / 4, Most: 2 + j, Each: Need{GPUs: 1}})
		if j < 16 {
			p.Now = append(p.Now, Cell{int32(j), int32(j), int32(1 + j%4)})
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		full.Run(p, rng, p.Now)
	}
}
