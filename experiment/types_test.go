package experiment_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// TestTypesOfOthers replays jobs whose GPU types are spelled as Slurm, Kubernetes
// and people spell them, on clusters that spell them otherwise or not at all.
func TestTypesOfOthers(t *testing.T) {
	const text = `job,duration,gpus,gpu_type,gpu_mem
slurm,60,1,a100,
kube,60,1,NVIDIA-A100-SXM4-80GB,
either,60,1,h100|v100,
none,60,1,,
slice,60,0.5,,20GiB
`
	all := []string{"either", "kube", "none", "slice", "slurm"}
	for _, test := range []struct {
		cluster string
		ran     []string
		remarks []string
	}{
		{"4x8", all, []string{"jobs ask for GPU types (a100, NVIDIA-A100-SXM4-80GB, h100), and the cluster names none"}},
		{"4x8:A100", []string{"kube", "none", "slice", "slurm"}, []string{"taken for those of the cluster: a100 for A100, NVIDIA-A100-SXM4-80GB for A100", "it accepts h100|v100"}},
		{"2x8:A100+2x8:V100", all, []string{"v100 for V100"}},
		{"2x8:a100+2x8:A100+1x1:V100", all, []string{"NVIDIA-A100-SXM4-80GB for a100, NVIDIA-A100-SXM4-80GB for A100"}},
		{"4x8:A10", []string{"none", "slice"}, []string{"3 jobs never ran"}},
		{"4x8:V100S", []string{"none", "slice"}, []string{"3 jobs never ran"}},
	} {
		r, err := trace.NewReader(strings.NewReader(text), "jobs.csv", trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x := &experiment.Experiment{Spec: spec(t, test.cluster)}
		o, err := x.Run(t.Context(), experiment.Choice{Policy: "fifo", Settings: []experiment.Setting{{Name: "mode", Value: "skip"}}}, r)
		if err != nil {
			t.Fatalf("%s: %v", test.cluster, err)
		}
		var ran []string
		for id := range job.ID(o.State.Jobs()) {
			if rec := o.State.Record(id); rec.Phase.Over() {
				ran = append(ran, rec.Job.Key)
			}
		}
		if slices.Sort(ran); !slices.Equal(ran, test.ran) {
			t.Errorf("%s: %v ran, want %v", test.cluster, ran, test.ran)
		}
		said := strings.Join(o.Remarks(), "\n")
		for _, want := range test.remarks {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q; it should say %q", test.cluster, said, want)
			}
		}
	}
}

// TestGPUMemory replays jobs that need more GPU memory than some GPUs have: they
// go where there is enough, or nowhere, and never make a plan that cannot be.
func TestGPUMemory(t *testing.T) {
	const cluster = `
gpu-types: [{name: V100, memory: 16GiB}, {name: A100, memory: 80GiB}]
nodes: [{gpus: 8xV100}, {gpus: 8xA100}]
`
	const text = "job,duration,gpus,gpu_mem\nsmall,60,1,5GiB\npart,60,0.2,20GiB\nlarge,60,4,40GiB\nhuge,60,1,100GiB\n"
	spec, err := clusterspec.ParseYAML("c", []byte(cluster))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range every() {
		r, err := trace.NewReader(strings.NewReader(text), "jobs.csv", trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x := &experiment.Experiment{Spec: spec}
		o, err := x.Run(t.Context(), c, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Result.Jobs.Finished; got != 3 {
			t.Errorf("%s: %d jobs ended, want 3", c, got)
		}
		if said := strings.Join(o.Remarks(), " "); !strings.Contains(said, "job huge") || !strings.Contains(said, "it needs 100GiB of GPU memory") {
			t.Errorf("%s: %q", c, said)
		}
	}
}

// GPU memory of which a cluster tells nothing is not accounted.
func TestGPUMemoryUntold(t *testing.T) {
	r, err := trace.NewReader(strings.NewReader("job,duration,gpus,gpu_mem\npart,60,0.5,20GiB\nhuge,60,1,100GiB\n"), "jobs.csv", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := (&experiment.Experiment{Spec: spec(t, "1x2")}).Run(t.Context(), experiment.Choice{Policy: "fifo"}, r)
	if err != nil || o.Result.Jobs.Finished != 2 {
		t.Errorf("%d jobs ended (%v), want 2", o.Result.Jobs.Finished, err)
	}
}
