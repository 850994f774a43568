package podmap_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// TestPodGroup: the PodGroup that a pod names in its spec counts before those of labels, and none
// where Norn's own label says to which gang it belongs.
func TestPodGroup(t *testing.T) {
	for _, c := range []struct {
		meta podmap.Meta
		want string
	}{
		{podmap.Meta{}, "/"},
		{podmap.Meta{Group: "g", Labels: map[string]string{"scheduling.x-k8s.io/pod-group": "p"}}, "scheduling.k8s.io/g"},
		{podmap.Meta{Labels: map[string]string{"scheduling.x-k8s.io/pod-group": "p"}}, "scheduling.x-k8s.io/p"},
		{podmap.Meta{Annotations: map[string]string{"scheduling.k8s.io/group-name": "v"}}, "scheduling.volcano.sh/v"},
		{podmap.Meta{Annotations: map[string]string{"scheduling.volcano.sh/group-name": "v"}, Labels: map[string]string{"volcano.sh/job-name": "j"}}, "scheduling.volcano.sh/v"},
		{podmap.Meta{Group: "g", Labels: map[string]string{names.Gang: "n"}}, "/"},
		{podmap.Meta{Labels: map[string]string{"job-name": "j"}}, "/"},
	} {
		if api, name := c.meta.PodGroup(); api+"/"+name != c.want {
			t.Errorf("%+v: %s/%s, want %s", c.meta, api, name, c.want)
		}
	}
}

// TestGang: the gang that a user names goes first, then labels from the widest circle
// on, then owners, then the pod itself.
func TestGang(t *testing.T) {
	owner := func(kind string) []podmap.Owner { return []podmap.Owner{{Kind: kind, Name: "o", UID: "7"}} }
	for _, c := range []struct {
		meta       podmap.Meta
		key, title string
	}{
		{podmap.Meta{Labels: map[string]string{names.Gang: "g", "jobset.sigs.k8s.io/jobset-name": "s"}}, "a/" + names.Gang + "=g", "g"},
		{podmap.Meta{Group: "pg", Labels: map[string]string{names.Gang: "g"}}, "a/" + names.Gang + "=g", "g"},
		{podmap.Meta{Group: "pg", Labels: map[string]string{"job-name": "j"}}, "a/PodGroup=pg", "pg"},
		{podmap.Meta{Annotations: map[string]string{names.Gang: "g"}}, "a/" + names.Gang + "=g", "g"},
		{podmap.Meta{Labels: map[string]string{"job-name": "j", "jobset.sigs.k8s.io/jobset-name": "s"}}, "a/jobset.sigs.k8s.io/jobset-name=s", "s"},
		{podmap.Meta{Labels: map[string]string{names.Gang: ""}, Annotations: map[string]string{"job-name": "j"}}, "a/job-name=j", "j"},
		{podmap.Meta{Owners: owner("MyJob")}, "a/MyJob=7", "o"},
		{podmap.Meta{Owners: owner("ReplicaSet")}, "a/pod=p/u", "p"},
		{podmap.Meta{Owners: owner("StatefulSet")}, "a/pod=p/u", "p"},
		{podmap.Meta{}, "a/pod=p/u", "p"},
	} {
		c.meta.Namespace, c.meta.Name, c.meta.UID = "a", "p", "u"
		if key, title := c.meta.Gang(); key != c.key || title != c.title {
			t.Errorf("%+v: %q, %q; want %q, %q", c.meta, key, title, c.key, c.title)
		}
	}
	for kind, of := range map[string]string{"DaemonSet": "DaemonSet", "Node": "Node", "Job": ""} {
		if m := (podmap.Meta{Owners: owner(kind)}); m.OfNode() != of {
			t.Errorf("a pod of a %s belongs to the node: %q", kind, m.OfNode())
		}
	}
}

