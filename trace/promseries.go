package trace

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/internal/kubelist"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// promPod is a pod of which series tell.
type promPod struct {
	pod
	created, started, startTime, scheduled, completed float64 // seconds since 1970; 0: not told

	phaseAt    float64 // of the last sample that tells its phase
	phaseSince float64 // of the first one with the phase that it had last
	containers map[string]*podContainer
	init       map[string]*podContainer
}

// promLabels are the labels of pods and nodes that matter, by what kube-state-metrics
// makes of their names.
var promLabels = func() map[string]string {
	out := map[string]string{}
	for _, name := range podmap.Labels() {
		out[podmap.MetricLabel(name)] = name
	}
	return out
}()

// series takes what a series tells of a pod. Metrics that are not used are listed in
// Info.Ignored.
func (s *promSource) series(one *promSeries) {
	samples := one.Values
	if one.Value != nil {
		samples = append(samples, *one.Value)
	}
	if len(samples) == 0 {
		return
	}
	last := samples[len(samples)-1]
	m := one.Metric
	of := func(label string) string { return cmp.Or(m["exported_"+label], m[label]) } // where the labels of the target go first
	set, known := promMetrics[m["__name__"]]
	if !known || of("pod") == "" {
		if name := cmp.Or(m["__name__"], "(a series without a name)"); !slices.Contains(s.in.info.Ignored, name) {
			s.in.info.Ignored = append(s.in.info.Ignored, name)
		}
		return
	}
	s.now = max(s.now, last.at)
	set(s, s.podOf(of("namespace"), of("pod"), m["uid"]), m, of, samples, last.value)
}

// podOf is the pod of that name, which may be new.
func (s *promSource) podOf(namespace, name, uid string) *promPod {
	key := namespace + "/" + name + "/" + uid
	p := s.pods[key]
	if p == nil {
		p = &promPod{containers: map[string]*podContainer{}, init: map[string]*podContainer{}}
		p.Metadata.Namespace, p.Metadata.Name, p.Metadata.UID = namespace, name, uid
		p.Metadata.Labels, p.Metadata.Annotations, p.Spec.NodeSelector = map[string]string{}, map[string]string{}, map[string]string{}
		s.pods[key] = p
		s.order = append(s.order, p)
	}
	return p
}

// promSetter takes what a series of one metric tells. v is the last value.
type promSetter func(s *promSource, p *promPod, m map[string]string, of func(label string) string, samples []promSample, v float64)

