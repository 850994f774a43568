package cassini

import (
	"testing"
	"time"

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
