package convert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/kube/names"
)

func to[T any](v T) *T { return &v }

// batchJob is a Job as a user submits it to be admitted.
func batchJob() *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: "bert", Labels: map[string]string{names.Queue: "research", names.Stop: "last-save"},
		Annotations: map[string]string{names.Estimate: "1h30m", names.Resize: "2 - 8", names.User: "ada", names.Within: "rack"},
	}}
	j.Spec = batchv1.JobSpec{
		Parallelism: to[int32](4), Completions: to[int32](4), CompletionMode: to(batchv1.IndexedCompletion), Suspend: to(true), BackoffLimit: to[int32](0),
		ActiveDeadlineSeconds: to[int64](86400), ManagedBy: to("norn-scheduler.github.io/job"),
	}
	j.Spec.Template.Spec = corev1.PodSpec{TerminationGracePeriodSeconds: to[int64](120), Containers: []corev1.Container{container("nvidia.com/gpu", "8", "cpu", "32")}}
	j.Spec.Template.Spec.Containers[0].Command, j.Spec.Template.Spec.Containers[0].Args = []string{"python"}, []string{"train.py"}
	return j
}

// TestBatch reads all that Norn uses of a Job.
func TestBatch(t *testing.T) {
	a, err := Batch(batchJob(), DefaultLevels())
	if err != nil {
		t.Fatal(err)
	}
	if a.Key != "team-a/bert" || a.Name != "bert" || a.Tenant != "research" || a.User != "ada" || !a.Admits || !slices.Equal(a.Command, []string{"python", "train.py"}) {
		t.Errorf("%+v", a)
	}
	if a.Tasks != 4 || a.Completions != 4 || !a.Indexed || a.Least != 2 || a.Most != 8 || a.Backoff != 0 || !a.Suspend || a.ManagedBy != "norn-scheduler.github.io/job" {
		t.Errorf("%+v", a)
	}
	if a.Deadline != 24*time.Hour || a.Estimate != 90*time.Minute || a.Grace != 2*time.Minute || a.State != (JobState{}) {
		t.Errorf("%+v", a)
	}
	d, err := a.Demand(Types{"A100": "nvidia.com/gpu"})
	if err != nil || d.String() != "4 x (8 GPUs + 32 CPUs + 1 pods) (2 to 8 tasks) in one rack" || a.Ask.Stop.String() != "last-save" {
		t.Errorf("%s, %v, %v", &d, err, a.Ask.Stop)
	}
}

// TestBatchDefaults: what a Job does not say is as the API server has it.
func TestBatchDefaults(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "x-4711", GenerateName: "x-"}}
	j.Spec.Template.Spec.Containers = []corev1.Container{container("cpu", "1")}
	a, err := Batch(j, nil)
	if err != nil || a.Tasks != 1 || a.Backoff != 6 || a.Grace != 30*time.Second || a.Tenant != "team-a" || a.User != "team-a" || a.Admits || a.Name != "x" || a.Estimate != 0 || a.ManagedBy != "" {
		t.Errorf("%+v, %v", a, err)
	}
	j.Spec.Parallelism, j.Spec.Completions, j.Spec.ActiveDeadlineSeconds, j.Spec.ManagedBy = to[int32](8), to[int32](3), to[int64](60), to(batchv1.JobControllerName)
	j.OwnerReferences = []metav1.OwnerReference{{Kind: "CronJob", Name: "x"}}
	j.Spec.Template.Annotations = map[string]string{names.Estimate: "90"}
	if a, err = Batch(j, nil); err != nil || a.Tasks != 3 || a.Estimate != time.Minute || a.ManagedBy != "" || a.Name != "x" {
		t.Errorf("%+v, %v", a, err)
	}
	j.Spec.Parallelism = nil
	if a, err = Batch(j, nil); err != nil || a.Tasks != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestBatchErrors: what no job can be is an error that names the Job.
