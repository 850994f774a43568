package local_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// Under antman a guest costs the owner of its GPU 20 % of its speed for each tenth of the
// time, or all of it from a quarter on. That is more than a busy machine adds to what is measured.
// The coordinator waits after each step until it has been measured what came of it: the guest is
// let go once, is seen to be too much, stands still again, and stays so.
func TestGuestIsHeldBack(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	for name, cost := range map[string]float64{"slowed down": 2, "brought to a standstill": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guestIsHeldBack(t, cost)
		})
	}
}

// guestIsHeldBack has a guest that costs the owner so many times its own part of the time.
func guestIsHeldBack(t *testing.T, cost float64) {
	h := newHere(t, "antman(up=300,down=300,period=100ms,window=1s,look=1s)", 1, func(o *local.Options) {
		o.Machine.Devices[0].Cores = 1
		o.Defaults.SpeedFor, o.Defaults.SpeedMargin, o.Defaults.Period = 700*time.Millisecond, 0.2, 100*time.Millisecond
		o.Tenants = func() (*tenant.Tree, error) {
			tree := tenant.NewTree(0)
			_, err1 := tree.Add("owns", 0, unit.One, tenant.Unlimited, 1)
			_, err2 := tree.Add("visits", 0, 0, tenant.Unlimited, 1)
			return tree, errors.Join(err1, err2)
		}
	})
	spec := h.sh(1, awaits("end"))
	spec.Tenant = "owns"
	a := h.submit(spec)
	h.running(a, 1)
	tells := teller{h: h, id: a}
	alone := time.Now()
	until(t, "its rate alone is known", func() bool { tells.at(1000); return time.Since(alone) > 2*time.Second })
	spec.Tenant = "visits"
	b := h.submit(spec)
	h.running(b, 1)
	pace := func() int { return 1000 - h.job(b).Throttle }
	began := h.job(b).Since
	most := 0
	tell := func() { most = max(most, pace()); tells.at(max(0, 1000-cost*float64(pace()))) }
	until(t, "it is let go", func() bool { tell(); return pace() > 0 })
	until(t, "it stands still again", func() bool { tell(); return pace() == 0 })
	if most != 300 {
		t.Errorf("nobody knew what a pace of 300 costs, and it had %d", most)
	}
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); {
		if tell(); pace() > 0 {
			t.Fatalf("it is let go again; the speeds of the owner: %s", fmt.Sprint(h.life(a, eventlog.Speed)))
		}
	}
	if j := h.job(b); !j.Since.Equal(began) {
		t.Errorf("it runs since %v, and says since %v", began, j.Since)
	}
	if life := h.why(b).Life; len(life) != 4 || !strings.HasSuffix(life[2], "throttled by 70%") || !strings.HasSuffix(life[3], "throttled by 100%") {
		t.Errorf("of its steps, the first and the last: %q", life)
	}
	h.make("end")
	h.until(b, api.Done)
}

