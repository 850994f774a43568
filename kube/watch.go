package kube

import (
	"context"
	"errors"
	"strings"
	"sync"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/norn-scheduler/norn/kube/names"
)

// watcher keeps what the API shows: pods, nodes and Jobs. It says which jobs and nodes
// should be looked at.
type watcher struct {
	scheduler string          // by which pods ask for this Norn
	mine      labels.Selector // of nodes
	factory   informers.SharedInformerFactory
	pods      cache.SharedIndexInformer
	nodes     cache.SharedIndexInformer
	jobs      cache.SharedIndexInformer

	mu    sync.Mutex
	dirty map[subject]bool
	told  bool   // somebody will look
	tell  func() // has somebody look
}

// subject is a job by its key, or a node by its name.
type subject struct {
	node bool
	name string
}

// The indexes of pods.
const (
	byJob  = "job"
	byNode = "node"
)

// newWatcher begins to watch. tell is called, in any goroutine, when something should be
// looked at and nobody has been told so yet; see take.
func newWatcher(opt *Options, tell func()) (*watcher, error) {
	f := informers.NewSharedInformerFactoryWithOptions(opt.Client, 0, informers.WithTransform(strip))
	w := &watcher{
		scheduler: opt.Scheduler, mine: opt.Nodes,
		factory: f, pods: f.Core().V1().Pods().Informer(), nodes: f.Core().V1().Nodes().Informer(), jobs: f.Batch().V1().Jobs().Informer(),
		dirty: map[subject]bool{}, tell: tell,
	}
	err := w.pods.AddIndexers(cache.Indexers{
		byJob:  func(o any) ([]string, error) { return one(w.keyOfPod(o.(*core.Pod))), nil },
		byNode: func(o any) ([]string, error) { return one(o.(*core.Pod).Spec.NodeName), nil },
	})
	if err != nil {
		return nil, err
	}
	for informer, see := range map[cache.SharedIndexInformer]func(any){w.pods: w.seePod, w.nodes: w.seeNode, w.jobs: w.seeJob} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: see, UpdateFunc: func(_, o any) { see(o) },
			DeleteFunc: func(o any) {
				if last, is := o.(cache.DeletedFinalStateUnknown); is {
					o = last.Obj
				}
				see(o)
			},
		})
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// start lists everything, and returns when that is known.
func (w *watcher) start(ctx context.Context) error {
	w.factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), w.pods.HasSynced, w.nodes.HasSynced, w.jobs.HasSynced) {
		return errors.New("the API server does not list pods, nodes and Jobs: " + ctx.Err().Error())
	}
	return nil
}

// stop waits until nothing is watched any more; the context given to start must have ended.
func (w *watcher) stop() { w.factory.Shutdown() }

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
	}
	return o, nil
}

// slim keeps of a container what it asks for.
func slim(c *core.Container) {
	*c = core.Container{Name: c.Name, Command: c.Command, Resources: c.Resources, RestartPolicy: c.RestartPolicy, Ports: c.Ports}
}

// keyOfPod is the key of the job that a pod belongs to; empty: it is somebody else's.
func (w *watcher) keyOfPod(p *core.Pod) string {
	if p.Spec.SchedulerName != w.scheduler {
		return ""
	}
	if o := meta.GetControllerOfNoCopy(p); o != nil && o.Kind == "Job" && strings.HasPrefix(o.APIVersion, "batch/") {
		return p.Namespace + "/" + o.Name
	}
	if gang := gangOf(p); gang != "" {
		return p.Namespace + "/" + gangPrefix + gang
	}
	return p.Namespace + "/" + podPrefix + p.Name
}

// What stands before the names of bare gangs and pods in keys, so that no two jobs have one
// key: names of objects have no colons.
const (
	gangPrefix = "gang:"
	podPrefix  = "pod:"
)

func (w *watcher) seePod(o any) {
	p := o.(*core.Pod)
	if key := w.keyOfPod(p); key != "" {
		w.mark(subject{name: key})
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
	if j := o.(*batch.Job); w.ours(j) {
		w.mark(subject{name: j.Namespace + "/" + j.Name})
	}
}

// ours tells whether Norn decides about a Job.
func (w *watcher) ours(j *batch.Job) bool {
	if by := j.Spec.ManagedBy; by != nil && *by != batch.JobControllerName {
		return false
	}
	scheduler := j.Spec.Template.Spec.SchedulerName
	return scheduler == w.scheduler || j.Labels[names.Queue] != "" && w.scheduler == names.Scheduler
}

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

// podsOf are the pods of a job.
func (w *watcher) podsOf(key string) []*core.Pod { return w.indexed(byJob, key) }

// podsOn are the pods on a node.
func (w *watcher) podsOn(node string) []*core.Pod { return w.indexed(byNode, node) }

func (w *watcher) indexed(index, key string) []*core.Pod {
	found, err := w.pods.GetIndexer().ByIndex(index, key)
	if err != nil { // there is no such index, which cannot be
		return nil
	}
	out := make([]*core.Pod, len(found))
	for i := range found {
		out[i] = found[i].(*core.Pod)
	}
	return out
}
