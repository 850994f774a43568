package kube

import (
	"slices"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// fleet is the daemon as it follows the nodes.
type fleet struct{ *Daemon }

// lookAtNode compares what the API shows of a node, and of the pods on it, with what the
// ledger has.
func (d fleet) lookAtNode(name string) error {
	obj, n := d.view.node(name), d.nodes.byName[name]
	if n != nil && int(n.id) >= d.State().Cluster.Nodes() { // it has just been added
		return live.ErrLater
	}
	if obj == nil {
		if n == nil || n.gone {
			return nil
		}
		return d.nodeGoes(n)
	}
	now, err := convert.NewNode(obj, d.nodes.levels)
	if err != nil {
		d.opt.Log.Warn("a node cannot be used", "error", err)
		if n == nil || n.gone {
			return nil
		}
		return d.nodeGoes(n)
	}
	if n == nil || n.gone || d.outgrown(n, now) {
		if n != nil && !n.gone {
			if err := d.nodeGoes(n); err != nil {
				return err
			}
		}
		d.nodeComes(now)
		return nil
	}
	n.now = now
	if err := d.nodeHealth(n, obj, now); err != nil {
		return err
	}
	d.nodeLabels(n, now)
	d.nodeDevices(n, now)
	d.nodeOthers(n, job.None)
	d.arrived(n)
	return d.takeBack(n)
}

// outgrown tells whether a node has more than when it was added, or other things: it has to
// be added anew, which is done when no job is there. A node that has less is noted
// otherwise.
func (d fleet) outgrown(n *node, now *convert.Node) bool {
	more := !slices.Equal(n.is.Place, now.Place)
	for name, amount := range now.Amounts {
		more = more || amount > n.is.Amounts[name]
	}
	for _, g := range now.GPUs {
		at := slices.IndexFunc(n.is.GPUs, func(o podmap.GPUs) bool { return o.Resource == g.Resource })
		more = more || at < 0 || n.is.GPUs[at].Type != g.Type || g.Count > n.is.GPUs[at].Count+n.is.GPUs[at].Broken
	}
	return more && len(d.State().JobsOn(n.id, nil)) == 0
}

// nodeComes adds a node. Where the ledger does not know its GPU type or its place, a new log
// begins, which does.
func (d fleet) nodeComes(now *convert.Node) {
	c := d.State().Cluster
	if err := d.nodes.add(now); err != nil {
		d.opt.Log.Error("a node cannot be added", "node", now.Name, "error", err)
		return
	}
	n := d.nodes.byName[now.Name]
	d.view.mark(subject{node: true, name: now.Name}) // what runs there already
	if d.growing || !d.nodes.known(c, n) {
		d.growing = true
		d.Renew()
		return
	}
	spec, err := d.nodes.spec(c, n)
	if err != nil { // it is known
		d.opt.Log.Error("a node cannot be added", "node", now.Name, "error", err)
		return
	}
	d.Loop.Emit(eventlog.Event{Kind: eventlog.NodeAdd, NodeSpec: &spec})
	if n.state != cluster.Up {
		d.Loop.Emit(eventlog.Event{Kind: eventlog.NodeSet, Node: n.id, Health: n.state})
	}
	for i := range n.broken {
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Device, Device: d.nodes.first[n.id] + cluster.DeviceID(n.devices()-1-i), Broken: true})
	}
}

// nodeGoes deals with a node that is no more.
func (d fleet) nodeGoes(n *node) error {
	if err := d.setHealth(n, cluster.Down, "the node is gone"); err != nil {
		return err
	}
	n.gone = true
	return nil
}

// nodeHealth notes whether a node works. One that does not answer takes no new work, and is
// lost when that has lasted for a while.
func (d fleet) nodeHealth(n *node, obj *core.Node, now *convert.Node) error {
	health, why := now.Health, now.Why
	if since, unready := d.unready(obj); unready && health != cluster.Down {
		lost := since + d.opt.NodeLost
		if d.Loop.Now() >= lost {
			health, why = cluster.Down, "it has not answered for "+d.opt.NodeLost.String()
		} else if n.state != cluster.Down {
			d.Loop.At(lost, func() { d.view.mark(subject{node: true, name: n.is.Name}) })
		}
	}
	return d.setHealth(n, health, why)
}

// unready tells since when a node does not answer, or says that it does not work.
func (d fleet) unready(obj *core.Node) (since time.Duration, unready bool) {
	for _, c := range obj.Status.Conditions {
		if c.Type == core.NodeReady && c.Status != core.ConditionTrue {
			return max(0, min(d.Loop.Now(), d.Loop.Clock.Since(c.LastTransitionTime.Time))), true
		}
	}
	return 0, false
}

