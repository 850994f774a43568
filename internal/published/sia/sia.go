// Package sia makes Norn behave like the simulator that was published with Sia
// (Jayaram Subramanya et al., SOSP 2023; siasosp23/artifacts), for its policies Sia, Gavel
// and Pollux. It also behaves like the one published with Pollux (OSDI 2021; petuum/adaptdl,
// branch osdi21-artifact), from which that descends.
//
// Nouns: a task is a job; an application is what it trains, with what was measured of
// that on each GPU type; a round is a number of seconds after which who has what is
// decided anew. Inside a round a task goes from epoch to epoch, each of a whole number
// of seconds, and chooses its batch size anew at each.
//
// Units: seconds; GPU-seconds; examples.
package sia

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/policy/pollux"
)

// Policy is a policy of the simulators.
type Policy struct {
	Name string
	Note string // what is odd about it; empty where nothing is

	of    *quirks
	round int // seconds
	power float64

	meet  bool    // jobs that are spread over nodes may meet on one
	slows float64 // by how much those that do slow each other down
}

// Policies are all policies, in the order in which they are shown.
func Policies() []Policy {
	const random = "another random search, sampled without a seed there"
	pollux := func(name string, of *quirks, round int) Policy {
		return Policy{Name: name, Note: random, of: of, round: round, power: -1}
	}
	all := []Policy{
		{Name: "sia-p-0.5-i60", Note: "ties and fits are decided otherwise", of: &ofAware, round: 60, power: -0.5},
		{Name: "gavel-maxsum-i360", of: &ofGavel, round: 360},
		pollux("pollux-p-1-i300", &ofSia, 300), pollux("pollux-p-1-i60", &ofSia, 60),
	}
	for _, round := range []int{30, 60, 120, 240, 480} {
		all = append(all, pollux(fmt.Sprintf("osdi-pollux-i%d", round), &ofPollux, round))
	}
	for _, power := range []float64{1, -10} {
		p := pollux(fmt.Sprintf("osdi-pollux-p%v", power), &ofPollux, 60)
		p.power = power
		all = append(all, p)
	}
	for _, slows := range []float64{0, 0.25, 0.5} {
		p := pollux(fmt.Sprintf("osdi-pollux-inter%v", 100*slows), &ofPollux, 60)
		p.meet, p.slows = true, slows
		all = append(all, p)
	}
	return all
}

// Find finds a policy.
func Find(name string) (Policy, error) {
	return harness.Find("policy of sia", name, Policies(), func(p *Policy) string { return p.Name })
}

// unnamed is the GPU type whose files bear no name.
const unnamed = "aws"

// pool is the nodes of one GPU type.
type pool struct {
	typ         string
	nodes, gpus int
}

// readCluster reads aws=6x4;dgx-ext=2x8.
func readCluster(name string) (pools []pool, err error) {
	for part := range strings.SplitSeq(name, ";") {
		typ, size, ok := strings.Cut(part, "=")
		nodes, gpus, both := strings.Cut(size, "x")
		n, e1 := strconv.Atoi(nodes)
		g, e2 := strconv.Atoi(gpus)
		if !ok || !both || e1 != nil || e2 != nil || n < 1 || g < 1 || n > 10000 || g > 64 || typ == "" || strings.ContainsAny(typ, `/\.`) {
			return nil, fmt.Errorf("cluster %q: write type=NODESxGPUS, several joined by ;, as in aws=6x4;dgx-ext=2x8", name)
		}
		pools = append(pools, pool{typ, n, g})
	}
	for _, p := range pools {
		if p.gpus%smallest(pools) != 0 {
			return nil, fmt.Errorf("cluster %q: nodes of %d GPUs are no multiple of the smallest", name, p.gpus)
		}
	}
	return pools, nil
}

func smallest(pools []pool) int {
	return slices.MinFunc(pools, func(a, b pool) int { return cmp.Compare(a.gpus, b.gpus) }).gpus
}

// measuredNodes is on how many nodes of a type was measured.
var measuredNodes = map[string]int{"azure": 5, "aws": 16, "dgx": 2, "dgx-ext": 2, "quad": 1, "rtx": 3}

// Options is what a run may be told.
type Options struct {
	Profiles string // folder of what was measured of each application
	Seed     uint64
}

// Check tells what is wrong with the name of a cluster or of a policy.
func Check(cluster, policy string) error {
	if _, err := Find(policy); err != nil {
		return err
	}
	_, err := readCluster(cluster)
	return err
}

