package testenv

import (
	"context"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
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
