package kube_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube/admin"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
	"github.com/norn-scheduler/norn/kube/internal/watch"
	"github.com/norn-scheduler/norn/kube/names"
)

// podTemplate is a template of pods with some GPUs that run for so long and save.
func podTemplate(gpus int64, run string) map[string]any {
	t := core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Annotations: map[string]string{fakekubelet.RunTime: run, fakekubelet.SaveTime: "1s"}}, Spec: spec(gpus, 1)}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&t)
	if err != nil {
		panic(err)
	}
	return out
}

// jobTemplate is the template of a Job of some pods.
func jobTemplate(pods, gpus int64, run string) map[string]any {
	return map[string]any{"spec": map[string]any{
		"parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": int64(0), "template": podTemplate(gpus, run),
	}}
}

// ownerOf is an object of a kind that waits for Norn.
func ownerOf(k schema.GroupVersionResource, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": maps.Clone(spec)}}
	u.SetAPIVersion(k.GroupVersion().String())
	u.SetKind(kindNames[k])
	u.SetName(name)
	u.SetLabels(map[string]string{names.Queue: "team", names.Stop: "checkpoint"})
	u.SetAnnotations(map[string]string{names.Estimate: "100s"})
	return u
}

func setOf(name string, jobs ...any) *unstructured.Unstructured {
	return ownerOf(jobSets, name, map[string]any{"suspend": true, "replicatedJobs": jobs})
}

// TestOwners: JobSets, TrainJobs and RayJobs are admitted whole, preempted, resumed on other
// nodes, and end, also where their kinds were defined after Norn had begun. Norn has the rights
// of the manifests, and no more.
func TestOwners(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes, 20, nil, testenv.Audit("Metadata"))
	r.down()
	r.install()
	groups := []string{"system:serviceaccounts", "system:authenticated"}
	r.opt.Client, r.opt.Dynamic, r.opt.Policy = r.as(account, groups...), r.extraAs(account, groups...), experiment.Choice{Policy: "srtf"}
	r.up()
	o := r.operators()
	for _, c := range []struct {
		kind   schema.GroupVersionResource
		object *unstructured.Unstructured
		pods   map[string]int // by the number of their GPUs
	}{
		{jobSets, setOf("set", map[string]any{"name": "driver", "template": jobTemplate(1, 0, "100s")},
			map[string]any{"name": "worker", "replicas": int64(2), "template": jobTemplate(1, 2, "100s")}), map[string]int{"0": 1, "2": 2}},
		{trainJobs, ownerOf(trainJobs, "train", map[string]any{"suspend": true, "runtimeRef": map[string]any{"name": "x"}, "trainer": map[string]any{"numNodes": int64(4)}}), map[string]int{"1": 4}},
		{rayJobs, ownerOf(rayJobs, "ray", map[string]any{"suspend": true, "rayClusterSpec": map[string]any{
			"headGroupSpec":    map[string]any{"template": podTemplate(0, "100s")},
			"workerGroupSpecs": []any{map[string]any{"groupName": "w", "replicas": int64(2), "template": podTemplate(2, "100s")}},
		}}), map[string]int{"0": 1, "2": 2}},
	} {
		r.owner(o, c.kind, c.object, c.pods)
	}
	r.ownerCancelled(o)
	writes, err := watch.Audit(r.env.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, w := range watch.By(writes, account) {
		used[w.Kind()] = true
		if w.Code == 401 || w.Code == 403 {
			t.Errorf("%s %s/%s was answered %d", w.Kind(), w.Namespace, w.Name, w.Code)
		}
	}
	for _, kind := range []string{"jobsets.jobset.x-k8s.io", "trainjobs.trainer.kubeflow.org", "rayjobs.ray.io"} {
		if writes := used["patch "+kind] && (used["delete "+kind] || kind != "rayjobs.ray.io"); !writes {
			t.Errorf("of %s there is %v", kind, used)
		}
	}
	if err := r.patched(o, account, `{"spec":{"rayClusterSpec":null}}`); err == nil || !strings.Contains(err.Error(), "suspend, resume and resize objects, and change nothing else") {
		t.Errorf("norn changes a spec: %v", err)
	}
	if err := r.patched(o, "admin", `{"metadata":{"annotations":{"`+names.Plan+`":"1 n-000"}}}`); err != nil {
		t.Errorf("who may operate changes a plan: %v", err)
	}
	r.down()
	u := &admin.Uninstaller{Client: r.client, Config: r.env.Config(), Namespace: "norn-system", Tell: func(string, ...any) {}}
	if err := u.Uninstall(background); err != nil {
		t.Fatal(err)
	}
	left, err := o.client.Resource(rayJobs).Namespace("default").Get(background, "ray", meta.GetOptions{})
	if err != nil || left.GetAnnotations()[names.Run] != "" || left.GetAnnotations()[names.Record] != "" || left.GetAnnotations()[names.Estimate] == "" {
		t.Errorf("of Norn there is left: %v, %v", err, left.GetAnnotations())
	}
}

