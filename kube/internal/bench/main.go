// Bench measures Norn in Kubernetes clusters, and prints a table with the bar beside each
// figure:
//
//	go run ./kube/internal/bench [flags]
//
// A real control plane runs on this machine, nodes exist in appearance only, and norn kube up
// is a process with the options that users have. Every figure that depends on the
// pace of the API server stands beside the limit: what the least scheduler reached
// that could be (see least), in the same run. Absolute figures are remarks, since they
// depend on the machine and on what else it does; ratios are what counts.
//
// Nouns: a scenario is one thing that is measured, and is named like its bar. A contender is a
// scheduler. A load is what users ask it for.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

const help = `Bench measures norn kube up on a real control plane with nodes that do not exist.

  go run ./kube/internal/bench --only B1,B3 --json pace.json

Scenarios:
`

// bench is one run of scenarios.
type bench struct {
	dir          string // of the programs
	rounds       int
	rivals       bool
	leastProgram string // a least scheduler as a program; empty: none
	divide       int    // by which the largest clusters are made smaller
	began        time.Time
	rows         []row
}

func (b *bench) bin(name string) string { return filepath.Join(b.dir, name) }

// say tells how far the run is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.0f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// scenario is one thing that is measured.
type scenario struct {
	name, what string
	run        func(*bench, context.Context) error
}

func main() {
	all := scenarios()
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), help)
		for _, s := range all {
			fmt.Fprintf(flag.CommandLine.Output(), "  %-6s %s\n", s.name, s.what)
		}
		fmt.Fprintln(flag.CommandLine.Output(), "\nFlags:")
		flag.PrintDefaults()
	}
	only := flag.String("only", "", "only these scenarios, with commas between them")
	rounds := flag.Int("rounds", 1, "how often each contender is measured, in turns; the median counts")
	rivals := flag.Bool("rivals", true, "also kube-scheduler, where it has been built")
	least := flag.String("least", filepath.Join("..", "shared", "kube-least"), "folder of a least scheduler that is a program of its own; left out where it is missing")
	write := flag.String("write", "", "page whose part between the marks is replaced by the table")
	file := flag.String("json", "", "file that is to have all figures")
	divide := flag.Int("divide", 1, "make the large cluster of B6 and the queue so many times smaller")
	flag.Parse()
	klog.LogToStderr(false) // of watches that end with their cluster
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	b := &bench{rounds: *rounds, began: time.Now(), divide: max(1, *divide)}
	err := b.all(ctx, all, *only, *least, *rivals)
	if err == nil {
		err = b.tell(*write, *file)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// all builds the programs and runs the scenarios that are wanted.
func (b *bench) all(ctx context.Context, all []scenario, only, least string, rivals bool) (err error) {
	for _, name := range strings.Split(only, ",") {
		if name != "" && !slices.ContainsFunc(all, func(s scenario) bool { return s.name == name }) {
			return fmt.Errorf("there is no scenario %s: --help lists them", name)
		}
	}
	if b.dir, err = os.MkdirTemp("", "nkb-bin-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.say("building norn and norn-kube")
	if err := build(ctx, ".", b.dir+"/", "./cmd/norn", "./cmd/norn-kube"); err != nil {
		return err
	}
	if _, serr := os.Stat(filepath.Join(least, "go.mod")); serr == nil {
		if err := build(ctx, least, b.bin("kube-least"), "."); err != nil {
			return err
		}
		b.leastProgram = b.bin("kube-least")
	}
	b.rivals = rivals && hasScheduler()
	for _, s := range all {
		if only != "" && !slices.Contains(strings.Split(only, ","), s.name) {
			continue
		}
		b.say("%s: %s", s.name, s.what)
		if err := s.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func build(ctx context.Context, dir, out string, packages ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", out}, packages...)...)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", strings.Join(packages, " "), err, text)
	}
	return nil
}

// tell prints the table, and writes it into a page and into a file.
func (b *bench) tell(page, file string) error {
	text := b.table()
	fmt.Print(text)
	if file != "" {
		out, err := json.MarshalIndent(b.report(), "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, append(out, '\n'), 0o644); err != nil {
			return err
		}
	}
	if page == "" {
		return nil
	}
	const from, to = "<!-- kube: written by make bench-kube -->\n", "<!-- kube: end -->\n"
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, begins := strings.Cut(string(old), from)
	_, tail, ends := strings.Cut(rest, to)
	if !begins || !ends {
		return fmt.Errorf("%s has no marks for kube", page)
	}
	return os.WriteFile(page, []byte(head+from+"\n"+text+"\n"+to+tail), 0o644)
}
