package local_test

import (
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local"
)

// A frozen job that its user takes back is gone at once, and so are its processes,
// though the daemon is started anew.
func TestFrozenCancelled(t *testing.T) {
	for name, again := range map[string]bool{"": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHere(t, "srtf", 1, nil)
			a := h.submit(h.long("freeze", `trap "" TERM; touch up; `+awaits("never")))
			h.made("up")
			b := h.submit(h.short(awaits("b-ends")))
			h.until(b, api.Running)
			if again {
				h.down()
				h.up()
			}
			h.do(server.Cancel, a)
			if j := h.until(a, api.Cancelled); j.Reason != h.me.User+" cancelled it" {
				t.Errorf("%q", j.Reason)
			}
			h.gone(a, 1)
			h.make("b-ends")
			h.until(b, api.Done)
			h.told(a, "submit start preempt gone cancel")
		})
	}
}

// A running job that its user takes back is cancelled, though the scheduler needs
// its devices before it has left.
func TestCancelledAndPreempted(t *testing.T) {
	for name, again := range map[string]bool{"": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHere(t, "srtf", 1, func(o *local.Options) { o.Defaults.CancelGrace = 60 })
			a := h.submit(h.long("checkpoint", `trap "touch asked" TERM; touch up; `+awaits("leave")+`; exit 75`))
			h.made("up")
			h.do(server.Cancel, a)
			h.made("asked")
			b := h.submit(h.short("true"))
			h.until(a, api.Stopping)
			if again {
				h.down()
				h.up()
			}
			h.make("leave")
			if j := h.until(a, api.Cancelled); j.Run != 1 {
				t.Errorf("%+v", j)
			}
			h.until(b, api.Done)
		})
	}
}

// Jobs are taken back while they wait, run, leave, are frozen, are assigned their
// devices and are held: nothing of them is left.
func TestCancelInEveryState(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "srtf", 1, func(o *local.Options) { o.Defaults.CancelGrace = 60 })
	slow := `trap "touch asked$NORN_JOB" TERM; touch up$NORN_JOB; ` + awaits("leave") + "; exit 75"
	frozen := h.submit(h.long("freeze", "touch up$NORN_JOB; "+awaits("never")))
	h.made("up" + frozen)
	stopping := h.submit(func() api.JobSpec { s := h.long("checkpoint", slow); s.Estimate = 100; return s }())
	h.made("up" + stopping)
	h.until(frozen, api.Waiting)
	assigned := h.submit(h.short("true"))
	h.until(stopping, api.Stopping)
	h.until(assigned, api.Assigned)
	longer := h.long("never", "true")
	longer.Estimate = 2000
	waiting := h.submit(longer)
	heldSpec := h.long("never", "true")
	heldSpec.Held = true
	held := h.submit(heldSpec)
	for id, s := range map[string]api.State{
		frozen: api.Waiting, stopping: api.Stopping, assigned: api.Assigned, waiting: api.Waiting, held: api.Held,
	} {
		if j := h.job(id); j.State != s {
			t.Errorf("job %s is %s, not %s", id, j.State, s)
		}
	}
	for _, id := range []string{stopping, waiting, held, frozen, assigned} {
		h.do(server.Cancel, id)
		if j := h.job(id); j.State != api.Cancelled && id != stopping {
			t.Errorf("job %s is %s", id, j.State)
		}
	}
	h.made("asked" + stopping)
	h.make("leave")
	if j := h.until(stopping, api.Cancelled); j.Reason != h.me.User+" cancelled it" {
		t.Errorf("%q", j.Reason)
	}
	h.gone(frozen, 1)

	running := h.submit(h.long("restart", "touch up$NORN_JOB; "+awaits("never")))
	h.made("up" + running)
	h.do(server.Cancel, running)
	h.until(running, api.Cancelled)
	h.gone(running, 1)
	refused(t, h.Do(background, h.me, server.Cancel, running), api.Conflict, "has ended: it is cancelled")
	if n, err := h.Node(background); err != nil || len(n.Devices[0].Jobs) > 0 {
		t.Errorf("%+v, %v", n, err)
	}
}
