package dag

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/policy/stages"
)

// audit watches what a policy is asked and answers.
type audit struct {
	stages.Policy
	t *testing.T
}

func (a audit) Next(v *stages.View) (stages.Choice, bool) {
	held := 0
	for _, j := range v.Jobs {
		held += j.Held
		for i := range j.Progress {
			if p := &j.Progress[i]; p.Left < 0 || p.Coming < 0 || p.Running < 0 || p.Running > 0 && !j.Runnable(i) {
				a.t.Errorf("job %s, stage %d: %+v", j.ID, i, *p)
			}
		}
	}
	if held > v.Executors || v.Free < 1 {
		a.t.Errorf("%d executors are held of %d, %d free", held, v.Executors, v.Free)
	}
	c, ok := a.Policy.Next(v)
	if ok && v.Assign(c) > c.Job.Progress[c.Stage].Open() {
		a.t.Error("more executors than open tasks")
	}
	return c, ok
}

// few are some jobs of small graphs.
func few(t *testing.T, seed uint64) []Job {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 9))
	var all []*Template
	for range 4 {
		s := drawShape(rng, 1+rng.IntN(6)).sized(5, 60)
		for i := range s {
			s[i].Tasks = 1 + rng.IntN(12)
		}
		x, err := NewTemplate(string(rune('a'+len(all))), s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	jobs, err := (&Workload{Templates: all, Initial: 3, Streamed: 12, Gap: 8 * time.Second, Seed: seed}).Make()
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// Acceptance 4 and 6: under every policy all tasks run once, parents before children, within the executors, and equal
// runs are equal. The time spent in the system is the sum of completion times.
func TestRun(t *testing.T) {
	weights := stages.Draw(rand.New(rand.NewPCG(7, 7)))
	for seed := range uint64(6) {
		jobs := few(t, seed)
		for _, e := range stages.Table(weights) {
			o := Options{Executors: 1 + int(seed)*3, Moving: time.Second, Seed: seed}
			run := func() *Result {
				p, err := e.New().Policy()
				if err != nil {
					t.Fatal(err)
				}
				r, err := Run(t.Context(), o, jobs, audit{p, t})
				if err != nil {
					t.Fatalf("%s, seed %d: %v", e.Name, seed, err)
				}
				return r
			}
			r := run()
			sum := 0.0
			for _, j := range r.Jobs {
				if j.Ended <= j.Arrived {
					t.Errorf("%s: job %s ended at %s", e.Name, j.ID, j.Ended)
				}
				sum += (j.Ended - j.Arrived).Seconds()
			}
			if math.Abs(sum-r.Spent) > 1e-6*sum {
				t.Errorf("%s: %g s in the system, and completion times of %g s", e.Name, r.Spent, sum)
			}
			if again := run(); !reflect.DeepEqual(r, again) {
				t.Errorf("%s: another result with the same seed", e.Name)
			}
		}
	}
}

// A job alone on one executor takes its move and all its tasks.
func TestAlone(t *testing.T) {
	x, err := NewTemplate("x", []Stage{{Tasks: 3, Seconds: 2}, {Tasks: 2, Seconds: 5, Parents: []int{0}}})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Executors: 1, Moving: 2 * time.Second, WarmUp: time.Second}
	r, err := Run(t.Context(), o, []Job{{ID: "j", Template: x}}, new(stages.FIFO))
	if err != nil || r.Ended != 19*time.Second || r.Moves != 1 {
		t.Errorf("%+v, %v; want 2 + 1 + 3x2 + 2x5 s", r, err)
	}
}

// Acceptance 5: the baseline of runs of the same arrivals. Ours counts later time less, which a long memory would not.
func TestAdvantages(t *testing.T) {
	e := []episode{
		{at: []time.Duration{0, 10 * time.Second}, area: []float64{0, 100}, spent: 200},
		{at: []time.Duration{0}, area: []float64{0}, spent: 300},
	}
	for i := range e {
		e[i].returns = returns(&e[i], 20*time.Second)
	}
	near := func(got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%g, want %g", got, want)
		}
	}
	near(e[0].returns[1], -1)
	near(e[0].returns[0], -1-math.Exp(-10.0/memory))
	near(e[1].returns[0], -3)
	near(e[1].from(10*time.Second, 20*time.Second), -1.5) // halfway to the end, where nothing follows
	near(e[0].from(5*time.Second, 20*time.Second), (e[0].returns[0]-1)/2)
}

// Training lowers what it descends: the imitation of a teacher makes its choices likelier, and a training that is continued is the one
// that was not interrupted, with any number of workers.
func TestTraining(t *testing.T) {
	all, err := TPCH()
	if err != nil {
		t.Fatal(err)
	}
	run := func(workers int, parts ...int) *Checkpoint {
		o := Defaults()
		o.Executors = 8
		c := (&Training{Seed: 3}).Start()
		for _, n := range parts {
			tr := &Training{Options: o, Templates: all[:7], Gap: 40 * time.Second, Seed: 3, Agents: 2, Workers: workers, Imitate: 2, Plan: 10}
			for range n {
				if _, err := tr.Step(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
		}
		return c
	}
	one, two := run(1, 3), run(2, 1, 2)
	if !reflect.DeepEqual(one.Values, two.Values) || one.Iteration != 3 {
		t.Error("other weights after an interruption")
	}
	if reflect.DeepEqual(one.Values, one.Best) {
		t.Error("nothing was learnt")
	}
}

// A trace is what was written.
func TestTrace(t *testing.T) {
	jobs := few(t, 1)
	var b bytes.Buffer
	if err := Write(&b, jobs); err != nil {
		t.Fatal(err)
	}
	again, err := Read(&b, "x")
	if err != nil || len(again) != len(jobs) {
		t.Fatal(err, len(again))
	}
	for i := range jobs {
		if again[i].ID != jobs[i].ID || again[i].Arrived != jobs[i].Arrived || !reflect.DeepEqual(again[i].known, jobs[i].known) {
			t.Errorf("job %d: %v, want %v", i, again[i], jobs[i])
		}
	}
	for text, want := range map[string]string{
		`{"id":"a","stages":[{"tasks":0,"seconds":1}]}`:                                                     "0 tasks",
		`{"id":"a","stages":[{"tasks":1}]}`:                                                                 "no run times",
		`{"id":"a","stages":[{"tasks":1,"seconds":1,"parents":[3]}]}`:                                       "parent 3",
		`{"id":"a","stages":[{"tasks":1,"seconds":1,"parents":[1]},{"tasks":1,"seconds":1,"parents":[0]}]}`: "circle",
		`{"id":"a","template":"t"}`:                                                                         "not known",
		`{"id":"a","arrival":-1,"stages":[{"tasks":1,"seconds":1}]}`:                                        "arrival",
		`{"id":"a","speed":1}`:                                                                              "unknown field",
		`{"id":"a","stages":[{"tasks":1,"seconds":-1}]}`:                                                    "no run times",
	} {
		if _, err := Read(strings.NewReader(text), "x"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "x:1") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The weights that norn comes with are those of a training, and decima runs with them.
func TestShipped(t *testing.T) {
	c, err := Shipped()
	if err != nil || len(c.Curve) == 0 {
		t.Fatal(err, "no curve")
	}
	if _, err := c.Weights(); err != nil {
		t.Fatal(err)
	}
}
