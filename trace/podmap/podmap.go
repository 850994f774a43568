// Package podmap has the rules by which pods are jobs: which pods belong together, which
// role a pod has among them, what its resources are, and which GPUs it may use.
//
// Lists of pods that were written down (package trace) and pods of a cluster that runs
// (package kube/convert) are read by the same rules. The package knows strings, maps and
// numbers alone; those who use it read JSON or ask an API server.
//
// Nouns:
//   - A gang is the pods of one job.
//   - A circle is the label, annotation or owner by which pods are a gang.
//   - A role is the pods of a gang that do the same; an index tells them apart.
//   - Amounts are quantities of named resources; a Size is what a job counts of them.
package podmap

import (
	"slices"
	"strings"
)

// gangLabels are the labels and annotations that say which pods belong together: first
// the one that is Norn's own, then the others, the widest circle first. The PodGroup that
// a pod names in its spec comes between both.
var gangLabels = []string{
	"norn-scheduler.github.io/gang", // names.Gang
	"jobset.sigs.k8s.io/jobset-name",
	"training.kubeflow.org/job-name",
	"trainer.kubeflow.org/trainjob-name",
	"volcano.sh/job-name",
	"ray.io/cluster",
	"leaderworkerset.sigs.k8s.io/group-key",
	"kueue.x-k8s.io/pod-group-name",
	volcanoGroup[0], volcanoGroup[1],
	pluginGroup,
	"gang.scheduling.koordinator.sh/name",
	"pod-group.scheduling.sigs.k8s.io/name",
	"pod-group.scheduling.sigs.k8s.io",
	"batch.kubernetes.io/job-name",
	"job-name",
}

// The labels and annotations that name a PodGroup of Volcano, and of scheduler-plugins.
var volcanoGroup = []string{"scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"}

const pluginGroup = "scheduling.x-k8s.io/pod-group"

// roleLabels are the labels that say which role a pod has in its gang.
var roleLabels = []string{
	"jobset.sigs.k8s.io/replicatedjob-name",
	"training.kubeflow.org/replica-type",
	"training.kubeflow.org/job-role",
	"volcano.sh/task-spec",
	"ray.io/node-type",
	workerIndex,
}

// workerIndex is the number of a pod of a LeaderWorkerSet in its group. Number 0 leads.
const workerIndex = "leaderworkerset.sigs.k8s.io/worker-index"

// indexLabels are the labels and annotations that tell equal pods of a role apart, the
// widest circle first.
var indexLabels = []string{
	"jobset.sigs.k8s.io/job-index",
	"batch.kubernetes.io/job-completion-index",
	"training.kubeflow.org/replica-index",
	"volcano.sh/task-index",
	workerIndex,
}

// sizeLabels are the labels and annotations that say how many pods a gang has, or with
// how many it can begin. Sources: names.GangSize; Kueue, plain pods; LeaderWorkerSet;
// Volcano; Koordinator; scheduler-plugins of 2020.
var sizeLabels = []string{
	"norn-scheduler.github.io/gang-size",
	"kueue.x-k8s.io/pod-group-total-count",
	"leaderworkerset.sigs.k8s.io/size",
	"scheduling.volcano.sh/group-min-member",
	"gang.scheduling.koordinator.sh/min-available",
	"pod-group.scheduling.sigs.k8s.io/min-available",
}

// uidLabels say which object of a name it is that pods belong to, by the circle that has
// the name.
var uidLabels = []struct{ circle, uid string }{
	{"jobset.sigs.k8s.io/jobset-name=", "jobset.sigs.k8s.io/jobset-uid"},
	{"batch.kubernetes.io/job-name=", "batch.kubernetes.io/controller-uid"},
	{"job-name=", "controller-uid"},
	{"Job=", "batch.kubernetes.io/controller-uid"},
}

// Labels are all labels and annotations of pods and nodes by which this package goes.
func Labels() []string {
	all := slices.Concat(gangLabels, roleLabels, indexLabels, sizeLabels, typeLabels)
	for _, l := range uidLabels {
		if !slices.Contains(all, l.uid) {
			all = append(all, l.uid)
		}
	}
	return all
}

// MetricLabel is what kube-state-metrics makes of the name of a label or annotation, behind
// label_ or annotation_: signs that Prometheus does not allow become _, and words that
// begin with a capital get one before them.
func MetricLabel(name string) string {
	var out strings.Builder
	lower := false // the sign before may end a word
	for _, r := range name {
		switch {
		case r >= 'A' && r <= 'Z':
			if lower {
				out.WriteByte('_')
			}
			out.WriteRune(r - 'A' + 'a')
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			out.WriteRune(r)
		default:
			out.WriteByte('_')
		}
		lower = r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
	}
	return out.String()
}

