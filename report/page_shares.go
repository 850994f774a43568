package report

import (
	"math"
	"strconv"
)

// shownShares is how many tenants' shares are drawn.
const shownShares = 8

// shareView is what a tenant had and was due, drawn in a box of one for each slot by
// one for all devices.
type shareView struct {
	Of           Due
	Name         string
	Slots        int
	Filled, Line string  // paths
	Promise      float64 // height of the guarantee, downwards; 1: none
}

// shareViews are those of the tenants that were due most; none when there is but one.
func shareViews(dues []Due) []shareView {
	if len(dues) < 2 {
		return nil
	}
	var out []shareView
	for _, d := range dues[:min(len(dues), shownShares)] {
		v := shareView{Of: d, Name: tenantName(d.Name), Slots: len(d.slots), Promise: 1}
		v.Filled = "M0 1" + steps(len(d.slots), func(i int) float64 { return d.slots[i].allocated }) + "V1Z"
		v.Line = "M0 " + height(d.slots[0].due) + steps(len(d.slots), func(i int) float64 { return d.slots[i].due })
		if d.Guarantee > 0 && d.there > 0 {
			v.Promise = 1 - min(1, d.Guarantee/d.there)
		}
		out = append(out, v)
	}
	return out
}

// steps is a line that goes up or down at the beginning of each of n slots.
func steps(n int, of func(slot int) float64) string {
	var b []byte
	last := ""
	for i := range n {
		if y := height(of(i)); y != last {
			if i > 0 {
				b = strconv.AppendInt(append(b, 'H'), int64(i), 10)
			}
			b, last = append(append(b, 'V'), y...), y
		}
	}
	return string(strconv.AppendInt(append(b, 'H'), int64(n), 10))
}

func height(share float64) string {
	return strconv.FormatFloat(1-rounded(math.Min(1, share), 1e3), 'g', 4, 64)
}

// price is the price of fairness: by how much the mean JCT of a run is above the least
// of the runs beside it.
func price(r *Result, runs []Named) string {
	least := math.Inf(1)
	for _, run := range runs {
		if run.Result.JCT.N > 0 && !run.Result.Told {
			least = min(least, run.Result.JCT.Mean.Seconds())
		}
	}
	if r.JCT.N == 0 || len(runs) < 2 || least <= 0 {
		return "-"
	}
	return "+" + percent(r.JCT.Mean.Seconds()/least-1)
}
