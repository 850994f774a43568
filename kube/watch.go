package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	scheduling "k8s.io/api/scheduling/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/kinds"
	"github.com/norn-scheduler/norn/kube/names"
)

// watcher keeps what the API shows: pods, nodes, Jobs and PriorityClasses. It says which
// jobs and nodes should be looked at.
type watcher struct {
	scheduler string          // by which pods ask for this Norn
	mine      labels.Selector // of nodes
	factory   informers.SharedInformerFactory
	pods      cache.SharedIndexInformer
	nodes     cache.SharedIndexInformer
	jobs      cache.SharedIndexInformer
	classes   cache.SharedIndexInformer // of priority
	extras    *extras
	kinds     []kinds.Kind // of owners beside batch/v1 Jobs
	levels    convert.Levels
	keys      map[types.UID]string // of jobs to which pods belong, as long as what is between them was there; of seePod alone
	every     time.Duration        // between two looks for other kinds

	mu    sync.Mutex
	dirty map[subject]bool
	told  bool   // somebody will look
	tell  func() // has somebody look
}

// subject is a job by its key, a node by its name, or all jobs that wait.
type subject struct {
	node, waiting bool
	name          string
}

// The indexes of pods.
const (
	byJob   = "job"
	byNode  = "node"
	byGroup = "group" // PodGroup
)

// newWatcher begins to watch. tell is called, in any goroutine, when something should be
// looked at and nobody has been told so yet; see take.
func newWatcher(opt *Options, tell func()) (*watcher, error) {
	f := informers.NewSharedInformerFactoryWithOptions(opt.Client, 0, informers.WithTransform(strip))
	w := &watcher{
		scheduler: opt.Scheduler, mine: opt.Nodes,
		factory: f, pods: f.Core().V1().Pods().Informer(), nodes: f.Core().V1().Nodes().Informer(), jobs: f.Batch().V1().Jobs().Informer(),
		classes: f.Scheduling().V1().PriorityClasses().Informer(),
		dirty:   map[subject]bool{}, tell: tell, extras: newExtras(opt), every: opt.Rediscover, levels: opt.Levels, keys: map[types.UID]string{},
	}
	err := w.pods.AddIndexers(cache.Indexers{
		byJob:   func(o any) ([]string, error) { return one(w.maker(o.(*core.Pod))), nil },
		byOwner: ownerIndex,
		byNode:  func(o any) ([]string, error) { return one(o.(*core.Pod).Spec.NodeName), nil },
		byGroup: groupIndex,
	})
	if err == nil {
		err = w.jobs.AddIndexers(cache.Indexers{byOwner: ownerIndex})
	}
	if err != nil {
		return nil, err
	}
	for informer, see := range map[cache.SharedIndexInformer]func(any){w.pods: w.seePod, w.nodes: w.seeNode, w.jobs: w.seeJob, w.classes: w.seeRule} {
		if err := handle(informer, see, always); err != nil {
			return nil, err
		}
	}
	w.extras.want(queueObjects, w.seeRule, specified) // Norn writes their status
	w.wantGroups()
	for _, k := range kinds.All() {
		if k.Suspends() {
			w.kinds = append(w.kinds, k)
			w.extras.want(resourceOf(&k), w.seeOwner(&k), always)
		}
	}
	return w, nil
}

// handle has a function called with each object that comes, goes, or changes in a way that counts.
func handle(informer cache.SharedIndexInformer, see func(any), changes func(was, is any) bool) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see,
		UpdateFunc: func(was, o any) {
			if changes(was, o) {
				see(o)
			}
		},
		DeleteFunc: func(o any) {
			if last, is := o.(cache.DeletedFinalStateUnknown); is {
				o = last.Obj
			}
			see(o)
		},
	})
	return err
}

// start lists everything, and returns when that is known.
func (w *watcher) start(ctx context.Context) error {
	if err := w.extras.start(ctx, w.every); err != nil { // by them it is known whose pods are whose
		return fmt.Errorf("kinds of objects beside Jobs: %w", err)
	}
	w.factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), w.pods.HasSynced, w.nodes.HasSynced, w.jobs.HasSynced, w.classes.HasSynced) {
		return errors.New("the API server does not list pods, nodes, Jobs and PriorityClasses: " + ctx.Err().Error())
	}
	return nil
}

// stop waits until nothing is watched any more; the context given to start must have ended.
func (w *watcher) stop() {
	w.factory.Shutdown()
	w.extras.stop()
}

func one(key string) []string {
	if key == "" {
		return nil
	}
	return []string{key}
}

// strip takes out of objects what nobody asks for, so that a large cluster fits into memory.
func strip(o any) (any, error) {
	switch x := o.(type) {
	case *core.Pod:
		x.ManagedFields = nil
		for i := range x.Spec.Containers {
			slim(&x.Spec.Containers[i])
		}
		for i := range x.Spec.InitContainers {
			slim(&x.Spec.InitContainers[i])
		}
	case *core.Node:
		x.ManagedFields, x.Status.Images = nil, nil
	case *batch.Job:
		x.ManagedFields = nil
	case *scheduling.PriorityClass:
		x.ManagedFields = nil
	}
	return o, nil
}

