package perf_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

func model(name string) *job.Job { return &job.Job{Model: name} }

// Measured pairs are directed, a figure for the GPU type goes before one for any,
// several neighbours multiply, and pairs that nobody measured are asked elsewhere.
func TestPairsByHand(t *testing.T) {
	m := perf.Pairs{Speed: map[perf.Pair]float64{
		{Job: "a", Beside: "b"}: 0.8, {Job: "b", Beside: "a"}: 0.5, {Job: "a", Beside: "b", Type: "T4"}: 0.6, {Job: "a", Beside: "c"}: 0.9,
	}}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	a, b, c := model("a"), model("b"), model("c")
	v100, t4 := cluster.GPUType{Name: "V100"}, cluster.GPUType{Name: "T4"}
	for _, x := range []struct {
		j      *job.Job
		others []*job.Job
		t      cluster.GPUType
		want   float64
	}{
		{a, nil, v100, 1}, {a, []*job.Job{b}, v100, 0.8}, {b, []*job.Job{a}, v100, 0.5}, {a, []*job.Job{b}, t4, 0.6},
		{a, []*job.Job{b, c}, v100, 0.72}, {a, []*job.Job{b, b}, v100, 0.64}, {c, []*job.Job{a}, v100, 1},
	} {
		if got := m.Beside(x.j, x.others, x.t); math.Abs(got-x.want) > 1e-12 {
			t.Errorf("%s beside %d on %s: %v, want %v", x.j.Model, len(x.others), x.t.Name, got, x.want)
		}
	}
	m.Else = perf.Demands{} // two jobs that tell nothing halve each other
	if got := m.Beside(c, []*job.Job{a}, v100); got != 0.5 {
		t.Errorf("a pair that was not measured: %v, want 0.5", got)
	}
	m.Sort = func(*job.Job) string { return "a" }
	if got := m.Beside(c, []*job.Job{b}, v100); got != 0.5 {
		t.Errorf("sorted otherwise, a pair that was not measured: %v, want 0.5", got)
	}
	m.Speed[perf.Pair{Job: "x", Beside: "y"}] = 1.2
	if m.Check() == nil {
		t.Error("a job that runs faster beside another was let through")
	}
}

// The published pairs of Lucid: each of the measured speeds is what the table
// answers, in both directions.
func TestLucidPairs(t *testing.T) {
	rows := shared.Rows(t, "data/lucid/colocate_info.csv")
	m := perf.Pairs{Speed: map[perf.Pair]float64{}, Sort: func(j *job.Job) string { return j.Model + "/" + j.Dataset + "/" + strconv.Itoa(j.Batch) + j.Name }}
	spec := func(row []string) *job.Job {
		batch, err := strconv.Atoi(row[3])
		if err != nil {
			t.Fatal(err)
		}
		return &job.Job{Model: row[0], Dataset: row[1], Batch: batch, Name: row[4]}
	}
	below, n := 0, 0
	for _, row := range rows[1:] {
		a, b := spec(row[1:6]), spec(row[7:12])
		for _, x := range []struct {
			j, beside *job.Job
			speed     string
		}{{a, b, row[6]}, {b, a, row[12]}} {
			speed, err := strconv.ParseFloat(x.speed, 64)
			if err != nil {
				t.Fatal(err)
			}
			speed = min(1, speed) // noise of the measurement above 1
			m.Speed[perf.Pair{Job: m.Sort(x.j), Beside: m.Sort(x.beside)}] = speed
			if got := m.Beside(x.j, []*job.Job{x.beside}, cluster.GPUType{}); got != speed {
				t.Errorf("%s beside %s: %v, want %v", x.j.Model, x.beside.Model, got, speed)
			}
			if n++; speed < 0.9 {
				below++
			}
		}
	}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	if n < 1000 || below < n/10 || below > n*9/10 {
		t.Errorf("%d of %d measured speeds are below 0.9", below, n)
	}
}
