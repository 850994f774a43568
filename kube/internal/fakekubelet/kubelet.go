// Package fakekubelet stands in for the kubelets of nodes that do not exist. It makes the
// nodes, keeps them ready, and runs the pods that are bound to them, in appearance. Pods
// start, work for as long as an annotation says, save when they are told to end, and
// leave as under a real kubelet. Pods that do not fit are rejected, so over-commitment is
// seen. Nodes can die, lose their network, and come back.
//
// All durations in annotations, behaviours and grace periods are virtual; a factor says
// how many virtual seconds a real one has.
package fakekubelet

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Options say which nodes there are and how their pods behave.
type Options struct {
	Nodes []Node
	// Delay is the virtual time from the binding of a pod to its start.
	Delay time.Duration
	// Factor is how many virtual seconds a real one has; 0 stands for 1.
	Factor float64
	// Behave says how the run of a pod goes that starts now; nil: as its annotations say.
	Behave func(*core.Pod) Behaviour
	// Workers is how many writes are under way at once; 0 stands for 32.
	Workers int
	// Heartbeat is the real time between two renewals of a node's lease; 0 stands for
	// 20 s, half of what a node controller allows. Below 0 there are none.
	Heartbeat time.Duration
	// NodeController says that a node controller runs, which finds out which nodes are
	// not heard of. Without one, Die and Partition write at once that a node is not ready.
	NodeController bool
}

// Kubelet is the kubelet of all nodes. Its methods may be called by several goroutines.
type Kubelet struct {
	client kubernetes.Interface
	opts   Options
	cancel context.CancelFunc
	all    sync.WaitGroup
	ctx    context.Context // done when the kubelet stops
	calls  chan func()     // what the loop is to do next
	writes chan write      // for the workers

	known cache.Store // all pods that are bound, as the API has them

	// The fields below belong to the loop.
	nodes map[string]*node
	order []*node // in the order in which their leases are renewed
	pods  map[types.UID]*pod
	saved map[string]time.Duration // work that was saved, by key of the job
	queue []write                  // no worker has them yet
}

// Start makes the nodes and returns once they are ready and all pods that were bound to
// them before are known. The kubelet goes on until Stop or the end of the context.
func Start(ctx context.Context, config *rest.Config, opts Options) (*Kubelet, error) {
	if opts.Factor == 0 {
		opts.Factor = 1
	}
	if opts.Workers == 0 {
		opts.Workers = 32
	}
	if opts.Heartbeat == 0 {
		opts.Heartbeat = 20 * time.Second
	}
	if opts.Behave == nil {
		opts.Behave = Annotated
	}
	config = rest.CopyConfig(config)
	config.UserAgent = "fakekubelet"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	k := &Kubelet{
		client: client, opts: opts, calls: make(chan func(), 256), writes: make(chan write),
		nodes: map[string]*node{}, pods: map[types.UID]*pod{}, saved: map[string]time.Duration{},
	}
	k.ctx, k.cancel = context.WithCancel(ctx)
	for _, spec := range opts.Nodes {
		if k.nodes[spec.Name] != nil {
			return nil, fmt.Errorf("node %s is given twice", spec.Name)
		}
		k.add(newNode(spec))
	}
	if err := k.register(); err != nil {
		k.Stop()
		return nil, err
	}
	k.all.Go(k.loop)
	for range opts.Workers {
		k.all.Go(k.worker)
	}
	k.all.Go(k.heartbeats)
	if err := k.watch(); err != nil {
		k.Stop()
		return nil, err
	}
	return k, nil
}

// Stop ends the kubelet. Nodes and pods stay as they are.
func (k *Kubelet) Stop() {
	k.cancel()
	k.all.Wait()
}

// watch begins to follow the pods that are bound.
func (k *Kubelet) watch() error {
	bound := cache.NewListWatchFromClient(k.client.CoreV1().RESTClient(), "pods", meta.NamespaceAll,
		fields.OneTermNotEqualSelector("spec.nodeName", ""))
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: bound,
		ObjectType:    &core.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { k.told(obj, false) },
			UpdateFunc: func(_, obj any) { k.told(obj, false) },
			DeleteFunc: func(obj any) { k.told(obj, true) },
		},
		Transform: func(obj any) (any, error) {
			if p, ok := obj.(*core.Pod); ok {
				p.ManagedFields = nil
			}
			return obj, nil
		},
	})
	k.known = store
	k.all.Go(func() { informer.RunWithContext(k.ctx) })
	if !cache.WaitForCacheSync(k.ctx.Done(), informer.HasSynced) {
		return k.ctx.Err()
	}
	return k.do(func() {}) // what was told before has been looked at
}

// told passes an event of the API on to the loop.
func (k *Kubelet) told(obj any, gone bool) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	p, ok := obj.(*core.Pod)
	if !ok {
		return
	}
	k.post(func() {
		if gone {
			k.vanished(p.UID)
		} else {
			k.seen(p)
		}
	})
}

// post has the loop do something, unless the kubelet has stopped.
func (k *Kubelet) post(f func()) {
	select {
	case k.calls <- f:
	case <-k.ctx.Done():
	}
}

// do has the loop do something and waits for it.
func (k *Kubelet) do(f func()) error {
	done := make(chan struct{})
	k.post(func() { f(); close(done) })
	select {
	case <-done:
		return nil
	case <-k.ctx.Done():
		return k.ctx.Err()
	}
}

// loop is the one goroutine that changes nodes and pods.
func (k *Kubelet) loop() {
	for {
		var out chan write
		var next write
		if len(k.queue) > 0 {
			out, next = k.writes, k.queue[0]
		}
		select {
		case <-k.ctx.Done():
			return
		case f := <-k.calls:
			f()
		case out <- next:
			k.queue = k.queue[1:]
		}
	}
}

// worker writes to the API.
func (k *Kubelet) worker() {
	for {
		select {
		case <-k.ctx.Done():
			return
		case w := <-k.writes:
			p, err := w.send(k.ctx, k.client)
			k.post(func() { k.written(w, p, err) })
		}
	}
}

// real is the real time of a virtual one.
func (k *Kubelet) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / k.opts.Factor)
}

// virtual is the virtual time that has passed since a moment.
func (k *Kubelet) virtual(since time.Time) time.Duration {
	return time.Duration(float64(time.Since(since)) * k.opts.Factor)
}

// Running are the pods of which a container runs, "namespace/name", and their nodes. A pod
// runs on behind a lost network, also when the API has forgotten it: two entries of one
// name get " (uid)" behind it.
func (k *Kubelet) Running() map[string]string {
	out := map[string]string{}
	err := k.do(func() {
		for uid, p := range k.pods {
			if p.stage != running && p.stage != saving {
				continue
			}
			name := p.obj.Namespace + "/" + p.obj.Name
			if _, twice := out[name]; twice {
				name += " (" + string(uid) + ")"
			}
			out[name] = p.node.name
		}
	})
	if err != nil {
		return nil
	}
	return out
}

// Saved is the work that has been saved so far, by key of the job (see Annotated).
func (k *Kubelet) Saved() map[string]time.Duration {
	var out map[string]time.Duration
	if err := k.do(func() { out = maps.Clone(k.saved) }); err != nil {
		return nil
	}
	return out
}
