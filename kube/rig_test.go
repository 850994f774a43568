package kube_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/deploy"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
	"github.com/norn-scheduler/norn/kube/internal/watch"
	"github.com/norn-scheduler/norn/kube/names"
)

// rig is a control plane, nodes that do not exist, and a Norn that schedules them.
type rig struct {
	t       *testing.T
	env     *testenv.Env
	client  kubernetes.Interface
	kubelet *fakekubelet.Kubelet
	origin  time.Time
	opt     kube.Options

	*kube.Daemon
	stop func()
	cut  context.CancelFunc // ends all writing and watching of it at once
}

// background is a context without end.
var background = context.Background()

// me is an operator.
var me = server.Caller{User: "ann", Operator: true}

// newRig starts a control plane with some nodes of a shape, and a Norn.
func newRig(t *testing.T, nodes []fakekubelet.Node, factor float64, change func(*kube.Options), options ...testenv.Option) *rig {
	t.Helper()
	r := &rig{t: t, env: testenv.Start(t, append([]testenv.Option{testenv.ControllerManager(testenv.Raised()...)}, options...)...), origin: time.Now()}
	var err error
	if r.client, err = kube.Client(r.env.Config()); err != nil {
		t.Fatal(err)
	}
	if r.kubelet, err = fakekubelet.Start(background, r.env.Config(), fakekubelet.Options{Nodes: nodes, Factor: factor, Delay: 0}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kubelet.Stop)
	r.rights()
	r.opt = kube.Options{
		Client: r.as(account, "system:serviceaccounts", "system:authenticated"), Dynamic: r.extraAs(account, "system:serviceaccounts", "system:authenticated"),
		Rediscover: 200 * time.Millisecond, Summary: 200 * time.Millisecond, Name: "test", State: t.TempDir(), Policy: experiment.Choice{Policy: "fifo"}, Origin: r.origin,
		Log: slog.New(slog.NewTextHandler(&logTo{t: t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&r.opt)
	}
	checker, err := watch.Start(background, r.env.Config(), watch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, violation := range checker.Stop() {
			t.Error(violation)
		}
	})
	r.up()
	t.Cleanup(func() { r.down() })
	return r
}

// leaders is a group of users who may do what Norn may, for tests with several Norns.
var leaders = rbac.Subject{APIGroup: rbac.GroupName, Kind: "Group", Name: "leaders"}

// rights gives Norn the rights that the manifests give it in a cluster, so that a test fails
// for want of one.
func (r *rig) rights() {
	r.t.Helper()
	text, err := deploy.Manifests(deploy.Default())
	if err != nil {
		r.t.Fatal(err)
	}
	all, err := deploy.Objects(text)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, u := range all {
		var err error
		switch u.GetKind() {
		case "ClusterRole":
			o := &rbac.ClusterRole{}
			if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err == nil {
				_, err = r.client.RbacV1().ClusterRoles().Create(background, o, meta.CreateOptions{FieldManager: "test"})
			}
		case "ClusterRoleBinding":
			o := &rbac.ClusterRoleBinding{}
			if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err == nil {
				_, err = r.client.RbacV1().ClusterRoleBindings().Create(background, o, meta.CreateOptions{FieldManager: "test"})
				if o.Name, o.Subjects = leaders.Name, []rbac.Subject{leaders}; err == nil {
					_, err = r.client.RbacV1().ClusterRoleBindings().Create(background, o, meta.CreateOptions{})
				}
			}
		case "Namespace":
			err = kube.MakeNamespace(background, r.client, u.GetName())
		case "Role":
			o := &rbac.Role{}
			if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err == nil {
				_, err = r.client.RbacV1().Roles(o.Namespace).Create(background, o, meta.CreateOptions{FieldManager: "test"})
			}
		case "RoleBinding":
			o := &rbac.RoleBinding{}
			if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err == nil {
				_, err = r.client.RbacV1().RoleBindings(o.Namespace).Create(background, o, meta.CreateOptions{FieldManager: "test"})
				if o.Name, o.Subjects = leaders.Name, []rbac.Subject{leaders}; err == nil {
					_, err = r.client.RbacV1().RoleBindings(o.Namespace).Create(background, o, meta.CreateOptions{})
				}
			}
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			r.t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); !r.allowed(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatal("the API server does not give Norn its rights")
		}
	}
}

// allowed tells whether the API server knows of the rights of Norn, those of the cluster and
// those of its namespace.
func (r *rig) allowed() bool {
	for _, a := range []*authorization.ResourceAttributes{
		{Verb: "patch", Group: "batch", Resource: "jobs"}, {Verb: "create", Resource: "pods", Subresource: "binding"},
		{Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: "norn-system"},
	} {
		review := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{ResourceAttributes: a, User: account, Groups: []string{leaders.Name}}}
		got, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(background, review, meta.CreateOptions{})
		if err != nil || !got.Status.Allowed {
			return false
		}
	}
	return true
}

