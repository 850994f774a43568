package trace

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// podPhases are what a pod may be in; a pod that nobody has looked at has none.
var podPhases = []string{"", "Pending", "Running", "Succeeded", "Failed", "Unknown"}

// gang is the pods of one job.
type gang struct {
	name, title, tenant, qos string
	priority                 int32
	members                  []member
	tolerations              []podmap.Toleration // of any of its pods
	why                      string              // it is left out; empty: it is not
	bad                      error
}

// member is one pod of a gang.
type member struct {
	role, index string
	size        podmap.Size
	run         podRun
	failed      bool
	gone        bool // it was deleted while it ran
	replaced    bool // by a pod of the next generation
	generation  int  // how many pods it has taken the place of, one after the other
}

// gangKey is the key of the gang that the pod belongs to.
func (p *pod) gangKey() string {
	key, _ := p.meta().Gang()
	return key + p.number()
}

// number tells jobs of the same name apart; empty: it is the first.
func (p *pod) number() string {
	if p.again == 0 {
		return ""
	}
	return fmt.Sprintf("#%d", p.again+1)
}

// add puts a pod into its gang.
func (s *podSource) add(p *pod) {
	meta := p.meta()
	_, title := meta.Gang()
	key, name := p.gangKey(), p.Metadata.Namespace+"/"+title+p.number()
	g := s.byKey[key]
	if g == nil {
		g = &gang{title: title, name: name, tenant: p.Metadata.Namespace}
		s.byKey[key] = g
		s.gangs = append(s.gangs, g)
	}
	m := member{role: meta.Role(), index: meta.Index(), run: p.run(), failed: p.Status.Phase == "Failed", gone: p.gone}
	if last := p.latest(m.run); last.After(s.now) {
		s.now = last
	}
	var err error
	if m.size, err = p.Spec.size(); err != nil {
		g.bad = s.in.Bad(0, g.name, nil, "quantities of resources: "+err.Error())
	}
	if m.run.created.IsZero() {
		g.bad = s.in.Bad(0, g.name, nil, "a valid creationTimestamp of pod "+p.Metadata.Name)
	}
	if !slices.Contains(podPhases, p.Status.Phase) {
		g.bad = s.in.Bad(0, g.name, []byte(p.Status.Phase), "a phase of pod "+p.Metadata.Name+": Pending, Running, Succeeded, Failed or Unknown")
	}
	g.members = append(g.members, m)
	for _, t := range p.Spec.Tolerations {
		if !slices.Contains(g.tolerations, t) {
			g.tolerations = append(g.tolerations, t)
		}
	}
	g.priority = max(g.priority, p.Spec.Priority)
	if p.Status.QoS != "" {
		g.qos = s.in.Text([]byte(p.Status.QoS))
	}
	s.judge(meta.OfNode(), g, &m)
}

// judge tells why a pod is no job.
func (s *podSource) judge(ofNode string, g *gang, m *member) {
	switch {
	case ofNode != "":
		g.why = "belongs to its node (" + ofNode + ")"
	case m.size.Empty() && len(g.members) == 1:
		g.why = "asks for no GPU, CPU or memory"
	case !m.size.Empty() && g.why == "asks for no GPU, CPU or memory":
		g.why = ""
	}
}

// generations finds which pods took the place of which: a pod that was created
// after another of the same role and index had failed, or had been deleted while it ran,
// replaces the one that did so first. Each such pod is replaced once at most.
func (g *gang) generations() {
	slices.SortStableFunc(g.members, func(a, b member) int { return a.run.created.Compare(b.run.created) })
	type place struct{ role, index string }
	failed := map[place][]*member{}
	for i := range g.members {
		if m := &g.members[i]; (m.failed || m.gone) && !m.run.ended.IsZero() {
			at := place{m.role, m.index}
			failed[at] = append(failed[at], m)
		}
	}
	for _, all := range failed {
		slices.SortStableFunc(all, func(a, b *member) int { return a.run.ended.Compare(b.run.ended) })
	}
	for i := range g.members {
		m := &g.members[i]
		at := place{m.role, m.index}
		if all := failed[at]; len(all) > 0 && all[0] != m && !all[0].run.ended.After(m.run.created) {
			all[0].replaced = true
			m.generation = all[0].generation + 1
			failed[at] = all[1:]
		}
	}
}

// times fills in when the job was submitted, how long it waited and ran, and
// how it ended. It is false when the job has not started.
//
// A failed attempt lasts from the first start of its pods to the last end of
// those of them that were replaced; the last attempt from its own first start
// to the last end of all pods that were not. Waits between attempts count.
func (g *gang) times(now time.Time, e *Entry) bool {
	g.generations()
	last := 0
	for i := range g.members {
		last = max(last, g.members[i].generation)
	}
	submit := g.members[0].run.created
	ready := submit // of the next attempt
	for n := range last {
		a := g.attempt(n)
		if a.started.IsZero() {
			continue // it failed before it started
		}
		e.Truth.Attempts = append(e.Truth.Attempts, a.ended.Sub(a.started))
		e.Truth.Wait += max(0, a.started.Sub(ready))
		ready = a.ended
	}
	run := g.attempt(last)
	if run.started.IsZero() {
		return false
	}
	e.Truth.Wait, e.Truth.HasWait = e.Truth.Wait+max(0, run.started.Sub(ready)), true
	for i := range g.members {
		m := &g.members[i]
		if m.replaced || m.run.started.IsZero() {
			continue
		}
		switch {
		case m.failed:
			e.Truth.Outcome = Failed
		case m.gone && e.Truth.Outcome == Passed:
			e.Truth.Outcome = Killed
		}
		if m.run.ended.IsZero() {
			e.Truth.AtLeast = true
			run.end(now)
		}
		run.end(m.run.ended)
	}
	e.Truth.Work = run.ended.Sub(run.started)
	e.Job.Submit = time.Duration(submit.UnixNano())
	return true
}

// attempt is from the first start of the pods of a generation to the last end
// of those that were replaced.
func (g *gang) attempt(generation int) podRun {
	var r podRun
	for i := range g.members {
		m := &g.members[i]
		if m.generation != generation {
			continue
		}
		r.began(&m.run.started)
		if m.replaced {
			r.end(m.run.ended)
		}
	}
	return r
}

// demand puts the members together. Pods that have been replaced do not count twice.
func (g *gang) demand() (job.Demand, error) {
	var pods []podmap.Pods
	for i := range g.members {
		if m := &g.members[i]; m.generation == 0 {
			pods = append(pods, podmap.Pods{Role: m.role, Count: 1, Size: m.size})
		}
	}
	d, err := podmap.Demand(pods)
	if err == nil {
		d.Tolerate, _, err = podmap.Tolerate(g.tolerations)
	}
	return d, err
}
