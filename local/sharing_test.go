package local_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/cgroup"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// protector is a policy that packs every waiting job on the first device, with
// a half each, and protects the job that was there first. If that job is seen
// to run at less than 0.8 of its speed, the others are throttled and get half a
// core.
type protector struct{}

func (protector) Decide(v *sched.View, p *sched.Plan) {
	first := job.None
	for j := range v.Running() {
		if first == job.None {
			first = j.ID
		}
		if j.ID != first && v.Job(first).Speed() < 0.8 {
			p.Adjust(j.ID, func(a *cluster.Alloc) { a.Shares[0].Throttle, a.Pieces[0].CPU = 500, 500 })
		}
	}
	for j := range v.Waiting() {
		if first == job.None {
			p.Start(j.ID, place.Pack)
			first = j.ID
			continue
		}
		p.Adjust(first, func(a *cluster.Alloc) { a.Shares[0].Milli = 500 })
		a := half()
		a.Pieces[0].CPU, a.Pieces[0].Memory = j.Spec().Demand.Roles[0].CPU, 1<<30
		p.StartOn(j.ID, a)
	}
}

// teller tells progress for a job, at a rate of steps in a second.
type teller struct {
	h     *here
	id    string
	steps float64
	began time.Time // of its clock
	last  time.Time
}

func (r *teller) at(rate float64) api.Order {
	r.h.t.Helper()
	now := time.Now()
	if r.began.IsZero() {
		r.began, r.last = now.Add(-time.Second), now
	}
	r.steps += rate * now.Sub(r.last).Seconds()
	r.last = now
	o, err := r.h.task(r.id, 1).Report(background, api.Report{Step: int64(r.steps), Samples: int64(32 * r.steps), At: api.Of(now.Sub(r.began))})
	if err != nil {
		r.h.t.Fatal(err)
	}
	return o
}

// confined is a cgroup for the jobs of a daemon that is made later; empty: this machine
// does not permit it.
func confined(t *testing.T) string {
	parent := fmt.Sprintf("/norn-test-%d-%s", os.Getpid(), t.Name())
	m, notes := cgroup.Detect(parent)
	t.Cleanup(func() { m.Remove() })
	if strings.Contains(strings.Join(notes, " "), "not enforced") {
		return ""
	}
	return parent
}

// inForce waits until the runner of a job says so.
func (h *here) inForce(id, words string) {
	h.t.Helper()
	until(h.t, "job "+id+": "+words, func() bool { return strings.Contains(strings.Join(h.why(id).Isolation, "\n"), words) })
}

// A policy packs two jobs on one device. That the first is slowed down shows in its
// reports, so that the policy throttles the second and takes cores from it, while it
// runs; then the first is as fast as before. All of that holds over a restart of the
// daemon, and the log replayed makes the same state.
func TestSharing(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	parent := confined(t)
	groups := parent != ""
	h := newHere(t, "rmixer", 1, func(o *local.Options) {
		o.Machine.Devices[0].Cores = 1
		o.Defaults.SpeedFor, o.Defaults.SpeedMargin, o.Defaults.Period = 700*time.Millisecond, 0.2, 100*time.Millisecond
		o.Defaults.Cgroup = parent
	})
	if err := h.MistakeNow(protector{}); err != nil {
		t.Fatal(err)
	}
	burn := func(name string) string {
		spec := h.sh(1, "touch "+name+"; while [ ! -e end ]; do :; done")
		spec.CPUs, spec.Estimate = 1, 1000
		id := h.submit(spec)
		h.made(name)
		h.running(id, 1)
		return id
	}
	a := burn("a")
	tells := teller{h: h, id: a}
	until(t, "its rate alone is known", func() bool {
		tells.at(1000)
		_, err := os.Stat(filepath.Join(h.setup.State, "jobs", a, "rates-"+a+".json"))
		return err == nil
	})
	b := burn("b")
	began := h.job(b).Since
	until(t, "the other is throttled, as it is seen to be slowed down", func() bool { tells.at(500); return h.job(b).Throttle == 500 })
	if speeds := h.life(a, eventlog.Speed); !slices.ContainsFunc(speeds, func(e entry) bool { return e.Speed > 0.15 && e.Speed < 0.8 }) {
		t.Errorf("at half its rate its speeds are %+v", speeds)
	}
	h.isThrottled(b, groups)
	if j := h.job(b); !j.Since.Equal(began) {
		t.Errorf("it runs since %v, and says since %v", began, j.Since)
	}
	until(t, "it is as fast as before", func() bool { // its rate alone was measured on a machine that may be busy
		tells.at(1500)
		return h.job(a).Speed == 0 || h.job(a).Speed > 0.8
	})
	if !h.hasLearnt() {
		t.Error("nothing was learnt of how the two get along")
	}
	h.replays()
	h.down()
	h.halfTheTime(a, b)
	h.up()
	if !h.hasLearnt() {
		t.Error("what was learnt is forgotten")
	}
	h.standsStill(b, groups)
	h.replays()
	h.make("end")
	h.until(a, api.Done)
	if j := h.until(b, api.Done); j.Run != 1 {
		t.Errorf("%+v", j)
	}
}

