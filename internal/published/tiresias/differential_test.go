package tiresias

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/yarn"
)

// traceOf writes jobs as a trace and reads it again.
func traceOf(t *testing.T, jobs []*slowJob) harness.Jobs {
	t.Helper()
	var b strings.Builder
	b.WriteString("job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n")
	for _, j := range jobs {
		fmt.Fprintf(&b, "%d,%d,%d,1,vgg16,%d,1\n", j.id, j.gpus, j.submit, j.duration)
	}
	table, err := harness.NewTable("trace.csv", b.String())
	if err != nil {
		t.Fatal(err)
	}
	read, err := readJobs(table)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// lines is a result as the simulator prints it, by job.
func lines(t *testing.T, r *harness.Result) map[string]string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(b.String()), "\n")[1:] {
		key, _, _ := strings.Cut(line, ",")
		out[key] = line
	}
	return out
}

// randomJobs makes a small trace with many ties.
func randomJobs(r *rand.Rand) []*slowJob {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	span := pick(1, 5, 50, 500, 5000, 50_000)
	sizes := [][]int{{1, 2, 4, 8}, {1, 2, 3, 5, 7}, {1, 1, 1, 2}, {4, 8, 16, 32}, {2, 6, 12, 20}}[r.IntN(5)]
	durations := [][]int{{0, 1, 2, 3}, {10, 20, 30}, {100, 200, 300, 3250}, {1000, 3250, 5000, 7200, 10_000}, nil}[r.IntN(5)]
	jobs := make([]*slowJob, 3+r.IntN(30))
	moments := []int{r.IntN(span), r.IntN(span), r.IntN(span), r.IntN(span)}
	tied, aligned := r.IntN(2) == 0, r.IntN(3) == 0
	for i := range jobs {
		j := &slowJob{id: i, gpus: pick(sizes...), submit: int64(r.IntN(span)), duration: int64(r.ExpFloat64() * float64(pick(200, 4000, 40_000)))}
		if durations != nil {
			j.duration = int64(pick(durations...))
		}
		if tied {
			j.submit = int64(pick(moments...))
		}
		if aligned { // ends and arrivals meet, and limits lie between
			j.submit, j.duration = int64(325*r.IntN(40)), int64(325*(1+r.IntN(30)))
		}
		jobs[i] = j
	}
	return jobs
}

func randomSpec(r *rand.Rand) yarn.Spec {
	return []yarn.Spec{
		{Switches: 1, Nodes: 1, GPUs: 8, CPUs: 128, Memory: 256}, {Switches: 1, Nodes: 4, GPUs: 4, CPUs: 128, Memory: 256},
		{Switches: 2, Nodes: 2, GPUs: 4, CPUs: 128, Memory: 256}, {Switches: 1, Nodes: 4, GPUs: 4, CPUs: 20, Memory: 256},
		{Switches: 3, Nodes: 2, GPUs: 8, CPUs: 50, Memory: 60}, {Switches: 1, Nodes: 3, GPUs: 8, CPUs: 40, Memory: 100},
		{Switches: 2, Nodes: 3, GPUs: 4, CPUs: 16, Memory: 24},
	}[r.IntN(7)]
}

// TestDifferential holds every policy, under either scheme, against the slow
// version on small random traces: every column of every job must be equal.
func TestDifferential(t *testing.T) {
	longtest.Skip(t)
	for _, p := range Policies() {
		t.Run(p.Name, func(t *testing.T) {
			for seed := range uint64(80) {
				r := rand.New(rand.NewPCG(seed, 1))
				jobs, spec := randomJobs(r), randomSpec(r)
				if p.turns {
					fitGandiva(jobs)
				}
				got, err := p.Run(context.Background(), spec, traceOf(t, jobs))
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if p.turns {
					slowRunGandiva(jobs, spec)
				} else if err := slowRun(strings.TrimSuffix(strings.TrimSuffix(p.Name, "-yarn"), "-count"), jobs, spec, p.yarn); err != nil {
					t.Fatal(err)
				}
				compareSlow(t, seed, p, lines(t, got), jobs)
			}
		})
	}
}

// fitGandiva gives jobs sizes that Gandiva has sets for.
func fitGandiva(jobs []*slowJob) {
	for _, j := range jobs {
		for !slices.Contains(sizes[:], j.gpus) {
			j.gpus++
		}
	}
}

func compareSlow(t *testing.T, seed uint64, p Policy, got map[string]string, jobs []*slowJob) {
	t.Helper()
	for _, j := range jobs {
		resume := fmt.Sprint(j.resume)
		if p.yarn {
			resume = ""
		}
		want := fmt.Sprintf("%d,%d,%d,%d,%d,%d,%d,%d,%d,%s,%d",
			j.id, j.gpus, j.submit, j.start, j.end, j.end-j.submit, j.duration, j.pending, j.preempt, resume, j.promote)
		if !j.reachedEnd {
			want = ""
		}
		if got[fmt.Sprint(j.id)] != want {
			t.Fatalf("seed %d: job %d:\n got %s\nwant %s", seed, j.id, got[fmt.Sprint(j.id)], want)
		}
	}
}
