package cassini

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// made is a component of jobs with iterations of 100 ms; edges are shifts by job on each link.
func made(edges ...map[job.ID]time.Duration) component {
	c := component{}
	of := map[job.ID]*member{}
	for id := range job.ID(3) {
		of[id] = &member{id: id, period: 100 * time.Millisecond}
		c.members = append(c.members, of[id])
	}
	for _, e := range edges {
		x := edge{}
		for id := range job.ID(3) {
			if at, there := e[id]; there {
				x.users = append(x.users, user{of[id], 1})
				x.fit.shifts = append(x.fit.shifts, at)
			}
		}
		c.edges = append(c.edges, x)
	}
	return c
}

// TestShifts: acceptance E of the specification: j1 - l1 - j2 - l2 - j3.
func TestShifts(t *testing.T) {
	const ms = time.Millisecond
	c := made(map[job.ID]time.Duration{0: 0, 1: 50 * ms}, map[job.ID]time.Duration{1: 20 * ms, 2: 90 * ms})
	got := c.shifts(0)
	if got[0] != 0 || got[1] != 50*ms || got[2] != 20*ms {
		t.Errorf("shifts %v", got)
	}
	if later := c.shifts(70 * ms); later[0] != 70*ms || later[1] != 20*ms || later[2] != 90*ms {
		t.Errorf("70 ms later: %v", later)
	}
}

// threeRacks is three racks of two nodes with one GPU; adapters and uplinks have 6.25 GB/s.
func threeRacks(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"}) // cannot fail: the first type
	for r := range 3 {
		d, err := c.AddDomain("rack", fmt.Sprint(r), 0)
		if err != nil {
			t.Fatal(err)
		}
		cluster.SetUplink(c, d, cluster.Uplink{GBps: 6.25})
		for range 2 {
			if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}, Domain: d, NICs: cluster.NICs{Count: 1, GBps: 6.25}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

// TestLoop: acceptance E. Three jobs of which each two share the uplink of a rack close a loop; two of them do not, nor
// do two jobs that share two uplinks.
func TestLoop(t *testing.T) {
	const ms = time.Millisecond
	c := threeRacks(t)
	for name, k := range map[string]struct {
		jobs [][2]cluster.DeviceID
		loop bool
	}{
		"a chain":      {[][2]cluster.DeviceID{{0, 2}, {3, 4}}, false},
		"a loop":       {[][2]cluster.DeviceID{{0, 2}, {3, 4}, {5, 1}}, true},
		"side by side": {[][2]cluster.DeviceID{{0, 2}, {1, 3}}, false},
	} {
		g := newGraph(NewConfig())
		for id, on := range k.jobs {
			j := &job.Job{ID: job.ID(id), Hints: &job.Hints{Iteration: 100 * ms, Bursts: job.Bursts{{From: 0, To: 50 * ms, GBps: 5}}}}
			a := &cluster.Alloc{}
			for _, d := range on {
				a.Pieces = append(a.Pieces, cluster.Piece{Node: c.NodeOf(d), Tasks: 1, Shares: 1})
				a.Shares = append(a.Shares, cluster.Share{Device: d, Milli: 1000})
			}
			g.add(g.memberOf(j.ID, j.Hints, g.net.Crossings(j, c, a)))
		}
		x := g.component(g.members[0])
		if x.loop != k.loop || len(x.members) != len(k.jobs) {
			t.Errorf("%s: %d jobs, %d links, loop %v", name, len(x.members), len(x.edges), x.loop)
		}
		shifts := x.oneByOne(5)
		if !x.loop {
			if shifts = x.shifts(0); !x.keeps(shifts) {
				t.Errorf("%s: shifts %v are not as good as any", name, shifts)
			}
		}
		for _, m := range x.members {
			if at, told := shifts[m.id]; !told || at < 0 || at >= m.period {
				t.Errorf("%s: job %d is shifted by %v", name, m.id, at)
			}
		}
	}
}
