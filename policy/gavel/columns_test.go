package gavel_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/highs"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// two nodes of three GPUs: six GPUs, and room for two gangs of two.
func twoNodes(jobs ...gavel.Job) *gavel.Problem {
	return &gavel.Problem{Capacity: []float64{6}, Rooms: []gavel.Room{{Type: 0, GPUs: 2, Gangs: 2}}, Jobs: jobs}
}

func gang(speed, spread float64) gavel.Job {
	return gavel.Job{Size: 2, Speed: []float64{speed}, Spread: []float64{spread}, Weight: 1, Left: 1000}
}

// TestColumns are worked examples. Three gangs of two, all of which could run all of the
// time, two of them together: who loses most is together. Where all lose the same, 1/2, each
// is together for 2/3 of the time and spread for 1/3, and has 5/6 of its speed; LAS is twice
// that, a gang having two GPUs. One that loses 1/4 leaves room to the two that lose 1/2: with c
// of the time together the others have (1+c)/2 and it, together for the rest, 2-2c, has
// (3+2-2c)/4, which are all the same at c = 3/4.
func TestColumns(t *testing.T) {
	p := twoNodes(gang(1, 0.2), gang(1, 0.9), gang(1, 0.2))
	equals(t, "who loses most is together", solved(t, gavel.Throughput, p), [][]float64{{1, 0}, {0, 1}, {1, 0}})
	p = twoNodes(gang(1, 0.5), gang(1, 0.5), gang(1, 0.5))
	third := [][]float64{{2. / 3, 1. / 3}, {2. / 3, 1. / 3}, {2. / 3, 1. / 3}}
	for name, program := range map[string]gavel.Program{"LAS": gavel.MaxMin, "water filling": gavel.WaterFilling, "makespan": gavel.Makespan, "finish times": gavel.FinishTimes} {
		equals(t, name, solved(t, program, p), third)
	}
	p = twoNodes(gang(1, 0.5), gang(1, 0.75), gang(1, 0.5))
	equals(t, "who loses least is spread more", solved(t, gavel.MaxMin, p), [][]float64{{0.75, 0.25}, {0.5, 0.5}, {0.75, 0.25}})
	// Shortest first: the third finds no room together.
	for i := range p.Jobs {
		p.Jobs[i].Left = 100 * float64(1+i)
	}
	equals(t, "shortest first", solved(t, gavel.ShortestFirst, p), [][]float64{{1, 0}, {1, 0}, {0, 1}})
	// A gang of four takes the room of two of two, beside those: nodes of five.
	p = &gavel.Problem{Capacity: []float64{10}, Rooms: []gavel.Room{{GPUs: 2, Gangs: 4}, {GPUs: 4, Gangs: 2}}, Jobs: []gavel.Job{
		{Size: 4, Speed: []float64{1}, Spread: []float64{0.1}, Weight: 1}, gang(1, 0.2), gang(1, 0.3), gang(1, 0.9),
	}}
	equals(t, "a gang of four", solved(t, gavel.Throughput, p), [][]float64{{1, 0}, {1, 0}, {1, 0}, {0, 1}})
	// Without any room all are spread, and one that cannot be does not run.
	p = &gavel.Problem{Capacity: []float64{4}, Rooms: []gavel.Room{{GPUs: 2}}, Jobs: []gavel.Job{gang(1, 0.5), gang(1, 0)}}
	equals(t, "no room", solved(t, gavel.Throughput, p), [][]float64{{0, 1}, {0, 0}})
}

