package fakekubelet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/norn-scheduler/norn/kube/internal/testenv"
)

// world is a control plane, with a client for a test.
type world struct {
	*testing.T
	env    *testenv.Env
	client kubernetes.Interface
}

// start starts a kubelet for a test; a virtual hour takes half a second.
func (w *world) start(nodes ...Node) *Kubelet {
	w.Helper()
	k, err := Start(w.Context(), w.env.Config(), Options{Nodes: nodes, Factor: 7200, Delay: time.Minute})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(k.Stop)
	return k
}

// bind makes a pod that is bound to a node; it asks for these resources.
func (w *world) bind(name, node string, ask core.ResourceList, change func(*core.Pod)) {
	w.Helper()
	grace := int64(1800) // virtual
	p := &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: core.PodSpec{
			NodeName: node, RestartPolicy: core.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			Containers: []core.Container{{Name: "main", Image: "none", Resources: core.ResourceRequirements{Requests: ask, Limits: ask}}},
		},
	}
	if change != nil {
		change(p)
	}
	if _, err := w.client.CoreV1().Pods("default").Create(w.Context(), p, meta.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// annotated is a change that annotates a pod: key, value, key, value.
func annotated(pairs ...string) func(*core.Pod) {
	return func(p *core.Pod) {
		for i := 0; i < len(pairs); i += 2 {
			p.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

// told is what the API says of a pod, in short.
func told(p *core.Pod) string {
	text := string(p.Status.Phase)
	if p.Status.Reason != "" {
		text += " " + p.Status.Reason
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			text += fmt.Sprintf(" exit %d %s", c.State.Terminated.ExitCode, c.State.Terminated.Message)
		}
		if c.RestartCount > 0 {
			text += fmt.Sprintf(" restarts %d", c.RestartCount)
		}
	}
	return strings.TrimSpace(text)
}

// await waits until the API says something of a pod that begins so; "gone" is a pod that
// is not there.
func (w *world) await(name, want string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	for {
		p, err := w.client.CoreV1().Pods("default").Get(ctx, name, meta.GetOptions{})
		got := "gone"
		if err == nil {
			got = told(p)
		} else if !errors.IsNotFound(err) {
			w.Fatalf("%s: %v", name, err)
		}
		if strings.HasPrefix(got, want) {
			return
		}
		select {
		case <-ctx.Done():
			w.Fatalf("%s is %q, want %q", name, got, want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// remove deletes a pod and returns all that the API said of it from then on.
func (w *world) remove(name string, grace *int64) []string {
	w.Helper()
	pods := w.client.CoreV1().Pods("default")
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	events, err := pods.Watch(ctx, meta.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		w.Fatal(err)
	}
	defer events.Stop()
	if err := pods.Delete(ctx, name, meta.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		w.Fatal(err)
	}
	var out []string
	for e := range events.ResultChan() {
		if p, ok := e.Object.(*core.Pod); ok {
			out = append(out, told(p))
		}
		if e.Type == "DELETED" {
			return slices.Compact(out)
		}
	}
	w.Fatalf("%s is still there: %q", name, out)
	return nil
}

// TestKubelet: pods start, end, save and are rejected as under a real kubelet, against a
// real API server.
func TestKubelet(t *testing.T) {
	env := testenv.Start(t, testenv.Audit("Metadata"))
	client, err := kubernetes.NewForConfig(env.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		test func(*world)
	}{
		{"nodes", testNodes}, {"ends", testEnds}, {"rejects", testRejects}, {"saves", testSaves},
		{"dies", testDies}, {"partition", testPartition}, {"restarts", testRestarts}, {"again", testAgain},
		{"changes", testChanges}, {"resizes", testResizes}, {"pace", testPace},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(&world{T: t, env: env, client: client}) })
	}
}

// testNodes: nodes are ready, have what they are said to have, and a lease that is renewed.
func testNodes(w *world) {
	taint := core.Taint{Key: "gpu", Value: "yes", Effect: core.TaintEffectNoSchedule}
	node := Node{Name: "one", Labels: map[string]string{"rack": "r1"}, Taints: []core.Taint{taint}, Resources: Shape(8, 64, 256, 110)}
	k, err := Start(w.Context(), w.env.Config(), Options{Nodes: []Node{node}, Heartbeat: 10 * time.Millisecond})
	if err != nil {
		w.Fatal(err)
	}
	defer k.Stop()
	n, err := w.client.CoreV1().Nodes().Get(w.Context(), "one", meta.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	gpus, cpu := n.Status.Allocatable[GPU], n.Status.Allocatable[core.ResourceCPU]
	if gpus.Value() != 8 || cpu.Value() != 64 || n.Labels["rack"] != "r1" || !slices.Equal(n.Spec.Taints, []core.Taint{taint}) || n.Status.Conditions[0].Status != core.ConditionTrue {
		w.Errorf("%+v", n)
	}
	renewed := map[string]bool{}
	for len(renewed) < 3 {
		lease, err := w.client.CoordinationV1().Leases(core.NamespaceNodeLease).Get(w.Context(), "one", meta.GetOptions{})
		if err == nil {
			renewed[lease.Spec.RenewTime.String()] = true
		}
	}
	if _, err := Start(w.Context(), w.env.Config(), Options{Nodes: []Node{node, node}}); err == nil {
		w.Error("one name for two nodes")
	}
}

// testEnds: pods run as long as their annotation says, and end as it says.
func testEnds(w *world) {
	k := w.start(Node{Name: "ends", Resources: Shape(8, 64, 256, 110)})
	w.bind("done", "ends", Shape(1, 1, 1, 0), annotated(RunTime, "1h", Message, "all well"))
	w.bind("fails", "ends", nil, annotated(RunTime, "30m", Exit, "3", Message, "nan"))
	w.bind("runs", "ends", nil, annotated(RunTime, "nonsense", Exit, "x"))
	w.bind("nowhere", "elsewhere", nil, nil)
	w.await("done", "Succeeded exit 0 all well")
	w.await("fails", "Failed exit 3 nan")
	w.await("runs", "Running")
	w.await("nowhere", "Pending")
	if got := k.Running(); !maps.Equal(got, map[string]string{"default/runs": "ends"}) {
		w.Errorf("running: %v", got)
	}
	w.bind("again", "ends", Shape(8, 60, 200, 0), nil) // what has ended holds nothing
	w.await("again", "Running")
}

// testRejects: what does not fit a node is rejected, for the reasons of a kubelet.
func testRejects(w *world) {
	w.start(Node{Name: "small", Resources: Shape(2, 4, 8, 3)})
	w.bind("fits", "small", Shape(1, 2, 2, 0), nil)
	w.await("fits", "Running")
	w.bind("gpus", "small", Shape(2, 1, 1, 0), nil)
	w.bind("cores", "small", Shape(0, 3, 1, 0), nil)
	w.bind("memory", "small", Shape(0, 1, 7, 0), nil)
	w.bind("selects", "small", nil, func(p *core.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} })
	w.await("gpus", "Failed UnexpectedAdmissionError")
	w.await("cores", "Failed OutOfcpu")
	w.await("memory", "Failed OutOfmemory")
	w.await("selects", "Failed NodeAffinity")
	w.bind("second", "small", Shape(1, 2, 6, 0), nil)
	w.bind("third", "small", nil, nil)
	w.await("second", "Running")
	w.await("third", "Running")
	w.bind("fourth", "small", nil, nil)
	w.await("fourth", "Failed OutOfpods")
	w.remove("fits", nil)
	w.bind("fifth", "small", Shape(1, 2, 2, 0), nil)
	w.await("fifth", "Running")
}

// testSaves: a pod that is told to end saves if it can within its grace, and the next pod
// of its job goes on from there.
func testSaves(w *world) {
	k := w.start(Node{Name: "saves", Resources: Shape(8, 64, 256, 110)})
	ends := func(name string, pod func(*core.Pod), grace *int64, want ...string) {
		w.Helper()
		w.bind(name, "saves", Shape(8, 1, 1, 0), pod)
		w.await(name, "Running")
		got := w.remove(name, grace)
		for i := range want {
			if i+1 >= len(got) || !strings.HasPrefix(got[i+1], want[i]) {
				w.Errorf("%s: %q, want %q behind the first", name, got, want)
				return
			}
		}
	}
	work := []string{RunTime, "1000h", SaveTime, "10m", Job, "j"}
	ends("saver", annotated(work...), nil, `Failed exit 75 {"progress": 0.`)
	saved := k.Saved()["j"]
	if saved <= 0 || saved >= 100*time.Hour {
		w.Errorf("saved %v", saved)
	}
	// The work of the next one is what was saved: nothing is left to do.
	w.bind("next", "saves", Shape(8, 1, 1, 0), annotated(RunTime, saved.String(), Job, "j"))
	w.await("next", "Succeeded exit 0")

	short := int64(60)
	ends("short", annotated(RunTime, "1000h", SaveTime, "10m", Job, "s"), &short, "Failed exit 137")
	ends("never", annotated(RunTime, "1000h", Job, "s"), nil, "Failed exit 143")
	if got, any := k.Saved()["s"]; any {
		w.Errorf("saved %v by who could not", got)
	}
	w.bind("often", "saves", Shape(8, 1, 1, 0), annotated(SaveEvery, "1s", Job, "o"))
	w.await("often", "Running")
	w.remove("often", nil)
	if got := k.Saved()["o"]; got <= 0 || got%time.Second != 0 {
		w.Errorf("saved %v on its own", got)
	}
	w.bind("impatient", "saves", Shape(8, 1, 1, 0), annotated(SaveTime, "1000h"))
	w.await("impatient", "Running")
	long := int64(1000 * 3600)
	if err := w.client.CoreV1().Pods("default").Delete(w.Context(), "impatient", meta.DeleteOptions{GracePeriodSeconds: &long}); err != nil {
		w.Fatal(err)
	}
	got := w.remove("impatient", &short) // who asks again gives it less time
	if len(got) < 2 || !strings.HasPrefix(got[1], "Failed exit 137") {
		w.Errorf("%q", got)
	}
}

// testDies: pods end with their node, which is told when it returns.
func testDies(w *world) {
	k := w.start(Node{Name: "dies", Resources: Shape(8, 64, 256, 110)})
	w.bind("victim", "dies", Shape(8, 1, 1, 0), annotated(SaveTime, "1m"))
	w.await("victim", "Running")
	if err := k.Die(w.Context(), "dies"); err != nil {
		w.Fatal(err)
	}
	if got := w.condition("dies"); got != core.ConditionUnknown {
		w.Errorf("the node is ready: %s", got)
	}
	w.await("victim", "Running")
	if got := k.Running(); len(got) > 0 {
		w.Errorf("on a dead node run %v", got)
	}
	w.bind("late", "dies", Shape(8, 1, 1, 0), nil)
	if err := k.Return(w.Context(), "dies"); err != nil {
		w.Fatal(err)
	}
	w.await("victim", "Failed exit 137")
	w.await("late", "Running")
	if got := w.condition("dies"); got != core.ConditionTrue {
		w.Errorf("the node is ready: %s", got)
	}
	if k.Die(w.Context(), "nobody") == nil || k.Return(w.Context(), "nobody") == nil {
		w.Error("a node that is not there dies and returns")
	}
}

// condition is the condition Ready of a node.
func (w *world) condition(name string) core.ConditionStatus {
	w.Helper()
	n, err := w.client.CoreV1().Nodes().Get(w.Context(), name, meta.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == core.NodeReady {
			return c.Status
		}
	}
	return ""
}

// testPartition: behind a lost network pods go on, also those that the API forgets.
func testPartition(w *world) {
	k := w.start(Node{Name: "apart", Resources: Shape(8, 64, 256, 110)})
	w.bind("ends-alone", "apart", Shape(1, 1, 1, 0), annotated(RunTime, "20m"))
	w.bind("goes-on", "apart", Shape(7, 1, 1, 0), nil)
	w.await("goes-on", "Running")
	if err := k.Partition(w.Context(), "apart"); err != nil {
		w.Fatal(err)
	}
	none := int64(0)
	w.remove("goes-on", &none)
	w.bind("goes-on", "apart", Shape(7, 1, 1, 0), nil)
	for len(k.Running()) != 1 { // until the first has ended
		time.Sleep(10 * time.Millisecond)
	}
	if got := k.Running(); !maps.Equal(got, map[string]string{"default/goes-on": "apart"}) {
		w.Errorf("running: %v", got)
	}
	w.await("ends-alone", "Running")
	w.await("goes-on", "Pending")
	if err := k.Return(w.Context(), "apart"); err != nil {
		w.Fatal(err)
	}
	w.await("ends-alone", "Succeeded exit 0")
	w.await("goes-on", "Running") // the one that was bound meanwhile; there was no room for two
}

// testRestarts: a container that fails is started again where its pod says so.
func testRestarts(w *world) {
	w.start(Node{Name: "restarts", Resources: Shape(8, 64, 256, 110)})
	w.bind("stumbles", "restarts", nil, func(p *core.Pod) {
		p.Spec.RestartPolicy = core.RestartPolicyOnFailure
		annotated(RunTime, "1m", Exit, "1")(p)
	})
	w.await("stumbles", "Running restarts 2")
	w.bind("succeeds", "restarts", nil, func(p *core.Pod) {
		p.Spec.RestartPolicy = core.RestartPolicyOnFailure
		annotated(RunTime, "1m")(p)
	})
	w.await("succeeds", "Succeeded exit 0")
	w.remove("stumbles", nil)
}

// testAgain: a kubelet that is started again goes on with the pods that run.
func testAgain(w *world) {
	node := Node{Name: "again", Resources: Shape(8, 64, 256, 110)}
	first := w.start(node)
	w.bind("survivor", "again", Shape(8, 1, 1, 0), annotated(RunTime, "1000h", SaveTime, "0s"))
	w.await("survivor", "Running")
	first.Stop()
	second := w.start(node)
	if got := second.Running(); !maps.Equal(got, map[string]string{"default/survivor": "again"}) {
		w.Errorf("running: %v", got)
	}
	w.bind("newcomer", "again", Shape(1, 1, 1, 0), nil)
	w.await("newcomer", "Failed UnexpectedAdmissionError")
	got := w.remove("survivor", nil)
	if len(got) < 2 || !strings.HasPrefix(got[1], "Failed exit 75") {
		w.Errorf("%q", got)
	}
}

// testChanges: nodes come, change and go.
func testChanges(w *world) {
	k := w.start()
	w.bind("early", "late", Shape(1, 1, 1, 0), nil)
	node := Node{Name: "late", Resources: Shape(1, 64, 256, 110)}
	set := func() {
		w.Helper()
		if err := k.Set(w.Context(), node); err != nil {
			w.Fatal(err)
		}
	}
	set()
	w.await("early", "Running")
	node.Resources, node.Labels = Shape(2, 64, 256, 110), map[string]string{"zone": "a"}
	set()
	n, err := w.client.CoreV1().Nodes().Get(w.Context(), "late", meta.GetOptions{})
	if gpus := n.Status.Allocatable[GPU]; err != nil || gpus.Value() != 2 || n.Labels["zone"] != "a" {
		w.Errorf("%+v, %v", n, err)
	}
	w.bind("more", "late", Shape(1, 1, 1, 0), func(p *core.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} })
	w.await("more", "Running")
	node.Resources = Shape(0, 64, 256, 110)
	set()
	w.bind("none", "late", Shape(1, 1, 1, 0), nil)
	w.await("none", "Failed UnexpectedAdmissionError")
	w.await("early", "Running")
	if err := k.Remove(w.Context(), "late"); err != nil {
		w.Fatal(err)
	}
	if _, err := w.client.CoreV1().Nodes().Get(w.Context(), "late", meta.GetOptions{}); !errors.IsNotFound(err) || len(k.Running()) > 0 {
		w.Errorf("of a node that is gone run %v, %v", k.Running(), err)
	}
	if k.Remove(w.Context(), "late") == nil {
		w.Error("it is removed twice")
	}
}

// testResizes: a pod that asks for more gets it where its node has that.
func testResizes(w *world) {
	w.start(Node{Name: "grows", Resources: Shape(8, 4, 8, 110)})
	w.bind("grows", "grows", Shape(8, 1, 1, 0), nil)
	w.await("grows", "Running")
	resize := func(cores string) {
		w.Helper()
		patch := fmt.Sprintf(`{"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": %q}, "limits": {"cpu": %[1]q}}}]}}`, cores)
		_, err := w.client.CoreV1().Pods("default").Patch(w.Context(), "grows", types.StrategicMergePatchType, []byte(patch), meta.PatchOptions{}, "resize")
		if err != nil {
			w.Fatal(err)
		}
	}
	has := func(cores int64) {
		w.Helper()
		for {
			p, err := w.client.CoreV1().Pods("default").Get(w.Context(), "grows", meta.GetOptions{})
			if err != nil {
				w.Fatal(err)
			}
			if q := p.Status.ContainerStatuses[0].AllocatedResources[core.ResourceCPU]; q.Value() == cores {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	resize("2")
	has(2)
	w.bind("too-many", "grows", Shape(0, 3, 1, 0), nil)
	w.await("too-many", "Failed OutOfcpu")
	w.bind("beside", "grows", Shape(0, 2, 1, 0), nil)
	w.await("beside", "Running")
	resize("3") // the node has that when the other has left
	has(2)
	w.remove("beside", nil)
	has(3)
}

// testPace: a thousand pods take one write each until they run.
func testPace(w *world) {
	const n = 1000
	k := w.start(Nodes("pace", 125, Shape(8, 64, 256, 110), nil)...)
	began := time.Now()
	pods := make([]int, n)
	for i := range pods {
		pods[i] = i
	}
	err := each(pods, 16, func(i *int) error {
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprintf("pace-%d", *i)}, Spec: core.PodSpec{
			NodeName: fmt.Sprintf("pace-%03d", *i%125), Containers: []core.Container{{Name: "main", Image: "none", Resources: core.ResourceRequirements{
				Limits: core.ResourceList{GPU: *resource.NewQuantity(1, resource.DecimalSI)},
			}}},
		}}
		_, err := w.client.CoreV1().Pods("default").Create(w.Context(), p, meta.CreateOptions{})
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	made := time.Since(began)
	count := func() (running int) {
		list, err := w.client.CoreV1().Pods("default").List(w.Context(), meta.ListOptions{FieldSelector: "status.phase=Running"})
		if err != nil {
			w.Fatal(err)
		}
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].Name, "pace-") {
				running++
			}
		}
		return running
	}
	for count() < n && w.Context().Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	ran := time.Since(began)
	w.Logf("%d pods made in %.2f s (%.0f/s), run after %.2f s (%.0f/s)", n, made.Seconds(), n/made.Seconds(), ran.Seconds(), n/ran.Seconds())
	if got := len(k.Running()); got != n {
		w.Errorf("%d run", got)
	}
	audit, err := os.ReadFile(w.env.AuditLog())
	if err != nil {
		w.Fatal(err)
	}
	writes := 0
	for line := range strings.Lines(string(audit)) {
		if strings.Contains(line, `"subresource":"status"`) && strings.Contains(line, `"name":"pace-`) && strings.Contains(line, `"resource":"pods"`) {
			writes++
		}
	}
	if writes != n {
		w.Errorf("%d writes for %d pods", writes, n)
	}
}
