package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/sweep"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/trace"
)

// lab opens worlds of a sweep by the flags of norn sim. It implements sweep.Lab.
type lab struct {
	dir   string             // to which paths are relative
	fixed []eventlog.Setting // flags that all worlds have
	build func() (string, error)

	mu      sync.Mutex
	hashes  map[string]string          // of files, by path
	submits map[string][]time.Duration // of traces of which seeds have a window, by path and how they are read
}

func newLab(dir string, fixed []eventlog.Setting) *lab {
	return &lab{dir: dir, fixed: fixed, build: sync.OnceValues(buildOf), hashes: map[string]string{}, submits: map[string][]time.Duration{}}
}

// buildOf tells the build of this program from all others whose figures may differ: by its
// commit where nothing was changed since, otherwise by its content.
func buildOf() (string, error) {
	b := built()
	if b.Commit != "" && !b.Modified {
		return strings.Join([]string{b.Commit, b.Go, b.OS, b.Arch}, " "), nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return fileio.Hash(path)
}

// unswept are the flags of norn sim that a sweep has no use for, or has words of its own for.
func unswept() []string {
	return append(unrecorded(), "seed", "grow", "server", "clients", "help")
}

// words are what may stand in the file of a sweep.
func (l *lab) words() sweep.Words {
	w := sweep.Words{Check: l.check, CheckLike: func(like []sweep.Setting) error {
		_, err := l.generator(like, 1)
		return err
	}}
	for _, name := range flagNames(new(simFlags).command()) {
		if !slices.Contains(unswept(), name) {
			w.Sim = append(w.Sim, name)
		}
	}
	cmd := &cobra.Command{}
	new(generateFlags).add(cmd)
	w.Like = flagNames(cmd)
	return w
}

// check says what is wrong with the value of a flag, whatever the others are.
func (l *lab) check(s sweep.Setting) error {
	f := &simFlags{}
	cmd := f.command()
	if err := l.set(cmd, s); err != nil {
		return err
	}
	f.cluster, f.quiet = cmp.Or(f.cluster, "1x1"), true
	if err := f.words(); err != nil {
		return err
	}
	if _, err := f.options(); err != nil {
		return err
	}
	_, err := f.experiment(cmd)
	return err
}

// set sets a flag. Paths are relative to the folder of the file.
func (l *lab) set(cmd *cobra.Command, s sweep.Setting) error {
	value := s.Value
	if slices.Contains(filed(), s.Name) {
		if path := l.path(value); fileThere(path) {
			value = path
		}
	}
	return cmd.Flags().Set(s.Name, value)
}

// path is a path as it is from here.
func (l *lab) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(l.dir, name)
}

func fileThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// flags are those of a world, and the arguments of norn sim.
func (l *lab) flags(w *sweep.World) (f *simFlags, cmd *cobra.Command, args []string, err error) {
	f = &simFlags{}
	cmd = f.command()
	for _, s := range append(l.fixed[:len(l.fixed):len(l.fixed)], w.Settings...) {
		if err := l.set(cmd, s); err != nil {
			return nil, nil, nil, misused("%s: %w", s.Name, err)
		}
	}
	f.seeds, f.quiet = seedList{w.Seed}, true
	if err := f.words(); err != nil {
		return nil, nil, nil, err
	}
	switch t := w.Trace; {
	case t.File == "-":
		return nil, nil, nil, misused("a sweep reads a trace several times: name a file instead of standard input")
	case t.File != "":
		args = []string{l.path(t.File)}
		if trace.IsRequests(args[0]) {
			return nil, nil, nil, misused("%s is a trace of requests, which know no jobs: norn sim replays them", t.File)
		}
	case t.Like != nil && f.cluster == "":
		return nil, nil, nil, misused("name the cluster for %s: a shorthand such as 16x8, a preset or a file", t.Name)
	}
	if t := w.Trace; t.Window > 0 && f.reading.from+f.reading.to != "" {
		return nil, nil, nil, misused("%s: a window and from or to exclude each other", t.Name)
	}
	_, err = f.findCluster(args)
	return f, cmd, args, err
}

// madeOf is what the figures of a world depend on, but for the policy.
type madeOf struct {
	Build  string        `json:"build"`
	Trace  string        `json:"trace"` // the hash of a file, how it is made, or sample
	Window string        `json:"window,omitempty"`
	Seed   uint64        `json:"seed"`
	Flags  []report.Flag `json:"flags"`
}

