package muxflow

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/solve/assign"
)

// slot is a GPU of a service that takes an offline job.
type slot struct {
	device    cluster.DeviceID
	service   job.ID
	peak      float64    // use of the service at its peak
	bandwidth float64    // of memory that the service uses
	share     int        // by the rule
	quota     unit.Bytes // of its memory for an offline job; -1: it is not known how much it has
	typ       cluster.TypeID
	typeName  string
}

// slot is a GPU of a service as it stands.
func (f *policy) slot(v *sched.View, d cluster.DeviceID, service job.ID, n note) slot {
	c, spec := v.Cluster(), v.Job(service).Spec()
	_, bandwidth := demand(spec)
	out := slot{device: d, service: service, peak: n.most(), bandwidth: bandwidth, share: f.cfg.Shares.Of(n.most()), quota: -1, typ: c.TypeOf(d), typeName: c.Type(c.TypeOf(d)).Name}
	if has := c.Type(c.TypeOf(d)).Memory; has > 0 {
		out.quota = unit.Bytes(f.cfg.Quota * float64(has))
		if perf.MemoryOf(spec)+out.quota > has { // the service must never run out of it
			out.quota = max(0, has-perf.MemoryOf(spec))
		}
	}
	return out
}

// pairing is the scratch of a matching.
type pairing struct {
	sides []side
	worth []float64 // by slot and job
}

// side is what an offline job brings to a pair.
type side struct {
	use, bandwidth float64
	memory         unit.Bytes
	types          cluster.TypeMask
	nowhere        bool
	cluster        *cluster.Cluster
	scope          cluster.PoolID // the nodes that it may use
}

func sideOf(v *sched.View, j sched.Job) side {
	c := v.Class(j.Class())
	use, bandwidth := demand(j.Spec())
	return side{use, bandwidth, perf.MemoryOf(j.Spec()), c.Mask, c.NoType, v.Cluster(), c.Scope}
}

// worth is the predicted speed of an offline job on a slot; 0 where it does not fit.
func (f *policy) worth(j *side, s *slot) (w float64, share int) {
	if j.nowhere || s.quota == 0 || s.quota > 0 && j.memory > s.quota || !j.types.Has(s.typ) || !j.cluster.In(j.cluster.NodeOf(s.device), j.scope) {
		return 0, 0
	}
	share = f.cfg.Shares.within(s.share, s.peak, j.use, f.cfg.Guard.Use)
	x := features{s.peak, s.bandwidth, float64(share) / 1000, j.use, j.bandwidth}
	if f.beliefs != nil {
		return f.beliefs.worth(s.typeName, &x), share
	}
	return x.formula(), share
}

// Pairs matches rows and columns, of which each pair is worth something, so that all
// pairs together are worth the most; by row the column, or -1. Pairs worth less than
// least are not made.
func Pairs(how Matching, rows, cols int, worth []float64, least float64) ([]int, error) {
	of := slices.Repeat([]int{-1}, rows)
	if how == Greedy {
		for c := range cols {
			best := -1
			for r := range rows {
				if w := worth[r*cols+c]; of[r] < 0 && w >= least && w > 0 && (best < 0 || w > worth[best*cols+c]) {
					best = r
				}
			}
			if best >= 0 {
				of[best] = c
			}
		}
		return of, nil
	}
	cost := make([]float64, len(worth))
	for k, w := range worth {
		if cost[k] = 1 - w; w < least { // as if they were not paired
			cost[k] = 1
		}
	}
	p, err := assign.Min(rows, cols, cost)
	if err != nil {
		return nil, err
	}
	for r, c := range p.Of {
		if c >= 0 && worth[r*cols+c] >= least && worth[r*cols+c] > 0 {
			of[r] = c
		}
	}
	return of, nil
}

// match starts waiting offline jobs on free slots: those of one GPU as matched, then
// gangs one by one where they run fastest.
func (f *policy) match(v *sched.View, p *sched.Plan) {
	free := slices.Clone(f.slots)
	free = slices.DeleteFunc(free, func(s slot) bool { return f.seat(v, s.device).offline != job.None })
	var singles, gangs []sched.Job
	for j := range v.Waiting() {
		switch {
		case !offline(j) || p.Alloc(j.ID) != nil || evicted(p, j) || p.Never(j.ID, f.cfg.Place).Code != job.NoReason:
		case j.Spec().Demand.Roles[0].Tasks == 1:
			singles = append(singles, j)
		default:
			gangs = append(gangs, j)
		}
	}
	free = f.pairUp(v, p, singles[:min(len(singles), f.cfg.Batch)], free)
	for _, j := range gangs {
		free = f.gang(v, p, j, free)
	}
}

