package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/names"
)

// again has another Norn take over that knows nothing but what the API tells.
func (r *rig) again() {
	r.t.Helper()
	r.down()
	r.opt.State = r.t.TempDir()
	r.up()
}

// one is a job by its key.
func (r *rig) one(id string) api.Job {
	r.t.Helper()
	jobs, err := r.Jobs(background, me, api.Query{IDs: []string{id}})
	if err != nil || len(jobs) == 0 {
		r.t.Fatalf("job %s: %v, %v", id, jobs, err)
	}
	return jobs[len(jobs)-1]
}

// does has a person do something to a job.
func (r *rig) does(v server.Verb, id string) {
	r.t.Helper()
	if err := r.Do(background, me, v, id); err != nil {
		r.t.Fatalf("%s %s: %v", v, id, err)
	}
}

// saves has a Job save its state when it is told to end.
func saves(j *batch.Job) {
	j.Labels[names.Stop] = "checkpoint"
	j.Spec.Template.Annotations[fakekubelet.SaveTime] = "1s"
	j.Annotations = map[string]string{names.Estimate: j.Spec.Template.Annotations[fakekubelet.RunTime]}
}

// TestOrdersOutliveLeader: who is held by a person stays held under another leader, who was
// released is released, and who was cancelled while it runs is cancelled though it has still to
// leave. A job on a node that takes no new work goes on. A run of the earlier leader does not count
// as a launch.
func TestOrdersOutliveLeader(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	r.job("runs", 2, 2, "10000s", func(j *batch.Job) {
		saves(j)
		j.Spec.Template.Annotations[fakekubelet.SaveTime] = "25s"
	})
	r.until("it runs", func() bool { return r.state("default/runs") == api.Running && len(r.kubelet.Running()) == 2 })
	r.job("waits", 1, 4, "1s", nil)
	r.job("goes", 1, 4, "1s", nil)
	r.pod("pod", 4, "1s", nil)
	held := []string{"default/waits", "default/pod/pod"}
	for _, id := range held {
		r.until(id+" waits", func() bool { return r.state(id) == api.Waiting })
		r.does(server.Hold, id)
	}
	r.cordon("n-000", true)
	r.again()
	r.until("it is up", func() bool { j := r.one("default/runs"); return j.State == api.Running && j.Run == 1 && j.Reason == "" })
	r.cordon("n-000", false)
	if base := r.Costs().Base; base.Start != 0 || base.Restore != 0 {
		t.Errorf("a launch is measured that was none: %+v", base)
	}
	for _, id := range held {
		if j := r.one(id); j.State != api.Held || !strings.Contains(j.Reason, "held by ann") {
			t.Errorf("%s is %s: %s", id, j.State, j.Reason)
		}
		r.does(server.Release, id)
	}
	r.does(server.Cancel, "default/runs")
	r.does(server.Cancel, "default/goes")
	r.again()
	if s := r.state("default/runs"); s != api.Stopping && s != api.Cancelled {
		t.Errorf("it was cancelled, and is %s", s)
	}
	r.until("their objects are gone", func() bool {
		list, err := r.client.BatchV1().Jobs("default").List(background, meta.ListOptions{})
		return err == nil && !slices.ContainsFunc(list.Items, func(j batch.Job) bool { return j.Name == "runs" || j.Name == "goes" })
	})
	if j := r.one("default/runs"); j.State != api.Cancelled || j.Reason != "ann cancelled it" {
		t.Errorf("it is %s: %s", j.State, j.Reason)
	}
	for _, id := range held {
		r.until(id+" is done", func() bool { return r.state(id) == api.Done })
	}
}

// TestDevicesOnce: devices that a pod is noted to have are given to nobody else by the next
// leader, though a job that comes before it has still to be bound.
func TestDevicesOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 1, nil)
	r.down()
	r.job("a", 1, 1, "1000s", func(j *batch.Job) {
		off := false
		j.Spec.Suspend, j.Annotations = &off, map[string]string{names.Plan: "1 n-000", names.Run: "1"}
	})
	r.pod("b", 1, "1000s", nil)
	r.bindTo("b", "n-000", map[string]string{names.Run: "1", names.Devices: "0"})
	r.opt.State = t.TempDir()
	r.up()
	if a, b := r.one("default/a"), r.one("default/pod/b"); !slices.Equal(b.Devices, []string{"n-000/0"}) || !slices.Equal(a.Devices, []string{"n-000/1"}) {
		t.Errorf("a has %v, b has %v, which is noted to have n-000/0", a.Devices, b.Devices)
	}
	r.until("both run", func() bool { return len(r.kubelet.Running()) == 2 })
}

