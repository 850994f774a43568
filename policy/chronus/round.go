package chronus

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/resize"
	"github.com/norn-scheduler/norn/sched"
)

// round is one decision about the jobs of a pool.
type round struct {
	o    *policy
	v    *sched.View
	p    *sched.Plan
	pool cluster.PoolID

	begins bool // a lease begins now
	base   int  // number of the first lease of which it is still to be decided who has it
	total  int  // GPUs of the pool that jobs of this policy may have
	free   []int
	steps  int // of the search, that are left
	packs  int // how often all leases were packed anew

	claims []*claim // jobs that may be stopped and started, by number
	stay   []sched.Job
}

// claim is a job that may be stopped and started.
type claim struct {
	j     sched.Job
	note  note
	tasks int
	gpus  int
	left  time.Duration // that it has to run from the first lease on
	known bool          // its run time is estimated
}

// horizon is the most leases that are looked ahead.
const horizon = 4096

// mostPacks is how often in one decision the leases of all jobs are packed anew. A job that would
// need it once more is not admitted.
const mostPacks = 64

// guard is kept before a deadline, against rounding.
const guard = time.Millisecond

// gather lists the jobs of the pool.
func (r *round) gather() {
	lease := r.o.cfg.Lease
	r.begins, r.base, r.steps = r.v.Now%lease == 0, int((r.v.Now+lease-1)/lease), r.o.cfg.Steps
	r.total = r.v.Cluster().TotalGPUs(r.pool, 0)
	for j := range r.v.Waiting() {
		if j.Pool() != r.pool {
			continue
		}
		if recall(j).state == refused {
			if j.Reason().Code != job.Refused {
				r.p.Wait(j.ID, job.Reason{Code: job.Refused, Job: job.None})
			}
		} else if why := resize.Never(r.v, r.p, j, r.o.cfg.Place); why.Code != job.NoReason {
			r.p.Wait(j.ID, why)
		} else {
			r.add(j)
		}
	}
	for j := range r.v.Running() {
		a := r.v.Alloc(j.ID)
		switch {
		case j.Pool() != r.pool:
		case r.apart(j) || j.Phase() != job.Running || j.Profiling() || r.v.Cluster().UsableDevices(a) < len(a.Shares):
			r.stay = append(r.stay, j)
		default:
			r.add(j)
		}
	}
	slices.SortFunc(r.claims, func(a, b *claim) int { return cmp.Compare(a.j.ID, b.j.ID) })
	far := 1
	for _, c := range r.claims {
		far = max(far, r.window(c.j.Spec().Deadline))
		for _, w := range c.worth() {
			far = max(far, r.window(w.By))
		}
	}
	r.free = slices.Repeat([]int{r.total}, far)
	for _, j := range r.stay {
		until := far
		if end, known := j.ExpectedEnd(); known {
			until = min(far, max(0, int((end+lease-1)/lease)-r.base))
		}
		r.take(r.v.Cluster().UsableDevices(r.v.Alloc(j.ID)), 0, until)
	}
}

// take takes GPUs from leases.
func (r *round) take(gpus, from, to int) {
	for t := from; t < to; t++ {
		r.free[t] -= gpus
	}
}

// add takes a job in. An elastic job has the size that it asks for, or its least one where the
// pool is too small.
func (r *round) add(j sched.Job) {
	d := j.Spec().Demand
	c := &claim{j: j, note: recall(j), tasks: int(d.Roles[0].Tasks), gpus: d.GPUs()}
	if j.Running() {
		c.tasks = j.Tasks()
		c.gpus = d.GPUsAt(int32(c.tasks))
	} else if least, _ := d.Roles[0].Range(); c.gpus > r.total && int(least) < c.tasks {
		c.tasks, c.gpus = int(least), d.GPUsAt(least)
	}
	var left time.Duration
	if left, c.known = j.Remaining(); c.known {
		c.left = r.ahead(c, left)
	}
	r.claims = append(r.claims, c)
}

