package topoaware

// dict is the order in which a dict of Python 2 with whole numbers from 0 on for keys is walked: that of its hash
// table, which goes by what was put in and taken out before.
type dict struct {
	slots      []slot
	fill, used int
}

type slot struct {
	key  int
	held uint8 // never used, used, or left
}

const (
	empty uint8 = iota
	taken
	dummy
)

const leastSlots = 8

// find is the slot of a key, or the one in which it would be put.
func (d *dict) find(key int) *slot {
	mask := uint(len(d.slots) - 1)
	var free *slot
	i, perturb := uint(key), uint(key)
	for {
		s := &d.slots[i&mask]
		switch {
		case s.held == empty && free != nil:
			return free
		case s.held == empty, s.held == taken && s.key == key:
			return s
		case s.held == dummy && free == nil:
			free = s
		}
		i = i<<2 + i + perturb + 1
		perturb >>= 5
	}
}

// put adds a key.
func (d *dict) put(key int) {
	if d.slots == nil {
		d.slots = make([]slot, leastSlots)
	}
	s := d.find(key)
	if s.held == taken {
		return
	}
	if s.held == empty {
		d.fill++
	}
	*s = slot{key, taken}
	if d.used++; d.fill*3 >= len(d.slots)*2 {
		size := leastSlots
		for size <= 4*d.used {
			size *= 2
		}
		keys := d.keys()
		*d = dict{slots: make([]slot, size), fill: len(keys), used: len(keys)}
		for _, k := range keys {
			*d.find(k) = slot{k, taken}
		}
	}
}

// remove takes a key out, if it is in.
func (d *dict) remove(key int) {
	if d.slots == nil {
		return
	}
	if s := d.find(key); s.held == taken {
		s.held = dummy
		d.used--
	}
}

// keys are in the order of the table.
func (d *dict) keys() []int {
	var out []int
	for _, s := range d.slots {
		if s.held == taken {
			out = append(out, s.key)
		}
	}
	return out
}

// clone is a deep copy, which puts the keys into a new table one by one.
func (d *dict) clone() dict {
	var out dict
	for _, k := range d.keys() {
		out.put(k)
	}
	return out
}
