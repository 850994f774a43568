package fairshare_test

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/fairshare"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

func config(change func(*fairshare.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := fairshare.NewConfig()
		c.Period = time.Second
		if change != nil {
			change(c)
		}
		return c.Policy()
	}
}

// history is two users who take turns on one GPU: h for heavy uses it first, for
// 100 s; l for light after that, for 20 s; then each wants it again.
var history = []simtest.Job{
	{Key: "h1", GPUs: 1, Run: 100, User: "h"}, {Key: "l1", At: 1, GPUs: 1, Run: 20, User: "l"},
	{Key: "h2", At: 110, GPUs: 1, Run: 10, User: "h"}, {Key: "l2", At: 111, GPUs: 1, Run: 10, User: "l"},
}

// TestHalfLifeDecides: at 120 h has used 100 GPU-seconds and l 20. Without decay
// l goes first; with a half-life of 5 s what h used counts 100 periods ago for
// next to nothing, and h does.
func TestHalfLifeDecides(t *testing.T) {
	for _, c := range []struct {
		halfLife time.Duration
		first    string
	}{{unit.Never, "l2"}, {time.Hour, "l2"}, {5 * time.Second, "h2"}} {
		run := simtest.Go(t, simtest.Config{
			Cluster: simtest.Nodes(1, 1), Make: config(func(f *fairshare.Config) { f.HalfLife = c.halfLife }),
		}, history...)
		if got := run.Start(c.first); got != 120 {
			t.Errorf("half-life %v: %s starts at %v, want 120", c.halfLife, c.first, got)
		}
	}
}

// TestHalfLifeOfTheCluster: where the settings tell none, that of the cluster
// counts.
func TestHalfLifeOfTheCluster(t *testing.T) {
	for halfLife, first := range map[time.Duration]string{0: "l2", time.Hour: "l2", 5 * time.Second: "h2"} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Tenants: tenant.NewTree(halfLife), Make: config(nil)}, history...)
		if got := run.Start(first); got != 120 {
			t.Errorf("half-life %v: %s starts at %v, want 120", halfLife, first, got)
		}
	}
}

// TestTenantsBeforeUsers: the users of a tenant that has used much wait behind
// those of another, unless users are all there is.
func TestTenantsBeforeUsers(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "a1", GPUs: 1, Run: 100, Tenant: "a", User: "u"}, {Key: "b1", At: 1, GPUs: 1, Run: 10, Tenant: "b", User: "v"},
		{Key: "a2", At: 20, GPUs: 1, Run: 10, Tenant: "a", User: "new"}, {Key: "b2", At: 30, GPUs: 1, Run: 10, Tenant: "b", User: "v"},
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: config(nil)}, jobs...)
	if run.Start("b1") != 100 || run.Start("b2") != 110 || run.Start("a2") != 120 {
		t.Errorf("b1 starts at %v, b2 at %v, a2 at %v; want 100, 110, 120", run.Start("b1"), run.Start("b2"), run.Start("a2"))
	}
	tree := tenant.NewTree(0)
	if _, err := tree.Add("a", tenant.Root, 0, 0, 100); err != nil {
		t.Fatal(err)
	}
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Tenants: tree, Make: config(nil)}, jobs...)
	if run.Start("a2") != 110 {
		t.Errorf("with a hundred times the weight a2 starts at %v, want 110", run.Start("a2"))
	}
}

// TestWeights: the other factors, each alone.
func TestWeights(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "run", GPUs: 4, Run: 100, User: "u"},
		{Key: "old", At: 1, GPUs: 2, Run: 10, User: "u"}, {Key: "large", At: 2, GPUs: 4, Run: 10, User: "v"},
		{Key: "urgent", At: 3, GPUs: 3, Run: 10, User: "u", Spec: func(j *job.Job) { j.Priority = 5 }},
		{Key: "small", At: 4, GPUs: 1, Run: 10, User: "u"},
	}
	for first, change := range map[string]func(*fairshare.Config){
		"old":    func(c *fairshare.Config) { c.Age = 1 },
		"large":  func(c *fairshare.Config) { c.Size = 1 },
		"small":  func(c *fairshare.Config) { c.Size, c.Small = 1, true },
		"urgent": func(c *fairshare.Config) { c.Priority = 1 },
	} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: config(func(c *fairshare.Config) {
			c.Fair, c.Mode, c.MaxAge = 0, fairshare.Strict, time.Hour
			change(c)
		})}, jobs...)
		if got := run.Start(first); got != 100 {
			t.Errorf("%s starts at %v, want 100", first, got)
		}
	}
}

// TestModes: behind a gang that does not fit whoever fits goes ahead (skip),
// whoever does not delay it (EASY), or nobody (strict).
func TestModes(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "run", GPUs: 3, Run: 100, User: "u"}, {Key: "gang", At: 1, GPUs: 4, Run: 10, User: "v"},
		{Key: "long", At: 2, GPUs: 1, Run: 200, User: "u"}, {Key: "short", At: 3, GPUs: 1, Run: 50, User: "u"},
	}
	for mode, want := range map[fairshare.Mode][3]float64{
		fairshare.Strict: {100, 110, 110}, fairshare.EASY: {100, 110, 3}, fairshare.Skip: {202, 2, 100},
	} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: config(func(c *fairshare.Config) { c.Mode = mode })}, jobs...)
		for i, key := range []string{"gang", "long", "short"} {
			if got := run.Start(key); got != want[i] {
				t.Errorf("mode %d: %s starts at %v, want %v", mode, key, got, want[i])
			}
		}
		if mode == fairshare.EASY && !strings.Contains(strings.Join(run.Log, "\n"), "2 wait long: would delay job gang, which is to start at") {
			t.Errorf("long is not told why it waits:\n%s", strings.Join(run.Log, "\n"))
		}
	}
}

// TestGuaranteeGoesFirst: a tenant that holds less than its guarantee goes before
// all others, whatever it has used; limits hold: b2 does not start at 110,
// although a GPU is idle, and then c goes first.
func TestGuaranteeGoesFirst(t *testing.T) {
	tree := tenant.NewTree(0)
	for name, q := range map[string][2]unit.Milli{"a": {1000, 0}, "b": {0, 1000}} {
		if _, err := tree.Add(name, tenant.Root, q[0], q[1], 1); err != nil {
			t.Fatal(err)
		}
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 2), Tenants: tree, Make: config(func(c *fairshare.Config) { c.Mode = fairshare.Skip })},
		simtest.Job{Key: "a1", GPUs: 2, Run: 100, Tenant: "a"}, simtest.Job{Key: "b1", At: 1, GPUs: 1, Run: 50, Tenant: "b"},
		simtest.Job{Key: "c1", At: 1, GPUs: 2, Run: 50, Tenant: "c"},
		simtest.Job{Key: "b2", At: 1, GPUs: 1, Run: 50, Tenant: "b"}, simtest.Job{Key: "a2", At: 2, GPUs: 1, Run: 10, Tenant: "a"})
	if run.Start("a2") != 100 || run.Start("b1") != 100 || run.Start("b2") != 200 {
		t.Errorf("a2 starts at %v, b1 at %v, b2 at %v; want 100, 100, 200", run.Start("a2"), run.Start("b1"), run.Start("b2"))
	}
}

// TestConfigErrors: settings that make no sense are refused.
func TestConfigErrors(t *testing.T) {
	for _, set := range [][2]string{{"period", "0"}, {"period", "2h"}, {"maxage", "0"}} {
		c := fairshare.NewConfig()
		if err := c.Params().Set(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Policy(); err == nil {
			t.Errorf("%s=%s is accepted", set[0], set[1])
		}
	}
}
