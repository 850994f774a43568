package replay_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

func past(t fataler, log []byte, in replay.Stretch, sinks ...engine.Sink) *replay.Past {
	r, err := eventlog.NewReader(bytes.NewReader(log), "test.log")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := replay.ReadPast(r, in, sinks...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// again plays a past again under a policy.
func again(t fataler, w *simtest.World, past *replay.Past, p sched.Policy) *state.State {
	c, err := past.Machine()
	if err != nil {
		t.Fatal(err)
	}
	world := *w
	world.Cluster, world.Costs = c, perf.Costs{Base: past.Costs.Cost}
	world.World = func(cfg *sim.Config) { cfg.Script = slices.Clone(past.Script) }
	return play(t, &world, p, experiment.Jobs(past.Jobs).Source())
}

// drawPast runs a world that a person may disturb, and returns its log.
func drawPast(t *rapid.T, e policy.Entry, operated bool) (simtest.World, []byte) {
	shape := rapid.SampledFrom([]simtest.Shape{{}, {Types: true}, {Parts: true}, {Costs: true}, {Parts: true, Costs: true}}).Draw(t, "shape")
	w := simtest.Draw(t, shape)
	w.AnyStop(t)
	for i := range w.Jobs {
		w.Jobs[i].Fails = nil // what is believed of a run time does not change
	}
	nodes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(t, "nodes")
	if operated {
		w.Operate(t, nodes)
	}
	w.Fresh(t, shape, nodes)
	w.Tenants = tenant.NewTree(0)
	p, err := e.New().Policy()
	if err != nil {
		t.Fatal(err)
	}
	log := newLogged(t, w.Cluster, w.Tenants, eventlog.Plain)
	play(t, &w, p, simtest.Source(w.Jobs), log)
	return w, log.bytes(t)
}

// TestPastAgain plays the past of a machine again under the policy that was in
// force: everything happens when it happened.
func TestPastAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(policy.Table()).Draw(t, "policy")
		w, log := drawPast(t, e, false)
		p := past(t, log, replay.Stretch{})
		made, err := e.New().Policy()
		if err != nil {
			t.Fatal(err)
		}
		s := again(t, &w, p, made)
		if s.Jobs() != p.State.Jobs() || p.Unknown+p.Waived+p.Already > 0 {
			t.Fatalf("%d jobs of %d, %+v", s.Jobs(), p.State.Jobs(), p)
		}
		for i := range job.ID(s.Jobs()) {
			a, b := p.State.Record(p.Of[i]), s.Record(i)
			if a.Job.Key != b.Job.Key || a.Phase != b.Phase || a.FirstStart != b.FirstStart || a.End != b.End || a.Preemptions != b.Preemptions {
				t.Fatalf("job\n%+v\nagain\n%+v", a, b)
			}
		}
	})
}

// TestPastStretch takes stretches of random logs: they are worlds of their own in
// which jobs end when they ended, after as much work as they did in them, and
// which can be played again.
func TestPastStretch(t *testing.T) {
	already := 0
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(policy.Table()).Draw(t, "policy")
		w, log := drawPast(t, e, rapid.Bool().Draw(t, "operated"))
		whole, _ := fold(t, log)
		last := max(1, int(whole.Now/time.Second))
		in := replay.Stretch{From: time.Duration(rapid.IntRange(0, last).Draw(t, "from")) * time.Second}
		if rapid.Bool().Draw(t, "until") {
			in.To = in.From + time.Duration(rapid.IntRange(1, last).Draw(t, "to"))*time.Second
		}
		col := report.NewCollector(everything)
		p := past(t, log, in, col)
		already += p.Already
		if err := p.State.Check(); err != nil {
			t.Fatal(err)
		}
		figures(t, p.State, col)
		compareStretch(t, whole, p, in)
		made, err := e.New().Policy()
		if err != nil {
			t.Fatal(err)
		}
		s := again(t, &w, p, made)
		for i := range job.ID(s.Jobs()) {
			if r := s.Record(i); !r.Phase.Over() && !r.Reason.Never() && r.Phase != job.Held && p.State.Record(p.Of[i]).Phase.Over() {
				t.Fatalf("job %s was left %s: %v", r.Job.Key, r.Phase, r.Reason)
			}
		}
		n := bytes.Count(log, []byte("\n"))
		parts := past(t, split(t, log, false, n/3, n/2), in)
		if !reflect.DeepEqual(p.Jobs, parts.Jobs) || !reflect.DeepEqual(p.Script, parts.Script) || p.Costs != parts.Costs || !slices.Equal(p.Believed, parts.Believed) {
			t.Fatalf("past\n%+v\nof the parts\n%+v", p, parts)
		}
	})
	if already < 20 && !testing.Short() {
		t.Errorf("only %d jobs were there already", already)
	}
}