// promMetrics are the metrics that are used. Each has a label namespace and pod, and uid
// since kube-state-metrics 2.
var promMetrics = map[string]promSetter{
	"kube_pod_created": func(_ *promSource, p *promPod, _ map[string]string, _ func(string) string, _ []promSample, v float64) {
		p.created = v
	},
	"kube_pod_start_time": func(_ *promSource, p *promPod, _ map[string]string, _ func(string) string, _ []promSample, v float64) {
		p.startTime = v
	},
	"kube_pod_status_scheduled_time": func(_ *promSource, p *promPod, _ map[string]string, _ func(string) string, _ []promSample, v float64) {
		p.scheduled = v
	},
	"kube_pod_completion_time": func(_ *promSource, p *promPod, _ map[string]string, _ func(string) string, _ []promSample, v float64) {
		p.completed = max(p.completed, v)
	},
	"kube_pod_container_state_started": func(_ *promSource, p *promPod, _ map[string]string, _ func(string) string, samples []promSample, _ float64) {
		for _, x := range samples { // a container that was started again tells a later time
			if x.value > 0 && (p.started == 0 || x.value < p.started) {
				p.started = x.value
			}
		}
	},
	"kube_pod_status_phase": func(s *promSource, p *promPod, _ map[string]string, of func(string) string, samples []promSample, _ float64) {
		s.phase(p, of("phase"), samples)
	},
	"kube_pod_status_qos_class": func(_ *promSource, p *promPod, _ map[string]string, of func(string) string, _ []promSample, v float64) {
		if v == 1 {
			p.Status.QoS = of("qos_class")
		}
	},
	"kube_pod_owner": func(_ *promSource, p *promPod, m map[string]string, _ func(string) string, _ []promSample, _ float64) {
		owner := podOwner{Kind: m["owner_kind"], Name: m["owner_name"], UID: m["owner_name"]} // there is no uid
		if owner.Kind != "" && owner.Kind != "<none>" && !slices.Contains(p.Metadata.Owners, owner) {
			p.Metadata.Owners = append(p.Metadata.Owners, owner)
		}
	},
	"kube_pod_labels": func(s *promSource, p *promPod, m map[string]string, _ func(string) string, _ []promSample, _ float64) {
		s.labels = true
		promNames(m, "label_", p.Metadata.Labels)
	},
	"kube_pod_annotations": func(_ *promSource, p *promPod, m map[string]string, _ func(string) string, _ []promSample, _ float64) {
		promNames(m, "annotation_", p.Metadata.Annotations)
	},
	"kube_pod_nodeselectors": func(_ *promSource, p *promPod, m map[string]string, _ func(string) string, _ []promSample, _ float64) {
		promNames(m, "nodeselector_", p.Spec.NodeSelector)
	},
	"kube_pod_tolerations": func(_ *promSource, p *promPod, m map[string]string, _ func(string) string, _ []promSample, _ float64) {
		one := podmap.Toleration{Key: m["key"], Operator: m["operator"], Value: m["value"], Effect: m["effect"]}
		if !slices.Contains(p.Spec.Tolerations, one) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, one)
		}
	},
	"kube_pod_container_resource_requests": func(_ *promSource, p *promPod, _ map[string]string, of func(string) string, samples []promSample, _ float64) {
		promAmount(p.containers, of, samples, false)
	},
	"kube_pod_container_resource_limits": func(_ *promSource, p *promPod, _ map[string]string, of func(string) string, samples []promSample, _ float64) {
		promAmount(p.containers, of, samples, true)
	},
	"kube_pod_init_container_resource_requests": func(_ *promSource, p *promPod, _ map[string]string, of func(string) string, samples []promSample, _ float64) {
		promAmount(p.init, of, samples, false)
	},
	"kube_pod_init_container_resource_limits": func(_ *promSource, p *promPod, _ map[string]string, of func(string) string, samples []promSample, _ float64) {
		promAmount(p.init, of, samples, true)
	},
}

// promNames takes the labels that matter of those that begin with a prefix.
func promNames(m map[string]string, prefix string, to map[string]string) {
	for key, v := range m {
		if name, ours := strings.CutPrefix(key, prefix); ours && promLabels[name] != "" && v != "" {
			to[promLabels[name]] = v
		}
	}
}

// promAmount takes the most that a container asked for of a resource.
func promAmount(to map[string]*podContainer, of func(string) string, samples []promSample, limit bool) {
	c := to[of("container")]
	if c == nil {
		c = &podContainer{Resources: podResources{Limits: map[string]kubelist.Quantity{}, Requests: map[string]kubelist.Quantity{}}}
		to[of("container")] = c
	}
	most := slices.MaxFunc(samples, func(a, b promSample) int { return cmp.Compare(a.value, b.value) })
	text := kubelist.Quantity(strconv.FormatFloat(most.value, 'f', -1, 64))
	if limit {
		c.Resources.Limits[promResource(of("resource"))] = text
	} else {
		c.Resources.Requests[promResource(of("resource"))] = text
	}
}

// phase takes the samples of one phase: 1 while the pod is in it, and 0 otherwise.
func (s *promSource) phase(p *promPod, name string, samples []promSample) {
	s.phases = s.phases || len(samples) > 1
	for i, x := range samples {
		if i > 0 && x.at > samples[i-1].at {
			s.step = min(s.step, x.at-samples[i-1].at)
		}
		s.last = max(s.last, x.at)
		if x.value != 1 {
			continue
		}
		switch {
		case name == p.Status.Phase:
			p.phaseSince = min(p.phaseSince, x.at)
			p.phaseAt = max(p.phaseAt, x.at)
		case x.at > p.phaseAt:
			p.Status.Phase, p.phaseSince, p.phaseAt = name, x.at, x.at
		}
	}
}

