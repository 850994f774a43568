package rounds

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/unit"
)

// Targets are the shares of time that jobs shall have from now on: for each of
// the jobs, and then for each of some pairs of them that share devices, a number for each
// of the types, in the order in which they were given.
type Targets struct {
	Shares [][]float64
	Pairs  [][2]int // places of the jobs

	// Together are shares of time in which jobs run together on one node, beside those of
	// the jobs in Shares, in which they may be spread; nil: there are none.
	Together [][]float64
}

// Member is a job whose share is to be settled.
type Member struct {
	sched.Job
	// Own is a number of the policy's own that travels with the job (Shares.Own); it
	// is 0 for a new one. What is written here is remembered.
	Own *float64
	// Solo tells that it shares devices with nobody any more: it was evicted once because
	// their memory did not suffice.
	Solo bool
}

// Shares turns shares of time into rounds. In an epoch targets stay as they are,
// and jobs are served by priority. When jobs have come or gone, or what there is
// to share has changed, a new epoch begins: what is owed becomes a deficit, which
// breaks ties from then on, and new targets are settled.
//
// Shares remembers all that on the jobs: a policy that uses it must not write
// memos of its own.
type Shares struct {
	// Settle finds new targets for the members: the jobs of the round and those that
	// are left alone for now. They share what Round.Shared tells.
	Settle func(r *Round, members []Member) Targets
	// Least is how long an epoch lasts at least, as long as nothing is lost.
	Least time.Duration
	// Own tells that the policy remembers a number of its own for each job. There is
	// then room for the targets of a job on two types, otherwise on three.
	Own bool
	// Pairs tells that jobs may share devices, two at a time. What is owed is then
	// forgotten when an epoch ends, which is after 60 rounds at the latest. The Runner
	// must know too.
	Pairs bool
	// Together tells that there are claims on time together on one node (not with Pairs).
	// The Runner must know too.
	Together bool

	jobs     []sched.Job // of the round, those left alone for now included, by number
	accounts []account   // of each
	sharers  int
	members  []Member
	own      []float64
	bids     []Bid
}

// How long an epoch lasts at most: what was received could not be counted beyond.
const (
	mostRounds     = 250
	mostPairRounds = 60
)

// layout is what is remembered.
func (s *Shares) layout() layout { return layout{s.Own, s.Pairs, s.Together} }

// Begin must be called where a round begins, before any job is taken. It counts what
// was received in the round that has ended and begins a new epoch where one is due.
func (s *Shares) Begin(r *Round) {
	check := s.load(r)
	epoch, ok := s.epoch(r, check)
	s.known(epoch, check)
	age := (r.Number - epoch) & (epochs - 1)
	for i, j := range s.jobs {
		if ok && s.accounts[i].valid(epoch, check) {
			s.receive(r, &s.accounts[i], j)
		}
	}
	changed := s.changed(r, epoch, check, age)
	most := int64(mostRounds)
	if s.Pairs {
		most = mostPairRounds
	}
	switch least := int64((s.Least + r.Length - 1) / r.Length); {
	case !ok, age >= most, age >= least && changed:
		s.renew(r, epoch, check, float64(age))
	}
}

// End must be called where a round begins, after the jobs were taken. It writes on
// the jobs what is to be remembered.
func (s *Shares) End(r *Round) {
	for i, j := range s.jobs {
		a := &s.accounts[i]
		if !a.known {
			continue
		}
		if a.stamp = 0; r.Taken(j.ID) {
			a.stamp = stamp(r)
		}
		if m := a.memo(s.layout()); m != j.Memo() {
			r.Plan.Remember(j.ID, m)
		}
	}
}

// stamp tells the round apart from the ones before.
func stamp(r *Round) uint8 { return uint8(r.Number%stamps) + 1 }

// load reads what was written on the jobs, and tells by what number to know what
// there is to share now.
func (s *Shares) load(r *Round) (check uint8) {
	s.jobs = append(append(s.jobs[:0], r.Jobs...), r.Alone...)
	slices.SortFunc(s.jobs, func(a, b sched.Job) int { return cmp.Compare(a.ID, b.ID) })
	s.accounts = slices.Grow(s.accounts[:0], len(s.jobs))[:len(s.jobs)]
	for i, j := range s.jobs {
		a := &s.accounts[i]
		a.read(j.Memo(), s.layout())
		a.solo = a.solo || s.Pairs && j.Reason().Code == job.OutOfMemory
	}
	sum := uint64(0)
	for _, t := range r.Types {
		sum = sum*1_000_003 + uint64(r.View.TotalOf(1<<t)) + 1
	}
	return uint8(sum % checks)
}