// logTo writes to the log of a test, and fails it when Norn says that it has made a mistake.
type logTo struct {
	t  *testing.T
	mu sync.Mutex
}

// Write implements io.Writer.
func (l *logTo) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.t.Context().Err() == nil {
		l.t.Logf("%s", b[:len(b)-1])
		if bytes.Contains(b, []byte("has made a mistake")) || bytes.Contains(b, []byte("panic")) || bytes.Contains(b, []byte("the policy failed")) {
			l.t.Errorf("%s", b)
		}
	}
	return len(b), nil
}

// up starts a Norn.
func (r *rig) up() {
	r.t.Helper()
	writes, cut := context.WithCancel(background)
	d, err := kube.Open(writes, r.opt)
	if err != nil {
		r.t.Fatal(err)
	}
	r.cut = cut
	ctx, stop := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	r.Daemon = d
	r.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			r.t.Errorf("norn ended: %v", err)
		}
		d.Close()
		cut()
	})
}

// down stops the Norn.
func (r *rig) down() { r.stop() }

// until waits for something.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not after a minute: %s\n%s", what, r.all())
		}
	}
}

// all is how all jobs stand.
func (r *rig) all() string {
	jobs, err := r.Jobs(background, me, api.Query{All: true})
	if err != nil {
		return err.Error()
	}
	out := ""
	for _, j := range jobs {
		out += fmt.Sprintf("%s %s run %d on %v: %s\n", j.ID, j.State, j.Run, j.Devices, j.Reason)
	}
	owners, err := r.client.BatchV1().Jobs("default").List(background, meta.ListOptions{})
	if err == nil {
		for _, j := range owners.Items {
			out += fmt.Sprintf("job %s suspend %v, active %d, %v, %+v\n", j.Name, *j.Spec.Suspend, j.Status.Active, j.Annotations, j.Status.Conditions)
		}
	}
	for _, p := range r.pods() {
		out += fmt.Sprintf("pod %s on %s: %s, deleted %v, finalizers %v\n", p.Name, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp, p.Finalizers)
	}
	return out
}

// state is how a job stands; empty: there is none.
func (r *rig) state(id string) api.State {
	r.t.Helper()
	jobs, err := r.Jobs(background, me, api.Query{IDs: []string{id}})
	if err != nil {
		r.t.Fatal(err)
	}
	if len(jobs) == 0 {
		return ""
	}
	return jobs[len(jobs)-1].State
}

// spec is what a pod with some GPUs runs.
func spec(gpus, cores int64) core.PodSpec {
	grace := int64(30)
	r := core.ResourceList{"cpu": *resource.NewQuantity(cores, resource.DecimalSI), "memory": resource.MustParse("1Gi")}
	if gpus > 0 {
		r["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return core.PodSpec{
		SchedulerName: names.Scheduler, RestartPolicy: core.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
		Containers: []core.Container{{Name: "c", Image: "x", Resources: core.ResourceRequirements{Requests: r, Limits: r}}},
	}
}

// pod makes a bare pod that runs for so long.
func (r *rig) pod(name string, gpus int64, run string, labels map[string]string) {
	r.t.Helper()
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: name, Labels: labels, Annotations: map[string]string{fakekubelet.RunTime: run}}, Spec: spec(gpus, 1)}
	r.make(p)
}

// make makes a pod of the namespace default.
func (r *rig) make(p *core.Pod) {
	r.t.Helper()
	if _, err := r.client.CoreV1().Pods("default").Create(background, p, meta.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// job makes a suspended Indexed Job of some pods that run for so long.
func (r *rig) job(name string, pods int32, gpus int64, run string, change func(*batch.Job)) {
	r.t.Helper()
	indexed, yes, none := batch.IndexedCompletion, true, int32(0)
	j := &batch.Job{
		ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{names.Queue: "team"}},
		Spec: batch.JobSpec{
			Suspend: &yes, Parallelism: &pods, Completions: &pods, CompletionMode: &indexed, BackoffLimit: &none,
			Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Annotations: map[string]string{fakekubelet.RunTime: run}}, Spec: spec(gpus, 1)},
		},
	}
	if change != nil {
		change(j)
	}
	if _, err := r.client.BatchV1().Jobs("default").Create(background, j, meta.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// pods are the pods of the namespace default.
func (r *rig) pods() []core.Pod {
	r.t.Helper()
	list, err := r.client.CoreV1().Pods("default").List(background, meta.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return list.Items
}

// newContext is a context that ends when it is told to.
func newContext() (context.Context, context.CancelFunc) { return context.WithCancel(background) }
