package gandivafair_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/gandivafair"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

func with(change func(*gandivafair.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := gandivafair.NewConfig()
		c.Quantum = 10 * time.Second
		change(c)
		return c.Policy()
	}
}

// TestManyJobs: of two users of equal tickets, one has ten times as many jobs. Both
// have the same GPU-time; by jobs it would be one to ten.
func TestManyJobs(t *testing.T) {
	var jobs []simtest.Job
	for i := range 22 {
		j := simtest.Job{Key: fmt.Sprint(i), Tenant: "many", GPUs: 1, Run: 1000}
		if i%11 == 0 {
			j.Tenant, j.GPUs = "few", 2
		}
		jobs = append(jobs, j)
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: with(func(*gandivafair.Config) {}), Unchecked: true}, jobs...)
	// The two jobs of "few" are 4,000 GPU-seconds, of which a half share of four GPUs
	// does 2 a second.
	for _, key := range []string{"0", "11"} {
		if end := run.End(key); math.Abs(end-2000) > 40 {
			t.Errorf("job %s of the user with two jobs ends at %v, want about 2000", key, end)
		}
	}
}

// TestLone: a user alone has all GPUs.
func TestLone(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: with(func(*gandivafair.Config) {})},
		simtest.Job{Key: "a", Tenant: "x", GPUs: 8, Run: 100}, simtest.Job{Key: "b", Tenant: "x", At: 100, GPUs: 4, Run: 50}, simtest.Job{Key: "c", Tenant: "x", At: 100, GPUs: 4, Run: 50})
	for key, want := range map[string]float64{"a": 100, "b": 150, "c": 150} {
		if run.End(key) != want {
			t.Errorf("%s ends at %v, want %v", key, run.End(key), want)
		}
	}
}

// generations is how fast the models of a trace run on a fast GPU; on a slow one all
// run at 1.
type generations map[string]float64

func (g generations) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, _ int, _ bool) float64 {
	if c.Type(t).Name == "fast" {
		return g[j.Model]
	}
	return 1
}

func (g generations) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	return g.On(j, c, c.TypeOf(a.Shares[0].Device), 0, false)
}

// work is what the jobs of each user have done by a moment, in seconds.
type work struct {
	at time.Duration
	by map[string]float64
}

func (w work) Event(ev *eventlog.Event, s *state.State) {
	if ev.Time != w.at {
		return
	}
	clear(w.by)
	for i := range s.Jobs() {
		r := s.Record(job.ID(i))
		w.by[r.Job.Tenant] += r.ProgressAt(ev.Time).Seconds()
	}
}

// TestTradePays: three users whose models gain 1.2, 5 and 4 from fast GPUs,
// each with 2 fast and 2 slow ones. By hand, they do 4.4, 12 and 10 seconds of
// work a second without trading, and 6.88, 12.5 and 11.08 with trading. B buys
// half a fast GPU from A at the price of 4, then C buys 0.77 of one at 2.6.
func TestTradePays(t *testing.T) {
	speeds := generations{"a": 1.2, "b": 5, "c": 4}
	var jobs []simtest.Job
	for i := range 36 {
		model := string(rune('a' + i%3))
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint(i), Tenant: model, Model: model, GPUs: 1, Run: 2000})
	}
	for trade, want := range map[bool]map[string]float64{false: {"a": 4.4, "b": 12, "c": 10}, true: {"a": 6.877, "b": 12.5, "c": 11.077}} {
		c := cluster.New()
		for _, typ := range []cluster.GPUType{{Name: "slow", Speed: 1}, {Name: "fast", Speed: 4}} {
			id, err := c.AddType(typ)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: id, Count: 6}}}); err != nil {
				t.Fatal(err)
			}
		}
		done := work{at: 900 * time.Second, by: map[string]float64{}}
		simtest.Go(t, simtest.Config{
			Cluster: c, Make: with(func(c *gandivafair.Config) { c.Trade = trade }), Model: speeds, Speeds: speeds, Unchecked: true, Sinks: []engine.Sink{done},
		}, jobs...)
		for user, rate := range want {
			if got := done.by[user] / 900; math.Abs(got/rate-1) > 0.03 {
				t.Errorf("trade %v: user %s does %v seconds of work a second, want %v", trade, user, got, rate)
			}
		}
	}
}

