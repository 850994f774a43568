package fabric

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
)

// worth is what a set is worth, in GB/s: the best that any order of its devices gives of each.
type worth struct{ predicted, aggregate, preserved float64 }

// TestPredicted is acceptance A of the specification, three decimals.
func TestPredicted(t *testing.T) {
	for _, c := range []struct {
		x    [3]int
		want float64
	}{
		{[3]int{2, 0, 0}, 58.925}, {[3]int{0, 2, 0}, 27.720}, {[3]int{0, 0, 2}, 10.371}, {[3]int{3, 0, 0}, 77.046}, {[3]int{2, 1, 0}, 57.858}, {[3]int{1, 2, 0}, 44.127},
		{[3]int{1, 1, 1}, 24.107}, {[3]int{2, 0, 1}, 30.004}, {[3]int{0, 3, 0}, 33.046}, {[3]int{0, 0, 3}, 11.292}, {[3]int{4, 0, 0}, 94.478}, {[3]int{3, 1, 0}, 68.707}, {[3]int{2, 2, 0}, 49.148},
	} {
		if got := Predicted(c.x[0], c.x[1], c.x[2]); math.Abs(got-c.want) > 0.0006 {
			t.Errorf("%v: %.3f GB/s, want %.3f", c.x, got, c.want)
		}
	}
}

// links of each pattern over devices in an order.
func linksOf(p Pattern, order []int) (pairs [][2]int) {
	n := len(order)
	for i := range n {
		for j := i + 1; j < n; j++ {
			if p == Clique || p == Star && i == 0 || j == i+1 && (p == Ring || p == Chain) {
				pairs = append(pairs, [2]int{order[i], order[j]})
			}
		}
	}
	if p == Ring && n > 1 {
		pairs = append(pairs, [2]int{order[n-1], order[0]})
	}
	return pairs
}

// permute visits all orders of some devices.
func permute(all []int, at int, visit func([]int)) {
	if at == len(all) {
		visit(all)
		return
	}
	for i := at; i < len(all); i++ {
		all[at], all[i] = all[i], all[at]
		permute(all, at+1, visit)
		all[at], all[i] = all[i], all[at]
	}
}

// oracle is what a set is worth, by all orders of its devices.
func oracle(l *cluster.Links, p Pattern, free, set Set) worth {
	best := worth{never, never, 0}
	var devices []int
	for s := set; s != 0; s &= s - 1 {
		devices = append(devices, s.Low())
	}
	permute(devices, 0, func(order []int) {
		var count [3]int
		sum := 0.0
		for _, e := range linksOf(p, order) {
			link := l.Between(e[0], e[1])
			count[KindOf(link)]++
			sum += link.GBps
		}
		best.predicted = max(best.predicted, Predicted(count[0], count[1], count[2]))
		best.aggregate = max(best.aggregate, sum)
	})
	for a := free &^ set; a != 0; a &= a - 1 {
		for b := a & (a - 1); b != 0; b &= b - 1 {
			if link := l.Between(a.Low(), b.Low()); link.Class == cluster.NVLink {
				best.preserved += link.GBps
			}
		}
	}
	return best
}

// anyLinks are random links with speeds of which sums are exact.
func anyLinks(t *rapid.T, n int) *cluster.Links {
	l := cluster.NewLinks(n)
	for i := range n {
		for j := range i {
			l.Connect(i, j, rapid.SampledFrom([]cluster.Link{
				{Class: cluster.NVLink, Count: 1, Gen: 2}, {Class: cluster.NVLink, Count: 2, Gen: 2}, {Class: cluster.NVLink, Count: 3, Gen: 1}, {Class: cluster.NVLink, GBps: 40},
				{Class: cluster.PCIeSwitch}, {Class: cluster.Socket}, {Class: cluster.CrossSocket},
			}).Draw(t, "link"))
		}
	}
	return l
}

