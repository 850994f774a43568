package stages

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// active is a job whose stages have so many tasks, and these parents.
func active(id string, tasks []int, parents ...[]int) *Active {
	j := &Job{ID: id}
	for i, n := range tasks {
		s := Stage{Tasks: n, Mean: float64(1 + i)}
		if i < len(parents) {
			s.Parents = parents[i]
		}
		j.Stages = append(j.Stages, s)
	}
	return Activate(j)
}

// Acceptance 1 of the specification: a stage enters the frontier when its parents are saturated, not when they end.
func TestFrontier(t *testing.T) {
	a := active("j", []int{4, 2, 3}, nil, nil, []int{0, 1})
	want := func(list ...int) {
		t.Helper()
		if got := a.Frontier(nil); !slices.Equal(got, list) {
			t.Errorf("frontier %v, want %v", got, list)
		}
	}
	want(0, 1)
	a.Progress[0].Coming = 4
	want(1)
	a.Progress[1].Coming = 2
	want(2)
	if a.Runnable(2) {
		t.Error("its parents have not ended")
	}
	a.Progress[0], a.Progress[1] = Progress{}, Progress{}
	if !a.Runnable(2) {
		t.Error("its parents have ended")
	}
}

// Acceptance 2: how many executors a choice moves.
func TestAssign(t *testing.T) {
	a := active("j", []int{5})
	a.Held = 3
	v := &View{Executors: 50, Free: 4, Jobs: []*Active{a}}
	if n := v.Assign(Choice{a, 0, 6}); n != 3 {
		t.Errorf("from elsewhere: %d, want 3", n)
	}
	a.Held, v.Source = 7, a
	if n := v.Assign(Choice{a, 0, 6}); n != 3 {
		t.Errorf("of the same job: %d, want 3", n)
	}
}

// Acceptance 3: the limit of dynamic partition.
func TestPartitionLimit(t *testing.T) {
	for jobs, want := range map[int]int{7: 8, 60: 1} {
		v := &View{Executors: 50}
		for range jobs {
			v.Jobs = append(v.Jobs, active("j", []int{1}))
		}
		if got := new(Partition).Limit(v); got != want {
			t.Errorf("%d jobs: limit %d, want %d", jobs, got, want)
		}
	}
}

// someView is two jobs in the middle of their lives.
func someView() *View {
	a := active("a", []int{40, 30, 200, 5}, nil, nil, []int{0, 1}, []int{2})
	b := active("b", []int{10, 3, 8}, nil, []int{0}, []int{0})
	a.Held, a.Progress[0].Left, b.Held, b.Progress[0] = 7, 12, 3, Progress{Running: 2}
	return &View{Executors: 12, Free: 2, Source: a, Jobs: []*Active{a, b, active("c", []int{6})}}
}

// loss is -(advantage x log probability + bonus x entropy) of a choice, computed from the probabilities.
func loss(w *Weights, c func(*View) Choice, advantage, bonus float64) float64 {
	v := someView()
	g := Agent{Weights: w}
	g.score(v)
	choice := c(v)
	at := slices.IndexFunc(g.options, func(o Choice) bool { return o.Job == choice.Job && o.Stage == choice.Stage })
	least := g.scoreLimits(v, choice.Job)
	out := -advantage * (g.stages.logs[at] + g.limits.logs[choice.Limit-least])
	for _, l := range slices.Concat(g.stages.logs, g.limits.logs) {
		out += bonus * math.Exp(l) * l
	}
	return out
}

// The gradient is that of finite differences.
func TestGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := Draw(rng)
	for i := range w.Values { // biases, too, and away from the kink of ReLU
		w.Values[i] += 0.05 * rng.NormFloat64()
	}
	pickB := func(v *View) Choice { return Choice{v.Jobs[1], 1, 6} }
	l := NewLearner(w)
	v := someView()
	log := l.Learn(v, pickB(v), 0.7, 0.3)
	l.Finish()
	if log >= 0 {
		t.Errorf("log probability %g", log)
	}
	worst, biggest := 0.0, 0.0
	for range 400 {
		i := rng.IntN(len(w.Values))
		const step = 1e-6
		old := w.Values[i]
		w.Values[i] = old + step
		up := loss(w, pickB, 0.7, 0.3)
		w.Values[i] = old - step
		down := loss(w, pickB, 0.7, 0.3)
		w.Values[i] = old
		worst = max(worst, math.Abs(l.Gradient[i]-(up-down)/2/step))
		biggest = max(biggest, math.Abs(l.Gradient[i]))
	}
	if worst > 1e-5 || biggest < 1e-2 {
		t.Errorf("differs by %g, of %g", worst, biggest)
	}
}

// Acceptance 6: other orders of jobs permute scores only.
func TestOrderOfJobs(t *testing.T) {
	w := Draw(rand.New(rand.NewPCG(3, 4)))
	v := someView()
	one, two := Agent{Weights: w}, Agent{Weights: w}
	one.score(v)
	slices.Reverse(v.Jobs)
	two.score(v)
	for i, o := range one.options {
		k := slices.IndexFunc(two.options, func(p Choice) bool { return p.Job == o.Job && p.Stage == o.Stage })
		if k < 0 || math.Abs(one.stages.logs[i]-two.stages.logs[k]) > 1e-9 {
			t.Errorf("job %s, stage %d: another score", o.Job.ID, o.Stage)
		}
	}
}

// Every choice of every policy is one of the frontier and moves an executor; the learned one with any weights.
func TestChoices(t *testing.T) {
	for seed := range uint64(50) {
		for _, e := range Table(Draw(rand.New(rand.NewPCG(seed, 0)))) {
			p, err := e.New().Policy()
			if err != nil {
				t.Fatal(err)
			}
			v := someView()
			c, ok := p.Next(v)
			if !ok || !slices.Contains(c.Job.Frontier(nil), c.Stage) || v.Assign(c) < 1 {
				t.Errorf("%s chose %v, %t", e.Name, c, ok)
			}
		}
	}
}

// Weights that cannot be are told.
func TestNewWeights(t *testing.T) {
	bad := make([]float64, theNetwork().size)
	bad[3] = math.NaN()
	for _, list := range [][]float64{nil, {1}, bad} {
		if _, err := NewWeights(list); err == nil {
			t.Errorf("%d weights are taken", len(list))
		}
	}
}
