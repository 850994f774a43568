package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/internal/published"
	"github.com/norn-scheduler/norn/internal/published/harness"
)

// validateFlags is what norn validate was asked.
type validateFlags struct {
	manifest string
	only     []string
	match    string
	request  published.Request
	against  string
	out      string
	list     bool
	asJSON   bool
	quiet    bool
}

func validateCommand() *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate [SIMULATOR]",
		Short: "Compare Norn with the per-job results of published simulators",
		Long: `Validate runs Norn under the conditions of a published simulator, including its quirks.
It compares start and end of every job with the simulator's own result. ` + knownSimulators() + `

With --manifest it does so for every line of a manifest. A manifest is a CSV file with
the columns simulator, trace, format, cluster, policy, result and match; paths are
relative to its folder. Validate fails if any line misses its match. Lines that Norn
cannot run yet are listed and counted apart, and do not count as met.

With the name of a simulator it carries out one run. docs/validate.md describes the
quirks, and which results were met.`,
		Example: `  norn validate --manifest golden/manifest.csv
  norn validate --manifest golden/manifest.csv --only tiresias --match exact
  norn validate tiresias --trace 60_job.csv --cluster n4g4 --policy dlas-gpu-count --against result.csv.gz
  norn validate lucid --trace cluster_full_log.csv.gz --cluster venus-15vc --policy srtf --out result.csv
  norn validate --list pai`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return simulatorNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.validate(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.manifest, "manifest", "", "manifest of runs")
	fl.StringSliceVar(&f.only, "only", nil, "with --manifest: only these simulators")
	fl.StringVar(&f.match, "match", "", "with --manifest: only lines with this match (exact, mean or info); otherwise how near to come to --against: exact (default), mean:P% or info")
	fl.StringVarP(&f.request.Trace, "trace", "t", "", "trace in the simulator's own layout (.gz is read as it is)")
	fl.StringVarP(&f.request.Cluster, "cluster", "c", "", "cluster by the simulator's names, or the path of its description")
	fl.StringVarP(&f.request.Policy, "policy", "p", "", "policy by the simulator's name (see --list)")
	fl.StringVar(&f.against, "against", "", "per-job result to compare with: CSV with job_id, submit, start, end")
	fl.StringVarP(&f.out, "out", "o", "", "write Norn's per-job result to this CSV file (.gz compresses it)")
	fl.StringVar(&f.request.Priorities, "priorities", "", "lucid, qssf: predicted run times (default: a file near the trace)")
	fl.StringVar(&f.request.Speeds, "speeds", "", "gavel, shockwave: measured throughputs (default: a file near the trace)")
	fl.IntVar(&f.request.Rate, "rate", 0, "pai: number of jobs that arrive each minute (default: as in the trace)")
	fl.BoolVar(&f.list, "list", false, "list the simulators with their clusters and policies")
	fl.BoolVar(&f.asJSON, "json", false, "write JSON")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	_ = cmd.RegisterFlagCompletionFunc("only", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return simulatorNames(), cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("policy", completePolicies)
	return cmd
}

func simulatorNames() []string {
	var names []string
	for _, s := range published.Simulators() {
		names = append(names, s.Name)
	}
	return names
}

func knownSimulators() string { return "Simulators: " + strings.Join(simulatorNames(), ", ") + "." }