// isThrottled checks that a job of which the policy has taken half of everything goes on
// so, and that its life and the log tell it.
func (h *here) isThrottled(b string, groups bool) {
	h.t.Helper()
	if groups {
		h.inForce(b, "CPU time is limited to 0.5 cores")
		h.inForce(b, "it counts 0.5 times as much")
		h.inForce(b, "it is stopped for 50% of each 100ms")
	} else {
		h.inForce(b, "it is stopped for 50% of each 1s")
	}
	if j := h.job(b); j.Run != 1 || j.Resizes != 0 || j.Speed != 0.5 || j.Allocated != 0.5 {
		h.t.Errorf("%+v", j)
	}
	if all := strings.Join(h.replayed(), "\n"); !strings.Contains(all, `"throttle":[0.5]`) || !strings.Contains(all, `"cpu":0.5,`) {
		h.t.Errorf("the log tells of %s", all)
	}
	if life := h.why(b).Life; !strings.HasSuffix(life[len(life)-1], "goes on with 0.5 of slot0, 0.5 CPU cores, 1GiB of memory; throttled by 50%") {
		h.t.Errorf("its life is %q", life)
	}
}

// hasLearnt tells whether the state has learnt how jobs get along.
func (h *here) hasLearnt() bool {
	return slices.ContainsFunc(h.replayed(), func(line string) bool { return strings.Contains(line, `"learnt"`) })
}

// standsStill has the job that is throttled stand still, with more cores, and go on, over
// a restart of the daemon that comes before.
func (h *here) standsStill(b string, groups bool) {
	t := h.t
	t.Helper()
	if j := h.job(b); j.Throttle != 500 || j.Run != 1 || j.Speed != 0.5 {
		t.Errorf("after a restart: %+v", j)
	}
	h.orders(func(v *sched.View, p *sched.Plan) {
		p.Adjust(1, func(a *cluster.Alloc) { a.Shares[0].Throttle, a.Pieces[0].CPU = 1000, 2000 })
	})
	h.inForce(b, "it is stopped, so that others")
	if groups {
		h.inForce(b, "CPU time is limited to 2 cores")
	}
	if j := h.job(b); j.Throttle != 1000 || !j.ExpectEnd.IsZero() {
		t.Errorf("stopped: %+v", j)
	}
	h.orders(func(v *sched.View, p *sched.Plan) { p.Adjust(1, func(a *cluster.Alloc) { a.Shares[0].Throttle = 0 }) })
}

// halfTheTime checks, while no daemon looks, that one job runs for at most half of the time.
// On a quiet machine the other one has twice its CPU time; on a busy one that may have no
// more, since a job that was stopped is in front of those that were not.
func (h *here) halfTheTime(a, b string) {
	h.t.Helper()
	var runners []rundir.Proc
	for _, id := range []string{a, b} {
		var s rundir.Status
		rundir.Read(h.runDir(id, 1), rundir.StatusFile, &s)
		runners = append(runners, rundir.Proc{PID: s.PID, Start: s.Start})
	}
	used := func() (both [2]time.Duration) {
		u, err := runner.Measure(runners)
		if err != nil {
			h.t.Fatal(err)
		}
		return [2]time.Duration{u[0].CPU, u[1].CPU}
	}
	was, began := used(), time.Now()
	until(h.t, "both have had time", func() bool {
		now := used()
		return now[0]-was[0] > 500*time.Millisecond && now[1]-was[1] > 200*time.Millisecond
	})
	now, took := used(), time.Since(began)
	const rounds = 100 * time.Millisecond // it runs for half of each; ticks of the clock are short beside that
	if had := now[1] - was[1]; had > took/2+rounds {
		h.t.Errorf("the one that is throttled has had %v of CPU time in %v, the other one %v", had, took, now[0]-was[0])
	}
}

