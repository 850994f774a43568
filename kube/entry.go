package kube

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/kinds"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/live"
)

// entry is a job that has not ended, with the part that only this world knows.
type entry struct {
	live.Job
	kind      kind
	of        ownerKind // of a Job of another kind
	namespace string
	name      string    // of the owner
	uid       types.UID // of the owner; empty: of a gang, which has none
	ask       ask

	stage   stage
	seats   []seat
	told    bool // the API has what was decided of the present run, or is being told
	drains  bool // the engine knows that the run is leaving, and what it uses until then
	anew    bool // it is to be launched again as soon as its last run has left: it has devices
	began   time.Duration
	codes   map[types.UID]int32
	trouble string         // why its run was thrown off; empty: it was not
	lost    string         // why its run is lost; empty: it is not
	from    cluster.NodeID // that was taken back, for which its run leaves
	reason  reason         // that was last told of why it waits
	short   bool           // it is held, for pods of it are gone, or others have bound some
	unfit   string         // why Norn cannot schedule it, for which it is held; empty: it can
	denied  string         // why it may not use its queue, for which it is held; empty: it may
	retaken bool           // it is about to be taken in anew
	noted   bool           // its owner says that it is held
	found   bool           // its run is one of an earlier Norn
	saved   time.Duration  // of its work, when it was told to leave: what it falls back to if it cannot save
	gone    bool           // its owner is gone, or is not to be touched any more
	failed  int            // launches that the API refused, one after the other
	trapped bool           // a node of it is taken back, and there is no room for it elsewhere

	groupSeen string        // version of its PodGroup that was last told how it stands
	grown     int           // pods of a gang that waits, when they were last counted
	grew      time.Duration // when these became more
}

// kind is what sort of object a job is.
type kind uint8

const (
	aJob  kind = iota // batch/v1, or another kind of owner
	aGang             // pods that belong together by a label
	aPod
)

var kindNames = [...]string{"Job", "gang of pods", "Pod"}

func (k kind) String() string { return kindNames[k] }

// stage is the stage that the last run of a job has reached.
type stage uint8

const (
	noRun    stage = iota // none, or it is over and has left
	starting              // it is launched: not all of its pods have been seen to run
	up
	leaving // it was told to leave
)

// there tells whether anything of a run may be there.
func (s stage) there() bool { return s != noRun }

// sight is what the API shows of a job.
type sight struct {
	kind      kind
	of        ownerKind // of a Job of another kind
	key       string
	namespace string
	name      string
	uid       types.UID
	created   time.Time
	owner     owner       // of a Job
	pods      []*core.Pod // in order of their names
	deleted   bool        // the owner is being deleted
}

// see looks at a job; nil: there is no such thing.
func (w *watcher) see(key string) *sight {
	of, namespace, name, owned := w.kindOf(key)
	s := &sight{key: key, namespace: namespace, name: name, of: of}
	if owned {
		if s.owner = w.ownerAt(key); s.owner == nil || !w.ours(key, s.owner) {
			return nil
		}
		s.uid, s.created, s.deleted = s.owner.GetUID(), s.owner.GetCreationTimestamp().Time, s.owner.GetDeletionTimestamp() != nil
		s.pods = w.podsOf(key, s.uid)
		slices.SortFunc(s.pods, func(a, b *core.Pod) int { return cmp.Compare(a.Name, b.Name) })
		return s
	}
	if s.pods = w.podsOf(key, ""); len(s.pods) == 0 {
		return nil
	}
	slices.SortFunc(s.pods, func(a, b *core.Pod) int { return cmp.Compare(a.Name, b.Name) })
	s.kind, s.created = aGang, s.pods[0].CreationTimestamp.Time
	if strings.HasPrefix(key, namespace+"/"+podPrefix) {
		s.kind, s.uid, s.deleted = aPod, s.pods[0].UID, s.pods[0].DeletionTimestamp != nil
	}
	for _, p := range s.pods {
		if p.CreationTimestamp.Time.Before(s.created) {
			s.created = p.CreationTimestamp.Time
		}
	}
	return s
}

// gangOf is the gang that a pod says it belongs to; empty: none.
func gangOf(p *core.Pod) string {
	m, err := convert.MemberOf(p)
	if err != nil || !m.Gangs {
		return ""
	}
	return m.Title
}

