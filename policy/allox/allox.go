// Package allox matches jobs to GPUs of one type or another, or to processors,
// so that their mean completion time is least. It offers the matching to the
// users that have least.
//
// Nouns: a machine is a GPU, or a device of a Host type, which is part of a node's
// processors; its kind is that type. A spot is a place in the queue of a machine,
// counted from its end. The score of a user is what its running jobs hold, as a share
// of the kind on which each would be fastest, and less by as much as it is slower
// where it runs.
//
// Nobody is preempted. Only who heads the queue of a free machine is started; the rest
// of a matching is forgotten and made again when something happens. Jobs that need
// anything but one whole GPU go before, in order of submission, on the fastest type that
// has room.
//
// Source: Le, Sun, Chowdhury and Liu, "AlloX: Compute Allocation in Hybrid Clusters",
// EuroSys 2020. Times come from estimates, not from runs on samples.
package allox

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// Config is the settings of the policy.
type Config struct {
	Alpha   float64 // the part of the users with jobs that are offered the matching, lowest score first
	Grow    bool    // offer it to twice as many when nothing could be started
	Limit   int     // jobs that are matched at a time; 0: all
	Unknown time.Duration
	Place   place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Alpha: 0.1, Grow: true, Limit: 50, Unknown: 24 * time.Hour, Place: place.Consolidated}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Float("alpha", &c.Alpha, 0, 1, "", "part of the users who are offered the matching, those with the least first; 1: all, for the least mean completion time"),
		param.Bool("grow", &c.Grow, "offer it to twice as many users when nobody could start"),
		param.Int("limit", &c.Limit, 0, 1_000_000, "jobs", "how many jobs are matched at a time; 0: all"),
		param.Duration("unknown", &c.Unknown, "how long a job without an estimate is taken to run"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		And(need.Of(need.RunTimes), fmt.Sprintf("every job is taken to run for %v", c.Unknown)).
		And(need.Of(need.Types, need.Processors), "jobs are put in an order, and nothing is matched").
		If(c.Alpha < 1, need.Of(need.Tenants), "it acts as allox(alpha=1)")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	switch {
	case !(c.Alpha > 0 && c.Alpha <= 1):
		return nil, errors.New("alpha must be above 0, and at most 1")
	case c.Limit < 0:
		return nil, errors.New("limit must be 0 or more")
	case c.Unknown <= 0:
		return nil, errors.New("unknown must be above 0s")
	}
	return &policy{cfg: *c}, nil
}

type policy struct {
	cfg      Config
	machines []machine
	queue    []waiting
	scores   map[tenant.ID]float64
	pool     *pool
	alloc    cluster.Alloc
}

// waiting is a job that waits to be matched.
type waiting struct {
	id     job.ID
	tenant tenant.ID
	times  []float64 // by kind, nanoseconds: whole numbers, so that what is equal stays so as time goes by
	role   *job.Role
	scope  cluster.PoolID // the nodes that it may use
}

// Decide implements sched.Policy.
func (a *policy) Decide(v *sched.View, p *sched.Plan) {
	for id := range v.EachPool() {
		a.pool = newPool(v, id)
		a.list(v, p, id)
		a.machines = a.pool.machines(v, p, a.machines[:0])
		a.serve(v, p)
	}
}

// list starts jobs that cannot be matched, and those that are frozen, which can go on in
// one place alone, and lists the others.
func (a *policy) list(v *sched.View, p *sched.Plan, id cluster.PoolID) {
	a.scores = a.pool.scores(v)
	a.queue = a.queue[:0]
	for j := range v.Waiting() {
		if j.Pool() != id {
			continue
		}
		w := waiting{id: j.ID, tenant: j.Tenant(), times: a.pool.times(v, j, a.cfg.Unknown), role: &v.Class(j.Class()).Demand.Roles[0], scope: v.Scope(j)}
		if w.times != nil && a.pool.holds(v.Cluster(), &w) && v.PinnedPlace(j.ID) == nil {
			a.queue = append(a.queue, w)
			continue
		}
		if why := p.Never(j.ID, a.cfg.Place); why.Code != job.NoReason {
			p.Wait(j.ID, why)
			continue
		}
		a.whole(v, p, j)
	}
}