// valid tells whether an account is of an epoch.
func (a *account) valid(epoch int64, check uint8) bool {
	return a.known && a.epoch == epoch && a.check == check
}

// epoch is the last epoch that is written on any job; ok is false when none is.
func (s *Shares) epoch(r *Round, check uint8) (epoch int64, ok bool) {
	youngest := int64(epochs)
	for i := range s.accounts {
		if a := &s.accounts[i]; a.known && a.check == check {
			if age := (r.Number - a.epoch) & (epochs - 1); age < youngest {
				youngest, epoch, ok = age, a.epoch, true
			}
		}
	}
	return epoch, ok
}

// receive counts the round that has ended, unless that was done before at this very
// moment: a round may be asked for several times, and must come out the same.
func (s *Shares) receive(r *Round, a *account, j sched.Job) {
	t, ok := r.Holds(j)
	if !ok || a.stamp == stamp(r) {
		return
	}
	with, near := r.Beside(j), a.near && r.View.Alloc(j.ID).Nodes() == 1
	for i := range a.entries {
		if e := &a.entries[i]; e.t == t && e.with == with && (e.near == near || !a.has(t, near)) {
			e.Received += min(1, float64(r.View.Now-j.Since())/float64(r.Length))
			s.layout().round(&e.Claim)
		}
	}
}

// has tells whether there is a claim on a type for oneself, on time together or not.
func (a *account) has(t cluster.TypeID, near bool) bool {
	return slices.ContainsFunc(a.entries, func(e entry) bool { return e.t == t && e.with == job.None && e.near == near })
}

// changed tells whether jobs have come or gone since the epoch began, and counts
// those who shared in it.
func (s *Shares) changed(r *Round, epoch int64, check uint8, age int64) (changed bool) {
	s.sharers = 0
	for i := range s.accounts {
		if s.accounts[i].valid(epoch, check) {
			s.sharers++
		} else {
			changed = true
		}
	}
	began := r.run.Grid.Start(r.Number - age)
	gone := r.View.Ended()
	for i := len(gone) - 1; i >= 0; i-- {
		j := r.View.Job(gone[i])
		if ended(j) <= began {
			break
		}
		if r.View.Covers(j) {
			changed = true
			var a account
			if a.read(j.Memo(), s.layout()); a.valid(epoch, check) {
				s.sharers++
			}
		}
	}
	return changed
}

// Sharers is the number of jobs that had shares in the epoch that has ended, for
// Settle.
func (s *Shares) Sharers() int { return s.sharers }

// ended is when a job left for good.
func ended(j sched.Job) time.Duration {
	if !j.Phase().Over() {
		return unit.Never
	}
	return j.Since()
}

// renew begins a new epoch.
func (s *Shares) renew(r *Round, epoch int64, check uint8, age float64) {
	s.members, s.own = s.members[:0], append(s.own[:0], make([]float64, len(s.jobs))...)
	for i, j := range s.jobs {
		s.own[i] = float64(s.accounts[i].own)
		s.members = append(s.members, Member{j, &s.own[i], s.accounts[i].solo})
	}
	targets := s.Settle(r, s.members)
	for i := range s.jobs {
		a := &s.accounts[i]
		if !a.valid(epoch, check) {
			a.entries = a.entries[:0] // what it was owed in epochs that it has missed is forgotten
		}
		for k := range a.entries {
			a.entries[k].Close(age)
			a.entries[k].Target = 0
		}
		if s.Pairs {
			a.entries = a.entries[:0]
		}
		for k, t := range r.Types {
			if x := share(targets.Shares, i, k); x > 0 {
				a.claim(t, false).Target = x
			}
			if x := share(targets.Together, i, k); x > 0 {
				a.claim(t, true).Target = x
			}
		}
		a.known, a.epoch, a.check, a.own = true, r.Number&(epochs-1), check, float32(s.own[i])
		if !s.Pairs {
			a.shorten(s.layout())
		}
	}
	if s.Pairs {
		s.divide(r, targets)
	}
}

