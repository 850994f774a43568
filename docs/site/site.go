// Package site makes a static site of the documentation: a page of HTML for each page of
// package docs, with a list of all pages and a search that needs no server. A section is what
// stands under a heading. The site asks nobody else for anything, and works from a folder as
// it does from a server.
package site

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/docs"
)

//go:embed page.html style.css site.js
var assets embed.FS

// group is a part of the list of all pages.
type group struct {
	Title string
	names []string // of pages, in their order
	Pages []*page
}

// groups are the parts of the list. Those of policies follow.
func groups() []*group {
	return []*group{
		{Title: "For you", names: []string{"operator", "researcher", "lab"}},
		{Title: "Begin", names: []string{"install", "concepts", "faq"}},
		{Title: "Use", names: []string{"cli", "jobs", "clusters", "traces", "reports", "sweep", "tune", "plot", "plan", "external-policies", "live", "kubernetes", "gate", "model", "sleep", "defrag", "slurm", "quotas", "estimators", "generators"}},
		{Title: "Reference", names: []string{"formats", "api", "protocol", "design"}},
		{Title: "What to expect", names: []string{"limits", "reliability", "performance", "fidelity", "reproduce", "validate"}},
	}
}

// page is a page of the site.
type page struct {
	*docs.Page
	Link  string        // within the site: policies/fifo.html
	Label string        // in the list
	Body  template.HTML // made of its Markdown
	Parts []section     // its headings of the second level, as a table of contents
}

// section is what stands under a heading.
type section struct {
	Heading string `json:"h"`
	Anchor  string `json:"a"` // of its heading; empty: what stands before the first
	Text    string `json:"x"` // without marks
	level   int
}

// Files makes all files of the site, by their paths within it. version is what is told of the
// build.
func Files(version string) (map[string][]byte, error) {
	all, err := docs.Pages()
	if err != nil {
		return nil, err
	}
	pages := make([]*page, len(all))
	for i := range all {
		pages[i] = &page{Page: &all[i], Link: linkOf(all[i].Path), Label: all[i].Title}
	}
	list := inGroups(pages)
	files, index := map[string][]byte{}, []any{}
	for _, p := range pages {
		sections, err := p.convert()
		if err != nil {
			return nil, fmt.Errorf("docs/%s: %w", p.Path, err)
		}
		index = append(index, map[string]any{"p": p.Link, "t": p.Title, "s": sections})
	}
	t, err := template.ParseFS(assets, "page.html")
	if err != nil {
		return nil, err
	}
	for _, p := range append(pages, &page{Page: &docs.Page{Title: "Norn"}, Link: "index.html"}) {
		var b bytes.Buffer
		if err := t.Execute(&b, map[string]any{"Page": p, "Groups": list, "Root": strings.Repeat("../", strings.Count(p.Link, "/")), "Version": version}); err != nil {
			return nil, err
		}
		files[p.Link] = b.Bytes()
	}
	for _, name := range []string{"style.css", "site.js"} {
		if files[name], err = assets.ReadFile(name); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	files["index.js"] = slices.Concat([]byte("const nornIndex = "), text, []byte(";\n"))
	return files, nil
}

// Write writes the site into a folder, which is made if it is missing. It returns how many
// files there are.
func Write(dir, version string) (int, error) {
	files, err := Files(version)
	if err != nil {
		return 0, err
	}
	for name, text := range files {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return 0, err
		}
		if err := os.WriteFile(to, text, 0o666); err != nil {
			return 0, err
		}
	}
	return len(files), nil
}

// linkOf is where a page of docs is in the site.
func linkOf(of string) string { return strings.TrimSuffix(of, ".md") + ".html" }

// inGroups puts pages into their groups. Those that are in none come last.
func inGroups(pages []*page) []*group {
	list := groups()
	policies, more := &group{Title: "Policies"}, &group{Title: "More"}
	for _, g := range list {
		g.Pages = make([]*page, len(g.names))
	}
	for _, p := range pages {
		to := more
		if path.Dir(p.Path) == "policies" {
			to, p.Label = policies, p.Name
		}
		for _, g := range list {
			if at := slices.Index(g.names, p.Name); at >= 0 && to == more {
				g.Pages[at], to = p, nil
				break
			}
		}
		if to != nil {
			to.Pages = append(to.Pages, p)
		}
	}
	for _, g := range list { // a name without its page
		g.Pages = slices.DeleteFunc(g.Pages, func(p *page) bool { return p == nil })
	}
	if list = append(list, policies); len(more.Pages) > 0 {
		list = append(list, more)
	}
	return list
}
