package mast

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/queue"
	"github.com/norn-scheduler/norn/policy/kit/quota"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// groupKey is what jobs of a group have in common: of two of them neither is served before the other
// but by submission, and where one has no bid the other has none.
type groupKey struct {
	class  int32
	band   int32
	tenant tenant.ID
}

func keyOf(j sched.Job) groupKey { return groupKey{j.Class(), j.Spec().Priority, j.Tenant()} }

// group is a groupKey with what is known of its jobs.
type group struct {
	groupKey
	rank int64      // in the queue
	why  job.Reason // for which its jobs wait
}

// failed is that nobody bid for jobs of a class and a band.
type failed struct {
	at  uint64 // how much had been freed of its regions by then
	why job.Reason
}

// failedKey is a class and a band; without a band it is about bids that stop nobody.
type failedKey struct {
	class, band int32
	any         bool
}

type policy struct {
	cfg      Config
	queue    queue.Queue
	never    sched.Infeasible
	anywhere *anywhere
	book     quota.Book
	survey
	groups  []group
	groupOf map[groupKey]int32
	failed  map[failedKey]failed
	lowest  int32               // the lowest band of running jobs
	suits   map[suitKey][]int32 // the sites on which jobs may be
	freed   []uint64            // how often something was freed, by region
	home    []int32             // the region of each job, see away
	placed  int                 // of View.Placed, how many were taken in
	bids    []bid               // scratch of an auction
	victims []victim
}

// away is the home of a job that has none, or more than one region.
const away = -1

// suitKey names the nodes and types that jobs may have.
type suitKey struct {
	scope cluster.PoolID
	mask  cluster.TypeMask
	gpus  bool
}

// Decide implements sched.Policy. Whoever was stopped for another looks for a place elsewhere at once; one
// that finds none comes back with a change, once it has left.
func (m *policy) Decide(v *sched.View, p *sched.Plan) {
	m.book.Open(v, p)
	m.follow(v, p)
	m.lowest = math.MaxInt32
	for j := range v.Running() {
		m.lowest = min(m.lowest, j.Spec().Priority)
	}
	var all, stopped []job.ID
	for again := true; again; again = len(stopped) > 0 {
		m.rank(v)
		stopped = stopped[:0]
		m.queue.WalkRanked(func(g int32) int64 { return m.groups[g].rank }, func(id job.ID) queue.Step {
			step, victims := m.serve(v, p, id)
			stopped = append(stopped, victims...)
			return step
		})
		for _, id := range stopped {
			m.join(v.Job(id), p)
		}
		all = append(all, stopped...)
	}
	for _, id := range all {
		if p.Alloc(id) == nil {
			m.queue.Remove(id)
		}
	}
}

// follow takes in what happened since the last decision.
func (m *policy) follow(v *sched.View, p *sched.Plan) {
	if v.NodesChanged() {
		m.survey = m.look(v)
		clear(m.suits)
		clear(m.failed)
		m.freed = append(m.freed, make([]uint64, max(0, len(m.regions)-len(m.freed)))...)
		m.home = m.home[:0]
		m.free(away)
	}
	if v.First {
		m.placed = len(v.Placed())
	}
	for len(m.home) < v.Jobs() {
		j := v.Job(job.ID(len(m.home)))
		m.home = append(m.home, m.homeOf(v, j.ID))
	}
	for placed := v.Placed(); m.placed < len(placed); m.placed++ {
		id := placed[m.placed]
		if now := m.homeOf(v, id); now != m.home[id] || now == away {
			m.free(m.home[id])
			m.home[id] = now
		}
	}
	for _, id := range m.never.Reconsider(v) {
		m.join(v.Job(id), p)
	}
	for _, ch := range v.Changes() {
		switch ch.Kind {
		case sched.Arrived:
			m.join(v.Job(ch.Job), p)
		case sched.Stopped:
			m.free(m.home[ch.Job])
			m.join(v.Job(ch.Job), p)
		case sched.Ended:
			m.free(m.home[ch.Job])
			m.queue.Remove(ch.Job)
			m.never.Remove(ch.Job)
		case sched.Altered: // it may have given something back
			m.free(m.home[ch.Job])
		}
	}
}

// look finds the dynamic clusters of the nodes about which the policy decides.
func (m *policy) look(v *sched.View) survey {
	var nodes []cluster.NodeID
	for pool := range v.EachPool() {
		nodes = append(nodes, v.Cluster().PoolNodes(pool)...)
	}
	slices.Sort(nodes)
	return look(v.Cluster(), &m.cfg, nodes)
}

// homeOf is the region in which a job has devices.
func (m *policy) homeOf(v *sched.View, id job.ID) int32 {
	a := v.Alloc(id)
	if a == nil || len(a.Pieces) == 0 {
		return away
	}
	first := cluster.PlaceOf(v.Cluster(), a.Pieces[0].Node, m.cfg.Region)
	for i := range a.Pieces {
		if cluster.PlaceOf(v.Cluster(), a.Pieces[i].Node, m.cfg.Region) != first {
			return away
		}
	}
	return int32(slices.Index(m.regions, first)) // away where it is in another part of the cluster
}

