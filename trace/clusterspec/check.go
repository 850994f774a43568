package clusterspec

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/cells"
	"github.com/norn-scheduler/norn/tenant"
)

// latest is the latest moment and the longest duration in a description.
const latest = 100 * 365 * 24 * time.Hour // as errors say

// finish makes a description canonical (every type, partition and level that is
// mentioned stands in its list) and checks it.
func (s *Spec) finish() error {
	s.normalise()
	checks := []func() error{s.checkTypes, s.checkLevels, s.checkNodes, s.checkSlots, s.checkNames, s.checkTenants, s.checkCosts, s.checkCells}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	if len(s.YAML()) > maxYAML {
		return errTooLong
	}
	return nil
}

// normalise fills in what may be left out.
func (s *Spec) normalise() {
	types := len(s.Types) > 0
	partitions := len(s.Partitions) > 0
	depth := 0
	for i := range s.Nodes {
		g := &s.Nodes[i]
		depth = max(depth, len(g.Place))
		for _, x := range g.GPUs {
			known := slices.ContainsFunc(s.Types, func(t cluster.GPUType) bool { return t.Name == x.Type })
			if !types && !known && len(s.Types) <= 64 {
				s.Types = append(s.Types, cluster.GPUType{Name: x.Type})
			}
		}
		if !partitions && g.Partition != "" && !slices.Contains(s.Partitions, g.Partition) {
			s.Partitions = append(s.Partitions, g.Partition)
		}
	}
	usual := []string{"region", "zone", "rack"}
	if len(s.Levels) == 0 && depth <= len(usual) {
		for _, name := range usual[len(usual)-depth:] {
			s.Levels = append(s.Levels, Level{Name: name})
		}
	}
	s.Types, s.Levels, s.Partitions = reset(s.Types), reset(s.Levels), reset(s.Partitions)
	s.Nodes, s.Tenants, s.Costs.Tiers = reset(s.Nodes), reset(s.Tenants), reset(s.Costs.Tiers)
}

// goodName says whether a name can be written in every form and read again.
func goodName(name string) bool {
	printable := func(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }
	return name != "" && len(name) <= 200 && name == strings.TrimSpace(name) && strings.IndexFunc(name, func(r rune) bool { return !printable(r) }) < 0
}

func (s *Spec) checkTypes() error {
	if len(s.Types) > 64 {
		return fmt.Errorf("%d GPU types: a cluster has at most 64", len(s.Types))
	}
	seen := map[string]bool{}
	for _, t := range s.Types {
		switch {
		case !goodName(t.Name) || strings.Contains(t.Name, "|"):
			return fmt.Errorf("GPU type %q: write a name without | in it", t.Name)
		case seen[t.Name]:
			return fmt.Errorf("GPU type %q is given twice", t.Name)
		case t.Memory < 0 || t.Memory > 1<<50:
			return fmt.Errorf("GPU type %q: memory of %v; at most 1PiB is allowed", t.Name, t.Memory)
		case !(t.Speed >= 0 && t.Speed <= 1e6):
			return fmt.Errorf("GPU type %q: speed %v; it is relative to the reference type, write a number such as 0.5, at most 1e6", t.Name, t.Speed)
		}
		seen[t.Name] = true
	}
	return nil
}

func (s *Spec) checkLevels() error {
	seen := map[string]bool{"cluster": true}
	for _, l := range s.Levels {
		switch {
		case !goodName(l.Name) || strings.Contains(l.Name, "/"):
			return fmt.Errorf("topology level %q: write a name such as rack", l.Name)
		case seen[l.Name]:
			return fmt.Errorf("topology level %q is given twice, or is the cluster itself", l.Name)
		case l.Nodes < 0 || l.Nodes > MaxNodes:
			return fmt.Errorf("topology level %q: %d nodes in each; write a number from 1 to %d", l.Name, l.Nodes, MaxNodes)
		}
		if err := l.Uplink.Check(); err != nil {
			return fmt.Errorf("topology level %q: %w", l.Name, err)
		}
		seen[l.Name] = true
	}
	if len(s.Levels) > 16 {
		return fmt.Errorf("%d topology levels: at most 16 are allowed", len(s.Levels))
	}
	seen = map[string]bool{}
	for _, p := range s.Partitions {
		if !goodName(p) || seen[p] {
			return fmt.Errorf("partition %q is given twice or has no proper name", p)
		}
		seen[p] = true
	}
	return nil
}

