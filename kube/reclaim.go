package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/live"
)

// lastGrace is the time in seconds that pods have which are still there when the notice of a node is over.
const lastGrace = 1

// Reclaim implements server.Backend: the order stands on the nodes, as an annotation. Others may use the nodes.
func (d *Daemon) Reclaim(ctx context.Context, c server.Caller, z api.Reclaim) (meant []string, err error) {
	if !c.Operator {
		return nil, api.Refuse(api.Denied, "only an operator may take nodes back from jobs")
	}
	err = d.Loop.Ask(ctx, func() error {
		nodes, err := fleet{d}.meant(&api.Drain{Devices: z.Devices, Where: z.Where})
		if err == nil && z.Count > 0 {
			nodes, err = fleet{d}.some(&z, nodes)
		} else if err == nil && len(nodes) == 0 {
			err = api.Refuse(api.Invalid, "name the nodes that are taken back or lent, or say how many")
		}
		for _, id := range nodes {
			meant = append(meant, d.nodes.names[id])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	order := convert.Reclaim{Why: "by " + c.User}
	if z.Why != "" {
		order.Why += ": " + z.Why
	}
	if z.Notice != nil {
		order.By = time.Now().Add(z.Notice.Duration())
	}
	text := new(order.String())
	if z.Lend {
		text = nil
	}
	change := patch{annotations: map[string]*string{names.Reclaimed: text}}
	if err := d.write.patchNodes(meant, change.json()); err != nil {
		return nil, err
	}
	return meant, d.Loop.Ask(ctx, func() error { // the next order that says how many knows of this one
		for _, name := range meant {
			if n := d.nodes.byName[name]; n != nil && z.Lend {
				n.now.Reclaim = nil
			} else if n != nil {
				n.now.Reclaim = &order
			}
		}
		return nil
	})
}

// meant are the nodes that an order names.
func (d fleet) meant(z *api.Drain) ([]cluster.NodeID, error) {
	nodes, devices, err := d.Drained(z)
	if len(devices) > 0 && err == nil {
		err = api.Refuse(api.Invalid, "single devices of a Kubernetes cluster cannot be put out of use: name their node")
	}
	return nodes, err
}

// some are as many of the nodes as an order wants; of none: of all.
func (d fleet) some(z *api.Reclaim, of []cluster.NodeID) ([]cluster.NodeID, error) {
	var nodes []cluster.NodeID
	for _, n := range d.nodes.nodes {
		taken := n.now.Reclaim != nil
		if (len(of) == 0 || slices.Contains(of, n.id)) && !n.gone && taken == z.Lend && (z.Lend || n.state == cluster.Up) {
			nodes = append(nodes, n.id)
		}
	}
	if err := live.Enough(len(nodes), z); err != nil || z.Lend {
		return nodes[:min(len(nodes), z.Count)], err
	}
	jobs := make([][]job.ID, len(nodes))
	for i, id := range nodes {
		jobs[i] = d.State().JobsOn(id, nil)
	}
	var out []cluster.NodeID
	for _, at := range live.Cheapest(d.State(), d.Costs(), jobs, z.Count, z.AtOnce()) {
		out = append(out, nodes[at])
	}
	return out, nil
}

// patchNodes changes nodes, one after the other.
func (w *writer) patchNodes(nodes []string, body []byte) error {
	for _, name := range nodes {
		err := w.do(func(ctx context.Context) error {
			_, err := w.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, meta.PatchOptions{})
			return err
		})
		if err != nil {
			return api.Refuse(api.Unavailable, "node %s: %v", name, err)
		}
	}
	return nil
}

// takenBack tells whether an allocation is on a node that is taken back.
func (d fleet) takenBack(a *cluster.Alloc) bool {
	return slices.ContainsFunc(a.Pieces, func(p cluster.Piece) bool {
		return d.nodes.nodes[p.Node].now.Reclaim != nil
	})
}

// takeBack has the runs leave that are on a node which is taken back: when their grace is left of the notice. What is
// still there at its end has a second. A Job of several sizes goes on with what is left to it, where it can. takeBack is
// called again when that may have changed.
func (d fleet) takeBack(n *node) error {
	order := n.now.Reclaim
	if order == nil {
		return nil
	}
	now, why := d.Loop.Now(), fmt.Sprintf("node %s is %s", n.is.Name, order.Note())
	by := max(now, d.Loop.Clock.Since(order.By))
	next := by
	for _, id := range d.State().JobsOn(n.id, nil) {
		l := d.of(id)
		ask := by - l.ask.grace
		if order.By.IsZero() {
			ask = now
		}
		switch ready := d.State().Record(id).Phase == job.Running && l.Purpose == "" && l.stage != leaving; {
		case ready && ask > now:
			next = min(next, ask)
		case ready:
			if err := d.Loop.Touch(id); err != nil {
				return err
			}
			if (order.By.IsZero() || by > now) && live.CanShrink(d.State().Record(id)) && !l.trapped {
				live.Shrink(d.Daemon.Daemon, &l.Job, d.takenBack, why, func() {
					l.trapped = true
					d.Loop.Later(func() error { return d.takeBack(n) })
				})
				continue
			}
			l.from = n.id
			d.Leave(&l.Job, live.Reclaimed, why)
		case !order.By.IsZero() && by == now:
			d.hurry(l, n)
		}
	}
	if next > now && next != n.next {
		n.next = next
		d.Loop.At(next, func() { d.view.mark(subject{node: true, name: n.is.Name}) })
	}
	return nil
}

// hurry has what is left of a run on a node end that was told to leave.
func (d fleet) hurry(l *entry, n *node) {
	if l.stage != leaving || !l.told {
		return
	}
	grace := int64(lastGrace)
	for _, p := range d.view.podsOn(n.is.Name) {
		if l.seatOf(p.UID) < 0 || over(p) || p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds <= grace {
			continue
		}
		d.Loop.Act(&l.Lane, func() {
			if err := d.write.remove(p.Namespace, p.Name, p.UID, &grace); err != nil {
				d.opt.Log.Warn("a pod stays on a node that is taken back", "node", n.is.Name, "pod", p.Name, "error", err)
			}
		})
	}
}
