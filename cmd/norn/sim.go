package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/whatif"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/defrag"
	"github.com/norn-scheduler/norn/policy/replica"
	"github.com/norn-scheduler/norn/policy/sleep"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/dag"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// simFlags is what norn sim was asked.
type simFlags struct {
	reading
	cluster   string
	machine   *clusterspec.Spec // that of a live log; nil: cluster says which
	policies  []string
	settings  []string
	estimates string
	beliefs   string
	sharing   string // what policies believe of jobs that share a GPU
	seeds     seedList
	out       string
	format    string // of the table
	packing   string // of the event log
	whole     bool
	timed     bool // decisions
	cost      []string
	spread    float64
	talk      float64
	speeds    string
	guessed   string // the same as policies believe it; empty: the truth
	varied    string // how far GPUs of a type differ
	believed  string // the same as policies believe it; empty: the truth
	nodeMTBF  string
	repair    string
	jobMTBF   string
	snapshot  string
	loans     string
	notice    string
	headroom  float64
	sleep     string // which nodes sleep
	data      string // the file that tells where data is
	move      string // how data is moved
	boot      string // how long they take to wake up
	defrag    float64
	quiet     bool
	due       experiment.Due      // deadlines of jobs that have none
	slowdown  experiment.Slowdown // of jobs that share a GPU, in the world
	pairs     string
	sockets   string
	assume    string // what jobs are taken to be that do not tell
	from      string // summary of the result that is made again
	baseline  string // that others are told as changes from; empty: none
	grow      string // clusters with more or fewer nodes, which are tried, too
	beside    string // the baseline, by the name that its run has

	requests requestFlags // of a trace of requests
	graphs   graphFlags   // of a trace of graphs of stages

	growths []experiment.Growth // that grow means

	to   *experiment.Folder // that of out, which has begun; nil: nothing is written
	made *report.Origin     // what the runs are made from
}

func simCommand() *cobra.Command { return new(simFlags).command() }

