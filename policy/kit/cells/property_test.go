package cells

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// A random cluster is one or two chains of nodes with 4 or 8 GPUs, in racks or not.
func drawCluster(t *rapid.T) *cluster.Cluster {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "V100"})
	for r := range rapid.IntRange(1, 3).Draw(t, "racks") {
		rack := cluster.DomainID(0)
		if rapid.Bool().Draw(t, "rack") {
			rack, _ = c.AddDomain("rack", fmt.Sprint("rack", r), 0)
		}
		gpus := rapid.SampledFrom([]int{2, 4}).Draw(t, "gpus")
		for n := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			if _, err := c.AddNode(cluster.NodeSpec{Name: fmt.Sprintf("r%dn%d", r, n), GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}, Domain: rack}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

func drawVCs(t *rapid.T, f *Forest) []VC {
	vcs := make([]VC, rapid.IntRange(1, 3).Draw(t, "vcs"))
	for i := range vcs {
		vcs[i].Name = fmt.Sprint("vc", i)
		for chain := range f.Chains {
			for level := range f.Chains[chain].Levels {
				if n := rapid.IntRange(0, 2).Draw(t, "cells"); n > 0 {
					vcs[i].Quotas = append(vcs[i].Quotas, Quota{chain, level, n})
				}
			}
		}
	}
	return vcs
}

// fits tells by trying all ways whether cells, as levels in order, fit side by side beside the taken positions. Those of
// the level before that are equal stand at from or later.
func fits(c *Chain, taken []bool, levels []int, from int) bool {
	if len(levels) == 0 {
		return true
	}
	need := 0
	for _, l := range levels {
		need += c.Levels[l].GPUs
	}
	for _, t := range taken {
		if !t {
			need--
		}
	}
	size := c.Levels[levels[0]].GPUs
	for first := from; need <= 0 && first < len(taken); first += size {
		if slices.Contains(taken[first:first+size], true) {
			continue
		}
		fill(taken[first:first+size], true)
		next := 0
		if len(levels) > 1 && levels[1] == levels[0] {
			next = first + size
		}
		ok := fits(c, taken, levels[1:], next)
		fill(taken[first:first+size], false)
		if ok {
			return true
		}
	}
	return false
}

func fill(taken []bool, to bool) {
	for i := range taken {
		taken[i] = to
	}
}

// promised are the levels of all cells of a chain that are promised and not bound, the lowest first.
func promised(c *chain) (levels []int) {
	for l, n := range c.unbound {
		levels = append(levels, slices.Repeat([]int{l}, max(0, n))...)
	}
	return levels
}

// check compares all that a space counts and orders with what follows from its GPUs and roots.
func check(t *rapid.T, s *Space) {
	for _, c := range s.chains {
		free := make([]int, len(c.Levels))
		for l, level := range c.Levels {
			for i := range c.Cells(l) {
				var sum tally
				rooted, whole := false, true
				for pos := i * level.GPUs; pos < (i+1)*level.GPUs; pos++ {
					one := c.gpus[pos].tally()
					sum = tally{sum.kept + one.kept, sum.guests + one.guests, sum.idle + one.idle, sum.open + one.open}
					rooted = rooted || c.root[pos] >= 0
					whole = whole && int(c.root[pos]) == l
				}
				if sum != c.count[l][i] {
					t.Fatalf("cell %d of level %d counts %+v, has %+v", i, l, c.count[l][i], sum)
				}
				above := l+1 < len(c.Levels) && !anyRoot(c, l+1, i*level.GPUs/c.Levels[l+1].GPUs)
				if want := !rooted && !above; want != c.isFree[l][i] || want && !c.free[l].Has(c.freeItem(l, i)) {
					t.Fatalf("cell %d of level %d: free %v, want %v", i, l, c.isFree[l][i], want)
				}
				if c.isFree[l][i] {
					free[l]++
				}
				if owner := c.owner[l][i]; (owner > 0) != whole {
					t.Fatalf("cell %d of level %d: owner %d, but it is a root: %v", i, l, owner, whole)
				} else if whole && sum.kept == 0 && !c.pinned[l][i] {
					t.Fatalf("cell %d of level %d is bound for nobody", i, l)
				}
			}
			if free[l] != c.free[l].Len() {
				t.Fatalf("level %d: %d free cells in order, %d are", l, c.free[l].Len(), free[l])
			}
		}
		if levels := promised(c); !fits(c.Chain, rooted(c), levels, 0) {
			t.Fatalf("promised cells of levels %v fit no more beside roots %v", levels, c.root)
		}
	}
}

func anyRoot(c *chain, level, index int) bool {
	size := c.Levels[level].GPUs
	return slices.ContainsFunc(c.root[index*size:(index+1)*size], func(l int8) bool { return l >= 0 })
}

func rooted(c *chain) []bool {
	out := make([]bool, len(c.root))
	for i, l := range c.root {
		out[i] = l >= 0
	}
	return out
}

// Promises can be kept exactly when the cells fit side by side.
func TestLegalIsWhatFits(t *testing.T) {
	legal, illegal := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		f := Of(c, 0)
		vcs := drawVCs(t, f)
		want := true
		for _, h := range NewSpace(f, vcs).chains {
			want = want && fits(h.Chain, make([]bool, len(h.gpus)), promised(h), 0)
		}
		if err := f.Legal(c, vcs); (err == nil) != want {
			t.Fatalf("legal: %v; the cells fit: %v", err, want)
		}
		if want {
			legal++
		} else {
			illegal++
		}
	})
	if legal == 0 || illegal == 0 {
		t.Errorf("%d legal worlds and %d illegal ones: nothing was tried", legal, illegal)
	}
}

