package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local"
)

// plain is the daemon's own user without the rights of an operator.
func (h *here) plain() server.Caller {
	c := h.me
	c.Operator = false
	return c
}

// held is a job that is held.
func (h *here) held() api.JobSpec {
	spec := h.sh(1, "true")
	spec.Held = true
	return spec
}

// A job that the limits of a user or of a tenant never allow is refused when it
// is submitted, except for operators.
func TestAskedTooMuch(t *testing.T) {
	t.Parallel()
	for _, whose := range []string{"user", "tenant"} {
		t.Run(whose, func(t *testing.T) {
			t.Parallel()
			h := newHere(t, "fifo", 4, func(o *local.Options) {
				q := live.Quota{GPUs: 2, Array: 3, Priority: 10, Grace: time.Minute, Memory: 1 << 30}
				if whose == "user" {
					o.Limits.Quotas.User = q
				} else {
					o.Limits.Quotas.Tenant = q
				}
				o.TenantOf = func(_, asked string) (string, error) { return "lab", nil }
			})
			for _, c := range []struct {
				edit  func(*api.JobSpec)
				words string
			}{
				{func(s *api.JobSpec) { s.GPUs = api.Fixed(3) }, "at most 2 GPUs together, this one asks for 3"},
				{func(s *api.JobSpec) { s.GPUs = api.Range{Least: 1, Most: 4, Ask: 1} }, "asks for 4"},
				{func(s *api.JobSpec) { s.Array = "1-4" }, "an array may have at most 3 jobs, this one has 4"},
				{func(s *api.JobSpec) { s.Priority = 2_000_000_000 }, "a priority may be at most 10, this one is 2000000000"},
				{func(s *api.JobSpec) { s.Stop = api.Stop{Mode: "checkpoint", Grace: 3650 * 86400} }, "at most 1m"},
				{func(s *api.JobSpec) { s.Memory = 0 }, "each must say how much it needs (--mem)"},
				{func(s *api.JobSpec) { s.Memory = 2 << 30 }, "this one asks for 2GiB"},
			} {
				spec := h.held()
				spec.Memory = 1 << 30
				c.edit(&spec)
				_, err := h.Submit(background, h.plain(), spec)
				refused(t, err, api.Denied, c.words)
				refused(t, err, api.Denied, "by the limits of "+whose+" ")
				if _, err := h.Submit(background, h.me, spec); err != nil {
					t.Errorf("an operator is refused: %v", err)
				}
			}
			spec := h.held()
			spec.Memory, spec.GPUs, spec.Priority, spec.Array, spec.Stop = 1<<30, api.Fixed(2), 10, "1-3", api.Stop{Mode: "checkpoint", Grace: 60}
			if _, err := h.Submit(background, h.plain(), spec); err != nil {
				t.Errorf("all that is allowed is refused: %v", err)
			}
		})
	}
}

// One user fills the queue: the others still get in, and each of them may have as much as is
// still free then; operators may have the rest.
func TestFairQueue(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run jobs as others")
	}
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Limits.Jobs = 64 })
	ann, bob := others()
	fill := func(c server.Caller) (n int) {
		for {
			_, err := h.Submit(background, c, h.held())
			if err != nil {
				refused(t, err, api.Unavailable, "64")
				return n
			}
			n++
		}
	}
	carl := server.Caller{User: "65532", UID: 65532, Local: true}
	if a, b, c := fill(ann), fill(bob), fill(carl); a != 32 || b != 16 || c != 8 {
		t.Errorf("they have %d, %d and %d jobs of 64", a, b, c)
	}
	spec := h.held()
	spec.Array = "1-5"
	_, err := h.Submit(background, bob, spec)
	refused(t, err, api.Unavailable, "may not have more than are still free for others")
	if n := fill(h.me); n != 8 {
		t.Errorf("an operator gets %d", n)
	}
	h.do(server.Cancel, "1")
	if _, err := h.Submit(background, ann, h.held()); err == nil { // she still has more than the others
		t.Error("ann gets the place back that carl could have")
	}
	if _, err := h.Submit(background, h.me, h.held()); err != nil {
		t.Errorf("an operator is refused: %v", err)
	}
}

