package report

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// besideView is how runs compare with the baseline.
type besideView struct {
	Verdict string
	Checks  []string
	Base    string
	Runs    []string // that are compared with it
	Tables  []changesView
}

// changesView is who gains and who loses, by one grouping.
type changesView struct {
	By   string
	Rows []changeView
}

type changeView struct {
	Name  string
	Jobs  int
	Was   string // mean JCT and wait in the baseline
	Cells []changeCell
}

// changeCell is a class in a run.
type changeCell struct {
	JCT, Wait   string // mean
	Change      string // of the mean JCT
	Gain, Loses bool   // by a part that is worth telling
}

func newBesideView(c *Comparison) besideView {
	if c == nil {
		return besideView{}
	}
	v := besideView{Verdict: c.Verdict(), Checks: c.Checks(), Base: short(c.Runs[c.Base].Name)}
	shown := c.shown()[1:]
	for _, i := range shown {
		v.Runs = append(v.Runs, short(c.Runs[i].Name))
	}
	for _, by := range Groupings() {
		t := changesView{By: by.String()}
		for _, x := range Largest(c.Classes(by), shownClasses) {
			base := &x.Runs[c.Base]
			row := changeView{Name: short(x.label()), Jobs: x.Jobs, Was: "-"}
			if base.Ended > 0 {
				row.Was = unit.Human(base.JCT) + " / " + unit.Human(base.Wait)
			}
			for _, i := range shown {
				row.Cells = append(row.Cells, x.change(i))
			}
			t.Rows = append(t.Rows, row)
		}
		if len(t.Rows) > 1 && len(shown) > 0 {
			v.Tables = append(v.Tables, t)
		}
	}
	return v
}

func (x *Class) change(run int) changeCell {
	r := &x.Runs[run]
	if r.Ended == 0 {
		return changeCell{JCT: "-", Wait: "-"}
	}
	out := changeCell{JCT: unit.Human(r.JCT), Wait: unit.Human(r.Wait), Gain: r.Change() <= -worthwhile, Loses: r.Change() >= worthwhile}
	if r.BaseJCT > 0 {
		out.Change = signedShare(r.Change())
	}
	return out
}

// waitView is why the jobs of a size or tenant waited.
type waitView struct {
	By, Name string
	Total    string
	Parts    []barView
}

// waits fills in why jobs waited by size, and by tenant: those that waited longest.
func (v *runView) waits(r *Result) {
	tenants := slices.Clone(r.Tenants)
	slices.SortStableFunc(tenants, func(a, b Group) int { return cmp.Compare(b.Causes.Total(), a.Causes.Total()) })
	tenants = tenants[:min(len(tenants), shownClasses)]
	if len(tenants) < 2 {
		tenants = nil
	}
	for _, part := range []struct {
		by     Grouping
		groups []Group
	}{{BySize, r.Sizes}, {ByTenant, tenants}} {
		for i := range part.groups {
			g := &part.groups[i]
			total := g.Causes.Total()
			if total <= 0 {
				continue
			}
			w := waitView{By: part.by.String(), Name: short(cmp.Or(g.Name, "-")), Total: hours(total)}
			for _, c := range g.Causes.longest() {
				w.Parts = append(w.Parts, barView{Name: c.String(), Text: wholePercent(g.Causes[c] / total)})
			}
			v.Classes = append(v.Classes, w)
		}
	}
}

// meaningView is a reason and what it means.
type meaningView struct{ Reason, Cause, Meaning string }

// waits fills in the causes and the reasons that any run has.
func (v *pageView) waits(runs []Named) {
	for i := range causes {
		if slices.ContainsFunc(runs, func(n Named) bool { return n.Result.Causes[i] > 0 }) {
			v.Causes = append(v.Causes, barView{Name: i.String(), Class: "w" + number(int(i))})
		}
	}
	for _, run := range runs {
		for _, w := range run.Result.Reasons {
			one := meaningView{w.Reason, w.Cause.String(), reasonMeanings[w.Reason]}
			if !slices.Contains(v.Reasons, one) {
				v.Reasons = append(v.Reasons, one)
			}
		}
	}
	slices.SortFunc(v.Reasons, func(a, b meaningView) int { return cmp.Compare(a.Reason, b.Reason) })
}