// Meta is what the metadata of a pod tells of the job that it belongs to.
type Meta struct {
	Namespace, Name, UID string
	Group                string // spec.schedulingGroup.podGroupName
	Labels, Annotations  map[string]string
	Owners               []Owner
}

// Owner is an object that a pod belongs to.
type Owner struct{ Kind, Name, UID string }

// Tag is the value of a label of the pod or, where it has none, of an annotation.
func (m *Meta) Tag(name string) string {
	if v, ok := m.Labels[name]; ok {
		return v
	}
	return m.Annotations[name]
}

// first is the first of some labels and annotations that the pod has, and its value.
func (m *Meta) first(names []string) (name, value string) {
	for _, name := range names {
		if v := m.Tag(name); v != "" {
			return name, v
		}
	}
	return "", ""
}

// Gang says to which job a pod belongs. Pods with equal keys are one job; the title is
// what to call it. The key tells where that is written: "job-name=bert", "MyJob=uid" of
// an owner, "pod=name/uid" of a pod that is a job by itself. A key begins with the
// namespace and a slash.
func (m *Meta) Gang() (key, title string) {
	circle, title := m.circle()
	return m.Namespace + "/" + circle, title
}

func (m *Meta) circle() (key, title string) {
	label, v := m.first(gangLabels)
	if m.Group != "" && label != gangLabels[0] {
		return "PodGroup=" + m.Group, m.Group
	}
	if v != "" {
		return label + "=" + v, v
	}
	for _, o := range m.Owners {
		if !oneByOne(o.Kind) {
			return o.Kind + "=" + o.UID, o.Name
		}
	}
	return "pod=" + m.Name + "/" + m.UID, m.Name
}

// Instance tells objects of one name apart to which pods belong one after the other. It is
// empty where no label tells.
func (m *Meta) Instance() string {
	key, _ := m.circle()
	for _, l := range uidLabels {
		if strings.HasPrefix(key, l.circle) {
			return m.Tag(l.uid)
		}
	}
	return ""
}

// Named tells whether a label, an annotation or a PodGroup says to which gang the pod
// belongs.
func (m *Meta) Named() bool {
	_, v := m.first(gangLabels)
	return v != "" || m.Group != ""
}

// The API groups of PodGroups.
const (
	NativeGroups  = "scheduling.k8s.io"
	VolcanoGroups = "scheduling.volcano.sh"
	PluginGroups  = "scheduling.x-k8s.io" // of scheduler-plugins
)

// PodGroup is the PodGroup that a pod names, and the API group that it is of. Both are empty
// where the pod names none, or says by Norn's own label to which gang it belongs.
func (m *Meta) PodGroup() (api, name string) {
	if m.Tag(gangLabels[0]) != "" {
		return "", ""
	}
	if m.Group != "" {
		return NativeGroups, m.Group
	}
	if _, name = m.first(volcanoGroup); name != "" {
		return VolcanoGroups, name
	}
	if name = m.Tag(pluginGroup); name != "" {
		return PluginGroups, name
	}
	return "", ""
}

// GangSize is the label or annotation that says how many pods the gang has, and what it
// says; both are empty where none does.
func (m *Meta) GangSize() (label, size string) { return m.first(sizeLabels) }

// Role is the role of a pod in its gang; empty: all are alike.
func (m *Meta) Role() string {
	label, v := m.first(roleLabels)
	switch {
	case label != workerIndex:
		return v
	case v == "0":
		return "leader"
	}
	return "worker"
}

// Index tells pods of a role apart: a second pod with the same index replaces the first.
// It is empty where the pod has none.
func (m *Meta) Index() string {
	var out strings.Builder
	for _, label := range indexLabels {
		if v := m.Tag(label); v != "" {
			out.WriteString(label + "=" + v + ",")
		}
	}
	return out.String()
}

// Indexes are the values of the labels and annotations that Index is made of, the widest
// circle first.
func (m *Meta) Indexes() []string {
	var out []string
	for _, label := range indexLabels {
		if v := m.Tag(label); v != "" {
			out = append(out, v)
		}
	}
	return out
}

// OfNode is the kind of the owner of a pod that belongs to its node, such as those of a
// DaemonSet, and is no job; empty: it does not.
func (m *Meta) OfNode() string {
	if len(m.Owners) > 0 && (m.Owners[0].Kind == "DaemonSet" || m.Owners[0].Kind == "Node") {
		return m.Owners[0].Kind
	}
	return ""
}

// Replaced tells whether the owner of a pod makes another one in its place that is the
// same work, where it is gone: those of ReplicaSets and the like are jobs of their own.
func (m *Meta) Replaced() bool {
	return slices.ContainsFunc(m.Owners, func(o Owner) bool { return !oneByOne(o.Kind) })
}

// oneByOne tells whether pods of an owner of that kind live and die one by one.
func oneByOne(kind string) bool {
	switch kind {
	case "ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet", "Node":
		return true
	}
	return false
}