// drawColumns is a random problem in which gangs of 1, 2, 3, 4 and 6 GPUs lose by being spread
// over nodes of a type; with plain, they do not.
func drawColumns(t *rapid.T, plain bool) *gavel.Problem {
	p := drawProblem(t)
	p.Rooms = nil
	nodes := make([]int, len(p.Capacity)) // GPUs of each node of a type
	for k := range p.Capacity {
		nodes[k] = rapid.IntRange(1, 8).Draw(t, "node")
		p.Capacity[k] = float64(nodes[k] * rapid.IntRange(1, 4).Draw(t, "nodes"))
	}
	for m := range p.Jobs {
		j := &p.Jobs[m]
		j.Size = rapid.SampledFrom([]float64{1, 1, 2, 2, 3, 4, 6}).Draw(t, "gang")
		j.Spread = slices.Clone(j.Speed)
		for k := range j.Spread {
			if size := int(j.Size); !plain && size > 1 && size <= nodes[k] {
				j.Spread[k] *= rapid.SampledFrom([]float64{0.1, 0.5, 0.9, 1}).Draw(t, "spread")
			}
		}
	}
	for k, w := range p.Capacity {
		for _, size := range []int{2, 3, 4, 6} {
			if n := int(w) / nodes[k] * (nodes[k] / size); n*size < int(w) {
				p.Rooms = append(p.Rooms, gavel.Room{Type: k, GPUs: size, Gangs: float64(n)})
			}
		}
	}
	return p
}

// blind is a problem as if all time could be together.
func blind(p *gavel.Problem) *gavel.Problem {
	q := *p
	q.Rooms, q.Jobs = nil, slices.Clone(p.Jobs)
	for m := range q.Jobs {
		q.Jobs[m].Spread = nil
	}
	return &q
}

// fitsColumns says what is wrong with an allocation with columns, or nothing.
func fitsColumns(p *gavel.Problem, a gavel.Allocation) error {
	types := len(p.Capacity)
	both := make(gavel.Allocation, len(a)) // columns of a type added up
	for m := range a {
		both[m] = slices.Clone(a[m][:types])
		for t, x := range a[m][types:] {
			if both[m][t] += x; x < 0 || x > 0 && p.Jobs[m].Spread[t] >= p.Jobs[m].Speed[t] {
				return fmt.Errorf("job %d is spread for %v on type %d", m, x, t)
			}
		}
	}
	for _, r := range p.Rooms {
		used := 0.0
		for m := range a {
			if j := &p.Jobs[m]; j.Spread[r.Type] < j.Speed[r.Type] {
				used += float64(int(j.Size)/r.GPUs) * a[m][r.Type]
			}
		}
		if used > r.Gangs*(1+1e-9)+1e-9 {
			return fmt.Errorf("%v gangs of %d are together on type %d, there is room for %v", used, r.GPUs, r.Type, r.Gangs)
		}
	}
	return feasible(p, both)
}

// TestColumnsInvariants: with columns every objective gives out what can be
// given. The answer is not worse than that of a program that knows nothing of
// placement, cut to the room there is, nor better than that program's promise.
// If placement makes no difference, it is the same.
func TestColumnsInvariants(t *testing.T) {
	programs := map[string]gavel.Program{
		"las": gavel.MaxMin, "filling": gavel.WaterFilling, "fifo": gavel.FIFO, "sjf": gavel.ShortestFirst, "isolated": gavel.Isolated, "hierarchical": gavel.Hierarchical,
		"makespan": gavel.Makespan, "ftf": gavel.FinishTimes, "throughput": gavel.Throughput, "cost": gavel.Cost, "slo": gavel.CostSLO,
	}
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.Bool().Draw(t, "plain")
		p := drawColumns(t, plain)
		q := blind(p)
		for name, program := range programs {
			a, err := program(p)
			if err == nil {
				err = fitsColumns(p, a)
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b, err := program(q)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			measure := name
			switch name {
			case "filling":
				measure = "las"
			case "sjf", "isolated", "hierarchical", "slo":
				continue // what is allocated is all that they have to be held to
			}
			got, promised := worth(p, measure, p.Throughputs(a), a), worth(q, measure, q.Throughputs(b), b)
			wide := make(gavel.Allocation, len(b))
			for m := range b {
				wide[m] = append(slices.Clone(b[m]), make([]float64, len(a[m])-len(b[m]))...)
			}
			p.Cut(wide)
			if err := fitsColumns(p, wide); err != nil {
				t.Fatalf("%s, cut: %v", name, err)
			}
			cut := worth(p, measure, p.Throughputs(wide), wide)
			const off = 2e-5
			if slack := off * max(math.Abs(got), math.Abs(cut)); got < cut-slack {
				t.Fatalf("%s: %v, without columns %v", name, got, cut)
			}
			if slack := off * max(math.Abs(got), math.Abs(promised)); got > promised+slack || plain && got < promised-slack {
				t.Fatalf("%s: %v, promised %v", name, got, promised)
			}
		}
	})
}

