package backfill_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// literal is EASY backfill in order of submission as it is published: it tries
// job after job, and leaves none out.
type literal struct {
	where place.Strategy
	ahead *int // jobs that went ahead
}

// Decide implements sched.Policy.
func (l literal) Decide(v *sched.View, p *sched.Plan) {
	var waiting []sched.Job
	for j := range v.Waiting() {
		waiting = append(waiting, j)
	}
	for len(waiting) > 0 && p.Start(waiting[0].ID, l.where) {
		waiting = waiting[1:]
	}
	if len(waiting) == 0 {
		return
	}
	at, on, ok := p.Expect(waiting[0].ID, l.where)
	if !ok {
		return
	}
	var reserved cluster.Alloc
	reserved.CopyFrom(on)
	for _, j := range waiting[1:] {
		started := false
		if left, known := j.Remaining(); known && v.Now+left <= at {
			started = p.Start(j.ID, l.where)
		} else {
			p.Without(&reserved, func() { started = p.Start(j.ID, l.where) })
		}
		if started {
			*l.ahead++
		}
	}
}

// guess is an estimator that is wrong about most jobs, in another way for each
// attempt, and knows nothing of some.
type guess struct {
	salt  int
	asked map[job.ID]int
}

// Estimate implements predict.Estimator.
func (g *guess) Estimate(j *job.Job) (time.Duration, bool) {
	g.asked[j.ID]++
	n := (int(j.ID)*7 + g.asked[j.ID]*3 + g.salt) % 11
	return time.Duration(n*n) * time.Second, n > 0
}

// Observe implements predict.Estimator.
func (g *guess) Observe(*job.Job, time.Duration) {}

// TestAgainstLiteral: leaving out jobs that cannot go ahead changes nothing.
// Every job starts and stops when and where trying all of them has it. This
// holds also when estimates are wrong, missing, or change with the attempts.
func TestAgainstLiteral(t *testing.T) {
	ahead := 0
	rapid.Check(t, func(t *rapid.T) {
		where := rapid.SampledFrom([]place.Strategy{place.Pack, place.Consolidated, place.BestFit}).Draw(t, "place")
		var jobs []simtest.Job
		at := 0
		for i := range rapid.IntRange(2, 25).Draw(t, "jobs") {
			at += rapid.IntRange(0, 3).Draw(t, "gap")
			j := simtest.Job{
				Key: string(rune('a' + i)), At: float64(at), GPUs: rapid.SampledFrom([]int{1, 1, 2, 3, 4, 8}).Draw(t, "gpus"),
				Run: float64(rapid.IntRange(1, 30).Draw(t, "run")),
			}
			for range rapid.IntRange(0, 2).Draw(t, "failures") {
				j.Fails = append(j.Fails, float64(rapid.IntRange(1, 10).Draw(t, "fails after")))
			}
			jobs = append(jobs, j)
		}
		oracle, salt := rapid.Bool().Draw(t, "oracle"), rapid.IntRange(0, 10).Draw(t, "salt")
		run := func(policy func() (sched.Policy, error)) []string {
			c := simtest.Config{Cluster: simtest.Nodes(2, 4), Make: policy}
			if !oracle {
				c.Estimator = &guess{salt, map[job.ID]int{}}
			}
			r, err := simtest.Try(c, jobs...)
			if err != nil {
				t.Fatal(err)
			}
			return slices.DeleteFunc(r.Log, func(line string) bool { return strings.Contains(line, " wait ") })
		}
		want := run(func() (sched.Policy, error) { return literal{where, &ahead}, nil })
		got := run(func() (sched.Policy, error) {
			c := fifo.NewConfig()
			c.Mode, c.Place = fifo.EASY, where
			return c.Policy()
		})
		if !slices.Equal(got, want) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
	if ahead == 0 {
		t.Error("no job ever went ahead: the test shows nothing")
	}
}
