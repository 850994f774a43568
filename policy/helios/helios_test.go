package helios_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/helios"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// Sections are those of Hu et al., SC 2021, and of the spec made from it.

func config(change func(*helios.Config)) func() (sched.Policy, error) {
	return func() (sched.Policy, error) {
		c := helios.NewConfig()
		if change != nil {
			change(c)
		}
		return c.Policy()
	}
}

func told(c *helios.Config) { c.Predict = helios.Told }

// predicted is a job whose run time its source predicts.
func predicted(key string, at float64, gpus int, run, prediction float64) simtest.Job {
	return simtest.Job{Key: key, At: at, GPUs: gpus, Run: run, Spec: func(j *job.Job) {
		j.Hints = &job.Hints{Rank: prediction, HasRank: true}
	}}
}

// TestPriority is the first statement of the acceptance of the spec.
// Predictions of 3600 and 1800 s and four GPUs make a rank of 7920. Predictions
// of 20000 and 9000 s and one GPU make 10100, and 600 and 500 s and eight GPUs
// make 4080. So the third job goes first and the second last.
func TestPriority(t *testing.T) {
	lambda := helios.NewConfig().Lambda
	cases := []struct {
		rolling, learnt, rank float64
		gpus                  int
	}{{3600, 1800, 7920, 4}, {20000, 9000, 10100, 1}, {600, 500, 4080, 8}}
	jobs := []simtest.Job{predicted("before", 0, 8, 100, 1)}
	for i, c := range cases {
		p := helios.Blend(lambda, c.rolling, c.learnt)
		if got := p * float64(c.gpus); got < c.rank-1e-6 || got > c.rank+1e-6 {
			t.Errorf("job %d: rank %v, want %v", i+1, got, c.rank)
		}
		jobs = append(jobs, predicted([]string{"first", "second", "third"}[i], 1, c.gpus, 10, p))
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Make: config(told)}, jobs...)
	for key, want := range map[string]float64{"third": 100, "first": 110, "second": 110} {
		if got := run.Start(key); got != want {
			t.Errorf("%s starts at %v, want %v", key, got, want)
		}
	}
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: config(told)}, append(jobs[1:3:3], predicted("third", 1, 4, 10, 1))...)
	for key, want := range map[string]float64{"third": 1, "first": 11, "second": 21} {
		if got := run.Start(key); got != want {
			t.Errorf("one after the other: %s starts at %v, want %v", key, got, want)
		}
	}
}

// TestNoBackfill: four GPUs are free and the head needs eight, so nothing starts
// (acceptance, first statement; section 2: the queue stops at the first job that
// does not fit). Skipping is a setting.
func TestNoBackfill(t *testing.T) {
	jobs := []simtest.Job{predicted("runs", 0, 4, 100, 1), predicted("head", 1, 8, 10, 1), predicted("small", 2, 1, 5, 1000)}
	for block, want := range map[bool]float64{true: 110, false: 2} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Make: config(func(c *helios.Config) { told(c); c.Block = block })}, jobs...)
		if got := run.Start("small"); got != want || run.Start("head") != 100 {
			t.Errorf("block %v: small starts at %v, want %v; head at %v", block, got, want, run.Start("head"))
		}
		if n := run.Preemptions(); n != 0 {
			t.Errorf("%d preemptions", n)
		}
		if block && !strings.Contains(strings.Join(run.Log, "\n"), "2 wait small: ") {
			t.Error("no reason was given to the job behind the head")
		}
	}
}

// TestTies: jobs of equal rank go by size, then by arrival (section 2).
func TestTies(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: config(told)},
		predicted("before", 0, 4, 10, 1), predicted("wide", 1, 4, 10, 100), predicted("narrow", 2, 2, 10, 200), predicted("later", 3, 2, 10, 200))
	for key, want := range map[string]float64{"narrow": 10, "later": 10, "wide": 20} {
		if got := run.Start(key); got != want {
			t.Errorf("%s starts at %v, want %v", key, got, want)
		}
	}
}

// TestConsolidated: up to eight GPUs in the fullest node that has room; more in
// whole nodes and one for the rest; sixteen wait for two empty nodes (section 2).
func TestConsolidated(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(3, 8), Make: config(told)},
		predicted("five", 0, 5, 100, 1), predicted("two", 1, 2, 30, 1), predicted("twelve", 2, 12, 10, 1), predicted("sixteen", 3, 16, 10, 1), predicted("eight", 13, 8, 50, 100))
	log := strings.Join(run.Log, "\n")
	for _, want := range []string{"1 start two on n0[5-6]", "2 start twelve on n1[0-7]+n2[0-3]", "12 start sixteen on n1[0-7]+n2[0-7]"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 8), Make: config(told)},
		predicted("one", 0, 1, 100, 1), predicted("sixteen", 1, 16, 10, 1))
	if got := run.Start("sixteen"); got != 100 {
		t.Errorf("sixteen starts at %v although a node was not empty", got)
	}
}

