// Package gandivafair gives every user her share of the GPUs at all times, whatever
// her jobs are like: a stride scheduler over tickets that knows of gangs. Where
// there are several generations of GPUs, users trade what they are entitled to.
//
// Nouns:
//   - A user is a tenant of the cluster, or the user of a job.
//   - Her tickets are the tenant's weight.
//   - Her entitlement is GPUs of each generation (GPU type).
//   - The tickets of a job are the part of her tickets that falls to it.
//   - Its pass is the virtual time of the stride scheduler, in quanta.
//   - A quantum is the time between decisions.
//
// Source: Chaudhary, Ramjee, Sivathanu, Kwatra, Viswanatha, "Balancing Efficiency
// and Fairness in Heterogeneous GPU Clusters for Deep Learning", EuroSys 2020, as
// later papers tell of it: no text or code of its authors was at hand. The page of
// this policy says what is not theirs.
package gandivafair

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Split is how a user's tickets are divided among her jobs.
type Split uint8

// The ways to split tickets.
const (
	PerGPU Split = iota // by size, so that all her jobs get on at one rate
	PerJob              // evenly
)

// By is who a user is.
type By uint8

// The meanings of user.
const (
	Tenant By = iota
	User
)

// Config is the settings of the policy.
type Config struct {
	Quantum time.Duration
	Split   Split
	By      By
	Trade   bool
	Margin  float64
	Profile bool
	Balance bool
	Place   place.Strategy
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Quantum: time.Minute, Trade: true, Margin: 0.05, Profile: true, Balance: true, Place: place.Pack}
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("quantum", &c.Quantum, "how often it is decided anew who runs"),
		param.Choice("split", &c.Split, []param.Option[Split]{{Name: "gpu", Value: PerGPU}, {Name: "job", Value: PerJob}},
			"a user's tickets are divided among her jobs by size, or evenly"),
		param.Choice("by", &c.By, []param.Option[By]{{Name: "tenant", Value: Tenant}, {Name: "user", Value: User}},
			"who has tickets: tenants by their weights, or the users of jobs, one each"),
		param.Bool("trade", &c.Trade, "users trade GPUs of fast generations for more of slow ones"),
		param.Float("margin", &c.Margin, 0, math.Inf(1), "share", "gain below which nobody trades"),
		param.Bool("profile", &c.Profile, "speeds are those at which jobs ran on each generation, on which each is tried once; false: those that are believed"),
		param.Bool("balance", &c.Balance, "a gang that a node can hold lives on one, where it takes turns, and moves so that tickets are even; false: all of a generation take turns together"),
		place.Param(&c.Place),
	}
}

// Needs says what the policy lives on.
func (c *Config) Needs() need.List {
	return need.List(nil).
		If(c.By == Tenant, need.Of(need.Tenants), "it is fair between jobs alone").
		If(c.By == User, need.Of(need.Users), "it is fair between jobs alone").
		If(c.Trade, need.Of(need.Types), "it acts as gandiva_fair(trade=false)")
}

// Policy makes the policy.
func (c *Config) Policy() (sched.Policy, error) {
	if c.Quantum <= 0 {
		return nil, errors.New("quantum must be above 0")
	}
	g := &policy{cfg: *c}
	g.Grid, g.Place, g.Rule = rounds.Grid(c.Quantum), c.Place, g
	if c.Balance {
		g.Site = func(id job.ID) []cluster.NodeID { return g.servers.sites[id] }
	}
	return g, nil
}

type policy struct {
	rounds.Policy
	cfg     Config
	jobs    []member // all that are active and may run, by number
	users   []user
	servers servers
}

// member is a job in the stride scheduler.
type member struct {
	Member
	job  sched.Job
	user int
	on   cluster.TypeID // the generation on which it has its tickets
	home cluster.NodeID // on which it lives; None: on none
	note note
}

// user is who has tickets.
type user struct {
	Trader
	name string
	jobs []int // places in policy.jobs
	gpus float64
}

// Serve implements rounds.Rule.
func (g *policy) Serve(r *rounds.Round) {
	g.gather(r)
	if err := g.entitle(r); err != nil {
		r.Plan.Invalidate(err)
		return
	}
	for i := range g.users {
		g.settle(r, &g.users[i])
	}
	g.charge(r)
	order := make([]*member, 0, len(g.jobs))
	for _, j := range r.Jobs {
		i, _ := slices.BinarySearchFunc(g.jobs, j.ID, func(m member, id job.ID) int { return cmp.Compare(m.job.ID, id) })
		order = append(order, &g.jobs[i])
	}
	slices.SortFunc(order, func(a, b *member) int {
		if c := a.Before(b.Member); c != 0 {
			return c
		}
		return cmp.Compare(a.job.ID, b.job.ID)
	})
	if g.cfg.Balance {
		g.servers.open(r)
		g.servers.settle(g.jobs)
		if r.Begins && r.Number%balanceEvery == 0 {
			g.servers.balance(g.jobs)
		}
		g.servers.serve(order)
	} else {
		together(r, order)
	}
	g.remember(r)
}

