package clusterimport

import (
	"fmt"
	"maps"
	"slices"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// inventory is what all files tell together.
type inventory struct {
	nodes    map[string]*node
	order    []string // of nodes, as they were first told
	defaults node     // of NodeName=DEFAULT

	partitions []*partition
	usual      partition           // PartitionName=DEFAULT
	sets       map[string][]string // nodes of NodeSets
	features   map[string]string   // of NodeSets: the feature that their nodes have

	accounts []account
	limits   [][2]string     // of accounts, and of users in them as account/user: name, and amounts as the policy has them
	capped   map[string]bool // those that limits has
	qoses    []qos
	settings map[string]string // of slurm.conf, names in lower case

	lost  map[string]int
	notes []string
}

// node is a machine of the cluster. What is zero was not told.
type node struct {
	gpus       []clusterspec.GPUs
	cpu        unit.Milli
	memory     unit.Bytes
	features   []string
	partitions []string
	away       bool // down or drained
	future     bool // not there
}

// partition is a set of nodes.
type partition struct {
	name   string
	nodes  []string // host lists, names of NodeSets, ALL
	factor float64  // PriorityJobFactor; 0 where that is told, -1 where nothing is
	tier   int      // PriorityTier; -1: not told
}

// account is a party with a share.
type account struct {
	name, parent string
	share        float64 // 0: not told
	gpus         int64   // that it may have; 0: no limit
}

// qos is a class of service.
type qos struct {
	name     string
	priority float64
	preempts []string
	limits   [4]string // GPUs of all jobs, GPUs and jobs of a user, GPUs of a job; empty: no limit
}

func newInventory() *inventory {
	return &inventory{
		nodes: map[string]*node{}, sets: map[string][]string{}, features: map[string]string{}, settings: map[string]string{}, capped: map[string]bool{}, lost: map[string]int{},
		usual: partition{factor: -1, tier: -1},
	}
}

// lose counts something that could not be taken over.
func (in *inventory) lose(what string) { in.lost[what]++ }

// note says once what was assumed.
func (in *inventory) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(in.notes, text) {
		in.notes = append(in.notes, text)
	}
}

// losses lists what was lost by name.
func (in *inventory) losses() []Loss {
	var out []Loss
	for _, what := range slices.Sorted(maps.Keys(in.lost)) {
		out = append(out, Loss{what, in.lost[what]})
	}
	return out
}

// node is the node of a name, made where it is not known.
func (in *inventory) node(name string) (*node, error) {
	if n, ok := in.nodes[name]; ok {
		return n, nil
	}
	if len(in.order) == clusterspec.MaxNodes {
		return nil, fmt.Errorf("more than %d nodes", clusterspec.MaxNodes)
	}
	n := &node{}
	in.nodes[name] = n
	in.order = append(in.order, name)
	return n, nil
}

// learn takes in what a file tells of a node, where no file before has told it.
func (n *node) learn(o *node) {
	if len(n.gpus) == 0 {
		n.gpus = o.gpus
	}
	if n.cpu == 0 {
		n.cpu = o.cpu
	}
	if n.memory == 0 {
		n.memory = o.memory
	}
	if len(n.features) == 0 {
		n.features = o.features
	}
	for _, p := range o.partitions {
		if !slices.Contains(n.partitions, p) {
			n.partitions = append(n.partitions, p)
		}
	}
	n.away, n.future = n.away || o.away, n.future || o.future
}

// partition is the partition of a name, made where it is not known.
func (in *inventory) partition(name string) *partition {
	for _, p := range in.partitions {
		if p.name == name {
			return p
		}
	}
	p := &partition{name: name, factor: -1, tier: -1}
	in.partitions = append(in.partitions, p)
	return p
}
