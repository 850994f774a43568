package config

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/tenant"
)

func config(t *testing.T, text string) *Config {
	t.Helper()
	c, err := parse("c.yaml", []byte(text), alice)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTree: shares become GPUs of the machine, children may stand before their
// parents.
func TestTree(t *testing.T) {
	c := config(t, `
half-life: 1h
tenants:
  - {name: vision, parent: research, guarantee: 25%, weight: 3}
  - {name: research, guarantee: 50%}
  - {name: teaching, limit: 2}
`)
	tree, err := c.Tree(8 * unit.One)
	if err != nil {
		t.Fatal(err)
	}
	vision, _ := tree.Lookup("vision")
	research, _ := tree.Lookup("research")
	teaching, _ := tree.Lookup("teaching")
	if v := tree.At(vision); v.Parent != research || v.Guarantee != 2000 || v.Limit != tenant.Unlimited || v.Weight != 3 {
		t.Errorf("vision: %+v", v)
	}
	if r := tree.At(research); r.Parent != tenant.Root || r.Guarantee != 4000 || tree.At(teaching).Limit != 2000 || tree.HalfLife() != time.Hour {
		t.Errorf("research: %+v, teaching: %+v", r, tree.At(teaching))
	}
	for text, want := range map[string]string{
		"tenants: [{name: a, guarantee: 6}, {name: b, guarantee: 50%}]":          "guaranteed 10 GPUs together, the machine has 8",
		"tenants: [{name: a, guarantee: 2}, {name: b, parent: a, guarantee: 3}]": `tenants below "a" are guaranteed 3 GPUs together, it has 2 itself`,
		"tenants: [{name: a, guarantee: 4, limit: 25%}]":                         "a limit of 2 GPUs is below its guarantee of 4",
	} {
		if _, err := config(t, text).Tree(8 * unit.One); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTenantOf: whom a job counts for.
func TestTenantOf(t *testing.T) {
	several := "tenants: [{name: open}, {name: vision, users: [alice, bob]}, {name: speech, users: [bob]}, {name: lab}]"
	closed := "tenants: [{name: vision, users: [alice]}]"
	for _, x := range []struct{ text, user, asked, want, fault string }{
		{"", "alice", "", "alice", ""},
		{"", "alice", "anything", "anything", ""},
		{several, "alice", "", "vision", ""},
		{several, "alice", "open", "open", ""},
		{several, "alice", "lab", "lab", ""},
		{several, "bob", "speech", "speech", ""},
		{several, "bob", "", "vision", ""},
		{several, "carol", "", "open", ""},
		{several, "alice", "speech", "", "user alice may not use tenant speech; open to her are: open, vision, lab"},
		{several, "alice", "none", "", "may not use tenant none"},
		{closed, "carol", "", "", "user carol may use no tenant"},
		{closed, "carol", "vision", "", "user carol may use no tenant"},
	} {
		got, err := config(t, x.text).TenantOf(x.user, x.asked)
		if got != x.want || (err != nil) != (x.fault != "") || err != nil && !strings.Contains(err.Error(), x.fault) {
			t.Errorf("%s asks for %q of %s: %q, %v", x.user, x.asked, x.text, got, err)
		}
	}
}

// TestEstimates: the user's word counts before history, and history learns all
// the same.
func TestEstimates(t *testing.T) {
	demand := &job.Demand{}
	said, silent := &job.Job{Name: "train", Demand: demand, Estimate: time.Hour}, &job.Job{Name: "train", Demand: demand}
	for _, x := range []struct {
		e      Estimates
		said   time.Duration // 0: not known
		silent time.Duration
	}{
		{Estimates{experiment.User, experiment.History}, time.Hour, 10 * time.Minute},
		{Estimates{experiment.History, experiment.User}, 10 * time.Minute, 10 * time.Minute},
		{Estimates{experiment.User}, time.Hour, 0},
		{nil, 0, 0},
	} {
		est := x.e.Make()
		ask := func(e predict.Estimator, j *job.Job) time.Duration {
			d, _ := e.Estimate(j)
			return d
		}
		if d, known := est.Estimate(silent); known {
			t.Errorf("%v knows %v of the first job", x.e, d)
		}
		est.Observe(said, 10*time.Minute)
		if a, b := ask(est, said), ask(est, silent); a != x.said || b != x.silent {
			t.Errorf("%v: %v and %v, want %v and %v", x.e, a, b, x.said, x.silent)
		}
	}
}
