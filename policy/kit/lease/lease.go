// Package lease is for policies that give GPUs for a term. When the term of a
// job is over, its GPUs are given out anew, to it or to others.
//
// Nouns: a term is the time for which no policy takes a job's GPUs from it. A
// candidate is a waiting job, or one whose term is over. A Pass is one giving
// out. A job that wins its own GPUs again keeps them, and nothing happens to
// it. When a term began is written on the job (a note). While nobody waits,
// terms follow each other without a word.
//
// Running jobs that are to be left alone (rounds.Stays) are never candidates.
//
// Sources: Mahajan et al., "Themis", NSDI 2020; Ye et al., "ASTRAEA", TPDS 2022.
package lease

import (
	"iter"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// Terms gives out GPUs for terms.
type Terms struct {
	Length  time.Duration // above 0
	Place   place.Strategy
	Refill  bool // what winners leave in the end, since they keep what they have, goes to whoever was tried, to one that loses its GPUs too
	Grow    bool // elastic jobs that run with less than they can use are served anew when their terms are over and GPUs are free, though nobody waits
	Aligned bool // terms end together, at multiples of their length: a first one may be shorter

	pass    Pass
	wake    time.Duration
	classes int      // of demands that were looked at
	elastic bool     // one of them is elastic
	unknown []job.ID // running jobs whose terms nobody knows: an earlier policy has given them what they have
}

// Pass is one giving out of what is free.
type Pass struct {
	View       *sched.View
	Candidates []sched.Job // by number

	plan  *sched.Plan
	place place.Strategy
	tried []winner // in the order in which they were
	won   []winner
	wins  dense.Set // the same as a set
}

// winner is a job that was served, its number of tasks of the first role, and where.
type winner struct {
	id    job.ID
	tasks int
	where place.Strategy
	typed bool           // it is to have GPUs of one type
	whole bool           // on one node
	on    cluster.TypeID // that type
}

// slack is the part of a term by which a decision may come late and still be that
// of the end of the term.
const slack = 100

// Over tells whether the term of a running job is over. Terms that nobody was
// asked about have been renewed.
func (t *Terms) Over(v *sched.View, j sched.Job) bool {
	began, ok := t.began(v, j)
	switch {
	case !ok:
		return true
	case began > v.Now:
		return false
	case t.Aligned:
		late := v.Now % t.Length
		return late <= t.Length/slack && began < v.Now-late
	}
	held := v.Now - began
	return held >= t.Length && held%t.Length <= t.Length/slack
}

// note is what is remembered of a job that was given GPUs.
type note struct {
	given time.Duration // when its present term was given to it
}

// NewNote is a note of this package, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "lease" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) { f.Moment("given", &n.given) }

// began is the moment at which the term of a running job began. That is when
// the term was given to it, or when it began to make progress, so that jobs get
// on whatever a start costs. ok is false where another policy has given it.
func (t *Terms) began(v *sched.View, j sched.Job) (at time.Duration, ok bool) {
	n, noted := sched.Recall[note](j)
	return max(n.given, j.Ready()), noted && n.given <= v.Now
}

// end is when the term of a running job is over next.
func (t *Terms) end(v *sched.View, j sched.Job) time.Duration {
	began, ok := t.began(v, j)
	switch from := max(began, v.Now); {
	case !ok:
		return v.Now + 1
	case t.Aligned:
		return unit.Later(from-from%t.Length, t.Length)
	case began > v.Now:
		return unit.Later(began, t.Length)
	}
	n := (v.Now - began) / t.Length
	return unit.Later(began, unit.Later(n*t.Length, t.Length))
}

// Decide gives out what is free and what jobs have whose term is over: serve takes
// candidates in the order in which they are to be served. Candidates that are not
// taken lose what they have.
func (t *Terms) Decide(v *sched.View, p *sched.Plan, serve func(*Pass)) {
	s := &t.pass
	s.View, s.plan, s.place = v, p, t.Place
	s.Candidates, s.tried, s.won = s.Candidates[:0], s.tried[:0], s.won[:0]
	s.wins.Clear()
	t.follow(v)
	for j := range v.Waiting() {
		if why := p.Never(j.ID, t.Place); why.Code != job.NoReason {
			p.Wait(j.ID, why)
			continue
		}
		s.Candidates = append(s.Candidates, j)
	}
	if len(s.Candidates) > 0 || t.hungry(v, p) {
		for j := range t.ending(v) {
			if t.Over(v, j) && !rounds.Stays(v, j) {
				s.Candidates = append(s.Candidates, j)
			}
		}
		slices.SortFunc(s.Candidates, func(a, b sched.Job) int { return int(a.ID - b.ID) })
		p.Try(func() bool {
			for _, j := range s.Candidates {
				if p.Alloc(j.ID) != nil {
					p.Stop(j.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
				}
			}
			serve(s)
			return false
		})
		t.settle(v, p)
	}
	t.next(v, p)
}

// hungry tells whether a running job could use GPUs that are free, where such jobs are to
// grow.
func (t *Terms) hungry(v *sched.View, p *sched.Plan) bool {
	if !t.Grow {
		return false
	}
	for ; t.classes < v.Classes(); t.classes++ {
		t.elastic = t.elastic || v.Class(int32(t.classes)).Demand.Elastic()
	}
	if !t.elastic || v.Free() == 0 {
		return false
	}
	for j := range v.Running() {
		_, most := j.Spec().Demand.Roles[0].Range()
		if on := p.Alloc(j.ID); on != nil && on.Tasks(0) < int(most) && !rounds.Stays(v, j) {
			return true
		}
	}
	return false
}

// follow keeps the running jobs whose terms nobody knows. All others were given theirs
// here.
func (t *Terms) follow(v *sched.View) {
	if v.First {
		t.unknown, t.classes, t.elastic = t.unknown[:0], 0, false
		for j := range v.Running() {
			t.unknown = append(t.unknown, j.ID)
		}
	}
	t.unknown = slices.DeleteFunc(t.unknown, func(id job.ID) bool {
		_, known := t.began(v, v.Job(id))
		return known || !v.Job(id).Running()
	})
}

// ending yields the running jobs whose terms may be over. Between the moments at which
// aligned terms end these are only those that nobody knows.
func (t *Terms) ending(v *sched.View) iter.Seq[sched.Job] {
	if !t.Aligned || v.Now%t.Length <= t.Length/slack {
		return v.Running()
	}
	return func(yield func(sched.Job) bool) {
		for _, id := range t.unknown {
			if !yield(v.Job(id)) {
				return
			}
		}
	}
}

// Serve serves a candidate at the size it asks for: it tells whether there is room
// for it, and books that while the Pass lasts.
func (s *Pass) Serve(j sched.Job) bool {
	return s.ServeSize(j, int(j.Spec().Demand.Roles[0].Tasks))
}

// ServeSize is Serve with so many tasks of the first role, for elastic jobs.
func (s *Pass) ServeSize(j sched.Job, tasks int) bool {
	return s.serve(winner{id: j.ID, tasks: tasks, where: s.place})
}

// ServeOn is ServeSize on GPUs of one type. A job that has others is moved.
func (s *Pass) ServeOn(j sched.Job, tasks int, t cluster.TypeID) bool {
	return s.serve(winner{id: j.ID, tasks: tasks, where: rounds.On(s.place, t), typed: true, on: t})
}

// ServeTogether is ServeOn for a job that is to run on one node. A job that is spread over
// several is moved to one. Where none has room beside those who keep what they have, the
// job is spread, or stays so.
func (s *Pass) ServeTogether(j sched.Job, tasks int, t cluster.TypeID) bool {
	return s.serve(winner{id: j.ID, tasks: tasks, where: rounds.On(place.Consolidated, t), typed: true, whole: true, on: t})
}

func (s *Pass) serve(w winner) bool {
	s.tried = append(s.tried, w)
	if !s.plan.StartSize(w.id, w.tasks, w.where) {
		return false
	}
	s.won = append(s.won, w)
	s.wins.Add(int(w.id))
	return true
}

// suits tells whether a winner may keep what it has, perhaps at another size.
func (w *winner) suits(c *cluster.Cluster, held *cluster.Alloc) bool {
	return !w.typed || !slices.ContainsFunc(held.Shares, func(s cluster.Share) bool { return c.TypeOf(s.Device) != w.on })
}

// settle makes what was decided real: winners keep what they have, others leave,
// and those who come are placed in the room that is left. Where that is not enough
// for one, the next in the order has a chance.
func (t *Terms) settle(v *sched.View, p *sched.Plan) {
	s := &t.pass
	term := &note{given: v.Now}
	why := job.Reason{Code: job.MakesRoom, Job: job.None}
	for _, w := range s.won {
		if p.Alloc(w.id) == nil {
			why.Job = w.id
			break
		}
	}
	for _, j := range s.Candidates {
		if p.Alloc(j.ID) != nil && !s.wins.Has(int(j.ID)) {
			p.Stop(j.ID, why)
		}
	}
	for _, w := range s.won {
		if on := p.Alloc(w.id); on != nil {
			if !w.suits(v.Cluster(), on) {
				p.Stop(w.id, job.Reason{Code: job.Moved, Job: job.None})
				continue
			}
			if on.Tasks(0) != w.tasks && !p.Resize(w.id, w.tasks, w.where) && w.whole {
				p.Resize(w.id, w.tasks, rounds.On(t.Place, w.on))
			}
			if w.whole && p.Alloc(w.id).Nodes() > 1 {
				p.Move(w.id, w.where)
			}
			p.Remember(w.id, term)
		}
	}
	for i, order := range [][]winner{s.won, s.tried} {
		failed := false
		for _, w := range order {
			if p.Alloc(w.id) != nil || v.Job(w.id).Running() && !t.Refill {
				continue
			}
			if p.StartSize(w.id, w.tasks, w.where) || i > 0 && w.typed && p.StartSize(w.id, w.tasks, t.Place) {
				p.Remember(w.id, term)
			} else {
				failed = true
			}
		}
		if !failed && !t.Refill {
			return
		}
	}
}

// next finds when the first term is over, if anybody waits.
func (t *Terms) next(v *sched.View, p *sched.Plan) {
	t.wake = unit.Never
	waits := false
	for _, j := range t.pass.Candidates {
		waits = waits || p.Alloc(j.ID) == nil
	}
	if !waits && !t.hungry(v, p) {
		return
	}
	for _, id := range t.unknown {
		t.ends(v, p, v.Job(id))
	}
	soonest := unit.Later(v.Now-v.Now%t.Length, t.Length) // of known terms that are aligned
	for j := range v.Running() {
		if t.ends(v, p, j); t.Aligned && t.wake <= soonest {
			break
		}
	}
	for _, j := range t.pass.Candidates {
		if p.Alloc(j.ID) == nil {
			continue
		}
		if t.wake = min(t.wake, unit.Later(v.Now, t.Length)); t.Aligned {
			t.wake = unit.Later(v.Now-v.Now%t.Length, t.Length)
		}
		break
	}
}

// ends counts a running job in the moment at which the first term is over.
func (t *Terms) ends(v *sched.View, p *sched.Plan, j sched.Job) {
	if t.pass.wins.Has(int(j.ID)) || p.Alloc(j.ID) == nil || rounds.Stays(v, j) {
		return // renewed just now, or never over
	}
	t.wake = min(t.wake, t.end(v, j))
}

// NextWake is the answer of a sched.Waker.
func (t *Terms) NextWake(v *sched.View) time.Duration {
	if t.wake == unit.Never {
		return t.wake
	}
	return max(t.wake, v.Now+1)
}
