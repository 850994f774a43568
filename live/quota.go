package live

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Quota is how much one user, or one tenant, may have and ask for. 0: no limit.
type Quota struct {
	Queued   int           // jobs that wait or are held
	Running  int           // jobs that have devices, or may start
	GPUs     float64       // that these ask for
	Memory   api.Bytes     // likewise, in main memory
	Array    int           // jobs of one array
	Priority int           // of a job
	Grace    time.Duration // of a job, for its checkpoint
	PIDs     int           // processes and threads of a user
}

// Quotas are those of each user and of each tenant. Operators have none.
type Quotas struct{ User, Tenant Quota }

// Refuses refuses what a submission of so many jobs asks for and never gets; whose says
// whose limits these are.
func (q *Quota) Refuses(whose string, spec *api.JobSpec, jobs int) error {
	no := func(format string, args ...any) error {
		return api.Refuse(api.Denied, "%s, by the limits %s", fmt.Sprintf(format, args...), whose)
	}
	most := spec.GPUs.Most
	if spec.GPUs.Ask > most {
		most = spec.GPUs.Ask
	}
	p := int64(spec.Priority)
	switch grace := spec.Stop.Grace.Duration(); {
	case q.Array > 0 && jobs > q.Array:
		return no("an array may have at most %d jobs, this one has %d", q.Array, jobs)
	case q.Priority > 0 && p > int64(q.Priority):
		return no("a priority may be at most %d, this one is %d", q.Priority, p)
	case q.Grace > 0 && grace > q.Grace:
		return no("a checkpoint may take at most %s (grace), this one %s", unit.Human(q.Grace), unit.Human(grace))
	case q.GPUs > 0 && most > q.GPUs:
		return no("jobs may hold at most %v GPUs together, this one asks for %v", q.GPUs, most)
	case q.Memory > 0 && spec.Memory == 0:
		return no("jobs may have %v of memory together, so that each must say how much it needs (--mem)", unit.Bytes(q.Memory))
	case q.Memory > 0 && spec.Memory > q.Memory:
		return no("jobs may have %v of memory together, this one asks for %v", unit.Bytes(q.Memory), unit.Bytes(spec.Memory))
	}
	return nil
}

// standing is how a job counts for those whom it belongs to.
type standing uint8

const (
	gone   standing = iota
	kept            // it is held
	ready           // it waits, and may start at any moment
	placed          // it has devices, or leaves them
)

// standingOf is how a job counts in a phase.
func standingOf(p job.Phase) standing {
	switch {
	case p.Over() || p == job.Unknown:
		return gone
	case p == job.Held:
		return kept
	case p == job.Waiting:
		return ready
	}
	return placed
}

// belonging counts the jobs of one user, of one tenant, or of one array.
type belonging struct {
	n      [placed + 1]int
	gpus   float64 // asked for by those that are ready or placed
	memory api.Bytes
}

// all are the jobs that have not ended.
func (b *belonging) all() int { return b.n[kept] + b.n[ready] + b.n[placed] }

// started are those that run or may start.
func (b *belonging) started() int { return b.n[ready] + b.n[placed] }

// add counts a job, or with -1 no more.
func (b *belonging) add(l *Job, s standing, sign int) {
	b.n[s] += sign
	if s == ready || s == placed {
		b.gpus += float64(sign) * l.Spec.GPUs.Ask
		b.memory += api.Bytes(sign) * l.Spec.Memory
	}
}

// counts are the belongings of all. The zero value counts nothing.
type counts map[string]*belonging

// The owners of jobs.
func ofUser(name string) string   { return "user " + name }
func ofTenant(name string) string { return "tenant " + name }
func ofArray(key string) string   { return "array " + key }

// owners are whom a job belongs to.
func (j *Job) owners() []string {
	out := []string{ofUser(j.User), ofTenant(j.Spec.Tenant)}
	if j.Array != "" {
		out = append(out, ofArray(j.Array))
	}
	return out
}

// of is what belongs to somebody.
func (c counts) of(owner string) *belonging {
	if b := c[owner]; b != nil {
		return b
	}
	return new(belonging)
}

// set notes how a job stands from now on, and tells whether it makes room for others.
func (c counts) set(l *Job, to standing) (room bool) {
	if l.counted == to {
		return false
	}
	for _, owner := range l.owners() {
		b := c[owner]
		if b == nil {
			b = new(belonging)
			c[owner] = b
		}
		if l.counted != gone {
			b.add(l, l.counted, -1)
		}
		if to != gone {
			b.add(l, to, 1)
		}
		if b.all() == 0 {
			delete(c, owner)
		}
	}
	room = (l.counted == ready || l.counted == placed) && to != ready && to != placed
	l.counted = to
	return room
}