// together serves all gangs of a generation in one order, wherever they are.
func together(r *rounds.Round, order []*member) {
	for _, m := range order {
		r.Serve(m.job, m.on)
	}
	for _, m := range order { // no GPU stands idle that anybody can use
		for _, t := range r.Types {
			if !r.Served(m.job.ID) && r.Speed(m.job, t) > 0 {
				r.Serve(m.job, t)
			}
		}
	}
}

// gather lists the jobs, running ones too where they are not to be served now,
// and their users, in the order in which users came.
func (g *policy) gather(r *rounds.Round) {
	v := r.View
	g.jobs, g.users = g.jobs[:0], g.users[:0]
	for _, j := range r.Jobs {
		g.jobs = append(g.jobs, member{job: j})
	}
	for j := range v.Running() {
		i, found := slices.BinarySearchFunc(g.jobs, j.ID, func(m member, id job.ID) int { return cmp.Compare(m.job.ID, id) })
		if !found && r.Need(j) > 0 {
			g.jobs = slices.Insert(g.jobs, i, member{job: j})
		}
	}
	of := map[string]int{}
	for i := range g.jobs {
		m := &g.jobs[i]
		m.home = cluster.None
		m.note, _ = sched.Recall[note](m.job)
		g.measure(r, m)
		m.GPUs = float64(r.Need(m.job)) / 1000
		name, tickets := m.job.Spec().User, 1.0
		if g.cfg.By == Tenant {
			t := v.Tenants().At(m.job.Tenant())
			name, tickets = t.Name, t.Weight
		}
		u, known := of[name]
		if !known {
			u = len(g.users)
			of[name] = u
			g.users = append(g.users, user{name: name, Trader: Trader{Tickets: tickets}})
		}
		m.user = u
		g.users[u].jobs = append(g.users[u].jobs, i)
		g.users[u].gpus += m.GPUs
	}
}

// entitle finds what each user is entitled to, and lets them trade.
func (g *policy) entitle(r *rounds.Round) error {
	types := r.View.Cluster().Types()
	traders := make([]Trader, len(g.users))
	for i := range g.users {
		u := &g.users[i]
		u.Demand, u.Speed = make([]float64, types), make([]float64, types)
		for _, k := range u.jobs {
			m := &g.jobs[k]
			for _, t := range r.Types {
				if r.Speed(m.job, t) > 0 {
					u.Demand[t] += m.GPUs
				}
			}
		}
		g.average(r, u)
		traders[i] = u.Trader
	}
	gpus := make([]float64, types)
	for _, t := range r.Types {
		gpus[t] = float64(r.View.TotalOf(1 << t))
	}
	if err := Entitle(gpus, traders); err != nil {
		return err
	}
	if g.cfg.Trade && len(r.Types) > 1 {
		Trade(traders, generations(r.View.Cluster(), r.Types), g.cfg.Margin)
	}
	for i := range traders {
		g.users[i].Trader = traders[i]
	}
	return nil
}

// average finds how fast the jobs of a user are on each generation: those of which that is
// known everywhere. A user of whose jobs nothing is known does not trade.
func (g *policy) average(r *rounds.Round, u *user) {
	sizes := make([]float64, len(u.Speed))
	for _, k := range u.jobs {
		m := &g.jobs[k]
		if slices.ContainsFunc(r.Types, func(t cluster.TypeID) bool { return r.Speed(m.job, t) > 0 && g.speed(r, m, t) == 0 }) {
			continue
		}
		for _, t := range r.Types {
			if s := g.speed(r, m, t); s > 0 {
				u.Speed[t] += m.GPUs * s
				sizes[t] += m.GPUs
			}
		}
	}
	for t, n := range sizes {
		if n > 0 {
			u.Speed[t] /= n
		}
	}
}

// speed is how fast a job is on a generation: as it was measured or is believed to be; 0 if
// it cannot run there or that is not known.
func (g *policy) speed(r *rounds.Round, m *member, t cluster.TypeID) float64 {
	s := r.Speed(m.job, t)
	if !g.cfg.Profile || s == 0 {
		return s
	}
	if int(t) < len(m.note.rates) {
		return m.note.rates[t]
	}
	return 0
}

// measure notes how fast a job runs on the generation on which it is.
func (g *policy) measure(r *rounds.Round, m *member) {
	t, ok := r.TypeOf(m.job)
	if !g.cfg.Profile || !ok || m.job.Ready() >= r.View.Now || !(m.job.Speed() > 0) || m.job.Profiling() {
		return
	}
	if types := r.View.Cluster().Types(); len(m.note.rates) != types {
		m.note.rates = make([]float64, types)
	} else {
		m.note.rates = slices.Clone(m.note.rates)
	}
	m.note.rates[t] = m.job.Speed()
}

// untried is the first generation on which a job that has run elsewhere is still to be
// measured, and of which its user has a share.
func (g *policy) untried(r *rounds.Round, m *member, order []int) (cluster.TypeID, bool) {
	if !g.cfg.Profile || len(m.note.rates) == 0 {
		return 0, false
	}
	for _, t := range order {
		t := cluster.TypeID(t)
		if g.users[m.user].Has[t] > trifle && r.Speed(m.job, t) > 0 && g.speed(r, m, t) == 0 {
			return t, true
		}
	}
	return 0, false
}

