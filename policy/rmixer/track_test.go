package rmixer_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/rmixer"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
)

// tracked is the use in percent that the last note of a job tells as measured.
func tracked(log []string, key string) float64 {
	got := math.NaN()
	for _, line := range log {
		if _, note, noted := strings.Cut(line, " memo "+key+" rmixer"); noted {
			var fields struct{ Tracked float64 }
			if err := json.Unmarshal([]byte(note), &fields); err == nil {
				got = fields.Tracked / 1000
			}
		}
	}
	return got
}

// The use of a job about which nothing is told is measured. It is taken as 15 %
// at first, and each second counts a fifth. The known use of the jobs beside it
// is subtracted. The next job of its model starts with the last measurement.
func TestTracker(t *testing.T) {
	jobs := entries([]one{
		{key: "x", model: "mystery", run: 100, memory: 100}, {key: "known", model: "difm", run: 40, memory: 100, use: 0.3},
		{key: "y", at: 200, model: "mystery", run: 10, memory: 100}, {key: "z", at: 200, model: "other", run: 10, memory: 100},
	})
	used := func(at, use float64) eventlog.Event {
		return eventlog.Event{Time: secs(at), Kind: eventlog.Used, Job: job.None, Device: 0, Use: use, Memory: mib(200)}
	}
	for _, c := range []struct {
		until float64
		want  float64
	}{
		{1, 15*0.8 + 10*0.2}, {2, (15*0.8+10*0.2)*0.8 + 10*0.2}, {30, 10 + 5*math.Pow(0.8, 30)},
	} {
		js := append([]trace.Entry{}, jobs...)
		js[0].Truth.Work = secs(c.until + 0.5)
		r := world(t, 1, false, js, func(*rmixer.Config) {}, func(s *sim.Config) {
			s.Measure = false
			for at := range int(c.until) + 1 {
				s.Script = append(s.Script, used(float64(at), 0.4))
			}
		})
		log := strings.Join(r.Log, "\n")
		if got := tracked(r.Log, "x"); math.Abs(got-c.want) > 0.01 {
			t.Errorf("after %v s: %.3f %%, want %.3f\n%s", c.until, got, c.want, log)
		}
		// Of y and z, which tell as little, y is the less intensive by what was learnt.
		if c.until == 30 && !strings.Contains(log, "200 memo y rmixer{\"closed\":true,\"class\":-1,\"use\"") {
			t.Errorf("nothing was learnt from x for y\n%s", log)
		}
	}
}
