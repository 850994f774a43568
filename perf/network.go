package perf

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/job"
)

// Exchange is how the nodes of a job talk to each other.
type Exchange uint8

// The exchanges. A flow is the traffic of a node that is no hub, one way.
const (
	RingExchange   Exchange = iota // each node with the next: one flow crosses the edge of every place
	TreeExchange                   // two binary trees with half of the data each: half a flow crosses it
	CliqueExchange                 // each with each, in equal parts
	StarExchange                   // all with the first node
)

// ExchangeOf is that of a job by its pattern (job.Hints); a ring where it tells none that is known.
func ExchangeOf(j *job.Job) Exchange {
	if j.Hints == nil {
		return RingExchange
	}
	if strings.EqualFold(strings.TrimSpace(j.Hints.Pattern), "tree") {
		return TreeExchange
	}
	switch p, _ := fabric.ParsePattern(j.Hints.Pattern); p {
	case fabric.Star:
		return StarExchange
	case fabric.Clique:
		return CliqueExchange
	}
	return RingExchange
}

// crossing is how many flows cross the edge of a place, each way, that has inside of all nodes; hub
// tells that the first one is among them.
func (e Exchange) crossing(inside, all int, hub bool) float64 {
	switch {
	case e == TreeExchange:
		return 0.5
	case e == CliqueExchange:
		return float64(inside) * float64(all-inside) / float64(all-1)
	case e == StarExchange && hub:
		return float64(all - inside)
	case e == StarExchange:
		return float64(inside)
	}
	return 1
}

// steps is how many messages follow one on the other in an exchange of n nodes.
func (e Exchange) steps(n int) int {
	switch e {
	case TreeExchange:
		return 2 * bits.Len(uint(n-1))
	case CliqueExchange:
		return 1
	case StarExchange:
		return 2
	}
	return 2 * (n - 1)
}

// crossed is how many flows of a job cross a link, each way.
type crossed struct {
	link  int32
	flows float64
}

// sender is a job on several nodes.
type sender struct {
	id    job.ID
	uses  []crossed
	reach time.Duration // latency of its longest way
	nodes int
	gets  float64 // GB/s of a flow
	rate  float64 // the same if all sent all the time
	cap   float64 // by links that nobody shares with it
	done  bool    // scratch

	most    float64   // GB/s of a flow if nobody shares any link with it, and it is in a burst
	slow    []crossed // links that are not fast enough if all send at once
	grouped bool      // with others that it may disturb, or it sends in bursts

	timing
}

// Network divides the links between nodes among the jobs that are on several of them: the
// adapters of nodes, and the uplinks of places (package cluster). Flows of all jobs grow alike until a link
// is full; those that cross it stay as they are and the others grow on (max-min fairness: Bertsekas and
// Gallager, Data Networks, section 6.5.2). Jobs that tell their bursts
// (job.Hints.Bursts) send only then, and those who share slow links with them are followed iteration by
// iteration. Every other job counts as if it sent all the time: two that
// never send at once are taken to disturb each other nevertheless. So do all where slow links connect more
// than 64 jobs. Links whose speed is not known hold nobody back.
//
// Units: GB/s, one way.
type Network struct {
	senders []*sender // in order of their numbers
	place   map[cluster.DomainID]int32
	adapter map[[2]int32]int32 // node, adapter
	links   []wire
	stale   bool
	changed []job.ID
	groups  [][]*sender // that were followed together
	heap    []level     // scratch
	inside  map[cluster.DomainID]*inside
}

// wire is a link.
type wire struct {
	gbps  float64
	users int32   // scratch, as are the following
	left  float64 // GB/s that nobody has yet
	flows float64 // that grow
	on    []*sender
}

// inside is the nodes of a job in a place.
type inside struct {
	nodes int
	hub   bool
}

// NewNetwork is a network without jobs.
func NewNetwork() *Network {
	return &Network{place: map[cluster.DomainID]int32{}, adapter: map[[2]int32]int32{}}
}

func (n *Network) find(id job.ID) (int, bool) {
	return slices.BinarySearchFunc(n.senders, id, func(s *sender, id job.ID) int { return int(s.id) - int(id) })
}

// Enter has a job send between the nodes of its allocation, instead of those of before.
func (n *Network) Enter(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) {
	n.Leave(j.ID)
	if a.Nodes() < 2 {
		return
	}
	s := n.route(j, c, a)
	if s == nil {
		return
	}
	at, _ := n.find(j.ID)
	n.senders = slices.Insert(n.senders, at, s)
	n.stale = true
}

