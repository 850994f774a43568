// Package yarn is the clusters of the Tiresias simulator and of its fork Muri,
// and their placement "yarn", which tells nodes apart.
//
// Nouns: a Spec is a cluster in one line (switches, nodes, GPUs, CPUs, memory);
// a Packing is who sits on which node, kept beside the ledger of the run.
//
// Placement decides there whether a job can start, and never how fast it runs.
// The preemptive policies place every job anew at every event, so that a job
// that runs on may sit elsewhere from one event to the next without anybody
// noticing. That is why a run keeps its Packing to itself and books the jobs on
// one node that counts the GPUs of all. Moving every job at every event would
// put into the ledger what the published simulator does not do.
//
// Units: CPUs in cores, memory in GB as a float, as the published code counts.
package yarn

import (
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/published/harness"
)

// Spec is a cluster of equal nodes.
type Spec struct {
	Switches, Nodes int // nodes of each switch
	GPUs, CPUs      int // of each node
	Memory          int // of each node, GB
}

// Total is the number of GPUs.
func (s Spec) Total() int { return s.Switches * s.Nodes * s.GPUs }

// maxGPUs bounds a cluster.
const maxGPUs = 1_000_000

// ParseSpec reads the name of a cluster, or the path of a file that describes
// it. The name nNgG is N nodes of G GPUs on one switch, each with the given CPUs
// and memory. A file is CSV with the columns num_switch, num_node_p_switch,
// num_gpu_p_node, num_cpu_p_node and mem_p_node; its last line counts.
func ParseSpec(name string, cpus, memory int) (Spec, error) {
	var s Spec
	if strings.HasSuffix(name, ".csv") || strings.HasSuffix(name, ".txt") || strings.HasSuffix(name, ".gz") {
		return readSpec(name)
	}
	nodes, gpus, ok := strings.Cut(strings.TrimPrefix(name, "n"), "g")
	n, okN := harness.Digits(nodes)
	g, okG := harness.Digits(gpus)
	if !ok || !okN || !okG || !strings.HasPrefix(name, "n") {
		return s, fmt.Errorf("unknown cluster %q: write nNgG for N nodes of G GPUs, or the path of a .csv file", name)
	}
	return newSpec(name, [5]int64{1, n, g, int64(cpus), int64(memory)})
}

func readSpec(path string) (Spec, error) {
	t, err := harness.OpenTable(path)
	if err != nil {
		return Spec{}, err
	}
	return specOf(t)
}

func specOf(t *harness.Table) (Spec, error) {
	at, err := t.Need("num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node")
	if err != nil {
		return Spec{}, err
	}
	var v [5]int64
	for rows := 0; ; rows++ {
		more, err := t.Next()
		if err != nil {
			return Spec{}, err
		}
		if !more && rows == 0 {
			return Spec{}, fmt.Errorf("%s: describes no cluster", t.Name)
		}
		if !more {
			return newSpec(t.Name, v)
		}
		for i := range v {
			if v[i], err = t.Int(at[i]); err != nil {
				return Spec{}, err
			}
		}
	}
}

func newSpec(name string, v [5]int64) (Spec, error) {
	for _, n := range v {
		if n < 1 || n > maxGPUs {
			return Spec{}, fmt.Errorf("cluster %s: %d is not between 1 and %d", name, n, maxGPUs)
		}
	}
	if v[0] > maxGPUs/v[1] || v[0]*v[1] > maxGPUs/v[2] {
		return Spec{}, fmt.Errorf("cluster %s: has more than %d GPUs", name, maxGPUs)
	}
	return Spec{int(v[0]), int(v[1]), int(v[2]), int(v[3]), int(v[4])}, nil
}

// Pooled is the cluster as one node that counts the GPUs of all.
func (s Spec) Pooled() (*cluster.Cluster, error) {
	c := cluster.New()
	t, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err == nil {
		_, err = c.AddNode(cluster.NodeSpec{Name: "all", Pooled: true, GPUs: []cluster.GPUs{{Type: t, Count: s.Total()}}})
	}
	return c, err
}

// The resources that a job takes on a node beside its GPUs.
const (
	workerMemory    = 5.0 // of a job that fits one node
	serverMemory    = 6.0 // of a parameter server, for each GPU of a larger job
	serverMemoryGPU = 0.1 // on top, for each GPU of the job
	cpusOfOne       = 2   // of a job of one GPU
	cpusOfGPU       = 6   // for each GPU of any other
)

