package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/api/jobfile"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/whatif"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/defrag"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/policy/sleep"
	"github.com/norn-scheduler/norn/report"
)

// planning is what norn plan was asked.
type planning struct {
	*shell
	format
	policies, settings []string
	devices, more      int
	add, remove        string // nodes
	grow               string // clusters of several sizes
	cluster            string
	sleep              string  // which nodes sleep
	defrag             float64 // what moves must win, over their cost
	since, until       string
	log                string
	estimates          string
	cost               []string
	out                string
	quiet              bool
}

func (s *shell) planCommand() *cobra.Command {
	f := &planning{shell: s}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what another policy, or more GPUs, would have changed",
		Long: `Plan takes the event log of this machine and plays the same jobs again in the
simulator: under other policies, with more GPUs or nodes, or on another cluster. It shows what
would have changed: waits and completion times, which tenants and users gain and lose,
and which jobs most.

The first line is what really happened. The second is a simulation of the policy that
was in force. The nearer it is to the first line, the more you can trust the others.

The log comes from the running Norn, which gives it to operators. With --log it comes
from a file (norn events --log) or from a state folder.`,
		Example: `  norn plan --policy srtf,tiresias
  norn plan --policy 'tiresias(limits=3600,36000)' --since 30d
  norn plan --add-devices 4
  norn plan --add-nodes 4x8:H100 --remove-nodes 'old-*'
  norn plan --grow 1,2,4,8                      how many nodes are enough
  norn plan --sleep ces                         what it saves when idle nodes sleep
  norn plan --policy fifo,srtf --defrag 2
  norn plan --policy srtf --devices 8 --out whatif
  norn plan --log /var/lib/norn --policy drf`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return refused(f.run(cmd)) },
	}
	fl := cmd.Flags()
	fl.StringArrayVarP(&f.policies, "policy", "p", nil, "policies to try, separated by commas; @FILE: those in a file (default "+strings.Join(defaultPolicies, ",")+"; see norn policies)")
	fl.StringArrayVar(&f.settings, "set", nil, "a parameter of a policy: policy.param=value; may be repeated")
	fl.IntVar(&f.devices, "devices", 0, "simulate a machine with so many GPUs")
	fl.IntVar(&f.more, "add-devices", 0, "simulate a machine with so many more GPUs")
	fl.StringVar(&f.add, "add-nodes", "", "simulate the cluster with these nodes more: 4x8:H100; what is not told of them is as it is of nodes with the same GPUs")
	fl.StringVar(&f.remove, "remove-nodes", "", "simulate the cluster without these nodes: 2x8:A100, or their names: a-7,old-*")
	fl.StringVar(&f.grow, "grow", "", "how many nodes are enough: simulate clusters with more or fewer nodes, one after the other: 2,4,-1 of those that there are most of, or others: 4x8:H100; of one machine also GPUs: 1gpu,2gpus")
	fl.StringVar(&f.sleep, "sleep", "", "have idle nodes sleep: ces, vanilla, or one with settings as in 'ces(buffer=7)' (see norn docs sleep)")
	fl.Float64Var(&f.defrag, "defrag", 0, "have running jobs moved together for a gang that would wait beside free GPUs, if so many times the cost is won (see norn docs defrag; 2 is a good value)")
	fl.StringVarP(&f.cluster, "cluster", "c", "", "simulate this cluster: 2x8:A100, a preset, or a file (see norn cluster)")
	fl.StringVarP(&f.since, "since", "S", "", "begin of the history: 7d, today, 2026-03-01, \"2026-03-01 18:00\" (default: its first event)")
	fl.StringVarP(&f.until, "until", "E", "", "end of the history (default: now)")
	fl.StringVar(&f.log, "log", "", `take the log from this file or state folder; "-" is standard input (default: the running Norn)`)
	fl.StringVar(&f.estimates, "estimates", whatif.Believed, "source of run-time estimates: believed (those of the scheduler then), user, history, oracle or none, optionally with an error (oracle+50%)")
	fl.StringSliceVar(&f.cost, "cost", nil, "costs of transitions, instead of the measured ones: start=10s,checkpoint=5s,restore=20s,migrate=30s,resize=30s,in-place=2s,time-sliced=1s")
	fl.StringVar(&f.out, "out", "", "folder for jobs.csv, series.csv, held.csv, summary.json, the event logs and report.html")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress and no remarks, only results and errors")
	f.format.flags(cmd, "csv")
	whereFlags(cmd)
	complete(cmd, map[string]completer{
		"policy": completeList(policyNames), "set": completeSetting, "cluster": completeCluster, "log": files,
		"since":     words("1d", "7d", "30d", "today", "yesterday"),
		"estimates": words(whatif.Believed, "user", "history", "oracle", "none", "oracle+50%"),
	})
	return cmd
}

