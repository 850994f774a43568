package sched_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// fatal is what testing.T and rapid.T have in common.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// table is a state in which a plan can be made.
type table struct {
	t    fatal
	s    *state.State
	view sched.View
	plan sched.Plan
}

// newTable is a cluster of nodes with the given numbers of GPUs.
func newTable(t fatal, nodes ...int) *table {
	t.Helper()
	c := cluster.New()
	typ, _ := c.AddType(cluster.GPUType{Name: "V100"})
	for _, g := range nodes {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: g}}}); err != nil {
			t.Fatal(err)
		}
	}
	return &table{t: t, s: state.New(c, tenant.NewTree(0))}
}

// submit makes a job known: its key is j and its number.
func (b *table) submit(d job.Demand, estimate time.Duration, change ...func(*job.Job)) job.ID {
	b.t.Helper()
	id := job.ID(b.s.Jobs())
	j := &job.Job{ID: id, Key: fmt.Sprint("j", id), Demand: &d, Submit: b.s.Now}
	for _, f := range change {
		f(j)
	}
	if err := b.s.Submit(j, estimate); err != nil {
		b.t.Fatal(err)
	}
	return id
}

// run starts a job at once, outside any plan.
func (b *table) run(id job.ID, where place.Strategy) {
	b.t.Helper()
	r := place.Request{Cluster: b.s.Cluster, Demand: b.s.Record(id).Job.Demand, Tasks: b.s.Record(id).Job.Demand.Roles[0].Tasks}
	if why, ok := where.Place(&r); !ok {
		b.t.Fatalf("job %d does not fit: %v", id, why)
	}
	if err := b.s.Begin(id, &r.Out, 0); err != nil {
		b.t.Fatal(err)
	}
}

func (b *table) open() *sched.Plan {
	b.view = sched.NewView(b.s, nil, false)
	b.view.Rand, b.view.Costs = rand.New(rand.NewPCG(1, 1)), &perf.Costs{}
	b.plan.Open(&b.view)
	return &b.plan
}

// ledger is what is left of every device.
func (b *table) ledger() string {
	var out strings.Builder
	c := b.s.Cluster
	for d := range cluster.DeviceID(c.Devices()) {
		fmt.Fprint(&out, c.DeviceFree(d), "/", c.Sharers(d), " ")
	}
	return out.String()
}

// planned is all that a plan says so far.
func planned(p *sched.Plan, b *table) string {
	return p.All() + b.ledger() + onDevices(p, b)
}

var because = job.Reason{Code: job.Because, Text: "test", Job: job.None}

// badPlan is a set of calls that make no sense, with the error that they cause.
type badPlan struct {
	name string
	do   func(p *sched.Plan)
	want string
}

