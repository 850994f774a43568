package kube_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
)

// TestWorld: whatever befalls jobs and nodes, what the checker of the rig watches holds, and in
// the end each job is done that nobody has taken back.
func TestWorld(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			nodes := fakekubelet.Nodes("n", 4, fakekubelet.Shape(4, 32, 64, 110), map[string]string{"nvidia.com/gpu.product": "A100"})
			r := newRig(t, nodes, 10, func(o *kube.Options) {
				o.NodeLost = 300 * time.Millisecond
				o.Policy = experiment.Choice{Policy: []string{"srtf", "fifo", "philly"}[seed%3]}
			})
			w := &world{mix: &mix{rig: r, Rand: rnd}, nodes: nodes, away: map[string]bool{}, taken: map[string]bool{}}
			for range 30 {
				w.befalls()
				time.Sleep(time.Duration(rnd.IntN(150)) * time.Millisecond)
			}
			w.settles()
		})
	}
}

// world is a cluster to whose jobs and nodes things happen.
type world struct {
	*mix
	nodes  []fakekubelet.Node
	away   map[string]bool // nodes that are off the network
	taken  map[string]bool // jobs that somebody has cancelled or deleted
	others int             // pods of others
	told   []string        // what has happened
}

// any is one of several, or nothing.
func (w *world) any(of []string) string {
	if len(of) == 0 {
		return ""
	}
	return of[w.IntN(len(of))]
}

// befalls has something happen.
func (w *world) befalls() {
	id, node := w.any(w.ids), w.nodes[w.IntN(len(w.nodes))].Name
	what := ""
	switch n := w.IntN(16); {
	case n < 6 || id == "":
		w.submit()
		what = "submit " + w.ids[len(w.ids)-1]
	case n == 6:
		what = fmt.Sprintf("cancel %s: %v", id, w.asked(server.Cancel, id))
	case n == 7:
		what = fmt.Sprintf("hold %s: %v", id, w.Do(background, me, server.Hold, id))
	case n == 8:
		what = fmt.Sprintf("release %s: %v", id, w.Do(background, me, server.Release, id))
	case n == 9:
		what = fmt.Sprintf("requeue %s: %v", id, w.Do(background, me, server.Requeue, id))
	case n == 10 || n == 11:
		off := w.IntN(2) == 0
		w.cordon(node, off)
		what = fmt.Sprintf("cordon %s %v", node, off)
	case n == 12 && !w.away[node] && len(w.away) < 2 && w.lone(): // whose pods would be lost for good
		w.away[node] = true
		what = fmt.Sprintf("partition %s: %v", node, w.kubelet.Partition(background, node))
	case n == 13:
		for node := range w.away {
			delete(w.away, node)
			what = fmt.Sprintf("return %s: %v", node, w.kubelet.Return(background, node))
			break
		}
	case n == 14:
		w.others++
		name := fmt.Sprintf("other-%d", w.others)
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{fakekubelet.RunTime: "10s"}}, Spec: spec(0, 2)}
		p.Spec.SchedulerName = "other"
		if _, err := w.client.CoreV1().Pods("default").Create(background, p, meta.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.bindTo(name, node, nil)
		what = "other pod on " + node
	case n == 15:
		w.again()
		what = "another leader"
	}
	w.told = append(w.told, what)
}

// lone tells whether all jobs are Jobs, whose pods are made again.
func (w *world) lone() bool {
	for _, p := range w.pods() {
		if meta.GetControllerOf(&p) == nil && p.Spec.SchedulerName != "other" && p.Status.Phase != core.PodSucceeded {
			return false
		}
	}
	return true
}

// asked asks for something that takes a job back.
func (w *world) asked(v server.Verb, id string) error {
	err := w.Do(background, me, v, id)
	if err == nil {
		w.taken[id] = true
	}
	return err
}

// settles sets all right again, and waits until all jobs are done.
func (w *world) settles() {
	defer func() {
		if w.t.Failed() {
			w.t.Logf("%q", w.told)
		}
	}()
	for node := range w.away {
		if err := w.kubelet.Return(background, node); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, n := range w.nodes {
		w.cordon(n.Name, false)
	}
	for _, id := range w.ids {
		w.until(id+" has ended", func() bool {
			s := w.state(id)
			if s == api.Held {
				w.Do(background, me, server.Release, id) // it may have gone on by itself
			}
			return w.taken[id] && (s == api.Cancelled || s == "") || w.ended()[id] && (s == api.Done || s == "")
		})
	}
	w.t.Logf("%d jobs, %d taken back, of others %d pods", len(w.ids), len(w.taken), w.others)
}