// A step with half of a job's own batch is half a step of its work, for as long as it trains so: what it does meanwhile
// is not how fast it is alone. The clock is the job's own, so that a late report changes nothing.
func TestStepsOfABatch(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Defaults.SpeedFor = 2 * time.Second })
	h.orders(func(*sched.View, *sched.Plan) {})
	spec := h.sh(1, awaits("end"))
	spec.Batch = 64
	id := h.submit(spec)
	h.orders(func(v *sched.View, p *sched.Plan) { p.StartOn(0, half()) })
	h.running(id, 1)
	steps, at := int64(0), 0.0
	trains := func(seconds float64) {
		for end := at + seconds; at < end; {
			at, steps = at+0.25, steps+250
			if _, err := h.task(id, 1).Report(background, api.Report{Step: steps, At: api.Seconds(at)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "its run reports", func() bool { trains(1); return h.job(id).Progress != nil })
	trains(10)
	if speeds := h.life(id, eventlog.Speed); len(speeds) > 0 {
		t.Errorf("with its own batch its speed is %v", speeds)
	}
	h.orders(func(v *sched.View, p *sched.Plan) { p.Adjust(0, func(a *cluster.Alloc) { a.Shares[0].Batch = 32 }) })
	for range 5 {
		trains(10)
		if speeds := h.life(id, eventlog.Speed); len(speeds) != 1 || speeds[0].Speed < 0.49 || speeds[0].Speed > 0.51 {
			t.Fatalf("after %v s of its own clock: with as many steps of half the batch its speed is %v", at, speeds)
		}
	}
	h.make("end")
	h.until(id, api.Done)
}

// Jobs that tell the stages of their steps take turns at them under muri; one
// that tells none is beside nobody. The entitlement of a job reaches antman,
// whatever its tenant's quota.
func TestStagesAndClass(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "muri-s(round=0s)", 1, nil)
	spec := h.sh(1, awaits("end"))
	spec.Stop.Mode, spec.Estimate, spec.Stages = "checkpoint", 100, api.Stages{Load: 0.08, GPU: 0.01}
	loads := h.submit(spec)
	h.running(loads, 1)
	spec.Stages = api.Stages{Load: 0.01, GPU: 0.08}
	computes := h.submit(spec)
	h.running(computes, 1)
	if j := h.job(loads); j.Allocated != 0.5 || j.Run != 1 {
		t.Errorf("of two that need different things, the first: %+v", j)
	}
	want := "job " + computes + " holds 0.5 of slot0; its steps are 80ms of loading, 10ms of computing, the other's 10ms of loading, 80ms of computing"
	if w := h.why(loads); len(w.Beside) != 1 || w.Beside[0] != want {
		t.Errorf("it shares with %q", w.Beside)
	}
	spec.Estimate, spec.Stages = 1000, api.Stages{}
	silent := h.submit(spec)
	if j := h.job(silent); j.State != api.Waiting {
		t.Errorf("one that tells nothing: %+v", j)
	}
	h.make("end")
	for _, id := range []string{loads, computes, silent} {
		h.until(id, api.Done)
	}

	g := newHere(t, "antman(window=1s,look=1s)", 1, func(o *local.Options) { o.Machine.Devices[0].Cores = 1 })
	guest := g.sh(1, awaits("end"))
	guest.QoS = "opportunistic"
	g.submit(g.sh(1, awaits("end")))
	id := g.submit(guest)
	g.running(id, 1)
	if j := g.job(id); j.Allocated != 0 {
		t.Errorf("a guest holds %v GPUs", j.Allocated)
	}
	g.make("end")
	g.until(id, api.Done)
}

// One that uses too much of a GPU, and is started again at once, has its time in each run.
func TestMemoryGuardEachRun(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	const memoryFor = 1500 * time.Millisecond
	h := newHere(t, "fifo", 1, func(o *local.Options) {
		o.Machine.Devices[0].Memory, o.Machine.Types[0].Memory = 8<<30, 8*unit.GiB
		o.Machine.Sample = func() []local.Sample { // whatever runs of the first job uses 3 GiB
			s := local.Sample{OK: true}
			for run := range 3 {
				var at rundir.Status
				if rundir.Read(filepath.Join(o.State, "runs", "1", strconv.Itoa(run+1)), rundir.StatusFile, &at); len(at.Tasks) > 0 {
					s.Processes = append(s.Processes, local.Process{PID: at.Tasks[0].PID, Used: 3 << 30})
				}
			}
			return []local.Sample{s}
		}
		o.Defaults.MemoryFactor, o.Defaults.SaveFailures, o.Defaults.MemoryFor = 1.2, 2, memoryFor
	})
	spec := h.sh(0.5, awaits("end"))
	spec.GPUMem, spec.Stop.Mode = 2<<30, "restart"
	hog := h.submit(spec)
	other := h.submit(spec)
	until(t, "it is held", func() bool { return h.job(hog).State == api.Held })
	starts, leaves := h.life(hog, eventlog.Start), h.life(hog, eventlog.Evict)
	for i := range leaves {
		if ran := leaves[i].Time - starts[i].Time; ran < memoryFor {
			t.Errorf("run %d was thrown off after %v", i+1, ran)
		}
	}
	if len(leaves) != 2 {
		t.Errorf("it was thrown off %d times", len(leaves))
	}
	h.make("end")
	h.until(other, api.Done)
}

// A job may stand still, hold a part, or have another batch because of an
// earlier policy. It then goes on with all that it asks for: by norn use, and
// by a restart with another policy. One that has jobs share decides for itself
// where it has other settings.
func TestLetGo(t *testing.T) {
	t.Parallel()
	h := newHere(t, "rmixer", 1, nil)
	h.orders(func(*sched.View, *sched.Plan) {})
	spec := h.sh(1, awaits("end"))
	spec.CPUs = 2
	id := h.submit(spec)
	halt := func(a *cluster.Alloc) {
		a.Shares[0].Milli, a.Shares[0].Throttle, a.Shares[0].Batch, a.Pieces[0].CPU = 0, 1000, 16, 500
	}
	h.orders(func(v *sched.View, p *sched.Plan) { a := half(); halt(a); p.StartOn(0, a) })
	h.running(id, 1)
	use := func(policy string) {
		t.Helper()
		if err := h.SetPolicy(background, h.me, policy); err != nil {
			t.Fatal(err)
		}
		until(t, "it is in force", func() bool { return h.why(id).Policy == policy })
	}
	use("rmixer(job-policy=mps)")
	if j := h.job(id); j.Throttle != 1000 || j.Allocated != 0 {
		t.Errorf("under the same policy: %+v", j)
	}
	whole := func() bool {
		life := h.why(id).Life
		j := h.job(id)
		return j.Throttle == 0 && j.Allocated == 1 && j.Run == 1 && strings.HasSuffix(life[len(life)-1], "goes on with slot0, 2 CPU cores, 0B of memory")
	}
	use("srtf")
	until(t, "it goes on", whole)
	h.orders(func(v *sched.View, p *sched.Plan) { p.Adjust(0, halt) })
	h.down()
	h.setup.Policy = "las"
	h.up()
	until(t, "it goes on", whole)
	h.make("end")
	h.until(id, api.Done)
}

// Two that share a device when a policy comes into force that has nobody share go on,
// with a half each; who is left has the whole, and only then somebody else comes.
func TestInherited(t *testing.T) {
	t.Parallel()
	h := newHere(t, "rmixer", 1, nil)
	h.orders(func(*sched.View, *sched.Plan) {})
	var ids []string
	for _, end := range []string{"end1", "end2", "end3"} {
		ids = append(ids, h.submit(h.sh(1, awaits(end))))
	}
	h.orders(func(v *sched.View, p *sched.Plan) {
		guest := half()
		guest.Shares[0].Milli, guest.Shares[0].Throttle = 0, 500
		whole := half()
		whole.Shares[0].Milli = 1000
		p.StartOn(0, whole)
		p.StartOn(1, guest)
	})
	h.running(ids[0], 1)
	h.running(ids[1], 1)
	if err := h.SetPolicy(background, h.me, "fifo"); err != nil {
		t.Fatal(err)
	}
	holds := func(id string, gpus float64) {
		t.Helper()
		until(t, fmt.Sprintf("job %s holds %v", id, gpus), func() bool { j := h.job(id); return j.Allocated == gpus && j.Throttle == 0 && j.Run == 1 })
	}
	holds(ids[0], 0.5)
	holds(ids[1], 0.5)
	h.make("end1")
	h.until(ids[0], api.Done)
	holds(ids[1], 1)
	if j := h.job(ids[2]); j.State != api.Waiting {
		t.Errorf("beside another: %+v", j)
	}
	h.make("end2")
	h.until(ids[1], api.Done)
	holds(ids[2], 1)
	h.make("end3")
	h.until(ids[2], api.Done)
	h.replays()
}
