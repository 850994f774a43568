package convert

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// container is one that asks for what the pairs of name and quantity say.
func container(pairs ...string) corev1.Container {
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(pairs...)}}
}

// TestPod reads a worker with all that a pod can ask for.
func TestPod(t *testing.T) {
	priority, never := int32(7), corev1.PreemptNever
	spec := &corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: list("cpu", "7500m", "memory", "64Gi", "rdma/hca", "1"), Limits: list("nvidia.com/gpu", "8", "memory", "128Gi", "rdma/hca", "1", "ephemeral-storage", "0"),
		}}},
		Overhead:     list("cpu", "250m"),
		NodeSelector: map[string]string{"nvidia.com/gpu.product": "NVIDIA-H100"},
		Tolerations:  []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: "Exists"}},
		Priority:     &priority, PriorityClassName: "high", PreemptionPolicy: &never,
		SchedulingGates: []corev1.PodSchedulingGate{{Name: names.Gate}},
	}
	a, err := Pod(spec, map[string]string{names.Stop: "restart"}, map[string]string{names.Within: "rack?"}, DefaultLevels())
	if err != nil {
		t.Fatal(err)
	}
	if want := (podmap.Size{GPU: 8000, CPU: 7750, Memory: 64 * unit.GiB, Slots: "pods=1|rdma/hca=1"}); a.Size != want {
		t.Errorf("%+v, want %+v", a.Size, want)
	}
	if a.Resource != "nvidia.com/gpu" || a.Wish != "NVIDIA-H100" || a.Where != "nvidia.com/gpu.product=NVIDIA-H100" || a.Tolerate != "nvidia.com/gpu" || a.Within != "rack" || !a.Prefer {
		t.Errorf("%+v", a)
	}
	if a.Priority != 7 || a.Class != "" || !a.Never || a.Stop != job.Restart || !a.StopTold || !slices.Equal(a.Gates, []string{names.Gate}) || len(a.Beyond)+len(a.Ignored) > 0 {
		t.Errorf("%+v", a)
	}
	plain, err := Pod(&corev1.PodSpec{PriorityClassName: "high"}, nil, nil, nil)
	if err != nil || plain.Size != (podmap.Size{Slots: "pods=1"}) || plain.Class != "high" || plain.StopTold {
		t.Errorf("%+v, %v", plain, err)
	}
}

// TestBeyond: what only kube-scheduler can see to is told in words, and what nobody sees
// to as well.
func TestBeyond(t *testing.T) {
	term := []corev1.PodAffinityTerm{{TopologyKey: "zone"}}
	spec := &corev1.PodSpec{
		Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 22, HostPort: 2222}}}},
		Volumes: []corev1.Volume{
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "imagenet"}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpus"}},
		Affinity: &corev1.Affinity{
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term, PreferredDuringSchedulingIgnoredDuringExecution: make([]corev1.WeightedPodAffinityTerm, 1)},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}, {TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway}},
	}
	a, err := Pod(spec, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"uses the volume claim imagenet", "uses the ephemeral volume tmp", "uses the resource claim gpus", "must be near other pods (pod affinity)",
		"must be away from other pods (pod anti-affinity)", "must be spread over zone", "uses port 2222 of its node",
	}
	if !slices.Equal(a.Beyond, want) || !slices.Equal(a.Claims, []string{"imagenet"}) {
		t.Errorf("%q, claims %q", a.Beyond, a.Claims)
	}
	if want := []string{"preferred affinity", "preferred spread over rack"}; !slices.Equal(a.Ignored, want) {
		t.Errorf("ignored %q", a.Ignored)
	}
}

