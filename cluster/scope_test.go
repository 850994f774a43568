package cluster

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// oneCondition is a condition and, in other words, what it means.
type oneCondition struct {
	Condition
	holds func(n *NodeSpec) bool
}

// has is the value of a label, or nothing.
func has(n *NodeSpec, key string) string {
	for _, l := range n.Labels {
		if l.Key == key {
			return l.Value
		}
	}
	return ""
}

func spot(n *NodeSpec) bool {
	return slices.ContainsFunc(n.Taints, func(t label.Taint) bool { return t.Effect != label.PreferNoSchedule })
}

var conditions = []oneCondition{
	{Condition{Where: "zone=a"}, func(n *NodeSpec) bool { return has(n, "zone") == "a" && !spot(n) }},
	{Condition{Where: "mem>40 | !zone", Tolerate: "*"}, func(n *NodeSpec) bool { return has(n, "mem") == "80" || has(n, "zone") == "" }},
	{Condition{Where: "zone notin (b,c), mem<80", Tolerate: "spot=yes"}, func(n *NodeSpec) bool { return has(n, "zone") != "b" && has(n, "mem") == "40" }},
	{Condition{Level: "place"}, func(n *NodeSpec) bool { return n.Domain > 0 && !spot(n) }},
}

func drawLabels(t *rapid.T) (labels []label.Label, taints []label.Taint) {
	if zone := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"); zone != "" {
		labels = append(labels, label.Label{Key: "zone", Value: zone})
	}
	labels = append(labels, label.Label{Key: "mem", Value: rapid.SampledFrom([]string{"40", "80", "x"}).Draw(t, "mem")})
	if rapid.IntRange(0, 2).Draw(t, "tainted") == 0 {
		taints = append(taints, label.Taint{Key: "spot", Value: "yes", Effect: rapid.SampledFrom([]label.Effect{label.NoSchedule, label.NoExecute, label.PreferNoSchedule}).Draw(t, "effect")})
	}
	return labels, taints
}

// in tells whether a node is in a pool or a scope.
func (x *machine) in(n *twinNode, p PoolID) bool {
	of, ok := x.scope[p]
	if !ok {
		return n.spec.Pool == p
	}
	return n.spec.Pool == of.Pool && of.holds(&n.spec)
}

func (x *machine) addScope(t *rapid.T) {
	x.outside(t)
	of := rapid.SampledFrom(conditions).Draw(t, "condition")
	of.Pool = PoolID(rapid.IntRange(0, x.c.Pools()-1).Draw(t, "pool"))
	p, err := x.c.Scope(of.Condition)
	if again, _ := x.c.Scope(of.Condition); err != nil || again != p {
		t.Fatalf("scope %d, then %d, %v", p, again, err)
	}
	if x.scope == nil {
		x.scope = map[PoolID]oneCondition{}
	}
	x.scope[p] = of
}

func (x *machine) setLabels(t *rapid.T) {
	x.outside(t)
	id := rapid.IntRange(0, len(x.m.nodes)-1).Draw(t, "node")
	labels, taints := drawLabels(t)
	if err := x.c.SetLabels(NodeID(id), slices.Clone(labels), taints); err != nil {
		t.Fatal(err)
	}
	x.m.nodes[id].spec.Labels, x.m.nodes[id].spec.Taints = labels, taints
}

// narrow looks at some nodes alone, in the middle of whatever is going on.
func (x *machine) narrow(t *rapid.T) {
	var some []NodeID
	var total, free int
	for i := range x.m.nodes {
		if rapid.Bool().Draw(t, "among") {
			some = append(some, NodeID(i))
			if n := &x.m.nodes[i]; n.usable() {
				for _, d := range n.devices {
					if !d.broken {
						total, free = total+int(d.cap/1000-d.foreign/1000), free+int(max(0, d.free)/1000)
					}
				}
			}
		}
	}
	before := x.c.fingerprint()
	p := x.c.Narrow(some)
	if err := x.c.Check(); err != nil || x.c.FreeGPUs(p, 0) != free || x.c.TotalGPUs(p, 0) != total || !slices.Equal(x.c.PoolNodes(p), some) {
		t.Fatalf("of nodes %v: %d of %d free, want %d of %d, %v", some, x.c.FreeGPUs(p, 0), x.c.TotalGPUs(p, 0), free, total, err)
	}
	x.c.Widen()
	if x.c.Narrow(nil); len(x.c.PoolNodes(p)) != 0 || x.c.TotalGPUs(p, 0) != 0 {
		t.Fatal("nodes are left behind")
	}
	x.c.Widen()
	if after := x.c.fingerprint(); after != before {
		t.Fatalf("looking at some nodes changed the ledger:\n%s\n--- before\n%s", after, before)
	}
}

