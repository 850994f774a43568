package antman

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

func built(set map[string]string) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := NewConfig()
		for k, v := range set {
			if err := c.Params().Set(k, v); err != nil {
				return nil, err
			}
		}
		return c.Policy()
	}
}

// TestRandomWorlds runs the policy over random worlds in which jobs tell what they use,
// perhaps wrongly, and disturb each other, with tenants and without.
func TestRandomWorlds(t *testing.T) {
	longtest.Skip(t)
	for name, set := range map[string]map[string]string{
		"defaults": nil,
		"crowded":  {"guests": "3", "use": "1", "memory": "100", "wait": "10s", "up": "200"},
		"two":      {"guests": "2", "use": "0.5"},
		"slow":     {"period": "7s", "look": "15s", "wait": "0s", "reserve": "false", "slack": "0.3"},
	} {
		for shape, s := range map[string]simtest.Shape{
			"packed": {Packed: true, Tenants: true}, "types": {Packed: true, Types: true, Costs: true}, "operated": {Packed: true, Operated: true, Costs: true},
			"failures": {Failures: true, Operated: true, Tenants: true}, "parts": {Parts: true, Tenants: true}, "pools": {Pools: true},
		} {
			s.Shared = true
			t.Run(name+"/"+shape, func(t *testing.T) { simtest.Properties(t, s, built(set)) })
		}
	}
}

// guard notes, of every moment of a run, how fast owners are, who has what, and who is
// thrown off.
type guard struct {
	t      *rapid.T
	lost   map[job.ID][]loss // of owners, since they own
	quotas bool
}

// loss is the part of its speed that an owner lacks from a moment on.
type loss struct {
	at   time.Duration
	part float64
}

// Event implements engine.Sink.
func (g *guard) Event(ev *eventlog.Event, s *state.State) {
	if ev.Kind == eventlog.Evict && ev.Reason.Code == job.OutOfMemory {
		g.t.Fatalf("job %s ran out of memory", s.Record(ev.Job).Job.Key)
	}
	for p := range s.Cluster.Pools() {
		for i := range s.Running(0).All() {
			id := job.ID(i)
			if r := s.Record(id); p == 0 && r.Phase == job.Running && !IsGuest(s.Alloc(id)) {
				g.lost[id] = append(g.lost[id], loss{s.Now, 1 - r.Speed})
			}
		}
	}
	for id := range tenant.ID(s.Tenants.Len()) {
		if e := s.Tenants.At(id); g.quotas && e.Guarantee > 0 && e.Used.GPU > e.Guarantee {
			g.t.Fatalf("at %v tenant %s owns %v of its %v", s.Now, e.Name, e.Used.GPU, e.Guarantee)
		}
	}
}

// check fails when an owner lost more than a part of its speed over any time of a
// minute, that ends with something that happened.
func (g *guard) check(most float64) {
	for id, all := range g.lost {
		for i := range all {
			sum, from := 0.0, all[i].at-time.Minute
			for k := i; k > 0 && all[k].at > from; k-- {
				sum += all[k-1].part * (all[k].at - max(from, all[k-1].at)).Seconds()
			}
			if sum/60 > most {
				g.t.Fatalf("job number %d lost %.3f of its speed in the minute before %v", id, sum/60, all[i].at)
			}
		}
	}
}

// TestProtects (acceptance 5): whatever guests do, no owner loses more than 2 % of its
// speed alone over a minute, nobody runs out of memory, nobody is stopped, and no
// tenant owns more than its quota; all jobs end.
func TestProtects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []simtest.Job
		for i := range rapid.IntRange(1, 14).Draw(t, "jobs") {
			use := float64(rapid.IntRange(1, 10).Draw(t, "use")) / 10
			memory := unit.Bytes(rapid.IntRange(1, 16).Draw(t, "memory")) * unit.GiB
			class := rapid.SampledFrom([]string{"", "", "opportunistic", "guaranteed"}).Draw(t, "class")
			jobs = append(jobs, simtest.Job{
				Key: string(rune('a' + i)), At: float64(7 * i), GPUs: rapid.IntRange(1, 4).Draw(t, "GPUs"), Run: float64(rapid.IntRange(20, 200).Draw(t, "run")),
				Tenant: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant"), GPUMemory: min(16*unit.GiB, memory*5/4),
				Spec: func(j *job.Job) { j.Hints = &job.Hints{GPUUse: use, GPUMemory: memory, QoS: class} },
			})
		}
		watch := &guard{t: t, lost: map[job.ID][]loss{}, quotas: true}
		cfg := simtest.Config{
			Cluster: gpus(t, 2, 4, 16, 64), Tenants: halves(t), Make: built(nil), Shared: true, Sharing: perf.Paced{},
			World: func(c *sim.Config) { c.Sharing, c.Measure = perf.Paced{}, true },
		}
		cfg.Sinks = append(cfg.Sinks, watch)
		run, err := simtest.Try(cfg, jobs...)
		if err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(run.Log, "\n"))
		}
		watch.check(0.02)
		if run.Preemptions() > 0 || len(run.State.Ended()) != len(jobs) {
			t.Fatalf("%d preemptions, %d of %d ended\n%s", run.Preemptions(), len(run.State.Ended()), len(jobs), strings.Join(run.Log, "\n"))
		}
		cfg.Sinks = nil
		cfg.Cluster, cfg.Tenants, cfg.Restart, cfg.Seed = gpus(t, 2, 4, 16, 64), halves(t), true, rapid.Uint64Range(0, 1000).Draw(t, "seed")
		again, err := simtest.Try(cfg, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := logOf(run), logOf(again); a != b {
			t.Fatalf("a policy that starts anew decides otherwise:\n%s\n---\n%s", a, b)
		}
	})
}

// halves is two tenants, each with a quota of half of eight GPUs.
func halves(t *rapid.T) *tenant.Tree {
	tree := tenant.NewTree(0)
	for _, name := range []string{"a", "b"} {
		if _, err := tree.Add(name, tenant.Root, 4*unit.One, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// logOf is the lines of a log but for the reasons given to jobs that wait.
func logOf(r *simtest.Run) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(r.Log), func(line string) bool { return strings.Contains(line, " wait ") }), "\n")
}
