package rounds

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Claim is the time that a job is due on one GPU type.
type Claim struct {
	Target   float64 // share of its time for which it shall run on the type, 0 to 1
	Received float64 // number of rounds for which it ran there in this epoch
	Deficit  float64 // rounds that it was due in earlier epochs and did not get; below zero: it got more than its due
}

// Head is the number of rounds that every job counts as received on every type
// when an epoch begins. It makes priorities differ from the first round on.
const Head = 0.5

// Priority is the urgency of a claim: the target divided by the rounds
// received. Only priorities of one type can be compared. Gavel also divides by
// the time that all jobs have had on the type, but that is the same for all of
// them. The priority is rounded, so that equal claims have equal priorities.
func (c Claim) Priority() float64 {
	const unit = 1 << 40
	return math.Round(c.Target/(Head+c.Received)*unit) / unit
}

// Close ends an epoch of so many rounds. Rounds that were due and not received
// become a deficit.
func (c *Claim) Close(rounds float64) {
	c.Deficit += c.Target*rounds - c.Received
	c.Received = 0
}

// Bid is the claim of a job, or of a pair of jobs, in the order in which a type
// is given out.
type Bid struct {
	Job      job.ID
	With     job.ID // the job that shares its devices, or job.None
	Type     cluster.TypeID
	Priority float64
	Deficit  float64
	Target   float64
	Together bool // the claim is on time on a single node
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
