// Package muri interleaves jobs: several of them share the same GPUs, and at any
// time each is at another resource (loading and CPU work, GPU, network), so that
// together they take little longer than one.
//
// Nouns:
//   - The stages of a job are how long an iteration keeps each resource busy
//     (job.Hints.Stages).
//   - A group is up to four jobs of equal size that share GPUs.
//   - A candidate is a job that would run if only groups of the largest size
//     ran.
//   - The key of a job orders it: remaining time x GPUs if run times are known
//     (Muri-S), and attained service if they are not (Muri-L).
//
// Jobs are grouped only as far as GPUs are short, by matching of the greatest
// interleaving efficiency, and never when that is slower than one after the
// other. That is done at the beginning of each round; inside a round jobs only start
// on what is free. The policy keeps nothing between calls.
//
// Source: Zhao et al., "Multi-Resource Interleaving for Deep Learning Training",
// SIGCOMM 2022; and the published simulator, where the paper leaves a choice.
package muri

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// Config is the settings of the policy.
type Config struct {
	Known  bool          // order by what remains, not by what was attained
	Round  time.Duration // make groups so often; 0: at every arrival and completion
	Most   int           // jobs in a group
	Match  bool          // by efficiency; otherwise in order of priority
	Place  place.Strategy
	Factor bool // count the overhead of groups that the authors measured
	Slots  bool // each stage has one slot, as the paper's formula has it
}

// NewShort returns the defaults of Muri-S, which knows run times.
func NewShort() *Config {
	return &Config{Known: true, Round: 6 * time.Minute, Most: perf.MaxInterleaved, Match: true, Place: place.Consolidated, Factor: true}
}

