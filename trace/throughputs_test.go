package trace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// The table that Gavel publishes: together and spread, and what did not fit.
func TestReadThroughputs(t *testing.T) {
	table, err := trace.ReadThroughputs(shared.Path(t, "data/gavel/simulation_throughputs.json.gz"), "V100")
	if err != nil {
		t.Fatal(err)
	}
	rate := func(spread bool, typ string) float64 {
		r, ok := table.Rate(perf.Measured{Job: "ResNet-18 (batch size 16)", GPUs: 2, Type: typ, Spread: spread})
		if !ok {
			t.Errorf("ResNet-18 was not measured on %s", typ)
		}
		return r
	}
	if r, _ := table.Rate(perf.Measured{Job: "ResNet-18 (batch size 16)", GPUs: 1, Type: "k80"}); r != 4.795294551566172 || table.Reference != "v100" {
		t.Errorf("%v steps per second on a K80, relative to %s", r, table.Reference)
	}
	if !(rate(false, "v100") > rate(true, "v100") && rate(true, "v100") > rate(true, "k80")) {
		t.Errorf("two V100 %v together, %v apart; two K80 %v apart", rate(false, "v100"), rate(true, "v100"), rate(true, "k80"))
	}
}

// Files that are none are refused with their names.
func TestReadThroughputsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"": "an object", `{"v100": {"('a', 1)": {"null": 1}`: "end of the object", "{}": "no throughputs", `{"v100": {"a": {"null": 1}}}`: `"a"`, `{"v100": {"('a', 1)": {"null": "x"}}}`: "alone", `{"v100": {"('a', 1)": {}}}`: "alone",
	} {
		path := filepath.Join(t.TempDir(), "t.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := trace.ReadThroughputs(path, "v100"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "t.json") {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