// TestTables: what is said of each set is what all orders of its devices give, whether small sets are
// asked about first or last.
func TestTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "devices")
		l := anyLinks(t, n)
		g := New(l)
		if g.Uniform() {
			return
		}
		p := Pattern(rapid.IntRange(0, int(Clique)).Draw(t, "pattern"))
		free, down := Set(1<<n-1), rapid.Bool().Draw(t, "large ones first")
		best := map[int]float64{}
		for i := Set(1); i <= free; i++ {
			s := i
			if down {
				s = free + 1 - i
			}
			want := oracle(l, p, free, s)
			got := worth{preserved: g.Preserved(free &^ s)}
			if got.predicted, got.aggregate = g.Worth(p, s); got != want {
				t.Fatalf("%v of %b: %+v, want %+v", p, s, got, want)
			}
			if b, known := best[s.Len()]; !known || want.predicted > b {
				best[s.Len()] = want.predicted
			}
		}
		for k, want := range best {
			if got := g.Best(p, k); got != want {
				t.Fatalf("%v of any %d: %v, want %v", p, k, got, want)
			}
		}
	})
}

// TestKinds: a link counts by how many NVLinks it has.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		link cluster.Link
		want Kind
	}{
		{cluster.Link{Class: cluster.NVLink, Count: 2, GBps: 40}, Double}, {cluster.Link{Class: cluster.NVLink, Count: 18, GBps: 450}, Double},
		{cluster.Link{Class: cluster.NVLink, Count: 1, GBps: 50}, Single}, {cluster.Link{Class: cluster.NVLink, GBps: 50}, Double},
		{cluster.Link{Class: cluster.NVLink, GBps: 25}, Single}, {cluster.Link{Class: cluster.PCIeSwitch, GBps: 64}, Slow},
	} {
		if got := KindOf(c.link); got != c.want {
			t.Errorf("%+v is of kind %d, want %d", c.link, got, c.want)
		}
	}
}

// TestGraphs: equal links have one graph, and nodes that are too large have none.
func TestGraphs(t *testing.T) {
	var all Graphs
	l, other := cluster.NewLinks(4), cluster.NewLinks(4)
	other.Connect(0, 1, cluster.Link{Class: cluster.NVLink})
	if all.Of(l) == nil || all.Of(l) != all.Of(cluster.NewLinks(4)) || all.Of(l) == all.Of(other) || all.Of(other).Uniform() || all.Of(nil) != nil || all.Of(cluster.NewLinks(MaxDevices+1)) != nil || all.Of(cluster.NewLinks(1)) != nil {
		t.Errorf("%+v", all)
	}
	if !all.Of(l).Uniform() || all.Of(l).Devices() != 4 || New(cluster.NewLinks(17)) != nil {
		t.Errorf("%+v", all.Of(l))
	}
}

// TestPatterns: the words of traces.
func TestPatterns(t *testing.T) {
	for p := Ring; p <= Clique; p++ {
		if got, ok := ParsePattern(p.String()); !ok || got != p {
			t.Errorf("%v is read as %v, %v", p, got, ok)
		}
	}
	for word, want := range map[string]Pattern{"Tree": Chain, " all": Clique, "line": Chain} {
		if got, ok := ParsePattern(word); !ok || got != want {
			t.Errorf("%q is read as %v, %v", word, got, ok)
		}
	}
	if _, ok := ParsePattern("gossip"); ok {
		t.Error("gossip is a pattern")
	}
}

// BenchmarkTables: what is found once for a layout and a pattern, of sets of half of the GPUs of a
// DGX-1 and of a torus of 16.
func BenchmarkTables(b *testing.B) {
	for _, c := range []struct {
		layout string
		n      int
	}{{"dgx1", 8}, {"torus-2d", 16}} {
		l, err := cluster.LinkPreset(c.layout, c.n)
		if err != nil {
			b.Fatal(err)
		}
		for p := Ring; p <= Clique; p++ {
			b.Run(c.layout+"/"+p.String(), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					New(l).table(p, c.n/2)
				}
			})
		}
	}
}
