package shockwave_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/policy/shockwave"
	"github.com/norn-scheduler/norn/solve"
	"github.com/norn-scheduler/norn/solve/highs"
)

// log is the piecewise linear logarithm of the paper, at its bases.
var bases, logs = []float64{0, 0.2, 0.4, 0.6, 0.8, 1}, []float64{math.Log(1e-6), math.Log(0.2), math.Log(0.4), math.Log(0.6), math.Log(0.8), 0}

// program is the mixed-integer program of the paper as it stands there, without the
// binary variables of the pieces, which concavity makes needless.
func program(w shockwave.Window, jobs []shockwave.Job, due bool) *solve.Model {
	m := solve.NewModel("shockwave", solve.Maximize)
	share := min(1, float64(w.GPUs)/float64(len(jobs)))
	longest := m.Real(0, solve.Inf(), -w.K)
	rounds := make([][]solve.Term, w.Rounds)
	for _, j := range jobs {
		epochs := m.Real(0, solve.Inf(), 0)
		progress := []solve.Term{epochs.Times(-1 / float64(j.Epochs))}
		var one []solve.Term
		for s, b := range bases {
			lambda := m.Real(0, 1, logs[s]/float64(len(jobs)*w.Rounds))
			progress, one = append(progress, lambda.Times(b)), append(one, lambda.Times(1))
		}
		m.Equal(float64(j.Done)/float64(j.Epochs), progress...)
		m.Equal(1, one...)
		time := []solve.Term{epochs.Times(j.Epoch)}
		for t := range rounds {
			x := m.Bool(0)
			rounds[t] = append(rounds[t], x.Times(float64(j.GPUs)))
			time = append(time, x.Times(-w.Length))
		}
		m.AtMost(0, time...)
		left := m.Real(0, solve.Inf(), 0)
		m.AtLeast(j.Left, left.Times(1), epochs.Times(j.Epoch))
		m.AtLeast(0, longest.Times(1), left.Times(-1))
		if due {
			m.AtMost(w.RhoMax*j.Due-w.Length*float64(w.First+w.Rounds), left.Times(1/share))
		}
	}
	for _, terms := range rounds {
		m.AtMost(float64(w.GPUs), terms...)
	}
	return m
}

// TestProgram: the plan is an optimum of the program, as HiGHS solves it, where jobs
// take one GPU each; and it is a relaxed one where the program has no solution. With
// gangs, whose rounds may not fit beside each other, it is within what a round is
// worth to one of them.
func TestProgram(t *testing.T) {
	engine := highs.New(highs.Options{})
	for name, sizes := range map[string][]int{"single": {1}, "gangs": {1, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w, jobs := draw(t, sizes)
				plan := w.Make(jobs)
				check(t, w, jobs, plan)
				want, err := engine.Solve(program(w, jobs, true), solve.Options{})
				if name == "single" && plan.Relaxed != (err != nil) || err != nil && !errors.Is(err, solve.Infeasible) {
					t.Fatalf("%+v of %+v: relaxed %v, HiGHS: %v", w, jobs, plan.Relaxed, err)
				}
				if plan.Relaxed || err != nil {
					return
				}
				near := 1e-6 * max(1, math.Abs(want.Objective))
				for _, j := range jobs {
					if j.GPUs > 1 {
						near = max(near, (logOf(j, w.Length/j.Epoch)-logOf(j, 0))/float64(len(jobs)*w.Rounds)+w.K*w.Length)
					}
				}
				if plan.Objective < want.Objective-near {
					t.Fatalf("%+v of %+v: %v with %v, HiGHS has %v", w, jobs, plan.Objective, plan.Runs, want.Objective)
				}
			})
		})
	}
}

// logOf is the logarithm of a job's progress after so many more epochs.
func logOf(j shockwave.Job, epochs float64) float64 {
	x := min(1, (float64(j.Done)+epochs)/float64(j.Epochs))
	for i := range bases[1:] {
		if x <= bases[i+1] {
			return logs[i] + (logs[i+1]-logs[i])*(x-bases[i])/(bases[i+1]-bases[i])
		}
	}
	return 0
}

func draw(t *rapid.T, sizes []int) (w shockwave.Window, jobs []shockwave.Job) {
	w = shockwave.Window{
		GPUs: rapid.IntRange(1, 4).Draw(t, "gpus"), Rounds: rapid.IntRange(1, 4).Draw(t, "rounds"), Length: 100,
		K: rapid.SampledFrom([]float64{1e-3, 1e-5, 1}).Draw(t, "k"), Lambda: 2, RhoMax: 1, First: rapid.IntRange(0, 3).Draw(t, "first"),
	}
	for range rapid.IntRange(1, 5).Draw(t, "jobs") {
		j := shockwave.Job{GPUs: min(w.GPUs, rapid.SampledFrom(sizes).Draw(t, "size")), Epochs: rapid.IntRange(1, 10).Draw(t, "epochs")}
		j.Epoch = float64(rapid.IntRange(20, 200).Draw(t, "epoch"))
		j.Done = rapid.IntRange(0, j.Epochs-1).Draw(t, "done")
		j.Left = float64(j.Epochs-j.Done) * j.Epoch
		j.Due = float64(rapid.IntRange(300, 6000).Draw(t, "due"))
		jobs = append(jobs, j)
	}
	return w, jobs
}

// check: no round has more GPUs than there are, and none leaves a job out that would
// fit.
func check(t *rapid.T, w shockwave.Window, jobs []shockwave.Job, plan shockwave.Plan) {
	for r := range w.Rounds {
		free := w.GPUs
		for i, j := range jobs {
			if plan.Runs[i][r] {
				free -= j.GPUs
			}
		}
		if free < 0 {
			t.Fatalf("round %d of %v uses %d GPUs more than there are", r, plan.Runs, -free)
		}
		for i, j := range jobs {
			if !plan.Runs[i][r] && j.GPUs <= free {
				t.Fatalf("job %d would fit in round %d of %v", i, r, plan.Runs)
			}
		}
	}
}

// BenchmarkWindow plans windows of 460 jobs on 128 GPUs, one after another as time
// goes by.
func BenchmarkWindow(b *testing.B) {
	var jobs []shockwave.Job
	for i := range 460 {
		n := 5 + i*7%90
		j := shockwave.Job{GPUs: []int{1, 1, 1, 1, 2, 4}[i%6], Epochs: n, Done: i * 3 % n, Epoch: 30 + float64(i*11%300)}
		j.Left = float64(j.Epochs-j.Done) * j.Epoch
		j.Due = 4 * (float64(j.Done)*j.Epoch + j.Left)
		jobs = append(jobs, j)
	}
	w := shockwave.Window{GPUs: 128, Rounds: 20, Length: 120, K: 1e-3, Lambda: 15, RhoMax: 1, First: 10}
	for b.Loop() {
		w.Make(jobs)
	}
}