func TestBatchErrors(t *testing.T) {
	for want, change := range map[string]func(j *batchv1.Job){
		"it has 0 pods at a time":                func(j *batchv1.Job) { j.Spec.Parallelism = to[int32](0) },
		"it has 2000000 pods at a time":          func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = to[int32](2e6), to[int32](2e6) },
		`estimate "soon": write a duration`:      func(j *batchv1.Job) { j.Annotations[names.Estimate] = "soon" },
		`estimate "-5": write a duration`:        func(j *batchv1.Job) { j.Annotations[names.Estimate] = "-5" },
		`resize "many": write two numbers`:       func(j *batchv1.Job) { j.Annotations[names.Resize] = "many" },
		`resize "8-2": write two numbers`:        func(j *batchv1.Job) { j.Annotations[names.Resize] = "8-2" },
		`resize "5-8": the Job has 4 pods`:       func(j *batchv1.Job) { j.Annotations[names.Resize] = "5-8" },
		"only a Job with completionMode Indexed": func(j *batchv1.Job) { j.Spec.CompletionMode = nil },
		"as many completions as parallelism":     func(j *batchv1.Job) { j.Spec.Completions = to[int32](9) },
		"container c: -1 of cpu":                 func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0] = container("cpu", "-1") },
	} {
		j := batchJob()
		change(j)
		if _, err := Batch(j, DefaultLevels()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "job team-a/bert: ") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestJobState reads conditions: the last word counts, in whatever order they stand.
func TestJobState(t *testing.T) {
	is := func(typ batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: typ, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "too many"}
	}
	not := is(batchv1.JobSuspended)
	not.Status = corev1.ConditionFalse
	for _, c := range []struct {
		all  []batchv1.JobCondition
		want JobState
	}{
		{nil, JobState{}},
		{[]batchv1.JobCondition{is(batchv1.JobSuspended)}, JobState{Suspended: true}},
		{[]batchv1.JobCondition{not}, JobState{}},
		{[]batchv1.JobCondition{is(batchv1.JobSuccessCriteriaMet)}, JobState{Phase: JobEnding}},
		{[]batchv1.JobCondition{is(batchv1.JobComplete), is(batchv1.JobSuccessCriteriaMet)}, JobState{Phase: JobComplete}},
		{[]batchv1.JobCondition{is(batchv1.JobFailureTarget)}, JobState{Phase: JobEnding, Why: "BackoffLimitExceeded: too many"}},
		{[]batchv1.JobCondition{is(batchv1.JobFailureTarget), is(batchv1.JobFailed)}, JobState{Phase: JobFailed, Why: "BackoffLimitExceeded: too many"}},
	} {
		if got := StateOf(&batchv1.JobStatus{Conditions: c.all}); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
	now := metav1.Now()
	if got := StateOf(&batchv1.JobStatus{StartTime: &now, Active: 3}); !got.Started || got.Active != 3 {
		t.Errorf("%+v", got)
	}
}

// TestMember finds gangs, sizes and ranks.
func TestMember(t *testing.T) {
	pod := func(name string, labels, annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "u", Labels: labels, Annotations: annotations}}
	}
	group := pod("p", nil, nil)
	group.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: to("pg")}
	owned := pod("p", nil, nil)
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "RayJob", Name: "r", UID: "7"}}
	for _, c := range []struct {
		pod  *corev1.Pod
		want string
	}{
		{pod("p", nil, nil), "a/pod=p/u p  false 0 -1"},
		{group, "a/PodGroup=pg pg  true 0 -1"},
		{owned, "a/RayJob=7 r  false 0 -1"},
		{pod("p", map[string]string{names.Gang: "g"}, map[string]string{names.GangSize: "8"}), "a/" + names.Gang + "=g g  true 8 -1"},
		{pod("p", map[string]string{"batch.kubernetes.io/job-name": "j", "batch.kubernetes.io/job-completion-index": "3"}, nil), "a/batch.kubernetes.io/job-name=j j  true 0 3"},
		{pod("p", nil, map[string]string{"scheduling.volcano.sh/group-name": "v", "scheduling.volcano.sh/group-min-member": "4"}), "a/scheduling.volcano.sh/group-name=v v  true 4 -1"},
		{pod("p", map[string]string{"jobset.sigs.k8s.io/jobset-name": "s", "jobset.sigs.k8s.io/replicatedjob-name": "w", "jobset.sigs.k8s.io/job-index": "1", "batch.kubernetes.io/job-completion-index": "0"}, nil),
			"a/jobset.sigs.k8s.io/jobset-name=s s w true 0 -1"},
	} {
		m, err := MemberOf(c.pod)
		if got := fmt.Sprint(m.Key, " ", m.Title, " ", m.Role, " ", m.Gangs, " ", m.Size, " ", m.Rank); err != nil || got != c.want {
			t.Errorf("%s, %v; want %s", got, err, c.want)
		}
	}
	for want, p := range map[string]*corev1.Pod{
		"pod a/p: " + names.GangSize + ` "0": write a number from 1`: pod("p", map[string]string{names.GangSize: "0"}, nil),
		`index "-1" is no number`:                                    pod("p", map[string]string{"volcano.sh/task-index": "-1"}, nil),
		`"99999999999999999999": write a number`:                     pod("p", map[string]string{names.GangSize: "99999999999999999999"}, nil),
	} {
		if _, err := MemberOf(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestMemberOrder: by role, index, then name with numbers as numbers.
func TestMemberOrder(t *testing.T) {
	var all []Member
	for i, name := range []string{"w-10", "w-9", "w-009x", "w", "v-1-2", "v-01-1", "v-1", ""} {
		all = append(all, Member{name: name, Role: map[bool]string{true: "z"}[i == 0]})
	}
	all = append(all, Member{name: "a", index: []int32{1}}, Member{name: "b", index: []int32{0, 5}})
	slices.SortFunc(all, func(a, b Member) int { return a.Compare(&b) })
	var got []string
	for _, m := range all {
		got = append(got, m.name)
	}
	if want := []string{"", "v-1", "v-01-1", "v-1-2", "w", "w-9", "w-009x", "b", "a", "w-10"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, a := range all {
		for _, b := range all {
			if a.Compare(&b) != -b.Compare(&a) || (a.Compare(&b) == 0) != (a.name == b.name) {
				t.Errorf("%q and %q: %d, %d", a.name, b.name, a.Compare(&b), b.Compare(&a))
			}
		}
	}
}
