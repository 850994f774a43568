package clusterimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// build makes the description.
func (in *inventory) build(out *Result, opt Options) error {
	if err := in.join(); err != nil {
		return err
	}
	owner, err := in.owners(out, opt)
	if err != nil {
		return err
	}
	s := &clusterspec.Spec{}
	away, future := 0, 0
	for _, name := range in.order {
		n := in.nodes[name]
		if n.future {
			future++
			continue
		}
		if n.away {
			away++
		}
		g := clusterspec.Group{Name: name, Count: 1, GPUs: in.merged(n.gpus), CPU: n.cpu, Memory: n.memory, Labels: in.labels(n, owner == nil), Partition: owner[name]}
		for _, x := range g.GPUs {
			g.Pooled = g.Pooled || x.Count > mostApart
		}
		s.Nodes = append(s.Nodes, g)
	}
	if away > 0 {
		in.note("%s down or drained now, and taken as up", unit.CountOrNo(away, "node"))
	}
	if future > 0 {
		in.note("%s left out: State=FUTURE", unit.CountOrNo(future, "node"))
	}
	in.tenants(s)
	if half, ok := slurmTime(in.settings["prioritydecayhalflife"]); ok && half > 0 {
		s.HalfLife = half
	}
	if err := clusterspec.Complete(s); err != nil {
		return fmt.Errorf("what was told makes no cluster: %w", err)
	}
	out.Spec = s
	return nil
}

// mostApart is the largest number of GPUs of a type in a node that are told apart.
const mostApart = 64

// merged adds up the GPUs of a node by type. MIG slices are put together to GPUs, rounded up:
// the reader of sacct has jobs ask for parts of GPUs in their place.
func (in *inventory) merged(all []clusterspec.GPUs) []clusterspec.GPUs {
	var out []clusterspec.GPUs
	var parts []sliced
	for _, g := range all {
		part, of := sliceOf(g.Type)
		if part == 0 {
			out = plus(out, g.Type, g.Count)
			continue
		}
		in.note("MIG slices of nodes are put together to GPUs, which jobs have parts of")
		parts = append(parts, sliced{of, part * unit.Milli(g.Count)})
	}
	for len(parts) > 0 {
		of, sum, rest := parts[0].of, unit.Milli(0), parts[:0:0]
		for _, s := range parts {
			if s.of == of {
				sum += s.parts
			} else {
				rest = append(rest, s)
			}
		}
		out, parts = plus(out, of, int((sum+unit.One-1)/unit.One)), rest
	}
	return out
}

// sliced is parts of GPUs of a type.
type sliced struct {
	of    string
	parts unit.Milli
}

// sliceOf tells the part of a GPU that a type such as a100_3g.20gb is, and the type of that
// GPU. It is 0 for a type that is none.
func sliceOf(typ string) (part unit.Milli, of string) {
	at := strings.LastIndexByte(typ, '_') + 1
	slice := typ[at:]
	if len(slice) < 4 || slice[0] < '1' || slice[0] > '7' || !strings.HasPrefix(slice[1:], "g.") {
		return 0, typ
	}
	part, _ = podmap.Slice(slice)
	return part, cmp.Or(typ[:max(0, at-1)], clusterspec.UnnamedType)
}

// plus is the list with so many more GPUs of a type.
func plus(list []clusterspec.GPUs, typ string, n int) []clusterspec.GPUs {
	if i := slices.IndexFunc(list, func(o clusterspec.GPUs) bool { return o.Type == typ }); i >= 0 {
		list[i].Count += n
		return list
	}
	return append(list, clusterspec.GPUs{Type: typ, Count: n})
}

// join puts nodes into the partitions that name them, and lists the partitions that nodes
// name.
func (in *inventory) join() error {
	for _, name := range in.order {
		for _, p := range in.nodes[name].partitions {
			in.partition(p)
		}
	}
	for _, p := range in.partitions {
		for _, item := range p.nodes {
			some, err := in.members(strings.TrimSpace(item))
			if err != nil {
				return fmt.Errorf("partition %s: %w", p.name, err)
			}
			for _, name := range some {
				n, ok := in.nodes[name]
				switch {
				case !ok:
					in.lose("nodes of partitions that no file describes")
				case !slices.Contains(n.partitions, p.name):
					n.partitions = append(n.partitions, p.name)
				}
			}
		}
	}
	return nil
}

// members are the nodes that an item of the list of a partition names.
func (in *inventory) members(item string) ([]string, error) {
	if strings.EqualFold(item, "ALL") {
		return in.order, nil
	}
	if feature, ok := in.features[item]; ok {
		var out []string
		for _, name := range in.order {
			if slices.Contains(in.nodes[name].features, feature) {
				out = append(out, name)
			}
		}
		return out, nil
	}
	if list, ok := in.sets[item]; ok {
		return hosts(strings.Join(list, ","))
	}
	return hosts(item)
}

// owners is the pool of each node by its name, and nil where partitions are labels.
func (in *inventory) owners(out *Result, opt Options) (map[string]string, error) {
	var shared []string
	for _, name := range in.order {
		if p := in.nodes[name].partitions; len(p) > 1 {
			shared = p
			break
		}
	}
	switch {
	case opt.Pools && shared != nil:
		return nil, fmt.Errorf("partitions %s and %s have nodes in common, and pools cannot: leave --pools out, and they become labels", shared[0], shared[1])
	case opt.Pools:
		owner := map[string]string{}
		for _, name := range in.order {
			if p := in.nodes[name].partitions; len(p) == 1 {
				owner[name] = p[0]
			}
		}
		in.note("partitions are pools, each with a policy of its own")
		return owner, nil
	case len(in.partitions) == 1:
		in.note("the only partition, %s, is the whole cluster, or the part that its label tells", in.partitions[0].name)
	case len(in.partitions) > 1:
		in.note("partitions are labels of nodes, %sNAME, and one policy decides on all of them; jobs that name one keep to its nodes", clusterspec.PartitionLabel)
	}
	return nil, nil
}

// labels are those of a node: its features, and its partitions where these are labels.
func (in *inventory) labels(n *node, partitions bool) []label.Label {
	var out []label.Label
	add := func(key, what string) {
		l := label.Label{Key: key}
		if slices.Contains(out, l) {
			return
		}
		if l.Check() != nil {
			in.lose("names of " + what + " that no label can have")
			return
		}
		out = append(out, l)
	}
	for _, f := range n.features {
		add(f, "features")
	}
	for _, p := range n.partitions {
		if partitions {
			add(clusterspec.PartitionLabel+p, "partitions")
		}
	}
	if label.Sort(out) != nil { // no key is there twice
		return nil
	}
	return out
}

// tenants makes tenants of accounts.
func (in *inventory) tenants(s *clusterspec.Spec) {
	known := map[string]bool{}
	for _, a := range in.accounts {
		known[a.name] = true
	}
	for _, a := range in.accounts {
		t := clusterspec.Tenant{Name: a.name, Parent: a.parent, Weight: a.share, Limit: clusterspec.Share{GPUs: unit.Milli(a.gpus) * unit.One}}
		if a.parent != "" && !known[a.parent] {
			in.lose("parents of accounts that are not told")
			t.Parent = ""
		}
		s.Tenants = append(s.Tenants, t)
	}
	if len(in.accounts) > 0 {
		in.note("accounts are tenants with their shares as weights; Slurm promises nobody GPUs, so they have no guarantees")
	}
}