// Run runs a policy on a trace and a cluster as the simulator would.
func Run(ctx context.Context, tracePath, clusterName, policyName string, o Options) (*harness.Result, error) {
	p, err := Find(policyName)
	if err != nil {
		return nil, err
	}
	pools, err := readCluster(clusterName)
	if err != nil {
		return nil, err
	}
	tasks, err := readTrace(tracePath, o.Profiles, pools, p.of)
	if err != nil {
		return nil, err
	}
	m := newMachine(p, pools, tasks, o.Seed)
	if err := m.play(ctx); err != nil {
		return nil, err
	}
	return m.result(), nil
}

func newMachine(p Policy, pools []pool, tasks []*task, seed uint64) *machine {
	m := &machine{pools: pools, tasks: tasks, round: p.round, slows: p.slows}
	switch p.of {
	case &ofAware:
		m.policy = newChooser(p, pools)
	case &ofGavel:
		m.policy = newShares(p, pools)
	default:
		m.policy = newSearch(p, pools, seed)
	}
	return m
}

// newSearch makes Pollux.
func newSearch(p Policy, pools []pool, seed uint64) *search {
	s := &search{
		power: p.power, search: pollux.Search{Population: 100, Generations: 100, Full: true}, rng: rand.New(rand.NewPCG(seed, 0x736961)),
		gpus: smallest(pools), most: p.of.largest, quirks: p.of, avoid: !p.meet,
	}
	for _, pool := range pools {
		for n := range pool.nodes {
			for range pool.gpus / s.gpus {
				s.nodes = append(s.nodes, vnode{pool.typ, n})
			}
		}
		if most, ok := measuredNodes[pool.typ]; ok && p.of.capped {
			s.most = min(s.most, pool.gpus*min(most, pool.nodes))
		}
	}
	return s
}

// readTrace reads the jobs of a workload, and what they train.
func readTrace(path, profiles string, pools []pool, q *quirks) ([]*task, error) {
	t, err := harness.OpenTable(path)
	if err != nil {
		return nil, err
	}
	need := []string{"name", "time", "application"}
	if q.aware {
		need = append(need, "num_replicas", "batch_size")
	}
	at, err := t.Need(need...)
	if err != nil {
		return nil, err
	}
	var types []string
	for _, p := range pools {
		types = append(types, p.typ)
	}
	apps := map[string]*application{}
	var tasks []*task
	for {
		more, err := t.Next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		time, err := t.Float(at[1]) // some files write 53.0
		if err != nil {
			return nil, err
		}
		when := int(time)
		if !(time >= 0 && time <= harness.MaxSeconds) || float64(when) != time {
			return nil, t.Bad(at[1], "whole seconds")
		}
		name := t.Field(at[2])
		if apps[name] == nil {
			if apps[name], err = readApplication(profiles, name, types); err != nil {
				return nil, t.Errorf("%v", err)
			}
		}
		var asked [2]int64
		for i, column := range at[3:] {
			if asked[i], err = t.Int(column); err != nil {
				return nil, err
			}
			if asked[i] < 1 || asked[i] > 1<<20 {
				return nil, t.Bad(column, "1 to 1048576")
			}
		}
		tasks = append(tasks, &task{name: t.Field(at[0]), arrives: when, asks: int(asked[0]), target: int(asked[1]), app: apps[name], quirks: q, restarts: -1, end: -1})
	}
	slices.SortStableFunc(tasks, func(a, b *task) int { return cmp.Compare(a.arrives, b.arrives) })
	for i := range tasks {
		tasks[i].id = i
	}
	return tasks, nil
}

// result is the jobs, whose start is not told.
func (m *machine) result() *harness.Result {
	r := &harness.Result{Columns: strings.Split("job_id,submit,start,end,jct,restarts,n_avg", ",")}
	for i, t := range m.tasks {
		r.Rows = append(r.Rows, harness.Row{Key: t.name, Submit: float64(t.arrives), Start: float64(t.arrives), End: float64(t.end), Preempt: -1, Job: int32(i)})
	}
	r.Append = func(dst []byte, row *harness.Row) []byte {
		t := m.tasks[row.Job]
		dst = harness.AppendInts(append(dst, t.name...), int64(t.arrives))
		dst = harness.AppendInts(append(dst, ",None"...), int64(t.end), int64(t.end-t.arrives), int64(t.restarts))
		mean := 0.0
		if t.rounds > 0 {
			mean = float64(t.rivals) / float64(t.rounds)
		}
		return strconv.AppendFloat(append(dst, ','), mean, 'f', 4, 64)
	}
	return r
}

// seconds is a time of the engine.
func seconds(n int) time.Duration { return harness.Seconds(int64(n)) }