// Packing is who sits on which node.
type Packing struct {
	spec  Spec
	nodes []node
	holds map[int32][]piece // by job
	found []piece
}

type node struct {
	gpus, cpus int32
	memory     float64
}

type piece struct {
	node, gpus, cpus int32
	memory           float64
}

// New is an empty cluster.
func New(s Spec) *Packing {
	p := &Packing{spec: s, nodes: make([]node, s.Switches*s.Nodes), holds: map[int32][]piece{}}
	p.Empty()
	return p
}

// Empty takes every job off. Their memory comes back too: the published
// Tiresias forgets it, Muri does not.
func (p *Packing) Empty() {
	for i := range p.nodes {
		p.nodes[i] = node{int32(p.spec.GPUs), int32(p.spec.CPUs), float64(p.spec.Memory)}
	}
	clear(p.holds)
}

// Free is the number of GPUs that nobody has.
func (p *Packing) Free() int {
	n := 0
	for i := range p.nodes {
		n += int(p.nodes[i].gpus)
	}
	return n
}

// Fit places a job of that many GPUs for good: it can only be taken off by
// Empty. It tells whether the job had room on any one switch.
func (p *Packing) Fit(gpus int) bool {
	for s := range p.spec.Switches {
		first := int32(s * p.spec.Nodes)
		if gpus <= p.spec.GPUs && p.onOne(first, int32(gpus)) || gpus > p.spec.GPUs && p.onMany(first, gpus) {
			for _, f := range p.found {
				n := &p.nodes[f.node]
				n.gpus, n.cpus, n.memory = n.gpus-f.gpus, n.cpus-f.cpus, n.memory-f.memory
			}
			return true
		}
	}
	return false
}

// Place places a job until Release takes it off.
func (p *Packing) Place(id int32, gpus int) bool {
	if !p.Fit(gpus) {
		return false
	}
	p.holds[id] = append([]piece(nil), p.found...)
	return true
}

// Release takes a job off that Place has placed.
func (p *Packing) Release(id int32) {
	for _, h := range p.holds[id] {
		n := &p.nodes[h.node]
		n.gpus, n.cpus, n.memory = n.gpus+h.gpus, n.cpus+h.cpus, n.memory+h.memory
	}
	delete(p.holds, id)
}

// onOne finds the first node of a switch with room for a whole job.
func (p *Packing) onOne(first, gpus int32) bool {
	cpus := gpus * cpusOfGPU
	if gpus == 1 {
		cpus = cpusOfOne
	}
	i := p.next(first, first, piece{gpus: gpus, cpus: cpus, memory: workerMemory})
	if i < 0 {
		return false
	}
	p.found = append(p.found[:0], piece{i, gpus, cpus, workerMemory})
	return true
}

// onMany finds the first wholly free nodes of a switch, and the first other one
// with room for the rest.
func (p *Packing) onMany(first int32, gpus int) bool {
	p.found = p.found[:0]
	size := p.spec.GPUs
	each := serverMemory + float64(gpus)*serverMemoryGPU + workerMemory
	whole := piece{gpus: int32(size), cpus: int32(size * cpusOfGPU), memory: each * float64(size)}
	at := first
	for range gpus / size {
		i := p.next(first, at, whole)
		if i < 0 {
			return false
		}
		whole.node, at = i, i+1
		p.found = append(p.found, whole)
	}
	rest := gpus % size
	if rest == 0 {
		return true
	}
	last := piece{gpus: int32(rest), cpus: int32(rest * cpusOfGPU), memory: each * float64(rest)}
	for i := p.next(first, first, last); i >= 0; i = p.next(first, i+1, last) {
		if !p.hasFound(i) {
			last.node = i
			p.found = append(p.found, last)
			return true
		}
	}
	return false
}

func (p *Packing) hasFound(node int32) bool {
	for _, f := range p.found {
		if f.node == node {
			return true
		}
	}
	return false
}

// next is the first node of a switch, from a place on, with room for a piece;
// or -1.
func (p *Packing) next(first, from int32, want piece) int32 {
	for i := from; i < first+int32(p.spec.Nodes); i++ {
		if n := &p.nodes[i]; n.gpus >= want.gpus && n.cpus >= want.cpus && n.memory >= want.memory {
			return i
		}
	}
	return -1
}
