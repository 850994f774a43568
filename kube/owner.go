package kube

import (
	"cmp"
	"fmt"
	"strings"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/kinds"
	"github.com/norn-scheduler/norn/kube/names"
)

// owner is an object that is suspended and resumed as a whole, and whose controller makes and
// deletes pods: a batch/v1 Job, or an object of one of the kinds of package kinds.
type owner interface {
	meta.Object
	// suspends is what its spec says.
	suspends() bool
	// quiet tells whether it is suspended, and its controller has seen to it.
	quiet() bool
	// over tells whether it has ended, and how.
	over(pods []*core.Pod) (done, failed bool, why string)
	// asks is what it asks for.
	asks(d *Daemon) (ask, error)
}

// ownerKind is a kind of owner; nil: batch/v1 Job.
type ownerKind = *kinds.Kind

// called is what the object of a job is called.
func (l *entry) called() string {
	if l.of != nil {
		return l.of.Name
	}
	return l.kind.String()
}

// resourceOf is the resource of the objects of a kind.
func resourceOf(k ownerKind) schema.GroupVersionResource {
	if k == nil {
		return batch.SchemeGroupVersion.WithResource("jobs")
	}
	return schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Plural}
}

// prefixOf stands before the names of objects of a kind in keys.
func prefixOf(k ownerKind) string { return strings.ToLower(k.Name) + "/" }

// batchJob is a batch/v1 Job.
type batchJob struct{ *batch.Job }

func (j batchJob) suspends() bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }

func (j batchJob) quiet() bool {
	state := convert.StateOf(&j.Status)
	return j.suspends() && state.Active == 0 && (state.Suspended || !state.Started)
}

// over implements owner. A Job whose pods have all done their work has ended, too: its
// controller says so up to a second later. Of one that is suspended it alone says so: it deletes
// pods that it takes to be running, and those do not count.
func (j batchJob) over(pods []*core.Pod) (done, failed bool, why string) {
	switch state := convert.StateOf(&j.Status); state.Phase {
	case convert.JobComplete:
		return true, false, ""
	case convert.JobFailed:
		return false, true, state.Why
	}
	return !j.suspends() && j.succeeded(pods), false, ""
}

// succeeded tells whether as many pods of a Job have done their work as it needs.
func (j batchJob) succeeded(pods []*core.Pod) bool {
	need := j.Spec.Completions
	if need == nil || j.Spec.SuccessPolicy != nil {
		return false
	}
	done := map[string]bool{}
	for _, p := range pods {
		if p.Status.Phase != core.PodSucceeded || p.DeletionTimestamp != nil {
			continue // of one that was told to go the controller says whether it counts
		}
		index, ranked := p.Annotations[batch.JobCompletionIndexAnnotation]
		switch rank := number(index); {
		case !ranked:
			done[p.Name] = true
		case rank < int(*need): // others are of a run of another size
			done[index] = true
		}
	}
	return len(done) > 0 && len(done) >= int(*need)
}

// asks implements owner.
func (j batchJob) asks(d *Daemon) (ask, error) {
	t := &j.Spec.Template
	queue := j.Labels[names.Queue]
	out := ask{name: j.Name, tenant: cmp.Or(queue, j.Namespace), queued: queue != "", user: j.Namespace, stop: d.opt.Stop}
	a, err := convert.Batch(j.Job, d.nodes.levels)
	if err != nil {
		return out, err
	}
	out.name, out.user, out.pods, out.estimate, out.grace = cmp.Or(a.Name, j.Name), cmp.Or(a.User, j.Namespace), a.Tasks, a.Estimate, a.Grace
	if a.Ask.StopTold {
		out.stop = a.Ask.Stop
	}
	if len(t.Spec.Containers) > 0 {
		out.command = t.Spec.Containers[0].Command
	}
	if out.demand, err = a.Demand(d.nodes.types); err != nil {
		return out, err
	}
	if err = d.opt.foreign(a.Ask); err == nil {
		out.priority, err = d.view.priorityOf(a.Ask)
	}
	return out, err
}

// foreign is the error of pods that Norn is not asked for, or that it cannot place.
func (o *Options) foreign(a *convert.Ask) error {
	if a.Scheduler != o.Scheduler {
		return fmt.Errorf("its pods do not name schedulerName: %s, so others would place them", o.Scheduler)
	}
	return beyond(a)
}

