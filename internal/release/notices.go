package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// notices knows the licences of modules, from the files in Go's cache of modules.
type notices struct {
	cache      string // GOMODCACHE
	root       string // GOROOT
	classifier *classifier.Classifier
	licences   map[string]licence // by folder
}

// A licence is what a module may be used under.
type licence struct {
	text []byte   // all its files of licences, notices and patents
	ids  []string // SPDX identifiers, sorted; empty where none is recognised
}

func newNotices() (*notices, error) {
	out, err := exec.CommandContext(context.Background(), "go", "env", "GOMODCACHE", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	dirs := strings.Split(strings.TrimSpace(string(out)), "\n")
	c, err := assets.DefaultClassifier()
	if err != nil {
		return nil, err
	}
	return &notices{cache: dirs[0], root: dirs[1], classifier: c, licences: make(map[string]licence)}, nil
}

// of is the text of all licences of the modules in a program, and of Go itself, which is in
// every program. A module without a licence is an error.
func (n *notices) of(info *debug.BuildInfo) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("The programs of this release contain the following modules, each under its own licence.\n")
	add := func(title, dir string) error {
		l, err := n.licence(dir)
		if err != nil {
			return fmt.Errorf("licence of %s: %w", title, err)
		}
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s", strings.Repeat("=", 80), title, l.text)
		return nil
	}
	if err := add("The Go standard library and runtime, "+info.GoVersion, n.root); err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		if err := add(m.Path+" "+m.Version, n.dir(m)); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// dir is where the cache has a module: capitals are written !x there.
func (n *notices) dir(m *debug.Module) string {
	if m.Replace != nil {
		m = m.Replace
	}
	var b strings.Builder
	for _, r := range m.Path + "@" + m.Version {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte('!')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return filepath.Join(n.cache, filepath.FromSlash(b.String()))
}

// licence reads the licence of the module in a folder.
func (n *notices) licence(dir string) (licence, error) {
	if l, ok := n.licences[dir]; ok {
		return l, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return licence{}, err
	}
	var l licence
	for _, e := range entries {
		if e.IsDir() || !legal(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return licence{}, err
		}
		l.text = append(append(l.text, bytes.TrimSpace(text)...), '\n')
		for _, m := range n.classifier.Match(text).Matches {
			if m.MatchType == "License" && !slices.Contains(l.ids, m.Name) {
				l.ids = append(l.ids, m.Name)
			}
		}
	}
	if len(l.text) == 0 {
		return licence{}, fmt.Errorf("%s has no file with one", dir)
	}
	slices.Sort(l.ids)
	n.licences[dir] = l
	return l, nil
}

// legal tells whether a file of this name has a licence or belongs to one.
func legal(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"license", "licence", "copying", "notice", "patents"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	}) && !strings.HasSuffix(name, ".go")
}