// badPlans are for a table with six jobs. Job j0 runs on both GPUs of n0, j1
// waits for two, and j2 is pinned on a GPU of n1. Job j3 is elastic and waits,
// j4 has ended, and j5 has two roles and waits.
func badPlans() []badPlan {
	on := func(node cluster.NodeID, tasks int32, devices ...cluster.DeviceID) *cluster.Alloc {
		a := &cluster.Alloc{Pieces: []cluster.Piece{{Node: node, Tasks: tasks, Shares: int32(len(devices))}}}
		for _, d := range devices {
			a.Shares = append(a.Shares, cluster.Share{Device: d, Milli: 1000})
		}
		return a
	}
	return []badPlan{
		{"start a running job", func(p *sched.Plan) { p.Start(0, place.Pack) }, "job j0: cannot start it: it holds devices already"},
		{"start a job twice", func(p *sched.Plan) { p.Start(3, place.Pack); p.Start(3, place.Pack) }, "job j3: cannot start it: it holds devices already"},
		{"start an ended job", func(p *sched.Plan) { p.Start(4, place.Pack) }, "job j4: cannot start it: it is done"},
		{"start nobody", func(p *sched.Plan) { p.Start(9, place.Pack) }, "cannot start job number 9: there is no such job"},
		{"start a negative job", func(p *sched.Plan) { p.Start(job.None, place.Pack) }, "cannot start job number -1: there is no such job"},
		{"stop a waiting job", func(p *sched.Plan) { p.Stop(1, because) }, "job j1: cannot stop it: it holds nothing"},
		{"stop a job twice", func(p *sched.Plan) { p.Stop(0, because); p.Stop(0, because) }, "job j0: cannot stop it: it holds nothing"},
		{"stop a pinned job", func(p *sched.Plan) { p.Stop(2, because) }, "job j2: cannot stop it: it must never be stopped"},
		{"stop nobody", func(p *sched.Plan) { p.Stop(9, because) }, "cannot stop job number 9"},
		{"move nobody", func(p *sched.Plan) { p.Move(9, place.Pack) }, "cannot move job number 9"},
		{"move a waiting job", func(p *sched.Plan) { p.Move(1, place.Pack) }, "job j1: cannot move it: it holds nothing"},
		{"resize nobody", func(p *sched.Plan) { p.Resize(9, 1, place.Pack) }, "cannot resize job number 9"},
		{"resize a waiting job", func(p *sched.Plan) { p.Resize(3, 1, place.Pack) }, "job j3: cannot resize it: it holds nothing"},
		{"resize a rigid job", func(p *sched.Plan) { p.Resize(0, 1, place.Pack) }, "job j0: cannot resize it: it is a gang of 2 tasks, not 1"},
		{"half a gang", func(p *sched.Plan) { p.StartSize(1, 1, place.Pack) }, "job j1: cannot start it: it is a gang of 2 tasks, not 1"},
		{"too many tasks", func(p *sched.Plan) { p.StartSize(3, 4, place.Pack) }, "job j3: cannot start it: it is a gang of 1 to 3 tasks, not 4"},
		{"no tasks", func(p *sched.Plan) { p.StartSize(3, 0, place.Pack) }, "job j3: cannot start it: it is a gang of 1 to 3 tasks, not 0"},
		{"half a gang on devices", func(p *sched.Plan) { p.StartOn(1, on(1, 1, 3)) }, "job j1: cannot start it: it is a gang of 2 tasks, not 1"},
		{"a gang without a role", func(p *sched.Plan) { p.StartOn(5, on(1, 1, 3)) }, `job j5: cannot start it: it has 1 tasks of role "ps", not 0`},
		{"busy devices", func(p *sched.Plan) { p.StartOn(1, on(0, 2, 0, 1)) }, "job j1: cannot start it: it does not fit: GPU 0 of node n0 has 0 of a GPU free, 1 is needed"},
		{"devices of another node", func(p *sched.Plan) { p.StartOn(1, on(0, 2, 2, 3)) }, "job j1: cannot start it: it does not fit: device 2 is not in node n0"},
		{"adjust nobody", func(p *sched.Plan) { p.Adjust(9, nil) }, "cannot adjust job number 9"},
		{"adjust a waiting job", func(p *sched.Plan) { p.Adjust(1, nil) }, "job j1: cannot adjust it: it holds nothing"},
		{"adjust to other devices", func(p *sched.Plan) { p.Adjust(0, func(a *cluster.Alloc) { a.Shares[0].Device = 3 }) }, "job j0: cannot adjust it: it would leave its devices"},
		{"hold nobody", func(p *sched.Plan) { p.Wait(9, because) }, "cannot hold job number 9"},
		{"remember nobody", func(p *sched.Plan) { p.Remember(-5, &remark{}) }, "cannot remember job number -5"},
		{"ask about nobody", func(p *sched.Plan) { p.Fits(9, place.Pack) }, "cannot place job number 9"},
		{"expect nobody", func(p *sched.Plan) { p.Expect(9, place.Pack) }, "cannot place job number 9"},
		{"never nobody", func(p *sched.Plan) { p.Never(9, place.Pack) }, "cannot place job number 9"},
		{"an error of its own", func(p *sched.Plan) { p.Invalidate(errors.New("I give up")); p.Start(9, place.Pack) }, "I give up"},
	}
}

