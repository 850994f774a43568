package cluster

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// small is a cluster of one node of four GPUs with eight cores and 16 GiB.
func small(t *testing.T) *Cluster {
	t.Helper()
	c := New()
	typ, err := c.AddType(GPUType{Name: "V100", Memory: 16 * unit.GiB})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(NodeSpec{Name: "alpha", GPUs: []GPUs{{typ, 4}}, CPU: 8000, Memory: 16 * unit.GiB}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(NodeSpec{Name: "beta", GPUs: []GPUs{{typ, 2}}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTakeErrors: whatever is refused, the error names the node and says what
// is short.
func TestTakeErrors(t *testing.T) {
	on := func(p Piece, shares ...Share) *Alloc {
		p.Shares, p.Tasks = int32(len(shares)), 1
		return &Alloc{Pieces: []Piece{p}, Shares: shares}
	}
	cases := []struct {
		before func(*Cluster)
		a      *Alloc
		want   string
	}{
		{nil, on(Piece{CPU: 8001}), "node alpha has 8 CPUs free, 8.001 are needed"},
		{nil, on(Piece{Memory: 17 * unit.GiB}), "node alpha has 16GiB of memory free, 17GiB are needed"},
		{nil, on(Piece{}, Share{Device: 4, Milli: 1000}), "device 4 is not in node alpha"},
		{nil, on(Piece{}, Share{Device: 1, Milli: 1000}, Share{Device: 1, Milli: 1}), "GPU 1 of node alpha has 0 of a GPU free, 0.001 is needed"},
		{nil, on(Piece{}, Share{Device: 2, Milli: 500, Memory: 17 * unit.GiB}), "GPU 2 of node alpha has 16GiB of GPU memory free, 17GiB are needed"},
		{nil, on(Piece{}, Share{Device: 2, Milli: -1}), "GPU 2 of node alpha: a share of -0.001 and 0B"},
		{func(c *Cluster) { c.SetBroken(5, true) }, on(Piece{Node: 1}, Share{Device: 5, Milli: 1}), "GPU 1 of node beta is broken"},
		{func(c *Cluster) { c.SetHealth(1, Down) }, on(Piece{Node: 1}), "node beta is down and awake"},
		{func(c *Cluster) { c.SetHealth(1, Cordoned) }, on(Piece{Node: 1}), "node beta is cordoned and awake"},
		{func(c *Cluster) { c.SetPower(1, Asleep) }, on(Piece{Node: 1}), "node beta is up and asleep"},
		{func(c *Cluster) { c.SetPower(1, Booting) }, on(Piece{Node: 1}), "node beta is up and booting"},
	}
	for _, k := range cases {
		c := small(t)
		if k.before != nil {
			k.before(c)
		}
		before := c.fingerprint()
		if err := c.Allocate(k.a); err == nil || err.Error() != k.want {
			t.Errorf("Take(%+v): %v, want %s", k.a, err, k.want)
		}
		if c.fingerprint() != before {
			t.Errorf("a Take that failed changed the ledger: %+v", k.a)
		}
	}
}

func TestAddNodeErrors(t *testing.T) {
	cases := []struct {
		spec NodeSpec
		want string
	}{
		{NodeSpec{Pool: 1}, "unknown pool 1"},
		{NodeSpec{Domain: -1}, "unknown domain -1"},
		{NodeSpec{CPU: -1}, "negative CPU or memory"},
		{NodeSpec{GPUs: []GPUs{{3, 1}}}, "unknown GPU type 3"},
		{NodeSpec{GPUs: []GPUs{{0, -1}}}, "-1 GPUs"},
		{NodeSpec{GPUs: []GPUs{{0, 65}}}, "more than 64 cannot be told apart"},
		{NodeSpec{GPUs: []GPUs{{0, 2_000_001}}, Pooled: true}, "at most 2,000,000"},
		{NodeSpec{GPUs: []GPUs{{0, 4}}, Links: NewLinks(3)}, "links are given for 3 devices, it has 4"},
	}
	for _, k := range cases {
		c := small(t)
		before := c.fingerprint()
		k.spec.Name = "gamma"
		_, err := c.AddNode(k.spec)
		if err == nil || !strings.Contains(err.Error(), `node "gamma": `) || !strings.Contains(err.Error(), k.want) {
			t.Errorf("AddNode(%+v): %v, want %s", k.spec, err, k.want)
		}
		if c.fingerprint() != before || c.Nodes() != 2 {
			t.Errorf("an AddNode that failed changed the cluster: %v", err)
		}
	}
	c := New()
	for range 64 {
		if _, err := c.AddType(GPUType{Name: strings.Repeat("x", c.Types()+1)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.AddType(GPUType{Name: "one more"}); err == nil || !strings.Contains(err.Error(), "at most 64 types") {
		t.Errorf("the 65th type: %v", err)
	}
}

// TestValidErrors: what comes from a log is checked before it is believed.
func TestValidErrors(t *testing.T) {
	c := small(t)
	cases := []struct {
		a    Alloc
		want string
	}{
		{Alloc{Pieces: []Piece{{Node: 2}}}, "node number 2 is not known"},
		{Alloc{Pieces: []Piece{{Node: -1}}}, "node number -1 is not known"},
		{Alloc{Pieces: []Piece{{Tasks: -1}}}, "a negative amount on node alpha"},
		{Alloc{Pieces: []Piece{{Shares: 1}}}, "0 device shares where the pieces have 1"},
		{Alloc{Pieces: []Piece{{Shares: 1}}, Shares: []Share{{Device: 6}}}, "device number 6 is not known"},
	}
	for _, k := range cases {
		if err := c.Valid(&k.a); err == nil || err.Error() != k.want {
			t.Errorf("Valid(%+v): %v, want %s", k.a, err, k.want)
		}
	}
	if err := c.Valid(&Alloc{Pieces: []Piece{{Node: 1, Shares: 1}}, Shares: []Share{{Device: 5}}}); err != nil {
		t.Error(err)
	}
}

// TestTopology builds trees of any depth and compares distances with the
// definition: steps from the deeper node up to the smallest place with both.
func TestTopology(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New()
		for range rapid.IntRange(0, 12).Draw(t, "places") {
			if _, err := c.AddDomain("level", "place", DomainID(rapid.IntRange(0, c.Domains()-1).Draw(t, "parent"))); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(2, 6).Draw(t, "nodes") {
			if _, err := c.AddNode(NodeSpec{Domain: DomainID(rapid.IntRange(0, c.Domains()-1).Draw(t, "domain"))}); err != nil {
				t.Fatal(err)
			}
		}
		path := func(n NodeID) (up []DomainID) {
			for d := c.Node(n).Domain; d >= 0; _, _, d = c.Domain(d) {
				up = append(up, d)
			}
			return up
		}
		for a := range NodeID(c.Nodes()) {
			for b := range NodeID(c.Nodes()) {
				x, y := path(a), path(b)
				want := 0
				if a != b {
					common := slices.IndexFunc(x, func(d DomainID) bool { return slices.Contains(y, d) })
					want = 1 + max(common, slices.Index(y, x[common]))
				}
				if got := c.Distance(a, b); got != want {
					t.Fatalf("Distance(%d, %d) = %d, want %d (%v, %v)", a, b, got, want, x, y)
				}
			}
		}
	})
	if _, err := New().AddDomain("rack", "r1", 3); err == nil || !strings.Contains(err.Error(), `rack "r1": unknown parent domain 3`) {
		t.Errorf("an unknown parent: %v", err)
	}
}

// TestLinksChooseFast: on a DGX-1 the devices of a job are those with the
// fastest links. Of the NVIDIA DGX-1V, the pairs 0-3, 0-4, 1-2, 1-5, 2-3, 4-7,
// 5-6 and 6-7 have two bricks. So a pair is never spread over slower links
// while one of these is free.
func TestLinksChooseFast(t *testing.T) {
	c := New()
	typ, _ := c.AddType(GPUType{Name: "V100"})
	links, err := LinkPreset("dgx1", 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(NodeSpec{GPUs: []GPUs{{typ, 8}}, Links: links}); err != nil {
		t.Fatal(err)
	}
	busy := &Alloc{Pieces: []Piece{{Shares: 1}}, Shares: []Share{{Device: 0, Milli: 1000}}}
	if err := c.Allocate(busy); err != nil {
		t.Fatal(err)
	}
	pair := c.AppendWhole(nil, 0, 2, 0)
	if l := links.Between(int(pair[0].Device), int(pair[1].Device)); l != (Link{NVLink, 50, 2, 2}) {
		t.Errorf("devices %v are linked by %+v, want two NVLinks 2 at 50 GB/s", pair, l)
	}
	if _, err := LinkPreset("dgx1", 4); err == nil || !strings.Contains(err.Error(), "for 8 GPUs, the node has 4") {
		t.Errorf("dgx1 of 4: %v", err)
	}
	if _, err := LinkPreset("ring", 4); err == nil || !strings.Contains(err.Error(), `unknown links "ring"`) {
		t.Errorf("unknown preset: %v", err)
	}
}

// TestBrokenDevicesAreNotCounted: a device out of use is neither free nor part
// of what there is, and is back in full once it works again.
func TestBrokenDevicesAreNotCounted(t *testing.T) {
	c := small(t)
	c.SetBroken(0, true)
	if c.TotalGPUs(0, 0) != 5 || c.FreeGPUs(0, 0) != 5 {
		t.Errorf("%d of %d free with one broken, want 5 of 5", c.FreeGPUs(0, 0), c.TotalGPUs(0, 0))
	}
	c.SetBroken(0, false)
	if c.TotalGPUs(0, 0) != 6 || c.FreeGPUs(0, 0) != 6 {
		t.Errorf("%d of %d free after the repair, want 6 of 6", c.FreeGPUs(0, 0), c.TotalGPUs(0, 0))
	}
}

// TestShelvesInOrderOfType: whatever the order in which nodes come.
func TestShelvesInOrderOfType(t *testing.T) {
	c := New()
	a, _ := c.AddType(GPUType{Name: "A"})
	b, _ := c.AddType(GPUType{Name: "B"})
	for _, typ := range []TypeID{b, a} {
		if _, err := c.AddNode(NodeSpec{GPUs: []GPUs{{typ, 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	var types []TypeID
	for _, s := range c.Shelves(0) {
		types = append(types, c.ShelfType(ShelfID(s)))
	}
	if !slices.Equal(types, []TypeID{a, b}) {
		t.Errorf("types of the shelves: %v", types)
	}
}

// TestLedgerAllocatesNothing: once warm, booking, giving back and undoing cost
// no memory.
func TestLedgerAllocatesNothing(t *testing.T) {
	c := small(t)
	a := &Alloc{
		Pieces: []Piece{{Node: 0, Shares: 2, CPU: 1000, Memory: unit.GiB}, {Node: 1, Shares: 1}},
		Shares: []Share{{Device: 0, Milli: 1000}, {Device: 1, Milli: 300}, {Device: 4, Milli: 1000}},
	}
	work := func() {
		mark := c.Mark()
		if c.Allocate(a) != nil {
			t.Fatal("does not fit")
		}
		c.Undo(mark)
		mark = c.Mark()
		if c.Allocate(a) != nil {
			t.Fatal("does not fit")
		}
		c.Release(a)
		c.Keep(mark)
	}
	work()
	if n := testing.AllocsPerRun(100, work); n != 0 {
		t.Errorf("%v allocations in a warm round", n)
	}
}

// A device on a cordoned node and a broken device may not be given new work.
func TestUsable(t *testing.T) {
	c := New()
	typ, err := c.AddType(GPUType{Name: "V100"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.AddNode(NodeSpec{GPUs: []GPUs{{Type: typ, Count: 2}}}); err != nil {
			t.Fatal(err)
		}
	}
	a := &Alloc{Pieces: []Piece{{Node: 0, Shares: 1}, {Node: 1, Shares: 2}}, Shares: []Share{{Device: 1}, {Device: 2}, {Device: 3}}}
	for _, step := range []struct {
		do     func()
		n      int
		usable bool
	}{
		{func() {}, 3, true},
		{func() { c.SetBroken(0, true) }, 3, true}, // another one
		{func() { c.SetBroken(2, true) }, 2, false},
		{func() { c.SetHealth(1, Cordoned) }, 1, false},
		{func() { c.SetBroken(2, false) }, 1, false},
		{func() { c.SetHealth(1, Up) }, 3, true},
	} {
		if step.do(); c.UsableDevices(a) != step.n || c.UsableAlloc(a) != step.usable {
			t.Errorf("%d usable, all: %v, want %d, %v", c.UsableDevices(a), c.UsableAlloc(a), step.n, step.usable)
		}
	}
}

// A node has room for as many tasks as its CPU and its memory suffice for, what it does not
// account for and what a task does not need aside.
func TestTasksBeside(t *testing.T) {
	c := New()
	full, err := c.AddNode(NodeSpec{Name: "a", CPU: 8 * unit.One, Memory: 10 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Allocate(&Alloc{Pieces: []Piece{{Node: full, Tasks: 1, CPU: unit.One, Memory: 1 << 30}}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		cpu    unit.Milli
		memory unit.Bytes
		most   int
		tasks  int
	}{
		{2 * unit.One, 0, 10, 3}, {0, 4 << 30, 10, 2}, {2 * unit.One, 4 << 30, 10, 2}, {unit.One, 1, 3, 3}, {8 * unit.One, 0, 10, 0}, {0, 0, 10, 10},
	} {
		if got := c.TasksBeside(full, want.cpu, want.memory, want.most); got != want.tasks {
			t.Errorf("tasks of %v and %v: %d, want %d", want.cpu, want.memory, got, want.tasks)
		}
	}
}
