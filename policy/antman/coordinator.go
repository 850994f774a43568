package antman

import (
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
)

// Loop is how the coordinator sets paces.
type Loop struct {
	Period   time.Duration // between two steps
	Slack    float64       // by which an owner may be slower than alone
	Down, Up int           // of a pace in a step, thousandths
}

// Full is the pace of a guest that is not throttled.
const Full = 1000

// Next is the next pace of a guest whose owner takes slow times as long as alone, and
// that must stay below a pace that was found to be too much; 0: none was.
func (l Loop) Next(pace, tooMuch int, slow float64) int {
	switch {
	case slow > 1+l.Slack:
		return max(0, pace-l.Down)
	case slow <= 1+l.Slack/2:
		return max(pace, min(pace+l.Up, l.top(tooMuch)))
	}
	return pace
}

// top is the largest pace that a guest is let go to.
func (l Loop) top(tooMuch int) int {
	if tooMuch == 0 {
		return Full
	}
	return max(0, tooMuch-l.Up)
}

// faster is by how much an owner must be faster than was thought, so that it is noted.
const faster = 1e-6

// owner is a job that owns GPUs with guests.
type owner struct {
	alone  float64 // its speed with all guests suspended; 0: not known yet
	speed  float64
	there  bool   // it runs, so that its speed tells something
	asks   job.ID // the first of its guests that could go faster
	newest job.ID // the last of its guests that runs at all
	tried  job.ID // that of its guests that was raised last, and it has not shown yet what comes of it
	kept   job.ID // the first of its guests that could go faster if the owner lost less
	more   bool   // kept is not the only one
	still  bool   // all its guests have been suspended for a period
}

// slow is how much longer it takes than alone.
func (o *owner) slow() float64 { return o.alone / o.speed }

// guest is a guest at one moment.
type guest struct {
	id     job.ID
	held   *cluster.Alloc
	owners []job.ID
	note   note
	new    bool // it has other owners than when its pace was set
	pace   int
	due    bool
	wants  bool // it could go faster
}

// loop is the scratch of the coordinator.
type loop struct {
	guests []guest
	owners map[job.ID]*owner
	met    []job.ID // the owners, in the order in which they were met
	ids    []job.ID
}

// owners lists who owns the GPUs of an alloc, each once, by number. The slice is valid
// for the decision.
func (f *policy) owners(a *cluster.Alloc) []job.ID {
	from := len(f.loop.ids)
	for i := range a.Shares {
		for _, id := range f.on(a.Shares[i].Device) {
			if !IsGuest(f.holding(id)) && !slices.Contains(f.loop.ids[from:], id) {
				f.loop.ids = append(f.loop.ids, id)
			}
		}
	}
	out := f.loop.ids[from:len(f.loop.ids):len(f.loop.ids)]
	slices.Sort(out)
	return out
}

// owned tells whether anybody owns a GPU of an alloc.
func (f *policy) owned(a *cluster.Alloc) bool {
	return slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { owners, _ := f.counts(s.Device); return owners > 0 })
}

// period is the time between two steps of the coordinator: what came of one must be
// known before the next.
func (f *policy) period(v *sched.View) time.Duration { return max(f.cfg.Loop.Period, v.Lag) }

// look sees how all guests and their owners stand.
func (f *policy) look(v *sched.View) {
	l := &f.loop
	l.guests, l.ids, l.met, l.owners = l.guests[:0], l.ids[:0], l.met[:0], map[job.ID]*owner{}
	for _, id := range f.guests {
		j, a := v.Job(id), v.Alloc(id)
		if a == nil || j.Phase() != job.Running { // it begins with this plan, or others are still leaving its GPUs
			continue
		}
		g := guest{id: id, held: a, owners: f.owners(a), pace: Full - int(a.Shares[0].Throttle)}
		n, _ := sched.Recall[note](j)
		known := n.step >= 0
		g.new = !known || !slices.Equal(n.owners, g.owners)
		g.due = known && v.Now > n.step && (v.Now-n.step)%f.period(v) == 0
		if known {
			g.note = n
		}
		for _, o := range g.owners {
			f.meet(v, o, &g)
		}
		l.guests = append(l.guests, g)
	}
	for i := range l.guests {
		g := &l.guests[i]
		if !f.could(g) || f.short(v, v.Job(g.id), g.held) {
			continue
		}
		g.wants = f.free(g)
		for _, id := range g.owners {
			o := l.owners[id]
			switch {
			case g.wants && o.asks == job.None:
				o.asks = g.id
			case !g.wants && o.kept == job.None:
				o.kept = g.id
			case !g.wants:
				o.more = true
			}
		}
	}
}

// keeps tells whether an owner loses so much that none of its guests may go faster, but
// not so much that one must be slowed down, and another guest than the one given waits for
// that. Guests on several GPUs of a gang do not add up what they cost it: one that is let
// go until half of the slack is used must not keep the others back for good.
func (f *policy) keeps(o *owner, id job.ID) bool {
	if !o.there || o.alone == 0 || o.kept == job.None || o.kept == id && !o.more {
		return false
	}
	return o.slow() > 1+f.cfg.Loop.Slack/2 && o.slow() <= 1+f.cfg.Loop.Slack
}

