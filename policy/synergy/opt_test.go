package synergy

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/highs"
)

// program is the first program of the paper (section 4.1): one choice for each job.
func (p *problem) program() *solve.Model {
	m := solve.NewModel("synergy", solve.Maximize)
	var cores, memory []solve.Term
	for _, all := range p.jobs {
		var one []solve.Term
		for i := range all {
			x := m.Bool(all[i].speed)
			one = append(one, x.Times(1))
			cores, memory = append(cores, x.Times(all[i].cpu)), append(memory, x.Times(all[i].memory/float64(unit.GiB)))
		}
		m.Equal(1, one...)
	}
	m.AtMost(p.cpu, cores...)
	m.AtMost(p.memory/float64(unit.GiB), memory...)
	return m
}

// draw is a random problem on servers like those of the paper.
func draw(t *rapid.T, most int) (p *problem, gpus []float64, servers int) {
	n := &server{shape: shape{gpus: 8, size: perf.Ration{CPU: 24_000, Memory: 500 * unit.GiB}, cores: true, memory: true}}
	n.fair = perf.Ration{CPU: 3000, Memory: 500 * unit.GiB / 8}
	servers = rapid.IntRange(1, most).Draw(t, "servers")
	p = &problem{cpu: float64(24 * servers), memory: float64(500*servers) * float64(unit.GiB)}
	grids := perf.MeasuredGrids()
	for free := 8 * servers; free > 0; {
		c := &claim{gpus: min(free, rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(t, "gpus")), grid: grids[rapid.SampledFrom(models).Draw(t, "model")]}
		free -= c.gpus
		p.jobs, gpus = append(p.jobs, c.choices(n)), append(gpus, float64(c.gpus))
	}
	return p, gpus, servers
}

// The solution is feasible. The optimum of the program is not above the bound,
// and above the solution by no more than one step of one job.
func TestProgram(t *testing.T) {
	engine := highs.Shared()
	worst := 0.0
	rapid.Check(t, func(t *rapid.T) {
		p, _, _ := draw(t, 2)
		picks, bound := p.solve()
		var cores, memory, sum, share float64
		step := 0.0
		for i, all := range p.jobs {
			c := all[picks[i]]
			cores, memory, sum, share = cores+c.cpu, memory+c.memory, sum+c.speed, share+1
			step = max(step, all[len(all)-1].speed-1)
			if c.speed < 1-1e-9 {
				t.Fatalf("job %d is given %+v", i, c)
			}
		}
		best, err := engine.Solve(p.program(), solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if cores > p.cpu+1e-6 || memory > p.memory*(1+1e-9) || best.Objective > bound+1e-6 || sum > best.Objective+1e-6 || best.Objective > sum+step+1e-6 || sum < share-1e-9 {
			t.Fatalf("%v of %v cores, %v of %v memory; found %v, optimum %v, bound %v", cores, p.cpu, memory, p.memory, sum, best.Objective, bound)
		}
		worst = max(worst, best.Objective/sum-1)
	})
	t.Logf("at worst %.2f %% below the optimum", 100*worst)
}

// The second program of the paper: a vertex of the placement by parts tears at most three
// jobs for each server.
func TestFractions(t *testing.T) {
	engine := highs.Shared()
	rapid.Check(t, func(t *rapid.T) {
		p, gpus, servers := draw(t, 6)
		picks, _ := p.solve()
		m := solve.NewModel("placement", solve.Minimize)
		rows := make([][3][]solve.Term, servers)
		parts := make([][]solve.Var, len(p.jobs))
		for i, all := range p.jobs {
			c := all[picks[i]]
			var whole []solve.Term
			for s := range servers {
				x := m.Real(0, 1, float64((i*7+s*3)%5)) // any vertex will do
				parts[i] = append(parts[i], x)
				whole = append(whole, x.Times(1))
				for k, need := range []float64{gpus[i], c.cpu, c.memory / float64(unit.GiB)} {
					rows[s][k] = append(rows[s][k], x.Times(need))
				}
			}
			m.Equal(1, whole...)
		}
		for s := range servers {
			for k, has := range []float64{8, 24, 500} {
				m.AtMost(has, rows[s][k]...)
			}
		}
		at, err := engine.Solve(m, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		torn := 0
		for i := range parts {
			for _, x := range parts[i] {
				if v := at.Value(x); v > 1e-6 && v < 1-1e-6 {
					torn++
					break
				}
			}
		}
		if torn > 3*servers {
			t.Fatalf("%d jobs are torn on %d servers", torn, servers)
		}
	})
}