// command is norn sim, which puts its flags into f.
func (f *simFlags) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim [TRACE]",
		Short: "Replay a trace under one or several policies and compare them",
		Long: `Sim replays a trace of jobs on a cluster under each policy and prints one table.
Without a TRACE it uses the built-in one: 1,500 jobs of five tenants for a cluster of
8 nodes with 8 GPUs. TRACE may be an event log of norn, to replay the same jobs under
another policy. "-" is standard input.

With --out it writes the jobs, figures, course and event log of each policy, and one
page with charts, report.html, for all. The folder is written as a whole: the files are
in OUT.partial until all is done. OUT.partial then replaces what an earlier run has left
in OUT. summary.json tells how the run was made, and --from-summary repeats it.

A trace of requests to a server of a language model is replayed on --server, under policies
of tokens (norn policies --tokens): how tokens are shared among clients. A trace of jobs that are graphs of stages is replayed
on --executors, under policies of stages (norn policies --stages).

Write settings behind the name of a policy to compare variants of it:
--policy 'tiresias,tiresias(limits=500,5000)'. A list of values makes a variant of each:
--policy 'tiresias(promote=2|8)'. --set gives settings to all variants. --seed 1-10 runs
each policy with ten seeds and compares the means; norn sweep varies anything.

` + choicesText(),
		Example: simExamples,
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.simulate(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.cluster, "cluster", "c", "", "cluster: 16x8:V100, a preset, or a file (see norn cluster)")
	fl.StringVar(&f.grow, "grow", "", "how many nodes are enough: try each policy on clusters with more or fewer nodes, too: 2,4,-1 of those that there are most of, or others: 4x8:H100; of one machine also GPUs: 1gpu,2gpus")
	fl.StringArrayVarP(&f.policies, "policy", "p", nil, "policies to compare, separated by commas; @FILE: those in a file (default "+strings.Join(defaultPolicies, ",")+"; see norn policies)")
	fl.StringVarP(&f.baseline, "baseline", "b", "", "tell times as changes in per cent from this policy, and who gains and loses by size, length, tenant and user; as-was: from what really happened, where the trace tells it")
	fl.StringArrayVar(&f.settings, "set", nil, "a parameter of a policy: policy.param=value; may be repeated")
	fl.StringVar(&f.estimates, "estimates", "oracle", "source of run-time estimates: oracle, user, history or none, optionally with an error (oracle+50%)")
	fl.StringVar(&f.beliefs, "beliefs", "learnt", "beliefs of policies with an estimator of their own (synergy, ymir): learnt from what is measured of jobs, or true; where nothing can be measured they are true")
	fl.StringVar(&f.sharing, "sharing", "truth", "belief of policies about jobs that share a GPU: truth, or none (jobs do not slow each other down), optionally with an error (truth+40%) or corrected by observed speeds (none+learn)")
	f.seeds = seedList{1}
	fl.Var(&f.seeds, "seed", "seed of all random choices; several, 1,2,3 or 1-10, are run side by side and their means compared")
	fl.StringVarP(&f.out, "out", "o", "", "folder for jobs.csv, series.csv, held.csv, summary.json, the event log and report.html")
	fl.StringVar(&f.format, "table", "text", "format of the table: text, markdown, csv or json")
	fl.StringVar(&f.packing, "log", "zst", "event log in --out: plain, gz, zst or none")
	fl.BoolVar(&f.timed, "decisions", false, "write decisions.csv into --out, too: how long each decision took on this machine, which is never the same twice; runs take turns")
	fl.BoolVar(&f.whole, "whole", false, "ignore the partitions of the cluster: every job may use all of it")
	fl.StringSliceVar(&f.cost, "cost", nil, "costs of transitions: start=10s,checkpoint=5s,restore=20s,migrate=30s,resize=30s,in-place=2s,time-sliced=1s")
	fl.StringVar(&f.speeds, "speeds", "", "measured throughputs of jobs on GPU types (JSON, as Gavel publishes them; speeds are relative to a V100), or times of iterations of large models by GPUs (JSON, as Arena publishes them); policies know them, too")
	fl.StringVar(&f.guessed, "believed-speeds", "", "what policies believe of --speeds: another such file, such as Arena's estimates (default: the truth)")
	fl.StringVar(&f.varied, "variability", "", "how far GPUs of a type differ, by class of job (CSV: node, gpu, run time relative to a typical GPU for each class; see norn docs formats)")
	fl.StringVar(&f.believed, "believed-variability", "", "what policies believe of --variability: another such file, none, or learnt from how fast jobs go (default: the truth)")
	fl.Float64Var(&f.spread, "spread", 1, "speed factor of a gang on several nodes, for each step between them in the topology")
	fl.Float64Var(&f.talk, "communication", 0, "part of their time, 0 to 1, during which jobs that mind their bandwidth communicate where their GPUs are linked best; they are slower elsewhere in a node, and over links between nodes that they share (see norn docs policies/mapa)")
	fl.StringVar(&f.sockets, "sockets", "", "measured run times of jobs alone and beside others on a CPU socket of a node (JSON, as published with the topology-aware scheduler), which policies know, too; see norn docs policies/topology-aware")
	f.losses(fl)
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress and no remarks, only results and errors")
	fl.StringVar(&f.pairs, "pairs", "", "measured speeds of jobs that share a GPU, two at a time (as Lucid and Gavel publish them, or CSV: model, beside, speed); a job without a model is given one of them, drawn by --seed")
	fl.StringVar(&f.slowdown.By, "slowdown", experiment.ByDemands, "how jobs that share a GPU slow each other down; see the table above")
	fl.Float64Var(&f.slowdown.Switching, "switching", 0, "part of the time that each other job on a GPU costs, besides overloaded resources (0: nothing, as under MPS; 0.03 without it)")
	fl.StringVar(&f.assume, "assume", "", "assumed work of jobs that do not declare it, drawn by --seed; see the table above (default: no assumption)")
	fl.StringVar(&f.from, "from-summary", "", "repeat the run of this summary.json, with the same trace, cluster, policy and flags, except those that are given anew")
	f.reading.flags(cmd)
	f.requests.add(fl)
	f.graphs.add(fl)
	fl.Var(&f.due, "deadlines", "deadlines of jobs without one: submission + run time times a factor drawn from a range, as in 0.5-1.5, with shares of soft ones and of jobs without, as in 0.5-1.5,soft=30%,none=20%")
	complete(cmd, map[string]completer{
		"assume": words(experiment.Assumptions()...), "slowdown": words(experiment.Slowdowns()...),
		"cluster": completeCluster, "policy": completeList(policyNames), "set": completeSetting, "baseline": completeList(policyNames),
		"estimates": words("oracle", "user", "history", "none", "oracle+50%"), "beliefs": words("learnt", "true"), "sharing": words("truth", "none", "truth+40%", "none+learn", "truth+40%+learn"),
		"table": words("text", "markdown", "csv", "json"), "log": words("zst", "gz", "plain", "none"),
	})
	return cmd
}

