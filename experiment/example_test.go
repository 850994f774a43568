package experiment_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/whatif"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// must ends a program on an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// This example does what norn sim jobs.csv --cluster cluster.yaml --assume use
// --policy fifo,antman does.
func ExampleExperiment_All() {
	jobs := must(experiment.OpenTrace("testdata/jobs.csv", trace.Options{}))
	defer jobs.Close()
	x := experiment.Experiment{Spec: must(clusterspec.Load("testdata/cluster.yaml")), Seed: 1, Assume: experiment.AssumeUse}
	choices := must(experiment.ParseChoices("fifo,antman"))
	prepared := must(experiment.Prepare(jobs, x.Preparation()))
	outcomes := must(x.All(context.Background(), choices, prepared, nil))
	if err := report.Compare(experiment.Named(outcomes)).WriteText(os.Stdout, report.TextOptions{Width: 60}); err != nil {
		panic(err)
	}
	for _, text := range prepared.Remarks() {
		fmt.Println(text)
	}
	// Output:
	// policy    mean JCT  JCT p99  mean wait  makespan   util
	// fifo        52m36s    1h15m     24m36s     1h20m  71.9%
	// antman       36m5s   59m37s         0s        1h  66.9%
	// what 5 jobs use of their GPUs was not told: each was taken to use as much as training jobs do that were measured, drawn by its number (--assume use, --seed 1)
}

// smallest starts the smallest job first. It is a policy by having Decide.
type smallest struct{}

func (smallest) Decide(v *sched.View, p *sched.Plan) {
	for _, j := range slices.SortedStableFunc(v.Waiting(), func(a, b sched.Job) int { return a.GPUs() - b.GPUs() }) {
		p.Start(j.ID, place.Pack)
	}
}

// This example simulates a policy that is a value of the program.
func ExampleMade() {
	jobs := must(experiment.OpenTrace("testdata/jobs.csv", trace.Options{}))
	defer jobs.Close()
	x := experiment.Experiment{Spec: must(clusterspec.Parse("1x4")), Seed: 1}
	mine := experiment.Made("smallest", func() (sched.Policy, error) { return smallest{}, nil })
	outcomes := must(x.All(context.Background(), []experiment.Choice{{Policy: "fifo"}, mine}, jobs, nil))
	for _, o := range outcomes {
		fmt.Println(o.Name, o.Result.JCT.Mean)
	}
	// Output:
	// fifo 52m36s
	// smallest 41m24s
}

// This example does what norn plan --log events.log --policy srtf does.
func Example_plan() {
	file := must(eventlog.Open("testdata/events.log"))
	defer file.Close()
	history := must(whatif.Read(file.Reader, replay.Stretch{}, report.Options{}))
	question := whatif.Question{
		History: history, Policies: must(experiment.ParseChoices("srtf")), Estimates: must(whatif.ParseEstimates(whatif.Believed)),
	}
	plan := must(question.Answer(context.Background()))
	if err := plan.WriteText(os.Stdout, whatif.TextOptions{Width: 80, Now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}); err != nil {
		panic(err)
	}
	// Output:
	// From 2026-03-04 09:00 to 2026-03-04 10:03, 6 jobs; 4 are compared, 1 had not ended; in force: fifo, fifo(mode=skip) from 09:10 on
	// srtf: mean completion time -65% from as it was (16m4s instead of 45m32s); 1 job
	//   of 2 to 4 GPUs waits for 1m13s instead of 0s.
	//
	//                 MEAN JCT  MEAN WAIT  PREEMPTED  GPUS USED  JCT CHANGE  JOB-HOURS
	// as it was         45m32s     29m53s          0      99.6%
	// fifo(mode=ski…    45m36s     29m55s          0      99.6%       +0.1%    +0.0036
	// srtf               16m4s      22.5s          1      99.3%      -64.7%      -1.97
	//
	// The simulation of what was in force is off by +0.1% in mean JCT; in it, half of the jobs end within 3.5s of when they did. The policy was changed meanwhile, and the simulation has the last one all the time: --since "2026-03-04 09:10:00" looks at that one alone.
	//
	// GPUS  JOBS  as it was        srtf
	// 1        3     40m43s  58.7s -98%
	// 2-4      1         1h  1h1m +2.2%
	//
	// LENGTH  JOBS  as it was        srtf
	// <1m        1        33s    50s +52%
	// 1m-10m     2       1h1m   1m3s -98%
	// 1h-8h      1         1h  1h1m +2.2%
	//
	// TENANT  JOBS  as it was         srtf
	// nlp        2     30m17s  31m5s +2.6%
	// vision     2       1h1m    1m3s -98%
	//
	// USER  JOBS  as it was         srtf
	// ann      2     30m17s  31m5s +2.6%
	// bob      2       1h1m    1m3s -98%
	//
	// JOBS THAT CHANGE MOST  JOB  NAME  USER  GPUS   JCT  WOULD BE   CHANGE
	// srtf                   2    eval  bob      1  1h1m      1m3s  -59m49s
	// srtf                   3    eval  bob      1  1h1m      1m3s  -59m41s
	// srtf                   1    bert  ann      2    1h      1h1m   +1m19s
	// srtf                   6    late  ann      1   33s       50s     +17s
	//
	// What is assumed:
	// - Users would have submitted the same jobs at the same moments.
	// - Each job does the work that it did, in the time that it took here: what the jobs beside it cost it then is part of that.
	// - Transitions take what they took here: a start 3s (mean of 4), a start after a stop 3s (as a first start: none was measured); a stop, a move, a resize nothing, for none was measured (--cost says otherwise).
	// - Policies know of run times what the scheduler believed then; nothing of 1 of 6 jobs.
	// - Not compared: 1 job that had not ended. As much of their work is played again as was done, or estimated.
	// - What people did is repeated at the same moments: holding, releasing and cancelling jobs that wait, and draining.
	// - A job that came on hold, or had to wait for others, counts from its release. Failed attempts fail again, and are tried again at once; nothing else goes wrong.
}
