package kube_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/names"
)

func (r *rig) reclaim(z api.Reclaim) (meant []string) {
	r.t.Helper()
	meant, err := r.Reclaim(background, me, z)
	if err != nil {
		r.t.Fatal(err)
	}
	return meant
}

// annotate writes the order of an owner on a node, as kubectl annotate does; empty: there is none.
func (r *rig) annotate(node, order string) {
	r.t.Helper()
	value := &order
	if order == "" {
		value = nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{names.Reclaimed: value}}})
	if err == nil {
		_, err = r.client.CoreV1().Nodes().Patch(background, node, types.MergePatchType, body, meta.PatchOptions{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// note is how Norn says that a node stands, and what its annotation is.
func (r *rig) note(node string) (health, note, annotation string) {
	r.t.Helper()
	nodes, err := r.Nodes(background, server.Caller{}, api.NodeQuery{Names: []string{node}})
	if err != nil || len(nodes) != 1 {
		r.t.Fatalf("%v, %v", nodes, err)
	}
	obj, err := r.client.CoreV1().Nodes().Get(background, node, meta.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	if obj.Spec.Unschedulable {
		r.t.Errorf("node %s is closed to its owner's pods", node)
	}
	return nodes[0].Health, nodes[0].Note, obj.Annotations[names.Reclaimed]
}

// TestReclaim: the Jobs on a node that is taken back save their state and go on elsewhere. A bare pod is deleted. Nothing
// new starts there, under another leader as well, until the node is lent again.
func TestReclaim(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes, 10, nil)
	r.job("a", 1, 3, "100000s", saves)
	r.until("a runs", func() bool { return r.state("default/a") == api.Running })
	here := r.one("default/a").Nodes[0]
	there := map[string]string{"n-000": "n-001", "n-001": "n-000"}[here]
	r.pod("bare", 1, "100000s", nil)
	r.until("the pod runs", func() bool { return len(r.kubelet.Running()) == 2 })
	if on := r.one("default/pod/bare").Nodes[0]; on != here {
		t.Fatalf("the pod is on %s", on)
	}
	for z, words := range map[string]string{"": "name the nodes that are taken back or lent, or say how many", r.one("default/a").Devices[0]: "single devices of a Kubernetes cluster cannot be put out of use"} {
		order := api.Reclaim{}
		if z != "" {
			order.Devices = []string{z}
		}
		if _, err := r.Reclaim(background, me, order); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", z, err)
		}
	}
	r.reclaim(api.Reclaim{Devices: []string{here}, Why: "peak"})
	r.until("a runs on the other node, and the pod is gone", func() bool {
		return r.state("default/a") == api.Running && r.one("default/a").Nodes[0] == there && len(r.kubelet.Running()) == 1
	})
	if j := r.one("default/a"); j.Run != 2 || j.Failures != 0 || j.Preemptions != 1 {
		t.Errorf("%+v", j)
	}
	w, err := r.Why(background, me, "default/a")
	if err != nil || !strings.Contains(strings.Join(w.Life, "\n"), "node "+here+" is taken back: by "+me.User+": peak") {
		t.Errorf("%v: %v", err, w.Life)
	}
	r.job("b", 1, 2, "1s", nil)
	for _, leader := range []func(){func() {}, r.again} {
		leader()
		if health, note, order := r.note(here); health != "drained" || note != "taken back: by "+me.User+": peak" || order != "gracefully by "+me.User+": peak" {
			t.Errorf("%s, %q, %q", health, note, order)
		}
		r.until("b waits", func() bool { return r.state("default/b") == api.Waiting })
	}
	if got := r.reclaim(api.Reclaim{Where: "kubernetes.io/hostname=" + here, Lend: true}); len(got) != 1 || got[0] != here {
		t.Errorf("%v are lent", got)
	}
	r.until("b is done", func() bool { return r.state("default/b") == api.Done })
	if health, note, order := r.note(here); health != "up" || note != "" || order != "" {
		t.Errorf("%s, %q, %q", health, note, order)
	}
}

// TestReclaimShrinks: a Job of several sizes goes on at once where there is room for it, with as many pods as there is room
// for; where there is none it waits.
func TestReclaimShrinks(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes, 10, nil)
	r.job("b", 2, 1, "100000s", nil)
	r.until("b runs", func() bool { return r.state("default/b") == api.Running })
	first := r.one("default/b").Nodes[0]
	r.job("a", 4, 1, "100000s", elastic)
	r.until("a runs", func() bool { return r.state("default/a") == api.Running && r.one("default/a").Reason == "" })
	here := r.one("default/a").Nodes
	if len(here) != 1 || here[0] == first {
		t.Fatalf("a is on %v, b on %s", here, first)
	}
	r.reclaim(api.Reclaim{Devices: here, Notice: new(api.Seconds(31)), Why: "peak"})
	r.until("a runs with two pods on the other node", func() bool {
		j := r.one("default/a")
		return j.State == api.Running && j.Allocated == 2 && j.Reason == "" && j.Nodes[0] == first && len(r.kubelet.Running()) == 4
	})
	if j := r.one("default/a"); j.Run != 2 || j.Preemptions != 0 || j.Failures != 0 || j.Resizes != 1 {
		t.Errorf("%+v", j)
	}
	w, err := r.Why(background, me, "default/a")
	if err != nil || !strings.Contains(strings.Join(w.Life, "\n"), "is resized to 2") || !strings.Contains(strings.Join(w.Life, "\n"), "taken back: by "+me.User+": peak") {
		t.Errorf("%v: %q", err, w.Life)
	}
	r.reclaim(api.Reclaim{Devices: []string{first}})
	r.until("a waits", func() bool { return r.state("default/a") == api.Waiting })
	r.reclaim(api.Reclaim{Devices: append(here, first), Lend: true})
	r.until("a runs again", func() bool { return r.state("default/a") == api.Running && r.one("default/a").Reason == "" })
}

// TestReclaimNotice: a Job runs on as long as its notice allows, also under another leader, and what does not save its
// state in time is killed. An order that cannot be read keeps a node as it is.
func TestReclaimNotice(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	node := smallNodes[0].Name
	r.job("slow", 1, 4, "100000s", func(j *batch.Job) {
		saves(j)
		j.Spec.Template.Annotations[fakekubelet.SaveTime] = "50000s"
		*j.Spec.Template.Spec.TerminationGracePeriodSeconds = 100000
	})
	r.until("it runs", func() bool { return len(r.kubelet.Running()) == 1 })
	for order, note := range map[string]string{
		"tomorrow":                    fmt.Sprintf("annotation %s: %q is none of", names.Reclaimed, "tomorrow"),
		"2999-01-01T18:00:00Z  night": "taken back: night, to be free by ",
	} {
		r.annotate(node, order)
		r.until("the order is known", func() bool { _, said, _ := r.note(node); return strings.HasPrefix(said, note) })
		r.again()
		if health, said, _ := r.note(node); health != "drained" || !strings.HasPrefix(said, note) {
			t.Errorf("%s, %q", health, said)
		}
		r.until("it runs on", func() bool { return r.state("default/slow") == api.Running && len(r.kubelet.Running()) == 1 })
		r.annotate(node, "")
		r.until("the order is gone", func() bool { health, _, _ := r.note(node); return health == "up" })
	}
	r.reclaim(api.Reclaim{Devices: []string{node}, Notice: new(api.Seconds(1))})
	r.until("it waits", func() bool { return r.state("default/slow") == api.Waiting && len(r.kubelet.Running()) == 0 })
	if saved := r.kubelet.Saved(); len(saved) > 0 {
		t.Errorf("it saved %v", saved)
	}
	r.reclaim(api.Reclaim{Devices: []string{node}, Lend: true})
	r.until("it runs again", func() bool { return r.state("default/slow") == api.Running && len(r.kubelet.Running()) == 1 })
	if j := r.one("default/slow"); j.Run != 2 || j.Failures != 0 {
		t.Errorf("%+v", j)
	}
}

// TestReclaimSome: of so many nodes Norn takes the one back that nobody uses, then the one whose Job saves its state.
func TestReclaimSome(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakekubelet.Nodes("n", 3, fakekubelet.Shape(4, 16, 64, 110), nil), 10, nil)
	r.job("anew", 1, 4, "100000s", func(j *batch.Job) { j.Labels[names.Stop] = "restart" })
	r.until("the first runs", func() bool { return r.state("default/anew") == api.Running })
	r.job("saves", 1, 4, "100000s", saves)
	r.until("both run", func() bool { return len(r.kubelet.Running()) == 2 })
	anew, first := r.one("default/anew").Nodes[0], r.one("default/saves").Nodes[0]
	free := r.reclaim(api.Reclaim{Count: 1})
	if len(free) != 1 || free[0] == anew || free[0] == first {
		t.Errorf("%v is taken back while %s and %s are in use", free, anew, first)
	}
	if got := r.reclaim(api.Reclaim{Count: 1}); len(got) != 1 || got[0] != first {
		t.Errorf("%v is taken back, not %s", got, first)
	}
	r.until("its Job waits", func() bool { return r.state("default/saves") == api.Waiting })
	if _, err := r.Reclaim(background, me, api.Reclaim{Count: 2}); err == nil || !strings.Contains(err.Error(), "only 1 of these are in use or free, not 2") {
		t.Error(err)
	}
	if got := r.reclaim(api.Reclaim{Count: 2, Lend: true}); len(got) != 2 {
		t.Errorf("%v are lent", got)
	}
	r.until("it runs again", func() bool { return len(r.kubelet.Running()) == 2 && r.state("default/saves") == api.Running })
	if j := r.one("default/anew"); j.Run != 1 {
		t.Errorf("%+v", j)
	}
}