// deal divides things into groups that are alike: the first goes to the first group,
// the next to the next, and so around.
func deal[T any](all []T, groups int) [][]T {
	out := make([][]T, groups)
	for i, x := range all {
		out[i%groups] = append(out[i%groups], x)
	}
	return out
}

// groups is the number of groups for so many jobs or slots.
func (f *policy) groups(n int) int { return max(1, (n+f.cfg.Group-1)/f.cfg.Group) }

// pairUp matches jobs of one GPU with free slots, and returns those that are left.
func (f *policy) pairUp(v *sched.View, p *sched.Plan, jobs []sched.Job, free []slot) []slot {
	if len(jobs) == 0 || len(free) == 0 {
		return free
	}
	n := f.groups(max(len(jobs), len(free)))
	slices.SortStableFunc(free, func(a, b slot) int { return cmp.Compare(a.peak, b.peak) })
	if n > 1 && f.cfg.Match == Exact {
		slices.SortStableFunc(jobs, func(a, b sched.Job) int {
			x, _ := demand(a.Spec())
			y, _ := demand(b.Spec())
			return cmp.Compare(x, y)
		})
	}
	if f.cfg.Match == Greedy { // which takes little time
		n = 1
	}
	dealt, left := deal(jobs, n), []slot(nil)
	for g, slots := range deal(free, n) {
		of, err := Pairs(f.cfg.Match, len(slots), len(dealt[g]), f.worths(v, dealt[g], slots), f.cfg.Least)
		if err != nil {
			p.Invalidate(err)
			return nil
		}
		for s, j := range of {
			if j < 0 || !f.place(v, p, dealt[g][j], slots[s:s+1]) {
				left = append(left, slots[s])
			}
		}
	}
	return left
}

// worths are those of slots and jobs, slot by slot.
func (f *policy) worths(v *sched.View, jobs []sched.Job, slots []slot) []float64 {
	out := f.pairing.worth[:0]
	sides := f.pairing.sides[:0]
	for _, j := range jobs {
		sides = append(sides, sideOf(v, j))
	}
	for i := range slots {
		for k := range sides {
			w, _ := f.worth(&sides[k], &slots[i])
			out = append(out, w)
		}
	}
	f.pairing.worth, f.pairing.sides = out, sides
	return out
}

// gang starts a gang where it runs fastest, if it does well enough on average, and
// returns the slots that are left.
func (f *policy) gang(v *sched.View, p *sched.Plan, j sched.Job, free []slot) []slot {
	need := int(j.Spec().Demand.Roles[0].Tasks)
	type rated struct {
		at    int
		worth float64
	}
	var good []rated
	part := sideOf(v, j)
	for i := range free {
		if w, _ := f.worth(&part, &free[i]); w > 0 {
			good = append(good, rated{i, w})
		}
	}
	if len(good) < need {
		return free
	}
	slices.SortStableFunc(good, func(a, b rated) int { return cmp.Compare(b.worth, a.worth) })
	sum := 0.0
	var chosen []slot
	for _, g := range good[:need] {
		sum += g.worth
		chosen = append(chosen, free[g.at])
	}
	slices.SortFunc(chosen, func(a, b slot) int { return cmp.Compare(a.device, b.device) })
	if sum/float64(need) < f.cfg.Least || !f.place(v, p, j, chosen) {
		return free
	}
	return slices.DeleteFunc(free, func(s slot) bool { return slices.Contains(chosen, s) })
}

// place starts an offline job on slots, which are in order of devices, if the nodes
// have the rest that it needs.
func (f *policy) place(v *sched.View, p *sched.Plan, j sched.Job, slots []slot) bool {
	role, c := &j.Spec().Demand.Roles[0], v.Cluster()
	f.alloc.Reset()
	part := sideOf(v, j)
	for i := range slots {
		s := &slots[i]
		_, share := f.worth(&part, s)
		beside.AddTask(&f.alloc, c.NodeOf(s.device), role, cluster.Share{Device: s.device, Milli: int32(share), Memory: max(0, s.quota)})
	}
	for i := range f.alloc.Pieces {
		piece := &f.alloc.Pieces[i]
		if free, ok := c.CPUFree(piece.Node); ok && free < piece.CPU {
			return false
		}
		if free, ok := c.MemoryFree(piece.Node); ok && free < piece.Memory {
			return false
		}
	}
	short := func(s cluster.Share) bool { return c.DeviceMemoryFree(s.Device) < s.Memory }
	if slices.ContainsFunc(f.alloc.Shares, short) || !beside.Join(p, j.ID, &f.alloc) {
		return false
	}
	return true
}

