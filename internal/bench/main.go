// Command bench measures norn as whole processes and prints Markdown tables. It
// runs simulations from start to the printed table, and measures CPU time (user
// and system, the least of several runs) and peak memory. With -live it
// measures a daemon with its clients, beside other schedulers of one machine.
// With -fidelity it compares the simulator with real processes. Each figure
// stands beside the bound that it is held to.
//
// Published inputs are read from ../shared; rows that need them are left out,
// with a word, where they are missing. CPU times of published simulators are
// those measured beside their results, on a machine of the same kind, under the
// same load as nobody can know: compare ratios.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	repeat := flag.Int("repeat", 5, "runs of each row; the least CPU time counts")
	shared := flag.String("shared", filepath.Join("..", "shared"), "folder of published data")
	counting := flag.Bool("steps", false, "count the statements of decisions, in a build with -cover -covermode=atomic")
	write := flag.String("write", "", "file whose part between the bench marks is replaced by the tables")
	large := flag.Bool("large", true, "also 1,000,000 jobs on 10,000 GPUs")
	live := flag.Bool("live", false, "measure a running daemon instead")
	peers := flag.Bool("peers", false, "with -live: also the peers that are installed")
	only := flag.String("only", "", "with -live: only the parts whose names begin so; with -decisions, -runs or -steps: only these policies; with commas between them")
	asking := flag.Bool("decisions", false, "measure single decisions alone")
	running := flag.Bool("runs", false, "measure whole runs alone; with -steps: count their statements instead of those of decisions")
	minutes := flag.Int("minutes", 10, "with -live: for how long short jobs are sustained")
	agree := flag.String("fidelity", "", "hold the simulator against real processes instead, and write the differences to this page")
	flag.Parse()
	var err error
	switch {
	case *agree != "":
		err = benchFidelity(*write, *agree)
	case *live:
		err = benchLive(liveOptions{write: *write, peers: *peers, only: *only, minutes: *minutes})
	case *counting && *running:
		err = runSteps(os.Stdout, *only)
	case *counting:
		err = steps(os.Stdout, *only)
	case *asking:
		err = benchDecisions(*repeat, *only, *write)
	case *running:
		err = benchRuns(*only, *write)
	default:
		err = bench(*repeat, *shared, *write, *large)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(repeat int, shared, write string, large bool) error {
	dir, err := os.MkdirTemp("", "norn-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m := machine{bin: filepath.Join(dir, "norn"), repeat: repeat}
	if err := execute("go", "build", "-o", m.bin, "./cmd/norn"); err != nil {
		return err
	}
	var text strings.Builder
	describe(&text)
	steps := []func(io.Writer) error{
		func(w io.Writer) error { return m.traces(w, shared) },
		func(w io.Writer) error { return m.simulators(w, shared) },
	}
	if large {
		steps = append(steps, func(w io.Writer) error { return m.growth(w, dir) })
	}
	for _, step := range steps {
		if err := step(io.MultiWriter(&text, os.Stdout)); err != nil {
			return err
		}
	}
	if err := replace(write, "bench", "bench", text.String()); err != nil {
		return err
	}
	if err := benchDecisions(repeat, "", write); err != nil {
		return err
	}
	return benchRuns("", write)
}

// benchDecisions measures single decisions.
func benchDecisions(repeat int, only, write string) error {
	var text strings.Builder
	describe(&text)
	if err := decisions(io.MultiWriter(&text, os.Stdout), repeat, only); err != nil {
		return err
	}
	return replace(write, "decisions", "bench", text.String())
}

// benchRuns measures whole runs.
func benchRuns(only, write string) error {
	var text strings.Builder
	describe(&text)
	if err := runs(io.MultiWriter(&text, os.Stdout), only); err != nil {
		return err
	}
	return replace(write, "runs", "bench", text.String())
}

// describe names the machine and the commit.
func describe(w io.Writer) {
	commit, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		commit = []byte("unknown")
	}
	fmt.Fprintf(w, "%s, %d cores of %s, %s/%s, commit %s, %s.\n\n", runtime.Version(), runtime.NumCPU(), processor(),
		runtime.GOOS, runtime.GOARCH, strings.TrimSpace(string(commit)), time.Now().Format(time.DateOnly))
}

// processor is the name of the processor, as far as the system tells.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // not there on other systems
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unnamed processor"
}

// machine runs the program.
type machine struct {
	bin    string
	repeat int
}

// cost is what a run took.
type cost struct {
	cpu    time.Duration
	memory int64 // bytes at the peak
}

// measure runs norn several times and returns the least of each figure.
func (m *machine) measure(repeat int, args ...string) (cost, error) {
	best := cost{cpu: 1 << 62, memory: 1 << 62}
	for range repeat {
		cmd := exec.Command(m.bin, args...)
		var out strings.Builder
		cmd.Stderr = &out
		if err := cmd.Run(); err != nil {
			return best, fmt.Errorf("norn %s: %w\n%s", strings.Join(args, " "), err, out.String())
		}
		state := cmd.ProcessState
		best.cpu = min(best.cpu, state.UserTime()+state.SystemTime())
		if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
			best.memory = min(best.memory, usage.Maxrss*1024)
		}
	}
	return best, nil
}