// checkNodes checks each group alone, and how much all of them are.
func (s *Spec) checkNodes() error {
	nodes, devices := 0, 0
	for i := range s.Nodes {
		g := &s.Nodes[i]
		if err := s.checkGroup(g); err != nil {
			if g.Name != "" {
				return fmt.Errorf("nodes %q: %w", g.Name, err)
			}
			return fmt.Errorf("node group %d: %w", i+1, err)
		}
		nodes += g.Count
		if nodes > MaxNodes {
			return fmt.Errorf("more than %d nodes", MaxNodes)
		}
		devices += g.Count * g.gpus()
		if devices > MaxDevices {
			return fmt.Errorf("more than %d GPUs", MaxDevices)
		}
	}
	if nodes == 0 {
		return fmt.Errorf("the cluster has no nodes")
	}
	return nil
}

func (s *Spec) checkGroup(g *Group) error {
	switch {
	case g.Count < 1 || g.Count > MaxNodes:
		return fmt.Errorf("count %d; write a number from 1 to %d", g.Count, MaxNodes)
	case g.CPU < 0 || g.CPU > 1e12 || g.Memory < 0 || g.Memory > 1<<50:
		return fmt.Errorf("%v CPUs and %v of memory are not an amount that a node has: at most 1e9 and 1PiB are allowed", g.CPU, g.Memory)
	case !canonical(g.Slots):
		return fmt.Errorf("counted resources %q: write names and amounts, as in rdma=8, pods=110", string(g.Slots))
	case g.Partition != "" && !slices.Contains(s.Partitions, g.Partition):
		return fmt.Errorf("partition %q is not among partitions: %s", g.Partition, strings.Join(s.Partitions, ", "))
	case len(g.Place) > len(s.Levels):
		return fmt.Errorf("place %s has %d levels, the topology has %d", strings.Join(g.Place, "/"), len(g.Place), len(s.Levels))
	case g.Health > cluster.Down || g.Power > cluster.Booting:
		return fmt.Errorf("unknown health or power state")
	case g.At < 0 || g.At > latest:
		return fmt.Errorf("nodes cannot arrive at %v: from 0 to 100 years is allowed", g.At)
	case g.Foreign.CPU < 0 || g.Foreign.CPU > 1e12 || g.Foreign.Memory < 0 || g.Foreign.Memory > 1<<50 || !canonical(g.Foreign.Slots):
		return fmt.Errorf("others cannot use %v of a node", &g.Foreign)
	case g.Foreign.GPUs < 0 || g.Foreign.GPUs > g.gpus():
		return fmt.Errorf("others cannot use %d of %d GPUs", g.Foreign.GPUs, g.gpus())
	case g.At > 0 && g.Foreign != Foreign{}:
		return fmt.Errorf("nodes that arrive later are not used by others when they arrive")
	case g.At > 0 && (g.Health != cluster.Up || g.Power != cluster.Awake):
		return fmt.Errorf("nodes that arrive later arrive up and awake")
	}
	for _, name := range g.Place {
		if !goodName(name) || strings.Contains(name, "/") {
			return fmt.Errorf("place %q: write names with / between them, such as zone-a/rack-3", strings.Join(g.Place, "/"))
		}
	}
	if err := s.checkGPUs(g); err != nil {
		return err
	}
	for _, l := range g.Labels {
		if err := l.Check(); err != nil {
			return err
		}
	}
	if err := label.Sort(g.Labels); err != nil {
		return err
	}
	if err := g.NICs.Check(); err != nil {
		return err
	}
	return g.Links.check(g)
}

// canonical tells whether counted resources are written as they are compared.
func canonical(s job.Slots) bool {
	read, err := job.ParseSlots(string(s))
	return err == nil && read == s
}

// checkSlots makes sure that the cluster does not count too many sorts of things.
func (s *Spec) checkSlots() error {
	names := map[string]bool{}
	for i := range s.Nodes {
		for name := range s.Nodes[i].Slots.All() {
			names[name] = true
		}
		for name := range s.Nodes[i].Foreign.Slots.All() {
			names[name] = true
		}
	}
	if len(names) > cluster.MaxSlots {
		return fmt.Errorf("%d counted resources (slots): a cluster has at most %d", len(names), cluster.MaxSlots)
	}
	return nil
}

