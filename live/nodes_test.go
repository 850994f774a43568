package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// site is what a world of paper is made of.
type site struct {
	nodes   []cluster.NodeSpec
	foreign map[cluster.NodeID]cluster.Foreign
	drained map[cluster.NodeID]string
}

// cluster is the site with all of it in working order.
func (s *site) cluster() (*cluster.Cluster, error) {
	c := cluster.New()
	if _, err := c.AddType(cluster.GPUType{Name: "slot"}); err != nil {
		return nil, err
	}
	for _, n := range s.nodes {
		id, err := c.AddNode(n)
		if err != nil {
			return nil, err
		}
		if f, used := s.foreign[id]; used {
			if err := c.SetForeign(id, f); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// orders are what operators have ordered.
func (s *site) orders() (out []eventlog.Event) {
	for _, id := range slices.Sorted(maps.Keys(s.drained)) {
		out = append(out, eventlog.Event{Kind: eventlog.NodeSet, Node: id, Health: cluster.Cordoned, Reason: job.Reason{Code: job.OnHold, Job: job.None, Text: s.drained[id]}})
	}
	return out
}

// device is what a device is called.
func (w *paper) device(i cluster.DeviceID) string {
	if len(w.site.nodes) == 1 {
		return fmt.Sprint("gpu", i)
	}
	return fmt.Sprintf("%s/%d", w.site.nodes[i/2].Name, i%2)
}

// drain puts nodes out of use, or back.
func (w *paper) drain(z api.Drain) error {
	return w.Change(context.Background(), func() error {
		nodes, _, err := w.Drained(&z)
		if err != nil {
			return err
		}
		for _, id := range nodes {
			ev := eventlog.Event{Kind: eventlog.NodeSet, Node: id, Health: cluster.Cordoned, Reason: job.Reason{Code: job.OnHold, Job: job.None, Text: z.Why}}
			if delete(w.site.drained, id); z.Undo {
				ev.Health, ev.Reason = cluster.Up, job.Reason{Job: job.None}
			} else {
				w.site.drained[id] = z.Why
			}
			w.Loop.Emit(ev)
		}
		return nil
	})
}

// roll has a new log begin, under srtf.
func (w *paper) roll() {
	w.t.Helper()
	epoch := func() (n int) {
		ok(w.t, w.Loop.Ask(context.Background(), func() error { n = w.Epoch(); return nil }))
		return n
	}
	was := epoch()
	ok(w.t, w.SetPolicy(context.Background(), me, "srtf"))
	for epoch() == was {
	}
}

// fleet is a world of four nodes with two GPUs each, in two zones; others use cores of the
// third one.
func fleet(t *testing.T) *paper {
	s := site{drained: map[cluster.NodeID]string{}, foreign: map[cluster.NodeID]cluster.Foreign{2: {CPU: 3 * unit.One, Memory: 1 << 30}}}
	for i := range 4 {
		s.nodes = append(s.nodes, cluster.NodeSpec{
			Name: fmt.Sprint("a-", i+1), CPU: 8 * unit.One, Memory: 8 << 30, GPUs: []cluster.GPUs{{Type: 0, Count: 2}},
			Labels: []label.Label{{Key: "zone", Value: string("xxyy"[i])}},
		})
	}
	return newPaperOn(t, s)
}

// where gives a job a condition on its nodes, and a run time.
func where(t *testing.T, cond string, runs time.Duration) func(*job.Job, *job.Demand) {
	return func(j *job.Job, d *job.Demand) {
		if err := d.SetWhere(cond); err != nil {
			t.Error(err)
		}
		j.Estimate = runs
	}
}

// brief says in a line how nodes stand.
func (w *paper) brief(c server.Caller, q api.NodeQuery) string {
	w.t.Helper()
	list, err := w.Nodes(context.Background(), c, q)
	ok(w.t, err)
	var out []string
	for _, n := range list {
		out = append(out, fmt.Sprintf("%s %s %v/%v %s+%d", n.Name, n.State(), n.GPUsFree, n.GPUs, strings.Join(n.Jobs, "+"), n.Others))
	}
	return strings.Join(out, ", ")
}

// A world of several nodes: jobs on some of them, conditions on labels, use by others, a
// node that is drained; all of it goes over into a new log, and to the next daemon.
func TestFleet(t *testing.T) {
	w := fleet(t)
	ctx := context.Background()
	four := w.submitWith("team/four", 4, where(t, "zone=x", time.Hour))
	one := w.submitWith("team/one", 1, where(t, "zone=y", 0))
	w.until("team/four running, team/one running")
	stand := func(when string) {
		t.Helper()
		y, err := w.Why(ctx, me, four)
		ok(t, err)
		if j := y.Job; !slices.Equal(j.Nodes, []string{"a-1", "a-2"}) || !slices.Equal(j.Devices, []string{"a-1/0", "a-1/1", "a-2/0", "a-2/1"}) {
			t.Errorf("%s: it is on %q, devices %q", when, j.Nodes, j.Devices)
		}
		if when != "under the next daemon" && !slices.ContainsFunc(y.Life, func(line string) bool { return strings.HasSuffix(line, " starts on 4 GPUs of 2 nodes: a-1, a-2") }) {
			t.Errorf("%s: its life is %q", when, y.Life)
		}
	}
	stand("at first")
	if have, want := w.brief(me, api.NodeQuery{}), "a-1 up 0/2 team/four+0, a-2 up 0/2 team/four+0, a-3 up 1/2 team/one+0, a-4 up 2/2 +0"; have != want {
		t.Errorf("nodes are %s, want %s", have, want)
	}
	ok(t, w.drain(api.Drain{Where: "zone=y", Why: "new fans"}))
	drained := "a-3 draining 0/2 team/one+0, a-4 drained 0/2 +0"
	late := w.submitWith("team/late", 2, where(t, "", time.Minute))
	w.until("team/four running, team/one running, team/late waiting")
	if have := w.brief(me, api.NodeQuery{Where: "zone=y"}); have != drained {
		t.Errorf("nodes are %s, want %s", have, drained)
	}
	for _, when := range []string{"in a new log", "under the next daemon"} {
		if when == "in a new log" {
			w.roll()
		} else {
			w.down()
			w.up()
		}
		stand(when)
		if have := w.brief(me, api.NodeQuery{States: []string{"draining", "drained"}}); have != drained {
			t.Errorf("%s: nodes are %s, want %s", when, have, drained)
		}
		list, err := w.Nodes(ctx, me, api.NodeQuery{Names: []string{"a-3"}, Devices: true})
		ok(t, err)
		n := list[0]
		if n.Labels["zone"] != "y" || n.Foreign == nil || n.Foreign.CPUs != 3 || n.Foreign.Memory != 1<<30 || n.GPUsAllocated != 1 || n.Tasks != 1 || n.Type != "slot" {
			t.Errorf("%s: %+v, others use %+v", when, n, n.Foreign)
		}
		if len(n.Devices) != 2 || n.Devices[1].Name != "a-3/1" || len(n.Devices[0].Jobs)+len(n.Devices[1].Jobs) != 1 {
			t.Errorf("%s: devices %+v", when, n.Devices)
		}
	}
	if s, err := w.Status(ctx); err != nil || s.Nodes != 4 {
		t.Errorf("%+v, %v", s, err)
	}
	y, err := w.Why(ctx, me, late)
	ok(t, err)
	if in := time.Until(y.Expected); in < 55*time.Minute || in > time.Hour {
		t.Errorf("%s starts in %v (%s), want when %s ends, in an hour", late, in, y.Unknown, four)
	}
	if want := "job team/four holds 4 GPUs of 2 nodes: a-1, a-2, expected to end"; !strings.HasPrefix(y.Holders[0], want) {
		t.Errorf("%q, want %s", y.Holders, want)
	}
	ok(t, w.drain(api.Drain{Devices: []string{"a-4"}, Undo: true}))
	w.until("team/four running, team/one running, team/late running")
	if have, want := w.brief(me, api.NodeQuery{Names: []string{"a-4"}}), "a-4 up 0/2 team/late+0"; have != want {
		t.Errorf("nodes are %s, want %s", have, want)
	}
	w.end(one)
	w.until("team/four running, team/one done, team/late running")
}

// A forecast knows of conditions on labels and of what others use: the job starts when a
// node is free on which it may be, and not before.
func TestForecastOfFleet(t *testing.T) {
	w := fleet(t)
	ctx := context.Background()
	first := w.submitWith("t/first", 4, where(t, "zone=y", 2*time.Hour))
	w.submitWith("t/second", 2, where(t, "zone=x", time.Hour))
	w.until("t/first running, t/second running")
	picky := w.submitWith("t/picky", 2, where(t, "zone=y", time.Minute))
	greedy := w.submitWith("t/greedy", 2, func(_ *job.Job, d *job.Demand) { d.Roles[0].CPU = 4 * unit.One })
	w.until("t/first running, t/second running, t/picky waiting, t/greedy waiting")
	for id, want := range map[string]time.Duration{picky: 2 * time.Hour} {
		y, err := w.Why(ctx, me, id)
		ok(t, err)
		if in := time.Until(y.Expected); in < want-5*time.Minute || in > want {
			t.Errorf("%s starts in %v (%s), want in %v", id, in, y.Unknown, want)
		}
	}
	w.end(first)
	w.until("t/first done, t/second running, t/picky running, t/greedy running")
	nodes := w.nodesOf(greedy)
	if slices.Contains(nodes, "a-3") {
		t.Errorf("a job that needs 8 cores is on %q, of which others use 3", nodes)
	}
}

// nodesOf are the nodes of a job.
func (w *paper) nodesOf(id string) []string {
	w.t.Helper()
	y, err := w.Why(context.Background(), me, id)
	ok(w.t, err)
	return y.Job.Nodes
}

// A node that comes while Norn runs can be used at once, one that is lost takes nothing, and
// one of which the world says that it is gone is not told of. All of that goes over into a
// new log, in which the nodes have other numbers of devices before them.
func TestNodesComeAndGo(t *testing.T) {
	w := fleet(t)
	ctx := context.Background()
	big := w.submitWith("t/big", 8, where(t, "", time.Hour))
	w.until("t/big running")
	next := w.submitWith("t/next", 2, where(t, "zone=y", time.Hour))
	w.until("t/big running, t/next waiting")
	ok(t, w.Change(ctx, func() error {
		spec := cluster.NodeSpec{Name: "a-5", CPU: 8 * unit.One, Memory: 8 << 30, GPUs: []cluster.GPUs{{Type: 0, Count: 2}}, Labels: []label.Label{{Key: "zone", Value: "y"}}}
		w.site.nodes = append(w.site.nodes, spec)
		w.Loop.Emit(eventlog.Event{Kind: eventlog.NodeAdd, NodeSpec: &spec})
		return nil
	}))
	w.until("t/big running, t/next running")
	if nodes := w.nodesOf(next); !slices.Equal(nodes, []string{"a-5"}) {
		t.Errorf("it runs on %q", nodes)
	}
	w.end(big)
	w.until("t/big done, t/next running")
	ok(t, w.Change(ctx, func() error {
		w.Loop.Emit(eventlog.Event{Kind: eventlog.NodeSet, Node: 0, Health: cluster.Down})
		return nil
	}))
	want := "a-1 down 0/2 +0, a-2 up 2/2 +0, a-3 up 2/2 +0, a-4 up 2/2 +0, a-5 up 0/2 t/next+0"
	for _, when := range []string{"in this log", "in a new log"} {
		if when == "in a new log" {
			w.roll()
		}
		if have := w.brief(me, api.NodeQuery{}); have != want {
			t.Errorf("%s: nodes are %s, want %s", when, have, want)
		}
	}
	last := w.submitWith("t/last", 6, where(t, "", 0))
	w.until("t/big done, t/next running, t/last running")
	if nodes := w.nodesOf(last); !slices.Equal(nodes, []string{"a-2", "a-3", "a-4"}) {
		t.Errorf("it runs on %q", nodes)
	}
	ok(t, w.Change(ctx, func() error { w.gone = "a-1"; return nil }))
	if have := w.brief(me, api.NodeQuery{Names: []string{"a-[1-2]"}}); have != "a-2 up 0/2 t/last+0" {
		t.Errorf("nodes are %s", have)
	}
}

// A caller is told of the jobs that she may see, and how many others there are.
func TestNodesOfOthers(t *testing.T) {
	w := fleet(t)
	w.submitWith("t/a", 2, where(t, "", 0))
	w.until("t/a running")
	eve := server.Caller{User: "eve"}
	list, err := w.Nodes(context.Background(), eve, api.NodeQuery{Devices: true})
	ok(t, err)
	others, named := 0, 0
	for _, n := range list {
		others, named = others+n.Others, named+len(n.Jobs)
		for _, d := range n.Devices {
			named += len(d.Jobs)
		}
	}
	if others == 0 || named > 0 {
		t.Errorf("%d jobs of others, %d are named", others, named)
	}
}

// Orders to drain that mean nothing are refused, and devices are named with their nodes.
func TestDrained(t *testing.T) {
	w := fleet(t)
	for want, z := range map[string]api.Drain{
		"there is no node or device \"a-5\" here": {Devices: []string{"a-1", "a-5"}}, "there is no node or device \"a-1/2\" here": {Devices: []string{"a-1/2"}},
		"there is no node or device \"b/0\" here": {Devices: []string{"b/0"}}, "no node has labels such as zone=z": {Where: "zone=z"},
		"name what is meant or write a condition, not both": {Devices: []string{"a-1"}, Where: "zone=y"}, "where: ": {Where: "zone in"},
	} {
		if err := w.drain(z); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", z, err, want)
		}
	}
	ok(t, w.Loop.Ask(context.Background(), func() error {
		nodes, devices, err := w.Drained(&api.Drain{Devices: []string{"a-2", "a-4/1"}})
		if err != nil || !slices.Equal(nodes, []cluster.NodeID{1}) || !slices.Equal(devices, []cluster.DeviceID{7}) {
			t.Errorf("%v, %v, %v", nodes, devices, err)
		}
		return nil
	}))
}
