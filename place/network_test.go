package place_test

import (
	"fmt"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
)

// BenchmarkTiers: a gang of 8 and one of 512 on 40,000 GPUs below three tiers, of which half are taken: two thirds of the
// nodes have some or all of their GPUs in use.
func BenchmarkTiers(b *testing.B) {
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "gpu"}) // cannot fail: the first type
	for p := range 25 {
		pod, err := c.AddDomain("pod", fmt.Sprint(p), 0)
		if err != nil {
			b.Fatal(err)
		}
		for l := range 10 {
			leaf, err := c.AddDomain("leaf", fmt.Sprint(l), pod)
			if err != nil {
				b.Fatal(err)
			}
			for range 20 {
				if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}, Domain: leaf, NICs: cluster.NICs{Count: 8, GBps: 50}}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	for node := range cluster.NodeID(c.Nodes()) {
		take := [...]int{8, 0, 4}[node%3]
		first, _ := c.DeviceRange(node)
		a := cluster.Alloc{Pieces: []cluster.Piece{{Node: node, Tasks: int32(take), Shares: int32(take)}}}
		for d := range take {
			a.Shares = append(a.Shares, cluster.Share{Device: first + cluster.DeviceID(d), Milli: int32(unit.One)})
		}
		if take > 0 && c.Allocate(&a) != nil {
			b.Fatal("cannot be taken")
		}
	}
	for _, gpus := range []int{8, 512} {
		for _, s := range []place.Strategy{place.Pack, place.RackPack} {
			for _, within := range []string{"", "pod"} {
				d := job.GPUs(gpus)
				d.Within = within
				r := place.Request{Cluster: c, Demand: &d, Tasks: int32(gpus)}
				b.Run(fmt.Sprintf("%d/%s/%s", gpus, s, within), func(b *testing.B) {
					for b.Loop() {
						if _, ok := place.Gang(&r, s); !ok {
							b.Fatal("no place")
						}
					}
				})
			}
		}
	}
}
