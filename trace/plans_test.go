package trace

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
)

// TestPlans reads the best plans that Arena publishes, and what it estimates: how far the estimates are off.
func TestPlans(t *testing.T) {
	best, err := ReadPlans(shared.Path(t, "data/arena/prof_database_optimal.json"))
	if err != nil {
		t.Fatal(err)
	}
	guess, err := ReadPlans(shared.Path(t, "data/arena/prof_database_estimated.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if best.Len() != 329 || guess.Len() != 522 {
		t.Errorf("%d cells were measured, %d estimated", best.Len(), guess.Len())
	}
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	if err == nil {
		_, err = c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 16}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	d := job.GPUs(2)
	j := job.Job{Model: "bert__760M", Batch: 128, Demand: &d}
	if rate, ok := best.Samples(&j, c); !ok || rate < 18 || rate > 19 { // 7.0 s
		t.Errorf("a batch of 128 on two V100s at %v samples a second", rate)
	}
}

// TestWrongPlans: errors say what is wrong where.
func TestWrongPlans(t *testing.T) {
	for text, want := range map[string]string{
		`{"optimal":{"bert_760M_256":{"2_a40_2_n_0_d":1}}}`:      "not a number of nodes and devices",
		`{"optimal":{"bert_760M_256":{"a40":1}}}`:                "write 2_a40_2_n_1_d",
		`{"optimal":{"bert":{"1_a40_1_n_1_d":1}}}`:               "does not end with a batch",
		`{"bert_760M_256":{"1_a40_1_n_1_d":"soon"}}`:             "write the seconds of an iteration",
		`{"bert_760M_256":{"1_a40_1_n_1_d":[[[1,1,1],"soon"]]}}`: "at the end of a plan",
		`{}`: "holds no plans",
	} {
		path := input(t, t.TempDir(), "plans.json", []byte(text))
		if _, err := ReadPlans(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, not %q", text, err, want)
		}
	}
}