// Jobs that wait count against the limit of their user, those that run do not.
func TestQueuedOfUser(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Limits.Quotas.User.Queued = 2 })
	submit := func() (string, error) {
		ids, err := h.Submit(background, h.plain(), h.sh(1, awaits("enough")))
		return strings.Join(ids, " "), err
	}
	first, err := submit()
	if err != nil {
		t.Fatal(err)
	}
	h.running(first, 1)
	for range 2 {
		if _, err := submit(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = submit()
	refused(t, err, api.Unavailable, "has 2 jobs that wait, and may have at most 2")
	h.make("enough")
	h.until("3", api.Done)
	if _, err := submit(); err != nil {
		t.Error(err)
	}
}

// waitFor waits until jobs stand so.
func (h *here) waitFor(want string) {
	h.t.Helper()
	have := ""
	for deadline := time.Now().Add(60 * time.Second); have != want; time.Sleep(5 * time.Millisecond) {
		if have = h.standing(); time.Now().After(deadline) {
			h.t.Fatalf("jobs are %s\nwant     %s", have, want)
		}
	}
}

// Of an array with a throttle so many jobs run at a time; the others are held and say so,
// over a restart too, and go one after the other.
func TestThrottledArray(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 4, nil)
	spec := h.sh(1, "touch up$NORN_ARRAY_INDEX; "+awaits("go$NORN_ARRAY_INDEX"))
	spec.Array = "1-5%2"
	id := h.submit(spec)
	h.waitFor("1_1 running, 1_2 running, 1_3 held, 1_4 held, 1_5 held")
	if j := h.job(id + "_4"); j.Reason != "waits until others end: array 1 runs 2 jobs, or may, of at most 2" {
		t.Errorf("it waits because it %q", j.Reason)
	}
	refused(t, h.Do(background, h.plain(), server.Release, "1_4"), api.Conflict, "only an operator may let it start before")
	h.make("go2")
	h.waitFor("1_1 running, 1_2 done, 1_3 running, 1_4 held, 1_5 held")
	h.down()
	h.up()
	h.make("go1")
	h.waitFor("1_1 done, 1_2 done, 1_3 running, 1_4 running, 1_5 held")
	h.do(server.Release, "1_5") // by an operator
	h.waitFor("1_1 done, 1_2 done, 1_3 running, 1_4 running, 1_5 running")
	for i := range 5 {
		h.make(fmt.Sprint("go", i+1))
	}
	h.waitFor("1_1 done, 1_2 done, 1_3 done, 1_4 done, 1_5 done")
	for _, bad := range []string{"1-5%", "1-5%0", "1-5%-1", "1-5%x", "%3", "1-5%+2", "1-5%2%2"} {
		spec.Array = bad
		_, err := h.Submit(background, h.me, spec)
		refused(t, err, api.Invalid, "")
	}
}

// Limits on what runs hold jobs until others end: the more urgent ones go first. Jobs of
// operators go whatever the limits say.
func TestRunningOfUser(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	for name, q := range map[string]live.Quota{"running": {Running: 2}, "gpus": {GPUs: 2}, "memory": {Memory: 2 << 30}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHere(t, "fifo", 4, func(o *local.Options) { o.Limits.Quotas.User = q })
			for i := range 4 {
				spec := h.sh(1, awaits(fmt.Sprint("go", i+1)))
				spec.Priority, spec.Memory = int32(i), 1<<30
				if _, err := h.Submit(background, h.plain(), spec); err != nil {
					t.Fatal(err)
				}
			}
			h.waitFor("1 running, 2 running, 3 held, 4 held")
			h.submit(h.sh(1, awaits("go5")))
			h.waitFor("1 running, 2 running, 3 held, 4 held, 5 running")
			h.make("go5")
			h.waitFor("1 running, 2 running, 3 held, 4 held, 5 done")
			h.make("go2")
			h.waitFor("1 running, 2 done, 3 held, 4 running, 5 done")
			h.do(server.Cancel, "1")
			h.waitFor("1 cancelled, 2 done, 3 running, 4 running, 5 done")
			h.make("go3")
			h.make("go4")
			h.until("3", api.Done)
			h.until("4", api.Done)
		})
	}
}

// A job of a user may have no more processes than she, by her limits.
func TestProcessesOfUser(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Limits.Quotas.User.PIDs = 77; o.Limits.Quotas.Tenant.PIDs = 88 })
	run := func(c server.Caller, limits map[string]string) string {
		t.Helper()
		spec := h.sh(1, "grep processes /proc/self/limits")
		spec.ULimits = limits
		ids, err := h.Submit(background, c, spec)
		if err != nil {
			t.Fatal(err)
		}
		h.until(ids[0], api.Done)
		return strings.Join(strings.Fields(h.wrote(ids[0]))[2:4], " ")
	}
	if have := run(h.plain(), nil); have != "77 77" {
		t.Errorf("she has %s", have)
	}
	if have := run(h.plain(), map[string]string{"nproc": "5:unlimited"}); have != "5 77" {
		t.Errorf("she has %s", have)
	}
	if have := run(h.me, map[string]string{"nproc": "99"}); have != "99 99" {
		t.Errorf("an operator has %s", have)
	}
}

// A job may wait for the failure of another: it starts when that fails or is cancelled,
// and says that it never will when that is done.
func TestAfterFailure(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 4, nil)
	after := func(id string) string {
		spec := h.sh(0, "true")
		spec.After = []api.After{{Job: id, Failed: true}}
		return h.submit(spec)
	}
	good, bad, off := h.submit(h.sh(1, awaits("enough"))), h.submit(h.sh(1, awaits("enough")+"; exit 3")), h.submit(h.sh(1, awaits("never")))
	array := h.sh(1, awaits("enough")+"; [ $NORN_ARRAY_INDEX != 2 ]")
	array.Array = "1-3"
	some := h.submit(array)
	afterGood, afterBad, afterOff, afterSome := after(good), after(bad), after(off), after(some)
	h.waitFor("1 running, 2 running, 3 running, 4_1 running, 4_2 waiting, 4_3 waiting, 5 held, 6 held, 7 held, 8 held")
	h.do(server.Cancel, off)
	h.make("enough")
	for _, id := range []string{afterBad, afterOff, afterSome} {
		h.until(id, api.Done)
	}
	until(t, "it is told that it never starts", func() bool { return strings.Contains(h.job(afterGood).Reason, "is done: it never comes") })
	late := after(good)
	if j := h.job(late); j.State != api.Held || !strings.Contains(j.Reason, "is done: it never comes") {
		t.Errorf("%s: %s", j.State, j.Reason)
	}
	h.until(after(bad), api.Done)
	var no *api.Error
	if err := h.Do(context.Background(), h.me, server.Release, late); errors.As(err, &no) {
		t.Error(err)
	}
	h.until(late, api.Done)
}
