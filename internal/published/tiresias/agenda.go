package tiresias

import "github.com/norn-scheduler/norn/state/dense"

// agenda is the moments at which jobs go back up, one for each job at most, in
// seconds. It is a wheel: a moment less than a turn ahead has a slot of its own,
// later ones wait in a heap. Nearly all are near, so that adding and taking them
// costs a few instructions. Moments must be added after what take was last asked
// for. The zero agenda is empty.
type agenda struct {
	now   int64     // nothing is due before
	used  dense.Set // slots in which there is any job
	slots []int32   // the first job of each, + 1
	links []int32   // by job: the next one in its slot, + 1
	far   dense.Heap
}

// turn is the number of slots.
const turn = 1 << 13

// add notes the moment of a job that has none.
func (a *agenda) add(id int32, at int64) {
	if at >= a.now+turn {
		a.far.Set(id, at)
		return
	}
	if a.slots == nil {
		a.slots = make([]int32, turn)
	}
	for int(id) >= len(a.links) {
		a.links = append(a.links, make([]int32, max(256, int(id)+1-len(a.links), len(a.links)))...)
	}
	slot := int(at % turn)
	a.links[id] = a.slots[slot]
	a.slots[slot] = id + 1
	a.used.Add(slot)
}

// remove forgets the moment of a job.
func (a *agenda) remove(id int32, at int64) {
	if a.far.Remove(id) {
		return
	}
	slot := int(at % turn)
	link := &a.slots[slot]
	for *link != id+1 {
		link = &a.links[*link-1]
	}
	*link = a.links[id]
	if a.slots[slot] == 0 {
		a.used.Remove(slot)
	}
}

// next is the first moment, or never.
func (a *agenda) next() int64 {
	at := never
	if a.used.Len() > 0 {
		slot := a.used.Next(int(a.now % turn))
		if slot < 0 {
			slot = a.used.Min()
		}
		at = a.now + (int64(slot)-a.now%turn+turn)%turn
	}
	if a.far.Len() > 0 {
		_, first := a.far.Min()
		at = min(at, first)
	}
	return at
}

// take forgets the moments up to now and appends their jobs to out.
func (a *agenda) take(now int64, out []int32) []int32 {
	for at := a.next(); at <= now; at = a.next() {
		for a.far.Len() > 0 {
			if _, first := a.far.Min(); first > at {
				break
			}
			id, _ := a.far.Pop()
			out = append(out, id)
		}
		if slot := int(at % turn); a.used.Remove(slot) {
			for next := a.slots[slot]; next > 0; next = a.links[next-1] {
				out = append(out, next-1)
			}
			a.slots[slot] = 0
		}
		a.now = at + 1
	}
	a.now = now + 1
	return out
}
