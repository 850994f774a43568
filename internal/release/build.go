package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// programs are the programs of a release, in the folder cmd of the repository.
var programs = []string{"norn", "norn-kube"}

// A build is the programs of one target.
type build struct {
	target target
	dir    string           // where they are
	info   *debug.BuildInfo // modules of all programs together, by path
	time   time.Time        // of the commit
}

// files are the programs, as files of an archive.
func (b build) files() []file {
	var list []file
	for _, p := range programs {
		list = append(list, file{path: p, from: filepath.Join(b.dir, p), mode: 0o755})
	}
	return list
}

// compile builds the programs for a target.
func (r *release) compile(ctx context.Context, t target) (build, error) {
	b := build{target: t, dir: filepath.Join(r.work, strings.ReplaceAll(t.String(), "/", "_"))}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return b, err
	}
	args := []string{"build", "-trimpath", "-buildvcs=true", "-ldflags", "-s -w -buildid="}
	if t.static {
		args = append(args, "-tags", "nonvml")
	}
	args = append(args, "-o", b.dir+string(filepath.Separator))
	for _, p := range programs {
		args = append(args, "./cmd/"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = r.repo, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOFLAGS=-mod=readonly",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return b, fmt.Errorf("go build: %w", err)
	}
	return b, b.read()
}

// read takes modules, version and time from what the programs say of themselves.
func (b *build) read() error {
	for _, p := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(b.dir, p))
		if err != nil {
			return err
		}
		if b.info == nil {
			b.info = info
			continue
		}
		b.info.Deps = merge(b.info.Deps, info.Deps)
	}
	at, err := time.Parse(time.RFC3339, b.setting("vcs.time"))
	if err != nil || b.info.Main.Version == "" || b.info.Main.Version == "(devel)" {
		return errors.New("the programs know no commit: build a release from a git clone, with git installed")
	}
	b.time = at.UTC()
	return nil
}

// setting is what the programs say of how they were built; empty: nothing.
func (b *build) setting(key string) string {
	for _, s := range b.info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// merge is the union of two lists of modules, both by path.
func merge(a, b []*debug.Module) []*debug.Module {
	var all []*debug.Module
	for len(a) > 0 && len(b) > 0 {
		switch c := strings.Compare(a[0].Path, b[0].Path); {
		case c < 0:
			all, a = append(all, a[0]), a[1:]
		case c > 0:
			all, b = append(all, b[0]), b[1:]
		default:
			all, a, b = append(all, a[0]), a[1:], b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// sharedFiles are the files that are the same in every archive: what the repository has,
// and what norn itself writes: that of a build, where this machine can run it.
func (r *release) sharedFiles(ctx context.Context, b build) ([]file, error) {
	list := []file{
		{path: "LICENSE", from: filepath.Join(r.repo, "LICENSE")},
		{path: "README.md", from: filepath.Join(r.repo, "README.md")},
		{path: "CHANGELOG.md", from: filepath.Join(r.repo, "CHANGELOG.md")},
	}
	norn := filepath.Join(b.dir, "norn")
	if b.target.os != runtime.GOOS || b.target.arch != runtime.GOARCH { // it does not run here
		norn = filepath.Join(r.work, "norn")
		if _, err := r.output(ctx, "go", "build", "-o", norn, "./cmd/norn"); err != nil {
			return nil, err
		}
	}
	man := filepath.Join(r.work, "man")
	if _, err := r.output(ctx, norn, "docs", "--man", man); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(man, "*.1"))
	if err != nil || len(pages) == 0 {
		return nil, fmt.Errorf("norn docs --man wrote no page: %v", err)
	}
	for _, p := range pages {
		list = append(list, file{path: "man/" + filepath.Base(p), from: p})
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := r.output(ctx, norn, "completion", shell)
		if err != nil {
			return nil, err
		}
		list = append(list, file{path: "completions/norn." + shell, data: script})
	}
	return list, nil
}

// output runs a program in the repository and returns what it prints. Its idea of today is
// the time of the commit.
func (r *release) output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.repo
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix()))
	out, err := cmd.Output()
	if failed, ok := err.(*exec.ExitError); ok {
		return nil, fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, failed.Stderr)
	}
	return out, err
}
