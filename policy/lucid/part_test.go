package lucid

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// Section 3, "unstable jobs are evicted from packing": two jobs that told of 30 % and 3 GiB
// each share a GPU from 10 s on. From 100 s on more is used. When a fifth more than they
// told is taken of the memory, or was busy over a minute, the one that came last moves,
// and neither shares again.
func TestUnstable(t *testing.T) {
	for name, c := range map[string]struct {
		use   float64
		gib   unit.Bytes
		parts string // when
	}{
		"as told":       {0.6, 6, ""},
		"a little more": {0.79, 10, ""}, // of 24 GiB, a fifth is 4.8
		"busier":        {0.81, 6, "200"},
		"more memory":   {0.6, 11, "100"},
		"less":          {0.1, 1, ""},
		"not measured":  {-1, 0, ""},
	} {
		cfg := packing(Always, nil)
		cfg.Cluster = simtest.Nodes(2, 1)
		cfg.World = func(s *sim.Config) {
			s.Sharing = perf.Alone{}
			for _, u := range []struct {
				at, use float64
				gib     unit.Bytes
			}{{0, 0.3, 3}, {10, 0.6, 6}, {100, c.use, c.gib}} {
				if c.use >= 0 {
					ev := eventlog.Event{Time: time.Duration(u.at) * time.Second, Kind: eventlog.Used, Device: cluster.DeviceID(0), Use: u.use, Memory: u.gib * unit.GiB, Job: job.None}
					s.Script = append(s.Script, ev)
				}
			}
		}
		run := simtest.Go(t, cfg, simtest.Job{Key: "host", GPUs: 1, Run: 1000, Spec: uses(0.3, 3)},
			simtest.Job{Key: "guest", At: 10, GPUs: 1, Run: 1000, Spec: uses(0.3, 3)}, simtest.Job{Key: "third", At: 300, GPUs: 1, Run: 10, Spec: uses(0.3, 3)})
		log := text(run)
		if !strings.Contains(log, "10 start guest on n0[0x0.5]") {
			t.Fatalf("%s: they do not share%s", name, log)
		}
		third := 300.0 // on the free GPU, or when the first one ends
		if c.parts != "" {
			third = 1000
		}
		if run.Start("third") != third || run.End("host") != 1000 || strings.Count(log, "move guest on n1[0]") != len(c.parts)/3 || !strings.Contains(log, c.parts+" move guest on") {
			t.Errorf("%s: third starts at %v%s", name, run.Start("third"), log)
		}
	}
}
