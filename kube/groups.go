package kube

import (
	"errors"
	"slices"

	core "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/kinds"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// wantGroups has PodGroups watched, of all kinds that are read.
func (w *watcher) wantGroups() {
	for _, k := range kinds.GroupKinds() {
		w.extras.want(k.GroupVersionResource, w.seeGroup(k.Group), always)
	}
}

// groupIndex is the PodGroup that a pod names, for the index of pods.
func groupIndex(o any) ([]string, error) {
	p := o.(*core.Pod)
	api, name := convert.PodGroupOf(p)
	if name == "" {
		return nil, nil
	}
	return one(api + "/" + p.Namespace + "/" + name), nil
}

// seeGroup has the gangs looked at that name a PodGroup.
func (w *watcher) seeGroup(api string) func(any) {
	return func(o any) {
		g, is := o.(meta.Object)
		if !is {
			return
		}
		for _, p := range podsIn(indexed(w.pods, byGroup, api+"/"+g.GetNamespace()+"/"+g.GetName())) {
			if key := w.keyOfPod(p); key != "" {
				w.mark(subject{name: key})
			}
		}
	}
}

// group is the PodGroup that the pods of a gang name, with its kind and its name; nil where it is
// not there. There is no kind where they name none, or one of a kind that is not watched.
func (w *watcher) group(pods []*core.Pod) (g *unstructured.Unstructured, kind schema.GroupVersionResource, name string) {
	for _, p := range pods {
		api, name := convert.PodGroupOf(p)
		if name == "" {
			continue
		}
		for _, k := range kinds.GroupKinds() {
			if k.Group == api && w.extras.informer(k.GroupVersionResource) != nil {
				return w.extras.get(k.GroupVersionResource, p.Namespace, name), k.GroupVersionResource, name
			}
		}
	}
	return nil, schema.GroupVersionResource{}, ""
}

// errApart is the error of a gang whose PodGroup says that its pods need not begin together.
var errApart = errors.New("its pods need not begin together")

// groupOf is the PodGroup of a gang; nil: none counts. It fails with incomplete where the one
// that the pods name is not there, and on one that cannot be read.
func (w *watcher) groupOf(s *sight) (*kinds.Group, error) {
	if s.kind != aGang {
		return nil, nil
	}
	o, kind, name := w.group(s.pods)
	switch {
	case kind.Empty():
		return nil, nil
	case o == nil:
		return nil, &incomplete{child: "there is no PodGroup " + name}
	}
	return kinds.ReadGroup(o.Object, w.levels)
}

// setApart has pods that say that they belong to a gang be jobs of their own.
func (d looker) setApart(pods []*core.Pod) {
	yes := "true"
	for _, p := range pods {
		if d.parting[p.UID] {
			continue
		}
		d.parting[p.UID] = true
		d.Loop.Act(nil, func() {
			err := d.write.patchPod(p.Namespace, p.Name, &patch{annotations: map[string]*string{names.Apart: &yes}, uid: p.UID})
			if err != nil && !errors.Is(err, errConflict) { // it is tried again when the pod is seen again
				d.opt.Log.Warn("a pod cannot be taken out of its gang", "pod", p.Namespace+"/"+p.Name, "error", err)
			}
			d.Loop.Post(func() error {
				delete(d.parting, p.UID)
				return nil
			})
		})
	}
}

// late are the pods of a gang that runs for which there is no seat: they came when it had begun.
func (l *entry) late(pods []*core.Pod) (out []*core.Pod) {
	if l.kind != aGang || slices.ContainsFunc(l.seats, func(s seat) bool { return s.pod == "" }) {
		return nil
	}
	for _, p := range pods {
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !over(p) && l.seatOf(p.UID) < 0 {
			out = append(out, p)
		}
	}
	return out
}

// seated tells whether all pods of a run are bound to their seats.
func (l *entry) seated() bool {
	return len(l.seats) > 0 && !slices.ContainsFunc(l.seats, func(s seat) bool { return !s.bound })
}

// tellGroup says on the PodGroup of a gang whether it has its places, and why not. It writes
// nothing where that stands there, and nothing on those that have controllers of their own for
// their status.
func (d looker) tellGroup(l *entry, pods []*core.Pod, why string) {
	o, kind, name := d.view.group(pods)
	if l.kind != aGang || o == nil || kind.Group != podmap.NativeGroups || o.GetResourceVersion() == l.groupSeen {
		return
	}
	g, err := kinds.ReadGroup(o.Object, d.view.levels)
	if err != nil {
		return
	}
	c := meta.Condition{Type: g.Scheduled, Status: meta.ConditionTrue, Reason: "Scheduled", Message: "all pods of the gang are bound", ObservedGeneration: o.GetGeneration()}
	if why != "" {
		c.Status, c.Reason, c.Message = meta.ConditionFalse, "Unschedulable", why
	}
	var is struct {
		Status struct {
			Conditions []meta.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &is); err != nil || !apimeta.SetStatusCondition(&is.Status.Conditions, c) {
		return
	}
	version := o.GetResourceVersion()
	l.groupSeen = version
	d.Loop.Act(&l.Lane, func() {
		if err := d.write.status(kind, o.GetNamespace(), name, metadata{UID: o.GetUID(), Version: version}, &is.Status); err != nil {
			d.opt.Log.Debug("how a PodGroup stands cannot be told", "group", g.Key, "error", err)
		}
	})
}