// learn is a policy without trees that refreshes every 1000 s.
func learn(c *helios.Config) { c.Lambda, c.Refresh = 1, 1000*time.Second }

func of(user string, j simtest.Job) simtest.Job { j.User = user; return j }

// TestLearns: the rank of a job is predicted from the jobs that have ended, when
// it arrives, and does not change until the next refresh (section 3b). Here b's
// jobs look short until a long one of hers ends at 500.
func TestLearns(t *testing.T) {
	jobs := []simtest.Job{
		of("a", simtest.Job{Key: "aa", GPUs: 1, Run: 50}), of("b", simtest.Job{Key: "bb", GPUs: 1, Run: 10}),
		of("b", simtest.Job{Key: "bb", At: 100, GPUs: 1, Run: 400}), of("c", simtest.Job{Key: "cc", At: 101, GPUs: 3, Run: 2000}),
		of("a", simtest.Job{Key: "aaa", At: 200, GPUs: 4, Run: 10}), of("b", simtest.Job{Key: "bbb", At: 201, GPUs: 4, Run: 10}),
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: config(learn)}, jobs...)
	ranks := map[string][]int64{}
	for _, id := range []string{"aaa", "bbb"} {
		for _, line := range run.Log {
			if strings.Contains(line, " memo "+id+" ") {
				var at float64
				var rank int64
				if _, err := fmt.Sscanf(line, "%g memo "+id+` qssf{"rank":%d,`, &at, &rank); err != nil {
					t.Fatal(err)
				}
				ranks[id] = append(ranks[id], int64(at), rank/1e6)
			}
		}
	}
	// b's mean at 1000: (400 + 0.7 x 10) / 1.7 = 239.4 s, on four GPUs 957.
	want := map[string][]int64{"aaa": {200, 200, 1000, 200, 2000, 200}, "bbb": {201, 40, 1000, 957, 2000, 957}}
	for id, w := range want {
		if got := ranks[id]; !slices.Equal(got, w) {
			t.Errorf("%s: time and rank %v, want %v", id, got, w)
		}
	}
	if run.Start("aaa") != 2101 || run.Start("bbb") != 2111 {
		t.Errorf("aaa starts at %v, bbb at %v", run.Start("aaa"), run.Start("bbb"))
	}
}

// TestPrior: while nothing has ended a job is believed to run for the prior, so
// the smaller one goes first.
func TestPrior(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: config(nil)},
		simtest.Job{Key: "before", GPUs: 4, Run: 10}, simtest.Job{Key: "wide", At: 1, GPUs: 4, Run: 10}, simtest.Job{Key: "narrow", At: 2, GPUs: 2, Run: 10})
	if run.Start("narrow") != 10 || run.Start("wide") != 20 {
		t.Errorf("narrow starts at %v, wide at %v", run.Start("narrow"), run.Start("wide"))
	}
	for _, id := range []string{"wide", "narrow"} {
		if got, want := rank(run, id), int64(3600e6)*int64(run.Record(id).Job.Demand.GPUs()); got != want {
			t.Errorf("%s: rank %v, want %v", id, got, want)
		}
	}
}

// TestAge: a job that has waited for as long as Age goes first (section 3b, off
// by default).
func TestAge(t *testing.T) {
	jobs := []simtest.Job{predicted("long", 0, 4, 10, 1e6)}
	for i := range 40 {
		jobs = append(jobs, predicted("short", float64(i)*10, 4, 10, 1))
	}
	jobs[0].At, jobs[1].At = 0, 0
	for age, most := range map[time.Duration]float64{unit.Never: 400, 100 * time.Second: 120} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: config(func(c *helios.Config) {
			told(c)
			c.Age, c.Refresh = age, 50*time.Second
		})}, jobs...)
		if got := run.Start("long"); got > most || age == unit.Never && got != most {
			t.Errorf("age %v: long starts at %v, want %v", age, got, most)
		}
	}
}

// TestGiven: ranks follow the estimates of the run, also when they change.
func TestGiven(t *testing.T) {
	given := config(func(c *helios.Config) { c.Predict = helios.Given })
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: given},
		simtest.Job{Key: "before", GPUs: 4, Run: 10}, simtest.Job{Key: "long", At: 1, GPUs: 1, Run: 90}, simtest.Job{Key: "short", At: 2, GPUs: 4, Run: 20})
	if run.Start("short") != 10 || run.Start("long") != 30 { // 80 against 90 GPU-seconds
		t.Errorf("short starts at %v, long at %v", run.Start("short"), run.Start("long"))
	}
}

