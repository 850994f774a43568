package fakekubelet

import (
	"context"
	"time"

	core "k8s.io/api/core/v1"
	kube "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// status is the status of a pod in a phase, of which all containers are in one state.
func (p *pod) status(phase core.PodPhase, ready bool, state core.ContainerState) *core.PodStatus {
	s := p.obj.Status.DeepCopy()
	s.Phase, s.ObservedGeneration = phase, p.obj.Generation
	if s.StartTime == nil {
		s.StartTime = &meta.Time{Time: time.Now()}
	}
	value := core.ConditionFalse
	if ready {
		value = core.ConditionTrue
	}
	reason := ""
	switch phase {
	case core.PodSucceeded:
		reason = "PodCompleted"
	case core.PodFailed:
		reason = "PodFailed"
	}
	set(s, core.PodInitialized, core.ConditionTrue, "")
	set(s, core.PodReady, value, reason)
	set(s, core.ContainersReady, value, reason)
	last := map[string]core.ContainerState{}
	for _, c := range s.ContainerStatuses {
		last[c.Name] = c.LastTerminationState
		if c.State.Terminated != nil {
			last[c.Name] = c.State
		}
	}
	s.ContainerStatuses = nil
	for i := range p.obj.Spec.Containers {
		c := &p.obj.Spec.Containers[i]
		s.ContainerStatuses = append(s.ContainerStatuses, core.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "none", Ready: ready, Started: &ready,
			RestartCount: p.restarts, State: state, LastTerminationState: last[c.Name],
			AllocatedResources: c.Resources.Requests, Resources: c.Resources.DeepCopy(),
		})
	}
	return s
}

// set sets a condition of a pod.
func set(s *core.PodStatus, kind core.PodConditionType, value core.ConditionStatus, reason string) {
	c := core.PodCondition{Type: kind, Status: value, Reason: reason, LastTransitionTime: meta.Now()}
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			if s.Conditions[i].Status == value {
				c.LastTransitionTime = s.Conditions[i].LastTransitionTime
			}
			s.Conditions[i] = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}

// runs is the status of a pod that runs.
func (p *pod) runs() *core.PodStatus {
	return p.status(core.PodRunning, true, core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: meta.Time{Time: p.began}}})
}

// backsOff is the status of a pod that failed and is to be started again.
func (p *pod) backsOff(code int32, message string) *core.PodStatus {
	s := p.status(core.PodRunning, false, core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
	for i := range s.ContainerStatuses {
		s.ContainerStatuses[i].LastTerminationState = p.exited(code, "", message)
	}
	return s
}

// over is the status of a pod that has ended.
func (p *pod) over(code int32, reason, message string) *core.PodStatus {
	phase := core.PodFailed
	if code == 0 {
		phase = core.PodSucceeded
	}
	return p.status(phase, false, p.exited(code, reason, message))
}

// exited is the state of a container that has ended.
func (p *pod) exited(code int32, reason, message string) core.ContainerState {
	if reason == "" {
		reason = "Error"
		if code == 0 {
			reason = "Completed"
		}
	}
	end := &core.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message, FinishedAt: meta.Now()}
	if !p.began.IsZero() {
		end.StartedAt = meta.Time{Time: p.began}
	}
	return core.ContainerState{Terminated: end}
}

// rejected is the status of a pod that its node does not take.
func (p *pod) rejected(no *refusal) *core.PodStatus {
	s := p.obj.Status.DeepCopy()
	s.Phase, s.Reason, s.Message, s.ObservedGeneration = core.PodFailed, no.reason, no.message, p.obj.Generation
	s.StartTime = &meta.Time{Time: time.Now()}
	return s
}

// started is when the API says that the first container of a pod began to run.
func (p *pod) started() time.Time {
	for _, c := range p.obj.Status.ContainerStatuses {
		if c.State.Running != nil {
			return c.State.Running.StartedAt.Time
		}
	}
	return time.Now()
}

// write is one write to the API about a pod.
type write struct {
	pod    *pod
	obj    *core.Pod       // the pod as it was seen
	status *core.PodStatus // nil: the pod is gone
}

// write writes what the API does not know yet of a pod, one thing at a time: first the
// last status, then that it is gone.
func (k *Kubelet) write(p *pod) {
	if p.busy || !p.node.up || p.deleted {
		return
	}
	switch {
	case p.want != p.wrote:
		if p.stale == p.obj.ResourceVersion {
			return // a newer version is on its way
		}
		k.enqueue(write{pod: p, obj: p.obj, status: p.want})
	case p.stage == ended && p.obj.DeletionTimestamp != nil:
		k.enqueue(write{pod: p, obj: p.obj})
	}
}

func (k *Kubelet) enqueue(w write) {
	w.pod.busy = true
	k.queue = append(k.queue, w)
}

// send makes the write. It returns the pod as it is then.
func (w write) send(ctx context.Context, client kubernetes.Interface) (*core.Pod, error) {
	pods := client.CoreV1().Pods(w.obj.Namespace)
	if w.status == nil {
		none := int64(0)
		return nil, pods.Delete(ctx, w.obj.Name, meta.DeleteOptions{
			GracePeriodSeconds: &none, Preconditions: &meta.Preconditions{UID: &w.obj.UID},
		})
	}
	changed := *w.obj // what is shared is not changed
	changed.Status = *w.status
	return pods.UpdateStatus(ctx, &changed, meta.UpdateOptions{})
}

// retry is the real time after which a write is tried again that met an error of the API
// server.
const retry = 100 * time.Millisecond

// written goes on after a write.
func (k *Kubelet) written(w write, after *core.Pod, err error) {
	p := w.pod
	p.busy = false
	switch {
	case err == nil && w.status == nil:
		p.deleted = true
	case err == nil:
		p.wrote = w.status
		if after.UID == p.obj.UID && older(p.obj, after) {
			p.obj = after
		}
	case kube.IsNotFound(err), kube.IsConflict(err) && w.status == nil: // gone, or another pod has its name
		if k.pods[p.obj.UID] == p {
			k.forget(p)
		}
		return
	case kube.IsConflict(err):
		p.stale = w.obj.ResourceVersion
	default:
		time.AfterFunc(retry, func() { k.post(func() { k.write(p) }) })
		return
	}
	k.write(p)
}
