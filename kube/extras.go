package kube

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/norn-scheduler/norn/kube/names"
)

// queueObjects are the Queues of a cluster.
var queueObjects = schema.GroupVersionResource{Group: names.Group, Version: names.QueueVersion, Resource: names.Queues}

// extras watches objects of kinds that a cluster need not have: those whose definitions are
// there, and those whose definitions come later.
type extras struct {
	client dynamic.Interface // nil: none is looked for
	groups discovery.DiscoveryInterface
	wanted []wanted
	found  dynamicinformer.DynamicSharedInformerFactory
	log    *slog.Logger

	mu      sync.Mutex
	watched map[schema.GroupVersionResource]cache.SharedIndexInformer
	missed  map[schema.GroupVersionResource]bool // that cannot be listed, which was told
}

// wanted is a kind, and what is told when an object of it has changed.
type wanted struct {
	schema.GroupVersionResource
	see     func(any)
	changes func(was, is any) bool // whether a change counts
}

// want has a kind watched. It is called before start.
func (e *extras) want(kind schema.GroupVersionResource, see func(any), changes func(was, is any) bool) {
	e.wanted = append(e.wanted, wanted{kind, see, changes})
}

// always has every change of an object count.
func always(any, any) bool { return true }

// specified has those changes of an object count that are not of its status alone.
func specified(was, is any) bool {
	a, known := was.(*unstructured.Unstructured)
	b, too := is.(*unstructured.Unstructured)
	return !known || !too || a.GetUID() != b.GetUID() || a.GetGeneration() != b.GetGeneration()
}

func newExtras(opt *Options) *extras {
	e := &extras{
		client: opt.Dynamic, log: opt.Log,
		watched: map[schema.GroupVersionResource]cache.SharedIndexInformer{}, missed: map[schema.GroupVersionResource]bool{},
	}
	if e.client != nil {
		e.groups = opt.Client.Discovery()
		e.found = dynamicinformer.NewDynamicSharedInformerFactory(opt.Dynamic, 0)
	}
	return e
}

// patience is how long a Norn that begins to lead waits for the API server to say which kinds of
// objects there are.
const patience = 30 * time.Second

// start watches what there is, and returns when that is known. Later objects are looked for
// again and again until the context ends.
func (e *extras) start(ctx context.Context, every time.Duration) error {
	if e.client == nil {
		return nil
	}
	for first := time.Now(); ; {
		err := e.look(ctx, first.Add(doubt))
		if err == nil {
			break
		}
		if ctx.Err() != nil || time.Since(first) > patience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := e.look(ctx, time.Now()); err != nil && ctx.Err() == nil {
				e.log.Warn("the kinds of objects are not known", "error", err)
			}
		}
	}()
	return nil
}

// stop waits until nothing is watched any more.
func (e *extras) stop() {
	if e.found != nil {
		e.found.Shutdown()
	}
}

// look begins to watch kinds that have come. Until a moment it doubts that it may not list
// them. It fails where the API server does not say what there is: to go on without a kind
// would be to take the Jobs of its objects for jobs of their own.
func (e *extras) look(ctx context.Context, doubts time.Time) error {
	offered, err := e.offered()
	if err != nil {
		return err
	}
	for _, w := range e.wanted {
		kind := w.GroupVersionResource
		if !offered[kind] || e.watches(kind.GroupResource()) {
			continue
		}
		if err := e.lists(ctx, kind, doubts); err != nil {
			if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
				return err
			}
			if !e.missed[kind] {
				e.log.Warn("objects of a kind are left alone, as they cannot be listed", "kind", kind.GroupResource().String(), "error", err)
			}
			e.missed[kind] = true
			continue
		}
		if err := e.watch(ctx, &w); err != nil {
			return err
		}
	}
	return nil
}

// lists tells whether objects of a kind can be listed. A server that has just started does not
// know yet who may do what, so that a refusal counts from a moment on only.
func (e *extras) lists(ctx context.Context, kind schema.GroupVersionResource, doubts time.Time) error {
	for {
		_, err := e.client.Resource(kind).List(ctx, meta.ListOptions{Limit: 1})
		if !apierrors.IsForbidden(err) || time.Now().After(doubts) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// offered are the kinds among the wanted that the API server has.
func (e *extras) offered() (map[schema.GroupVersionResource]bool, error) {
	groups, err := e.groups.ServerGroups()
	if err != nil {
		return nil, err
	}
	out, versions := map[schema.GroupVersionResource]bool{}, map[string]bool{}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			versions[v.GroupVersion] = true
		}
	}
	lists := map[string]*meta.APIResourceList{}
	for _, w := range e.wanted {
		kind := w.GroupVersionResource
		version := kind.GroupVersion().String()
		if !versions[version] || e.watches(kind.GroupResource()) {
			continue
		}
		if lists[version] == nil {
			if lists[version], err = e.groups.ServerResourcesForGroupVersion(version); err != nil {
				return nil, err
			}
		}
		for _, r := range lists[version].APIResources {
			out[kind] = out[kind] || r.Name == kind.Resource
		}
	}
	return out, nil
}

// watch watches a kind, and returns when its objects are known.
func (e *extras) watch(ctx context.Context, w *wanted) error {
	kind, see := w.GroupVersionResource, w.see
	informer := e.found.ForResource(kind).Informer()
	err := informer.SetTransform(func(o any) (any, error) {
		if u, is := o.(*unstructured.Unstructured); is {
			u.SetManagedFields(nil)
		}
		return o, nil
	})
	if err == nil {
		err = informer.AddIndexers(cache.Indexers{byOwner: ownerIndex})
	}
	if err == nil {
		err = handle(informer, see, w.changes)
	}
	if err != nil {
		return err
	}
	e.found.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	e.mu.Lock()
	e.watched[kind] = informer
	e.mu.Unlock()
	e.log.Info("objects of a kind are watched", "kind", kind.GroupResource().String(), "there", len(informer.GetStore().ListKeys()))
	for _, o := range informer.GetStore().List() { // what was told before nobody could find
		see(o)
	}
	return nil
}

// informer is what watches a kind; nil: nothing does yet.
func (e *extras) informer(kind schema.GroupVersionResource) cache.SharedIndexInformer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.watched[kind]
}

// watches tells whether some version of a kind is watched.
func (e *extras) watches(kind schema.GroupResource) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k := range e.watched {
		if k.GroupResource() == kind {
			return true
		}
	}
	return false
}

// get is an object of a kind, which must not be changed; nil: there is none.
func (e *extras) get(kind schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	informer := e.informer(kind)
	if informer == nil {
		return nil
	}
	o, there, _ := informer.GetStore().GetByKey(namespace + "/" + name)
	if !there {
		return nil
	}
	return o.(*unstructured.Unstructured)
}

// list is all objects of a kind, which must not be changed.
func (e *extras) list(kind schema.GroupVersionResource) (out []*unstructured.Unstructured) {
	informer := e.informer(kind)
	if informer == nil {
		return nil
	}
	for _, o := range informer.GetStore().List() {
		out = append(out, o.(*unstructured.Unstructured))
	}
	return out
}
