package sim

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// DefaultBoot is how long a node takes to wake up: five minutes, as in "Characterization and
// Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC 2021, section 4.3.
const DefaultBoot = 5 * time.Minute

// Switch implements engine.Switching: a node that is woken is awake after Config.Boot.
func (w *Sim) Switch(o sched.PowerOrder) {
	if !o.Sleep {
		w.boots.due.Set(int32(o.Node), int64(w.state.Now+w.cfg.Boot))
	}
}

// boots is when nodes that were woken are awake.
type boots struct{ due dense.Heap }

// next is when the first of them is.
func (b *boots) next() time.Duration {
	if b.due.Len() == 0 {
		return unit.Never
	}
	_, at := b.due.Min()
	return time.Duration(at)
}

// ended tells which nodes have woken up by this instant, of which out tells what else has become of
// them.
func (b *boots) ended(now time.Duration, c *cluster.Cluster, out []eventlog.Event) []eventlog.Event {
	for b.next() <= now {
		n, _ := b.due.Pop()
		ev := eventlog.Event{Time: now, Kind: eventlog.NodeSet, Node: cluster.NodeID(n), Health: c.Health(cluster.NodeID(n)), Power: cluster.Awake, Reason: job.Reason{Code: job.Sleeps, Need: n, Job: job.None}}
		told := false
		for i := range out {
			if out[i].Kind == eventlog.NodeSet && out[i].Node == ev.Node {
				out[i].Power, told = cluster.Awake, true
			}
		}
		if !told {
			out = append(out, ev)
		}
	}
	return out
}