// ahead is for how long a job has to run from the first lease on, after it has run until then if
// it runs.
func (r *round) ahead(c *claim, left time.Duration) time.Duration {
	speed := c.j.Speed()
	if !c.j.Running() {
		speed = math.Inf(1)
		for t := range cluster.TypeID(r.v.Cluster().Types()) {
			if s := r.v.TypeSpeed(c.j, t, c.tasks, false); s > 0 {
				speed = min(speed, s)
			}
		}
	}
	if speed <= 0 || math.IsInf(speed, 1) {
		speed = 1
	}
	need := time.Duration(float64(left) / speed)
	if c.j.Running() {
		need -= max(0, time.Duration(r.base)*r.o.cfg.Lease-max(r.v.Now, c.j.Ready()))
	}
	return max(0, need)
}

// window is how many leases from the first one on lie before a moment.
func (r *round) window(by time.Duration) int {
	if by == 0 {
		return 0
	}
	return min(horizon, max(0, int((by-guard)/r.o.cfg.Lease)-r.base))
}

// leases is how many leases a claimant needs, where each costs it the pause of a start.
func (r *round) leases(c *claim) int {
	useful := r.o.cfg.Lease - pause(r.v.Costs, c.gpus)
	if useful <= 0 {
		return horizon + 1
	}
	return max(1, int((c.left+useful-1)/useful)) // one that has outrun its estimate needs another one
}

// pause is for how long a start keeps a job from its work, with what it costs the one before.
func pause(costs *perf.Costs, gpus int) time.Duration {
	c := costs.Of(gpus)
	return max(c.Start, c.Restore, c.Migrate) + c.Checkpoint
}

// worth is what it is worth to end by which moment, the earliest and best first.
func (c *claim) worth() []job.Worth {
	spec := c.j.Spec()
	if spec.Hints == nil || spec.Hints.Worth[0].By == 0 {
		return []job.Worth{{By: spec.Deadline, Value: 1}}
	}
	all := spec.Hints.Worth[:]
	for len(all) > 1 && all[len(all)-1].By == 0 {
		all = all[:len(all)-1]
	}
	return all
}

// keepPromises books the leases of all who were admitted. Of more leases than a job needs it
// loses the first ones. One that has too few looks for others, beside the others or
// with them anew; if there are none, it is late.
func (r *round) keepPromises() {
	var broken []*claim
	for _, c := range r.claims {
		if c.note.state != promised {
			continue
		}
		leases, need := c.note.after(r.base), r.leases(c)
		if extra := len(leases) - need; extra > 0 {
			leases = leases[extra:]
		}
		ok := len(leases) == need
		for _, t := range leases {
			ok = ok && t < len(r.free) && r.free[t] >= c.gpus
		}
		if ok {
			r.promise(c, c.note.by, leases)
		} else {
			c.note.leases, broken = nil, append(broken, c)
		}
	}
	for _, c := range broken {
		if w := r.want(c, c.note.by); !r.find(c, c.note.by, w) {
			r.remember(c, note{state: late})
		}
	}
}

// promise books leases for a claimant, and notes them if they are others than it had.
func (r *round) promise(c *claim, by time.Duration, leases []int) {
	for _, t := range leases {
		r.free[t] -= c.gpus
	}
	n := note{state: promised, by: by, leases: spans(leases, r.base)}
	if c.note.state != promised || c.note.by != by || !slices.Equal(n.leases, c.note.leases) && !slices.Equal(leases, c.note.after(r.base)) {
		r.remember(c, n)
	} else {
		c.note = n
	}
}

func (r *round) remember(c *claim, n note) {
	c.note = n
	r.p.Remember(c.j.ID, &n)
}

// want is what a claimant needs to end by a moment.
func (r *round) want(c *claim, by time.Duration) Want {
	return Want{GPUs: c.gpus, Leases: r.leases(c), Window: r.window(by)}
}

