package report

import (
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestEnergy: of two nodes of eight V100 one is awake for an hour, the other asleep for a quarter of it
// and booting for another. The specification of the energy model has 980 W for such a node (section 4.3).
func TestEnergy(t *testing.T) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := c.AddNode(cluster.NodeSpec{Name: name, GPUs: []cluster.GPUs{{Type: typ, Count: 8}}}); err != nil {
			t.Fatal(err)
		}
	}
	s := state.New(c, tenant.NewTree(0))
	r := NewCollector(Options{})
	at := func(minutes int, p cluster.Power) {
		s.Now = time.Duration(minutes) * time.Minute
		c.SetPower(1, p)
		r.Event(&eventlog.Event{Time: s.Now, Kind: eventlog.NodeSet, Node: 1, Power: p}, s)
	}
	at(0, cluster.Awake)
	at(15, cluster.Asleep)
	at(30, cluster.Booting)
	at(45, cluster.Awake)
	s.Now = time.Hour
	e := r.Result(s).Energy
	want := 0.98 + 0.75*0.98 + 0.25*0.01
	if e == nil || math.Abs(e.KWh-want) > 1e-9 || e.JobsKWh != 0 || e.Busy != 0 || e.Slept == nil {
		t.Fatalf("%+v, want %v kWh", e, want)
	}
	if z := *e.Slept; z.Nodes != 0.25 || z.Wakes != 24 || z.PerWake != 1 || z.Delayed != 0 {
		t.Errorf("%+v", z)
	}
}
