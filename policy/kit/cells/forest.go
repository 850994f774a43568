// Package cells is guarantees as places. A tenant is promised not a number of GPUs but cells: sets of
// GPUs that are close together. Which GPUs these are is decided when the tenant needs them, so that what
// others do never scatters what is left.
//
// Nouns:
//   - A cell is GPUs at one level of the hierarchy: a GPU, a half of a node, a node, a rack.
//   - A chain is cells of one GPU type and one shape. Each cell of a level has as many GPUs, so a
//     chain is a row of GPUs, and a cell is a section of it.
//   - A virtual cluster is what one tenant is promised: a number of cells of each level.
//   - A root is a cell that is bound to a virtual cluster, for as long as a guaranteed job of it has a
//     GPU there. A pinned cell is always bound to the same one.
//   - A free cell is one that has no root inside it and lies in none, and is the largest such.
//   - A room is a node of a root, or a root that is smaller than a node: no task has GPUs of two rooms.
//   - A guest is an opportunistic job. Any GPU that no guaranteed job has may be given to one, and is
//     taken back from it when its owner needs it.
//
// A free cell is split no further than needed, and buddies are merged again when both are free. If
// what is promised fits into the cluster at all (Legal), then whatever a virtual cluster asks for within
// its cells is there, as in a cluster of its own.
//
// Levels are numbered from 0, a single GPU, upwards. A position is the number of a GPU in its chain.
//
// Source: Zhao et al., "HiveD: Sharing a GPU Cluster for Deep Learning with Guarantees", OSDI 2020.
// Below a root the cells of a virtual cluster are those of the cluster itself: the paper binds each of
// them by itself, which finds the same rooms.
package cells

import (
	"strconv"

	"github.com/norn-scheduler/norn/cluster"
)

// Level is one level of a chain.
type Level struct {
	Name string // node, the name of a level of the topology, or the number of GPUs
	GPUs int    // of each cell; those of a level divide those of the next one
}

// Chain is cells of one shape.
type Chain struct {
	Type   cluster.TypeID
	Levels []Level            // from a single GPU upwards
	Node   int                // the level of a node
	GPUs   []cluster.DeviceID // by position
}

// Cells is the number of cells of a level.
func (c *Chain) Cells(level int) int { return len(c.GPUs) / c.Levels[level].GPUs }

// Find is the level of a name. Cells up to a node may be called by their number of GPUs, too.
func (c *Chain) Find(name string) (level int, ok bool) {
	for l := range c.Levels {
		if c.Levels[l].Name == name || l <= c.Node && strconv.Itoa(c.Levels[l].GPUs) == name {
			return l, true
		}
	}
	return 0, false
}

// Cell is one cell of a forest.
type Cell struct{ Chain, Level, Index int }

// Forest is all cells of a part of a cluster.
type Forest struct {
	Chains []Chain
	Named  map[string][]Cell // nodes by their names, and places by their paths, such as zone-a/rack-3; one cell for each GPU type
}

// Of finds the cells of a pool. A node with 8 GPUs of a type is a cell of 8, and has cells of 4, 2 and 1
// inside it: it is halved as long as that comes out even. A place of the topology is a cell if all in
// it are alike, and more than one. GPUs that are counted and not told apart are in no cell.
func Of(c *cluster.Cluster, pool cluster.PoolID) *Forest {
	b := &builder{cluster: c, pool: pool, forest: &Forest{Named: map[string][]Cell{}}, chains: map[string]int{}}
	for t := range cluster.TypeID(c.Types()) {
		if c.Type(t).Host {
			continue
		}
		b.typ = t
		for _, u := range b.below(0, "") {
			b.add(u)
		}
	}
	return b.forest
}

// tree is a cell that stands in no other one, as far as one has looked.
type tree struct {
	shape  string // equal cells have equal shapes
	levels []Level
	node   int
	gpus   []cluster.DeviceID
	names  []named
}

// named is a cell inside a tree that has a name.
type named struct {
	name         string
	level, first int // position in it
}

type builder struct {
	cluster *cluster.Cluster
	pool    cluster.PoolID
	typ     cluster.TypeID
	forest  *Forest
	chains  map[string]int // by type and shape
}

// below is the largest cells of a place: the place itself, if all in it are alike.
func (b *builder) below(d cluster.DomainID, path string) []tree {
	var all []tree
	for _, child := range b.cluster.DomainChildren(d) {
		_, name, _ := b.cluster.Domain(child)
		if path != "" {
			name = path + "/" + name
		}
		all = append(all, b.below(child, name)...)
	}
	for _, n := range b.cluster.DomainNodes(d) {
		if u, ok := b.node(n); ok {
			all = append(all, u)
		}
	}
	if d == 0 || len(all) < 2 {
		return all
	}
	whole := tree{shape: all[0].shape + "*" + strconv.Itoa(len(all)), node: all[0].node}
	for i := range all {
		if all[i].shape != all[0].shape {
			return all
		}
		for _, n := range all[i].names {
			n.first += len(whole.gpus)
			whole.names = append(whole.names, n)
		}
		whole.gpus = append(whole.gpus, all[i].gpus...)
	}
	level, _, _ := b.cluster.Domain(d)
	whole.shape += level
	whole.levels = append(append(whole.levels, all[0].levels...), Level{level, len(whole.gpus)})
	whole.names = append(whole.names, named{path, len(whole.levels) - 1, 0})
	return []tree{whole}
}

// node is a node, if it has GPUs of the type.
func (b *builder) node(n cluster.NodeID) (u tree, ok bool) {
	if spec := b.cluster.Node(n); spec.Pooled || !b.cluster.In(n, b.pool) {
		return u, false
	}
	first, count := b.cluster.DeviceRange(n)
	for d := first; d < first+cluster.DeviceID(count); d++ {
		if b.cluster.TypeOf(d) == b.typ {
			u.gpus = append(u.gpus, d)
		}
	}
	if len(u.gpus) == 0 {
		return u, false
	}
	u.levels = Halves(len(u.gpus))
	u.node = len(u.levels) - 1
	u.shape = strconv.Itoa(len(u.gpus))
	u.names = []named{{b.cluster.Node(n).Name, u.node, 0}}
	return u, true
}

// Halves is the levels of a node with so many GPUs.
func Halves(gpus int) []Level {
	levels := []Level{{"node", gpus}}
	for size := gpus; size > 1; {
		if size%2 == 0 {
			size /= 2
		} else {
			size = 1
		}
		levels = append([]Level{{strconv.Itoa(size), size}}, levels...)
	}
	return levels
}

// add puts a cell into the chain of its shape.
func (b *builder) add(u tree) {
	key := strconv.Itoa(int(b.typ)) + ":" + u.shape
	at, known := b.chains[key]
	if !known {
		at = len(b.forest.Chains)
		b.chains[key] = at
		b.forest.Chains = append(b.forest.Chains, Chain{Type: b.typ, Levels: u.levels, Node: u.node})
	}
	c := &b.forest.Chains[at]
	for _, n := range u.names {
		b.forest.Named[n.name] = append(b.forest.Named[n.name], Cell{at, n.level, (len(c.GPUs) + n.first) / u.levels[n.level].GPUs})
	}
	c.GPUs = append(c.GPUs, u.gpus...)
}