// rankOf is the place of a pod among those of its job.
func rankOf(p *core.Pod) (int, bool) {
	m, err := convert.MemberOf(p)
	return int(m.Rank), err == nil && m.Rank >= 0
}

// ask is what a job asks for, and what else its owner says of it.
type ask struct {
	name, tenant, user string
	queued             bool // the tenant is a queue that a label names
	demand             job.Demand
	pods               int32
	priority           int32
	estimate           time.Duration
	stop               job.StopMode
	grace              time.Duration
	command            []string
}

// equal tells whether two asks lead to the same job. The GPU types that come into question
// change as nodes come: see acceptsNew.
func (a *ask) equal(b *ask) bool {
	x, y := a.demand, b.demand
	x.Types, y.Types = "", ""
	return a.name == b.name && a.tenant == b.tenant && a.queued == b.queued && a.user == b.user && x == y && a.pods == b.pods &&
		a.priority == b.priority && a.estimate == b.estimate && a.stop == b.stop
}

// incomplete is the error of a gang of which pods are missing or its PodGroup, or of an owner
// whose child has the templates of its pods and is missing.
type incomplete struct {
	have, want int
	child      string // what is missing instead of pods; empty: pods are
}

func (e *incomplete) Error() string {
	if e.child != "" {
		return e.child
	}
	return fmt.Sprintf("%d of its %d pods are there", e.have, e.want)
}

// asks is what a job asks for. It fails, with a sentence, on what Norn cannot schedule, and
// with incomplete while pods of a gang are missing.
func (d *Daemon) asks(s *sight) (ask, error) {
	if s.kind == aJob {
		return s.owner.asks(d)
	}
	return d.podsAsk(s)
}

// beyond is the error of a pod that only kube-scheduler can place.
func beyond(a *convert.Ask) error {
	if len(a.Beyond) == 0 {
		return nil
	}
	return fmt.Errorf("only kube-scheduler can see to %s", strings.Join(a.Beyond, " and "))
}

// podsAsk is what bare pods ask for together: equal ones are tasks of one role. Nobody would
// make them again, so they are not preempted. Where it fails with incomplete or errApart it says
// what those that are there ask for.
func (d *Daemon) podsAsk(s *sight) (ask, error) {
	p := s.pods[0]
	out := ask{
		name: s.name, tenant: cmp.Or(p.Labels[names.Queue], p.Namespace), queued: p.Labels[names.Queue] != "", user: cmp.Or(p.Annotations[names.User], p.Namespace),
		stop: job.Pinned, pods: int32(len(s.pods)), grace: 30 * time.Second,
	}
	if len(p.Spec.Containers) > 0 {
		out.command = p.Spec.Containers[0].Command
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		out.grace = time.Duration(*g) * time.Second
	}
	if text := p.Annotations[names.Estimate]; text != "" {
		est, err := unit.ParseSeconds(text)
		if err != nil {
			return out, fmt.Errorf("%s %q: write a duration such as 1h30m, or seconds", names.Estimate, text)
		}
		out.estimate = est
	}
	group, missing := d.view.groupOf(s)
	if missing != nil && !errors.As(missing, new(*incomplete)) {
		return out, missing
	}
	sets, size, err := d.setsOf(s, group, &out)
	if err != nil {
		return out, err
	}
	if out.demand, err = convert.Demand(sets, d.nodes.types); err != nil {
		return out, err
	}
	if group != nil {
		rank, err := d.view.priorityOf(&convert.Ask{Class: group.Class, Priority: group.Priority, Ranked: group.Class == ""})
		if err != nil {
			return out, err
		}
		out.priority = max(out.priority, rank)
	}
	switch {
	case s.kind != aGang:
	case int(size) > len(s.pods):
		return out, &incomplete{have: len(s.pods), want: int(size)}
	case size == 0 && missing != nil:
		return out, missing
	case size == 0 && group != nil:
		return out, errApart
	}
	return out, nil
}

