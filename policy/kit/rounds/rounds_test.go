package rounds_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

func TestGrid(t *testing.T) {
	g := rounds.Grid(6 * time.Minute)
	for _, k := range []struct {
		now    time.Duration
		number int64
		begins bool
		next   time.Duration
	}{{0, 0, true, 6 * time.Minute}, {time.Second, 0, false, 6 * time.Minute}, {6 * time.Minute, 1, true, 12 * time.Minute}, {13 * time.Minute, 2, false, 18 * time.Minute}} {
		if g.Number(k.now) != k.number || g.Begins(k.now) != k.begins || g.Next(k.now) != k.next {
			t.Errorf("at %v: round %d, begins %v, next %v", k.now, g.Number(k.now), g.Begins(k.now), g.Next(k.now))
		}
	}
}

// Gavel, acceptance 8: X = [[.6,.4,0],[.2,.6,.2],[.2,0,.8]] on one device of
// each type gives the jobs below in rounds 1 to 10. Over 200 rounds the jobs
// receive X to within 0.01.
func TestPriorities(t *testing.T) {
	targets := [3][3]float64{{.6, .4, 0}, {.2, .6, .2}, {.2, 0, .8}}
	var claims [3][3]rounds.Claim
	for k := range claims {
		for j := range claims[k] {
			claims[k][j].Target = targets[k][j]
		}
	}
	var got []string
	const many = 200
	for range many {
		var taken [3]bool
		line := ""
		for j := range 3 {
			var bids []rounds.Bid
			for k := range 3 {
				if claims[k][j].Target > 0 && !taken[k] {
					bids = append(bids, claims[k][j].Bid(job.ID(k), cluster.TypeID(j)))
				}
			}
			rounds.Sort(bids)
			if len(bids) == 0 {
				line += "-"
				continue
			}
			taken[bids[0].Job] = true
			claims[bids[0].Job][j].Received++
			line += fmt.Sprint(bids[0].Job)
		}
		got = append(got, line)
	}
	if first, want := strings.Join(got[:10], " "), "012 012 102 201 012 012 012 102 201 012"; first != want {
		t.Errorf("rounds 1 to 10: %s, want %s", first, want)
	}
	for k := range claims {
		for j, c := range claims[k] {
			if share := c.Received / many; math.Abs(share-targets[k][j]) > 0.01 {
				t.Errorf("job %d has %v of type %d, want %v", k, share, j, targets[k][j])
			}
		}
	}
}

// TestTies: equal priorities go by deficit, then by target, then by number.
func TestTies(t *testing.T) {
	bids := []rounds.Bid{{Job: 3, Priority: 1}, {Job: 2, Priority: 1}, {Job: 1, Priority: 1, Target: 0.5}, {Job: 4, Priority: 1, Deficit: 2}, {Job: 5, Priority: 2, Deficit: -9}}
	rounds.Sort(bids)
	var order []job.ID
	for _, b := range bids {
		order = append(order, b.Job)
	}
	if want := []job.ID{5, 4, 1, 2, 3}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	c := rounds.Claim{Target: 0.25, Received: 3, Deficit: 1}
	if c.Close(8); c.Deficit != 0 || c.Received != 0 {
		t.Errorf("after 8 rounds: %+v", c)
	}
}

// turns serves jobs in turn: the job with the least service goes first, on any
// type.
type turns struct{}

func (turns) Serve(r *rounds.Round) {
	jobs := slices.Clone(r.Jobs)
	slices.SortStableFunc(jobs, func(a, b sched.Job) int { return cmp.Compare(a.RunTime(), b.RunTime()) })
	for _, j := range jobs {
		for _, t := range r.Types {
			if r.Serve(j, t) {
				break
			}
		}
	}
}

func inTurns() (sched.Policy, error) {
	return &rounds.Policy{Grid: rounds.Grid(10 * time.Second), Place: place.Pack, Rule: turns{}}, nil
}

// TestTurns: a job that is not served again makes room when a round begins and
// not before. Devices that are free inside a round are given out at once.
func TestTurns(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 2), Make: inTurns},
		simtest.Job{Key: "a", GPUs: 2, Run: 20}, simtest.Job{Key: "b", GPUs: 1, Run: 5}, simtest.Job{Key: "c", GPUs: 1, At: 16, Run: 1})
	// a runs in round 0, b from 10 to 15, then a on the free device, and c from 20
	// on.
	for key, want := range map[string][2]float64{"a": {0, 26}, "b": {10, 15}, "c": {20, 21}} {
		if run.Start(key) != want[0] || run.End(key) != want[1] {
			t.Errorf("%s runs from %v to %v, want %v\n%s", key, run.Start(key), run.End(key), want, strings.Join(run.Log, "\n"))
		}
	}
}

// TestLease: a job that is served again keeps its devices, and no event tells
// of it.
func TestLease(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: inTurns},
		simtest.Job{Key: "a", GPUs: 3, Run: 95}, simtest.Job{Key: "b", GPUs: 3, Run: 95})
	if run.Preemptions() != 0 || run.Record("a").Migrations+run.Record("b").Migrations != 0 {
		t.Errorf("leases that are renewed are not kept:\n%s", strings.Join(run.Log, "\n"))
	}
}

// TestLargestFirst: where devices change hands, large gangs are placed before
// small ones, so that they stay together.
func TestLargestFirst(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(2, 4), Make: inTurns},
		simtest.Job{Key: "s1", GPUs: 2, Run: 5}, simtest.Job{Key: "s2", GPUs: 1, Run: 50},
		simtest.Job{Key: "s3", GPUs: 3, Run: 5}, simtest.Job{Key: "big", GPUs: 4, At: 1, Run: 5})
	for _, line := range run.Log {
		if strings.Contains(line, "start big") && strings.Contains(line, "+") {
			t.Errorf("the large gang is spread: %s", line)
		}
	}
}

func TestProperties(t *testing.T) {
	longtest.Skip(t)
	for name, shape := range map[string]simtest.Shape{
		"plain": {}, "types": {Types: true}, "parts": {Parts: true}, "costs": {Costs: true},
		"failures": {Costs: true, Failures: true}, "operated": {Costs: true, Operated: true}, "both": {Types: true, Failures: true, Operated: true},
	} {
		t.Run(name, func(t *testing.T) { simtest.Properties(t, shape, inTurns) })
	}
}
