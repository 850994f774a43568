package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/names"
)

func everything() fields.Selector { return fields.Everything() }

// least is the least scheduler that could be: it remembers nothing, explains nothing, and
// writes nothing but bindings and the resumption of Jobs. Its figures are the limit.
type least struct {
	ctx    context.Context
	client kubernetes.Interface

	mu      sync.Mutex
	free    map[string]int
	at      map[types.UID]string
	resumed map[string]bool
	have    map[string][]*core.Pod // of gangs that are not bound yet
	wait    []string               // gangs that are complete and for which there was no room
	bind    chan binding
}

type binding struct {
	pod  *core.Pod
	node string
}

// workers is how many writes schedulers have under way.
const workers = 32

// startLeast starts it; it ends with the context.
func startLeast(ctx context.Context, c *cluster, nodes int) (*least, error) {
	client, err := kube.Client(c.env.Config())
	if err != nil {
		return nil, err
	}
	l := &least{
		ctx: ctx, client: client, free: map[string]int{}, at: map[types.UID]string{}, resumed: map[string]bool{}, have: map[string][]*core.Pod{},
		bind: make(chan binding, 1<<17),
	}
	for _, n := range fakekubelet.Nodes("n", nodes, nil, nil) {
		l.free[n.Name] = gpus
	}
	for range workers {
		go l.work()
	}
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", space, fields.OneTermEqualSelector("spec.schedulerName", names.Scheduler))
	jobs := cache.NewListWatchFromClient(client.BatchV1().RESTClient(), "jobs", space, everything())
	for _, i := range []cache.InformerOptions{
		{ListerWatcher: pods, ObjectType: &core.Pod{}, Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: l.seen, UpdateFunc: func(_, o any) { l.seen(o) }, DeleteFunc: l.gone,
		}},
		{ListerWatcher: jobs, ObjectType: &batch.Job{}, Handler: cache.ResourceEventHandlerFuncs{AddFunc: l.resume}},
	} {
		_, informer := cache.NewInformerWithOptions(i)
		go informer.Run(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil, ctx.Err()
		}
	}
	return l, nil
}

func (l *least) work() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case b := <-l.bind:
			_ = l.client.CoreV1().Pods(space).Bind(l.ctx, &core.Binding{ // one that fails is missed at the end
				ObjectMeta: meta.ObjectMeta{Name: b.pod.Name, Namespace: space, UID: b.pod.UID},
				Target:     core.ObjectReference{Kind: "Node", Name: b.node},
			}, meta.CreateOptions{})
		}
	}
}

// resume resumes a Job that has come suspended.
func (l *least) resume(o any) {
	if j, is := o.(*batch.Job); is && j.Labels[names.Queue] != "" && j.Spec.Suspend != nil && *j.Spec.Suspend {
		go func() { _ = suspend(l.ctx, l.client, j.Name, false) }() // missed at the end
	}
}

// suspend suspends a Job or resumes it.
func suspend(ctx context.Context, client kubernetes.Interface, name string, on bool) error {
	patch := []byte(`{"spec":{"suspend":` + strconv.FormatBool(on) + `}}`)
	_, err := client.BatchV1().Jobs(space).Patch(ctx, name, types.MergePatchType, patch, meta.PatchOptions{})
	return err
}

// seen takes in a pod: a gang whose pods are all there is bound.
func (l *least) seen(o any) {
	p, is := o.(*core.Pod)
	if !is {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || l.at[p.UID] != "" {
		return
	}
	l.at[p.UID] = "-"
	size := 1
	if n, err := strconv.Atoi(cmp.Or(p.Annotations[names.GangSize], p.Annotations[sizeNote])); err == nil {
		size = n
	}
	g := groupOf(p)
	l.have[g] = append(l.have[g], p)
	if len(l.have[g]) == size && !l.place(g) {
		l.wait = append(l.wait, g)
	}
}

// sizeNote is an annotation of pods of Jobs: how many there are.
const sizeNote = "size"

// place binds a gang where there is room for all of it, on the fullest nodes.
func (l *least) place(g string) bool {
	pods := l.have[g]
	var nodes []string
	for n, free := range l.free {
		if free > 0 {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Or(l.free[a]-l.free[b], cmp.Compare(a, b)) })
	var to []string
	if at := slices.IndexFunc(nodes, func(n string) bool { return l.free[n] >= len(pods) }); at >= 0 {
		nodes = nodes[at:]
	}
	for _, n := range nodes {
		for range min(l.free[n], len(pods)-len(to)) {
			to = append(to, n)
		}
	}
	if len(to) < len(pods) {
		return false
	}
	for i, p := range pods {
		l.at[p.UID] = to[i]
		l.free[to[i]]--
		l.bind <- binding{p, to[i]}
	}
	delete(l.have, g)
	return true
}

// gone takes back what a pod had, and places gangs that wait.
func (l *least) gone(o any) {
	p, is := o.(*core.Pod)
	if !is {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.at[p.UID]; n != "" && n != "-" {
		l.free[n]++
	}
	l.wait = slices.DeleteFunc(l.wait, l.place)
}
