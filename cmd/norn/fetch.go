package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/trace/catalogue"
)

// fetchFlags is what norn trace fetch was asked.
type fetchFlags struct {
	list         bool
	data, server string
}

func fetchCommand() *cobra.Command {
	var f fetchFlags
	cmd := &cobra.Command{
		Use:   "fetch [NAME]",
		Short: "Fetch a published data set from the repository of its authors",
		Long: `Fetch downloads the files of a data set from the repository of their authors, checks
their checksums, shows their licences, and puts them into the folder data of the data
folder. A file that is there already with the right content is left alone. NAME may also
be a folder or a file of a data set.

Files that were converted or put together from others cannot be fetched; --list shows
what can be, and what was never fetched by whoever made this list.`,
		Example: `  norn trace fetch --list
  norn trace fetch lucid
  norn trace fetch philly/pcs --data traces`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			all, err := catalogue.Files()
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return dataSets(all), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.fetch(cmd, args) },
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.list, "list", "l", false, "list the data sets, or the files of NAME")
	fl.StringVar(&f.data, "data", "", "data folder, in which data is (default: $NORN_DATA, or else ../shared)")
	fl.StringVar(&f.server, "from", "https://raw.githubusercontent.com", "server that has the repositories of the authors")
	return cmd
}

// dataSets are the data sets of files, in their order.
func dataSets(all []catalogue.File) []string {
	var out []string
	for i := range all {
		out = append(out, all[i].Set())
	}
	return slices.Compact(out)
}

func (f *fetchFlags) fetch(cmd *cobra.Command, args []string) error {
	all, err := catalogue.Files()
	if err != nil {
		return err
	}
	if len(args) == 0 {
		if f.list {
			return listSets(cmd.OutOrStdout(), all)
		}
		return misused("name a data set; norn trace fetch --list shows them")
	}
	files := catalogue.Of(all, args[0])
	if len(files) == 0 {
		return misused("there is no data set %q%s; norn trace fetch --list shows them", args[0], param.Near(args[0], dataSets(all)))
	}
	if f.list {
		return listFiles(cmd.OutOrStdout(), files)
	}
	for i := range files {
		if err := f.one(cmd, &files[i]); err != nil {
			return err
		}
	}
	return nil
}

// one fetches a file.
func (f *fetchFlags) one(cmd *cobra.Command, file *catalogue.File) error {
	to := filepath.Join(dataFolder(f.data), "data", filepath.FromSlash(file.Path))
	if kept, err := os.ReadFile(to); err == nil && file.Has(kept) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: is there\n", file.Path)
		return nil
	}
	content, err := download(cmd.Context(), file.URL(f.server), file.Bytes)
	if err != nil {
		return fmt.Errorf("%s: %w", file.Path, err)
	}
	packed, err := file.Store(content)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	if err := fileio.CreateWhole(to, func(w io.Writer) error { _, err := w.Write(packed); return err }); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %d bytes of %s, licence %s, sha256 %s\n", file.Path, file.Bytes, file.Repository, file.Licence, file.SHA256)
	return nil
}

// dataFolder is the folder of published data: what was given, or else that of the
// environment, or else the usual one.
func dataFolder(given string) string {
	return cmp.Or(given, os.Getenv("NORN_DATA"), filepath.Join("..", "shared"))
}

// patience is how long a server may take for one file.
const patience = 5 * time.Minute

// download reads what a server has at an address. More than the size that is expected is
// not read, but for a byte that shows it.
func download(ctx context.Context, url string, size int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, size+1))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("after %d bytes", len(content)), err)
	}
	return content, nil
}

// listSets lists data sets with their size, upstream and licences.
func listSets(out io.Writer, all []catalogue.File) error {
	t := grid.Table{Cols: []grid.Column{{Title: "data set"}, {Title: "files", Right: true}, {Title: "size", Right: true}, {Title: "repositories"}, {Title: "licence"}, {Title: "fetched"}}}
	for _, set := range dataSets(all) {
		var size int64
		var repositories, licences []string
		fetched := ""
		files := catalogue.Of(all, set)
		for _, f := range files {
			size += f.Bytes
			repositories, licences = append(repositories, f.Repository), append(licences, f.Licence)
			fetched = max(fetched, f.Tried)
		}
		t.Add(set, fmt.Sprint(len(files)), megabytes(size), distinct(repositories), distinct(licences), cmp.Or(fetched, "never tried"))
	}
	return t.Write(out, pipedWidth)
}

// megabytes shows a size.
func megabytes(size int64) string { return fmt.Sprintf("%.2f MB", float64(size)/1e6) }

// distinct are the different ones of a list.
func distinct(list []string) string {
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}

// listFiles lists files with where they come from.
func listFiles(out io.Writer, files []catalogue.File) error {
	t := grid.Table{Cols: []grid.Column{{Title: "file"}, {Title: "size", Right: true}, {Title: "upstream"}, {Title: "licence"}, {Title: "sha256"}, {Title: "fetched"}}}
	for i := range files {
		f := &files[i]
		t.Add(f.Path, megabytes(f.Bytes), f.Repository+"@"+f.Commit+":"+f.Source, f.Licence, f.SHA256, cmp.Or(f.Tried, "never tried"))
	}
	return t.Write(out, pipedWidth)
}