// find finds leases for a claimant: beside those of the others, or together with them anew.
func (r *round) find(c *claim, by time.Duration, w Want) bool {
	if w.Leases > w.Window {
		return false
	}
	if leases, ok := Latest(r.free, w); ok {
		r.promise(c, by, leases)
		return true
	}
	if r.packs++; r.packs > mostPacks {
		return false
	}
	free, all := slices.Clone(r.free), []*claim{c}
	wants := []Want{w}
	for _, o := range r.claims {
		if o == c || o.note.state != promised || o.note.leases == nil {
			continue
		}
		for _, t := range o.note.after(r.base) {
			free[t] += o.gpus
		}
		all, wants = append(all, o), append(wants, r.want(o, o.note.by))
	}
	leases, ok := Pack(free, wants)
	if !ok && r.steps > 0 {
		leases, ok, _ = Search(free, wants, r.steps)
		r.steps /= 2
	}
	if !ok {
		return false
	}
	r.free = free
	for i, o := range all {
		r.promise(o, cmp.Or(o.note.by, by), leases[i])
	}
	return true
}

// admit decides about those who have a deadline and have not been heard yet, in order of
// submission. Of several deadlines the first that can be met is promised.
func (r *round) admit() {
	for _, c := range r.claims {
		if c.j.Spec().Deadline == 0 || c.note.state != unheard {
			continue
		}
		kept := false
		for _, w := range c.worth() {
			if kept = c.known && c.gpus > 0 && !r.apart(c.j) && r.find(c, w.By, r.want(c, w.By)); kept {
				break
			}
		}
		switch spec := c.j.Spec(); {
		case kept:
		case spec.Soft || !c.known || c.gpus == 0 || c.j.Running() || r.apart(c.j) || r.o.cfg.Refused == Run:
			r.remember(c, note{state: late})
		default:
			r.remember(c, note{state: refused})
			text := "its deadline is in " + unit.Human(max(0, spec.Deadline-r.v.Now)) + ", before which it does not find " + unit.Count(r.leases(c), "lease") + " of " + unit.Human(r.o.cfg.Lease)
			r.p.Wait(c.j.ID, job.Reason{Code: job.Refused, Job: job.None, Text: text})
		}
	}
	r.claims = slices.DeleteFunc(r.claims, func(c *claim) bool { return c.note.state == refused })
}

// choose gives GPUs to jobs. When a lease begins, those whose lease it is have theirs, and who else
// runs is chosen anew. In between, jobs start on what is free.
func (r *round) choose() {
	var queue []*claim
	if !r.begins {
		for _, c := range r.opportunists() {
			if c.j.Waiting() {
				queue = append(queue, c)
			}
		}
		r.start(queue)
		return
	}
	spare := r.total
	for _, j := range r.stay {
		spare -= r.v.Cluster().UsableDevices(r.v.Alloc(j.ID))
	}
	var early []*claim
	for _, c := range r.claims {
		if now := c.note.after(r.base); c.note.state == promised && len(now) > 0 && now[0] == 0 {
			queue, spare = append(queue, c), spare-c.gpus
		} else if c.note.state == promised {
			early = append(early, c)
		}
	}
	if r.eager() {
		gpus := make([]int, len(early))
		for i, c := range early {
			gpus[i] = c.gpus
		}
		for i, yes := range Fill(spare, gpus) {
			if yes {
				queue, spare = append(queue, early[i]), spare-early[i].gpus
			}
		}
	}
	for _, c := range r.opportunists() {
		fits := c.gpus == 0 || c.gpus <= spare
		if fits && !slices.Contains(queue, c) && (!r.apart(c.j) || r.lasts(c)) {
			queue, spare = append(queue, c), spare-c.gpus
		}
	}
	r.replace(queue)
}

// eager tells whether jobs with promises run before their leases where GPUs are spare.
func (r *round) eager() bool {
	if r.o.cfg.Objective != Adaptive {
		return r.o.cfg.Objective == Maximise
	}
	return !slices.ContainsFunc(r.claims, func(c *claim) bool { return c.note.state == late && c.j.Waiting() })
}

