package alloxsim

import (
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/shared"
)

// Every job of the authors' run, start and end.
func TestGolden(t *testing.T) {
	trace := shared.Path(t, "golden/inputs/alloxsim_jobs_input_10_Google_debug.txt.gz")
	for _, p := range Policies() {
		want, err := harness.ReadResult(shared.Path(t, "golden/alloxsim/google_m1_10q-"+p.Name+".csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Run(t.Context(), trace, "GPU=20;CPU=640;mem=2560GiB", p.Name)
		if err != nil {
			t.Fatal(err)
		}
		c := harness.Compare(got, want)
		if !c.Exact() || c.Equal != 10_000 {
			t.Errorf("%s: %+v", p.Name, c)
		}
	}
}
