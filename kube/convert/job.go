package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/names"
)

// Owner is what the metadata of a Job, or of another owner of pods, tells.
type Owner struct {
	Key    string // namespace/name
	Name   string // without what a CronJob or a generator has put behind it, so that similar ones are called the same
	Tenant string // names.Queue, else the namespace
	User   string // names.User, else the namespace
	Admits bool   // names.Queue is there: Norn says when it is resumed
}

// OwnerOf reads the metadata of an owner of pods.
func OwnerOf(m *metav1.ObjectMeta) Owner {
	return Owner{
		Key: m.Namespace + "/" + m.Name, Name: stem(m), User: cmp.Or(m.Annotations[names.User], m.Namespace), Tenant: cmp.Or(m.Labels[names.Queue], m.Namespace),
		Admits: m.Labels[names.Queue] != "",
	}
}

// JobAsk is a batch/v1 Job.
type JobAsk struct {
	Owner
	Ask     *Ask     // of each of its pods: priority and how it may be stopped are there, too
	Command []string // of its first container, with its arguments

	Tasks       int32 // pods at one time: the smaller of parallelism and completions
	Completions int32 // 0: not told, one that succeeds ends the Job
	Indexed     bool
	Least, Most int32 // tasks between which Norn may choose; 0: it may not

	Backoff  int32         // failures of pods until the Job fails
	Deadline time.Duration // of each run, after which the Job fails; 0: none
	Estimate time.Duration // expected run time, at most Deadline; 0: not told
	Grace    time.Duration // that its pods have to leave

	Suspend   bool   // what the spec says
	ManagedBy string // other than the Job controller; empty: by that one
	State     JobState
}

// JobPhase is where a Job stands by its conditions.
type JobPhase uint8

// The phases of a Job.
const (
	JobOpen   JobPhase = iota
	JobEnding          // it is decided how it ends, and its pods are leaving
	JobComplete
	JobFailed
)

// JobState is what the status of a Job says.
type JobState struct {
	Phase     JobPhase
	Suspended bool   // condition Suspended; it comes some time after the spec
	Started   bool   // status.startTime is there
	Active    int32  // pods that are not ending
	Why       string // of JobEnding and JobFailed: reason and message
}

// Batch reads a Job. It fails on what no job can be; the error names the Job.
func Batch(j *batchv1.Job, levels Levels) (*JobAsk, error) {
	out := &JobAsk{
		Owner: OwnerOf(&j.ObjectMeta), Tasks: 1, Backoff: 6, Suspend: j.Spec.Suspend != nil && *j.Spec.Suspend, State: StateOf(&j.Status),
		Indexed: j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion,
		Grace:   30 * time.Second,
	}
	if err := out.read(j, levels); err != nil {
		return nil, fmt.Errorf("job %s: %w", out.Key, err)
	}
	return out, nil
}

// stem is the name of an owner that similar ones share: the prefix from which its name was
// generated, or the name of the CronJob that made it.
func stem(j *metav1.ObjectMeta) string {
	for i := range j.OwnerReferences {
		if o := &j.OwnerReferences[i]; o.Kind == "CronJob" && strings.HasPrefix(j.Name, o.Name) {
			return o.Name
		}
	}
	if g := strings.TrimRight(j.GenerateName, "-."); g != "" && strings.HasPrefix(j.Name, j.GenerateName) {
		return g
	}
	return j.Name
}

func (a *JobAsk) read(j *batchv1.Job, levels Levels) (err error) {
	if p := j.Spec.Parallelism; p != nil {
		a.Tasks = *p
	}
	if c := j.Spec.Completions; c != nil {
		a.Completions, a.Tasks = *c, min(a.Tasks, *c)
	}
	if a.Tasks < 1 || a.Tasks > job.MaxTasks {
		return fmt.Errorf("it has %d pods at a time (the smaller of parallelism and completions); from 1 to %d is allowed", a.Tasks, job.MaxTasks)
	}
	if b := j.Spec.BackoffLimit; b != nil {
		a.Backoff = max(0, *b)
	}
	if m := j.Spec.ManagedBy; m != nil && *m != batchv1.JobControllerName {
		a.ManagedBy = *m
	}
	if g := j.Spec.Template.Spec.TerminationGracePeriodSeconds; g != nil {
		a.Grace = Bounded(*g)
	}
	if d := j.Spec.ActiveDeadlineSeconds; d != nil {
		a.Deadline = Bounded(*d)
	}
	t := &j.Spec.Template
	if a.Estimate, err = Estimate(cmp.Or(j.Annotations[names.Estimate], t.Annotations[names.Estimate]), a.Deadline); err != nil {
		return err
	}
	if text := j.Annotations[names.Resize]; text != "" {
		if err := a.resize(text, j.Annotations[names.Asked], j.Spec.Completions, j.Spec.Parallelism); err != nil {
			return err
		}
	}
	if c := t.Spec.Containers; len(c) > 0 {
		a.Command = slices.Concat(c[0].Command, c[0].Args)
	}
	a.Ask, err = Pod(&t.Spec, Both(j.Labels, t.Labels), Both(j.Annotations, t.Annotations), levels)
	return err
}

