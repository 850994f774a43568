package cells

// Left is how many cells of each level of a chain could be had, if nobody asked for any other: those
// that are free, and those inside larger ones.
func (s *Space) Left(chain int) []int {
	c := s.chains[chain]
	out := make([]int, len(c.Levels))
	for l := len(c.Levels) - 1; l >= 0; l-- {
		out[l] = c.free[l].Len()
		if l+1 < len(out) {
			out[l] += out[l+1] * c.Levels[l+1].GPUs / c.Levels[l].GPUs
		}
	}
	return out
}
