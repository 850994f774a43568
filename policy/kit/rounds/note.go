package rounds

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// account is what Shares remembers of a job: its own claims, and the claims of
// its pairs with jobs that were submitted later.
type account struct {
	epoch   time.Duration // when the epoch of the claims began; -1: nothing is noted
	check   uint32        // checksum of what there was to share then
	served  time.Duration // beginning of the first of the rounds in a row, up to the last one, in which it was served; -1: it was not served in the last one
	held    time.Duration // its run time by then
	near    bool          // it was last served by a claim on time on a single node
	solo    bool          // it shares devices with no job, because memory did not suffice once
	own     float64       // a number of the policy's own
	entries []entry

	goesOn bool // not noted: since then it has been served without a break, by one claim
}

// entry is one claim.
type entry struct {
	t    cluster.TypeID
	name string // name of the type, since another log may list types in another order
	pair bool   // it is the claim of a pair
	with job.ID // the other job of the pair; job.None: it is no longer known
	near bool   // it is a claim on time on a single node
	on   bool   // the job has been served by this claim since the round in served
	Claim
}

// NewNote is an empty note of Shares, for the tables of policies that use it.
func NewNote() sched.Note { return new(account) }

// Kind implements sched.Note.
func (a *account) Kind() string { return "rounds" }

// Fields implements sched.Note.
func (a *account) Fields(f *sched.Fields) {
	f.Moment("epoch", &a.epoch)
	sched.Int(f, "check", &a.check)
	f.Moment("served", &a.served)
	f.Duration("held", &a.held)
	f.Bool("near", &a.near)
	f.Bool("solo", &a.solo)
	f.Float("own", &a.own)
	sched.List(f, "claims", &a.entries, (*entry).fields)
}

func (e *entry) fields(f *sched.Fields) {
	f.Text("type", &e.name)
	f.Bool("pair", &e.pair)
	f.Ref("with", &e.with)
	f.Bool("near", &e.near)
	f.Bool("on", &e.on)
	f.Float("target", &e.Target)
	f.Float("received", &e.Received)
	f.Float("deficit", &e.Deficit)
}

// known tells whether anything is noted.
func (a *account) known() bool { return a.epoch >= 0 }

// valid tells whether an account is of an epoch.
func (a *account) valid(epoch time.Duration, check uint32) bool {
	return a.known() && a.epoch == epoch && a.check == check
}

// read reads the note of a job. Claims on types that are gone are dropped.
func (a *account) read(j sched.Job, c *cluster.Cluster) {
	entries := a.entries[:0]
	noted, _ := sched.Recall[account](j)
	for _, e := range noted.entries {
		for t := range cluster.TypeID(c.Types()) {
			if e.t = t; c.Type(t).Name == e.name {
				entries = append(entries, e)
				break
			}
		}
	}
	*a, a.entries = noted, entries
}

// write notes the account of a job after the jobs of this round were served. A
// job that is served by the same claim, round after round, needs no new note:
// its run time tells the rounds.
func (a *account) write(r *Round, j sched.Job) {
	taken := r.Served(j.ID)
	if a.goesOn && taken {
		return
	}
	was, _ := sched.Recall[account](j)
	if a.served, a.held = -1, 0; taken {
		a.served, a.held = r.View.Now, j.RunTime()
	}
	on := a.serving(r, j)
	for i := range a.entries {
		a.entries[i].on = taken && i == on
	}
	same := slices.EqualFunc(was.entries, a.entries, func(x, y entry) bool {
		x.t = y.t // the type is found by its name
		return x == y
	})
	if same && was.epoch == a.epoch && was.check == a.check && was.served == a.served && was.held == a.held && was.near == a.near && was.solo == a.solo && was.own == a.own {
		return
	}
	now := *a
	now.entries, now.goesOn = slices.Clone(a.entries), false
	sched.Remember(r.Plan, j.ID, now)
}

// serving is the index of the claim by which a running job is served, or -1.
func (a *account) serving(r *Round, j sched.Job) int {
	t, ok := r.TypeOf(j)
	if !ok {
		return -1
	}
	with, near := r.Beside(j), a.near && r.View.Alloc(j.ID).Nodes() == 1
	return slices.IndexFunc(a.entries, func(e entry) bool {
		return e.t == t && e.pair == (with != job.None) && e.with == with && (e.near == near || !a.has(t, near))
	})
}

// has tells whether the job alone has a claim on a type, on time on a single
// node (near) or not.
func (a *account) has(t cluster.TypeID, near bool) bool {
	return slices.ContainsFunc(a.entries, func(e entry) bool { return e.t == t && !e.pair && e.near == near })
}

// claim is the claim of the job on a type, or that of its pair with another
// one. It is made if there is none.
func (a *account) claim(t cluster.TypeID, name string, with job.ID, near bool) *Claim {
	pair := with != job.None
	for i := range a.entries {
		if e := &a.entries[i]; e.t == t && e.pair == pair && e.with == with && e.near == near {
			return &e.Claim
		}
	}
	a.entries = append(a.entries, entry{t: t, name: name, pair: pair, with: with, near: near})
	return &a.entries[len(a.entries)-1].Claim
}

// on is the claim of the job alone on a type.
func (a *account) on(t cluster.TypeID, near bool) Claim {
	for _, e := range a.entries {
		if e.t == t && !e.pair && e.near == near {
			return e.Claim
		}
	}
	return Claim{}
}

// tidy rounds the claims, drops the empty ones, and puts them in the order of
// the types.
func (a *account) tidy() {
	for i := range a.entries {
		a.entries[i].Claim.round()
	}
	a.entries = slices.DeleteFunc(a.entries, func(e entry) bool { return e.Claim == Claim{} })
	slices.SortFunc(a.entries, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.t, y.t), cmp.Compare(x.with, y.with), first(x.near, y.near))
	})
}

// round rounds a claim to millionths, because programs answer for like jobs
// with numbers that differ in the last digits. A target is never rounded down
// to 0.
func (c *Claim) round() {
	const parts = 1e6
	aims := c.Target > 0
	for _, x := range [...]*float64{&c.Target, &c.Received, &c.Deficit} {
		*x = math.Round(*x*parts) / parts
	}
	if aims {
		c.Target = max(c.Target, 1/parts)
	}
}