// setsOf is the pods of a job as sets of equal ones, and how many a gang has or can begin with; 0:
// nobody tells, or its PodGroup says that its pods need not begin together. It notes their
// priority.
func (d *Daemon) setsOf(s *sight, group *kinds.Group, out *ask) (sets []convert.Set, size int32, err error) {
	if group == nil {
		group = new(kinds.Group)
	}
	if len(group.Claims) > 0 {
		return nil, 0, fmt.Errorf("only kube-scheduler can see to the resource claim %s of PodGroup %s", group.Claims[0], group.Key)
	}
	for _, p := range s.pods {
		m, err := convert.MemberOf(p)
		if err != nil {
			return nil, 0, err
		}
		size = max(size, m.Size)
		a, err := convert.Pod(&p.Spec, p.Labels, p.Annotations, d.nodes.levels)
		if err == nil {
			err = beyond(a)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("pod %s: %w", p.Name, err)
		}
		if a.Within == "" {
			a.Within, a.Prefer = group.Within, group.Prefer
		}
		rank, err := d.view.priorityOf(a)
		if err != nil {
			return nil, 0, err
		}
		out.priority = max(out.priority, rank)
		if last := len(sets) - 1; last >= 0 && sets[last].Role == m.Role && sets[last].Ask.Size == a.Size {
			sets[last].Count++
		} else {
			sets = append(sets, convert.Set{Role: m.Role, Count: 1, Ask: a})
		}
	}
	return sets, cmp.Or(size, group.Least), nil
}

// spec is the job as the API of Norn shows it.
func (a *ask) spec() *api.JobSpec {
	d := &a.demand
	gpus := float64(d.Milli(d.Roles[0].Tasks)) / 1000
	out := &api.JobSpec{
		Name: a.name, Tenant: a.tenant, Command: a.command, GPUs: api.Fixed(gpus), CPUs: float64(d.CPU()) / 1000, Memory: api.Bytes(d.Memory()),
		Where: d.Where, Tolerate: d.Tolerate, Within: d.Within, Priority: a.priority, Estimate: api.Of(a.estimate),
		Tasks: api.Tasks{N: int(a.pods)}, Stop: api.Stop{Mode: a.stop.String(), Signal: "TERM", Grace: api.Of(a.grace)},
	}
	if d.Types != "" {
		out.Types = strings.Split(d.Types, "|")
	}
	if least, most := d.Roles[0].Range(); least != most {
		each := float64(d.Roles[0].GPU) / 1000
		out.GPUs = api.Range{Least: float64(least) * each, Most: float64(most) * each, Ask: gpus}
	}
	return out
}

// engineJob is a job as the engine knows it.
func (d *Daemon) engineJob(s *sight, a *ask, submit time.Duration) job.Job {
	return job.Job{
		Key: s.key, Name: a.name, User: a.user, Tenant: a.tenant, Submit: submit, Demand: d.Shape(a.demand),
		Priority: a.priority, Estimate: a.estimate, Stop: a.stop, Retries: -1, // how often an attempt is repeated is up to its controller
	}
}

// newEntry makes the entry of a job.
func newEntry(s *sight, a *ask) *entry {
	return &entry{
		Job:  live.Job{Key: s.key, User: a.user, Spec: a.spec()},
		kind: s.kind, of: s.of, namespace: s.namespace, name: s.name, uid: s.uid, ask: *a, codes: map[types.UID]int32{},
	}
}

// isOver tells whether the owner says that the job has ended, and how.
func (l *entry) isOver(s *sight) (done, failed bool, why string) {
	switch {
	case l.kind == aJob && l.stage == leaving: // it is suspended, though that is not seen yet
		return s.owner.over(nil)
	case l.kind == aJob:
		return s.owner.over(s.pods)
	}
	ended := 0
	for _, p := range s.pods {
		switch {
		case p.Status.Phase == core.PodFailed && p.DeletionTimestamp == nil: // one that was told to end has not failed by itself
			return false, true, podText(p)
		case p.Status.Phase == core.PodSucceeded:
			ended++
		}
	}
	return ended > 0 && ended == len(s.pods), false, ""
}

// podText says how a pod ended.
func podText(p *core.Pod) string {
	text := "pod " + p.Name
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("%s: exit code %d", text, t.ExitCode)
		}
	}
	for _, more := range []string{p.Status.Reason, p.Status.Message} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}
