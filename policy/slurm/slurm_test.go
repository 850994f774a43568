package slurm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/slurm"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// with makes the policy with settings as a user writes them.
func with(settings ...string) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := slurm.NewConfig()
		for _, s := range settings {
			name, value, _ := strings.Cut(s, "=")
			if err := c.Params().Set(name, value); err != nil {
				return nil, err
			}
		}
		return c.Policy()
	}
}

// of makes a change of a job to a QOS.
func of(qos string) func(*job.Job) {
	return func(j *job.Job) { j.Hints = &job.Hints{QoS: qos} }
}

// starts are the first starts of all jobs, in seconds.
func starts(run *simtest.Run, jobs []simtest.Job) string {
	var out []string
	for _, j := range jobs {
		out = append(out, fmt.Sprint(j.Key, " ", run.Start(j.Key)))
	}
	return strings.Join(out, ", ")
}

// TestMultifactor: Slurm's page Multifactor Priority Plugin adds to a job's priority each
// weight times a factor from 0 to 1; those of a partition and a QOS are parts of the largest.
func TestMultifactor(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "first", GPUs: 1, Run: 100}, {Key: "old", At: 10, GPUs: 1, Run: 10},
		{Key: "part", At: 20, GPUs: 1, Run: 10, Partition: "big"}, {Key: "qos", At: 30, GPUs: 1, Run: 10, Spec: of("high"), Partition: "small"},
	}
	tables := []string{"partitions=big:10,small:5", "qoses=high:20,normal:10", "maxage=1000s"}
	for _, test := range []struct{ weights, want string }{
		// At 100 the ages are 90, 80 and 70 of 1000 s, the factors of partitions 0.1 (not told: 1 of 10), 1
		// and 0.5, and those of QOSs 0, 0 and 1.
		{"", "first 0, old 100, part 110, qos 120"},
		{"age=1000", "first 0, old 100, part 110, qos 120"},
		{"partition=1000", "first 0, old 120, part 100, qos 110"},
		{"qos=1000", "first 0, old 110, part 120, qos 100"},
		{"qos=10,partition=21", "first 0, old 120, part 100, qos 110"}, // 2.1, 21 and 20.5
		{"qos=10,partition=19", "first 0, old 120, part 110, qos 100"}, // 1.9, 19 and 19.5
		{"qos=1,age=100", "first 0, old 100, part 110, qos 120"},       // 9, 8 and 7+1, the older one first
		{"qos=1.1,age=100", "first 0, old 100, part 120, qos 110"},
	} {
		settings := append([]string{}, tables...)
		if test.weights != "" {
			settings = append(settings, strings.Split(test.weights, ",")...)
		}
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: with(settings...)}, jobs...)
		if got := starts(run, jobs); got != test.want {
			t.Errorf("%s: %s, want %s", test.weights, got, test.want)
		}
	}
}

// TestTiers: jobs of a partition with a higher PriorityTier go first, whatever their priority.
func TestTiers(t *testing.T) {
	jobs := []simtest.Job{{Key: "a", GPUs: 1, Run: 10, Partition: "main"}, {Key: "b", GPUs: 1, Run: 10, Partition: "main"}, {Key: "c", At: 1, GPUs: 1, Run: 10, Partition: "urgent"}}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: with("partitions=main:100,urgent:0:2", "partition=1e6")}, jobs...)
	if got := starts(run, jobs); got != "a 0, b 20, c 10" {
		t.Error(got)
	}
}

// TestPreemptionOfSlurm is the example of Slurm's page Preemption: five jobs of a node each in
// partition active, then one of three nodes for 30 s in hipri. Three are stopped, and go on when it
// has ended. Here the youngest are stopped, and 485 and 486 remain.
func TestPreemptionOfSlurm(t *testing.T) {
	var jobs []simtest.Job
	for i := range 5 {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint(485 + i), At: float64(i), GPUs: 4, Run: 300, Partition: "active"})
	}
	jobs = append(jobs, simtest.Job{Key: "490", At: 28, GPUs: 12, Run: 30, Partition: "hipri"})
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(5, 4), Make: with("preempt=partition", "partitions=active:1:1,hipri:1:2")}, jobs...)
	if got := starts(run, jobs); got != "485 0, 486 1, 487 2, 488 3, 489 4, 490 28" {
		t.Error(got)
	}
	for key, want := range map[string]float64{"485": 300, "486": 301, "487": 332, "488": 333, "489": 334, "490": 58} {
		if got := run.End(key); got != want {
			t.Errorf("%s ends at %v, want %v", key, got, want)
		}
	}
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(5, 4), Make: with("partitions=active:1:1,hipri:1:2")}, jobs...)
	if run.Start("490") != 302 {
		t.Errorf("without preemption 490 starts at %v", run.Start("490"))
	}
}