// NewLong returns the defaults of Muri-L, which does not.
func NewLong() *Config {
	c := NewShort()
	c.Known = false
	return c
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("round", &c.Round, "make groups so often; 0s: at every arrival and completion"),
		param.Int("most", &c.Most, 1, perf.MaxInterleaved, "jobs", "the largest group"),
		param.Bool("match", &c.Match, "put jobs together that use different resources; otherwise in order of priority"),
		param.Bool("overhead", &c.Factor, "groups take longer by what the authors measured: 1.31, 1.48 and 1.35 times for 2, 3 and 4 jobs"),
		param.Choice("formula", &c.Slots, []param.Option[bool]{{Name: "code", Value: false}, {Name: "paper", Value: true}},
			"what time a group is believed to take: as the published code has it, where loading takes two of four slots, or as the paper has it, with a slot for each stage"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(c.Most > 1, need.Of(need.Stages), "no two jobs share GPUs").
		If(c.Known, need.Of(need.RunTimes), "jobs go by attained service, as under muri-l")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	g := Grouping{Most: c.Most, Unmatched: !c.Match, Model: perf.Interleave{Slots: c.Slots}}
	if c.Factor {
		g.Model.Overhead = perf.PublishedOverhead()
	}
	cfg := *c
	if cfg.Round == unit.Never {
		cfg.Round = 0
	}
	return &policy{cfg: cfg, grouping: g}, nil
}

type policy struct {
	cfg      Config
	grouping Grouping
	members  []Member
	alloc    cluster.Alloc
	kept     dense.Set            // the devices of jobs that are left alone
	blocked  map[int32]job.Reason // by class of jobs: why they would not run even first of all
}

// outranked is why jobs are stopped, and why they wait then.
var outranked = job.Reason{Code: job.Outranked, Job: job.None}

// Decide implements sched.Policy.
func (m *policy) Decide(v *sched.View, p *sched.Plan) {
	switch {
	case !m.begins(v):
		m.fill(v, p)
	case v.First || v.Woken || v.NodesChanged() || news(v):
		m.gather(v, p)
		candidates := m.candidates(p)
		groups := m.grouping.Within(candidates, rooms(v, candidates)...)
		for i := range groups {
			slices.SortStableFunc(groups[i].Members, byKey)
		}
		m.start(v, p, m.fitting(v, p, groups))
	}
}

// begins tells whether groups are made anew.
func (m *policy) begins(v *sched.View) bool { return m.cfg.Round == 0 || v.Now%m.cfg.Round == 0 }

// news tells whether anything happened but that jobs run faster or slower now.
func news(v *sched.View) bool {
	return slices.ContainsFunc(v.Changes(), func(ch sched.Change) bool { return ch.Kind != sched.Altered })
}

// fill starts waiting jobs on what is free, inside a round.
func (m *policy) fill(v *sched.View, p *sched.Plan) {
	m.members = m.members[:0]
	m.queue(v, p)
	for i := range m.members {
		p.Start(m.members[i].Job, m.cfg.Place)
	}
}

// NextWake implements sched.Waker.
func (m *policy) NextWake(v *sched.View) time.Duration {
	if m.cfg.Round == 0 {
		return unit.Never
	}
	next := (v.Now/m.cfg.Round + 1) * m.cfg.Round
	for range v.Running() {
		return next
	}
	for j := range v.Waiting() {
		if !j.Reason().Never() {
			return next
		}
	}
	return unit.Never
}

// rooms are the free GPUs, of all types and of those alone on which some of the
// candidates may run.
func rooms(v *sched.View, candidates []Member) []Room {
	out := []Room{{GPUs: v.Free()}}
	for i := range candidates {
		types := candidates[i].Types
		if candidates[i].GPUs > 0 && !slices.ContainsFunc(out, func(r Room) bool { return r.Types == types }) {
			out = append(out, Room{Types: types, GPUs: v.FreeOf(types)})
		}
	}
	return out
}

// gather lists the jobs that may run, in order of priority, and takes those
// that run off their devices: whoever gets the same again has not noticed. A
// job that shares with one that is left alone is left alone, too.
func (m *policy) gather(v *sched.View, p *sched.Plan) {
	m.members = m.members[:0]
	m.kept.Clear()
	for j := range v.Running() {
		if fixed(v, j) {
			for _, s := range v.Alloc(j.ID).Shares {
				m.kept.Add(int(s.Device))
			}
		}
	}
	for j := range v.Running() {
		if fixed(v, j) || slices.ContainsFunc(v.Alloc(j.ID).Shares, func(s cluster.Share) bool { return m.kept.Has(int(s.Device)) }) {
			continue
		}
		m.members = append(m.members, m.member(v, j))
	}
	for i := range m.members {
		p.Stop(m.members[i].Job, outranked)
	}
	m.queue(v, p)
}

// queue lists the waiting jobs, too, and puts all in order.
func (m *policy) queue(v *sched.View, p *sched.Plan) {
	for j := range v.Waiting() {
		if why := p.Never(j.ID, m.cfg.Place); why.Code != job.NoReason {
			p.Wait(j.ID, why)
			continue
		}
		m.members = append(m.members, m.member(v, j))
	}
	slices.SortStableFunc(m.members, byKey)
}

func byKey(a, b Member) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Job, b.Job)) }

// fixed tells whether a running job is left alone: it must not be stopped, would lose
// its work or could go on in one place only, has not begun yet, or runs where nothing
// new may.
func fixed(v *sched.View, j sched.Job) bool {
	if j.Spec().Stop != job.Checkpoint || j.Phase() == job.Assigned {
		return true
	}
	return !v.Cluster().UsableAlloc(v.Alloc(j.ID))
}

// alone tells whether a job shares with nobody: only gangs of whole GPUs do, and
// only those that can make room when the others of their group leave, and go on
// anywhere: they checkpoint. There must be GPUs whose memory holds two of them.
func alone(v *sched.View, j sched.Job) bool {
	d, c := j.Spec().Demand, v.Cluster()
	r := &d.Roles[0]
	if d.Roles[1].Tasks > 0 || r.GPU == 0 || r.GPU%unit.One != 0 || d.Elastic() || j.Spec().Stop != job.Checkpoint {
		return true
	}
	for t := range cluster.TypeID(c.Types()) {
		if memory := c.Type(t).Memory; v.Class(j.Class()).Mask.Has(t) && (memory == 0 || memory >= 2*r.GPUMemory && memory > perf.MemoryOf(j.Spec())) {
			return false
		}
	}
	return true
}