// placed is a running offline job of one GPU, and its slot.
type placed struct {
	job  sched.Job
	slot slot
}

// rematch moves running offline jobs of one GPU to where they run faster by enough,
// and changes shares that are off by enough.
func (f *policy) rematch(v *sched.View, p *sched.Plan) {
	var jobs []placed
	var free []slot
	for i := range f.slots {
		s := &f.slots[i]
		id := f.seat(v, s.device).offline
		if id == job.None {
			free = append(free, *s)
			continue
		}
		j := v.Job(id)
		if j.Phase() != job.Running || j.Ready() > v.Now || !offline(j) {
			continue
		}
		single := j.Spec().Demand.Roles[0].Tasks == 1
		f.reshare(v, p, j, s)
		if single {
			jobs = append(jobs, placed{j, *s})
		}
	}
	if f.cfg.Match == Greedy || len(jobs) == 0 {
		return
	}
	n := f.groups(len(jobs) + len(free))
	slices.SortStableFunc(jobs, func(a, b placed) int { return cmp.Compare(a.slot.peak, b.slot.peak) })
	slices.SortStableFunc(free, func(a, b slot) int { return cmp.Compare(a.peak, b.peak) })
	dealt := deal(free, n)
	for g, mine := range deal(jobs, n) {
		open := make([]slot, 0, len(mine)+len(dealt[g]))
		running := make([]sched.Job, 0, len(mine))
		own := make([]int, 0, len(mine))
		for i := range mine {
			open, running, own = append(open, mine[i].slot), append(running, mine[i].job), append(own, i)
		}
		open = append(open, dealt[g]...)
		f.move(v, p, running, open, own, f.worths(v, running, open))
	}
}

// move carries out the moves that are worth it.
func (f *policy) move(v *sched.View, p *sched.Plan, jobs []sched.Job, open []slot, own []int, worth []float64) {
	less := slices.Clone(worth)
	for s := range open {
		for k := range jobs {
			if own[k] != s { // a move must be worth it
				less[s*len(jobs)+k] = max(0, worth[s*len(jobs)+k]-f.cfg.Gain)
			}
		}
	}
	of, err := Pairs(Exact, len(open), len(jobs), less, 0)
	if err != nil {
		p.Invalidate(err)
		return
	}
	to := slices.Clone(own)
	for s, k := range of {
		if k >= 0 && worth[s*len(jobs)+k] >= worth[own[k]*len(jobs)+k]+f.cfg.Gain-1e-9 {
			to[k] = s
		}
	}
	holder := map[int]int{}
	for k, s := range own {
		holder[s] = k
	}
	for again := true; again; { // who would come to where another stays, stays too
		again = false
		for k, s := range to {
			if h, held := holder[s]; s != own[k] && held && to[h] == s {
				to[k], again = own[k], true
			}
		}
	}
	for k, j := range jobs {
		if to[k] != own[k] {
			p.Stop(j.ID, job.Reason{Code: job.Moved, Job: job.None})
			beside.Give(p, open[own[k]].service, open[own[k]].device, beside.Whole)
		}
	}
	for k, j := range jobs {
		if to[k] != own[k] && !f.place(v, p, j, open[to[k]:to[k]+1]) { // its new node has no room beside: back, if it can
			f.place(v, p, j, open[own[k]:own[k]+1])
		}
	}
}

// reshare changes the share of a running offline job where the service has come to use
// so much more or less that it is off by enough.
func (f *policy) reshare(v *sched.View, p *sched.Plan, j sched.Job, s *slot) {
	use, _ := demand(j.Spec())
	share := int32(f.cfg.Shares.For(s.peak, use, f.cfg.Guard.Use))
	held := p.Alloc(j.ID)
	at := slices.IndexFunc(held.Shares, func(x cluster.Share) bool { return x.Device == s.device })
	if math.Abs(float64(share-held.Shares[at].Milli)) < float64(f.cfg.Shares.Change) {
		return
	}
	p.Try(func() bool {
		first, second, a, b := s.service, j.ID, beside.Whole-share, share
		if share < held.Shares[at].Milli { // who gives comes first
			first, second, a, b = second, first, b, a
		}
		return beside.Give(p, first, s.device, a) && beside.Give(p, second, s.device, b)
	})
}
