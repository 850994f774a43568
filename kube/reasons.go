package kube

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/names"
)

// Why a job waits is told in the cluster, too: as an Event of a Job, and as the condition
// PodScheduled of a bare pod, which is where kubectl describe and autoscalers look.
const (
	reasonsEvery = 5 * time.Second
	reasonAfter  = 10 * time.Second // of waiting
	reasonAgain  = time.Minute      // before another one is told of the same job
	reasonsMost  = 10 * int(reasonsEvery/time.Second)
)

// reason is what was last told of why a job waits.
type reason struct {
	text string
	at   time.Duration
}

// tellReasons tells why jobs wait, of those first of which it was told longest ago.
func (d looker) tellReasons() {
	var due []*entry
	for j := range d.All() {
		l, r := d.entries[j.Key], d.State().Record(j.ID)
		if r.Phase != job.Waiting && r.Phase != job.Held || d.Loop.Now()-r.Since < reasonAfter {
			continue
		}
		if l.reason.text == "" || d.Loop.Now()-l.reason.at >= reasonAgain {
			due = append(due, l)
		}
	}
	slices.SortStableFunc(due, func(a, b *entry) int { return int(a.reason.at - b.reason.at) })
	for _, l := range due[:min(len(due), reasonsMost)] {
		text := d.View(&l.Job).Reason
		if text == "" || text == l.reason.text {
			continue
		}
		l.reason = reason{text, d.Loop.Now()}
		d.tellReason(l, text)
	}
}

// tellReason tells why one job waits.
func (d looker) tellReason(l *entry, text string) {
	var pod *core.Pod
	if l.kind != aJob {
		s := d.view.see(l.Key)
		if s == nil || len(s.pods) == 0 {
			return
		}
		pod = s.pods[0]
		d.tellGroup(l, s.pods, text)
	}
	d.Loop.Act(&l.Lane, func() {
		var err error
		if pod != nil {
			err = d.write.unschedulable(pod, text)
		} else {
			err = d.write.event(l, text)
		}
		if err != nil {
			d.opt.Log.Debug("why a job waits cannot be told", "job", l.Key, "error", err)
		}
	})
}

// unschedulable says on a pod why it is not bound.
func (w *writer) unschedulable(p *core.Pod, text string) error {
	type condition struct {
		Type    string    `json:"type"`
		Status  string    `json:"status"`
		Reason  string    `json:"reason"`
		Message string    `json:"message"`
		At      meta.Time `json:"lastTransitionTime"`
	}
	var body struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
		Status struct {
			Conditions []condition `json:"conditions"`
		} `json:"status"`
	}
	body.Metadata.UID = p.UID
	at := meta.Now()
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodScheduled && c.Status == core.ConditionFalse {
			at = c.LastTransitionTime
		}
	}
	body.Status.Conditions = []condition{{string(core.PodScheduled), "False", core.PodReasonUnschedulable, text, at}}
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return w.do(func(ctx context.Context) error {
		_, err := w.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, b, meta.PatchOptions{}, "status")
		return err
	})
}

// event says of a Job why it waits.
func (w *writer) event(l *entry, text string) error {
	now := meta.Now()
	kind, version := "Job", "batch/v1"
	if l.of != nil {
		kind, version = l.of.Name, l.of.APIVersion()
	}
	ev := &core.Event{
		ObjectMeta:     meta.ObjectMeta{Namespace: l.namespace, GenerateName: l.name + "."},
		InvolvedObject: core.ObjectReference{Kind: kind, APIVersion: version, Namespace: l.namespace, Name: l.name, UID: l.uid},
		Reason:         "Waiting", Message: text, Type: core.EventTypeNormal, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: core.EventSource{Component: names.Scheduler}, ReportingController: names.Group + "/" + names.Scheduler,
	}
	return w.do(func(ctx context.Context) error {
		_, err := w.client.CoreV1().Events(l.namespace).Create(ctx, ev, meta.CreateOptions{})
		return err
	})
}