// largest is the memory of the largest GPU that a job may have; 0: that of one is not known.
func largest(v *sched.View, j sched.Job) (most unit.Bytes) {
	known := true
	v.Class(j.Class()).EachType(v.Cluster(), func(t cluster.TypeID) bool {
		memory := v.Cluster().Type(t).Memory
		most, known = max(most, memory), known && memory > 0
		return true
	})
	if !known {
		return 0
	}
	return most
}

func (m *policy) member(v *sched.View, j sched.Job) Member {
	s, iteration := perf.StagesOf(j.Spec())
	out := Member{
		Job: j.ID, GPUs: j.GPUs(), Class: j.Class(), Types: v.Class(j.Class()).Mask, Stages: s, Iteration: iteration,
		Memory: perf.MemoryOf(j.Spec()), Most: largest(v, j),
	}
	if alone(v, j) {
		out.Class = -1 - int32(j.ID) // its own
	}
	if left, known := j.Remaining(); m.cfg.Known && known {
		out.Key = left.Seconds() * float64(j.GPUs())
	} else {
		out.Key = j.Service()
		if !m.cfg.Known {
			out.Key = j.RunTime().Seconds() * float64(j.GPUs())
		}
	}
	return out
}

// candidates are the jobs that would run if every group had as many jobs as it
// may: who finds room brings in the next few of its class. It leaves the plan as
// it was.
func (m *policy) candidates(p *sched.Plan) []Member {
	byClass := map[int32][]int{}
	for i := range m.members {
		byClass[m.members[i].Class] = append(byClass[m.members[i].Class], i)
	}
	taken := make([]bool, len(m.members))
	p.Try(func() bool {
		for i := range m.members {
			if taken[i] || !p.Start(m.members[i].Job, m.cfg.Place) {
				continue
			}
			class := byClass[m.members[i].Class]
			n := min(m.cfg.Most, len(class))
			for _, k := range class[:n] {
				taken[k] = true
			}
			byClass[m.members[i].Class] = class[n:]
		}
		return false
	})
	var out []Member
	clear(m.blocked)
	for i := range m.members {
		if taken[i] {
			out = append(out, m.members[i])
			continue
		}
		m.block(p, &m.members[i])
	}
	return out
}

// block notes why a job would not run even if it were the first of all, if so.
func (m *policy) block(p *sched.Plan, j *Member) {
	if _, known := m.blocked[j.Class]; known {
		return
	}
	if m.blocked == nil {
		m.blocked = map[int32]job.Reason{}
	}
	why, fits := p.Fits(j.Job, m.cfg.Place)
	if fits {
		why = outranked
	}
	m.blocked[j.Class] = why
}

// fitting are the groups that find room, in order of priority. Where the CPU or memory
// of a group does not, its first job runs alone, and the others are served in their turn.
func (m *policy) fitting(v *sched.View, p *sched.Plan, groups []Group) []Group {
	var out []Group
	p.Try(func() bool {
		for len(groups) > 0 {
			g := groups[0]
			if groups = groups[1:]; !m.place(v, p, &g) {
				continue
			}
			if len(g.Members) > 1 && p.Alloc(g.Members[1].Job) == nil {
				for i := range g.Members[1:] {
					groups = append(groups, Group{Members: g.Members[1+i : 2+i], Key: g.Members[1+i].Key})
				}
				slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(a.Key, b.Key) })
				g.Members = g.Members[:1]
			}
			out = append(out, g)
		}
		return false
	})
	return out
}

