// Package dense holds containers over small dense integers: jobs, nodes and
// devices are numbered from zero, so a set of them is a bitmap and a position
// in a heap is an array entry.
//
// Nouns: Set (ordered set, find-first in constant time for any practical size),
// Heap (priority queue whose members can be moved and removed by number), List
// (sorted list that also answers sums of weights up to a place). These allocate
// nothing once they have grown to their working size. Rows is a list whose entries
// never move. All iterate in a fixed order, so that equal inputs give equal runs.
package dense

import (
	"iter"
	"math/bits"
)

// Set is an ordered set of non-negative integers, kept as a bitmap with
// summary levels above it, 64 to one. The zero Set is empty and ready to use.
type Set struct {
	levels [][]uint64 // levels[0] is the bitmap; a bit above tells that a word below is not zero
	n      int
}

// Len is the number of members.
func (s *Set) Len() int { return s.n }

// Has tells whether i is a member.
func (s *Set) Has(i int) bool {
	if len(s.levels) == 0 {
		return false
	}
	w := i >> 6
	return w < len(s.levels[0]) && s.levels[0][w]&(1<<(i&63)) != 0
}

// Add makes i a member and tells whether it was not one before.
func (s *Set) Add(i int) bool {
	if len(s.levels) == 0 || i>>6 >= len(s.levels[0]) {
		s.grow(i + 1)
	}
	word := &s.levels[0][i>>6]
	if *word&(1<<(i&63)) != 0 {
		return false
	}
	s.n++
	for l := 0; ; l++ {
		word := &s.levels[l][i>>6]
		was := *word
		*word |= 1 << (i & 63)
		if was != 0 || l+1 == len(s.levels) {
			return true
		}
		i >>= 6
	}
}

// Remove takes i out and tells whether it was a member.
func (s *Set) Remove(i int) bool {
	if !s.Has(i) {
		return false
	}
	s.n--
	for l := range s.levels {
		word := &s.levels[l][i>>6]
		*word &^= 1 << (i & 63)
		if *word != 0 {
			break
		}
		i >>= 6
	}
	return true
}

// Min is the smallest member, or -1.
func (s *Set) Min() int { return s.Next(0) }

// Next is the smallest member that is at least i, or -1.
func (s *Set) Next(i int) int {
	if s.n == 0 || i < 0 {
		if s.n == 0 {
			return -1
		}
		i = 0
	}
	for l := 0; l < len(s.levels); l++ {
		w := i >> 6
		if w >= len(s.levels[l]) {
			return -1
		}
		if rest := s.levels[l][w] >> (i & 63); rest != 0 {
			i += bits.TrailingZeros64(rest)
			for ; l > 0; l-- {
				i = i<<6 + bits.TrailingZeros64(s.levels[l-1][i])
			}
			return i
		}
		i = w + 1
	}
	return -1
}

// Max is the largest member, or -1.
func (s *Set) Max() int {
	if s.n == 0 {
		return -1
	}
	top := len(s.levels) - 1
	i := -1
	for w := len(s.levels[top]) - 1; w >= 0; w-- {
		if s.levels[top][w] != 0 {
			i = w<<6 + 63 - bits.LeadingZeros64(s.levels[top][w])
			break
		}
	}
	for l := top; l > 0; l-- {
		i = i<<6 + 63 - bits.LeadingZeros64(s.levels[l-1][i])
	}
	return i
}

// All yields the members in increasing order. A member may be removed while it
// is being visited.
func (s *Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := s.Next(0); i >= 0; i = s.Next(i + 1) {
			if !yield(i) {
				return
			}
		}
	}
}

// Clear empties the set and keeps its memory.
func (s *Set) Clear() {
	for _, level := range s.levels {
		clear(level)
	}
	s.n = 0
}

// grow makes room for the integers below n, doubling.
func (s *Set) grow(n int) {
	words := (n + 63) >> 6
	if len(s.levels) > 0 {
		words = max(words, 2*len(s.levels[0]))
	}
	for l := 0; ; l++ {
		if l == len(s.levels) {
			s.levels = append(s.levels, nil)
		}
		if len(s.levels[l]) < words {
			grown := make([]uint64, words)
			copy(grown, s.levels[l])
			fresh := s.levels[l] == nil
			s.levels[l] = grown
			if fresh && l > 0 {
				for i, w := range s.levels[l-1] {
					if w != 0 {
						grown[i>>6] |= 1 << (i & 63)
					}
				}
			}
		}
		if words == 1 {
			return
		}
		words = (words + 63) >> 6
	}
}
