package preempt

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
)

// kinds tells GPUs apart as far as jobs do: by their types and by the scopes that
// their nodes are in. Where no job asks for some nodes, the kinds are the types.
type kinds struct {
	node    []int32            // of each node, the place of its scopes in the list; nil: there is one
	scopes  [][]cluster.PoolID // nodes that fewer jobs ask for come first
	version uint64
}

// find finds the kinds, if nodes or scopes have changed.
func (k *kinds) find(v *sched.View) {
	c := v.Cluster()
	if len(k.scopes) > 0 && k.version == c.Version() {
		return
	}
	k.version, k.node, k.scopes = c.Version(), nil, k.scopes[:0]
	for n := range cluster.NodeID(c.Nodes()) {
		if of := c.Scopes(n); !slices.ContainsFunc(k.scopes, func(s []cluster.PoolID) bool { return slices.Equal(s, of) }) {
			k.scopes = append(k.scopes, slices.Clone(of))
		}
	}
	if len(k.scopes) < 2 {
		k.scopes = append(k.scopes[:0], nil)
		return
	}
	slices.SortStableFunc(k.scopes, func(a, b []cluster.PoolID) int { return len(a) - len(b) })
	for n := range cluster.NodeID(c.Nodes()) {
		k.node = append(k.node, int32(slices.IndexFunc(k.scopes, func(s []cluster.PoolID) bool { return slices.Equal(s, c.Scopes(n)) })))
	}
}

// of is the kind of a GPU.
func (k *kinds) of(c *cluster.Cluster, d cluster.DeviceID) int {
	if k.node == nil {
		return int(c.TypeOf(d))
	}
	return int(k.node[c.NodeOf(d)])*c.Types() + int(c.TypeOf(d))
}

// each calls visit for the kinds of a type that jobs of a class may use.
func (k *kinds) each(c *cluster.Cluster, class *state.Class, t cluster.TypeID, visit func(kind int)) {
	for i, of := range k.scopes {
		if len(k.scopes) == 1 || class.Scope == class.Pool || slices.Contains(of, class.Scope) {
			visit(i*c.Types() + int(t))
		}
	}
}