// TestNoNode: the sentence says what no node has.
func TestNoNode(t *testing.T) {
	c := New()
	typ, _ := c.AddType(GPUType{Name: "A"})
	rack, _ := c.AddDomain("rack", "r", 0)
	for i, zone := range []string{"a", "b"} {
		spec := NodeSpec{GPUs: []GPUs{{typ, 2}}, CPU: 4 * unit.One, Labels: []label.Label{{Key: "zone", Value: zone}, {Key: "mem", Value: "40"}}}
		if i == 1 {
			spec.Domain, spec.Taints = rack, []label.Taint{{Key: "spot", Effect: label.NoExecute}}
		}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		of   Condition
		want string
	}{
		{Condition{Where: "zone=a"}, ""},
		{Condition{Where: "zone=c"}, "no node has label zone=c"},
		{Condition{Where: "zone in (c,d), mem>30"}, "no node has label zone in (c,d)"},
		{Condition{Where: "mem>40"}, "no node has label mem>40"},
		{Condition{Where: "!zone"}, "every node has label zone"},
		{Condition{Where: "mem!=40"}, "every node has label mem=40"},
		{Condition{Where: "zone=a, node=n1"}, "no node meets node=n1, zone=a"},
		{Condition{Where: "zone=c | zone=d"}, "no node meets zone=c | zone=d"},
		{Condition{Where: "zone=b"}, "every node that would do is tainted, such as n1 with spot:NoExecute, and the job does not tolerate that"},
		{Condition{Where: "zone=b", Tolerate: "spot:NoSchedule"}, "every node that would do is tainted, such as n1 with spot:NoExecute, and the job does not tolerate that"},
		{Condition{Where: "zone=b", Tolerate: "spot"}, ""},
		{Condition{Where: "node=n0"}, ""},
		{Condition{Level: "zone"}, "no node stands in a zone"},
		{Condition{Level: "rack", Where: "zone=a"}, "no node that stands in a rack meets zone=a"},
	} {
		p, err := c.Scope(x.of)
		if got := c.NoNode(p); err != nil || got != x.want {
			t.Errorf("%+v: %q, %v; want %q", x.of, got, err, x.want)
		}
	}
	for _, bad := range []Condition{{Where: "zone in a"}, {Tolerate: "a:b"}} {
		if _, err := c.Scope(bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// TestLabelErrors: a label that cannot be one is refused, and nothing changes.
func TestLabelErrors(t *testing.T) {
	c := New()
	for _, labels := range [][]label.Label{{{Key: "a"}, {Key: "a", Value: "b"}}, {{Key: "", Value: "x"}}, {{Key: "a", Value: "b c"}}} {
		if _, err := c.AddNode(NodeSpec{Name: "x", Labels: labels}); err == nil || !strings.Contains(err.Error(), `node "x": label`) {
			t.Errorf("%v: %v", labels, err)
		}
	}
	id, err := c.AddNode(NodeSpec{Name: "x", Labels: []label.Label{{Key: "b"}, {Key: "a", Value: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetLabels(id, []label.Label{{Key: "-"}}, nil); err == nil {
		t.Error("no error")
	}
	if v, ok := c.Node(id).Label("a"); !ok || v != "1" || c.Node(id).Labels[0].Key != "a" {
		t.Errorf("%v", c.Node(id).Labels)
	}
}