// workload is an object of one of the kinds of package kinds.
type workload struct {
	*unstructured.Unstructured
	of    ownerKind
	child *unstructured.Unstructured // that has the pod templates, where these are not in the object itself; nil: it is not there
	inner ownerKind                  // its kind
}

func (w *workload) suspends() bool { return w.of.Suspended(w.Object) }

func (w *workload) quiet() bool { return w.suspends() && w.of.State(w.Object).Suspended }

func (w *workload) over([]*core.Pod) (done, failed bool, why string) {
	switch state := w.of.State(w.Object); state.Phase {
	case convert.JobComplete:
		return true, false, ""
	case convert.JobFailed:
		return false, true, state.Why
	}
	return false, false, ""
}

// read reads the object, with the pods that its child tells.
func (w *workload) read(levels convert.Levels) (*kinds.Workload, error) {
	out, err := w.of.Read(w.Object, levels)
	if err != nil || w.of.Child == "" {
		return out, err
	}
	if w.child == nil {
		return out, &incomplete{child: fmt.Sprintf("%s %s waits for its %s", w.of.Name, out.Key, w.of.Child)}
	}
	in, err := w.inner.Read(w.child.Object, levels)
	if err == nil {
		out.Sets = in.Sets
	}
	return out, err
}

// asks implements owner.
func (w *workload) asks(d *Daemon) (ask, error) {
	ns, queue := w.GetNamespace(), w.GetLabels()[names.Queue]
	out := ask{name: w.GetName(), tenant: cmp.Or(queue, ns), queued: queue != "", user: ns, stop: d.opt.Stop}
	r, err := w.read(d.nodes.levels)
	if err != nil {
		return out, err
	}
	out.name, out.user, out.estimate = cmp.Or(r.Name, out.name), cmp.Or(r.User, ns), r.Estimate
	for i, s := range r.Sets {
		if err := d.opt.foreign(s.Ask); err != nil {
			return out, fmt.Errorf("pods of role %s: %w", cmp.Or(s.Role, fmt.Sprint(i+1)), err)
		}
		out.pods, out.grace = out.pods+s.Count, max(out.grace, s.Ask.Grace)
		if s.Ask.StopTold {
			out.stop = s.Ask.Stop
		}
	}
	if out.demand, err = r.Demand(d.nodes.types); err != nil {
		return out, err
	}
	for _, s := range r.Sets {
		rank, err := d.view.priorityOf(s.Ask)
		if err != nil {
			return out, err
		}
		out.priority = max(out.priority, rank)
	}
	return out, nil
}

// keyOf is the key of an object of a kind.
func keyOf(k ownerKind, namespace, name string) string {
	if k == nil {
		return namespace + "/" + name
	}
	return namespace + "/" + prefixOf(k) + name
}

// byOwner is the index of objects and pods by the object that controls them.
const byOwner = "owner"

// ownerIndex finds what an object controls.
func ownerIndex(o any) ([]string, error) {
	of, is := o.(meta.Object)
	if !is {
		return nil, nil
	}
	c := meta.GetControllerOfNoCopy(of)
	if c == nil {
		return nil, nil
	}
	return []string{string(c.UID)}, nil
}

// controllerKind is the kind of an object's controller: one of those that are watched.
func (w *watcher) controllerKind(c *meta.OwnerReference) (k ownerKind, known bool) {
	group, err := schema.ParseGroupVersion(c.APIVersion)
	if err != nil {
		return nil, false
	}
	if group.Group == batch.GroupName && c.Kind == "Job" {
		return nil, true
	}
	for i := range w.kinds {
		if k := &w.kinds[i]; k.Group == group.Group && k.Name == c.Kind && w.extras.informer(resourceOf(k)) != nil {
			return k, true
		}
	}
	return nil, false
}

// deepest bounds how many objects may stand above a pod.
const deepest = 5

// above is the key of the object that has an object of a key made, at first or at second
// hand; the key itself where there is none.
func (w *watcher) above(key string) string {
	for range deepest {
		o := w.ownerAt(key)
		if o == nil {
			return key
		}
		c := meta.GetControllerOfNoCopy(o)
		if c == nil {
			return key
		}
		k, known := w.controllerKind(c)
		if !known {
			return key
		}
		key = keyOf(k, o.GetNamespace(), c.Name)
	}
	return key
}