// whole starts a job that cannot be matched on GPUs of one type, the one on which it is
// fastest of those that have room, or, where its place allows that, on several.
func (a *policy) whole(v *sched.View, p *sched.Plan, j sched.Job) {
	tasks := int(j.Spec().Demand.Roles[0].Tasks)
	for _, t := range rounds.FastestFirst(v, j, tasks) {
		if p.StartSize(j.ID, tasks, rounds.On(a.cfg.Place, t)) {
			return
		}
	}
	p.Start(j.ID, a.cfg.Place)
}

// serve matches and starts until nobody can be started.
func (a *policy) serve(v *sched.View, p *sched.Plan) {
	alpha := a.cfg.Alpha
	for len(a.queue) > 0 && slices.ContainsFunc(a.machines, func(m machine) bool { return m.free == 0 }) {
		offered, all := a.offered(alpha)
		heads := a.heads(offered, a.match(v, offered))
		switch {
		case len(heads) == 0 && (all || !a.cfg.Grow):
			a.hold(p)
			return
		case len(heads) == 0:
			alpha *= 2
			continue
		case !all:
			heads = heads[:1] // what it is given changes who comes next
		}
		for _, h := range heads {
			a.start(v, p, h)
		}
		if p.Err() != nil {
			return
		}
	}
	a.hold(p)
}

// hold tells those who wait why.
func (a *policy) hold(p *sched.Plan) {
	for i := range a.queue {
		p.Wait(a.queue[i].id, job.Reason{Code: job.Because, Job: job.None, Text: "others, or a machine that is busy, make all jobs end sooner in the mean"})
	}
}

// offered are the jobs of the users with the lowest scores. all tells whether these
// are all users.
func (a *policy) offered(alpha float64) (jobs []*waiting, all bool) {
	var users []tenant.ID
	for i := range a.queue {
		if t := a.queue[i].tenant; !slices.Contains(users, t) {
			users = append(users, t)
		}
	}
	slices.SortFunc(users, func(x, y tenant.ID) int { return cmp.Or(cmp.Compare(a.scores[x], a.scores[y]), cmp.Compare(x, y)) })
	count := min(len(users), int(math.Ceil(alpha*float64(len(users)))))
	for i := range a.queue {
		if slices.Contains(users[:count], a.queue[i].tenant) {
			jobs = append(jobs, &a.queue[i])
		}
	}
	return a.few(jobs), count == len(users)
}

// few keeps as many jobs as the limit allows: those shortest on a GPU and those
// shortest without one, by turns.
func (a *policy) few(jobs []*waiting) []*waiting {
	if a.cfg.Limit == 0 || len(jobs) <= a.cfg.Limit {
		return jobs
	}
	type long struct {
		time float64
		at   int
	}
	var lists [2][]long
	for host := range lists {
		for i, w := range jobs {
			lists[host] = append(lists[host], long{a.pool.least(w.times, host == 1), i})
		}
		slices.SortFunc(lists[host], func(x, y long) int { return cmp.Or(cmp.Compare(x.time, y.time), cmp.Compare(x.at, y.at)) })
	}
	kept, n := make([]bool, len(jobs)), 0
	for i := 0; n < a.cfg.Limit; i++ {
		for _, list := range lists {
			if at := list[i].at; !kept[at] && n < a.cfg.Limit {
				kept[at] = true
				n++
			}
		}
	}
	var out []*waiting
	for i, w := range jobs {
		if kept[i] {
			out = append(out, w)
		}
	}
	return out
}

// match gives each job a spot.
func (a *policy) match(v *sched.View, jobs []*waiting) []Spot {
	useful, alike := a.useful(v.Cluster(), len(jobs))
	q := Problem{Free: make([]float64, len(useful)), Kind: make([]int, len(useful)), Time: make([][]float64, len(jobs)), Alike: alike}
	for i, m := range useful {
		q.Free[i], q.Kind[i] = a.machines[m].free, a.machines[m].kind
	}
	for j, w := range jobs {
		q.Time[j] = w.times
	}
	c := v.Cluster()
	q.Forbids = func(j, i int) bool { return !jobs[j].fits(c, &a.machines[useful[i]]) }
	spots, _ := q.Solve()
	for j := range spots {
		if spots[j].Machine != None {
			spots[j].Machine = useful[spots[j].Machine]
		}
	}
	return spots
}