// TestPodErrors: what cannot be counted is an error.
func TestPodErrors(t *testing.T) {
	one := func(c corev1.Container) *corev1.PodSpec { return &corev1.PodSpec{Containers: []corev1.Container{c}} }
	for want, c := range map[string]struct {
		spec        *corev1.PodSpec
		annotations map[string]string
	}{
		"asks for nvidia.com/gpu and for nvidia.com/mig-1g.5gb": {one(container("nvidia.com/gpu", "1", "nvidia.com/mig-1g.5gb", "1")), nil},
		"container c: -1 of cpu is no amount":                   {one(container("cpu", "-1")), nil},
		"container c: 4Ei of memory is no amount":               {one(container("memory", "4Ei")), nil},
		"absurd amount of GPUs":                                 {one(container("nvidia.com/gpu", "5000")), nil},
		"of memory are more than a pod can ask for":             {&corev1.PodSpec{Containers: []corev1.Container{container("memory", "1Pi"), container("memory", "1Pi")}}, nil},
		"7 counted resources":                                   {one(container("x/a", "1", "x/b", "1", "x/c", "1", "x/d", "1", "x/e", "1", "x/f", "1")), nil},
		"is no name of a counted resource":                      {one(container("x/"+strings.Repeat("a", 63), "1")), nil},
		`norn-scheduler.github.io/stop "now": write checkpoint`: {one(container()), map[string]string{names.Stop: "now"}},
		`norn-scheduler.github.io/within "rack" is no level of`: {one(container()), map[string]string{names.Within: "rack"}},
		"overhead: -1 of cpu is no amount":                      {&corev1.PodSpec{Overhead: list("cpu", "-1")}, nil},
		"the pod as a whole: -1 of cpu is no amount":            {&corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: list("cpu", "-1")}}, nil},
		"init container c: -1 of cpu is no amount":              {&corev1.PodSpec{InitContainers: []corev1.Container{container("cpu", "-1")}}, nil},
	} {
		if _, err := Pod(c.spec, nil, c.annotations, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestDemand puts sets of pods together, and refuses those that a demand cannot hold.
func TestDemand(t *testing.T) {
	ask := func(change func(spec *corev1.PodSpec), pairs ...string) *Ask {
		spec := &corev1.PodSpec{Containers: []corev1.Container{container(pairs...)}}
		if change != nil {
			change(spec)
		}
		a, err := Pod(spec, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	types := Types{"A100": "nvidia.com/gpu", "MIG": "nvidia.com/mig-1g.5gb"}
	worker, driver := ask(nil, "nvidia.com/gpu", "8", "cpu", "32"), ask(nil, "cpu", "1")
	d, err := Demand([]Set{{"driver", 1, driver}, {"worker", 4, worker}}, types)
	if err != nil || d.String() != "worker: 4 x (8 GPUs + 32 CPUs + 1 pods), driver: 1 CPU + 1 pods of type A100" {
		t.Errorf("%s, %v", &d, err)
	}
	if d, err = Demand([]Set{{"", 1, worker}, {"", 1, driver}, {"", 1, worker}}, types); err != nil || d.Roles[0].Tasks != 2 || d.Roles[1].Tasks != 1 || d.Roles[2].Tasks != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err = Demand([]Set{{"", 1, driver}}, types); err != nil || d.Types != "" {
		t.Errorf("%+v, %v", d, err)
	}
	for want, other := range map[string]*Ask{
		"pods of role b may be on other nodes than pods of role a":    ask(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"x": "y"} }),
		"pods of role b tolerate other taints than pods of role a":    ask(func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Operator: "Exists"}} }),
		"pods of role b use nvidia.com/mig-1g.5gb, others nvidia.com": ask(nil, "nvidia.com/mig-1g.5gb", "1"),
		"pods of role b must stand together otherwise":                {Within: "rack"},
	} {
		if _, err := Demand([]Set{{"a", 1, worker}, {"b", 1, other}}, types); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := Demand(nil, types); err == nil {
		t.Error("no pods are no error")
	}
}

// drawAmounts draws requests of a container.
func drawAmounts(t *rapid.T) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "nvidia.com/gpu"} {
		if rapid.Bool().Draw(t, string(name)) {
			out[name] = *resource.NewMilliQuantity(int64(rapid.IntRange(0, 9).Draw(t, "n"))*1000, resource.DecimalSI)
		}
	}
	return out
}

