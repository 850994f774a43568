// Package watch checks from the API alone that a scheduler keeps its promises. No node
// has more booked than it has, gangs are bound whole, and pods of other schedulers are
// left alone. It shares no code with the scheduler but the names of labels.
//
// The audit log of the API server, where there is one, tells further who wrote what: see
// Audit.
package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/norn-scheduler/norn/kube/internal/demand"
	"github.com/norn-scheduler/norn/kube/names"
)

// Options say what is checked.
type Options struct {
	// Ours tells the pods that the scheduler may touch; nil: those that name it or carry
	// its gate.
	Ours func(*core.Pod) bool
	// Whole is how long a gang may be bound in part; 0 stands for 10 s.
	Whole time.Duration
	// Alone says that nobody else binds pods: then a pod of others that is bound is a
	// violation.
	Alone bool
}

// Checker watches a cluster. Its methods may be called by several goroutines.
type Checker struct {
	client kubernetes.Interface
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu    sync.Mutex
	state *state
}

// tick is how often gangs are looked at when nothing happens.
const tick = 100 * time.Millisecond

// Start begins to watch, and returns once all that is there has been seen.
func Start(ctx context.Context, config *rest.Config, opts Options) (*Checker, error) {
	if opts.Ours == nil {
		opts.Ours = named
	}
	if opts.Whole == 0 {
		opts.Whole = 10 * time.Second
	}
	config = rest.CopyConfig(config)
	config.UserAgent = "watch"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &Checker{client: client, cancel: cancel, state: newState(opts)}
	c.state.lookup = func(node string) (demand.Resources, bool) {
		n, err := client.CoreV1().Nodes().Get(ctx, node, meta.GetOptions{})
		if err != nil {
			return nil, false
		}
		return demand.List(n.Status.Allocatable), true
	}
	// Nodes and Jobs first: pods are held against them.
	for _, follow := range []func() bool{
		func() bool {
			return follow(ctx, c, client.CoreV1().RESTClient(), "nodes", &core.Node{}, &feed[*core.Node]{tell: c.node})
		},
		func() bool {
			return follow(ctx, c, client.BatchV1().RESTClient(), "jobs", &batch.Job{}, &feed[*batch.Job]{tell: c.job})
		},
		func() bool {
			return follow(ctx, c, client.CoreV1().RESTClient(), "pods", &core.Pod{}, &feed[*core.Pod]{tell: c.pod, frees: over})
		},
	} {
		if !follow() {
			c.Stop()
			return nil, ctx.Err()
		}
	}
	c.all.Go(func() { c.clock(ctx) })
	return c, nil
}

// named tells whether a pod names our scheduler, or waits at our gate.
func named(p *core.Pod) bool {
	return p.Spec.SchedulerName == names.Scheduler ||
		slices.ContainsFunc(p.Spec.SchedulingGates, func(g core.PodSchedulingGate) bool { return g.Name == names.Gate })
}

// follow passes all versions of the objects of a resource on, from now on, and waits
// until those that are there have been seen.
func follow[T object](ctx context.Context, c *Checker, client cache.Getter, resource string, kind T, f *feed[T]) bool {
	f.last, f.begun = map[types.UID]T{}, make(chan struct{})
	all := cache.NewListWatchFromClient(client, resource, meta.NamespaceAll, fields.Everything())
	reflector := cache.NewReflectorWithOptions(all, kind, f, cache.ReflectorOptions{})
	c.all.Go(func() { reflector.RunWithContext(ctx) })
	select {
	case <-f.begun:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Checker) node(n *core.Node, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.node(n, gone)
}

func (c *Checker) job(j *batch.Job, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.job(j, gone)
}

func (c *Checker) pod(p *core.Pod, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.pod(time.Now(), p, gone)
}

// clock looks at the gangs every now and then.
func (c *Checker) clock(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			c.mu.Lock()
			c.state.check(now)
			c.mu.Unlock()
		}
	}
}

// Violations are the promises that have been broken so far, a sentence each.
func (c *Checker) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.state.wrong)
}

// Stop ends the watch and returns all violations.
func (c *Checker) Stop() []string {
	c.cancel()
	c.all.Wait()
	return c.Violations()
}

// Touched lists the writes of a user that concern pods of other schedulers, among those
// that the checker has seen.
func (c *Checker) Touched(writes []Write, user string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.wrote(writes, user)
}
