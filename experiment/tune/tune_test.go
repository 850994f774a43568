package tune

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

func choice(t *testing.T, text string) experiment.Choice {
	t.Helper()
	c, err := experiment.ParseChoice(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSpaces: of every policy of the table that has settings to try, random points are settings that the
// policy takes, or refuses as a whole; thresholds grow; the start is the defaults.
func TestSpaces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tried := 0
	for _, e := range policy.Table() {
		s, err := NewSpace(choice(t, e.Name))
		if err != nil {
			if !strings.Contains(err.Error(), "no settings") {
				t.Errorf("%s: %v", e.Name, err)
			}
			continue
		}
		if c, err := s.Choice(s.Start()); err != nil || c.String() != e.Name {
			t.Errorf("%s: the start is %v, %v", e.Name, c, err)
		}
		good := 0
		for draws := 0; draws < 30 || good == 0 && draws < 500; draws++ { // of ymir's, one in thirteen is a policy
			c, err := s.Choice(s.Random(r))
			if err != nil {
				continue
			}
			good++
			for _, set := range c.Settings {
				if set.Name == "limits" && e.Name == "tiresias" {
					grows(t, set.Value)
				}
			}
			if again := choice(t, c.String()); again.String() != c.String() {
				t.Errorf("%s is read as %s", c, again)
			}
		}
		if tried++; good == 0 {
			t.Errorf("%s: no random point is a policy", e.Name)
		}
	}
	if tried < 40 {
		t.Errorf("%d policies have settings", tried)
	}
}

// grows fails on thresholds that do not grow (specification of AutoSched, section 6.5).
func grows(t *testing.T, list string) {
	t.Helper()
	last := 0.0
	for text := range strings.SplitSeq(list, ",") {
		c := []float64{}
		p := param.Floats("x", &c, "", "")
		if err := (param.Set{p}).Set("x", text); err != nil || len(c) != 1 || c[0] <= last {
			t.Errorf("thresholds %s do not grow, %v", list, err)
			return
		}
		last = c[0]
	}
}

// TestFixed: what the user has set stays.
func TestFixed(t *testing.T) {
	s, err := NewSpace(choice(t, "tiresias(rank=gittins)"))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		c, err := s.Choice(s.Random(r))
		if err == nil && !strings.Contains(c.String(), "rank=gittins") {
			t.Fatalf("%s", c)
		}
	}
	if _, err := NewSpace(choice(t, "srtf(place=pack,victims=order)")); err == nil || !strings.Contains(err.Error(), "no settings") {
		t.Errorf("%v", err)
	}
}

// bowl is a reward with its top at one place, whatever the first word, and half of it for others.
func bowl(s *Space, p Point) float64 {
	out := 1.5
	for i := range s.Knobs {
		switch {
		case len(s.Knobs[i].Values) == 0:
			out -= (p[i] - 0.7) * (p[i] - 0.7)
		case i == 0 && p[i] != 1:
			out /= 2
		}
	}
	return out
}

// TestModel: a model that has seen points of a bowl foretells others, and its order of them is right.
func TestModel(t *testing.T) {
	s, err := NewSpace(choice(t, "tiresias"))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	var seen []Trial
	for range 200 {
		p := s.Random(r)
		v := 1 / bowl(s, p)
		seen = append(seen, Trial{point: p, Measured: &Measure{Objective: v, Metrics: Metrics{Wait: 1 / v, Held: 1}}})
		if len(seen) < leastTrials && learn(s, seen, 1) != nil {
			t.Fatalf("something is foretold after %d trials", len(seen))
		}
	}
	m := learn(s, seen, 1)
	right, all := 0, 0
	for range 300 {
		a, b := s.Random(r), s.Random(r)
		if x, y := bowl(s, a), bowl(s, b); math.Abs(x-y) > 0.1 {
			if all++; (m.foretell(a) > m.foretell(b)) == (x > y) {
				right++
			}
		}
	}
	if right < all*9/10 {
		t.Errorf("%d of %d pairs are in the right order", right, all)
	}
}

// TestSampler: proposals come nearer to the top of a bowl than as many random points do.
func TestSampler(t *testing.T) {
	s, err := NewSpace(choice(t, "tiresias"))
	if err != nil {
		t.Fatal(err)
	}
	const rounds, trials = 20, 60
	ours, random := 0.0, 0.0
	for seed := range uint64(rounds) {
		m := newSampler(s, rand.New(rand.NewPCG(seed, 1)), trials/4)
		best := 0.0
		for range trials {
			p := m.next()
			v := bowl(s, p)
			best = max(best, v)
			m.tell(v, true)
		}
		r := rand.New(rand.NewPCG(seed, 2))
		other := 0.0
		for range trials {
			other = max(other, bowl(s, s.Random(r)))
		}
		ours, random = ours+best/rounds, random+other/rounds
	}
	if ours <= random {
		t.Errorf("the best of %d proposals is %.3f on average, of random points %.3f", trials, ours, random)
	}
}

// TestSearch tunes tiresias on the built-in jobs: it gets better on those and on the later ones; the same
// seed finds the same; and each setting that is kept is worth something.
func TestSearch(t *testing.T) {
	src, err := experiment.OpenSample(trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := experiment.ReadAll(src)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := clusterspec.Parse("8x8")
	if err != nil {
		t.Fatal(err)
	}
	jobs, later := Split(all, 0.3)
	if len(jobs) != 1050 || len(later) != 450 || later[0].Job.Submit != 0 || later[449].Job.ID != 449 {
		t.Fatalf("%d and %d jobs", len(jobs), len(later))
	}
	tuner := &Tuner{Experiment: &experiment.Experiment{Spec: spec, Seed: 1}, Jobs: jobs, Later: later, Objective: Objectives()[0], Trials: 25, Seed: 1}
	r, err := tuner.Search(context.Background(), choice(t, "tiresias"))
	if err != nil {
		t.Fatal(err)
	}
	gain, some := r.LaterGain()
	if r.Gain() < 0.1 || !some || gain < 0.1 || r.Simulated() != 25 {
		t.Errorf("%s: %.2f, on later jobs %.2f %v, %d simulations", r.Best, r.Gain(), gain, some, r.Simulated())
	}
	for _, e := range r.Effects {
		if e.Without.Objective <= r.Is.Objective*(1+negligible) {
			t.Errorf("%s=%s is worth nothing", e.Setting.Name, e.Setting.Value)
		}
	}
	again, err := tuner.Search(context.Background(), choice(t, "tiresias"))
	if err != nil || again.Best.String() != r.Best.String() {
		t.Errorf("%v, then %v, %v", r.Best, again.Best, err)
	}
}

// TestSplit: deadlines stay as far from the submission as they were, and the jobs that are split are left
// as they are.
func TestSplit(t *testing.T) {
	var all experiment.Jobs
	src, err := experiment.OpenSample(trace.Options{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if all, err = experiment.ReadAll(src); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Job.Deadline = all[i].Job.Submit + time.Hour
	}
	was := slices.Clone(all)
	_, later := Split(all, 0.5)
	for i := range later {
		if j := later[i].Job; j.Deadline != j.Submit+time.Hour {
			t.Errorf("job %s: submitted at %v, due at %v", j.Key, j.Submit, j.Deadline)
		}
	}
	for i := range all {
		if all[i].Job.Submit != was[i].Job.Submit {
			t.Errorf("job %d was changed", i)
		}
	}
}
