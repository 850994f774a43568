package perf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Variability is how far devices that should be equal differ. The score of a device is the run time
// of a job there over that on a typical device of its type: 1 is typical, and larger is slower. It
// depends on the class of the job, since a device that clocks low slows down what computes and not
// what waits for memory. A gang goes at the pace of its slowest device. The nil Variability has all
// devices alike. It must not be changed once it is used.
//
// Source: "PAL: A Variability-Aware Policy for Scheduling ML Workloads in GPU Clusters", SC 2024.
type Variability struct {
	Classes []string           // names of the classes, the most sensitive first
	Scores  map[Seat][]float64 // by class, each above 0; a device that is not listed is typical
}

// Seat names a device for good: the name of its node, and its place among the devices of the node,
// from 0 on.
type Seat struct {
	Node  string
	Index int
}

// String is the Seat as logs have it: NODE/INDEX.
func (s Seat) String() string { return s.Node + "/" + strconv.Itoa(s.Index) }

// ParseSeat reads what String writes.
func ParseSeat(text string) (Seat, error) {
	at := strings.LastIndexByte(text, '/')
	if at < 0 {
		return Seat{}, fmt.Errorf("device %q: write NODE/INDEX", text)
	}
	n, err := strconv.ParseUint(text[at+1:], 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != text[at+1:] {
		return Seat{}, fmt.Errorf("device %q: %q is no number from 0", text, text[at+1:])
	}
	return Seat{text[:at], int(n)}, nil
}

// SeatOf is the Seat of a device.
func SeatOf(c *cluster.Cluster, d cluster.DeviceID) Seat {
	node := c.NodeOf(d)
	first, _ := c.DeviceRange(node)
	return Seat{c.Node(node).Name, int(d - first)}
}

// UnknownSensitivity is the class of jobs of which nobody tells how sensitive they are.
const UnknownSensitivity = "B"

// sensitivities are the classes of models, as the simulator of PAL has them: A computes, D waits for
// memory.
var sensitivities = map[string]string{
	"alexnet": "A", "res50": "A", "resnet50": "A",
	"bert": "B", "dcgan": "B", "deepspeech": "B", "deepspeech2": "B", "gnmt": "B", "gpt2": "B", "transformer": "B",
	"res18": "C", "resnet18": "C", "vgg19": "C",
	"lstm": "D", "mobilenet": "D", "pagerank": "D", "pointnet": "D", "shufflenet": "D",
}

// SensitivityOf is the name of the class that a job belongs to: the one that it tells, that of its
// model, or UnknownSensitivity.
func SensitivityOf(j *job.Job) string {
	if j.Hints != nil && j.Hints.Sensitivity != "" {
		return j.Hints.Sensitivity
	}
	name, _, _ := strings.Cut(strings.ToLower(j.Model), " ")
	if class, ok := sensitivities[strings.ReplaceAll(strings.ReplaceAll(name, "-", ""), "_", "")]; ok {
		return class
	}
	return UnknownSensitivity
}

// Class is the place of a job's class among Classes. It is len(Classes) for one to which no device
// differs.
func (v *Variability) Class(j *job.Job) int {
	if v == nil {
		return 0
	}
	if i := slices.Index(v.Classes, SensitivityOf(j)); i >= 0 {
		return i
	}
	return len(v.Classes)
}

// Score is the score of a device for jobs of a class.
func (v *Variability) Score(class int, c *cluster.Cluster, d cluster.DeviceID) float64 {
	if v == nil || class >= len(v.Classes) {
		return 1
	}
	if of, ok := v.Scores[SeatOf(c, d)]; ok {
		return of[class]
	}
	return 1
}

// Slowest is the largest score of the devices of an Alloc, by which the speed of a job there is to be
// divided. It is 1 where the job has no device.
func (v *Variability) Slowest(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	if v == nil || len(a.Shares) == 0 {
		return 1
	}
	class, worst := v.Class(j), 0.0
	for i := range a.Shares {
		worst = max(worst, v.Score(class, c, a.Shares[i].Device))
	}
	return worst
}
