package kube_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Stand-ins for the controllers of other kinds of owners. Each obeys the suspend field of its
// objects, makes and deletes what their pods come from, and tells how they stand. Sources: the
// API types of JobSet v0.10, Kubeflow Trainer v2.2 and KubeRay v1.5.

// definition is a CRD whose objects may have any fields.
const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[3]s.%[1]s
  annotations: {api-approved.kubernetes.io: "unapproved, of a test"}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: %[4]s, plural: %[3]s, singular: %[5]s, listKind: %[4]sList}
  versions:
  - name: %[2]s
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

var (
	jobSets     = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	trainJobs   = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}
	rayJobs     = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayjobs"}
	rayClusters = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}
	kindNames   = map[schema.GroupVersionResource]string{jobSets: "JobSet", trainJobs: "TrainJob", rayJobs: "RayJob", rayClusters: "RayCluster"}
)

// operator stands in for a controller.
type operator struct {
	*rig
	client dynamic.Interface
}

// operators defines the kinds, and has stand-ins look after their objects until the test ends.
func (r *rig) operators() *operator {
	r.t.Helper()
	o := &operator{r, r.extraAs("operator", "system:masters")}
	for _, k := range []schema.GroupVersionResource{jobSets, trainJobs, rayJobs, rayClusters} {
		name := kindNames[k]
		r.apply(fmt.Sprintf(definition, k.Group, k.Version, k.Resource, name, strings.ToLower(name)))
		r.until(name+" can be made", func() bool {
			_, err := o.client.Resource(k).Namespace("default").List(background, meta.ListOptions{})
			return err == nil
		})
	}
	ctx, stop := context.WithCancel(background)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			o.each(jobSets, o.jobSet)
			o.each(trainJobs, o.trainJob)
			o.each(rayJobs, o.rayJob)
			o.each(rayClusters, o.rayCluster)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	r.t.Cleanup(func() { stop(); <-done })
	return o
}

// each has each object of a kind looked after. Errors are passed over, since it is tried
// again.
func (o *operator) each(k schema.GroupVersionResource, f func(*unstructured.Unstructured) (map[string]any, error)) {
	list, err := o.client.Resource(k).Namespace("default").List(background, meta.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		u := &list.Items[i]
		status, err := f(u)
		if err != nil || status == nil || fmt.Sprint(u.Object["status"]) == fmt.Sprint(status) {
			continue
		}
		u.Object["status"] = status
		o.client.Resource(k).Namespace("default").UpdateStatus(background, u, meta.UpdateOptions{}) // a conflict is tried again
	}
}

func suspended(u *unstructured.Unstructured) bool {
	s, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
	return s
}

// owned is the metadata of something that an object makes.
func owned(u *unstructured.Unstructured, name string) meta.ObjectMeta {
	return meta.ObjectMeta{
		Namespace: "default", Name: name,
		OwnerReferences: []meta.OwnerReference{*meta.NewControllerRef(u, u.GroupVersionKind())},
	}
}

// conditions are those of a status, each with whether it holds.
func conditions(all map[string]bool) map[string]any {
	var out []any
	for _, name := range []string{"Suspended", "Completed", "Complete", "Failed"} {
		if holds, told := all[name]; told {
			out = append(out, map[string]any{"type": name, "status": map[bool]string{true: "True", false: "False"}[holds], "reason": "Test", "message": "of a test"})
		}
	}
	return map[string]any{"conditions": out}
}

// jobSet makes a Job for each replica of a JobSet, suspended as that is.
func (o *operator) jobSet(u *unstructured.Unstructured) (map[string]any, error) {
	jobs := o.rig.client.BatchV1().Jobs("default")
	all, complete, quiet := 0, 0, true
	parts, _, _ := unstructured.NestedSlice(u.Object, "spec", "replicatedJobs")
	for _, part := range parts {
		p := part.(map[string]any)
		replicas, told, _ := unstructured.NestedInt64(p, "replicas")
		if !told {
			replicas = 1
		}
		for i := range replicas {
			all++
			name := fmt.Sprintf("%s-%s-%d", u.GetName(), p["name"], i)
			j, err := jobs.Get(background, name, meta.GetOptions{})
			if apierrors.IsNotFound(err) {
				j = &batch.Job{ObjectMeta: owned(u, name)}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(p["template"].(map[string]any)["spec"].(map[string]any), &j.Spec); err != nil {
					return nil, err
				}
				on := suspended(u)
				j.Spec.Suspend = &on
				if j.Spec.Template.Labels == nil {
					j.Spec.Template.Labels = map[string]string{}
				}
				j.Spec.Template.Labels["jobset.sigs.k8s.io/jobset-name"] = u.GetName()
				j.Spec.Template.Labels["jobset.sigs.k8s.io/replicatedjob-name"] = p["name"].(string)
				j.Spec.Template.Labels["jobset.sigs.k8s.io/job-index"] = fmt.Sprint(i)
				j, err = jobs.Create(background, j, meta.CreateOptions{})
			}
			if err != nil {
				return nil, err
			}
			if on := suspended(u); *j.Spec.Suspend != on {
				j.Spec.Suspend = &on
				if _, err := jobs.Update(background, j, meta.UpdateOptions{}); err != nil {
					return nil, err
				}
			}
			has := func(t batch.JobConditionType) bool {
				return slices.ContainsFunc(j.Status.Conditions, func(c batch.JobCondition) bool { return c.Type == t && c.Status == core.ConditionTrue })
			}
			quiet = quiet && has(batch.JobSuspended)
			if has(batch.JobComplete) {
				complete++
			}
		}
	}
	return conditions(map[string]bool{"Suspended": suspended(u) && quiet, "Completed": complete == all}), nil
}

