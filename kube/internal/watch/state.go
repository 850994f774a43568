package watch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/kube/internal/demand"
	"github.com/norn-scheduler/norn/kube/names"
)

// state is what the checker has seen of the cluster, and what was wrong in it. It has no
// clock and no client.
type state struct {
	opts   Options
	lookup func(node string) (demand.Resources, bool) // asks the API; nil: nobody to ask

	allocatable map[string]demand.Resources // by node
	used        map[string]demand.Resources
	pods        map[types.UID]*pod
	foreign     map[string]string // schedulers of the pods of others, by "namespace/name"
	gangs       map[string]*gang
	sizes       map[types.UID]int // of Jobs, as gangs
	wrong       []string
}

// pod is what counts of a pod.
type pod struct {
	title string
	node  string // empty: not bound
	asked demand.Resources
	has   []string // devices of its node that it is noted to have, while it holds them
	gang  string   // key of its gang; empty: none
	life  life
	notes []string // of ours, that were seen on a pod of others
}

// life is what a member does for its gang.
type life int

const (
	absent  life = iota // not bound, or told to end
	present             // bound, and not told to end
	done                // ended by itself
)

// gang is a set of pods that are bound together or not at all.
type gang struct {
	name    string
	job     types.UID // whose parallelism is the size; empty: the size is that of the pods
	size    int       // as its pods say; 0: unknown
	members map[types.UID]*pod
	since   time.Time // when it began to be bound in part; zero: it is not
	told    bool      // that it has been bound in part for too long
}

func newState(opts Options) *state {
	return &state{
		opts: opts, allocatable: map[string]demand.Resources{}, used: map[string]demand.Resources{}, pods: map[types.UID]*pod{},
		foreign: map[string]string{}, gangs: map[string]*gang{}, sizes: map[types.UID]int{},
	}
}

func (s *state) violation(now time.Time, format string, args ...any) {
	s.wrong = append(s.wrong, now.UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// node notes what a node has.
func (s *state) node(n *core.Node, gone bool) {
	if gone {
		delete(s.allocatable, n.Name)
		return
	}
	s.allocatable[n.Name] = demand.List(n.Status.Allocatable)
}

// job notes how many pods of a Job run at once; none of one that is suspended, whose pods
// leave one after the other.
func (s *state) job(j *batch.Job, gone bool) {
	if gone {
		delete(s.sizes, j.UID)
		return
	}
	size := 1
	if n := j.Spec.Parallelism; n != nil {
		size = int(*n)
	}
	if n := j.Spec.Completions; n != nil {
		size = min(size, int(*n))
	}
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		size = 0
	}
	s.sizes[j.UID] = size
}

// pod looks at a version of a pod, or at its end.
func (s *state) pod(now time.Time, p *core.Pod, gone bool) {
	was, known := s.pods[p.UID]
	if !known {
		was = &pod{notes: notes(p)}
		s.pods[p.UID] = was
	}
	ours := s.opts.Ours(p)
	if !ours {
		s.touched(now, p, was)
	}
	terminal := over(p)
	holds := p.Spec.NodeName != "" && !terminal && !gone
	s.book(now, p, was, holds)
	if ours {
		s.devices(now, p, was, holds)
		s.member(now, p, was, terminal, gone)
	}
	if gone {
		delete(s.pods, p.UID)
	}
}

// over tells whether a pod has ended.
func over(p *core.Pod) bool {
	return p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed
}

// touched looks for signs that a pod of others was treated as one of ours.
func (s *state) touched(now time.Time, p *core.Pod, was *pod) {
	s.foreign[title(p)] = p.Spec.SchedulerName
	for _, note := range notes(p) {
		if !slices.Contains(was.notes, note) {
			was.notes = append(was.notes, note)
			s.violation(now, "pod %s names scheduler %q and was given annotation %s", title(p), p.Spec.SchedulerName, note)
		}
	}
	if s.opts.Alone && was.node == "" && p.Spec.NodeName != "" {
		s.violation(now, "pod %s names scheduler %q and was bound to %s", title(p), p.Spec.SchedulerName, p.Spec.NodeName)
	}
}

// notes are the annotations of a pod that only Norn writes.
func notes(p *core.Pod) []string {
	var out []string
	for _, key := range []string{names.Run, names.Devices, names.Plan, names.Record} {
		if _, there := p.Annotations[key]; there {
			out = append(out, key)
		}
	}
	return out
}

// book books what a pod asks for while it holds it, and checks that its node has it.
func (s *state) book(now time.Time, p *core.Pod, was *pod, holds bool) {
	var asked demand.Resources
	if holds {
		asked = demand.Of(p)
	}
	grows := false
	for name, n := range asked {
		grows = grows || n > was.asked[name]
	}
	if was.node != "" {
		s.used[was.node].Add(was.asked, -1)
	}
	was.node, was.asked = p.Spec.NodeName, asked
	if was.node == "" {
		return
	}
	if s.used[was.node] == nil {
		s.used[was.node] = demand.Resources{}
	}
	s.used[was.node].Add(asked, 1)
	if !grows {
		return
	}
	excess := s.over(was.node)
	if excess != "" && s.lookup != nil { // the news of a node may be late
		if fresh, there := s.lookup(was.node); there {
			s.allocatable[was.node] = fresh
			excess = s.over(was.node)
		}
	}
	if excess != "" {
		s.violation(now, "node %s: %s, since pod %s of scheduler %q was bound", was.node, excess, title(p), p.Spec.SchedulerName)
	}
}

// devices checks that no device of a node is noted on two pods that hold it.
func (s *state) devices(now time.Time, p *core.Pod, was *pod, holds bool) {
	had := was.has
	was.title, was.has = title(p), nil
	if text := p.Annotations[names.Devices]; holds && text != "" {
		was.has = strings.Split(text, ",")
	}
	if slices.Equal(had, was.has) {
		return
	}
	for _, other := range s.pods {
		if other == was || other.node != p.Spec.NodeName {
			continue
		}
		for _, device := range was.has {
			if slices.Contains(other.has, device) {
				s.violation(now, "device %s of node %s is noted on pod %s and on pod %s", device, p.Spec.NodeName, was.title, other.title)
			}
		}
	}
}

// over tells what of a node is booked beyond what it has, or nothing.
func (s *state) over(node string) string {
	has, there := s.allocatable[node]
	if !there {
		return "the node is not there"
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.used[node])) {
		if n := s.used[node][name]; n > has[name] {
			out = append(out, fmt.Sprintf("%d of %d %s are booked", n, has[name], name))
		}
	}
	return strings.Join(out, ", ")
}

