package report

import (
	"encoding/json"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Promises is how a run kept the deadlines of jobs. All of it is zero where no job has one.
type Promises struct {
	Jobs     int        // with a deadline
	Met      int        // of them, done in time
	Lateness Stats      // end minus deadline, of those done too late
	Classes  []Promised // strict, soft and best effort, those with any jobs
	Refused  []string   // keys of the jobs that the policy did not admit, in order of submission
}

// IsZero tells whether no job has a deadline.
func (p Promises) IsZero() bool { return p.Jobs == 0 }

// Share is the part of the deadlines that were met, 0 to 1; 0 where there are none.
func (p *Promises) Share() float64 { return safeShare(float64(p.Met), float64(p.Jobs)) }

// Promised is what became of the jobs of one class.
type Promised struct {
	Class   string // strict, soft, best-effort
	Jobs    int
	Met     int           // done by their deadlines; of best effort: done
	Late    int           // done after their deadlines
	Failed  int           // failed or cancelled
	Refused int           // not admitted by the policy
	Open    int           // had not left when the run ended
	JCT     time.Duration // mean of those that are done

	sum total // of the JCTs
}

// The classes of promises.
const (
	strict = iota
	soft
	bestEffort
	classes
)

var classNames = [classes]string{"strict", "soft", "best-effort"}

// classOf is the class of a job.
func classOf(j *job.Job) int {
	switch {
	case j.Deadline == 0:
		return bestEffort
	case j.Soft:
		return soft
	}
	return strict
}

// promised counts what became of promises, job by job.
type promised struct {
	classes [classes]Promised
	late    []time.Duration // of jobs done too late
	refused []string
}

// job counts one job.
func (p *promised) job(r *job.Record) {
	class := classOf(r.Job)
	k := &p.classes[class]
	k.Jobs++
	switch {
	case r.Phase == job.Done:
		k.sum.add(r.End - r.Job.Submit)
		if class == bestEffort || r.End <= r.Job.Deadline {
			k.Met++
		} else {
			k.Late++
			p.late = append(p.late, r.End-r.Job.Deadline)
		}
	case r.Phase.Over():
		k.Failed++
	case r.Phase == job.Waiting && r.Reason.Code == job.Refused:
		k.Refused++
		p.refused = append(p.refused, jobKey(r.Job))
	default:
		k.Open++
	}
}

// result is the figures of what was counted; none where no job has a deadline.
func (p *promised) result() (out Promises) {
	out.Jobs = p.classes[strict].Jobs + p.classes[soft].Jobs
	if out.Jobs == 0 {
		return Promises{}
	}
	out.Met = p.classes[strict].Met + p.classes[soft].Met
	out.Lateness, out.Refused = describe(p.late), p.refused
	for i, k := range p.classes {
		if k.Jobs > 0 {
			k.Class, k.JCT = classNames[i], k.sum.mean(k.Met+k.Late)
			out.Classes = append(out.Classes, k)
		}
	}
	return out
}

// MarshalJSON writes times in seconds; a mean of no jobs is null.
func (p Promised) MarshalJSON() ([]byte, error) {
	out := struct {
		Class   string          `json:"class"`
		Jobs    int             `json:"jobs"`
		Met     int             `json:"met"`
		Late    int             `json:"late"`
		Failed  int             `json:"failed"`
		Refused int             `json:"refused"`
		Open    int             `json:"open"`
		JCT     json.RawMessage `json:"jct_mean_s"`
	}{Class: p.Class, Jobs: p.Jobs, Met: p.Met, Late: p.Late, Failed: p.Failed, Refused: p.Refused, Open: p.Open}
	if p.Met+p.Late > 0 {
		out.JCT = unit.AppendSeconds(nil, p.JCT)
	}
	return json.Marshal(out)
}

// MarshalJSON writes the figures of all jobs with deadlines, those of each class, and who was
// refused.
func (p Promises) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Jobs     int        `json:"jobs"`
		Met      int        `json:"met"`
		Share    float64    `json:"met_share"`
		Lateness Stats      `json:"lateness_s"`
		Classes  []Promised `json:"classes"`
		Refused  []string   `json:"refused_jobs"`
	}{p.Jobs, p.Met, p.Share(), p.Lateness, p.Classes, some(p.Refused)})
}
