package state_test

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

func oneGPU(t interface{ Fatal(...any) }) *state.State {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "T"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{Name: "n", GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
		t.Fatal(err)
	}
	return state.New(c, tenant.NewTree(0))
}

// TestUsedOver: mean and maximum over a window are those of samples taken each
// second, whenever the measurements came.
func TestUsedOver(t *testing.T) {
	if w := oneGPU(t).UsedOver(0, time.Second); w.Known {
		t.Errorf("%+v of a device that was never measured", w)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := oneGPU(t)
		var uses []float64 // by second
		var memories []unit.Bytes
		for range rapid.IntRange(1, 30).Draw(t, "measurements") {
			use, memory := rapid.Float64Range(0, 1).Draw(t, "use"), unit.Bytes(rapid.IntRange(0, 100).Draw(t, "memory"))
			if err := s.SetUsed(0, use, memory); err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(1, 20).Draw(t, "seconds") {
				uses, memories = append(uses, use), append(memories, memory)
				s.Now += time.Second
			}
		}
		last := rapid.IntRange(1, 60).Draw(t, "window")
		n := min(last, len(uses))
		sum, most := 0.0, unit.Bytes(0)
		for i := len(uses) - n; i < len(uses); i++ {
			sum += uses[i]
			most = max(most, memories[i])
		}
		if w := s.UsedOver(0, time.Duration(last)*time.Second); !w.Known || math.Abs(w.Use-sum/float64(n)) > 1e-9 || w.Memory != most {
			t.Fatalf("%+v, counted %v and %v", w, sum/float64(n), most)
		}
	})
}

// TestMeasured: the devices that were measured since a moment are those whose latest
// measurement is no older, in the order of these moments, whether they are asked for from the
// start or later.
func TestMeasured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const devices = 5
		c := cluster.New()
		typ, err := c.AddType(cluster.GPUType{Name: "T"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.AddNode(cluster.NodeSpec{Name: "n", GPUs: []cluster.GPUs{{Type: typ, Count: devices}}}); err != nil {
			t.Fatal(err)
		}
		s := state.New(c, tenant.NewTree(0))
		latest := map[cluster.DeviceID]time.Duration{}
		for range rapid.IntRange(1, 40).Draw(t, "measurements") {
			d := cluster.DeviceID(rapid.IntRange(0, devices-1).Draw(t, "device"))
			if err := s.SetUsed(d, 0.5, 0); err != nil {
				t.Fatal(err)
			}
			latest[d] = s.Now
			s.Now += time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second
			if !rapid.Bool().Draw(t, "ask") {
				continue
			}
			since := time.Duration(rapid.IntRange(0, 60).Draw(t, "since")) * time.Second
			var want []cluster.DeviceID
			for d, at := range latest {
				if at >= since {
					want = append(want, d)
				}
			}
			slices.SortFunc(want, func(a, b cluster.DeviceID) int { return cmp.Or(cmp.Compare(latest[a], latest[b]), cmp.Compare(a, b)) })
			if got := slices.Collect(s.Lists().Measured(since)); !slices.Equal(got, want) {
				t.Fatalf("since %v: %v, want %v", since, got, want)
			}
		}
	})
}
