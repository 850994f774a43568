package clusterspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/tenant"
)

// Site is a fresh cluster and what goes with it.
type Site struct {
	Cluster  *cluster.Cluster
	Tenants  *tenant.Tree
	Costs    perf.Costs
	Arrivals []Arrival // in order of time
}

// Arrival is a node that arrives during the run.
type Arrival struct {
	At   time.Duration
	Spec cluster.NodeSpec
}

func unitMilli(gpus int) unit.Milli { return unit.Milli(gpus) * unit.One }

// Build makes the cluster, with nothing held on it, its tenants and the nodes
// that arrive later. It fails only on a Spec that this package has not checked.
func (s *Spec) Build() (*Site, error) {
	b := builder{spec: s, cluster: cluster.New(), domains: map[string]cluster.DomainID{}, filled: map[cluster.DomainID]*filling{}}
	for _, t := range s.Types {
		if _, err := b.cluster.AddType(t); err != nil {
			return nil, err
		}
	}
	for _, p := range s.Partitions {
		b.cluster.AddPool(p)
	}
	site := &Site{Cluster: b.cluster, Costs: s.Costs}
	for i := range s.Nodes {
		if err := b.group(&s.Nodes[i], site); err != nil {
			return nil, err
		}
	}
	// Stable: nodes that arrive together keep the order of the description.
	sortArrivals(site.Arrivals)
	var err error
	site.Tenants, err = s.tree()
	return site, err
}

// builder is a cluster being built.
type builder struct {
	spec    *Spec
	cluster *cluster.Cluster
	domains map[string]cluster.DomainID   // by path, names joined by /
	filled  map[cluster.DomainID]*filling // places below which nodes are put by number
	number  int                           // nodes so far
}

// filling is the place at the next level that is being filled with nodes.
type filling struct {
	current cluster.DomainID
	nodes   int // in it
	places  int // made so far
}

// group adds the nodes of a group.
func (b *builder) group(g *Group, site *Site) error {
	name, err := parsePattern(g.Name)
	if err != nil {
		return err
	}
	node := cluster.NodeSpec{CPU: g.CPU, Memory: g.Memory, NICs: g.NICs, Pooled: g.Pooled, Labels: g.Labels, Taints: g.Taints}
	node.Pool, _ = b.cluster.PoolByName(g.Partition) // the check has found it
	for name, n := range g.Slots.All() {
		at, err := b.cluster.AddSlot(name)
		if err != nil {
			return fmt.Errorf("nodes %q: %w", g.Name, err)
		}
		node.Slots[at] = n
	}
	for _, x := range g.GPUs {
		t, ok := b.cluster.TypeByName(x.Type)
		if !ok {
			return fmt.Errorf("nodes %q: GPU type %q is not known", g.Name, x.Type)
		}
		node.GPUs = append(node.GPUs, cluster.GPUs{Type: t, Count: x.Count})
	}
	if node.Links, err = g.Links.make(g.gpus()); err != nil {
		return fmt.Errorf("nodes %q: %w", g.Name, err)
	}
	for i := range g.Count {
		n := node
		if n.Name = name.name(i); g.Name == "" {
			n.Name = fmt.Sprintf("n%d", b.number)
		}
		if n.Domain, err = b.place(g.Place); err != nil {
			return err
		}
		b.number++
		if g.At > 0 {
			site.Arrivals = append(site.Arrivals, Arrival{g.At, n})
			continue
		}
		id, err := b.cluster.AddNode(n)
		if err != nil {
			return err
		}
		if g.Health != cluster.Up {
			b.cluster.SetHealth(id, g.Health)
		}
		if g.Power != cluster.Awake {
			b.cluster.SetPower(id, g.Power)
		}
		if g.Foreign != (Foreign{}) {
			if err := b.foreign(id, &g.Foreign); err != nil {
				return err
			}
		}
	}
	return nil
}