// alone is a cluster of its own for a virtual cluster, in which a whole cell of the highest level is there
// for each of its cells.
func alone(f *Forest, vc VC) *Space {
	private := &Forest{}
	d := cluster.DeviceID(0)
	for i := range f.Chains {
		h := f.Chains[i]
		c := Chain{Type: h.Type, Levels: h.Levels, Node: h.Node}
		for _, q := range vc.Quotas {
			if q.Chain != i {
				continue
			}
			for range q.Count * h.Levels[len(h.Levels)-1].GPUs {
				c.GPUs = append(c.GPUs, d)
				d++
			}
		}
		private.Chains = append(private.Chains, c)
	}
	return NewSpace(private, []VC{vc})
}

// shares are the GPUs in each root.
func shares(roots []Root) map[Root]int {
	out := map[Root]int{}
	for _, r := range roots {
		out[Root{Level: r.Level, Rank: r.Rank}] += r.GPUs
	}
	return out
}

// The promise of the paper: whatever all others do, guests included, a request of a virtual cluster is satisfied exactly
// when it would be in a cluster of its own, and in the same of its cells. After every step all counts, and what is still promised, are checked.
func TestAsInAClusterOfItsOwn(t *testing.T) {
	waits, starts := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		f := Of(c, 0)
		vcs := drawVCs(t, f)
		if f.Legal(c, vcs) != nil {
			t.Skip("not legal")
		}
		s := NewSpace(f, vcs)
		private := make([]*Space, len(vcs))
		for i := range vcs {
			private[i] = alone(f, vcs[i])
		}
		owner := map[job.ID]int{}
		next := job.ID(0)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { check(t, s) },
			"start": func(t *rapid.T) {
				vc := rapid.IntRange(0, len(vcs)-1).Draw(t, "vc")
				chain := rapid.IntRange(0, len(f.Chains)-1).Draw(t, "chain")
				tasks := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 3, 4}), 1, 4).Draw(t, "tasks")
				found, ok := s.Find(&Request{VC: vc, Tasks: tasks, Chains: []int{chain}}, c)
				mine, wanted := private[vc].Find(&Request{Tasks: tasks, Chains: []int{chain}}, c)
				if ok != wanted {
					t.Fatalf("%v for virtual cluster %d in chain %d: %v, alone %v", tasks, vc, chain, ok, wanted)
				}
				if !ok {
					waits++
					return
				}
				starts++
				for _, d := range s.GPUsOf(found) {
					for _, id := range slices.Sorted(maps.Keys(s.holds)) {
						if s.holds[id].vc == NoVC && slices.Contains(s.holds[id].devices, d) {
							s.Release(id)
						}
					}
				}
				s.Take(next, found, false)
				private[vc].Take(next, mine, false)
				if got, want := shares(s.Roots(next)), shares(private[vc].Roots(next)); !maps.Equal(got, want) {
					t.Fatalf("%v for virtual cluster %d are in roots %v, alone in %v", tasks, vc, got, want)
				}
				owner[next] = vc
				next++
			},
			"guest": func(t *rapid.T) {
				tasks := slices.Repeat([]int{1}, rapid.IntRange(1, 4).Draw(t, "gpus"))
				if found, ok := s.Find(&Request{VC: NoVC, Tasks: tasks, Chains: []int{rapid.IntRange(0, len(f.Chains)-1).Draw(t, "chain")}}, c); ok {
					s.Guest(next, s.GPUsOf(found), false)
					next++
				}
			},
			"end": func(t *rapid.T) {
				if len(s.holds) == 0 {
					t.Skip("nobody runs")
				}
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(s.holds))).Draw(t, "job")
				if vc, guaranteed := owner[id]; guaranteed {
					private[vc].Release(id)
				}
				s.Release(id)
			},
			"restart": func(t *rapid.T) {
				again := NewSpace(f, vcs)
				for _, id := range slices.Sorted(maps.Keys(s.holds)) {
					if h := s.holds[id]; h.vc == NoVC {
						again.Guest(id, h.devices, h.fixed)
					} else if !again.Restore(id, h.vc, h.priority, h.fixed, h.devices, h.roots) {
						t.Fatalf("job %d is not given back what it had", id)
					}
				}
				s = again
			},
		})
	})
	if waits == 0 || starts == 0 {
		t.Errorf("%d requests waited and %d were satisfied: nothing was tried", waits, starts)
	}
}
