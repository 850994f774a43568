// Package whatif asks what another policy, or another machine, would have made of a past:
// it plays the jobs of an event log again in the simulator. It is what norn plan does, as
// a library.
//
// Nouns: a History is a stretch of what a machine went through; a Question is what is
// tried on it; a Plan is the answer, with a Row for what happened and one for each thing
// that was tried. One Row is the check: the simulation of what was in force. How far it
// is from what happened says how much the others can be believed.
//
// Times are durations since the beginning of the log, as package eventlog has them.
package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/defrag"
	"github.com/norn-scheduler/norn/policy/sleep"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// History is a stretch of what a machine went through, and its figures.
type History struct {
	*replay.Past
	Result *report.Result
}

// Read reads a stretch of a log, or of several one behind the other, as
// replay.ReadPast does and with its errors. The options say what is kept of it beside
// the figures.
func Read(log *eventlog.Reader, in replay.Stretch, keep report.Options) (*History, error) {
	figures := report.NewCollector(keep)
	past, err := replay.ReadPast(log, in, figures)
	if err != nil {
		return nil, err
	}
	return &History{past, figures.Result(past.State)}, nil
}

// Question is what is asked of a history.
type Question struct {
	History  *History
	Policies []experiment.Choice // that are tried, beside the one that was in force last
	Machines []*Machine          // on which all of them are tried, too, beside the one that was there

	Estimates Estimates          // what policies know of run times
	Costs     *perf.Costs        // of transitions; nil: as they were measured (History.Measured)
	Report    report.Options     // what is kept of runs beside the figures
	Folder    *experiment.Folder // where the files of runs go, which has begun; nil: nowhere
	Made      *report.Origin     // what the runs are made from, for their summaries; nil: it is not told
	Clock     *time.Location     // on which times of day are told; nil: UTC
	Watch     func(Batch) Watch  // follows runs, to show progress; nil: nobody does
}

// Batch is the runs on one machine.
type Batch struct {
	Runs []string // by their names
	Jobs int      // of each run
}

// Watch follows a batch of runs until its end.
type Watch interface {
	Sink(run string) engine.Sink // follows one run
	End()                        // all have ended, or will not
}

// Machine is another machine than the one that was there.
type Machine struct {
	Spec *clusterspec.Spec
	Name string // ends the names of its rows: on 2x8:A100, or 3 GPUs
	Grow bool   // it is one of those that tell how many nodes are enough

	Sleep  sleep.Config   // chooses nodes that sleep; nil: none does
	Defrag *defrag.Config // moves jobs together for gangs that would wait; nil: nobody does

	// Resized tells that it is the machine that was there with another number of GPUs, or the
	// cluster that was there with other nodes.
	// Then people drain the same parts of it. On another cluster, nobody drains anything.
	Resized bool

	// Of the nodes and devices that were there the numbers here; nil: they are the same.
	nodes   map[cluster.NodeID]cluster.NodeID
	devices map[cluster.DeviceID]cluster.DeviceID
}

// Managed is a machine on which nodes sleep, or jobs are moved together: m, or where it is nil the one that
// was there at the end of the history. Its name says so. It fails as Was does.
func (h *History) Managed(m *Machine, asleep sleep.Config, moves *defrag.Config) (*Machine, error) {
	if m == nil {
		spec, err := h.Was()
		if err != nil {
			return nil, err
		}
		m = &Machine{Spec: spec, Resized: true}
	}
	out := *m
	out.Sleep, out.Defrag = asleep, moves
	var names []string
	if out.Name != "" {
		names = append(names, out.Name)
	}
	if asleep != nil {
		names = append(names, "idle nodes asleep")
	}
	if moves != nil {
		names = append(names, "jobs moved together")
	}
	out.Name = strings.Join(names, ", ")
	return &out, nil
}

// Was is the machine as it was at the end of a history, with its tenants. It fails where
// a description of a cluster cannot say what it was.
func (h *History) Was() (*clusterspec.Spec, error) {
	c, err := h.Past.Machine()
	if err != nil {
		return nil, err
	}
	spec, err := clusterspec.Of(c)
	if err != nil {
		return nil, err
	}
	last := h.last()
	spec.Tenants, spec.HalfLife = tenantsOf(last), last.HalfLife
	return spec, nil
}

// last is the header of the last log of a history.
func (h *History) last() *eventlog.Header { return &h.Parts[len(h.Parts)-1].Header }

// moved is how a live world moved jobs together at the end of a history; nil: it did not.
func (h *History) moved() *defrag.Config {
	for _, c := range h.last().Conditions {
		if c.Name == defrag.Flag && h.last().World != experiment.Simulated {
			margin, _ := strconv.ParseFloat(c.Value, 64)
			moves, _ := defrag.Live(margin) // nil where the log has none that makes sense
			return moves
		}
	}
	return nil
}

// Resized is the machine that was there with another number of GPUs, and all else as it
// was. It fails where that is not one machine whose GPUs are of one type.
func (h *History) Resized(gpus int) (*Machine, error) {
	was, err := h.Was()
	if err != nil {
		return nil, err
	}
	spec, err := resized(was, gpus)
	if err != nil {
		return nil, err
	}
	return &Machine{Spec: spec, Name: unit.CountOrNo(gpus, "GPU"), Resized: true}, nil
}

