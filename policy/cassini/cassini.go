// Package cassini places jobs whose iterations send in bursts so that few bursts meet on a link, and tells jobs when
// to begin their iterations so that those who share a link send in turns. It works around another policy, the host,
// which says who runs on how many GPUs.
//
// Nouns:
//   - A Circle is the iterations of a job rolled up; bursts are its arcs. Circles on a Link are rotated against each
//     other until their sum exceeds the capacity as little as possible; the rest is its score.
//   - The affinity graph joins jobs and the links that they share. The beat of a job (cluster.Beat) is a walk through
//     it from the first job of a component.
//   - A candidate is a place for a job that is as good to the host as that which it chose: as many nodes, each with
//     as many GPUs free, over as few places of the topology.
//
// The policy keeps nothing between calls but what follows from bursts and links. Links and bursts are in GB/s, one
// way.
//
// Source: Rajasekaran, Ghobadi and Akella, "CASSINI: Network-Aware Job Scheduling in Machine Learning Clusters",
// NSDI 2024.
package cassini

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/policy/pollux"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/policy/themis"
	"github.com/norn-scheduler/norn/policy/tiresias"
	"github.com/norn-scheduler/norn/sched"
)

// Host is the policy that says who runs on how many GPUs.
type Host uint8

// The hosts, each with its settings at their defaults.
const (
	Themis Host = iota
	Pollux
	FIFO
	SRSF
	Tiresias
)

// hostConfig is the settings of a host.
type hostConfig interface {
	Needs() need.List
	Policy() (sched.Policy, error)
}

// config is the settings of the host, and its name.
func (h Host) config() (string, hostConfig) {
	switch h {
	case Pollux:
		return "pollux", pollux.NewConfig()
	case FIFO:
		return "fifo", fifo.NewConfig()
	case SRSF:
		return "srsf", shortest.NewSRSF()
	case Tiresias:
		return "tiresias", tiresias.NewConfig()
	}
	return "themis", themis.NewConfig()
}

// Measure is how scores of links make that of a place.
type Measure uint8

// The measures.
const (
	Mean  Measure = iota // of the links that the job shares
	Worst                // of these
)

// Config is the settings of the policy.
type Config struct {
	Host       Host
	Candidates int
	Precision  float64 // degrees
	Score      Measure
	Step       time.Duration // of periods
	Shift      bool
	Fit        float64 // score of links for which jobs are told a beat
}

// NewConfig returns the defaults: those of the paper, but for Fit.
func NewConfig() *Config {
	return &Config{Candidates: 10, Precision: 5, Step: time.Millisecond, Shift: true, Fit: 1}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Choice("host", &c.Host, []param.Option[Host]{{Name: "themis", Value: Themis}, {Name: "pollux", Value: Pollux}, {Name: "fifo", Value: FIFO}, {Name: "srsf", Value: SRSF}, {Name: "tiresias", Value: Tiresias}},
			"the policy that says who runs on how many GPUs, with its own settings at their defaults"),
		param.Int("candidates", &c.Candidates, 1, 1000, "places", "that are compared for each job that the host places; 1: that of the host is kept"),
		param.Float("precision", &c.Precision, 1, 90, "degrees", "between the shifts that are tried, of the circle of a job's own iterations"),
		param.Choice("score", &c.Score, []param.Option[Measure]{{Name: "mean", Value: Mean}, {Name: "least", Value: Worst}}, "of a place: of the links that the job shares there, their mean score, or the least"),
		param.Duration("step", &c.Step, "of which periods are multiples: a job waits for less than that after each iteration, so that its bursts meet those of others at the same moments again"),
		param.Bool("shift", &c.Shift, "jobs are told when to begin their iterations; else they are placed alone"),
		param.Float("fit", &c.Fit, -1e6, 1, "score", "that every link of a group of jobs must reach with the best shifts, so that its jobs are told when to begin iterations; -1e6: all are, as in the paper"),
	}
}

// Needs says what the policy lives on: what its host does, and bursts and links.
func (c *Config) Needs() need.List {
	name, host := c.Host.config()
	acts := "the policy acts as " + name
	return host.Needs().And(need.Of(need.Bursts), acts).And(need.Of(need.Adapters), acts)
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Step <= 0 || c.Step > time.Second {
		return nil, fmt.Errorf("step: write a time above 0, at most 1s")
	}
	_, cfg := c.Host.config()
	host, err := cfg.Policy()
	if err != nil {
		return nil, err
	}
	p := &policy{cfg: *c, host: host, beats: map[job.ID]cluster.Beat{}}
	p.graph = newGraph(&p.cfg)
	p.waker, _ = host.(sched.Waker)
	p.why, _ = host.(sched.Explainer)
	return p, nil
}

type policy struct {
	cfg   Config
	host  sched.Policy
	waker sched.Waker
	why   sched.Explainer

	graph *graph
	has   map[job.ID]*cluster.Alloc // of the members
	beats map[job.ID]cluster.Beat   // that members should have

	placed, moved int     // jobs that were placed, and elsewhere than the host did
	worth         float64 // sum of the scores of the places that were taken
}

