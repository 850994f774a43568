package rounds

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// Targets are the shares of time that jobs shall have from now on. There is a
// row for each of the jobs, and then one for each pair that shares devices. A
// row has a number from 0 to 1 for each type. Jobs and types are in the order
// in which they were given.
type Targets struct {
	Shares [][]float64
	Pairs  [][2]int // indices of the two jobs

	// Together are shares of time in which jobs run on a single node, or nil. They
	// come on top of Shares, in which jobs may be spread.
	Together [][]float64
}

// Member is a job whose share is to be settled.
type Member struct {
	sched.Job
	// Own is a number of the policy's own that is remembered with the job. It is 0
	// for a new job, and the policy may write it.
	Own *float64
	// Solo tells that the job shares devices with no other one. It was evicted once
	// because their memory did not suffice.
	Solo bool
}

// Shares turns shares of time into rounds. Within an epoch targets stay as they
// are, and jobs are served by priority. A new epoch begins when jobs have come
// or gone, or when what there is to share has changed. Rounds that are owed
// then become a deficit, which breaks ties from then on, and new targets are
// settled.
//
// Shares notes all that on the jobs (NewNote), so a policy that uses it must
// not write notes of its own. The claim of a pair is noted on the job that was
// submitted first.
type Shares struct {
	// Settle finds new targets for the members: the jobs of the round and those
	// that are left alone for now. Together they share Round.Shared.
	Settle func(r *Round, members []Member) Targets
	// Least is the least length of an epoch, unless devices are lost.
	Least time.Duration
	// Terms names the rules by which targets are settled. A new epoch begins when
	// they differ from those of the last epoch.
	Terms string
	// Pairs tells that jobs may share devices, two at a time. Policy.Pairs must be
	// set, too.
	Pairs bool
	// Together tells that there are claims on time on a single node (not with
	// Pairs). Policy.Together must be set, too.
	Together bool

	jobs     []sched.Job // jobs of the round, including those left alone for now, by number
	accounts []account   // of each
	sharers  int
	members  []Member
	own      []float64
	bids     []Bid
}

// Begin must be called when a round begins, before any job is served. It counts
// what jobs received in the round that has ended, and begins a new epoch if one
// is due.
func (s *Shares) Begin(r *Round) {
	check := s.load(r)
	epoch, ok := s.epoch(r, check)
	for i, j := range s.jobs {
		if s.accounts[i].valid(epoch, check) {
			s.receive(r, &s.accounts[i], j)
		}
	}
	s.sharers = 0
	if !ok || s.changed(r, epoch, check) && r.View.Now-epoch >= s.Least {
		s.renew(r, epoch, check)
	}
}

// End must be called when a round begins, after the jobs were served. It writes
// the notes of the jobs.
func (s *Shares) End(r *Round) {
	for i, j := range s.jobs {
		a := &s.accounts[i]
		if a.known() {
			a.write(r, j)
		}
	}
}

// load reads the notes of the jobs. It returns a checksum of the devices that
// there are to share now, and of the rules.
func (s *Shares) load(r *Round) (check uint32) {
	s.jobs = append(append(s.jobs[:0], r.Jobs...), r.Alone...)
	slices.SortFunc(s.jobs, func(a, b sched.Job) int { return cmp.Compare(a.ID, b.ID) })
	s.accounts = slices.Grow(s.accounts[:0], len(s.jobs))[:len(s.jobs)]
	c := r.View.Cluster()
	for i, j := range s.jobs {
		a := &s.accounts[i]
		a.read(j, c)
		a.solo = a.solo || s.Pairs && j.OutOfMemory()
	}
	there := make([]string, 0, len(r.Types))
	for _, t := range r.Types {
		there = append(there, fmt.Sprintf("%d %s", r.View.TotalOf(1<<t), c.Type(t).Name))
	}
	slices.Sort(there)
	h := fnv.New32a()
	fmt.Fprintf(h, "%v %v %v %q %q", r.Length, s.Pairs, s.Together, s.Terms, there)
	return h.Sum32()
}

// epoch is the latest beginning of an epoch that is noted on any job; ok is
// false when there is none.
func (s *Shares) epoch(r *Round, check uint32) (epoch time.Duration, ok bool) {
	epoch = -1
	for i := range s.accounts {
		if a := &s.accounts[i]; a.known() && a.check == check && a.epoch <= r.View.Now {
			epoch = max(epoch, a.epoch)
		}
	}
	return epoch, epoch >= 0
}

