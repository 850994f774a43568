package sia

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/perf"
	policies "github.com/norn-scheduler/norn/policy/sia"
)

// chooser is Sia as the simulator has it.
type chooser struct {
	objective policies.Objective
	pools     []pool
	kinds     []policies.Kind
	options   []policies.Option
	now       map[int]int // option of each job that has one
}

// newChooser makes Sia. A job is on no more nodes than were measured, and on 64 GPUs.
func newChooser(p Policy, pools []pool) *chooser {
	c := &chooser{objective: policies.Objective{Power: p.power, Price: 1.1, Round: true}, pools: pools, now: map[int]int{}}
	for i, pool := range pools {
		k := policies.Kind{Nodes: pool.nodes, GPUs: pool.gpus}
		if most, ok := measuredNodes[pool.typ]; ok {
			k.Nodes = min(most, k.Nodes)
		}
		c.kinds = append(c.kinds, k)
		for _, o := range k.Options(i) {
			if o.GPUs <= 64 {
				c.options = append(c.options, o)
			}
		}
	}
	return c
}

// penalty is what Sia takes a restart to cost, in seconds, which is not what it costs.
var penalty = map[string]float64{"deepspeech2": 25, "imagenet": 250, "cifar10": 30, "bert": 120, "yolov3": 45}

// decide implements planner. Jobs that are being restarted keep what they have.
func (c *chooser) decide(now int, active []*task) map[int]grant {
	capacity := make([]int64, len(c.pools))
	for k, p := range c.pools {
		capacity[k] = int64(p.nodes * p.gpus)
	}
	var rows []policies.Row
	var of []*task
	for _, t := range active {
		if at, ok := c.now[t.id]; ok && t.pause > 0 {
			capacity[c.options[at].Kind] -= int64(c.options[at].GPUs)
			continue
		}
		rows, of = append(rows, c.row(now, t)), append(of, t)
	}
	best, err := c.objective.Choose(capacity, rows)
	if err != nil {
		panic(err) // values are bounded, and nobody holds more than there is
	}
	for i, pick := range best.Pick {
		if delete(c.now, of[i].id); pick != policies.None {
			c.now[of[i].id] = pick
		}
	}
	return c.place(active)
}

// row is the options of a task: all that there are, most of which may be worth nothing.
func (c *chooser) row(now int, t *task) policies.Row {
	r := policies.Row{Options: slices.Clone(c.options), Now: policies.None, Factor: 1}
	if at, ok := c.now[t.id]; ok {
		delay, known := penalty[t.app.name]
		if !known {
			delay = 30
		}
		r.Now, r.Factor = at, policies.RestartFactor(float64(now-t.arrives), max(0, t.restarts), delay)
	}
	most := 1
	for _, p := range c.pools {
		s := t.speedsOf(p.typ)
		most = max(most, min(64, max(1, 2*t.fit(p.typ).largest), t.app.most()/s.localMin))
	}
	for i := range r.Options {
		o := &r.Options[i]
		if from := c.known(t, o.Kind); o.GPUs > most {
			o.Value = 0
		} else if from >= 0 {
			o.Value = c.value(t, o, from)
		} else if o.GPUs == 1 {
			o.Value = policies.Unknown
		}
	}
	r.Normalise(1)
	return r
}

// known is the pool whose measurements tell of a task on another one: itself, or else the
// first on which the task was measured; -1: none.
func (c *chooser) known(t *task, kind int) int {
	if t.fit(c.pools[kind].typ).fitted {
		return kind
	}
	return slices.IndexFunc(c.pools, func(p pool) bool { return t.fit(p.typ).fitted })
}

// value is the goodput of a task on an option, by measurements on a pool.
func (c *chooser) value(t *task, o *policies.Option, from int) float64 {
	p := c.pools[from]
	if from == o.Kind {
		return t.believed(p.typ, o.GPUs, o.Nodes > 1)
	}
	ratio := policies.Carry(t.speedsOf(c.pools[o.Kind].typ).rate, t.speedsOf(p.typ).rate)
	return ratio * t.believed(p.typ, o.GPUs, o.GPUs > p.gpus)
}

// believed is the goodput that Sia believes a task to have, with batches up to the one
// that its user asked for. It runs with larger ones.
func (t *task) believed(on string, replicas int, spread bool) float64 {
	most := t.speedsOf(on).localMost
	if t.app.name == "deepspeech2" && on == "rtx" {
		most = 57
	}
	g := t.goodput(on, most)
	if g.Batches.Most = t.target; t.app.name == "ncf" {
		g.Batches.Most = 32768
	}
	if least := g.Batches.LocalMin; max(g.Batches.First, least*replicas) > g.Batches.Most {
		return g.With(replicas, spread, perf.Batch{Local: least})
	}
	_, value := g.Best(replicas, spread)
	return value
}

// place finds nodes for all, as if nobody had any: the largest first, from the first node
// on. How many are on each node does not depend on who was where.
func (c *chooser) place(active []*task) map[int]grant {
	var order []*task
	for _, t := range active {
		if _, ok := c.now[t.id]; ok {
			order = append(order, t)
		}
	}
	slices.SortStableFunc(order, func(a, b *task) int {
		return cmp.Compare(c.options[c.now[b.id]].GPUs, c.options[c.now[a.id]].GPUs)
	})
	free := make([][]int, len(c.pools))
	for k, p := range c.pools {
		free[k] = slices.Repeat([]int{p.gpus}, p.nodes)
	}
	out := map[int]grant{}
	for _, t := range order {
		o := c.options[c.now[t.id]]
		g := grant{on: c.pools[o.Kind].typ}
		each := min(o.GPUs, c.pools[o.Kind].gpus)
		for n := range free[o.Kind] {
			if len(g.nodes) < o.GPUs && free[o.Kind][n] >= each {
				free[o.Kind][n] -= each
				g.nodes = append(g.nodes, slices.Repeat([]int{n}, each)...)
			}
		}
		out[t.id] = g
	}
	return out
}