func compareStretch(t *rapid.T, whole *state.State, p *replay.Past, in replay.Stretch) {
	byKey := map[string]*job.Record{}
	for id := range job.ID(p.State.Jobs()) {
		byKey[p.State.Record(id).Job.Key] = p.State.Record(id)
	}
	for id := range job.ID(whole.Jobs()) {
		a := whole.Record(id)
		b := byKey[a.Job.Key]
		switch {
		case b == nil || !a.Phase.Over():
		case in.To > 0 && a.End >= in.To:
			if b.Phase.Over() {
				t.Fatalf("job %s ends at %v, behind %v", b.Job.Key, b.End, in.To)
			}
		case a.End < in.From || a.Phase != b.Phase || a.End != b.End || b.Progress > a.Progress:
			t.Fatalf("job\n%+v\nin %+v\n%+v", a, in, b)
		case a.Job.Submit >= in.From && a.Job.Submit == b.Job.Submit && (a.Progress != b.Progress || a.FirstStart != b.FirstStart || a.Preemptions != b.Preemptions || a.AllocatedTime != b.AllocatedTime):
			t.Fatalf("job\n%+v\nin %+v\n%+v", a, in, b)
		}
	}
}

// theirs is a log in which people hold, cancel and drain.
const theirs = `{"norn":"eventlog","version":1,"world":"local","policy":"fifo","types":[{"name":"g"}]}
{"t":0,"e":"node-add","name":"box","gpus":[[0,2]]}
{"t":5,"e":"submit","j":0,"spec":{"job":"1","submit":5,"gpus":2},"est":100}
{"t":5,"e":"start","j":0,"on":[{"n":0,"d":[0,1]}],"delay":2}
{"t":6,"e":"submit","j":1,"spec":{"job":"2","submit":6,"gpus":1},"est":9}
{"t":6,"e":"hold","j":1,"why":"on-hold","text":"waits for the end of job 1"}
{"t":6,"e":"submit","j":2,"spec":{"job":"3","submit":6,"gpus":1}}
{"t":6,"e":"hold","j":2,"why":"on-hold"}
{"t":7,"e":"submit","j":3,"spec":{"job":"4","submit":7,"gpus":1}}
{"t":7,"e":"wait","j":3,"why":"need-gpus","need":1}
{"t":8,"e":"submit","j":4,"spec":{"job":"5","submit":8,"gpus":1}}
{"t":9,"e":"submit","j":5,"spec":{"job":"6","submit":9,"gpus":1}}
{"t":10,"e":"hold","j":3,"why":"on-hold"}
{"t":11,"e":"device","d":1,"broken":true}
{"t":12,"e":"node-set","n":0,"health":"cordoned"}
{"t":15,"e":"end","j":0,"outcome":"done"}
{"t":15,"e":"free","j":1}
{"t":16,"e":"cancel","j":4}
{"t":17,"e":"node-set","n":0,"health":"up"}
{"t":17,"e":"start","j":1,"on":[{"n":0,"d":[0]}],"delay":4}
{"t":20,"e":"fail","j":1,"why":"failed"}
{"t":20,"e":"hold","j":1,"why":"on-hold","at":25}
{"t":25,"e":"free","j":1}
{"t":25,"e":"start","j":1,"on":[{"n":0,"d":[0]}],"delay":6}
{"t":30,"e":"free","j":3}
{"t":40,"e":"preempt","j":1,"kept":9,"why":"makes-room"}
{"t":43,"e":"gone","j":1}
{"t":43,"e":"start","j":3,"on":[{"n":0,"d":[0]}]}
{"t":50,"e":"end","j":3,"outcome":"done"}
`