// TestNobodyLoses: trading makes nobody worse off than her entitlement, by her own
// speeds (sharing incentive); GPUs neither appear nor vanish; and more is done on
// the whole.
func TestNobodyLoses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, kinds := rapid.IntRange(1, 5).Draw(t, "users"), rapid.IntRange(2, 3).Draw(t, "generations")
		gpus := make([]float64, kinds)
		order := make([]int, kinds)
		for g := range gpus {
			gpus[g], order[g] = float64(rapid.IntRange(1, 20).Draw(t, "gpus")), g
		}
		users := make([]gandivafair.Trader, n)
		for i := range users {
			u := &users[i]
			u.Tickets = float64(rapid.IntRange(1, 3).Draw(t, "tickets"))
			for range kinds {
				u.Demand = append(u.Demand, float64(rapid.IntRange(0, 40).Draw(t, "demand")))
				u.Speed = append(u.Speed, float64(rapid.IntRange(1, 50).Draw(t, "speed"))/10)
			}
		}
		if err := gandivafair.Entitle(gpus, users); err != nil {
			t.Fatal(err)
		}
		before, total := make([]float64, n), make([]float64, kinds)
		for i, u := range users {
			before[i] = worth(u)
			for g, has := range u.Has {
				total[g] += has
			}
		}
		deals := gandivafair.Trade(users, order, 0.05)
		for i, u := range users {
			if worth(u) < before[i]-1e-6 {
				t.Fatalf("user %d has %v worth, had %v: %+v", i, worth(u), before[i], deals)
			}
			for g, has := range u.Has {
				if total[g] -= has; has < -1e-9 || has > u.Demand[g]+1e-6 {
					t.Fatalf("user %d has %v GPUs of generation %d and can use %v: %+v", i, has, g, u.Demand[g], deals)
				}
			}
		}
		for g, left := range total {
			if math.Abs(left) > 1e-6 {
				t.Fatalf("%v GPUs of generation %d have vanished: %+v", left, g, deals)
			}
		}
	})
}

// worth is what a user's GPUs do for her.
func worth(u gandivafair.Trader) (sum float64) {
	for g, has := range u.Has {
		sum += has * u.Speed[g]
	}
	return sum
}

// TestWindow: users who could always use all GPUs get what their tickets are
// worth in any window of 50 quanta. The tolerance is a quantum of each of their
// jobs' gangs at either end and one of the largest gang. No GPU is idle on
// which any gang fits. (A user whose gangs fit beside nothing of hers has less:
// others use what they leave.)
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gpus := float64(rapid.SampledFrom([]int{4, 8, 16}).Draw(t, "gpus"))
		var members []gandivafair.Member
		var owner []int
		var bound, due []float64
		largest, all := 0.0, 0.0
		for u := range rapid.IntRange(2, 4).Draw(t, "users") {
			tickets := float64(rapid.IntRange(1, 3).Draw(t, "tickets"))
			first, sum := len(members), 0.0
			g := float64(rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(t, "gang"))
			for sum < gpus { // she could use all GPUs
				members, owner = append(members, gandivafair.Member{GPUs: g}), append(owner, u)
				sum, largest = sum+g, max(largest, g)
			}
			for i := range members[first:] {
				members[first+i].Tickets = tickets * members[first+i].GPUs / sum
			}
			bound, due, all = append(bound, sum), append(due, tickets), all+tickets
		}
		quanta(rapid.IntRange(0, 60).Draw(t, "before"), gpus, members)
		_, used := quanta(50, gpus, members)
		total, by := 0.0, make([]float64, len(due))
		for i, n := range used {
			by[owner[i]] += n
			total += n
		}
		for u := range due {
			if want := due[u] / all * total; math.Abs(by[u]-want) > 2*bound[u]+largest {
				t.Fatalf("user %d has %v GPU-quanta of %v, her tickets are worth %v (%+v)", u, by[u], total, want, members)
			}
		}
		if total < 50*(gpus-largest+1) {
			t.Fatalf("%v of %v GPU-quanta are used", total, 50*gpus)
		}
	})
}
