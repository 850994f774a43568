package kube_test

import (
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/names"
)

// elastic has a Job run with one to four pods.
func elastic(j *batch.Job) {
	saves(j)
	j.Annotations[names.Resize] = "1-4"
}

// TestResizedByHand: a person orders another size.
func TestResizedByHand(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	r.job("a", 2, 1, "10000s", elastic)
	r.until("a has the GPUs that it asks for", func() bool { return len(r.kubelet.Running()) == 2 })
	for _, n := range []int{4, 1} {
		if err := r.Resize(background, me, "default/a", api.Resize{GPUs: float64(n)}); err != nil {
			t.Fatal(err)
		}
		r.until("a has as many as were ordered", func() bool { return len(r.kubelet.Running()) == n && r.one("default/a").Allocated == float64(n) })
	}
	if err := r.Resize(background, me, "default/a", api.Resize{GPUs: 5}); err == nil {
		t.Error("it is resized beyond its range")
	}
	r.does(server.Cancel, "default/a")
	r.until("a has left", func() bool { return r.state("default/a") == api.Cancelled })
	r.job("b", 1, 2, "10000s", func(j *batch.Job) { // pods of two GPUs: sizes are GPUs, not pods
		elastic(j)
		j.Annotations[names.Resize] = "1-2"
	})
	r.until("b runs", func() bool { return r.state("default/b") == api.Running })
	for gpus, ok := range map[float64]bool{3: false, 8: false, 4: true} {
		if err := r.Resize(background, me, "default/b", api.Resize{GPUs: gpus}); (err == nil) != ok {
			t.Errorf("b on %v GPUs: %v", gpus, err)
		}
	}
	r.until("b has four GPUs", func() bool { return len(r.kubelet.Running()) == 2 && r.one("default/b").Allocated == 4 })
}

// TestResized: a policy that chooses the sizes of jobs has Jobs run with other numbers of pods
// than their users asked for, and the next Norn knows for how many these did.
func TestResized(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, func(o *kube.Options) { o.Policy = experiment.Choice{Policy: "afs"} })
	pods := func(name string) (n int) {
		for _, p := range r.pods() {
			if p.Labels[batch.JobNameLabel] == name && p.Status.Phase == core.PodRunning && p.DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
	size := func(name string) int {
		j, err := r.client.BatchV1().Jobs("default").Get(background, name, meta.GetOptions{})
		if err != nil || *j.Spec.Parallelism != *j.Spec.Completions {
			t.Fatalf("%v: %+v", err, j)
		}
		return int(*j.Spec.Parallelism)
	}
	r.job("a", 2, 1, "300s", elastic)
	r.until("a has all GPUs", func() bool { return pods("a") == 4 && size("a") == 4 })
	r.job("b", 2, 1, "20s", elastic)
	r.until("both run, each with as many pods as its Job says", func() bool {
		a, b := pods("a"), pods("b")
		return a > 0 && b > 0 && a+b == 4 && size("a") == a && size("b") == b
	})
	r.until("b is done", func() bool { return r.state("default/b") == api.Done })
	r.until("a has all GPUs again", func() bool { return pods("a") == 4 })
	r.down()
	r.opt.State = t.TempDir()
	r.up()
	jobs, err := r.Jobs(background, me, api.Query{IDs: []string{"default/a"}})
	if err != nil || len(jobs) != 1 || jobs[0].State != api.Running || jobs[0].Allocated != 4 || jobs[0].Resizes < 2 || jobs[0].GPUs.Ask != 2 {
		t.Errorf("to the next norn a is %v, %+v", err, jobs)
	}
	r.until("a is done", func() bool { return r.state("default/a") == api.Done })
}
