package simtest

import (
	"cmp"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim"
)

// drawWhere adds to a demand where the job may be.
func drawWhere(t *rapid.T, d *job.Demand) {
	d.Where = rapid.SampledFrom([]string{"", "", "zone=a", "zone in (a,b)", "zone!=a", "!zone", "mem>40", "zone=a, mem<50 | zone=b", "zone=c"}).Draw(t, "where")
	d.Tolerate = rapid.SampledFrom([]string{"", "", "", "spot", "spot=yes:NoSchedule", "*"}).Draw(t, "tolerate")
	d.Within = rapid.SampledFrom([]string{"", "", "", "rack", cluster.EachNode}).Draw(t, "within")
	d.Prefer = d.Within != "" && rapid.Bool().Draw(t, "prefer")
}

// drawLabels is the labels and taints of a node.
func drawLabels(t *rapid.T) (n cluster.NodeSpec) {
	if zone := rapid.SampledFrom([]string{"a", "a", "b", ""}).Draw(t, "zone"); zone != "" {
		n.Labels = append(n.Labels, label.Label{Key: "zone", Value: zone})
	}
	n.Labels = append(n.Labels, label.Label{Key: "mem", Value: rapid.SampledFrom([]string{"40", "80", "much"}).Draw(t, "mem")})
	if rapid.IntRange(0, 4).Draw(t, "tainted") == 0 {
		n.Taints = append(n.Taints, label.Taint{Key: "spot", Value: "yes", Effect: rapid.SampledFrom([]label.Effect{label.NoSchedule, label.PreferNoSchedule, label.NoExecute}).Draw(t, "effect")})
	}
	return n
}

// tell draws the labels and taints of the nodes, and how they change.
func (w *World) tell(t *rapid.T, nodes int) {
	for range nodes {
		w.labels = append(w.labels, drawLabels(t))
	}
	var script []eventlog.Event
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		n := drawLabels(t)
		script = append(script, eventlog.Event{
			Time: duration(float64(rapid.IntRange(0, 30).Draw(t, "change at"))*5 + 2), Kind: eventlog.NodeLabels,
			Node: cluster.NodeID(rapid.IntRange(0, nodes-1).Draw(t, "changed")), NodeSpec: &n,
		})
	}
	world := w.World
	w.World = func(c *sim.Config) {
		if world != nil {
			world(c)
		}
		c.Script = append(c.Script, script...)
		slices.SortStableFunc(c.Script, func(a, b eventlog.Event) int { return cmp.Compare(a.Time, b.Time) })
	}
}

// rack is the rack of a number, made where it is missing.
func rack(t *rapid.T, c *cluster.Cluster, n int) cluster.DomainID {
	for c.Domains() <= n+1 {
		if _, err := c.AddDomain("rack", fmt.Sprintf("r%d", c.Domains()-1), 0); err != nil {
			t.Fatal(err)
		}
	}
	return cluster.DomainID(n + 1)
}

// regional is where the n-th node stands: in the rack of a zone of a region, in a zone, in a region, or
// in none.
func regional(t *rapid.T, c *cluster.Cluster, n int) cluster.DomainID {
	at := cluster.DomainID(0)
	path := []struct{ level, name string }{{"region", fmt.Sprint("r", n/3%2)}, {"zone", fmt.Sprint("z", n/2%2)}, {"rack", fmt.Sprint("k", n%2)}}
	for _, step := range path[:(n+3)%4] {
		next := cluster.DomainID(0)
		for _, d := range c.DomainChildren(at) {
			if level, name, _ := c.Domain(d); level == step.level && name == step.name {
				next = d
			}
		}
		if next == 0 {
			var err error
			if next, err = c.AddDomain(step.level, step.name, at); err != nil {
				t.Fatal(err)
			}
		}
		at = next
	}
	return at
}