// losses adds the flags that say how nodes and jobs fail, and how lenders take nodes back.
func (f *simFlags) losses(fl *pflag.FlagSet) {
	fl.StringVar(&f.nodeMTBF, "node-mtbf", "", "mean time between failures of a node (default: never)")
	fl.StringVar(&f.repair, "repair", "1h", "mean time to repair a node")
	fl.StringVar(&f.jobMTBF, "job-mtbf", "", "mean time between failures of a running job (default: never)")
	fl.StringVar(&f.snapshot, "snapshot", "30m", "time between two snapshots of a job, to which it falls back after a failure")
	fl.StringVar(&f.loans, "loans", "", "what the owners of borrowed nodes lend and take back (CSV; see norn docs formats)")
	fl.StringVar(&f.notice, "notice", "", "how long before they take nodes back they tell, where --loans does not say (default: not before)")
	fl.StringVar(&f.data, "data", "", "which regions have which data (JSON): jobs run only where what they read is, by column dataset of the trace (see norn docs policies/mast)")
	fl.StringVar(&f.move, "move-data", "", "how the data of --data is moved: tetris, every day where it is needed, with settings as in 'tetris(period=12h)', or on-demand, once for jobs that could run nowhere (default: it stays where it is)")
	fl.StringVar(&f.sleep, "sleep", "", "which nodes sleep while nobody needs them, beside any policy: ces (by a forecast, as Helios) or vanilla (every idle one), with settings as in 'ces(buffer=7)' (default: none; see norn docs sleep)")
	fl.Float64Var(&f.defrag, "defrag", 0, "move running jobs together so that a gang fits which would wait although enough GPUs are free, if so many times the cost of the moves is won; for policies that do not share GPUs (default: no moves; 2 is a good value)")
	fl.StringVar(&f.boot, "boot", "5m", "how long a node takes to wake up")
	fl.Float64Var(&f.headroom, "headroom", trace.DefaultHeadroom, "part of its nodes that a lender keeps above its load in --loans")
}

// simExamples are the examples in its help.
const simExamples = `  norn sim
  norn sim jobs.csv --cluster 16x8:V100 --policy fifo,srtf,tiresias
  norn sim philly_jobs.csv.gz --cluster philly --policy tiresias --set tiresias.limits=3600,36000 --out results
  norn sim jobs.csv --cluster cluster.yaml --policy fifo --set fifo.mode=easy --estimates user
  norn sim jobs.txt --cluster 16x8 --policy srtf,tiresias --baseline fifo
  norn sim jobs.txt --cluster 16x8 --policy fifo,srtf --grow 1,2,4,8   how many nodes are enough
  norn sim --policy fifo,srtf --node-mtbf 7d --seed 1-10   means over seeds
  norn sim results/fifo/events.log.zst --policy srtf      what if, on a log
  norn sim requests.csv --policy fcfs,vtc --server a10g-7b   requests, not jobs
  norn sim dags.jsonl --policy fair,decima --executors 50    graphs of stages
  norn sim --from-summary results/fifo/summary.json       the same result once more`

