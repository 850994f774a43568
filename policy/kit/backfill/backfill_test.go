package backfill_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// literal is backfill in order of submission as it is published: it tries
// job after job, and leaves none out.
type literal struct {
	most  int // reservations
	where place.Strategy
	ahead *int // jobs that went ahead
}

// Decide implements sched.Policy.
func (l literal) Decide(v *sched.View, p *sched.Plan) {
	var booked []sched.Booking
	for j := range v.Waiting() {
		left, known := j.Remaining()
		until := v.Now + left
		if !known {
			left, until = unit.Never, unit.Never
		}
		started := p.Beside(booked, v.Now, until, func() bool { return p.Start(j.ID, l.where) })
		switch {
		case started && len(booked) > 0:
			*l.ahead++
		case !started && len(booked) < l.most:
			at, on, ok := p.Expect(j.ID, l.where, booked...)
			if !ok && len(booked) == 0 {
				return // anybody might delay it
			}
			if ok {
				booked = append(booked, sched.Booking{Job: j.ID, From: at, To: unit.Later(at, left)})
				booked[len(booked)-1].On.CopyFrom(on)
			}
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
		most := rapid.SampledFrom([]int{1, 1, 2, 3, 100}).Draw(t, "reservations")
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
		want := run(func() (sched.Policy, error) { return literal{most, where, &ahead}, nil })
		got := run(func() (sched.Policy, error) {
			c := fifo.NewConfig()
			c.Mode, c.Place, c.Reservations = fifo.EASY, where, most
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

// backfilled runs jobs under fifo with backfill, on one node.
func backfilled(t *testing.T, gpus, reservations int, jobs ...simtest.Job) *simtest.Run {
	t.Helper()
	return simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, gpus), Make: func() (sched.Policy, error) {
		c := fifo.NewConfig()
		c.Mode, c.Reservations = fifo.EASY, reservations
		return c.Policy()
	}}, jobs...)
}

// TestReservations: under EASY backfill a long narrow job goes ahead, since it does not delay the first that
// waits, and delays the second. Where the second has a reservation, too, it does not.
func TestReservations(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "runs", GPUs: 3, Run: 10},
		{Key: "first", At: 1, GPUs: 3, Run: 10},
		{Key: "second", At: 2, GPUs: 4, Run: 10},
		{Key: "long", At: 3, GPUs: 1, Run: 100},
		{Key: "short", At: 4, GPUs: 1, Run: 16},
	}
	for reservations, want := range map[int][]float64{
		1: {0, 10, 103, 3, 20}, // short would have delayed first at 4, and starts beside long when it is done
		2: {0, 10, 20, 30, 4},
		9: {0, 10, 20, 30, 4},
	} {
		r := backfilled(t, 4, reservations, jobs...)
		for i, at := range want {
			if got := r.Start(jobs[i].Key); got != at {
				t.Errorf("%d reservations: %s starts at %v, want %v s", reservations, jobs[i].Key, got, at)
			}
		}
	}
}

// TestConservative: with a reservation for every job, and run times that are known, jobs start when an
// algorithm says that knows numbers of GPUs alone. Few start otherwise: there a job would have had to move
// from one GPU to another while it runs.
func TestConservative(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	jobs, other := 0, 0
	wait, want := 0.0, 0.0
	for range 300 {
		gpus, at := 2+r.IntN(7), 0
		var counted []*countedJob
		var specs []simtest.Job
		for i := range 2 + r.IntN(19) {
			at += r.IntN(4)
			c := &countedJob{at: at, gpus: 1 + r.IntN(gpus), run: 1 + r.IntN(30), start: -1}
			counted = append(counted, c)
			specs = append(specs, simtest.Job{Key: fmt.Sprint("j", i), At: float64(at), GPUs: c.gpus, Run: float64(c.run)})
		}
		conservative(counted, gpus)
		run := backfilled(t, gpus, len(specs), specs...)
		for i, c := range counted {
			got := run.Start(specs[i].Key)
			if jobs++; got != float64(c.start) {
				other++
			}
			wait, want = wait+got-float64(c.at), want+float64(c.start-c.at)
		}
	}
	t.Logf("%d of %d jobs start otherwise; they wait for %.0f s, by numbers alone for %.0f s", other, jobs, wait, want)
	if other*50 > jobs || math.Abs(wait-want) > want/100 {
		t.Errorf("%d of %d jobs start otherwise; they wait for %.0f s, by numbers alone for %.0f s", other, jobs, wait, want)
	}
}

// countedJob is a job to whom GPUs are numbers; times in seconds.
type countedJob struct {
	at, gpus, run, start int
}

// conservative sets when each job starts. At each moment it looks through all jobs in order, and moves each
// to the first moment from which on enough GPUs are free for as long as it runs.
func conservative(jobs []*countedJob, gpus int) {
	const horizon = 2000
	for now := range horizon {
		free := make([]int, horizon) // from second to second
		for i := range free {
			free[i] = gpus
		}
		take := func(j *countedJob, from int) {
			for s := max(from, now); s < from+j.run; s++ {
				free[s] -= j.gpus
			}
		}
		for _, j := range jobs {
			if j.start >= 0 {
				take(j, j.start)
			}
		}
		for _, j := range jobs {
			if j.at > now || j.start >= 0 {
				continue
			}
			from := now
			for s := now; s < from+j.run; s++ {
				if free[s] < j.gpus {
					from = s + 1
				}
			}
			if take(j, from); from == now {
				j.start = now
			}
		}
	}
}
