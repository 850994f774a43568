package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	scheduling "k8s.io/api/scheduling/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
	"github.com/norn-scheduler/norn/kube/names"
)

var (
	nativeGroups  = schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1alpha2", Resource: "podgroups"}
	pluginGroups  = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	volcanoGroups = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}
)

// withGroups has an API server offer the PodGroups of Kubernetes.
func withGroups() []testenv.Option {
	return []testenv.Option{testenv.FeatureGates("GenericWorkload=true", "GangScheduling=true", "TopologyAwareWorkloadScheduling=true", "WorkloadAwarePreemption=true"), testenv.RuntimeConfig("scheduling.k8s.io/v1alpha2=true")}
}

// group makes a PodGroup.
func (r *rig) group(kind schema.GroupVersionResource, name string, spec map[string]any) {
	r.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(kind.GroupVersion().String())
	u.SetKind("PodGroup")
	u.SetName(name)
	if _, err := r.extraAs("admin", "system:masters").Resource(kind).Namespace("default").Create(background, u, meta.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// gang is the spec of a PodGroup of Kubernetes whose pods begin together.
func gang(least int64) map[string]any {
	return map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": least}}}
}

// grouped makes pods of a PodGroup of Kubernetes, numbered from first on, with so many GPUs each.
func (r *rig) grouped(group string, first, count int, gpus int64, run string) {
	r.t.Helper()
	for i := first; i < first+count; i++ {
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", group, i), Annotations: map[string]string{fakekubelet.RunTime: run}}, Spec: spec(gpus, 1)}
		p.Spec.SchedulingGroup = &core.PodSchedulingGroup{PodGroupName: &group}
		r.make(p)
	}
}

// condition is what stands on a PodGroup of Kubernetes of its places: status, reason and message.
func (r *rig) condition(name string) string {
	r.t.Helper()
	o, err := r.extraAs("admin", "system:masters").Resource(nativeGroups).Namespace("default").Get(background, name, meta.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if c := c.(map[string]any); c["type"] == "PodGroupScheduled" {
			return fmt.Sprint(c["status"], " ", c["reason"], ": ", c["message"])
		}
	}
	return ""
}

// bound are the nodes of the pods of a gang, by their names; those that are not bound are left out.
func (r *rig) bound(gang string) map[string]string {
	out := map[string]string{}
	for _, p := range r.pods() {
		if strings.HasPrefix(p.Name, gang+"-") && p.Spec.NodeName != "" {
			out[p.Name] = p.Spec.NodeName
		}
	}
	return out
}

// troubled tells whether Norn says that something is wrong with such words.
func (r *rig) troubled(words string) bool {
	s, err := r.Status(background)
	if err != nil {
		r.t.Fatal(err)
	}
	return slices.ContainsFunc(s.Trouble, func(t string) bool { return strings.Contains(t, words) })
}

// TestPodGroup: a gang of a PodGroup waits for it and for as many pods as it says, has its places
// and its priority, and says on it whether it has begun.
func TestPodGroup(t *testing.T) {
	t.Parallel()
	zone := func(name string, count int) []fakekubelet.Node {
		return fakekubelet.Nodes(name, count, fakekubelet.Shape(4, 16, 64, 110), map[string]string{"nvidia.com/gpu.product": "A100", core.LabelTopologyZone: name})
	}
	r := newRig(t, append(zone("a", 1), zone("b", 2)...), 10, func(o *kube.Options) { o.Gather = 1 }, withGroups()...)
	r.grouped("g", 0, 2, 1, "5s")
	r.until("it waits for its PodGroup", func() bool { return r.troubled("gang default/g waits: there is no PodGroup g") })
	r.group(nativeGroups, "g", gang(3))
	r.until("it waits for its pods", func() bool { return r.troubled("gang default/g waits: 2 of its 3 pods are there") })
	r.grouped("g", 2, 1, 1, "5s")
	r.until("it is done", func() bool { return r.state("default/gang/g") == api.Done })
	if got, want := r.condition("g"), "True Scheduled: all pods of the gang are bound"; got != want {
		t.Errorf("%q, want %q", got, want)
	}

	high := &scheduling.PriorityClass{ObjectMeta: meta.ObjectMeta{Name: "high"}, Value: 7}
	if _, err := r.client.SchedulingV1().PriorityClasses().Create(background, high, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	near := gang(2)
	near["priorityClassName"] = "high"
	near["schedulingConstraints"] = map[string]any{"topology": []any{map[string]any{"key": core.LabelTopologyZone}}}
	r.group(nativeGroups, "near", near)
	r.grouped("near", 0, 2, 3, "1000s")
	r.until("it has its places", func() bool { return len(r.bound("near")) == 2 })
	for pod, node := range r.bound("near") {
		if !strings.HasPrefix(node, "b-") {
			t.Errorf("pod %s is on node %s, of another zone", pod, node)
		}
	}
	jobs, err := r.Jobs(background, me, api.Query{IDs: []string{"default/gang/near"}})
	if err != nil || len(jobs) != 1 || jobs[0].Priority != 7 {
		t.Errorf("%v, %v", jobs, err)
	}
	r.group(nativeGroups, "late", gang(7))
	r.grouped("late", 0, 7, 1, "1s")
	r.until("it is told why it waits", func() bool { return r.condition("late") == "False Unschedulable: needs 7 GPUs; 6 free" })
	r.grouped("late", 7, 1, 1, "1s") // too late to begin with the others
	if err := r.Do(background, me, server.Cancel, "default/gang/near"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"default/gang/late", "default/pod/late-7"} {
		r.until(id+" is done", func() bool { return r.state(id) == api.Done })
	}
}

// TestPodGroupGrows: pods that come while their gang waits begin with it, and those that come
// later each by themselves; a restarted Norn knows which are which.
func TestPodGroupGrows(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes, 10, func(o *kube.Options) { o.Gather = time.Hour }, withGroups()...)
	r.job("first", 2, 4, "30s", nil)
	r.until("the first one runs", func() bool { return len(r.kubelet.Running()) == 2 })
	r.group(nativeGroups, "g", gang(2))
	r.grouped("g", 0, 2, 1, "60s")
	size := func() int {
		jobs, err := r.Jobs(background, me, api.Query{IDs: []string{"default/gang/g"}})
		if err != nil || len(jobs) == 0 {
			return 0
		}
		return jobs[len(jobs)-1].Tasks.N
	}
	r.until("the gang waits", func() bool { return size() == 2 })
	r.grouped("g", 2, 2, 1, "60s")
	r.until("it has grown", func() bool { return size() == 4 })
	r.until("all of it runs", func() bool { return len(r.bound("g")) == 4 && r.state("default/gang/g") == api.Running })
	r.grouped("g", 4, 2, 1, "60s")
	r.until("the others run", func() bool { return len(r.bound("g")) == 6 })
	had := r.bound("g")
	r.down()
	r.opt.State = t.TempDir()
	r.up()
	for _, id := range []string{"default/gang/g", "default/pod/g-4", "default/pod/g-5"} {
		r.until(id+" is done", func() bool { return r.state(id) == api.Done })
	}
	for _, p := range r.pods() {
		late := p.Name == "g-4" || p.Name == "g-5"
		if strings.HasPrefix(p.Name, "g-") && (p.Status.Phase != core.PodSucceeded || p.Spec.NodeName != had[p.Name] || late != (p.Annotations[names.Apart] != "")) {
			t.Errorf("pod %s: %s on %s, was on %s, annotations %v", p.Name, p.Status.Phase, p.Spec.NodeName, had[p.Name], p.Annotations)
		}
	}
}

// TestPodGroupApart: pods whose PodGroup says that they need not begin together do not wait for each
// other.
func TestPodGroupApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil, withGroups()...)
	r.group(nativeGroups, "loose", map[string]any{"schedulingPolicy": map[string]any{"basic": map[string]any{}}})
	r.grouped("loose", 0, 3, 2, "100s")
	r.until("two run, and one waits", func() bool { return len(r.bound("loose")) == 2 && r.state("default/pod/loose-2") == api.Waiting })
	for i := range 3 {
		id := fmt.Sprintf("default/pod/loose-%d", i)
		r.until(id+" is done", func() bool { return r.state(id) == api.Done })
	}
}