// member looks at a pod of ours as one of a gang.
func (s *state) member(now time.Time, p *core.Pod, was *pod, terminal, gone bool) {
	if was.gang == "" {
		if was.gang = s.join(p); was.gang == "" {
			return
		}
		s.gangs[was.gang].members[p.UID] = was
	}
	g := s.gangs[was.gang]
	if n := declared(p); n > 0 {
		g.size = n
	}
	rejected := p.Status.Phase == core.PodFailed && len(p.Status.ContainerStatuses) == 0 // by the kubelet
	switch {
	case rejected:
		was.life = absent
	case terminal && was.life == present:
		was.life = done
	case gone && was.life == done: // it stays a part of this run
	case p.Spec.NodeName != "" && !terminal && !gone && p.DeletionTimestamp == nil:
		was.life = present
	case !terminal || gone:
		was.life = absent
	}
	s.review(now, g)
	if gone && was.life == absent {
		delete(g.members, p.UID)
	}
}

// join finds the gang of a pod, by its label or by the Job that it is of. It returns the
// key, or nothing.
func (s *state) join(p *core.Pod) string {
	g := &gang{members: map[types.UID]*pod{}}
	key := ""
	if name := p.Labels[names.Gang]; name != "" {
		key, g.name = "label "+p.Namespace+"/"+name, "gang "+p.Namespace+"/"+name
	} else if owner := meta.GetControllerOf(p); owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch/") {
		key, g.name, g.job = "job "+string(owner.UID), "job "+p.Namespace+"/"+owner.Name, owner.UID
	}
	if key != "" && s.gangs[key] == nil {
		s.gangs[key] = g
	}
	return key
}

// declared is the size of the gang that a pod says it is of, or 0.
func declared(p *core.Pod) int {
	n, err := strconv.Atoi(cmp.Or(p.Annotations[names.GangSize], p.Labels[names.GangSize]))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// review notes when a gang begins or ends to be bound in part, and complains of one that
// has been for too long.
func (s *state) review(now time.Time, g *gang) {
	size, here, ended := g.size, 0, 0
	if g.job != "" {
		size = s.sizes[g.job]
	}
	for _, m := range g.members {
		switch m.life {
		case present:
			here++
		case done:
			ended++
		}
	}
	switch {
	case here == 0: // the run is over, and with it what ended in it
		maps.DeleteFunc(g.members, func(_ types.UID, m *pod) bool { return m.life == done })
		g.since, g.told = time.Time{}, false
	case here+ended >= size:
		g.since, g.told = time.Time{}, false
	case g.since.IsZero():
		g.since = now
	case now.Sub(g.since) > s.opts.Whole && !g.told:
		g.told = true
		s.violation(now, "%s: %d of %d pods are bound, for more than %v", g.name, here+ended, size, s.opts.Whole)
	}
}

// check looks at all gangs at a moment at which nothing may have happened.
func (s *state) check(now time.Time) {
	for _, key := range slices.Sorted(maps.Keys(s.gangs)) {
		s.review(now, s.gangs[key])
	}
}

// title names a pod.
func title(p *core.Pod) string { return p.Namespace + "/" + p.Name }
