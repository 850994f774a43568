package pai

import (
	"math"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/sched"
)

type policy struct {
	cfg        Config
	queue      queue.Queue // by class and role
	role       []role      // by job
	infeasible sched.Infeasible
	means      means
	high       among
	rest       among
	heavies    int // heavy jobs in the queue
}

// unknown is the key of a job of which nothing can be predicted: it goes after
// all others.
const unknown = math.MaxInt64 / 4

// Decide implements sched.Policy. Heavy jobs get the high end first; then all
// jobs are tried in order.
func (s *policy) Decide(v *sched.View, p *sched.Plan) {
	s.follow(v, p)
	if s.heavies > 0 {
		s.walk(v, p, func(r role) bool { return r == heavy }, s.startHigh)
	}
	waited := s.heavies > 0
	s.walk(v, p, func(r role) bool { return r != heavy || s.cfg.Overflow }, s.startAny)
	if waited && s.heavies == 0 { // the last of them went elsewhere: the high end is open
		s.walk(v, p, func(r role) bool { return r == light }, s.startAny)
	}
}

// startHigh starts a heavy job on the high end.
func (s *policy) startHigh(_ *sched.View, p *sched.Plan, id job.ID) bool { return p.Start(id, s.high) }

// startAny starts a job where its role allows.
func (s *policy) startAny(v *sched.View, p *sched.Plan, id job.ID) bool {
	switch s.role[id] {
	case free:
		return p.Start(id, s.cfg.Place)
	case heavy:
		return p.Never(id, s.rest).Code == job.NoReason && p.Start(id, s.rest)
	}
	if p.Start(id, s.rest) {
		return true
	}
	if s.heavies == 0 {
		return p.Start(id, s.high)
	}
	if class := v.Class(v.Job(id).Class()); v.Cluster().FreeMilli(class.Scope, s.high.types) >= class.Amount.GPU {
		p.Wait(id, job.Reason{Code: job.Because, Job: job.None, Text: "the GPUs that are free are kept for heavy jobs, and one of them waits"})
	}
	return false
}

// follow takes in what happened since the last decision.
func (s *policy) follow(v *sched.View, p *sched.Plan) {
	for len(s.role) < v.Jobs() {
		s.role = append(s.role, make([]role, max(256, v.Jobs()-len(s.role), len(s.role)))...)
	}
	s.means.learn(v)
	if v.NodesChanged() {
		s.divide(v.Cluster())
		s.infeasible.Reconsider(v)
		for j := range v.Waiting() {
			s.add(v, p, j)
		}
	}
	for _, ch := range v.Changes() {
		switch j := v.Job(ch.Job); ch.Kind {
		case sched.Arrived, sched.Stopped:
			s.add(v, p, j)
		case sched.Altered:
			if s.queue.Has(ch.Job) {
				s.add(v, p, j)
			}
		case sched.Ended:
			s.remove(ch.Job)
			s.infeasible.Remove(ch.Job)
		}
	}
}

func (s *policy) add(v *sched.View, p *sched.Plan, j sched.Job) {
	s.remove(j.ID)
	if s.infeasible.Rejects(p, j.ID, s.cfg.Place) {
		return
	}
	s.infeasible.Remove(j.ID)
	r := s.roleOf(p, j)
	s.role[j.ID] = r
	if r == heavy {
		s.heavies++
	}
	s.queue.Add(j.ID, j.Class()*int32(roles)+int32(r), s.key(p, j))
}

func (s *policy) remove(id job.ID) {
	if s.queue.Remove(id) && s.role[id] == heavy {
		s.heavies--
	}
}

// note is what is remembered of a job whose run time was predicted.
type note struct {
	predicted time.Duration
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return &note{predicted: -1} }

// Kind implements sched.Note.
func (n *note) Kind() string { return "pai" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) { f.Moment("predicted", &n.predicted) }

// key is the place of a job in the order. A prediction is made once, when the job
// comes, and written on the job.
func (s *policy) key(p *sched.Plan, j sched.Job) queue.Key {
	var d time.Duration
	known := true
	switch n, noted := sched.Recall[note](j); {
	case s.cfg.By == Submit:
		return queue.Key{}
	case s.cfg.By == Estimate:
		d, known = j.Remaining()
	case noted:
		return queue.Key{A: int64(n.predicted)}
	default:
		if d, known = told(j.Spec(), s.cfg.By); !known || s.cfg.Predict != Trace {
			d, known = s.means.predict(j.Spec(), s.cfg.By)
		}
		if !known {
			d = unknown
		}
		p.Remember(j.ID, &note{predicted: d})
	}
	if !known {
		d = unknown
	}
	return queue.Key{A: int64(d)}
}

// walk starts whoever fits, in order, among the jobs of some roles.
func (s *policy) walk(v *sched.View, p *sched.Plan, which func(role) bool, start func(*sched.View, *sched.Plan, job.ID) bool) {
	c := v.Cluster()
	worth := func(kind int32) bool {
		class := v.Class(kind / int32(roles))
		if class.Demand.Roles[0].GPU >= unit.One && unit.Milli(c.FreeGPUs(class.Scope, class.Mask))*unit.One < class.Amount.GPU {
			return false
		}
		return which(role(kind%int32(roles))) && c.FreeMilli(class.Scope, class.Mask) >= class.Amount.GPU
	}
	s.queue.Walk(worth, func(id job.ID) queue.Step {
		if !start(v, p, id) {
			return queue.SkipClass
		}
		if s.role[id] == heavy {
			s.heavies--
		}
		return queue.Took
	})
}

// Why implements sched.Explainer.
func (s *policy) Why(v *sched.View, id job.ID) job.Reason {
	class := v.Class(v.Job(id).Class())
	return job.Reason{Code: job.NeedGPUs, Need: class.GPUs, Have: int32(v.Cluster().FreeGPUs(class.Scope, class.Mask)), Job: job.None}
}
