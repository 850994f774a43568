package rounds

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Claim is what a job is due of one GPU type.
type Claim struct {
	Target   float64 // share of its time that it shall run on the type, 0 to 1
	Received float64 // rounds that it ran there in this epoch
	Deficit  float64 // rounds that it was due and did not get in the epochs before; below zero: got beyond its due
}

// Head is what every job is taken to have received on every type when an epoch
// begins, in rounds: priorities are then told apart from the first round on.
const Head = 0.5

// Priority is how urgent a claim is: the target over what was received. Those of
// one type can be compared with each other: the time that all jobs have had of
// it, by which Gavel divides, is the same for all of them. It is rounded, so that
// equals are equal.
func (c Claim) Priority() float64 {
	const unit = 1 << 40
	return math.Round(c.Target/(Head+c.Received)*unit) / unit
}

// Close ends an epoch of so many rounds: what was due and not received is owed.
func (c *Claim) Close(rounds float64) {
	c.Deficit += c.Target*rounds - c.Received
	c.Received = 0
}

// Bid is the claim of a job in the order in which a type is given out, or that of a pair
// of jobs.
type Bid struct {
	Job      job.ID
	With     job.ID // who shares its devices; job.None: nobody
	Type     cluster.TypeID
	Priority float64
	Deficit  float64
	Target   float64
	Together bool // it is on time together on one node
}

// Bid makes the bid of a claim of one job.
func (c Claim) Bid(id job.ID, t cluster.TypeID) Bid {
	return Bid{Job: id, With: job.None, Type: t, Priority: c.Priority(), Deficit: c.Deficit, Target: c.Target}
}

// Before tells whether a bid is served before another one: the larger priority,
// then the larger deficit, then the larger target, then the lower numbers.
func (b Bid) Before(c Bid) bool { return b.compare(c) < 0 }

func (b Bid) compare(c Bid) int {
	return cmp.Or(cmp.Compare(c.Priority, b.Priority), cmp.Compare(c.Deficit, b.Deficit), cmp.Compare(c.Target, b.Target), cmp.Compare(b.Job, c.Job), cmp.Compare(b.With, c.With), first(b.Together, c.Together))
}

// Sort puts bids in the order in which they are served.
func Sort(bids []Bid) { slices.SortFunc(bids, Bid.compare) }
