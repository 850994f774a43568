package synergy

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// player carries the loop out as a policy: what the tasks of a round have is what the
// engine is told to give them, on devices, cores and memory that the ledger books.
type player struct {
	*scheduler
	clock *harness.Clock
	begun bool
	due   time.Duration // of the next round
	alloc cluster.Alloc
	kept  []job.ID
	fresh []*task
}

func newPlayer(s *scheduler, k *harness.Clock) *player { return &player{scheduler: s, clock: k} }

// Decide implements sched.Policy.
func (p *player) Decide(v *sched.View, plan *sched.Plan) {
	if !p.begun {
		p.begun, p.due = true, p.first()
	}
	if v.Now < p.due {
		return
	}
	p.due = unit.Never
	if !p.next() {
		return
	}
	if !p.over {
		p.due = nanos(p.now + round)
	}
	p.fresh, p.kept = p.fresh[:0], p.kept[:0]
	for _, t := range p.running {
		if was := v.Alloc(t.id); was != nil && was.Equal(p.holds(t)) {
			p.kept = append(p.kept, t.id)
		} else {
			p.fresh = append(p.fresh, t)
		}
		if t.finished() {
			p.clock.Ends = append(p.clock.Ends, harness.End{Job: t.id, At: nanos(p.now + round)})
		}
	}
	slices.Sort(p.kept)
	for j := range v.Running() {
		if _, keeps := slices.BinarySearch(p.kept, j.ID); !keeps {
			plan.Stop(j.ID, job.Reason{Code: job.UsedShare, Job: job.None})
		}
	}
	for _, t := range p.fresh {
		plan.StartOn(t.id, p.holds(t))
	}
}

// first is when the first round begins.
func (s *scheduler) first() time.Duration {
	for i := range s.queue {
		if s.queue[i].kind == roundBegins {
			return nanos(s.queue[i].at)
		}
	}
	return unit.Never
}

// holds is what a task has.
func (p *player) holds(t *task) *cluster.Alloc {
	a := &p.alloc
	a.Reset()
	for _, part := range t.parts {
		n := int32(len(part.gpus))
		a.Pieces = append(a.Pieces, cluster.Piece{
			Node: cluster.NodeID(part.server.id), Tasks: n, Shares: n, CPU: milli(part.has[1]), Memory: bytes(part.has[2]),
		})
		first := cluster.DeviceID(part.server.id * p.gpus)
		for _, g := range part.gpus {
			a.Shares = append(a.Shares, cluster.Share{Device: first + cluster.DeviceID(g), Milli: int32(unit.One)})
		}
	}
	return a
}

// NextWake implements sched.Waker.
func (p *player) NextWake(v *sched.View) time.Duration {
	if !p.begun {
		return p.first()
	}
	return p.due
}