// slim keeps of a container what it asks for.
func slim(c *core.Container) {
	*c = core.Container{Name: c.Name, Command: c.Command, Resources: c.Resources, RestartPolicy: c.RestartPolicy, Ports: c.Ports}
}

// keyOfPod is the key of the job that a pod belongs to; empty: it is somebody else's.
func (w *watcher) keyOfPod(p *core.Pod) string {
	key := w.maker(p)
	if key == "" {
		return ""
	}
	return w.above(key)
}

// maker is the key of the object that has made a pod, of its gang, or of itself; empty: it is
// somebody else's.
func (w *watcher) maker(p *core.Pod) string {
	if p.Spec.SchedulerName != w.scheduler {
		return ""
	}
	if o := meta.GetControllerOfNoCopy(p); o != nil {
		if k, known := w.controllerKind(o); known {
			return keyOf(k, p.Namespace, o.Name)
		}
	}
	if gang := gangOf(p); gang != "" && p.Annotations[names.Apart] == "" {
		return p.Namespace + "/" + gangPrefix + gang
	}
	return p.Namespace + "/" + podPrefix + p.Name
}

// Prefixes of the names of bare gangs and pods in keys. No two jobs have one key by them,
// since names of objects have no slashes.
const (
	gangPrefix = "gang/"
	podPrefix  = "pod/"
)

func (w *watcher) seePod(o any) {
	p := o.(*core.Pod)
	if key := w.keyOfPod(p); key != "" {
		w.mark(subject{name: key})
		if old := w.keys[p.UID]; old != "" && old != key { // what was between them is gone
			w.mark(subject{name: old})
		} else if key != w.maker(p) {
			w.keys[p.UID] = key
		}
	}
	if _, there, _ := w.pods.GetStore().Get(p); !there {
		delete(w.keys, p.UID)
	}
	if p.Spec.NodeName != "" {
		w.mark(subject{node: true, name: p.Spec.NodeName})
	}
}

func (w *watcher) seeNode(o any) { w.mark(subject{node: true, name: o.(*core.Node).Name}) }

// node is a node by its name, or nil; one that is not for this Norn is none.
func (w *watcher) node(name string) *core.Node {
	o, there, _ := w.nodes.GetStore().GetByKey(name)
	if !there || !w.mine.Matches(labels.Set(o.(*core.Node).Labels)) {
		return nil
	}
	return o.(*core.Node)
}

// allNodes are the nodes that are for this Norn.
func (w *watcher) allNodes() (out []*core.Node) {
	for _, o := range w.nodes.GetStore().List() {
		if n := o.(*core.Node); w.mine.Matches(labels.Set(n.Labels)) {
			out = append(out, n)
		}
	}
	return out
}

func (w *watcher) seeJob(o any) {
	j := o.(*batch.Job)
	key := j.Namespace + "/" + j.Name
	if above := w.above(key); above != key || w.ours(key, batchJob{j}) {
		w.mark(subject{name: above})
	}
}

// seeRule is called when what decides about jobs that wait has changed.
func (w *watcher) seeRule(any) { w.mark(subject{waiting: true}) }

// mark has something looked at.
func (w *watcher) mark(s subject) {
	w.mu.Lock()
	w.dirty[s] = true
	told := w.told
	w.told = true
	w.mu.Unlock()
	if !told {
		w.tell()
	}
}

// take is what should be looked at since the last call.
func (w *watcher) take() map[subject]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.dirty
	w.dirty, w.told = map[subject]bool{}, false
	return out
}

// job is a Job by the key of the job that it is, or nil.
func (w *watcher) job(key string) *batch.Job {
	o, there, _ := w.jobs.GetStore().GetByKey(key)
	if !there {
		return nil
	}
	return o.(*batch.Job)
}

// podsOf are the pods of a job, whose owner has a UID if it has an owner.
func (w *watcher) podsOf(key string, uid types.UID) []*core.Pod {
	if k, namespace, _, owned := w.kindOf(key); owned && k != nil {
		return w.podsBelow(namespace, uid, deepest, nil)
	}
	return podsIn(indexed(w.pods, byJob, key))
}

// podsOn are the pods on a node.
func (w *watcher) podsOn(node string) []*core.Pod { return podsIn(indexed(w.pods, byNode, node)) }

// indexed is what an index has for a key.
func indexed(informer cache.SharedIndexInformer, index, key string) []any {
	found, err := informer.GetIndexer().ByIndex(index, key)
	if err != nil { // there is no such index, which cannot be
		return nil
	}
	return found
}

func podsIn(found []any) []*core.Pod {
	out := make([]*core.Pod, 0, len(found))
	for i := range found {
		if p, is := found[i].(*core.Pod); is { // an index may name one that has gone
			out = append(out, p)
		}
	}
	return out
}

// pod is a pod by its name, if it is still the same; else nil.
func (w *watcher) pod(namespace, name string, uid types.UID) *core.Pod {
	o, there, _ := w.pods.GetStore().GetByKey(namespace + "/" + name)
	if !there || o.(*core.Pod).UID != uid {
		return nil
	}
	return o.(*core.Pod)
}
