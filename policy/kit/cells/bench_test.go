package cells_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/cells"
)

// large is 5,000 nodes of 8 GPUs in racks of 20 and rows of 10 racks.
func large(b *testing.B) *cluster.Cluster {
	c := nodes(b, 0, 0)
	row, rack := cluster.DomainID(0), cluster.DomainID(0)
	for n := range 5000 {
		var err error
		if n%200 == 0 {
			row, err = c.AddDomain("row", fmt.Sprint("row", n/200), 0)
		}
		if err == nil && n%20 == 0 {
			rack, err = c.AddDomain("rack", fmt.Sprint("rack", n/20%10), row)
		}
		if err == nil {
			_, err = c.AddNode(cluster.NodeSpec{Name: fmt.Sprint("n", n), GPUs: []cluster.GPUs{{Type: 0, Count: 8}}, Domain: rack})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// BenchmarkRequest is one request for GPUs and its end on 40,000 GPUs, half of which are in use. A request is for 1 to 64 GPUs,
// of a guest or of one of twenty virtual clusters, each with racks, nodes and halves of nodes.
func BenchmarkRequest(b *testing.B) {
	c := large(b)
	f := cells.Of(c, 0)
	var vcs []cells.VC
	for i := range 20 {
		vcs = append(vcs, vc(fmt.Sprint("vc", i), 0, 0, 40, 130, 5)) // of 4 GPUs, nodes, racks
	}
	if err := f.Legal(c, vcs); err != nil {
		b.Fatal(err)
	}
	s := cells.NewSpace(f, vcs)
	r := rand.New(rand.NewPCG(1, 2))
	gangs := [][]int{{1}, {1}, {2}, {4}, {8}, {8, 8}, {8, 8, 8, 8, 8, 8, 8, 8}}
	var running []job.ID
	held, next := 0, job.ID(0)
	on := map[cluster.DeviceID]job.ID{} // the guest that had a GPU last
	ask := func() {
		tasks := gangs[r.IntN(len(gangs))]
		q := &cells.Request{VC: r.IntN(21) - 1, Tasks: tasks, Chains: []int{0}}
		found, ok := s.Find(q, c)
		if !ok {
			return
		}
		if q.VC == cells.NoVC {
			s.Guest(next, s.GPUsOf(found), false)
			for _, d := range s.Devices(next) {
				on[d] = next
			}
		} else {
			for _, d := range s.GPUsOf(found) {
				if id, ok := on[d]; ok {
					held -= len(s.Devices(id))
					s.Release(id)
				}
			}
			s.Take(next, found, false)
		}
		held += q.GPUs()
		running = append(running, next)
		next++
	}
	end := func() {
		i := r.IntN(len(running))
		held -= len(s.Devices(running[i]))
		s.Release(running[i])
		running[i] = running[len(running)-1]
		running = running[:len(running)-1]
	}
	for held < 20000 {
		ask()
	}
	for b.Loop() {
		ask()
		for held > 20000 {
			end()
		}
	}
}
