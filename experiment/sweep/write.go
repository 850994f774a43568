package sweep

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/report"
)

// columns are those of the long format before metric and value.
func (r *Results) columns() []string {
	out := append([]string{"trace", "cluster", "load"}, r.Plan.Varied()...)
	return append(out, "seed", "policy", "params")
}

// cells are the columns of a run.
func (r *Results) cells(run *Run) []string {
	out := []string{run.World.Trace.Name, run.Cluster, report.Exact(run.load())}
	for _, name := range r.Plan.Varied() {
		out = append(out, run.World.Value(name))
	}
	return append(out, seedText(run.World.Seed), run.Choice.Policy, run.params())
}

// WriteCSV writes the long format: a line for each figure of each run.
func (r *Results) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write(append(r.columns(), "metric", "value"))
	for _, run := range r.Runs {
		cells := r.cells(run)
		for _, m := range report.Measures() {
			if v, known := run.Figures[m.Field]; known {
				out.Write(append(cells[:len(cells):len(cells)], m.Field, report.Exact(v)))
			}
		}
	}
	out.Flush()
	return out.Error()
}

// WriteParquet writes the long format with the columns of WriteCSV: load is a number and so
// is the seed, values are doubles, and the rest is text.
func (r *Results) WriteParquet(w io.Writer) error {
	names := append(r.columns(), "metric", "value")
	group := parquet.Group{}
	for _, name := range names {
		switch name {
		case "load", "value":
			group[name] = parquet.Leaf(parquet.DoubleType)
		case "seed":
			group[name] = parquet.Uint(64)
		default:
			group[name] = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
		}
	}
	schema := parquet.NewSchema("results", group)
	at := map[string]int{} // a group has its columns in the order of their names
	for i, path := range schema.Columns() {
		at[path[0]] = i
	}
	out := parquet.NewWriter(w, schema, parquet.Compression(&parquet.Zstd))
	for _, run := range r.Runs {
		cells := r.cells(run)
		row := make(parquet.Row, len(names))
		put := func(name string, v parquet.Value) { row[at[name]] = v.Level(0, 0, at[name]) }
		for i, cell := range cells {
			put(names[i], parquet.ByteArrayValue([]byte(cell)))
		}
		put("load", parquet.DoubleValue(run.load()))
		put("seed", parquet.Int64Value(int64(run.World.Seed)))
		for _, m := range report.Measures() {
			v, known := run.Figures[m.Field]
			if !known {
				continue
			}
			put("metric", parquet.ByteArrayValue([]byte(m.Field)))
			put("value", parquet.DoubleValue(v))
			if _, err := out.WriteRows([]parquet.Row{row}); err != nil {
				return err
			}
		}
	}
	return out.Close()
}

// The objects that WriteJSON writes.
type (
	groupJSON struct {
		Trace    string            `json:"trace"`
		Cluster  string            `json:"cluster"`
		Load     float64           `json:"load"`
		Varied   map[string]string `json:"varied,omitempty"`
		Seeds    []uint64          `json:"seeds"`
		Baseline string            `json:"baseline"`
		Policies []policyJSON      `json:"policies"`
	}
	policyJSON struct {
		Policy  string              `json:"policy"`
		Params  string              `json:"params"`
		Unmoved bool                `json:"seeds_change_nothing"`
		Metrics map[string]meanJSON `json:"metrics"`
	}
	meanJSON struct {
		N      int         `json:"n"`
		Mean   float64     `json:"mean"`
		SD     *float64    `json:"sd"`
		CI     *[2]float64 `json:"ci95"`
		Min    float64     `json:"min"`
		Max    float64     `json:"max"`
		Versus *pairedJSON `json:"versus,omitempty"`
	}
	pairedJSON struct {
		N        int         `json:"n"`
		Diff     float64     `json:"difference"`
		CI       *[2]float64 `json:"difference_ci95"`
		Change   *float64    `json:"change"`
		T        *float64    `json:"p_t"`
		Wilcoxon *float64    `json:"p_wilcoxon"`
	}
)

