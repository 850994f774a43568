package topoaware

import "math"

// perMachine is the GPUs of a machine, of which each of two sockets has two.
const (
	perMachine = 4
	perSocket  = 2
)

const leastCost = 0.01

// weight of each of the three costs, as the neutral policy of the configuration has it.
const weight = 0.3333333333333

// Sums of distances between the GPUs of a job, by their number: the largest, and the least.
var (
	mostApart  = [perMachine]float64{1: leastCost, 2: 40, 3: 60}
	leastApart = [perMachine]float64{1: leastCost, 2: 1, 3: 41}
)

func socketOf(gpu int) int { return gpu / perSocket }

// distance between two GPUs of a machine.
func distance(a, b int) float64 {
	switch {
	case a == b:
		return 0
	case socketOf(a) == socketOf(b):
		return 1
	}
	return 20
}

// part is a machine in a half of what is looked at: its GPUs by socket in the order of their lists, and those of
// which the row of distances is left.
type part struct {
	*host   // what is allocated, for all parts of a machine
	sockets [2][]int
	rows    [perMachine]bool
	running dict
}

func (p *part) clone() *part {
	c := *p
	for i := range p.sockets {
		c.sockets[i] = append([]int(nil), p.sockets[i]...)
	}
	c.running = p.running.clone()
	return &c
}

// free are the GPUs in its lists that are not allocated.
func (p *part) free() []int {
	var out []int
	for i := range p.sockets {
		out = append(out, p.freeAt(i)...)
	}
	return out
}

func (p *part) freeAt(socket int) []int {
	var out []int
	for _, g := range p.sockets[socket] {
		if !p.allocated[g] {
			out = append(out, g)
		}
	}
	return out
}

func contains(all []int, x int) bool {
	for _, y := range all {
		if x == y {
			return true
		}
	}
	return false
}

// costs of a set of GPUs. Others is negative where no job runs on the machine.
type costs struct{ communication, interference, fragmentation, others float64 }

// apart is the cost of communication within a set. Outside is all GPUs of the choice where the set has neighbours
// in another half (external), whose distances are all there.
func (p *part) apart(set, outside []int, external bool) float64 {
	sum := 0.0
	var paired []int
	for i, a := range set {
		for _, b := range set[i+1:] {
			paired = append(paired, a, b)
			if external {
				sum += distance(b, a)
			}
			if p.rows[a] || p.rows[b] {
				sum += distance(a, b)
			}
		}
	}
	if external {
		for _, a := range set {
			for _, b := range outside {
				if !contains(paired, b) {
					sum += distance(b, a)
				}
			}
		}
	}
	if sum > 0 {
		sum -= leastApart[len(set)]
	}
	if sum == 0 {
		return leastCost
	}
	return sum
}

// fragmented is the cost of fragmentation. It takes as many of the other free GPUs off as the set has.
func (p *part) fragmented(set []int) float64 {
	sum, left := 0.0, len(set)
	for i := range p.sockets {
		free := p.freeAt(i)
		after := len(free)
		for _, g := range free {
			if !contains(set, g) && left > 0 {
				after--
				left--
			}
		}
		sum += float64(after) / perSocket
	}
	if sum /= 2; sum == 0 || sum == 1 {
		return leastCost
	}
	return sum
}

// place tells whether a set is at one socket, and which sockets it uses.
func place(set []int) (across bool, uses [2]bool) {
	for _, g := range set {
		uses[socketOf(g)] = true
		across = across || socketOf(g) != socketOf(set[0])
	}
	return across, uses
}

// shares tells whether a job that runs uses one of some sockets.
func (j *task) shares(uses [2]bool) bool {
	for _, g := range j.has {
		if uses[socketOf(g)] {
			return true
		}
	}
	return false
}

// suffers is the cost of interference for a job on a set: the ratios of its run time alone to that beside each
// neighbour, over all jobs of the machine.
func (s *scheduler) suffers(j *task, p *part, set []int) float64 {
	across, uses := place(set)
	alone := s.profile.alone(j, len(set), across)
	sum, any := 0.0, false
	ids := p.running.keys()
	for _, id := range ids {
		if o := &s.tasks[id]; id != j.id && o.shares(uses) {
			if with := s.profile.beside(j, len(set), o, o.gpus); with > 0 && alone/with < 1 {
				sum += alone / with
				any = true
			}
		}
	}
	if any {
		sum /= float64(len(ids))
	}
	if sum == 0 {
		return leastCost
	}
	return sum
}

// causes is the cost of interference for the neighbours of a set, as if each had as many GPUs as it, and stood as
// it does.
func (s *scheduler) causes(j *task, p *part, set []int) float64 {
	across, uses := place(set)
	sum, slowed := 0.0, 0
	for _, id := range p.running.keys() {
		if o := &s.tasks[id]; id != j.id && o.shares(uses) {
			alone := s.profile.alone(o, len(set), across)
			if with := s.profile.beside(o, len(set), j, o.gpus); with > 0 && alone/with < 1 {
				sum += alone / with
				slowed++
			}
		}
	}
	if slowed > 0 {
		sum /= float64(slowed)
	}
	if sum == 0 {
		return leastCost
	}
	return sum
}

// normal is the cost of communication over the largest.
func normal(c float64, gpus int) float64 {
	if gpus < 2 {
		return leastCost
	}
	return max(leastCost, c/mostApart[gpus])
}

// system is what a set is worth to all. Sums are in the order in which the dict of the weights is walked.
func (c *costs) system(gpus int) float64 {
	interference := max(leastCost, c.interference)
	if c.others >= 0 {
		interference = (interference + max(leastCost, c.others)) / 2
	}
	sum := math.Pow(normal(c.communication, gpus), weight) + math.Pow(max(leastCost, c.fragmentation), weight) + math.Pow(interference, weight)
	return 1 / sum / (1 / (3 * math.Pow(leastCost, 1./3)))
}

// own is what a set is worth to the job.
func (c *costs) own(gpus int) float64 {
	const w = weight + weight/2
	sum := math.Pow(normal(c.communication, gpus), w) + math.Pow(max(leastCost, c.interference), w)
	return 1 / sum / (1 / (2 * math.Pow(leastCost, 1./2)))
}