// choicesText is a table of what jobs can be assumed to do, of how jobs that share a GPU
// slow each other down, and of programs that are policies.
func choicesText() string {
	var b strings.Builder
	b.WriteString("Assumptions (--assume), for jobs that do not tell what they do:\n")
	for _, name := range experiment.Assumptions() {
		fmt.Fprintf(&b, "  %-9s %s\n", name, experiment.Assumption(name).About())
	}
	b.WriteString("\nSlowdowns (--slowdown) of jobs that share a GPU:\n")
	for _, name := range experiment.Slowdowns() {
		fmt.Fprintf(&b, "  %-9s %s\n", name, experiment.AboutSlowdown(name))
	}
	b.WriteString("\nexec(COMMAND) is a policy of your own: a program in any language that is told what has\n" +
		"changed and answers with a plan: --policy 'srtf,exec(python3 mine.py)'. See norn policies\nexec and norn docs external-policies.\n")
	return strings.TrimRight(b.String(), "\n")
}

// gracePeriod is how long a simulation may take to end when it is told to: more than
// experiment waits for a decision that does not end.
const gracePeriod = 1900 * time.Millisecond

// endInTime ends the program when the context has ended and what goes on does not: the
// reading of a trace, say. Files are written as a whole or not at all. stop takes that
// back.
func endInTime(ctx context.Context) (stop func()) {
	returned := make(chan struct{})
	context.AfterFunc(ctx, func() {
		select {
		case <-returned:
		case <-time.After(gracePeriod):
			os.Exit(exitInterrupted)
		}
	})
	return func() { close(returned) }
}

func (f *simFlags) simulate(cmd *cobra.Command, args []string) (err error) {
	defer endInTime(cmd.Context())()
	if f.from != "" {
		if args, err = f.again(cmd, args); err != nil {
			return err
		}
	}
	if err := f.words(); err != nil {
		return err
	}
	if len(args) == 1 && trace.IsRequests(args[0]) {
		return f.into(cmd, args[0], "a trace of requests", ofRequests, f.serve)
	}
	if len(args) == 1 && dag.IsTrace(args[0]) {
		return f.into(cmd, args[0], "a trace of graphs of stages", ofGraphs, f.runGraphs)
	}
	if len(f.seeds) > 1 {
		return f.overSeeds(cmd, args)
	}
	compared, err := f.against()
	if err != nil {
		return err
	}
	log, err := f.findCluster(args)
	if err != nil {
		return err
	}
	if log != nil && !f.quiet {
		if other := otherWorld(cmd, log); len(other) > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "norn: the log was made with %s, but this run is not\n", strings.Join(other, " "))
		}
	}
	x, src, err := f.opened(cmd, args)
	if err != nil {
		return err
	}
	defer src.Close()
	if f.growths, err = f.larger(x); err != nil {
		return err
	}
	if f.out != "" {
		if err := f.prepare(cmd, x, args); err != nil {
			return err
		}
		defer f.to.Keep()
	}
	jobs, err := experiment.Prepare(src, x.Preparation())
	if err != nil {
		return err
	}
	outcomes, told, err := f.run(cmd, x, compared, jobs)
	if f.remark(cmd.ErrOrStderr(), jobs, src); !f.quiet {
		tell(cmd.ErrOrStderr(), told)
	}
	if err != nil && (len(outcomes) == 0 || !errors.Is(err, context.Canceled)) {
		return f.kept(err, outcomes, compared)
	}
	if e := f.results(cmd, x, jobs, outcomes, err == nil); e != nil {
		return e
	}
	return f.kept(err, outcomes, compared)
}

