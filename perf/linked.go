package perf

import (
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/job"
)

// MindsBandwidth tells whether a job is known to be slower where its tasks have less bandwidth
// between them: it says so (job.Hints.Sensitive), or its model is one of those that the authors
// of MAPA (SC 2021) took for sensitive.
func MindsBandwidth(j *job.Job) bool {
	if j.Hints != nil && j.Hints.Sensitive {
		return true
	}
	model := strings.ToLower(j.Model)
	for _, name := range [...]string{"alexnet", "inception", "resnet", "vgg"} {
		if strings.HasPrefix(model, name) {
			return true
		}
	}
	return false
}

// Linked is how far jobs that mind their bandwidth (MindsBandwidth) are slower on GPUs that are
// not linked best. Where so many GPUs are linked best, such a job communicates during a part
// s of its time. With the bandwidth B there and b where it runs,
//
//	speed factor = 1 / (1 - s + s x B/b + l)
//
// In a node, B and b are the effective bandwidths that fabric.Graph predicts for the pattern that the job tells, or
// a ring, but at least the speed of the slowest link between two of the GPUs. For a job on several nodes b is the
// least of those of its parts and of its flows between nodes (Network), which it shares with other jobs. B is that
// in one node, where it fits into one whose links are known. Else B is that of all adapters of a node. l is the latency of the messages of an iteration that follow one on the other, over the time
// of an iteration that the job tells (job.Hints); it is 0 where it tells none, and in a node.
//
// A job that tells its bursts (job.Hints.Bursts) needs no such part of the time: on several nodes, its speed factor is
// the time of its iteration by its hints, over that beside the others (Network.Takes).
//
// Jobs of which Sockets tell are slower, too, beside others on the same sockets of their node, and where they are
// spread over several.
//
// As for bandwidth, jobs on one GPU, and those on nodes whose links are not known or all equal, or on several whose adapters are not
// known, are not affected. The nil
// Linked has links make no difference. It keeps what it has found of nodes and who sends, so that each run needs
// one of its own.
//
// Source of the bandwidths in a node: MAPA (SC 2021). That computation takes as long everywhere is assumed.
type Linked struct {
	share  float64
	graphs fabric.Graphs
	net    *Network
	near   *occupants // nil where nothing was measured
}

// NewLinked is the Linked for a part of the time, 0 to 1, and for what was measured on sockets, which may be nil.
func NewLinked(share float64, s *Sockets) *Linked {
	l := &Linked{share: share, net: NewNetwork()}
	if s != nil {
		l.near = newOccupants(s)
	}
	return l
}

// Sockets is what was measured on sockets; nil: nothing.
func (l *Linked) Sockets() *Sockets {
	if l == nil || l.near == nil {
		return nil
	}
	return l.near.sockets
}

// Enter notes that a job runs on an allocation, instead of that of before. Those that do not mind
// their bandwidth, and those on one node, send nothing.
func (l *Linked) Enter(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) {
	if l == nil {
		return
	}
	if l.sends(j) {
		l.net.Enter(j, c, a)
	}
	if l.near != nil {
		l.near.enter(j, c, a)
	}
}

// Leave notes that a job does not run any more.
func (l *Linked) Leave(id job.ID) {
	if l == nil {
		return
	}
	l.net.Leave(id)
	if l.near != nil {
		l.near.leave(id)
	}
}

// Unsettled tells whether jobs may have become faster or slower that did not change themselves.
func (l *Linked) Unsettled() bool {
	return l != nil && (l.net.Stale() || l.near != nil && len(l.near.stale) > 0)
}

// Changed takes the jobs whose bandwidth between nodes, or whose neighbours on a socket, have changed since it
// was last asked.
func (l *Linked) Changed(to []job.ID) []job.ID {
	if l == nil {
		return to
	}
	to = l.net.Changed(to)
	if l.near != nil {
		to, l.near.stale = append(to, l.near.stale...), l.near.stale[:0]
	}
	return to
}

// Factor is by what the speed of a job on its allocation is multiplied, at most 1. On several nodes it is
// that of the allocation with which the job was last entered.
func (l *Linked) Factor(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	if l == nil {
		return 1
	}
	by := l.bandwidth(j, c, a)
	if l.near != nil {
		by *= l.near.factor(j, c, a)
	}
	return by
}

// bandwidth is the factor of the links alone.
func (l *Linked) bandwidth(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	if len(a.Shares) < 2 || !l.sends(j) {
		return 1
	}
	if times, ok := l.net.Takes(j.ID); ok && a.Nodes() > 1 {
		return 1 / times
	}
	if l.share == 0 {
		return 1
	}
	pattern := fabric.Ring
	if j.Hints != nil {
		if p, ok := fabric.ParsePattern(j.Hints.Pattern); ok {
			pattern = p
		}
	}
	if a.Nodes() > 1 {
		return l.spread(j, c, a, pattern)
	}
	g := l.graphs.Of(c.Node(a.Pieces[0].Node).Links)
	if g == nil || g.Uniform() {
		return 1
	}
	set := setOf(c, a.Pieces[0].Node, a.Shares)
	return 1 / (1 - l.share + l.share*max(1, bestOf(g, pattern, set.Len())/worthOf(g, pattern, set)))
}

// sends tells whether links make a difference to a job.
func (l *Linked) sends(j *job.Job) bool {
	return l.share > 0 && MindsBandwidth(j) || j.Hints != nil && j.Hints.Bursts[0].To > 0
}

// setOf is devices of a node, of which it has at most fabric.MaxDevices.
func setOf(c *cluster.Cluster, node cluster.NodeID, shares []cluster.Share) (set fabric.Set) {
	first, _ := c.DeviceRange(node)
	for _, s := range shares {
		set |= 1 << (s.Device - first)
	}
	return set
}

// worthOf is the bandwidth of a set of two devices or more, in GB/s.
func worthOf(g *fabric.Graph, p fabric.Pattern, set fabric.Set) float64 {
	least := g.Slowest(set)
	if g.Uniform() {
		return least
	}
	has, _ := g.Worth(p, set)
	return max(has, least)
}

// bestOf is the bandwidth of the best set of so many devices.
func bestOf(g *fabric.Graph, p fabric.Pattern, n int) float64 {
	if g.Uniform() {
		return g.Slowest(3)
	}
	return g.Best(p, n)
}

// spread is the factor of a job on several nodes.
func (l *Linked) spread(j *job.Job, c *cluster.Cluster, a *cluster.Alloc, p fabric.Pattern) float64 {
	has, ok := l.net.Rate(j.ID)
	if !ok {
		return 1
	}
	node := a.Pieces[0].Node
	best := c.Node(node).NICs.Total()
	if _, devices := c.DeviceRange(node); len(a.Shares) <= devices {
		if g := l.graphs.Of(c.Node(node).Links); g != nil {
			best = max(best, bestOf(g, p, len(a.Shares)))
		}
	} else if ExchangeOf(j) == StarExchange {
		best /= float64(max(1, (len(a.Shares)+devices-1)/devices-1))
	}
	from := 0
	for _, piece := range a.Pieces {
		shares := a.Shares[from : from+int(piece.Shares)]
		from += int(piece.Shares)
		if g := l.graphs.Of(c.Node(piece.Node).Links); g != nil && len(shares) > 1 {
			has = min(has, worthOf(g, fabric.Chain, setOf(c, piece.Node, shares)))
		}
	}
	return 1 / (1 - l.share + l.share*max(1, best/has) + l.net.latency(j))
}