func (s *Spec) checkGPUs(g *Group) error {
	for _, x := range g.GPUs {
		known := slices.ContainsFunc(s.Types, func(t cluster.GPUType) bool { return t.Name == x.Type })
		switch {
		case !known:
			return fmt.Errorf("GPU type %q is not among gpu-types", x.Type)
		case x.Count < 1 || x.Count > maxPooled:
			return fmt.Errorf("%d GPUs of type %s; write a number from 1 to %d", x.Count, x.Type, maxPooled)
		case x.Count > cluster.MaxGroup && !g.Pooled:
			return fmt.Errorf("%d GPUs of type %s: more than %d of a node cannot be told apart; write pooled: true to have them counted", x.Count, x.Type, cluster.MaxGroup)
		}
	}
	if len(g.GPUs) > 64 {
		return fmt.Errorf("%d groups of GPUs in a node: at most 64 are allowed", len(g.GPUs))
	}
	return nil
}

// maxPooled is the largest number of GPUs that a node counts.
const maxPooled = 2_000_000

func (l *Links) check(g *Group) error {
	n := g.gpus()
	switch {
	case l.Preset == "" && len(l.Pairs) == 0:
		return nil
	case g.Pooled:
		return fmt.Errorf("the GPUs of a pooled node are not told apart and have no links")
	case n > 256:
		return fmt.Errorf("links are described for at most 256 GPUs, the node has %d", n)
	case l.Preset != "" && len(l.Pairs) > 0:
		return fmt.Errorf("links are either a preset or a list of pairs")
	case l.Preset != "":
		_, err := cluster.LinkPreset(l.Preset, n)
		return err
	}
	for _, p := range l.Pairs {
		switch {
		case p.A < 0 || p.B < 0 || p.A >= n || p.B >= n || p.A == p.B:
			return fmt.Errorf("link between GPUs %d and %d; the node has GPUs 0 to %d", p.A, p.B, n-1)
		case p.Class < cluster.NVLink || p.Class > cluster.CrossSocket:
			return fmt.Errorf("link between GPUs %d and %d: unknown class", p.A, p.B)
		case p.Class != cluster.NVLink && p.Count+p.Gen > 0:
			return fmt.Errorf("link between GPUs %d and %d: count and generation are those of NVLinks, its class is %s", p.A, p.B, p.Class)
		case p.Gen > cluster.MaxNVLinkGen:
			return fmt.Errorf("link between GPUs %d and %d: generation %d of NVLink is not known; write 1 to %d", p.A, p.B, p.Gen, cluster.MaxNVLinkGen)
		case !(p.GBps >= 0 && p.GBps <= 1e6):
			return fmt.Errorf("link between GPUs %d and %d: a speed of %v GB/s; at most 1e6 are allowed", p.A, p.B, p.GBps)
		}
	}
	return nil
}

// checkNames makes sure that no two nodes have one name.
func (s *Spec) checkNames() error {
	seen := map[string]bool{}
	number := 0
	for i := range s.Nodes {
		g := &s.Nodes[i]
		p, err := parsePattern(g.Name)
		if err != nil {
			return err
		}
		if g.Name != "" && (!goodName(p.name(0)) || !p.counts && g.Count > 1) {
			return fmt.Errorf("nodes %q: %d nodes need a counter in their name, such as %s{0}", g.Name, g.Count, p.before)
		}
		for k := range g.Count {
			name := p.name(k)
			if g.Name == "" {
				name = fmt.Sprintf("n%d", number)
			}
			if seen[name] {
				return fmt.Errorf("two nodes are called %q", name)
			}
			seen[name] = true
			number++
		}
	}
	return nil
}

func (s *Spec) checkCosts() error {
	if s.HalfLife < 0 || s.HalfLife > latest {
		return fmt.Errorf("half-life %v: write a duration such as 7d, 100 years at most", s.HalfLife)
	}
	last := 0
	for i, t := range append([]perf.Tier{{Cost: s.Costs.Base}}, s.Costs.Tiers...) {
		for _, d := range []time.Duration{t.Cost.Start, t.Cost.Checkpoint, t.Cost.Restore, t.Cost.Migrate, t.Cost.Resize, t.Cost.InPlace, t.Cost.TimeSliced} {
			if d < 0 || d > latest {
				return fmt.Errorf("costs: a transition cannot take %v: from 0 to 100 years is allowed", d)
			}
		}
		if i > 0 && (t.GPUs <= last || t.GPUs > MaxDevices) {
			return fmt.Errorf("costs: the tiers must be in increasing order of GPUs, from 1 up")
		}
		last = t.GPUs
	}
	return nil
}