// share is the share of a job on the type with a place, 0 where none was given.
func share(shares [][]float64, i, k int) float64 {
	if i < len(shares) && k < len(shares[i]) {
		return shares[i][k]
	}
	return 0
}

// claim is the claim on a type, made where there is none.
func (a *account) claim(t cluster.TypeID, near bool) *Claim {
	for i := range a.entries {
		if e := &a.entries[i]; e.t == t && e.near == near {
			return &e.Claim
		}
	}
	a.entries = append(a.entries, entry{t: t, with: job.None, near: near})
	return &a.entries[len(a.entries)-1].Claim
}

// shorten rounds the claims and keeps the largest of them, in the order of the
// types.
func (a *account) shorten(l layout) {
	for i := range a.entries {
		l.round(&a.entries[i].Claim)
	}
	a.entries = slices.DeleteFunc(a.entries, func(e entry) bool { return e.Claim == Claim{} })
	if n := l.room(); len(a.entries) > n {
		slices.SortStableFunc(a.entries, func(x, y entry) int {
			return cmp.Or(cmp.Compare(y.Target, x.Target), cmp.Compare(y.Deficit, x.Deficit), cmp.Compare(x.t, y.t), first(x.near, y.near))
		})
		a.entries = a.entries[:n]
	}
	slices.SortFunc(a.entries, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.t, y.t), cmp.Compare(x.with, y.with), first(x.near, y.near))
	})
}

// Bids are the bids of the jobs of the round, and of pairs of them, for a type, in the
// order in which they are served, after Begin: first those with claims on it, then,
// where idle is true, the others, whose priority is zero. The slice is valid until the
// next call.
func (s *Shares) Bids(r *Round, t cluster.TypeID, idle bool) []Bid {
	s.bids = s.bids[:0]
	for i, j := range s.jobs {
		if r.Taken(j.ID) {
			continue
		}
		near := s.accounts[i].on(t, true)
		if near.Target > 0 {
			b := near.Bid(j.ID, t)
			b.Together = true
			s.bids = append(s.bids, b)
		}
		if c := s.accounts[i].on(t, false); c.Target > 0 || idle && near.Target == 0 {
			s.bids = append(s.bids, c.Bid(j.ID, t))
		}
		if s.Pairs {
			s.pairBids(r, t, i)
		}
	}
	Sort(s.bids)
	return s.bids
}

// on is the claim on a type for oneself.
func (a *account) on(t cluster.TypeID, near bool) Claim {
	for _, e := range a.entries {
		if e.t == t && e.with == job.None && e.near == near {
			return e.Claim
		}
	}
	return Claim{}
}

// Walk takes jobs of the round by their bids, type after type in the order given.
// With idle, devices that nobody has a claim on go to whoever can use them:
// speed says who can. They are also where no node has room for a gang that was to be
// together.
func (s *Shares) Walk(r *Round, types []cluster.TypeID, idle bool, speed func(job sched.Job, t cluster.TypeID) float64) {
	for _, t := range types {
		var apart []sched.Job // they were to be together, and could not
		for _, b := range s.Bids(r, t, idle) {
			if r.left[t] <= 0 {
				break
			}
			switch j := r.View.Job(b.Job); {
			case b.With != job.None:
				r.TakePair(j, r.View.Job(b.With), t)
			case b.Together:
				if r.TakeTogether(j, t) {
					s.served(j.ID, true)
				} else if idle {
					apart = append(apart, j)
				}
			case b.Target > 0 || speed(j, t) > 0:
				if r.Take(j, t) {
					s.served(j.ID, false)
				}
			}
		}
		for _, j := range apart {
			if r.Take(j, t) {
				s.served(j.ID, false)
			}
		}
	}
}

// served notes by which of its claims a job was served.
func (s *Shares) served(id job.ID, near bool) {
	if i, ok := slices.BinarySearchFunc(s.jobs, id, func(j sched.Job, id job.ID) int { return cmp.Compare(j.ID, id) }); s.Together && ok {
		s.accounts[i].near = near
	}
}