// TestKept: a job that says that it saves its state, and is seen not to, goes back to where it
// was. The saved work of a job that was leaving when the leader changed is found in the same
// way.
func TestKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, func(o *kube.Options) { o.Policy = experiment.Choice{Policy: "srtf"} })
	for _, name := range []string{"good", "bad"} {
		r.job(name, 1, 2, "1000s", func(j *batch.Job) {
			saves(j)
			j.Spec.Template.Annotations[fakekubelet.SaveTime] = "45s"
			grace := int64(60)
			if name == "bad" { // it is killed
				grace = 40
			}
			j.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
		})
	}
	for _, change := range []bool{false, true} {
		r.until("both run", func() bool { return len(r.kubelet.Running()) == 2 })
		name := fmt.Sprintf("short-%v", change)
		r.job(name, 1, 4, "5s", saves)
		r.until("both are leaving", func() bool { return r.state("default/good") == api.Stopping && r.state("default/bad") == api.Stopping })
		if change {
			r.again()
		}
		r.until("short is done", func() bool { return r.state("default/"+name) == api.Done })
		for name, failed := range map[string]bool{"good": false, "bad": true} {
			w, err := r.Why(background, me, "default/"+name)
			life := strings.Join(w.Life, "\n")
			if err != nil || failed != strings.Contains(life, "it begins anew") || strings.Contains(life, "nobody saw") {
				t.Errorf("another leader %v, %s: %v, %s", change, name, err, life)
			}
		}
	}
}

// cordon says whether a node takes new work.
func (r *rig) cordon(node string, off bool) {
	r.t.Helper()
	body := fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, off)
	if _, err := r.client.CoreV1().Nodes().Patch(background, node, types.MergePatchType, body, meta.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// bindTo binds a pod as another scheduler does, with annotations.
func (r *rig) bindTo(pod, node string, notes map[string]string) {
	r.t.Helper()
	b := &core.Binding{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: pod, Annotations: notes}, Target: core.ObjectReference{Kind: "Node", Name: node}}
	if err := r.client.CoreV1().Pods("default").Bind(background, b, meta.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// TestBoundByOthers: a Job that waits and is set going by somebody else, who binds one of its
// pods, is left alone, and what it uses is nobody else's. When that pod has ended, the Job
// waits again.
func TestBoundByOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	r.job("first", 1, 2, "10000s", nil)
	r.until("first runs", func() bool { return r.state("default/first") == api.Running })
	r.job("theirs", 2, 2, "50s", nil)
	r.pod("later", 2, "1s", nil)
	r.until("both wait", func() bool {
		return r.state("default/theirs") == api.Waiting && r.state("default/pod/later") == api.Waiting
	})
	if _, err := r.client.BatchV1().Jobs("default").Patch(background, "theirs", types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := ""
	r.until("its pods are there", func() bool {
		for _, p := range r.pods() {
			if strings.HasPrefix(p.Name, "theirs-0") {
				pod = p.Name
			}
		}
		return pod != ""
	})
	r.bindTo(pod, "n-000", nil)
	held := func() bool {
		j := r.one("default/theirs")
		return j.State == api.Held && strings.Contains(j.Reason, "others have bound its pod")
	}
	r.until("it is held", held)
	if err := r.Do(background, me, server.Release, "default/theirs"); err == nil {
		t.Error("it can be released")
	}
	r.again()
	if !held() {
		t.Errorf("under another leader: %+v", r.one("default/theirs"))
	}
	r.until("its pod has ended", func() bool {
		p, err := r.client.CoreV1().Pods("default").Get(background, pod, meta.GetOptions{})
		if err != nil || p.DeletionTimestamp != nil {
			t.Fatalf("the pod of others: %+v, %v", p, err)
		}
		return p.Status.Phase == core.PodSucceeded
	})
	r.does(server.Cancel, "default/first")
	for _, id := range []string{"default/theirs", "default/pod/later"} {
		r.until(id+" is done", func() bool { return r.state(id) == api.Done })
	}
}

// TestNewType: a job that waits and accepts any GPU of its resource accepts those of a type
// that comes later.
func TestNewType(t *testing.T) {
	t.Parallel()
	r := newRig(t, slices.Concat(smallNodes[:1], fakekubelet.Nodes("m", 1, core.ResourceList{"cpu": smallNodes[0].Resources["cpu"], "memory": smallNodes[0].Resources["memory"], "pods": smallNodes[0].Resources["pods"], "amd.com/gpu": smallNodes[0].Resources["nvidia.com/gpu"]}, nil)), 10, nil)
	r.job("wide", 1, 8, "1s", nil)
	r.until("it waits", func() bool { return r.state("default/wide") == api.Waiting })
	big := fakekubelet.Nodes("big", 1, fakekubelet.Shape(8, 64, 512, 110), map[string]string{"nvidia.com/gpu.product": "H100"})[0]
	if err := r.kubelet.Set(background, big); err != nil {
		t.Fatal(err)
	}
	r.until("it is done", func() bool { return r.state("default/wide") == api.Done })
}

// TestOddRuns: whatever number of a run users have written on their Jobs, these are launched,
// with a number behind it where it is one.
func TestOddRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	for name, run := range map[string]string{"five": "5", "large": "99999999999", "beyond": "3000000000", "signed": "+9", "word": "x"} {
		r.job(name, 1, 1, "1s", func(j *batch.Job) { j.Annotations = map[string]string{names.Run: run} })
	}
	for _, name := range []string{"five", "large", "beyond", "signed", "word"} {
		r.until(name+" is done", func() bool { return r.state("default/"+name) == api.Done })
	}
	if j := r.one("default/five"); j.Run != 6 {
		t.Errorf("the run behind 5 is %d", j.Run)
	}
}