// Leave has a job send no longer.
func (n *Network) Leave(id job.ID) {
	if at, here := n.find(id); here {
		n.senders = slices.Delete(n.senders, at, at+1)
		n.stale = true
	}
}

// Rate is the GB/s of a flow of a job. ok is false where it sends nothing or its adapters are not known.
func (n *Network) Rate(id job.ID) (gbps float64, ok bool) {
	n.solve()
	if at, here := n.find(id); here {
		return n.senders[at].gets, true
	}
	return 0, false
}

// Takes is by how much longer an iteration of a job takes, beside the others, than by its hints. ok is false for one
// that tells no bursts, or that sends nothing or whose adapters are not known.
func (n *Network) Takes(id job.ID) (times float64, ok bool) {
	n.solve()
	if at, here := n.find(id); here && n.senders[at].iteration > 0 {
		return n.senders[at].takes / n.senders[at].iteration, true
	}
	return 0, false
}

// Crossing is a link that a job uses: how many flows cross it each way, where a flow is what a node sends.
type Crossing struct {
	Link  int32
	Flows float64
}

// Crossings are the links that a job would use with an allocation; none where it is on one node, or the adapters of
// a node are not known.
func (n *Network) Crossings(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) (out []Crossing) {
	if a.Nodes() < 2 {
		return nil
	}
	if s := n.route(j, c, a); s != nil {
		for _, u := range s.uses {
			out = append(out, Crossing{u.link, u.flows})
		}
	}
	return out
}

// Capacity is the GB/s of a link that Crossings has named, one way.
func (n *Network) Capacity(link int32) float64 { return n.links[link].gbps }

// latency is the time that the messages of an iteration of a job need beside their bytes, over that of
// the iteration; 0 where it is not told.
func (n *Network) latency(j *job.Job) float64 {
	at, here := n.find(j.ID)
	if !here || j.Hints == nil || j.Hints.Iteration <= 0 {
		return 0
	}
	s := n.senders[at]
	return float64(s.reach) * float64(ExchangeOf(j).steps(s.nodes)) / float64(j.Hints.Iteration)
}

// Changed takes the jobs whose flows have changed since it was last asked, in order of their numbers.
func (n *Network) Changed(to []job.ID) []job.ID {
	n.solve()
	slices.Sort(n.changed)
	to = append(to, slices.Compact(n.changed)...)
	n.changed = n.changed[:0]
	return to
}

// Stale tells whether Changed may have something to tell.
func (n *Network) Stale() bool { return n.stale || len(n.changed) > 0 }

// linkAt is the number of a link, which is made when it is first used.
func linkAt[K comparable](n *Network, of map[K]int32, key K, gbps float64) int32 {
	at, known := of[key]
	if !known {
		at = int32(len(n.links))
		of[key] = at
		n.links = append(n.links, wire{})
	}
	n.links[at].gbps = gbps
	return at
}

// route finds the links that a job uses; nil where the adapters of a node are not known.
func (n *Network) route(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) *sender {
	s := &sender{id: j.ID, gets: math.NaN(), nodes: a.Nodes(), timing: timingOf(j, a.Beat)}
	e := ExchangeOf(j)
	if n.inside == nil {
		n.inside = map[cluster.DomainID]*inside{}
	}
	clear(n.inside)
	share := 0
	hub := a.Pieces[0].Node
	var seen []cluster.NodeID
	for _, p := range a.Pieces {
		spec := c.Node(p.Node)
		if spec.NICs.Count == 0 {
			return nil
		}
		first, devices := c.DeviceRange(p.Node)
		var rails [cluster.MaxNICs]bool
		used := 0
		for _, sh := range a.Shares[share : share+int(p.Shares)] {
			if k := spec.NICs.Of(int(sh.Device-first), devices); !rails[k] {
				rails[k] = true
				used++
			}
		}
		share += int(p.Shares)
		flows := 1.0
		if e == StarExchange && p.Node == hub {
			flows = float64(s.nodes - 1)
		}
		for k := range spec.NICs.Count {
			if rails[k] {
				s.uses = append(s.uses, crossed{linkAt(n, n.adapter, [2]int32{int32(p.Node), int32(k)}, spec.NICs.GBps), flows / float64(used)})
			}
		}
		s.reach = max(s.reach, 2*spec.NICs.Latency)
		if slices.Contains(seen, p.Node) {
			continue
		}
		seen = append(seen, p.Node)
		n.climb(c, spec.Domain, p.Node == hub)
	}
	n.cross(c, s, e)
	return s
}

