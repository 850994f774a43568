package cluster

import (
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/cluster/label"
)

// Condition says which nodes of a pool some jobs may use: those on which Where
// holds, whose taints Tolerate covers, and that stand in a place of the Level. The
// texts are those of package label. A Level that is empty is no condition.
type Condition struct {
	Pool            PoolID
	Where, Tolerate string
	Level           string
}

// scope is the nodes on which a condition holds, with indexes of their own. It has
// the number of a pool, from firstScope on, and answers as a pool does. The first
// one is the lens of Narrow.
type scope struct {
	Condition
	where    label.Where
	tolerate label.Tolerations
	pool     pool
}

// firstScope is the number of the first scope. Pools have smaller numbers.
const firstScope PoolID = 1 << 20

// EachNode is the level of the topology whose places are the nodes themselves.
const EachNode = "node"

// NodeLabel is the label that every node has: its name, unless it is given another value.
const NodeLabel = "node"

// pool is a pool or a scope.
func (c *Cluster) pool(p PoolID) *pool {
	if p < firstScope {
		return &c.pools[p]
	}
	return &c.scopes[p-firstScope].pool
}

// Scope is the number of the nodes on which a condition holds. The number can stand
// for that of a pool wherever one asks for nodes, GPUs, CPU or shelves. It stays
// true as nodes come, go, or change their labels. The pool itself is returned when
// the condition asks for nothing and no node repels anybody. Equal conditions have
// one number. It fails when a text cannot be read.
func (c *Cluster) Scope(of Condition) (PoolID, error) {
	if of == (Condition{Pool: of.Pool, Tolerate: of.Tolerate}) && !c.tainted() {
		return of.Pool, nil
	}
	c.lens()
	for i := 1; i < len(c.scopes); i++ {
		if c.scopes[i].Condition == of {
			return firstScope + PoolID(i), nil
		}
	}
	s := scope{Condition: of}
	var err error
	if s.where, err = label.ParseWhere(of.Where); err != nil {
		return 0, fmt.Errorf("where: %w", err)
	}
	if s.tolerate, err = label.ParseTolerations(of.Tolerate); err != nil {
		return 0, fmt.Errorf("tolerate: %w", err)
	}
	p := firstScope + PoolID(len(c.scopes))
	c.scopes = append(c.scopes, s)
	for _, id := range c.pools[of.Pool].nodes {
		if c.scopes[p-firstScope].admits(c, id) {
			c.join(id, p)
		}
	}
	c.version++
	return p, nil
}

// lens makes the scope of Narrow.
func (c *Cluster) lens() {
	if len(c.scopes) == 0 {
		c.scopes = append(c.scopes, scope{Condition: Condition{Pool: None}})
	}
}

// empty is the scope without nodes.
func (s *scope) empty() scope {
	return scope{Condition: s.Condition, where: s.where, tolerate: s.tolerate}
}

// tainted tells whether any node repels jobs.
func (c *Cluster) tainted() bool {
	return slices.ContainsFunc(c.nodes, func(n node) bool { return slices.ContainsFunc(n.spec.Taints, label.Taint.Repels) })
}

// admits tells whether the condition holds on a node.
func (s *scope) admits(c *Cluster, id NodeID) bool {
	spec := &c.nodes[id].spec
	return spec.Pool == s.Pool && c.stands(spec.Domain, s.Level) && s.where.Holds(spec.Label) && s.tolerate.Tolerate(spec.Taints)
}

// stands tells whether a place is of a level, or in a place of it.
func (c *Cluster) stands(d DomainID, level string) bool {
	return level == "" || level == EachNode || c.ancestor(d, level) != None
}

// Together tells whether two nodes are in one place of a level.
func (c *Cluster) Together(a, b NodeID, level string) bool {
	if a == b || level == EachNode {
		return a == b
	}
	at := c.ancestor(c.nodes[a].spec.Domain, level)
	return at != None && at == c.ancestor(c.nodes[b].spec.Domain, level)
}

// PlaceOf is the place of a level in which a node stands, or None.
func PlaceOf(c *Cluster, id NodeID, level string) DomainID {
	return c.ancestor(c.nodes[id].spec.Domain, level)
}

