package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
)

// Answer simulates all that is asked. The context ends it. It fails on a
// history with too little in it (History.Check), on a policy that cannot be
// made, and on a machine that cannot be described. It also fails if neither the
// policy that was in force nor another one can be simulated, and if a file
// cannot be written.
func (q *Question) Answer(ctx context.Context) (*Plan, error) {
	h := q.History
	if err := h.Check(q.clock()); err != nil {
		return nil, err
	}
	p := &Plan{q: q, h: h, set: h.set(), jobs: q.jobs(), costs: *q.costs(), force: experiment.ChoiceOf(h.last())}
	_, p.Unchecked = p.force.Make()
	if p.Unchecked != nil && len(q.Policies) == 0 {
		return nil, fmt.Errorf("the policy that was in force cannot be simulated here: %w; name another one with --policy", p.Unchecked)
	}
	was, err := h.Was()
	if err != nil {
		return nil, err
	}
	for _, i := range p.set {
		p.sides.Jobs = append(p.sides.Jobs, report.JobOf(&p.jobs[i]))
	}
	p.happened()
	if err := p.on(ctx, &Machine{Spec: was}, h.Script); err != nil {
		return p, err
	}
	for _, m := range q.Machines {
		if err := p.on(ctx, m, m.script(h.Script)); err != nil {
			return p, err
		}
	}
	return p, nil
}

// clock is that on which times of day are told.
func (q *Question) clock() *time.Location { return cmp.Or(q.Clock, time.UTC) }

// choices are the policies that are simulated: the one that was in force last, if it is
// known here, and those that are tried.
func (q *Question) choices() []experiment.Choice {
	force := experiment.ChoiceOf(q.History.last())
	var out []experiment.Choice
	_, err := force.Make()
	if err == nil {
		out = append(out, force)
	}
	for _, c := range q.Policies {
		if c.String() != force.String() || err != nil {
			out = append(out, c)
		}
	}
	return out
}

// happened adds what happened.
func (p *Plan) happened() {
	row := &Row{Name: AsItWas, Kind: Real, Result: p.h.Result}
	var fates []report.Fate
	for _, i := range p.set {
		fates = append(fates, report.FateOf(p.h.State.Record(p.h.Of[i])))
	}
	p.add(row, fates)
}

// script is what people did, as far as it can be done on the machine: on another cluster,
// nothing is drained.
func (m *Machine) script(there []eventlog.Event) []eventlog.Event {
	var out []eventlog.Event
	for _, ev := range there {
		switch ev.Kind {
		case eventlog.NodeSet, eventlog.NodeLabels, eventlog.Device, eventlog.Foreign:
			var is bool
			if ev, is = m.here(ev); !is {
				continue
			}
		}
		out = append(out, ev)
	}
	return out
}

// suffix ends the names of the runs on a machine.
func (m *Machine) suffix() string {
	if m.Name == "" {
		return ""
	}
	return ", " + m.Name
}

// experiment is a machine on which the jobs are played again.
func (q *Question) experiment(m *Machine, script []eventlog.Event, costs *perf.Costs) *experiment.Experiment {
	x := &experiment.Experiment{
		Spec: m.Spec, Estimate: q.Estimates.of, Seed: 1, Costs: costs, Report: q.Report, Sleep: m.Sleep, Defrag: m.Defrag,
		World: func(c *sim.Config) { c.Script = slices.Clone(script) },
	}
	header := &q.History.Parts[0].Header
	if x.Defrag == nil {
		x.Defrag = q.History.moved()
	}
	if header.World != experiment.Simulated && m.Name == "" {
		x.Model = perf.Reference{} // a live world counts what was done in seconds, wherever it was
	}
	x.Header.Origin, x.Header.Trace = header.Origin, "what happened "+q.History.When(q.clock())
	return x
}

// World is the machine that was there, as an experiment, and the jobs to be played again on it with the
// estimates that policies know. It fails as History.Was does.
func (q *Question) World() (*experiment.Experiment, experiment.Jobs, error) {
	was, err := q.History.Was()
	if err != nil {
		return nil, nil, err
	}
	return q.experiment(&Machine{Spec: was}, q.History.Script, q.costs()), q.jobs(), nil
}

// costs are those that transitions are taken to have.
func (q *Question) costs() *perf.Costs {
	if q.Costs != nil {
		return q.Costs
	}
	measured := q.History.Measured()
	return &measured
}

