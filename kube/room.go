package kube

import (
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// The kubelet refuses a pod for which its node has no room, and that is a failure of its
// Job. So a pod is only bound where there is room by what the API shows at that moment:
// pods that have still to leave, or that others have just put there, are waited for.

// room is what is left of a node for more pods.
type room struct {
	cpu    unit.Milli
	memory unit.Bytes
	slots  cluster.Slots
	gpus   map[string]int
	taken  map[string]bool // devices, by their numbers within the node
}

// newcomer is a pod on its way to a node.
type newcomer struct {
	*core.Pod
	devices string // the numbers of its devices, with commas
}

// take takes what a pod needs, devices by their numbers, and tells whether that was there. A
// device is not free before the very pod that has it has left, however many others are.
func (r *room) take(u *convert.Use, devices string) bool {
	r.cpu -= u.CPU
	r.memory -= u.Memory
	r.slots.Add(-1, &u.Slots)
	fits := r.cpu >= 0 && r.memory >= 0
	for i := range r.slots {
		fits = fits && (r.slots[i] >= 0 || u.Slots[i] == 0)
	}
	for name, n := range u.GPUs {
		r.gpus[name] -= n
		fits = fits && r.gpus[name] >= 0
	}
	if devices != "" {
		for number := range strings.SplitSeq(devices, ",") {
			fits = fits && !r.taken[number]
			r.taken[number] = true
		}
	}
	return fits
}

// devicesNoted are the numbers of the devices that a pod was given when Norn bound it.
func devicesNoted(p *core.Pod) string {
	if p.Annotations[names.Run] == "" {
		return ""
	}
	return p.Annotations[names.Devices]
}

// roomOn is what is left of a node for pods that are not there yet. Others that are on their
// way there count.
func (d fleet) roomOn(name string, pods map[*core.Pod]*seat) *room {
	n := d.nodes.byName[name]
	if n == nil || n.gone {
		return nil
	}
	r := &room{cpu: podmap.Milli(n.now.Amounts[podmap.CPU]), memory: unit.Bytes(n.now.Amounts[podmap.Memory]), gpus: map[string]int{}, taken: map[string]bool{}}
	for i, slot := range d.nodes.slots {
		r.slots[i] = int64(min(n.now.Amounts[slot], cluster.MostSlots))
	}
	for _, g := range n.now.GPUs {
		r.gpus[g.Resource] += g.Count
	}
	there := map[types.UID]bool{}
	for p, to := range pods {
		there[p.UID] = to.node == name // it takes its room once, though it was on its way before
	}
	for _, p := range d.view.podsOn(name) {
		there[p.UID] = true
		if use := convert.UseOf(p, d.nodes.slots); !over(p) {
			r.take(&use, devicesNoted(p))
		}
	}
	for uid, p := range n.coming {
		if !there[uid] {
			use := convert.UseOf(p.Pod, d.nodes.slots)
			r.take(&use, p.devices)
		}
	}
	return r
}

// fits tells whether there is room for pods on their seats, and if there is, counts them as on their way. All of them fit, or none does: then the job is looked at again
// when something changes on the node that was short.
func (d fleet) fits(l *entry, pods map[*core.Pod]*seat) bool {
	rooms := map[string]*room{}
	for p, s := range pods {
		name := s.node
		r := rooms[name]
		if r == nil {
			r = d.roomOn(name, pods)
			rooms[name] = r
		}
		use := convert.UseOf(p, d.nodes.slots)
		if r == nil || !r.take(&use, s.devices) {
			d.crowded[name] = append(d.crowded[name], l.Key)
			return false
		}
	}
	for p, s := range pods {
		d.nodes.byName[s.node].coming[p.UID] = newcomer{p, s.devices}
	}
	return true
}

// staysAway forgets a pod whose binding was refused. Jobs for whose pods there was no room
// beside it are looked at again.
func (d fleet) staysAway(b *binding) {
	n := d.nodes.byName[b.node]
	if n == nil {
		return
	}
	delete(n.coming, b.uid)
	d.roomier(b.node)
}

// roomier has those jobs looked at again for whose pods there was no room on a node.
func (d fleet) roomier(node string) {
	keys := d.crowded[node]
	delete(d.crowded, node)
	for _, key := range keys {
		d.view.mark(subject{name: key})
	}
}

// onItsWay tells whether a pod has a seat on which the API does not show it yet. One whose
// binding failed, or that is gone, has none any more.
func (d fleet) onItsWay(p *core.Pod) bool {
	l := d.entries[d.view.keyOfPod(p)]
	if l == nil {
		return false
	}
	at := l.seatOf(p.UID)
	return at >= 0 && !l.seats[at].bound
}

// arrived forgets pods that were on their way to a node and are there, or will not come. Jobs
// for whose pods there was no room are looked at again.
func (d fleet) arrived(n *node) {
	for uid, p := range n.coming {
		if !d.onItsWay(p.Pod) {
			delete(n.coming, uid)
		}
	}
	d.roomier(n.is.Name)
}
