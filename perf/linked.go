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
// not linked best. On the best set of so many GPUs of its node, such a job communicates during a part
// s of its time. With the bandwidth B there and b where it runs,
//
//	speed factor = 1 / (1 - s + s x B/b)
//
// B and b are the effective bandwidths that fabric.Graph predicts for the pattern that the job tells, or
// a ring, but at least the speed of the slowest link between two of the GPUs. Jobs on one GPU or on
// several nodes, and those on nodes whose links are not known or all equal, are not affected. The nil
// Linked has links make no difference. It keeps what it has found of nodes, so that each run needs
// one of its own.
//
// Source of the bandwidths: MAPA (SC 2021). That computation takes as long everywhere is assumed.
type Linked struct {
	share  float64
	graphs fabric.Graphs
}

// NewLinked is the Linked for a part of the time, 0 to 1; nil where it is 0.
func NewLinked(share float64) *Linked {
	if share == 0 {
		return nil
	}
	return &Linked{share: share}
}

// Factor is by what the speed of a job on its allocation is multiplied, at most 1.
func (l *Linked) Factor(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	if l == nil || len(a.Shares) < 2 || a.Nodes() != 1 || !MindsBandwidth(j) {
		return 1
	}
	node := a.Pieces[0].Node
	links := c.Node(node).Links
	g := l.graphs.Of(links)
	if g == nil || g.Uniform() {
		return 1
	}
	first, _ := c.DeviceRange(node)
	var set fabric.Set
	for _, s := range a.Shares {
		set |= 1 << (s.Device - first)
	}
	pattern := fabric.Ring
	if j.Hints != nil {
		if p, ok := fabric.ParsePattern(j.Hints.Pattern); ok {
			pattern = p
		}
	}
	has, _ := g.Worth(pattern, set)
	least := g.Slowest(set)
	return 1 / (1 - l.share + l.share*max(1, max(g.Best(pattern, set.Len()), least)/max(has, least)))
}
