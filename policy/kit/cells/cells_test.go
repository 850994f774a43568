package cells_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/cells"
)

// nodes is a cluster of n nodes of g GPUs each, in no rack.
func nodes(t testing.TB, n, g int) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := c.AddNode(cluster.NodeSpec{Name: fmt.Sprintf("n%d", i), GPUs: []cluster.GPUs{{Type: typ, Count: g}}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// world is a space that a test acts on.
type world struct {
	t     testing.TB
	c     *cluster.Cluster
	f     *cells.Forest
	space *cells.Space
	next  job.ID
}

func newWorld(t testing.TB, c *cluster.Cluster, vcs ...cells.VC) *world {
	f := cells.Of(c, 0)
	if err := f.Legal(c, vcs); err != nil {
		t.Fatal(err)
	}
	return &world{t: t, c: c, f: f, space: cells.NewSpace(f, vcs)}
}

// vc is a virtual cluster with cells of the first chain, by level.
func vc(name string, count ...int) cells.VC {
	v := cells.VC{Name: name}
	for level, n := range count {
		if n > 0 {
			v.Quotas = append(v.Quotas, cells.Quota{Level: level, Count: n})
		}
	}
	return v
}

// start places a gang and gives it what was found; guests there leave. It returns the number of the job,
// or job.None.
func (w *world) start(vc int, priority int32, tasks ...int) job.ID {
	r := &cells.Request{VC: vc, Priority: priority, Tasks: tasks}
	for i := range w.f.Chains {
		r.Chains = append(r.Chains, i)
	}
	f, ok := w.space.Find(r, w.c)
	if !ok {
		return job.None
	}
	id := w.next
	w.next++
	var gpus []cluster.DeviceID
	for i := range tasks {
		_, gpus = w.space.Task(f, w.c, i, gpus)
	}
	if vc == cells.NoVC {
		w.space.Guest(id, gpus, false)
		return id
	}
	for other := range id {
		if has, guaranteed := w.space.Has(other); has && !guaranteed && slices.ContainsFunc(w.gpus(other), func(d cluster.DeviceID) bool { return slices.Contains(gpus, d) }) {
			w.space.Release(other)
		}
	}
	w.space.Take(id, f, false)
	return id
}

func (w *world) gpus(id job.ID) []cluster.DeviceID { return w.space.Devices(id) }

// on writes the GPUs of a job: n0[0 1].
func (w *world) on(id job.ID) string {
	if id == job.None {
		return "nowhere"
	}
	by := map[cluster.NodeID][]int{}
	for _, d := range w.gpus(id) {
		n := w.c.NodeOf(d)
		first, _ := w.c.DeviceRange(n)
		by[n] = append(by[n], int(d-first))
	}
	var out []string
	for n := range cluster.NodeID(w.c.Nodes()) {
		if len(by[n]) > 0 {
			out = append(out, w.c.Node(n).Name+fmt.Sprint(by[n]))
		}
	}
	return strings.Join(out, "+")
}

func (w *world) is(id job.ID, want string) {
	w.t.Helper()
	if got := w.on(id); got != want {
		w.t.Errorf("job %d is on %s, want %s", id, got, want)
	}
}

func (w *world) left(want ...int) {
	w.t.Helper()
	if got := w.space.Left(0); !slices.Equal(got, want) {
		w.t.Errorf("left: %v, want %v (from a GPU up to a node)", got, want)
	}
}

// Acceptance A of the specification: the buddy example, with what is left at each level after each
// step, from a GPU up to a node, and in reverse.
func TestBuddies(t *testing.T) {
	c := nodes(t, 2, 8)
	a, b := vc("A", 0, 0, 0, 1), vc("B", 0, 2, 1)
	if err := cells.Of(c, 0).Legal(c, []cells.VC{a, vc("B", 0, 3, 1)}); err == nil || !strings.Contains(err.Error(), "level 2 of V100") {
		t.Errorf("three cells of 2 GPUs for B: %v", err)
	}
	w := newWorld(t, c, a, b)
	w.left(16, 8, 4, 2)
	one := w.start(1, 0, 2)
	w.is(one, "n0[0 1]")
	w.left(14, 7, 3, 1)
	two := w.start(1, 0, 2)
	w.is(two, "n0[2 3]")
	w.left(12, 6, 3, 1)
	three := w.start(1, 0, 4)
	w.is(three, "n0[4 5 6 7]")
	w.left(8, 4, 2, 1)
	four := w.start(0, 0, 8)
	w.is(four, "n1[0 1 2 3 4 5 6 7]")
	w.left(0, 0, 0, 0)
	if w.start(0, 0, 1) != job.None || w.start(1, 0, 1) != job.None {
		t.Error("somebody has more than his cells")
	}
	w.space.Release(four)
	w.left(8, 4, 2, 1)
	w.space.Release(one)
	w.left(10, 5, 2, 1)
	w.space.Release(two)
	w.left(12, 6, 3, 1)
	w.space.Release(three)
	w.left(16, 8, 4, 2)
}

// Acceptance B: a cell is bound where the fewest guests are, and all of the gang that is there leaves.
func TestGuestsAreAvoided(t *testing.T) {
	w := newWorld(t, nodes(t, 2, 8), vc("A", 0, 0, 0, 1), vc("B", 0, 2, 1))
	guest := w.start(cells.NoVC, 0, 3)
	w.is(guest, "n0[0 1 2]")
	w.is(w.start(0, 0, 8), "n1[0 1 2 3 4 5 6 7]")
	if has, _ := w.space.Has(guest); !has {
		t.Error("the guest had to leave although another node was free")
	}

	w = newWorld(t, nodes(t, 2, 8), vc("A", 0, 0, 0, 1), vc("B", 0, 2, 1))
	first := w.start(cells.NoVC, 0, 3)
	w.is(w.start(cells.NoVC, 0, 6), "n1[0 1 2 3 4 5]")
	w.is(w.start(0, 0, 8), "n0[0 1 2 3 4 5 6 7]")
	if has, _ := w.space.Has(first); has {
		t.Error("a gang of 3 guests did not leave the node that its owner took back")
	}
}

// Two guests have a part of a GPU each. While one of them must not be stopped, nobody takes the
// cell; when that one has ended, its owner takes it from the other.
func TestGuestThatMustNotBeStopped(t *testing.T) {
	w := newWorld(t, nodes(t, 1, 1), vc("A", 1))
	const pinned, other job.ID = 7, 8
	w.space.Guest(pinned, []cluster.DeviceID{0, 0}, true)
	w.space.Guest(other, []cluster.DeviceID{0}, false)
	w.is(w.start(0, 0, 1), "nowhere")
	w.space.Release(pinned)
	w.is(w.start(0, 0, 1), "n0[0]")
}

// Acceptance C: however the jobs of one virtual cluster come, those of the other find their node whole.
func TestNodeOfAnother(t *testing.T) {
	w := newWorld(t, nodes(t, 2, 16), vc("VC1", 0, 0, 0, 0, 1), vc("VC2", 0, 0, 0, 0, 1))
	for i := range 16 {
		w.is(w.start(0, 0, 1), fmt.Sprintf("n0[%d]", i))
	}
	if w.start(0, 0, 1) != job.None {
		t.Error("a seventeenth job of VC1 runs")
	}
	w.is(w.start(1, 0, 16), "n1[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]")
}

// Acceptance D: a task has GPUs that are close together rather than the first ones.
func TestAffinity(t *testing.T) {
	w := newWorld(t, nodes(t, 1, 8), vc("A", 0, 0, 0, 1))
	all := make([]job.ID, 3)
	for i := range all {
		all[i] = w.start(0, 0, 1)
	}
	w.space.Release(all[1])
	w.is(w.start(0, 0, 2), "n0[4 5]")
	w.is(w.start(0, 0, 1), "n0[1]")
}

// Acceptance E: a gang waits as a whole, and one that came later goes ahead of it.
func TestGangsAreWhole(t *testing.T) {
	w := newWorld(t, nodes(t, 1, 8), vc("A", 0, 0, 1), vc("B", 0, 0, 1))
	if id := w.start(0, 0, 1, 1, 1, 1, 1, 1); id != job.None {
		t.Errorf("six GPUs of a cell of four: %s", w.on(id))
	}
	w.is(w.start(0, 0, 1, 1, 1, 1), "n0[0 1 2 3]")
}

// Cells of GPUs out of use are taken last, and a larger cell is split for them only as long as all
// that is promised stays possible.
func TestBadHardware(t *testing.T) {
	c := nodes(t, 3, 4)
	w := newWorld(t, c, vc("A", 0, 2), vc("B", 0, 0, 1), vc("C", 0, 2))
	w.is(w.start(0, 0, 2), "n0[0 1]")
	for d := range cluster.DeviceID(2) {
		w.space.SetUsable(2+d, false)
	}
	w.is(w.start(0, 0, 2), "n1[0 1]") // four cells of 2 GPUs are promised, and one of 4: a second node may be split
	for d := range cluster.DeviceID(2) {
		w.space.SetUsable(6+d, false)
	}
	if id := w.start(2, 0, 2); id != job.None { // the third would then not be B's
		t.Errorf("the node of B was split: %s", w.on(id))
	}
	w.is(w.start(1, 0, 4), "n2[0 1 2 3]")
	for d := range cluster.DeviceID(2) {
		w.space.SetUsable(2+d, true)
	}
	w.is(w.start(2, 0, 2), "n0[2 3]")
}

// A pinned cell is bound to its owner even when nobody uses it, and guests may have it meanwhile.
func TestPinned(t *testing.T) {
	c := nodes(t, 2, 4)
	f := cells.Of(c, 0)
	a := cells.VC{Name: "A", Pinned: f.Named["n0"]}
	if err := f.Legal(c, []cells.VC{a, {Name: "B", Pinned: f.Named["n0"]}}); err == nil || !strings.Contains(err.Error(), "n0") {
		t.Errorf("a cell that is pinned twice: %v", err)
	}
	w := newWorld(t, c, a, vc("B", 0, 0, 1))
	w.is(w.start(1, 0, 2), "n1[0 1]")
	guest := w.start(cells.NoVC, 0, 4)
	w.is(guest, "n0[0 1 2 3]")
	w.is(w.start(0, 0, 4), "n0[0 1 2 3]")
	if has, _ := w.space.Has(guest); has {
		t.Error("the guest is still on a pinned cell that its owner took back")
	}
}

// Jobs of higher priority have those of lower priority of their own virtual cluster leave, and no others.
func TestVictims(t *testing.T) {
	w := newWorld(t, nodes(t, 2, 4), vc("A", 0, 0, 1), vc("B", 0, 0, 1))
	low, high := w.start(0, 1, 2), w.start(0, 5, 2)
	w.start(1, 0, 4)
	r := &cells.Request{VC: 0, Priority: 3, Tasks: []int{2}, Chains: []int{0}}
	if _, ok := w.space.Find(r, w.c); ok {
		t.Error("there is room in a full virtual cluster")
	}
	if got, ok := w.space.Victims(r, w.c); !ok || !slices.Equal(got, []job.ID{low}) {
		t.Errorf("victims: %v, %v, want %d alone (%d is more urgent)", got, ok, low, high)
	}
	if got, ok := w.space.Victims(&cells.Request{VC: 0, Priority: 3, Tasks: []int{3}, Chains: []int{0}}, w.c); ok {
		t.Errorf("victims for three GPUs: %v", got)
	}
}