// ancestor is the place of a level in which another one is, perhaps itself; or None.
func (c *Cluster) ancestor(d DomainID, level string) DomainID {
	for d > 0 && c.domains[d].level != level {
		d = c.domains[d].parent
	}
	if d > 0 {
		return d
	}
	return None
}

// Label is the value of a label of the node; ok is false where it has none.
func (n *NodeSpec) Label(key string) (value string, ok bool) {
	at, ok := slices.BinarySearchFunc(n.Labels, key, func(l label.Label, key string) int {
		switch {
		case l.Key < key:
			return -1
		case l.Key > key:
			return 1
		}
		return 0
	})
	switch {
	case ok:
		return n.Labels[at].Value, true
	case key == NodeLabel:
		return n.Name, true
	}
	return "", false
}

// checkLabels brings the labels of a node in order and says what is wrong with them.
func checkLabels(spec *NodeSpec) error {
	for _, l := range spec.Labels {
		if err := l.Check(); err != nil {
			return err
		}
	}
	spec.Labels = slices.Clone(spec.Labels)
	return label.Sort(spec.Labels)
}

// In tells whether a node is in a pool, or in a scope.
func (c *Cluster) In(id NodeID, p PoolID) bool {
	if p < firstScope {
		return c.nodes[id].spec.Pool == p
	}
	return slices.Contains(c.nodes[id].scopes, p)
}

// Scopes are the scopes that a node is in. The slice must not be changed.
func (c *Cluster) Scopes(id NodeID) []PoolID { return c.nodes[id].scopes }

// joinScopes brings a new node into the scopes whose conditions hold on it.
func (c *Cluster) joinScopes(id NodeID) {
	for i := 1; i < len(c.scopes); i++ {
		if c.scopes[i].admits(c, id) {
			c.join(id, firstScope+PoolID(i))
		}
	}
}

// join brings a node into a scope.
func (c *Cluster) join(id NodeID, p PoolID) {
	n, of := &c.nodes[id], c.pool(p)
	n.scopes = append(n.scopes, p)
	at, _ := slices.BinarySearch(of.nodes, id)
	of.nodes = slices.Insert(of.nodes, at, id)
	for _, gid := range n.groups {
		g := &c.groups[gid]
		s := c.shelfFor(p, g.typ)
		g.also = append(g.also, s)
		c.shelves[s].enrol(g)
		if g.listed {
			c.index(s, gid, true)
		}
	}
	c.showRoom(id)
}

// leave takes a node out of a scope, but for the size of the largest group (size).
func (c *Cluster) leave(id NodeID, p PoolID) {
	n, of := &c.nodes[id], c.pool(p)
	n.scopes = slices.DeleteFunc(n.scopes, func(q PoolID) bool { return q == p })
	of.room.Remove(int(id))
	if at, ok := slices.BinarySearch(of.nodes, id); ok {
		of.nodes = slices.Delete(of.nodes, at, at+1)
	}
	for _, gid := range n.groups {
		g := &c.groups[gid]
		at := slices.IndexFunc(g.also, func(s int32) bool { return c.shelves[s].pool == p })
		s := g.also[at]
		g.also = slices.Delete(g.also, at, at+1)
		if g.listed {
			c.index(s, gid, false)
		}
		if !g.pooled {
			c.shelves[s].sized[g.count]--
		}
	}
}

// SetLabels gives a node other labels and taints. Jobs that run there go on. It fails,
// and changes nothing, when a label cannot be one.
func (c *Cluster) SetLabels(id NodeID, labels []label.Label, taints []label.Taint) error {
	spec := &c.nodes[id].spec
	next := NodeSpec{Labels: labels}
	if err := checkLabels(&next); err != nil {
		return fmt.Errorf("node %q: %w", spec.Name, err)
	}
	spec.Labels, spec.Taints = next.Labels, slices.Clone(taints)
	for i := 1; i < len(c.scopes); i++ {
		p := firstScope + PoolID(i)
		switch is, will := c.In(id, p), c.scopes[i].admits(c, id); {
		case is && !will:
			c.leave(id, p)
			c.size(p)
		case will && !is:
			c.join(id, p)
		}
	}
	c.version++
	return nil
}