// generations are GPU types, the fastest first.
func generations(c *cluster.Cluster, types []cluster.TypeID) []int {
	out := make([]int, len(types))
	for i, t := range types {
		out[i] = int(t)
	}
	slices.SortStableFunc(out, func(a, b int) int {
		return cmp.Compare(c.Type(cluster.TypeID(b)).Speed, c.Type(cluster.TypeID(a)).Speed)
	})
	return out
}

// settle divides what a user is entitled to among her jobs: each is on one
// generation, those that gain most from a fast one there, so that the demand on
// each is as her entitlement is.
func (g *policy) settle(r *rounds.Round, u *user) {
	order := generations(r.View.Cluster(), r.Types)
	if len(order) == 0 {
		return
	}
	fast, slow := cluster.TypeID(order[0]), cluster.TypeID(order[len(order)-1])
	jobs := slices.Clone(u.jobs)
	gain := func(i int) float64 {
		f, s := g.speed(r, &g.jobs[i], fast), g.speed(r, &g.jobs[i], slow)
		if g.cfg.Profile && (f == 0 || s == 0) && r.Speed(g.jobs[i].job, fast) > 0 && r.Speed(g.jobs[i].job, slow) > 0 {
			f, s = u.Speed[fast], u.Speed[slow] // as her other jobs are, if they are known
			if f == 0 || s == 0 {
				f, s = 1, 1
			}
		}
		t := Trader{Speed: []float64{f, s}}
		return t.gain(0, 1)
	}
	if len(order) > 1 {
		slices.SortStableFunc(jobs, func(a, b int) int { return cmp.Compare(gain(b), gain(a)) })
	}
	all := 0.0
	for _, t := range order {
		all += u.Has[t]
	}
	room := make([]float64, len(u.Has)) // of the user's demand, what belongs on each
	for _, t := range order {
		if all > 0 {
			room[t] = u.gpus * u.Has[t] / all
		}
	}
	on := make([]float64, len(u.Has))
	count := make([]float64, len(u.Has))
	for _, i := range jobs {
		m := &g.jobs[i]
		if t, ok := g.untried(r, m, order); ok {
			m.on = t
		} else {
			m.on = g.generation(r, m.job, order, room)
		}
		room[m.on] -= m.GPUs
		on[m.on] += m.GPUs
		count[m.on]++
	}
	for _, i := range jobs {
		m := &g.jobs[i]
		part := m.GPUs / on[m.on]
		if g.cfg.Split == PerJob {
			part = 1 / count[m.on]
		}
		m.Tickets = max(u.Has[m.on], 1e-3) * part
	}
}

// generation is the first one on which a user's next job belongs: one with room,
// or else the one with most room.
func (g *policy) generation(r *rounds.Round, j sched.Job, order []int, room []float64) cluster.TypeID {
	best := -1
	for _, t := range order {
		if r.Speed(j, cluster.TypeID(t)) <= 0 {
			continue
		}
		if room[t] > trifle {
			return cluster.TypeID(t)
		}
		if best < 0 || room[t] > room[best] {
			best = t
		}
	}
	return cluster.TypeID(max(best, 0))
}

// charge brings the passes up to date: that of a job that has run goes on, that of
// one that has come begins where the least of the others is.
func (g *policy) charge(r *rounds.Round) {
	least := math.Inf(1)
	for i := range g.jobs {
		m := &g.jobs[i]
		if m.note.known {
			m.Pass = m.note.pass
			if m.Tickets > 0 { // else no GPU works; what it held is charged when one does
				m.Charge((m.job.Service() - m.note.service) / m.GPUs / r.Length.Seconds())
			}
			least = min(least, m.Pass)
		}
	}
	if math.IsInf(least, 1) {
		least = 0
	}
	for i := range g.jobs {
		if m := &g.jobs[i]; !m.note.known {
			m.Pass = least
		}
	}
}

// remember writes on the jobs, where a round begins, what is to be known of them in the next.
func (g *policy) remember(r *rounds.Round) {
	for i := range g.jobs {
		if m := &g.jobs[i]; r.Begins && m.Tickets > 0 {
			n := m.note
			n.known, n.pass, n.service, n.home = true, m.Pass, m.job.Service(), m.home
			r.Plan.Remember(m.job.ID, &n)
		}
	}
}

// note is what is remembered of a job.
type note struct {
	known   bool           // it is a note at all, even where all else is zero
	pass    float64        // of its stride
	service float64        // GPU-seconds that it had held when that was its pass
	home    cluster.NodeID // on which it lives; None: on none
	moved   int64          // the number of the round in which it moved there; 0: it has not moved
	rates   []float64      // by GPU type: its speed there; 0: not measured
}

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "gandiva_fair" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	f.Bool("known", &n.known)
	f.Float("pass", &n.pass)
	f.Float("service", &n.service)
	f.Node("home", &n.home)
	sched.Int(f, "moved", &n.moved)
	f.Floats("rates", &n.rates)
}