func mib(b int64) string { return fmt.Sprintf("%d MB", b/1_000_000) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

func verdict(ok bool) string {
	if ok {
		return "met"
	}
	return "**missed**"
}

// traces is the Philly log under the policies of this project.
func (m *machine) traces(w io.Writer, shared string) error {
	philly := filepath.Join(shared, "data", "philly", "philly_jobs_reconstructed.csv.gz")
	if missing(w, philly) {
		return nil
	}
	fmt.Fprintf(w, "### Philly, 111,813 jobs on 2,490 GPUs\n\n| policy | CPU | memory | bound | |\n|---|--:|--:|---|---|\n")
	for _, policy := range []string{"fifo", "srtf", "tiresias"} {
		c, err := m.measure(m.repeat, "sim", philly, "--cluster", "philly", "--policy", policy, "--quiet")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %s | %s | %s | 1.5 s, 400 MB | %s |\n", policy, seconds(c.cpu), mib(c.memory),
			verdict(c.cpu <= 1500*time.Millisecond && c.memory <= 400e6))
	}
	fmt.Fprintln(w)
	return nil
}

// simulators is the input of published simulators, under their conditions.
func (m *machine) simulators(w io.Writer, shared string) error {
	golden := filepath.Join(shared, "golden")
	if missing(w, golden) {
		return nil
	}
	fmt.Fprintf(w, "### Published simulators on the same input\n\n| simulator | policy | published CPU, other machine | norn | memory | times less |\n|---|---|--:|--:|--:|--:|\n")
	for _, r := range []struct {
		simulator, trace, cluster, policy, result string
		published                                 float64 // seconds of CPU
	}{
		{"lucid", "lucid_synth6000_cluster_full_log.csv.gz", "venus-15vc", "fifo", "lucid/synth6000-venus-fifo.csv.gz", 51},
		{"lucid", "lucid_synth6000_cluster_full_log.csv.gz", "venus-15vc", "srtf", "lucid/synth6000-venus-srtf.csv.gz", 54},
		{"pai", "pai_synth10k.csv.gz", "g300", "SJF", "pai/synth10k-g300-SJF.csv.gz", 15.4},
		{"pai", "pai_synth10k.csv.gz", "g300", "FIFO", "pai/synth10k-g300-FIFO.csv.gz", 46.7},
		{"tiresias", "tiresias_muri_trace1.csv.gz", "n8g8", "dlas-gpu-2-count", "tiresias/muri_trace1-n8g8-dlas-gpu-2-count.csv.gz", 71.4},
	} {
		args := []string{"validate", r.simulator, "--trace", filepath.Join(golden, "inputs", r.trace), "--cluster", r.cluster, "--policy", r.policy}
		if against := filepath.Join(golden, filepath.FromSlash(r.result)); exists(against) {
			args = append(args, "--against", against)
		} else {
			args = append(args, "--out", os.DevNull)
		}
		c, err := m.measure(4*m.repeat, args...)
		if err != nil {
			return err
		}
		times := r.published / c.cpu.Seconds()
		fmt.Fprintf(w, "| %s | %s | %.1f s | %s | %s | %.0f |\n", r.simulator, r.policy, r.published, seconds(c.cpu), mib(c.memory), times)
	}
	fmt.Fprintln(w)
	return nil
}

// growth is Tiresias with ten times as many jobs. The load is equal on a tenth of
// the GPUs, where both traces last equally long; on the same GPUs the short one
// has hardly filled them when it ends, and preempts few jobs.
func (m *machine) growth(w io.Writer, dir string) error {
	fmt.Fprintf(w, "### Generated jobs under Tiresias, load 0.9\n\n| jobs | GPUs | CPU | of a job | memory | bound | |\n|--:|--:|--:|--:|--:|---|---|\n")
	var equal float64
	for _, r := range []struct{ jobs, nodes int }{{100_000, 1250}, {100_000, 125}, {1_000_000, 1250}} {
		file := filepath.Join(dir, fmt.Sprintf("%d.csv", r.jobs))
		err := execute(m.bin, "trace", "generate", "--like", "philly", "--jobs", fmt.Sprint(r.jobs), "--gpus", fmt.Sprint(8*r.nodes),
			"--offered-load", "0.9", "--max-run", "1d", "--seed", "1", "-o", file)
		if err != nil {
			return err
		}
		c, err := m.measure(max(1, m.repeat), "sim", file, "--cluster", fmt.Sprintf("%dx8", r.nodes), "--policy", "tiresias", "--quiet")
		if err != nil {
			return err
		}
		each := c.cpu.Seconds() / float64(r.jobs)
		bound, met := "", ""
		if r.nodes == 125 {
			equal = each
		}
		if r.jobs == 1_000_000 {
			bound, met = "20 s, 2,000 MB, 1.5 times as much for a job", verdict(c.cpu <= 20*time.Second && c.memory <= 2e9 && each < 1.5*equal)
		}
		fmt.Fprintf(w, "| %d | %d | %s | %.2f us | %s | %s | %s |\n", r.jobs, 8*r.nodes, seconds(c.cpu), 1e6*each, mib(c.memory), bound, met)
	}
	fmt.Fprintln(w)
	return nil
}

func execute(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// missing tells, and says, that an input is not there.
func missing(w io.Writer, path string) bool {
	if exists(path) {
		return false
	}
	fmt.Fprintf(w, "Left out: %s is not there.\n\n", path)
	return true
}

// replace puts tables into a page, between the marks that bear a name and the
// target of make that writes them. Without a page nothing is to be done.
func replace(path, name, target, tables string) error {
	if path == "" {
		return nil
	}
	from, to := "<!-- "+name+": written by make "+target+" -->\n", "<!-- "+name+": end -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(page), from)
	_, tail, ended := strings.Cut(rest, to)
	if !ok || !ended {
		return fmt.Errorf("%s has no marks for %s", path, name)
	}
	return os.WriteFile(path, []byte(head+from+"\n"+tables+to+tail), 0o644)
}
