// Package fgd places tasks that ask for parts of GPUs, or for few of them, so that
// what is left of the nodes stays of use to the tasks to come: each goes where
// fragmentation grows least, down its gradient. Jobs are served in the order in
// which they came; who does not fit is skipped, and nobody is stopped.
//
// Nouns:
//   - A shape is what a task asks for.
//   - The target is the mix of shapes that is expected.
//   - The fragment of a node is the part of its idle GPUs that a task of the
//     target cannot use, in the mean.
//   - A score says how good a node is for a task. Five other scores are there
//     to compare with: best fit, dot product, packing, clustering, and none. Of
//     nodes with equal scores the lowest number is taken.
//
// A job of one role is placed task by task, each on one node, and on GPUs of one type
// where one has room for all of them. Whatever the scores have no place for (gangs of
// several roles, nodes that only count their devices, parts of processors) is packed.
//
// Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads
// with Fragmentation Gradient Descent", ATC 2023.
package fgd

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of the policy.
type Config struct {
	Score      Score
	Popularity float64 // what part of the tasks the shapes of the target make up
	Whole      bool    // scores are whole numbers from 0 to 100, so that nodes that hardly differ count as equal
	Target     *Target // nil: of the jobs seen so far
}

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{Popularity: 0.95, Whole: true} }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("score", &c.Score, []param.Option[Score]{
			{Name: "gradient", Value: Gradient}, {Name: "best-fit", Value: BestFit}, {Name: "dot-product", Value: DotProduct},
			{Name: "packing", Value: Packing}, {Name: "clustering", Value: Clustering}, {Name: "random", Value: Random},
		}, "how a node is chosen"),
		param.Float("popularity", &c.Popularity, 0, 1, "", "what part of all tasks the shapes make up for which nodes are kept whole, the most frequent ones"),
		param.Bool("whole", &c.Whole, "scores are whole numbers from 0 to 100, as in Kubernetes: of nodes that hardly differ the first is taken"),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.Parts), "it acts as fifo(mode=skip) but for where tasks run")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	return &policy{cfg: *c, scorer: scorer{by: c.Score, target: c.Target, whole: c.Whole}, scores: map[shape][]rated{}}, nil
}

type policy struct {
	cfg        Config
	queue      queue.Queue
	infeasible sched.Infeasible
	nodes      mirror
	scorer     scorer
	learned    learned
	scores     map[shape][]rated // by node

	alloc   cluster.Alloc
	devices []int
}

// rated is the score of a node for tasks of a shape.
type rated struct {
	version uint32 // of the node; 0: not scored yet
	fits    bool
	device  int16
	score   float64
}

// Decide implements sched.Policy.
func (f *policy) Decide(v *sched.View, p *sched.Plan) {
	room := v.NodesChanged() // for those who did not fit before
	for _, id := range f.infeasible.Reconsider(v) {
		f.add(v.Job(id), p)
	}
	var came []job.ID
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Arrived, sched.Stopped:
			if ch.Kind == sched.Stopped {
				room = true
			}
			if f.add(v.Job(ch.Job), p) {
				came = append(came, ch.Job)
			}
		case sched.Ended:
			f.queue.Remove(ch.Job)
			f.infeasible.Remove(ch.Job)
			room = true
		}
	}
	if f.queue.Len() == 0 {
		return
	}
	f.prepare(v, room)
	if room {
		f.queue.Walk(nil, func(id job.ID) queue.Step {
			switch {
			case f.start(v, p, v.Job(id)):
				return queue.Took
			case v.PinnedPlace(id) != nil: // others can go elsewhere
				return queue.SkipJob
			}
			return queue.SkipClass
		})
		return
	}
	for _, id := range came { // nobody else can have found room
		if f.start(v, p, v.Job(id)) {
			f.queue.Remove(id)
		}
	}
}

func (f *policy) add(j sched.Job, p *sched.Plan) bool {
	if f.infeasible.Rejects(p, j.ID, place.Pack) {
		return false
	}
	f.queue.Add(j.ID, j.Class(), queue.Key{})
	return true
}

// prepare brings what is known of nodes and jobs up to date.
func (f *policy) prepare(v *sched.View, room bool) {
	f.nodes.follow(v)
	if f.cfg.Score == Clustering && room {
		f.nodes.count(v)
	}
	if f.cfg.Score == Gradient && f.cfg.Target == nil && f.learned.follow(v, f.cfg.Popularity) {
		f.scorer.target = f.learned.target
		clear(f.scores)
	}
}

