package solve

import (
	"math"
	"strconv"
	"strings"
)

// Label names a variable, for errors and dumps.
func (m *Model) Label(v Var, name string) {
	if m.has(v, "name") {
		if m.varName == nil {
			m.varName = map[Var]string{}
		}
		m.varName[v] = name
	}
}

// LabelRow names a row, for errors and dumps.
func (m *Model) LabelRow(r Row, name string) {
	if m.hasRow(r, "name") {
		if m.rowName == nil {
			m.rowName = map[Row]string{}
		}
		m.rowName[r] = name
	}
}

// VarName is the name of a variable: its label, or x and its number.
func (m *Model) VarName(v Var) string {
	if name, ok := m.varName[v]; ok {
		return name
	}
	return "x" + strconv.Itoa(int(v))
}

// RowName is the name of a row: its label, or r and its number.
func (m *Model) RowName(r Row) string {
	if name, ok := m.rowName[r]; ok {
		return name
	}
	return "r" + strconv.Itoa(int(r))
}

// plain makes a name that the LP format accepts and that no other has: the
// letters and digits of the label, and the number.
func plain(letter byte, label string, n int) string {
	var b strings.Builder
	b.WriteByte(letter)
	b.WriteString(strconv.Itoa(n))
	if label != "" {
		b.WriteByte('_')
	}
	for i := 0; i < len(label) && i < 60; i++ {
		c := label[i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			b.WriteByte(c)
		} else {
			b.WriteByte('_')
		}
	}
	return b.String()
}

// lpWriter writes a model in the LP format.
type lpWriter struct {
	m     *Model
	b     []byte
	names []string
	line  int // where the last line that was broken begins
}

// AppendLP writes the model in the LP format that HiGHS, GLPK, CBC and CPLEX
// read, all digits of each number included. Variables are x0, x1 and so on, rows r0,
// r1 and so on, with what is left of their labels appended; a row with two
// limits is written twice. A constant in the objective is a variable fixed at one.
func (m *Model) AppendLP(dst []byte) []byte {
	w := lpWriter{m: m, b: dst, names: make([]string, m.Vars())}
	for v := range w.names {
		w.names[v] = plain('x', m.varName[Var(v)], v)
	}
	w.text("\\ " + strings.Join(strings.Fields(m.name), " ") + "\n")
	if m.sense == Maximize {
		w.text("Maximize\n obj:")
	} else {
		w.text("Minimize\n obj:")
	}
	any := false
	for v, c := range m.arrays.Cost {
		if c != 0 {
			w.term(c, v)
			any = true
		}
	}
	if !any && m.Vars() > 0 {
		w.term(0, 0) // readers want at least one
	}
	if m.arrays.Offset != 0 { // readers want variables only
		w.number(m.arrays.Offset)
		w.text(" one")
	}
	w.text("\nSubject To\n")
	for r := range m.arrays.RowLower {
		w.row(r)
	}
	if m.Rows() == 0 && m.Vars() > 0 { // readers want at least one
		w.text(" none: +0 " + w.names[0] + " >= 0\n")
	}
	w.text("Bounds\n")
	for v := range m.arrays.Cost {
		w.bounds(v)
	}
	if m.arrays.Offset != 0 {
		w.text(" one = 1\n")
	}
	if m.integers > 0 {
		w.text("General\n")
		for v, whole := range m.arrays.Integer {
			if whole {
				w.text(" " + w.names[v] + "\n")
			}
		}
	}
	w.text("End\n")
	return w.b
}

func (w *lpWriter) text(s string) { w.b = append(w.b, s...) }

func (w *lpWriter) number(v float64) {
	if !math.Signbit(v) {
		w.text(" +")
	} else {
		w.text(" ")
	}
	w.b = strconv.AppendFloat(w.b, v, 'g', -1, 64)
}

func (w *lpWriter) term(c float64, v int) {
	w.number(c)
	w.text(" " + w.names[v])
	if len(w.b)-w.line > 200 { // lines must not grow without end
		w.text("\n ")
		w.line = len(w.b)
	}
}

func (w *lpWriter) row(r int) {
	a := &w.m.arrays
	lower, upper := a.RowLower[r], a.RowUpper[r]
	name := plain('r', w.m.rowName[Row(r)], r)
	one := func(suffix, sign string, limit float64) {
		w.text(" " + name + suffix + ":")
		for k := a.Start[r]; k < a.Start[r+1]; k++ {
			w.term(a.Value[k], int(a.Index[k]))
		}
		if a.Start[r] == a.Start[r+1] && len(w.names) > 0 {
			w.term(0, 0)
		}
		w.text(" " + sign)
		w.number(limit)
		w.text("\n")
	}
	switch {
	case lower == upper:
		one("", "=", lower)
	default:
		if lower > -Inf() {
			one("", ">=", lower)
		}
		if upper < Inf() {
			suffix := ""
			if lower > -Inf() {
				suffix = "_upper"
			}
			one(suffix, "<=", upper)
		}
	}
}

func (w *lpWriter) bounds(v int) {
	lower, upper := w.m.arrays.Lower[v], w.m.arrays.Upper[v]
	name := w.names[v]
	switch {
	case lower == -Inf() && upper == Inf():
		w.text(" " + name + " free\n")
		return
	case lower == upper:
		w.text(" " + name + " =")
		w.number(lower)
		w.text("\n")
		return
	case lower == -Inf():
		w.text(" -inf <= " + name)
	default:
		w.number(lower)
		w.text(" <= " + name)
	}
	if upper < Inf() {
		w.text(" <=")
		w.number(upper)
	}
	w.text("\n")
}