// worth is how good an allocation is by an objective: the more the better.
func worth(p *gavel.Problem, name string, rates []float64, a gavel.Allocation) float64 {
	worst, sum := math.Inf(1), 0.0
	for m := range p.Jobs {
		j := &p.Jobs[m]
		if !able(p, m) {
			continue
		}
		fastest, alone := 0.0, 0.0
		part := p.Share(j, len(p.Jobs))
		for t, s := range j.Speed {
			if s > 0 && j.Size <= p.Capacity[t] {
				fastest = max(fastest, s)
				alone += s * part[t]
			}
		}
		switch name {
		case "las":
			worst = min(worst, rates[m]*j.Size/(j.Weight*p.Equal(j)))
		case "makespan":
			worst = min(worst, rates[m]/j.Left)
		case "ftf":
			worst = min(worst, -(j.Age+j.Left/rates[m])/(j.Isolated+j.Left/alone))
		case "fifo":
			sum += rates[m] / fastest * float64(len(p.Jobs)-m)
		case "throughput":
			sum += rates[m]
		case "cost":
			for c, x := range a[m] {
				if t := c % len(p.Capacity); c < len(p.Capacity) {
					sum += j.Speed[t] * x / p.Prices[t]
				} else {
					sum += j.Spread[t] * x / p.Prices[t]
				}
			}
		}
	}
	if math.IsInf(worst, 1) {
		return sum
	}
	return worst
}

// TestColumnsAgainstHiGHS: LAS with columns is that of a simplex solver.
func TestColumnsAgainstHiGHS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawColumns(t, false)
		m := solve.NewModel("columns", solve.Maximize)
		level := m.Real(0, 1e6, 1)
		capacity, rooms := make([][]solve.Term, len(p.Capacity)), make([][]solve.Term, len(p.Rooms))
		for i := range p.Jobs {
			j := &p.Jobs[i]
			var time, rate []solve.Term
			for k := range p.Capacity {
				if j.Speed[k] <= 0 || j.Size > p.Capacity[k] {
					continue
				}
				x, y := m.Real(0, 1, 0), m.Real(0, 1, 0)
				time, rate = append(time, x.Times(1), y.Times(1)), append(rate, x.Times(j.Speed[k]), y.Times(j.Spread[k]))
				capacity[k] = append(capacity[k], x.Times(j.Size), y.Times(j.Size))
				for r := range p.Rooms {
					if n := int(j.Size) / p.Rooms[r].GPUs; p.Rooms[r].Type == k && n > 0 && j.Spread[k] < j.Speed[k] {
						rooms[r] = append(rooms[r], x.Times(float64(n)))
					}
				}
			}
			if len(time) > 0 {
				m.AtMost(1, time...)
				m.AtLeast(0, append(rate, level.Times(-j.Weight*p.Equal(j)/j.Size))...)
			}
		}
		for k := range capacity {
			m.AtMost(p.Capacity[k], capacity[k]...)
		}
		for r := range rooms {
			m.AtMost(p.Rooms[r].Gangs, rooms[r]...)
		}
		want, err := highs.Shared().Solve(m, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := gavel.MaxMin(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := worth(p, "las", p.Throughputs(a), a); want.Objective < 1e6 && math.Abs(got-want.Objective) > 1e-5*max(1, want.Objective) {
			t.Fatalf("LAS is %v, the optimum %v", got, want.Objective)
		}
	})
}

