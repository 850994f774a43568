package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/reproduce"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sim/dag"
)

// reproduceFlags is what norn reproduce was asked.
type reproduceFlags struct {
	list, all, quick bool
	asJSON, noise    bool
	data, against    string
}

func reproduceCommand() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce [SYSTEM]",
		Short: "Hold the policies against the figures of their papers",
		Long: `Reproduce runs the policies that users run, with the baselines of their papers, on the
published traces, and compares the ratios with those that are published. Each ratio is
over three workloads or more. A claim is within where its interval, from the smallest to
the largest of them, meets what is published, give or take the tolerance. Claims whose
data is not at hand are shown and not counted. docs/reproduce.md tells more.

Systems: ` + strings.Join(reproduce.Systems(reproduce.Studies()), ", ") + `.

The data folder is --data, or else $NORN_DATA, or else ../shared.`,
		Example: `  norn reproduce lucid
  norn reproduce lucid --list                              the commands that make the same runs
  norn reproduce --all --quick
  norn reproduce --all --quick --against docs/reproduced.json
  norn reproduce --all --json > all.json`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return reproduce.Systems(reproduce.Studies()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.reproduce(cmd, args) },
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.list, "list", "l", false, "list the claims without trying them; with a SYSTEM, also the commands that make the same runs")
	fl.BoolVar(&f.all, "all", false, "try the claims of all systems")
	fl.BoolVar(&f.quick, "quick", false, "the quick form: smaller workloads where the published ones take long")
	fl.BoolVar(&f.asJSON, "json", false, "write JSON: an array of objects, one for each claim")
	fl.StringVar(&f.data, "data", "", "folder with data and golden, the published traces (default: $NORN_DATA, or else ../shared)")
	fl.StringVar(&f.against, "against", "", "JSON of an earlier run: fail where a policy has got worse by more than the tolerance of the claim")
	fl.BoolVarP(&f.noise, "quiet", "q", false, "show no progress and no remarks, only results and errors")
	return cmd
}

func (f *reproduceFlags) reproduce(cmd *cobra.Command, args []string) error {
	studies, err := f.studies(args)
	if err != nil {
		return err
	}
	if f.list {
		for i := range studies {
			if err := reproduce.WriteList(cmd.OutOrStdout(), &studies[i], f.quick, len(args) > 0, pipedWidth); err != nil {
				return err
			}
		}
		return nil
	}
	recorded, err := readRows(f.against)
	if err != nil {
		return err
	}
	f.announce(cmd, studies)
	rows, err := f.try(cmd, studies)
	if err != nil {
		return err
	}
	if f.asJSON {
		if err := reproduce.WriteJSON(cmd.OutOrStdout(), rows); err != nil {
			return err
		}
	}
	f.conclude(cmd, rows)
	if f.against == "" {
		return nil
	}
	if worse := reproduce.Worse(rows, recorded); len(worse) > 0 {
		return fmt.Errorf("of %d claims, these are worse than in %s:\n  %s", len(rows), f.against, strings.Join(worse, "\n  "))
	}
	return nil
}

// studies are those that were asked for.
func (f *reproduceFlags) studies(args []string) ([]reproduce.Study, error) {
	all := reproduce.Studies()
	switch {
	case len(args) > 0 && f.all:
		return nil, misused("name a system, or write --all, not both")
	case len(args) == 0 && (f.all || f.list):
		return all, nil
	case len(args) == 0:
		return nil, misused("name a system, or write --all; norn reproduce --list shows what there is")
	}
	known := reproduce.Systems(all)
	if !slices.Contains(known, args[0]) {
		return nil, misused("nothing is to be reproduced of %q: write one of %s%s", args[0], strings.Join(known, ", "), param.Near(args[0], known))
	}
	return slices.DeleteFunc(all, func(s reproduce.Study) bool { return s.System != args[0] }), nil
}

