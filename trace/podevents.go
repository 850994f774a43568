package trace

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// podEvents are events that stand in a list beside pods (kubectl get pods,events -A -o
// json). They tell of first starts, which pods forget after two more, and of pods that are
// gone: those that were preempted or whose node failed. What such a pod asked for is told
// by a pod that took its place, which has the same name but for the random end of it.
//
// Kubernetes keeps events for an hour, unless its API server was told otherwise
// (--event-ttl). Source: Event of core/v1 and of events.k8s.io/v1.
type podEvents struct {
	pods    map[string]*podPast // by namespace and name
	at      map[string]podAt    // where the pods of the list are
	like    map[string]*pod     // a pod of the list, by namespace and name without its end
	created map[string]time.Time
}

// podAt is a member of a gang.
type podAt struct {
	gang   *gang
	member int
}

// podPast is what events tell of a pod.
type podPast struct {
	namespace, name, uid          string
	first, last, started, stopped time.Time
	rows                          int
}

// podEvent is what is used of an event.
type podEvent struct {
	Involved  podSubject `json:"involvedObject"`
	Regarding podSubject `json:"regarding"` // of events.k8s.io
	Reason    string     `json:"reason"`
	Message   string     `json:"message"`
	Note      string     `json:"note"` // of events.k8s.io
	First     *time.Time `json:"firstTimestamp"`
	Last      *time.Time `json:"lastTimestamp"`
	OldFirst  *time.Time `json:"deprecatedFirstTimestamp"`
	OldLast   *time.Time `json:"deprecatedLastTimestamp"`
	Time      *time.Time `json:"eventTime"`
	Series    struct {
		Last *time.Time `json:"lastObservedTime"`
	} `json:"series"`
}

type podSubject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// stops are the reasons of events with which a pod is told to go.
var stops = []string{"Killing", "Preempted", "Evicted", "TaintManagerEviction", "NodeNotReady", "DeadlineExceeded"}

// firstOf is the first of some times that is one; the zero time where none is.
func firstOf(times ...*time.Time) time.Time {
	for _, t := range times {
		if told(t) {
			return *t
		}
	}
	return time.Time{}
}

// read takes an event. One that is of no use is counted as left out.
func (v *podEvents) read(s *podSource, raw []byte) {
	var e podEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		s.in.leaveRows("is an event that cannot be read", 1)
		return
	}
	of := e.Involved
	if of.Name == "" {
		of = e.Regarding
	}
	first, last := firstOf(e.First, e.OldFirst, e.Time), firstOf(e.Series.Last, e.Last, e.OldLast, e.Time)
	if last.Before(first) {
		last = first
	}
	if name, made := strings.CutPrefix(cmp.Or(e.Message, e.Note), "Created pod: "); made && e.Reason == "SuccessfulCreate" && !first.IsZero() {
		if v.created == nil {
			v.created = map[string]time.Time{}
		}
		v.created[of.Namespace+"/"+name] = first
		s.in.Fold(1)
		return
	}
	if of.Kind != "Pod" || first.IsZero() {
		s.in.leaveRows("is an event of a "+cmp.Or(of.Kind, "thing without a kind"), 1)
		return
	}
	key := of.Namespace + "/" + of.Name
	if v.pods == nil {
		v.pods = map[string]*podPast{}
	}
	p := v.pods[key]
	if p == nil {
		p = &podPast{namespace: of.Namespace, name: of.Name, uid: of.UID, first: first}
		v.pods[key] = p
	}
	p.add(e.Reason, first, last)
}

// add notes an event of the pod.
func (p *podPast) add(reason string, first, last time.Time) {
	p.rows++
	if first.Before(p.first) {
		p.first = first
	}
	if last.After(p.last) {
		p.last = last
	}
	switch {
	case reason == "Started" && (p.started.IsZero() || first.Before(p.started)):
		p.started = first
	case slices.Contains(stops, reason) && last.After(p.stopped):
		p.stopped = last
	}
}

// listed notes a pod of the list, which has just been put into its gang.
func (v *podEvents) listed(s *podSource, p *pod) {
	if v.at == nil {
		v.at, v.like = map[string]podAt{}, map[string]*pod{}
	}
	g := s.byKey[p.gangKey()]
	v.at[p.Metadata.Namespace+"/"+p.Metadata.Name] = podAt{g, len(g.members) - 1}
	if p.meta().Replaced() {
		v.like[p.Metadata.Namespace+"/"+stem(p.Metadata.Name)] = p
	}
}

// stem is the name of a pod without the random end that its controller gave it.
func stem(name string) string {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		return name[:i]
	}
	return name
}

// tell has the gangs know what the events told.
func (v *podEvents) tell(s *podSource) {
	for _, key := range slices.Sorted(maps.Keys(v.pods)) {
		past := v.pods[key]
		if past.last.After(s.now) {
			s.now = past.last
		}
		if at, listed := v.at[key]; listed {
			m := &at.gang.members[at.member]
			if !past.started.IsZero() && !m.run.started.IsZero() && past.started.Before(m.run.started) {
				m.run.started = past.started
			}
			s.in.Fold(past.rows)
			continue
		}
		like := v.like[past.namespace+"/"+stem(past.name)]
		switch {
		case like == nil:
			s.in.leaveRows("is an event of a pod that is gone, and of which no pod in the list tells what it asked for (kubectl get pods,events)", past.rows)
		case past.started.IsZero():
			s.in.leaveRows("is an event of a pod that is gone and had not started", past.rows)
		default:
			s.in.Fold(past.rows - 1)
			s.add(past.pod(like, v.created[key]))
		}
	}
}

// pod is a pod that is gone, like another one.
func (p *podPast) pod(like *pod, created time.Time) *pod {
	gone := *like
	gone.gone = true
	gone.Metadata.Name, gone.Metadata.UID = p.name, p.uid
	gone.Metadata.Created = &created
	if created.IsZero() {
		gone.Metadata.Created = &p.first
	}
	ended := p.stopped
	if ended.IsZero() {
		ended = p.last
	}
	if ended.Before(p.started) {
		ended = p.started
	}
	gone.Status.Phase, gone.Status.Conditions = "Running", nil
	st := podStatus{}
	st.State.Terminated = &struct{ StartedAt, FinishedAt *time.Time }{&p.started, &ended}
	gone.Status.Containers = []podStatus{st}
	return &gone
}
