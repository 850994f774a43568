package trace

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
)

// gangLabels are the labels and annotations that say which pods belong
// together, the widest circle first.
var gangLabels = []string{
	"jobset.sigs.k8s.io/jobset-name",
	"training.kubeflow.org/job-name",
	"trainer.kubeflow.org/trainjob-name",
	"volcano.sh/job-name",
	"ray.io/cluster",
	"leaderworkerset.sigs.k8s.io/group-key",
	"kueue.x-k8s.io/pod-group-name",
	"scheduling.k8s.io/group-name",
	"scheduling.x-k8s.io/pod-group",
	"pod-group.scheduling.sigs.k8s.io/name",
	"pod-group.scheduling.sigs.k8s.io",
	"batch.kubernetes.io/job-name",
	"job-name",
}

// roleLabels are the labels that say which role a pod has in its gang.
var roleLabels = []string{
	"jobset.sigs.k8s.io/replicatedjob-name",
	"training.kubeflow.org/replica-type",
	"volcano.sh/task-spec",
	"ray.io/node-type",
	"leaderworkerset.sigs.k8s.io/worker-index",
}

// indexLabels are the labels and annotations that tell equal pods of a role
// apart: a second pod with the same ones replaces the first.
var indexLabels = []string{
	"jobset.sigs.k8s.io/job-index",
	"batch.kubernetes.io/job-completion-index",
	"training.kubeflow.org/replica-index",
	"volcano.sh/task-index",
}

// podPhases are what a pod may be in; a pod that nobody has looked at has none.
var podPhases = []string{"", "Pending", "Running", "Succeeded", "Failed", "Unknown"}

// gang is the pods of one job.
type gang struct {
	name, title, tenant, qos string
	priority                 int32
	members                  []member
	why                      string // it is left out; empty: it is not
	bad                      error
}

// member is one pod of a gang.
type member struct {
	role, index string
	size        podSize
	run         podRun
	failed      bool
	replaced    bool // by a pod of the next generation
	generation  int  // how many pods it has taken the place of, one after the other
}

// tag is a label of the pod, or an annotation.
func (p *pod) tag(name string) string {
	if v, ok := p.Metadata.Labels[name]; ok {
		return v
	}
	return p.Metadata.Annotations[name]
}

// circle says to which job a pod belongs: a key, and what to call the job.
func (p *pod) circle() (key, title string) {
	for _, label := range gangLabels {
		if v := p.tag(label); v != "" {
			return label + "=" + v, v
		}
	}
	for i := range p.Metadata.Owners {
		o := &p.Metadata.Owners[i]
		switch o.Kind {
		case "ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet", "Node":
			// Their pods live and die one by one.
		default:
			return o.Kind + "=" + o.UID, o.Name
		}
	}
	return "pod=" + p.Metadata.Name + "/" + p.Metadata.UID, p.Metadata.Name
}

// add puts a pod into its gang.
func (s *podSource) add(p *pod) {
	key, title := p.circle()
	key = p.Metadata.Namespace + "/" + key
	g := s.byKey[key]
	if g == nil {
		g = &gang{title: title, name: p.Metadata.Namespace + "/" + title, tenant: p.Metadata.Namespace}
		s.byKey[key] = g
		s.gangs = append(s.gangs, g)
	}
	m := member{run: p.run(), failed: p.Status.Phase == "Failed"}
	if last := p.latest(m.run); last.After(s.now) {
		s.now = last
	}
	for _, label := range roleLabels {
		if v := p.tag(label); v != "" {
			m.role = v
			break
		}
	}
	for _, label := range indexLabels {
		if v := p.tag(label); v != "" {
			m.index += label + "=" + v + ","
		}
	}
	var err error
	if m.size, err = p.size(); err != nil {
		g.bad = s.in.Bad(0, g.name, nil, "quantities of resources: "+err.Error())
	}
	if m.run.created.IsZero() {
		g.bad = s.in.Bad(0, g.name, nil, "a valid creationTimestamp of pod "+p.Metadata.Name)
	}
	if !slices.Contains(podPhases, p.Status.Phase) {
		g.bad = s.in.Bad(0, g.name, []byte(p.Status.Phase), "a phase of pod "+p.Metadata.Name+": Pending, Running, Succeeded, Failed or Unknown")
	}
	g.members = append(g.members, m)
	g.priority = max(g.priority, p.Spec.Priority)
	if p.Status.QoS != "" {
		g.qos = s.in.Text([]byte(p.Status.QoS))
	}
	s.judge(p, g, &m)
}