// free notes that something was freed in a region; away: in any.
func (m *policy) free(region int32) {
	for i := range m.freed {
		if region == away || int32(i) == region {
			m.freed[i]++
		}
	}
}

// join takes a job that waits into the queue.
func (m *policy) join(j sched.Job, p *sched.Plan) {
	if m.never.Rejects(p, j.ID, m.anywhere) || m.book.Forbids(p, j, j.Spec().Demand.Milli(j.Spec().Demand.Roles[0].Tasks)) {
		return
	}
	k := keyOf(j)
	g, known := m.groupOf[k]
	if !known {
		g = int32(len(m.groups))
		m.groupOf[k] = g
		m.groups = append(m.groups, group{groupKey: k})
	}
	m.queue.Add(j.ID, g, queue.Key{})
}

// rank ranks the groups by band and by credit. Credits are compared in GPU-minutes.
func (m *policy) rank(v *sched.View) {
	credits := make([]float64, v.Tenants().Len())
	for t := range credits {
		credits[t] = math.Floor(credit(v, tenant.ID(t)) / 60)
	}
	order := make([]int32, len(m.groups))
	for i := range order {
		order[i] = int32(i)
	}
	compare := func(a, b int32) int {
		x, y := &m.groups[a], &m.groups[b]
		return cmp.Or(cmp.Compare(y.band, x.band), cmp.Compare(credits[y.tenant], credits[x.tenant]))
	}
	slices.SortFunc(order, compare)
	for i, g := range order {
		m.groups[g].rank = int64(i)
		if i > 0 && compare(order[i-1], g) == 0 {
			m.groups[g].rank = m.groups[order[i-1]].rank
		}
	}
}

// credit is what the quota of a tenant would have used, less what it has used, in GPU-seconds. Where
// usage decays, so does that of the quota.
func credit(v *sched.View, t tenant.ID) float64 {
	tree := v.Tenants()
	lasting := v.Now.Seconds()
	if h := tree.HalfLife().Seconds(); h > 0 {
		lasting = h / math.Ln2
	}
	return float64(tree.At(t).Guarantee)/1000*lasting - tree.Usage(t, v.Now)
}

// serve has the regions bid for a job. Where none does, no other job of its group is looked at before
// something is freed in a region where it could be.
func (m *policy) serve(v *sched.View, p *sched.Plan, id job.ID) (step queue.Step, stopped []job.ID) {
	j := v.Job(id)
	k := keyOf(j)
	g := &m.groups[m.groupOf[k]]
	amount := v.Class(k.class).Amount
	if room, binds := m.book.Room(k.tenant); amount.GPU > 0 && amount.GPU > room {
		g.why = m.book.Quota(binds)
		p.Wait(id, g.why)
		return queue.SkipClass, nil
	}
	suits := m.suiting(v, j)
	at := uint64(0)
	for _, i := range suits {
		at += m.freed[m.sites[i].region]
	}
	own, any := failedKey{class: k.class, band: k.band}, failedKey{class: k.class, any: true}
	if f, known := m.failed[own]; known && f.at == at {
		g.why = f.why
		p.Wait(id, g.why)
		return queue.SkipClass, nil
	}
	m.open(v, j, suits)
	var won *bid
	if f, known := m.failed[any]; !known || f.at != at {
		if won = m.best(v, p, j); won == nil {
			m.failed[any] = failed{at, m.missing(v, p, j)}
		}
	}
	if won == nil && m.cfg.Preempt && k.band > m.lowest {
		won = m.bestOver(v, p, j)
	}
	if won == nil {
		g.why = m.failed[any].why
		m.failed[own] = failed{at, g.why}
		p.Wait(id, g.why)
		return queue.SkipClass, nil
	}
	m.carryOut(v, p, j, won)
	return queue.Took, won.stopped
}

// carryOut starts a job as the winning bid has it.
func (m *policy) carryOut(v *sched.View, p *sched.Plan, j sched.Job, won *bid) {
	if !won.forced {
		p.Start(j.ID, m.sites[won.site])
	} else {
		won.stopped, _ = m.over(v, p, j, won)
		m.free(m.sites[won.site].region)
	}
	m.book.Count(j.Tenant(), v.Class(j.Class()).Amount, 1)
	for _, id := range won.stopped {
		m.book.Count(v.Job(id).Tenant(), v.Class(v.Job(id).Class()).Amount, -1)
	}
}

// suiting are the sites on which a job may be, by number.
func (m *policy) suiting(v *sched.View, j sched.Job) []int32 {
	class := v.Class(j.Class())
	k := suitKey{class.Scope, class.Mask, class.Amount.GPU > 0}
	out, known := m.suits[k]
	if !known {
		for i, s := range m.sites {
			if _, ok := s.free(v.Cluster(), class.Scope); ok && s.takes(class.Demand, class.Mask) {
				out = append(out, int32(i))
			}
		}
		m.suits[k] = out
	}
	return out
}

// Why implements sched.Explainer.
func (m *policy) Why(v *sched.View, id job.ID) job.Reason {
	j := v.Job(id)
	if g, known := m.groupOf[keyOf(j)]; known {
		return m.groups[g].why
	}
	return job.Reason{}
}
