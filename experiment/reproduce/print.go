package reproduce

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/norn-scheduler/norn/internal/grid"
)

// WriteRows writes rows of one study as a table, below a line that says on what they
// were tried.
func WriteRows(out io.Writer, rows []Row, width int) error {
	if len(rows) == 0 {
		return nil
	}
	first := &rows[0]
	if _, err := fmt.Fprintf(out, "%s: %s (%d workloads)\n", first.System, first.About, len(first.Commands)); err != nil {
		return err
	}
	t := grid.Table{Cols: []grid.Column{{Title: "  claim"}, {Title: "published", Right: true}, {Title: "ours", Right: true}, {Title: "interval"}, {Title: "tolerance", Right: true}, {Title: "within"}}}
	for i := range rows {
		r := &rows[i]
		ours, interval, verdict := number(r.Ours), number(r.Low)+" to "+number(r.High), "no"
		switch {
		case r.NoData != "":
			ours, interval, verdict = "", "", "no data: "+r.NoData
		case r.Within:
			verdict = "yes"
		}
		t.Add("  "+r.Claim, r.Published.String(), ours, interval, r.tolerance(), verdict)
	}
	return t.Write(out, width)
}

// WriteList writes what would be tried, and with what commands.
func WriteList(out io.Writer, s *Study, quick, commands bool, width int) error {
	if _, err := fmt.Fprintf(out, "%s: %s (%d workloads)\n", s.System, s.About, len(s.Form(quick))); err != nil {
		return err
	}
	t := grid.Table{Cols: []grid.Column{{Title: "  claim"}, {Title: "published", Right: true}, {Title: "tolerance", Right: true}, {Title: "place"}}}
	for _, r := range s.rows(quick) {
		t.Add("  "+r.Claim, r.Published.String(), r.tolerance(), r.Place)
	}
	if err := t.Write(out, width); err != nil || !commands {
		return err
	}
	for _, w := range s.Form(quick) {
		if _, err := fmt.Fprintf(out, "  %s\n", w.Shell(s.Compared())); err != nil {
			return err
		}
	}
	return nil
}

// tolerance is how tables show it; a mere order has none.
func (r *Row) tolerance() string {
	if r.Tolerance == 0 {
		return ""
	}
	return strconv.FormatFloat(math.Round(100*r.Tolerance), 'f', -1, 64) + " %"
}

// number shows three digits that count.
func number(x float64) string {
	switch a := math.Abs(x); {
	case a >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}
