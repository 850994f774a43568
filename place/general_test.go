package place

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/param"
)

// drawGang makes a gang of one or two roles, with parts of devices, cores and
// memory.
func drawGang(t *rapid.T) job.Demand {
	d := job.GPUs(rapid.IntRange(1, 6).Draw(t, "tasks"))
	role := &d.Roles[0]
	role.GPU = rapid.SampledFrom([]unit.Milli{0, 250, 300, 500, 1000, 2000}).Draw(t, "gpu")
	role.CPU = rapid.SampledFrom([]unit.Milli{0, 1000, 3000}).Draw(t, "cpu")
	role.Memory = rapid.SampledFrom([]unit.Bytes{0, unit.GiB}).Draw(t, "memory")
	role.GPUMemory = rapid.SampledFrom([]unit.Bytes{0, 6 * unit.GiB}).Draw(t, "gpu memory")
	if role.GPU == 0 {
		role.CPU = max(role.CPU, 500)
	}
	if rapid.Bool().Draw(t, "second role") {
		d.Roles[1] = job.Role{Name: "ps", Tasks: int32(rapid.IntRange(1, 3).Draw(t, "servers")), CPU: 1000, GPU: rapid.SampledFrom([]unit.Milli{0, 500, 1000}).Draw(t, "ps gpu")}
	}
	d.Types = rapid.SampledFrom([]string{"", "A", "B|A"}).Draw(t, "types")
	return d
}

// TestAnyGang: whatever the gang and the strategy, the devices found are free,
// whole, of an acceptable type and in the right pool. Asking books nothing. A
// gang for which WorstFit finds no room has none with the other strategies
// either, unless the order in which devices are tried decides.
func TestAnyGang(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawProblem(t, false)
		x.d = drawGang(t)
		x.d.Roles[0].Slots = rapid.SampledFrom([]job.Slots{"", "", "rdma=1", "pods=1|rdma=2"}).Draw(t, "slots")
		x.mask, _ = x.d.TypeMask(x.c)
		slots, _ := x.d.Slots(x.c)
		for _, s := range All() {
			free := x.c.FreeMilli(0, 0)
			r := &Request{Cluster: x.c, Demand: &x.d, Tasks: x.d.Roles[0].Tasks, Mask: x.mask, Slots: slots, Rand: rand.New(rand.NewPCG(1, 2))}
			why, ok := s.Place(r)
			if x.c.Check() != nil || x.c.FreeMilli(0, 0) != free {
				t.Fatalf("%s: asking changed the ledger", s)
			}
			if !ok {
				if why.Code == job.NoReason || len(r.Out.Pieces) > 0 {
					t.Fatalf("%s: refused for %v with %+v", s, why, r.Out)
				}
				continue
			}
			r.Out.Slots = slots
			x.checkWhole(t, s, &r.Out)
		}
	})
}

func (x *problem) checkWhole(t *rapid.T, s Strategy, a *cluster.Alloc) {
	var cpu unit.Milli
	var memory unit.Bytes
	for i := range a.Pieces {
		cpu += a.Pieces[i].CPU
		memory += a.Pieces[i].Memory
		if x.c.Node(a.Pieces[i].Node).Pool != 0 {
			t.Fatalf("%s: node %d is of another pool", s, a.Pieces[i].Node)
		}
	}
	for role := range x.d.Roles {
		if got := a.Tasks(uint8(role)); got != int(x.d.Roles[role].Tasks) {
			t.Fatalf("%s: %d tasks of role %d in %+v", s, got, role, a)
		}
	}
	for i := range a.Shares {
		if !x.mask.Has(x.c.TypeOf(a.Shares[i].Device)) {
			t.Fatalf("%s: device %d is of a type that is not acceptable", s, a.Shares[i].Device)
		}
	}
	if a.Milli() != x.d.Milli(x.d.Roles[0].Tasks) || cpu != x.d.CPU() || memory != x.d.Memory() {
		t.Fatalf("%s: %v GPUs, %v CPUs and %v in %+v for %v", s, a.Milli(), cpu, memory, a, &x.d)
	}
	if err := x.c.Allocate(a); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	x.c.Release(a)
}

