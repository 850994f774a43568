package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/kube/admin"
	"github.com/norn-scheduler/norn/kube/deploy"
	"github.com/norn-scheduler/norn/kube/names"
)

// holdLease has somebody hold the Lease for some seconds.
func (r *rig) holdLease(who string, seconds int32) {
	r.t.Helper()
	now := meta.NowMicro()
	l := &coordination.Lease{
		ObjectMeta: meta.ObjectMeta{Namespace: "norn-system", Name: names.Lease},
		Spec:       coordination.LeaseSpec{HolderIdentity: &who, RenewTime: &now, LeaseDurationSeconds: &seconds},
	}
	if _, err := r.client.CoordinationV1().Leases("norn-system").Create(background, l, meta.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// TestUninstall: running Jobs end without Norn, waiting ones stay as they are or are made anew,
// and nothing of Norn is left.
func TestUninstall(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	r.install()
	r.define()
	r.queue("team", nil)
	r.job("runs", 2, 2, "60s", nil)
	r.until("it runs", func() bool { return len(r.kubelet.Running()) == 2 })
	r.job("waits", 1, 4, "10s", nil)
	r.until("the other one waits", func() bool { return r.state("default/waits") == api.Waiting })
	r.down()
	r.holdLease("somebody", 2)
	told := ""
	u := &admin.Uninstaller{
		Client: r.client, Config: r.env.Config(), Namespace: "norn-system", Patience: time.Nanosecond,
		Tell: func(format string, args ...any) { told += fmt.Sprintf(format+"\n", args...) },
	}
	if err := u.Uninstall(background); err == nil || !strings.Contains(err.Error(), "somebody still schedules the cluster") {
		t.Fatalf("beside a Norn that leads: %v", err)
	}
	u.Patience = time.Minute
	if err := u.Uninstall(background); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"removed Deployment norn-system/norn", "removed MutatingAdmissionPolicy norn-jobs", "handed back Job default/runs", "1 Queues stay", "1 Jobs stay suspended", "removed Namespace norn-system"} {
		if !strings.Contains(told, text) {
			t.Errorf("%q is not told:\n%s", text, told)
		}
	}
	jobs := r.client.BatchV1().Jobs("default")
	list, err := jobs.List(background, meta.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Fatal(list, err)
	}
	for _, j := range list.Items {
		if suspended := j.Spec.Suspend != nil && *j.Spec.Suspend; suspended != (j.Name == "waits") {
			t.Errorf("%s is suspended: %v", j.Name, suspended)
		}
		for _, name := range deploy.Own() {
			if _, there := j.Annotations[name]; there {
				t.Errorf("%s has still %s", j.Name, name)
			}
		}
	}
	if err := r.queues().Delete(background, "team", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	u.Resume = true
	if err := u.Uninstall(background); err != nil { // again
		t.Fatal(err)
	}
	j, err := jobs.Get(background, "waits", meta.GetOptions{})
	if err != nil || *j.Spec.Suspend || j.Spec.Template.Spec.SchedulerName != core.DefaultSchedulerName || j.Labels[names.Queue] != "team" {
		t.Errorf("%v: %+v", err, j)
	}
	r.until("the other scheduler is asked", func() bool {
		return slices.ContainsFunc(r.pods(), func(p core.Pod) bool {
			return p.Labels[batch.JobNameLabel] == "waits" && p.Spec.SchedulerName == core.DefaultSchedulerName
		})
	})
	r.until("the running Job ends", func() bool {
		j, err := jobs.Get(background, "runs", meta.GetOptions{})
		return err == nil && slices.ContainsFunc(j.Status.Conditions, func(c batch.JobCondition) bool { return c.Type == batch.JobComplete && c.Status == core.ConditionTrue })
	})
	r.until("the namespace is gone", func() bool {
		_, err := r.client.CoreV1().Namespaces().Get(background, "norn-system", meta.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if err := jobs.Delete(background, "runs", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.until("it can be deleted", func() bool {
		_, err := jobs.Get(background, "runs", meta.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if _, err := r.queues().List(background, meta.ListOptions{}); err == nil {
		t.Error("the definition of Queues is still there")
	}
	if _, err := r.client.RbacV1().ClusterRoles().Get(background, "norn", meta.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the role: %v", err)
	}
}

// TestCheck: what would not work in a cluster is found.
func TestCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes, 10, nil)
	r.down()
	c := &admin.Checker{Client: r.client, Dynamic: r.opt.Dynamic, Namespace: "norn-system"}
	check := func(want ...admin.Finding) {
		t.Helper()
		found, err := c.Check(background)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !slices.ContainsFunc(found, func(f admin.Finding) bool {
				return f.Level == w.Level && f.About == w.About && strings.Contains(f.Text, w.Text)
			}) {
				t.Errorf("%+v is not found:\n%+v", w, found)
			}
		}
	}
	check(
		admin.Finding{Level: admin.OK, About: "version", Text: "Kubernetes v1.36"},
		admin.Finding{Level: admin.OK, About: "rights", Text: "you may do all that Norn does"},
		admin.Finding{Level: admin.OK, About: "nodes", Text: "8 GPUs of type A100 on 2 of 2 nodes"},
		admin.Finding{Level: admin.OK, About: "schedulers", Text: "no other scheduler"},
		admin.Finding{Level: admin.OK, About: "features", Text: "no feature gate is off"},
		admin.Finding{Level: admin.Hint, About: "admission", Text: "the policy norn-jobs or its binding is not there"},
		admin.Finding{Level: admin.Hint, About: "controllers", Text: "16 pods of Jobs a second"},
		admin.Finding{Level: admin.Hint, About: "leader", Text: "no Norn schedules"},
		admin.Finding{Level: admin.Hint, About: "queues", Text: "the kind Queue is not defined"},
	)
	r.install()
	r.define()
	r.queue("a", map[string]any{"guarantee": int64(100)})
	r.queue("b", map[string]any{"parent": "c"})
	r.holdLease("somebody", 600)
	foreign := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: "foreign"}, Spec: spec(1, 1)}
	foreign.Spec.SchedulerName, foreign.Spec.NodeName = "other", smallNodes[0].Name
	if _, err := r.client.CoreV1().Pods("default").Create(background, foreign, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.CoreV1().Nodes().Patch(background, smallNodes[1].Name, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	check(
		admin.Finding{Level: admin.OK, About: "nodes", Text: "4 GPUs of type A100 on 1 of 2 nodes"},
		admin.Finding{Level: admin.Hint, About: "nodes", Text: "node n-001 takes no new work: it is cordoned"},
		admin.Finding{Level: admin.Hint, About: "schedulers", Text: "other has 1 pods on nodes with GPUs, 1 of them with GPUs"},
		admin.Finding{Level: admin.OK, About: "admission", Text: "the policy norn-annotations is there"},
		admin.Finding{Level: admin.OK, About: "leader", Text: "somebody schedules this cluster"},
		admin.Finding{Level: admin.Wrong, About: "queues", Text: "jobs of Queue b wait: its parent c does not exist"},
		admin.Finding{Level: admin.Hint, About: "queues", Text: "Queues are guaranteed 100 GPUs together, the cluster has 4"},
		admin.Finding{Level: admin.OK, About: "queues", Text: "1 Queues are in force"},
	)
	c.Client, c.Namespace = r.user("ann"), "elsewhere"
	check(
		admin.Finding{Level: admin.Wrong, About: "rights", Text: "you may not create events, create leases"},
		admin.Finding{Level: admin.Hint, About: "nodes", Text: "cannot be looked at"},
		admin.Finding{Level: admin.Hint, About: "features", Text: "you may not read the metrics"},
	)
}
