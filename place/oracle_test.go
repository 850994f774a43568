package place

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// room is one group as the oracle sees it.
type room struct {
	id     cluster.GroupID
	node   cluster.NodeID
	rack   cluster.DomainID
	typ    cluster.TypeID
	count  int
	free   int
	fits   int // tasks of the gang
	most   int // tasks of the gang if nothing else ran
	pooled bool
}

// problem is a small cluster in use and a gang.
type problem struct {
	c      *cluster.Cluster
	d      job.Demand
	pool   cluster.PoolID
	mask   cluster.TypeMask
	tasks  int
	all    []room // of the pool
	rooms  []room // those that are usable
	pooled bool   // a group counts its devices
}

// drawProblem makes a cluster of up to five nodes in up to three racks, of two
// types and two pools, in random use. It also draws a gang of tasks with one
// role.
func drawProblem(t *rapid.T, simple bool) *problem {
	x := &problem{c: cluster.New()}
	for _, name := range []string{"A", "B"} {
		if _, err := x.c.AddType(cluster.GPUType{Name: name, Memory: 16 * unit.GiB}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pods", "rdma"} {
		if _, err := x.c.AddSlot(name); err != nil {
			t.Fatal(err)
		}
	}
	other := x.c.AddPool("other")
	for i := range rapid.IntRange(0, 3).Draw(t, "racks") {
		parent := cluster.DomainID(rapid.IntRange(0, i).Draw(t, "parent"))
		if _, err := x.c.AddDomain("rack", fmt.Sprint("r", i), parent); err != nil {
			t.Fatal(err)
		}
	}
	for range rapid.IntRange(1, 5).Draw(t, "nodes") {
		x.drawNode(t, other, simple)
	}
	x.d = job.GPUs(rapid.IntRange(1, 12).Draw(t, "tasks"))
	if !simple {
		x.d.Roles[0].GPU = rapid.SampledFrom([]unit.Milli{1000, 2000}).Draw(t, "per task")
		x.d.Roles[0].CPU = rapid.SampledFrom([]unit.Milli{1000, 2000}).Draw(t, "cpu")
		x.d.Roles[0].Slots = rapid.SampledFrom([]job.Slots{"", "", "pods=1", "pods=1|rdma=2"}).Draw(t, "slots")
	}
	x.d.Types = rapid.SampledFrom([]string{"", "", "A", "B", "B|A", "A|B"}).Draw(t, "types")
	x.mask, _ = x.d.TypeMask(x.c)
	x.tasks = int(x.d.Roles[0].Tasks)
	if rapid.Bool().Draw(t, "scope") { // a part of the pool answers as a pool does
		var err error
		if x.pool, err = x.c.Scope(cluster.Condition{Where: "zone=a", Tolerate: rapid.SampledFrom([]string{"", "spot"}).Draw(t, "tolerate")}); err != nil {
			t.Fatal(err)
		}
	}
	x.survey()
	return x
}

func (x *problem) drawNode(t *rapid.T, other cluster.PoolID, simple bool) {
	spec := cluster.NodeSpec{Domain: cluster.DomainID(rapid.IntRange(0, x.c.Domains()-1).Draw(t, "domain"))}
	if rapid.IntRange(0, 5).Draw(t, "pool") == 0 {
		spec.Pool = other
	}
	if !simple {
		spec.CPU = rapid.SampledFrom([]unit.Milli{0, 2000, 5000, 8000}).Draw(t, "cpu")
		spec.Slots = cluster.Slots{int64(rapid.IntRange(0, 5).Draw(t, "pods")), int64(rapid.IntRange(0, 5).Draw(t, "rdma"))}
	}
	if rapid.IntRange(0, 2).Draw(t, "zone") > 0 {
		spec.Labels = []label.Label{{Key: "zone", Value: "a"}}
	}
	if rapid.IntRange(0, 4).Draw(t, "spot") == 0 {
		spec.Taints = []label.Taint{{Key: "spot", Effect: label.NoSchedule}}
	}
	spec.Pooled = rapid.IntRange(0, 7).Draw(t, "pooled") == 0
	kinds := [][]cluster.TypeID{{0}, {0}, {1}}
	if simple { // two groups of one node would share its cores, which the oracle does not see
		kinds = append(kinds, []cluster.TypeID{0, 1})
	}
	for _, typ := range rapid.SampledFrom(kinds).Draw(t, "types") {
		spec.GPUs = append(spec.GPUs, cluster.GPUs{Type: typ, Count: rapid.IntRange(1, 5).Draw(t, "count")})
	}
	node, err := x.c.AddNode(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range x.c.NodeGroups(node) {
		if n := rapid.IntRange(0, x.c.GroupFree(g)).Draw(t, "used"); n > 0 {
			shares := x.c.AppendWhole(nil, g, n, 0)
			if err := x.c.Allocate(&cluster.Alloc{Shares: shares, Pieces: []cluster.Piece{{Node: node, Shares: int32(len(shares))}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if rapid.IntRange(0, 7).Draw(t, "down") == 0 {
		x.c.SetHealth(node, cluster.Down)
	}
}

// survey lists the rooms.
func (x *problem) survey() {
	per, cpu := int(x.d.Roles[0].GPU/unit.One), x.d.Roles[0].CPU
	limit := func(n int, node *cluster.NodeSpec) int {
		for name, amount := range x.d.Roles[0].Slots.All() {
			id, _ := x.c.SlotByName(name)
			n = min(n, int(node.Slots[id]/amount))
		}
		if cpu == 0 || node.CPU == 0 {
			return n
		}
		return min(n, int(node.CPU/cpu))
	}
	for id := range cluster.NodeID(x.c.Nodes()) {
		spec := x.c.Node(id)
		if !x.c.In(id, x.pool) {
			continue
		}
		for _, g := range x.c.NodeGroups(id) {
			r := room{id: g, node: id, rack: spec.Domain, typ: x.c.GroupType(g), count: x.c.GroupCount(g), free: x.c.GroupFree(g), pooled: spec.Pooled}
			r.fits, r.most = limit(r.free/per, spec), limit(r.count/per, spec)
			x.all = append(x.all, r)
			if x.c.Usable(id) {
				x.pooled = x.pooled || spec.Pooled
				x.rooms = append(x.rooms, r)
			}
		}
	}
}

// types are the acceptable types in the order of the gang's preference.
func (x *problem) types() []cluster.TypeID {
	switch x.d.Types {
	case "A":
		return []cluster.TypeID{0}
	case "B":
		return []cluster.TypeID{1}
	case "B|A":
		return []cluster.TypeID{1, 0}
	}
	return []cluster.TypeID{0, 1}
}

// of are the rooms of some types.
func (x *problem) of(types ...cluster.TypeID) []room {
	var out []room
	for _, r := range x.rooms {
		if slices.Contains(types, r.typ) {
			out = append(out, r)
		}
	}
	return out
}

// pieces is an answer: tasks in each group.
type pieces map[cluster.GroupID]int

// each calls f with every way to put the tasks into the rooms.
func each(rooms []room, tasks int, f func(pieces)) {
	at := pieces{}
	var go_ func(i, left int)
	go_ = func(i, left int) {
		if left == 0 {
			f(at)
			return
		}
		if i == len(rooms) {
			return
		}
		for n := min(left, rooms[i].fits); n >= 0; n-- {
			if n > 0 {
				at[rooms[i].id] = n
			} else {
				delete(at, rooms[i].id)
			}
			go_(i+1, left-n)
		}
		delete(at, rooms[i].id)
	}
	go_(0, tasks)
}

// fewest is the smallest number of groups that can hold the tasks; 0: they
// cannot.
func fewest(rooms []room, tasks int) int {
	best := 0
	each(rooms, tasks, func(p pieces) {
		if best == 0 || len(p) < best {
			best = len(p)
		}
	})
	return best
}

// together tells whether the tasks can be consolidated, and on how many groups.
// That is one group, or as few as if nothing else ran and every node worked.
// All but one of these must take as many tasks as they ever could. A simple
// gang is not spread over groups that count their devices.
func (x *problem) together(rooms []room, typ cluster.TypeID, tasks int, simple bool) (groups int, ok bool) {
	var empty []room
	largest, equal := 0, true
	for _, r := range x.all {
		if r.typ != typ || simple && r.pooled {
			continue
		}
		r.fits = r.most
		empty = append(empty, r)
		equal = equal && r.most == empty[0].most
		largest = max(largest, r.most)
	}
	least := fewest(empty, tasks)
	most := func(id cluster.GroupID) int {
		return empty[slices.IndexFunc(empty, func(r room) bool { return r.id == id })].most
	}
	each(rooms, tasks, func(p pieces) {
		if len(p) > 1 && (tasks <= largest || len(p) > least) {
			return
		}
		whole, rest := 0, 0
		for _, r := range rooms {
			switch n := p[r.id]; {
			case n == 0 || len(p) == 1:
			case simple && r.pooled:
				return
			case n == most(r.id):
				whole++
			default:
				rest++
			}
		}
		if rest > 1 || len(p) > 1 && equal && whole != tasks/largest {
			return
		}
		if !ok || len(p) < groups {
			groups, ok = len(p), true
		}
	})
	return groups, ok
}

// place asks a strategy and turns the answer into pieces.
func (x *problem) place(t *rapid.T, s Strategy, seed uint64) (pieces, *Request, bool) {
	slots, _ := x.d.Slots(x.c)
	r := &Request{Cluster: x.c, Demand: &x.d, Tasks: int32(x.tasks), Pool: x.pool, Mask: x.mask, Slots: slots, Rand: rand.New(rand.NewPCG(seed, 0))}
	why, ok := s.Place(r)
	if !ok {
		if why.Code == job.NoReason || len(r.Out.Pieces)+len(r.Out.Shares) > 0 {
			t.Fatalf("%s refuses with the reason %v and the answer %v", s, why.Code, r.Out)
		}
		return nil, r, false
	}
	out := pieces{}
	shares := r.Out.Shares
	for _, p := range r.Out.Pieces {
		out[x.c.GroupOf(shares[0].Device)] += int(p.Tasks)
		shares = shares[p.Shares:]
	}
	mark := x.c.Mark()
	err := x.c.Allocate(&r.Out)
	x.c.Undo(mark)
	if err != nil {
		t.Fatalf("%s: what it found is not free: %v", s, err)
	}
	if r.Out.Tasks(0) != x.tasks || r.Out.Milli() != x.d.Milli(int32(x.tasks)) {
		t.Fatalf("%s: half a gang: %+v", s, r.Out)
	}
	for g := range out {
		i := slices.IndexFunc(x.rooms, func(r room) bool { return r.id == g })
		if i < 0 || !x.mask.Has(x.rooms[i].typ) {
			t.Fatalf("%s: group %d is not for this gang", s, g)
		}
	}
	return out, r, true
}

// inOrder is what taking devices in an order gives.
func inOrder(rooms []room, tasks int, before func(a, b room) int) (pieces, bool) {
	rooms = slices.Clone(rooms)
	slices.SortStableFunc(rooms, before)
	out := pieces{}
	for _, r := range rooms {
		if n := min(tasks, r.fits); n > 0 {
			out[r.id] = n
			tasks -= n
		}
	}
	return out, tasks == 0
}

func lastResort(a, b room) int {
	switch {
	case a.pooled == b.pooled:
		return 0
	case a.pooled:
		return 1
	}
	return -1
}

// orders are those of the strategies that take devices anywhere.
var orders = map[Strategy]func(a, b room) int{
	BestFit: func(a, b room) int {
		if c := lastResort(a, b); c != 0 || a.pooled {
			return c
		}
		return a.free - b.free
	},
	WorstFit: func(a, b room) int {
		if c := lastResort(a, b); c != 0 || a.pooled {
			return c
		}
		return b.free - a.free
	},
	FirstFit: func(a, b room) int { return int(a.id - b.id) },
}

func equal(a, b pieces) bool {
	if len(a) != len(b) {
		return false
	}
	for g, n := range a {
		if b[g] != n {
			return false
		}
	}
	return true
}

// TestAnywhere: the strategies that take devices anywhere give what sorting the
// groups and taking from the top gives; they keep to one type while they can.
func TestAnywhere(t *testing.T) {
	for _, simple := range []bool{true, false} {
		rapid.Check(t, func(t *rapid.T) {
			x := drawProblem(t, simple)
			for s, order := range orders {
				var want pieces
				found := false
				for _, typ := range x.types() {
					if !found {
						want, found = inOrder(x.of(typ), x.tasks, order)
					}
				}
				mixed := !found
				if mixed {
					want, found = inOrder(x.of(x.types()...), x.tasks, order)
				}
				got, _, ok := x.place(t, s, 1)
				// In a mix of types, equal choices are broken by type first.
				if ok != found || ok && !equal(got, want) && !mixed {
					t.Fatalf("%s puts %v of %d into %v; %+v; want %v %v", s, &x.d, x.tasks, got, x.rooms, want, found)
				}
			}
			got, _, ok := x.place(t, Random, 1)
			if want := fewest(x.of(x.types()...), x.tasks) > 0; ok != want {
				t.Fatalf("random finds %v, brute force %v", ok, want)
			}
			if again, _, _ := x.place(t, Random, 1); !equal(got, again) {
				t.Fatalf("random with one seed finds %v and %v", got, again)
			}
		})
	}
}

// TestTogether: Consolidated and Pack against all ways to place the gang.
func TestTogether(t *testing.T) {
	for _, simple := range []bool{true, false} {
		rapid.Check(t, func(t *rapid.T) {
			x := drawProblem(t, simple)
			groups, found := 0, false
			for _, typ := range x.types() {
				if n, ok := x.together(x.of(typ), typ, x.tasks, simple); ok && !found {
					groups, found = n, true
				}
			}
			got, _, ok := x.place(t, Consolidated, 1)
			if ok != found || len(got) != groups {
				t.Fatalf("consolidated puts %v into %v of %+v; brute force: %v, %d groups", &x.d, got, x.rooms, found, groups)
			}
			x.checkBestFit(t, got)
			packed, _, packs := x.place(t, Pack, 1)
			if want := fewest(x.of(x.types()...), x.tasks) > 0; packs != want {
				t.Fatalf("pack finds %v, brute force %v", packs, want)
			}
			for _, typ := range x.types() {
				if n := fewest(x.of(typ), x.tasks); n > 0 {
					if simple && !x.pooled && len(packed) != n {
						t.Fatalf("pack uses %d groups of %+v for %d, %d would do", len(packed), x.rooms, x.tasks, n)
					}
					break
				}
			}
		})
	}
}

// checkBestFit: a gang in one group leaves the least behind, and goes to a group
// that counts its devices only where nothing else will do.
func (x *problem) checkBestFit(t *rapid.T, got pieces) {
	if len(got) != 1 {
		return
	}
	var used room
	for _, r := range x.rooms {
		if got[r.id] > 0 {
			used = r
		}
	}
	for _, r := range x.of(used.typ) {
		better := !r.pooled && used.pooled || r.pooled == used.pooled && (r.free < used.free || r.free == used.free && r.id < used.id)
		if r.fits >= x.tasks && better {
			t.Fatalf("consolidated takes %+v where %+v is the better fit", used, r)
		}
	}
}

// TestRacks: Rack keeps to one node, or else to the rack with the fewest free
// devices that suffice and few nodes there, and crosses racks only where none
// has enough.
func TestRacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawProblem(t, true)
		got, _, ok := x.place(t, Rack, 1)
		want, found := x.racked(t)
		if ok != found {
			t.Fatalf("rack finds %v for %d in %+v, want %v", got, x.tasks, x.rooms, found)
		}
		if ok {
			racks, free := map[cluster.DomainID]bool{}, 0
			for _, r := range x.rooms {
				if got[r.id] > 0 {
					racks[r.rack] = true
					free = x.freeIn(r.rack, r.typ)
				}
			}
			if len(got) != want.groups || len(racks) == 1 && want.free > 0 && free != want.free || want.free > 0 && len(racks) > 1 {
				t.Fatalf("rack puts %d into %v of %+v: %d racks, the last with %d free; want %+v", x.tasks, got, x.rooms, len(racks), free, want)
			}
		}
		relaxed, _, packs := x.place(t, RackPack, 1)
		packed, _, canPack := x.place(t, Pack, 1)
		if packs != (ok || canPack) || ok && !equal(relaxed, got) || !ok && !equal(relaxed, packed) {
			t.Fatalf("rack-pack puts %d into %v; rack into %v, pack into %v", x.tasks, relaxed, got, packed)
		}
	})
}

// byRack is what Rack should find: so many groups, in a rack with so many free;
// 0 free: in one node or across racks.
type byRack struct{ groups, free int }

func (x *problem) freeIn(rack cluster.DomainID, typ cluster.TypeID) int {
	n := 0
	for _, r := range x.of(typ) {
		if r.rack == rack {
			n += r.free
		}
	}
	return n
}

func (x *problem) racked(t *rapid.T) (byRack, bool) {
	for _, typ := range x.types() {
		rooms := x.of(typ)
		if fewest(rooms, x.tasks) == 1 {
			return byRack{groups: 1}, true
		}
		best := byRack{}
		for _, r := range rooms {
			free := x.freeIn(r.rack, typ)
			if free < x.tasks || best.free > 0 && best.free <= free {
				continue
			}
			var inside []room
			for _, q := range rooms {
				if q.rack == r.rack {
					inside = append(inside, q)
				}
			}
			best = byRack{groups: fewest(inside, x.tasks), free: free}
		}
		if best.free > 0 {
			// Of two racks with equally many free, the lowest numbered counts.
			x.lowestRack(&best, rooms, typ)
			return best, true
		}
		if n, ok := x.together(rooms, typ, x.tasks, true); ok {
			return byRack{groups: n}, true
		}
	}
	return byRack{}, false
}

func (x *problem) lowestRack(best *byRack, rooms []room, typ cluster.TypeID) {
	lowest := cluster.DomainID(x.c.Domains())
	for _, r := range rooms {
		if x.freeIn(r.rack, typ) == best.free {
			lowest = min(lowest, r.rack)
		}
	}
	var inside []room
	for _, r := range rooms {
		if r.rack == lowest {
			inside = append(inside, r)
		}
	}
	best.groups = fewest(inside, x.tasks)
}
