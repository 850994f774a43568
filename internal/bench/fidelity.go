package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/norn-scheduler/norn/local/fidelity"
)

// agreement is what norn fidelity prints.
type agreement struct {
	Jobs, Devices int
	Compress      float64
	Seed          uint64
	Load          float64
	MaxRun        string `json:"max_run"`
	Results       []fidelity.ResultJSON
}

// benchFidelity holds the simulator against real processes: figures go into one
// page, and every difference into another.
func benchFidelity(figures, details string) error {
	dir, err := os.MkdirTemp("", "norn-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "norn")
	if err := execute("go", "build", "-o", bin, "./cmd/norn"); err != nil {
		return err
	}
	before := load()
	cmd := exec.Command(bin, "fidelity", "--json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var missed *exec.ExitError // a bound that was not met is told in the tables
	if err != nil && (!errors.As(err, &missed) || len(out) == 0) {
		return err
	}
	var a agreement
	if err := json.Unmarshal(out, &a); err != nil {
		return err
	}
	var table, list strings.Builder
	a.figures(io.MultiWriter(&table, os.Stdout))
	fmt.Fprintf(io.MultiWriter(&table, os.Stdout), "Load of the machine (mean of a minute) before and after: %s, %s. ", before, load())
	describe(io.MultiWriter(&table, os.Stdout))
	a.differences(io.MultiWriter(&list, os.Stdout))
	if err := replace(figures, "fidelity", "bench-fidelity", table.String()); err != nil {
		return err
	}
	return replace(details, "fidelity", "bench-fidelity", list.String())
}

func (a *agreement) figures(w io.Writer) {
	fmt.Fprintf(w, "%d jobs on %d declared slots, times divided by %v (`norn fidelity`, seed %d, load %v, jobs of at most %s).\n\n", a.Jobs, a.Devices, a.Compress, a.Seed, a.Load, a.MaxRun)
	fmt.Fprintf(w, "| policy | mean JCT live | simulated | off | bound | | order of completion, tau | starts matched | stops matched | in the same order | decisions apart, median | p95 |\n"+
		"|---|--:|--:|--:|---|---|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range a.Results {
		fmt.Fprintf(w, "| %s | %.3f s | %.3f s | %+.2f %% | 5 %% | %s | %.3f | %s | %s | %d of %d | %.1f ms | %.1f ms |\n",
			r.Policy, r.Live.MeanJCTS, r.Sim.MeanJCTS, 100*r.Off, verdict(r.Off <= 0.05 && r.Off >= -0.05), r.Tau, matched(r.Starts), matched(r.Stops),
			r.InOrder, r.Starts.Both+r.Stops.Both, 1000*r.Decisions.MedianS, 1000*r.Decisions.P95S)
	}
	fmt.Fprintf(w, "\n| policy | submission late by, mean | most | start, mean | most | restore, mean | most | checkpoint, mean | most | end known, mean | most |\n"+
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range a.Results {
		fmt.Fprintf(w, "| %s", r.Policy)
		for _, s := range []fidelity.SpanJSON{r.Costs.Lag, r.Costs.Start, r.Costs.Restore, r.Costs.Checkpoint, r.Costs.Leave} {
			if s.N == 0 {
				fmt.Fprint(w, " | - | -")
				continue
			}
			fmt.Fprintf(w, " | %.1f ms | %.1f ms", 1000*s.MeanS, 1000*s.MostS)
		}
		fmt.Fprintln(w, " |")
	}
	fmt.Fprintln(w)
}

// matched says how many decisions of the simulator were made live, and how many
// more there were.
func matched(m fidelity.MatchedJSON) string {
	text := fmt.Sprintf("%d of %d", m.Both, m.Both+m.Missing)
	if m.Extra > 0 {
		text += fmt.Sprintf(", %d more live", m.Extra)
	}
	return text
}

// differences lists where the worlds do not agree.
func (a *agreement) differences(w io.Writer) {
	for _, r := range a.Results {
		fmt.Fprintf(w, "### %s\n\n", r.Policy)
		if r.Scaled != r.Policy {
			fmt.Fprintf(w, "Compressed: `%s`. ", r.Scaled)
		}
		fmt.Fprintf(w, "Mean JCT off by %.1f ms with devices and %.1f ms waiting; at most job %s, by %.1f ms.", 1000*r.OffHeldS, 1000*r.OffWaitS, r.LargestJob, 1000*r.LargestS)
		if o := r.FirstEnd; o != nil {
			fmt.Fprintf(w, " Place %d in the order of completion is job %s live and job %s simulated, which end %.1f ms apart live.", o.Place, o.Live, o.Sim, 1000*o.ByS)
		}
		fmt.Fprintf(w, "\n\n")
		if len(r.Differences) > 0 {
			fmt.Fprintf(w, "| decision | | live | simulated | cause |\n|---|---|--:|--:|---|\n")
		}
		for _, d := range r.Differences {
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", d.What, d.Sort, when(d.LiveS), when(d.SimS), d.Cause)
		}
		for _, o := range r.Odd {
			fmt.Fprintf(w, "\nLive: %s\n", o)
		}
		fmt.Fprintln(w)
	}
}

func when(at float64) string {
	if at < 0 {
		return "never"
	}
	return fmt.Sprintf("%.3f s", at)
}