// start starts the groups, the largest first, but before them jobs that were frozen,
// which go on in one place only. Groups that ran stay where they ran if all others
// find room beside them. Since the largest go first, there may be room now for jobs that
// found none when groups were tried in order of priority: they start alone.
func (m *policy) start(v *sched.View, p *sched.Plan, groups []Group) {
	turn := func(g *Group) int {
		if v.PinnedPlace(g.Members[0].Job) != nil {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Or(cmp.Compare(turn(&a), turn(&b)), cmp.Compare(b.GPUs(), a.GPUs())) })
	settled := p.Try(func() bool {
		moved := groups[:0:0]
		for _, g := range groups {
			if !m.stay(v, p, &g) {
				moved = append(moved, g)
			}
		}
		for i := range moved {
			if !m.place(v, p, &moved[i]) {
				return false
			}
		}
		return true
	})
	for i := 0; i < len(groups) && !settled; i++ {
		if g := &groups[i]; !m.stay(v, p, g) {
			m.place(v, p, g)
		}
	}
	for i := range m.members {
		id, why := m.members[i].Job, outranked
		if blocked, ok := m.blocked[m.members[i].Class]; ok {
			why = blocked
		}
		if p.Alloc(id) == nil && !p.Start(id, m.cfg.Place) {
			p.Wait(id, why)
		}
	}
}

// stay puts a group back where its first member that ran was, if that is free. Where
// CPU or memory is short there for all of them, its first job stays alone.
func (m *policy) stay(v *sched.View, p *sched.Plan, g *Group) bool {
	for i := range g.Members {
		was := v.Alloc(g.Members[i].Job)
		if was == nil {
			continue
		}
		m.alloc.CopyFrom(was)
		if !alone(v, v.Job(g.Members[i].Job)) {
			m.deal(len(g.Members))
		}
		if m.free(v, g) {
			m.share(p, g)
			return true
		}
	}
	return len(g.Members) > 1 && m.stay(v, p, &Group{Members: g.Members[:1]})
}

// place starts a group where its first member finds room, or that one alone where the
// CPU or memory there is short for all of them.
func (m *policy) place(v *sched.View, p *sched.Plan, g *Group) bool {
	first := g.Members[0].Job
	if !p.Start(first, m.cfg.Place) {
		return false
	}
	if len(g.Members) == 1 {
		return true
	}
	m.alloc.CopyFrom(p.Alloc(first))
	p.Stop(first, outranked)
	if m.deal(len(g.Members)); !m.free(v, g) {
		return p.Start(first, m.cfg.Place)
	}
	m.share(p, g)
	return true
}

// deal makes the alloc the part of whole devices that each of so many jobs gets.
func (m *policy) deal(jobs int) {
	for i := range m.alloc.Shares {
		m.alloc.Shares[i].Milli = int32(int(unit.One) / jobs)
	}
}

// free tells whether the jobs of a group can each have the alloc, with the GPU memory that
// they ask for or tell of.
func (m *policy) free(v *sched.View, g *Group) bool {
	c, n := v.Cluster(), unit.Milli(len(g.Members))
	for i := range m.alloc.Shares {
		s := &m.alloc.Shares[i]
		if d := s.Device; c.DeviceFree(d) < unit.Milli(s.Milli)*n || c.DeviceMemoryFree(d) < s.Memory*unit.Bytes(n) || c.Broken(d) {
			return false
		}
		if len(g.Members) > 1 && c.Type(c.TypeOf(s.Device)).Memory > 0 && c.DeviceMemoryFree(s.Device) < told(v, g) {
			return false
		}
	}
	for i := range m.alloc.Pieces {
		node := m.alloc.Pieces[i].Node
		var cpu unit.Milli
		var memory unit.Bytes
		for k := range m.alloc.Pieces { // several roles may be on one node
			if piece := &m.alloc.Pieces[k]; piece.Node == node {
				cpu, memory = cpu+piece.CPU, memory+piece.Memory
			}
		}
		if free, ok := c.CPUFree(node); ok && free < cpu*n || !c.Usable(node) {
			return false
		}
		if free, ok := c.MemoryFree(node); ok && free < memory*unit.Bytes(n) {
			return false
		}
	}
	return true
}

// told is the memory that the jobs of a group take of each of their GPUs together, as far as
// they ask for it or tell of it.
func told(v *sched.View, g *Group) (sum unit.Bytes) {
	for i := range g.Members {
		sum += perf.MemoryOf(v.Job(g.Members[i].Job).Spec())
	}
	return sum
}

// share gives the alloc to each member of a group.
func (m *policy) share(p *sched.Plan, g *Group) {
	for i := range g.Members {
		p.StartOn(g.Members[i].Job, &m.alloc)
	}
}
