package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/norn-scheduler/norn/internal/kubelist"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// podsFormat is a list of pods as kubectl get pods -o json (or yaml) writes it (with -A
// for all namespaces). Pods that belong together are one job, by the rules of package
// podmap; pods.go reads them, podgang.go puts them together, podsize.go tells what they
// ask for, and podevents.go takes what events in the same list tell beside.
func podsFormat() Format {
	return Format{
		Name: "pods", Aliases: []string{"kubernetes", "kubectl"}, Title: "Kubernetes pods, kubectl get pods -o json",
		Clock: Unix, Order: Unsorted,
		Match: func(h *Head) int {
			if _, ok := kubelist.Head(h.Text); ok {
				return 500
			}
			return 0
		},
		Decode: func(in *Input) (Source, error) { return &podSource{in: in}, nil },
	}
}

// pod is what is used of a pod.
type pod struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Created     *time.Time        `json:"creationTimestamp"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Owners      []podOwner        `json:"ownerReferences"`
	} `json:"metadata"`
	Spec   podSpec `json:"spec"`
	Status struct {
		Phase      string         `json:"phase"`
		QoS        string         `json:"qosClass"`
		Started    *time.Time     `json:"startTime"`
		Conditions []podCondition `json:"conditions"`
		Containers []podStatus    `json:"containerStatuses"`
	} `json:"status"`

	gone  bool // it was deleted while it ran
	again int  // how many jobs its gang was before, under the same name
}

// podSpec is what is used of the spec of a pod, and of a template for pods.
type podSpec struct {
	Containers   []podContainer               `json:"containers"`
	Init         []podContainer               `json:"initContainers"`
	NodeSelector map[string]string            `json:"nodeSelector"`
	Affinity     *podAffinity                 `json:"affinity"`
	Tolerations  []podmap.Toleration          `json:"tolerations"`
	Priority     int32                        `json:"priority"`
	Overhead     map[string]kubelist.Quantity `json:"overhead"`
	Resources    podResources                 `json:"resources"`
	Group        struct {
		Name string `json:"podGroupName"`
	} `json:"schedulingGroup"`
}

type podOwner struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	UID  string `json:"uid"`
}

type podContainer struct {
	RestartPolicy string       `json:"restartPolicy"`
	Resources     podResources `json:"resources"`
}

type podResources struct {
	Limits   map[string]kubelist.Quantity `json:"limits"`
	Requests map[string]kubelist.Quantity `json:"requests"`
}

type podAffinity struct {
	Node struct {
		Required struct {
			Terms []struct {
				Match []podMatch `json:"matchExpressions"`
			} `json:"nodeSelectorTerms"`
		} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	} `json:"nodeAffinity"`
}

type podMatch struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

type podCondition struct {
	Type   string     `json:"type"`
	Status string     `json:"status"`
	At     *time.Time `json:"lastTransitionTime"`
}

type podStatus struct {
	State, LastState podState
}

type podState struct {
	Running    *struct{ StartedAt *time.Time }
	Terminated *struct{ StartedAt, FinishedAt *time.Time }
}

// podRun is when a pod was created, ran and ended.
type podRun struct {
	created, started, ended time.Time // zero: not told
}

// run finds the times of a pod.
func (p *pod) run() podRun {
	var r podRun
	if told(p.Metadata.Created) {
		r.created = *p.Metadata.Created
	}
	open := false
	for i := range p.Status.Containers {
		c := &p.Status.Containers[i]
		for _, st := range []podState{c.LastState, c.State} {
			if t := st.Terminated; t != nil {
				r.began(t.StartedAt)
				if told(t.FinishedAt) {
					r.end(*t.FinishedAt)
				}
			}
			if st.Running != nil {
				r.began(st.Running.StartedAt)
				open = true
			}
		}
	}
	over := p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" || p.gone
	if over && r.started.IsZero() && !r.ended.IsZero() {
		r.began(p.Status.Started)
	}
	if open || !over {
		r.ended = time.Time{}
	}
	return r
}

// told tells whether a time is there and one that a job can have.
func told(at *time.Time) bool { return at != nil && at.Year() >= 1970 && at.Year() < 2200 }

func (r *podRun) began(at *time.Time) {
	if told(at) && (r.started.IsZero() || at.Before(r.started)) {
		r.started = *at
	}
}

func (r *podRun) end(at time.Time) {
	if at.After(r.ended) {
		r.ended = at
	}
}

// latest is the last moment that the pod tells of.
func (p *pod) latest(r podRun) time.Time {
	last := podRun{ended: r.created}
	last.end(r.started)
	last.end(r.ended)
	for _, c := range p.Status.Conditions {
		if told(c.At) {
			last.end(*c.At)
		}
	}
	return last.ended
}

// podSource reads a whole list before it gives the first job, for the pods of a
// job may stand anywhere in it.
type podSource struct {
	in    *Input
	gangs []*gang
	byKey map[string]*gang
	now   time.Time // the last moment that the list tells of
	at    int
	read  bool
}

// Next implements Source.
func (s *podSource) Next(e *Entry) error {
	if !s.read {
		s.read = true
		if err := s.readAll(); err != nil {
			return err
		}
	}
	if s.at == len(s.gangs) {
		return io.EOF
	}
	g := s.gangs[s.at]
	s.gangs[s.at] = nil
	s.at++
	*e = Entry{}
	return s.entry(g, e)
}

// readAll reads the list, object by object.
func (s *podSource) readAll() error {
	s.byKey = map[string]*gang{}
	s.in.Note("pods that run have run until the last moment that the list tells of")
	var events podEvents
	err := kubelist.Each(s.in.Body, func(o kubelist.Object) error {
		s.in.Row()
		switch o.Kind {
		case "Event":
			events.read(s, o.JSON)
		case "Pod", "":
			if p := s.readPod(o.JSON); p != nil {
				events.listed(s, p)
			}
		default:
			s.in.leaveRows("is a "+o.Kind+", not a pod", 1)
		}
		return nil
	})
	if err == nil {
		events.tell(s)
	}
	return err
}

// readPod reads one pod. One that makes no sense is a row of its own, told when
// its turn comes; then it is nil.
func (s *podSource) readPod(raw json.RawMessage) *pod {
	var p pod
	if err := json.Unmarshal(raw, &p); err != nil {
		g := &gang{name: fmt.Sprintf("item %d", s.in.info.Rows), members: make([]member, 1)}
		g.bad = s.in.Bad(0, g.name, nil, "a pod; "+err.Error())
		s.gangs = append(s.gangs, g)
		return nil
	}
	s.add(&p)
	return &p
}

// entry makes the job of a gang.
func (s *podSource) entry(g *gang, e *Entry) error {
	switch {
	case g.bad != nil:
		s.in.passOver(len(g.members) - 1)
		return g.bad
	case g.why != "":
		return LeaveOutJob(g.name, g.why, len(g.members))
	}
	if !g.times(s.now, e) {
		return LeaveOutJob(g.name, "has not started", len(g.members))
	}
	d, err := g.demand()
	if err == nil {
		e.Job.Demand, err = s.in.pool.whole(&d)
	}
	if err != nil {
		s.in.passOver(len(g.members) - 1)
		return s.in.Bad(0, g.name, nil, "a demand that can be met: it "+err.Error())
	}
	s.in.Fold(len(g.members) - 1)
	e.Job.Key = g.name
	e.Job.Name = g.title
	e.Job.Tenant = s.in.Text([]byte(g.tenant))
	e.Job.Priority = g.priority
	if g.qos != "" {
		e.Job.Hints = &job.Hints{QoS: g.qos}
	}
	return nil
}