// jobs are those of the history, with the estimates that policies know: what the scheduler believed of them
// as their users' word, where that is asked for.
func (q *Question) jobs() []trace.Entry {
	h := q.History
	if !q.Estimates.believed {
		return h.Jobs
	}
	jobs := slices.Clone(h.Jobs)
	for i, d := range h.Believed {
		if jobs[i].Job.Estimate = 0; d >= 0 {
			jobs[i].Job.Estimate = max(1, d)
		}
	}
	return jobs
}

// on simulates the jobs under all policies on one machine.
func (p *Plan) on(ctx context.Context, m *Machine, script []eventlog.Event) error {
	q, suffix := p.q, m.suffix()
	x := q.experiment(m, script, &p.costs)
	if q.Folder != nil {
		x.Log = func(run string) (experiment.Log, error) { return q.Folder.Log(run + suffix) }
	}
	all := q.choices()
	if q.Watch != nil {
		b := Batch{Jobs: len(p.jobs)}
		for _, c := range all {
			b.Runs = append(b.Runs, c.Label()+suffix)
		}
		w := q.Watch(b)
		defer w.End()
		x.Watch = func(run string) engine.Sink { return w.Sink(run + suffix) }
	}
	rows, fates := map[string]*Row{}, map[string][]report.Fate{}
	_, err := x.All(ctx, all, experiment.Jobs(p.jobs).Source(), func(o *experiment.Outcome) error {
		name := o.Choice.Label()
		rows[name], fates[name] = p.simulated(o, m), nil
		for _, i := range p.set {
			fates[name] = append(fates[name], o.Fates[i])
		}
		if q.Folder != nil {
			o.Result.Made = q.Made.With(name)
			if err := q.Folder.Write(name+suffix, o.State, o.Result, nil); err != nil {
				return err
			}
		}
		o.State, o.Sim = nil, nil // what is compared is enough from here on
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range all {
		p.add(rows[c.Label()], fates[c.Label()])
	}
	return nil
}

// simulated is the line of a simulation.
func (p *Plan) simulated(o *experiment.Outcome, m *Machine) *Row {
	row := &Row{Name: o.Name + m.suffix(), policy: o.Name, gpus: o.GPUs, Kind: Tried, Result: o.Result, Remarks: o.Remarks()}
	o.Result.Lacks = nil
	for _, l := range o.Lacks() { // what a simulation could assume is of no use for what really happened
		o.Result.Lacks = append(o.Result.Lacks, l.Text)
	}
	if o.Result.Estimates != "" {
		o.Result.Estimates = p.q.Estimates.String()
	}
	if m.Grow {
		row.growth = m.Name
	}
	if m.Sleep != nil {
		row.Remarks = append(row.Remarks, p.slept(o))
	}
	if p.Unchecked == nil && m.Name == "" && o.Choice.String() == p.force.String() {
		row.Name, row.Kind = row.Name+", simulated", Checked
	}
	return row
}

// slept says what came of nodes that sleep, beside the same policy without.
func (p *Plan) slept(o *experiment.Outcome) string {
	e := o.Result.Energy
	if e == nil || e.Slept == nil {
		return "no node was ever idle for long enough to sleep"
	}
	text := fmt.Sprintf("%.1f nodes asleep on average, %.1f wakes a day, %s delayed by them; %.0f kWh", e.Slept.Nodes, e.Slept.Wakes, unit.CountOrNo(e.Slept.Delayed, "job"), e.KWh)
	for _, r := range p.Rows {
		if was := r.Result.Energy; r.policy == o.Name && was != nil && was.Slept == nil {
			return text + fmt.Sprintf(" instead of %.0f", was.KWh)
		}
	}
	return text
}

// Publish writes the page for all rows, and the files of what happened, into the folder
// of the question, commits it, and returns where the page is.
func (p *Plan) Publish() (path string, err error) {
	to, h := p.q.Folder, p.h
	if err := to.Write(AsItWas, h.State, h.Result, nil); err != nil {
		return "", err
	}
	meta := report.Meta{
		Title: "Norn: what if", Trace: "what happened " + h.When(p.q.clock()), Cluster: cmp.Or(h.last().Cluster, "this machine"),
		Estimates: p.q.Estimates.String(), Conditions: strings.TrimSuffix(p.transitions(), "."),
	}
	meta.Comparison = &p.sides
	if err := to.WriteComparison(&p.sides); err != nil {
		return "", err
	}
	var all []report.Named
	for _, r := range p.Rows {
		all = append(all, report.Named{Name: r.Name, Result: r.Result})
	}
	if path, err = to.WritePage(meta, all); err == nil {
		err = to.Commit()
	}
	return path, err
}
