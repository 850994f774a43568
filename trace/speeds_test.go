package trace

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
)

// works reads the run times and keys of a trace.
func works(t *testing.T, path string, opt Options) (seconds []float64, keys []string, info Info) {
	t.Helper()
	r, err := Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var e Entry
	for {
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			return seconds, keys, r.Info()
		} else if err != nil {
			t.Fatal(err)
		}
		seconds = append(seconds, e.Truth.Work.Seconds())
		keys = append(keys, e.Job.Model)
	}
}

// factors compares two lists of run times: how far apart they are, as factors
// of one or more, in increasing order.
func factors(t *testing.T, a, b []float64) []float64 {
	t.Helper()
	if len(a) != len(b) || len(a) == 0 {
		t.Fatalf("%d and %d run times", len(a), len(b))
	}
	var f []float64
	for i := range a {
		if a[i] <= 0 || b[i] <= 0 {
			t.Fatalf("job %d: %v and %v seconds", i, a[i], b[i])
		}
		f = append(f, math.Exp(math.Abs(math.Log(a[i]/b[i]))))
	}
	slices.Sort(f)
	return f
}

// TestNominalSpeeds holds the built-in speeds against the measurements that
// they were made from: the run times of all published traces come out about as
// with the measurements themselves.
func TestNominalSpeeds(t *testing.T) {
	for _, test := range []struct {
		name, profile string
		files         []string
		half, most    float64 // half of the jobs, and all, are within these factors
	}{
		{"gavel", "gavel/simulation_throughputs.json.gz", []string{
			"gavel/traces/physical_cluster/max_min_fairness.trace", "gavel/traces/physical_cluster/minimize_makespan.trace",
			"gavel/traces/msr_seed0/11cb48.trace.gz", "gavel/traces/msr_seed0/ee9e8c.trace.gz",
		}, 1.003, 1.005},
		{"pollux", "pollux_sia", []string{
			"pollux_sia/workloads_pollux/workloads/workload-6.csv", "pollux_sia/workloads_pollux/workloads-realistic/workload-1.csv",
			"pollux_sia/workloads_sia/newtrace/workload-1.csv",
		}, 1.2, 1.6},
		{"synergy", "synergy/model_summary.csv", []string{"synergy/static_100job_6_3_1100.0", "synergy/dynamic/srtf.log"}, 1.000001, 1.000001},
		{"arena", "arena/prof_database_optimal.json", []string{
			"arena/simulate_trace_pai.csv", "arena/simulate_trace_philly.csv.gz", "arena/simulate_trace_venus.csv", "arena/runtime_trace.csv",
		}, 1.15, 2.4},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, file := range test.files {
				path := shared.Path(t, "data/"+file)
				nominal, _, info := works(t, path, Options{})
				measured, keys, with := works(t, path, Options{Profile: shared.Path(t, "data/"+test.profile)})
				if info.Nominal == "" || with.Nominal == info.Nominal {
					t.Errorf("%s: says %q and %q", file, info.Nominal, with.Nominal)
				}
				f := factors(t, nominal, measured)
				if f[len(f)/2] > test.half || f[len(f)-1] > test.most {
					t.Errorf("%s: half of the %d jobs within a factor of %.4f, all within %.4f (%s...)", file, len(f), f[len(f)/2], f[len(f)-1], keys[0])
				}
			}
		})
	}
}

