package convert

import "github.com/norn-scheduler/norn/trace/podmap"

// Levels are the levels of the topology of a cluster, the widest first.
type Levels = podmap.Levels

// DefaultLevels are the levels that the labels of Kubernetes, cloud providers and tools
// for topology tell of.
func DefaultLevels() Levels { return podmap.DefaultLevels() }
