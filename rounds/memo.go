package rounds

import (
	"math"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// account is the claims of one job as they are written on it. There is room for
// three of them, or for two and a number of the policy's own. Those with the
// largest targets are kept; of the optimum of a program that shares out J types
// no more than J jobs have claims on several. What is remembered is rounded, and
// what is rounded is what counts, so that a policy that starts anew decides the
// same: targets to a thousandth (and never down to nothing), the others to a
// quarter of a round, within the limits below.
type account struct {
	known   bool  // something is written on the job at all
	epoch   int64 // round with which its epoch began, modulo epochs
	check   uint8 // of what there was to share then
	stamp   uint8 // the round at whose beginning it was last served, modulo stamps, plus one; 0: it was not
	entries []entry
	own     float32 // a number of the policy's own
	solo    bool    // it shares devices with nobody: memory did not suffice once
	near    bool    // it was last served by a claim on time together
}

type entry struct {
	t    cluster.TypeID
	with job.ID // who shares the devices; job.None: nobody
	near bool   // on time together on one node
	Claim
}

// layout is what there is room for. Where jobs share devices in pairs, a claim says who
// the other one is, as far as its number modulo guests tells, and is written on one of
// the two; for that there is no deficit, and targets and rounds are counted up to less.
// Where claims on time together are told from others, a bit of the target does so.
type layout struct{ own, pairs, together bool }

// What fits.
const (
	epochs      = 1 << 9
	stamps      = 15
	checks      = 63
	maxTarget   = 1<<10 - 1
	maxReceived = (1<<10 - 1) / 4.0
	maxDeficit  = (1<<9 - 1) / 4.0

	nearTarget   = 1<<9 - 1
	guests       = 1<<14 - 1
	pairTarget   = 1<<8 - 1
	pairReceived = (1<<8 - 1) / 4.0
)

// bits are 128 of them, filled and emptied from the lowest on.
type bits struct {
	word [2]uint64
	at   uint
}

func (b *bits) put(v uint64, n uint) {
	i, shift := b.at/64, b.at%64
	b.word[i] |= v << shift
	if shift+n > 64 {
		b.word[i+1] |= v >> (64 - shift)
	}
	b.at += n
}

func (b *bits) get(n uint) uint64 {
	i, shift := b.at/64, b.at%64
	v := b.word[i] >> shift
	if shift+n > 64 {
		v |= b.word[i+1] << (64 - shift)
	}
	b.at += n
	return v & (1<<n - 1)
}

// room is how many claims are kept.
func (l layout) room() int {
	if l.own {
		return 2
	}
	return 3
}

// round makes a claim what can be remembered of it.
func (l layout) round(c *Claim) {
	targets, received, deficit := float64(maxTarget), maxReceived, maxDeficit
	if l.together {
		targets = nearTarget
	}
	if l.pairs {
		targets, received, deficit = pairTarget, pairReceived, 0
	}
	if c.Target > 0 {
		c.Target = max(1, math.Round(min(c.Target, 1)*targets)) / targets
	} else {
		c.Target = 0
	}
	c.Received = math.Round(4*min(max(c.Received, 0), received)) / 4
	c.Deficit = math.Round(4*min(max(c.Deficit, -deficit), deficit)) / 4
}

// guest is how a job is named in a claim of another one; 0 is nobody.
func guest(id job.ID) uint64 {
	if id == job.None {
		return 0
	}
	return uint64(id)%guests + 1
}

// memo writes an account, whose claims must be rounded and fit.
func (a *account) memo(l layout) job.Memo {
	var b bits
	b.put(1+uint64(a.check%checks), 6)
	b.put(uint64(a.epoch%epochs), 9)
	b.put(bit(a.solo || a.near), 1) // only pairs are ever solo, and those are never near
	b.put(uint64(a.stamp), 4)
	for i := range l.room() {
		e := entry{with: job.None}
		if i < len(a.entries) {
			e = a.entries[i]
		}
		b.put(uint64(e.t), 6)
		if l.pairs {
			b.put(guest(e.with), 14)
			b.put(uint64(math.Round(e.Target*pairTarget)), 8)
			b.put(uint64(math.Round(e.Received*4)), 8)
			continue
		}
		if l.together {
			b.put(uint64(math.Round(e.Target*nearTarget)), 9)
			b.put(bit(e.near), 1)
		} else {
			b.put(uint64(math.Round(e.Target*maxTarget)), 10)
		}
		b.put(uint64(math.Round(e.Received*4)), 10)
		b.put(uint64(int64(math.Round(e.Deficit*4)))&(1<<10-1), 10)
	}
	if l.own {
		b.put(uint64(math.Float32bits(a.own)), 32)
	}
	return job.Memo{int64(b.word[0]), int64(b.word[1])}
}

func bit(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

// read is the opposite of memo. Where jobs share, a claim tells of the other one what
// guest makes of its number, negative and less by one: see known.
func (a *account) read(m job.Memo, l layout) {
	b := bits{word: [2]uint64{uint64(m[0]), uint64(m[1])}}
	check := b.get(6)
	*a = account{known: check > 0, check: uint8(check - 1), epoch: int64(b.get(9)), solo: b.get(1) == 1, stamp: uint8(b.get(4)), entries: a.entries[:0]}
	if !a.known {
		return
	}
	if l.together {
		a.solo, a.near = false, a.solo
	}
	for range l.room() {
		e := entry{t: cluster.TypeID(b.get(6)), with: job.None}
		if l.pairs {
			e.with -= job.ID(b.get(14))
			e.Target = float64(b.get(8)) / pairTarget
			if e.Received = float64(b.get(8)) / 4; e.Claim != (Claim{}) {
				a.entries = append(a.entries, e)
			}
			continue
		}
		if l.together {
			e.Target = float64(b.get(9)) / nearTarget
			e.near = b.get(1) == 1
		} else {
			e.Target = float64(b.get(10)) / maxTarget
		}
		e.Received = float64(b.get(10)) / 4
		e.Deficit = float64(int64(b.get(10)<<54)>>54) / 4
		if e.Claim != (Claim{}) {
			a.entries = append(a.entries, e)
		}
	}
	if l.own {
		a.own = math.Float32frombits(uint32(b.get(32)))
		if a.own != a.own {
			a.own = 0
		}
	}
}
