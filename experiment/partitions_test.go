package experiment_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// inPartitions are jobs whose tenants and partitions have names of each other.
const inPartitions = `job,submit,gpus,duration,tenant,partition,where
a,0,8,100,nlp,gpu,
b,0,8,100,gpu,debug,
c,0,8,100,nlp,debug,
d,0,8,100,vision,gpu,!spot
e,0,8,100,gpu,lost,
f,0,8,100,gpu,,
`

// TestPartitionsOfJobs: the partition of a job, and not its tenant, says where it runs.
func TestPartitionsOfJobs(t *testing.T) {
	for name, test := range map[string]struct {
		cluster, want string // starts in seconds, in order of the jobs
		remark        string
		whole         bool
	}{
		"pools":       {cluster: "gpu=1x8,debug=1x8", want: "0 0 100 100 200 300", remark: "1 job of lost"},
		"one of them": {cluster: "gpu=1x8,1x8", want: "0 100 0 200 300 400", remark: "2 jobs of debug, 1 job of lost"},
		"whole":       {cluster: "gpu=1x8,debug=1x8", want: "0 0 100 100 200 200", whole: true},
		"none":        {cluster: "2x8", want: "0 0 100 100 200 200"},
		"labels": {
			cluster: "nodes:\n- {gpus: 8, labels: {partition/gpu: \"\", spot: \"\"}}\n- {gpus: 8, labels: {partition/gpu: \"\", partition/debug: \"\"}}\n",
			want:    "0 0 100 200 200 300", remark: "1 job of lost",
		},
	} {
		s, err := clusterspec.ReadText("cluster.yaml", []byte(test.cluster))
		if !strings.HasPrefix(test.cluster, "nodes:") {
			s, err = clusterspec.Parse(test.cluster)
		}
		if err != nil {
			t.Fatal(err)
		}
		src, err := trace.NewReader(strings.NewReader(inPartitions), "jobs.csv", trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x := &experiment.Experiment{Spec: s, Whole: test.whole}
		jobs, err := experiment.Prepare(src, x.Preparation())
		if err != nil {
			t.Fatal(err)
		}
		o, err := x.Run(t.Context(), experiment.Choice{Policy: "fifo"}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		var starts []string
		for id := range job.ID(o.State.Jobs()) {
			starts = append(starts, fmt.Sprint(o.State.Record(id).FirstStart.Seconds()))
		}
		if got := strings.Join(starts, " "); got != test.want {
			t.Errorf("%s: starts at %s, want %s", name, got, test.want)
		}
		if got := strings.Join(jobs.Remarks(), "; "); test.remark == "" && got != "" || !strings.Contains(got, test.remark) {
			t.Errorf("%s: remarks %q, want %q", name, got, test.remark)
		}
	}
}