// receive counts what a job has received since its note. These are the rounds
// after the first one in which it was served, and the round that has ended, of
// which it may have run only a part. receive may be called several times in a
// round, and must give the same result.
func (s *Shares) receive(r *Round, a *account, j sched.Job) {
	if a.served == r.View.Now {
		return
	}
	was, now := slices.IndexFunc(a.entries, func(e entry) bool { return e.on }), a.serving(r, j)
	var stay time.Duration // time on its present devices
	if j.Running() {
		stay = r.View.Now - j.Since()
	}
	whole := (j.RunTime() - a.held - stay) / r.Length // number of rounds before that
	unbroken := j.Running() && j.Since() <= a.served
	if unbroken {
		whole = (r.View.Now-a.served)/r.Length - 1
	}
	if was >= 0 && a.served >= 0 {
		a.entries[was].Received += float64(whole)
		a.entries[was].round()
	}
	if now >= 0 {
		a.entries[now].Received += min(1, float64(stay)/float64(r.Length))
		a.entries[now].round()
	}
	a.goesOn = unbroken && was == now
}

// changed tells whether jobs have come or gone since the epoch began, or a pair
// no longer exists. It also counts the jobs that had shares in the epoch.
func (s *Shares) changed(r *Round, epoch time.Duration, check uint32) (changed bool) {
	for i := range s.accounts {
		a := &s.accounts[i]
		if a.valid(epoch, check) {
			s.sharers++
		} else {
			changed = true
		}
		changed = changed || slices.ContainsFunc(a.entries, func(e entry) bool { return e.Target > 0 && s.void(r, i, e) })
	}
	gone := r.View.Ended()
	for i := len(gone) - 1; i >= 0; i-- {
		j := r.View.Job(gone[i])
		if j.Since() < epoch {
			break
		}
		if !r.View.Covers(j) {
			continue
		}
		a, _ := sched.Recall[account](j)
		if a.valid(epoch, check) {
			s.sharers++
		}
		changed = changed || j.Since() > epoch || a.valid(epoch, check)
	}
	return changed
}

// Sharers is the number of jobs that had shares in the epoch that has ended, for
// Settle.
func (s *Shares) Sharers() int { return s.sharers }

// renew begins a new epoch.
func (s *Shares) renew(r *Round, epoch time.Duration, check uint32) {
	s.members, s.own = s.members[:0], append(s.own[:0], make([]float64, len(s.jobs))...)
	for i, j := range s.jobs {
		s.own[i] = s.accounts[i].own
		s.members = append(s.members, Member{j, &s.own[i], s.accounts[i].solo})
	}
	targets := s.Settle(r, s.members)
	rounds := float64((r.View.Now - epoch) / r.Length)
	for i := range s.accounts {
		s.accounts[i].entries = s.owed(r, i, epoch, check)
	}
	for i := range s.accounts {
		a := &s.accounts[i]
		for k := range a.entries {
			a.entries[k].Close(rounds)
			a.entries[k].Target = 0
		}
		a.epoch, a.check, a.own, a.goesOn = r.View.Now, check, s.own[i], false
	}
	s.aim(r, targets)
	for i := range s.accounts {
		s.accounts[i].tidy()
	}
}

// owed lists the claims of a job that count when an epoch has ended. A deficit
// of a job, or of one of a pair, that missed epochs is forgotten.
func (s *Shares) owed(r *Round, i int, epoch time.Duration, check uint32) []entry {
	a := &s.accounts[i]
	if !a.valid(epoch, check) {
		return a.entries[:0]
	}
	return slices.DeleteFunc(a.entries, func(e entry) bool {
		if !e.pair {
			return false
		}
		k, here := s.place(e.with)
		return s.void(r, i, e) || !here || !s.accounts[k].valid(epoch, check)
	})
}

// aim gives claims their targets.
func (s *Shares) aim(r *Round, targets Targets) {
	for k, t := range r.Types {
		name := r.View.Cluster().Type(t).Name
		for i := range s.accounts {
			if x := share(targets.Shares, i, k); x > 0 {
				s.accounts[i].claim(t, name, job.None, false).Target = x
			}
			if x := share(targets.Together, i, k); x > 0 {
				s.accounts[i].claim(t, name, job.None, true).Target = x
			}
		}
		for i, p := range targets.Pairs {
			if x := share(targets.Shares, len(s.jobs)+i, k); x > 0 {
				a, b := min(p[0], p[1]), max(p[0], p[1])
				s.accounts[a].claim(t, name, s.jobs[b].ID, false).Target = x
			}
		}
	}
}

