package clusterspec

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// span is the least and the most of what was seen.
type span struct {
	least, most float64
	seen        bool
}

func (s *span) add(v float64) {
	if !s.seen {
		*s = span{v, v, true}
	}
	s.least, s.most = min(s.least, v), max(s.most, v)
}

// text is a number, or two of them.
func (s *span) text() string {
	if s.least == s.most {
		return figure(s.least)
	}
	return figure(s.least) + " to " + figure(s.most)
}

// figure is a number to two places.
func figure(v float64) string { return strconv.FormatFloat(math.Round(100*v)/100, 'f', -1, 64) }

// tier is a level of the network: the places of one level of the topology, or the nodes.
type tier struct {
	places   int
	inside   map[cluster.DomainID]int // by the place around them: how many of these
	up       span                     // GB/s to the place around it
	over     span                     // speed of what is inside over that
	adapters span                     // of a node
	each     span                     // GB/s of an adapter
	latency  span                     // microseconds
	unknown  bool                     // the speed of some is not known
}

// network is the tiers of a cluster, the outermost places first, the nodes last.
type network struct {
	cluster *cluster.Cluster
	names   []string // of the levels, in the order of the tree
	tiers   map[string]*tier
	below   []float64 // by place: the speeds of all that is directly in it
}

// nodeTier is the tier of the nodes.
const nodeTier = ""

// networkOf gathers the tiers.
func networkOf(c *cluster.Cluster) *network {
	n := &network{cluster: c, tiers: map[string]*tier{}, below: make([]float64, c.Domains())}
	for d := cluster.DomainID(1); int(d) < c.Domains(); d++ {
		if level, _, _ := c.Domain(d); n.tiers[level] == nil {
			n.tiers[level] = &tier{inside: map[cluster.DomainID]int{}}
			n.names = append(n.names, level)
		}
	}
	n.tiers[nodeTier] = &tier{inside: map[cluster.DomainID]int{}}
	for id := range cluster.NodeID(c.Nodes()) {
		n.node(c.Node(id))
	}
	for d := cluster.DomainID(c.Domains() - 1); d > 0; d-- { // those inside come after those around them
		n.place(d)
	}
	return n
}

func (n *network) node(spec *cluster.NodeSpec) {
	t := n.tiers[nodeTier]
	t.places++
	t.inside[spec.Domain]++
	if spec.NICs.Count == 0 {
		t.unknown = true
		return
	}
	n.below[spec.Domain] += spec.NICs.Total()
	t.adapters.add(float64(spec.NICs.Count))
	t.each.add(spec.NICs.GBps)
	t.latency.add(float64(spec.NICs.Latency) / 1e3)
}

func (n *network) place(d cluster.DomainID) {
	level, _, parent := n.cluster.Domain(d)
	t, up := n.tiers[level], cluster.UplinkOf(n.cluster, d)
	t.places++
	t.inside[parent]++
	t.latency.add(float64(up.Latency) / 1e3)
	if up.GBps == 0 {
		t.unknown = true
		n.below[parent] += n.below[d]
		return
	}
	t.up.add(up.GBps)
	t.over.add(n.below[d] / up.GBps)
	n.below[parent] += min(up.GBps, n.below[d])
}

// describeNetwork draws what is known of the network between nodes, a line for each tier.
func describeNetwork(w io.Writer, c *cluster.Cluster) {
	if !cluster.Networked(c) {
		return
	}
	n := networkOf(c)
	fmt.Fprint(w, "\nnetwork\ncluster\n")
	for depth, name := range append(n.names, nodeTier) {
		t := n.tiers[name]
		var many span
		for _, count := range t.inside {
			many.add(float64(count))
		}
		word := name
		if name == nodeTier {
			word = "node"
		}
		line := fmt.Sprintf("%s`- %s %s", strings.Repeat("   ", depth), many.text(), word)
		if len(t.inside) > 1 {
			line += fmt.Sprintf(" in each, %d in all", t.places)
		}
		fmt.Fprintln(w, line+t.text(name == nodeTier))
	}
}

// text is the speed and the latency of a tier.
func (t *tier) text(nodes bool) string {
	text := ""
	switch {
	case nodes && t.each.seen:
		text = fmt.Sprintf(": %s of %s GB/s each way", adapters(&t.adapters), t.each.text())
	case t.up.seen:
		text = fmt.Sprintf(": up by %s GB/s each way, over-subscribed %s:1", t.up.text(), t.over.text())
	default:
		return ": any speed"
	}
	if t.latency.most > 0 {
		text += ", " + t.latency.text() + " us"
	}
	if t.unknown {
		text += ", of some not known"
	}
	return text
}

func adapters(n *span) string {
	if n.least == n.most {
		return unit.Count(int(n.most), "adapter")
	}
	return n.text() + " adapters"
}