// TestRole finds roles and the indexes in them.
func TestRole(t *testing.T) {
	m := podmap.Meta{Labels: map[string]string{
		"jobset.sigs.k8s.io/replicatedjob-name": "worker", "jobset.sigs.k8s.io/job-index": "1", "batch.kubernetes.io/job-completion-index": "3",
	}}
	if m.Role() != "worker" || m.Index() != "jobset.sigs.k8s.io/job-index=1,batch.kubernetes.io/job-completion-index=3," {
		t.Errorf("role %q, index %q", m.Role(), m.Index())
	}
	if got := strings.Join(m.Indexes(), " "); got != "1 3" {
		t.Errorf("indexes %s", got)
	}
	for index, role := range map[string]string{"0": "leader", "3": "worker"} {
		m = podmap.Meta{Labels: map[string]string{"leaderworkerset.sigs.k8s.io/worker-index": index}}
		if m.Role() != role || strings.Join(m.Indexes(), " ") != index {
			t.Errorf("worker %s: role %q, indexes %q", index, m.Role(), m.Indexes())
		}
	}
	if m = (podmap.Meta{}); m.Role() != "" || m.Index() != "" {
		t.Errorf("role %q, index %q", m.Role(), m.Index())
	}
}

// TestGangSize: what a user of Norn says goes before what is said to others.
func TestGangSize(t *testing.T) {
	m := podmap.Meta{Labels: map[string]string{"kueue.x-k8s.io/pod-group-total-count": "4"}, Annotations: map[string]string{names.GangSize: "8"}}
	if label, size := m.GangSize(); label != names.GangSize || size != "8" {
		t.Error(label, size)
	}
	if label, size := new(podmap.Meta).GangSize(); label != "" || size != "" {
		t.Error(label, size)
	}
}

// TestAmounts has the example of KEP-753 of Kubernetes on sidecars, and one of each part
// of the sum.
func TestAmounts(t *testing.T) {
	asks := func(cpu float64) podmap.Container { return podmap.Container{Asks: podmap.Amounts{"cpu": cpu}} }
	side := func(cpu float64) podmap.Container {
		return podmap.Container{Asks: podmap.Amounts{"cpu": cpu}, Sidecar: true}
	}
	for name, c := range map[string]struct {
		spec podmap.Spec
		want float64
	}{
		"sum":                   {podmap.Spec{Containers: []podmap.Container{asks(1), asks(2)}}, 3},
		"largest init":          {podmap.Spec{Containers: []podmap.Container{asks(1)}, Init: []podmap.Container{asks(2), asks(5), asks(3)}}, 5},
		"sidecar counts":        {podmap.Spec{Containers: []podmap.Container{asks(1)}, Init: []podmap.Container{side(2)}}, 3},
		"init before a sidecar": {podmap.Spec{Containers: []podmap.Container{asks(1)}, Init: []podmap.Container{asks(5), side(2)}}, 5},
		"init after a sidecar":  {podmap.Spec{Containers: []podmap.Container{asks(1)}, Init: []podmap.Container{side(2), asks(5)}}, 7},
		"KEP-753":               {podmap.Spec{Containers: []podmap.Container{asks(1)}, Init: []podmap.Container{asks(5), side(1), asks(10), side(2), asks(4)}}, 11},
		"overhead":              {podmap.Spec{Containers: []podmap.Container{asks(1)}, Overhead: podmap.Amounts{"cpu": 0.25}}, 1.25},
		"the pod as a whole":    {podmap.Spec{Containers: []podmap.Container{asks(1)}, Whole: podmap.Amounts{"cpu": 4}, Overhead: podmap.Amounts{"cpu": 0.25}}, 4.25},
	} {
		if got := c.spec.Amounts()["cpu"]; got != c.want {
			t.Errorf("%s: %v cores, want %v", name, got, c.want)
		}
	}
	got := podmap.Asked(map[string]string{"cpu": "1"}, map[string]string{"cpu": "4", "memory": "1Gi"})
	if want := map[string]string{"cpu": "1", "memory": "1Gi"}; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestSize turns names of resources into what jobs count.
func TestSize(t *testing.T) {
	for _, c := range []struct {
		have podmap.Amounts
		want podmap.Size
	}{
		{podmap.Amounts{"cpu": 1.5, "memory": 1 << 30, "nvidia.com/gpu": 2, "pods": 1}, podmap.Size{GPU: 2000, CPU: 1500, Memory: unit.GiB}},
		{podmap.Amounts{"nvidia.com/mig-3g.20gb": 1}, podmap.Size{GPU: 429, GPUMemory: 20 * unit.GiB}},
		{podmap.Amounts{"nvidia.com/mig-3g.20gb": 0, "amd.com/gpu": 1}, podmap.Size{GPU: 1000}},
		{podmap.Amounts{"nvidia.com/mig-4g.40gb": 2}, podmap.Size{GPU: 2000, GPUMemory: 40 * unit.GiB}},
	} {
		if got := c.have.Size(); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.have, got, c.want)
		}
	}
	for profile, want := range map[string]string{"1g.5gb": "0.143 5GiB", "7g.80gb": "1 80GiB", "1g.10gb.me": "0.143 10GiB", "odd": "1 0B", "9g.xgb": "1 0B"} {
		part, memory := podmap.Slice(profile)
		if got := fmt.Sprint(part, " ", memory); got != want {
			t.Errorf("%s: %s, want %s", profile, got, want)
		}
	}
}