// TestParts: equal parts of devices are placed if and only if counting what is
// left of each device says so.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := cluster.New()
		typ, _ := c.AddType(cluster.GPUType{Name: "A"})
		part := rapid.SampledFrom([]unit.Milli{200, 250, 300, 500, 700}).Draw(t, "part")
		cpu := rapid.SampledFrom([]unit.Milli{0, 1000}).Draw(t, "cpu")
		most := 0
		for range rapid.IntRange(1, 3).Draw(t, "nodes") {
			spec := cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: rapid.IntRange(1, 3).Draw(t, "devices")}}, CPU: rapid.SampledFrom([]unit.Milli{0, 2000, 9000}).Draw(t, "cores")}
			id, err := c.AddNode(spec)
			if err != nil {
				t.Fatal(err)
			}
			room := 0
			first, n := c.DeviceRange(id)
			for d := first; d < first+cluster.DeviceID(n); d++ {
				used := rapid.SampledFrom([]int32{0, 100, 450, 1000}).Draw(t, "used")
				if used > 0 {
					a := &cluster.Alloc{Pieces: []cluster.Piece{{Node: id, Shares: 1}}, Shares: []cluster.Share{{Device: d, Milli: used}}}
					if err := c.Allocate(a); err != nil {
						t.Fatal(err)
					}
				}
				room += int((1000 - unit.Milli(used)) / part)
			}
			if spec.CPU > 0 && cpu > 0 {
				room = min(room, int(spec.CPU/cpu))
			}
			most += room
		}
		tasks := rapid.IntRange(1, 10).Draw(t, "tasks")
		d := job.GPUs(tasks)
		d.Roles[0].GPU, d.Roles[0].CPU = part, cpu
		for _, s := range All() {
			r := &Request{Cluster: c, Demand: &d, Tasks: int32(tasks), Rand: rand.New(rand.NewPCG(1, 2))}
			if why, ok := s.Place(r); ok != (tasks <= most) {
				t.Fatalf("%s: %d times %v GPU placed %v (%v), there is room for %d", s, tasks, part, ok, why, most)
			}
		}
	})
}

// racks is three racks of two nodes of four GPUs and eight cores.
func racks(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "V100"})
	for _, name := range []string{"r0", "r1", "r2"} {
		rack, err := c.AddDomain("rack", name, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}, CPU: 8000, Domain: rack}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

func occupy(t *testing.T, c *cluster.Cluster, node cluster.NodeID, gpus int, cpu unit.Milli) {
	t.Helper()
	a := &cluster.Alloc{Shares: c.AppendWhole(nil, c.NodeGroups(node)[0], gpus, 0)}
	a.Pieces = []cluster.Piece{{Node: node, Shares: int32(gpus), CPU: cpu}}
	if err := c.Allocate(a); err != nil {
		t.Fatal(err)
	}
}