// patched changes the RayJob as somebody.
func (r *rig) patched(_ *operator, who, body string) error {
	groups := []string{"system:authenticated"}
	if who == "admin" {
		groups = []string{"system:masters"}
	}
	_, err := r.extraAs(who, groups...).Resource(rayJobs).Namespace("default").Patch(background, "ray", types.MergePatchType, []byte(body), meta.PatchOptions{DryRun: []string{meta.DryRunAll}})
	return err
}

// ownerCancelled has a RayJob cancelled that runs, whose object is deleted then. The objects that
// it had made were no jobs of their own.
func (r *rig) ownerCancelled(o *operator) {
	t := r.t
	t.Helper()
	u := ownerOf(rayJobs, "unwanted", map[string]any{"suspend": true, "rayClusterSpec": map[string]any{"headGroupSpec": map[string]any{"template": podTemplate(4, "10000s")}}})
	if _, err := o.client.Resource(rayJobs).Namespace("default").Create(background, u, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.until("it runs", func() bool { return len(r.kubelet.Running()) == 1 })
	jobs, err := r.Jobs(background, me, api.Query{All: true})
	if err != nil || slices.ContainsFunc(jobs, func(j api.Job) bool { return j.Kind == "RayCluster" || strings.HasPrefix(j.ID, "default/set-") }) {
		t.Errorf("%v, %+v", err, jobs)
	}
	if err := r.Do(background, me, server.Cancel, "default/rayjob/unwanted"); err != nil {
		t.Fatal(err)
	}
	r.until("it is gone", func() bool {
		_, err := o.client.Resource(rayJobs).Namespace("default").Get(background, "unwanted", meta.GetOptions{})
		return apierrors.IsNotFound(err) && len(r.kubelet.Running()) == 0
	})
}

// owner has one object admitted, preempted by a Job that needs all GPUs, resumed and done.
func (r *rig) owner(o *operator, k schema.GroupVersionResource, u *unstructured.Unstructured, pods map[string]int) {
	t := r.t
	t.Helper()
	id := "default/" + strings.ToLower(u.GetKind()) + "/" + u.GetName()
	if _, err := o.client.Resource(k).Namespace("default").Create(background, u, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, n := range pods {
		want += n
	}
	var got map[string]int
	var before map[string]bool
	r.until(id+" runs, and its pods have their devices", func() bool {
		got, before = map[string]int{}, map[string]bool{}
		for _, p := range r.pods() {
			if p.Status.Phase != core.PodRunning {
				continue
			}
			devices := len(strings.FieldsFunc(p.Annotations[names.Devices], func(c rune) bool { return c == ',' }))
			got[fmt.Sprint(devices)]++
			before[p.Spec.NodeName] = true
		}
		return r.state(id) == api.Running && maps.Equal(got, pods)
	})
	if len(before) != 1 {
		t.Fatalf("%s is on %v, and fits one node", id, before)
	}
	node := slices.Collect(maps.Keys(before))[0]
	r.job("short-"+u.GetName(), 2, 4, "5s", func(j *batch.Job) { j.Annotations = map[string]string{names.Estimate: "5s"} })
	r.until(id+" is preempted", func() bool { return r.state("default/short-"+u.GetName()) == api.Running })
	cordon := func(on string) {
		if _, err := r.client.CoreV1().Nodes().Patch(background, node, types.MergePatchType, []byte(`{"spec":{"unschedulable":`+on+`}}`), meta.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	cordon("true")
	r.until(id+" runs again", func() bool { return r.state(id) == api.Running && len(r.kubelet.Running()) == want })
	jobs, err := r.Jobs(background, me, api.Query{IDs: []string{id}})
	if err != nil || len(jobs) != 1 || jobs[0].Run != 2 || jobs[0].Preemptions != 1 || jobs[0].Kind != u.GetKind() || slices.Contains(jobs[0].Nodes, node) {
		t.Errorf("%s is resumed: %v, %+v", id, err, jobs)
	}
	r.down()
	r.opt.State = t.TempDir()
	r.up()
	if s := r.state(id); s != api.Running {
		t.Errorf("to the next norn, %s is %s", id, s)
	}
	r.until(id+" is done", func() bool { return r.state(id) == api.Done })
	cordon("null")
	r.until("its node is back", func() bool { return len(r.kubelet.Running()) == 0 })
}