// TestBadPlans: a call that makes no sense makes the whole plan invalid, with
// an error that names the job. The ledger stays as it was.
func TestBadPlans(t *testing.T) {
	elastic := job.GPUs(2)
	elastic.Roles[0].Min, elastic.Roles[0].Max = 1, 3
	roles := job.GPUs(1)
	roles.Roles[1] = job.Role{Name: "ps", Tasks: 1, CPU: 1000}
	for _, c := range badPlans() {
		b := newTable(t, 2, 5)
		for i, d := range []job.Demand{job.GPUs(2), job.GPUs(2), job.GPUs(1), elastic, job.GPUs(1), roles} {
			b.submit(d, -1, func(j *job.Job) {
				if i == 2 {
					j.Stop = job.Pinned
				}
			})
		}
		b.run(0, place.BestFit)
		b.run(2, place.Pack)
		b.run(4, place.Pack)
		if err := b.s.Finish(4, job.Done); err != nil {
			t.Fatal(err)
		}
		before := b.ledger()
		p := b.open()
		p.Start(1, place.Pack) // something sensible, taken back with the rest
		if strings.Contains(c.want, "j1") {
			p.Discard()
			p = b.open()
		}
		c.do(p)
		err := p.Commit()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if after := b.ledger(); after != before || len(p.Waits())+len(p.Notes()) > 0 {
			t.Errorf("%s: the ledger is %s, it was %s", c.name, after, before)
		}
		if err := b.s.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		// The next plan is not made invalid by this one.
		p = b.open()
		if !p.Start(3, place.Pack) || p.Commit() != nil {
			t.Errorf("%s: the next plan is invalid too", c.name)
		}
	}
}

// TestMoveBeforeStart: a job that waits for others to leave its devices cannot be
// given other ones.
func TestMoveBeforeStart(t *testing.T) {
	b := newTable(t, 2, 2)
	id := b.submit(job.GPUs(1), -1)
	r := place.Request{Cluster: b.s.Cluster, Demand: b.s.Record(id).Job.Demand, Tasks: 1}
	place.Pack.Place(&r)
	if err := b.s.Assign(id, &r.Out); err != nil {
		t.Fatal(err)
	}
	blocker := b.submit(job.GPUs(1), -1)
	p := b.open()
	p.Start(blocker, place.FirstFit)
	if p.Move(id, place.WorstFit) {
		t.Error("it was moved")
	}
	if err := p.Commit(); err == nil || err.Error() != "job j0: cannot move it: it waits for others to leave its devices" {
		t.Errorf("the error is %v", err)
	}
}

// TestTry: everything planned inside a Try that fails is taken back exactly, at
// any depth. Everything planned around it stays.
func TestTry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newTable(t, 2, 3, 4)
		elastic := job.GPUs(2)
		elastic.Roles[0].Min, elastic.Roles[0].Max = 1, 4
		for i := range 10 {
			d := job.GPUs(rapid.IntRange(1, 4).Draw(t, "gpus"))
			if i%3 == 0 {
				d = elastic
			}
			id := b.submit(d, -1, func(j *job.Job) {
				j.Backbone = "bert"
				if i%2 == 0 {
					j.Stop = job.Freeze
				}
			})
			if f := (place.Request{Cluster: b.s.Cluster, Demand: &d, Tasks: d.Roles[0].Tasks}); i < 4 {
				if _, ok := place.Pack.Place(&f); ok {
					b.run(id, place.Pack)
				}
			}
		}
		b.s.Now = time.Second
		for id := range job.ID(2) { // the first of them is frozen where it was
			if b.s.Record(id).Phase == job.Running {
				if err := b.s.Preempt(id, time.Second, true, because); err != nil {
					t.Fatal(err)
				}
			}
		}
		p := b.open()
		before := b.ledger()
		randomPlan(t, b, p, 0)
		if p.Err() != nil {
			t.Fatal(p.Err())
		}
		if rapid.Bool().Draw(t, "discard") {
			p.Discard()
			if after := b.ledger(); after != before {
				t.Fatalf("after Discard the ledger is %s, it was %s", after, before)
			}
			return
		}
		want := b.ledger()
		if err := p.Commit(); err != nil || b.ledger() != want {
			t.Fatalf("Commit: %v, the ledger is %s, was planned as %s", err, b.ledger(), want)
		}
	})
}