// mate makes a pod of two GPUs of the gang "gang", which has three. It runs for a minute, and takes so
// long to start.
func (r *rig) mate(i int, start string) {
	r.t.Helper()
	r.make(&core.Pod{ObjectMeta: meta.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("gang-%d", i), Labels: map[string]string{names.Gang: "gang", names.GangSize: "3"},
		Annotations: map[string]string{fakekubelet.RunTime: "60s", fakekubelet.StartTime: start},
	}, Spec: spec(2, 1)})
}

// remove deletes a pod, which has so many seconds to end, and waits until it is gone; negative: as many
// as the pod says.
func (r *rig) remove(name string, grace int64) {
	r.t.Helper()
	options := meta.DeleteOptions{}
	if grace >= 0 {
		options.GracePeriodSeconds = &grace
	}
	if err := r.client.CoreV1().Pods("default").Delete(background, name, options); err != nil {
		r.t.Fatal(err)
	}
	r.until(name+" is gone", func() bool {
		return !slices.ContainsFunc(r.pods(), func(p core.Pod) bool { return p.Name == name })
	})
}

// TestReplacedPod: a pod of a gang that is made anew while the others run takes the place of the
// old one, however that was deleted.
func TestReplacedPod(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes, 10, nil)
	for i := range 3 {
		r.mate(i, "0s")
	}
	r.until("the gang runs", func() bool {
		return r.state("default/gang/gang") == api.Running && r.one("default/gang/gang").Reason == ""
	})
	for i, grace := range map[int]int64{1: 0, 2: -1} {
		name := fmt.Sprintf("gang-%d", i)
		was := r.bound("gang")[name]
		r.remove(name, grace)
		r.mate(i, "0s")
		r.until(name+" is bound again", func() bool { return r.bound("gang")[name] == was })
	}
	r.until("the gang is done", func() bool { return r.state("default/gang/gang") == api.Done })
	if j := r.one("default/gang/gang"); j.Run != 1 || j.Failures != 0 {
		t.Errorf("%+v", j)
	}
}