// Both are the labels of an owner and of its template; those of the template go first.
func Both(owner, template map[string]string) map[string]string {
	out := make(map[string]string, len(owner)+len(template))
	for k, v := range owner {
		out[k] = v
	}
	for k, v := range template {
		out[k] = v
	}
	return out
}

// Bounded is a number of seconds that a user wrote, from 0 to a hundred years.
func Bounded(seconds int64) time.Duration {
	return time.Duration(min(max(0, seconds), 100*365*24*3600)) * time.Second
}

// Estimate is the expected run time by names.Estimate, but at most the deadline; 0: neither
// is told. It fails on text that is no duration above 0.
func Estimate(text string, deadline time.Duration) (time.Duration, error) {
	if text == "" {
		return deadline, nil
	}
	d, err := unit.ParseSeconds(text)
	if err != nil || d <= 0 || d > Bounded(1<<62) {
		return 0, fmt.Errorf("%s %q: write a duration such as 1h30m, or seconds", names.Estimate, text)
	}
	if deadline > 0 {
		d = min(d, deadline)
	}
	return d, nil
}

// resize reads names.Resize, and names.Asked, by which the parallelism is known that its user
// has told.
func (a *JobAsk) resize(text, asked string, completions, parallelism *int32) error {
	least, most, ok := strings.Cut(text, "-")
	low, err1 := strconv.ParseInt(strings.TrimSpace(least), 10, 32)
	high, err2 := strconv.ParseInt(strings.TrimSpace(most), 10, 32)
	switch {
	case !ok || err1 != nil || err2 != nil || low < 1 || high < low || high > job.MaxTasks:
		return fmt.Errorf("%s %q: write two numbers of pods, as in 2-8", names.Resize, text)
	case !a.Indexed || completions == nil || parallelism == nil || *completions != *parallelism:
		return fmt.Errorf("%s: only a Job with completionMode Indexed and as many completions as parallelism can be resized", names.Resize)
	case int64(a.Tasks) < low || int64(a.Tasks) > high:
		return fmt.Errorf("%s %q: the Job has %d pods", names.Resize, text, a.Tasks)
	}
	a.Least, a.Most = int32(low), int32(high)
	if n, err := strconv.ParseInt(asked, 10, 32); err == nil && n >= low && n <= high { // what Norn noted
		a.Tasks = int32(n)
	}
	return nil
}

// Demand is the shape of the Job: one role, elastic where the Job may be resized.
func (a *JobAsk) Demand(types Types) (job.Demand, error) {
	d, err := Demand([]Set{{Count: a.Tasks, Ask: a.Ask}}, types)
	if err == nil && a.Most > 0 {
		d.Roles[0].Min, d.Roles[0].Max = a.Least, a.Most
		err = d.Check()
	}
	if err != nil {
		return d, fmt.Errorf("job %s: %w", a.Key, err)
	}
	return d, nil
}

// StateOf reads the conditions of a Job.
func StateOf(s *batchv1.JobStatus) JobState {
	out := JobState{Started: s.StartTime != nil, Active: s.Active}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.Status != corev1.ConditionTrue {
			continue
		}
		phase := JobOpen
		switch c.Type {
		case batchv1.JobSuspended:
			out.Suspended = true
		case batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget:
			phase = JobEnding
		case batchv1.JobComplete:
			phase = JobComplete
		case batchv1.JobFailed:
			phase = JobFailed
		}
		if phase > out.Phase {
			out.Phase, out.Why = phase, ""
			if c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget {
				out.Why = strings.Trim(c.Reason+": "+c.Message, ": ")
			}
		}
	}
	return out
}
