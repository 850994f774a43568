package report

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// TextOptions say how a table is written for a terminal.
type TextOptions struct {
	Width int  // columns of the terminal; 0: 120
	Color bool // mark the best figure of each column
}

const (
	defaultWidth = 120
	minName      = 8 // the name of a run keeps at least so many columns
	markOn       = "\x1b[1;32m"
	markOff      = "\x1b[0m"
)

// WriteText writes the table in aligned columns with times for a reader. Where
// the width does not suffice, names are cut and the least important figures are
// left out. Marks behind the names say which policies knew true run times, and which
// lacked what they live on; lines beneath the table explain them.
func (t *Table) WriteText(w io.Writer, opt TextOptions) error {
	if opt.Width <= 0 {
		opt.Width = defaultWidth
	}
	cols, name, widths := t.layout(opt.Width)
	out := bufio.NewWriter(w)
	writeCut(out, "policy", name)
	for i, c := range cols {
		if widths[i] > 0 {
			writeRight(out, c.title, c.title, widths[i])
		}
	}
	out.WriteByte('\n')
	for r, row := range t.cells {
		writeMarked(out, t.names[r], t.rests[r].marks(), name)
		for i, c := range cols {
			if widths[i] == 0 {
				continue
			}
			text := t.text(r, c, row[i])
			shown := text
			if opt.Color && row[i].best {
				shown = markOn + text + markOff
			}
			writeRight(out, text, shown, widths[i])
		}
		out.WriteByte('\n')
	}
	if notes := t.Notes(); len(notes) > 0 {
		out.WriteByte('\n')
		writeLines(out, notes, opt.Width)
	}
	return out.Flush()
}

// WriteLines writes texts for a terminal of so many columns, each on lines of its own that are
// broken between words; 0: they are not broken.
func WriteLines(w io.Writer, texts []string, width int) error {
	if width <= 0 {
		width = math.MaxInt
	}
	out := bufio.NewWriter(w)
	writeLines(out, texts, width)
	return out.Flush()
}

// writeMarked writes a name with marks behind it in exactly so many columns.
func writeMarked(out *bufio.Writer, s, marks string, width int) {
	if marks == "" {
		writeCut(out, s, width)
		return
	}
	marks = " " + marks
	writeCut(out, s, min(utf8.RuneCountInString(clean(s)), width-len(marks)))
	out.WriteString(marks + strings.Repeat(" ", max(0, width-len(marks)-utf8.RuneCountInString(clean(s)))))
}

// writeLines is WriteLines.
func writeLines(out *bufio.Writer, texts []string, width int) {
	for _, note := range texts {
		at := 0
		for i, word := range strings.Fields(note) {
			switch n := utf8.RuneCountInString(word); {
			case i == 0:
				at = n
			case at+1+n > width:
				out.WriteString("\n  ")
				at = 2 + n
			default:
				out.WriteByte(' ')
				at += 1 + n
			}
			out.WriteString(word)
		}
		out.WriteByte('\n')
	}
}

// layout chooses the columns that fit: widths[i] is 0 for one that is left out.
func (t *Table) layout(width int) (cols []column, name int, widths []int) {
	cols = columns()
	widths = make([]int, len(cols))
	name = len("policy")
	for r, n := range t.names {
		wide := utf8.RuneCountInString(clean(n))
		if marks := t.rests[r].marks(); marks != "" {
			wide += 1 + len(marks)
		}
		name = max(name, wide)
	}
	name = max(minName, name)
	sum := 0
	for i, c := range cols {
		if c.field == leftField && t.any(i) {
			cols[i].rank = 0 // the other figures are too good then: see docs/reports.md
		}
		if t.hides(i, c) {
			continue
		}
		widths[i] = utf8.RuneCountInString(c.title)
		for r, row := range t.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(t.text(r, c, row[i])))
		}
		widths[i] += 2
		sum += widths[i]
	}
	for rank := len(cols) - 1; rank >= 0 && sum+min(name, 2*minName) > width; rank-- {
		for i := range cols {
			if cols[i].rank == rank {
				sum -= widths[i]
				widths[i] = 0
			}
		}
	}
	return cols, min(name, max(minName, width-sum)), widths
}

// hides tells whether a column is of no use to readers.
func (t *Table) hides(i int, c column) bool {
	switch c.field {
	case energyField, asleepField, wakesField, delayedField:
		i = slices.IndexFunc(columns(), func(c column) bool { return c.field == asleepField })
	case deadlinesField:
	default:
		return false
	}
	return !slices.ContainsFunc(t.cells, func(row []cell) bool { return row[i].known })
}

// any tells whether a figure is other than zero in any run.
func (t *Table) any(column int) bool {
	return slices.ContainsFunc(t.cells, func(row []cell) bool { return row[column].value != 0 })
}

// writeCut writes a name in exactly so many columns.
func writeCut(out *bufio.Writer, s string, width int) {
	s = clean(s)
	n := utf8.RuneCountInString(s)
	if n > width {
		s = string([]rune(s)[:width-1]) + "…"
		n = width
	}
	out.WriteString(s)
	out.WriteString(strings.Repeat(" ", width-n))
}

