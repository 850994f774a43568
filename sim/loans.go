package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// loans is borrowed nodes: who lends which, and who wants some back. A node that its owner
// has is down.
type loans struct {
	turns []trace.Loan // still to come
	nodes []cluster.NodeID
	named map[string]cluster.NodeID
	ends  map[cluster.NodeID]time.Duration // told that they are taken back then
	lent  map[cluster.NodeID]bool
	of    []lender

	shrunk map[job.ID]*cluster.Alloc // what jobs go on with that have lost a node at this instant

	began, again bool // the nodes of lenders are away; there is more to do at this moment
}

// lender lends some of its nodes, by number.
type lender struct {
	name     string
	nodes    []cluster.NodeID
	lends    int           // so many of them
	notice   time.Duration // with which it takes them back
	recalled int           // as last told
	by       time.Duration // when these are taken
}

// lending is what a world does about loans.
type lending struct{ *Sim }

// attach finds the nodes that the loans are about.
func (l *loans) attach(c *cluster.Cluster, turns []trace.Loan) error {
	l.turns, l.named, l.ends = turns, map[string]cluster.NodeID{}, map[cluster.NodeID]time.Duration{}
	l.lent = map[cluster.NodeID]bool{}
	for _, t := range turns {
		if t.Node == "" && !slices.ContainsFunc(l.of, func(o lender) bool { return o.name == t.Lender }) {
			l.of = append(l.of, lender{name: t.Lender})
		} else if t.Node != "" {
			l.named[t.Node] = cluster.None
		}
	}
	for id := range cluster.NodeID(c.Nodes()) {
		spec := c.Node(id)
		if _, about := l.named[spec.Name]; about {
			l.named[spec.Name] = id
			l.nodes = append(l.nodes, id)
		} else if i := slices.IndexFunc(l.of, func(o lender) bool { return o.name == spec.Lender() }); i >= 0 {
			l.of[i].nodes = append(l.of[i].nodes, id)
			l.nodes = append(l.nodes, id)
		}
	}
	for i := range l.of {
		if len(l.of[i].nodes) == 0 {
			return fmt.Errorf("no node has the label %s=%s, of which the loans tell", cluster.LenderLabel, l.of[i].name)
		}
	}
	for _, t := range turns {
		if t.Node != "" && l.named[t.Node] == cluster.None {
			return fmt.Errorf("the cluster has no node %q, of which the loans tell", t.Node)
		}
	}
	return nil
}

// next is when something happens to loans.
func (l *loans) next(now time.Duration) time.Duration {
	if l.again {
		return now
	}
	at := unit.Never
	if len(l.turns) > 0 {
		if at = l.turns[0].At; !l.began {
			at = 0
		}
	}
	for _, end := range l.ends {
		at = min(at, end)
	}
	for i := range l.of {
		if o := &l.of[i]; o.recalled > 0 {
			at = min(at, o.by)
		}
	}
	return at
}

// loaned tells what owners lend and take back at this instant.
func (w lending) loaned(now time.Duration, out []eventlog.Event) []eventlog.Event {
	l := &w.loans
	if len(l.nodes) == 0 {
		return out
	}
	l.again = false
	clear(l.shrunk)
	if !l.began {
		l.began = true
		for _, id := range l.nodes {
			out = w.lend(id, cluster.Down, job.Reason{Code: job.TakenBack, Need: int32(id), Job: job.None}, now, out)
		}
	}
	for len(l.turns) > 0 && l.turns[0].At <= now {
		out = w.loan(&l.turns[0], now, out)
		l.turns = l.turns[1:]
	}
	for _, id := range l.nodes { // not in the order of a map
		if end, told := l.ends[id]; told && end <= now {
			out = w.takes(id, true, now, out)
		}
	}
	for i := range l.of {
		out = w.counted(&l.of[i], now, out)
	}
	return out
}

// loan carries out one change.
func (w lending) loan(t *trace.Loan, now time.Duration, out []eventlog.Event) []eventlog.Event {
	l := &w.loans
	if t.Node == "" {
		o := &l.of[slices.IndexFunc(l.of, func(o lender) bool { return o.name == t.Lender })]
		o.lends, o.notice = t.Of(len(o.nodes)), t.Notice
		return out
	}
	id := l.named[t.Node]
	switch {
	case t.Lent:
		delete(l.ends, id)
		return w.lend(id, cluster.Up, job.Reason{Job: job.None}, now, out)
	case t.Notice <= 0:
		return w.takes(id, false, now, out)
	}
	l.ends[id] = now + t.Notice
	return w.lend(id, cluster.Cordoned, job.Reason{Code: job.TakenBack, Need: int32(id), At: now + t.Notice, Job: job.None}, now, out)
}

// counted has a lender lend and take back as many nodes as it wants to. Idle ones go at
// once. For others the lender says how many it wants and by when, so that a policy can
// vacate those that it likes. Of those that are not vacated by then it takes the nodes
// with the fewest jobs, then the lowest numbers.
func (w lending) counted(o *lender, now time.Duration, out []eventlog.Event) []eventlog.Event {
	over := -o.lends
	for _, id := range o.nodes {
		if w.loans.lent[id] {
			over++
		}
	}
	for _, id := range o.nodes {
		if over < 0 && !w.loans.lent[id] {
			out = w.lend(id, cluster.Up, job.Reason{Job: job.None}, now, out)
			over++
		}
	}
	due := o.recalled > 0 && now >= o.by
	for over > 0 {
		id, jobs := w.emptiest(o)
		if jobs > 0 && !due {
			break
		}
		out = w.takes(id, o.notice > 0, now, out)
		over--
	}
	over = max(0, over)
	if over > 0 && o.recalled == 0 {
		o.by = now + o.notice
	}
	if over != o.recalled {
		o.recalled = over
		out = append(out, eventlog.Event{Time: now, Kind: eventlog.Recall, Reason: job.Reason{
			Code: job.TakenBack, Need: int32(over), At: o.by, Job: job.None, Text: o.name,
		}})
	}
	w.loans.again = w.loans.again || over > 0 && o.by <= now
	return out
}