// start starts a job, task by task. A frozen one goes on where its memory is.
func (f *policy) start(v *sched.View, p *sched.Plan, j sched.Job) bool {
	class := v.Class(j.Class())
	s, ok := shapeOf(class.Demand, class.Mask)
	if class.Scope != class.Pool {
		s.scope = class.Scope
	}
	if !ok || class.NoType || class.Demand.Within != "" || v.PinnedPlace(j.ID) != nil {
		return f.pack(v, p, j.ID)
	}
	if tasks := class.Demand.Roles[0].Tasks; f.alike(v, s, class.Demand) || f.gang(v, &s, tasks) {
		return p.StartOn(j.ID, &f.alloc)
	}
	return f.pack(v, p, j.ID)
}

// alike places all tasks of a gang on GPUs of one type, the best one first, if there
// are several of either.
func (f *policy) alike(v *sched.View, s shape, d *job.Demand) (placed bool) {
	if tasks := d.Roles[0].Tasks; tasks > 1 && s.count > 0 && v.Cluster().Types() > 1 {
		mask := s.types
		d.EachType(v.Cluster(), func(t cluster.TypeID) bool {
			s.types = 1 << t
			placed = mask.Has(t) && f.gang(v, &s, tasks)
			return !placed
		})
	}
	return placed
}

// gang places so many tasks one by one, or none.
func (f *policy) gang(v *sched.View, s *shape, tasks int32) bool {
	f.alloc.Reset()
	for range tasks {
		n, d, ok := f.choose(v, s)
		if !ok {
			f.giveBack(s)
			return false
		}
		f.devices = f.nodes.nodes[n].take(s, d, f.devices[:0])
		f.piece(n, s)
	}
	return true
}

// pack starts a job wherever it fits, or notes why it does not.
func (f *policy) pack(v *sched.View, p *sched.Plan, id job.ID) bool {
	if !p.Start(id, place.Pack) {
		return false
	}
	f.nodes.follow(v)
	return true
}

// giveBack frees what was taken for the tasks of a gang that does not fit.
func (f *policy) giveBack(s *shape) {
	shares := f.alloc.Shares
	for i := range f.alloc.Pieces {
		piece := &f.alloc.Pieces[i]
		f.nodes.nodes[piece.Node].giveBack(s, shares[:piece.Shares])
		shares = shares[piece.Shares:]
	}
}

// piece adds a task on a node to what a job will hold.
func (f *policy) piece(n cluster.NodeID, s *shape) {
	f.alloc.Pieces = append(f.alloc.Pieces, cluster.Piece{Node: n, Tasks: 1, Shares: int32(len(f.devices)), CPU: s.cpu, Memory: s.memory})
	for _, d := range f.devices {
		f.alloc.Shares = append(f.alloc.Shares, cluster.Share{
			Device: f.nodes.nodes[n].first + cluster.DeviceID(d), Milli: s.milli, Memory: s.deviceMemory,
		})
	}
}

// choose finds the node with the best score for a task, and the device for one
// that needs a part of it.
func (f *policy) choose(v *sched.View, s *shape) (best cluster.NodeID, device int, ok bool) {
	scores := f.scores[*s]
	if len(scores) < len(f.nodes.nodes) {
		scores = append(scores, make([]rated, len(f.nodes.nodes)-len(scores))...)
		f.scores[*s] = scores
	}
	equal := 0
	for _, id := range f.nodes.pool {
		n, r := &f.nodes.nodes[id], &scores[id]
		if r.version != n.version {
			*r = rated{version: n.version, fits: n.fits(s)}
			if r.fits {
				var d int
				r.score, d = f.scorer.score(n, s)
				r.device = int16(d)
			}
		}
		switch {
		case !r.fits:
			continue
		case equal == 0 || r.score > scores[best].score:
			best, equal = id, 1
		case f.cfg.Score == Random:
			if equal++; v.Rand.IntN(equal) == 0 {
				best = id
			}
		}
	}
	if equal == 0 {
		return 0, 0, false
	}
	return best, int(f.device(v, best, scores, s)), true
}

// device is where on the best node a task goes that needs a part of a device.
func (f *policy) device(v *sched.View, best cluster.NodeID, scores []rated, s *shape) int16 {
	if f.cfg.Score != Random || scores[best].device < 0 {
		return scores[best].device
	}
	n, equal, drawn := &f.nodes.nodes[best], 0, scores[best].device
	for d := range n.free {
		if n.holds(s, d) {
			if equal++; v.Rand.IntN(equal) == 0 {
				drawn = int16(d)
			}
		}
	}
	return drawn
}
