package tiresias

import (
	"math"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/yarn"
	"github.com/norn-scheduler/norn/internal/shared"
)

// The published code gives these ends for these jobs. A job has started when it was
// put into a set.
func TestGandiva(t *testing.T) {
	nodes := func(n int) yarn.Spec { return yarn.Spec{Switches: 1, Nodes: n, GPUs: 4, CPUs: 128, Memory: 256} }
	for _, c := range []struct {
		name string
		spec yarn.Spec
		jobs []string
		want string
	}{
		{
			"jobs take turns of a minute (acceptance E of the specification)", nodes(1), []string{"4 0 60", "4 0 120", "4 0 120"},
			"0 0 60 60 0 0  0; 1 0 240 120 0 0  0; 2 0 300 120 0 0  0",
		},
		{
			"the first four of five run", nodes(1), []string{"1 0 100", "1 0 100", "1 0 100", "1 0 100", "1 0 100"},
			"0 0 100 100 0 0  0; 1 0 100 100 0 0  0; 2 0 100 100 0 0  0; 3 0 140 100 0 0  0; 4 0 160 100 0 0  0",
		},
		{
			"behind a pending job that is put the next is overlooked", nodes(1), []string{"4 0 65", "1 0 20", "1 0 20", "1 0 20"},
			"0 0 70 65 0 0  0; 1 70 90 20 70 0  0; 2 90 110 20 90 0  0; 3 70 90 20 70 0  0",
		},
		{
			"sets of several nodes", nodes(3), []string{"12 0 90", "4 3 70", "1 20 10", "8 30 100", "2 31 35"},
			"0 0 91 90 0 0  0; 1 91 161 70 88 0  0; 2 161 171 10 141 0  0; 3 91 191 100 61 0  0; 4 171 211 35 140 0  0",
		},
		{
			"a small job waits while larger ones hold all nodes", nodes(2), []string{"4 0 100", "4 0 100", "2 3 55", "2 4 55", "1 5 5", "4 61 20"},
			"0 0 101 100 0 0  0; 1 0 101 100 0 0  0; 2 101 161 55 98 0  0; 3 121 181 55 117 0  0; 4 181 191 5 176 0  0; 5 61 121 20 0 0  0",
		},
		{"a job that is larger than the cluster never starts", nodes(1), []string{"8 0 10", "1 1 10"}, "1 1 11 10 0 0  0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := runLines(t, "gandiva-gandiva", c.spec, c.jobs...); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// There are no sets for jobs of three GPUs; the published code crashes.
func TestGandivaSizes(t *testing.T) {
	table, err := harness.NewTable("trace.csv", "job_id,num_gpu,submit_time,duration\nx,3,0,10\n")
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := readJobs(table)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Find("gandiva-gandiva")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = p.Run(t.Context(), small(4), jobs); err == nil || !strings.Contains(err.Error(), "job x asks for 3 GPUs") {
		t.Errorf("error %v", err)
	}
}

// Acceptance F of the specification, on Muri's Philly-like trace 3: the mean JCT lies
// between those of FIFO with consolidation and of Tiresias, and jobs first run much
// sooner than under FIFO. Mean JCT, mean time to the first run and the last end are
// those of the published code, which was run on the trace: all 992 ends were equal.
func TestGandivaPhilly(t *testing.T) {
	trace := shared.Path(t, "golden/inputs/tiresias_muri_trace3.csv.gz")
	mean := func(policy string) (jct, first, last float64) {
		r, err := Run(t.Context(), trace, "n8g8", policy)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Rows {
			jct += r.Rows[i].JCT() / float64(len(r.Rows))
			first += (r.Rows[i].Start - r.Rows[i].Submit) / float64(len(r.Rows))
			last = max(last, r.Rows[i].End)
		}
		return jct, first, last
	}
	fifo, waits, _ := mean("fifo-yarn")
	best, _, _ := mean("dlas-gpu-count")
	jct, first, last := mean("gandiva-gandiva")
	if jct <= best || jct >= fifo || first > waits/4 {
		t.Errorf("mean JCT %v, of FIFO %v, of Tiresias %v; first run after %v, of FIFO %v", jct, fifo, best, first, waits)
	}
	if math.Abs(jct-537197) > 1 || math.Abs(first-159753) > 1 || last != 8361135 {
		t.Errorf("mean JCT %v, first run after %v, last end %v", jct, first, last)
	}
}