// randomPlan makes random sensible calls, with nested Tries among them.
func randomPlan(t *rapid.T, b *table, p *sched.Plan, depth int) {
	for range rapid.IntRange(1, 5).Draw(t, "calls") {
		id := job.ID(rapid.IntRange(0, b.s.Jobs()-1).Draw(t, "job"))
		where := place.All()[rapid.IntRange(0, len(place.All())-1).Draw(t, "where")]
		tasks := rapid.IntRange(1, 4).Draw(t, "tasks")
		elastic := b.s.Record(id).Job.Demand.Elastic()
		held := p.Alloc(id)
		switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
		case what < 2 && held == nil:
			if p.Start(id, where) != (p.Alloc(id) != nil) {
				t.Fatal("Start lied")
			}
		case what < 2:
			p.Stop(id, because)
		case what == 2 && held != nil && elastic:
			was := held.Tasks(0)
			if done := p.Resize(id, tasks, where); !done && p.Alloc(id).Tasks(0) != was || done && p.Alloc(id).Tasks(0) != tasks {
				t.Fatal("Resize lied")
			}
		case what == 3 && held != nil:
			p.Move(id, where)
		case what == 4:
			p.Wait(id, because)
			p.Remember(id, &remark{tasks: tasks})
		case what == 5 && held == nil:
			if on, ok := found(b, id, where); ok { // goes on where it is frozen
				rapid.SampledFrom([]func(job.ID, *cluster.Alloc) bool{p.StartOn, p.Profile}).Draw(t, "start on")(id, on)
			}
		case what == 6 && held != nil:
			p.Adjust(id, func(a *cluster.Alloc) { a.Shares[0].Milli = int32(tasks) * 250 })
		case what == 7:
			p.Merge(id, (id+1)%job.ID(b.s.Jobs()), job.Together)
		case what > 7 && depth < 3:
			before := planned(p, b)
			keep := rapid.Bool().Draw(t, "keep")
			inside := ""
			got := p.Try(func() bool {
				randomPlan(t, b, p, depth+1)
				inside = planned(p, b)
				return keep
			})
			switch after := planned(p, b); {
			case got != keep:
				t.Fatal("Try lied")
			case !keep && after != before:
				t.Fatalf("after a Try that failed the plan is\n%s, it was\n%s", after, before)
			case keep && after != inside:
				t.Fatalf("after a Try that holds the plan is\n%s, inside it was\n%s", after, inside)
			}
		}
	}
}

// found is where a strategy would start a job as the plan stands.
func found(b *table, id job.ID, where place.Strategy) (*cluster.Alloc, bool) {
	d := b.s.Record(id).Job.Demand
	r := place.Request{Cluster: b.s.Cluster, Demand: d, Tasks: d.Roles[0].Tasks, Rand: b.view.Rand}
	_, ok := where.Place(&r)
	return &r.Out, ok
}

// end is the moment at which a job is expected to leave, and its devices.
type end struct {
	at time.Duration
	on cluster.Alloc
}

