package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/clusterspec"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/param"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/replay"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/unit"
)

// planning is what norn plan was asked.
type planning struct {
	*shell
	format
	policies, settings []string
	devices, more      int
	cluster            string
	since, until       string
	log                string
	estimates          string
	cost               []string
	out                string
	quiet              bool
}

// believed is the source of estimates that gives what the scheduler believed.
const believed = "believed"

func (s *shell) planCommand() *cobra.Command {
	f := &planning{shell: s}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what another policy, or more GPUs, would have changed",
		Long: `Plan takes the history of this machine, its event log, and plays the same jobs
again in the simulator: under other policies, with more GPUs, or on another
cluster. It says what would have changed: waits and completion times, which
tenants and users gain and lose, and which jobs most.

The first line is what really happened. The second is the simulation of what was in
force: how far it is from the first says how much the others can be believed.

The log comes from the running Norn, which gives it to operators, or with --log from
a file (norn events --log) or from a state folder.`,
		Example: `  norn plan --policy srtf,tiresias
  norn plan --policy 'tiresias(limits=3600,36000)' --since 30d
  norn plan --add-devices 4
  norn plan --policy srtf --devices 8 --out whatif
  norn plan --log /var/lib/norn --policy drf`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return refused(f.run(cmd)) },
	}
	fl := cmd.Flags()
	fl.StringArrayVarP(&f.policies, "policy", "p", nil, "policies to try, with commas between them (default "+strings.Join(defaultPolicies, ",")+"; see norn policies)")
	fl.StringArrayVar(&f.settings, "set", nil, "a parameter of a policy: policy.param=value; may be repeated")
	fl.IntVar(&f.devices, "devices", 0, "as if the machine had so many GPUs")
	fl.IntVar(&f.more, "add-devices", 0, "as if the machine had so many GPUs more")
	fl.StringVarP(&f.cluster, "cluster", "c", "", "as if the jobs had run on this cluster: 2x8:A100, a preset, or a file (see norn cluster)")
	fl.StringVarP(&f.since, "since", "S", "", "from then on: 7d, today, 2026-03-01, \"2026-03-01 18:00\" (default: from the beginning)")
	fl.StringVarP(&f.until, "until", "E", "", "up to then (default: now)")
	fl.StringVar(&f.log, "log", "", `take the log from this file or state folder; "-" is standard input (default: the running Norn)`)
	fl.StringVar(&f.estimates, "estimates", believed, "what policies know of run times: believed (what the scheduler believed then), user, history, oracle or none, perhaps with an error (oracle+50%)")
	fl.StringSliceVar(&f.cost, "cost", nil, "what transitions cost, instead of what was measured: start=10s,checkpoint=5s,restore=20s,migrate=30s,resize=30s")
	fl.StringVar(&f.out, "out", "", "folder for jobs.csv, summary.json, the event logs and report.html")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress and no remarks, only results and errors")
	f.format.flags(cmd, "csv")
	whereFlags(cmd)
	complete(cmd, map[string]completer{
		"policy": completeList(policyNames), "set": completeSetting, "cluster": completeCluster, "log": files,
		"since":     words("1d", "7d", "30d", "today", "yesterday"),
		"estimates": words(believed, "user", "history", "oracle", "none", "oracle+50%"),
	})
	return cmd
}

func (f *planning) run(cmd *cobra.Command) error {
	asked, estimate, err := f.check(cmd)
	if err != nil {
		return err
	}
	col := report.NewCollector(f.report())
	past, err := f.past(cmd, col)
	if err != nil {
		return err
	}
	if ended(past) == 0 {
		return fmt.Errorf("there is too little history to plan with: of %s %s, none has ended after it ran", count(past.State.Jobs(), "job"), f.when(past))
	}
	w := &whatIf{f: f, cmd: cmd, past: past, estimate: estimate, jobs: past.Jobs}
	if w.costs, err = f.costs(past); err != nil {
		return err
	}
	if err := w.prepare(asked); err != nil {
		return err
	}
	w.real(col.Result(past.State))
	if err := w.simulate(); err != nil {
		return err
	}
	return w.write()
}

// report is what is kept of each run beside the figures.
func (f *planning) report() report.Options {
	return report.Options{Series: f.out != "", Intervals: f.out != ""}
}

// check checks the flags before anything is read. asked is empty when no policy is
// named and another machine is.
func (f *planning) check(cmd *cobra.Command) (asked []run.Choice, e run.Estimate, err error) {
	machines := 0
	for _, name := range []string{"devices", "add-devices", "cluster"} {
		if cmd.Flags().Changed(name) {
			machines++
		}
	}
	switch {
	case machines > 1:
		return nil, e, misused("--devices, --add-devices and --cluster say the same: name one of them")
	case cmd.Flags().Changed("devices") && f.devices < 1, cmd.Flags().Changed("add-devices") && f.more < 1:
		return nil, e, misused("--devices and --add-devices: write 1 or more")
	}
	if e, err = f.estimate(); err != nil {
		return nil, e, err
	}
	if _, err := f.costs(&replay.Past{}); err != nil {
		return nil, e, err
	}
	if len(f.policies) == 0 && machines > 0 {
		if len(f.settings) > 0 {
			return nil, e, misused("--set %s: name the policy with --policy, too", f.settings[0])
		}
		return nil, e, nil
	}
	asked, err = choices(f.policies, f.settings)
	return asked, e, err
}

