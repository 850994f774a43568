package kube

import (
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// seat is a place for one pod of a job.
type seat struct {
	node    string
	role    uint8
	devices string    // the numbers of its devices within the node, with commas
	pod     types.UID // the one that sits there, or is being bound to it; empty: none
	name    string    // of that pod
	bound   bool      // the API shows it there
	running bool
}

// seatsOf is a seat for each task of an allocation, in the order of its pieces, role by
// role: the rank of a pod is its place in it.
func (t *table) seatsOf(a *cluster.Alloc) []seat {
	var out []seat
	first, at := make([]int, len(a.Pieces)), 0 // of its shares
	for i := range a.Pieces {
		first[i] = at
		at += int(a.Pieces[i].Shares)
	}
	order := make([]int, len(a.Pieces))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, k int) int { return int(a.Pieces[i].Role) - int(a.Pieces[k].Role) })
	for _, i := range order {
		p := &a.Pieces[i]
		shares := a.Shares[first[i] : first[i]+int(p.Shares)]
		each := len(shares) / max(1, int(p.Tasks))
		for k := range int(p.Tasks) {
			s := seat{node: t.names[p.Node], role: p.Role}
			if each > 0 {
				s.devices = t.within(p.Node, shares[k*each:(k+1)*each])
			}
			out = append(out, s)
		}
	}
	return out
}

// within is the numbers of devices within their node.
func (t *table) within(n cluster.NodeID, shares []cluster.Share) string {
	var b strings.Builder
	for i := range shares {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(shares[i].Device - t.first[n])))
	}
	return b.String()
}

// sit gives seats to those pods of a job that have none, if there is room for all of them,
// and returns for each seat that was given the pod that is to be bound. A pod with a rank
// sits on that seat, any other on the first that is free. Pods for which there is no seat
// wait.
func (d *Daemon) sit(l *entry, pods []*core.Pod) (bind []binding) {
	var late []*core.Pod
	takes := map[int]*core.Pod{}
	free := func(at int) bool { return l.seats[at].pod == "" && takes[at] == nil }
	for _, p := range pods {
		if p.Spec.NodeName != "" || over(p) || p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0 || l.seatOf(p.UID) >= 0 {
			continue
		}
		if at, ranked := rankOf(p); ranked && at < len(l.seats) && free(at) {
			takes[at] = p
		} else {
			late = append(late, p)
		}
	}
	at := 0
	for _, p := range late {
		for at < len(l.seats) && !free(at) {
			at++
		}
		if at == len(l.seats) {
			break
		}
		takes[at] = p
	}
	nodes := make(map[*core.Pod]string, len(takes))
	for at, p := range takes {
		nodes[p] = l.seats[at].node
	}
	if len(takes) == 0 || !(fleet{d}).fits(l, nodes) {
		return nil
	}
	for at := range l.seats {
		p, s := takes[at], &l.seats[at]
		if p == nil {
			continue
		}
		s.pod, s.name, s.bound, s.running = p.UID, p.Name, false, false
		bind = append(bind, binding{namespace: p.Namespace, pod: p.Name, uid: p.UID, node: s.node, devices: s.devices, run: l.Run})
	}
	return bind
}

// seatOf is the seat on which a pod sits; -1: on none.
func (l *entry) seatOf(pod types.UID) int {
	return slices.IndexFunc(l.seats, func(s seat) bool { return s.pod == pod })
}

// over tells whether a pod has ended.
func over(p *core.Pod) bool {
	return p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed
}

// devicesOf reads the numbers of devices within a node, as within writes them.
func devicesOf(text string, most int) (out []int, ok bool) {
	if text == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n >= most || slices.Contains(out, n) {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

// wholeShares are shares of whole devices.
func wholeShares(first cluster.DeviceID, numbers []int) []cluster.Share {
	out := make([]cluster.Share, len(numbers))
	for i, n := range numbers {
		out[i] = cluster.Share{Device: first + cluster.DeviceID(n), Milli: int32(unit.One)}
	}
	return out
}