// writeRight writes a text flush right; shown is the text with marks around it.
func writeRight(out *bufio.Writer, text, shown string, width int) {
	out.WriteString(strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text))))
	out.WriteString(shown)
}

// clean makes a name fit for one line: what cannot be seen becomes a space.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// WriteMarkdown writes the table in Markdown, the best figure of each column in
// bold.
func (t *Table) WriteMarkdown(w io.Writer) error {
	out := bufio.NewWriter(w)
	cols := columns()
	out.WriteString("| policy |")
	rule := "\n| :-- |"
	for i, c := range cols {
		if !t.hides(i, c) {
			out.WriteString(" " + strings.ReplaceAll(c.title, ">", "\\>") + " |")
			rule += " --: |"
		}
	}
	out.WriteString(rule + "\n")
	for r, row := range t.cells {
		name := t.names[r]
		if marks := t.rests[r].marks(); marks != "" {
			name += " " + marks
		}
		out.WriteString("| " + markdown(name) + " |")
		for i, c := range cols {
			text := t.text(r, c, row[i])
			if t.hides(i, c) {
				continue
			}
			if row[i].best {
				text = "**" + text + "**"
			}
			out.WriteString(" " + text + " |")
		}
		out.WriteByte('\n')
	}
	for _, note := range t.Notes() {
		out.WriteString("\n" + markdown(note) + "\n")
	}
	return out.Flush()
}

// Markdown writes a text so that nothing in it is taken for markup.
func Markdown(s string) string { return markdown(s) }

// markdown writes a name so that nothing in it is taken for markup.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range clean(s) {
		if strings.ContainsRune("\\`*_{}[]<>()#+!|~&$", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// WriteCSV writes the table with exact figures: times in seconds, shares as
// parts of one. Unknown values are empty.
func (t *Table) WriteCSV(w io.Writer) error {
	out := bufio.NewWriter(w)
	out.WriteString("policy")
	for _, c := range columns() {
		out.WriteString("," + c.field)
	}
	if t.versus != nil {
		out.WriteString(",baseline,jct_mean_change,wait_mean_change")
	}
	out.WriteString(",estimates,lacks\n")
	for r, row := range t.cells {
		out.Write(appendField(nil, t.names[r]))
		for _, v := range row {
			out.WriteByte(',')
			if v.known {
				out.WriteString(strconv.FormatFloat(v.value, 'f', -1, 64))
			}
		}
		for _, change := range t.changes(r) {
			out.WriteByte(',')
			out.Write(appendField(nil, change.text))
		}
		out.WriteByte(',')
		out.Write(appendField(nil, t.rests[r].estimates))
		out.WriteByte(',')
		out.Write(appendField(nil, LacksText(t.rests[r].lacks)))
		out.WriteByte('\n')
	}
	return out.Flush()
}

// WriteJSON writes the table as a list with one object for each run, with the
// same fields as the CSV, where lacks is a list of texts. Unknown values are null.
func (t *Table) WriteJSON(w io.Writer) error {
	out := bufio.NewWriter(w)
	out.WriteByte('[')
	for r, row := range t.cells {
		if r > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(t.names[r])
		if err != nil {
			return err
		}
		out.WriteString("\n  {\"policy\": ")
		out.Write(name)
		for i, c := range columns() {
			value := "null"
			if row[i].known {
				value = strconv.FormatFloat(row[i].value, 'f', -1, 64)
			}
			out.WriteString(", \"" + c.field + "\": " + value)
		}
		for _, change := range t.changes(r) {
			text, err := change.json()
			if err != nil {
				return err
			}
			out.WriteString(", \"" + change.field + "\": " + text)
		}
		rest, err := t.rests[r].json()
		if err != nil {
			return err
		}
		out.Write(rest)
	}
	out.WriteString("\n]\n")
	return out.Flush()
}

// change is one figure of how a run compares with the baseline, for programs.
type change struct {
	field, text string // the text is empty where it is not known
	name        bool   // it is no number
}

func (c change) json() (string, error) {
	switch {
	case c.name:
		b, err := json.Marshal(c.text)
		return string(b), err
	case c.text == "":
		return "null", nil
	}
	return c.text, nil
}

// changes are the parts by which the means of a run are above those of the baseline, of the
// jobs that ended in both; none without a baseline.
func (t *Table) changes(r int) []change {
	if t.versus == nil {
		return nil
	}
	v := t.versus[r]
	out := []change{{"baseline", t.names[t.base], true}}
	for _, x := range []struct {
		field   string
		was, is time.Duration
	}{{"jct_mean_change", v.Base.JCT.Mean, v.Here.JCT.Mean}, {"wait_mean_change", v.Base.Wait.Mean, v.Here.Wait.Mean}} {
		text := ""
		if v.Jobs > 0 && (x.was > 0 || x.is == 0) {
			text = strconv.FormatFloat(relative(x.was, x.is), 'f', -1, 64)
		}
		out = append(out, change{x.field, text, false})
	}
	return out
}
