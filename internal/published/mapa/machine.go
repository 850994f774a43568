package mapa

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/internal/published/harness"
)

// machine is a machine of the simulator.
type machine struct {
	n, group int // GPUs, and those of consecutive numbers that topoAware takes for neighbours
	links    *cluster.Links
	ideal    map[int]int // sums of the best rings, by GPUs, as the code has them
}

// slow is the speed of whatever is no NVLink.
const slow = 10

// machines are those of the simulator, but for cubeMesh-16, on which it crashes.
func machines() map[string]func() (*machine, error) {
	return map[string]func() (*machine, error){
		"dgx-v": func() (*machine, error) {
			return machineOf("dgx1", 8, 4, map[int]int{2: 100, 3: 125, 4: 175, 5: 210, 6: 275, 7: 325, 8: 400})
		},
		"dgx-p": func() (*machine, error) {
			return machineOf("dgx1-p100", 8, 4, map[int]int{2: 40, 3: 60, 4: 80, 5: 100, 6: 120, 7: 130, 8: 160})
		},
		"summit": func() (*machine, error) {
			return machineOf("summit", 6, 3, map[int]int{2: 100, 3: 150, 4: 170, 5: 220, 6: 320})
		},
		"torus-2d": func() (*machine, error) {
			m, err := machineOf("torus-2d", 16, 4, map[int]int{2: 100, 3: 110, 4: 175, 5: 210, 6: 260})
			if err == nil {
				m.links.Connect(0, 4, cluster.Link{Class: cluster.CrossSocket, GBps: slow}) // forgotten in the code
			}
			return m, err
		},
	}
}

func machineOf(layout string, n, group int, ideal map[int]int) (*machine, error) {
	links, err := cluster.LinkPreset(layout, n)
	if err != nil {
		return nil, err
	}
	for i := range n {
		for j := range i {
			if links.Between(i, j).Class != cluster.NVLink {
				links.Connect(i, j, cluster.Link{Class: cluster.CrossSocket, GBps: slow})
			}
		}
	}
	return &machine{n, group, links, ideal}, nil
}

func findMachine(name string) (*machine, error) {
	if m, ok := machines()[name]; ok {
		return m()
	}
	return nil, harness.Unknown("cluster of mapa", name, []string{"dgx-v", "dgx-p", "summit", "torus-2d"})
}

// candidate is GPUs in an order, with the links that the pattern of a job uses between them.
type candidate struct {
	gpus      []int
	aggregate int // GB/s
	preserved int // of the NVLinks between the GPUs that stay free, GB/s
	links     [3]int
}

// predicted is the effective bandwidth that the authors foretell. That of no GPUs at all is not 0.
func (c *candidate) predicted() float64 {
	return fabric.Predicted(c.links[fabric.Double], c.links[fabric.Single], c.links[fabric.Slow])
}

// slowShare is the part of the links that are no NVLinks.
func (c *candidate) slowShare() float64 {
	if all := c.links[0] + c.links[1] + c.links[2]; all > 0 {
		return float64(c.links[fabric.Slow]) / float64(all)
	}
	return 0
}

// normal is the sum of speeds over that of the best ring; 1 for a single GPU.
func (m *machine) normal(c *candidate) float64 {
	if len(c.gpus) < 2 {
		return 1
	}
	return float64(c.aggregate) / float64(m.ideal[len(c.gpus)])
}

// candidates are all sets of free GPUs of the size that a job asks for, those of low numbers first,
// each in all orders.
func (m *machine) candidates(busy []bool, t *task) (all []candidate) {
	var free []int
	for g := range m.n {
		if !busy[g] {
			free = append(free, g)
		}
	}
	var orders func(order, rest []int, kept int)
	orders = func(order, rest []int, kept int) {
		if len(rest) == 0 {
			all = append(all, m.candidate(order, kept, t.pattern))
			return
		}
		for i, g := range rest {
			left := append(append(make([]int, 0, len(rest)-1), rest[:i]...), rest[i+1:]...)
			orders(append(order[:len(order):len(order)], g), left, kept)
		}
	}
	var sets func(set []int, from int)
	sets = func(set []int, from int) {
		if len(set) == t.gpus {
			orders(nil, set, m.preserved(free, set))
			return
		}
		for i := from; i < len(free); i++ {
			sets(append(set[:len(set):len(set)], free[i]), i+1)
		}
	}
	sets(nil, 0)
	return all
}

// preserved is the speeds of all NVLinks between the GPUs that are free beside a set.
func (m *machine) preserved(free, set []int) (sum int) {
	taken := make([]bool, m.n)
	for _, g := range set {
		taken[g] = true
	}
	for i, a := range free {
		for _, b := range free[:i] {
			if l := m.links.Between(a, b); !taken[a] && !taken[b] && l.Class == cluster.NVLink {
				sum += int(l.GBps)
			}
		}
	}
	return sum
}

func (m *machine) candidate(order []int, kept int, pattern string) candidate {
	c := candidate{gpus: order, preserved: kept}
	link := func(a, b int) {
		l := m.links.Between(a, b)
		c.links[fabric.KindOf(l)]++
		c.aggregate += int(l.GBps)
	}
	n := len(order)
	switch {
	case n < 2:
	case pattern == "ring":
		for i := range n - 1 {
			link(order[i], order[i+1])
		}
		link(order[n-1], order[0])
	case pattern == "all":
		for i := range n {
			for j := i + 1; j < n; j++ {
				link(order[i], order[j])
			}
		}
	}
	return c
}