// TestProfileOfAnotherGPU checks that Options.GPU chooses among the measured.
func TestProfileOfAnotherGPU(t *testing.T) {
	gavel := shared.Path(t, "data/gavel/traces/physical_cluster/small_test.trace")
	table := shared.Path(t, "data/gavel/simulation_throughputs.json.gz")
	fast, _, _ := works(t, gavel, Options{Profile: table, GPU: "v100"})
	slow, _, _ := works(t, gavel, Options{Profile: table, GPU: "k80"})
	slower := 0
	for i := range fast {
		if slow[i] > fast[i]*1.2 {
			slower++
		}
	}
	if slower < len(fast)*3/4 {
		t.Errorf("only %d of %d jobs run slower on a K80", slower, len(fast))
	}
	pollux := shared.Path(t, "data/pollux_sia/workloads_sia/philly/workload-1.csv")
	t4, _, _ := works(t, pollux, Options{Profile: shared.Path(t, "data/pollux_sia/profiles")})
	a100, _, _ := works(t, pollux, Options{Profile: shared.Path(t, "data/pollux_sia/profiles"), GPU: "dgx-ext"})
	var sum4, sum100 float64
	for i := range t4 {
		sum4 += t4[i]
		sum100 += a100[i]
	}
	if sum100*1.5 > sum4 {
		t.Errorf("all jobs take %v s on A100 and %v s on T4", sum100, sum4)
	}
	for _, opt := range []Options{{Profile: table, GPU: "h100"}, {Profile: gavel}, {Profile: "no-such-file"}} {
		if _, err := Open(gavel, opt); err == nil {
			t.Errorf("%+v: no error", opt)
		}
	}
	if _, err := Open(shared.Path(t, "data/tiresias/60_job.csv"), Options{Profile: table}); err == nil {
		t.Error("a profile that is of no use is no error")
	}
}

// TestAFSTable compares the built-in iteration times with all that are
// published.
func TestAFSTable(t *testing.T) {
	var models map[string]struct {
		Times []float64 `json:"time_per_iter_us_by_gpus"`
	}
	content, err := os.ReadFile(shared.Path(t, "data/pcs_afs/afs_models.json"))
	if err == nil {
		err = json.Unmarshal(content, &models)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(models) != len(afsIterations) {
		t.Errorf("%d models, built in are %d", len(models), len(afsIterations))
	}
	for name, m := range models {
		for i, want := range m.Times {
			if got := afsIterations[name].at(float64(i + 1)); math.Abs(got-want) > 2 {
				t.Errorf("%s on %d GPUs: %v us, published are %v", name, i+1, got, want)
			}
		}
	}
}

// TestSynergyRounds compares nominal run times with a published simulation. In
// rounds of 300 s, a job that starts in the first round ends with the round in
// which its work is done. If that is done shortly before the end of a round,
// the job ends with the next one.
func TestSynergyRounds(t *testing.T) {
	golden := shared.Path(t, "golden/synergy/static100-FIFO-fair.csv")
	_, rows, err := readColumns(golden, "job_id", "end")
	if err != nil {
		t.Fatal(err)
	}
	seconds, _, _ := works(t, shared.Path(t, "data/synergy/static_100job_6_3_1100.0"), Options{})
	equal := 0
	for i := range 32 { // as many as there are GPUs
		end := rows[i][1]
		rounds := math.Ceil(seconds[i]/300)*300 + 1
		switch left := rounds - 1 - seconds[i]; {
		case end == rounds:
			equal++
		case end != rounds+300 || left > 30:
			t.Errorf("job %d: ends at %v, %v s of work end at %v", i, end, seconds[i], rounds)
		}
	}
	if equal < 29 {
		t.Errorf("%d of 32 jobs end with the round in which their work is done", equal)
	}
}

func TestCurve(t *testing.T) {
	c := curve{{1, 10}, {3, 30}, {7, 10}}
	for x, want := range map[float64]float64{0: 10, 1: 10, 2: 20, 3: 30, 5: 20, 7: 10, 9: 10} {
		if got := c.at(x); got != want {
			t.Errorf("at %v: %v, want %v", x, got, want)
		}
	}
	if got := iterationsAt(curve{{100, 1000}, {400, 500}}, 200); math.Abs(got-1000/math.Sqrt2) > 1e-9 {
		t.Errorf("between the batch sizes: %v", got)
	}
	if got := iterationsAt(curve{{100, 1000}, {400, 500}}, 50); math.Abs(got-2000) > 1e-9 {
		t.Errorf("below the batch sizes: %v", got)
	}
}
