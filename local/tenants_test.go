package local_test

import (
	"errors"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/tenant"
)

// withTenants has two tenants, each of which is guaranteed a device, and a third
// that has a limit.
func withTenants(o *local.Options) {
	o.Tenants = func() (*tenant.Tree, error) {
		t := tenant.NewTree(0)
		_, err1 := t.Add("a", 0, unit.One, tenant.Unlimited, 1)
		_, err2 := t.Add("b", 0, unit.One, tenant.Unlimited, 1)
		_, err3 := t.Add("small", 0, 0, unit.One, 1)
		return t, errors.Join(err1, err2, err3)
	}
	o.TenantOf = func(user, asked string) (string, error) {
		switch asked {
		case "":
			return "a", nil
		case "secret":
			return "", errors.New(user + " is not of tenant secret")
		}
		return asked, nil
	}
}

// of is a job of a tenant.
func (h *here) of(tenant string, spec api.JobSpec) api.JobSpec {
	spec.Tenant = tenant
	return spec
}

// A job counts for the tenant that it may count for; a tenant gets back what it is
// guaranteed, and holds no more than it may.
func TestTenants(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "maxmin", 2, withTenants)
	user := h.me
	user.Operator = false
	_, err := h.Submit(background, user, h.of("secret", h.sh(1, "true")))
	refused(t, err, api.Denied, h.me.User+" is not of tenant secret")

	spec := h.sh(1, "touch up$NORN_JOB-$NORN_RUN; "+awaits("enough"))
	spec.Stop = api.Stop{Mode: "freeze"}
	a1, a2 := h.submit(spec), h.submit(spec)
	h.made("up" + a1 + "-1")
	h.made("up" + a2 + "-1")
	if j := h.job(a1); j.Tenant != "a" {
		t.Errorf("job %s is of tenant %q", a1, j.Tenant)
	}
	b := h.submit(h.of("b", spec))
	h.until(b, api.Running)
	because(t, h.last(a2, eventlog.Preempt).Reason, job.Reclaimed, "")

	s1, s2 := h.submit(h.of("small", spec)), h.submit(h.of("small", spec))
	s, err := h.Status(background)
	if err != nil || len(s.Tenants) != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	for i, want := range []api.Tenant{
		{Name: "a", Guarantee: 1, Weight: 1, Allocated: 1, Waiting: 1}, {Name: "b", Guarantee: 1, Weight: 1, Allocated: 1}, {Name: "small", Limit: 1, Weight: 1, Waiting: 2},
	} {
		have := s.Tenants[i]
		have.Usage = 0
		if have != want {
			t.Errorf("%+v, want %+v", have, want)
		}
	}
	two := h.of("small", spec)
	two.GPUs = api.Fixed(2)
	never := h.submit(two)
	if w := h.why(never); w.Unknown != "it can never run here" {
		t.Errorf("%+v", w)
	}
	h.make("enough")
	for _, id := range []string{a1, a2, b, s1, s2} {
		h.until(id, api.Done)
	}
	if started, ended := h.last(s2, eventlog.Start).Time, h.last(s1, eventlog.End).Time; started < ended {
		t.Errorf("tenant small held two devices: its second job started at %v, its first ended at %v", started, ended)
	}
}
