package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/norn-scheduler/norn/kube/names"
)

// writer writes to the API, so many things at a time, with a precondition on each, and
// never when another process may lead.
type writer struct {
	ctx     context.Context
	client  kubernetes.Interface
	extra   dynamic.Interface // for owners of other kinds
	free    chan struct{}     // room for one more write
	leads   func() bool
	timeout time.Duration // of a write: it must not arrive when another process leads
	log     *slog.Logger

	counts [outcomes]atomic.Int64
}

// outcome is what came of a write.
type outcome int

const (
	written   outcome = iota
	conflicts         // somebody else had changed the object
	retries           // the server was too busy, or could not be reached
	refused           // the server would not have it
	outcomes
)

var outcomeNames = [outcomes]string{"written", "conflict", "retried", "refused"}

// report logs how many writes came to what.
func (w *writer) report() {
	var args []any
	for i, name := range outcomeNames {
		args = append(args, name, w.counts[i].Load())
	}
	w.log.Info("norn has written to the API server", args...)
}

// errFollows is the error of a write that is not tried: another process may lead.
var errFollows = errors.New("this norn does not lead any more")

// errOvertaken is the error of a Norn that finds what another one has decided since it led.
var errOvertaken = fmt.Errorf("%w: another one has launched it since", errFollows)

// errConflict is the error of a write to an object that is not as it was when the write
// was decided.
var errConflict = errors.New("the object has changed")

// doubt is how long a server is doubted that says that Norn may not write: for a moment after
// its start it does not know yet who may do what.
const doubt = 5 * time.Second

// do carries out a write, again and again as long as the server is only busy.
func (w *writer) do(f func(ctx context.Context) error) error {
	first := time.Now()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := w.once(f)
		switch {
		case err == nil:
			w.counts[written].Add(1)
			return nil
		case errors.Is(err, errFollows) || w.ctx.Err() != nil:
			return errFollows
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err):
			w.counts[conflicts].Add(1)
			return fmt.Errorf("%w: %w", errConflict, err)
		case (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) && time.Since(first) < doubt:
		case !transient(err):
			w.counts[refused].Add(1)
			return err
		}
		w.counts[retries].Add(1)
		if s, told := apierrors.SuggestsClientDelay(err); told {
			wait = max(wait, time.Duration(s)*time.Second)
		}
		select {
		case <-time.After(wait):
		case <-w.ctx.Done():
			return errFollows
		}
	}
}

// ended tells whether nothing is written any more.
func (w *writer) ended() bool { return w.ctx.Err() != nil || !w.leads() }

func (w *writer) once(f func(ctx context.Context) error) error {
	select {
	case w.free <- struct{}{}:
	case <-w.ctx.Done():
		return errFollows
	}
	defer func() { <-w.free }()
	if !w.leads() {
		return errFollows
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.timeout)
	defer cancel()
	return f(ctx)
}

// transient tells whether a write that failed may succeed later as it is. An error that is
// no answer of the server is one: nobody knows whether the write happened.
func transient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || status.Status().Code >= 500
}

// binding is a pod that is to be put on a node.
type binding struct {
	namespace, pod string
	uid            types.UID
	node, devices  string
	run            int
}

// bind puts pods on their nodes, all of them at a time. It returns what went wrong with
// each, if anything did.
func (w *writer) bind(all []binding) []error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() { errs[i] = w.bindOne(&all[i]) })
	}
	group.Wait()
	return errs
}

func (w *writer) bindOne(b *binding) error {
	note := map[string]string{names.Run: strconv.Itoa(b.run)}
	if b.devices != "" {
		note[names.Devices] = b.devices
	}
	err := w.do(func(ctx context.Context) error {
		return w.client.CoreV1().Pods(b.namespace).Bind(ctx, &core.Binding{
			ObjectMeta: meta.ObjectMeta{Namespace: b.namespace, Name: b.pod, UID: b.uid, Annotations: note},
			Target:     core.ObjectReference{Kind: "Node", Name: b.node},
		}, meta.CreateOptions{})
	})
	if err != nil {
		return fmt.Errorf("pod %s/%s cannot be bound to node %s: %w", b.namespace, b.pod, b.node, err)
	}
	return nil
}

// patch is a change of an object: of annotations (nil removes one), of whether it is
// suspended, and of its size.
type patch struct {
	annotations map[string]*string
	suspend     *bool
	size        int       // pods of a batch/v1 Job that is resumed; 0: as many as it has
	of          ownerKind // of a Job of another kind
	version     string    // that the object must have; empty: any
	uid         types.UID
}

// metadata is what a patch says of the metadata of its object: what it must be, and what changes.
type metadata struct {
	UID         types.UID          `json:"uid,omitempty"`
	Version     string             `json:"resourceVersion,omitempty"`
	Annotations map[string]*string `json:"annotations,omitempty"`
}

func (p *patch) json() []byte {
	out := map[string]any{}
	switch {
	case p.suspend != nil && p.of != nil:
		out = p.of.Patch(*p.suspend)
	case p.suspend != nil:
		spec := map[string]any{"suspend": *p.suspend}
		if p.size > 0 {
			spec["parallelism"], spec["completions"] = p.size, p.size
		}
		out["spec"] = spec
	}
	out["metadata"] = metadata{p.uid, p.version, p.annotations}
	b, err := json.Marshal(out)
	if err != nil { // strings alone
		panic(err)
	}
	return b
}

// patchOwner changes the owner of a job.
func (w *writer) patchOwner(namespace, name string, p *patch) error {
	err := w.do(func(ctx context.Context) (err error) {
		if p.of != nil {
			_, err = w.extra.Resource(resourceOf(p.of)).Namespace(namespace).Patch(ctx, name, types.MergePatchType, p.json(), meta.PatchOptions{})
		} else {
			_, err = w.client.BatchV1().Jobs(namespace).Patch(ctx, name, types.MergePatchType, p.json(), meta.PatchOptions{})
		}
		return err
	})
	if err != nil {
		what := "job"
		if p.of != nil {
			what = p.of.Name
		}
		return fmt.Errorf("%s %s/%s: %w", what, namespace, name, err)
	}
	return nil
}

// status writes the status of an object of a kind that a cluster need not have.
func (w *writer) status(kind schema.GroupVersionResource, namespace, name string, of metadata, status any) error {
	body, err := json.Marshal(map[string]any{"metadata": of, "status": status})
	if err != nil {
		return err
	}
	return w.do(func(ctx context.Context) error {
		_, err := w.extra.Resource(kind).Namespace(namespace).Patch(ctx, name, types.MergePatchType, body, meta.PatchOptions{}, "status")
		return err
	})
}

// patchPod changes a pod.
func (w *writer) patchPod(namespace, name string, p *patch) error {
	err := w.do(func(ctx context.Context) error {
		_, err := w.client.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, p.json(), meta.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", namespace, name, err)
	}
	return nil
}

// remove deletes a pod. grace is in seconds; nil: as the pod says.
func (w *writer) remove(namespace, name string, uid types.UID, grace *int64) error {
	err := w.do(func(ctx context.Context) error {
		return w.client.CoreV1().Pods(namespace).Delete(ctx, name, meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &uid}, GracePeriodSeconds: grace})
	})
	if err != nil && !errors.Is(err, errConflict) {
		return fmt.Errorf("pod %s/%s cannot be deleted: %w", namespace, name, err)
	}
	return nil
}
