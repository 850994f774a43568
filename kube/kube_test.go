package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	scheduling "k8s.io/api/scheduling/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
	"github.com/norn-scheduler/norn/kube/internal/watch"
	"github.com/norn-scheduler/norn/kube/names"
)

var smallNodes = fakekubelet.Nodes("n", 2, fakekubelet.Shape(4, 16, 64, 110), map[string]string{"nvidia.com/gpu.product": "A100"})

// TestPodsAndJobs: single pods, a gang of pods and Jobs are bound and end.
func TestPodsAndJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes, 10, nil)
	r.pod("single", 1, "5s", nil)
	r.job("training", 2, 2, "5s", nil)
	for i := range 3 {
		r.pod(fmt.Sprintf("gang-%d", i), 1, "5s", map[string]string{names.Gang: "gang", names.GangSize: "3"})
	}
	for _, id := range []string{"default/pod/single", "default/training", "default/gang/gang"} {
		r.until(id+" is done", func() bool { return r.state(id) == api.Done })
	}
	for _, p := range r.pods() {
		if p.Annotations[names.Run] != "1" || p.Annotations[names.Devices] == "" {
			t.Errorf("pod %s has annotations %v", p.Name, p.Annotations)
		}
	}
}

// TestPreempted: a job that is preempted saves its state, waits, and goes on from there, and
// a restarted Norn knows how often it was.
func TestPreempted(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, func(o *kube.Options) { o.Policy = experiment.Choice{Policy: "srtf"} })
	saves := func(j *batch.Job) {
		j.Labels[names.Stop] = "checkpoint"
		j.Spec.Template.Annotations[fakekubelet.SaveTime] = "1s"
		j.Annotations = map[string]string{names.Estimate: j.Spec.Template.Annotations[fakekubelet.RunTime]}
	}
	r.job("long", 4, 1, "50s", saves)
	r.until("long runs", func() bool { return r.state("default/long") == api.Running && len(r.kubelet.Running()) == 4 })
	r.job("short", 4, 1, "10s", saves)
	r.until("short is done", func() bool { return r.state("default/short") == api.Done })
	r.until("long runs again", func() bool { return len(r.kubelet.Running()) == 4 })
	r.down()
	r.up()
	jobs, err := r.Jobs(background, me, api.Query{IDs: []string{"default/long"}})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%v, %v", jobs, err)
	}
	if j := jobs[0]; j.State != api.Running || j.Run != 2 || j.Preemptions != 1 {
		t.Errorf("after a restart: %+v", j)
	}
	r.until("long is done", func() bool { return r.state("default/long") == api.Done })
	list, err := r.client.CoreV1().Pods("default").List(background, meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.Status.Phase != core.PodSucceeded {
			t.Errorf("pod %s is %s", p.Name, p.Status.Phase)
		}
	}
}

// TestCancelled: a job that is cancelled is deleted, waiting or running.
func TestCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	r.job("runs", 1, 4, "1000s", nil)
	r.until("it runs", func() bool { return len(r.kubelet.Running()) == 1 })
	r.job("waits", 1, 4, "1000s", nil)
	r.until("the other one waits", func() bool { return r.state("default/waits") == api.Waiting })
	for _, id := range []string{"default/waits", "default/runs"} {
		if err := r.Do(background, me, server.Cancel, id); err != nil {
			t.Fatal(err)
		}
		r.until(id+" is cancelled", func() bool { return r.state(id) == api.Cancelled })
	}
	r.until("their objects are gone", func() bool {
		list, err := r.client.BatchV1().Jobs("default").List(background, meta.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	r.job("waits", 1, 4, "1s", nil) // a name may come again
	r.until("it is done", func() bool { return r.state("default/waits") == api.Done })
}

// TestNodeLost: a job whose node is lost goes on elsewhere, and what is left of it leaves.
func TestNodeLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes, 10, func(o *kube.Options) { o.NodeLost, o.Policy = 500*time.Millisecond, experiment.Choice{Policy: "srtf"} })
	r.job("a", 2, 3, "20s", nil)
	r.until("it runs on two nodes", func() bool { return len(r.kubelet.Running()) == 2 })
	r.job("b", 1, 3, "2s", nil)
	r.until("b waits", func() bool { return r.state("default/b") == api.Waiting })
	if err := r.kubelet.Die(background, "n-001"); err != nil {
		t.Fatal(err)
	}
	r.until("a waits again", func() bool { return r.state("default/a") == api.Waiting })
	r.until("b is done", func() bool { return r.state("default/b") == api.Done })
	if err := r.kubelet.Return(background, "n-001"); err != nil {
		t.Fatal(err)
	}
	r.until("a is done", func() bool { return r.state("default/a") == api.Done })
}

// TestGangStaysWhole: a gang of which a pod is deleted while it waits does not start until it
// is whole again.
func TestGangStaysWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	r.job("first", 1, 4, "40s", nil)
	r.until("the first one runs", func() bool { return len(r.kubelet.Running()) == 1 })
	pod := func(i int) {
		r.pod(fmt.Sprintf("gang-%d", i), 1, "5s", map[string]string{names.Gang: "gang", names.GangSize: "3"})
	}
	for i := range 3 {
		pod(i)
	}
	r.until("the gang waits", func() bool { return r.state("default/gang/gang") == api.Waiting })
	now := int64(0)
	if err := r.client.CoreV1().Pods("default").Delete(background, "gang-1", meta.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	r.until("it is held", func() bool { return r.state("default/gang/gang") == api.Held })
	r.until("the first one is done", func() bool { return r.state("default/first") == api.Done })
	for _, p := range r.pods() {
		if p.Labels[names.Gang] != "" && p.Spec.NodeName != "" {
			t.Errorf("pod %s is bound, and its gang is not whole", p.Name)
		}
	}
	pod(1)
	r.until("the gang is done", func() bool { return r.state("default/gang/gang") == api.Done })
}

