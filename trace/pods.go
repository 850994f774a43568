package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/job"
)

// podsFormat is a list of pods as kubectl get pods -o json writes it (with -A
// for all namespaces). Pods that belong together are one job, by the rules of package
// podmap; pods.go reads them, podgang.go puts them together, podsize.go tells what they
// ask for.
func podsFormat() Format {
	return Format{
		Name: "pods", Aliases: []string{"kubernetes", "kubectl"}, Title: "Kubernetes pods, kubectl get pods -o json",
		Clock: Unix, Order: Unsorted,
		Match: func(h *Head) int {
			t := jsontext.NewReader(h.Text)
			kind, items := false, false
			// The head may end anywhere, so what follows the first fields is not asked for.
			_ = t.Object(func(key []byte) error {
				switch string(key) {
				case "kind":
					v, err := t.Text()
					kind = string(v) == "List" || string(v) == "PodList" || string(v) == "Pod"
					return err
				case "apiVersion":
					_, err := t.Text()
					return err
				case "items":
					items = t.Peek() == '['
					return io.EOF
				}
				return t.Skip()
			})
			if items || kind {
				return 500
			}
			return 0
		},
		Decode: func(in *Input) (Source, error) { return &podSource{in: in}, nil },
	}
}

// pod is what is used of a pod.
type pod struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Created     *time.Time        `json:"creationTimestamp"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Owners      []podOwner        `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Containers   []podContainer    `json:"containers"`
		Init         []podContainer    `json:"initContainers"`
		NodeSelector map[string]string `json:"nodeSelector"`
		Affinity     *podAffinity      `json:"affinity"`
		Priority     int32             `json:"priority"`
		Overhead     map[string]string `json:"overhead"`
		Resources    podResources      `json:"resources"`
		Group        struct {
			Name string `json:"podGroupName"`
		} `json:"schedulingGroup"`
	} `json:"spec"`
	Status struct {
		Phase      string         `json:"phase"`
		QoS        string         `json:"qosClass"`
		Started    *time.Time     `json:"startTime"`
		Conditions []podCondition `json:"conditions"`
		Containers []podStatus    `json:"containerStatuses"`
	} `json:"status"`
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
	Limits   map[string]string `json:"limits"`
	Requests map[string]string `json:"requests"`
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
	over := p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
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

// readAll reads {"items":[...]} pod by pod.
func (s *podSource) readAll() error {
	s.byKey = map[string]*gang{}
	s.in.Note("pods that run have run until the last moment that the list tells of")
	d := json.NewDecoder(s.in.Body)
	err := s.readList(d)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readList reads a list, or a single pod, which is an object without items.
func (s *podSource) readList(d *json.Decoder) error {
	if err := delimiter(d, '{', "a list of pods"); err != nil {
		return err
	}
	fields, list := map[string]json.RawMessage{}, false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key == "items" {
			list = true
			err = s.readItems(d)
		} else if name, ok := key.(string); ok {
			var value json.RawMessage
			err = d.Decode(&value)
			fields[name] = value
		}
		if err != nil {
			return err
		}
	}
	if !list && string(fields["kind"]) == `"Pod"` {
		raw, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		s.readPod(raw)
	}
	return delimiter(d, '}', "a list of pods")
}

func (s *podSource) readItems(d *json.Decoder) error {
	if err := delimiter(d, '[', "a list of pods"); err != nil {
		return err
	}
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return fmt.Errorf("item %d: %w", s.in.info.Rows+1, err)
		}
		s.readPod(raw)
	}
	return delimiter(d, ']', "a list of pods")
}

// readPod reads one pod. One that makes no sense is a row of its own, told when
// its turn comes.
func (s *podSource) readPod(raw json.RawMessage) {
	s.in.Row()
	var p pod
	if err := json.Unmarshal(raw, &p); err != nil {
		g := &gang{name: fmt.Sprintf("item %d", s.in.info.Rows), members: make([]member, 1)}
		g.bad = s.in.Bad(0, g.name, nil, "a pod; "+err.Error())
		s.gangs = append(s.gangs, g)
		return
	}
	s.add(&p)
}

// delimiter passes over one bracket.
func delimiter(d *json.Decoder, want json.Delim, in string) error {
	switch t, err := d.Token(); {
	case err != nil:
		return err
	case t != want:
		return fmt.Errorf("byte %d: expected %v in %s", d.InputOffset(), want, in)
	}
	return nil
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
