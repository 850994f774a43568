package synergy

import (
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/shared"
)

// Every job of the published runs.
func TestGolden(t *testing.T) {
	trace := shared.Path(t, "golden/inputs/synergy_static100.trace.gz")
	for _, name := range []string{"FIFO-fair", "FIFO-tune", "SRTF-fair", "SRTF-tune", "LAS-fair", "LAS-tune", "FTF-fair", "FTF-tune"} {
		want, err := harness.ReadResult(shared.Path(t, "golden/synergy/static100-"+name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Run(t.Context(), trace, "4x8 GPU, 24 CPU, 500 GB", name)
		if err != nil {
			t.Fatal(err)
		}
		if c := harness.Compare(got, want); !c.Exact() || c.Jobs != 100 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func BenchmarkGolden(b *testing.B) {
	trace := shared.Path(b, "golden/inputs/synergy_static100.trace.gz")
	for b.Loop() {
		if _, err := Run(b.Context(), trace, "4x8 GPU, 24 CPU, 500 GB", "FIFO-tune"); err != nil {
			b.Fatal(err)
		}
	}
}