// foreign says what others use of a node.
func (b *builder) foreign(id cluster.NodeID, f *Foreign) error {
	use := cluster.Foreign{CPU: f.CPU, Memory: f.Memory}
	for name, n := range f.Slots.All() {
		at, err := b.cluster.AddSlot(name)
		if err != nil {
			return err
		}
		use.Slots[at] = n
	}
	first, devices := b.cluster.DeviceRange(id)
	left := int32(f.GPUs) * 1000
	for d := first + cluster.DeviceID(devices) - 1; d >= first && left > 0; d-- {
		milli := min(left, int32(b.cluster.DeviceFree(d)))
		left -= milli
		use.GPUs = append(use.GPUs, cluster.Share{Device: d, Milli: milli})
	}
	return b.cluster.SetForeign(id, use)
}

// place is the smallest place of the next node: that of its path, and below it
// places of as many nodes as their levels say.
func (b *builder) place(path []string) (cluster.DomainID, error) {
	at := cluster.DomainID(0)
	var err error
	for depth := range path {
		if at, err = b.domain(at, depth, strings.Join(path[:depth+1], "/"), path[depth]); err != nil {
			return 0, err
		}
	}
	for depth := len(path); depth < len(b.spec.Levels) && b.spec.Levels[depth].Nodes > 0; depth++ {
		level := b.spec.Levels[depth]
		f := b.filled[at]
		if f == nil {
			f = &filling{}
			b.filled[at] = f
		}
		if f.places == 0 || f.nodes == level.Nodes {
			if f.current, err = b.cluster.AddDomain(level.Name, fmt.Sprintf("%s%d", level.Name, f.places), at); err != nil {
				return 0, err
			}
			cluster.SetUplink(b.cluster, f.current, level.Uplink)
			f.places++
			f.nodes = 0
		}
		f.nodes++
		at = f.current
	}
	return at, nil
}

// domain is the place of a path, made on first mention.
func (b *builder) domain(parent cluster.DomainID, depth int, path, name string) (cluster.DomainID, error) {
	if id, ok := b.domains[path]; ok {
		return id, nil
	}
	if depth >= len(b.spec.Levels) {
		return 0, fmt.Errorf("place %s has more levels than the topology", path)
	}
	id, err := b.cluster.AddDomain(b.spec.Levels[depth].Name, name, parent)
	if err == nil {
		cluster.SetUplink(b.cluster, id, b.spec.Levels[depth].Uplink)
	}
	b.domains[path] = id
	return id, err
}

// make is the links of n GPUs, or nil when they are not known.
func (l *Links) make(n int) (*cluster.Links, error) {
	if l.Preset != "" {
		return cluster.LinkPreset(l.Preset, n)
	}
	if len(l.Pairs) == 0 {
		return nil, nil
	}
	links := cluster.NewLinks(n)
	for _, p := range l.Pairs {
		links.Connect(p.A, p.B, p.Link)
	}
	return links, nil
}

// tree makes the tenants in their order, but parents before their children.
func (s *Spec) tree() (*tenant.Tree, error) {
	tree := tenant.NewTree(s.HalfLife)
	total := unitMilli(s.GPUs())
	byName := map[string]*Tenant{}
	for i := range s.Tenants {
		byName[s.Tenants[i].Name] = &s.Tenants[i]
	}
	var add func(t *Tenant) (tenant.ID, error)
	add = func(t *Tenant) (tenant.ID, error) {
		if id, done := tree.Lookup(t.Name); done {
			return id, nil
		}
		parent := tenant.Root
		if t.Parent != "" {
			above, ok := byName[t.Parent]
			if !ok {
				return 0, fmt.Errorf("tenant %q: its parent %q is not a tenant", t.Name, t.Parent)
			}
			var err error
			if parent, err = add(above); err != nil {
				return 0, err
			}
		}
		id, err := tree.Add(t.Name, parent, t.Guarantee.Of(total), t.Limit.Of(total), t.Weight)
		if err == nil {
			tree.SetCells(id, t.Cells)
		}
		return id, err
	}
	for i := range s.Tenants {
		if _, err := add(&s.Tenants[i]); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

func sortArrivals(a []Arrival) {
	slices.SortStableFunc(a, func(x, y Arrival) int { return cmp.Compare(x.At, y.At) })
}

func unitGiB(n int) unit.Bytes { return unit.Bytes(n) * unit.GiB }
