package themis

import (
	"slices"

	"github.com/norn-scheduler/norn/solve/choose"
)

// division divides an offer among bidders so that what they win fits the machines.
type division struct {
	offer  Offer
	apps   []Bidder
	pieces bool // some bids must be on one machine

	picks   []int     // that are tried, by app
	best    []int     // those that are worth most
	most    float64   // what they are worth
	bound   []float64 // what an app and all behind it could gain at most
	free    []int64   // scratch of fits
	rooms   []int64   // of one type
	want    []int64   // pieces of one type
	patient int       // placements that packs may still try
}

func newDivision(o Offer, apps []Bidder) *division {
	d := &division{offer: o, apps: apps}
	for i := range apps {
		for k := range apps[i].Bids {
			d.pieces = d.pieces || len(apps[i].Bids[k].Pieces) > 0
		}
	}
	return d
}

// The largest number of splits that are all tried, and of placements that are tried for one.
const (
	mostSplits     = 2000
	mostPlacements = 2000
)

// few tells whether all splits can be tried.
func (d *division) few() bool {
	n := 1
	for i := range d.apps {
		if n *= 1 + len(d.apps[i].Bids); n > mostSplits {
			return false
		}
	}
	return true
}

// marginal is the best split, and by how much more the others would gain without each app.
func (d *division) marginal() (picks []int, takes []float64) {
	picks = d.solve(choose.None)
	takes = make([]float64, len(d.apps))
	for i, k := range picks {
		if k == choose.None {
			continue
		}
		without := d.solve(i)
		for j := range d.apps {
			if j != i {
				takes[i] += d.apps[j].gain(without[j]) - d.apps[j].gain(picks[j])
			}
		}
	}
	return picks, takes
}

// solve tries all splits among all apps but one.
func (d *division) solve(without int) []int {
	n := len(d.apps)
	d.bound = make([]float64, n+1)
	for i := n - 1; i >= 0; i-- {
		most := 0.0
		for k := range d.apps[i].Bids {
			most = max(most, d.apps[i].gain(k))
		}
		d.bound[i] = d.bound[i+1] + most
	}
	d.picks, d.best, d.most = slices.Repeat([]int{choose.None}, n), slices.Repeat([]int{choose.None}, n), 0
	d.try(0, without, 0)
	return d.best
}

// try goes through the bids of an app and of all behind it, on top of what those before it
// gain.
func (d *division) try(i, without int, gains float64) {
	if i == len(d.apps) {
		if gains > d.most {
			d.most = gains
			copy(d.best, d.picks)
		}
		return
	}
	if gains+d.bound[i] <= d.most {
		return
	}
	if i != without {
		for k := len(d.apps[i].Bids) - 1; k >= 0; k-- {
			if g := d.apps[i].gain(k); g > 0 {
				if d.picks[i] = k; d.fits(d.picks) {
					d.try(i+1, without, gains+g)
				}
			}
		}
	}
	d.picks[i] = choose.None
	d.try(i+1, without, gains)
}

// mend changes picks that do not fit the machines. Bids that must be on one are let in again
// one after the other, those that gain most for each GPU first, as far as they fit. Then each
// app in turn has the best bid that fits beside the others.
func (d *division) mend(picks []int) {
	worth := func(i int) float64 {
		return d.apps[i].gain(picks[i]) / float64(max(1, d.apps[i].Bids[picks[i]].Need))
	}
	var order []int
	for i, k := range picks {
		if k != choose.None && len(d.apps[i].Bids[k].Pieces) > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := worth(a), worth(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return a - b
	})
	was := slices.Clone(picks)
	for _, i := range order {
		picks[i] = choose.None
	}
	for _, i := range order {
		if picks[i] = was[i]; !d.fits(picks) {
			picks[i] = choose.None
		}
	}
	for i := range d.apps {
		for k := range d.apps[i].Bids {
			before := picks[i]
			if d.apps[i].gain(k) <= d.apps[i].gain(before) {
				continue
			}
			if picks[i] = k; !d.fits(picks) {
				picks[i] = before
			}
		}
	}
}

// fits tells whether what is picked is free, and its pieces find machines.
func (d *division) fits(picks []int) bool {
	d.free = append(d.free[:0], d.offer.Free...)
	for i, k := range picks {
		if k == choose.None {
			continue
		}
		b := &d.apps[i].Bids[k]
		if d.free[b.Type] -= b.Need; d.free[b.Type] < 0 {
			return false
		}
	}
	for typ := range d.offer.Rooms {
		d.want = d.want[:0]
		for i, k := range picks {
			if k != choose.None && d.apps[i].Bids[k].Type == typ {
				d.want = append(d.want, d.apps[i].Bids[k].Pieces...)
			}
		}
		if len(d.want) == 0 {
			continue
		}
		slices.SortFunc(d.want, func(a, b int64) int { return int(b - a) })
		d.rooms = append(d.rooms[:0], d.offer.Rooms[typ]...)
		d.patient = mostPlacements
		if !d.packs(d.want) {
			return false
		}
	}
	return true
}

// packs tells whether pieces, the largest first, find room. It tries the fullest machine
// first that has some, then others, and gives up where that takes too long.
func (d *division) packs(pieces []int64) bool {
	if len(pieces) == 0 {
		return true
	}
	for least := pieces[0]; ; {
		if d.patient--; d.patient < 0 {
			return false
		}
		at := -1
		for m, room := range d.rooms {
			if room >= least && (at < 0 || room < d.rooms[at]) {
				at = m
			}
		}
		if at < 0 {
			return false
		}
		room := d.rooms[at]
		d.rooms[at] -= pieces[0]
		ok := d.packs(pieces[1:])
		if d.rooms[at] = room; ok {
			return true
		}
		least = room + 1 // machines with as much room are as good
	}
}
