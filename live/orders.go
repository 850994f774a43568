package live

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// subject is a node or a device; the other is cluster.None.
type subject struct {
	node   cluster.NodeID
	device cluster.DeviceID
}

// ordered notes what operators have ordered of a node or a device: each event about one
// tells whether an order is in force.
func (p *past) ordered(ev *eventlog.Event) {
	at := subject{cluster.None, cluster.None}
	switch ev.Kind {
	case eventlog.NodeSet:
		at.node = ev.Node
	case eventlog.Device:
		at.device = ev.Device
	default:
		return
	}
	if delete(p.orders, at); ev.Reason.Code == job.OnHold || ev.Reason.Code == job.TakenBack {
		p.orders[at] = *ev
	}
}