// Room refuses so many more jobs of a submission where there are enough: of its user, of
// its tenant, or of everybody. When the queue of all fills up, nobody may have more of it
// than is still free: so there is always room for others. Those of operators are taken
// as long as there is any.
func (d *Daemon) Room(l *Job, more int) error {
	busy := func(format string, args ...any) error { return api.Refuse(api.Unavailable, format, args...) }
	most, have := d.cfg.Jobs, len(d.byKey)+len(d.arrived)
	if most > 0 && have+more > most {
		return busy("there are %d jobs that have not ended, at most %d are taken", have, most)
	}
	if l.Exempt {
		return nil
	}
	mine := d.counts.of(ofUser(l.User))
	if left := most - have - more; most > 0 && mine.all()+more > left {
		return busy("the queue of all fills up (%d of %d jobs): user %s has %d of them, and may not have more than are still free for others", have, most, l.User, mine.all())
	}
	for _, q := range d.quotasOf(l) {
		if b := d.counts.of(q.owner); q.Queued > 0 && b.n[kept]+b.n[ready]+more > q.Queued {
			return busy("%s has %d jobs that wait, and may have at most %d", q.owner, b.n[kept]+b.n[ready], q.Queued)
		}
	}
	return nil
}

// owned is a quota of somebody.
type owned struct {
	Quota
	owner string
}

// quotasOf are those that a job has to keep to.
func (d *Daemon) quotasOf(l *Job) (out []owned) {
	if !l.Exempt {
		out = append(out, owned{d.cfg.Quotas.User, ofUser(l.User)}, owned{d.cfg.Quotas.Tenant, ofTenant(l.Spec.Tenant)})
	}
	if l.Array != "" && l.AtOnce > 0 {
		out = append(out, owned{Quota{Running: l.AtOnce}, ofArray(l.Array)})
	}
	return out
}

// turn tells whether a job that is held may start as far as quotas go, and why not.
func (d holds) turn(l *Job) (why string, waits bool) {
	if l.counted == ready || l.counted == placed || l.Passed {
		return "", false
	}
	for _, q := range d.quotasOf(l) {
		b := d.counts.of(q.owner)
		switch {
		case q.Running > 0 && b.started()+1 > q.Running:
			return fmt.Sprintf("waits until others end: %s runs %d jobs, or may, of at most %d", q.owner, b.started(), q.Running), true
		case q.GPUs > 0 && b.gpus+l.Spec.GPUs.Ask > q.GPUs+1e-9:
			return fmt.Sprintf("waits until others end: jobs of %s that run, or may, ask for %v GPUs of at most %v", q.owner, b.gpus, q.GPUs), true
		case q.Memory > 0 && b.memory+l.Spec.Memory > q.Memory:
			return fmt.Sprintf("waits until others end: jobs of %s that run, or may, ask for %v of memory of at most %v", q.owner, unit.Bytes(b.memory), unit.Bytes(q.Memory)), true
		}
	}
	return "", false
}

// limited tells whether any quota could ever hold a job.
func (d *Daemon) limited(l *Job) bool {
	return slices.ContainsFunc(d.quotasOf(l), func(q owned) bool { return q.Running > 0 || q.GPUs > 0 || q.Memory > 0 })
}

// count notes how a job stands in its phase, and has those look again that wait for their
// turn when it makes room.
func (d *Daemon) count(l *Job, p job.Phase) {
	if d.counts.set(l, standingOf(p)) && d.limited(l) {
		d.lookAtTurns()
	}
}

// lookAtTurns has those look again that wait for their turn.
func (d *Daemon) lookAtTurns() {
	if !d.turning {
		d.turning = true
		d.Loop.Later(holds{d}.nextTurns)
		d.Loop.RequestDecision()
	}
}

// nextTurns lets those go whose turn it is: the more urgent ones first, then in
// the order of their numbers. Each one sees what those before it have taken.
func (d holds) nextTurns() error {
	d.turning = false
	var all []*Job
	for l := range d.All() {
		if l.counted == kept && !l.Held && len(l.After) == 0 && l.Until <= d.Loop.Now() && l.Broken == "" && d.limited(l) {
			all = append(all, l)
		}
	}
	slices.SortStableFunc(all, func(a, b *Job) int { return int(b.Spec.Priority) - int(a.Spec.Priority) })
	for _, l := range all {
		if _, waits := d.turn(l); waits {
			continue
		}
		if d.Loop.Touch(l.ID) != nil { // something has happened to it in this very instant
			d.lookAtTurns()
			continue
		}
		d.freeIf(l)
	}
	return nil
}
