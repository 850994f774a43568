package fakekubelet

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/norn-scheduler/norn/kube/internal/testenv"
)

// TestJobs: beside the real controllers a Job runs, leaves when it is suspended, goes on
// from what it has saved, and completes. A node that is not heard of is seen to be lost,
// and its pods are ready again when it returns.
func TestJobs(t *testing.T) {
	env := testenv.Start(t, testenv.ControllerManager(append(testenv.Raised(), "--node-monitor-grace-period=6s", "--node-monitor-period=500ms")...))
	client, err := kubernetes.NewForConfig(env.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, env: env, client: client}
	k, err := Start(t.Context(), env.Config(), Options{
		Nodes: Nodes("n", 2, Shape(8, 64, 256, 110), nil), Factor: 3600, Delay: time.Minute, Heartbeat: time.Second, NodeController: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	active := func(n int32) func(*batch.Job) bool {
		return func(j *batch.Job) bool { return j.Status.Ready != nil && *j.Status.Ready == n }
	}
	w.job("short", func(j *batch.Job) { annotate(j, RunTime, "10m", Message, "done") })
	w.until("short", "complete", func(j *batch.Job) bool { return j.Status.Succeeded == 2 && j.Status.CompletionTime != nil })

	w.job("long", func(j *batch.Job) { annotate(j, RunTime, "1000h", SaveTime, "5m") })
	w.until("long", "running", active(2))
	w.patch("long", `{"spec": {"suspend": true}}`)
	w.until("long", "suspended", func(j *batch.Job) bool {
		return j.Status.Active == 0 && j.Status.Terminating != nil && *j.Status.Terminating == 0 && j.Status.Failed == 0
	})
	if got := k.Running(); len(got) > 0 {
		t.Errorf("of a suspended Job run %v", got)
	}
	saved := k.Saved()
	least := time.Duration(1<<63 - 1)
	for _, done := range saved {
		least = min(least, done)
	}
	if len(saved) != 2 || least <= 0 {
		t.Errorf("saved %v", saved)
	}
	// The rest of its work is made so small that only who goes on from there completes.
	w.patch("long", fmt.Sprintf(`{"spec": {"template": {"metadata": {"annotations": {%q: %q}}}}}`, RunTime, least))
	w.patch("long", `{"spec": {"suspend": false}}`)
	w.until("long", "complete", func(j *batch.Job) bool { return j.Status.Succeeded == 2 })

	w.job("lost", func(j *batch.Job) { j.Spec.Template.Spec.NodeName = "n-001" })
	w.until("lost", "running", active(2))
	if err := k.Partition(t.Context(), "n-001"); err != nil {
		t.Fatal(err)
	}
	w.until("lost", "not ready", active(0))
	w.tainted("n-001", true)
	if err := k.Return(t.Context(), "n-001"); err != nil {
		t.Fatal(err)
	}
	w.tainted("n-001", false)
	w.until("lost", "ready again", active(2))
	if got := k.Running(); len(got) != 2 {
		t.Errorf("behind the network went on %v", got)
	}
}

// annotate annotates the pods of a Job: key, value, key, value.
func annotate(j *batch.Job, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		j.Spec.Template.Annotations[pairs[i]] = pairs[i+1]
	}
}

// tainted waits until the node controller has tainted a node that is not heard of, or has
// taken that back.
func (w *world) tainted(name string, want bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	for {
		n, err := w.client.CoreV1().Nodes().Get(ctx, name, meta.GetOptions{})
		if err != nil {
			w.Fatal(err)
		}
		if slices.ContainsFunc(n.Spec.Taints, func(t core.Taint) bool { return t.Key == core.TaintNodeUnreachable }) == want {
			return
		}
		select {
		case <-ctx.Done():
			w.Fatalf("%s: %+v", name, n.Spec.Taints)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (w *world) job(name string, change func(*batch.Job)) {
	w.Helper()
	n, mode, grace := int32(2), batch.IndexedCompletion, int64(600)
	job := &batch.Job{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: batch.JobSpec{
		Parallelism: &n, Completions: &n, CompletionMode: &mode,
		Template: core.PodTemplateSpec{
			ObjectMeta: meta.ObjectMeta{Annotations: map[string]string{}},
			Spec: core.PodSpec{RestartPolicy: core.RestartPolicyNever, NodeName: "n-000", TerminationGracePeriodSeconds: &grace,
				Containers: []core.Container{{Name: "main", Image: "none"}}},
		},
	}}
	change(job)
	if _, err := w.client.BatchV1().Jobs("default").Create(w.Context(), job, meta.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// until waits until a Job is as it is to be.
func (w *world) until(name, what string, is func(*batch.Job) bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	for {
		job, err := w.client.BatchV1().Jobs("default").Get(ctx, name, meta.GetOptions{})
		if err != nil {
			w.Fatal(err)
		}
		if is(job) {
			return
		}
		select {
		case <-ctx.Done():
			w.Fatalf("%s is not %s: %+v", name, what, job.Status)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (w *world) patch(name, patch string) {
	w.Helper()
	if _, err := w.client.BatchV1().Jobs("default").Patch(w.Context(), name, types.MergePatchType, []byte(patch), meta.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}
