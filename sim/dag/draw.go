package dag

import "math/rand/v2"

// wave is a kind of task.
type wave uint8

const (
	fresh wave = iota
	first
	rest
)

// draw is the run time of a task in seconds, for a job that holds so many executors. The level is the one below or above that
// number, by a chance that goes with the distance. Its measured run times are equally likely.
func (s *Stage) draw(rng *rand.Rand, w wave, executors int, warmUp float64) float64 {
	k := len(s.Levels) - 1
	for k > 0 && s.Levels[k].Executors > executors {
		k--
	}
	if k+1 < len(s.Levels) {
		low, high := s.Levels[k].Executors, s.Levels[k+1].Executors
		if rng.Float64()*float64(high-low) < float64(executors-low) {
			k++
		}
	}
	l := &s.Levels[k]
	list, extra := l.Rest, 0.0
	switch {
	case w == fresh && len(l.Fresh) > 0:
		list = l.Fresh
	case w == fresh:
		list, extra = l.First, warmUp
	case w == first && len(l.First) > 0:
		list = l.First
	case w == first:
		list = l.Fresh
	}
	for _, other := range [][]float64{l.First, l.Rest, l.Fresh} {
		if len(list) == 0 {
			list = other
		}
	}
	return list[rng.IntN(len(list))] + extra
}