// bruteForce sets up a new cluster for every moment at which a job ends, or at which what is booked becomes
// free, with the jobs that are left, and asks the strategy. No device is there that is booked for a time at
// which the job would run.
func bruteForce(t fatal, sizes []int, now time.Duration, ends []end, booked []sched.Booking, d *job.Demand, left time.Duration, where place.Strategy) (at time.Duration, on cluster.Alloc, ok bool) {
	moments := []time.Duration{now}
	for _, e := range ends {
		moments = append(moments, e.at)
	}
	for _, b := range booked {
		moments = append(moments, b.To)
	}
	slices.Sort(moments)
	for i, m := range moments {
		if m == unit.Never {
			break
		}
		twin := newTable(t, sizes...)
		for _, e := range ends {
			if e.at > m || i == 0 { // at the present moment no job has left yet
				if err := twin.s.Cluster.Allocate(&e.on); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, b := range booked {
			for _, s := range b.On.Shares {
				if b.From < unit.Later(m, left) && b.To > m && twin.s.Cluster.DeviceFree(s.Device) > 0 {
					one := cluster.Alloc{Pieces: []cluster.Piece{{Node: twin.s.Cluster.NodeOf(s.Device), Shares: 1}}, Shares: []cluster.Share{s}}
					if err := twin.s.Cluster.Allocate(&one); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		r := place.Request{Cluster: twin.s.Cluster, Demand: d, Tasks: d.Roles[0].Tasks}
		if _, ok := where.Place(&r); ok {
			return m, r.Out, true
		}
	}
	return unit.Never, on, false
}

// TestExpectAgainstBruteForce compares Expect with bruteForce on random
// clusters, with bookings and without.
func TestExpectAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "nodes")
		b := newTable(t, sizes...)
		b.s.Now = 100 * time.Second
		var ends []end
		for range rapid.IntRange(0, 8).Draw(t, "running") {
			d := job.GPUs(rapid.IntRange(1, 4).Draw(t, "gpus"))
			if r := (place.Request{Cluster: b.s.Cluster, Demand: &d, Tasks: d.Roles[0].Tasks}); r.Tasks > 0 {
				if _, ok := place.WorstFit.Place(&r); !ok {
					continue
				}
			}
			estimate := time.Duration(rapid.IntRange(-1, 5).Draw(t, "estimate")) * 10 * time.Second
			id := b.submit(d, max(-1, estimate))
			b.run(id, place.WorstFit)
			e := end{at: b.s.Now + estimate}
			if estimate < 0 {
				e.at = unit.Never
			}
			e.on.CopyFrom(b.s.Alloc(id))
			ends = append(ends, e)
		}
		where := place.All()[rapid.IntRange(0, len(place.All())-1).Draw(t, "where")]
		if where == place.Random {
			where = place.FirstFit // Random draws anew each time
		}
		booked := drawBookings(t, b, ends)
		left := time.Duration(rapid.IntRange(0, 5).Draw(t, "left")) * 10 * time.Second
		id := b.submit(job.GPUs(rapid.IntRange(1, 10).Draw(t, "gang")), cmp.Or(left, -1))
		p := b.open()
		before := planned(p, b)
		at, on, ok := p.Expect(id, where, booked...)

		wantAt, wantOn, found := bruteForce(t, sizes, b.s.Now, ends, booked, b.s.Record(id).Job.Demand, cmp.Or(left, unit.Never), where)
		if ok != found || ok && (at != wantAt || !on.Equal(&wantOn)) {
			t.Fatalf("%s expects %v at %v on %v; brute force finds %v at %v on %v", where, ok, at, on, found, wantAt, wantOn)
		}
		if after := planned(p, b); after != before {
			t.Fatalf("asking changed the plan:\n%s\nit was\n%s", after, before)
		}
		p.Discard()
	})
}

// drawBookings books devices for times at which nobody else is to have them.
func drawBookings(t *rapid.T, b *table, ends []end) (booked []sched.Booking) {
	for range rapid.IntRange(0, 4).Draw(t, "bookings") {
		from := b.s.Now + time.Duration(rapid.IntRange(0, 8).Draw(t, "from"))*5*time.Second
		k := sched.Booking{From: from, To: from + time.Duration(rapid.IntRange(1, 8).Draw(t, "for"))*5*time.Second}
		for d := range cluster.DeviceID(b.s.Cluster.Devices()) {
			on := func(s cluster.Share) bool { return s.Device == d }
			busy := slices.ContainsFunc(ends, func(e end) bool { return e.at > from && slices.ContainsFunc(e.on.Shares, on) }) ||
				slices.ContainsFunc(booked, func(o sched.Booking) bool {
					return o.From < k.To && k.From < o.To && slices.ContainsFunc(o.On.Shares, on)
				})
			if !busy && rapid.Bool().Draw(t, "booked") {
				k.On.Pieces = append(k.On.Pieces, cluster.Piece{Node: b.s.Cluster.NodeOf(d), Shares: 1})
				k.On.Shares = append(k.On.Shares, cluster.Share{Device: d, Milli: 1000})
			}
		}
		booked = append(booked, k)
	}
	return booked
}

// TestWithout: while f runs no job gets the free part of the reserved devices.
// Afterwards only the devices that f planned for are taken.
func TestWithout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newTable(t, 4, 4)
		for range rapid.IntRange(0, 3).Draw(t, "running") {
			b.run(b.submit(job.GPUs(rapid.IntRange(1, 2).Draw(t, "gpus")), -1), place.WorstFit)
		}
		kept := cluster.Alloc{}
		for node := range cluster.NodeID(2) {
			first, n := b.s.Cluster.DeviceRange(node)
			piece := cluster.Piece{Node: node}
			for d := first; d < first+cluster.DeviceID(n); d++ {
				if rapid.Bool().Draw(t, "keep back") {
					kept.Shares = append(kept.Shares, cluster.Share{Device: d, Milli: 1000})
					piece.Shares++
				}
			}
			kept.Pieces = append(kept.Pieces, piece)
		}
		var free []cluster.DeviceID
		for d := range cluster.DeviceID(8) {
			back := slices.ContainsFunc(kept.Shares, func(s cluster.Share) bool { return s.Device == d })
			if b.s.Cluster.DeviceFree(d) == 1000 && !back {
				free = append(free, d)
			}
		}
		id := b.submit(job.GPUs(rapid.IntRange(1, 8).Draw(t, "gang")), -1)
		p := b.open()
		before := b.ledger()
		p.Without(&kept, func() {
			if got := b.s.Cluster.FreeGPUs(0, 0); got != len(free) {
				t.Fatalf("%d GPUs are free while %v is kept back, want %d", got, kept, len(free))
			}
			p.Start(id, place.FirstFit)
		})
		held := p.Alloc(id)
		if (held != nil) != (b.s.Record(id).Job.Demand.GPUs() <= len(free)) {
			t.Fatalf("a gang of %v was given %v, %d GPUs are free beside what is kept back", b.s.Record(id).Job.Demand, held, len(free))
		}
		if held != nil {
			for _, s := range held.Shares {
				if !slices.Contains(free, s.Device) {
					t.Fatalf("device %d was kept back", s.Device)
				}
			}
			p.Stop(id, because)
		}
		if after := b.ledger(); after != before {
			t.Fatalf("the ledger is %s, it was %s", after, before)
		}
		p.Discard()
	})
}

