package report

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// growthView is how waits change with the size of the cluster.
type growthView struct {
	Sentences []string
	Rows      []growthRow
}

type growthRow struct{ Policy, Size, GPUs, Wait, P99, JCT, Saved, Left string }

func newGrowthView(c *Comparison) growthView {
	if c == nil {
		return growthView{}
	}
	var v growthView
	all := c.Growths()
	for i := range all {
		g := &all[i]
		v.Sentences = append(v.Sentences, g.Sentence())
		for k := range g.Points {
			p := &g.Points[k]
			row := growthRow{Policy: short(g.Policy), Size: short(cmp.Or(p.Growth, "as it is")), GPUs: number(p.GPUs), Wait: "-", P99: "-", JCT: "-"}
			if p.Jobs > 0 {
				row.Wait, row.P99, row.JCT = unit.Human(p.Wait.Mean), unit.Human(p.Wait.P99), unit.Human(p.JCT.Mean)
			}
			if p.Growth != "" && p.Jobs > 0 {
				row.Saved = percent(p.Saved)
			}
			if p.Left > 0 {
				row.Left = strconv.Itoa(p.Left)
			}
			v.Rows = append(v.Rows, row)
		}
	}
	if text := Instead(all); text != "" {
		v.Sentences = append(v.Sentences, text)
	}
	return v
}

// grown fills in the mean wait of each run over the number of GPUs, in seconds. Of two
// clusters with as many GPUs it has the one on which jobs wait for less.
func (d *pageData) grown(c *Comparison) {
	if c == nil {
		return
	}
	all := c.Growths()
	for i := range all {
		for k := range all[i].Points {
			d.GPUs = append(d.GPUs, all[i].Points[k].GPUs)
		}
	}
	slices.Sort(d.GPUs)
	d.GPUs = slices.Compact(d.GPUs)
	for i := range d.Runs {
		at := slices.IndexFunc(all, func(g Growth) bool { return i < len(c.Runs) && g.Policy == c.Runs[i].Policy })
		if at < 0 {
			continue
		}
		line := make([]*float64, len(d.GPUs))
		for k := range all[at].Points {
			p := &all[at].Points[k]
			s := p.Wait.Mean.Seconds()
			if x := slices.Index(d.GPUs, p.GPUs); p.Jobs > 0 && (line[x] == nil || s < *line[x]) {
				line[x] = &s
			}
		}
		d.Runs[i].Grown = line
	}
}
