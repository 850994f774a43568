package mapa

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// linked is a cluster of nodes n0, n1, ... with links of a layout.
func linked(t *testing.T, layout string, nodes, gpus int) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"}) // cannot fail: the first type
	links, err := cluster.LinkPreset(layout, gpus)
	if err != nil {
		t.Fatal(err)
	}
	for range nodes {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}, Links: links}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// of is a job that tells a pattern and whether it is sensitive.
func of(key string, at, run float64, gpus int, pattern string, sensitive bool) simtest.Job {
	return simtest.Job{Key: key, At: at, Run: run, GPUs: gpus, Spec: func(j *job.Job) { j.Hints = &job.Hints{Pattern: pattern, Sensitive: sensitive} }}
}

func run(t *testing.T, c *cluster.Cluster, change func(*Config), jobs ...simtest.Job) *simtest.Run {
	t.Helper()
	cfg := NewConfig()
	if change != nil {
		change(cfg)
	}
	return simtest.Go(t, simtest.Config{Cluster: c, Make: cfg.Policy}, jobs...)
}

// has looks for lines in the log of a run.
func has(t *testing.T, r *simtest.Run, lines ...string) {
	t.Helper()
	log := strings.Join(r.Log, "\n") + "\n"
	for _, l := range lines {
		if !strings.Contains(log, l+"\n") {
			t.Errorf("%q is not in this log:\n%s", l, log)
		}
	}
}

// TestHead is acceptance D of the specification: jobs of 5, 4 and 1 GPUs on 8, and nobody goes ahead
// of the second, unless that is allowed.
func TestHead(t *testing.T) {
	jobs := []simtest.Job{of("a", 0, 100, 5, "ring", false), of("b", 0, 100, 4, "ring", false), of("c", 0, 100, 1, "ring", false)}
	r := run(t, linked(t, "dgx1", 1, 8), nil, jobs...)
	if r.Start("b") != 100 || r.Start("c") != 100 {
		t.Errorf("b starts at %v and c at %v", r.Start("b"), r.Start("c"))
	}
	r = run(t, linked(t, "dgx1", 1, 8), func(c *Config) { c.Skip = true }, jobs...)
	if r.Start("b") != 100 || r.Start("c") != 0 {
		t.Errorf("with skip b starts at %v and c at %v", r.Start("b"), r.Start("c"))
	}
}

// TestPatterns: which of two sets of three GPUs is better depends on how the tasks of a job talk. A star
// and a chain have two fast links in the first, a ring and a clique three in the second.
func TestPatterns(t *testing.T) {
	links := cluster.NewLinks(6)
	for _, p := range [][3]int{{0, 1, 50}, {0, 2, 50}, {3, 4, 40}, {3, 5, 40}, {4, 5, 40}} {
		links.Connect(p[0], p[1], cluster.Link{Class: cluster.NVLink, GBps: float64(p[2])})
	}
	for pattern, want := range map[string]string{
		"ring": "n0[3-5]", "clique": "n0[3-5]", "all": "n0[3-5]", "": "n0[3-5]", "gossip": "n0[3-5]", "star": "n0[0-2]", "chain": "n0[0-2]", "Tree": "n0[0-2]",
	} {
		c := cluster.New()
		typ, _ := c.AddType(cluster.GPUType{Name: "gpu"})
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 6}}, Links: links}); err != nil {
			t.Fatal(err)
		}
		greedy := func(cfg *Config) { cfg.Rule = Greedy }
		if pattern == "" { // as it is set
			greedy = func(cfg *Config) { cfg.Rule, cfg.Pattern = Greedy, fabric.Star }
			want = "n0[0-2]"
		}
		has(t, run(t, c, greedy, of("j", 0, 10, 3, pattern, true)), "0 start j on "+want)
	}
}

// TestSensitive: a job is sensitive when it says so, or its model is one of the paper, or all are.
func TestSensitive(t *testing.T) {
	// With {0,3} taken, three GPUs with the best prediction are {4,6,7}. {1,2,5} leave as much
	// to others as can be left.
	first := of("first", 0, 100, 2, "ring", true)
	for _, c := range []struct {
		model string
		told  bool
		mind  Mind
		want  string
	}{
		{"", true, Told, "n0[4,6-7]"}, {"vgg16", false, Told, "n0[4,6-7]"}, {"", false, All, "n0[4,6-7]"},
		{"googlenet", false, Told, "n0[1-2,5]"}, {"vgg16", true, Nobody, "n0[1-2,5]"},
	} {
		j := of("j", 1, 10, 3, "ring", c.told)
		j.Model = c.model
		has(t, run(t, linked(t, "dgx1", 1, 8), func(cfg *Config) { cfg.Mind = c.mind }, first, j), "1 start j on "+c.want)
	}
}

// TestNodes: the nodes are those of the strategy, and a part of a gang has the best chain of its node.
func TestNodes(t *testing.T) {
	r := run(t, linked(t, "dgx1", 2, 8), nil, of("small", 0, 100, 5, "ring", true), of("pair", 1, 100, 2, "ring", true), of("wide", 2, 100, 9, "ring", true))
	has(t, r, "1 start pair on n0[5-6]", "2 start wide on n1[0-7]+n0[7]") // the pair is on the fuller node, by a double link
}

// TestOtherDemands: gangs whose tasks have no whole GPU each get what the strategy gives them.
func TestOtherDemands(t *testing.T) {
	part := job.GPUs(2)
	part.Roles[0].GPU = 500
	several := job.GPUs(2)
	several.Roles[1] = job.Role{Tasks: 1, GPU: unit.One}
	double := job.GPUs(1)
	double.Roles[0].GPU = 2 * unit.One
	for _, c := range []struct {
		d    job.Demand
		want []cluster.DeviceID
	}{{part, []cluster.DeviceID{0, 0}}, {several, nil}, {double, []cluster.DeviceID{0, 3}}} {
		s := &aware{nodes: place.Pack, query: Query{Sensitive: true}}
		req := place.Request{Cluster: linked(t, "dgx1", 1, 8), Demand: &c.d, Tasks: c.d.Roles[0].Tasks}
		if _, ok := s.Place(&req); !ok {
			t.Fatal(c.d)
		}
		for i, d := range c.want {
			if req.Out.Shares[i].Device != d {
				t.Errorf("%+v gets %+v", c.d, req.Out.Shares)
			}
		}
	}
}

// TestGroups: of a node with two types of GPUs a job gets those of its type, linked best.
func TestGroups(t *testing.T) {
	c := cluster.New()
	a, _ := c.AddType(cluster.GPUType{Name: "a"})
	b, _ := c.AddType(cluster.GPUType{Name: "b"})
	links := cluster.NewLinks(6)
	for _, p := range [][2]int{{0, 1}, {1, 3}, {2, 5}, {3, 5}} {
		links.Connect(p[0], p[1], cluster.Link{Class: cluster.NVLink, Count: 2, Gen: 2})
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: a, Count: 3}, {Type: b, Count: 3}}, Links: links}); err != nil {
		t.Fatal(err)
	}
	d := job.GPUs(2)
	d.Types = "b"
	j := of("j", 0, 10, 2, "ring", true)
	j.Demand = &d
	cfg := NewConfig()
	r := simtest.Go(t, simtest.Config{Cluster: c, Make: func() (sched.Policy, error) { return cfg.Policy() }}, j)
	has(t, r, "0 start j on n0[3,5]")
}
