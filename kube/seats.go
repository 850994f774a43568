package kube

import (
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/kube/convert"
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
// sits on that seat of its role, any other on the first that is free. Pods for which there
// is no seat wait.
func (d *Daemon) sit(l *entry, pods []*core.Pod) (bind []binding) {
	var late []*core.Pod
	takes, roles := map[int]*core.Pod{}, map[*core.Pod]int{}
	free := func(at int, p *core.Pod) bool {
		return l.seats[at].pod == "" && takes[at] == nil && (roles[p] < 0 || int(l.seats[at].role) == roles[p])
	}
	for _, p := range pods {
		if p.Spec.NodeName != "" || over(p) || p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0 || l.seatOf(p.UID) >= 0 {
			continue
		}
		roles[p] = l.roleOf(p)
		at, ranked := rankOf(p)
		if at += l.firstOf(roles[p]); ranked && at < len(l.seats) && free(at, p) {
			takes[at] = p
		} else {
			late = append(late, p)
		}
	}
	inOrder(late)
	for _, p := range late {
		for at := range l.seats {
			if free(at, p) {
				takes[at] = p
				break
			}
		}
	}
	seats := make(map[*core.Pod]*seat, len(takes))
	for at, p := range takes {
		seats[p] = &l.seats[at]
	}
	if len(takes) == 0 || !(fleet{d}).fits(l, seats) {
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

// inOrder sorts pods of one job by role, then by the indexes that they tell.
func inOrder(pods []*core.Pod) {
	members := map[*core.Pod]convert.Member{}
	for _, p := range pods {
		members[p], _ = convert.MemberOf(p) // what it cannot read it leaves out
	}
	slices.SortStableFunc(pods, func(a, b *core.Pod) int {
		m, o := members[a], members[b]
		return m.Compare(&o)
	})
}

// roleOf is the role in which a pod sits: the one with its name and size, else one of its
// size; -1: there is none.
func (l *entry) roleOf(p *core.Pod) int {
	roles := &l.ask.demand.Roles
	if roles[1].Tasks == 0 {
		return 0
	}
	a, err := convert.Pod(&p.Spec, nil, nil, nil)
	if err != nil {
		return -1
	}
	m, _ := convert.MemberOf(p) // its role is read first
	same := -1
	for i := range roles {
		r := &roles[i]
		if r.Tasks == 0 || r.GPU != a.Size.GPU || r.CPU != a.Size.CPU || r.Memory != a.Size.Memory || r.Slots != a.Size.Slots {
			continue
		}
		if r.Name == m.Role {
			return i
		}
		if same < 0 {
			same = i
		}
	}
	return same
}

// firstOf is the first seat of a role.
func (l *entry) firstOf(role int) int {
	return max(0, slices.IndexFunc(l.seats, func(s seat) bool { return int(s.role) == role }))
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
