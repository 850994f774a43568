package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/clusterspec"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/replay"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

// whatIf is a plan in the making: a past, and the runs that are compared with it.
type whatIf struct {
	f        *planning
	cmd      *cobra.Command
	past     *replay.Past
	estimate run.Estimate
	costs    *perf.Costs
	jobs     []trace.Entry // with the estimates that policies are to know

	was, other *clusterspec.Spec // the machine, and the one that is asked about, if any
	force      run.Choice        // what was in force last
	known      bool              // this program knows it
	here       []run.Choice      // policies that are tried on the machine as it was
	there      []run.Choice      // and on the other one

	set  []int // of the jobs, those that are compared
	rows []*planRow
	told []told
}

// planRow is one line of a plan: what happened, or what would have.
type planRow struct {
	name   string
	kind   rowKind
	result *report.Result
	fates  []jobFate // of the jobs that are compared, in the order of whatIf.set

	jct, wait   report.Stats
	makespan    time.Duration
	preemptions int
	left        int     // jobs that never ended
	change      float64 // of the mean JCT against what happened, 0.1 is a tenth more
	hours       float64 // the sum of all changes, in hours
}

// rowKind is what a line of a plan tells.
type rowKind string

const (
	reality rowKind = "real"
	check   rowKind = "check"
	planned rowKind = "plan"
)

// jobFate is what became of a job in a run.
type jobFate struct {
	ended       bool
	jct, wait   time.Duration
	end         time.Duration
	preemptions int
}

func jobFateOf(r *job.Record) jobFate {
	if !r.Phase.Over() {
		return jobFate{}
	}
	return jobFate{true, r.End - r.Job.Submit, r.WaitAt(r.End), r.End, int(r.Preemptions)}
}

// asItWas is the name of the line that tells what happened.
const asItWas = "as it was"

// prepare decides what is run.
func (w *whatIf) prepare(asked []run.Choice) error {
	w.force = run.ChoiceOf(&w.past.Parts[len(w.past.Parts)-1].Header)
	_, err := w.force.Make()
	w.known = err == nil
	if !w.known && len(asked) == 0 {
		return fmt.Errorf("the policy that was in force cannot be simulated here: %w; name another one with --policy", err)
	}
	if !w.known && !w.f.quiet {
		remark(w.cmd, "the policy that was in force cannot be simulated here, and so the simulation is not checked: %v", err)
	}
	if w.was, w.other, err = w.f.machine(w.past); err != nil {
		return err
	}
	if w.known {
		w.here = []run.Choice{w.force}
	}
	for _, c := range asked {
		if c.String() != w.force.String() || !w.known {
			w.here = append(w.here, c)
		}
	}
	if w.other != nil {
		w.there = w.here
	}
	for i, id := range w.past.Of {
		if compared(w.past.State.Record(id)) {
			w.set = append(w.set, i)
		}
	}
	if strings.HasPrefix(w.f.estimates, believed) {
		w.jobs = slices.Clone(w.jobs)
		for i, d := range w.past.Believed {
			if w.jobs[i].Job.Estimate = 0; d >= 0 {
				w.jobs[i].Job.Estimate = max(1, d)
			}
		}
	}
	return w.folders()
}

// real adds what happened.
func (w *whatIf) real(r *report.Result) {
	row := &planRow{name: asItWas, kind: reality, result: r}
	for _, i := range w.set {
		row.fates = append(row.fates, jobFateOf(w.past.State.Record(w.past.Of[i])))
	}
	w.add(row)
}

// simulate adds what would have happened.
func (w *whatIf) simulate() error {
	if err := w.on(w.was, "", w.past.Script, w.here); err != nil {
		return err
	}
	if w.other == nil {
		return nil
	}
	return w.on(w.other, ", "+w.machine(), w.scriptThere(), w.there)
}

// machine names the machine that is asked about.
func (w *whatIf) machine() string {
	if w.f.cluster != "" {
		return "on " + w.f.cluster
	}
	return count(w.other.GPUs(), "GPU")
}

// scriptThere is what people did, as far as it can be done on the other machine:
// on another cluster, nothing is drained.
func (w *whatIf) scriptThere() []eventlog.Event {
	var out []eventlog.Event
	for _, ev := range w.past.Script {
		switch ev.Kind {
		case eventlog.NodeSet, eventlog.Device:
			if w.f.cluster != "" || ev.Kind == eventlog.Device && ev.Device >= cluster.DeviceID(w.other.GPUs()) {
				continue
			}
		}
		out = append(out, ev)
	}
	return out
}

