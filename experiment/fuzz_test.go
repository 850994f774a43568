package experiment_test

import (
	"math"
	"testing"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/policy"
)

// FuzzEstimate reads anything as a source of estimates (--estimates): what is read is
// written in a way that means the same, and an estimator can be made of it.
func FuzzEstimate(f *testing.F) {
	for _, s := range []string{"oracle", "none", "user+50%", "history+helios", "oracle+1e6%", "oracle+NaN%", "user+-1%", "none+0x1p3%", "+", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := experiment.ParseEstimate(s)
		if err != nil {
			return
		}
		again, err := experiment.ParseEstimate(e.String())
		if err != nil || again.String() != e.String() || again.From != e.From || again.Helios != e.Helios {
			t.Fatalf("%q is %+v, written %q, read %+v, %v", s, e, e.String(), again, err)
		}
		est, err := e.Make(predict.User{}, 1)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		d := job.GPUs(1)
		j := job.Job{Demand: &d, Estimate: 3600e9}
		if d, ok := est.Estimate(&j); ok && d < 0 {
			t.Fatalf("%q estimates %v", s, d)
		}
	})
}

// FuzzBelief reads anything as what is believed of jobs that share a GPU (--sharing).
func FuzzBelief(f *testing.F) {
	for _, s := range []string{"truth", "none", "truth+40%", "none+learn", "truth+40%+learn", "truth+NaN%", "none+learn+learn", "truth++", "none+-0%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := experiment.ParseBelief(s)
		if err != nil {
			return
		}
		if !(b.Noise >= 0) || math.IsInf(b.Noise, 1) {
			t.Fatalf("%q is %+v", s, b)
		}
		if b.Make(perf.Alone{}, 1) == nil {
			t.Fatalf("%q believes nothing at all", s)
		}
	})
}

// FuzzChoice reads anything as a policy with settings (--policy, --set): a policy is
// made of it or an error says why not, and what it is called means the same.
func FuzzChoice(f *testing.F) {
	for _, e := range policy.Table() {
		text := e.Name + "("
		for i, p := range e.New().Params() {
			if i > 0 {
				text += ","
			}
			text += p.Name + "=" + p.Default
		}
		f.Add(text + ")")
	}
	for _, s := range []string{"tiresias(limits=3600,36000,promote=2)", "fifo(", "fifo()", "fifo(=)", "las(a=b=c)", "x(y=1", "tiresias(limits=NaN)", "tiresias(limits=-1,1e400)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := experiment.ParseChoice(s)
		if err != nil {
			return
		}
		c.Shares()
		_, err = c.Make()
		again, errAgain := experiment.ParseChoice(c.String())
		if len(c.Settings) == 0 {
			return // a name alone, which may be anything
		}
		if errAgain != nil || again.String() != c.String() {
			t.Fatalf("%q is %+v, read again %+v, %v", s, c, again, errAgain)
		}
		if _, errAgain = again.Make(); (err == nil) != (errAgain == nil) {
			t.Fatalf("%q: %v, then %v", s, err, errAgain)
		}
	})
}