func (f *planning) run(cmd *cobra.Command) error {
	q, err := f.question(cmd)
	if err != nil {
		return err
	}
	if q.History, err = f.past(cmd, q.Report); err != nil {
		return err
	}
	if err := q.History.Check(q.Clock); err != nil {
		return err
	}
	if q.Machines, err = f.machines(q.History); err != nil {
		return err
	}
	if err := f.manage(cmd, q); err != nil {
		return err
	}
	if len(f.cost) > 0 {
		costs, err := experiment.ParseCosts(f.cost, q.History.Measured())
		if err != nil {
			return misused("--cost %w", err)
		}
		q.Costs = &costs
	}
	if q.Folder != nil {
		if f.log != "" && q.Folder.Contains(f.log) {
			return misused("--out %s: the folder has the log that is read, and a plan replaces all of it: name another folder", f.out)
		}
		if q.Made, err = origin(cmd, cmp.Or(f.log, "-")); err != nil {
			return err
		}
		if err := q.Folder.Begin(); err != nil {
			return fmt.Errorf("--out %w", err)
		}
		defer q.Folder.Keep()
	}
	plan, err := q.Answer(cmd.Context())
	if err != nil {
		return err
	}
	return f.write(cmd, plan)
}

// question is what is asked, as far as the flags alone tell it. They are checked before
// anything is read. No policies are tried when none is named and another machine is.
func (f *planning) question(cmd *cobra.Command) (*whatif.Question, error) {
	q := &whatif.Question{Clock: f.now().Location(), Report: report.Options{Series: f.out != "", Intervals: f.out != ""}}
	machines, nodes := 0, cmd.Flags().Changed("add-nodes") || cmd.Flags().Changed("remove-nodes")
	for _, name := range []string{"devices", "add-devices", "cluster", "grow"} {
		if cmd.Flags().Changed(name) {
			machines++
		}
	}
	if nodes {
		machines++
	}
	switch {
	case machines > 1 && nodes:
		return nil, misused("--add-nodes and --remove-nodes go together, and not with --devices, --add-devices, --grow or --cluster")
	case machines > 1:
		return nil, misused("--devices, --add-devices, --grow and --cluster exclude each other: name one of them")
	case nodes && f.add+f.remove == "":
		return nil, misused("--add-nodes and --remove-nodes: write nodes, such as 4x8:H100")
	case cmd.Flags().Changed("devices") && f.devices < 1, cmd.Flags().Changed("add-devices") && f.more < 1:
		return nil, misused("--devices and --add-devices: write 1 or more")
	}
	var err error
	if q.Estimates, err = whatif.ParseEstimates(f.estimates); err != nil {
		known := []string{whatif.Believed, "user", "history", "oracle", "none"}
		return nil, misused("--estimates: %q is none of %s, user, history, oracle and none%s", f.estimates, whatif.Believed, param.Near(f.estimates, known))
	}
	if _, err := experiment.ParseCosts(f.cost, perf.Costs{}); err != nil {
		return nil, misused("--cost %w", err)
	}
	if f.out != "" {
		q.Folder = &experiment.Folder{Path: f.out, Packing: eventlog.Zstd}
	}
	if file, ok := cmd.ErrOrStderr().(*os.File); ok && !f.quiet && term.IsTerminal(int(file.Fd())) {
		q.Watch = func(b whatif.Batch) whatif.Watch { return newProgress(file, b.Runs, b.Jobs) }
	}
	switch {
	case len(f.policies) > 0 || machines == 0 && f.sleep == "" && !cmd.Flags().Changed("defrag"):
		q.Policies, err = simulated(f.policies, f.settings)
	case len(f.settings) > 0:
		err = misused("--set %s: name the policy with --policy, too", f.settings[0])
	}
	return q, err
}

