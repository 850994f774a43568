package kinds

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
)

// Workload is an object that makes pods.
type Workload struct {
	convert.Owner
	Kind string

	Sets  []convert.Set // its pods, or those of each of its gangs; none where its child has the templates
	Gangs int32         // how many such gangs; 1 for all kinds but those with Kind.Gangs

	Suspend   bool   // what the spec says
	ManagedBy string // other than its own controller; empty: by that one
	Deadline  time.Duration
	Estimate  time.Duration // expected run time, at most Deadline; 0: not told
	State     convert.JobState

	Progress  float64       // share of its work that is done, by itself; -1: not told
	Remaining time.Duration // run time that is left, by itself; -1: not told
}

// Read reads an object. It fails on what no workload can be; the error names the object.
func (k *Kind) Read(of map[string]any, levels convert.Levels) (*Workload, error) {
	o := object(of)
	var meta struct {
		metav1.ObjectMeta `json:"metadata"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"metadata": o.at("metadata")}, &meta); err != nil {
		return nil, fmt.Errorf("%s: metadata: %w", k.Name, err)
	}
	w := &Workload{Owner: convert.OwnerOf(&meta.ObjectMeta), Kind: k.String(), Gangs: 1, State: k.end.state(o), Progress: -1, Remaining: -1}
	w.Suspend = k.Suspended(of)
	if k.managed != nil {
		if by := o.text(k.managed...); by != k.manager {
			w.ManagedBy = by
		}
	}
	if err := k.read(o, &meta.ObjectMeta, w, levels); err != nil {
		return nil, fmt.Errorf("%s %s: %w", k.Name, w.Key, err)
	}
	return w, nil
}

func (k *Kind) read(o object, meta *metav1.ObjectMeta, w *Workload, levels convert.Levels) (err error) {
	if k.deadline != nil {
		if n, told := integer(o.at(k.deadline...)); told {
			w.Deadline = convert.Bounded(n)
		}
	}
	if w.Estimate, err = convert.Estimate(meta.Annotations[names.Estimate], w.Deadline); err != nil {
		return err
	}
	if k.Gangs {
		if w.Gangs, err = o.number(1, "spec", "replicas"); err != nil {
			return err
		}
	}
	if n, told := integer(o.at("status", "trainerStatus", "progressPercentage")); told && n >= 0 && n <= 100 {
		w.Progress = float64(n) / 100
	}
	if n, told := integer(o.at("status", "trainerStatus", "estimatedRemainingSeconds")); told && n >= 0 {
		w.Remaining = convert.Bounded(n)
	}
	if k.sets == nil {
		return nil
	}
	parts, err := k.sets(o)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.count == 0 {
			continue
		}
		t, err := p.template.template()
		if err != nil {
			return role(p.role, err)
		}
		ask, err := convert.Pod(&t.Spec, convert.Both(meta.Labels, t.Labels), convert.Both(meta.Annotations, t.Annotations), levels)
		if err != nil {
			return role(p.role, err)
		}
		w.Sets = append(w.Sets, convert.Set{Role: p.role, Count: p.count, Ask: ask})
	}
	if len(w.Sets) == 0 {
		return fmt.Errorf("it makes no pods")
	}
	return nil
}

// role says of an error which pods it is about.
func role(name string, err error) error {
	if name == "" {
		return err
	}
	return fmt.Errorf("role %s: %w", name, err)
}

// Demand is the shape of the workload, or of each of its gangs.
func (w *Workload) Demand(types convert.Types) (job.Demand, error) {
	d, err := convert.Demand(w.Sets, types)
	if err != nil {
		return d, fmt.Errorf("%s: %w", w.Key, err)
	}
	return d, nil
}

// state reads where an object stands.
func (e *end) state(o object) convert.JobState {
	out := convert.JobState{Started: o.text("status", "startTime") != ""}
	conditions, _ := o.list("status", "conditions")
	for _, c := range conditions {
		if c.text("status") != "True" {
			continue
		}
		phase := convert.JobOpen
		switch c.text("type") {
		case "":
		case e.suspended:
			out.Suspended = true
		case e.complete:
			phase = convert.JobComplete
		case e.failed:
			phase = convert.JobFailed
			out.Why = strings.Trim(c.text("reason")+": "+c.text("message"), ": ")
		}
		out.Phase = max(out.Phase, phase)
	}
	if e.phase == nil {
		return out
	}
	text := o.text(e.phase...)
	out.Suspended = out.Suspended || e.asleep != "" && text == e.asleep
	out.Phase = max(out.Phase, e.phases[text])
	if ray := o.text("status", "jobStatus"); out.Phase == convert.JobComplete && (ray == "FAILED" || ray == "STOPPED") {
		out.Phase = convert.JobFailed // of a RayJob, whose deployment alone is complete
	}
	if out.Phase == convert.JobFailed && out.Why == "" {
		reason := cmp.Or(o.text("status", "reason"), o.text("status", "state", "reason"))
		out.Why = strings.Trim(reason+": "+cmp.Or(o.text("status", "message"), o.text("status", "state", "message")), ": ")
	}
	return out
}