// words checks the flags that are one of a few words, before anything is begun.
func (f *simFlags) words() error {
	for _, w := range []struct{ flag, value, known string }{
		{"table", f.format, "text, markdown, csv, json"}, {"log", f.packing, "plain, gz, zst, none"},
	} {
		if w.value == "" || strings.Contains(w.value, ",") || !strings.Contains(", "+w.known+",", " "+w.value+",") {
			return misused("--%s %s: write one of %s", w.flag, w.value, w.known)
		}
	}
	if f.timed && f.out == "" {
		return misused("--decisions goes into a folder: name it with --out")
	}
	if err := (&experiment.Slowdown{By: f.slowdown.By}).Check(); err != nil {
		return misused("--slowdown %w", err)
	}
	if err := f.slowdown.Check(); err != nil {
		return misused("--switching %w", err)
	}
	if _, err := experiment.ParseAssumption(f.assume); err != nil {
		return misused("--assume %w", err)
	}
	if !(f.talk >= 0 && f.talk <= 1) {
		return misused("--communication %g: write a part of the time, from 0 to 1", f.talk)
	}
	if !(f.spread > 0 && f.spread <= 1) {
		return misused("--spread %g: write a factor above 0, and 1 at most", f.spread)
	}
	return nil
}

// findCluster decides on the cluster where none is named: the sample has its own,
// and so has an event log. It returns the header of the log; nil when the trace is
// none.
func (f *simFlags) findCluster(args []string) (*eventlog.Header, error) {
	if len(args) == 0 {
		f.cluster = cmp.Or(f.cluster, gen.SampleCluster)
		return nil, nil
	}
	path := args[0]
	var header *eventlog.Header
	if _, _, packed := fileio.InZip(path); path != "-" && !packed {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		var log *eventlog.File
		if err = errPipe; info.IsDir() || info.Mode().IsRegular() {
			log, err = eventlog.Open(path)
		}
		switch {
		case err == nil:
			header = &log.Header
			if f.cluster == "" {
				f.machine, err = experiment.MachineOf(log)
			}
			f.cluster = cmp.Or(f.cluster, header.Cluster)
			log.Close()
			if err != nil {
				return nil, err
			}
		case info.IsDir() || !errors.Is(err, eventlog.ErrNotLog) && !errors.Is(err, errPipe):
			return nil, err
		}
	}
	if f.cluster == "" {
		return nil, misused("name the cluster for %s: --cluster with a shorthand such as 16x8:V100, a preset or a file (norn cluster lists the presets)", path)
	}
	return header, nil
}

// errPipe says of a file that it can be read once only, as what <(zcat x) stands
// for: a log in it does not tell its cluster.
var errPipe = errors.New("can be read only once")

// worldly are the flags that say how the world of a run behaves, and what is believed of it.
func worldly() []string {
	return []string{"cost", "spread", "communication", "sockets", "speeds", "believed-speeds", "variability", "believed-variability", "pairs", "switching", "slowdown", "sharing", "node-mtbf", "repair", "job-mtbf", "snapshot", "loans", "notice", "headroom", "sleep", "boot", "data", "move-data", "defrag", "whole"}
}

// otherWorld tells of what a log was made with and this run is not, so that what
// comes of other costs is not taken for the policy's doing.
func otherWorld(cmd *cobra.Command, log *eventlog.Header) []string {
	var out []string
	for _, c := range log.Conditions {
		if slices.Contains(worldly(), c.Name) && !cmd.Flags().Changed(c.Name) {
			out = append(out, "--"+c.String())
		}
	}
	if log.Estimate != "" && log.Estimate != "oracle" && !cmd.Flags().Changed("estimates") {
		out = append(out, "--estimates="+log.Estimate)
	}
	return out
}

// kept says what an error left of the runs.
func (f *simFlags) kept(err error, ended []*experiment.Outcome, all []experiment.Choice) error {
	if f.to == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %d of %d policies had ended; their results are in %s until the next run", err, len(ended), len(all), f.to.Partial())
}

// needsWaits has the whole trace read before the first run, so that a user learns at once, not after hours,
// that there is nothing to compare with.
func (f *simFlags) needsWaits(cmd *cobra.Command, x *experiment.Experiment, src *experiment.Prepared) {
	total := x.Total
	x.Total = func(jobs int) {
		if !src.TellsWaits() {
			fmt.Fprintf(cmd.ErrOrStderr(), "norn: --baseline %s: %v; the baseline is another run\n", f.baseline, experiment.ErrUntold)
			f.beside = ""
		}
		if total != nil {
			total(jobs)
		}
	}
}