// meet notes what an owner has to do with a guest.
func (f *policy) meet(v *sched.View, id job.ID, g *guest) {
	o := f.loop.owners[id]
	if o == nil {
		j := v.Job(id)
		o = &owner{speed: j.Speed(), there: j.Phase() == job.Running && j.Speed() > 0 && !j.Profiling(), asks: job.None, newest: job.None, tried: job.None, kept: job.None, still: true}
		n, _ := sched.Recall[note](j)
		o.alone = n.alone
		f.loop.owners[id] = o
		f.loop.met = append(f.loop.met, id)
	}
	if g.pace > 0 {
		o.newest = g.id
	}
	o.still = o.still && g.pace == 0 && !g.new && v.Now-g.note.step >= f.period(v)
	if g.note.raised && !g.new && v.Now-g.note.step <= f.period(v) {
		o.tried = g.id
	}
}

// could tells whether a guest could go faster if its owners lost nothing.
func (f *policy) could(g *guest) bool {
	return !g.new && len(g.owners) > 0 && g.pace < f.cfg.Loop.top(g.note.tooMuch)
}

// free tells whether the owners of a guest lose so little that it could go faster.
func (f *policy) free(g *guest) bool {
	for _, id := range g.owners {
		if o := f.loop.owners[id]; !o.there || o.alone == 0 || o.slow() > 1+f.cfg.Loop.Slack/2 {
			return false
		}
	}
	return true
}

// coordinate sets the paces and caps of all guests.
func (f *policy) coordinate(v *sched.View, p *sched.Plan) {
	f.look(v)
	for _, id := range f.loop.met {
		f.loop.owners[id].learn(p, id, f.cfg.Loop.Slack)
	}
	for i := range f.loop.guests {
		g := &f.loop.guests[i]
		pace, n := f.step(v, g)
		f.grant(v, p, g, pace, n)
	}
}

// learn has the speed of an owner alone noted when all its guests stand still, and
// whenever it is faster than was thought.
func (o *owner) learn(p *sched.Plan, id job.ID, slack float64) {
	if !o.there {
		return
	}
	if o.still && (o.alone == 0 || o.slow() > 1+slack/2) || o.alone > 0 && o.speed > o.alone+faster {
		o.alone = o.speed
		p.Remember(id, &note{step: -1, alone: o.alone})
	}
}

// step is the pace of a guest from now on, and what is remembered of it; nil: what is
// remembered already.
func (f *policy) step(v *sched.View, g *guest) (int, *note) {
	switch {
	case g.new && len(g.owners) == 0:
		return Full, &note{step: v.Now}
	case g.new: // suspended, until it is known how fast the owners are alone
		return 0, &note{step: v.Now, owners: g.owners}
	case len(g.owners) == 0:
		return Full, nil
	case !g.due:
		return g.pace, nil
	}
	n := g.note
	slow, mine, back, turn := 1.0, false, false, g.wants
	for _, id := range g.owners {
		o := f.loop.owners[id]
		turn = turn && o.asks == g.id
		if !o.there || o.alone == 0 {
			continue
		}
		last := o.tried == g.id || o.tried == job.None && o.newest == g.id
		if s := o.slow(); s > 1+f.cfg.Loop.Slack {
			slow = max(slow, s)
			mine = mine || last
		}
		back = back || last && f.keeps(o, g.id)
	}
	next := f.cfg.Loop.Next(g.pace, n.tooMuch, slow)
	if back && next >= g.pace { // a step back lets others go
		next, mine = max(0, g.pace-f.cfg.Loop.Up), true
	}
	switch {
	case next < g.pace && mine:
		if n.raised && v.Now-n.step <= f.period(v) {
			n.tooMuch = g.pace
		}
		n.raised = false
	case next > g.pace && turn:
		n.raised = true
	default:
		return g.pace, nil
	}
	n.step = v.Now
	return next, &n
}

// grant gives a guest a pace and what owners leave of memory and processors.
func (f *policy) grant(v *sched.View, p *sched.Plan, g *guest, pace int, n *note) {
	j, held := v.Job(g.id), p.Alloc(g.id)
	p.Adjust(g.id, func(a *cluster.Alloc) { f.give(v, j, a, held, pace) })
	if n != nil {
		p.Remember(g.id, n)
	}
}