func completePolicies(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 1 {
		if s, err := published.ByName(args[0]); err == nil {
			for _, p := range s.Policies {
				names = append(names, p.Name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (f *validateFlags) validate(cmd *cobra.Command, args []string) error {
	switch {
	case f.list:
		return listSimulators(cmd.OutOrStdout(), args)
	case f.manifest != "" && len(args) > 0:
		return misused("--manifest names the simulators itself; --only picks some of them")
	case f.manifest != "":
		return f.all(cmd)
	case len(args) == 0:
		return misused("write --manifest FILE, or a simulator: %s", strings.Join(simulatorNames(), ", "))
	}
	f.request.Simulator = args[0]
	return f.one(cmd)
}

// one carries out a single run.
func (f *validateFlags) one(cmd *cobra.Command) error {
	r, out := f.request, cmd.OutOrStdout()
	if _, err := published.ByName(r.Simulator); err != nil {
		return misused("%w", err)
	}
	for _, v := range []struct{ flag, value string }{{"trace", r.Trace}, {"cluster", r.Cluster}, {"policy", r.Policy}, {"against or --out", f.against + f.out}} {
		if v.value == "" {
			return misused("%s needs --%s; norn validate --list %s lists the choices", r.Simulator, v.flag, r.Simulator)
		}
	}
	match, err := published.ParseMatch(cmp.Or(f.match, "exact"))
	if err != nil {
		return misused("--match: %w", err)
	}
	got, err := published.Run(cmd.Context(), r)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := got.WriteFile(f.out); err != nil {
			return err
		}
	}
	if f.against == "" {
		return nil
	}
	want, err := harness.ReadResult(f.against)
	if err != nil {
		return err
	}
	o := published.Outcome{Line: published.Line{Request: r, Result: f.against, Match: match}, Comparison: harness.Compare(got, want)}
	if f.asJSON {
		err = writeJSON(out, asRun(&o))
	} else {
		err = sayOne(out, &o)
	}
	if err == nil && o.Verdict() == published.Differs {
		return errQuiet
	}
	return err
}

// sayOne writes the comparison of a single run.
func sayOne(out io.Writer, o *published.Outcome) error {
	fmt.Fprintf(out, "jobs %d, equal %d, largest difference %s s, mean JCT difference %s, makespan difference %s\n",
		o.Jobs, o.Equal, number(o.Largest), share(o.MeanJCT), share(o.Makespan))
	if o.Missing+o.Extra > 0 {
		fmt.Fprintf(out, "%d jobs end only there, %d only here\n", o.Missing, o.Extra)
	}
	if o.Preempt > 0 {
		fmt.Fprintf(out, "%d jobs have another number of preemptions\n", o.Preempt)
	}
	text := "every start and end is equal"
	if o.First != "" {
		text = "first difference: " + o.First
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// all carries out the lines of a manifest.
func (f *validateFlags) all(cmd *cobra.Command) error {
	if r := f.request; r != (published.Request{}) || f.against != "" || f.out != "" {
		return misused("--manifest names trace, cluster, policy and result itself: name a simulator instead for a single run")
	}
	lines, err := f.lines()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	t := newVerdicts(out, lines)
	p := newCounter(cmd.ErrOrStderr(), f.quiet, lines)
	var runs []validateRun
	if !f.asJSON {
		t.head()
	}
	p.show(0)
	err = published.Validate(cmd.Context(), lines, func(o *published.Outcome) {
		p.clear()
		t.counts[o.Verdict()]++
		if f.asJSON {
			runs = append(runs, asRun(o))
		} else {
			t.row(o)
		}
		p.show(t.counted())
	})
	p.clear()
	if err != nil {
		return err
	}
	if f.asJSON {
		err = writeJSON(out, validateReport{runs, t.counts[published.OK], t.counts[published.Differs], t.counts[published.Read], t.counts[published.Absent]})
	} else {
		err = t.foot()
	}
	if err == nil && t.counts[published.Differs] > 0 {
		return errQuiet
	}
	return err
}

// lines are the lines of the manifest that are asked for.
func (f *validateFlags) lines() ([]published.Line, error) {
	lines, err := published.ReadManifest(f.manifest)
	if err != nil {
		return nil, err
	}
	var named []string
	for _, l := range lines {
		if !slices.Contains(named, l.Simulator) {
			named = append(named, l.Simulator)
		}
	}
	for _, s := range f.only {
		if !slices.Contains(named, s) {
			return nil, misused("--only: %w", harness.Unknown("simulator", s, named))
		}
	}
	rule := published.Exact
	if f.match != "" {
		if rule, err = published.ParseRule(f.match); err != nil {
			return nil, misused("--match: %w", err)
		}
	}
	lines = slices.DeleteFunc(lines, func(l published.Line) bool {
		return len(f.only) > 0 && !slices.Contains(f.only, l.Simulator) || f.match != "" && l.Match.Rule != rule
	})
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: has no such line", f.manifest)
	}
	return lines, nil
}

// verdicts is the table of a manifest, written row by row.
type verdicts struct {
	out    io.Writer
	wide   [5]int // simulator, trace, cluster, policy, match
	counts [4]int // by Verdict
}

func newVerdicts(out io.Writer, lines []published.Line) *verdicts {
	t := &verdicts{out: out}
	t.fit("simulator", "trace", "cluster", "policy", "match")
	for i := range lines {
		l := &lines[i]
		t.fit(l.Simulator, traceName(l.Trace), clusterName(l.Cluster), l.Policy, l.Match.String())
	}
	return t
}

// widest bounds a column. A longer name moves the rest of its row.
const widest = 34

func (t *verdicts) fit(cells ...string) {
	for i, c := range cells {
		t.wide[i] = max(t.wide[i], min(len(c), widest))
	}
}

func (t *verdicts) counted() int {
	n := 0
	for _, c := range t.counts {
		n += c
	}
	return n
}

// traceName is the name of a trace without its folder and its endings.
func traceName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".gz")
	return strings.TrimSuffix(name, filepath.Ext(name))
}

func clusterName(s string) string { return filepath.Base(s) }

func (t *verdicts) head() {
	t.write("simulator", "trace", "cluster", "policy", "jobs", "equal", "largest s", "mean JCT", "makespan", "match", "verdict")
}

func (t *verdicts) row(o *published.Outcome) {
	jobs, equal, largest, mean, makespan := "-", "-", "-", "-", "-"
	if o.Absent == "" && o.Err == nil {
		jobs, equal, largest = strconv.Itoa(o.Jobs), strconv.Itoa(o.Equal), number(o.Largest)
		mean, makespan = share(o.MeanJCT), share(o.Makespan)
	}
	verdict := o.Verdict().String()
	if why := o.Why(); why != "" {
		verdict += ": " + why
	}
	t.write(o.Simulator, traceName(o.Trace), clusterName(o.Cluster), o.Policy, jobs, equal, largest, mean, makespan, o.Match.String(), verdict)
}

func (t *verdicts) write(simulator, trace, cluster, policy, jobs, equal, largest, mean, makespan, match, verdict string) {
	fmt.Fprintf(t.out, "%-*s  %-*s  %-*s  %-*s  %6s  %6s  %9s  %8s  %8s  %-*s  %s\n", t.wide[0], simulator, t.wide[1], trace,
		t.wide[2], cluster, t.wide[3], policy, jobs, equal, largest, mean, makespan, t.wide[4], match, verdict)
}

func (t *verdicts) foot() error {
	_, err := fmt.Fprintf(t.out, "\n%d ok, %d differ, %d for reading only differ, %d skipped as not there yet\n",
		t.counts[published.OK], t.counts[published.Differs], t.counts[published.Read], t.counts[published.Absent])
	return err
}

// number is a number of seconds with four digits that count.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// share is a share of one in per cent.
func share(v float64) string { return strconv.FormatFloat(v*100, 'f', 3, 64) + "%" }

// counter shows on a terminal how many runs of a manifest are done, and which
// one is under way.
type counter struct {
	out   io.Writer // nil: no terminal
	lines []published.Line
	wide  int
}

func newCounter(out io.Writer, quiet bool, lines []published.Line) *counter {
	c := &counter{lines: lines}
	if file, ok := out.(*os.File); ok && !quiet && term.IsTerminal(int(file.Fd())) {
		c.out = out
	}
	return c
}

func (c *counter) show(done int) {
	if c.out == nil || done >= len(c.lines) {
		return
	}
	l := &c.lines[done]
	text := fmt.Sprintf("%d of %d done, now %s %s %s", done, len(c.lines), l.Simulator, traceName(l.Trace), l.Policy)
	c.wide = len(text)
	fmt.Fprint(c.out, "\r"+text)
}

func (c *counter) clear() {
	if c.out != nil {
		fmt.Fprint(c.out, "\r"+strings.Repeat(" ", c.wide)+"\r")
	}
}

// validateReport is the JSON of a manifest.
type validateReport struct {
	Runs    []validateRun `json:"runs"`
	OK      int           `json:"ok"`
	Differs int           `json:"differs"`
	Info    int           `json:"info"`
	Absent  int           `json:"not_there_yet"`
}

// validateRun is the JSON of one run. Differences of means are shares of one.
type validateRun struct {
	Simulator  string   `json:"simulator"`
	Trace      string   `json:"trace"`
	Cluster    string   `json:"cluster"`
	Policy     string   `json:"policy"`
	Result     string   `json:"result"`
	Match      string   `json:"match"`
	Verdict    string   `json:"verdict"`
	Jobs       int      `json:"jobs"`
	Equal      int      `json:"equal"`
	Missing    int      `json:"missing"`
	Extra      int      `json:"extra"`
	Preempt    int      `json:"preemptions_differ"`
	Largest    *float64 `json:"largest_difference_s"`
	MeanJCT    *float64 `json:"mean_jct_difference"`
	Makespan   *float64 `json:"makespan_difference"`
	Difference string   `json:"first_difference,omitempty"`
	Error      string   `json:"error,omitempty"`
	Absent     string   `json:"absent,omitempty"`
}

func asRun(o *published.Outcome) validateRun {
	r := validateRun{
		Simulator: o.Simulator, Trace: o.Trace, Cluster: o.Cluster, Policy: o.Policy, Result: o.Result,
		Match: o.Match.String(), Verdict: o.Verdict().String(), Difference: o.First, Absent: o.Absent,
	}
	switch {
	case o.Err != nil:
		r.Error = o.Err.Error()
	case o.Absent == "":
		r.Jobs, r.Equal, r.Missing, r.Extra, r.Preempt = o.Jobs, o.Equal, o.Missing, o.Extra, o.Preempt
		r.Largest, r.MeanJCT, r.Makespan = finite(o.Largest), finite(o.MeanJCT), finite(o.Makespan)
	}
	return r
}

// finite is a number for JSON, which knows no infinity; nil is null.
func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// listSimulators lists all simulators, or one with its policies.
func listSimulators(out io.Writer, args []string) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if len(args) == 0 {
		for _, s := range published.Simulators() {
			fmt.Fprintf(w, "%s\t%s\t%d policies\t%s\n", s.Name, s.Title, len(s.Policies), s.Source)
		}
		return w.Flush()
	}
	s, err := published.ByName(args[0])
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s\nsource: %s\nclusters: %s\n\n", s.Name, s.Title, s.Source, s.Clusters)
	fmt.Fprintln(w, "POLICY\tQUIRK")
	for _, p := range s.Policies {
		fmt.Fprintf(w, "%s\t%s\n", p.Name, p.Note)
	}
	return w.Flush()
}
