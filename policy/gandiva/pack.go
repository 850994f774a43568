package gandiva

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
)

// Gain is what packing two jobs gives: the sum of their rates, each relative to its
// rate alone. To take turns gives 1.
func Gain(packed, alone [2]float64) float64 {
	sum := 0.0
	for i := range packed {
		if alone[i] <= 0 {
			return 0
		}
		sum += packed[i] / alone[i]
	}
	return sum
}

// Worthwhile tells whether a pair with a gain stays packed.
func Worthwhile(gain float64) bool { return gain > 1+noise }

// judgedAt is when those of a group have been measured for long enough.
func (k *group) judgedAt(measure time.Duration) time.Duration {
	at := time.Duration(0)
	for _, m := range [...]*member{k.lead, k.guest} {
		if m == nil {
			continue
		}
		if m.j.Phase() != job.Running {
			return unit.Never
		}
		at = max(at, m.j.Since(), m.j.Ready())
	}
	if measure >= unit.Never-at {
		return unit.Never
	}
	return at + measure
}

// judge keeps pairs that were worth it, and takes the others apart, also those that are
// no longer; and gives those that have become alone all of their GPUs.
func (g *policy) judge() {
	for _, k := range g.groups {
		switch {
		case k.away || !k.runs:
		case k.trial && k.judgedAt(g.cfg.Measure) <= g.v.Now:
			k.trial = false
			g.settleTrial(k, k.gains())
		case k.trial:
		case k.guest != nil && g.due() && g.settled(k.lead) && g.settled(k.guest) && !k.gains():
			g.settleTrial(k, false)
		case k.guest == nil:
			beside.GiveEach(g.p, k.lead.j.ID, beside.Whole)
			g.judgeGrowth(k)
		}
	}
}

// gains tells whether a pair is worth it, as fast as both are now.
func (k *group) gains() bool {
	a, b := k.lead, k.guest
	return Worthwhile(Gain([2]float64{a.j.Speed(), b.j.Speed()}, [2]float64{a.note.rate, b.note.rate}))
}

// judgeGrowth takes back the GPUs by which a job has grown when they have not made it
// faster. It does not grow again.
func (g *policy) judgeGrowth(k *group) {
	m := k.lead
	if !m.grown() || m.note.rate <= 0 || k.judgedAt(g.cfg.Measure) > g.v.Now || m.j.Speed() > m.note.rate*(1+noise) {
		return
	}
	if g.giveBack(k) {
		m.note.vain = true
		g.keep(m)
	}
}

// settleTrial lets a guest stay, or go back to where it took turns.
func (g *policy) settleTrial(k *group, stays bool) {
	m := k.guest
	away := g.awayOf(m)
	if stays {
		m.note.link, m.note.home, m.note.stamp = paired, k.home.first(), k.lead.note.stamp
		g.keep(m)
		if away != nil {
			away.home.remove(away)
		}
		return
	}
	g.p.Stop(m.j.ID, job.Reason{Code: job.MakesRoom, Job: k.lead.j.ID, Text: "packed with " + k.lead.j.Spec().Key + " both get on no faster than in turns"})
	k.guest = nil
	beside.GiveEach(g.p, k.lead.j.ID, beside.Whole)
	m.note.link = failed
	g.keep(m)
	if away != nil {
		away.away = false
	} else {
		g.queue = append(g.queue, m)
	}
}

// awayOf is where a guest that is being measured lives, or nil.
func (g *policy) awayOf(m *member) *group {
	for _, k := range g.groups {
		if k.away && k.lead == m {
			return k
		}
	}
	return nil
}

// squeezeIn starts a job beside another one.
func (g *policy) squeezeIn(m, host *member) bool {
	held := g.p.Alloc(host.j.ID)
	if held == nil || !beside.GiveEach(g.p, host.j.ID, beside.Half) {
		return false
	}
	held = g.p.Alloc(host.j.ID)
	role, a := &m.j.Spec().Demand.Roles[0], &g.exact.alloc
	if len(held.Shares) != m.size || g.frozen(m) {
		return false
	}
	a.CopyFrom(held)
	for i := range a.Pieces {
		p := &a.Pieces[i]
		if g.tasksOn(p.Node, role, m.size) < int(p.Tasks) {
			return false
		}
		p.CPU, p.Memory = role.CPU*unit.Milli(p.Tasks), role.Memory*unit.Bytes(p.Tasks)
	}
	for i := range a.Shares {
		s := &a.Shares[i]
		if g.v.Cluster().DeviceMemoryFree(s.Device) < role.GPUMemory || s.Throttle != 0 {
			return false
		}
		s.Memory = role.GPUMemory
	}
	return g.p.Start(m.j.ID, &g.exact)
}