// TestFitsAndNever: Fits answers what Start would answer. Never answers what it
// would on an empty cluster, whatever runs and whichever nodes are down.
func TestFitsAndNever(t *testing.T) {
	b := newTable(t, 4, 4)
	b.run(b.submit(job.GPUs(3), -1), place.FirstFit)
	b.s.Cluster.SetHealth(1, cluster.Down)
	typed, wide := job.GPUs(1), job.GPUs(1)
	typed.Types = "A100"
	wide.Roles[0].GPU = 5 * unit.One // of one node
	for _, c := range []struct {
		d     job.Demand
		where place.Strategy
		fits  string // why not; empty: it does
		never job.ReasonCode
	}{
		{job.GPUs(1), place.Pack, "", job.NoReason},
		{job.GPUs(4), place.Pack, "needs 4 GPUs; 1 free", job.NoReason},
		{job.GPUs(8), place.Pack, "needs 8 GPUs; 1 free", job.NoReason},
		{job.GPUs(9), place.Pack, "needs 9 GPUs but there are only 8 in all: it can never run here", job.TooLarge},
		{typed, place.Pack, "no node has a GPU of a type, and with the memory, that it needs: it can never run here", job.NoSuchType},
		{wide, place.Pack, "would not fit, as it must be placed, even if nothing else ran: it can never run here", job.Impossible},
	} {
		id := b.submit(c.d, -1)
		p := b.open()
		why, ok := p.Fits(id, c.where)
		if ok != (c.fits == "") || !ok && why.String() != c.fits {
			t.Errorf("%v: fits %v, %v; want %q", &c.d, ok, why, c.fits)
		}
		if got := p.Never(id, c.where); got.Code != c.never {
			t.Errorf("%v: never for the reason %v, want %v", &c.d, got.Code, c.never)
		}
		if p.Start(id, c.where) != ok || !ok && p.Why().String() != c.fits {
			t.Errorf("%v: Start differs from Fits: %v", &c.d, p.Why())
		}
		if !ok && (len(p.Waits()) != 1 || p.Waits()[0].Job != id || p.Waits()[0].Why.String() != c.fits) {
			t.Errorf("%v: Start noted %v", &c.d, p.Waits())
		}
		p.Discard()
	}
}

// TestPlanAllocatesNothing: once warm, planning allocates no memory.
func TestPlanAllocatesNothing(t *testing.T) {
	b := newTable(t, 4, 4)
	running := b.submit(job.GPUs(3), -1)
	b.run(running, place.Pack)
	waiting, large := b.submit(job.GPUs(5), -1), b.submit(job.GPUs(9), -1)
	b.view = sched.NewView(b.s, nil, false)
	work := func() {
		b.plan.Open(&b.view)
		b.plan.Start(large, place.Pack)
		b.plan.Stop(running, because)
		b.plan.Try(func() bool { return b.plan.Start(waiting, place.Pack) && b.plan.Start(running, place.Pack) })
		b.plan.Discard()
	}
	work()
	if n := testing.AllocsPerRun(50, work); n != 0 {
		t.Errorf("%v allocations in a warm plan", n)
	}
}

