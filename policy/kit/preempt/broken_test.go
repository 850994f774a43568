package preempt_test

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/las"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/policy/tiresias"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestJobsOnBrokenGPUsAreLeftAlone: a job goes on when its GPU breaks, and the
// GPU takes no other job. The job is not stopped in vain, and a pinned job does
// not make the plan invalid. The capacity excludes the job with all its GPUs.
func TestJobsOnBrokenGPUsAreLeftAlone(t *testing.T) {
	for name, build := range map[string]func() (sched.Policy, error){
		"srtf": shortest.NewSRTF().Policy, "srsf": shortest.NewSRSF().Policy,
		"las": las.NewConfig().Policy, "tiresias": tiresias.NewConfig().Policy,
	} {
		for _, stop := range []job.StopMode{job.Checkpoint, job.Restart, job.Pinned} {
			run, err := simtest.Try(simtest.Config{
				Cluster: simtest.Nodes(2, 4), Make: build,
				World: func(c *sim.Config) {
					c.Script = []eventlog.Event{{Time: 10 * time.Second, Kind: eventlog.Device, Device: 5, Broken: true}}
				},
			},
				simtest.Job{Key: "a", GPUs: 4, Run: 200, Spec: func(j *job.Job) { j.Stop = stop }},
				simtest.Job{Key: "b", GPUs: 4, Run: 200, Spec: func(j *job.Job) { j.Stop = stop }},
			)
			if err != nil {
				t.Errorf("%s, %v: %v", name, stop, err)
				continue
			}
			if run.Preemptions() != 0 || run.End("a") != 200 || run.End("b") != 200 {
				t.Errorf("%s, %v: %d preemptions, ends at %v and %v\n%v", name, stop, run.Preemptions(), run.End("a"), run.End("b"), run.Log)
			}
		}
	}
}