// TestReasons: what a gang that finds no place is told.
func TestReasons(t *testing.T) {
	gang := func(tasks int, gpu, cpu unit.Milli) job.Demand {
		d := job.GPUs(tasks)
		d.Roles[0].GPU, d.Roles[0].CPU = gpu, cpu
		return d
	}
	cases := []struct {
		s    Strategy
		d    job.Demand
		used []int // GPUs of each node
		cpu  unit.Milli
		want string
	}{
		{Pack, gang(5, 1000, 0), []int{4, 4, 4, 4, 2, 2}, 0, "needs 5 GPUs; 4 free"},
		{Consolidated, gang(4, 1000, 0), []int{1, 1, 1, 1, 1, 1}, 0, "needs 4 GPUs of one node; the best node has 3 free"},
		{Consolidated, gang(8, 1000, 0), []int{1, 1, 1, 1, 1, 0}, 0, "needs 2 nodes wholly free; there are 1"},
		{Consolidated, gang(6, 1000, 0), []int{3, 3, 3, 3, 3, 0}, 0, "needs 6 GPUs of one node; the best node has 4 free"},
		{Rack, gang(5, 1000, 0), []int{2, 2, 2, 2, 2, 2}, 0, "needs 5 GPUs of one rack; the best rack has 4 free"},
		{Pack, gang(2, 1000, 1000), []int{0, 0, 0, 0, 0, 0}, 8000, "GPUs would do, but the CPU or memory beside them is short"},
		{Pack, gang(1, 500, 1000), []int{3, 0, 0, 0, 0, 0}, 8000, "GPUs would do, but the CPU or memory beside them is short"},
		{Pack, gang(1, 500, 0), []int{4, 4, 4, 4, 4, 4}, 0, "needs 1 GPU; 0 free"},
		{Pack, gang(2, 3000, 1000), []int{3, 3, 3, 3, 0, 3}, 0, "each of its 2 tasks needs 3 GPUs of one node; there is room for 1"},
		{Pack, gang(3, 2000, 0), []int{0, 3, 3, 3, 3, 3}, 0, "each of its 3 tasks needs 2 GPUs of one node; there is room for 2"},
		{Pack, gang(3, 2000, 1000), []int{0, 0, 0, 0, 0, 0}, 8000, "GPUs would do, but the CPU or memory beside them is short"},
	}
	for _, k := range cases {
		c := racks(t)
		for node, n := range k.used {
			occupy(t, c, cluster.NodeID(node), n, k.cpu)
		}
		r := &Request{Cluster: c, Demand: &k.d, Tasks: k.d.Roles[0].Tasks}
		if why, ok := k.s.Place(r); ok || why.String() != k.want {
			t.Errorf("%s of %v: %v, %v; want %s", k.s, &k.d, ok, why, k.want)
		}
	}
	c := racks(t)
	for node := range cluster.NodeID(6) { // 0.4 of every device is left
		first, n := c.DeviceRange(node)
		for d := first; d < first+cluster.DeviceID(n); d++ {
			if err := c.Allocate(&cluster.Alloc{Pieces: []cluster.Piece{{Node: node, Shares: 1}}, Shares: []cluster.Share{{Device: d, Milli: 600}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := gang(1, 500, 0)
	if why, ok := Pack.Place(&Request{Cluster: c, Demand: &d, Tasks: 1}); ok || why.String() != "needs 0.5 of one GPU; no GPU has that much left" {
		t.Errorf("half a GPU where 0.4 is left of each: %v, %v", ok, why)
	}
}

// TestPartsShort: a gang of parts of GPUs is told what it is that is short: GPUs, GPUs
// with so much left, or cores beside them.
func TestPartsShort(t *testing.T) {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "A", Memory: 16 * unit.GiB})
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 2}}, CPU: 8 * unit.One}); err != nil {
		t.Fatal(err)
	}
	if err := c.Allocate(&cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: 2, CPU: 4 * unit.One}}, Shares: []cluster.Share{
		{Device: 0, Milli: 200, Memory: 12 * unit.GiB}, {Device: 1, Milli: 700},
	}}); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		tasks  int32
		part   unit.Milli
		cores  unit.Milli
		memory unit.Bytes
		want   string
	}{
		{1, 500, 5, 0, "GPUs would do, but the CPU or memory beside them is short"},
		{2, 300, 3, 0, "GPUs would do, but the CPU or memory beside them is short"},
		{1, 500, 1, 8 * unit.GiB, "needs 0.5 of one GPU; no GPU has that much left"},
		{2, 500, 1, 0, "needs 1 GPU; 0 free"},
		{3, 500, 1, 0, "needs 2 GPUs; 0 free"},
	} {
		var d job.Demand
		d.Roles[0] = job.Role{Tasks: k.tasks, GPU: k.part, CPU: k.cores * unit.One, GPUMemory: k.memory}
		if why, ok := Pack.Place(&Request{Cluster: c, Demand: &d, Tasks: k.tasks}); ok || why.String() != k.want {
			t.Errorf("%d times %v GPU and %v cores: %v, %v; want %s", k.tasks, k.part, k.cores, ok, why, k.want)
		}
	}
}

// TestNodesOfSeveralSizes: a gang larger than any node takes as few nodes as if
// nothing else ran, whatever their sizes, or waits for them; asking allocates
// nothing, whatever the answer.
func TestNodesOfSeveralSizes(t *testing.T) {
	cases := []struct {
		nodes, used []int // GPUs
		tasks       int
		want        string // GPUs by node, or the reason to wait
	}{
		{[]int{4, 8, 4}, []int{0, 0, 0}, 16, "[4 8 4]"},
		{[]int{4, 8, 4}, []int{0, 0, 0}, 10, "[2 8 0]"},
		{[]int{4, 8, 4, 4}, []int{1, 0, 0, 3}, 13, "[0 8 4 1]"},
		{[]int{4, 8, 4, 4}, []int{1, 0, 1, 0}, 16, "needs 3 nodes wholly free; there are 2"},
		{[]int{8, 4, 4, 8}, []int{0, 0, 0, 8}, 16, "needs 2 nodes wholly free; there are 1"}, // and not three nodes now
		{[]int{8, 4, 8}, []int{2, 0, 8}, 10, "[6 4 0]"},
		{[]int{16, 8, 8}, []int{4, 0, 0}, 20, "[12 8 0]"},
		{[]int{16, 8, 8}, []int{5, 0, 0}, 20, "needs 2 nodes wholly free; there are 0"}, // 11 + 8 are one short
		{[]int{8, 16}, []int{0, 6}, 12, "needs 12 GPUs of one node; the best node has 10 free"},
	}
	for _, k := range cases {
		for _, cores := range []unit.Milli{0, 1000} {
			c := cluster.New()
			typ, _ := c.AddType(cluster.GPUType{Name: "A"})
			for i, n := range k.nodes {
				if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: n}}, CPU: unit.Milli(n) * 1000}); err != nil {
					t.Fatal(err)
				}
				occupy(t, c, cluster.NodeID(i), k.used[i], unit.Milli(k.used[i])*1000)
			}
			d := job.GPUs(k.tasks)
			d.Roles[0].CPU = cores
			r := &Request{Cluster: c, Demand: &d, Tasks: int32(k.tasks)}
			why, ok := Consolidated.Place(r)
			got := why.String()
			if ok {
				per := make([]int32, len(k.nodes))
				for _, p := range r.Out.Pieces {
					per[p.Node] += p.Tasks
				}
				got = fmt.Sprint(per)
			}
			if got != k.want {
				t.Errorf("%d GPUs on nodes of %v with %v in use, %v cores each: %s, want %s", k.tasks, k.nodes, k.used, cores, got, k.want)
			}
			if n := testing.AllocsPerRun(20, func() { Consolidated.Place(r) }); n != 0 {
				t.Errorf("%d GPUs on nodes of %v: %v allocations", k.tasks, k.nodes, n)
			}
		}
	}
}

