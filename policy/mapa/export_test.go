package mapa

// Score is what a choice is worth, in GB/s: the best that any order of its devices gives of each.
type Score struct{ Predicted, Aggregate, Preserved float64 }

// ScoreOf is what a set is worth.
func (g *Graph) ScoreOf(q *Query, s Set) Score {
	t := g.table(q.Pattern, s.Len())
	return Score{t.predicted[s], t.aggregate[s], g.preserved(q.Free &^ s)}
}
