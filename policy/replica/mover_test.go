package replica_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/replica"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestParse: ways to move data that make no sense are refused.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"tetris": "", "on-demand": "", "tetris(period=12h, move=0.01)": "", "tetris(period=1s)": "a minute or more",
		"tetris(speed=1)": "speed", "tetris(": "parenthesis", "tetras": "tetris", "on-demand(period=1h)": "on-demand",
	} {
		if _, err := replica.Parse(text); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// areas is a cluster with a node of eight GPUs in each region.
func areas(t *testing.T, names ...string) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"}) // cannot fail: the first type
	for _, name := range names {
		d, err := c.AddDomain("region", name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}, Domain: d}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestApply: nodes have the labels of the data of their regions; a region that is not known, and one that cannot store
// what it is to have, are told of.
func TestApply(t *testing.T) {
	all := &replica.Catalogue{Data: []replica.Data{{Name: "a", Size: 3e12, In: []string{"eu", "us"}}, {Name: "b", Size: 4e12, In: []string{"us"}}}, Storage: map[string]unit.Bytes{"us": 7e12}}
	c := areas(t, "eu", "us")
	if err := all.Apply(c); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Node(0).Labels, c.Node(1).Labels); got != "[data/a=] [data/a= data/b=]" {
		t.Error(got)
	}
	all.Storage["us"] = 6e12
	if err := all.Apply(areas(t, "eu", "us")); err == nil || !strings.Contains(err.Error(), "region us stores") {
		t.Error(err)
	}
	if err := all.Apply(areas(t, "us")); err == nil || !strings.Contains(err.Error(), "eu, which is no region") {
		t.Error(err)
	}
}

// TestOnDemand: data that a job reads and that is together nowhere is copied to the region that needs the least of it,
// can store it and has GPUs enough, once; what is together somewhere is not.
func TestOnDemand(t *testing.T) {
	c := areas(t, "eu", "us", "ap")
	all := &replica.Catalogue{Data: []replica.Data{{Name: "a", Size: 3e12, In: []string{"eu"}}, {Name: "b", Size: 4e12, In: []string{"us"}}}, Storage: map[string]unit.Bytes{"us": 6e12}}
	if err := all.Apply(c); err != nil {
		t.Fatal(err)
	}
	s := state.New(c, tenant.NewTree(0))
	cfg, err := replica.Parse("on-demand")
	if err != nil {
		t.Fatal(err)
	}
	m := cfg.New(all, c)
	for i, x := range []struct {
		dataset string
		gpus    int
		want    string
	}{{"a", 8, ""}, {"", 8, ""}, {"a|b", 9, ""}, {"a|b", 8, "b to 1"}, {"b|a", 8, ""}, {"none", 8, ""}} {
		d := job.GPUs(x.gpus)
		if err := s.Submit(&job.Job{ID: job.ID(i), Key: fmt.Sprint(i), Dataset: x.dataset, Demand: &d}, -1); err != nil {
			t.Fatal(err)
		}
		v := sched.NewView(s, nil, false)
		got := ""
		for _, o := range m.Move(&v, nil) {
			got += fmt.Sprintf("%s to %d", o.Data, o.To)
		}
		if got != x.want {
			t.Errorf("job %d, which reads %q: %q is copied, want %q", i, x.dataset, got, x.want)
		}
		if next := m.NextWake(&v); next != unit.Never {
			t.Errorf("it wants to be woken at %v", next)
		}
	}
}
