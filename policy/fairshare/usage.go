package fairshare

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// account is a user of a tenant, or a tenant where users are not told apart.
type account struct {
	tenant tenant.ID
	user   string

	usage float64 // decayed, at the last boundary, in thousandths of a GPU times milliseconds
	since int64   // used since then, likewise
	rate  int64   // held now, in thousandths of a GPU
	at    int64   // up to when since counts, in milliseconds
}

// usage is what accounts have used. Time is divided into periods, as Slurm does;
// at the boundary at which a period ends, what is older decays and what was used
// in the period is added. Between boundaries only whole numbers are added, so
// that the order in which jobs are counted makes no difference.
type usage struct {
	period   int64   // milliseconds
	decay    float64 // in one period
	boundary int64   // number of the last one
	all      []account
	byName   map[accountKey]int32
	of       []int32 // account of each job; -1: it belongs to another part of the cluster
	held     []int64 // by each job, in thousandths of a GPU
}

type accountKey struct {
	tenant tenant.ID
	user   string
}

func newUsage(period, halfLife time.Duration) *usage {
	u := &usage{period: int64(period / time.Millisecond), decay: 1, byName: map[accountKey]int32{}}
	if halfLife > 0 {
		u.decay = math.Exp2(-period.Seconds() / halfLife.Seconds())
	}
	return u
}

func ms(t time.Duration) int64 { return int64(t / time.Millisecond) }

// know makes the accounts of jobs that were submitted since the last call, and
// tells whether there are new ones.
func (u *usage) know(v *sched.View, users bool) bool {
	before := len(u.all)
	for id := len(u.of); id < v.Jobs(); id++ {
		j := v.Job(job.ID(id))
		u.of, u.held = append(u.of, -1), append(u.held, 0)
		if !v.Covers(j) {
			continue
		}
		key := accountKey{tenant: j.Tenant()}
		if users {
			key.user = j.Spec().User
		}
		a, ok := u.byName[key]
		if !ok {
			a = int32(len(u.all))
			u.byName[key] = a
			u.all = append(u.all, account{tenant: key.tenant, user: key.user, at: ms(v.Now)})
		}
		u.of[id] = a
	}
	return len(u.all) > before
}

// advance crosses the boundaries up to now, in milliseconds, and tells whether there were any.
func (u *usage) advance(now int64) bool {
	last := now / u.period
	if last == u.boundary {
		return false
	}
	for ; u.boundary < last; u.boundary++ {
		at := (u.boundary + 1) * u.period
		for i := range u.all {
			a := &u.all[i]
			if at > a.at {
				a.since += a.rate * (at - a.at)
				a.at = at
			}
			a.usage = a.usage*u.decay + float64(a.since)
			a.since = 0
		}
	}
	return true
}

// hold notes what a job holds from now on, in thousandths of a GPU and
// milliseconds.
func (u *usage) hold(id job.ID, milli, now int64) {
	a := &u.all[u.of[id]]
	if now > a.at {
		a.since += a.rate * (now - a.at)
		a.at = now
	}
	a.rate += milli - u.held[id]
	u.held[id] = milli
}

// past is what earlier attempts of a job come to. It cannot be seen in a view,
// so it is noted on the job.
type past struct {
	usage float64 // decayed, at the last boundary before the moment, as in account
	since int64   // time with devices from that boundary on, in milliseconds
	at    int64   // the moment, in milliseconds
	holds bool    // the job has or had devices from the moment on
}

// maxPeriod is the longest time between two boundaries.
const maxPeriod = time.Hour

// note is what is remembered of a job that has had more than one attempt.
type note struct {
	past
	known bool // it is a note at all, even where all else is zero
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "fairshare" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	f.Bool("known", &n.known)
	f.Float("usage", &n.usage)
	sched.Int(f, "since_ms", &n.since)
	sched.Int(f, "at_ms", &n.at)
	f.Bool("holds", &n.holds)
}

// note is the note that says so.
func (q past) note() *note { return &note{q, true} }

// past reads what was noted on a job. A job on which nothing is noted has had one
// attempt at most.
func (u *usage) past(j sched.Job) (q past, ran bool) {
	if n, noted := sched.Recall[note](j); noted {
		return n.past, true
	}
	first, ran := j.FirstStart()
	return past{at: ms(max(first, 0)), holds: ran}, ran
}

// ended is when the last attempt of a job that does not run ended, in
// milliseconds.
func ended(j sched.Job) int64 {
	if _, noted := sched.Recall[note](j); noted {
		return ms(j.Since())
	}
	first, _ := j.FirstStart() // there was one attempt only
	return ms(first + j.RunTime())
}

// after is the past at a later moment, for a job that holds so many thousandths
// of a GPU while it holds any.
func (u *usage) after(q past, at int64, milli float64) past {
	k := at/u.period - q.at/u.period
	if q.holds {
		q.since += min(at, (q.at/u.period+1)*u.period) - q.at
	}
	if k > 0 {
		left := math.Pow(u.decay, float64(k-1))
		q.usage = (q.usage*u.decay + float64(q.since)*milli) * left
		q.since = 0
		if q.holds {
			whole := float64(k - 1)
			if u.decay < 1 {
				whole = (1 - left) / (1 - u.decay)
			}
			q.usage += whole * float64(u.period) * milli
			q.since = at % u.period
		}
	}
	q.at = at
	return q
}

// stopped is the past of a job that waits again, started that of one that starts
// again.
func (u *usage) stopped(v *sched.View, j sched.Job) past {
	q, _ := u.past(j)
	if q.holds {
		q = u.after(q, ended(j), float64(v.Class(j.Class()).Amount.GPU))
	}
	q.holds = false
	return q
}

func (u *usage) started(v *sched.View, j sched.Job) past {
	q := u.after(u.stopped(v, j), ms(v.Now), float64(v.Class(j.Class()).Amount.GPU))
	q.holds = true
	return q
}

// event is something that changes an account.
type event struct {
	at    int64 // milliseconds
	job   job.ID
	milli int64 // held from then on
	past  past
}

// recall makes the accounts from what the view shows of all jobs, for a policy
// that starts anew.
func (u *usage) recall(v *sched.View) {
	var events []event
	for i, acc := range u.of {
		j := v.Job(job.ID(i))
		q, ran := u.past(j)
		if acc < 0 || !ran {
			continue
		}
		first := event{at: q.at, job: j.ID, past: q}
		if q.holds {
			first.milli = int64(v.Class(j.Class()).Amount.GPU)
		}
		events = append(events, first)
		if j.Running() && !q.holds { // another policy started it
			events = append(events, event{at: max(q.at, ms(j.Since())), job: j.ID, milli: int64(v.Class(j.Class()).Amount.GPU)})
		}
		if q.holds && !j.Running() {
			events = append(events, event{at: ended(j), job: j.ID})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for i := range u.all {
		u.all[i].at = 0
	}
	for _, e := range events {
		u.advance(e.at)
		a := &u.all[u.of[e.job]]
		a.usage += e.past.usage
		a.since += e.past.since * int64(v.Class(v.Job(e.job).Class()).Amount.GPU)
		u.hold(e.job, e.milli, e.at)
	}
	u.advance(ms(v.Now))
}
