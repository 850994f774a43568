package sim_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace"
)

// turning is a job of 100 s of work that doubles its batch after 40 s of it, with which
// it is twice as fast, and has one that halves its speed for the last 20 s.
func turning() simtest.Job {
	turn := func(from time.Duration, batch, epoch int32, pace float64) trace.Turn {
		return trace.Turn{From: from * time.Second, Reported: job.Reported{Batch: batch, Epoch: epoch, Pace: pace}}
	}
	return simtest.Job{
		Key: "a", GPUs: 1, Run: 100, Spec: func(j *job.Job) {
			j.Batch, j.Hints = 32, &job.Hints{Epochs: 10, Modes: [job.MaxModes]job.Mode{{Batch: 32, Pace: 1}, {Batch: 64, Pace: 2}, {Batch: 128, Pace: 0.5}}}
		},
		Course: []trace.Turn{turn(0, 32, 0, 1), turn(40, 64, 4, 2), turn(80, 128, 8, 0.5)},
	}
}

// about are the lines of a log that have a word.
func about(log []string, words ...string) (lines []string) {
	for _, line := range log {
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, " "+w+" ") }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// A job changes its speed where it changes its batch, and reports it in the same
// instant: 40 s, 20 s for the next 40 s of work, 40 s for the last 20.
func TestCourse(t *testing.T) {
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Make: newFIFO}, turning())
	if got := run.End("a"); got != 100 {
		t.Errorf("ends at %v, want 100", got)
	}
	want := []string{
		"40 config a batch=64 noise=0 epoch=4 pace=2", "40 speed a 2",
		"60 config a batch=128 noise=0 epoch=8 pace=0.5", "60 speed a 0.5",
	}
	if got := about(run.Log, "config", "speed"); !slices.Equal(got, want) {
		t.Errorf("it reports\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := run.Record("a").Config.Spent; got != [job.MaxModes]int32{4, 4} {
		t.Errorf("%v epochs are counted for its batch sizes", got)
	}
}

// A job that is thrown back begins again with the batch that it had there, and says so.
func TestCourseThrownBack(t *testing.T) {
	run := simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: newFIFO,
		World: func(c *sim.Config) {
			c.Snapshot = 30 * time.Second
			c.Script = []eventlog.Event{
				{Time: 50 * time.Second, Kind: eventlog.NodeSet, Health: cluster.Down},
				{Time: 60 * time.Second, Kind: eventlog.NodeSet, Health: cluster.Up},
			}
		},
	}, turning())
	// At 50 s it has done 60 and keeps them. It goes on with the second batch from 60 s.
	if got := run.End("a"); math.Abs(got-(60+10+40)) > 1e-6 {
		t.Errorf("ends at %v, want 110\n%s", got, strings.Join(run.Log, "\n"))
	}
	lost := turning()
	lost.Spec = func(j *job.Job) { turning().Spec(j); j.Stop = job.Restart }
	run = simtest.Go(t, simtest.Config{
		Cluster: simtest.Nodes(1, 1), Make: newFIFO,
		World: func(c *sim.Config) {
			c.Script = []eventlog.Event{
				{Time: 50 * time.Second, Kind: eventlog.NodeSet, Health: cluster.Down},
				{Time: 60 * time.Second, Kind: eventlog.NodeSet, Health: cluster.Up},
			}
		},
	}, lost)
	if got := run.End("a"); got != 160 {
		t.Errorf("ends at %v when all is lost, want 160\n%s", got, strings.Join(run.Log, "\n"))
	}
	if got := about(run.Log, "config"); len(got) != 4 || got[1] != "60 config a batch=32 noise=0 epoch=0 pace=1" {
		t.Errorf("it reports %q", got)
	}
}
