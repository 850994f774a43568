package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/internal/kubelist"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// kueueGroup is the API group of Kueue.
const kueueGroup = "kueue.x-k8s.io"

// workloadsFormat is a list of Workloads of Kueue, as kubectl get workloads -A -o json (or
// yaml) writes it. It may have LocalQueues in it, which tell the ClusterQueues of
// workloads that are not admitted. Source: the API of Kueue, v1beta1 and v1beta2.
func workloadsFormat() Format {
	return Format{
		Name: "workloads", Aliases: []string{"kueue"}, Title: "Kueue Workloads, kubectl get workloads -A -o json",
		Clock: Unix, Order: Unsorted,
		Match: func(h *Head) int {
			if o, ok := kubelist.Head(h.Text); ok && o.Group() == kueueGroup {
				return 600
			}
			return 0
		},
		Decode: func(in *Input) (Source, error) { return &workloadSource{in: in, queues: map[string]string{}}, nil },
	}
}

// workload is what is used of a Workload.
type workload struct {
	Metadata struct {
		Name      string     `json:"name"`
		Namespace string     `json:"namespace"`
		Created   *time.Time `json:"creationTimestamp"`
		Owners    []podOwner `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		PodSets  []podSet `json:"podSets"`
		Queue    string   `json:"queueName"`
		Active   *bool    `json:"active"`
		Priority int32    `json:"priority"`
		Class    string   `json:"priorityClassName"` // v1beta1
		ClassRef struct {
			Name string `json:"name"`
		} `json:"priorityClassRef"` // v1beta2
		Most int64 `json:"maximumExecutionTimeSeconds"`
	} `json:"spec"`
	Status struct {
		Conditions []workloadCondition `json:"conditions"`
		Admission  struct {
			Queue   string           `json:"clusterQueue"`
			PodSets []podSetAdmitted `json:"podSetAssignments"`
		} `json:"admission"`
		Past int64 `json:"accumulatedPastExecutionTimeSeconds"`
	} `json:"status"`
}

// podSet is equal pods of a Workload.
type podSet struct {
	Name     string `json:"name"`
	Count    int32  `json:"count"`
	Template struct {
		Spec podSpec `json:"spec"`
	} `json:"template"`
}

// podSetAdmitted is what a pod set was admitted with.
type podSetAdmitted struct {
	Name  string                       `json:"name"`
	Count *int32                       `json:"count"`
	Usage map[string]kubelist.Quantity `json:"resourceUsage"` // of all pods together
}

type workloadCondition struct {
	Type    string     `json:"type"`
	Status  string     `json:"status"`
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	At      *time.Time `json:"lastTransitionTime"`
}

// condition is the condition of a type; nil where it has none, or none that tells when.
func (w *workload) condition(kind string) *workloadCondition {
	for i := range w.Status.Conditions {
		if c := &w.Status.Conditions[i]; c.Type == kind && told(c.At) {
			return c
		}
	}
	return nil
}

// holds tells whether a condition is true.
func (c *workloadCondition) holds() bool { return c != nil && c.Status == "True" }

// workloadSource reads a whole list before it gives the first job: how long running ones
// have run is known at its end.
type workloadSource struct {
	in     *Input
	all    []*workloadRow
	queues map[string]string // ClusterQueue by namespace/name of a LocalQueue
	now    time.Time         // the last moment that the list tells of
	at     int
	read   bool
}

// workloadRow is a Workload, or why it is none.
type workloadRow struct {
	is   workload
	name string
	why  string // it is left out
	bad  error
}

// Next implements Source.
func (s *workloadSource) Next(e *Entry) error {
	if !s.read {
		s.read = true
		s.in.Note("workloads that run have run until the last moment that the list tells of")
		if err := kubelist.Each(s.in.Body, s.object); err != nil {
			return err
		}
	}
	if s.at == len(s.all) {
		return io.EOF
	}
	r := s.all[s.at]
	s.all[s.at] = nil
	s.at++
	*e = Entry{}
	switch {
	case r.bad != nil:
		return r.bad
	case r.why != "":
		return LeaveOutJob(r.name, r.why, 1)
	}
	return s.entry(r, e)
}

// object reads an object of the list.
func (s *workloadSource) object(o kubelist.Object) error {
	s.in.Row()
	r := &workloadRow{name: fmt.Sprintf("item %d", s.in.info.Rows)}
	s.all = append(s.all, r)
	if o.Kind == "LocalQueue" && o.Group() == kueueGroup {
		s.localQueue(o.JSON, r)
		return nil
	}
	if o.Kind != "Workload" || o.Group() != kueueGroup {
		r.why = "is a " + o.Kind + ", not a Workload"
		return nil
	}
	if err := json.Unmarshal(o.JSON, &r.is); err != nil {
		r.bad = s.in.Bad(0, r.name, nil, "a Workload; "+err.Error())
		return nil
	}
	w := &r.is
	r.name = w.Metadata.Namespace + "/" + w.Metadata.Name
	if !told(w.Metadata.Created) {
		r.bad = s.in.Bad(0, r.name, nil, "a valid creationTimestamp")
		return nil
	}
	last := podRun{ended: s.now}
	last.end(*w.Metadata.Created)
	for i := range w.Status.Conditions {
		if at := w.Status.Conditions[i].At; told(at) {
			last.end(*at)
		}
	}
	s.now = last.ended
	if len(w.Metadata.Owners) > 0 && w.Metadata.Owners[0].Kind == "Workload" {
		r.why = "is a variant of another Workload"
	}
	return nil
}

// localQueue notes to which ClusterQueue a LocalQueue leads.
func (s *workloadSource) localQueue(raw []byte, r *workloadRow) {
	var o struct {
		Metadata struct{ Name, Namespace string }
		Spec     struct{ ClusterQueue string }
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		r.bad = s.in.Bad(0, r.name, nil, "a LocalQueue; "+err.Error())
		return
	}
	r.name, r.why = o.Metadata.Namespace+"/"+o.Metadata.Name, "is a LocalQueue"
	s.queues[r.name] = s.in.Text([]byte(o.Spec.ClusterQueue))
}

// entry makes the job of a Workload.
func (s *workloadSource) entry(r *workloadRow, e *Entry) error {
	w := &r.is
	if err := s.times(r, e); err != nil {
		return err
	}
	d, err := w.demand()
	if err == nil {
		e.Job.Demand, err = s.in.pool.whole(&d)
	}
	if err != nil {
		return s.in.Bad(0, r.name, nil, "a demand that can be met: it "+err.Error())
	}
	e.Job.Key, e.Job.Name = r.name, w.Metadata.Name
	if len(w.Metadata.Owners) > 0 {
		e.Job.Name = s.in.Text([]byte(w.Metadata.Owners[0].Name))
	}
	e.Job.User = s.in.Text([]byte(w.Metadata.Namespace))
	e.Job.Tenant = s.tenant(w)
	e.Job.Priority = w.Spec.Priority
	if class := w.Spec.ClassRef.Name + w.Spec.Class; class != "" {
		e.Job.Hints = &job.Hints{QoS: s.in.Text([]byte(class))}
	}
	if w.Spec.Most > 0 && w.Spec.Most <= int64(century/time.Second) {
		e.Job.Estimate = time.Duration(w.Spec.Most) * time.Second
	}
	return nil
}

// tenant is the ClusterQueue that admitted the Workload, or that its LocalQueue leads to.
func (s *workloadSource) tenant(w *workload) string {
	if q := w.Status.Admission.Queue; q != "" {
		return s.in.Text([]byte(q))
	}
	if q := s.queues[w.Metadata.Namespace+"/"+w.Spec.Queue]; q != "" {
		return q
	}
	s.in.Empty("status.admission.clusterQueue", "the name of the LocalQueue")
	return s.in.Text([]byte(w.Spec.Queue))
}

// times fills in when the job was submitted, how long it waited and ran, and how it ended.
//
// Kueue keeps the last change of each condition, and how long the Workload was admitted
// before its last eviction, all such runs together: that is one failed attempt. What is
// left of the time before the last admission are waits.
func (s *workloadSource) times(r *workloadRow, e *Entry) error {
	w, t := &r.is, &e.Truth
	admitted, finished := w.condition("Admitted"), w.condition("Finished")
	if w.Status.Past < 0 || w.Status.Past > int64(century/time.Second) {
		return s.in.Bad(0, r.name, nil, "accumulatedPastExecutionTimeSeconds from 0 to 100 years")
	}
	past, created := time.Duration(w.Status.Past)*time.Second, *w.Metadata.Created
	began := time.Time{} // the last admission, or else the last eviction
	switch {
	case admitted.holds():
		began = *admitted.At
		end := s.now
		if finished.holds() {
			end = *finished.At
		}
		if end.Before(began) {
			return s.in.Bad(0, r.name, nil, "an end (Finished) after the admission (Admitted)")
		}
		t.Work = end.Sub(began)
		if past > 0 {
			t.Attempts = append(t.Attempts, past)
		}
	case past > 0 && admitted != nil: // it was evicted, and does not run
		began, t.Work = *admitted.At, past
	case finished.holds():
		return LeaveOutJob(r.name, "ended before it was admitted", 1)
	default:
		return LeaveOutJob(r.name, "has not been admitted", 1)
	}
	t.Wait, t.HasWait = max(0, began.Sub(created)-past), true
	e.Job.Submit = time.Duration(created.UnixNano())
	switch {
	case finished.holds():
		t.Outcome = s.outcome(finished)
	case w.Spec.Active != nil && !*w.Spec.Active && !admitted.holds():
		t.Outcome = Killed
	default:
		t.AtLeast = true
	}
	if past > 0 {
		s.in.Note("runs of a workload that ended in evictions are one attempt, as long as all of them: that is what Kueue keeps")
	}
	return nil
}

// outcome is how a Workload finished. Kueue before 0.9 tells failures in the message alone.
func (s *workloadSource) outcome(c *workloadCondition) Outcome {
	switch c.Reason {
	case "Succeeded":
		return Passed
	case "Failed", "AdmissionChecksRejected":
		return Failed
	case "OwnerNotFound", "OutOfSync":
		return Killed
	case "WorkloadSliceReplaced":
		s.in.Note("an elastic job of Kueue is a job for each size that it had")
		return Passed
	case "JobFinished", "JobSetFinished":
		message := strings.ToLower(c.Message)
		if slices.ContainsFunc([]string{"fail", "backoff limit", "deadline"}, func(part string) bool { return strings.Contains(message, part) }) {
			return Failed
		}
		return Passed
	}
	s.in.Empty("reason of Finished", "not known: passed")
	return Passed
}

// demand is what the pods of a Workload ask for.
func (w *workload) demand() (job.Demand, error) {
	var pods []podmap.Pods
	var tolerations []podmap.Toleration
	for i := range w.Spec.PodSets {
		set := &w.Spec.PodSets[i]
		one := podmap.Pods{Role: set.Name, Count: set.Count}
		if len(w.Spec.PodSets) == 1 {
			one.Role = ""
		}
		all, err := set.Template.Spec.amounts()
		if err != nil {
			return job.Demand{}, fmt.Errorf("pod set %s: %w", set.Name, err)
		}
		admitted := slices.IndexFunc(w.Status.Admission.PodSets, func(a podSetAdmitted) bool { return a.Name == set.Name })
		if admitted >= 0 {
			if err := w.Status.Admission.PodSets[admitted].complete(&one, all); err != nil {
				return job.Demand{}, fmt.Errorf("pod set %s: %w", set.Name, err)
			}
		}
		one.Size = all.Size()
		one.Size.Types = set.Template.Spec.gpuTypes()
		if one.Count < 0 {
			return job.Demand{}, errors.New("has a pod set of fewer than 0 pods")
		}
		if one.Count > 0 {
			pods = append(pods, one)
		}
		for _, t := range set.Template.Spec.Tolerations {
			if !slices.Contains(tolerations, t) {
				tolerations = append(tolerations, t)
			}
		}
	}
	d, err := podmap.Demand(pods)
	if err == nil {
		d.Tolerate, _, err = podmap.Tolerate(tolerations)
	}
	return d, err
}

// complete takes from an admission how many pods there are, and what each of them uses
// that the template does not tell, such as the defaults of a LimitRange.
func (a *podSetAdmitted) complete(set *podmap.Pods, asks podmap.Amounts) error {
	if a.Count != nil {
		set.Count = *a.Count
	}
	usage, err := kubelist.Amounts(a.Usage, podmap.Quantity)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(usage)) {
		if _, told := asks[name]; !told && set.Count > 0 {
			asks[name] = usage[name] / float64(set.Count)
		}
	}
	return nil
}