// TestTrees: trees learn what the rolling estimate cannot know: that jobs of the
// second half of each hour are long, whoever submits them.
func TestTrees(t *testing.T) {
	var jobs []simtest.Job
	at := func(i int) float64 { return float64(i) * 600 }
	length := func(i int) float64 {
		if i%6 >= 3 {
			return 300
		}
		return 30
	}
	const past = 300 // two days of six jobs an hour
	for i := range past {
		jobs = append(jobs, of("u", simtest.Job{Key: "j", At: at(i), GPUs: 1, Run: length(i)}))
	}
	// At 180,000 s a new hour begins. The cluster is full; a job arrives in each half.
	jobs = append(jobs, simtest.Job{Key: "full", At: at(past), GPUs: 4, Run: 3000},
		of("v", simtest.Job{Key: "late", At: at(past) + 2100, GPUs: 1, Run: 300}), of("v", simtest.Job{Key: "soon", At: at(past) + 1300, GPUs: 1, Run: 30}))
	jobs[past+1], jobs[past+2] = jobs[past+2], jobs[past+1]
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: config(nil), Unchecked: true}, jobs...)
	soon, late := float64(rank(run, "soon"))/1e6, float64(rank(run, "late"))/1e6
	// The rolling estimate, weight 0.1, is about 165 s for both.
	if soon < 20 || soon > 60 || late < 250 || late > 330 {
		t.Errorf("ranks %v and %v, want about 44 and 286", soon, late)
	}
}

// TestNoPeeking: what the policy does until some moment does not change when the
// truth about the jobs that have not ended by then does. The same change on jobs
// that have ended shows.
func TestNoPeeking(t *testing.T) {
	const moment = 20_000
	jobs := make([]simtest.Job, 0, 300)
	for i := range 300 {
		run := 100 + float64(i*i%37)*60
		jobs = append(jobs, of([]string{"a", "b", "c"}[i%3], simtest.Job{
			Key: "job" + strings.Repeat("xy", i%4) + "-" + unit.FormatSeconds(time.Duration(i)*time.Second), At: float64(i) * 100, GPUs: 1 + i%4, Run: run,
		}))
	}
	start := config(func(c *helios.Config) { c.Refresh, c.Trees.Trees, c.Trees.Leaf, c.Growth = 3600*time.Second, 20, 5, 0 })
	upTo := func(jobs []simtest.Job) (log []string, run *simtest.Run) {
		run = simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Make: start, Unchecked: true}, jobs...)
		for _, line := range run.Log {
			at, _, _ := strings.Cut(line, " ")
			if s, err := unit.ParseSeconds(at); err == nil && s < moment*time.Second {
				log = append(log, line)
			}
		}
		return log, run
	}
	was, run := upTo(jobs)
	if len(was) < 300 {
		t.Fatalf("only %d lines before the moment", len(was))
	}
	change := func(ended bool) []simtest.Job {
		out := append([]simtest.Job(nil), jobs...)
		for i := range out {
			if (run.End(out[i].Key) < moment) == ended {
				out[i].Run = 3*out[i].Run + 77
			}
		}
		return out
	}
	now, _ := upTo(change(false))
	if strings.Join(now, "\n") != strings.Join(was, "\n") {
		t.Error("decisions differ when the truth about the future does")
	}
	if now, _ = upTo(change(true)); strings.Join(now, "\n") == strings.Join(was, "\n") {
		t.Error("decisions stay when the past changes: the test sees nothing")
	}
}

// TestSharedLearning: pools learn from the jobs of all pools.
func TestSharedLearning(t *testing.T) {
	p, err := config(learn)()
	if err != nil {
		t.Fatal(err)
	}
	world := sim.New(sim.Config{Source: simtest.Source([]simtest.Job{{Key: "a", GPUs: 1, Run: 70}, {Key: "b", At: 100, GPUs: 1, Run: 1}})})
	e := engine.New(engine.Config{Cluster: simtest.Nodes(1, 1), Policy: p}, world)
	if err := world.Attach(e.State()); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; err = e.Step() {
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	other := p.(sched.Divider).Divide()
	v := sched.NewView(e.State(), nil, false)
	demand := job.GPUs(1)
	_, rolling, err := helios.Predict(other, &v, &job.Job{Demand: &demand})
	if err != nil || rolling != 35.5 {
		t.Errorf("the policy of another pool expects %v s (%v), want 35.5", rolling, err)
	}
}

func TestConfigErrors(t *testing.T) {
	for want, change := range map[string]func(*helios.Config){
		"refresh": func(c *helios.Config) { c.Refresh = 0 }, "age": func(c *helios.Config) { c.Age = 0 },
		"decay": func(c *helios.Config) { c.Rolling.Decay = 0 }, "depth": func(c *helios.Config) { c.Trees.Depth = 0 },
	} {
		if _, err := config(change)(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %s", err, want)
		}
	}
}

// rank is the rank that is noted on a job.
func rank(run *simtest.Run, key string) int64 {
	text := run.Record(key).Note.Fields()
	var n struct{ Rank int64 }
	if json.Unmarshal([]byte(text), &n) != nil {
		return -1
	}
	return n.Rank
}