// TestPastOfPeople says what is made of what people did: who came on hold comes
// when he is released; holds, cancels and drains are repeated, waits between
// attempts are not.
func TestPastOfPeople(t *testing.T) {
	p := past(t, []byte(theirs), replay.Stretch{})
	var keys []string
	for i := range p.Jobs {
		keys = append(keys, p.Jobs[i].Job.Key)
	}
	if !slices.Equal(keys, []string{"1", "4", "5", "2"}) || p.Waived != 1 || p.Unknown != 1 {
		t.Errorf("jobs %v, %d on hold, %d unknown", keys, p.Waived, p.Unknown)
	}
	two := p.Jobs[3]
	if two.Job.Submit != 15*time.Second || two.Truth.Work != 9*time.Second || !two.Truth.AtLeast || !slices.Equal(two.Truth.Attempts, []time.Duration{0}) || p.Believed[3] != 9*time.Second || p.Believed[1] != -1 {
		t.Errorf("%+v, believed %v", two, p.Believed)
	}
	second := time.Second
	want := []eventlog.Event{
		{Time: 10 * second, Kind: eventlog.Hold, Job: 1},
		{Time: 11 * second, Kind: eventlog.Device, Device: 1, Broken: true},
		{Time: 12 * second, Kind: eventlog.NodeSet, Health: cluster.Cordoned},
		{Time: 16 * second, Kind: eventlog.Cancel, Job: 2},
		{Time: 17 * second, Kind: eventlog.NodeSet},
		{Time: 30 * second, Kind: eventlog.Free, Job: 1},
		{Time: 50 * second, Kind: eventlog.Device, Device: 1},
	}
	if len(p.Script) != len(want) {
		t.Fatalf("%+v", p.Script)
	}
	for i, ev := range p.Script {
		if w := want[i]; ev.Time != w.Time || ev.Kind != w.Kind || ev.Job != w.Job && ev.Kind != eventlog.Device && ev.Kind != eventlog.NodeSet || ev.Health != w.Health || ev.Broken != w.Broken {
			t.Errorf("%d: %+v, want %+v", i, ev, w)
		}
	}
	costs := replay.Costs{Cost: perf.Cost{Start: 3 * second, Checkpoint: 3 * second, Restore: 6 * second}, Starts: 2, Checkpoints: 1, Restores: 1}
	if p.Costs != costs {
		t.Errorf("%+v", p.Costs)
	}
	if r := p.State.Record(p.Of[3]); r.Phase != job.Waiting || r.Job.Submit != 15*second {
		t.Errorf("%+v", r)
	}

	// From a moment on at which nothing but job 2 is left, which has done 4 s.
	p = past(t, []byte(theirs), replay.Stretch{From: 35 * second, To: 45 * second})
	if p.Already != 4 || len(p.Jobs) != 2 || p.Unknown != 1 || p.Jobs[0].Job.Key != "2" || p.Jobs[0].Truth.Work != 5*second || p.Believed[0] != 5*second || p.To != 45*second {
		t.Errorf("%+v", p)
	}
	if r := p.State.Record(1); r.Job.Key != "4" || r.Phase != job.Running || r.ProgressAt(p.To) != 2*second {
		t.Errorf("%+v", r)
	}
	if len(p.Script) != 2 || p.Script[0].Kind != eventlog.Device || !p.Script[0].Broken || p.Script[1].Broken || p.Script[1].Time != p.To {
		t.Errorf("%+v", p.Script)
	}
}

// TestPastWaits: the time for which a job that moves waits until others have left its devices is no
// cost of moving.
func TestPastWaits(t *testing.T) {
	const log = `{"norn":"eventlog","version":1,"world":"sim","policy":"test","types":[{"name":"A","mem":1}]}
{"t":0,"e":"node-add","name":"n0","gpus":[[0,3]]}
{"t":1,"e":"submit","j":0,"spec":{"job":"a","submit":1,"gpus":1},"est":80}
{"t":1,"e":"submit","j":1,"spec":{"job":"b","submit":1,"gpus":1},"est":80}
{"t":1,"e":"start","j":0,"on":[{"n":0,"d":[0]}]}
{"t":1,"e":"start","j":1,"on":[{"n":0,"d":[1]}]}
{"t":10,"e":"preempt","j":0,"kept":9}
{"t":10,"e":"move","j":1,"on":[{"n":0,"d":[0]}],"delay":12}
{"t":19,"e":"gone","j":0}
{"t":30,"e":"start","j":0,"on":[{"n":0,"d":[1]}],"delay":2}
`
	for more, want := range map[string]replay.Costs{
		"": {Cost: perf.Cost{Checkpoint: 9 * time.Second, Restore: 2 * time.Second, Migrate: 3 * time.Second}, Checkpoints: 1, Restores: 1, Migrations: 1},
		`{"t":40,"e":"move","j":1,"on":[{"n":0,"d":[2]}],"delay":5}` + "\n": { // one that waits for nobody tells more
			Cost: perf.Cost{Checkpoint: 9 * time.Second, Restore: 2 * time.Second, Migrate: 5 * time.Second}, Checkpoints: 1, Restores: 1, Migrations: 1},
	} {
		if got := past(t, []byte(log+more), replay.Stretch{}).Costs; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
