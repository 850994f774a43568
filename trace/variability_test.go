package trace_test

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// Norn's own table of scores: classes are named by the columns, and jobs by their class or their model.
func TestVariabilityIsRead(t *testing.T) {
	v, err := trace.ReadVariability(written(t, "gpus.csv", "node,gpu,A,B\nn0,0,1.5,1.25\nn0,1,0.9,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Scores[perf.Seat{Node: "n0", Index: 0}]; len(got) != 2 || got[0] != 1.5 || got[1] != 1.25 {
		t.Errorf("GPU 0 has %v", got)
	}
	for _, k := range []struct {
		j    job.Job
		want int
	}{{job.Job{Model: "ResNet-50 (batch size 32)"}, 0}, {job.Job{Model: "bert"}, 1}, {job.Job{}, 1}, {job.Job{Model: "lstm"}, 2}, {job.Job{Model: "lstm", Hints: &job.Hints{Sensitivity: "A"}}, 0}} {
		if got := v.Class(&k.j); got != k.want {
			t.Errorf("%q is of class %d, not %d", k.j.Model, got, k.want)
		}
	}
}

// The published table of 32 GPUs.
func TestPublishedVariabilityIsRead(t *testing.T) {
	v, err := trace.ReadVariability(shared.Path(t, "data/pal/32gpu-variability.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Scores[perf.Seat{Node: "n7", Index: 3}]; len(v.Scores) != 32 || strings.Join(v.Classes, "") != "ABCD" || got[0] < 1.11 || got[3] > 1.01 {
		t.Errorf("%d GPUs, classes %v, the last one %v", len(v.Scores), v.Classes, got)
	}
}

// Tables that are none, and lines that are wrong, are told with file and line.
func TestBadVariability(t *testing.T) {
	for content, want := range map[string]string{
		"":                                "is empty",
		"node,gpu\nn0,0\n":                "is no table of scores",
		"a,b,c\n1,2,3\n":                  "is no table of scores",
		"node,gpu,A\n":                    "has no GPUs",
		"node,gpu,A\n,0,1\n":              "line 2: has no node",
		"node,gpu,A\nn0,-1,1\n":           `line 2: gpu "-1"`,
		"node,gpu,A\nn0,0,0\n":            `line 2: A "0": write a run time`,
		"node,gpu,A\nn0,0,x\n":            `line 2: A "x"`,
		"node,gpu,A\nn0,0,1\nn0,0,1\n":    "line 3: GPU 0 of node n0 is told twice",
		"Node_ID,Local_GPU_ID\n0,0\n":     "is no table of scores",
		"node,gpu,A\nn0,99999999999,1\n,": `line 2: gpu "99999999999"`,
	} {
		path := written(t, "gpus.csv", content)
		if _, err := trace.ReadVariability(path); err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "wrong number of fields") || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
}