// setHealth tells the engine how a node is. The jobs on one that is lost are lost first.
func (d fleet) setHealth(n *node, health cluster.Health, why string) error {
	n.why = why
	if n.state == health {
		return nil
	}
	if health == cluster.Down {
		on := d.State().JobsOn(n.id, nil)
		for _, id := range on {
			if err := d.Loop.Touch(id); err != nil {
				return err
			}
		}
		for _, id := range on {
			d.lose(d.of(id), "node "+n.is.Name+" was lost: "+why)
		}
	}
	d.opt.Log.Info("a node changed its health", "node", n.is.Name, "health", health.String(), "why", why)
	n.state = health
	d.Loop.Emit(eventlog.Event{Kind: eventlog.NodeSet, Node: n.id, Health: health})
	return nil
}

// lose deals with a job one of whose nodes is lost: it waits again, and what is left of it
// elsewhere leaves. Bare pods are not made again, so their job has failed.
func (d fleet) lose(l *entry, why string) {
	r := d.State().Record(l.ID)
	l.lost, l.anew, l.drains = why, false, false
	e := &live.Exit{Cause: live.Lost, Error: why, Tasks: len(l.seats)}
	l.Exit = e
	if l.stage != leaving {
		l.Decided = d.Loop.Now()
		d.leaves(l)
	}
	if l.kind != aJob {
		e.Cause = live.NotStarted // its words are those of its end
		d.Loop.Emit(eventlog.Event{Kind: eventlog.End, Job: l.ID, Outcome: job.FailedPhase})
		return
	}
	if l.Purpose == live.Cancelled {
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.ID})
		return
	}
	kept := l.savedAt(r, d.Loop.Now())
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Evict, Job: l.ID, Kept: kept, Reason: job.Reason{Code: job.NodeLost, Job: job.None, Text: why}})
	for i := range l.seats { // at once: what is left there still takes room
		if n := d.nodes.byName[l.seats[i].node]; n != nil && !n.gone && int(n.id) < d.State().Cluster.Nodes() {
			d.nodeOthers(n, l.ID)
		}
	}
}

// nodeLabels notes other labels and taints.
func (d fleet) nodeLabels(n *node, now *convert.Node) {
	if slices.Equal(n.is.Labels, now.Labels) && slices.Equal(n.is.Taints, now.Taints) {
		return
	}
	n.is.Labels, n.is.Taints = now.Labels, now.Taints
	d.Loop.Emit(eventlog.Event{Kind: eventlog.NodeLabels, Node: n.id, NodeSpec: &cluster.NodeSpec{Labels: now.Labels, Taints: now.Taints}})
}

// nodeDevices notes how many of its devices a node has lost, as when a device plugin is
// restarted: jobs there go on.
func (d fleet) nodeDevices(n *node, now *convert.Node) {
	broken := n.lacks(now)
	for i := range n.devices() {
		is, was := i >= n.devices()-broken, i >= n.devices()-n.broken
		if is != was {
			d.Loop.Emit(eventlog.Event{Kind: eventlog.Device, Device: d.nodes.first[n.id] + cluster.DeviceID(i), Broken: is})
		}
	}
	n.broken = broken
}

// nodeOthers notes what others use of a node. gone is a job that is losing what it has there
// at this moment, or none.
func (d fleet) nodeOthers(n *node, gone job.ID) {
	var pods []*core.Pod
	taken := make([]bool, n.devices())
	for _, p := range d.view.podsOn(n.is.Name) {
		if over(p) {
			continue
		}
		if !d.holds(p) {
			pods = append(pods, p)
		}
	}
	c, first := d.State().Cluster, d.nodes.first[n.id]
	for i := range taken {
		taken[i] = c.Sharers(first+cluster.DeviceID(i)) > 0
	}
	if gone != job.None {
		for _, s := range d.State().Alloc(gone).Shares { // whole devices: nobody else has them
			if i := int(s.Device - first); i >= 0 && i < len(taken) {
				taken[i] = false
			}
		}
	}
	spec, err := n.now.Spec(c)
	if err != nil { // its place has changed
		spec = *c.Node(n.id)
	}
	f := d.nodes.others(n, c.Node(n.id), &spec, pods, taken)
	if f.Equal(&n.foreign) {
		return
	}
	n.foreign = f
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Foreign, Node: n.id, Foreign: &f})
}

// holds tells whether the ledger knows what a pod uses, for it sits on a seat of its job.
func (d fleet) holds(p *core.Pod) bool {
	l := d.entries[d.view.keyOfPod(p)]
	if l == nil || l.seatOf(p.UID) < 0 {
		return false
	}
	return l.stage != leaving || l.drains
}

// newLog is called when a new log has begun: it knows no more what those use who leave.
func (d fleet) newLog() {
	d.logged, d.growing = d.Epoch(), false
	for _, l := range d.entries {
		if l.stage != leaving || !l.drains {
			continue
		}
		l.drains = false
		for i := range l.seats {
			d.view.mark(subject{node: true, name: l.seats[i].node})
		}
	}
}

// relook has everything looked at again now and then, so that nothing stalls for good
// whatever message is lost.
func (d fleet) relook() {
	for key, l := range d.entries {
		if l.stage == starting || l.stage == leaving {
			if d.Loop.Now()-l.Decided > relookEvery {
				d.view.mark(subject{name: key})
			}
		}
	}
}

const relookEvery = 15 * time.Second