// TestLeftWhileItStarts: a gang of which a pod goes before all run gives its devices back. That its
// other pods are told to end is no failure of it, and those that are made anew are a gang again.
func TestLeftWhileItStarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes, 10, nil)
	for i, start := range []string{"0s", "0s", "1000s"} {
		r.mate(i, start)
	}
	r.until("two of three run", func() bool { return len(r.kubelet.Running()) == 2 && r.state("default/gang/gang") == api.Running })
	r.remove("gang-1", -1)
	r.until("the others have left", func() bool { return len(r.pods()) == 0 && r.state("default/gang/gang") == api.Cancelled })
	for i := range 3 {
		r.mate(i, "0s")
	}
	r.until("it is done", func() bool { return r.state("default/gang/gang") == api.Done })
	jobs, err := r.Jobs(background, me, api.Query{All: true})
	if err != nil || len(jobs) != 2 || jobs[0].Failures != 0 || jobs[1].Run != 1 {
		t.Errorf("%v: %+v", err, jobs)
	}
}

// TestOtherPodGroups: PodGroups of Volcano and of scheduler-plugins count as well, also where they
// were defined after Norn had begun. Pods that tell how many they are need none, as those of a
// LeaderWorkerSet.
func TestOtherPodGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes, 10, nil)
	for _, c := range []struct {
		kind  schema.GroupVersionResource
		label string
	}{{pluginGroups, "scheduling.x-k8s.io/pod-group"}, {volcanoGroups, "scheduling.volcano.sh/group-name"}} {
		r.apply(fmt.Sprintf(definition, c.kind.Group, c.kind.Version, c.kind.Resource, "PodGroup", "podgroup"))
		name, short, _ := strings.Cut(c.kind.Group, ".")
		name += short[:1]
		probe := 0
		r.until("its PodGroups are watched", func() bool {
			probe++
			gang := fmt.Sprintf("probe-%s-%d", name, probe)
			r.pod(gang, 0, "1s", map[string]string{c.label: gang})
			time.Sleep(100 * time.Millisecond)
			return r.troubled("there is no PodGroup " + gang)
		})
		pods := func(first, count int) {
			for i := first; i < first+count; i++ {
				r.pod(fmt.Sprintf("%s-%d", name, i), 1, "5s", map[string]string{c.label: name})
			}
		}
		pods(0, 1)
		r.group(c.kind, name, map[string]any{"minMember": int64(3)})
		pods(1, 1)
		r.until("it waits for its pods", func() bool { return r.troubled("gang default/" + name + " waits: 2 of its 3 pods are there") })
		pods(2, 1)
		r.until("it is done", func() bool { return r.state("default/gang/"+name) == api.Done })
	}
	for i, name := range []string{"lws-0", "lws-0-1"} { // as the controller of LeaderWorkerSets makes them
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{
			"leaderworkerset.sigs.k8s.io/name": "lws", "leaderworkerset.sigs.k8s.io/group-key": "key", "leaderworkerset.sigs.k8s.io/group-index": "0",
			"leaderworkerset.sigs.k8s.io/worker-index": fmt.Sprint(i),
		}, Annotations: map[string]string{"leaderworkerset.sigs.k8s.io/size": "2", fakekubelet.RunTime: "5s"}}, Spec: spec(1, 1)}
		r.make(p)
		if i == 0 {
			r.until("its leader waits for its worker", func() bool { return r.troubled("gang default/key waits: 1 of its 2 pods are there") })
		}
	}
	r.until("a group of a LeaderWorkerSet is done", func() bool { return r.state("default/gang/key") == api.Done })
	r.pod("told-0", 1, "5s", map[string]string{"scheduling.x-k8s.io/pod-group": "told", names.GangSize: "1"})
	r.until("a gang that tells its size is done", func() bool { return r.state("default/gang/told") == api.Done })
}
