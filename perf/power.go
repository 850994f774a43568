package perf

import "github.com/norn-scheduler/norn/cluster"

// Draw is the power of one GPU, in watts.
type Draw struct {
	Idle, Busy float64
}

// The power of what is no GPU, in watts. A node with eight idle V100 then draws 980, beside the 800 that
// are told of a DGX-1 ("Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU
// Datacenters", SC 2021, section 4.3).
const (
	DrawBesideGPU = 62.5 // processors, memory and fans, for each GPU of a node
	DrawOfNode    = 150  // of them at least
	DrawAsleep    = 10
)

// DrawOf is the power of a GPU type, by the data sheets of its makers and what idle GPUs commonly draw;
// that of a V100 where the type is not known.
func DrawOf(gpu string) Draw {
	switch gpu {
	case "H100", "H200":
		return Draw{75, 700}
	case "A100":
		return Draw{60, 400}
	case "3090":
		return Draw{30, 350}
	case "P100":
		return Draw{30, 300}
	case "K80":
		return Draw{25, 150}
	case "T4":
		return Draw{10, 70}
	}
	return Draw{60, 300}
}

// NodeDraw is the power of a node in watts while no job has anything of it.
func NodeDraw(c *cluster.Cluster, id cluster.NodeID) float64 {
	switch {
	case c.Health(id) == cluster.Down:
		return 0
	case c.Power(id) == cluster.Asleep:
		return DrawAsleep
	}
	gpus, watts := 0, 0.0
	for _, g := range c.NodeGroups(id) {
		if c.Type(c.GroupType(g)).Host {
			continue
		}
		gpus += c.GroupCount(g)
		watts += float64(c.GroupCount(g)) * DrawOf(c.Type(c.GroupType(g)).Name).Idle
	}
	return watts + max(DrawOfNode, DrawBesideGPU*float64(gpus))
}

// JobsDraw is the power in watts that jobs add: GPUs that they have are taken to be busy.
func JobsDraw(c *cluster.Cluster) float64 {
	watts := 0.0
	for t := range cluster.TypeID(c.Types()) {
		if c.Type(t).Host {
			continue
		}
		mask, held := cluster.TypeMask(1)<<t, 0.0
		for p := range cluster.PoolID(c.Pools()) {
			held += float64(c.TotalGPUs(p, mask)) - float64(c.FreeMilli(p, mask))/1000
		}
		d := DrawOf(c.Type(t).Name)
		watts += held * (d.Busy - d.Idle)
	}
	return watts
}