// trainJob makes a JobSet of the same name from a runtime: as many nodes as the TrainJob says.
func (o *operator) trainJob(u *unstructured.Unstructured) (map[string]any, error) {
	sets := o.client.Resource(jobSets).Namespace("default")
	set, err := sets.Get(background, u.GetName(), meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		nodes, _, _ := unstructured.NestedInt64(u.Object, "spec", "trainer", "numNodes")
		set = setOf(u.GetName(), map[string]any{"name": "node", "template": jobTemplate(nodes, 1, "100s")})
		m := owned(u, u.GetName())
		set.SetOwnerReferences(m.OwnerReferences)
		set.SetLabels(nil)
		set.SetAnnotations(nil)
		set, err = sets.Create(background, set, meta.CreateOptions{})
	}
	if err != nil {
		return nil, err
	}
	if suspended(set) != suspended(u) {
		unstructured.SetNestedField(set.Object, suspended(u), "spec", "suspend")
		if _, err := sets.Update(background, set, meta.UpdateOptions{}); err != nil {
			return nil, err
		}
	}
	text := fmt.Sprint(set.Object["status"])
	return conditions(map[string]bool{
		"Suspended": suspended(u) && strings.Contains(text, "status:True type:Suspended"), "Complete": strings.Contains(text, "status:True type:Completed"),
	}), nil
}

// rayJob makes a RayCluster while it is not suspended, and throws it away when it is.
func (o *operator) rayJob(u *unstructured.Unstructured) (map[string]any, error) {
	clusters := o.client.Resource(rayClusters).Namespace("default")
	if phase, _, _ := unstructured.NestedString(u.Object, "status", "jobDeploymentStatus"); phase == "Complete" {
		return nil, nil
	}
	c, err := clusters.Get(background, u.GetName()+"-raycluster", meta.GetOptions{})
	there := err == nil
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return nil, err
	case suspended(u) && there:
		of := meta.ListOptions{LabelSelector: "ray.io/cluster=" + c.GetName()} // the garbage collector of tests learns late of new kinds
		if err := o.rig.client.CoreV1().Pods("default").DeleteCollection(background, meta.DeleteOptions{}, of); err != nil {
			return nil, err
		}
		return map[string]any{"jobDeploymentStatus": "Suspending"}, clusters.Delete(background, c.GetName(), meta.DeleteOptions{})
	case suspended(u):
		return map[string]any{"jobDeploymentStatus": "Suspended"}, nil
	case !there:
		spec, _, _ := unstructured.NestedMap(u.Object, "spec", "rayClusterSpec")
		c := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}}
		m := owned(u, u.GetName()+"-raycluster")
		c.SetName(m.Name)
		c.SetOwnerReferences(m.OwnerReferences)
		c.SetLabels(u.GetLabels()) // as KubeRay does
		c.SetAnnotations(u.GetAnnotations())
		_, err := clusters.Create(background, c, meta.CreateOptions{})
		return map[string]any{"jobDeploymentStatus": "Initializing"}, err
	}
	if state, _, _ := unstructured.NestedString(c.Object, "status", "state"); state == "done" {
		return map[string]any{"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, nil
	}
	return map[string]any{"jobDeploymentStatus": "Running"}, nil
}

// rayCluster makes the pods of a RayCluster.
func (o *operator) rayCluster(u *unstructured.Unstructured) (map[string]any, error) {
	type part struct {
		role     string
		count    int64
		template map[string]any
	}
	head, _, _ := unstructured.NestedMap(u.Object, "spec", "headGroupSpec", "template")
	parts := []part{{"head", 1, head}}
	groups, _, _ := unstructured.NestedSlice(u.Object, "spec", "workerGroupSpecs")
	for _, g := range groups {
		g := g.(map[string]any)
		parts = append(parts, part{"worker", g["replicas"].(int64), g["template"].(map[string]any)})
	}
	pods, done, all := o.rig.client.CoreV1().Pods("default"), 0, 0
	for _, p := range parts {
		for i := range p.count {
			all++
			name := fmt.Sprintf("%s-%s-%d", u.GetName(), p.role, i)
			is, err := pods.Get(background, name, meta.GetOptions{})
			if apierrors.IsNotFound(err) {
				var t core.PodTemplateSpec
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(p.template, &t); err != nil {
					return nil, err
				}
				is = &core.Pod{ObjectMeta: owned(u, name), Spec: t.Spec}
				is.Labels, is.Annotations = map[string]string{"ray.io/cluster": u.GetName(), "ray.io/node-type": p.role}, t.Annotations
				is, err = pods.Create(background, is, meta.CreateOptions{})
			}
			if err != nil {
				return nil, err
			}
			if !meta.IsControlledBy(is, u) {
				return nil, fmt.Errorf("pod %s of an earlier cluster is still there", name)
			}
			if is.Status.Phase == core.PodSucceeded {
				done++
			}
		}
	}
	return map[string]any{"state": map[bool]string{true: "done", false: "ready"}[done == all]}, nil
}