// TestQuantity reads what Kubernetes writes, and nothing else.
func TestQuantity(t *testing.T) {
	for text, want := range map[string]float64{"500m": 0.5, "2": 2, "16Gi": 16 << 30, "1e3": 1000, "1E3": 1000, "1G": 1e9, "0.5Ki": 512, "0": 0, "250m": 0.25} {
		if got, err := podmap.Quantity(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "many", "-1", "2Ei", "inf", "NaN", "1 Gi", "1MM", "1ki", "0x", "1Gi2"} {
		if got, err := podmap.Quantity(text); err == nil || !strings.Contains(err.Error(), "is not a quantity") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestDemand folds equal pods into roles, and roles of equal size into one where there
// are too many.
func TestDemand(t *testing.T) {
	var many []podmap.Pods
	for i := range job.MaxRoles + 1 {
		many = append(many, podmap.Pods{Role: fmt.Sprintf("r%d", i), Count: 2, Size: podmap.Size{GPU: unit.Milli(1+i%2) * unit.One, Types: "A|B"[:1+2*(i%2)]}})
	}
	d, err := podmap.Demand(many)
	if err != nil || d.Roles[0].Tasks != 8 || d.Roles[0].GPU != 2000 || d.Roles[1].Tasks != 10 || d.Roles[2].Tasks != 0 || d.Types != "A|B" {
		t.Errorf("%+v, %v", d, err)
	}
	for i := range many {
		many[i].Size.CPU = unit.Milli(i + 1)
	}
	if _, err := podmap.Demand(many); err == nil || !strings.Contains(err.Error(), "has pods of 9 sizes") {
		t.Errorf("%v", err)
	}
	d, err = podmap.Demand([]podmap.Pods{{Role: "idle", Count: 1}, {Role: "ps", Count: 1, Size: podmap.Size{CPU: 1000, Slots: "rdma=1"}}, {Role: "worker", Count: 3, Size: podmap.Size{GPU: 1000}}})
	if err != nil || d.Roles[0].Name != "worker" || d.Roles[1] != (job.Role{Name: "ps", Tasks: 1, CPU: 1000, Slots: "rdma=1"}) || d.Roles[2].Tasks != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestTypes takes types from the selector first, and from all alternatives of the
// affinity otherwise.
func TestTypes(t *testing.T) {
	affinity := [][]podmap.Match{
		{{"nvidia.com/gpu.product", "In", []string{"H100", "A100"}}, {"zone", "In", []string{"z"}}},
		{{"accelerator", "In", []string{"A100", "V100"}}, {"accelerator", "NotIn", []string{"K80"}}},
	}
	if got := podmap.Types(nil, affinity); got != "H100|A100|V100" {
		t.Error(got)
	}
	if got := podmap.Types(nil, append(affinity, []podmap.Match{{"zone", "In", []string{"z"}}})); got != "" {
		t.Errorf("%s, though one alternative tells no type", got)
	}
	if got := podmap.Types(map[string]string{"accelerator": "a", "amd.com/gpu.product-name": "b"}, affinity); got != "b" {
		t.Error(got)
	}
}

// TestMetricLabel writes names as kube-state-metrics does, so that no two that matter are
// one.
func TestMetricLabel(t *testing.T) {
	for name, want := range map[string]string{
		"batch.kubernetes.io/job-name": "batch_kubernetes_io_job_name", "aB-c2D": "a_b_c2_d", "HTTPServer": "httpserver", "x/y_Z": "x_y_z",
	} {
		if got := podmap.MetricLabel(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	seen := map[string]string{}
	for _, name := range podmap.Labels() {
		m := podmap.MetricLabel(name)
		if seen[m] != "" && seen[m] != name {
			t.Errorf("%s and %s are both %s", name, seen[m], m)
		}
		seen[m] = name
	}
}