// run simulates all policies. It returns the outcomes of those that ended, in
// order, and what is to be told of them.
func (f *simFlags) run(cmd *cobra.Command, x *experiment.Experiment, compared []experiment.Choice, src *experiment.Prepared) ([]*experiment.Outcome, []told, error) {
	var show *progress
	if file, ok := cmd.ErrOrStderr().(*os.File); ok && !f.quiet && term.IsTerminal(int(file.Fd())) {
		show = newProgress(file, f.runs(compared), 0)
		x.Watch, x.Total = show.Sink, show.jobs
	}
	if f.beside == experiment.AsWas {
		f.needsWaits(cmd, x, src)
	}
	said := map[string][]string{}
	all, err := x.AllOn(cmd.Context(), compared, f.growths, src, func(o *experiment.Outcome) error {
		if o.Growth == nil { // those on other clusters would say the same
			said[o.Name] = o.Remarks()
		}
		var err error
		if f.to != nil {
			o.Result.Made = f.made.With(o.Name)
			if err = f.to.Write(o.Name, o.State, o.Result, o.Sim.Truth); err == nil && f.timed {
				err = f.to.WriteDecisions(o.Name, o.Decisions)
			}
		}
		o.State, o.Sim = nil, nil // the figures are enough from here on
		return err
	})
	show.End()
	var ended []*experiment.Outcome
	var remarks []told
	for _, o := range all {
		if o == nil {
			continue
		}
		ended = append(ended, o)
		for _, text := range said[o.Name] {
			remarks = append(remarks, told{o.Name, text})
		}
		if text := report.LacksText(o.Result.Lacks); text != "" && o.Growth == nil && (f.format == "csv" || f.format == "json") { // beneath other tables it stands
			remarks = append(remarks, told{o.Name, text})
		}
	}
	return ended, remarks, err
}

// larger are the clusters that --grow means.
func (f *simFlags) larger(x *experiment.Experiment) ([]experiment.Growth, error) {
	if f.grow == "" {
		return nil, nil
	}
	out, err := whatif.Grow(x.Spec, f.grow)
	if err != nil {
		return nil, misused("--grow: %w", err)
	}
	return out, nil
}

// runs are the names of all runs.
func (f *simFlags) runs(compared []experiment.Choice) []string {
	var out []string
	for i := -1; i < len(f.growths); i++ {
		for _, c := range compared {
			if i < 0 {
				out = append(out, c.Label())
			} else {
				out = append(out, c.Label()+", "+f.growths[i].Name)
			}
		}
	}
	return out
}

// told is a remark about one policy.
type told struct{ policy, text string }

// tell tells remarks, those that are the same for several policies once.
func tell(w io.Writer, all []told) {
	var texts []string
	policies := map[string][]string{}
	for _, t := range all {
		if policies[t.text] == nil {
			texts = append(texts, t.text)
		}
		policies[t.text] = append(policies[t.text], t.policy)
	}
	for _, text := range texts {
		fmt.Fprintf(w, "norn: %s: %s\n", strings.Join(policies[text], ", "), text)
	}
}