// share is the share of job or pair i on type k. It is 0 if none was given.
func share(shares [][]float64, i, k int) float64 {
	if i < len(shares) && k < len(shares[i]) {
		return shares[i][k]
	}
	return 0
}

// Bids lists the bids of the jobs of the round, and of their pairs, for a type,
// in the order in which they are served. Call it after Begin. The slice is
// valid until the next call.
func (s *Shares) Bids(r *Round, t cluster.TypeID) []Bid {
	s.bids = s.bids[:0]
	for i, j := range s.jobs {
		if r.Served(j.ID) {
			continue
		}
		if near := s.accounts[i].on(t, true); near.Target > 0 {
			b := near.Bid(j.ID, t)
			b.Together = true
			s.bids = append(s.bids, b)
		}
		if c := s.accounts[i].on(t, false); c.Target > 0 {
			s.bids = append(s.bids, c.Bid(j.ID, t))
		}
		if s.Pairs {
			s.pairBids(r, t, i)
		}
	}
	Sort(s.bids)
	return s.bids
}

// Walk serves jobs of the round by their bids, type after type in the order
// given. With idle, devices that are left when all claims on all types were
// served go to jobs that were not. Each job gets the type on which it is
// fastest of those that have room, and of several the first one given. speed is
// the speed of a job on a type; a job never gets a type on which it is 0.
func (s *Shares) Walk(r *Round, types []cluster.TypeID, idle bool, speed func(job sched.Job, t cluster.TypeID) float64) {
	var apart []Bid // gangs that were due on a single node and found no room
	for _, t := range types {
		for _, b := range s.Bids(r, t) {
			if r.left[t] <= 0 {
				break
			}
			if !s.claim(r, b) && b.Together {
				apart = append(apart, b)
			}
		}
	}
	if !idle {
		return
	}
	for _, b := range apart {
		b.Together = false
		s.claim(r, b)
	}
	for _, b := range s.behind(r) {
		j := r.View.Job(b.Job)
		best, on := 0.0, cluster.TypeID(0)
		for _, t := range types {
			if r.left[t] < r.Need(j) {
				continue
			}
			if v := speed(j, t); v > best {
				best, on = v, t
			}
		}
		if best > 0 && r.Serve(j, on) {
			s.serve(r, j, job.None, false)
		}
	}
}

// claim serves the job or pair of a bid, if there is room.
func (s *Shares) claim(r *Round, b Bid) bool {
	j := r.View.Job(b.Job)
	switch {
	case b.With != job.None:
		other := r.View.Job(b.With)
		if !r.ServePair(j, other, b.Type) {
			return false
		}
		s.serve(r, other, j.ID, false)
	case b.Together && !r.ServeTogether(j, b.Type), !b.Together && !r.Serve(j, b.Type):
		return false
	}
	s.serve(r, j, b.With, b.Together)
	return true
}

// behind lists the jobs that were not served, each with the most urgent of its
// claims, in the order in which they get the devices that are left.
func (s *Shares) behind(r *Round) []Bid {
	s.bids = s.bids[:0]
	for i, j := range s.jobs {
		if r.Served(j.ID) {
			continue
		}
		most := Bid{Job: j.ID, With: job.None}
		for _, e := range s.accounts[i].entries {
			if b := e.Claim.Bid(j.ID, 0); !e.pair && b.Before(most) {
				most = b
			}
		}
		s.bids = append(s.bids, most)
	}
	Sort(s.bids)
	return s.bids
}

// serve notes the claim by which a job is served in this round.
func (s *Shares) serve(r *Round, j sched.Job, with job.ID, near bool) {
	if !s.Pairs && !s.Together {
		return
	}
	if i, ok := s.place(j.ID); ok {
		a := &s.accounts[i]
		a.goesOn = a.goesOn && a.near == near && r.Beside(j) == with
		a.near = near
	}
}

// place is the index of a job among those of the round.
func (s *Shares) place(id job.ID) (i int, ok bool) {
	return slices.BinarySearchFunc(s.jobs, id, func(j sched.Job, id job.ID) int { return cmp.Compare(j.ID, id) })
}
