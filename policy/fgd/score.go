package fgd

import (
	"math"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Score is how a node is chosen.
type Score uint8

// The scores.
const (
	Gradient   Score = iota // the node that fragments least [FGD]
	BestFit                 // that with the least CPU and GPUs left
	DotProduct              // that whose rest is least like the task
	Packing                 // devices in use before idle ones of nodes in use before idle nodes [Gandiva, Lucid]
	Clustering              // nodes with tasks of the same sort, the fullest [Gandiva]
	Random                  // any
)

// The largest node that scores are measured against [published simulator].
const (
	mostCPU = 128_000
	mostGPU = 8 * unit.One
)

// scorer scores nodes, higher is better.
type scorer struct {
	by     Score
	target *Target
	whole  bool // in whole numbers from 0 to 100, as Kubernetes does

	was  []int32 // scratch
	list []int
}

// score is the score of a node that fits a task, and the device for a task that
// needs a part of one.
func (k *scorer) score(n *node, s *shape) (score float64, device int) {
	part := s.count == 1 && s.milli < int32(unit.One)
	device = -1
	if part && k.by != Gradient {
		device = n.smallest(s)
	}
	switch k.by {
	case Gradient:
		score, device = k.gradient(n, s, part)
	case BestFit:
		left := (float64(n.cores(s))/mostCPU + float64(n.idle-int64(s.count)*int64(s.milli))/float64(mostGPU)) / 2
		score = 100 * (1 - left)
	case DotProduct:
		alike := float64(n.cores(&shape{}))/mostCPU*float64(s.cpu)/mostCPU + float64(n.idle)/float64(mostGPU)*float64(int64(s.count)*int64(s.milli))/float64(mostGPU)
		score = 100 * (1 - alike/2)
	case Packing:
		score = n.packing(s)
	case Clustering:
		score = n.clustering(s)
	}
	if k.whole {
		score = math.Trunc(score)
	}
	return score, device
}

// gradient is by how much less the node is fragmented with the task, squeezed
// between 0 and 100; and the device for which that is so.
func (k *scorer) gradient(n *node, s *shape, part bool) (score float64, device int) {
	before := k.target.fragment(n)
	rate := func() float64 {
		score := 100 / (1 + math.Exp(-(before-k.target.fragment(n))/1000))
		if k.whole {
			score = math.Trunc(score)
		}
		return score
	}
	n.cpu -= s.cpu
	defer func() { n.cpu += s.cpu }()
	if !part {
		idle := n.idle
		k.was = append(k.was[:0], n.free...)
		k.list = n.occupy(s, k.list[:0])
		score = rate()
		copy(n.free, k.was)
		n.idle = idle
		for _, d := range k.list {
			n.spare[d] += s.deviceMemory
		}
		return score, -1
	}
	score, device = -1, -1
	for d := range n.free {
		if !n.holds(s, d) {
			continue
		}
		n.free[d], n.idle = n.free[d]-s.milli, n.idle-int64(s.milli)
		if r := rate(); r > score {
			score, device = r, d
		}
		n.free[d], n.idle = n.free[d]+s.milli, n.idle+int64(s.milli)
	}
	return score, device
}

// packing prefers devices in use, then idle ones of nodes in use, then idle nodes.
func (n *node) packing(s *shape) float64 {
	if s.count == 0 {
		return 0
	}
	idle := int32(0)
	for _, free := range n.free {
		if free == int32(unit.One) {
			idle++
		}
	}
	if idle == n.total {
		return float64(max(100/3-idle, idle))
	}
	if s.milli == int32(unit.One) {
		return float64(max(50-s.count, 100/3))
	}
	left := n.free[n.smallest(s)]
	if left == int32(unit.One) {
		return 50 - 1
	}
	return float64(max(100-left*100/1000/10, 50))
}

// clustering prefers nodes where tasks of the same sort run and no others, then
// such with others too, then idle ones, each the fuller the better.
func (n *node) clustering(s *shape) float64 {
	if s.count == 0 {
		return 0
	}
	full := float64(25 * (int64(mostGPU) - n.idle) / int64(mostGPU))
	switch {
	case n.tags[s.tag()] > 0 && len(n.tags) == 1:
		return full + 75
	case n.tags[s.tag()] > 0:
		return full + 50
	case len(n.tags) == 0:
		return full + 25
	}
	return full
}
