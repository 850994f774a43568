package experiment

import (
	"cmp"
	"fmt"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// toldVariability is how far policies are told that GPUs differ; nil: not at all.
func (x *Experiment) toldVariability() *perf.Variability {
	if x.LearnVariability {
		return nil
	}
	return cmp.Or(x.BelievedVariability, x.Variability)
}

// checkVariability fails when a GPU is told to differ that the cluster does not have.
func (x *Experiment) checkVariability(site *clusterspec.Site) error {
	gpus := map[string]int{}
	for id := range cluster.NodeID(site.Cluster.Nodes()) {
		_, n := site.Cluster.DeviceRange(id)
		gpus[site.Cluster.Node(id).Name] = n
	}
	for _, a := range site.Arrivals {
		for _, g := range a.Spec.GPUs {
			gpus[a.Spec.Name] += g.Count
		}
	}
	for _, v := range []*perf.Variability{x.Variability, x.BelievedVariability} {
		if v == nil {
			continue
		}
		for seat := range v.Scores {
			n, known := gpus[seat.Node]
			switch {
			case !known:
				return fmt.Errorf("variability of GPU %d of node %s: the cluster has no such node", seat.Index, seat.Node)
			case seat.Index >= n:
				return fmt.Errorf("variability of GPU %d of node %s: the GPUs that the cluster tells apart there end at %d; write nodes as 16x4, not as a number of GPUs", seat.Index, seat.Node, n-1)
			}
		}
	}
	return nil
}
