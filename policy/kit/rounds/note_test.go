package rounds

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestNote: a note on a job is read again as it was, also in a log that lists
// the GPU types in another order.
func TestNote(t *testing.T) {
	names := []string{"V100", "P100", "K80"}
	types := func(order ...int) *cluster.Cluster {
		c := cluster.New()
		for _, i := range order {
			if _, err := c.AddType(cluster.GPUType{Name: names[i]}); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	ahead, back := types(0, 1, 2), types(2, 1, 0)
	rapid.Check(t, func(t *rapid.T) {
		moment := func(name string) time.Duration { return time.Duration(rapid.Int64Range(-1, 1<<60).Draw(t, name)) }
		a := account{
			epoch: moment("epoch"), check: rapid.Uint32().Draw(t, "check"), served: moment("served"), held: moment("held") + 1, near: rapid.Bool().Draw(t, "near"), solo: rapid.Bool().Draw(t, "solo"),
			own: rapid.Float64().Draw(t, "own"),
		}
		for range rapid.IntRange(0, 6).Draw(t, "claims") {
			at := rapid.IntRange(0, 2).Draw(t, "type")
			e := entry{t: cluster.TypeID(at), name: names[at], with: job.None, near: rapid.Bool().Draw(t, "together"), on: rapid.Bool().Draw(t, "on")}
			if e.pair = rapid.Bool().Draw(t, "pair"); e.pair {
				e.with = job.ID(rapid.IntRange(-1, 1<<30).Draw(t, "with"))
			}
			e.Claim = Claim{rapid.Float64Range(0, 1).Draw(t, "target"), rapid.Float64Range(0, 1e6).Draw(t, "received"), rapid.Float64Range(-1e6, 1e6).Draw(t, "deficit")}
			a.entries = append(a.entries, e)
		}
		noted := simtest.Noted(t, &a)
		var b account
		if b.read(noted, ahead); !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v is read as %+v", a, b)
		}
		b.read(noted, back)
		for i := range a.entries {
			a.entries[i].t = 2 - a.entries[i].t
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("with types in another order %+v is read as %+v", a, b)
		}
	})
	var none account
	if none.read(simtest.Noted(t, &account{epoch: -1, served: -1}), ahead); none.known() || none.served != -1 {
		t.Errorf("a job on which nothing is noted has the account %+v", none)
	}
}

// TestRounding: like claims become equal, and targets are never rounded down to
// 0.
func TestRounding(t *testing.T) {
	for _, k := range []struct{ in, want Claim }{
		{Claim{1e-9, 0, 0}, Claim{1e-6, 0, 0}},
		{Claim{0, 1e-9, -1e-9}, Claim{0, 0, 0}},
		{Claim{1. / 3, 1000, -1000}, Claim{0.333333, 1000, -1000}},
		{Claim{1./3 + 1e-9, 1.1, 0.1 + 0.2}, Claim{0.333333, 1.1, 0.3}},
	} {
		if k.in.round(); k.in != k.want {
			t.Errorf("%+v, want %+v", k.in, k.want)
		}
	}
}

// TestVoid: the claim of a pair is void if one of the two jobs has ended,
// whether that job is still known or not. It is also void if one of them no
// longer shares devices. It is not void if the other job is left alone in this
// round.
func TestVoid(t *testing.T) {
	st := state.New(cluster.New(), tenant.NewTree(0))
	d := job.GPUs(1)
	for id := range job.ID(5) {
		if err := st.Submit(&job.Job{ID: id, Key: fmt.Sprint(id), Demand: &d}, -1); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Cancel(2); err != nil {
		t.Fatal(err)
	}
	v := sched.NewView(st, nil, false)
	s := Shares{Pairs: true, jobs: []sched.Job{v.Job(0), v.Job(1), v.Job(3)}, accounts: []account{{epoch: 1, check: 1}, {epoch: 1, check: 1}, {epoch: 1, check: 1, solo: true}}}
	r := &Round{View: &v, paired: true}
	for _, c := range []struct {
		i    int
		with job.ID
		void bool
		owed int
	}{{0, 1, false, 1}, {0, 2, true, 0}, {0, job.None, true, 0}, {0, 3, true, 0}, {2, 4, true, 0}, {0, 4, false, 0}} {
		e := entry{pair: true, with: c.with, Claim: Claim{Target: 0.5}}
		s.accounts[c.i].entries = []entry{e}
		if void, owed := s.void(r, c.i, e), len(s.owed(r, c.i, 1, 1)); void != c.void || owed != c.owed {
			t.Errorf("job %d with %d: void %v, %d claims left; want %v, %d", s.jobs[c.i].ID, c.with, void, owed, c.void, c.owed)
		}
	}
	alone := entry{with: job.None, Claim: Claim{Target: 0.5}}
	if s.accounts[2].entries = []entry{alone}; s.void(r, 2, alone) || len(s.owed(r, 2, 1, 1)) != 1 {
		t.Error("the claim of a job alone is taken for one of a pair")
	}
}

// TestServe: a job goes on by the claim by which it was served only beside the
// same job. A claim on time on a single node goes on only if the job ran on a
// single node before.
func TestServe(t *testing.T) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}}); err != nil {
		t.Fatal(err)
	}
	st := state.New(c, tenant.NewTree(0))
	d := job.GPUs(1)
	on := cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: 1}}, Shares: []cluster.Share{{Milli: half}}}
	for id := range job.ID(3) {
		if err := st.Submit(&job.Job{ID: id, Key: fmt.Sprint(id), Demand: &d}, -1); err != nil {
			t.Fatal(err)
		}
		if id < 2 { // they share the GPU
			if err := st.Begin(id, &on, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	v := sched.NewView(st, nil, false)
	r := &Round{View: &v, paired: true}
	for _, k := range []struct {
		with   job.ID
		near   bool
		goesOn bool
	}{{1, false, true}, {2, false, false}, {job.None, false, false}, {1, true, false}} {
		s := Shares{Pairs: true, jobs: []sched.Job{v.Job(0), v.Job(1), v.Job(2)}, accounts: []account{{goesOn: true}, {}, {}}}
		if s.serve(r, v.Job(0), k.with, k.near); s.accounts[0].goesOn != k.goesOn || s.accounts[0].near != k.near {
			t.Errorf("beside %d, together %v: %+v", k.with, k.near, s.accounts[0])
		}
	}
}
