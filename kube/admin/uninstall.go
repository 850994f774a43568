package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/norn-scheduler/norn/kube/deploy"
	"github.com/norn-scheduler/norn/kube/kinds"
	"github.com/norn-scheduler/norn/kube/names"
)

// Uninstaller takes Norn out of a cluster. Jobs that run go on, and end.
type Uninstaller struct {
	Client    kubernetes.Interface
	Config    *rest.Config
	Namespace string
	Resume    bool                             // Jobs that wait are made anew, for kube-scheduler
	Patience  time.Duration                    // with a Norn that ends; 0: 1 minute
	Tell      func(format string, args ...any) // what was done
}

// Uninstall ends Norn, hands Jobs back, and removes what the manifests made. It may be called
// again after it has failed.
func (u *Uninstaller) Uninstall(ctx context.Context) error {
	s := deploy.Default()
	s.Namespace = u.Namespace
	text, err := deploy.Manifests(s)
	if err != nil {
		return err
	}
	all, err := deploy.Objects(text)
	if err != nil {
		return err
	}
	removed := func(what string) { u.Tell("removed %s", what) }
	client, err := dynamic.NewForConfig(u.Config)
	if err != nil {
		return err
	}
	queues, err := keepsQueues(ctx, client)
	if err != nil {
		return err
	}
	var first, rest []*unstructured.Unstructured // the policies would have Jobs made anew wait
	for _, o := range all {
		switch {
		case o.GetKind() == "Deployment" || strings.Contains(o.GetKind(), "AdmissionPolicy"):
			first = append(first, o)
		case o.GetKind() == "CustomResourceDefinition" && queues > 0:
			u.Tell("%d Queues stay, and with them their definition: kubectl delete crd %s removes both", queues, o.GetName())
		default:
			rest = append(rest, o)
		}
	}
	if err := deploy.Remove(ctx, u.Config, first, removed); err != nil {
		return err
	}
	if err := u.awaitEnd(ctx); err != nil {
		return err
	}
	if err := u.jobs(ctx); err != nil {
		return err
	}
	if err := u.owners(ctx, client); err != nil {
		return err
	}
	if err := u.pods(ctx); err != nil {
		return err
	}
	err = u.Client.CoordinationV1().Leases(u.Namespace).Delete(ctx, names.Lease, meta.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("lease %s/%s: %w", u.Namespace, names.Lease, err)
	}
	return deploy.Remove(ctx, u.Config, rest, removed)
}