// replays checks that the log gives the state that the daemon has.
func (h *here) replays() {
	h.t.Helper()
	var have, want []string
	for range 100 { // something may happen between the two looks
		var err error
		if want, err = h.Carried(); err != nil {
			h.t.Fatal(err)
		}
		if have = h.replayed(); slices.Equal(have, want) {
			return
		}
	}
	h.t.Errorf("the log gives\n%s\nbut the state is\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
}

// replayed is the state that the last of the logs gives, as a new log would have it.
func (h *here) replayed() (out []string) {
	h.t.Helper()
	var all bytes.Buffer
	if err := h.Log(background, h.me, &all); err != nil {
		h.t.Fatal(err)
	}
	text := all.String()
	r, err := eventlog.NewReader(strings.NewReader(text[strings.LastIndex(text, `{"norn":"eventlog"`):]), "the last log")
	if err != nil {
		h.t.Fatal(err)
	}
	defer r.Close()
	s, err := replay.Fold(r)
	if err != nil {
		h.t.Fatal(err)
	}
	carried := eventlog.Carried(s, 0)
	for _, ev := range append(carried, eventlog.Lessons(s, carried)...) {
		b, err := ev.Append(nil)
		out = append(out, string(b), fmt.Sprint(err))
	}
	return out
}

// A task that paces itself is told its throttle with each order, at once when it
// changes, and is not stopped but where it is to stand still; a restart of the daemon
// changes nothing of that.
func TestPaced(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "rmixer", 1, nil)
	h.orders(func(*sched.View, *sched.Plan) {})
	a := h.submit(h.sh(1, "touch up; "+awaits("end")))
	h.orders(func(v *sched.View, p *sched.Plan) { p.StartOn(0, half()) })
	h.running(a, 1)
	if o, err := h.task(a, 1).Report(background, api.Report{Paced: true}); err != nil || o.Throttle != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	throttle := func(to int32) {
		h.orders(func(v *sched.View, p *sched.Plan) { p.Adjust(0, func(a *cluster.Alloc) { a.Shares[0].Throttle = to }) })
	}
	heard := make(chan api.Order, 1)
	asks := soon(t)
	task := h.task(a, 1)
	go func() {
		o, _ := task.Order(asks)
		heard <- o
	}()
	for len(heard) == 0 { // whoever asks is told of changes
		throttle(200)
		throttle(300)
	}
	if o := <-heard; o.Throttle != 200 && o.Throttle != 300 {
		t.Errorf("it hears %+v", o)
	}
	throttle(300)
	h.inForce(a, "it leaves its devices to others for 30% of the time, between its steps")
	h.down() // as one that died before it could tell the runner
	asJSON(t, filepath.Join(h.runDir(a, 1), rundir.LimitsFile), func(l *rundir.Limits) { l.Throttle = 100 })
	h.up()
	h.orders(func(*sched.View, *sched.Plan) {})
	h.inForce(a, "it leaves its devices to others for 30% of the time, between its steps")
	if al, err := h.task(a, 1).Allocation(background); err != nil || al.Throttle != 300 {
		t.Errorf("%+v, %v", al, err)
	}
	throttle(400)
	h.inForce(a, "for 40% of the time, between its steps")
	throttle(1000)
	h.inForce(a, "it is stopped, so that")
	throttle(0)
	h.make("end")
	h.until(a, api.Done)
}

// A job that never had its devices for itself can tell how fast it would be.
func TestToldAlone(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Defaults.SpeedFor, o.Defaults.SpeedMargin = time.Second, 0.2 })
	h.orders(func(*sched.View, *sched.Plan) {})
	var ids []string
	for range 2 {
		ids = append(ids, h.submit(h.sh(1, awaits("end"))))
	}
	h.orders(func(v *sched.View, p *sched.Plan) { p.StartOn(0, half()); p.StartOn(1, half()) })
	h.running(ids[0], 1)
	h.running(ids[1], 1)
	tells := teller{h: h, id: ids[0]}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		tells.at(300)
	}
	if n := len(h.life(ids[0], eventlog.Speed)); n > 0 {
		t.Errorf("%d speeds though nobody knows how fast it is alone", n)
	}
	if _, err := h.task(ids[0], 1).Report(background, api.Report{Alone: 0.001}); err != nil {
		t.Fatal(err)
	}
	until(t, "its speed is known", func() bool { tells.at(300); return len(h.life(ids[0], eventlog.Speed)) > 0 })
	if s := h.life(ids[0], eventlog.Speed)[0].Speed; s < 0.15 || s > 0.5 {
		t.Errorf("at 300 steps of 1000 its speed is %v", s)
	}
	h.make("end")
	h.until(ids[0], api.Done)
}