// TestAdjust: the parts of devices that a job holds can change in place. This
// holds also for a job that must never be stopped, and on a node that takes no
// new work. A change that does not fit is refused and alters nothing.
func TestAdjust(t *testing.T) {
	b := newTable(t, 2)
	pinned := b.submit(job.GPUs(2), -1, func(j *job.Job) { j.Stop = job.Pinned })
	b.run(pinned, place.Pack)
	guest := b.submit(job.GPUs(1), -1)
	b.s.Cluster.SetHealth(0, cluster.Cordoned)
	p := b.open()
	halve := func(milli, throttle int32) func(*cluster.Alloc) {
		return func(a *cluster.Alloc) { a.Shares[1].Milli, a.Shares[1].Throttle = milli, throttle }
	}
	if !p.Adjust(pinned, halve(500, 200)) || b.s.Cluster.DeviceFree(1) != 500 || p.Alloc(pinned).Shares[1].Throttle != 200 {
		t.Errorf("%v %s", p.Alloc(pinned), b.ledger())
	}
	for _, bad := range []func(*cluster.Alloc){halve(1001, 0), halve(500, 1001), halve(500, -1), halve(-1, 0)} {
		if p.Adjust(pinned, bad) {
			t.Errorf("%v", p.Alloc(pinned))
		}
	}
	p.Try(func() bool { p.Adjust(pinned, halve(100, 0)); return false })
	if got := b.ledger(); got != "0/1 0.5/1 " || p.Alloc(pinned).Shares[1].Throttle != 200 {
		t.Errorf("%v %s", p.Alloc(pinned), got)
	}
	if err := p.Commit(); err != nil {
		t.Fatal(err)
	}
	b.s.Cluster.Release(p.Alloc(pinned)) // as it was before the plan
	if err := b.s.Cluster.Reallocate(b.s.Alloc(pinned)); err != nil {
		t.Fatal(err)
	}
	b.s.Cluster.SetHealth(0, cluster.Up)
	if p = b.open(); p.Adjust(pinned, halve(500, 0)) {
		a := &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: 1}}, Shares: []cluster.Share{{Device: 1, Milli: 500}}}
		if !p.StartOn(guest, a) || !p.Adjust(guest, func(a *cluster.Alloc) { a.Shares[0].Milli = 250 }) || p.Adjust(pinned, halve(1000, 0)) {
			t.Errorf("%s", b.ledger())
		}
	}
	if got := b.ledger(); got != "0/1 0.25/2 " {
		t.Errorf("%s", got)
	}
	p.Discard()
}

// TestKeepsBeat: a job that comes back to its devices keeps its beat, and is left alone; on others it has none.
func TestKeepsBeat(t *testing.T) {
	b := newTable(t, 2, 2)
	id := b.submit(job.GPUs(2), -1)
	b.run(id, place.Pack)
	beat := cluster.Beat{Period: time.Second, Shift: time.Millisecond}
	b.s.Alloc(id).Beat = beat
	p := b.open()
	if p.Move(id, place.Pack) {
		t.Errorf("it is moved to where it is: %+v", p.Alloc(id))
	}
	if !p.Stop(id, job.Reason{}) || !p.Start(id, place.Pack) || !p.Alloc(id).Equal(b.s.Alloc(id)) || p.Alloc(id).Beat != beat {
		t.Errorf("back on its devices: %+v", p.Alloc(id))
	}
	other := &cluster.Alloc{Pieces: []cluster.Piece{{Node: 1, Tasks: 2, Shares: 2}}, Shares: []cluster.Share{{Device: 2, Milli: 1000}, {Device: 3, Milli: 1000}}}
	if !p.Stop(id, job.Reason{}) || !p.StartOn(id, other) || p.Alloc(id).Beat != (cluster.Beat{}) {
		t.Errorf("on other devices: %+v", p.Alloc(id))
	}
	p.Discard()
	b.s.Cluster.SetHealth(0, cluster.Cordoned)
	if p = b.open(); !p.Move(id, place.Pack) || p.Alloc(id).Beat != (cluster.Beat{}) {
		t.Errorf("moved: %+v", p.Alloc(id))
	}
	p.Discard()
}
