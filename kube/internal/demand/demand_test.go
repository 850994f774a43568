package demand

import (
	"maps"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func list(cpu, memory, gpus string) core.ResourceList {
	out := core.ResourceList{}
	for name, text := range map[core.ResourceName]string{core.ResourceCPU: cpu, core.ResourceMemory: memory, "nvidia.com/gpu": gpus} {
		if text != "" {
			out[name] = resource.MustParse(text)
		}
	}
	return out
}

func container(r core.ResourceList) core.Container {
	return core.Container{Resources: core.ResourceRequirements{Requests: r}}
}

func sidecar(r core.ResourceList) core.Container {
	c, always := container(r), core.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// TestOf: what pods ask for, for each rule of the kubelet.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		name string
		spec core.PodSpec
		want Resources
	}{
		{"nothing", core.PodSpec{Containers: []core.Container{{}}}, Resources{"pods": 1}},
		{"two containers", core.PodSpec{Containers: []core.Container{container(list("1500m", "1Gi", "2")), container(list("1", "", ""))}},
			Resources{"pods": 1, "cpu": 2500, "memory": 1 << 30, "nvidia.com/gpu": 2}},
		{"init containers come one after the other", core.PodSpec{
			InitContainers: []core.Container{container(list("3", "1Mi", "")), container(list("2", "4Mi", ""))},
			Containers:     []core.Container{container(list("1", "2Mi", ""))}},
			Resources{"pods": 1, "cpu": 3000, "memory": 4 << 20}},
		{"a sidecar runs beside what comes after it", core.PodSpec{
			InitContainers: []core.Container{container(list("4", "", "")), sidecar(list("1", "", "")), container(list("3500m", "", ""))},
			Containers:     []core.Container{container(list("2", "", ""))}},
			Resources{"pods": 1, "cpu": 4500}},
		{"overhead, and requests of the pod", core.PodSpec{
			Containers: []core.Container{container(list("1", "1Mi", "1"))},
			Resources:  &core.ResourceRequirements{Requests: list("8", "", "")},
			Overhead:   list("250m", "", "")},
			Resources{"pods": 1, "cpu": 8250, "memory": 1 << 20, "nvidia.com/gpu": 1}},
	} {
		if got := Of(&core.Pod{Spec: c.spec}); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