// vacated looks, after a decision, whether nodes that are wanted back are empty by now.
func (w lending) vacated() {
	w.told = w.told[:0] // all of it was heard
	for i := range w.loans.of {
		if o := &w.loans.of[i]; o.recalled > 0 && !w.loans.again {
			_, jobs := w.emptiest(o)
			w.loans.again = jobs == 0
		}
	}
}

// emptiest is the node of a lender that is lent and has the fewest jobs, the lowest number
// among equals. Jobs that are still leaving it count, too.
func (w lending) emptiest(o *lender) (best cluster.NodeID, jobs int) {
	on := map[cluster.NodeID]int{}
	for p := range cluster.PoolID(w.state.Cluster.Pools()) {
		for i := range w.state.Running(p).All() {
			id := job.ID(i)
			if w.phase(id) != w.state.Record(id).Phase {
				continue // it has ended or left at this very instant
			}
			for _, n := range nodesOf(w.state.Alloc(id)) {
				on[n]++
			}
		}
	}
	for _, l := range w.leaving {
		if l.until > w.state.Now {
			on[w.state.Cluster.NodeOf(l.device)]++
		}
	}
	best, jobs = cluster.None, math.MaxInt
	for _, id := range o.nodes {
		if w.loans.lent[id] && on[id] < jobs {
			best, jobs = id, on[id]
		}
	}
	return best, jobs
}

// nodesOf is the nodes of an Alloc, each once.
func nodesOf(a *cluster.Alloc) (out []cluster.NodeID) {
	for i := range a.Pieces {
		if n := a.Pieces[i].Node; !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// takes has a node go back to its owner. Jobs that were told in time have saved their state.
func (w lending) takes(id cluster.NodeID, told bool, now time.Duration, out []eventlog.Event) []eventlog.Event {
	delete(w.loans.ends, id)
	why := job.Reason{Code: job.TakenBack, Need: int32(id), Job: job.None}
	if told {
		why.Have = 1
	}
	return w.lend(id, cluster.Down, why, now, w.evict(id, now, why, out))
}

// lend tells that a node is lent, will be taken back at why.At, or is. One under repair
// stays down until it is repaired.
func (w lending) lend(id cluster.NodeID, h cluster.Health, why job.Reason, now time.Duration, out []eventlog.Event) []eventlog.Event {
	w.loans.lent[id] = h != cluster.Down
	if w.down.Has(int(id)) {
		w.before[id], h = h, cluster.Down
	}
	return append(out, eventlog.Event{Time: now, Kind: eventlog.NodeSet, Node: id, Health: h, Power: w.state.Cluster.Power(id), Reason: why})
}

// savedIn is the progress that a job keeps when its node is taken: all but what it would have
// done while it saved its state, if it was told and can do that.
func (w lending) savedIn(r *job.Record, why job.Reason, now time.Duration) time.Duration {
	saved := w.saved(r, now)
	if why.Have == 0 || !r.Job.Stop.Keeps() {
		return saved
	}
	cost := w.cfg.Costs.Of(int(r.Milli / unit.One)).Checkpoint
	return max(saved, r.ProgressAt(now)-time.Duration(float64(cost)*r.Speed))
}

// outlives is what becomes of a job that resizes in place when the owner of a node takes it back:
// it goes on with the tasks that it has elsewhere, if these are enough. Workers that take turns go on
// elsewhere, too, if they were told in time.
func (w lending) outlives(id job.ID, node cluster.NodeID, told bool, now time.Duration) (eventlog.Event, bool) {
	r, was := w.state.Record(id), w.state.Alloc(id)
	if a := w.loans.shrunk[id]; a != nil {
		was = a
	}
	least, _ := r.Job.Demand.Roles[0].Range()
	if !w.cfg.InPlace || r.Job.Resize == job.ByRestart || r.Job.Resize == job.TimeSliced && !told || r.Phase != job.Running || r.Profiling {
		return eventlog.Event{}, false
	}
	var a cluster.Alloc
	next := int32(0)
	for _, p := range was.Pieces {
		if p.Node != node {
			a.Pieces, a.Shares = append(a.Pieces, p), append(a.Shares, was.Shares[next:next+p.Shares]...)
		} else if p.Role != 0 {
			return eventlog.Event{}, false // a task of which there is no other
		}
		next += p.Shares
	}
	if a.Slots = was.Slots; a.Tasks(0) < max(1, int(least)) || !w.state.Cluster.UsableAlloc(&a) { // a node that is to go, too, takes nobody
		return eventlog.Event{}, false
	}
	if w.loans.shrunk == nil {
		w.loans.shrunk = map[job.ID]*cluster.Alloc{}
	}
	w.loans.shrunk[id] = &a
	w.adjusts(was)
	pause := w.cfg.Costs.Reshape(r.Job, int(a.Milli()/unit.One), true, false, true)
	speed := w.speed(id, &a)
	w.schedule(id, now+pause, r.ProgressAt(now), speed)
	return eventlog.Event{Time: now, Kind: eventlog.Resize, Job: id, Alloc: &a, Delay: pause, Speed: speed}, true
}