// give writes into the alloc of a guest, which holds held of it so far, what it has
// from now on. Where main memory is short of what it would spill, it stands still.
func (f *policy) give(v *sched.View, j sched.Job, a, held *cluster.Alloc, pace int) {
	c, role, at := v.Cluster(), &j.Spec().Demand.Roles[0], 0
	for i := range a.Pieces {
		piece := &a.Pieces[i]
		shares := a.Shares[at : at+int(piece.Shares)]
		for k := range shares {
			has := unit.Bytes(0)
			if held != nil {
				has = held.Shares[at+k].Memory
			}
			if held == nil || spills(v) {
				shares[k].Memory = f.limit(v, j, shares[k].Device, has)
			}
		}
		at += int(piece.Shares)
		var hasCPU unit.Milli
		var hasMemory unit.Bytes
		if held != nil {
			hasCPU, hasMemory = held.Pieces[i].CPU, held.Pieces[i].Memory
		}
		piece.CPU = role.CPU * unit.Milli(piece.Tasks)
		if free, ok := c.CPUFree(piece.Node); ok {
			piece.CPU = max(0, min(piece.CPU, free+hasCPU))
		}
		piece.Memory = role.Memory * unit.Bytes(piece.Tasks)
		spilled := f.spilled(v, j, shares)
		if free, ok := c.MemoryFree(piece.Node); ok && piece.Memory+spilled > free+hasMemory {
			pace = 0
			continue
		}
		piece.Memory += spilled
	}
	for i := range a.Shares {
		a.Shares[i].Throttle = int32(Full - pace)
	}
}

// spilled is what a guest takes of memory beyond the caps of its shares.
func (f *policy) spilled(v *sched.View, j sched.Job, shares []cluster.Share) (sum unit.Bytes) {
	c := v.Cluster()
	if !spills(v) {
		return 0
	}
	for i := range shares {
		if s := &shares[i]; c.Type(c.TypeOf(s.Device)).Memory > 0 {
			sum += max(0, perf.MemoryOf(j.Spec())-s.Memory)
		}
	}
	return sum
}

// spills tells whether what does not fit a GPU is believed to go to main memory.
func spills(v *sched.View) bool {
	_, can := v.Sharing.(perf.Spilling)
	return can
}

// short tells whether main memory has no room for what a guest would spill.
func (f *policy) short(v *sched.View, j sched.Job, a *cluster.Alloc) bool {
	shares, role := a.Shares, &j.Spec().Demand.Roles[0]
	for i := range a.Pieces {
		piece := &a.Pieces[i]
		if piece.Memory < role.Memory*unit.Bytes(piece.Tasks)+f.spilled(v, j, shares[:piece.Shares]) {
			return true
		}
		shares = shares[piece.Shares:]
	}
	return false
}

// limit is the cap of a guest on a device where it has so much memory in the books:
// what it needs, or what owners leave.
func (f *policy) limit(v *sched.View, j sched.Job, d cluster.DeviceID, booked unit.Bytes) unit.Bytes {
	c := v.Cluster()
	has := c.Type(c.TypeOf(d)).Memory
	if has == 0 {
		return 0
	}
	free := c.DeviceMemoryFree(d) + booked
	if owners, _ := f.counts(d); owners > 0 {
		free -= unit.Bytes(f.cfg.Margin * float64(unit.GiB))
		var theirs, told unit.Bytes
		for _, id := range f.on(d) {
			if o := v.Job(id).Spec(); !IsGuest(f.holding(id)) {
				told += perf.MemoryOf(o)
				theirs += o.Demand.Roles[0].GPUMemory
			}
		}
		free -= max(0, max(told, f.measured(v, j, d))-theirs)
	}
	need := perf.MemoryOf(j.Spec())
	if need == 0 {
		need = has
	}
	return max(0, min(need, free))
}

// measured is what owners were seen to take of the memory of a device since the pace
// of the only guest there was set.
func (f *policy) measured(v *sched.View, j sched.Job, d cluster.DeviceID) unit.Bytes {
	held, w := v.Alloc(j.ID), v.UsedOver(d, 0)
	if n, _ := sched.Recall[note](j); held == nil || !w.Known || n.step < 0 || w.Since < n.step {
		return 0
	}
	if _, guests := f.counts(d); guests != 1 {
		return 0
	}
	at := slices.IndexFunc(held.Shares, func(s cluster.Share) bool { return s.Device == d })
	kept := held.Shares[at].Memory
	if need := perf.MemoryOf(j.Spec()); need > 0 {
		kept = min(kept, need)
	}
	return w.Memory - kept
}

// nextStep is when the coordinator has something to do next, if nothing happens.
func (f *policy) nextStep(v *sched.View) time.Duration {
	f.look(v)
	at := unit.Never
	for i := range f.loop.guests {
		if g := &f.loop.guests[i]; f.unsettled(g) {
			at = min(at, since(g.note.step, f.period(v), v.Now))
		}
	}
	return at
}

// unsettled tells whether the pace of a guest may still move by itself.
func (f *policy) unsettled(g *guest) bool {
	if g.wants {
		return true
	}
	for _, id := range g.owners {
		if o := f.loop.owners[id]; o.there && (o.alone == 0 || o.slow() > 1+f.cfg.Loop.Slack) || f.keeps(o, o.newest) {
			return true
		}
	}
	return false
}