// TestWrites counts what Norn writes (bar B5): one write for a single pod, one more than it has
// pods for a gang and for a Job, and one to have a Job leave.
func TestWrites(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, func(o *kube.Options) { o.Policy = experiment.Choice{Policy: "srtf"} }, testenv.Audit("Metadata"))
	written := 0
	wrote := func(what string, want int) {
		t.Helper()
		time.Sleep(300 * time.Millisecond) // the audit log is written behind the answers
		all, err := watch.Audit(r.env.AuditLog())
		if err != nil {
			t.Fatal(err)
		}
		mine := slices.DeleteFunc(watch.By(all, account), func(w watch.Write) bool { return !w.OK() }) // the Job controller may write in between
		if got := len(mine) - written; got != want {
			t.Errorf("%s: %d writes, expected %d: %v", what, got, want, watch.Count(mine[written:]))
		}
		written = len(mine)
	}
	r.pod("single", 1, "1s", nil)
	r.until("the pod is done", func() bool { return r.state("default/pod/single") == api.Done })
	wrote("a pod", 1)
	for i := range 3 {
		r.pod(fmt.Sprintf("gang-%d", i), 1, "1s", map[string]string{names.Gang: "gang", names.GangSize: "3"})
	}
	r.until("the gang is done", func() bool { return r.state("default/gang/gang") == api.Done })
	wrote("a gang of 3", 4)
	r.job("long", 4, 1, "40s", func(j *batch.Job) {
		j.Annotations, j.Labels[names.Stop] = map[string]string{names.Estimate: "40s"}, "checkpoint"
		j.Spec.Template.Annotations[fakekubelet.SaveTime] = "0s"
	})
	r.until("long runs", func() bool { return len(r.kubelet.Running()) == 4 })
	wrote("a Job of 4", 5)
	r.job("short", 2, 1, "2s", func(j *batch.Job) { j.Annotations = map[string]string{names.Estimate: "1s"} })
	r.until("short is done", func() bool { return r.state("default/short") == api.Done })
	r.until("long runs again", func() bool { return len(r.kubelet.Running()) == 4 })
	wrote("a Job of 4 that leaves for one of 2 and comes back", 1+3+5)
}

// TestGangAfterRestart: a gang one of whose pods has ended goes on when a new leader comes.
func TestGangAfterRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	for i, run := range []string{"1s", "30s", "30s"} {
		r.pod(fmt.Sprintf("gang-%d", i), 1, run, map[string]string{names.Gang: "gang", names.GangSize: "3"})
	}
	r.until("one pod has ended", func() bool {
		return slices.ContainsFunc(r.pods(), func(p core.Pod) bool { return p.Status.Phase == core.PodSucceeded })
	})
	r.down()
	r.opt.State = t.TempDir()
	r.up()
	r.until("the gang is done", func() bool { return r.state("default/gang/gang") == api.Done })
	for _, p := range r.pods() {
		if p.Status.Phase != core.PodSucceeded {
			t.Errorf("pod %s is %s", p.Name, p.Status.Phase)
		}
	}
}

// TestPriority: Jobs that wait have the priority of the PriorityClass that their templates
// name, or of the default one, and wait for a class that there is not.
func TestPriority(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, func(o *kube.Options) {
		o.Policy = experiment.Choice{Policy: "fifo", Settings: []experiment.Setting{{Name: "priority", Value: "true"}}}
	})
	class := func(name string, value int32, standard bool) {
		t.Helper()
		c := &scheduling.PriorityClass{ObjectMeta: meta.ObjectMeta{Name: name}, Value: value, GlobalDefault: standard}
		if _, err := r.client.SchedulingV1().PriorityClasses().Create(background, c, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	of := func(id string) int32 {
		jobs, err := r.Jobs(background, me, api.Query{IDs: []string{id}})
		if err != nil || len(jobs) == 0 {
			return -1
		}
		return jobs[len(jobs)-1].Priority
	}
	named := func(name string) func(*batch.Job) {
		return func(j *batch.Job) { j.Spec.Template.Spec.PriorityClassName = name }
	}
	class("high", 1000, false)
	r.job("first", 1, 4, "10000s", nil)
	r.until("first runs", func() bool { return r.state("default/first") == api.Running })
	r.job("low", 1, 4, "5s", nil)
	r.job("urgent", 1, 4, "5s", named("urgent"))
	r.job("high", 1, 4, "5s", named("high"))
	r.until("high has its priority", func() bool { return of("default/high") == 1000 })
	r.until("urgent waits for its class", func() bool {
		why, err := r.Why(background, me, "default/urgent")
		return err == nil && r.state("default/urgent") == api.Held && strings.Contains(why.Job.Reason, "the PriorityClass urgent, which does not exist")
	})
	class("urgent", 2000, false)
	r.until("urgent has its priority", func() bool { return of("default/urgent") == 2000 })
	class("usual", 7, true)
	r.until("low has the default", func() bool { return of("default/low") == 7 })
	if err := r.Do(background, me, server.Cancel, "default/first"); err != nil {
		t.Fatal(err)
	}
	last := time.Time{}
	for _, id := range []string{"default/urgent", "default/high", "default/low"} {
		r.until(id+" is done", func() bool { return r.state(id) == api.Done })
		jobs, err := r.Jobs(background, me, api.Query{IDs: []string{id}})
		if err != nil || len(jobs) == 0 || !jobs[len(jobs)-1].Started.After(last) {
			t.Fatalf("%s did not start after the one before it: %v, %+v", id, err, jobs)
		}
		last = jobs[len(jobs)-1].Started
	}
}