// Identity implements sweep.Lab.
func (l *lab) Identity(w *sweep.World) (sweep.Identity, error) {
	f, cmd, args, err := l.flags(w)
	if err != nil {
		return sweep.Identity{}, err
	}
	made := madeOf{Trace: "sample", Seed: w.Seed}
	if made.Build, err = l.build(); err != nil {
		return sweep.Identity{}, err
	}
	switch {
	case w.Trace.File != "":
		if made.Trace, err = l.hash(args[0]); err != nil {
			return sweep.Identity{}, err
		}
	case w.Trace.Like != nil:
		parts := make([]string, len(w.Trace.Like))
		for i, s := range w.Trace.Like {
			parts[i] = s.String()
		}
		slices.Sort(parts)
		made.Trace = strings.Join(parts, " ")
	}
	if w.Trace.Window > 0 {
		made.Window = w.Trace.Window.String()
	}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		for _, v := range valuesOf(flag) {
			if slices.Contains(filed(), flag.Name) && fileThere(v) && err == nil {
				v, err = l.content(flag.Name, v)
			}
			made.Flags = append(made.Flags, report.Flag{Name: flag.Name, Value: v})
		}
	})
	if err != nil {
		return sweep.Identity{}, err
	}
	text, err := json.Marshal(made)
	return sweep.Identity{Cluster: f.cluster, Made: text}, err
}

// content is the hash of what a flag names.
func (l *lab) content(flag, path string) (string, error) {
	sum, err := l.hash(path)
	if beside := trace.BesidePairs(path); err == nil && flag == "pairs" && fileThere(beside) {
		var more string
		more, err = l.hash(beside)
		sum += " " + more
	}
	return sum, err
}

// hash is that of a file, which is read once.
func (l *lab) hash(path string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sum, ok := l.hashes[path]; ok {
		return sum, nil
	}
	sum, err := fileio.Hash(path)
	if err == nil && sum == "" {
		err = errors.New(path + " can be read only once: a sweep needs a file")
	}
	l.hashes[path] = sum
	return sum, err
}

// Open implements sweep.Lab.
func (l *lab) Open(_ context.Context, w *sweep.World) (*sweep.Opened, error) {
	f, cmd, args, err := l.flags(w)
	if err != nil {
		return nil, err
	}
	x, err := f.experiment(cmd)
	if err != nil {
		return nil, err
	}
	var src *trace.Reader
	var windows string
	switch {
	case w.Trace.Like != nil:
		src, err = l.generated(f, w)
	case w.Trace.Window > 0:
		src, windows, err = l.window(f, w, args[0])
	default:
		src, err = f.source(args, x)
	}
	if err != nil {
		return nil, err
	}
	x.Header.Trace = w.Trace.Name
	return &sweep.Opened{Experiment: x, Jobs: src, Remarks: func() []string {
		var text strings.Builder
		remarks(&text, src.Info())
		var out []string
		for _, part := range strings.Split("\n"+text.String(), "\nnorn: ")[1:] {
			out = append(out, strings.TrimSpace(part))
		}
		if windows != "" {
			out = append(out, windows)
		}
		return out
	}}, nil
}

// generator is what a trace is made by. The seed is that of the run, unless the settings name one.
func (l *lab) generator(like []sweep.Setting, seed uint64) (trace.Source, error) {
	g := &generateFlags{}
	cmd := &cobra.Command{}
	g.add(cmd)
	if err := cmd.Flags().Set("seed", strconv.FormatUint(seed, 10)); err != nil {
		return nil, err
	}
	for _, s := range like {
		if err := cmd.Flags().Set(s.Name, s.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	return g.source()
}

// generated makes the trace of a world, and reads it as if it were a file, so that flags which
// select jobs hold for it too.
func (l *lab) generated(f *simFlags, w *sweep.World) (*trace.Reader, error) {
	opt, err := f.options()
	if err != nil {
		return nil, err
	}
	src, err := l.generator(w.Trace.Like, w.Seed)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if _, err := trace.WriteJSON(&text, src); err != nil {
		return nil, err
	}
	return trace.NewReader(&text, w.Trace.Name, opt)
}

// window opens the stretch of a trace that the seed of a world has, and says how many of them
// there can be.
func (l *lab) window(f *simFlags, w *sweep.World, path string) (*trace.Reader, string, error) {
	opt, err := f.options()
	if err != nil {
		return nil, "", err
	}
	submits, err := l.submitted(path, opt)
	if err != nil {
		return nil, "", err
	}
	length := w.Trace.Window
	from, err := sweep.Window(submits, length, w.Seed)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", w.Trace.Name, err)
	}
	opt.From, opt.To, opt.Rebase = from, from+length, true
	src, err := experiment.OpenTrace(path, opt)
	span := submits[len(submits)-1] - submits[0]
	return src, fmt.Sprintf("each seed has a window of %s out of %s, in which %d lie side by side: the more seeds there are beside that, the more windows overlap, and intervals are too narrow", unit.Human(length), unit.Human(span), int(span/length)), err
}

// submitted are the moments at which jobs of a trace were submitted, on its own clock.
func (l *lab) submitted(path string, opt trace.Options) ([]time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := fmt.Sprint(path, opt.Format, opt.Profile, opt.SkipBad, opt.Sort)
	if all, ok := l.submits[key]; ok {
		return all, nil
	}
	opt.Load, opt.Limit, opt.Tenants, opt.GPUJobs = 0, 0, nil, false // which change the clock, or when it begins
	src, err := experiment.OpenTrace(path, opt)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var all []time.Duration
	for {
		var e trace.Entry
		if err := src.Next(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		all = append(all, e.Job.Submit)
	}
	l.submits[key] = all
	return all, nil
}