// experiment turns the flags about the world into an experiment.
func (f *simFlags) experiment(cmd *cobra.Command) (*experiment.Experiment, error) {
	spec, err := f.machine, error(nil)
	if spec == nil {
		spec, err = loadCluster(f.cluster)
	}
	if err != nil {
		return nil, err
	}
	if f.whole && len(spec.Partitions) == 0 && !f.quiet {
		fmt.Fprintln(cmd.ErrOrStderr(), "norn: --whole changes nothing: the cluster has no partitions")
	}
	x := &experiment.Experiment{Spec: spec, Whole: f.whole, Seed: f.seeds[0], Assume: experiment.Assumption(f.assume), Due: f.due, Slowdown: f.slowdown, Model: perf.Analytic{Scaling: 1, Spread: f.spread}, Communication: f.talk}
	x.Messages = &oneByOne{to: cmd.ErrOrStderr()}
	x.Header.Cluster, x.Header.Conditions = f.cluster, given(cmd, elsewhere())
	if x.Estimate, err = experiment.ParseEstimate(f.estimates); err != nil {
		return nil, misused("--estimates: %w", err)
	}
	if x.Beliefs, err = experiment.ParseBeliefs(f.beliefs); err != nil {
		return nil, misused("--beliefs: %w", err)
	}
	if x.Belief, err = experiment.ParseBelief(f.sharing); err != nil {
		return nil, misused("--sharing: %w", err)
	}
	if len(f.cost) > 0 {
		costs, err := experiment.ParseCosts(f.cost, spec.Costs)
		if err != nil {
			return nil, misused("--cost %w", err)
		}
		x.Costs = &costs
	}
	if f.speeds != "" {
		if x.Model, err = f.measured(f.speeds); err != nil {
			return nil, err
		}
	}
	if f.guessed != "" {
		if x.Speeds, err = f.measured(f.guessed); err != nil {
			return nil, err
		}
	}
	if err := f.variability(x); err != nil {
		return nil, err
	}
	if x.World, err = f.failures(); err != nil {
		return nil, err
	}
	if err := f.moves(x); err != nil {
		return nil, err
	}
	if f.sleep != "" {
		if x.Sleep, err = sleep.Parse(f.sleep); err != nil {
			return nil, misused("--sleep: %w", err)
		}
	}
	if cmd.Flags().Changed("defrag") {
		if x.Defrag, err = defrag.Winning(f.defrag); err != nil {
			return nil, misused("--defrag %w", err)
		}
	}
	if f.sockets != "" {
		if x.Sockets, err = trace.ReadSockets(f.sockets); err != nil {
			return nil, err
		}
	}
	if f.pairs != "" {
		x.Slowdown.Pairs, err = trace.ReadPairs(f.pairs)
	}
	return x, err
}

// moves reads where data is, and how it is moved.
func (f *simFlags) moves(x *experiment.Experiment) (err error) {
	if f.move != "" {
		if f.data == "" {
			return misused("--move-data %s: --data is to tell what there is to move", f.move)
		}
		if x.Move, err = replica.Parse(f.move); err != nil {
			return misused("--move-data: %w", err)
		}
	}
	if f.data == "" {
		return nil
	}
	file, err := os.Open(f.data)
	if err != nil {
		return err
	}
	defer file.Close()
	if x.Data, err = experiment.ReadData(file); err != nil {
		return fmt.Errorf("--data %s: %w", f.data, err)
	}
	return nil
}

// measured reads measured speeds.
func (f *simFlags) measured(file string) (perf.Typed, error) {
	otherwise := perf.Analytic{Scaling: 1, Spread: f.spread}
	if trace.IsPlans(file) {
		plans, err := trace.ReadPlans(file)
		if err == nil {
			plans.Otherwise = &perf.Plans{Otherwise: otherwise}
		}
		return plans, err
	}
	table, err := trace.ReadThroughputs(file, "v100")
	if err == nil {
		table.Otherwise = otherwise
	}
	return table, err
}

// variability reads how far GPUs of a type differ, and what policies believe of that.
func (f *simFlags) variability(x *experiment.Experiment) (err error) {
	if f.varied != "" {
		if x.Variability, err = trace.ReadVariability(f.varied); err != nil {
			return fmt.Errorf("--variability: %w", err)
		}
	}
	switch f.believed {
	case "":
	case "none":
		x.BelievedVariability = &perf.Variability{}
	case "learnt":
		if x.LearnVariability = true; x.Beliefs != experiment.LearntBeliefs {
			return errors.New("--believed-variability learnt: with --beliefs true nothing is learnt")
		}
	default:
		if x.BelievedVariability, err = trace.ReadVariability(f.believed); err != nil {
			return fmt.Errorf("--believed-variability: %w", err)
		}
	}
	return nil
}