// climb notes a node in all places around it.
func (n *Network) climb(c *cluster.Cluster, d cluster.DomainID, hub bool) {
	for d > 0 {
		in := n.inside[d]
		if in == nil {
			in = &inside{}
			n.inside[d] = in
		}
		in.nodes++
		in.hub = in.hub || hub
		_, _, d = c.Domain(d)
	}
}

// cross adds the uplinks of the places that have some of the nodes of a job.
func (n *Network) cross(c *cluster.Cluster, s *sender, e Exchange) {
	var places []cluster.DomainID
	for d, in := range n.inside {
		if in.nodes < s.nodes {
			places = append(places, d)
		}
	}
	slices.Sort(places)
	var way time.Duration
	for _, d := range places {
		up, in := cluster.UplinkOf(c, d), n.inside[d]
		if up.GBps > 0 {
			s.uses = append(s.uses, crossed{linkAt(n, n.place, d, up.GBps), e.crossing(in.nodes, s.nodes, in.hub)})
		}
		climbs := time.Duration(0)
		for at := d; at > 0 && n.inside[at].nodes < s.nodes; _, _, at = c.Domain(at) {
			climbs += cluster.UplinkOf(c, at).Latency
		}
		way = max(way, climbs)
	}
	s.reach += 2 * way
}

// level is a link that is full when flows have so many GB/s.
type level struct {
	at   float64
	link int32
}

// solve divides the links.
func (n *Network) solve() {
	if !n.stale {
		return
	}
	n.stale = false
	defer n.follow()
	shared := n.gather()
	n.heap = n.heap[:0]
	for _, l := range shared {
		n.push(level{n.links[l].gbps / n.links[l].flows, l})
	}
	caps := slices.Clone(n.senders)
	slices.SortStableFunc(caps, func(a, b *sender) int {
		switch {
		case a.cap < b.cap:
			return -1
		case a.cap > b.cap:
			return 1
		}
		return 0
	})
	next := 0
	for next < len(caps) {
		s := caps[next]
		if s.done {
			next++
			continue
		}
		if len(n.heap) == 0 || s.cap <= n.heap[0].at {
			n.freeze(s, s.cap)
			continue
		}
		top := n.pop()
		w := &n.links[top.link]
		if w.flows <= 1e-12 {
			continue
		}
		if now := w.left / w.flows; now > top.at {
			n.push(level{now, top.link})
			continue
		}
		for _, other := range w.on {
			if !other.done {
				n.freeze(other, top.at)
			}
		}
	}
}

// gather finds the links that several jobs use, and what each job could send but for these.
func (n *Network) gather() (shared []int32) {
	for i := range n.links {
		w := &n.links[i]
		w.users, w.left, w.flows, w.on = 0, w.gbps, 0, w.on[:0]
	}
	for _, s := range n.senders {
		for _, u := range s.uses {
			n.links[u.link].users++
		}
	}
	for _, s := range n.senders {
		s.cap, s.done = math.Inf(1), false
		if s.iteration > 0 {
			s.cap = s.bursts.Peak()
		}
		s.most = s.cap
		for _, u := range s.uses {
			w := &n.links[u.link]
			s.most = min(s.most, w.gbps/u.flows)
			if w.users == 1 {
				s.cap = min(s.cap, w.gbps/u.flows)
				continue
			}
			if w.flows == 0 {
				shared = append(shared, u.link)
			}
			w.flows += u.flows
			w.on = append(w.on, s)
		}
	}
	return shared
}

// freeze ends the growth of the flows of a job.
func (n *Network) freeze(s *sender, rate float64) {
	s.done, s.rate = true, rate
	for _, u := range s.uses {
		w := &n.links[u.link]
		w.left = max(0, w.left-u.flows*rate)
		w.flows -= u.flows
	}
}

// push and pop keep the links in a heap, the one that is full first at the top.
func (n *Network) push(l level) {
	n.heap = append(n.heap, l)
	for i := len(n.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !less(n.heap[i], n.heap[up]) {
			break
		}
		n.heap[i], n.heap[up] = n.heap[up], n.heap[i]
		i = up
	}
}

func (n *Network) pop() level {
	top, last := n.heap[0], len(n.heap)-1
	n.heap[0] = n.heap[last]
	n.heap = n.heap[:last]
	for i := 0; ; {
		k := 2*i + 1
		if k >= last {
			return top
		}
		if k+1 < last && less(n.heap[k+1], n.heap[k]) {
			k++
		}
		if !less(n.heap[k], n.heap[i]) {
			return top
		}
		n.heap[i], n.heap[k] = n.heap[k], n.heap[i]
		i = k
	}
}

func less(a, b level) bool { return a.at < b.at || a.at == b.at && a.link < b.link }
