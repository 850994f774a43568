package logs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
)

// TestRowCounts: as many jobs are read as the logs have.
func TestRowCounts(t *testing.T) {
	data := shared.Path(t, "data")
	for name, log := range map[string]struct {
		read func(string) ([]Job, error)
		jobs int
	}{
		"philly": {Philly, 111_813}, "venus": {Venus, 125_303}, "itp": {ITP, 69_351}, "pai": {PAI, 60_105}, "pollux": {Pollux, 1280},
	} {
		jobs, err := log.read(data)
		if err != nil || len(jobs) != log.jobs {
			t.Errorf("%s: %d jobs instead of %d (%v)", name, len(jobs), log.jobs, err)
		}
		for i := range jobs {
			if jobs[i].Run <= 0 || jobs[i].GPUs < 1 || i > 0 && jobs[i].Submit < jobs[i-1].Submit && name != "pollux" {
				t.Fatalf("%s: job %d is %+v", name, i, jobs[i])
			}
		}
	}
	if runs, asked, err := ThetaGPU(data); err != nil || len(runs) != 22_606 || len(asked) != len(runs) {
		t.Errorf("thetagpu: %d runs, %d wall times (%v)", len(runs), len(asked), err)
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "pollux_sia/workloads_pollux/workloads"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pollux_sia/workloads_pollux/workloads/workload-1.csv")
	for _, text := range []string{"name,time\na,1\n", "name,time,application,num_replicas,batch_size\na,b,c,d,e\n", "a\n\"", ""} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Pollux(dir); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
}

func TestBetween(t *testing.T) {
	xs, ys := []float64{1, 2, 4}, []float64{10, 20, 40}
	for x, want := range map[float64]float64{0: 10, 1: 10, 1.5: 15, 2: 20, 3: 30, 4: 40, 9: 40} {
		if got := between(xs, ys, x); got != want {
			t.Errorf("at %v: %v instead of %v", x, got, want)
		}
	}
}

// TestRowsOf: of six jobs, two follow one of the same owner and size in time.
func TestRowsOf(t *testing.T) {
	jobs := []Job{
		{Submit: 0, User: "a", GPUs: 1, Run: 5}, {Submit: 1, User: "b", GPUs: 1, Run: 50}, {Submit: 9, User: "a", GPUs: 1, Run: 6},
		{Submit: 10, User: "a", GPUs: 2, Run: 7}, {Submit: 11, User: "b", GPUs: 1, Run: 60}, {Submit: 30, User: "a", GPUs: 1, Run: 1},
	}
	r := RowsOf(jobs, 10, func(j *Job) string { return j.User }, func(j *Job) string { return j.User })
	if r.Follow != 2./6 || r.Same != 1 || r.Rank < .99 || len(r.Gaps) != 2 || r.Chance != 4./9+1./9 {
		t.Errorf("%+v", r)
	}
}