func drawPod(t *rapid.T) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	p := &corev1.Pod{}
	some := func(what string, init bool) (all []corev1.Container, told []corev1.ContainerStatus) {
		for i := range rapid.IntRange(0, 3).Draw(t, what) {
			c := corev1.Container{Name: fmt.Sprint(what, i), Resources: corev1.ResourceRequirements{Requests: drawAmounts(t)}}
			if init && rapid.Bool().Draw(t, "sidecar") {
				c.RestartPolicy = &always
			}
			s := corev1.ContainerStatus{Name: c.Name}
			if rapid.Bool().Draw(t, "resized") {
				s.Resources, s.AllocatedResources = &corev1.ResourceRequirements{Requests: drawAmounts(t)}, drawAmounts(t)
			}
			all, told = append(all, c), append(told, s)
		}
		return all, told
	}
	p.Spec.Containers, p.Status.ContainerStatuses = some("c", false)
	p.Spec.InitContainers, p.Status.InitContainerStatuses = some("i", true)
	if rapid.Bool().Draw(t, "overhead") {
		p.Spec.Overhead = drawAmounts(t)
	}
	if rapid.Bool().Draw(t, "whole") {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "whole")))}
		if rapid.Bool().Draw(t, "resized whole") {
			p.Status.Resources = &corev1.ResourceRequirements{Requests: list("cpu", fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "has")))}
			p.Status.AllocatedResources = list("cpu", fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "given")))
		}
	}
	if rapid.Bool().Draw(t, "infeasible") {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	}
	return p
}

// TestRequestsAsKubernetes: what pods ask for, and what they take while they are being
// resized, is what Kubernetes' own sum has.
func TestRequestsAsKubernetes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t)
		asks, err := requests(&p.Spec)
		if err != nil {
			t.Fatal(err)
		}
		compare := func(what string, got podmap.Amounts, want corev1.ResourceList) {
			for _, name := range []corev1.ResourceName{"cpu", "memory", "nvidia.com/gpu"} {
				q := want[name]
				if got[string(name)] != float64(q.MilliValue())/1000 {
					t.Fatalf("%s %v of %s, Kubernetes says %s", what, got[string(name)], name, q.String())
				}
			}
		}
		compare("asks for", asks, helper.PodRequests(p, helper.PodResourcesOptions{}))
		compare("takes", taken(p), helper.PodRequests(p, helper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}))
	})
}

// TestUse counts what a pod takes of its node.
func TestUse(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("cpu", "1500m", "memory", "1Gi", "nvidia.com/gpu", "2", "rdma/hca", "3", "x/odd", "-1")}}}
	u := UseOf(p, []string{"pods", "rdma/hca", "x/odd"})
	if u.CPU != 1500 || u.Memory != unit.GiB || u.GPUs["nvidia.com/gpu"] != 2 || len(u.GPUs) != 1 || u.Slots[0] != 1 || u.Slots[1] != 3 || u.Slots[2] != 0 {
		t.Errorf("%+v", u)
	}
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		p.Status.Phase = phase
		if u := UseOf(p, []string{"pods"}); u.CPU != 0 || u.Slots[0] != 0 || len(u.GPUs) > 0 {
			t.Errorf("%s: %+v", phase, u)
		}
	}
}

// TestLimitsAlone: a template has its limits for requests, as the API server fills them in
// when it makes pods; of the pod as a whole only those that no container asks for.
func TestLimitsAlone(t *testing.T) {
	spec := &corev1.PodSpec{
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: list("cpu", "2")}}},
		Resources:  &corev1.ResourceRequirements{Limits: list("cpu", "8", "memory", "4Gi")},
	}
	a, err := Pod(spec, nil, nil, nil)
	if err != nil || a.Size.CPU != 2000 || a.Size.Memory != 4*unit.GiB {
		t.Errorf("%+v, %v", a, err)
	}
}