// judge tells why a pod is no job.
func (s *podSource) judge(p *pod, g *gang, m *member) {
	switch {
	case p.Kind != "" && p.Kind != "Pod":
		g.why = "is a " + p.Kind + ", not a pod"
	case len(p.Metadata.Owners) > 0 && (p.Metadata.Owners[0].Kind == "DaemonSet" || p.Metadata.Owners[0].Kind == "Node"):
		g.why = "belongs to its node (" + p.Metadata.Owners[0].Kind + ")"
	case m.size.empty() && len(g.members) == 1:
		g.why = "asks for no GPU, CPU or memory"
	case !m.size.empty() && g.why == "asks for no GPU, CPU or memory":
		g.why = ""
	}
}

// generations finds which pods took the place of which: a pod that was created
// after another of the same role and index had failed replaces the one that
// failed first. Each failed pod is replaced once at most.
func (g *gang) generations() {
	slices.SortStableFunc(g.members, func(a, b member) int { return a.run.created.Compare(b.run.created) })
	type place struct{ role, index string }
	failed := map[place][]*member{}
	for i := range g.members {
		if m := &g.members[i]; m.failed && !m.run.ended.IsZero() {
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
// to the last end of all pods that were not.
func (g *gang) times(now time.Time, e *Entry) bool {
	g.generations()
	last := 0
	for i := range g.members {
		last = max(last, g.members[i].generation)
	}
	var first time.Time
	for n := range last {
		a := g.attempt(n)
		e.Truth.Attempts = append(e.Truth.Attempts, a.ended.Sub(a.started))
		if first.IsZero() {
			first = a.started
		}
	}
	run := g.attempt(last)
	if run.started.IsZero() {
		return false
	}
	if first.IsZero() {
		first = run.started
	}
	for i := range g.members {
		m := &g.members[i]
		if m.replaced || m.run.started.IsZero() {
			continue
		}
		if m.failed {
			e.Truth.Outcome = Failed
		}
		if m.run.ended.IsZero() {
			e.Truth.AtLeast = true
			run.end(now)
		}
		run.end(m.run.ended)
	}
	e.Truth.Work = run.ended.Sub(run.started)
	submit := g.members[0].run.created
	e.Job.Submit = time.Duration(submit.UnixNano())
	e.Truth.Wait, e.Truth.HasWait = max(0, first.Sub(submit)), true
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

// demand puts the members together: a role for each name and size, or, where these are
// too many, a role for each size. Pods that have been replaced do not count twice.
func (g *gang) demand() (job.Demand, error) {
	type part struct {
		role string
		size podSize
	}
	var parts []part
	count := map[part]int32{}
	for i := range g.members {
		m := &g.members[i]
		if m.generation > 0 || m.size.empty() {
			continue
		}
		p := part{m.role, m.size}
		if count[p] == 0 {
			parts = append(parts, p)
		}
		count[p]++
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.size.gpu, a.size.gpu), cmp.Compare(a.role, b.role))
	})
	if len(parts) > job.MaxRoles {
		kept := parts[:0]
		for _, p := range parts {
			if i := slices.IndexFunc(kept, func(o part) bool { return o.size == p.size }); i >= 0 {
				count[kept[i]] += count[p]
			} else {
				kept = append(kept, p)
			}
		}
		parts = kept
	}
	var d job.Demand
	if len(parts) > job.MaxRoles {
		return d, fmt.Errorf("has pods of %d sizes, at most %d are read", len(parts), job.MaxRoles)
	}
	for i, p := range parts {
		d.Roles[i] = job.Role{
			Tasks: count[p], GPU: p.size.gpu, GPUMemory: p.size.gpuMemory, CPU: p.size.cpu, Memory: p.size.memory,
		}
		if p.role != "" {
			d.Roles[i].Name = p.role
		}
		d.Types = joinTypes(d.Types, p.size.types)
	}
	return d, nil
}