// That a neighbour does not disturb a job is told as well, once, so that it can be
// learnt; of a job that is alone, what was expected is no news.
func TestUndisturbed(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Defaults.SpeedFor, o.Defaults.SpeedMargin = 1200*time.Millisecond, 0.1 })
	h.orders(func(*sched.View, *sched.Plan) {})
	var ids []string
	for range 2 {
		ids = append(ids, h.submit(h.sh(1, awaits("end"))))
	}
	h.orders(func(v *sched.View, p *sched.Plan) { p.StartOn(0, half()) })
	h.running(ids[0], 1)
	tells := teller{h: h, id: ids[0]}
	pass := func() {
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
			tells.at(300)
		}
	}
	if _, err := h.task(ids[0], 1).Report(background, api.Report{Alone: 1. / 300}); err != nil {
		t.Fatal(err)
	}
	pass()
	if n := len(h.life(ids[0], eventlog.Speed)); n > 0 {
		t.Errorf("%d speeds of a job that runs alone, as expected", n)
	}
	h.orders(func(v *sched.View, p *sched.Plan) { p.StartOn(1, half()) })
	h.running(ids[1], 1)
	until(t, "its speed beside the other is told", func() bool { tells.at(300); return len(h.life(ids[0], eventlog.Speed)) > 0 })
	pass()
	if all := h.life(ids[0], eventlog.Speed); len(all) != 1 || all[0].Speed < 0.9 {
		t.Errorf("told %+v", all)
	}
	h.make("end")
	h.until(ids[0], api.Done)
}

// A job that takes more of a GPU than is booked for it leaves it when others are there,
// and is held when it does so again and again.
func TestMemoryGuard(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	var gpu sickness
	h := newHere(t, "fifo", 1, func(o *local.Options) {
		o.Machine.Sample, o.Machine.Devices[0].Memory, o.Machine.Types[0].Memory = gpu.sample, 8<<30, 8*unit.GiB
		o.Defaults.MemoryFactor, o.Defaults.SaveFailures = 1.2, 2
	})
	h.orders(func(*sched.View, *sched.Plan) {})
	var ids []string
	for range 2 {
		spec := h.sh(1, `trap "exit 75" TERM; touch up$NORN_JOB; `+awaits("end"))
		spec.GPUMem, spec.Stop.Mode = 2<<30, "checkpoint"
		ids = append(ids, h.submit(spec))
	}
	on := func() *cluster.Alloc {
		a := half()
		a.Shares[0].Memory = 2 * unit.GiB
		return a
	}
	h.orders(func(v *sched.View, p *sched.Plan) { p.StartOn(0, on()) })
	uses := func(pid int, used api.Bytes) {
		gpu.mu.Lock()
		defer gpu.mu.Unlock()
		gpu.says = []local.Sample{{OK: true, Used: used, Processes: []local.Process{{PID: pid, Used: used}, {PID: 1, Used: 7 << 30}}}}
	}
	mine := h.pid(ids[0], 1)
	uses(mine, 3<<30)
	h.looked()
	if j := h.job(ids[0]); j.State != api.Running || j.Reason != "" {
		t.Errorf("alone: %+v", j)
	}
	uses(mine, 2200<<20) // within a fifth
	h.looked()
	h.orders(func(v *sched.View, p *sched.Plan) { p.StartOn(1, on()) })
	h.pid(ids[1], 1)
	h.looked()
	if j := h.job(ids[0]); j.State != api.Running || j.Reason != "" {
		t.Errorf("within bounds: %+v", j)
	}
	for run := 1; run <= 2; run++ {
		uses(mine, 3<<30)
		until(t, "it is thrown off", func() bool { h.looked(); return len(h.life(ids[0], eventlog.Evict)) == run })
		because(t, h.last(ids[0], eventlog.Evict).Reason, job.OutOfMemory, "used 3GiB of the memory of slot0, which it shares; 2GiB are booked for it")
		if run == 1 {
			h.orders(func(v *sched.View, p *sched.Plan) { p.StartOn(0, on()) })
			mine = h.pid(ids[0], 2)
		}
	}
	if j := h.until(ids[0], api.Held); !strings.Contains(j.Reason, "was thrown off 2 times for its memory") {
		t.Errorf("%+v", j)
	}
	if j := h.job(ids[1]); j.State != api.Running || j.Run != 1 {
		t.Errorf("its neighbour: %+v", j)
	}
	h.make("end")
	h.until(ids[1], api.Done)
}

// pid is the process of a job that has said that it is up.
func (h *here) pid(id string, run int) int {
	h.t.Helper()
	h.running(id, run)
	h.made("up" + id)
	os.Remove(filepath.Join(h.work, "up"+id))
	var s rundir.Status
	rundir.Read(h.runDir(id, run), rundir.StatusFile, &s)
	return s.Tasks[0].PID
}

// looked waits until the devices have been looked at from now on.
func (h *here) looked() {
	h.t.Helper()
	for range 2 { // one look may have begun before
		if err := h.LookedAtDevices(); err != nil {
			h.t.Fatal(err)
		}
	}
}
