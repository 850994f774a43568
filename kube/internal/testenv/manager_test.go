package testenv

import (
	"context"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestControllerManager: the pods of a Job are made.
func TestControllerManager(t *testing.T) {
	e := Start(t, ControllerManager(Raised()...))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	k := client(t, e.Config())
	n := int32(3)
	job := &batch.Job{ObjectMeta: meta.ObjectMeta{Name: "job"}, Spec: batch.JobSpec{Parallelism: &n, Completions: &n, Template: core.PodTemplateSpec{
		Spec: core.PodSpec{RestartPolicy: core.RestartPolicyNever, Containers: []core.Container{{Name: "main", Image: "none"}}},
	}}}
	if _, err := k.BatchV1().Jobs("default").Create(ctx, job, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		pods, err := k.CoreV1().Pods("default").List(ctx, meta.ListOptions{LabelSelector: "job-name=job"})
		if err != nil {
			t.Fatalf("%v\n%s", err, e.ControllerManager().Tail())
		}
		if len(pods.Items) == int(n) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestKubeScheduler: a kube-scheduler binds pods, where it was built: it is not by default.
func TestKubeScheduler(t *testing.T) {
	if _, err := find([]string{etcd, apiServer, scheduler}); err != nil {
		t.Skip(err)
	}
	e := Start(t, KubeScheduler(), FeatureGates("GenericWorkload=true"), RuntimeConfig("scheduling.k8s.io/v1alpha2=true"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	k := client(t, e.Config())
	groups, err := k.Discovery().ServerResourcesForGroupVersion("scheduling.k8s.io/v1alpha2")
	if err != nil || len(groups.APIResources) == 0 {
		t.Errorf("what was asked for is not served: %v", err)
	}
	room := core.ResourceList{core.ResourcePods: resource.MustParse("10")}
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "n"}, Status: core.NodeStatus{Capacity: room, Allocatable: room}}
	if _, err := k.CoreV1().Nodes().Create(ctx, node, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "p"}, Spec: core.PodSpec{Containers: []core.Container{{Name: "main", Image: "none"}}}}
	if _, err := k.CoreV1().Pods("default").Create(ctx, pod, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		p, err := k.CoreV1().Pods("default").Get(ctx, "p", meta.GetOptions{})
		if err != nil {
			t.Fatalf("%v\n%s", err, e.scheduler.Tail())
		}
		if p.Spec.NodeName == "n" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
