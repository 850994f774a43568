package boost

import (
	"math"
	"slices"
	"sort"
)

// feature is one that takes more than one value.
type feature struct {
	column int32
	first  int32     // number of its first bin among those of all features
	cuts   []float64 // upper ends of its bins, but for the last one
}

// encode replaces the values of all features by the numbers of their bins.
// Features that are the same in all rows are left out.
func (t *trainer) encode(x []float64, features, rows int) {
	column := make([]float64, rows)
	bins := int32(0)
	for f := range features {
		for i := range column {
			column[i] = ordered(x[i*features+f])
		}
		slices.Sort(column)
		if cuts := cutPoints(column, t.cfg.Bins); len(cuts) > 0 {
			t.features = append(t.features, feature{int32(f), bins, cuts})
			bins += int32(len(cuts)) + 1
		}
	}
	t.bins = int(bins)
	t.codes, t.columns = make([]uint16, rows*len(t.features)), make([][]uint16, len(t.features))
	for k := range t.features {
		f := &t.features[k]
		t.columns[k] = make([]uint16, rows)
		for i := range rows {
			code := uint16(f.first) + uint16(sort.SearchFloat64s(f.cuts, ordered(x[i*features+int(f.column)])))
			t.codes[i*len(t.features)+k], t.columns[k][i] = code, code
		}
	}
}

// ordered puts values that are no numbers behind all others.
func ordered(v float64) float64 {
	if math.IsNaN(v) {
		return math.Inf(1)
	}
	return v
}

// cutPoints divides sorted values into at most so many bins: one for each value
// while that is possible, and otherwise bins of about equally many rows. A cut
// lies half-way between two values.
func cutPoints(sorted []float64, bins int) []float64 {
	distinct := 1
	for i := 1; i < len(sorted); i++ {
		if sorted[i] != sorted[i-1] {
			distinct++
		}
	}
	var cuts []float64
	begin := 0 // of the bin
	for i := 1; i < len(sorted) && len(cuts) < bins-1; i++ {
		if sorted[i] == sorted[i-1] {
			continue
		}
		if full := (i-begin)*(bins-len(cuts)) >= len(sorted)-begin; full || distinct <= bins {
			cuts = append(cuts, middle(sorted[i-1], sorted[i]))
			begin = i
		}
	}
	return cuts
}

// middle lies between two values, or on the lower one.
func middle(a, b float64) float64 {
	m := a/2 + b/2
	if m >= b || m < a || math.IsNaN(m) || math.IsInf(m, 0) {
		return a
	}
	return m
}
