package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/grid"
)

// shownClasses is how many tenants or users are told of by themselves.
const shownClasses = 10

// WriteClasses writes who gains and who loses, for a terminal of so many columns: a table for
// each grouping that tells any jobs apart. A cell is the mean JCT of a class, and by how much
// that is above the mean JCT of the same jobs in the baseline.
func (c *Comparison) WriteClasses(w io.Writer, width int) error {
	for _, by := range Groupings() {
		t := c.classTable(by)
		if len(t.Rows) < 2 {
			continue
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := t.Write(w, width); err != nil {
			return err
		}
	}
	return nil
}

// shown are the runs of which classes are told: the baseline first.
func (c *Comparison) shown() []int {
	out := []int{c.Base}
	for i, r := range c.Runs {
		if i != c.Base && !r.Real && !r.Check {
			out = append(out, i)
		}
	}
	return out
}

func (c *Comparison) classTable(by Grouping) *grid.Table {
	g := &grid.Table{Cols: []grid.Column{{Title: strings.ToUpper(by.String()), Least: 8}, {Title: "JOBS", Right: true}}}
	shown := c.shown()
	for n, i := range shown {
		g.Cols = append(g.Cols, grid.Column{Title: clean(c.Runs[i].Name), Right: true, Rank: (len(shown) - n) * min(1, n)})
	}
	for _, x := range Largest(c.Classes(by), shownClasses) {
		cells := []string{x.label(), strconv.Itoa(x.Jobs)}
		for _, i := range shown {
			cells = append(cells, x.cell(i, i == c.Base))
		}
		g.Add(cells...)
	}
	return g
}

// label is the name of a class in a table.
func (x *Class) label() string {
	if x.Name == "" {
		return "-"
	}
	return clean(x.Name)
}

// cell is the mean JCT of a class in a run, and how it compares with the baseline.
func (x *Class) cell(run int, base bool) string {
	r := &x.Runs[run]
	if r.Ended == 0 {
		return "-"
	}
	text := unit.Human(r.JCT)
	if !base && r.BaseJCT > 0 {
		text += " " + signedShare(r.Change())
	}
	return text
}