// size finds the size of the largest group on each shelf of a scope, from which nodes
// were taken, and forgets larger sizes.
func (c *Cluster) size(p PoolID) {
	of := c.pool(p)
	for _, i := range of.shelves {
		s := &c.shelves[i]
		n := len(s.sized)
		for n > 0 && s.sized[n-1] == 0 {
			n--
		}
		s.byFree, s.sized, s.whole, s.most = s.byFree[:n], s.sized[:n], s.whole[:n], max(0, int32(n-1))
	}
	for _, id := range of.nodes {
		for _, gid := range c.nodes[id].groups {
			if g := &c.groups[gid]; g.pooled {
				s := &c.shelves[c.shelfFor(p, g.typ)]
				s.most = max(s.most, g.count)
			}
		}
	}
}

// Narrow is the number of a scope of exactly these nodes, until Widen is called.
// There is one at a time.
func (c *Cluster) Narrow(nodes []NodeID) PoolID {
	c.lens()
	for _, id := range nodes {
		c.join(id, firstScope)
	}
	return firstScope
}

// Narrowed tells whether a number is that of the scope of Narrow.
func Narrowed(p PoolID) bool { return p == firstScope }

// Widen ends what Narrow has begun.
func (c *Cluster) Widen() {
	of := c.pool(firstScope)
	for len(of.nodes) > 0 {
		c.leave(of.nodes[len(of.nodes)-1], firstScope)
	}
	c.size(firstScope)
}

// NoNode says why no node is in a scope, for a reader: "no node has label zone=a".
func (c *Cluster) NoNode(p PoolID) string {
	if p < firstScope || len(c.pool(p).nodes) > 0 {
		return ""
	}
	s := &c.scopes[p-firstScope]
	all := c.pools[s.Pool].nodes
	some := func(holds func(spec *NodeSpec) bool) bool {
		return slices.ContainsFunc(all, func(id NodeID) bool { return holds(&c.nodes[id].spec) })
	}
	switch {
	case len(all) == 0:
		return "there is no node"
	case !some(func(n *NodeSpec) bool { return c.stands(n.Domain, s.Level) }):
		return "no node stands in a " + s.Level
	case !some(func(n *NodeSpec) bool { return s.where.Holds(n.Label) }):
		if len(s.where) == 1 {
			for i := range s.where[0] {
				if r := &s.where[0][i]; !some(func(n *NodeSpec) bool { return r.Holds(n.Label) }) {
					return noNode(r)
				}
			}
		}
		return "no node meets " + s.where.String()
	case !some(func(n *NodeSpec) bool { return s.where.Holds(n.Label) && c.stands(n.Domain, s.Level) }):
		return "no node that stands in a " + s.Level + " meets " + s.where.String()
	}
	for _, id := range all {
		n := &c.nodes[id].spec
		for _, t := range n.Taints {
			if c.stands(n.Domain, s.Level) && s.where.Holds(n.Label) && !s.tolerate.Tolerate([]label.Taint{t}) {
				return "every node that would do is tainted, such as " + n.Name + " with " + t.String() + ", and the job does not tolerate that"
			}
		}
	}
	return "no node would do"
}

// noNode says that no node meets a requirement.
func noNode(r *label.Requirement) string {
	switch r.Op {
	case label.NotIn:
		return "every node has label " + (&label.Requirement{Key: r.Key, Op: label.In, Values: r.Values}).String()
	case label.DoesNotExist:
		return "every node has label " + r.Key
	}
	return "no node has label " + r.String()
}

// checkScopes verifies that each scope has the nodes that it should have. The lens
// is verified as it is.
func (c *Cluster) checkScopes() error {
	for i := range c.scopes {
		p := firstScope + PoolID(i)
		for id := range NodeID(len(c.nodes)) {
			_, has := slices.BinarySearch(c.scopes[i].pool.nodes, id)
			if in := c.In(id, p); in != has || i > 0 && in != c.scopes[i].admits(c, id) {
				return fmt.Errorf("node %s: in scope %d: %v, on its list: %v", c.nodes[id].spec.Name, p, in, has)
			}
		}
	}
	return nil
}