func (s *Spec) checkTenants() error {
	if len(s.Tenants) > 10_000 {
		return fmt.Errorf("%d tenants: at most 10,000 are allowed", len(s.Tenants))
	}
	byName := map[string]*Tenant{}
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if t.Weight == 1 {
			t.Weight = 0
		}
		switch {
		case !goodName(t.Name):
			return fmt.Errorf("tenant %q has no proper name", t.Name)
		case byName[t.Name] != nil:
			return fmt.Errorf("tenant %q is given twice", t.Name)
		case !(t.Weight >= 0 && t.Weight <= 1e9):
			return fmt.Errorf("tenant %q: weight %v; write a number above 0, at most 1e9", t.Name, t.Weight)
		case !t.Guarantee.good() || !t.Limit.good():
			return fmt.Errorf("tenant %q: guarantee and limit are numbers of GPUs, or percentages up to 100%%", t.Name)
		}
		byName[t.Name] = t
	}
	if err := s.checkTree(byName); err != nil {
		return err
	}
	return s.checkGuarantees(byName)
}

func (s Share) good() bool {
	return s.GPUs >= 0 && s.GPUs <= 1000*MaxDevices && s.Percent >= 0 && s.Percent <= 100 && (s.GPUs == 0 || s.Percent == 0) && !math.IsNaN(s.Percent)
}

// checkTree makes sure that every tenant hangs below the root.
func (s *Spec) checkTree(byName map[string]*Tenant) error {
	below := map[string]bool{"": true}
	for i := range s.Tenants {
		var path []string
		t := &s.Tenants[i]
		for !below[t.Name] {
			if slices.Contains(path, t.Name) || len(path) > 64 {
				return fmt.Errorf("tenant %q is below itself, or more than 64 levels deep", t.Name)
			}
			path = append(path, t.Name)
			if t.Parent == "" {
				break
			}
			parent, ok := byName[t.Parent]
			if !ok {
				return fmt.Errorf("tenant %q: its parent %q is not a tenant", t.Name, t.Parent)
			}
			t = parent
		}
		for _, name := range path {
			below[name] = true
		}
	}
	return nil
}

// checkCells makes sure that the cells which tenants are promised are there, all at once. Nodes that
// arrive later do not count.
func (s *Spec) checkCells() error {
	if !slices.ContainsFunc(s.Tenants, func(t Tenant) bool { return t.Cells != "" }) {
		return nil
	}
	for _, t := range s.Tenants {
		if read, err := tenant.ParseCells(string(t.Cells)); err != nil || read != t.Cells {
			return fmt.Errorf("tenant %q: cells %q: write how many of which level, such as node=3, V100:4=2", t.Name, string(t.Cells))
		}
	}
	site, err := s.Build()
	if err != nil {
		return err
	}
	for p := range cluster.PoolID(site.Cluster.Pools()) {
		f := cells.Of(site.Cluster, p)
		share, err := cells.Assign(f, site.Cluster, p, site.Tenants)
		if err != nil {
			return err
		}
		if err := f.Legal(site.Cluster, share.VCs); err != nil {
			return err
		}
	}
	return nil
}

// checkGuarantees makes sure that what is guaranteed can be given.
func (s *Spec) checkGuarantees(byName map[string]*Tenant) error {
	total := unitMilli(s.GPUs())
	promised := map[string]int64{}
	for i := range s.Tenants {
		t := &s.Tenants[i]
		guarantee, limit := t.Guarantee.Of(total), t.Limit.Of(total)
		if limit > 0 && limit < guarantee {
			return fmt.Errorf("tenant %q: its limit of %v GPUs is below its guarantee of %v", t.Name, limit, guarantee)
		}
		promised[t.Parent] += int64(guarantee)
	}
	if promised[""] > int64(total) {
		return fmt.Errorf("tenants are guaranteed %v GPUs together, the cluster has %v", float64(promised[""])/1000, total)
	}
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if own := t.Guarantee.Of(total); own > 0 && promised[t.Name] > int64(own) {
			return fmt.Errorf("tenants below %q are guaranteed %v GPUs together, it has %v itself", t.Name, float64(promised[t.Name])/1000, own)
		}
	}
	return nil
}
