// Package clusterspec turns what a user writes about a cluster into the cluster,
// its tenants and its costs: a shorthand (16x8:V100), the name of a preset
// (philly), a YAML file, or a node list that somebody else has published.
//
// Nouns:
//   - A Spec is the description: plain data that can be compared, written as
//     YAML and read again.
//   - A Group is nodes that are alike.
//   - A place is the path of a node in the topology (zone, rack).
//   - A partition is a set of nodes that jobs use which name it, or whose tenant
//     has its name (a pool of package cluster).
//   - A Site is what Build makes of a Spec. It is made fresh every time,
//     because a cluster carries its ledger.
//
// Units: GPUs and cores in thousandths (unit.Milli), memory in bytes, link
// speeds in GB/s, durations since the start of the run.
//
// docs/clusters.md describes every form, every key and every default.
package clusterspec

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/tenant"
)

// Limits on what a description may ask for, so that a slip of the pen does not
// exhaust the memory.
const (
	MaxNodes   = 200_000
	MaxDevices = 10_000_000
)

// PartitionLabel is what the key of a label begins with that says of a node that it is in
// a partition: partition/long. Such partitions may overlap, which Group.Partition does
// not. Jobs that name one keep to its nodes (package experiment).
const PartitionLabel = "partition/"

// Spec describes a cluster. Those that the functions of this package return
// have been checked: Build does not fail on them.
type Spec struct {
	Types      []cluster.GPUType // in the order of their numbers
	Levels     []Level           // of the topology, outermost first
	Partitions []string          // in the order of their numbers, the nameless one not included
	Nodes      []Group
	Tenants    []Tenant
	HalfLife   time.Duration // of the usage of tenants; 0: it never decays
	Costs      perf.Costs
}

// Level is a level of the topology. Nodes whose place does not reach down to it
// are put into places of so many nodes each, in their order; with 0 they are
// not put anywhere.
type Level struct {
	Name   string
	Nodes  int
	Uplink cluster.Uplink // of each of its places, to the place around it
}

// Group is nodes that are alike.
type Group struct {
	Name      string // pattern: {0} counts from 0, {007} from 007; empty: n and the number of the node
	Count     int
	GPUs      []GPUs
	CPU       unit.Milli // of each node; 0: not accounted
	Memory    unit.Bytes // of each node; 0: not accounted
	Slots     job.Slots  // counted resources of each node
	Links     Links
	NICs      cluster.NICs // of each node
	Pooled    bool         // GPUs are counted, not told apart
	Partition string
	Place     []string // names of places, outermost first
	Health    cluster.Health
	Power     cluster.Power
	Foreign   Foreign
	At        time.Duration // when the nodes arrive; 0: they are there from the start
	Labels    []label.Label // in order of their keys
	Taints    []label.Taint
}

// Foreign is what others use of each node of a group.
type Foreign struct {
	GPUs   int // the last ones of the node
	CPU    unit.Milli
	Memory unit.Bytes
	Slots  job.Slots
}

// GPUs is equal GPUs of a node.
type GPUs struct {
	Type  string
	Count int
}

// Links is how the GPUs of a node are linked: a preset of cluster.LinkPreset, or
// the pairs that differ from the slowest class. The zero Links is not known.
type Links struct {
	Preset string
	Pairs  []Link
}

// Link is the link between two GPUs of a node, by their index in it. A speed of
// 0 is the typical one of the class.
type Link struct {
	A, B int
	cluster.Link
}

// Tenant is a tenant of the quota tree.
type Tenant struct {
	Name      string
	Parent    string // empty: the root
	Guarantee Share
	Limit     Share        // zero: no limit
	Weight    float64      // 0: 1
	Cells     tenant.Cells // places that it is guaranteed; empty: none
}

// Share is a number of GPUs, or a percentage of all GPUs of the cluster, those
// that arrive later included. At most one of the two is set.
type Share struct {
	GPUs    unit.Milli
	Percent float64
}

// Of is the number of GPUs that the share is of a total.
func (s Share) Of(total unit.Milli) unit.Milli {
	if s.Percent > 0 {
		return unit.Milli(s.Percent/100*float64(total) + 0.5)
	}
	return s.GPUs
}

// GPUs is the number of GPUs of all nodes, those that arrive later included.
func (s *Spec) GPUs() int {
	n := 0
	for i := range s.Nodes {
		n += s.Nodes[i].Count * s.Nodes[i].gpus()
	}
	return n
}

// gpus is the number of GPUs of one node.
func (g *Group) gpus() int {
	n := 0
	for _, x := range g.GPUs {
		n += x.Count
	}
	return n
}

// reset says of a slice that nothing is in it, so that equal descriptions are
// equal values.
func reset[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}
