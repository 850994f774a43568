package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/live"
)

// entry is a job that has not ended, with the part that only this world knows.
type entry struct {
	live.Job
	kind      kind
	namespace string
	name      string    // of the owner
	uid       types.UID // of the owner; empty: of a gang, which has none
	ask       convert.Job

	stage   stage
	seats   []seat
	told    bool // the API has what was decided of the present run, or is being told
	drains  bool // the engine knows that the run is leaving, and what it uses until then
	anew    bool // it is to be launched again as soon as its last run has left: it has devices
	began   time.Duration
	saved   time.Duration // work up to the last checkpoint that is known of
	codes   map[types.UID]int32
	trouble string // why its run was thrown off; empty: it was not
	lost    string // why its run is lost; empty: it is not
	reason  reason // that was last told of why it waits
	gone    bool   // its owner is gone, or is not to be touched any more
	failed  int    // launches that the API refused, one after the other
}

// kind is what sort of object a job is.
type kind uint8

const (
	aJob  kind = iota // batch/v1
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
	key       string
	namespace string
	name      string
	uid       types.UID
	created   time.Time
	owner     *batch.Job  // of a Job
	pods      []*core.Pod // in order of their names
	deleted   bool        // the owner is being deleted
}

// see looks at a job; nil: there is no such thing.
func (w *watcher) see(key string) *sight {
	namespace, rest, _ := strings.Cut(key, "/")
	s := &sight{key: key, namespace: namespace, name: rest, pods: w.podsOf(key)}
	slices.SortFunc(s.pods, func(a, b *core.Pod) int { return cmp.Compare(a.Name, b.Name) })
	prefix, name, prefixed := strings.Cut(rest, ":")
	if !prefixed {
		if s.owner = w.job(key); s.owner == nil || !ours(s.owner) {
			return nil
		}
		s.uid, s.created, s.deleted = s.owner.UID, s.owner.CreationTimestamp.Time, s.owner.DeletionTimestamp != nil
		return s
	}
	if len(s.pods) == 0 {
		return nil
	}
	s.kind, s.name, s.created = aGang, name, s.pods[0].CreationTimestamp.Time
	if prefix+":" == podPrefix {
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
	if err != nil {
		return ""
	}
	return m.Gang
}

// rankOf is the place of a pod among those of its job.
func rankOf(p *core.Pod) (int, bool) {
	m, err := convert.MemberOf(p)
	return m.Rank, err == nil && m.Rank >= 0
}

// asks is what a job asks for. It fails, with a sentence, on what Norn cannot schedule, and
// with errIncomplete while pods of a gang are missing.
func (s *sight) asks(site *convert.Site, usual job.StopMode) (convert.Job, error) {
	if s.kind == aJob {
		a, err := site.Job(s.owner)
		if err == nil && !a.StopTold {
			a.Stop = usual
		}
		return a, err
	}
	return s.podsAsk(site)
}

// incomplete is the error of a gang of which pods are missing.
type incomplete struct{ have, want int }

func (e *incomplete) Error() string {
	return fmt.Sprintf("%d of its %d pods are there", e.have, e.want)
}

// podsAsk is what bare pods ask for together: equal ones are tasks of one role.
func (s *sight) podsAsk(site *convert.Site) (convert.Job, error) {
	out := convert.Job{Name: s.name, Stop: job.Pinned, StopTold: true}
	size := 1
	if s.kind == aGang {
		m, err := convert.MemberOf(s.pods[0])
		if err != nil {
			return out, err
		}
		if size = m.Size; size == 0 {
			return out, fmt.Errorf("gang %s does not tell how many pods it has: annotate its pods with %s", s.name, names.GangSize)
		}
		if len(s.pods) < size {
			return out, &incomplete{len(s.pods), size}
		}
	}
	used := 0
	for _, p := range s.pods {
		a, err := site.Pod(&p.Spec, p.Labels, p.Annotations)
		if err != nil {
			return out, fmt.Errorf("pod %s: %w", p.Name, err)
		}
		out.Gates = append(out.Gates, a.Gates...)
		out.Priority = max(out.Priority, a.Priority)
		d := &out.Demand
		if used > 0 && (d.Types != a.Types || d.Where != a.Where || d.Tolerate != a.Tolerate || d.Within != a.Within || d.Prefer != a.Prefer) {
			return out, fmt.Errorf("pod %s may be on other nodes than pod %s: the pods of a gang ask for the same nodes", p.Name, s.pods[0].Name)
		}
		d.Types, d.Where, d.Tolerate, d.Within, d.Prefer = a.Types, a.Where, a.Tolerate, a.Within, a.Prefer
		at := slices.IndexFunc(d.Roles[:used], func(r job.Role) bool {
			r.Tasks = a.Role.Tasks
			return r == a.Role
		})
		switch {
		case at >= 0:
			d.Roles[at].Tasks++
		case used == job.MaxRoles:
			return out, fmt.Errorf("its pods have more than %d sizes", job.MaxRoles)
		default:
			d.Roles[used] = a.Role
			used++
		}
	}
	p := s.pods[0]
	out.Pods = int32(len(s.pods))
	out.Tenant = cmp.Or(p.Labels[names.Queue], p.Namespace)
	out.User = cmp.Or(p.Annotations[names.User], p.Namespace)
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		out.Grace = time.Duration(*g) * time.Second
	}
	out.Estimate = estimateOf(p.Annotations)
	if len(p.Spec.Containers) > 0 {
		out.Command = p.Spec.Containers[0].Command
	}
	return out, out.Demand.Check()
}

