package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/quota"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// slots is the largest number of slots of shares.
const slots = 256

// shares is what tenants asked for and had over time, in slots of equal width. It
// starts with slots of a second and doubles their width whenever the run outgrows
// them. Those counted are directly below the root, with all below them; tenants are
// known by number, and the jobs of no tenant are those of the root.
type shares struct {
	begun bool
	start time.Duration
	width time.Duration
	n     int     // slots in use
	there account // of the devices: held is how many are there, asked is one
	who   []account
}

// account is what somebody asks for and has, in thousandths of a GPU, now and over
// time.
type account struct {
	stake
	leaving unit.Milli    // held beyond what is in the books
	since   time.Duration // up to here it is counted
	slots   []stake       // in each, times seconds
}

type stake struct{ asked, allocated float64 }

func (s *stake) add(o stake, times float64) {
	s.asked += o.asked * times
	s.allocated += o.allocated * times
}

func newShares() *shares {
	return &shares{width: time.Second, n: 1, there: account{stake: stake{asked: 1}, slots: make([]stake, slots)}}
}

// follow takes in a change of a job, which asks for more devices than before by
// more. leaving is the change of the difference between what jobs have and what
// the books say. Jobs that are leaving have devices that the books no longer
// have, and jobs that have not begun do not have theirs yet.
func (s *shares) follow(r *job.Record, more, leaving unit.Milli, st *state.State) {
	t := quota.Top(st.Tenants, r.Tenant)
	for int(t) >= len(s.who) {
		s.who = append(s.who, account{})
	}
	a := &s.who[t]
	if a.slots == nil {
		a.slots = make([]stake, slots)
	}
	allocated := st.Tenants.At(t).Used.GPU
	if t == tenant.Root {
		for _, child := range st.Tenants.At(t).Children {
			allocated -= st.Tenants.At(child).Used.GPU
		}
	}
	s.settle(a, st.Now)
	a.leaving += leaving
	a.asked, a.allocated = a.asked+float64(more), float64(allocated+a.leaving)
}

// supply says how many devices are there from now on.
func (s *shares) supply(there unit.Milli, now time.Duration) {
	s.settle(&s.there, now)
	s.there.allocated = float64(there)
}

// advance moves on from one moment to another, at which nothing has changed yet.
func (s *shares) advance(from, to time.Duration) {
	if !s.begun {
		s.settleAll(from)
		s.begun, s.start = true, from
	}
	for end := s.end(); to > end; end = s.end() {
		s.settleAll(end)
		if s.n == slots {
			s.double()
		} else {
			s.n++
		}
	}
}

// end is when the last slot ends.
func (s *shares) end() time.Duration { return s.start + time.Duration(s.n)*s.width }

func (s *shares) settleAll(now time.Duration) {
	s.settle(&s.there, now)
	for t := range s.who {
		s.settle(&s.who[t], now)
	}
}

// settle counts an account up to now, within the last slot.
func (s *shares) settle(a *account, now time.Duration) {
	dt := (now - a.since).Seconds()
	if a.since = now; dt > 0 && s.begun && a.slots != nil {
		a.slots[s.n-1].add(a.stake, dt)
	}
}

// double joins the slots in pairs.
func (s *shares) double() {
	s.there.double()
	for t := range s.who {
		s.who[t].double()
	}
	s.n /= 2
	s.width *= 2
}

func (a *account) double() {
	if a.slots == nil {
		return
	}
	for i := range slots / 2 {
		pair := a.slots[2*i]
		pair.add(a.slots[2*i+1], 1)
		a.slots[i] = pair
	}
	clear(a.slots[slots/2:])
}

// upTo is the shares, told up to one moment, up to another. s is not changed.
func (s *shares) upTo(told, end time.Duration) *shares {
	c := *s
	c.who = slices.Clone(s.who)
	c.there.slots = slices.Clone(s.there.slots)
	for t := range c.who {
		c.who[t].slots = slices.Clone(c.who[t].slots)
	}
	end = max(told, end)
	c.advance(told, end)
	c.settleAll(end)
	return &c
}

// Due is what a tenant asked for, had and was due, over the whole run.
type Due struct {
	Name      string  `json:"tenant"`    // empty: jobs of no tenant
	Guarantee float64 `json:"guarantee"` // GPUs
	Weight    float64 `json:"weight"`
	Asked     float64 `json:"asked_gpu_hours"`
	Allocated float64 `json:"held_gpu_hours"`
	Due       float64 `json:"due_gpu_hours"`
	Short     float64 `json:"short_gpu_hours"` // by which it had less than it was due, slot by slot

	there float64   // GPUs that were there, in the mean
	slots []dueSlot // by time
	start time.Duration
	width time.Duration // of a slot
}

// dueSlot is a tenant in a slot: parts of the devices that were there, and the GPUs that it
// had in the mean of so many seconds.
type dueSlot struct{ allocated, due, gpus, seconds float64 }

// dues divides the available GPUs of each slot between the tenants. Each gets
// its guarantee, and the rest is divided by weight. No tenant gets more than it
// asked for (or had, if that is more).
func (s *shares) dues(st *state.State) []Due {
	out, parts := make([]Due, len(s.who)), make([]quota.Part, len(s.who))
	var all stake
	for _, slot := range s.there.slots[:s.n] {
		all.add(slot, 1)
	}
	for t := range out {
		e := st.Tenants.At(tenant.ID(t))
		out[t] = Due{Name: e.Name, Guarantee: float64(e.Guarantee) / float64(unit.One), Weight: e.Weight, there: safeShare(all.allocated, all.asked) / float64(unit.One), start: s.start, width: s.width}
		if tenant.ID(t) == tenant.Root {
			out[t].Guarantee, out[t].Weight = 0, 1
		}
	}
	for i := range s.n {
		there := s.there.slots[i]
		for t := range parts {
			w := s.at(t, i)
			parts[t] = quota.PartOf(st.Tenants, tenant.ID(t), max(w.asked, w.allocated), there.asked)
		}
		quota.Divide(parts, there.allocated, quota.Borrowed)
		for t := range out {
			out[t].add(s.at(t, i), parts[t].Share, there)
		}
	}
	out = slices.DeleteFunc(out, func(d Due) bool { return d.Asked == 0 && d.Allocated == 0 })
	slices.SortStableFunc(out, func(a, b Due) int { return cmp.Or(cmp.Compare(b.Due, a.Due), cmp.Compare(a.Name, b.Name)) })
	return out
}

// at is what a tenant asked for and had in a slot.
func (s *shares) at(t, slot int) stake {
	if s.who[t].slots == nil {
		return stake{}
	}
	return s.who[t].slots[slot]
}

// add counts a slot in which it was due so much of what was there, in thousandths of a
// GPU times seconds.
func (d *Due) add(w stake, due float64, there stake) {
	const hour = 3600 * float64(unit.One)
	d.Asked += w.asked / hour
	d.Allocated += w.allocated / hour
	d.Due += due / hour
	d.Short += max(0, due-w.allocated) / hour
	d.slots = append(d.slots, dueSlot{
		safeShare(w.allocated, there.allocated), safeShare(due, there.allocated), safeShare(w.allocated, there.asked) / float64(unit.One), there.asked,
	})
}
