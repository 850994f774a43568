package kinds_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/kinds"
)

// load reads an object of testdata.
func load(t testing.TB, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// read reads an object of a kind that is known.
func read(o map[string]any) (*kinds.Workload, *kinds.Kind, error) {
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	k, known := kinds.Of(version, kind)
	if !known {
		return nil, nil, fmt.Errorf("%s in %s is not known", kind, version)
	}
	w, err := k.Read(o, convert.DefaultLevels())
	return w, k, err
}

// words tells a workload in a few lines.
func words(w *kinds.Workload) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s name %s tenant %s user %s admits %v suspend %v by %q gangs %d deadline %v estimate %v progress %v remaining %v\n",
		w.Kind, w.Key, w.Name, w.Tenant, w.User, w.Admits, w.Suspend, w.ManagedBy, w.Gangs, w.Deadline, w.Estimate, w.Progress, w.Remaining)
	fmt.Fprintf(&b, "phase %d suspended %v started %v why %q\n", w.State.Phase, w.State.Suspended, w.State.Started, w.State.Why)
	for _, s := range w.Sets {
		fmt.Fprintf(&b, "%s: %d x %v GPUs %v cores %v memory, stop %v within %q where %q\n", s.Role, s.Count, s.Ask.Size.GPU, s.Ask.Size.CPU, s.Ask.Size.Memory, s.Ask.Stop, s.Ask.Within, s.Ask.Where)
	}
	return b.String()
}