// past reads the history.
func (f *planning) past(cmd *cobra.Command, keep report.Options) (*whatif.History, error) {
	log, err := f.open(cmd)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	in, err := f.stretch(&log.Header)
	if err != nil {
		return nil, err
	}
	h, err := whatif.Read(log.Reader, in, keep)
	if err != nil {
		return nil, log.fault(err)
	}
	return h, nil
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
				return 0, misused("--%s: the log does not have the time of day: write a time since its beginning, such as 12h", flag)
			}
			return d, nil
		}
		t, err := jobfile.Past(text, f.now())
		if err != nil {
			return 0, misused("--%s: %w", flag, err)
		}
		if flag == "until" && !t.After(h.Origin) {
			return 0, misused("--until: %s is before the log begins, %s", text, grid.Clock(h.Origin, f.now()))
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

// machines are those that are asked about.
func (f *planning) machines(h *whatif.History) ([]*whatif.Machine, error) {
	if f.grow != "" {
		all, err := h.Grown(f.grow)
		if err != nil {
			return nil, misused("--grow: %w", err)
		}
		return all, nil
	}
	m, err := f.machine(h)
	if m == nil || err != nil {
		return nil, err
	}
	return []*whatif.Machine{m}, nil
}

// manage has nodes sleep and jobs moved together on the machines that are asked about, or on the one that
// was there.
func (f *planning) manage(cmd *cobra.Command, q *whatif.Question) (err error) {
	var asleep sleep.Config
	var moves *defrag.Config
	if f.sleep != "" {
		if asleep, err = sleep.Parse(f.sleep); err != nil {
			return misused("--sleep: %w", err)
		}
	}
	if cmd.Flags().Changed("defrag") {
		if moves, err = defrag.Winning(f.defrag); err != nil {
			return misused("--defrag %w", err)
		}
	}
	if asleep == nil && moves == nil {
		return nil
	}
	if len(q.Machines) == 0 {
		q.Machines = []*whatif.Machine{nil}
	}
	for i, m := range q.Machines {
		if q.Machines[i], err = q.History.Managed(m, asleep, moves); err != nil {
			return err
		}
	}
	return nil
}

// machine is another one than there was, nil when none is asked about.
func (f *planning) machine(h *whatif.History) (*whatif.Machine, error) {
	gpus := f.devices
	switch {
	case f.cluster != "":
		spec, err := loadCluster(f.cluster)
		if err != nil {
			return nil, err
		}
		return h.On(spec, f.cluster)
	case f.add != "" || f.remove != "":
		m, err := h.WithNodes(f.add, f.remove)
		if err != nil {
			return nil, misused("%w", err)
		}
		return m, nil
	case f.devices == 0 && f.more == 0:
		return nil, nil
	case f.more > 0:
		was, err := h.Was()
		if err != nil {
			return nil, err
		}
		gpus = was.GPUs() + f.more
	}
	m, err := h.Resized(gpus)
	if err != nil {
		return nil, misused("%w", err)
	}
	return m, nil
}

// write writes the plan as it was asked for, and the page.
func (f *planning) write(cmd *cobra.Command, p *whatif.Plan) error {
	var all []told
	for _, r := range p.Rows {
		for _, text := range r.Remarks {
			all = append(all, told{r.Name, text})
		}
		if text := report.LacksText(r.Result.Lacks); text != "" && f.name != "text" { // beneath the text it stands
			all = append(all, told{r.Name, text})
		}
	}
	if p.Unchecked != nil && !f.quiet {
		remark(cmd, "the policy that was in force cannot be simulated here, so the simulation is not checked: %v", p.Unchecked)
	}
	if f.out != "" {
		path, err := p.Publish()
		if err != nil {
			return err
		}
		if !f.quiet {
			remark(cmd, "wrote %s", path)
		}
	}
	if !f.quiet {
		tell(cmd.ErrOrStderr(), all)
	}
	out := cmd.OutOrStdout()
	switch f.name {
	case "json":
		return writeJSON(out, p.JSON())
	case "csv":
		if !f.quiet {
			for _, text := range p.Assumptions() {
				remark(cmd, "%s", text)
			}
		}
		return p.WriteCSV(out)
	}
	return p.WriteText(out, whatif.TextOptions{Width: widthOf(cmd), Now: f.now()})
}