// gather makes jobs of the pods, those that were created first before others.
func (s *promSource) gather() {
	s.in.Note("pods that run have run until the last moment that the samples tell of")
	if len(s.order) > 0 && !s.labels {
		s.in.Note("without kube_pod_labels pods are put together by their owners alone: each Job of a JobSet, for instance, is a job")
	}
	if !s.phases {
		s.in.Note("without kube_pod_status_phase over a range of time nothing tells when pods were deleted: those without kube_pod_completion_time count as running")
	}
	s.podSource.now = promTime(s.now)
	slices.SortStableFunc(s.order, func(a, b *promPod) int { return cmp.Compare(a.created, b.created) })
	runs := map[string]*promRun{}
	for _, p := range s.order {
		s.in.Row()
		if !s.finish(p) {
			continue
		}
		key, _ := p.meta().Gang()
		r := runs[key]
		if r == nil {
			r = &promRun{n: 1}
			runs[key] = r
		}
		p.again = r.next(&p.pod)
		s.add(&p.pod)
	}
	s.pods, s.order = nil, nil
}

// promRun is the last job that was made of pods that belong together by name. Names come
// again: a Job that is deleted and made anew is another job.
type promRun struct {
	n     int
	ended time.Time // the last end of its pods
	open  bool      // some of them has none
}

// betweenRuns is longer than a controller waits before it makes a pod that failed anew:
// the limit of a Job's back-off is six minutes.
const betweenRuns = 10 * time.Minute

// next is the number of the run that a pod is of, from 0, those before it having been
// created earlier.
func (r *promRun) next(p *pod) int {
	run := p.run()
	if !r.open && !r.ended.IsZero() && run.created.Sub(r.ended) > betweenRuns {
		*r = promRun{n: r.n + 1}
	}
	r.open = r.open || run.ended.IsZero()
	if run.ended.After(r.ended) {
		r.ended = run.ended
	}
	return r.n - 1
}

// finish makes a pod of what its series tell. It is false for a pod that is left out.
func (s *promSource) finish(p *promPod) bool {
	created := promTime(p.created)
	if created.IsZero() {
		g := &gang{name: p.Metadata.Namespace + "/" + p.Metadata.Name, members: make([]member, 1), why: "has no kube_pod_created"}
		s.gangs = append(s.gangs, g)
		return false
	}
	p.Metadata.Created = &created
	for _, name := range slices.Sorted(maps.Keys(p.containers)) {
		p.Spec.Containers = append(p.Spec.Containers, *p.containers[name])
	}
	for _, name := range slices.Sorted(maps.Keys(p.init)) {
		p.Spec.Init = append(p.Spec.Init, *p.init[name])
	}
	started := promTime(cmp.Or(p.started, p.startTime, p.scheduled))
	if started.IsZero() {
		return true
	}
	if p.started == 0 {
		s.in.Empty("kube_pod_container_state_started", "kube_pod_start_time, else kube_pod_status_scheduled_time")
	}
	ended := promTime(p.completed)
	over := p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
	switch {
	case over && ended.IsZero():
		s.in.Empty("kube_pod_completion_time", "the first sample of its last phase")
		ended = promTime(p.phaseSince)
	case !over && s.phases && p.phaseAt > 0 && p.phaseAt < s.last-2*s.step:
		if p.gone = true; ended.IsZero() {
			ended = promTime(p.phaseAt)
		}
	}
	if ended.Before(started) {
		ended = started
	}
	st := podStatus{}
	if over || p.gone {
		st.State.Terminated = &struct{ StartedAt, FinishedAt *time.Time }{&started, &ended}
	} else {
		st.State.Running = &struct{ StartedAt *time.Time }{&started}
	}
	p.Status.Containers = []podStatus{st}
	return true
}
