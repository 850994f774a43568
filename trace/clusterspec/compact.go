package clusterspec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// compact joins neighbouring nodes that differ in nothing but the number in
// their names into groups. Each node is a group of one with a plain name, or
// none.
func compact(nodes []Group) ([]Group, error) {
	var groups []Group
	var names pattern
	for _, n := range nodes {
		if strings.ContainsAny(n.Name, "{}") {
			return nil, fmt.Errorf("node %q: braces are not allowed in the name of a node", n.Name)
		}
		if len(groups) > 0 {
			last := &groups[len(groups)-1]
			if alike(last, &n) && (last.Name == "" && n.Name == "" || last.Name != "" && names.counts && n.Name == names.name(last.Count)) {
				last.Count++
				continue
			}
		}
		names = pattern{}
		if p, ok := patternOf(n.Name); ok {
			names, _ = parsePattern(p) // cannot fail: patternOf has made it
			n.Name = p
		}
		groups = append(groups, n)
	}
	for i := range groups {
		plainName(&groups[i])
	}
	return groups, nil
}

// plainName takes the counter out of the name of a single node.
func plainName(g *Group) {
	if g.Count > 1 || g.Name == "" {
		return
	}
	if p, err := parsePattern(g.Name); err == nil && p.counts {
		g.Name = p.name(0)
	}
}

// alike tells whether two groups differ in nothing but names and counts.
func alike(a, b *Group) bool {
	return slices.Equal(a.GPUs, b.GPUs) && a.CPU == b.CPU && a.Memory == b.Memory && a.Slots == b.Slots && a.Foreign == b.Foreign && a.Pooled == b.Pooled &&
		a.Partition == b.Partition && slices.Equal(a.Place, b.Place) && a.Health == b.Health && a.Power == b.Power && a.At == b.At &&
		a.NICs == b.NICs && slices.Equal(a.Labels, b.Labels) && slices.Equal(a.Taints, b.Taints) &&
		a.Links.Preset == b.Links.Preset && slices.Equal(a.Links.Pairs, b.Links.Pairs)
}

// Of describes a cluster as it stands: the nodes, their health and their
// places, and what others use of them in whole GPUs, but not what is held on them, broken devices, places without nodes,
// or tenants. It fails on a cluster larger than a description may be.
func Of(c *cluster.Cluster) (*Spec, error) {
	s := &Spec{}
	for t := range c.Types() {
		s.Types = append(s.Types, c.Type(cluster.TypeID(t)))
	}
	for p := 1; p < c.Pools(); p++ {
		s.Partitions = append(s.Partitions, c.PoolName(cluster.PoolID(p)))
	}
	for d := 1; d < c.Domains(); d++ {
		level, _, at := c.Domain(cluster.DomainID(d))
		depth := 0
		for ; at > 0; depth++ {
			_, _, at = c.Domain(at)
		}
		for len(s.Levels) <= depth {
			s.Levels = append(s.Levels, Level{Name: level})
		}
		s.Levels[depth].Uplink = cluster.UplinkOf(c, cluster.DomainID(d)) // of the last of them, where they differ
	}
	var nodes []Group
	for id := range cluster.NodeID(c.Nodes()) {
		n := c.Node(id)
		g := Group{
			Name: n.Name, Count: 1, CPU: n.CPU, Memory: n.Memory, Pooled: n.Pooled, Partition: c.PoolName(n.Pool),
			Health: c.Health(id), Power: c.Power(id), Links: linksOf(n.Links), NICs: n.NICs, Labels: slices.Clone(n.Labels), Taints: slices.Clone(n.Taints),
		}
		g.Slots = slotsOf(c, &n.Slots)
		if f := c.Foreign(id); !f.None() {
			g.Foreign = Foreign{CPU: f.CPU, Memory: f.Memory, Slots: slotsOf(c, &f.Slots)}
			held := cluster.Alloc{Shares: f.GPUs}
			g.Foreign.GPUs = int(held.Milli() / unit.One)
		}
		for _, x := range n.GPUs {
			if x.Count > 0 {
				g.GPUs = append(g.GPUs, GPUs{c.Type(x.Type).Name, x.Count})
			}
		}
		for d := n.Domain; d > 0; {
			_, name, parent := c.Domain(d)
			g.Place = append([]string{name}, g.Place...)
			d = parent
		}
		nodes = append(nodes, g)
	}
	var err error
	if s.Nodes, err = compact(nodes); err != nil {
		return nil, err
	}
	return s, s.finish()
}

// slotsOf is the counted resources of a node by name.
func slotsOf(c *cluster.Cluster, amounts *cluster.Slots) job.Slots {
	by := map[string]int64{}
	for i, name := range c.SlotNames() {
		by[name] = amounts[i]
	}
	s, err := job.SlotsOf(by)
	if err != nil { // of a cluster, where it cannot be
		panic("clusterspec: " + err.Error())
	}
	return s
}

// linksOf is the preset that links agree with, or their pairs.
func linksOf(l *cluster.Links) Links {
	if l == nil {
		return Links{}
	}
	var pairs []Link
	for a := range l.Devices() {
		for b := range a {
			pairs = append(pairs, Link{A: b, B: a, Link: l.Between(b, a)})
		}
	}
	for _, p := range cluster.LinkLayouts() {
		if preset, err := p.Links(l.Devices()); err == nil && preset.Equal(l) {
			return Links{Preset: p.Name}
		}
	}
	return Links{Pairs: pairs}
}

// Complete completes a description that a program has put together: it joins nodes that
// differ only by the number in their names, lists all types and partitions, and checks it as
// it is checked when it is read. Each node is a group of one with a plain name.
func Complete(s *Spec) error {
	nodes, err := compact(s.Nodes)
	if err != nil {
		return err
	}
	s.Nodes = nodes
	return s.finish()
}