// TestKinds reads an object of each kind.
func TestKinds(t *testing.T) {
	for name, want := range map[string]string{
		"jobset": `JobSet.jobset.x-k8s.io team-a/llama name llama tenant research user team-a admits true suspend true by "" gangs 1 deadline 0s estimate 12h0m0s progress -1 remaining -1ns
phase 0 suspended true started false why ""
driver: 1 x 0 GPUs 0.5 cores 1GiB memory, stop checkpoint within "rack" where ""
worker: 6 x 8 GPUs 32 cores 256GiB memory, stop last-save within "rack" where ""
`,
		"trainjob": `TrainJob.trainer.kubeflow.org team-b/bert name bert tenant team-b user team-b admits false suspend false by "kueue.x-k8s.io/multikueue" gangs 1 deadline 2h0m0s estimate 2h0m0s progress 0.4 remaining 10m0s
phase 0 suspended false started false why ""
`,
		"rayjob": `RayJob.ray.io team-a/tune name tune tenant team-a user ada admits false suspend false by "" gangs 1 deadline 1h0m0s estimate 1h0m0s progress -1 remaining -1ns
phase 3 suspended false started true why "AppFailed: exit code 1"
head: 1 x 0 GPUs 4 cores 16GiB memory, stop checkpoint within "" where ""
worker: 3 x 2 GPUs 8 cores 0B memory, stop checkpoint within "" where ""
worker: 4 x 1 GPUs 2 cores 0B memory, stop checkpoint within "" where ""
`,
		"raycluster": `RayCluster.ray.io team-a/shared name shared tenant team-a user team-a admits false suspend true by "" gangs 1 deadline 0s estimate 0s progress -1 remaining -1ns
phase 0 suspended true started false why ""
head: 1 x 0 GPUs 4 cores 0B memory, stop checkpoint within "" where ""
`,
		"mpijob": `MPIJob.kubeflow.org team-a/horovod name horovod tenant team-a user team-a admits false suspend true by "" gangs 1 deadline 10m0s estimate 10m0s progress -1 remaining -1ns
phase 3 suspended false started false why "BackoffLimitExceeded: job has failed"
launcher: 1 x 0 GPUs 1 cores 0B memory, stop checkpoint within "" where ""
worker: 2 x 4 GPUs 0 cores 0B memory, stop checkpoint within "" where ""
`,
		"pytorchjob": `PyTorchJob.kubeflow.org team-a/gpt-x2x4 name gpt tenant team-a user team-a admits false suspend false by "kueue.x-k8s.io/multikueue" gangs 1 deadline 0s estimate 0s progress -1 remaining -1ns
phase 2 suspended false started true why ""
master: 1 x 8 GPUs 0 cores 0B memory, stop checkpoint within "" where "pool=gpu"
worker: 3 x 8 GPUs 0 cores 0B memory, stop checkpoint within "" where "pool=gpu"
`,
		"lws": `LeaderWorkerSet.leaderworkerset.x-k8s.io team-c/serve name serve tenant team-c user team-c admits false suspend false by "" gangs 3 deadline 0s estimate 0s progress -1 remaining -1ns
phase 0 suspended false started false why ""
leader: 1 x 1 GPUs 0 cores 0B memory, stop checkpoint within "" where ""
worker: 3 x 8 GPUs 0 cores 0B memory, stop checkpoint within "" where ""
`,
		"appwrapper": `AppWrapper.workload.codeflare.dev team-a/wrap name wrap tenant research user team-a admits true suspend true by "" gangs 1 deadline 0s estimate 0s progress -1 remaining -1ns
phase 0 suspended true started false why ""
worker: 2 x 8 GPUs 0 cores 0B memory, stop checkpoint within "" where ""
component2: 5 x 0 GPUs 2 cores 0B memory, stop checkpoint within "" where ""
component3: 2 x 0 GPUs 1 cores 0B memory, stop checkpoint within "" where ""
component4: 1 x 0 GPUs 0 cores 1GiB memory, stop checkpoint within "" where ""
`,
		"vcjob": `Job.batch.volcano.sh team-a/tf name tf tenant team-a user team-a admits false suspend false by "" gangs 1 deadline 0s estimate 0s progress -1 remaining -1ns
phase 3 suspended false started false why "Cancelled: by command"
ps: 1 x 0 GPUs 4 cores 0B memory, stop checkpoint within "" where ""
default1: 2 x 1 GPUs 0 cores 0B memory, stop checkpoint within "" where ""
`,
	} {
		w, k, err := read(load(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := words(w); got != want {
			t.Errorf("%s: have\n%s\nwant\n%s", name, got, want)
		}
		if d, err := w.Demand(convert.Types{"A": "nvidia.com/gpu"}); (k.Child == "") != (err == nil) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// TestPatch: what suspends an object is the field that Read looks at.
func TestPatch(t *testing.T) {
	for _, k := range kinds.All() {
		patch := k.Patch(true)
		if k.Suspends() != (patch != nil) {
			t.Errorf("%s: %v", &k, patch)
		}
		if patch == nil {
			continue
		}
		w, err := k.Read(patch, nil)
		if w != nil && !w.Suspend || w == nil && err == nil || !k.Suspended(patch) {
			t.Errorf("%s with %v: %+v, %v", &k, patch, w, err)
		}
	}
	k, _ := kinds.Of("kubeflow.org/v1", "PyTorchJob")
	if got := fmt.Sprint(k.Patch(false)); got != `map[spec:map[runPolicy:map[suspend:false]]]` {
		t.Error(got)
	}
	o := load(t, "mpijob")
	delete(o["spec"].(map[string]any)["mpiReplicaSpecs"].(map[string]any)["Worker"].(map[string]any), "replicas")
	if w, _, err := read(o); err != nil || len(w.Sets) != 1 || w.Sets[0].Role != "launcher" {
		t.Error("an MPIJob that does not tell how many workers it has", w, err)
	}
	o = load(t, "pytorchjob")
	o["spec"].(map[string]any)["runPolicy"] = map[string]any{"suspend": true}
	if w, _, err := read(o); err != nil || !w.Suspend {
		t.Error(w, err)
	}
}

// TestTable: no two kinds are the same, and children are kinds.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	var all []string
	for _, k := range kinds.All() {
		id := k.APIVersion() + " " + k.Name
		if seen[id] || k.Plural == "" {
			t.Errorf("%s is there twice, or has no plural", id)
		}
		seen[id] = true
		all = append(all, k.Name)
		if k.Child != "" && !slices.ContainsFunc(kinds.All(), func(c kinds.Kind) bool { return c.Name == k.Child }) {
			t.Errorf("%s makes %s, which is not known", id, k.Child)
		}
	}
	if len(all) < 14 {
		t.Errorf("only %v", all)
	}
	if _, known := kinds.Of("jobset.x-k8s.io/v1", "JobSet"); known {
		t.Error("a version that is not known")
	}
}

// TestErrors: what no workload can be is an error that names the object.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, namespace: ns}}`, "JobSet ns/a: it makes no pods"},
		{`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a}, spec: {replicatedJobs: [7]}}`, "entry 0 is no object"},
		{`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a}, spec: {replicatedJobs: [{name: w, replicas: -1}]}}`, "replicated job w: replicas is no number"},
		{`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a}, spec: {replicatedJobs: [{name: w, replicas: 1000, template: {spec: {parallelism: 1001}}}]}}`, "more than 1000000 pods"},
		{`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a}, spec: {replicatedJobs: [{name: w}]}}`, "role w: it has no pod template"},
		{`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a}, spec: {replicatedJobs: [{name: w, template: {spec: {template: {spec: {containers: 7}}}}}]}}`, "pod template"},
		{`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: 7}}`, "JobSet: metadata"},
		{`{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: a, annotations: {norn-scheduler.github.io/estimate: soon}}}`, "write a duration"},
		{`{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: a}, spec: {clusterSelector: {a: b}}}`, "it uses a cluster that is there"},
		{`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: a}, spec: {workerGroupSpecs: [{groupName: g, replicas: 1000000, numOfHosts: 2}]}}`, "group g: more than"},
		{`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: a}, spec: {leaderWorkerTemplate: {size: 0}}}`, "a group of no pods"},
		{`{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: a}, spec: {tfReplicaSpecs: {PS: {replicas: 1.5}}}}`, "role PS: replicas is no number"},
		{`{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: a}, spec: {components: [{podSets: [{path: spec.template}], template: {}}]}}`, "component 0: path \"spec.template\" does not begin"},
		{`{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: a}, spec: {components: [{podSets: [{path: "template.a[3]"}], template: {}}]}}`, "leads nowhere"},
		{`{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: a}, spec: {components: [{podSets: [{path: "template.a"}], template: {a: 7}}]}}`, "leads to no pod template"},
		{`{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: a}, spec: {components: [{template: {apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper}}]}}`, "an AppWrapper in an AppWrapper"},
	} {
		if _, _, err := read(parse(t, c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestGroup reads PodGroups of Kubernetes 1.36 and 1.37, and of others.
func TestGroup(t *testing.T) {
	for text, want := range map[string]string{
		`{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: g, namespace: a}, spec: {schedulingPolicy: {gang: {minCount: 8}},
		  schedulingConstraints: {topology: [{key: topology.kubernetes.io/rack}]}, disruptionMode: PodGroup, priorityClassName: high, priority: 100, resourceClaims: [{name: c}]}}`: "{a/g 8 rack false 100  false true [c] PodGroupScheduled}",
		`{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, namespace: a}, spec: {schedulingPolicy: {gang: {minCount: 2}},
		  disruptionMode: {all: {}}, priorityClassName: high, preemptionPolicy: Never}}`: "{a/g 2  false 0 high true true [] PodGroupInitiallyScheduled}",
		`{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, namespace: a, annotations: {norn-scheduler.github.io/within: "zone?"}},
		  spec: {schedulingPolicy: {basic: {}}, disruptionMode: {single: {}}, schedulingConstraints: {topology: [{key: topology.kubernetes.io/rack}]}}}`: "{a/g 0 zone true 0  false false [] PodGroupInitiallyScheduled}",
		`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g, namespace: a}, spec: {minMember: 4, networkTopology: {mode: hard, highestTierAllowed: 2}}}`: "{a/g 4 rack false 0  false false [] Scheduled}",
		`{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g, namespace: a}, spec: {minMember: 3}}`:                                                        "{a/g 3  false 0  false false [] Scheduled}",
	} {
		g, err := kinds.ReadGroup(parse(t, text), convert.DefaultLevels())
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := fmt.Sprint(*g); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for text, want := range map[string]string{
		`{apiVersion: scheduling.k8s.io/v1, kind: PodGroup}`:      "is no PodGroup that is known",
		`{apiVersion: scheduling.k8s.io/v1beta1, kind: Workload}`: "is no PodGroup that is known",
		`{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, namespace: a}, spec: {schedulingPolicy: {gang: {minCount: many}}}}`:                "PodGroup a/g: minCount is no number",
		`{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, namespace: a}, spec: {schedulingConstraints: {topology: [{key: k}]}}}`:             `"k" is no level of the topology`,
		`{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, namespace: a}, spec: {schedulingConstraints: {topology: [{}, {}]}}}`:               "2 levels of the topology",
		`{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, namespace: a}, spec: {priority: 9999999999}}`:                                      "is no priority",
		`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g, namespace: a}, spec: {networkTopology: {mode: hard, highestTierAllowed: 99}}}`: "the topology has tiers",
	} {
		if _, err := kinds.ReadGroup(parse(t, text), convert.DefaultLevels()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// FuzzRead: whatever stands in an object is read, or is an error.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 9 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := json.Marshal(load(f, strings.TrimSuffix(filepath.Base(file), ".yaml")))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"apiVersion":"scheduling.k8s.io/v1beta1","kind":"PodGroup","spec":{"schedulingPolicy":{"gang":{"minCount":2}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var o map[string]any
		if json.Unmarshal(text, &o) != nil {
			return
		}
		if g, err := kinds.ReadGroup(o, convert.DefaultLevels()); err == nil && g.Least < 0 {
			t.Errorf("%+v", g)
		}
		w, _, err := read(o)
		if err != nil {
			return
		}
		if d, err := w.Demand(convert.Types{}); err == nil && d.Check() != nil {
			t.Errorf("%+v: %v", d, d.Check())
		}
	})
}
