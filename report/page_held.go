package report

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// heldView is who had the GPUs of a run over time, in classes on top of each other, drawn in a
// box of one for each slot by one for all GPUs that were there.
type heldView struct {
	By       string
	Slots    int
	Layers   []layerView // the highest first, since each covers the lower part of the one before
	From, To string
}

// layerView is a class of jobs: its area reaches from its own upper edge down to the bottom.
type layerView struct{ Name, Colour, Path string }

// heldClass is the share of the GPUs that a class of jobs had, by slot.
type heldClass struct {
	name, colour string
	shares       []float64
}

// heldViews are those of a run by the size of its jobs, and by tenant where there are several.
func heldViews(r *Result, begins time.Time) []heldView {
	var out []heldView
	if s := r.series; s != nil && len(s.buckets) > 0 {
		when := func(at time.Duration) string {
			if begins.IsZero() {
				return unit.Human(at)
			}
			return begins.Add(at).UTC().Format("2006-01-02 15:04")
		}
		from, to := when(s.start), when(s.end)
		if v := stacked(heldBySize(s)); v.Slots > 0 {
			v.By, v.From, v.To = "size", from, to
			out = append(out, v)
		}
		if v := stacked(heldByTenant(r.Dues)); v.Slots > 0 {
			v.By, v.From, v.To = "tenant", from, to
			out = append(out, v)
		}
	}
	return out
}

// heldBySize is what jobs of each size had, in at most shownParts parts.
func heldBySize(s *series) []heldClass {
	out := make([]heldClass, sizes)
	s.parts(shownParts, func(_, _ int, sum *bucket) {
		for size := range out {
			out[size].shares = append(out[size].shares, safeShare(sum.held[size], sum.there))
		}
	})
	for size := range out {
		out[size].name, out[size].colour = sizeNames[size]+" GPUs", "z"+strconv.Itoa(size)
	}
	out[1].name = "1 GPU"
	return out
}

const (
	shownHeld    = 12 // runs
	shownParts   = 256
	shownHolders = 9 // as many tenants as the chart of GPUs by time tells apart
)

// heldByTenant is what each of the largest tenants had, and all others together; none when there
// is but one.
func heldByTenant(dues []Due) []heldClass {
	if len(dues) < 2 {
		return nil
	}
	order := slices.Clone(dues)
	slices.SortStableFunc(order, func(a, b Due) int { return cmp.Compare(b.Allocated, a.Allocated) })
	var out []heldClass
	for i := range order {
		d := &order[i]
		if i < shownHolders {
			c := heldClass{tenantName(d.Name), "c" + strconv.Itoa(i), make([]float64, len(d.slots))}
			out = append(out, c)
		} else if i == shownHolders {
			out = append(out, heldClass{"others", "k2", make([]float64, len(d.slots))})
		}
		shares := out[min(i, shownHolders)].shares
		for k, slot := range d.slots {
			shares[k] += slot.allocated
		}
	}
	return out
}

// stacked puts classes that had anything on top of each other; no slots: none had.
func stacked(classes []heldClass) heldView {
	classes = slices.DeleteFunc(classes, func(c heldClass) bool {
		return !slices.ContainsFunc(c.shares, func(v float64) bool { return v > 0 })
	})
	if len(classes) == 0 {
		return heldView{}
	}
	v := heldView{Slots: len(classes[0].shares)}
	sum := make([]float64, v.Slots)
	for _, c := range classes {
		for i, share := range c.shares {
			sum[i] += share
		}
		v.Layers = append(v.Layers, layerView{c.name, c.colour, "M0 1" + steps(v.Slots, func(i int) float64 { return sum[i] }) + "V1Z"})
	}
	slices.Reverse(v.Layers)
	return v
}

// acrossView is a tenant in all runs.
type acrossView struct {
	Name  string
	Jobs  int
	Hours float64
	Runs  []Group
}

// across fills in the tenants of the most GPU time beside each other, where there are several
// tenants and runs.
func (v *pageView) across(runs []Named) {
	if len(runs) < 2 {
		return
	}
	var all []acrossView
	at := map[string]int{}
	for r, run := range runs {
		for _, g := range run.Result.Tenants {
			i, known := at[g.Name]
			if !known {
				i = len(all)
				at[g.Name] = i
				all = append(all, acrossView{Name: tenantName(g.Name), Runs: make([]Group, len(runs))})
			}
			t := &all[i]
			t.Runs[r], t.Jobs, t.Hours = g, max(t.Jobs, g.Jobs), max(t.Hours, g.GPUHours)
		}
	}
	if len(all) < 2 {
		return
	}
	slices.SortStableFunc(all, func(a, b acrossView) int { return cmp.Compare(b.Hours, a.Hours) })
	if len(all) > shownAcross {
		v.MoreAcross = len(all) - shownAcross
		all = all[:shownAcross]
	}
	v.Across = all
}

// shownAcross is how many tenants are shown beside each other.
const shownAcross = 20
