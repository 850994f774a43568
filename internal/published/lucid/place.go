package lucid

import (
	"github.com/norn-scheduler/norn/cluster"
)

// consolidate finds GPUs for a job as the published placer does, or tells that
// there are none. A job that fits one node takes the node with the fewest free
// GPUs that suffice. A larger one takes whole nodes, the first ones that are
// free; for what is left over it looks at one node alone: the next one in the
// order of free GPUs, the most first. That is a wholly free node wherever there
// is one, so that large jobs open new nodes rather than fill used ones.
func consolidate(c *cluster.Cluster, pool cluster.PoolID, gpus int, out *cluster.Alloc) bool {
	out.Reset()
	if c.FreeGPUs(pool, 0) < gpus {
		return false
	}
	shelf := cluster.ShelfID(c.Shelves(pool)[0])
	if gpus <= nodeGPUs {
		for free := gpus; free <= nodeGPUs; free++ {
			if g := c.NextGroup(shelf, free, cluster.None); g != cluster.None {
				give(c, g, gpus, out)
				return true
			}
		}
		return false
	}
	last := cluster.GroupID(cluster.None)
	for range gpus / nodeGPUs {
		if last = c.NextGroup(shelf, nodeGPUs, last); last == cluster.None {
			return false
		}
		give(c, last, nodeGPUs, out)
	}
	rest := gpus % nodeGPUs
	if rest == 0 {
		return true
	}
	if g := c.NextGroup(shelf, nodeGPUs, last); g != cluster.None {
		give(c, g, rest, out)
		return true
	}
	for free := nodeGPUs - 1; free >= rest; free-- {
		if g := c.NextGroup(shelf, free, cluster.None); g != cluster.None {
			give(c, g, rest, out)
			return true
		}
	}
	return false
}

// give appends GPUs of one node to an Alloc.
func give(c *cluster.Cluster, g cluster.GroupID, gpus int, out *cluster.Alloc) {
	before := len(out.Shares)
	out.Shares = c.AppendWhole(out.Shares, g, gpus, 0)
	out.Pieces = append(out.Pieces, cluster.Piece{Node: c.GroupNode(g), Tasks: int32(gpus), Shares: int32(len(out.Shares) - before)})
}