// TestColumnsProperties: policies with columns in random worlds, in which they are replaced
// at random moments.
func TestColumnsProperties(t *testing.T) {
	longtest.Skip(t)
	for name, set := range map[string]map[string]string{
		"las":      {"round": "10s", "reset": "20s"},
		"ftf":      {"objective": "ftf", "round": "10s", "reset": "0s"},
		"makespan": {"objective": "makespan", "round": "10s", "reset": "30s", "idle": "false"},
	} {
		build := func() (sched.Policy, error) {
			c := gavel.NewConfig()
			c.Columns = true
			for k, v := range set {
				if err := c.Params().Set(k, v); err != nil {
					return nil, err
				}
			}
			return c.Policy()
		}
		for world, shape := range map[string]simtest.Shape{
			"types":    {Types: true, Costs: true},
			"parts":    {Parts: true, Types: true},
			"failures": {Costs: true, Failures: true, Operated: true, Tenants: true},
		} {
			shape.Spread = true
			t.Run(name+"/"+world, func(t *testing.T) { simtest.Properties(t, shape, build) })
		}
	}
}

// TestColumnsBecomeRounds is an example of TestColumns in the simulated world,
// with three gangs of two on two nodes of three GPUs. Two of them lose a half
// where they are spread and one loses a quarter. All do 7/8 of what they could
// on one node. Without columns two stay together for as long as they run and
// the third is spread.
func TestColumnsBecomeRounds(t *testing.T) {
	const lasts = 400 * 360.0
	table := &perf.Table{Reference: "v100"}
	var entries []trace.Entry
	d := job.GPUs(2)
	for i, apart := range []float64{0.5, 0.75, 0.5} {
		name := fmt.Sprint("job", i)
		table.Add(perf.Measured{Job: name, GPUs: 2, Type: "v100"}, 1)
		table.Add(perf.Measured{Job: name, GPUs: 2, Type: "v100", Spread: true}, apart)
		entries = append(entries, trace.Entry{
			Job:   job.Job{ID: job.ID(i), Key: name, Name: name, Demand: &d, Retries: -1},
			Truth: trace.Truth{Work: time.Duration(7. / 8 * lasts * 1e9)},
		})
	}
	spec, err := clusterspec.Load("2x3:V100")
	if err != nil {
		t.Fatal(err)
	}
	ends := func(settings ...experiment.Setting) (ends [3]float64) {
		x := experiment.Experiment{Spec: spec, Seed: 1, Model: table}
		if x.Estimate, err = experiment.ParseEstimate("none"); err != nil {
			t.Fatal(err)
		}
		o, err := x.Run(context.Background(), experiment.Choice{Policy: "gavel", Settings: settings}, trace.FromMemory(entries))
		if err != nil {
			t.Fatal(err)
		}
		for i := range ends {
			ends[i] = o.State.Record(job.ID(i)).End.Seconds() / lasts
		}
		return ends
	}
	for i, end := range ends(experiment.Setting{Name: "columns", Value: "true"}) {
		if math.Abs(end-1) > 0.02 {
			t.Errorf("job %d ends after %v of the time that it should take", i, end)
		}
	}
	if got := ends(); slices.Max(got[:]) < 1.2 {
		t.Errorf("without columns they end after %v", got)
	}
}

// TestColumnsRefused: what columns do not go with is an error.
func TestColumnsRefused(t *testing.T) {
	for name, set := range map[string][2]string{"agnostic": {"aware", "false"}, "packed": {"packed", "true"}, "always together": {"place", "consolidated"}, "": {"round", "5m"}} {
		c := gavel.NewConfig()
		c.Columns = true
		if err := c.Params().Set(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Policy(); (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := gavel.NewConfig()
	c.Columns, c.Around = true, func(p gavel.Program) gavel.Program { return p }
	if _, err := c.Policy(); err == nil {
		t.Error("columns are divided into parts")
	}
}
