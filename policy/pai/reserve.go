package pai

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// role is how a job is placed.
type role uint8

const (
	free  role = iota // anywhere: it fits only one side, or nothing is reserved
	heavy             // on the high end
	light             // outside of it, or on it while no heavy job waits
	roles
)

// among is a strategy that is restricted to some GPU types.
type among struct {
	types cluster.TypeMask
	where place.Strategy
}

// String implements place.Strategy.
func (a among) String() string { return a.where.String() + " among some types" }

// Place implements place.Strategy.
func (a among) Place(r *place.Request) (why job.Reason, ok bool) {
	all := r.Mask
	defer func() { r.Mask = all }()
	if r.Mask = a.types; all != 0 {
		r.Mask &= all
	}
	if r.Mask == 0 {
		r.Out.Reset()
		return job.Reason{Code: job.NoSuchType, Job: job.None}, false
	}
	return a.where.Place(r)
}

// divide tells the high end from the rest of the cluster; no types are high-end
// where nothing but them, or none of them, is there.
func (s *policy) divide(c *cluster.Cluster) {
	s.high, s.rest = among{where: s.cfg.Place}, among{where: s.cfg.Place}
	for t := range cluster.TypeID(c.Types()) {
		if slices.Contains(s.cfg.Reserve, c.Type(t).Name) {
			s.high.types |= 1 << t
		} else {
			s.rest.types |= 1 << t
		}
	}
}

// roleOf is how a job is placed. One that needs no GPU, or fits only the high end
// or only the rest even if nothing else ran, is free.
func (s *policy) roleOf(p *sched.Plan, j sched.Job) role {
	if s.high.types == 0 || s.rest.types == 0 || size(j.Spec()) == 0 {
		return free
	}
	fits := func(a among) bool { return p.Never(j.ID, a).Code == job.NoReason }
	switch onHigh := fits(s.high); {
	case onHigh && s.isHeavy(j.Spec()):
		return heavy
	case onHigh && fits(s.rest):
		return light
	}
	return free
}

func (s *policy) isHeavy(j *job.Job) bool {
	for i := range j.Demand.Roles {
		if r := &j.Demand.Roles[i]; r.Tasks > 0 && float64(r.GPU) > s.cfg.Heavy*float64(unit.One) {
			return true
		}
	}
	return float64(size(j)) > s.cfg.HeavyGang*float64(unit.One) || slices.Contains(s.cfg.HeavyModels, j.Model)
}