// readRows reads the rows of an earlier run; no path, no rows.
func readRows(path string) ([]reproduce.Row, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, err := reproduce.ReadJSON(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// announce says up front how long it will take.
func (f *reproduceFlags) announce(cmd *cobra.Command, studies []reproduce.Study) {
	if f.noise {
		return
	}
	claims, seconds := 0, 0.0
	for i := range studies {
		claims += len(studies[i].Claims)
		seconds += studies[i].CPU
	}
	form := "the full form takes"
	if f.quick {
		form = "the quick form takes less than the full one, which takes"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "norn: %d claims in %d studies; %s about %.2g hours of one core\n", claims, len(studies), form, max(seconds/3600, 0.01))
}

// try carries out the studies one after another. Tables are shown as they are done.
func (f *reproduceFlags) try(cmd *cobra.Command, studies []reproduce.Study) ([]reproduce.Row, error) {
	data := dataFolder(f.data)
	run := reproduce.Runner{Data: data, Quick: f.quick, Simulate: worldSimulator(data)}
	file, _ := cmd.ErrOrStderr().(*os.File)
	shown := !f.noise && file != nil && term.IsTerminal(int(file.Fd()))
	var all []reproduce.Row
	for i := range studies {
		s := &studies[i]
		if shown {
			fmt.Fprintf(file, "\r\033[K%d of %d: %s, %s", i+1, len(studies), s.System, s.Name)
		}
		rows, err := run.Run(cmd.Context(), s)
		if shown {
			fmt.Fprint(file, "\r\033[K")
		}
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
		if !f.asJSON {
			if err := reproduce.WriteRows(cmd.OutOrStdout(), rows, pipedWidth); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// conclude counts the claims that are met.
func (f *reproduceFlags) conclude(cmd *cobra.Command, rows []reproduce.Row) {
	within, without := 0, 0
	for i := range rows {
		switch {
		case rows[i].NoData != "":
			without++
		case rows[i].Within:
			within++
		}
	}
	if f.noise {
		return
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "norn: %d of %d claims are within their tolerances", within, len(rows)-without)
	if without > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "; of %d the data is not at hand", without)
	}
	fmt.Fprintln(cmd.ErrOrStderr())
}

// worldSimulator carries out the commands of worlds: norn trace generate, where one needs
// it, and norn sim.
func worldSimulator(data string) func(context.Context, *reproduce.World, []experiment.Choice, func(*experiment.Outcome) error) error {
	return func(ctx context.Context, w *reproduce.World, policies []experiment.Choice, done func(*experiment.Outcome) error) error {
		dir, err := os.MkdirTemp("", "norn-reproduce-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if w.Cluster != "" {
			if err := os.WriteFile(filepath.Join(dir, reproduce.ClusterFile), []byte(w.Cluster), 0o666); err != nil {
				return err
			}
		}
		if w.Generate != "" {
			var told bytes.Buffer
			args := append([]string{"trace", "generate"}, placed(w.Generate, dir, data)...)
			if execute(ctx, append(args, "-o", filepath.Join(dir, reproduce.TraceFile)), io.Discard, &told) != 0 {
				return errors.New(strings.TrimSpace(told.String()))
			}
		}
		return simulateWorld(ctx, w, dir, data, policies, done)
	}
}

// simulateWorld is norn sim on a world whose files are in dir and data.
func simulateWorld(ctx context.Context, w *reproduce.World, dir, data string, policies []experiment.Choice, done func(*experiment.Outcome) error) error {
	f := &simFlags{}
	cmd := f.command()
	if err := cmd.ParseFlags(placed(w.Sim, dir, data)); err != nil {
		return err
	}
	if args := cmd.Flags().Args(); len(args) == 1 && dag.IsTrace(args[0]) {
		return f.graphWorld(ctx, args[0], policies, done)
	}
	f.quiet = true
	x, src, jobs, err := f.prepared(cmd, cmd.Flags().Args())
	if err != nil {
		return err
	}
	defer src.Close()
	_, err = x.All(ctx, policies, jobs, done)
	return err
}

// placed are the words of a command with the files of a world in dir and data.
func placed(text, dir, data string) []string {
	words := strings.Fields(text)
	for i, word := range words {
		switch {
		case word == reproduce.TraceFile, word == reproduce.ClusterFile:
			words[i] = filepath.Join(dir, word)
		case reproduce.InData(word):
			words[i] = filepath.Join(data, filepath.FromSlash(word))
		}
	}
	return words
}