// opportunists lists the jobs in the order in which they have what is left: those without
// promises, the shortest remaining service first, and then the others.
func (r *round) opportunists() []*claim {
	all := slices.Clone(r.claims)
	service := func(c *claim) float64 {
		if !c.known {
			return math.MaxFloat64
		}
		left, _ := c.j.Remaining()
		return left.Seconds() * float64(c.gpus)
	}
	rank := func(c *claim) int {
		if c.note.state == promised {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b *claim) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(service(a), service(b)))
	})
	return all
}

// replace has those of a queue run and stops all others. Running jobs stay where they are,
// unless a job would be slower for want of room on one node. Then all are placed anew, the
// largest first.
func (r *round) replace(queue []*claim) {
	runs := map[job.ID]bool{}
	for _, c := range queue {
		runs[c.j.ID] = true
	}
	for _, c := range r.claims {
		if c.j.Running() && !runs[c.j.ID] {
			r.p.Stop(c.j.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
		}
	}
	fresh := slices.DeleteFunc(slices.Clone(queue), func(c *claim) bool { return c.j.Running() })
	larger := func(a, b *claim) int { return cmp.Compare(b.gpus, a.gpus) }
	slices.SortStableFunc(fresh, larger)
	compact := func(all []*claim) bool {
		for _, c := range all {
			if !r.p.StartSize(c.j.ID, c.tasks, place.Consolidated) && (r.slower(c) || !r.p.StartSize(c.j.ID, c.tasks, place.Pack)) {
				return false
			}
		}
		return true
	}
	if !r.p.Try(func() bool { return compact(fresh) }) && !r.p.Try(func() bool {
		all := slices.Clone(queue)
		for _, c := range all {
			if c.j.Running() {
				r.p.Stop(c.j.ID, job.Reason{Code: job.Moved, Job: job.None})
			}
		}
		slices.SortStableFunc(all, larger)
		return compact(all)
	}) {
		for _, c := range queue { // those whose lease it is come first
			if c.j.Waiting() {
				r.p.StartSize(c.j.ID, c.tasks, r.o.cfg.Place)
			}
		}
	}
	r.tell()
}

// slower tells whether a claimant is slower on several nodes than on one.
func (r *round) slower(c *claim) bool {
	for t := range cluster.TypeID(r.v.Cluster().Types()) {
		if r.v.TypeSpeed(c.j, t, c.tasks, true) < r.v.TypeSpeed(c.j, t, c.tasks, false) {
			return true
		}
	}
	return false
}

// start starts those of a queue that find room.
func (r *round) start(queue []*claim) {
	for _, c := range queue {
		if r.apart(c.j) && !r.lasts(c) {
			continue
		}
		r.p.StartSize(c.j.ID, c.tasks, r.o.cfg.Place)
	}
	r.tell()
}

// lasts tells whether a job that will not be stopped is in the way of no promise until it ends.
func (r *round) lasts(c *claim) bool {
	until := len(r.free)
	if c.known {
		until = min(until, r.leases(c)+1)
	}
	for t := range until {
		if r.free[t] < c.gpus && slices.ContainsFunc(r.claims, func(o *claim) bool { return o.note.state == promised }) {
			return false
		}
	}
	r.take(c.gpus, 0, until)
	return true
}

// tell tells those who wait what they wait for.
func (r *round) tell() {
	for _, c := range r.claims {
		if r.p.Alloc(c.j.ID) != nil {
			continue
		}
		if c.note.state == promised {
			text := "it was admitted, and has " + unit.Count(len(c.note.after(r.base)), "lease") + " before its deadline"
			r.p.Wait(c.j.ID, job.Reason{Code: job.Because, Job: job.None, Text: text})
		} else if why, fits := r.p.Fits(c.j.ID, r.o.cfg.Place); !fits {
			r.p.Wait(c.j.ID, why)
		} else {
			r.p.Wait(c.j.ID, job.Reason{Code: job.NotYet, Job: job.None, At: (r.v.Now/r.o.cfg.Lease + 1) * r.o.cfg.Lease})
		}
	}
}
