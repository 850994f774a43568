package fakekubelet

import (
	"fmt"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of pods, which say how they behave under this kubelet.
const (
	// RunTime is the work of the pod, as a Go duration; without it the pod runs for ever.
	RunTime = "fake.norn/run-time"
	// StartTime is for how much longer than others the pod starts, as for a large image.
	StartTime = "fake.norn/start-time"
	// Exit is the exit code when the work is done; without it 0.
	Exit = "fake.norn/exit"
	// Message is the termination message when the work is done.
	Message = "fake.norn/message"
	// SaveTime is how long it takes to save when the pod is told to end; without it the
	// pod ends at once, and falls back to what it has saved before.
	SaveTime = "fake.norn/save-time"
	// SaveEvery is how much work lies between two saves of its own; without it there are
	// none.
	SaveEvery = "fake.norn/save-every"
	// Job is the key under which saved work is kept, for the pods that come after this
	// one; without it the controller of the pod and its completion index name
	// it.
	Job = "fake.norn/job"
)

// ContinueLater is the exit code of a pod that has saved and is to go on later.
const ContinueLater = 75

// Exit codes of containers that a signal ended.
const (
	killed     = 137
	terminated = 143
)

// Forever is the work of a pod that does not end by itself.
const Forever = time.Duration(-1)

// Behaviour is how the run of a pod goes. Durations are virtual.
type Behaviour struct {
	// Work is how long the pod would run if nothing disturbed it, from its first start;
	// Forever if it does not end.
	Work time.Duration
	// Start is the time from its binding to its start beyond that of all pods.
	Start time.Duration
	// Exit and Message are the exit code and the termination message at the end of the
	// work.
	Exit    int32
	Message string
	// Saves tells whether the pod saves when it is told to end, and Save how long that
	// takes. It then exits with ContinueLater, unless its grace period is shorter.
	Saves bool
	Save  time.Duration
	// Every is how much work lies between two saves of its own; 0: it makes none.
	Every time.Duration
	// Job is the key under which saved work is kept.
	Job string
	// Left is the termination message of a pod that has saved this much of its work;
	// nil stands for {"progress": part, "done": seconds}.
	Left func(saved time.Duration) string
}

// Annotated is the behaviour that the annotations of a pod say. Annotations that cannot
// be read count as not there.
func Annotated(p *core.Pod) Behaviour {
	b := Behaviour{Work: Forever, Message: p.Annotations[Message], Job: p.Annotations[Job]}
	if d, err := time.ParseDuration(p.Annotations[RunTime]); err == nil && d >= 0 {
		b.Work = d
	}
	if d, err := time.ParseDuration(p.Annotations[StartTime]); err == nil && d >= 0 {
		b.Start = d
	}
	if n, err := strconv.ParseInt(p.Annotations[Exit], 10, 32); err == nil {
		b.Exit = int32(n)
	}
	if d, err := time.ParseDuration(p.Annotations[SaveTime]); err == nil && d >= 0 {
		b.Saves, b.Save = true, d
	}
	if d, err := time.ParseDuration(p.Annotations[SaveEvery]); err == nil && d > 0 {
		b.Every = d
	}
	if b.Job == "" {
		b.Job = key(p)
	}
	return b
}

// key names the job of a pod: its controller, with the completion index where there is
// one, since pods without an index save for all; of a pod without a controller, the pod.
func key(p *core.Pod) string {
	owner := meta.GetControllerOf(p)
	if owner == nil {
		return p.Namespace + "/" + p.Name
	}
	return string(owner.UID) + "/" + p.Annotations["batch.kubernetes.io/job-completion-index"]
}

// left is the termination message of a pod that has saved so much.
func (b *Behaviour) left(saved time.Duration) string {
	if b.Left != nil {
		return b.Left(saved)
	}
	if b.Work <= 0 {
		return fmt.Sprintf(`{"done": %.3f}`, saved.Seconds())
	}
	return fmt.Sprintf(`{"progress": %.6f, "done": %.3f}`, min(1, saved.Seconds()/b.Work.Seconds()), saved.Seconds())
}
