package perf_test

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// machine is nodes of eight GPUs with links of a layout; "" has none.
func machine(t *testing.T, layouts ...string) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"}) // cannot fail: the first type
	for _, name := range layouts {
		spec := cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}}
		if name != "" {
			links, err := cluster.LinkPreset(name, 8)
			if err != nil {
				t.Fatal(err)
			}
			spec.Links = links
		}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// on is an allocation of whole devices.
func on(c *cluster.Cluster, devices ...cluster.DeviceID) *cluster.Alloc {
	a := &cluster.Alloc{}
	for _, d := range devices {
		if n := len(a.Pieces); n == 0 || a.Pieces[n-1].Node != c.NodeOf(d) {
			a.Pieces = append(a.Pieces, cluster.Piece{Node: c.NodeOf(d)})
		}
		p := &a.Pieces[len(a.Pieces)-1]
		p.Tasks, p.Shares = p.Tasks+1, p.Shares+1
		a.Shares = append(a.Shares, cluster.Share{Device: d, Milli: 1000})
	}
	return a
}

// TestLinked: a job that minds its bandwidth and communicates for 40 % of its time over the best links is
// slower over others, by the ratio of the predictions.
func TestLinked(t *testing.T) {
	c := machine(t, "dgx1", "dgx-a100", "", "pcie")
	minds, other := &job.Job{Hints: &job.Hints{Sensitive: true}}, &job.Job{}
	slower := func(best, has float64) float64 { return 1 / (0.6 + 0.4*best/has) }
	two, one, none := fabric.Predicted(2, 0, 0), fabric.Predicted(0, 2, 0), fabric.Predicted(0, 0, 2)
	for _, k := range []struct {
		name    string
		j       *job.Job
		devices []cluster.DeviceID
		want    float64
	}{
		{"the best pair", minds, []cluster.DeviceID{0, 3}, 1},
		{"a pair with one NVLink", minds, []cluster.DeviceID{0, 1}, slower(two, one)},
		{"a pair without", minds, []cluster.DeviceID{0, 5}, slower(two, none)},
		{"a job that does not mind", other, []cluster.DeviceID{0, 5}, 1},
		{"a model that minds", &job.Job{Model: "ResNet-50"}, []cluster.DeviceID{0, 5}, slower(two, none)},
		{"one GPU", minds, []cluster.DeviceID{5}, 1},
		{"all GPUs", minds, []cluster.DeviceID{0, 1, 2, 3, 4, 5, 6, 7}, 1},
		{"a switch", minds, []cluster.DeviceID{8, 13}, 1},
		{"links that are not known", minds, []cluster.DeviceID{16, 21}, 1},
		{"two nodes", minds, []cluster.DeviceID{5, 21}, 1},
		{"no NVLink anywhere", minds, []cluster.DeviceID{24, 31}, 1}, // the fit tells links without NVLink not apart
	} {
		l := perf.NewLinked(0.4, nil)
		if got := l.Factor(k.j, c, on(c, k.devices...)); math.Abs(got-k.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", k.name, got, k.want)
		}
	}
	if perf.NewLinked(0, nil).Factor(minds, c, on(c, 0, 5)) != 1 || (*perf.Linked)(nil).Factor(minds, c, on(c, 0, 5)) != 1 {
		t.Error("without communication links make a difference")
	}
	all := perf.NewLinked(1, nil)
	for d := cluster.DeviceID(1); d < 8; d++ { // never faster than on the best links, never still
		for e := d + 1; e < 8; e++ {
			for _, pattern := range []string{"ring", "chain", "star", "clique"} {
				j := &job.Job{Hints: &job.Hints{Sensitive: true, Pattern: pattern}}
				if got := all.Factor(j, c, on(c, 0, d, e)); !(got > 0.05 && got <= 1) {
					t.Errorf("a %s on 0, %d and %d: %v", pattern, d, e, got)
				}
			}
		}
	}
}
