package parallel

// Stage is what a pipeline rank does for one micro-batch, in seconds.
type Stage struct {
	Forward, Backward float64
	Again             float64 // the forward pass once more, before the backward one; 0: not
}

// Pipeline is the passes of an iteration, without the exchange of gradients.
type Pipeline struct {
	Stages       []Stage // by rank
	MicroBatches int
	Send         float64 // from one rank to the next, either way
	Schedule     Schedule
}

// pass is one block of work in the order of a rank.
type pass struct {
	micro    int
	backward bool
	again    bool
}

// order is the work of a rank: the forward passes that fill the pipeline, then backward
// and forward by turns, until the backward passes are through.
func (g *Pipeline) order(rank int) []pass {
	m := g.MicroBatches
	ahead := min(len(g.Stages)-rank, m)
	if g.Schedule == AllForward {
		ahead = m
	}
	out := make([]pass, 0, 3*m)
	for i := range ahead {
		out = append(out, pass{micro: i})
	}
	for i := range m {
		if g.Stages[rank].Again > 0 {
			out = append(out, pass{micro: i, again: true})
		}
		out = append(out, pass{micro: i, backward: true})
		if next := ahead + i; next < m {
			out = append(out, pass{micro: next})
		}
	}
	return out
}

// Ends simulates the graph. It gives the moment at which each rank ends its last pass,
// and how long each was busy, by rank. A pass starts when its rank is free and what it
// needs has arrived: of the rank before for a forward pass, of the rank after for a
// backward one. A repeated forward pass needs nothing.
func (g *Pipeline) Ends() (ends, busy []float64) {
	ranks, m := len(g.Stages), g.MicroBatches
	forward, backward := grid(ranks, m), grid(ranks, m)
	ends, busy = make([]float64, ranks), make([]float64, ranks)
	orders, at := make([][]pass, ranks), make([]int, ranks)
	for r := range ranks {
		orders[r] = g.order(r)
	}
	for moved := true; moved; {
		moved = false
		for r := range ranks {
			for at[r] < len(orders[r]) {
				p := orders[r][at[r]]
				ready, known := g.ready(p, r, forward, backward)
				if !known {
					break
				}
				took := g.Stages[r].of(p)
				end := max(ends[r], ready) + took
				switch {
				case p.backward:
					backward[r][p.micro] = end
				case !p.again:
					forward[r][p.micro] = end
				}
				ends[r], busy[r] = end, busy[r]+took
				at[r]++
				moved = true
			}
		}
	}
	return ends, busy
}

// of is the seconds of a pass.
func (s Stage) of(p pass) float64 {
	switch {
	case p.again:
		return s.Again
	case p.backward:
		return s.Backward
	}
	return s.Forward
}

// ready is when what a pass needs of its neighbours has arrived; known is false if they
// have not come so far. A moment below 0 is not known.
func (g *Pipeline) ready(p pass, rank int, forward, backward [][]float64) (at float64, known bool) {
	switch {
	case p.again:
		return 0, true
	case p.backward && rank < len(g.Stages)-1:
		at = backward[rank+1][p.micro]
	case !p.backward && rank > 0:
		at = forward[rank-1][p.micro]
	default:
		return 0, true
	}
	return at + g.Send, at >= 0
}

// grid is moments by rank and micro-batch, none of them known.
func grid(ranks, micro int) [][]float64 {
	out := make([][]float64, ranks)
	for r := range out {
		out[r] = make([]float64, micro)
		for i := range out[r] {
			out[r][i] = -1
		}
	}
	return out
}