// useful are the machines that so many jobs could make use of: of machines that are
// alike but for the time at which they are free, as many as there are jobs, those that
// are free first. alike tells them apart.
func (a *policy) useful(c *cluster.Cluster, jobs int) (out, alike []int) {
	type sort struct {
		kind int
		node cluster.NodeID // -1: any that accounts for nothing beside its devices, and that nobody asks for
		busy bool           // what a node has to spare counts only for those that are free
	}
	numbers := map[sort]int{}
	var groups [][]int
	for i, m := range a.machines {
		g := sort{m.kind, m.node, m.free > 0}
		if spec := c.Node(m.node); spec.CPU == 0 && spec.Memory == 0 && len(c.Scopes(m.node)) == 0 {
			g.node, g.busy = -1, false
		}
		at, ok := numbers[g]
		if !ok {
			at = len(groups)
			numbers[g], groups = at, append(groups, nil)
		}
		groups[at] = append(groups[at], i)
	}
	number := make([]int, len(a.machines))
	for at, g := range groups {
		g = a.soonest(g, jobs)
		out = append(out, g...)
		for _, i := range g {
			number[i] = at
		}
	}
	slices.Sort(out)
	for _, i := range out {
		alike = append(alike, number[i])
	}
	return out, alike
}

// soonest are as many of some machines as are asked for, those that are free first; it
// changes their order.
func (a *policy) soonest(machines []int, n int) []int {
	if len(machines) <= n {
		return machines
	}
	free := make([]int, 0, len(machines))
	for _, i := range machines {
		if a.machines[i].free == 0 {
			free = append(free, i)
		}
	}
	if len(free) >= n {
		return free[:n]
	}
	slices.SortFunc(machines, func(x, y int) int {
		return cmp.Or(cmp.Compare(a.machines[x].free, a.machines[y].free), cmp.Compare(x, y))
	})
	return machines[:n]
}

// fits tells whether a node has what a job needs beside a machine: now if that is
// free, and ever.
func (w *waiting) fits(c *cluster.Cluster, m *machine) bool {
	if !w.ever(c, m) || m.free > 0 {
		return w.ever(c, m)
	}
	cpu, counted := c.CPUFree(m.node)
	memory, told := c.MemoryFree(m.node)
	return (!counted || cpu >= w.role.CPU) && (!told || memory >= w.role.Memory)
}

// ever tells whether a job could run on a machine if nothing else ran.
func (w *waiting) ever(c *cluster.Cluster, m *machine) bool {
	spec := c.Node(m.node)
	return c.In(m.node, w.scope) && !math.IsInf(w.times[m.kind], 1) && (m.host || m.memory >= w.role.GPUMemory) &&
		(spec.CPU == 0 || spec.CPU >= w.role.CPU) && (spec.Memory == 0 || spec.Memory >= w.role.Memory)
}

// head is a job that goes first on a free machine.
type head struct {
	machine int
	w       *waiting
}

// heads are the jobs that go first on machines that are free now, machines without
// a GPU before others.
func (a *policy) heads(jobs []*waiting, spots []Spot) []head {
	first := map[int]int{} // machine -> job
	for j, s := range spots {
		if s.Machine == None || a.machines[s.Machine].free > 0 {
			continue
		}
		if other, seen := first[s.Machine]; !seen || spots[other].Last < s.Last {
			first[s.Machine] = j
		}
	}
	var out []head
	for m, j := range first {
		out = append(out, head{m, jobs[j]})
	}
	slices.SortFunc(out, func(x, y head) int {
		if x, y := a.machines[x.machine].host, a.machines[y.machine].host; x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Compare(y.machine, x.machine)
	})
	return out
}

// start starts a job on a machine, unless one that was started just now has taken
// what it needs beside it.
func (a *policy) start(v *sched.View, p *sched.Plan, h head) {
	m, w := &a.machines[h.machine], *h.w
	if !w.fits(v.Cluster(), m) {
		return
	}
	a.alloc.Reset()
	a.alloc.Pieces = append(a.alloc.Pieces, cluster.Piece{Node: m.node, Tasks: 1, Shares: 1, CPU: w.role.CPU, Memory: w.role.Memory})
	a.alloc.Shares = append(a.alloc.Shares, cluster.Share{Device: m.device, Milli: int32(unit.One), Memory: min(w.role.GPUMemory, m.memory)})
	a.queue = slices.DeleteFunc(slices.Clone(a.queue), func(other waiting) bool { return other.id == w.id })
	if !p.StartOn(w.id, &a.alloc) {
		return
	}
	m.free = max(1, w.times[m.kind])
	a.scores[w.tenant] += a.pool.value(w.times, m.kind)
}
