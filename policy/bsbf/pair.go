package bsbf

// Pair is a job that waits (A) and one that runs where it could share (B): what each
// still has to do alone, in seconds, and by how much each takes longer beside the
// other, at least 1.
type Pair struct {
	A, B             float64
	SlowerA, SlowerB float64
}

// Together is the mean of the times until both have ended when A starts now and
// shares until one of them has ended [paper, theorem 1].
func (p Pair) Together() float64 {
	a, b := p.SlowerA*p.A, p.SlowerB*p.B
	if a >= b {
		return p.A/2 + (1-1/(2*p.SlowerA))*b
	}
	return p.B/2 + (1-1/(2*p.SlowerB))*a
}

// InTurn is the mean when A waits until B has ended.
func (p Pair) InTurn() float64 { return p.B + p.A/2 }

// Worthwhile tells whether sharing is the better of the two. To start at any time
// between now and the end of B is never better than both.
func (p Pair) Worthwhile() bool { return p.Together() < p.InTurn() }
