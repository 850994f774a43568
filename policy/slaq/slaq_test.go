package slaq

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/loss"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// trainer is a meter of jobs whose losses fall as told, by key; others report nothing. A step is a
// second on one GPU, and is reported every ten seconds.
type trainer map[string]loss.Form

func (trainer) Every(*job.Job) time.Duration { return 10 * time.Second }

// Measure implements sim.Meter.
func (m trainer) Measure(l *sim.Look, to *perf.Reading) {
	to.Add(perf.Rate, l.Speed)
	form := m[l.Job.Key]
	if form == nil {
		return
	}
	var losses, at []float64
	k := float64(int(l.Progress.Seconds()))
	for i := max(0, k-20); i <= k; i++ {
		losses, at = append(losses, form.Loss(i)), append(at, i)
	}
	to.Add(perf.Loss, losses...)
	to.Add(perf.Samples, at...)
}

// elastic is a job that asks for one GPU and may have up to most.
func elastic(key string, at, run float64, most int) simtest.Job {
	d := job.GPUs(1)
	d.Roles[0].Min, d.Roles[0].Max = 1, int32(most)
	return simtest.Job{Key: key, At: at, Run: run, Demand: &d}
}

// config is a run of the policy, in intervals of 10 s and with the settings given, on a node.
func config(gpus int, m sim.Meter, settings ...string) simtest.Config {
	c := NewConfig()
	for _, s := range append([]string{"interval=10s", "delay=0s"}, settings...) {
		name, value, _ := strings.Cut(s, "=")
		if err := c.Params().Set(name, value); err != nil {
			panic(err)
		}
	}
	out := simtest.Config{
		Cluster: simtest.Nodes(1, gpus), Make: c.Policy, Believe: c.Believer,
		Model: perf.Analytic{Scaling: 1, Spread: 1}, World: func(s *sim.Config) { s.Meter = m },
	}
	return out
}

func has(t *testing.T, run *simtest.Run, lines ...string) {
	t.Helper()
	log := strings.Join(run.Log, "\n")
	for _, l := range lines {
		if !strings.Contains(log, l) {
			t.Errorf("%q is not in\n%s", l, log)
		}
	}
}

// TestNewJobBurst is acceptance D of the specification: at the epoch after a job arrives it gets
// more units than one that is past 90 % of its fall.
func TestNewJobBurst(t *testing.T) {
	curve := loss.Curve{B1: 1, B2: 0.2}
	m := trainer{"old": curve, "new": curve}
	run := simtest.Go(t, config(8, m), elastic("old", 0, 3000, 8), elastic("new", 201, 3000, 8))
	has(t, run, "0 start old on n0[0-7]", "210 resize old on n0[", "210 start new on n0[")
	at := map[string]int{}
	for _, line := range run.Log {
		var gpus [2]int
		for _, key := range []string{"old", "new"} {
			if n, _ := fmt.Sscanf(line[strings.Index(line, " ")+1:], "resize "+key+" on n0[%d-%d]", &gpus[0], &gpus[1]); n == 2 && at[key] == 0 && strings.HasPrefix(line, "2") {
				at[key] = gpus[1] - gpus[0] + 1
			}
		}
	}
	if at["new"] <= at["old"] {
		t.Errorf("the new job gets %d units, the old one %d\n%s", at["new"], at["old"], strings.Join(run.Log, "\n"))
	}
}

// TestSilent: a job that reports no loss starts like one that will, and shares what is left
// when it has not reported for two intervals; where no job reports, all have as many.
func TestSilent(t *testing.T) {
	m := trainer{"loud": loss.Curve{B1: 1, B2: 0.01}}
	run := simtest.Go(t, config(8, m), elastic("loud", 0, 400, 8), elastic("silent", 0, 400, 8))
	has(t, run, "0 start loud on n0[", "0 start silent on n0[", "10 resize loud on n0[1-7]", "10 resize silent on n0[0]")
	run = simtest.Go(t, config(8, trainer{}), elastic("a", 0, 800, 8), elastic("b", 0, 800, 8), elastic("c", 95, 20, 8))
	has(t, run, "0 start a on n0[0-3]", "0 start b on n0[4-7]", "100 resize b on n0[", "100 start c on n0[", "106.666666667 end c done")
	run = simtest.Go(t, config(8, m, "share=equal"), elastic("loud", 0, 400, 8), elastic("silent", 0, 400, 8))
	has(t, run, "0 start loud on n0[0-3]", "100 end loud done", "100 end silent done")
}

// TestDelay: a running job that keeps its size loses nothing to the delay, so sizes stay where
// another one gains less than it costs.
func TestDelay(t *testing.T) {
	m := trainer{"a": loss.Curve{B1: 1, B2: 0.02}, "b": loss.Curve{B1: 1, B2: 0.021}}
	count := func(settings ...string) int {
		run := simtest.Go(t, config(7, m, settings...), elastic("a", 0, 3000, 7), elastic("b", 0, 3000, 7))
		return strings.Count(strings.Join(run.Log, "\n"), "resize")
	}
	if free, dear := count(), count("delay=8s"); dear >= free {
		t.Errorf("%d resizes where they cost nothing, %d where they take 8 of 10 s", free, dear)
	}
}

// TestRigid: a job of one size has that or nothing.
func TestRigid(t *testing.T) {
	run := simtest.Go(t, config(4, trainer{}), elastic("e", 0, 100, 4), simtest.Job{Key: "r", At: 5, GPUs: 3, Run: 50})
	has(t, run, "10 resize e on n0[", "10 start r on n0[", "60 end r done")
}

// kinked falls as a curve up to a step, and not at all from then on.
type kinked struct {
	loss.Curve
	from float64
}

// Loss implements loss.Form.
func (f kinked) Loss(k float64) float64 { return f.Curve.Loss(min(k, f.from)) }

// TestNoForesight: of two worlds in which a loss goes on in another way from some step on, the
// first difference is what is measured then.
func TestNoForesight(t *testing.T) {
	play := func(from float64) []string {
		c := loss.Curve{B1: 1, B2: 0.05}
		m := trainer{"a": kinked{c, from}, "b": c}
		return simtest.Go(t, config(8, m), elastic("a", 0, 900, 8), elastic("b", 35, 900, 8)).Log
	}
	a, b := play(200), play(1e9)
	for i := range a {
		if a[i] != b[i] {
			if !strings.Contains(a[i], " measured a ") || strings.HasPrefix(a[i], "0 ") {
				t.Errorf("%q differs from %q", a[i], b[i])
			}
			return
		}
	}
	t.Error("nothing differs")
}

// TestLearnt: a scheduler that starts again believes the same, and decides the same.
func TestLearnt(t *testing.T) {
	c := NewConfig()
	c.Interval, c.Delay = 20*time.Second, 5*time.Second
	forms := trainer{}
	for i := range 12 {
		forms[fmt.Sprintf("j%d", i)] = loss.Curve{B0: 0.1, B1: 1, B2: 0.01 * float64(1+i%4)}
	}
	learning := simtest.Learning{Build: c.Policy, Believe: c.Believer, Meter: forms}
	learning.Properties(t, simtest.Shape{Costs: true})
}

// TestMeans: settings that make no sense are refused.
func TestMeans(t *testing.T) {
	for _, s := range []string{"interval=0s", "delay=never"} {
		c := NewConfig()
		name, value, _ := strings.Cut(s, "=")
		err := c.Params().Set(name, value)
		if err == nil {
			_, err = c.Policy()
		}
		if err == nil {
			t.Errorf("%s is taken", s)
		}
	}
}

var _ sched.Waker = (*policy)(nil)