// on simulates the jobs under several policies on one machine.
func (w *whatIf) on(spec *clusterspec.Spec, suffix string, script []eventlog.Event, all []run.Choice) error {
	x := &run.Experiment{
		Spec: spec, Estimate: w.estimate, Seed: 1, Costs: w.costs, Report: w.f.report(),
		World: func(c *sim.Config) { c.Script = slices.Clone(script) },
	}
	header := &w.past.Parts[0].Header
	if header.World != simulated && suffix == "" {
		x.Model = perf.Reference{} // a live world counts what was done in seconds, wherever it was
	}
	x.Header.Origin, x.Header.Trace = header.Origin, "what happened "+w.f.when(w.past)
	if w.f.out != "" {
		x.Log = func(c run.Choice) (run.Log, error) {
			file, err := os.Create(filepath.Join(w.folder(c.String()+suffix), "events.log.zst"))
			return run.Log{WriteCloser: file, Compression: eventlog.Zstd}, err
		}
	}
	var show *progress
	if file, ok := w.cmd.ErrOrStderr().(*os.File); ok && !w.f.quiet && term.IsTerminal(int(file.Fd())) {
		show = newProgress(file, all, len(w.jobs))
		x.Watch, x.Total = show.watch, show.jobs
	}
	rows := map[string]*planRow{}
	_, err := x.All(w.cmd.Context(), all, run.Jobs(w.jobs).Source(), func(o *run.Outcome) error {
		name := o.Choice.String()
		rows[name] = w.outcome(o, suffix)
		err := w.files(name+suffix, o.State, o.Result)
		o.State, o.Sim = nil, nil // what is compared is enough from here on
		return err
	})
	show.end()
	if err != nil {
		return err
	}
	for _, c := range all {
		w.add(rows[c.String()])
	}
	return nil
}

// outcome is the line of a simulation.
func (w *whatIf) outcome(o *run.Outcome, suffix string) *planRow {
	row := &planRow{name: o.Choice.String() + suffix, kind: planned, result: o.Result}
	if w.known && suffix == "" && o.Choice.String() == w.force.String() {
		row.name, row.kind = row.name+", simulated", check
	}
	for _, i := range w.set {
		row.fates = append(row.fates, jobFateOf(o.State.Record(job.ID(i))))
	}
	for _, text := range o.Remarks() {
		w.told = append(w.told, told{row.name, text})
	}
	return row
}

// add adds a line with its figures: those of the jobs that have ended in it, and
// how they compare with what happened to the same jobs.
func (w *whatIf) add(row *planRow) {
	var jct, wait []time.Duration
	var first, last time.Duration
	var sum, was float64 // s
	for k, i := range w.set {
		f := row.fates[k]
		if !f.ended {
			row.left++
			continue
		}
		came := w.jobs[i].Job.Submit
		if len(jct) == 0 || came < first {
			first = came
		}
		last = max(last, f.end)
		jct, wait = append(jct, f.jct), append(wait, f.wait)
		row.preemptions += f.preemptions
		if len(w.rows) > 0 {
			sum, was = sum+f.jct.Seconds(), was+w.rows[0].fates[k].jct.Seconds()
		}
	}
	row.jct, row.wait, row.makespan = report.Describe(jct), report.Describe(wait), last-first
	row.hours = (sum - was) / 3600
	if was > 0 {
		row.change = (sum - was) / was
	}
	w.rows = append(w.rows, row)
}

// checked is the line of the simulation of what was in force, nil where there is
// none.
func (w *whatIf) checked() *planRow {
	for _, r := range w.rows {
		if r.kind == check {
			return r
		}
	}
	return nil
}

// folder is where the files of a line go.
func (w *whatIf) folder(name string) string {
	return (&simFlags{out: w.f.out}).folder(run.Choice{Policy: name})
}

// folders makes the folders of --out.
func (w *whatIf) folders() error {
	if w.f.out == "" {
		return nil
	}
	names := []string{asItWas}
	for _, c := range w.here {
		names = append(names, c.String())
	}
	for _, c := range w.there {
		names = append(names, c.String()+", "+w.machine())
	}
	for _, name := range names {
		if w.f.log != "" && (&simFlags{out: w.f.out}).overwrites(w.f.log, run.Choice{Policy: name}) {
			return misused("--out %s: the log that is read lies where that of %s would be written: name another folder", w.f.out, name)
		}
		if err := os.MkdirAll(w.folder(name), 0o777); err != nil {
			return err
		}
	}
	return nil
}

// files writes the files of one line.
func (w *whatIf) files(name string, s *state.State, r *report.Result) error {
	if w.f.out == "" {
		return nil
	}
	err := create(filepath.Join(w.folder(name), "jobs.csv"), func(out io.Writer) error { return report.WriteJobs(out, s) })
	if err != nil {
		return err
	}
	return create(filepath.Join(w.folder(name), "summary.json"), r.WriteSummary)
}

// page writes the page for all lines.
func (w *whatIf) page() error {
	if err := w.files(asItWas, w.past.State, w.rows[0].result); err != nil {
		return err
	}
	header := &w.past.Parts[len(w.past.Parts)-1].Header
	meta := report.Meta{
		Title: "Norn: what if", Trace: "what happened " + w.f.when(w.past), Cluster: cmp.Or(header.Cluster, "this machine"),
		Estimates: w.f.estimates, Conditions: strings.TrimSuffix(w.transitions(), "."),
	}
	var all []report.Named
	for _, r := range w.rows {
		all = append(all, report.Named{Name: r.name, Result: r.result})
	}
	path := filepath.Join(w.f.out, "report.html")
	if err := create(path, func(out io.Writer) error { return report.WriteHTML(out, meta, all) }); err != nil || w.f.quiet {
		return err
	}
	remark(w.cmd, "wrote %s", path)
	return nil
}
