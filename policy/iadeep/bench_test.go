package iadeep

import (
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

func duration(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// BenchmarkDecide is one decision with 1,000 jobs that share on 4,096 GPUs, of which others
// keep the rest for themselves, and 1,000 that wait and are all started beside them.
func BenchmarkDecide(b *testing.B) {
	models := []string{"vgg16", "squeezenet", "resnet50", "neumf", "adgcl", "lstm", "bert", "yolov5"}
	spec := func(j *job.Job) {
		d := *j.Demand
		d.Roles[0].GPUMemory = 6 * unit.GiB
		j.Demand, j.Batch, j.Hints = &d, 512, &job.Hints{GPUUse: 0.3, GPUMemory: 4 * unit.GiB}
	}
	var jobs []simtest.Job
	for i := range 3096 {
		jobs = append(jobs, simtest.Job{Key: "x" + strconv.Itoa(i), GPUs: 1, Run: 1_000_000, Spec: func(j *job.Job) { j.Stop = job.Freeze }})
	}
	for i := range 2000 {
		at := 0.0
		if i >= 1000 {
			at = 10
		}
		jobs = append(jobs, simtest.Job{Key: "r" + strconv.Itoa(i), At: at, GPUs: 1, Run: 20_000, Model: models[i%8], Spec: spec})
	}
	simtest.Go(b, simtest.Config{Cluster: simtest.Nodes(512, 8), Shared: true, Unchecked: true, Make: func() (sched.Policy, error) {
		p, err := NewConfig().Policy()
		return &simtest.Timed{Policy: p, B: b, At: 10 * time.Second}, err
	}}, jobs...)
}
