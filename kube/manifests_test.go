package kube_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/deploy"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
	"github.com/norn-scheduler/norn/kube/internal/watch"
	"github.com/norn-scheduler/norn/kube/kinds"
	"github.com/norn-scheduler/norn/kube/names"
)

const account = "system:serviceaccount:norn-system:norn"

// install applies the manifests, and waits until the admission policies are obeyed.
func (r *rig) install() {
	r.t.Helper()
	text, err := deploy.Manifests(deploy.Default())
	if err != nil {
		r.t.Fatal(err)
	}
	r.apply(text)
	r.until("Jobs are made suspended", func() bool {
		j, err := r.client.BatchV1().Jobs("default").Create(background, plainJob("probe"), meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
		return err == nil && j.Spec.Suspend != nil && *j.Spec.Suspend
	})
	nodes, err := r.client.CoreV1().Nodes().List(background, meta.ListOptions{Limit: 1})
	if err != nil || len(nodes.Items) == 0 {
		r.t.Fatalf("%d nodes, %v", len(nodes.Items), err)
	}
	norn := r.as(account, "system:serviceaccounts").CoreV1().Nodes()
	// The server takes up policies in the order in which they are made: this is the last.
	r.until("Norn may not label nodes", func() bool {
		_, err := norn.Patch(background, nodes.Items[0].Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"probe":"x"}}}`), meta.PatchOptions{DryRun: []string{meta.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "Norn may cordon nodes")
	})
}

// apply applies manifests as kubectl apply --server-side does.
func (r *rig) apply(text string) {
	r.t.Helper()
	all, err := deploy.Objects(text)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := r.env.Config()
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(r.client.Discovery())
	if err != nil {
		r.t.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for _, u := range all {
		m, err := mapper.RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
		if err != nil {
			r.t.Fatal(err)
		}
		if u.GetNamespace() == "" && m.Scope.Name() == "namespace" {
			u.SetNamespace("default")
		}
		in := client.Resource(m.Resource).Namespace(u.GetNamespace())
		if _, err := in.Apply(background, u.GetName(), u, meta.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			r.t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}

// plainJob is a Job with the label of a queue, and nothing else for Norn.
func plainJob(name string) *batch.Job {
	s := spec(1, 1)
	s.SchedulerName = ""
	return &batch.Job{
		ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{names.Queue: "team"}},
		Spec:       batch.JobSpec{Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Annotations: map[string]string{fakekubelet.RunTime: "5s"}}, Spec: s}},
	}
}

// user is a client of somebody who may make Jobs and pods, and nothing else.
func (r *rig) user(name string) kubernetes.Interface {
	r.t.Helper()
	role := &rbac.ClusterRole{ObjectMeta: meta.ObjectMeta{Name: name}, Rules: []rbac.PolicyRule{
		{APIGroups: []string{"", "batch"}, Resources: []string{"pods", "jobs"}, Verbs: []string{"*"}},
	}}
	if _, err := r.client.RbacV1().ClusterRoles().Create(background, role, meta.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	bind := &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: name}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbac.Subject{{APIGroup: rbac.GroupName, Kind: "User", Name: name}},
	}
	if _, err := r.client.RbacV1().ClusterRoleBindings().Create(background, bind, meta.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	return r.as(name)
}

func (r *rig) as(name string, groups ...string) kubernetes.Interface {
	r.t.Helper()
	cfg, err := r.env.As(name, groups...)
	if err != nil {
		r.t.Fatal(err)
	}
	client, err := kube.Client(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return client
}

// TestManifests: an API server takes the manifests. With the rights that they give, and no
// more, Norn does all that it does, and each of the rights is used.
func TestManifests(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil, append(withGroups(), testenv.Audit("Metadata"))...)
	r.down()
	r.install()
	r.opt.Client, r.opt.Dynamic = r.as(account, "system:serviceaccounts", "system:authenticated"), r.extraAs(account, "system:serviceaccounts", "system:authenticated")
	e := &kube.Election{Client: r.opt.Client, Namespace: "norn-system", Identity: "me"}
	led := false
	err := e.Lead(background, func(context.Context, time.Time, func() bool) error {
		led = true
		return nil
	})
	if err != nil || !led {
		t.Fatalf("led %v, %v", led, err)
	}
	r.up()
	r.rightsAreUsed()
	writes, err := watch.Audit(r.env.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, w := range watch.By(writes, account) {
		used[w.Kind()] = true
		if w.Code == 401 || w.Code == 403 {
			t.Errorf("%s %s/%s was answered %d", w.Kind(), w.Namespace, w.Name, w.Code)
		}
	}
	role, err := r.client.RbacV1().ClusterRoles().Get(background, "norn", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]bool{"create leases.coordination.k8s.io": true, "update leases.coordination.k8s.io": true}
	others := map[string]bool{} // whose objects TestOwners has Norn write
	for _, k := range kinds.All() {
		others[k.Group] = true
	}
	for _, rule := range role.Rules {
		if others[rule.APIGroups[0]] {
			continue
		}
		for _, verb := range rule.Verbs {
			resource, sub, has := strings.Cut(rule.Resources[0], "/")
			if g := rule.APIGroups[0]; g != "" {
				resource += "." + g
			}
			if has {
				resource += "/" + sub
			}
			if !slices.Contains([]string{"get", "list", "watch", "operate"}, verb) {
				given[verb+" "+resource] = true
			}
		}
	}
	if !maps.Equal(used, given) {
		t.Errorf("rights that are used: %v\nthat are given: %v", slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(given)))
	}
}

// extraAs is a client for kinds that not every cluster has.
func (r *rig) extraAs(name string, groups ...string) dynamic.Interface {
	r.t.Helper()
	cfg, err := r.env.As(name, groups...)
	if err != nil {
		r.t.Fatal(err)
	}
	client, err := kube.Dynamic(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return client
}

// rightsAreUsed has Norn write all that it ever writes.
func (r *rig) rightsAreUsed() {
	t := r.t
	r.queue("team", nil)
	r.group(nativeGroups, "gang", gang(2))
	r.grouped("gang", 0, 2, 1, "5s")
	r.until("the gang is done", func() bool { return r.state("default/gang/gang") == api.Done })
	r.job("runs", 1, 4, "10000s", nil)
	r.until("it runs", func() bool { return len(r.kubelet.Running()) == 1 })
	r.job("waits", 1, 4, "10000s", nil)
	r.pod("idle", 1, "10000s", nil)
	r.until("it is told why they wait", func() bool {
		events, err := r.client.CoreV1().Events("default").List(background, meta.ListOptions{})
		p, perr := r.client.CoreV1().Pods("default").Get(background, "idle", meta.GetOptions{})
		return err == nil && perr == nil && slices.ContainsFunc(events.Items, func(e core.Event) bool { return e.Reason == "Waiting" && e.InvolvedObject.Name == "waits" }) &&
			slices.ContainsFunc(p.Status.Conditions, func(c core.PodCondition) bool { return c.Reason == core.PodReasonUnschedulable })
	})
	for _, id := range []string{"default/waits", "default/pod/idle", "default/runs"} {
		if err := r.Do(background, me, server.Cancel, id); err != nil {
			t.Fatal(err)
		}
	}
	r.until("their objects are gone", func() bool {
		jobs, err := r.client.BatchV1().Jobs("default").List(background, meta.ListOptions{})
		_, perr := r.client.CoreV1().Pods("default").Get(background, "idle", meta.GetOptions{})
		return err == nil && len(jobs.Items) == 0 && apierrors.IsNotFound(perr)
	})
	if c, err := kube.NewGate(r.Daemon, r.opt.Client).Authenticate(background, r.token("somebody", "default", names.Audience)); err != nil || c.Operator {
		t.Errorf("%+v, %v", c, err)
	}
	if err := r.Drain(background, me, api.Drain{Devices: []string{smallNodes[0].Name}}); err != nil {
		t.Fatal(err)
	}
	r.reclaim(api.Reclaim{Devices: []string{smallNodes[0].Name}})
}

// TestAdmission: what the admission policies do, and what they refuse.
func TestAdmission(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	r.install()
	ann := r.user("ann")
	jobs := ann.BatchV1().Jobs("default")
	made, err := jobs.Create(background, plainJob("plain"), meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := made.Spec; s.Suspend == nil || !*s.Suspend || s.Template.Spec.SchedulerName != names.Scheduler {
		t.Errorf("a Job with a queue is made as %+v", s)
	}
	r.until("it is done", func() bool { return r.state("default/plain") == api.Done }) // Norn itself may write
	for name, change := range map[string]func(*batch.Job){
		"without a queue":   func(j *batch.Job) { j.Labels = nil },
		"another scheduler": func(j *batch.Job) { j.Spec.Template.Spec.SchedulerName = "other" },
		"another manager":   func(j *batch.Job) { s := "example.com/other"; j.Spec.ManagedBy = &s },
	} {
		j := plainJob("x")
		change(j)
		got, err := jobs.Create(background, j, meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
		if err != nil || got.Spec.Suspend != nil && *got.Spec.Suspend || got.Spec.Template.Spec.SchedulerName == names.Scheduler {
			t.Errorf("%s: %v, %+v", name, err, got.Spec)
		}
	}
	for name, change := range map[string]func(*batch.Job){
		"a record":       func(j *batch.Job) { j.Annotations = map[string]string{names.Record: "{}"} },
		"a run":          func(j *batch.Job) { j.Annotations = map[string]string{names.Run: "7"} },
		"a run of a pod": func(j *batch.Job) { j.Spec.Template.Annotations = map[string]string{names.Run: "7"} },
	} {
		j := plainJob("x")
		change(j)
		if _, err := jobs.Create(background, j, meta.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Norn alone") {
			t.Errorf("a user writes %s: %v", name, err)
		}
	}
	for body, refused := range map[string]bool{
		`{"metadata":{"annotations":{"` + names.Record + `":null}}}`:   true,
		`{"metadata":{"annotations":{"` + names.Run + `":"9"}}}`:       true,
		`{"metadata":{"annotations":{"` + names.Estimate + `":"1h"}}}`: false,
		`{"metadata":{"labels":{"` + names.Stop + `":"checkpoint"}}}`:  false,
	} {
		_, err := jobs.Patch(background, "plain", types.MergePatchType, []byte(body), meta.PatchOptions{})
		if refused != apierrors.IsForbidden(err) || !refused && err != nil {
			t.Errorf("a user writes %s: %v", body, err)
		}
	}
	nodes := r.as(account, "system:serviceaccounts").CoreV1().Nodes()
	if _, err := r.client.CoreV1().Nodes().Patch(background, smallNodes[0].Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"there":"1"}}}`), meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for body, refused := range map[string]bool{
		`{"metadata":{"labels":{"a":"b"}}}`: true, `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`: true, `{"spec":{"unschedulable":true}}`: false,
		`{"metadata":{"annotations":{"new":"1"}}}`: true, `{"metadata":{"annotations":{"there":"2"}}}`: true, `{"metadata":{"annotations":{"there":null}}}`: true,
		`{"metadata":{"annotations":{"` + names.Reclaimed + `":"now"}}}`: false, `{"metadata":{"annotations":{"` + names.Reclaimed + `":null}}}`: false,
	} {
		_, err := nodes.Patch(background, smallNodes[0].Name, types.MergePatchType, []byte(body), meta.PatchOptions{})
		if refused != apierrors.IsForbidden(err) && !(refused && apierrors.IsInvalid(err)) || !refused && err != nil {
			t.Errorf("Norn writes %s on a node: %v", body, err)
		}
	}
}
