package perf

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Reading is what a world measured of one job on one configuration: named figures and
// short series. It does not change once it was told.
type Reading struct {
	When   When
	Setup  Setup
	Values []Value // in order of names
}

// When is the occasion of a measurement.
type When uint8

// The occasions.
const (
	InProfile When = iota // a stay on devices only to be measured has ended
	InRun                 // the job runs, or is about to leave its devices
	AtEnd                 // it has done its work
)

var whenNames = [...]string{"profile", "run", "end"}

// String is the name of the occasion: profile, run or end.
func (w When) String() string { return whenNames[w] }

// Setup is the configuration on which a job was measured.
type Setup struct {
	Tasks  int // of the first role
	Type   string
	Spread bool       // over several nodes
	CPU    unit.Milli // of all tasks, as far as it is accounted
	Memory unit.Bytes // the same
	Batch  int        // that it was told, of all devices together; 0: its own

	Seats []Seat // its devices, where they are told; at most MostSeats

	How    job.Merge // how it was trained
	With   string    // SortOf the job that it was merged with
	Beside []string  // SortOf each other job on its first device, in order of arrival
}

// Value is a named series. A figure is a series of one number.
type Value struct {
	Name   string
	Series []float64
}

// Names of values that several estimators use. The SDK reports loss, samples, accuracy and
// embedding by the same names.
const (
	Loss      = "loss"      // training loss, at the places of Samples
	Samples   = "samples"   // that the job has gone through since it began
	Accuracy  = "accuracy"  // on validation data, 0 to 1
	Embedding = "embedding" // of its task: the diagonal of the Fisher matrix, by groups of weights
	Rate      = "rate"      // samples in a second
	EpochSize = "epoch"     // samples of its data set
	Relative  = "speed"     // progress per second over that in the reference configuration

	GPUUse     = "gpu"       // part of the time for which its kernels run on its GPUs while nobody else is there, 0 to 1
	MemoryUse  = "bandwidth" // part of the bandwidth of their memory that it then uses, 0 to 1
	GPUMemory  = "memory"    // of each of its GPUs that it takes, in bytes
	Factor     = "factor"    // speed beside the others on its first device over that alone on the same devices
	Neighbours = "beside"    // those others, by SerialOf, in order of arrival
)

// SerialOf is the number of a job for life, see job.Record.Serial.
func SerialOf(j *job.Job) int64 {
	if j.Serial != 0 {
		return j.Serial
	}
	return int64(j.ID)
}

// MostReadings bounds the readings of a job that are kept: its first one and its latest ones.
const MostReadings = 64

// MaxSeries bounds the numbers of a value, and MaxValues the values of a measurement.
const (
	MaxSeries = 256
	MaxValues = 16
)

// find is the place of a value, or that where it belongs.
func (m *Reading) find(name string) (at int, ok bool) {
	return slices.BinarySearchFunc(m.Values, name, func(v Value, name string) int { return strings.Compare(v.Name, name) })
}

// Series is a value by its name; nil: it was not measured.
func (m *Reading) Series(name string) []float64 {
	at, ok := m.find(name)
	if !ok {
		return nil
	}
	return m.Values[at].Series
}

// Figure is the last number of a value; ok is false if it was not measured.
func (m *Reading) Figure(name string) (x float64, ok bool) {
	s := m.Series(name)
	if len(s) == 0 {
		return 0, false
	}
	return s[len(s)-1], true
}

// Add adds a value, of which it keeps the series. One that was added before under the same
// name is replaced.
func (m *Reading) Add(name string, series ...float64) {
	at, ok := m.find(name)
	if !ok {
		m.Values = slices.Insert(m.Values, at, Value{Name: name})
	}
	m.Values[at].Series = series
}

// Check says what is wrong with a measurement that comes from outside, or nil.
func (m *Reading) Check() error {
	if len(m.Values) > MaxValues {
		return fmt.Errorf("%d values were measured, at most %d are taken", len(m.Values), MaxValues)
	}
	for i, v := range m.Values {
		if v.Name == "" || i > 0 && v.Name <= m.Values[i-1].Name {
			return fmt.Errorf("measured values are not in order of their names at %q", v.Name)
		}
		if len(v.Series) == 0 || len(v.Series) > MaxSeries {
			return fmt.Errorf("measured %s has %d numbers, not 1 to %d", v.Name, len(v.Series), MaxSeries)
		}
		for _, x := range v.Series {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("measured %s has the number %v", v.Name, x)
			}
		}
	}
	return nil
}

// MostSeats bounds the devices that a Setup tells: of a job on more, none are.
const MostSeats = 64

// SeatsOf are the devices of an Alloc, as a Setup tells them.
func SeatsOf(c *cluster.Cluster, a *cluster.Alloc) []Seat {
	if len(a.Shares) > MostSeats {
		return nil
	}
	out := make([]Seat, len(a.Shares))
	for i := range a.Shares {
		out[i] = SeatOf(c, a.Shares[i].Device)
	}
	return out
}

// SetupOf is the configuration that an Alloc is for a job. Seats, Beside, How and With are left
// to the caller.
func SetupOf(c *cluster.Cluster, a *cluster.Alloc) Setup {
	s := Setup{Tasks: a.Tasks(0), Spread: a.Nodes() > 1}
	for i := range a.Pieces {
		s.CPU += a.Pieces[i].CPU
		s.Memory += a.Pieces[i].Memory
	}
	for i := range a.Shares {
		s.Batch += int(a.Shares[i].Batch)
	}
	if len(a.Shares) > 0 {
		s.Type = c.Type(c.TypeOf(a.Shares[0].Device)).Name
	}
	return s
}

// Believer is what is believed of jobs from what was measured of them. It is a pure fold:
// equal measurements in equal order make equal beliefs. It answers by the interfaces that
// it implements besides: Typed (speeds), Sharing, Transfer, RunTimes and Varied.
type Believer interface {
	// Observe takes in a measurement of a job. Neither may be changed.
	Observe(j *job.Job, m *Reading)
}

// Prior is what is believed of jobs of which nothing is measured.
type Prior struct {
	Speeds   Typed
	Sharing  Sharing
	Transfer Transfer

	// Told says that what users tell of their jobs (job.Hints) is worth believing. In a
	// simulation it is the truth, which a Believer must not see.
	Told bool
}

// RunTimes is a Believer that foretells how long jobs run.
type RunTimes interface {
	// RunTime is the work that a job is believed to have left at its last measurement, as
	// run time in the reference configuration, and in a clause from what that was learnt.
	// left is negative while nothing is known. ok is false for jobs that are not of the
	// sort that it foretells.
	RunTime(j *job.Job) (left time.Duration, why string, ok bool)
}

// Varied is a Believer that learns how far devices of a type differ.
type Varied interface {
	// Variability is what is believed by now. It is the same pointer as before where nothing
	// has changed that matters.
	Variability() *Variability
}

// Telling is a Believer that can say from what it learnt its other beliefs.
type Telling interface {
	// Grounds are clauses about what is believed of a job, one for each belief.
	Grounds(j *job.Job) []string
	// GainGrounds is a clause about the gain of a job from what another one learns.
	GainGrounds(j, first *job.Job) string
}
