package muri

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/yarn"
)

const fullHead = "job_id,num_gpu,submit_time,iterations,model_name,duration,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"

// antmanRows plays antman on nodes of two GPUs and returns job, start and end.
func antmanRows(t *testing.T, nodes int, rows ...string) string {
	t.Helper()
	table, err := harness.NewTable("trace.csv", fullHead+strings.Join(rows, "\n")+"\n")
	if err != nil {
		t.Fatal(err)
	}
	w, err := readTable(table)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Find("antman")
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.run(context.Background(), yarn.Spec{Switches: 1, Nodes: nodes, GPUs: 2, CPUs: 92, Memory: 520}, w)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range r.Rows {
		row := &r.Rows[i]
		line := append([]byte(row.Key), ' ')
		out = append(out, string(harness.AppendFloat(append(harness.AppendFloat(line, row.Start), ' '), row.End)))
	}
	return strings.Join(out, "; ")
}

func TestAntmanQuirks(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes int
		rows  []string
		want  string // job start end
	}{
		{
			// The owner's iteration of 101.5 ms leaves 50 ms at storage, 40
			// at the GPU. The guest's 30 ms at storage fit one iteration of
			// the owner (50 ms at others). Its 50 ms at the GPU fit another
			// one (60 ms at others). So each takes two of the owner's
			// iterations, 203 ms, as long as the owner is there. It ends
			// 101.5 s of its own iterations behind the owner's 101.5 s,
			// less the 10 s that its end costs.
			"a guest takes turns with the owner of its GPU, who feels nothing", 1,
			[]string{"0,2,0,1000,bert,1,100,50,40,10,0", "1,2,0,1000,bert,1,100,30,50,0,1"},
			"0 0 101.5; 1 0 157.25",
		},
		{
			// The arrival of 3 costs 0 and 1 a second. 2 needs both GPUs; it keeps that of 1
			// from 11.15 s on, so that 3, which needs only one, waits for 0 as well, and
			// longer. Ends cost those who run 10 s.
			"a guaranteed job keeps what it has while it waits for more", 1,
			[]string{"0,1,0,1000,bert,1,100,50,40,10,0", "1,1,0,100,bert,1,100,50,40,10,0", "2,2,0,100,bert,1,100,50,40,10,0", "3,1,1000,100,bert,1,100,50,40,10,0"},
			"0 0 112.5; 1 0 11.15; 2 112.5 122.65; 3 122.65 132.8",
		},
		{
			// The guest goes to the free node, not to the owner's.
			"guests go where least is in use", 2,
			[]string{"0,2,0,1000,bert,1,100,50,40,10,0", "1,2,0,1000,bert,1,100,30,50,0,1"},
			"0 0 101.5; 1 0 101.5",
		},
		{
			"there is one guest on a GPU", 1,
			[]string{"0,2,0,1000,bert,1,100,50,40,10,1", "1,2,0,1000,bert,1,100,30,50,0,1"},
			"0 0 101.5; 1 101.5 203",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := antmanRows(t, c.nodes, c.rows...); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestAntmanRefuses what the published code cannot play either, or throws dice for.
func TestAntmanRefuses(t *testing.T) {
	one := yarn.Spec{Switches: 1, Nodes: 4, GPUs: 6, CPUs: 92, Memory: 520}
	two := one
	two.Switches, two.GPUs = 2, 8
	for _, c := range []struct {
		head, row string
		spec      yarn.Spec
		want      string
	}{
		{head, "0,1,0,10,bert,1,100\n", yarn.Spec{Switches: 1, Nodes: 1, GPUs: 8}, "policy antman: the trace has no column priority"},
		{fullHead, "0,8,0,10,bert,1,100,1,1,1,0\n", one, "job 0 asks for 8 GPUs, which is no number of whole nodes of 6"},
		{fullHead, "0,8,0,10,bert,1,100,1,1,1,0\n", two, "is played on one switch"},
	} {
		table, err := harness.NewTable("t.csv", c.head+c.row)
		if err != nil {
			t.Fatal(err)
		}
		w, err := readTable(table)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := Find("antman")
		if _, err := p.run(context.Background(), c.spec, w); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func drawRatios(t *rapid.T) ([]ratio, float64) {
	all := make([]ratio, rapid.IntRange(1, 5).Draw(t, "jobs"))
	asked := 0.0
	for i := range all {
		all[i] = ratio{
			gpus: rapid.SampledFrom([]float64{1, 2, 4, 8}).Draw(t, "gpus"), speed: rapid.Float64Range(0.1, 10).Draw(t, "speed"),
			passed: rapid.Float64Range(0, 1e4).Draw(t, "passed"), left: rapid.Float64Range(1, 1e4).Draw(t, "left"),
		}
		all[i].alone = all[i].left * rapid.Float64Range(1, 100).Draw(t, "alone over left")
		asked += all[i].gpus
	}
	return all, math.Max(1, asked*rapid.Float64Range(0.1, 1.5).Draw(t, "load"))
}

// The shares fit, and no shares have a better worst ratio: with less, the jobs need more
// GPUs than there are, or more than they ask for.
func TestLeastShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, gpus := drawRatios(t)
		worst := leastShares(all, gpus)
		used := 0.0
		for i := range all {
			if r := &all[i]; r.share <= 0 || r.share > 1 || r.share < r.needs(worst)*(1-1e-9) {
				t.Fatalf("job %d has %v, though it needs %v", i, r.share, r.needs(worst))
			}
			used += all[i].gpus * all[i].share
		}
		if used > gpus*(1+1e-9) {
			t.Fatalf("%v of %v GPUs", used, gpus)
		}
		better, need := worst*(1-1e-6), 0.0
		for i := range all {
			s := all[i].needs(better)
			if s < 0 || s > 1 {
				return // it cannot have that
			}
			need += all[i].gpus * s
		}
		if need <= gpus {
			t.Fatalf("the worst ratio is %v, though %v of %v GPUs do for less", worst, need, gpus)
		}
	})
}

// The program asks for the same: its shares fit, and give each job what it needs, as
// nearly as ECOS is exact.
func TestLeastRatio(t *testing.T) {
	const near = 0.01
	rapid.Check(t, func(t *rapid.T) {
		all, gpus := drawRatios(t)
		worst := leastShares(slices.Clone(all), gpus)
		leastRatio(all, gpus)
		used := 0.0
		for i := range all {
			r := &all[i]
			if r.share > 1+near || r.share < r.needs(worst*(1+near))-near {
				t.Fatalf("job %d has %v, and needs %v", i, r.share, r.needs(worst))
			}
			used += r.gpus * r.share
		}
		if used > gpus*(1+near) {
			t.Fatalf("%v of %v GPUs", used, gpus)
		}
	})
}
