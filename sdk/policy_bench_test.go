package sdk_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// BenchmarkPolicy is the time of a decision, beside that of srtf: of a program in Python
// that decides nothing, and of examples/policy/srtf.py. Of so many active jobs half run, and
// another one comes or goes at each decision. docs/external-policies.md has the figures.
func BenchmarkPolicy(b *testing.B) {
	program := func(command string) func() (sched.Policy, error) {
		c := foreign.NewConfig()
		c.Command, c.Budget, c.Begin = command, time.Minute, time.Minute
		return c.Policy
	}
	example := srtf(b)
	idle := `"` + python(b) + `" -c "import norn.policy; norn.policy.run(lambda view, plan: None)"`
	for _, jobs := range []int{100, 2000} {
		for _, p := range []struct {
			name string
			make func() (sched.Policy, error)
		}{{"built-in", shortest.NewSRTF().Policy}, {"nothing.py", program(idle)}, {"srtf.py", program(example)}} {
			b.Run(fmt.Sprintf("%s/%d", p.name, jobs), func(b *testing.B) { decisions(b, jobs, p.make) })
		}
	}
}

// decisions reports the mean time of a decision in µs.
func decisions(b *testing.B, active int, build func() (sched.Policy, error)) {
	jobs := make([]simtest.Job, 0, active+500)
	for i := range active {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint("j", i), GPUs: 1, Run: 1e5 + float64(i)})
	}
	for i := range 500 {
		jobs = append(jobs, simtest.Job{Key: fmt.Sprint("k", i), At: float64(10 + 10*i), GPUs: 1, Run: 5})
	}
	for b.Loop() {
		t := &timed{}
		_, err := simtest.Try(simtest.Config{Cluster: simtest.Nodes(active/8, 4), Unchecked: true, Make: func() (sched.Policy, error) {
			p, err := build()
			t.Policy = p
			return t, err
		}}, jobs...)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(t.took.Microseconds())/float64(t.n), "µs/decision")
	}
	b.ReportMetric(0, "ns/op")
}

// timed is a policy whose decisions are timed while the short jobs come and go, but for the
// first, in which it may have to start.
type timed struct {
	sched.Policy
	took time.Duration
	n    int
}

func (t *timed) Decide(v *sched.View, p *sched.Plan) {
	from := time.Now()
	t.Policy.Decide(v, p)
	if v.Now > 0 && v.Now < 5000*time.Second {
		t.took += time.Since(from)
		t.n++
	}
}

// Close ends the policy that is timed.
func (t *timed) Close() error {
	if c, ok := t.Policy.(*foreign.Policy); ok {
		return c.Close()
	}
	return nil
}
