package rounds

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// packs tells whether gangs fit on nodes. The largest gang goes first, and each
// takes the fullest node that holds it.
func packs(nodes []unit.Milli, gangs []int) bool {
	left := slices.Clone(nodes)
	gangs = slices.SortedFunc(slices.Values(gangs), func(a, b int) int { return cmp.Compare(b, a) })
	for _, g := range gangs {
		best := -1
		for i, milli := range left {
			if int(milli) >= g*int(unit.One) && (best < 0 || milli < left[best]) {
				best = i
			}
		}
		if best < 0 {
			return false
		}
		left[best] -= unit.Milli(g) * unit.One
	}
	return true
}

// TestRoom: a gang that fits beside those that were served has room. If sizes
// are powers of two, a gang that has room fits.
func TestRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := []int{1, 2, 4, 8}
		if rapid.Bool().Draw(t, "any sizes") {
			sizes = []int{1, 2, 3, 4, 5, 6, 7}
		}
		var n nodes
		var row []unit.Milli
		for _, g := range rapid.SliceOfN(rapid.IntRange(0, 9), 1, 4).Draw(t, "nodes") {
			row = append(row, unit.Milli(g)*unit.One)
		}
		n.dealt, n.taken = [][]unit.Milli{row}, make([][]tally, 1)
		var taken []int
		for _, g := range rapid.SliceOfN(rapid.SampledFrom(sizes), 1, 12).Draw(t, "gangs") {
			room, fits := n.room(0, g), packs(row, append(slices.Clone(taken), g))
			if fits && !room || room && !fits && sizes[2] == 4 {
				t.Fatalf("%d beside %v on %v: room %v, fits %v", g, taken, row, room, fits)
			}
			if fits {
				n.take(0, g)
				taken = append(taken, g)
			}
		}
	})
}
