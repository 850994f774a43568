package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/norn-scheduler/norn/docs"
	"github.com/norn-scheduler/norn/docs/site"
	"github.com/norn-scheduler/norn/internal/grid"
)

// docsFlags is what norn docs was asked.
type docsFlags struct {
	find bool
	man  string // folder for pages of the manual
	site string // folder for a site
}

func docsCommand() *cobra.Command {
	f := new(docsFlags)
	cmd := &cobra.Command{
		Use:   "docs [PAGE]",
		Short: "Show the documentation of this build, without a network",
		Long: `Docs lists the pages of the documentation that belongs to this build. Given the name of a
page, or of a policy, it prints that page in Markdown. With --find it lists the lines that
have all of some words. With --man it writes a page of the manual for each verb. With --site it
writes all pages as a static site with a search, which works from a folder or any web server.`,
		Example: `  norn docs
  norn docs slurm
  norn docs ymir | less
  norn docs --find gang preempt
  norn docs --man ~/.local/share/man/man1
  norn docs --site out/docs`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return pageNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: f.run,
	}
	cmd.Flags().BoolVar(&f.find, "find", false, "list the lines that have all of the words that follow")
	cmd.Flags().StringVar(&f.man, "man", "", "folder in which to write the manual, a page for each verb; it is made if it is missing")
	cmd.Flags().StringVar(&f.site, "site", "", "folder in which to write all pages as a static site; it is made if it is missing")
	return cmd
}

func (f *docsFlags) run(cmd *cobra.Command, args []string) error {
	switch {
	case f.man != "" && (f.find || f.site != "" || len(args) > 0):
		return misused("--man writes the manual of all verbs: leave out pages, --find and --site")
	case f.man != "":
		return writeManual(cmd, f.man)
	case f.site != "" && (f.find || len(args) > 0):
		return misused("--site writes all pages: leave out their names and --find")
	case f.site != "":
		return writeSite(cmd, f.site)
	case f.find && len(args) == 0:
		return misused("--find: which words?")
	case f.find:
		return findInDocs(cmd, args)
	case len(args) > 1:
		return misused("one page at a time, or --find for words")
	case len(args) == 0:
		return listPages(cmd)
	}
	page, err := docs.Named(args[0])
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), page.Text)
	return err
}

func listPages(cmd *cobra.Command) error {
	all, err := docs.Pages()
	if err != nil {
		return err
	}
	table := grid.Table{Cols: []grid.Column{{Title: "PAGE"}, {Title: "WHAT IT IS ABOUT"}}}
	var policies []string
	for _, p := range all {
		if strings.HasPrefix(p.Path, "policies/") {
			policies = append(policies, p.Name)
			continue
		}
		table.Add(p.Name, p.Title)
	}
	out := cmd.OutOrStdout()
	if err := table.Write(out, widthOf(cmd)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\nPolicies:\n  %s\n", strings.Join(wrap(strings.Join(policies, " "), 76), "\n  "))
	return err
}

func findInDocs(cmd *cobra.Command, words []string) error {
	lines, err := docs.Find(words)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return fmt.Errorf("no line of the documentation has %s", strings.Join(words, " and "))
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s:%d: %s\n", l.Page.Name, l.Number, strings.TrimSpace(l.Text)); err != nil {
			return err
		}
	}
	return nil
}

// pageNames are the pages that norn docs can show.
func pageNames() []string {
	all, err := docs.Pages()
	if err != nil {
		return nil
	}
	var names []string
	for _, p := range all {
		names = append(names, cobra.CompletionWithDesc(p.Name, p.Title))
	}
	return names
}

// writeManual writes a page of the manual for each verb.
func writeManual(cmd *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	top := cmd.Root()
	top.DisableAutoGenTag = true // the same pages whenever they are made
	header := &doc.GenManHeader{Title: "NORN", Section: "1", Source: "norn " + version(), Manual: "Norn"}
	if err := doc.GenManTree(top, header, dir); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "norn*.1"))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "norn: %d pages in %s; read one with man -l %s\n", len(pages), dir, filepath.Join(dir, "norn-sim.1"))
	return err
}

// writeSite writes the documentation as a static site.
func writeSite(cmd *cobra.Command, dir string) error {
	n, err := site.Write(dir, version())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "norn: %d files in %s; open %s\n", n, dir, filepath.Join(dir, "index.html"))
	return err
}
