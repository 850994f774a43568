package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/norn-scheduler/norn/kube/names"
)

// series is when pods were asked for, bound, seen to run, and gone: one clock for all.
type series struct {
	mu      sync.Mutex
	asked   map[string]time.Time // also of Jobs
	bound   map[string]time.Time
	running map[string]time.Time
	gone    map[string]time.Time
	group   map[string]string // the gang or Job of each pod that was bound
}

// follow begins to note what becomes of pods.
func follow(ctx context.Context, client kubernetes.Interface) (*series, error) {
	s := &series{asked: map[string]time.Time{}, bound: map[string]time.Time{}, running: map[string]time.Time{}, gone: map[string]time.Time{}, group: map[string]string{}}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", space, everything()),
		ObjectType:    &core.Pod{},
		Transform: func(o any) (any, error) {
			if p, is := o.(*core.Pod); is {
				p.ManagedFields = nil
			}
			return o, nil
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: s.see, UpdateFunc: func(_, o any) { s.see(o) },
			DeleteFunc: func(o any) {
				if p, is := o.(*core.Pod); is {
					s.mu.Lock()
					s.gone[p.Name] = time.Now()
					s.mu.Unlock()
				}
			},
		},
	})
	go informer.Run(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, ctx.Err()
	}
	return s, nil
}

func (s *series) see(o any) {
	p, is := o.(*core.Pod)
	if !is {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	note := func(m map[string]time.Time) {
		if m[p.Name].IsZero() {
			m[p.Name] = now
		}
	}
	if p.Spec.NodeName != "" {
		note(s.bound)
		s.group[p.Name] = groupOf(p)
	}
	if p.Status.Phase != core.PodPending && p.Status.Phase != "" {
		note(s.running)
	}
}

// groupOf is the gang or the Job of a pod, or the pod.
func groupOf(p *core.Pod) string {
	for _, name := range []string{p.Labels[names.Gang], p.Labels[jobLabel]} {
		if name != "" {
			return name
		}
	}
	return p.Name
}

// begin notes that something is asked for.
func (s *series) begin(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[name] = time.Now()
}

func earliest(m map[string]time.Time) (at time.Time) {
	for _, t := range m {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	return at
}

// boundPods are those whose group has a prefix.
func (s *series) boundPods(prefix string) (n int, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, at := range s.bound {
		if strings.HasPrefix(s.group[name], prefix) {
			n++
			if at.After(last) {
				last = at
			}
		}
	}
	return n, last
}

// count is how many pods are bound, run, and are gone.
func (s *series) count() (bound, running, gone int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bound), len(s.running), len(s.gone)
}

// whole counts the groups of which all of so many pods are bound, and those of which only
// some are.
func (s *series) whole(size int) (whole, part int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := map[string]int{}
	for name := range s.bound {
		have[s.group[name]]++
	}
	for _, n := range have {
		if n == size {
			whole++
		} else {
			part++
		}
	}
	return whole, part
}

// pace is how fast pods were bound.
type pace struct {
	Bound   float64 `json:"boundPerSecond"`
	Running float64 `json:"runningPerSecond,omitempty"`
	First   float64 `json:"firstSeconds"` // from the first request to the first binding
	P99     float64 `json:"p99Seconds"`   // from a request to its binding
	Pods    int     `json:"pods"`
	Whole   int     `json:"wholeGangs"`
	Part    int     `json:"partialGangs"`
	Server  float64 `json:"serverMillisecondsPerPod"` // CPU of the API server and etcd until all run
}

// pace sums up pods of groups of a size, from the first request, or where waited from the
// first binding on.
func (s *series) pace(size int, waited bool) pace {
	out := pace{}
	out.Whole, out.Part = s.whole(size)
	s.mu.Lock()
	defer s.mu.Unlock()
	from := earliest(s.asked)
	out.Pods, out.First = len(s.bound), earliest(s.bound).Sub(from).Seconds()
	if waited {
		from = earliest(s.bound)
	}
	rate := func(m map[string]time.Time) float64 {
		last := from
		for _, t := range m {
			if t.After(last) {
				last = t
			}
		}
		if last == from {
			return 0
		}
		return float64(len(m)) / last.Sub(from).Seconds()
	}
	out.Bound, out.Running = rate(s.bound), rate(s.running)
	var each []time.Duration
	for name, at := range s.bound {
		asked, known := s.asked[name]
		if !known {
			asked = s.asked[s.group[name]]
		}
		each = append(each, at.Sub(asked))
	}
	slices.Sort(each)
	if len(each) > 0 {
		out.P99 = each[(len(each)-1)*99/100].Seconds()
	}
	return out
}

// untilBound waits until so many pods are bound.
func (s *series) untilBound(ctx context.Context, n int, limit time.Duration) error {
	err := until(ctx, fmt.Sprintf("%d pods are bound", n), limit, func() (bool, error) {
		bound, _, _ := s.count()
		return bound >= n, nil
	})
	if err != nil {
		bound, running, gone := s.count()
		return fmt.Errorf("%w: %d are, %d run, %d are gone", err, bound, running, gone)
	}
	return nil
}