// estimateOf is the run time that annotations tell; 0: they tell none that can be read.
func estimateOf(annotations map[string]string) time.Duration {
	text := annotations[names.Estimate]
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n > 0 && n < 1e9 {
		return time.Duration(n * float64(time.Second))
	}
	return 0
}

// spec is the job as the API of Norn shows it.
func (s *sight) spec(a *convert.Job) *api.JobSpec {
	d := &a.Demand
	gpus := float64(d.Milli(d.Roles[0].Tasks)) / 1000
	out := &api.JobSpec{
		Name: a.Name, Tenant: a.Tenant, Command: a.Command, GPUs: api.Fixed(gpus), CPUs: float64(d.CPU()) / 1000, Memory: api.Bytes(d.Memory()),
		Where: d.Where, Tolerate: d.Tolerate, Within: d.Within, Priority: a.Priority, Estimate: api.Of(a.Estimate),
		Tasks: api.Tasks{N: int(a.Pods)}, Stop: api.Stop{Mode: a.Stop.String(), Signal: "TERM", Grace: api.Of(a.Grace)},
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
func (d *Daemon) engineJob(s *sight, a *convert.Job, submit time.Duration) job.Job {
	return job.Job{
		Key: s.key, Name: a.Name, User: a.User, Tenant: a.Tenant, Submit: submit, Demand: d.Shape(a.Demand),
		Priority: a.Priority, Estimate: a.Estimate, Stop: a.Stop, Retries: -1, // how often an attempt is repeated is up to its controller
	}
}

// newEntry makes the entry of a job.
func newEntry(s *sight, a *convert.Job) *entry {
	return &entry{
		Job:  live.Job{Key: s.key, User: a.User, Spec: s.spec(a)},
		kind: s.kind, namespace: s.namespace, name: s.name, uid: s.uid, ask: *a, codes: map[types.UID]int32{},
	}
}

// isOver tells whether the owner says that the job has ended, and how.
func (l *entry) isOver(s *sight) (done, failed bool, why string) {
	if l.kind == aJob {
		for _, c := range s.owner.Status.Conditions {
			if c.Status != core.ConditionTrue {
				continue
			}
			switch c.Type {
			case batch.JobComplete:
				return true, false, ""
			case batch.JobFailed:
				return false, true, strings.TrimSpace(string(c.Reason) + ": " + c.Message)
			}
		}
		return false, false, ""
	}
	ended := 0
	for _, p := range s.pods {
		switch p.Status.Phase {
		case core.PodFailed:
			return false, true, podText(p)
		case core.PodSucceeded:
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