// resized is the description of a machine with another number of GPUs, which are linked as if
// nothing were known of their links.
func resized(was *clusterspec.Spec, gpus int) (*clusterspec.Spec, error) {
	if len(was.Nodes) != 1 || was.Nodes[0].Count != 1 || len(was.Nodes[0].GPUs) != 1 {
		return nil, errors.New("GPUs can be added to one machine whose GPUs are of one type: add nodes to others, or describe another cluster (--cluster)")
	}
	if gpus < 1 {
		return nil, errors.New("so many GPUs were not there: the machine needs one at least")
	}
	if gpus > cluster.MaxGroup {
		return nil, fmt.Errorf("a machine with %d GPUs: %d are the most; describe several machines as a cluster (--cluster)", gpus, cluster.MaxGroup)
	}
	out := *was
	out.Nodes = slices.Clone(was.Nodes)
	n := &out.Nodes[0]
	n.GPUs = []clusterspec.GPUs{{Type: n.GPUs[0].Type, Count: gpus}}
	n.Links = clusterspec.Links{}
	return &out, nil
}

// On is another cluster, by the name that its user gave it. Where it tells no tenants, it
// has those that were there. It fails as Was does.
func (h *History) On(spec *clusterspec.Spec, name string) (*Machine, error) {
	was, err := h.Was()
	if err != nil {
		return nil, err
	}
	other := *spec
	if len(other.Tenants) == 0 {
		other.Tenants, other.HalfLife = was.Tenants, was.HalfLife
	}
	return &Machine{Spec: &other, Name: "on " + name}, nil
}

// tenantsOf are the tenants of a log as a description has them.
func tenantsOf(h *eventlog.Header) []clusterspec.Tenant {
	var out []clusterspec.Tenant
	for i := range h.Tenants {
		t := &h.Tenants[i]
		d := clusterspec.Tenant{Name: t.Name, Guarantee: clusterspec.Share{GPUs: t.Guarantee}, Weight: t.Weight}
		if t.Parent > 0 {
			d.Parent = h.Tenants[t.Parent-1].Name
		}
		if t.Limit != tenant.Unlimited {
			d.Limit.GPUs = t.Limit
		}
		out = append(out, d)
	}
	return out
}

// Measured is what transitions cost, on average. Where no start after a stop was
// measured, it takes what a first start takes.
func (h *History) Measured() perf.Costs {
	measured := h.Costs.Cost
	if h.Costs.Restores == 0 {
		measured.Restore = measured.Start
	}
	return perf.Costs{Base: measured}
}

// When says which stretch of time a history is.
func (h *History) When(clock *time.Location) string {
	origin := h.Parts[0].Header.Origin
	if origin.IsZero() {
		return fmt.Sprintf("from %s to %s", unit.Human(h.From), unit.Human(h.To))
	}
	text := func(d time.Duration) string { return origin.Add(d).In(clock).Format("2006-01-02 15:04") }
	return fmt.Sprintf("from %s to %s", text(h.From), text(h.To))
}

// compared tells whether a job is part of what is compared: it has ended, and it
// ran. Services that stay are not.
func compared(r *job.Record) bool { return report.FateOf(r).Ended && r.Starts > 0 }

// set is the jobs that are compared, by their places in Jobs.
func (h *History) set() []int {
	var out []int
	for i, id := range h.Of {
		if compared(h.State.Record(id)) {
			out = append(out, i)
		}
	}
	return out
}

// Compared is how many jobs are part of what is compared: those that have ended after they ran.
func (h *History) Compared() int { return len(h.set()) }

// Parted is when the later part of the jobs that are compared begins to be submitted, since the log began; they
// must be some.
func (h *History) Parted(later float64) time.Duration {
	var at []time.Duration
	for _, i := range h.set() {
		at = append(at, max(h.From, h.State.Record(h.Of[i]).Job.Submit))
	}
	slices.Sort(at)
	return at[min(len(at)-1, int(float64(len(at))*(1-later)))]
}

// Check fails on a history in which too little happened: no job has ended after it ran.
func (h *History) Check(clock *time.Location) error {
	if len(h.set()) > 0 {
		return nil
	}
	return fmt.Errorf("there is too little history to plan with: of %s %s, none has ended after it ran", unit.CountOrNo(h.State.Jobs(), "job"), h.When(clock))
}

// Believed is the source of estimates that gives what the scheduler believed.
const Believed = "believed"

// Estimates is what policies know of run times.
type Estimates struct {
	text     string // as it was written
	believed bool   // jobs are given what was believed as their users' word
	of       experiment.Estimate
}

// String is the text that they were read from. The zero value is the truth.
func (e Estimates) String() string { return cmp.Or(e.text, e.of.String()) }

// ParseEstimates reads believed (what the scheduler believed then), or what
// run.ParseEstimate reads, each with an error behind it where one is wanted.
func ParseEstimates(s string) (Estimates, error) {
	name, noise, noisy := strings.Cut(s, "+")
	e := Estimates{text: s, believed: name == Believed}
	if e.believed {
		name = experiment.Estimate{From: experiment.User}.String()
	}
	if noisy {
		name += "+" + noise
	}
	var err error
	e.of, err = experiment.ParseEstimate(name)
	return e, err
}