// NextWake implements sched.Waker.
func (c *policy) NextWake(v *sched.View) time.Duration {
	if c.waker == nil {
		return unit.Never
	}
	return c.waker.NextWake(v)
}

// Why implements sched.Explainer.
func (c *policy) Why(v *sched.View, id job.ID) job.Reason {
	if c.why == nil {
		return job.Reason{Code: job.Outranked, Job: job.None}
	}
	return c.why.Why(v, id)
}

// Remarks tell how often places were changed, and what they are worth.
func (c *policy) Remarks() []string {
	if c.placed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s on several nodes placed; places other than the host's: %d; mean score of their links %.3f",
		unit.Count(c.placed, "job"), c.moved, c.worth/float64(c.placed))}
}

// Decide implements sched.Policy.
func (c *policy) Decide(v *sched.View, p *sched.Plan) {
	c.host.Decide(v, p)
	if p.Err() != nil {
		return
	}
	changed, news := c.follow(v, p)
	for _, id := range news {
		c.place(v, p, id)
	}
	if len(news) > 1 {
		c.exchange(v, p, news)
	}
	for _, id := range news {
		c.placed, c.worth = c.placed+1, c.worth+c.graph.score(c.graph.members[id])
	}
	if !c.cfg.Shift {
		return
	}
	if changed {
		c.beat(p)
	}
	for _, id := range c.ids() {
		c.tell(p, id)
	}
}