// elsewhere are the flags that a log tells of in other places, or need not tell.
func elsewhere() []string { return append(unrecorded(), "cluster", "estimates", "seed") }

// failures reads the flags about failures, and about nodes that others lend.
func (f *simFlags) failures() (func(*sim.Config), error) {
	var node, repair, job, snapshot, notice, boot time.Duration
	for _, v := range []struct {
		flag, text string
		to         *time.Duration
	}{{"node-mtbf", f.nodeMTBF, &node}, {"repair", f.repair, &repair}, {"job-mtbf", f.jobMTBF, &job}, {"snapshot", f.snapshot, &snapshot}, {"notice", f.notice, &notice}, {"boot", f.boot, &boot}} {
		if v.text == "" {
			continue
		}
		d, err := unit.ParseSeconds(v.text)
		if err != nil || d < 0 {
			return nil, misused("--%s: %q is not a duration (write seconds, or 90s, 1h30m, 2d)", v.flag, v.text)
		}
		*v.to = d
	}
	loans, err := f.lent(trace.LoanOptions{Notice: notice, Headroom: f.headroom})
	return func(c *sim.Config) {
		c.Loans, c.Boot = loans, boot
		c.NodeMTBF, c.NodeRepair, c.JobMTBF, c.Snapshot = node, repair, job, snapshot
	}, err
}

// lent reads what owners of borrowed nodes lend.
func (f *simFlags) lent(opt trace.LoanOptions) ([]trace.Loan, error) {
	if f.loans == "" {
		return nil, nil
	}
	if !(opt.Headroom >= 0 && opt.Headroom <= 1) {
		return nil, misused("--headroom: %v is no part of a lender's nodes (write 0 to 1)", opt.Headroom)
	}
	file, err := os.Open(f.loans)
	if err != nil {
		return nil, fmt.Errorf("--loans: %w", err)
	}
	defer file.Close()
	return trace.ReadLoans(file, f.loans, opt)
}

// opened is the experiment and its trace, which the caller closes.
func (f *simFlags) opened(cmd *cobra.Command, args []string) (*experiment.Experiment, *trace.Reader, error) {
	x, err := f.experiment(cmd)
	if err != nil {
		return nil, nil, err
	}
	src, err := f.source(args, x)
	return x, src, err
}

// prepared checks the flags, opens the trace and has it go through all stages. The reader is
// to be closed where there is no error.
func (f *simFlags) prepared(cmd *cobra.Command, args []string) (*experiment.Experiment, *trace.Reader, *experiment.Prepared, error) {
	if err := f.words(); err != nil {
		return nil, nil, nil, err
	}
	if _, err := f.findCluster(args); err != nil {
		return nil, nil, nil, err
	}
	x, src, err := f.opened(cmd, args)
	if err != nil {
		return nil, nil, nil, err
	}
	jobs, err := experiment.Prepare(src, x.Preparation())
	if err != nil {
		src.Close()
		return nil, nil, nil, err
	}
	return x, src, jobs, nil
}

// remark tells of what was made of a trace, unless nothing but results is wanted.
func (f *simFlags) remark(errOut io.Writer, jobs *experiment.Prepared, src *trace.Reader) {
	if f.quiet {
		return
	}
	for _, text := range jobs.Remarks() {
		fmt.Fprintf(errOut, "norn: %s\n", text)
	}
	remarks(errOut, src.Info())
}

// source opens the trace.
func (f *simFlags) source(args []string, x *experiment.Experiment) (*trace.Reader, error) {
	if len(args) > 0 {
		x.Header.Trace = args[0]
		r, err := f.open(args[0])
		if err == nil && args[0] != "-" {
			x.Header.Trace = filepath.Base(r.Info().File) // in a folder, that of the log
		}
		return r, err
	}
	opt, err := f.options()
	if err != nil {
		return nil, err
	}
	x.Header.Trace = "built-in sample"
	return experiment.OpenSample(opt)
}