func (f *planning) estimate() (run.Estimate, error) {
	name, noise, noisy := strings.Cut(f.estimates, "+")
	if name == believed { // jobs are given what was believed as their users' word
		name = run.Estimate{From: run.User}.String()
	}
	if noisy {
		name += "+" + noise
	}
	e, err := run.ParseEstimate(name)
	if err != nil {
		return e, misused("--estimates: %q is none of %s, user, history, oracle and none%s", f.estimates, believed, param.Near(f.estimates, []string{believed, "user", "history", "oracle", "none"}))
	}
	return e, nil
}

// past reads the history.
func (f *planning) past(cmd *cobra.Command, col *report.Collector) (*replay.Past, error) {
	log, err := f.open(cmd)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	in, err := f.stretch(&log.Header)
	if err != nil {
		return nil, err
	}
	past, err := replay.ReadPast(log.Reader, in, col)
	if err != nil {
		return nil, log.fault(err)
	}
	return past, nil
}

// stretch is what --since and --until ask for. Where a log does not tell the time of
// day, they count from its beginning.
func (f *planning) stretch(h *eventlog.Header) (in replay.Stretch, err error) {
	moment := func(flag, text string) (time.Duration, error) {
		if text == "" {
			return 0, nil
		}
		if h.Origin.IsZero() {
			d, err := unit.ParseSeconds(text)
			if err != nil || d < 0 {
				return 0, misused("--%s: the log does not tell the time of day: write a time since its beginning, such as 12h", flag)
			}
			return d, nil
		}
		t, err := past(text, f.now())
		if err != nil {
			return 0, misused("--%s: %w", flag, err)
		}
		if flag == "until" && !t.After(h.Origin) {
			return 0, misused("--until: %s is before the log begins, %s", text, clock(h.Origin, f.now()))
		}
		return max(0, t.Sub(h.Origin)), nil
	}
	if in.From, err = moment("since", f.since); err != nil {
		return in, err
	}
	if in.To, err = moment("until", f.until); err != nil {
		return in, err
	}
	if in.To > 0 && in.To <= in.From {
		return in, misused("--until: %s is not after --since %s", f.until, f.since)
	}
	return in, nil
}

// costs is what transitions are taken to cost. Where no start after a stop was
// measured, it takes what a first start takes.
func (f *planning) costs(p *replay.Past) (*perf.Costs, error) {
	measured := p.Costs.Cost
	if p.Costs.Restores == 0 {
		measured.Restore = measured.Start
	}
	spec := &clusterspec.Spec{Costs: perf.Costs{Base: measured}}
	given, err := (&simFlags{cost: f.cost}).costs(spec)
	if given == nil && err == nil {
		given = &spec.Costs
	}
	return given, err
}

// when says which stretch of time a past is.
func (f *planning) when(p *replay.Past) string {
	origin := p.Parts[0].Header.Origin
	if origin.IsZero() {
		return fmt.Sprintf("from %s to %s", unit.Human(p.From), unit.Human(p.To))
	}
	text := func(d time.Duration) string { return origin.Add(d).In(f.now().Location()).Format("2006-01-02 15:04") }
	return fmt.Sprintf("from %s to %s", text(p.From), text(p.To))
}

// compared tells whether a job is part of what is compared: it has ended, and it
// ran.
func compared(r *job.Record) bool { return r.Phase.Over() && r.Starts > 0 }

// ended is the number of jobs that can be compared.
func ended(p *replay.Past) int {
	n := 0
	for _, id := range p.Of {
		if compared(p.State.Record(id)) {
			n++
		}
	}
	return n
}

// machine is the machine as it was, and the one that is asked about, nil when none
// is.
func (f *planning) machine(p *replay.Past) (was, other *clusterspec.Spec, err error) {
	c, err := p.Machine()
	if err != nil {
		return nil, nil, err
	}
	if was, err = clusterspec.Of(c); err != nil {
		return nil, nil, err
	}
	h := &p.Parts[len(p.Parts)-1].Header
	was.Tenants, was.HalfLife = tenantsOf(h), h.HalfLife
	switch {
	case f.cluster != "":
		if other, err = loadCluster(f.cluster); err == nil && len(other.Tenants) == 0 {
			other.Tenants, other.HalfLife = was.Tenants, was.HalfLife
		}
	case f.devices > 0:
		other, err = resized(was, f.devices)
	case f.more > 0:
		other, err = resized(was, was.GPUs()+f.more)
	}
	return was, other, err
}

// resized is a machine with another number of GPUs, and all else as it is.
func resized(was *clusterspec.Spec, gpus int) (*clusterspec.Spec, error) {
	if len(was.Nodes) != 1 || was.Nodes[0].Count != 1 || len(was.Nodes[0].GPUs) != 1 {
		return nil, misused("GPUs can be added to one machine whose GPUs are of one type: describe the other machine with --cluster")
	}
	if gpus > cluster.MaxGroup {
		return nil, misused("a machine with %d GPUs: %d are the most; describe several machines with --cluster", gpus, cluster.MaxGroup)
	}
	out := *was
	out.Nodes = slices.Clone(was.Nodes)
	n := &out.Nodes[0]
	n.GPUs = []clusterspec.GPUs{{Type: n.GPUs[0].Type, Count: gpus}}
	n.Links = clusterspec.Links{}
	return &out, nil
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
