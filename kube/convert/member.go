package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// Member is a pod of a gang.
type Member struct {
	Key   string // of the gang: pods with equal keys are one gang
	Title string // what to call the gang
	Role  string
	Gangs bool  // a label, an annotation or a PodGroup says so, and not its owner or its name
	Size  int32 // how many pods the gang has, or can begin with; 0: it is not told
	Rank  int32 // in its role; -1: only Compare tells
	index []int32
	name  string
}

// MemberOf says to which gang a pod belongs, by the rules of podmap. The size and the
// indexes are labels and annotations that users can write; it fails on those that are no
// numbers.
func MemberOf(p *corev1.Pod) (Member, error) {
	meta := metaOf(p)
	for i := range p.OwnerReferences {
		o := &p.OwnerReferences[i]
		meta.Owners = append(meta.Owners, podmap.Owner{Kind: o.Kind, Name: o.Name, UID: string(o.UID)})
	}
	m := Member{Role: meta.Role(), Rank: -1, name: p.Name}
	m.Key, m.Title = meta.Gang()
	m.Gangs = meta.Named()
	if label, text := meta.GangSize(); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 || n > job.MaxTasks {
			return m, fmt.Errorf("pod %s/%s: %s %q: write a number from 1 to %d", p.Namespace, p.Name, label, text, job.MaxTasks)
		}
		m.Size = int32(n)
	}
	for _, text := range meta.Indexes() {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 || n > job.MaxTasks {
			return m, fmt.Errorf("pod %s/%s: index %q is no number from 0 to %d", p.Namespace, p.Name, text, job.MaxTasks)
		}
		m.index = append(m.index, int32(n))
	}
	if len(m.index) == 1 {
		m.Rank = m.index[0]
	}
	return m, nil
}

// metaOf is what the metadata of a pod tells, but for its owners.
func metaOf(p *corev1.Pod) podmap.Meta {
	meta := podmap.Meta{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Labels: p.Labels, Annotations: p.Annotations}
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		meta.Group = *g.PodGroupName
	}
	return meta
}

// PodGroupOf is the PodGroup that a pod names, by the rules of podmap: the API group that it is
// of, and its name in the namespace of the pod. Both are empty where the pod names none.
func PodGroupOf(p *corev1.Pod) (api, name string) {
	meta := metaOf(p)
	return meta.PodGroup()
}

// Compare is the order of pods of one gang: by role, by their indexes, and by name, in
// which numbers are compared as such (worker-2 before worker-10).
func (m *Member) Compare(o *Member) int {
	return cmp.Or(cmp.Compare(m.Role, o.Role), slices.Compare(m.index, o.index), natural(m.name, o.name), cmp.Compare(m.name, o.name))
}

// natural compares names piece by piece, numbers as numbers.
func natural(a, b string) int {
	digits := func(s string) (number, rest string) {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		return strings.TrimLeft(s[:n], "0"), s[n:]
	}
	for a != "" && b != "" {
		x, left := digits(a)
		y, right := digits(b)
		if len(left) == len(a) || len(right) == len(b) { // no number in one of them
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
		a, b = left, right
	}
	return cmp.Compare(len(a), len(b))
}
