package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

// TestLeaversUseWhatTheyHeld plays random histories whose jobs take time to leave.
// Running and leaving jobs together never use more of a node than it has, and a
// job that was assigned its place waits only while it would not fit beside them.
func TestLeaversUseWhatTheyHeld(t *testing.T) {
	met := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		for range 5 { // jobs begin beside leavers in few of them
			leavers(t, met)
		}
	})
	for _, what := range []string{"waits for a device", "waits for an amount", "begins beside a leaver"} {
		if met[what] == 0 {
			t.Errorf("no job %s", what)
		}
	}
}

// leavers plays one history.
func leavers(t *rapid.T, met map[string]int) {
	w := simtest.Draw(t, simtest.Shape{Parts: true})
	w.Costs.Base.Checkpoint = time.Duration(rapid.IntRange(5, 40).Draw(t, "checkpoint")) * time.Second
	for i := range w.Jobs {
		w.Jobs[i].Run *= 3
	}
	w.Fresh(t, simtest.Shape{Parts: true}, rapid.SliceOfN(rapid.IntRange(1, 6), 1, 3).Draw(t, "nodes"))
	if rapid.Bool().Draw(t, "pooled") {
		w.Cluster = pooled(t, w.Cluster)
	}
	name := rapid.SampledFrom([]string{"srtf", "tiresias", "fifo"}).Draw(t, "policy")
	table := policy.Table()
	e := table[slices.IndexFunc(table, func(e policy.Entry) bool { return e.Name == name })]
	watch := &watch{held: map[job.ID]*cluster.Alloc{}, met: met}
	w.Sinks = append(w.Sinks, watch)
	err := w.Steps(made(t, e, simtest.Shape{}), func(s *state.State, _ *sim.Sim) bool {
		if watch.idle(s); watch.err != nil {
			t.Fatal(watch.err)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pooled is a cluster of the same nodes, which count their devices.
func pooled(t *rapid.T, c *cluster.Cluster) *cluster.Cluster {
	out := cluster.New()
	for i := range c.Types() {
		if _, err := out.AddType(c.Type(cluster.TypeID(i))); err != nil {
			t.Fatal(err)
		}
	}
	for n := range cluster.NodeID(c.Nodes()) {
		spec := *c.Node(n)
		spec.Pooled = true
		if _, err := out.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// watch keeps what each job that runs or leaves has of the cluster.
type watch struct {
	held map[job.ID]*cluster.Alloc
	met  map[string]int
	err  error // the first job that began too early, or waits although it need not
}

// Event implements engine.Sink.
func (w *watch) Event(ev *eventlog.Event, s *state.State) {
	switch ev.Kind {
	case eventlog.Start, eventlog.Move, eventlog.Resize:
		own := new(cluster.Alloc)
		own.CopyFrom(s.Alloc(ev.Job))
		w.held[ev.Job] = own
	case eventlog.Preempt, eventlog.Gone, eventlog.End, eventlog.Fail, eventlog.Evict, eventlog.Cancel:
		if s.Record(ev.Job).Phase != job.Stopping {
			delete(w.held, ev.Job)
		}
	}
	if ev.Kind != eventlog.Start {
		return
	}
	_, short, beside := w.beside(s, ev.Job)
	if w.err == nil && short != "" {
		w.err = fmt.Errorf("at %v job %s begins where others are still leaving: %s", s.Now, s.Record(ev.Job).Job.Key, short)
	}
	if beside {
		w.met["begins beside a leaver"]++
	}
}

// idle looks for jobs that wait although they need not.
func (w *watch) idle(s *state.State) {
	for id := range job.ID(s.Jobs()) {
		if s.Record(id).Phase != job.Assigned {
			continue
		}
		switch meets, short, _ := w.beside(s, id); {
		case meets:
			w.met["waits for a device"]++
		case short != "":
			w.met["waits for an amount"]++
		case w.err == nil:
			w.err = fmt.Errorf("at %v job %s waits, and fits beside all that run and leave", s.Now, s.Record(id).Job.Key)
		}
	}
}

// beside tells whether a job has a device that another is leaving, what of
// its nodes would be in use twice if it ran, and whether others leave its nodes.
func (w *watch) beside(s *state.State, id job.ID) (meets bool, short string, beside bool) {
	c, a := s.Cluster, s.Alloc(id)
	cpu, memory, devices := map[cluster.NodeID]unit.Milli{}, map[cluster.NodeID]unit.Bytes{}, map[cluster.DeviceID]unit.Milli{}
	add := func(a *cluster.Alloc) {
		for _, p := range a.Pieces {
			cpu[p.Node] += p.CPU
			memory[p.Node] += p.Memory
		}
		for _, share := range a.Shares {
			devices[share.Device] += unit.Milli(share.Milli)
		}
	}
	add(a)
	for other, held := range w.held {
		if other == id {
			continue
		}
		add(held)
		if s.Record(other).Phase != job.Stopping {
			continue
		}
		for _, share := range held.Shares {
			same := slices.ContainsFunc(a.Shares, func(x cluster.Share) bool { return x.Device == share.Device })
			meets = meets || same && !c.GroupPooled(c.GroupOf(share.Device))
		}
		for _, p := range held.Pieces {
			beside = beside || slices.ContainsFunc(a.Pieces, func(x cluster.Piece) bool { return x.Node == p.Node })
		}
	}
	for _, p := range a.Pieces {
		n := c.Node(p.Node)
		if p.CPU > 0 && n.CPU > 0 && cpu[p.Node] > n.CPU || p.Memory > 0 && n.Memory > 0 && memory[p.Node] > n.Memory {
			short = fmt.Sprintf("%v of %v cores, %v of %v memory of node %s", cpu[p.Node], n.CPU, memory[p.Node], n.Memory, n.Name)
		}
	}
	for _, share := range a.Shares {
		has := 1
		if g := c.GroupOf(share.Device); c.GroupPooled(g) {
			has = c.GroupCount(g)
		}
		if devices[share.Device] > unit.Milli(has)*unit.One {
			short = fmt.Sprintf("%v of %d of %s", devices[share.Device], has, c.DeviceName(share.Device))
		}
	}
	return meets, short, beside
}
