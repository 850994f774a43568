package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// liveOptions say what is measured of a daemon.
type liveOptions struct {
	write   string // page
	peers   bool   // those that are installed, too
	only    string
	minutes int
}

// live measures one daemon after the other.
type live struct {
	liveOptions
	bin string
	dir string // for state folders
}

// part is one thing that is measured.
type part struct {
	name    string
	measure func(w io.Writer, dir string) error
}

func benchLive(o liveOptions) error {
	dir, err := os.MkdirTemp("", "norn-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := &live{liveOptions: o, bin: filepath.Join(dir, "norn"), dir: dir}
	if err := execute("go", "build", "-o", l.bin, "./cmd/norn"); err != nil {
		return err
	}
	for _, p := range l.parts() {
		if l.wanted(p.name) {
			if err := l.part(p); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

// part measures one thing and puts it into the page.
func (l *live) part(p part) error {
	dir := filepath.Join(l.dir, p.name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var text strings.Builder
	out := io.MultiWriter(&text, os.Stdout)
	before := load()
	if err := p.measure(out, dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "Load of the machine (mean of a minute) before and after: %s, %s. ", before, load())
	describe(out)
	return replace(l.write, "live-"+p.name, "bench-live", text.String())
}

func (l *live) parts() []part {
	all := []part{{"launch", l.launch}, {"queue", l.queue}, {"idle", l.idle}, {"recovery", l.recovery}, {"steady", l.steady}}
	if l.peers {
		all = append(all, part{"peers", l.compare})
	}
	return all
}

func (l *live) wanted(name string) bool {
	return l.only == "" || slices.ContainsFunc(strings.Split(l.only, ","), func(p string) bool { return strings.HasPrefix(name, p) })
}

// load is how many processes wanted a processor within the last minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	mean, _, _ := strings.Cut(string(text), " ")
	return mean
}

// launch is the way from a submission to a running process.
func (l *live) launch(w io.Writer, dir string) error {
	b, err := newBox(l.bin, dir, "")
	if err != nil {
		return err
	}
	defer b.close()
	if _, err := b.launch(3, 0); err != nil { // to warm up
		return err
	}
	s, err := b.launch(50, 100*time.Millisecond)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "### From submission to a running process, 50 jobs at an empty queue\n\n")
	s.write(w, 20*time.Millisecond)
	return nil
}