// kindOf is the kind of object that a key names: k is nil for a Job. It is false for pods and
// gangs.
func (w *watcher) kindOf(key string) (k ownerKind, namespace, name string, is bool) {
	namespace, rest, _ := strings.Cut(key, "/")
	prefix, name, prefixed := strings.Cut(rest, "/")
	if !prefixed {
		return nil, namespace, rest, true
	}
	for i := range w.kinds {
		if k := &w.kinds[i]; prefixOf(k) == prefix+"/" && w.extras.informer(resourceOf(k)) != nil {
			return k, namespace, name, true
		}
	}
	return nil, namespace, name, false
}

// ownerAt is the object of a key; nil: there is none, or the key is that of pods.
func (w *watcher) ownerAt(key string) owner {
	k, namespace, name, is := w.kindOf(key)
	switch {
	case !is:
		return nil
	case k == nil:
		if j := w.job(key); j != nil {
			return batchJob{j}
		}
		return nil
	}
	u := w.extras.get(resourceOf(k), namespace, name)
	if u == nil {
		return nil
	}
	out := &workload{Unstructured: u, of: k}
	if k.Child != "" {
		for i := range w.kinds {
			if in := &w.kinds[i]; in.Name == k.Child {
				out.child, out.inner = w.extras.get(resourceOf(in), namespace, name), in
			}
		}
	}
	return out
}

// ours tells whether Norn decides about an object of a key: by its label, or because its
// pods ask for it. An object that another one has made is decided about together with
// that one.
func (w *watcher) ours(key string, o owner) bool {
	if w.above(key) != key {
		return false
	}
	labelled := o.GetLabels()[names.Queue] != "" && w.scheduler == names.Scheduler
	switch o := o.(type) {
	case batchJob:
		if by := o.Spec.ManagedBy; by != nil && *by != batch.JobControllerName {
			return false
		}
		return labelled || o.Spec.Template.Spec.SchedulerName == w.scheduler
	case *workload:
		r, err := o.read(w.levels)
		if r != nil && r.ManagedBy != "" {
			return false
		}
		if err != nil || labelled {
			return labelled
		}
		for _, s := range r.Sets {
			if s.Ask.Scheduler == w.scheduler {
				return true
			}
		}
	}
	return false
}

// podsBelow adds the pods of a namespace that an object controls, and those that objects have
// that it controls. Pods of other schedulers are none of a job's, as the submitter of a RayJob.
func (w *watcher) podsBelow(namespace string, uid types.UID, depth int, out []*core.Pod) []*core.Pod {
	if depth == 0 {
		return out
	}
	for _, o := range indexed(w.pods, byOwner, string(uid)) {
		if p, is := o.(*core.Pod); is && p.Namespace == namespace && p.Spec.SchedulerName == w.scheduler {
			out = append(out, p)
		}
	}
	for _, o := range indexed(w.jobs, byOwner, string(uid)) {
		out = w.podsBelow(namespace, o.(*batch.Job).UID, depth-1, out)
	}
	for i := range w.kinds {
		informer := w.extras.informer(resourceOf(&w.kinds[i]))
		if informer == nil {
			continue
		}
		for _, o := range indexed(informer, byOwner, string(uid)) {
			out = w.podsBelow(namespace, o.(*unstructured.Unstructured).GetUID(), depth-1, out)
		}
	}
	return out
}

// seeOwner has the job looked at of which an object of a kind is the owner, or a part.
func (w *watcher) seeOwner(k ownerKind) func(any) {
	return func(o any) {
		if u, is := o.(*unstructured.Unstructured); is {
			w.mark(subject{name: w.above(keyOf(k, u.GetNamespace(), u.GetName()))})
		}
	}
}

// ownerKeys are the keys of all objects that may be owners.
func (w *watcher) ownerKeys() []string {
	out := w.jobs.GetStore().ListKeys()
	for i := range w.kinds {
		for _, u := range w.extras.list(resourceOf(&w.kinds[i])) {
			out = append(out, keyOf(&w.kinds[i], u.GetNamespace(), u.GetName()))
		}
	}
	return out
}
