package pollux

import (
	"cmp"
	"math"
	"slices"
)

// Cell is that a job has so many replicas on a node. Jobs and nodes are counted in
// the order of the Problem.
type Cell struct{ Job, Node, Count int32 }

// Matrix is who has what: the cells that are not empty, by job and then by node.
type Matrix []Cell

// Row is the cells of one job.
func (m Matrix) Row(job int) Matrix {
	at := func(j int) int {
		i, _ := slices.BinarySearchFunc(m, int32(j), func(c Cell, j int32) int { return cmp.Compare(c.Job, j) })
		return i
	}
	return m[at(job):at(job+1)]
}

// Replicas is the number of replicas in a row, and whether they are spread over nodes.
func (m Matrix) Replicas() (n int, spread bool) {
	for i := range m {
		n += int(m[i].Count)
	}
	return n, len(m) > 1
}

// Need is what a replica takes, or what a node has: GPUs, thousandths of cores, bytes.
type Need struct {
	GPUs   int32
	CPU    int64
	Memory int64
}

func (n *Need) less(by *Need, times int32) {
	n.GPUs -= by.GPUs * times
	n.CPU -= by.CPU * int64(times)
	n.Memory -= by.Memory * int64(times)
}

// fits is how many replicas fit, at most so many.
func (n *Need) fits(each *Need, most int32) int32 {
	k := min(most, n.GPUs)
	if each.GPUs > 1 {
		k = min(most, n.GPUs/each.GPUs)
	}
	if each.CPU > 0 {
		k = min(k, int32(min(int64(most), n.CPU/each.CPU)))
	}
	if each.Memory > 0 {
		k = min(k, int32(min(int64(most), n.Memory/each.Memory)))
	}
	return max(0, k)
}

// holds tells whether there is room for one replica.
func (n *Need) holds(each *Need) bool {
	return n.GPUs >= max(1, each.GPUs) && (each.CPU <= 0 || n.CPU >= each.CPU) && (each.Memory <= 0 || n.Memory >= each.Memory)
}

// Claim is a job of a Problem.
type Claim struct {
	// Speedup is its goodput with so many replicas, above 0, relative to that with its
	// fair share. It is asked once for each.
	Speedup func(replicas int, spread bool) float64
	// Factor is what a change of its row leaves of its speedup.
	Factor      float64
	Scale       float64 // of its speedup, against those of others
	Least, Most int     // replicas, 0 besides
	Each        Need
	Can         []bool // which nodes will do; nil: all
}

// RestartFactor is the part of the speedup that restarts leave to a job of an
// age that was restarted so often, where each restart costs delay. It is the
// part of its life so far that would remain if it had always been restarted so
// often. Times are in seconds.
func RestartFactor(age float64, restarts int, delay float64) float64 {
	if age+delay <= 0 {
		return 1
	}
	return max(0, age-float64(restarts)*delay) / (age + delay)
}

// Problem is who of some jobs shall have how many GPUs where.
type Problem struct {
	Jobs  []Claim
	Nodes []Need // what each has
	Now   Matrix // what everybody has, with jobs that leave what they cannot keep

	Power   float64 // of the mean of speedups: 1 their mean, below that fairer
	Floor   float64 // added to each speedup, so that none is 0
	Avoid   bool    // no two jobs that are spread over nodes meet on one
	MaxNode int     // a job is on at most so many nodes; 0: no limit

	speedups [][2][]float64 // of each job, by replicas; NaN: not asked yet
	rows     []Matrix       // of Now
	rooms    []Need         // scratch of repair
	met      []bool
}

// Prepare must come before anything is asked of the Problem.
func (p *Problem) Prepare() {
	p.speedups = make([][2][]float64, len(p.Jobs))
	p.rows = make([]Matrix, len(p.Jobs))
	for j := range p.Jobs {
		p.rows[j] = p.Now.Row(j)
	}
	p.rooms, p.met = make([]Need, len(p.Nodes)), make([]bool, len(p.Nodes))
}

// speedup is the speedup of a job, scaled.
func (p *Problem) speedup(job, replicas int, spread bool) float64 {
	if replicas == 0 {
		return 0
	}
	s, i := &p.speedups[job], 0
	if spread {
		i = 1
	}
	for len(s[i]) <= replicas {
		s[i] = append(s[i], math.NaN())
	}
	if math.IsNaN(s[i][replicas]) {
		s[i][replicas] = p.Jobs[job].Speedup(replicas, spread) * p.Jobs[job].Scale
	}
	return s[i][replicas]
}

// Fitness is the power mean of the speedups of all jobs, those less of whose row
// changes; and the utility of the cluster: how much of the ideal speedup its GPUs
// give, those on nodes that nobody uses aside.
func (p *Problem) Fitness(m Matrix) (fitness, utility float64) {
	sum, jobs := 0.0, 0
	gpus := int32(0)
	clear(p.met)
	for i := 0; i < len(m); {
		row := m[i:]
		for n := range row {
			if row[n].Job != m[i].Job {
				row = row[:n]
				break
			}
			if node := row[n].Node; !p.met[node] {
				p.met[node] = true
				gpus += p.Nodes[node].GPUs
			}
		}
		j := int(m[i].Job)
		k, spread := row.Replicas()
		s := p.speedup(j, k, spread)
		utility += s / p.Jobs[j].Scale * float64(p.Jobs[j].Each.GPUs)
		if !slices.Equal(row, p.rows[j]) {
			s *= p.Jobs[j].Factor
		}
		sum += p.power(s)
		jobs++
		i += len(row)
	}
	sum += float64(len(p.Jobs)-jobs) * p.power(0)
	if gpus > 0 {
		utility /= float64(gpus)
	}
	return p.root(sum / float64(max(1, len(p.Jobs)))), utility
}

func (p *Problem) power(s float64) float64 {
	switch s += p.Floor; p.Power {
	case -1:
		return 1 / s
	case 1:
		return s
	case 0:
		return math.Log(max(s, 1e-3))
	}
	return math.Pow(s, p.Power)
}

func (p *Problem) root(mean float64) float64 {
	switch p.Power {
	case -1:
		return 1 / mean
	case 1:
		return mean
	case 0:
		return math.Exp(mean)
	}
	return math.Pow(mean, 1/p.Power)
}

// Bound is a fitness that cannot be surpassed: that with everybody at its best.
func (p *Problem) Bound() float64 {
	room := 0
	for i := range p.Nodes {
		room += int(p.Nodes[i].GPUs)
	}
	sum := 0.0
	for j := range p.Jobs {
		c := &p.Jobs[j]
		k, spread := p.rows[j].Replicas()
		best := p.speedup(j, k, spread)
		for n := max(1, c.Least); n <= min(c.Most, room/int(max(1, c.Each.GPUs))); n++ {
			best = max(best, c.Factor*p.speedup(j, n, false), c.Factor*p.speedup(j, n, n > 1))
		}
		sum += p.power(best)
	}
	return p.root(sum / float64(max(1, len(p.Jobs))))
}

// order is that of a Matrix.
func order(a, b Cell) int {
	if a.Job != b.Job {
		return int(a.Job) - int(b.Job)
	}
	return int(a.Node) - int(b.Node)
}