// WriteJSON writes the comparison: a list with an object for each group. What is not known,
// such as the interval of one seed, is null.
func (r *Results) WriteJSON(w io.Writer) error {
	out := []groupJSON{}
	for _, g := range r.Groups() {
		j := groupJSON{Trace: g.Trace, Cluster: g.Cluster, Load: g.Load, Seeds: g.Seeds, Baseline: r.Plan.Policies[r.Plan.Baseline].String()}
		for _, s := range g.Varied {
			if j.Varied == nil {
				j.Varied = map[string]string{}
			}
			j.Varied[s.Name] = s.Value
		}
		for _, p := range g.Policies {
			pj := policyJSON{p.Name, p.Params, p.Unmoved, map[string]meanJSON{}}
			for field, m := range p.Means {
				mj := meanJSON{N: m.N, Mean: m.Mean, SD: m.known(m.SD), CI: m.interval(), Min: m.Min, Max: m.Max}
				if v, ok := p.Versus[field]; ok {
					mj.Versus = v.json()
				}
				pj.Metrics[field] = mj
			}
			j.Policies = append(j.Policies, pj)
		}
		out = append(out, j)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

// known is a value that several seeds tell.
func (m Mean) known(v float64) *float64 {
	if m.N < 2 {
		return nil
	}
	return &v
}

func (m Mean) interval() *[2]float64 {
	if m.SD == 0 {
		return nil
	}
	return &[2]float64{m.Mean - m.Half, m.Mean + m.Half}
}

func (p Paired) json() *pairedJSON {
	number := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	return &pairedJSON{p.Diff.N, p.Diff.Mean, p.Diff.interval(), number(p.Diff.Mean / p.Base), number(p.T), number(p.Wilcoxon)}
}

// shown are the figures of the text, the most important first.
var shown = []string{"jct_mean_s", "jct_p99_s", "wait_mean_s", "makespan_s", "gpu_utilisation"}

// WriteText writes a table for each group, with sentences beneath; width 0: as wide as it gets.
func (r *Results) WriteText(w io.Writer, width int) error {
	groups := r.Groups()
	var notes []string
	for _, g := range groups {
		fmt.Fprintf(w, "%s: %s\n", grid.Clean(g.Title()), seedsText(g.Seeds))
		if err := g.table().Write(w, width); err != nil {
			return err
		}
		fmt.Fprintln(w)
		if notes == nil && slices.ContainsFunc(g.Policies, func(p *Policy) bool { return p.Seeds > 1 && !p.Unmoved }) {
			notes = append(notes, "± is half of the 95 % confidence interval of the mean over seeds (Student's t).")
			if len(g.Policies) > 1 && g.Base != nil {
				notes = append(notes, fmt.Sprintf("change is that of the mean JCT from %s, seed by seed. p is how often chance alone would make one as large, by a paired t-test and by Wilcoxon's signed-rank test, two-sided, not corrected for the number of comparisons.", g.Base))
			}
		}
	}
	return report.WriteLines(w, append(notes, Unmoved(groups)...), width)
}

// table is that of a group.
func (g *Group) table() *grid.Table {
	t := &grid.Table{Cols: []grid.Column{{Title: "policy", Least: 8}}}
	measures := map[string]report.Measure{}
	for _, m := range report.Measures() {
		measures[m.Field] = m
	}
	for i, field := range shown {
		t.Cols = append(t.Cols, grid.Column{Title: measures[field].Title, Right: true, Rank: (len(shown) - i) % len(shown)})
		if i == 0 {
			t.Cols = append(t.Cols, grid.Column{Title: "change", Right: true, Bare: true}, grid.Column{Title: "p(t)", Right: true, Bare: true}, grid.Column{Title: "p(rank)", Right: true, Bare: true})
		}
	}
	for _, p := range g.Policies {
		row := []string{p.String()}
		for i, field := range shown {
			m, known := p.Means[field]
			text := "-"
			if known {
				text = measures[field].Human(m.Mean)
			}
			if m.SD > 0 {
				text += " ±" + measures[field].Human(m.Half)
			}
			if row = append(row, text); i == 0 {
				v, compared := p.Versus[field]
				row = append(row, v.changeText(compared), chanceText(compared, v.T), chanceText(compared, v.Wilcoxon))
			}
		}
		t.Add(row...)
	}
	return t
}

// changeText is the change in per cent, with its interval.
func (p Paired) changeText(known bool) string {
	if !known || p.Base == 0 {
		return ""
	}
	text := fmt.Sprintf("%+.1f%%", 100*p.Diff.Mean/p.Base)
	if p.Diff.SD > 0 {
		text += fmt.Sprintf(" ±%.1f", 100*p.Diff.Half/math.Abs(p.Base))
	}
	return text
}

// chanceText is a p as readers see it; nothing where there is none.
func chanceText(known bool, p float64) string {
	switch {
	case !known || math.IsNaN(p):
		return ""
	case p < 0.001:
		return "<0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// seedsText says which seeds there are: 1-10, 20.
func seedsText(seeds []uint64) string {
	var parts []string
	for i := 0; i < len(seeds); {
		j := i
		for j+1 < len(seeds) && seeds[j+1] == seeds[j]+1 {
			j++
		}
		switch j - i {
		case 0, 1: // two are no range
			for _, s := range seeds[i : j+1] {
				parts = append(parts, seedText(s))
			}
		default:
			parts = append(parts, seedText(seeds[i])+"-"+seedText(seeds[j]))
		}
		i = j + 1
	}
	list := strings.Join(parts, ", ")
	if len(seeds) == 1 {
		return "seed " + list
	}
	return fmt.Sprintf("%d seeds (%s)", len(seeds), list)
}