// TestRackOfGangsWithCores: a gang that also counts cores keeps to one rack, the
// one with the fewest free devices that has room, and crosses racks only where
// none has.
func TestRackOfGangsWithCores(t *testing.T) {
	c := racks(t)
	occupy(t, c, 2, 2, 0) // rack r1 has 6 free, the others 8
	d := job.GPUs(6)
	d.Roles[0].CPU = 1000
	place := func(s Strategy) (where []cluster.NodeID, why job.Reason) {
		r := &Request{Cluster: c, Demand: &d, Tasks: d.Roles[0].Tasks}
		why, _ = s.Place(r)
		for _, p := range r.Out.Pieces {
			where = append(where, p.Node)
		}
		return where, why
	}
	if where, why := place(Rack); len(where) != 2 || c.Node(where[0]).Domain != 2 || c.Node(where[1]).Domain != 2 {
		t.Errorf("6 GPUs with cores go to nodes %v (%v), want those of rack r1", where, why)
	}
	occupy(t, c, 3, 1, 7000) // and no cores to speak of
	if where, why := place(Rack); len(where) != 2 || c.Node(where[0]).Domain != 1 || c.Node(where[1]).Domain != 1 {
		t.Errorf("6 GPUs with cores go to nodes %v (%v), want those of rack r0", where, why)
	}
	for _, node := range []cluster.NodeID{0, 4} {
		occupy(t, c, node, 3, 0) // every rack is short of one or two
	}
	occupy(t, c, 2, 2, 0)
	if where, why := place(Rack); len(where) != 2 || where[0] != 1 || where[1] != 5 {
		t.Errorf("6 GPUs with cores go to nodes %v (%v), want a whole node and a part of another, of two racks", where, why)
	}
	occupy(t, c, 5, 3, 0)
	if where, why := place(Rack); len(where) != 0 || why.Code != job.NeedRack {
		t.Errorf("6 GPUs with cores go to nodes %v (%v), want none", where, why)
	}
	if where, why := place(Consolidated); len(where) != 0 {
		t.Errorf("consolidated puts 6 GPUs with cores on %v (%v), though no node has two beside the whole one", where, why)
	}
	if where, _ := place(RackPack); len(where) == 0 {
		t.Error("rack-pack waits where enough GPUs are free")
	}
}

// TestNames: every strategy is chosen by its name and says what it does.
func TestNames(t *testing.T) {
	for _, s := range All() {
		var got Strategy
		if err := (param.Set{Param(&got)}).Set("place", s.String()); err != nil || got != s || About(s) == "" {
			t.Errorf("%s is found as %v, about %q: %v", s, got, About(s), err)
		}
	}
	var where Strategy = Pack
	p := Param(&where)
	if p.Default != "pack" || p.Name != "place" {
		t.Errorf("%+v", p)
	}
}

// TestPlacingAllocatesNothing once warm, for every strategy and sort of gang.
func TestPlacingAllocatesNothing(t *testing.T) {
	c := racks(t)
	occupy(t, c, 0, 1, 0)
	plain, cores, parts := job.GPUs(6), job.GPUs(6), job.GPUs(3)
	cores.Roles[0].CPU = 1000
	parts.Roles[0].GPU = 300
	typed := job.GPUs(2)
	typed.Types = "P100|V100"
	for _, s := range All() {
		for _, d := range []*job.Demand{&plain, &cores, &parts, &typed} {
			r := &Request{Cluster: c, Demand: d, Tasks: d.Roles[0].Tasks, Rand: rand.New(rand.NewPCG(1, 2))}
			work := func() { s.Place(r) }
			work()
			if n := testing.AllocsPerRun(20, work); n != 0 {
				t.Errorf("%s of %v: %v allocations", s, d, n)
			}
		}
	}
}
