package job

import (
	"fmt"
	"math"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Config is what a job trains with, as far as anybody but the job itself knows. Reports
// of the job and orders to it stand apart, since a job may be told one thing and do
// another. Config is comparable. Its zero value is that of a job that trains as its user
// asked and has reported nothing.
//
// Everything about a job that may change while it runs, and that is neither what it
// has nor how far it has come, has its place here.
type Config struct {
	Reported Reported
	Chosen   Chosen

	Spent [MaxModes]int32 // epochs that it had done with each of Hints.Modes when it reported
}

// Reported is what a job says of its training, by its latest report.
type Reported struct {
	Batch int32   // global batch size in samples; 0: that of Job.Batch
	Noise float64 // gradient noise scale in samples; 0: not told
	Epoch int32   // epochs that it had done when it reported
	Pace  float64 // its speed with that batch over that with Job.Batch, alone on the reference GPU type; 0: not told
}

// Chosen is what the policy has told a job. It follows from what the job has.
type Chosen struct {
	Batch int32 // samples that each of its devices takes at a time (cluster.Share.Batch); 0: as its user wants
}

// Mode is a batch size with which a job may train at some time in its life.
type Mode struct {
	Batch int32   // global batch size in samples
	Pace  float64 // its speed with it, as Reported.Pace
}

// MaxModes is the most batch sizes that a job may declare.
const MaxModes = 6

// mostPace is the largest pace that a report may tell.
const mostPace = 1e9

// Check says what is wrong with a report, or nil.
func (r Reported) Check() error {
	switch {
	case r.Batch < 0:
		return fmt.Errorf("reports a batch of %d samples", r.Batch)
	case !(r.Noise >= 0) || math.IsInf(r.Noise, 1):
		return fmt.Errorf("reports a gradient noise of %v", r.Noise)
	case r.Epoch < 0:
		return fmt.Errorf("reports %d epochs", r.Epoch)
	case !(r.Pace >= 0 && r.Pace <= mostPace):
		return fmt.Errorf("reports a pace of %v", r.Pace)
	}
	return nil
}

// String says in words what a job trains with, such as "a batch of 64, a gradient noise of
// 1200, after 3 epochs".
func (r Reported) String() string {
	var parts []string
	if r.Batch > 0 {
		parts = append(parts, fmt.Sprintf("a batch of %d", r.Batch))
	}
	if r.Noise > 0 {
		parts = append(parts, fmt.Sprintf("a gradient noise of %.4g", r.Noise))
	}
	if len(parts) == 0 {
		parts = append(parts, "its own batch")
	}
	if r.Epoch > 0 {
		parts = append(parts, "after "+unit.Count(int(r.Epoch), "epoch"))
	}
	return strings.Join(parts, ", ")
}

// Times is the pace, 1 where it is not told.
func (r Reported) Times() float64 {
	if r.Pace > 0 {
		return r.Pace
	}
	return 1
}

// Report notes what the job says of its training.
func (r *Record) Report(now Reported) error {
	if r.Phase == Unknown || r.Phase.Over() {
		return r.wrong("take a report of")
	}
	if err := now.Check(); err != nil {
		return fmt.Errorf("job %s: %w", r.Job.Key, err)
	}
	was := r.Config.Reported
	if mode, known := r.Job.Mode(was.Batch); known && now.Epoch > was.Epoch {
		r.Config.Spent[mode] += now.Epoch - was.Epoch
	}
	r.Config.Reported = now
	return nil
}

// Mode is the place of a batch size among those that the job declares (Hints.Modes); 0
// stands for its own batch. known is false for one that it does not declare.
func (j *Job) Mode(batch int32) (at int, known bool) {
	if j.Hints == nil {
		return 0, false
	}
	if batch == 0 {
		batch = int32(j.Batch)
	}
	for i, m := range j.Hints.Modes {
		if m.Batch == batch && batch > 0 {
			return i, true
		}
	}
	return 0, false
}
