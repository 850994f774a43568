package kube_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	batch "k8s.io/api/batch/v1"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/deploy"
	"github.com/norn-scheduler/norn/kube/names"
)

// queues is a client for Queues.
func (r *rig) queues() dynamic.ResourceInterface {
	return r.extraAs("admin", "system:masters").Resource(schema.GroupVersionResource{Group: names.Group, Version: names.QueueVersion, Resource: names.Queues})
}

// define makes the definition of Queues known, as the manifests do.
func (r *rig) define() {
	r.t.Helper()
	text, err := deploy.Manifests(deploy.Default())
	if err != nil {
		r.t.Fatal(err)
	}
	for doc := range strings.SplitSeq(text, "\n---\n") {
		if strings.Contains(doc, "kind: CustomResourceDefinition") {
			r.apply(doc)
		}
	}
	r.until("Queues can be made", func() bool {
		_, err := r.queues().List(background, meta.ListOptions{})
		return err == nil
	})
}

func queueObject(name string, spec map[string]any) *unstructured.Unstructured {
	if spec == nil {
		spec = map[string]any{}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": names.Group + "/v1alpha1", "kind": "Queue", "metadata": map[string]any{"name": name}, "spec": maps.Clone(spec),
	}}
}

// queue makes a Queue.
func (r *rig) queue(name string, spec map[string]any) {
	r.t.Helper()
	if _, err := r.queues().Create(background, queueObject(name, spec), meta.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// reason is why a job waits.
func (r *rig) reason(id string) string {
	jobs, err := r.Jobs(background, me, api.Query{IDs: []string{id}})
	if err != nil || len(jobs) == 0 {
		return ""
	}
	return jobs[len(jobs)-1].Reason
}

func inQueue(name string) func(*batch.Job) {
	return func(j *batch.Job) { j.Labels[names.Queue] = name }
}

// TestQueues: guarantees and limits of Queues count, also those of Queues that come or change
// while Norn runs; jobs wait for a Queue that there is not, or that is not for them.
func TestQueues(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, func(o *kube.Options) { o.Policy = experiment.Choice{Policy: "drf"} })
	r.job("free", 1, 1, "10000s", inQueue("a"))
	r.until("without Queues any name will do", func() bool { return r.state("default/free") == api.Running })
	r.define()
	r.queue("a", map[string]any{"limit": int64(2), "namespaces": []any{"default"}})
	r.job("one", 1, 1, "10000s", inQueue("a"))
	r.job("two", 1, 1, "10000s", inQueue("a"))
	r.until("a holds 2 GPUs", func() bool { return r.state("default/one") == api.Running && r.state("default/two") == api.Waiting })
	r.until("it is told", func() bool { return r.told("a") == [3]int64{2, 2, 1} })
	if _, err := r.queues().Patch(background, "a", types.MergePatchType, []byte(`{"spec":{"limit":3}}`), meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.until("a holds 3 GPUs", func() bool { return r.state("default/two") == api.Running })

	r.job("nowhere", 1, 1, "5s", inQueue("b"))
	r.until("it waits for its Queue", func() bool {
		return r.state("default/nowhere") == api.Held && strings.Contains(r.reason("default/nowhere"), "there is no Queue b")
	})
	r.queue("b", map[string]any{"parent": "c"})
	r.until("b has no place", func() bool { return strings.Contains(r.reason("default/nowhere"), "its parent c does not exist") })
	r.until("b says so", func() bool { return r.ready("b") == "its parent c does not exist" })
	r.down()
	r.up()
	r.until("the next norn knows it, too", func() bool { return strings.Contains(r.reason("default/nowhere"), "its parent c does not exist") })
	r.queue("c", map[string]any{"guarantee": int64(1)})
	r.until("it is done", func() bool { return r.state("default/nowhere") == api.Done })
	r.until("b is ready", func() bool { return r.ready("b") == "True" })

	r.queue("others", map[string]any{"namespaces": []any{"elsewhere"}})
	r.job("stranger", 1, 1, "5s", inQueue("others"))
	r.until("it may not", func() bool {
		return strings.Contains(r.reason("default/stranger"), "namespace default may not use Queue others")
	})
	body := []byte(`{"metadata":{"labels":{"` + names.Queue + `":"b"}}}`)
	if _, err := r.client.BatchV1().Jobs("default").Patch(background, "stranger", types.MergePatchType, body, meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.until("in another queue it is done", func() bool { return r.state("default/stranger") == api.Done })
}

// told is what a Queue says of itself: GPUs used, jobs that run, jobs that wait.
func (r *rig) told(name string) (out [3]int64) {
	q, err := r.queues().Get(background, name, meta.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for i, field := range []string{"used", "running", "waiting"} {
		out[i], _, _ = unstructured.NestedInt64(q.Object, "status", field)
	}
	return out
}

// ready is why a Queue is not ready, or True.
func (r *rig) ready(name string) string {
	q, err := r.queues().Get(background, name, meta.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	conditions, _, _ := unstructured.NestedSlice(q.Object, "status", "conditions")
	for _, c := range conditions {
		c := c.(map[string]any)
		if c["type"] == "Ready" {
			if text, _ := c["message"].(string); text != "" {
				return text
			}
			return c["status"].(string)
		}
	}
	return ""
}

// TestQueuesAtOnce: many Queues that come at once begin few new logs, and all of them count; what
// Norn says of them begins none.
func TestQueuesAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, func(o *kube.Options) { o.Policy = experiment.Choice{Policy: "drf"} })
	r.define()
	epoch := func() (n int) {
		if err := r.Loop.Ask(background, func() error { n = r.Epoch(); return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := epoch()
	const all = 20
	for i := range all {
		r.queue(fmt.Sprintf("q%02d", i), map[string]any{"limit": int64(1 + i%8)})
	}
	for i := range all {
		name := fmt.Sprintf("q%02d", i)
		r.until(name+" is in force", func() bool { return r.ready(name) == "True" })
	}
	if logs := epoch() - before; logs < 1 || logs > all/2 {
		t.Errorf("%d queues began %d new logs", all, logs)
	}
	r.job("fits", 1, 4, "1s", inQueue("q03"))
	r.job("large", 1, 4, "1s", inQueue("q02"))
	r.until("what its queue allows is done", func() bool { return r.state("default/fits") == api.Done })
	if s := r.state("default/large"); s != api.Waiting {
		t.Errorf("a job beyond the limit of its queue is %s", s)
	}
}

// TestUsed: what a Queue has used is known to the next Norn.
func TestUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	r.define()
	r.queue("a", nil)
	r.job("done", 1, 4, "10s", inQueue("a"))
	r.until("it is done", func() bool { return r.state("default/done") == api.Done })
	used := func() float64 {
		s, err := r.Status(background)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range s.Tenants {
			if q.Name == "a" {
				return q.Usage
			}
		}
		return 0
	}
	before := used()
	r.down()
	r.opt.State = t.TempDir()
	r.up()
	if after := used(); before == 0 || after < 0.5*before || after > 1.5*before+0.001 {
		t.Errorf("it had used %v GPU hours, and the next Norn knows %v", before, after)
	}
}

// TestQueueSchema: the API server refuses Queues that make no sense.
func TestQueueSchema(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	r.down()
	r.define()
	for text, spec := range map[string]map[string]any{
		"the limit is below the guarantee":       {"guarantee": int64(4), "limit": int64(2)},
		"should be greater than or equal to 0":   {"guarantee": int64(-1)},
		"should be greater than or equal to 1":   {"limit": int64(0)},
		"a Queue cannot be its own parent":       {"parent": "q"},
		"spec.namespaces[1]: Duplicate value":    {"namespaces": []any{"a", "a"}},
		"spec.weight in body must be of type in": {"weight": "heavy"},
	} {
		if _, err := r.queues().Create(background, queueObject("q", spec), meta.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v, want %s", spec, err, text)
		}
	}
	r.queue("q", map[string]any{"guarantee": int64(4), "limit": int64(4), "namespaces": []any{"a"}})
}