// awaitEnd waits until no Norn leads.
func (u *Uninstaller) awaitEnd(ctx context.Context) error {
	patience := u.Patience
	if patience == 0 {
		patience = time.Minute
	}
	for deadline := time.Now().Add(patience); ; {
		who, _, err := leader(ctx, u.Client, u.Namespace)
		if err != nil || who == "" {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s still schedules the cluster: end it first (norn kube up?), then call this again", who)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// jobs hands all Jobs back.
func (u *Uninstaller) jobs(ctx context.Context) error {
	waiting := 0
	err := pages(func(o meta.ListOptions) (string, error) {
		list, err := u.Client.BatchV1().Jobs("").List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			j := &list.Items[i]
			mine := j.Labels[names.Queue] != "" || j.Spec.Template.Spec.SchedulerName == names.Scheduler
			waits := mine && j.DeletionTimestamp == nil && j.Spec.Suspend != nil && *j.Spec.Suspend
			if waits && u.Resume {
				if err := u.anew(ctx, j); err != nil {
					return "", err
				}
				continue
			}
			if waits {
				waiting++
			}
			if body := without(j.Annotations); body != nil {
				_, err := u.Client.BatchV1().Jobs(j.Namespace).Patch(ctx, j.Name, types.MergePatchType, body, meta.PatchOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					return "", fmt.Errorf("job %s/%s: %w", j.Namespace, j.Name, err)
				}
				u.Tell("handed back Job %s/%s", j.Namespace, j.Name)
			}
		}
		return list.Continue, nil
	})
	if waiting > 0 {
		u.Tell("%d Jobs stay suspended; --resume would have made them anew for kube-scheduler", waiting)
	}
	return err
}

// anew makes a suspended Job again, for the default scheduler: the scheduler of a Job's pods
// cannot be changed. The work of its pods is lost, as it is with Norn.
func (u *Uninstaller) anew(ctx context.Context, j *batch.Job) error {
	bad := func(err error) error {
		return fmt.Errorf("job %s/%s cannot be made anew: %w", j.Namespace, j.Name, err)
	}
	next := renewed(j)
	probe := next.DeepCopy()
	probe.Name, probe.GenerateName = "", "norn-probe-"
	jobs := u.Client.BatchV1().Jobs(j.Namespace)
	for { // API servers know after a moment that the policies are gone
		made, err := jobs.Create(ctx, probe, meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
		if err != nil {
			return bad(err)
		}
		if made.Spec.Suspend == nil || !*made.Spec.Suspend {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return bad(err)
		}
	}
	foreground := meta.DeletePropagationForeground
	err := jobs.Delete(ctx, j.Name, meta.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &meta.Preconditions{UID: &j.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return bad(err)
	}
	for { // its pods leave first
		_, err := jobs.Create(ctx, next, meta.CreateOptions{})
		if err == nil {
			u.Tell("made Job %s/%s anew, for the default scheduler", j.Namespace, j.Name)
			return nil
		}
		if apierrors.IsAlreadyExists(err) {
			err = pause(ctx, 100*time.Millisecond)
		}
		if err != nil {
			text, _ := json.Marshal(next) // of strings and numbers
			return bad(fmt.Errorf("%w; it was deleted, and here it is for kubectl create -f: %s", err, text))
		}
	}
}

// pause waits for a while.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// renewed is a Job as its user would make it for the default scheduler.
func renewed(j *batch.Job) *batch.Job {
	out := &batch.Job{TypeMeta: meta.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, Spec: *j.Spec.DeepCopy()}
	m := j.ObjectMeta.DeepCopy()
	out.ObjectMeta = meta.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels, Annotations: m.Annotations, OwnerReferences: m.OwnerReferences}
	for _, name := range deploy.Own() {
		delete(out.Annotations, name)
	}
	off := false
	out.Spec.Suspend, out.Spec.Template.Spec.SchedulerName = &off, core.DefaultSchedulerName
	if j.Spec.ManualSelector == nil || !*j.Spec.ManualSelector {
		out.Spec.Selector = nil
		for _, of := range []map[string]string{out.Labels, out.Spec.Template.Labels} {
			for _, name := range []string{"controller-uid", "job-name", batch.ControllerUidLabel, batch.JobNameLabel} {
				delete(of, name)
			}
		}
	}
	return out
}

// owners removes annotations of Norn from objects of other kinds, and tells how many wait.
func (u *Uninstaller) owners(ctx context.Context, client dynamic.Interface) error {
	waiting := 0
	for _, k := range kinds.All() {
		if !k.Suspends() {
			continue
		}
		at := client.Resource(schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Plural})
		err := pages(func(o meta.ListOptions) (string, error) {
			list, err := at.List(ctx, o)
			if apierrors.IsNotFound(err) { // there is no such kind
				return "", nil
			}
			if err != nil {
				return "", err
			}
			for i := range list.Items {
				w := &list.Items[i]
				if w.GetLabels()[names.Queue] != "" && k.Suspended(w.Object) {
					waiting++
				}
				if body := without(w.GetAnnotations()); body != nil {
					_, err := at.Namespace(w.GetNamespace()).Patch(ctx, w.GetName(), types.MergePatchType, body, meta.PatchOptions{})
					if err != nil && !apierrors.IsNotFound(err) {
						return "", fmt.Errorf("%s %s/%s: %w", k.Name, w.GetNamespace(), w.GetName(), err)
					}
					u.Tell("handed back %s %s/%s", k.Name, w.GetNamespace(), w.GetName())
				}
			}
			return list.GetContinue(), nil
		})
		if err != nil {
			return err
		}
	}
	if waiting > 0 {
		u.Tell("%d objects of other kinds stay suspended", waiting)
	}
	return nil
}

// pods removes annotations of Norn from pods, and tells how many wait for it.
func (u *Uninstaller) pods(ctx context.Context) error {
	waiting := 0
	err := pages(func(o meta.ListOptions) (string, error) {
		list, err := u.Client.CoreV1().Pods("").List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			p := &list.Items[i]
			if p.Spec.SchedulerName == names.Scheduler && p.Spec.NodeName == "" {
				waiting++
			}
			if body := without(p.Annotations); body != nil {
				_, err := u.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, body, meta.PatchOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					return "", fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
				}
			}
		}
		return list.Continue, nil
	})
	if waiting > 0 {
		u.Tell("%d pods wait for schedulerName: %s, and for ever: make them anew without it", waiting, names.Scheduler)
	}
	return err
}

// pages calls f for each part of a long list.
func pages(f func(meta.ListOptions) (next string, err error)) error {
	for next := ""; ; {
		var err error
		if next, err = f(meta.ListOptions{Limit: 500, Continue: next}); err != nil || next == "" {
			return err
		}
	}
}

// without is the patch that removes Norn's annotations, or nil where there are none.
func without(annotations map[string]string) []byte {
	gone := map[string]any{}
	for _, name := range deploy.Own() {
		if _, there := annotations[name]; there {
			gone[name] = nil
		}
	}
	if len(gone) == 0 {
		return nil
	}
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": gone}})
	if err != nil { // strings alone
		return nil
	}
	return b
}
