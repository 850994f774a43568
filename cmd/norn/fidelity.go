package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local/fidelity"
)

// fidelityFlags is what norn fidelity was asked.
type fidelityFlags struct {
	policies []string
	jobs     int
	devices  int
	compress float64
	seed     uint64
	load     float64
	maxRun   string
	burn     bool
	stop     string
	bound    string
	keep     string
	asJSON   bool
	quiet    bool
}

func fidelityCommand() *cobra.Command {
	var f fidelityFlags
	cmd := &cobra.Command{
		Use:   "fidelity",
		Short: "Compare the simulator with real processes on this machine",
		Long: `Fidelity runs a generated trace live: real processes under a real daemon in a folder
of its own, on declared slots. It divides every time by --compress, including times in
the settings of the policy. Then it simulates the same trace with the measured costs of
starts, checkpoints and restores. It prints both side by side: job completion times, the
order of completions, and every decision, with the causes of the differences. It fails
if a mean JCT differs by more than --bound.

Jobs sleep, unless --burn is given; then they need a core for each device. Let little
else run meanwhile. docs/fidelity.md says how to read the tables.`,
		Example: `  norn fidelity
  norn fidelity --policy srtf,'tiresias(limits=3600,36000)' --jobs 30 --seed 7
  norn fidelity --policy srtf --stop freeze --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringArrayVarP(&f.policies, "policy", "p", []string{"fifo,srtf,tiresias,drf"}, "policies, as norn sim takes them; their times are those of the trace")
	fl.IntVar(&f.jobs, "jobs", 60, "number of jobs")
	fl.IntVar(&f.devices, "devices", 4, "declared slots")
	fl.Float64Var(&f.compress, "compress", 1000, "factor by which times are divided")
	fl.Uint64Var(&f.seed, "seed", 2, "seed of the trace")
	fl.Float64Var(&f.load, "load", 0.9, "devices that the jobs ask for on average, divided by the number of devices")
	fl.StringVar(&f.maxRun, "max-run", "6h", "jobs that run longer are left out of the trace")
	fl.BoolVar(&f.burn, "burn", false, "jobs burn CPU time instead of sleeping")
	fl.StringVar(&f.stop, "stop", "checkpoint", "how jobs leave their devices: checkpoint or freeze")
	fl.StringVar(&f.bound, "bound", "5%", "largest difference of the mean JCTs")
	fl.StringVar(&f.keep, "keep", "", "folder for event logs and files of the runs, which are otherwise removed")
	fl.BoolVar(&f.asJSON, "json", false, "write JSON")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	complete(cmd, map[string]completer{"policy": completeList(policyNames), "keep": files})
	return cmd
}

func (f *fidelityFlags) run(cmd *cobra.Command) error {
	t, compared, bound, err := f.trial()
	if err != nil {
		return err
	}
	dir := f.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "norn-fidelity"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	var all []*fidelity.Result
	for i, c := range compared {
		t.Policy, t.Dir = c, filepath.Join(dir, strconv.Itoa(i+1))
		if err := os.MkdirAll(t.Dir, 0o700); err != nil {
			return err
		}
		if !f.quiet {
			fmt.Fprintf(cmd.ErrOrStderr(), "norn: %s, %d jobs submitted within %s ...\n", c, len(t.Jobs), unit.Human(t.Jobs[len(t.Jobs)-1].Job.Submit))
		}
		r, err := t.Run(cmd.Context())
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	if f.asJSON {
		err = f.json(cmd.OutOrStdout(), all)
	} else {
		err = f.text(cmd.OutOrStdout(), t.Jobs, all)
	}
	if err != nil {
		return err
	}
	return missed(all, bound)
}

// trial is what all policies have in common.
func (f *fidelityFlags) trial() (t *fidelity.Trial, compared []experiment.Choice, bound float64, err error) {
	if compared, err = choices(f.policies, nil); err != nil {
		return nil, nil, 0, err
	}
	if bound, err = strconv.ParseFloat(strings.TrimSuffix(f.bound, "%"), 64); err != nil || !strings.HasSuffix(f.bound, "%") || bound < 0 {
		return nil, nil, 0, misused("--bound %s: write a percentage such as 5%%", f.bound)
	}
	stop, ok := job.ParseStopMode(f.stop)
	if !ok || stop != job.Checkpoint && stop != job.Freeze {
		return nil, nil, 0, misused("--stop %s: write checkpoint or freeze", f.stop)
	}
	longest, err := unit.ParseSeconds(f.maxRun)
	switch {
	case err != nil || longest <= 0:
		return nil, nil, 0, misused("--max-run %s: write a duration such as 6h", f.maxRun)
	case f.jobs < 1 || f.jobs > 10_000:
		return nil, nil, 0, misused("--jobs %d: write a number from 1 to 10000", f.jobs)
	case f.devices < 1 || f.devices > 64:
		return nil, nil, 0, misused("--devices %d: write a number from 1 to 64", f.devices)
	case !(f.compress >= 1 && f.compress <= 1e6):
		return nil, nil, 0, misused("--compress %v: write a number from 1 to 1000000", f.compress)
	}
	t = &fidelity.Trial{Factor: f.compress, Devices: f.devices, Burn: f.burn, Stop: stop}
	if t.Jobs, err = fidelity.Generate(f.jobs, f.devices, f.seed, f.load, f.compress, longest); err != nil {
		return nil, nil, 0, misused("%w", err)
	}
	t.Exe, err = os.Executable()
	return t, compared, bound / 100, err
}

// missed is the error of mean JCTs that are too far off; nil: none is.
func missed(all []*fidelity.Result, bound float64) error {
	var names []string
	for _, r := range all {
		if r.Off > bound || r.Off < -bound {
			names = append(names, fmt.Sprintf("%s (%+.1f %%)", r.Policy, 100*r.Off))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("the mean JCT differs by more than %v %%: %s", 100*bound, strings.Join(names, ", "))
}

func (f *fidelityFlags) json(out io.Writer, all []*fidelity.Result) error {
	list := make([]fidelity.ResultJSON, len(all))
	for i, r := range all {
		list[i] = r.JSON()
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{
		"jobs": f.jobs, "devices": f.devices, "compress": f.compress, "seed": f.seed, "load": f.load, "max_run": f.maxRun,
		"burn": f.burn, "stop": f.stop, "results": list,
	})
}

// text prints the tables.
func (f *fidelityFlags) text(out io.Writer, jobs experiment.Jobs, all []*fidelity.Result) error {
	live := all[0].Live.Makespan
	fmt.Fprintf(out, "%d jobs on %d devices, times divided by %v: %s of trace took %s live.\n\n",
		len(jobs), f.devices, f.compress, unit.Human(time.Duration(float64(live)*f.compress).Round(time.Minute)), seconds(live))
	t := grid.Table{Cols: columns("policy", "mean JCT", "simulated", "off", "tau", "starts", "stops", "in order", "apart, median", "p95", "most")}
	for _, r := range all {
		d := r.Decisions
		t.Add(r.Policy, seconds(r.Live.MeanJCT), seconds(r.Sim.MeanJCT), fmt.Sprintf("%+.2f %%", 100*r.Off), fmt.Sprintf("%.3f", r.Tau),
			matched(r.Starts), matched(r.Stops), fmt.Sprintf("%d of %d", r.InOrder, r.Starts.Both+r.Stops.Both),
			seconds(d.Median), seconds(d.P95), seconds(d.Most))
	}
	if err := t.Write(out, 0); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nTimes of transitions live, mean and largest; the simulator uses the means.\n\n")
	t = grid.Table{Cols: columns("policy", "submission", "", "start", "", "restore", "", "checkpoint", "", "leave", "")}
	for _, r := range all {
		row := []string{r.Policy}
		for _, s := range []fidelity.Span{r.Costs.Lag, r.Costs.Start, r.Costs.Restore, r.Costs.Checkpoint, r.Costs.Leave} {
			row = append(row, took(s, s.Mean), took(s, s.Most))
		}
		t.Add(row...)
	}
	if err := t.Write(out, 0); err != nil {
		return err
	}
	for _, r := range all {
		causes(out, r)
	}
	return nil
}

// columns are titles, the first to the left.
func columns(titles ...string) []grid.Column {
	out := make([]grid.Column, len(titles))
	for i, t := range titles {
		out[i] = grid.Column{Title: t, Right: i > 0}
	}
	return out
}

func matched(m fidelity.Matched) string {
	text := fmt.Sprintf("%d of %d", m.Both, m.Both+m.Missing)
	if m.Extra > 0 {
		text += fmt.Sprintf(" + %d", m.Extra)
	}
	return text
}

func took(s fidelity.Span, d time.Duration) string {
	if s.N == 0 {
		return "-"
	}
	return seconds(d)
}

// seconds writes a time of seconds or milliseconds.
func seconds(d time.Duration) string {
	if d.Abs() < time.Second {
		return strconv.FormatFloat(float64(d)/1e6, 'f', 1, 64) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) + " s"
}

// mostCauses is how many differences are told.
const mostCauses = 5

// causes tells where the worlds differ, and why.
func causes(out io.Writer, r *fidelity.Result) {
	fmt.Fprintf(out, "\n%s", r.Policy)
	if r.Scaled != r.Policy {
		fmt.Fprintf(out, ", compressed: %s", r.Scaled)
	}
	fmt.Fprintf(out, "\n  mean JCT: %s off with devices, %s waiting; at most job %s, %s\n",
		seconds(r.OffHeld), seconds(r.OffWait), r.Largest.Job, seconds(r.Largest.Live-r.Largest.Sim))
	if o := r.FirstEnd; o != nil {
		fmt.Fprintf(out, "  order of completion: place %d is job %s live and job %s simulated; live they end %s apart\n", o.Place, o.Live, o.Sim, seconds(o.By))
	}
	for i, d := range r.Difference {
		if i == mostCauses {
			fmt.Fprintf(out, "  and %d more differences (--json has all)\n", len(r.Difference)-i)
			break
		}
		fmt.Fprintf(out, "  %s (%s; live %s, simulated %s): %s\n", d.What, d.Sort, whenText(d.Live), whenText(d.Sim), d.Cause)
	}
	for _, o := range r.Odd {
		fmt.Fprintf(out, "  live: %s\n", o)
	}
}

func whenText(at time.Duration) string {
	if at < 0 {
		return "never"
	}
	return "at " + seconds(at)
}