// ids are the members in order of their numbers.
func (c *policy) ids() []job.ID {
	ids := make([]job.ID, 0, len(c.graph.members))
	for id := range c.graph.members {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// follow brings the graph up to what jobs have by the plan. It tells whether anything has changed, and which members
// the plan brings to other devices.
func (c *policy) follow(v *sched.View, p *sched.Plan) (changed bool, news []job.ID) {
	was := c.has
	c.has = make(map[job.ID]*cluster.Alloc, len(was))
	see := func(id job.ID) {
		a := p.Alloc(id)
		h := v.Job(id).Spec().Hints
		if _, seen := c.has[id]; seen || a == nil || h == nil || h.Bursts.Len() == 0 || a.Nodes() < 2 {
			return
		}
		if old := was[id]; old != nil && old.SamePlaces(a) {
			c.has[id] = old
			return
		}
		changed = c.enter(v, id, a) || changed
	}
	for j := range v.Running() {
		see(j.ID)
	}
	for _, op := range p.Ops() {
		if see(op.Job); c.has[op.Job] != nil && (op.Was == nil || !op.Was.SamePlaces(op.Now)) {
			news = append(news, op.Job)
		}
	}
	for id := range was {
		if _, here := c.has[id]; !here {
			c.leave(id)
			changed = true
		}
	}
	slices.Sort(news)
	return changed, news
}

// enter has the graph know where a job is; false: it sends over no link that is known.
func (c *policy) enter(v *sched.View, id job.ID, a *cluster.Alloc) bool {
	c.leave(id)
	spec := v.Job(id).Spec()
	uses := c.graph.net.Crossings(spec, v.Cluster(), a)
	if uses == nil || spec.Hints.Bursts.Check(spec.Hints.Iteration) != nil {
		return false
	}
	own := &cluster.Alloc{}
	own.CopyFrom(a)
	c.has[id] = own
	c.graph.add(c.graph.memberOf(id, spec.Hints, uses))
	return true
}

func (c *policy) leave(id job.ID) {
	delete(c.has, id)
	delete(c.beats, id)
	if m := c.graph.members[id]; m != nil {
		c.graph.remove(m)
	}
}

// place takes the candidate of the best score for a job that the host has placed; of equal ones that of the host,
// or the one that was found first. Those that close a loop of jobs and links are not taken.
func (c *policy) place(v *sched.View, p *sched.Plan, id job.ID) {
	m := c.graph.members[id]
	best, score := c.has[id], c.judge(m)
	own := best
	if score >= 1-alike || c.cfg.Candidates < 2 {
		return
	}
	for _, a := range c.candidates(v, p, id) {
		if !c.enter(v, id, a) {
			continue
		}
		if got := c.judge(c.graph.members[id]); got > score+alike {
			best, score = a, got
		}
	}
	if best == own || !c.move(v, p, id, best) {
		best = own
	} else {
		c.moved++
	}
	c.enter(v, id, best)
}

// judge is the score of the place of a member, or less than any where it closes a loop.
func (c *policy) judge(m *member) float64 {
	if x := c.graph.component(m); x.loop {
		return -1e9
	}
	return c.graph.score(m)
}

// move takes a job that was placed by this plan to other devices.
func (c *policy) move(v *sched.View, p *sched.Plan, id job.ID, a *cluster.Alloc) bool {
	return p.Try(func() bool { return p.Stop(id, c.reason(p, id)) && p.StartOn(id, a) })
}

// reason is why a job is stopped: what the plan has said of it.
func (c *policy) reason(p *sched.Plan, id job.ID) job.Reason {
	for _, op := range p.Ops() {
		if op.Job == id && op.Why.Code != job.NoReason {
			return op.Why
		}
	}
	return job.Reason{Code: job.Moved, Job: job.None}
}

// beat finds the beat of each member that shares a link on which that makes a difference. Jobs that send in turns
// as well as any keep theirs.
func (c *policy) beat(p *sched.Plan) {
	clear(c.beats)
	seen := map[job.ID]bool{}
	for _, id := range c.ids() {
		if seen[id] {
			continue
		}
		x := c.graph.component(c.graph.members[id])
		has := map[job.ID]time.Duration{}
		for _, m := range x.members {
			seen[m.id] = true
			if b := p.Alloc(m.id).Beat; b.Period == m.period {
				has[m.id] = b.Shift
			}
		}
		if len(x.edges) == 0 || slices.ContainsFunc(x.edges, func(e edge) bool { return e.fit.score < c.cfg.Fit-alike }) {
			continue
		}
		shifts := has
		switch {
		case x.keeps(has):
		case x.loop:
			shifts = x.oneByOne(c.cfg.Precision)
		default:
			shifts = x.shifts(has[x.members[0].id])
		}
		for _, m := range x.members {
			c.beats[m.id] = cluster.Beat{Period: m.period, Shift: shifts[m.id]}
		}
	}
}

// tell tells a job its beat.
func (c *policy) tell(p *sched.Plan, id job.ID) {
	if a := p.Alloc(id); a != nil && a.Beat != c.beats[id] {
		p.Adjust(id, func(a *cluster.Alloc) { a.Beat = c.beats[id] })
	}
}

// tries is how many places are drawn for each candidate that is asked for.
const tries = 4

// candidates draws places for a job that are as good to the host as that which it has chosen, beside that: nodes
// like those that it has, as many of them together in places of the topology. The moment and the number of the job
// decide which are drawn.
func (c *policy) candidates(v *sched.View, p *sched.Plan, id job.ID) (out []*cluster.Alloc) {
	j := v.Job(id)
	own := c.has[id]
	if v.PinnedPlace(id) != nil || !whole(own) {
		return nil
	}
	random := rand.New(rand.NewPCG(uint64(j.Serial()), uint64(v.Now)))
	p.Try(func() bool {
		if p.Stop(id, c.reason(p, id)) {
			s := newSites(v.Cluster(), v.Scope(j), own)
			for range tries * c.cfg.Candidates {
				if len(out) == c.cfg.Candidates-1 {
					break
				}
				a := s.draw(random)
				if a != nil && !a.SamePlaces(own) && !slices.ContainsFunc(out, a.SamePlaces) && v.Admits(j, a) {
					out = append(out, a)
				}
			}
		}
		return false
	})
	return out
}

// exchange has jobs that this plan has placed exchange nodes where that is better for their links together. Each is
// tried with as many nodes of others as candidates are compared; as with these, the moment and its number decide with
// which.
func (c *policy) exchange(v *sched.View, p *sched.Plan, news []job.ID) {
	for _, id := range news {
		random := rand.New(rand.NewPCG(uint64(v.Job(id).Serial())+1, uint64(v.Now)))
		for range c.cfg.Candidates - 1 {
			if c.judge(c.graph.members[id]) >= 1-alike {
				break
			}
			if other := news[random.IntN(len(news))]; other != id {
				c.swap(v, p, id, other, random)
			}
		}
	}
}

// swap has two jobs exchange a node if that is better.
func (c *policy) swap(v *sched.View, p *sched.Plan, x, y job.ID, random *rand.Rand) {
	a, b := c.has[x], c.has[y]
	if v.PinnedPlace(x) != nil || v.PinnedPlace(y) != nil || !whole(a) || !whole(b) {
		return
	}
	cl := v.Cluster()
	na, nb := swapped(cl, a, b, random.IntN(len(a.Pieces)), random.IntN(len(b.Pieces)))
	if na == nil || !within(cl, na, a) || !within(cl, nb, b) || !v.Admits(v.Job(x), na) || !v.Admits(v.Job(y), nb) {
		return
	}
	was := c.judge(c.graph.members[x]) + c.judge(c.graph.members[y])
	better := c.enter(v, x, na) && c.enter(v, y, nb) && c.judge(c.graph.members[x])+c.judge(c.graph.members[y]) > was+alike
	if better && p.Try(func() bool {
		return p.Stop(x, c.reason(p, x)) && p.Stop(y, c.reason(p, y)) && p.StartOn(x, na) && p.StartOn(y, nb)
	}) {
		c.moved += 2
		return
	}
	c.enter(v, x, a)
	c.enter(v, y, b)
}

// whole tells whether an allocation is of whole GPUs, with no counted resource.
func whole(a *cluster.Alloc) bool {
	return len(a.Slots) == 0 && len(a.Shares) > 0 && !slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { return s.Milli != 1000 }) &&
		!slices.ContainsFunc(a.Pieces, func(p cluster.Piece) bool { return p.Shares == 0 })
}
