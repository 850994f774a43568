package pai

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/published/harness"
)

// This is the published loop once more, slow and plain: every second looks at
// every job and every node. The policies of this package are held against it.

type slowJob struct {
	name             string
	id               int64
	key              float64
	submit, duration int64
	gpus, cpus       int64
	instances        int64
	v100             bool
}

// slowRun is an instance that runs.
type slowRun struct {
	job        *slowJob
	node, part int
	start      int64
}

type slowNode struct {
	allGPUs, allCPUs int64
	gpus, cpus       int64
	v100             bool
}

func (n *slowNode) rate() float64 {
	cpus := 1 - float64(n.cpus)/float64(n.allCPUs)
	if n.allGPUs == 0 {
		return math.RoundToEven(100 * cpus)
	}
	return math.RoundToEven(100 * (1 - float64(n.gpus)/float64(n.allGPUs) + cpus) / 2)
}

type slowSim struct {
	nodes             []slowNode
	matching, balance bool
	pending           []*slowJob
	running           []slowRun
	done              []string // "job start end node", sorted
}

func (s *slowSim) idle() (gpus, cpus int64) {
	for i := range s.nodes {
		gpus, cpus = gpus+s.nodes[i].gpus, cpus+s.nodes[i].cpus
	}
	return gpus, cpus
}

// order is the order in which nodes are looked at.
func (s *slowSim) order() []int {
	order := make([]int, len(s.nodes))
	for i := range order {
		order[i] = i
	}
	if s.balance {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.nodes[a].rate(), s.nodes[b].rate()) })
	}
	return order
}

// place starts a job if it fits.
func (s *slowSim) place(j *slowJob, now int64) bool {
	gpus, cpus := s.idle()
	if j.instances*j.gpus > gpus || j.instances*j.cpus > cpus {
		return false
	}
	var on []int // the node of each instance
	for _, i := range s.order() {
		n := &s.nodes[i]
		if s.matching && j.v100 && !n.v100 {
			continue
		}
		for k := int64(1); len(on) < int(j.instances) && k*j.gpus <= n.gpus && k*j.cpus <= n.cpus; k++ {
			on = append(on, i)
		}
	}
	if len(on) < int(j.instances) {
		return false
	}
	for part, i := range on {
		s.nodes[i].gpus -= j.gpus
		s.nodes[i].cpus -= j.cpus
		s.running = append(s.running, slowRun{j, i, part, now})
	}
	return true
}

// tick is one second from now on.
func (s *slowSim) tick(now int64) {
	slices.SortFunc(s.pending, func(a, b *slowJob) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id)) })
	s.pending = slices.DeleteFunc(s.pending, func(j *slowJob) bool {
		if gpus, cpus := s.idle(); gpus <= 0 && cpus <= 0 {
			return false
		}
		return s.place(j, now)
	})
	s.running = slices.DeleteFunc(s.running, func(r slowRun) bool {
		if now+1 < r.start+r.job.duration {
			return false
		}
		s.nodes[r.node].gpus += r.job.gpus
		s.nodes[r.node].cpus += r.job.cpus
		s.done = append(s.done, fmt.Sprintf("%s %d %d %d", r.job.name, r.start, now+1, r.node))
		return true
	})
}

func (s *slowSim) run(jobs []*slowJob, ticks int64) []string {
	for now := range ticks {
		for len(jobs) > 0 && jobs[0].submit <= now {
			s.pending, jobs = append(s.pending, jobs[0]), jobs[1:]
		}
		s.tick(now)
	}
	slices.Sort(s.done)
	return s.done
}

const head = "job_id,gpu_type,num_gpu,num_cpu,submit_time,num_inst,duration,user_dur,group_dur,group_gpu_dur\n"

// randomMachine is a handful of nodes of all kinds, or one big one.
func randomMachine(r *rand.Rand) *machine {
	pick := func(of ...int64) int64 { return of[r.IntN(len(of))] }
	if r.IntN(3) == 0 {
		n := pick(1, 2, 5, 20)
		return &machine{nodes: []node{{gpus: 100 * n, cpus: 100 * int64(math.RoundToEven(cpusPerGPU*float64(n)))}}, first: 1}
	}
	m := &machine{matching: r.IntN(4) > 0}
	for range 2 + r.IntN(6) {
		m.nodes = append(m.nodes, node{gpus: 100 * pick(0, 2, 2, 8), cpus: 100 * pick(8, 64, 96), v100: r.IntN(3) == 0})
	}
	return m
}

func randomTrace(r *rand.Rand) string {
	gangs, span := r.IntN(2) == 0, 1+r.IntN(1+r.IntN(300))
	var b strings.Builder
	b.WriteString(head)
	for id := range 1 + r.IntN(60) {
		instances := 1
		if gangs && r.IntN(3) == 0 {
			instances = 1 + r.IntN(6)
		}
		gpus, cpus := []string{"0", "0.25", "0.5", "1", "1", "2", "8"}[r.IntN(7)], []string{"0", "2", "6", "12.5", "40"}[r.IntN(5)]
		kind := []string{"CPU", "MISC", "T4", "P100", "V100"}[r.IntN(5)]
		fmt.Fprintf(&b, "%d,%s,%s,%s,%d,%d,%d,%d,%d.5,%d\n", (id*37)%101, kind, gpus, cpus, r.IntN(span), instances,
			[]int{0, 1, 2, 5, 30, r.IntN(200)}[r.IntN(6)], r.IntN(20), r.IntN(20), r.IntN(5))
	}
	return b.String()
}

func read(t *testing.T, text, by string) *workload {
	t.Helper()
	table, err := harness.NewTable("trace.csv", text)
	if err != nil {
		t.Fatal(err)
	}
	w, err := readTable(table, by)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// finished lists "job start end node" for every row of a result.
func finished(p Policy, m *machine, w *workload) ([]string, error) {
	r, err := p.run(context.Background(), m, w)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range r.Rows {
		f := strings.Split(string(r.Append(nil, &r.Rows[i])), ",")
		var at int
		fmt.Sscan(f[len(f)-1], &at)
		out = append(out, fmt.Sprintf("%s %s %s %d", f[0], f[2], f[3], at-m.first))
	}
	slices.Sort(out)
	return out, nil
}

// TestDifferential holds every policy against the slow version on small random
// traces: start, end and node of every instance must be equal, and the jobs that
// never end the same.
func TestDifferential(t *testing.T) {
	longtest.Skip(t)
	for _, p := range Policies() {
		t.Run(p.Name, func(t *testing.T) {
			for seed := range uint64(120) {
				r := rand.New(rand.NewPCG(seed, 8))
				m, text := randomMachine(r), randomTrace(r)
				w := read(t, text, p.column)
				w.clip(m)
				slow := &slowSim{matching: m.matching, balance: p.balance}
				for _, n := range m.nodes {
					slow.nodes = append(slow.nodes, slowNode{n.gpus, n.cpus, n.gpus, n.cpus, n.v100})
				}
				var jobs []*slowJob
				last := int64(0)
				for i := range w.facts {
					f := &w.facts[i]
					jobs = append(jobs, &slowJob{
						name: f.name, id: f.id, key: f.key, submit: f.submit, duration: f.duration,
						gpus: int64(f.gpus), cpus: int64(f.cpus), instances: int64(f.instances), v100: f.v100,
					})
					last = max(last, f.submit) + f.duration
				}
				want := slow.run(jobs, last+10)
				got, err := finished(p, m, w)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d:\n got %v\nwant %v\n%s", seed, got, want, text)
				}
			}
		})
	}
}