// pack tries pairs while jobs take turns: of those that wait for one, the one
// that uses its GPUs least, beside the running one that does, of one size, if
// the memory suffices. A job that has failed beside one tries the next.
func (g *policy) pack() {
	var guests, hosts []*group
	for _, s := range g.servers {
		for _, k := range s.groups {
			switch {
			case k.guest != nil || k.trial || g.use(k.lead) < 0:
			case k.ready() && s.load > s.room.gpus && k.lead.note.rate > 0 && k.lead.j.Waiting() && k.lead.j.Spec().Stop == job.Checkpoint:
				guests = append(guests, k)
			case g.canHost(k):
				hosts = append(hosts, k)
			}
		}
	}
	if len(guests) == 0 {
		return
	}
	slices.SortFunc(guests, g.byUse)
	slices.SortFunc(hosts, g.byUse)
	clear(g.crowded)
	for _, k := range guests {
		class := k.lead.j.Class()
		if !g.crowded[class] && g.find(k.lead, k.home) != nil {
			continue // it can have GPUs of its own
		}
		g.crowded[class] = true
		last := (*group)(nil)
		if m := g.member(k.lead.note.with); k.lead.note.link == failed && m != nil {
			last = &group{lead: m}
		}
		for i, h := range hosts {
			known := h.lead.note.link == failed && h.lead.note.with == k.lead.j.ID // the other way round
			if known || last != nil && g.byUse(last, h) >= 0 || !g.fitsBeside(k.lead, h.lead) {
				continue
			}
			if g.p.Try(func() bool { return g.squeezeIn(k.lead, h.lead) }) {
				g.try(k, h)
				hosts = slices.Delete(hosts, i, i+1)
				break
			}
		}
	}
}

// try notes that a pair is being measured.
func (g *policy) try(k, h *group) {
	g.measure(h)
	h.guest, h.trial = k.lead, true
	k.away = true
	k.lead.note.link, k.lead.note.with = trying, h.lead.j.ID
	g.keep(k.lead)
}

// canHost tells whether a running job could have another one beside it: it has its
// GPUs for itself, and is past its start.
func (g *policy) canHost(k *group) bool {
	if !k.runs || !g.settled(k.lead) || k.lead.j.Tasks() != k.lead.size {
		return false
	}
	throttled := func(s cluster.Share) bool { return s.Throttle != 0 }
	return beside.Alone(g.p, k.lead.has) && !slices.ContainsFunc(k.lead.has.Shares, throttled)
}

// shares tells whether a running job had less than all of a GPU as the decision began.
func (m *member) shares() bool {
	return slices.ContainsFunc(m.has.Shares, func(s cluster.Share) bool { return s.Milli < beside.Whole })
}

// settled tells whether a job ran before this decision, is past its start, and is left
// alone by the plan so far.
func (g *policy) settled(m *member) bool {
	return m.has != nil && m.j.Phase() == job.Running && m.j.Ready() < g.v.Now && g.p.Alloc(m.j.ID) == m.has
}

// fitsBeside tells whether two jobs are of one size and have the memory of a GPU,
// where that is told.
func (g *policy) fitsBeside(m, host *member) bool {
	if m.size != host.size || m.j.Pool() != host.j.Pool() || !g.v.Admits(m.j, host.has) {
		return false
	}
	c, mask := g.v.Cluster(), g.v.Class(m.j.Class()).Mask
	a, b := memoryOf(m), memoryOf(host)
	for i := range host.has.Shares {
		t := c.TypeOf(host.has.Shares[i].Device)
		has := c.Type(t).Memory
		if !mask.Has(t) || a == 0 || b == 0 || has > 0 && a+b > has {
			return false
		}
	}
	return true
}

// memoryOf is what a job takes of the memory of each GPU; 0: nobody knows.
func memoryOf(m *member) unit.Bytes {
	need := m.j.Spec().Demand.Roles[0].GPUMemory
	if h := m.j.Spec().Hints; h != nil {
		need = max(need, h.GPUMemory)
	}
	return need
}

// use is how much of its GPUs a job uses when alone; below 0: nobody knows.
func (g *policy) use(m *member) float64 {
	if m.note.used {
		return m.note.use
	}
	return g.useOf(m)
}

func (g *policy) byUse(a, b *group) int {
	return cmp.Or(cmp.Compare(g.use(a.lead), g.use(b.lead)), cmp.Compare(a.lead.j.ID, b.lead.j.ID))
}