// TestQOS: a QOS preempts those that it lists and no others, the lowest first, of these the
// youngest; whoever is not in the way stays.
func TestQOS(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "normal", GPUs: 2, Run: 100, Spec: of("normal")}, {Key: "low1", At: 1, GPUs: 2, Run: 100, Spec: of("low")}, {Key: "low2", At: 2, GPUs: 2, Run: 100, Spec: of("low")},
		{Key: "peer", At: 3, GPUs: 2, Run: 100, Spec: of("high")}, {Key: "high", At: 10, GPUs: 4, Run: 20, Spec: of("high")},
	}
	for _, test := range []struct {
		qoses, want string
		stopped     string
	}{
		{"high:100:normal+low,normal:50,low:10", "normal 0, low1 1, low2 2, peer 3, high 10", "low1 low2"},
		{"high:100:low+normal,normal:5,low:10", "normal 0, low1 1, low2 2, peer 3, high 10", "normal low2"},
		{"high:100:low,normal:50,low:10", "normal 0, low1 1, low2 2, peer 3, high 10", "low1 low2"},
		{"high:100:normal,normal:50,low:10", "normal 0, low1 1, low2 2, peer 3, high 101", ""}, // not enough
		{"high:100,normal:50,low:10", "normal 0, low1 1, low2 2, peer 3, high 101", ""},
	} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(4, 2), Make: with("preempt=qos", "qoses="+test.qoses)}, jobs...)
		if got := starts(run, jobs); got != test.want {
			t.Errorf("%s: %s, want %s\n%v", test.qoses, got, test.want, run.Log)
		}
		var stopped []string
		for _, j := range jobs {
			if run.Record(j.Key).Preemptions > 0 {
				stopped = append(stopped, j.Key)
			}
		}
		if got := strings.Join(stopped, " "); got != test.stopped {
			t.Errorf("%s: stopped %s, want %s", test.qoses, got, test.stopped)
		}
	}
}

// TestExempt: a job that has started is left alone for a while (PreemptExemptTime), and one
// that must not be stopped for good.
func TestExempt(t *testing.T) {
	low := func(stop job.StopMode) func(*job.Job) {
		return func(j *job.Job) { j.Hints, j.Stop = &job.Hints{QoS: "low"}, stop }
	}
	for stop, want := range map[job.StopMode]float64{job.Checkpoint: 40, job.Restart: 40, job.Pinned: 100} {
		jobs := []simtest.Job{{Key: "low", GPUs: 1, Run: 100, Spec: low(stop)}, {Key: "high", At: 10, GPUs: 1, Run: 10, Spec: of("high")}}
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: with("preempt=qos", "qoses=high:1:low", "exempt=40s")}, jobs...)
		if got := run.Start("high"); got != want {
			t.Errorf("%v: starts at %v, want %v", stop, got, want)
		}
	}
}

// TestSettings: what cannot be read, or would have jobs take turns for ever, is refused.
func TestSettings(t *testing.T) {
	for settings, want := range map[string]string{
		"partitions=a": "NAME:FACTOR", "partitions=a:x": "NAME:FACTOR", "partitions=a:1:x": "NAME:FACTOR", "partitions=a:-1": "NAME:FACTOR", "partitions=a:1:2:3": "NAME:FACTOR",
		"partitions=a:1,a:2": "told once", "partitions=:1": "has a name", "qoses=a": "NAME:PRIORITY", "qoses=a:x": "NAME:PRIORITY", "qoses=a:NaN": "NAME:PRIORITY",
		"qoses=a:1,a:1": "told once", "qoses=a:1:a": "jobs of a may preempt some that may preempt them",
		"qoses=a:1:b,b:1:c,c:1:a": "may preempt some that may preempt them", "period=1ms": "period",
	} {
		if _, err := with(settings)(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", settings, err, want)
		}
	}
	if _, err := with("qoses=a:1:b+c,b:1:c,c:1,d:1:e", "partitions=a:0,b:0")(); err != nil {
		t.Error(err)
	}
}
