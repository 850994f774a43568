// Package docs has the pages of this folder, so that the program can show them where
// nobody has a clone or a network. A page is a file in Markdown; its name is that of the
// file without its ending, policies by their own names.
package docs

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed *.md policies/*.md
var pages embed.FS

// Page is one page.
type Page struct {
	Name  string // fifo, slurm
	Path  string // inside docs: policies/fifo.md
	Title string // its first heading, without the mark
	Text  string // in Markdown
}

// Pages are all pages: those of docs by name, then those of policies.
func Pages() ([]Page, error) {
	var all []Page
	for _, dir := range []string{".", "policies"} {
		paths, err := fs.Glob(pages, path.Join(dir, "*.md"))
		if err != nil {
			return nil, err
		}
		slices.Sort(paths)
		for _, p := range paths {
			text, err := pages.ReadFile(p)
			if err != nil {
				return nil, err
			}
			all = append(all, Page{Name: strings.TrimSuffix(path.Base(p), ".md"), Path: p, Title: title(string(text)), Text: string(text)})
		}
	}
	return all, nil
}

// Named finds a page by its name or its path, with or without .md, or by the name of a policy
// that has its page together with others. It fails with the known names on one that there is
// not.
func Named(name string) (*Page, error) {
	all, err := Pages()
	if err != nil {
		return nil, err
	}
	want := strings.TrimPrefix(strings.TrimSuffix(name, ".md"), "docs/")
	var names []string
	for i := range all {
		if p := &all[i]; p.Name == want || strings.TrimSuffix(p.Path, ".md") == want {
			return p, nil
		}
		names = append(names, all[i].Name)
	}
	for i := range all { // each policy says on its page what it lives on
		if p := &all[i]; want != "" && strings.HasPrefix(p.Path, "policies/") && strings.Contains(p.Text, "`"+want+"`: ") {
			return p, nil
		}
	}
	return nil, fmt.Errorf("there is no page %q; there are: %s", name, strings.Join(names, ", "))
}

// title is the first heading of a page.
func title(text string) string {
	for line := range strings.Lines(text) {
		if t, ok := strings.CutPrefix(line, "# "); ok {
			return strings.TrimSpace(t)
		}
	}
	return ""
}

// Line is a line of a page that was looked for.
type Line struct {
	Page   *Page
	Number int    // from 1
	Text   string // without the end of the line
}

// Find lists the lines that have all of the given words, whatever the case of letters.
func Find(words []string) ([]Line, error) {
	all, err := Pages()
	if err != nil {
		return nil, err
	}
	var found []Line
	for i := range all {
		n := 0
		for line := range strings.Lines(all[i].Text) {
			n++
			low := strings.ToLower(line)
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(low, strings.ToLower(w)) }) {
				found = append(found, Line{&all[i], n, strings.TrimRight(line, "\n")})
			}
		}
	}
	return found, nil
}
