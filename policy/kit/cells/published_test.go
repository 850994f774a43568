package cells_test

import (
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/cells"
)

// The cluster of TestHivedAlgorithm in the published scheduler (example/config/design/hivedscheduler.yaml).
// What is asked for and what comes of it are that test's; where ours differs a comment says why.

// The chains, in the order in which that test tries those of one GPU type.
const (
	ct1 = iota
	p100Rack
	v100
	v100Four
	v100Three
	ib
)

var anyV100 = []int{v100, v100Four, v100Three}

// design is that cluster. One rack has other numbers for its GPUs on its last node.
func design(t *testing.T) *world {
	c := cluster.New()
	types := map[string]cluster.TypeID{}
	for _, name := range []string{"P100", "CT1", "V100", "IB"} {
		id, err := c.AddType(cluster.GPUType{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		types[name] = id
	}
	f := &cells.Forest{Chains: make([]cells.Chain, ib+1)}
	devices := func(name string, typ string, order ...int) (all []cluster.DeviceID) {
		at := cluster.NodeID(-1)
		for n := range cluster.NodeID(c.Nodes()) {
			if c.Node(n).Name == name {
				at = n
			}
		}
		if at < 0 {
			spec := cluster.NodeSpec{Name: name, GPUs: []cluster.GPUs{{Type: types[typ], Count: len(order)}}}
			if name == "1.0.0.2" {
				spec.GPUs = []cluster.GPUs{{Type: types["P100"], Count: 8}, {Type: types["CT1"], Count: 2}}
			}
			var err error
			if at, err = c.AddNode(spec); err != nil {
				t.Fatal(err)
			}
		}
		first, _ := c.DeviceRange(at)
		for _, i := range order {
			all = append(all, first+cluster.DeviceID(i))
		}
		return all
	}
	straight := func(n int) (order []int) {
		for i := range n {
			order = append(order, i)
		}
		return order
	}
	chain := func(at int, typ string, gpus int, above []int, names ...string) {
		h := &f.Chains[at]
		h.Type, h.Levels = types[typ], cells.Halves(gpus)
		h.Node = len(h.Levels) - 1
		for _, n := range above {
			h.Levels = append(h.Levels, cells.Level{Name: "nodes", GPUs: n})
		}
		for _, name := range names {
			switch order := straight(gpus); {
			case name == "1.0.0.0":
				h.GPUs = append(h.GPUs, devices(name, typ, 1, 3, 4, 7, 0, 2, 6, 5)...)
			case typ == "CT1" && name == "1.0.0.2":
				h.GPUs = append(h.GPUs, devices(name, typ, 8, 9)...)
			default:
				h.GPUs = append(h.GPUs, devices(name, typ, order...)...)
			}
		}
	}
	chain(ct1, "CT1", 2, nil, "0.0.0.0", "0.0.0.1", "1.0.0.2")
	chain(p100Rack, "P100", 8, []int{24}, "1.0.0.2", "1.0.0.1", "1.0.0.0")
	chain(v100, "V100", 16, nil, "0.0.1.0", "0.0.5.0")
	chain(v100Four, "V100", 16, []int{32, 64}, "0.0.3.0", "0.0.3.1", "0.0.3.2", "0.0.3.3", "0.0.4.0", "0.0.4.1", "0.0.4.2", "0.0.4.3")
	chain(v100Three, "V100", 16, []int{48}, "0.0.2.0", "0.0.2.1", "0.0.2.2")
	chain(ib, "IB", 16, []int{32}, "0.1.0.0", "0.1.0.1")
	return &world{t: t, c: c, f: f}
}

// vcs are the virtual clusters of that test, with other numbers of single nodes and of pairs of them in the racks of four.
func (w *world) vcs(singles, pairs int) []cells.VC {
	return []cells.VC{{
		Name:   "VC1",
		Quotas: []cells.Quota{{Chain: v100Four, Level: 4, Count: singles}, {Chain: v100Three, Level: 4, Count: 2}, {Chain: v100, Level: 4, Count: 2}, {Chain: v100Four, Level: 5, Count: pairs}},
		Pinned: []cells.Cell{{Chain: ct1, Level: 0, Index: 4}, {Chain: v100Four, Level: 5, Index: 0}, {Chain: ib, Level: 5, Index: 0}},
	}, {
		Name:   "VC2",
		Quotas: []cells.Quota{{Chain: p100Rack, Level: 3, Count: 2}, {Chain: p100Rack, Level: 2, Count: 2}, {Chain: ct1, Level: 1, Count: 1}},
	}}
}

// group is an affinity group that asks for GPUs, on some nodes where it names them.
type group struct {
	vc       int
	priority int32
	tasks    []int
	chains   []int
	nodes    []string
	kills    bool // jobs from which it takes cells are stopped; otherwise they become guests
}

// ask places a group as the policy does, and returns who had to leave.
func (w *world) ask(g group) (id job.ID, left []job.ID) {
	r := &cells.Request{VC: g.vc, Priority: g.priority, Tasks: g.tasks, Chains: g.chains}
	if g.nodes != nil {
		r.Room = func(n cluster.NodeID) int {
			if slices.Contains(g.nodes, w.c.Node(n).Name) {
				return len(g.tasks)
			}
			return 0
		}
	}
	f, ok := w.space.Find(r, w.c)
	if !ok && g.vc != cells.NoVC {
		victims, found := w.space.Victims(r, w.c)
		if !found {
			return job.None, nil
		}
		for _, v := range victims {
			w.space.Demote(v, !g.kills)
			if g.kills {
				left = append(left, v)
			}
		}
		f, ok = w.space.Find(r, w.c)
	}
	if !ok {
		return job.None, nil
	}
	gpus := w.space.GPUsOf(f)
	id, w.next = w.next, w.next+1
	if g.vc == cells.NoVC {
		w.space.Guest(id, gpus, false)
		return id, left
	}
	for other := range id {
		if has, guaranteed := w.space.Has(other); has && !guaranteed && slices.ContainsFunc(w.gpus(other), func(d cluster.DeviceID) bool { return slices.Contains(gpus, d) }) {
			left = append(left, other)
			w.space.Release(other)
		}
	}
	w.space.Take(id, f, false)
	return id, left
}

func (w *world) wants(name string, g group, want string, leave ...job.ID) job.ID {
	w.t.Helper()
	id, left := w.ask(g)
	if got := w.on(id); got != want || !slices.Equal(left, leave) {
		w.t.Errorf("%s is on %s and has %v leave, want %s and %v", name, got, left, want, leave)
	}
	return id
}

const (
	all16 = "[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]"
	pair0 = "0.0.3.0" + all16 + "+0.0.3.1" + all16
)

func TestPublishedPlacements(t *testing.T) {
	w := design(t)
	vcs := w.vcs(2, 1)
	if err := w.f.Legal(w.c, vcs); err != nil {
		t.Fatal(err)
	}
	w.space = cells.NewSpace(w.f, vcs)
	pinned := []string{"0.0.3.0", "0.0.3.1"}
	w.wants("pod1", group{tasks: []int{1}, chains: anyV100}, "0.0.1.0[0]")
	w.wants("pod2", group{priority: 1, tasks: []int{1}, chains: anyV100}, "0.0.1.0[1]")
	w.wants("pod3", group{priority: 2, tasks: []int{8}, chains: anyV100}, "0.0.1.0[8 9 10 11 12 13 14 15]")
	w.wants("pod4", group{vc: cells.NoVC, tasks: []int{1}, chains: anyV100}, "0.0.5.0[0]")
	five := w.wants("pods 5, 6", group{priority: 1, tasks: []int{16, 16}, chains: []int{v100Four}, nodes: pinned}, pair0)
	w.wants("pod7", group{vc: 1, priority: 1, tasks: []int{8, 8, 8}, chains: []int{p100Rack}}, "nowhere")
	// Both have 5 GPUs on 1.0.0.2. The 7 are on 1.0.0.0 there, because a list of free cells moves its last one into a gap;
	// ours takes the first of two nodes that are alike.
	w.wants("pods 8, 9", group{vc: 1, priority: 1, tasks: []int{7, 5}, chains: []int{ct1, p100Rack}}, "1.0.0.2[0 1 2 3 4]+1.0.0.1[0 1 2 3 4 5 6]")
	w.wants("pods 16, 17", group{priority: 2, tasks: []int{16, 16}, chains: []int{v100Four}, nodes: pinned}, pair0, five)
	w.wants("pods 18, 19", group{priority: 1, tasks: []int{16, 16}, chains: anyV100}, "0.0.3.2"+all16+"+0.0.3.3"+all16)
	w.wants("pods 20, 21", group{priority: 1, tasks: []int{16, 16}, chains: anyV100}, "0.0.4.0"+all16+"+0.0.4.1"+all16)
	w.wants("pods 22, 23", group{vc: cells.NoVC, tasks: []int{16, 16}, chains: anyV100}, "0.0.4.2"+all16+"+0.0.4.3"+all16)
	// The two nodes are the other way round there, for the same reason.
	w.wants("pod24", group{vc: 1, tasks: []int{2}, chains: []int{ct1}}, "0.0.0.0[0 1]")
	last := w.wants("pod25", group{vc: 1, priority: 1, tasks: []int{2}, chains: []int{ct1}}, "0.0.0.1[0 1]") // pod24 goes on as a guest
	w.wants("pod26", group{vc: 1, priority: 2, tasks: []int{2}, chains: []int{ct1}, kills: true}, "0.0.0.1[0 1]", last)
	w.wants("pod10", group{vc: 1, priority: 1, tasks: []int{1}, chains: anyV100}, "nowhere") // its tenant has no such GPUs
	for id := range w.next {
		w.space.Release(id)
	}
	for chain := range w.f.Chains {
		if got, want := w.space.Left(chain), cells.NewSpace(w.f, vcs).Left(chain); !slices.Equal(got, want) {
			t.Errorf("chain %d: when all have ended %v cells are left, at first %v", chain, got, want)
		}
	}
}

// Preemption while others still leave. GPUs of jobs that leave count as free for whoever plans next, so pod30 need not
// wait for pod28 as it does there: it is given the second node, and pod31 has it leave. All else is the same.
func TestPublishedPreemption(t *testing.T) {
	w := design(t)
	w.space = cells.NewSpace(w.f, w.vcs(2, 1))
	on := func(priority int32, tasks ...int) group {
		return group{priority: priority, tasks: tasks, chains: []int{v100Four}, nodes: []string{"0.0.3.0", "0.0.3.1"}, kills: true}
	}
	pod28 := w.wants("pod28", on(1, 16, 16), pair0)
	pod29 := w.wants("pod29", on(2, 16), "0.0.3.0"+all16, pod28)
	pod30 := w.wants("pod30", on(1, 16), "0.0.3.1"+all16)
	pod31 := w.wants("pod31", on(2, 16), "0.0.3.1"+all16, pod30)
	w.wants("pod32", on(2, 16), "nowhere")
	pod33 := w.wants("pod33", on(3, 16, 16), pair0, pod29, pod31)
	pod34 := w.wants("pod34", on(4, 16), "0.0.3.0"+all16, pod33)
	w.wants("pod35", on(5, 16, 16), pair0, pod34)
}

// usable says whether a node works.
func (w *world) usable(name string, works bool) {
	for n := range cluster.NodeID(w.c.Nodes()) {
		if w.c.Node(n).Name == name {
			first, count := w.c.DeviceRange(n)
			for d := first; d < first+cluster.DeviceID(count); d++ {
				w.space.SetUsable(d, works)
			}
		}
	}
}

// Nodes out of use. Where fewer of them work than are promised, some tenant's are out of use: there those are bound to it
// beforehand, here it is who asks last.
func TestPublishedBadNodes(t *testing.T) {
	w := design(t)
	vcs := w.vcs(2, 1)
	vcs[1].Quotas[2] = cells.Quota{Chain: v100Three, Level: 4, Count: 1}
	w.space = cells.NewSpace(w.f, vcs)
	one := func(vc int) group { return group{vc: vc, tasks: []int{16}, chains: []int{v100Three}} }
	w.wants("pod42", one(0), "0.0.2.0"+all16)
	w.usable("0.0.2.1", false)
	pod43 := w.wants("pod43", one(1), "0.0.2.2"+all16)
	w.wants("another one of VC1", one(0), "nowhere")
	w.space.Release(pod43)
	w.wants("another one of VC1", one(0), "0.0.2.2"+all16)

	w = design(t) // a pair is split although a single node is free, which is out of use, but not the last pair
	vcs = w.vcs(4, 0)
	vcs[0].Quotas[2].Count = 0
	vcs[1].Quotas[2] = cells.Quota{Chain: v100Four, Level: 5, Count: 1}
	w.space = cells.NewSpace(w.f, vcs)
	on := func(nodes ...string) group { return group{tasks: []int{16}, chains: anyV100, nodes: nodes} }
	w.wants("pod44", on("0.0.3.2", "0.0.3.3", "0.0.4.2", "0.0.4.3"), "0.0.3.2"+all16)
	w.usable("0.0.3.3", false)
	w.wants("pod45", on("0.0.3.2", "0.0.3.3", "0.0.4.2", "0.0.4.3"), "0.0.4.2"+all16)
	w.usable("0.0.4.3", false)
	w.wants("pod46", on("0.0.3.2", "0.0.3.3", "0.0.4.0", "0.0.4.1", "0.0.4.2", "0.0.4.3"), "nowhere")

	w = design(t) // some nodes alone are suggested
	w.space = cells.NewSpace(w.f, w.vcs(0, 3))
	w.wants("pod39", group{priority: 1, tasks: []int{16, 16}, chains: anyV100, nodes: []string{"0.0.3.2", "0.0.3.3"}}, "0.0.3.2"+all16+"+0.0.3.3"+all16)
	pod40 := w.wants("pod40", group{priority: 1, tasks: []int{16}, chains: anyV100, nodes: []string{"0.0.4.3"}}, "0.0.4.3"+all16)
	w.wants("pod41", group{priority: 2, tasks: []int{16, 16, 16, 16}, chains: anyV100, nodes: []string{"0.0.3.2", "0.0.3.3", "0.0.4.3"}}, "nowhere")
	if _, guaranteed := w.space.Has(pod40); !guaranteed {
		t.Error("pod40 has lost its cells to a group that could not be placed")
	}
}
