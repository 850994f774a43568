package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/trace/gen"
)

// norn runs one command line in this process.
func norn(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = execute(t.Context(), args, &o, &e)
	return o.String(), e.String(), code
}

// works runs a command line that must succeed.
func works(t *testing.T, args ...string) (out, errOut string) {
	t.Helper()
	out, errOut, code := norn(t, args...)
	if code != 0 {
		t.Fatalf("norn %s: exit code %d, %s", strings.Join(args, " "), code, errOut)
	}
	return out, errOut
}

// file writes a file for a test.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

const jobs = `job,submit,gpus,duration,tenant
a,0,8,1h,red
b,60,4,30m,blue
c,120,4,10m,red
d,180,1,100,blue
`

// TestHelp walks all verbs: each says in a line and in more what it does, and
// shows an example; its help is printed without an error.
func TestHelp(t *testing.T) {
	verbs := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		verbs++
		if c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s lacks a part of its help: short %q, long %q, example %q", c.CommandPath(), c.Short, c.Long, c.Example)
		}
		if last := c.Short[len(c.Short)-1]; last == '.' {
			t.Errorf("%s: the short help ends in a full stop", c.CommandPath())
		}
		for _, line := range strings.Split(c.Example, "\n") {
			if !strings.HasPrefix(line, "  "+c.CommandPath()) && c.HasParent() {
				t.Errorf("%s: %q is no example of it", c.CommandPath(), line)
			}
		}
		out, _ := works(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		if !strings.Contains(out, strings.SplitN(c.Long, "\n", 2)[0]) || !strings.Contains(out, "Examples:") {
			t.Errorf("%s --help prints %q", c.CommandPath(), out)
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				walk(sub)
			}
		}
	}
	walk(root())
	if verbs < 12 {
		t.Errorf("only %d verbs", verbs)
	}
}

// TestExamplesParse checks that the flags of all examples exist.
func TestExamplesParse(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, line := range strings.Split(c.Example, "\n") {
			line, _, _ = strings.Cut(line, "   ") // behind it stands what it is for
			line, _, _ = strings.Cut(strings.TrimSpace(line), " > ")
			args := strings.Fields(strings.ReplaceAll(line, "'", ""))
			if len(args) == 0 {
				continue
			}
			found, rest, err := root().Find(args[1:])
			if err != nil {
				t.Errorf("%q: %v", line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root())
}

// completions asks as a shell does what may be written next.
func completions(t *testing.T, args ...string) []string {
	t.Helper()
	out, _ := works(t, append([]string{cobra.ShellCompRequestCmd}, args...)...)
	var words []string
	for _, line := range strings.Split(out, "\n") {
		if word, _, _ := strings.Cut(line, "\t"); word != "" && !strings.HasPrefix(word, ":") {
			words = append(words, word)
		}
	}
	return words
}

// TestCompletion checks what shells are told.
func TestCompletion(t *testing.T) {
	var names, settings []string
	for _, e := range policy.Table() {
		names = append(names, e.Name)
		for _, p := range e.New().Params() {
			settings = append(settings, e.Name+"."+p.Name+"=")
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, _ := works(t, "completion", shell); len(out) < 1000 {
			t.Errorf("the completion of %s has %d bytes", shell, len(out))
		}
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"policies", ""}, names},
		{[]string{"sim", "--policy", ""}, names},
		{[]string{"sim", "--policy", "fifo,la"}, []string{"fifo,las"}},
		{[]string{"sim", "--set", ""}, settings},
		{[]string{"sim", "--set", "fifo.mode="}, []string{"fifo.mode=strict", "fifo.mode=skip", "fifo.mode=easy"}},
		{[]string{"sim", "--set", "fifo.priority="}, []string{"fifo.priority=true", "fifo.priority=false"}},
		{[]string{"sim", "--cluster", "ven"}, []string{"venus"}},
		{[]string{"cluster", "phi"}, []string{"philly", "philly-qssf"}},
		{[]string{"sim", "--table", ""}, []string{"text", "markdown", "csv", "json"}},
		{[]string{"sim", "--log", ""}, []string{"zst", "gz", "plain", "none"}},
		{[]string{"sim", "--attempts", ""}, []string{"replay", "merge"}},
		{[]string{"trace", "summary", "--format", "tires"}, []string{"tiresias"}},
		{[]string{"trace", "generate", "--like", ""}, []string{"philly", "venus", "itp", "pai", "pollux", "dlrm", "synergy", "gavel", "search", "lyra", "lyra-ideal", "datacenter", "requests", "tpch"}},
	} {
		got := completions(t, c.args...)
		begun := c.args[len(c.args)-1]
		got = slices.DeleteFunc(got, func(w string) bool { return !strings.HasPrefix(w, begun) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

// TestLikes holds the list of generators against those that there are.
func TestLikes(t *testing.T) {
	for _, name := range likeNames() {
		if _, err := gen.ParseLike(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := gen.ParseLike(""); err == nil || !strings.Contains(err.Error(), likes) {
		t.Errorf("%v, want %s", err, likes)
	}
}

// TestSim runs the built-in trace under three policies and reads all that is
// written.
func TestSim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	out, errOut := works(t, "sim", "--out", dir)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if !strings.HasPrefix(lines[0], "srtf (knew true run times): mean completion time -79% from fifo") || lines[1] != "" {
		t.Errorf("no sentence on top: %q", lines[:2])
	}
	lines = lines[2:]
	for _, column := range []string{"policy", "mean JCT", "JCT p50", "JCT p90", "JCT p99", "mean wait", "makespan", "util", "preempt", "lost GPUh", "rho", "worst rho"} {
		if !strings.Contains(lines[0], column) {
			t.Errorf("no column %q in %q", column, lines[0])
		}
	}
	for i, name := range []string{"fifo", "srtf", "tiresias"} {
		if !strings.HasPrefix(lines[i+1], name) {
			t.Errorf("line %d is %q, want that of %s", i+1, lines[i+1], name)
		}
		checkFolder(t, filepath.Join(dir, name))
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !bytes.Contains(page, []byte("built-in sample")) || !bytes.Contains(page, []byte("tiresias")) {
		t.Errorf("report.html has %d bytes, %v", len(page), err)
	}
	if !strings.Contains(errOut, "norn: wrote "+filepath.Join(dir, "report.html")) || strings.Contains(errOut, "\r") {
		t.Errorf("%q", errOut)
	}
	if _, errOut := works(t, "sim", "--out", dir, "--quiet", "--policy", "fifo", "--log", "none"); errOut != "" {
		t.Errorf("--quiet is not: %q", errOut)
	}
	if logs, _ := filepath.Glob(filepath.Join(dir, "fifo", "events.log*")); len(logs) != 0 {
		t.Errorf("--log none leaves %q", logs)
	}
}

// checkFolder reads the files of one policy.
func checkFolder(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "jobs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 1501 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	// Exactly the columns that the issue names.
	if got := strings.Join(rows[0], ","); got != "job,tenant,gpus,submit_s,first_start_s,end_s,jct_s,wait_s,run_s,preemptions,migrations,state,user,name,model,true_s,type,rho,lost_gpu_s,first_reason,kind,latency_kept" {
		t.Errorf("%s: %s", dir, got)
	}
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var summary struct {
		Jobs struct{ Submitted, Finished, Failed, Cancelled int }
	}
	if err := json.Unmarshal(text, &summary); err != nil || summary.Jobs.Submitted != 1500 || summary.Jobs.Finished+summary.Jobs.Failed+summary.Jobs.Cancelled != 1500 {
		t.Errorf("%s: %+v, %v", dir, summary, err)
	}
	if out, _ := works(t, "explain", dir, rows[1][0]); !strings.HasPrefix(out, "Job "+rows[1][0]) || !strings.Contains(out, "starts on") {
		t.Errorf("%s: %s", dir, out)
	}
}

// TestTables checks the four forms of the table.
func TestTables(t *testing.T) {
	path := file(t, "jobs.csv", jobs)
	args := []string{"sim", path, "--cluster", "1x8", "--policy", "fifo,srtf", "--table"}
	text, _ := works(t, append(args, "csv")...)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][0] != "fifo" || !slices.Contains(rows[0], "gpu_hours_lost_to_transitions") || !slices.Contains(rows[0], "rho_mean") || !slices.Contains(rows[0], "jct_mean_change") {
		t.Errorf("%q, %v", rows, err)
	}
	var objects []map[string]any
	text, _ = works(t, append(args, "json")...)
	if err := json.Unmarshal([]byte(text), &objects); err != nil || len(objects) != 2 || objects[1]["policy"] != "srtf" {
		t.Errorf("%v, %v", objects, err)
	}
	if text, _ = works(t, append(args, "markdown")...); !strings.Contains(text, "from fifo") || !strings.Contains(text, "\n\n| policy |") {
		t.Errorf("%q", text)
	}
}

// TestSimIsTheSame checks that equal command lines give equal tables and logs.
func TestSimIsTheSame(t *testing.T) {
	var outs, logs []string
	for range 2 {
		dir := t.TempDir()
		out, _ := works(t, "sim", "--policy", "las", "--seed", "5", "--job-mtbf", "10h", "--node-mtbf", "3d", "--estimates", "oracle+20%", "--cost", "checkpoint=5s,restore=10s", "--out", dir, "--log", "plain")
		log, err := os.ReadFile(filepath.Join(dir, "las", "events.log"))
		if err != nil {
			t.Fatal(err)
		}
		outs, logs = append(outs, out), append(logs, string(log))
	}
	if outs[0] != outs[1] || logs[0] != logs[1] {
		t.Error("two equal command lines differ")
	}
	for _, want := range []string{`"seed":"5"`, `"estimates":"oracle+20%"`, `"job-mtbf=10h"`, `"cost=checkpoint=5s","cost=restore=10s"`, `"cluster":"8x8"`} {
		if header, _, _ := strings.Cut(logs[0], "\n"); !strings.Contains(header, want) {
			t.Errorf("the log does not tell %s: %s", want, header)
		}
	}
}

// TestWhatIf replays the log of a run under its own policy, on the cluster that
// the log names, and finds the same figures.
func TestWhatIf(t *testing.T) {
	dir := t.TempDir()
	first, _ := works(t, "sim", "--policy", "srtf", "--out", dir, "--table", "csv")
	again, errOut := works(t, "sim", filepath.Join(dir, "srtf"), "--policy", "srtf", "--table", "csv")
	if first != again {
		t.Errorf("%s\nreplayed\n%s%s", first, again, errOut)
	}
	converted := filepath.Join(dir, "jobs.jsonl")
	works(t, "trace", "convert", filepath.Join(dir, "srtf", "events.log.zst"), converted)
	third, _ := works(t, "sim", converted, "--cluster", "8x8", "--policy", "srtf", "--table", "csv")
	if first != third {
		t.Errorf("%s\nconverted and replayed\n%s", first, third)
	}
}

// TestVariants compares a policy with itself at other settings.
func TestVariants(t *testing.T) {
	path := file(t, "jobs.csv", jobs)
	out, _ := works(t, "sim", path, "-c", "1x8", "-p", "tiresias,tiresias(limits=60,600)", "-p", "fifo(mode=easy)", "--set", "tiresias.promote=2", "--table", "csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 4 || rows[1][0] != "tiresias(promote=2)" || rows[2][0] != "tiresias(limits=60,600,promote=2)" || rows[3][0] != "fifo(mode=easy)" {
		t.Errorf("%q, %v", rows, err)
	}
}

// TestUsage checks command lines that cannot be understood: exit code 2, one
// short message that says what was meant, and no page of usage.
func TestUsage(t *testing.T) {
	path := file(t, "jobs.csv", jobs)
	for _, c := range []struct{ line, want string }{
		{"simm", `unknown command "simm" of norn; did you mean sim?`},
		{"nonsense --flag x", `unknown command "nonsense" of norn`},
		{"trace sumary x", `unknown command "sumary" of norn trace; did you mean summary?`},
		{"sim --polcy fifo", "unknown flag: --polcy; did you mean --policy?"},
		{"sim --seed x", "invalid argument \"x\" for \"--seed\""},
		{"sim a b", "accepts at most 1 arg(s), received 2; the usage is norn sim [TRACE]"},
		{"explain", "received 0; the usage is norn explain LOG [JOB]"},
		{"sim --policy tiresas", `unknown policy "tiresas"; known are: fifo, `},
		{"sim --policy fifo,", `unknown policy ""`},
		{"sim --policy fifo,fifo", "fifo is named twice"},
		{"sim --policy fifo(mode=easy", "the closing parenthesis is missing"},
		{"sim --policy fifo(easy)", "write settings as fifo(param=value)"},
		{"sim --policy fifo --set fifo.mod=easy", `policy fifo: unknown parameter "mod"; known are: mode, `},
		{"sim --policy fifo --set fifo.mode=lazy", "policy fifo: mode=lazy: write one of strict, skip, easy"},
		{"sim --policy fifo --set mode=easy", "--set mode=easy: write policy.param=value"},
		{"sim --policy fifo --set fito.mode=easy", "policy fito is not among those that are run (fifo); did you mean fifo?"},
		{"sim --load -1", "a load of -1: it must be from 0"},
		{"sim --limit -3", "a limit of -3 jobs: it must be 0 or more"},
		{"sim --node-gpus -1", "-1 GPUs of a node"},
		{"sim --from 2d --to 1h", "a window that ends before it begins"},
		{"sim --table yaml", "--table yaml: write one of text, markdown, csv, json"},
		{"sim --log bz2", "--log bz2: write one of plain, gz, zst, none"},
		{"sim --spread 0", "--spread 0: write a factor"},
		{"sim --spread NaN", "--spread NaN: write a factor"},
		{"sim --cost start", "--cost start: write start, checkpoint"},
		{"sim --cost begin=3s", "--cost begin=3s: write start, checkpoint"},
		{"sim --node-mtbf soon", `--node-mtbf: "soon" is not a duration`},
		{"sim --repair -5", `--repair: "-5" is not a duration`},
		{"sim --estimates guess", `--estimates: "guess" is not a source`},
		{"sim --attempts drop", "--attempts drop: write replay or merge"},
		{"sim --from yesterday", `--from: "yesterday" is not a moment`},
		{"sim " + path, "--cluster with a shorthand such as 16x8:V100"},
		{"trace generate --like phily --jobs 1", `--like: no generator is like "phily"`},
		{"trace generate", "name the size of the trace: --jobs N or --span DURATION"},
		{"trace generate --jobs 5 --span x", `--span: "x"`},
	} {
		out, errOut, code := norn(t, strings.Fields(c.line)...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errOut, "norn: ") || !strings.Contains(errOut, c.want) {
			t.Errorf("norn %s: exit code %d, %q, %q; want %q", c.line, code, out, errOut, c.want)
		}
		if strings.Contains(errOut, "Flags:") || strings.Count(errOut, "\n") > 3 || !strings.Contains(errOut, "--help says more.") {
			t.Errorf("norn %s: %q", c.line, errOut)
		}
	}
}

// TestFailures checks what cannot be done: exit code 1 and one message.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	good := file(t, "jobs.csv", jobs)
	bad := file(t, "bad.csv", "job,submit,gpus,duration\na,0,x,60\n")
	noise := file(t, "noise", "\x00\x01\x02")
	empty := file(t, "empty.csv", "")
	newer := file(t, "new.log", "{\"norn\":\"eventlog\",\"version\":99}\n")
	newerTrace := file(t, "new.jsonl", "{\"norn\":\"trace\",\"version\":9,\"new\":{}}\n")
	works(t, "sim", "--policy", "fifo", "--out", dir)
	for _, c := range []struct{ line, want string }{
		{"sim " + newer, "is an event log of version 99, this program reads versions 1 to 2: a newer norn is needed"},
		{"sim " + newerTrace + " -c 1x8", "is a trace of version 9, this program reads version 1: a newer norn is needed"},
		{"sim nowhere.csv", "nowhere.csv"},
		{"sim nowhere.csv -c 1x8", "nowhere.csv"},
		{"sim " + bad + " -c 1x8", `bad.csv, line 2, column 3 (gpus): found "x"`},
		{"sim " + noise + " -c 1x8", "is in no known format of traces"},
		{"sim " + empty + " -c 1x8", "empty.csv"},
		{"sim " + good + " -c phily", "did you mean philly?"},
		{"sim " + good + " -c 1x8 --format csw", `"csw" is not a format of traces`},
		{"sim " + good + " -c 1x8 --out " + file(t, "taken", ""), "not a directory"},
		{"cluster nowhere.yaml", "there is no file nowhere.yaml"},
		{"policies tiresas", "did you mean tiresias?"},
		{"docs slrum", `there is no page "slrum"; there are: api, cli, `},
		{"docs --find zebra gang", "no line of the documentation has zebra and gang"},
		{"explain " + good, "is no event log"},
		{"explain " + newer, "is an event log of version 99, this program reads versions 1 to 2: a newer norn is needed"},
		{"explain " + dir + " 1", "holds several runs; name one: " + filepath.Join(dir, "fifo")},
		{"explain " + t.TempDir() + " 1", "holds no event log"},
		{"explain " + filepath.Join(dir, "fifo") + " x", "has no job x among its 1500"},
		{"explain " + filepath.Join(dir, "fifo") + " #1500", "has no job #1500"},
		{"trace summary " + noise, "is in no known format of traces"},
		{"trace convert " + good + " " + filepath.Join(dir, "x.parquet"), "x.parquet"},
	} {
		out, errOut, code := norn(t, strings.Fields(c.line)...)
		if code != exitFailed || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("norn %s: exit code %d, %q, %q; want %q", c.line, code, out, errOut, c.want)
		}
		if !strings.HasPrefix(errOut, "norn: ") || strings.Contains(errOut, "Usage") || strings.Contains(errOut, "goroutine") {
			t.Errorf("norn %s: %q", c.line, errOut)
		}
	}
}

// TestInterrupted checks what is said when the program is told to end.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	var out, errOut bytes.Buffer
	if code := execute(ctx, []string{"sim", "--out", dir}, &out, &errOut); code != exitInterrupted || out.Len() != 0 {
		t.Errorf("exit code %d, %q", code, out.String())
	}
	if got, want := errOut.String(), "norn: interrupted: 0 of 3 policies had ended; their results are in "+dir+".partial until the next run\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFate checks the exit codes and messages of errors that no command line
// here leads to.
func TestFate(t *testing.T) {
	panicked := &engine.PolicyError{Policy: "x", At: time.Minute, Err: &engine.PanicError{Value: "index out of range", Stack: []byte("goroutine 1\n")}}
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 0, ""},
		{errQuiet, exitFailed, ""},
		{errors.New("no"), exitFailed, "norn: no\n"},
		{panicked, exitFailed, "norn: policy x at 1m: it panicked: index out of range\nThis is a mistake in the policy, not in your input. NORN_DEBUG=1 shows where it happened.\n"},
	} {
		var errOut bytes.Buffer
		if code := fate(root(), c.err, &errOut); code != c.code || errOut.String() != c.want {
			t.Errorf("%v: exit code %d, %q, want %d, %q", c.err, code, errOut.String(), c.code, c.want)
		}
	}
	t.Setenv("NORN_DEBUG", "1")
	var errOut bytes.Buffer
	fate(root(), panicked, &errOut)
	if !strings.HasSuffix(errOut.String(), "goroutine 1\n") {
		t.Errorf("%q", errOut.String())
	}
}

// TestRemarks checks what is told beside the results: jobs that could not run,
// rows that were left out, flags without effect.
func TestRemarks(t *testing.T) {
	path := file(t, "jobs.csv", jobs+"e,200,99,60,red\n")
	bad := file(t, "bad.csv", jobs+"x,190,many,60,red\ny,195,1,soon,red\n")
	for _, c := range []struct{ line, want string }{
		{"-c 1x8", "norn: fifo, srtf: 1 job never ran; job e, for one, needs 99 GPUs but there are only 8 in all"},
		{"-c red=1x8,green=1x8", "2 jobs of blue never ran, because no partition bears the name of their tenant and no node is outside the partitions"},
		{"-c 1x8 --whole", "norn: --whole changes nothing: the cluster has no partitions"},
	} {
		_, errOut := works(t, append([]string{"sim", path, "-p", "fifo,srtf"}, strings.Fields(c.line)...)...)
		if !strings.Contains(errOut, c.want) {
			t.Errorf("norn sim %s: %q, want %q", c.line, errOut, c.want)
		}
	}
	for _, verb := range [][]string{{"sim", bad, "-c", "1x8", "-p", "fifo", "--skip-bad"}, {"trace", "summary", bad, "--skip-bad"}, {"trace", "convert", bad, filepath.Join(t.TempDir(), "o.csv"), "--skip-bad"}} {
		_, errOut := works(t, verb...)
		for _, want := range []string{"of 6 rows, some were left out, 2 because of errors:", "line 6, column 3 (gpus)", "line 7, column 4 (duration)"} {
			if !strings.Contains(errOut, want) {
				t.Errorf("norn %s: %q, want %q", verb, errOut, want)
			}
		}
	}
}

// TestPartitions runs with and without the partitions of a cluster.
func TestPartitions(t *testing.T) {
	path := file(t, "jobs.csv", jobs)
	apart, _ := works(t, "sim", path, "-c", "red=1x8,blue=1x8", "-p", "fifo", "--table", "csv")
	whole, _ := works(t, "sim", path, "-c", "red=1x8,blue=1x8", "-p", "fifo", "--table", "csv", "--whole")
	if apart == whole || !strings.Contains(whole, "fifo,") {
		t.Errorf("%s\nand over the whole cluster\n%s", apart, whole)
	}
}

// TestExplain lists jobs and tells of one.
func TestExplain(t *testing.T) {
	dir := t.TempDir()
	path := file(t, "jobs.csv", jobs)
	works(t, "sim", path, "-c", "1x8", "-p", "fifo", "--out", dir, "-q")
	log := filepath.Join(dir, "fifo")
	out, errOut := works(t, "explain", log, "--limit", "2")
	if lines := strings.Split(out, "\n"); len(lines) != 4 || !strings.Contains(lines[1], "1h") || !strings.Contains(errOut, "2 more jobs (--limit 0 lists all)") {
		t.Errorf("%s%s", out, errOut)
	}
	var list []struct {
		Job    string
		Number int
		WaitS  float64 `json:"wait_s"`
	}
	out, _ = works(t, "explain", log, "--json", "--limit", "0")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 4 || list[0].WaitS != 4020 || list[0].Job != "d" {
		t.Errorf("%s, %v", out, err)
	}
	out, _ = works(t, "explain", log, "b")
	if !strings.Contains(out, "waits: needs 4 GPUs; 0 free") || !strings.Contains(out, "when job a (8 GPUs) has ended") {
		t.Errorf("%s", out)
	}
	if got := completions(t, "explain", log, ""); !slices.Equal(got, []string{"d", "b", "c", "a"}) {
		t.Errorf("%q", got)
	}
}

// TestDaylight checks that a trace with times of day gives a log with times of
// day, also when its first jobs are not asked for.
func TestDaylight(t *testing.T) {
	dir := t.TempDir()
	path := file(t, "jobs.csv", "job,submit,gpus,duration\na,2026-03-01 08:00:00,8,60\nb,2026-03-02 09:30:00,8,60\n")
	works(t, "sim", path, "-c", "1x8", "-p", "fifo", "--out", dir, "-q", "--from", "2026-03-02")
	if out, _ := works(t, "explain", filepath.Join(dir, "fifo"), "b"); !strings.Contains(out, "2026-03-02 09:31:00  ends: done") {
		t.Errorf("%s", out)
	}
	works(t, "sim", path, "-c", "1x8", "-p", "fifo", "--out", dir, "-q", "--load", "2")
	if out, _ := works(t, "explain", filepath.Join(dir, "fifo"), "b"); !strings.Contains(out, "12:46:00  ends: done") || strings.Contains(out, "2026") {
		t.Errorf("%s", out)
	}
}

// TestLogAgain checks what is said when a log is replayed in another world, and
// that no trace is written over itself.
func TestLogAgain(t *testing.T) {
	dir := t.TempDir()
	path := file(t, "jobs.csv", jobs)
	works(t, "sim", path, "-c", "1x8", "-p", "fifo", "--out", dir, "-q", "--cost", "restore=30s", "--estimates", "user")
	log := filepath.Join(dir, "fifo")
	const want = "norn: the log was made with --cost=restore=30s --estimates=user, but this run is not\n"
	if _, errOut := works(t, "sim", log, "-p", "fifo"); errOut != want {
		t.Errorf("%q, want %q", errOut, want)
	}
	if _, errOut := works(t, "sim", log, "-p", "fifo", "--cost", "restore=30s", "--estimates", "user"); errOut != "" {
		t.Errorf("%q", errOut)
	}
	again := t.TempDir() // a flag of several values is told as it can be given
	works(t, "sim", path, "-c", "1x8", "-p", "fifo", "--out", again, "-q", "--cost", "restore=30s,start=5s")
	if _, errOut := works(t, "sim", filepath.Join(again, "fifo"), "-p", "fifo"); errOut != "norn: the log was made with --cost=restore=30s --cost=start=5s, but this run is not\n" {
		t.Errorf("%q", errOut)
	}
	for _, line := range [][]string{
		{"sim", log, "-p", "fifo,srtf", "--out", dir},
		{"sim", filepath.Join(log, "events.log.zst"), "-p", "fifo", "--out", dir},
		{"trace", "convert", path, path},
	} {
		if out, errOut, code := norn(t, line...); code != exitUsage || out != "" || !strings.Contains(errOut, "name another") {
			t.Errorf("norn %s: exit code %d, %q, %q", line, code, out, errOut)
		}
	}
	works(t, "explain", log, "a") // it is still there
}

// TestTrace generates, converts and summarises.
func TestTrace(t *testing.T) {
	dir := t.TempDir()
	made, packed := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.jsonl.zst")
	_, errOut := works(t, "trace", "generate", "--like", "venus", "--jobs", "200", "--gpus", "64", "--seed", "3", "-o", made)
	if want := "norn: wrote 200 jobs to " + made + "\n"; errOut != want {
		t.Errorf("%q, want %q", errOut, want)
	}
	text, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := works(t, "trace", "generate", "--like", "venus", "--jobs", "200", "--gpus", "64", "--seed", "3"); out != string(text) {
		t.Error("equal seeds give other traces")
	}
	works(t, "trace", "convert", made, packed)
	var a, b map[string]any
	for path, to := range map[string]*map[string]any{made: &a, packed: &b} {
		out, _ := works(t, "trace", "summary", path, "--json")
		if err := json.Unmarshal([]byte(out), to); err != nil {
			t.Fatal(err)
		}
	}
	if a["jobs"] != 200.0 || b["jobs"] != 200.0 {
		t.Errorf("%v and %v jobs", a["jobs"], b["jobs"])
	}
	if out, _ := works(t, "trace", "summary", made, "--limit", "50"); !strings.Contains(out, "50") {
		t.Errorf("%s", out)
	}
	if out, _ := works(t, "trace", "formats"); !strings.Contains(out, "philly") || !strings.Contains(out, "log (eventlog, norn-log)") {
		t.Errorf("%s", out)
	}
}

// TestLacks: what a policy lives on and a run does not have stands once beneath the table,
// or beside CSV and JSON on standard error, and in the files of the run.
func TestLacks(t *testing.T) {
	path, dir := file(t, "jobs.csv", jobs), filepath.Join(t.TempDir(), "out")
	const lack = "afs: no job is elastic; it acts as srtf but for the costs of transitions and the choice of GPUs. --assume goodput\n"
	out, errOut := works(t, "sim", path, "-c", "1x8", "-p", "afs,las", "-o", dir)
	if strings.Count(out, "! "+lack) != 1 || strings.Contains(errOut, "elastic") || !strings.Contains(out, "\nafs *! ") || !strings.Contains(out, "\nlas  ") {
		t.Errorf("%s%s", out, errOut)
	}
	for _, name := range []string{"afs/summary.json", "report.html"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(b), "no job is elastic; it acts as srtf but for") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, format := range []string{"csv", "json"} {
		out, errOut = works(t, "sim", path, "-c", "1x8", "-p", "afs,las", "--table", format)
		if strings.Count(out, "no job is elastic") != 1 || strings.Count(errOut, "norn: "+lack) != 1 {
			t.Errorf("%s%s", out, errOut)
		}
	}
	out, errOut = works(t, "sim", path, "-c", "1x8", "-p", "afs", "--assume", "goodput")
	if strings.Contains(out+errOut, "elastic;") {
		t.Errorf("%s%s", out, errOut)
	}
}

// TestUseLacks: whoever switches the policy is told once what the machine cannot give to it.
func TestUseLacks(t *testing.T) {
	f := busy()
	f.status.Lacks = []string{"no job is faster on one GPU type than on another; it shares GPUs as if all were alike"}
	_, errOut := liveWorks(t, f, "use", "gavel")
	if want := "norn: gavel: " + f.status.Lacks[0] + "\n"; errOut != want {
		t.Errorf("%q, want %q", errOut, want)
	}
}

// TestPoliciesNeeds: the list of policies says what each lives on, and the page of one what
// it does without.
func TestPoliciesNeeds(t *testing.T) {
	list, _ := works(t, "policies")
	one, _ := works(t, "policies", "afs")
	las, _ := works(t, "policies", "las")
	if !regexp.MustCompile(`(?m)^afs +times +preempts .*\n +elastic +resizes `).MatchString(list) || !regexp.MustCompile(`  elastic jobs +without: it acts as srtf but for the costs of transitions and the choice of GPUs +--assume goodput\n`).MatchString(one) ||
		!strings.Contains(las, "lives on: submissions and ends of jobs alone\n") {
		t.Errorf("%s\n%s\n%s", list, one, las)
	}
}

// TestDocs: the program shows every page of docs, finds the page of every policy, and writes
// a page of the manual for every verb.
func TestDocs(t *testing.T) {
	paths, err := filepath.Glob("../../docs/*.md")
	policies, e := filepath.Glob("../../docs/policies/*.md")
	if err != nil || e != nil || len(paths) < 15 || len(policies) < 30 {
		t.Fatal(len(paths), len(policies), err, e)
	}
	list, _ := works(t, "docs")
	for _, path := range append(paths, policies...) {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if out, _ := works(t, "docs", name); out != string(want) || !regexp.MustCompile(`\b`+name+`\b`).MatchString(list) {
			t.Errorf("%s is not shown", name)
		}
	}
	for _, e := range policy.Table() {
		if out, _ := works(t, "docs", e.Name); !strings.Contains(out, "`"+e.Name+"`: ") {
			t.Errorf("the page of %s is not found", e.Name)
		}
	}
	if out, _ := works(t, "docs", "--find", "SACCT", "history"); !strings.Contains(out, "slurm:") {
		t.Errorf("%s", out)
	}
	for line, want := range map[string]string{
		"policies fifo --suggest x.csv": "leave out the name of a policy", "docs --find": "which words?", "docs --man x live": "leave out pages, --find and --site", "docs --site x live": "leave out their names and --find", "docs api live": "one page at a time",
	} {
		if _, errOut, code := norn(t, strings.Fields(line)...); code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("norn %s: exit code %d, %q", line, code, errOut)
		}
	}
	dir := filepath.Join(t.TempDir(), "man")
	works(t, "docs", "--man", dir)
	for _, c := range root().Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		page, err := os.ReadFile(filepath.Join(dir, "norn-"+c.Name()+".1"))
		if err != nil || !strings.Contains(string(page), "norn "+c.Name()) {
			t.Errorf("%s: %v", c.Name(), err)
		}
	}
}

// TestVersionJSON: programs can read which build this is.
func TestVersionJSON(t *testing.T) {
	out, _ := works(t, "version", "--json")
	var b build
	if err := json.Unmarshal([]byte(out), &b); err != nil || b.Go != runtime.Version() || b.OS != runtime.GOOS {
		t.Errorf("%v: %s", err, out)
	}
}

// TestPoliciesFit: no line of the list of policies is wider than 80 cells, and JSON has all
// that it tells.
func TestPoliciesFit(t *testing.T) {
	list, _ := works(t, "policies")
	for _, line := range strings.Split(list, "\n") {
		if len(line) > 80 {
			t.Errorf("%d cells: %s", len(line), line)
		}
	}
	out, _ := works(t, "policies", "--json")
	var all []policyJSON
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	for i, e := range policy.Table() {
		if p := all[i]; p.Name != e.Name || p.Title != e.Title || p.Source != e.Source || len(p.LivesOn) != len(e.Needs()) || !slices.Equal(p.Does, e.Acts.Names()) || len(p.Parameters) != len(e.New().Params()) {
			t.Errorf("%s: %+v", e.Name, p)
		}
	}
	if one, _ := works(t, "policies", "afs", "--json"); json.Unmarshal([]byte(one), &all) != nil || len(all) != 1 || all[0].LivesOn[0].Get != "--assume goodput" {
		t.Errorf("%s", one)
	}
}

// TestSuggest: the command that is suggested for a trace runs as it stands.
func TestSuggest(t *testing.T) {
	path := file(t, "my jobs.csv", jobs)
	out, _ := works(t, "policies", "--suggest", path, "--cluster", "1x4", "--load", "2")
	command := regexp.MustCompile(`(?m)^  norn sim '(.*)' (.*) --policy '?([^'\n]*)'?$`).FindStringSubmatch(out)
	if command == nil || command[1] != path || command[2] != "--cluster=1x4 --load=2" || !strings.HasPrefix(command[3], "fifo,") {
		t.Fatalf("%s", out)
	}
	works(t, append([]string{"sim", path, "--policy", command[3]}, strings.Fields(command[2])...)...)
	var list []struct{ Policy, Why string }
	out, _ = works(t, "policies", "--suggest", path, "--cluster", "1x4", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 3 || list[0].Why == "" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestWithoutEstimates: who runs an order that rests on estimates without any is
// told so, and only then. Where some are known, it is told of how many jobs none is.
func TestWithoutEstimates(t *testing.T) {
	path := file(t, "jobs.csv", jobs)
	for _, c := range []struct {
		policy, estimates string
		told              bool
	}{{"srtf", "none", true}, {"srtf", "user", true}, {"srtf", "oracle", false}, {"las", "none", false}} {
		out, _ := works(t, "sim", path, "--cluster", "1x8", "--policy", c.policy, "--estimates", c.estimates)
		if told := strings.Contains(out, "\n! srtf: no run time is estimated; it acts as fifo(mode=skip). --estimates "); told != c.told {
			t.Errorf("%s with %s: %q", c.policy, c.estimates, out)
		}
	}
	some := file(t, "some.csv", "job,submit,gpus,duration,estimate\na,0,1,60,\nb,1,1,60,60\nc,2,1,60,\n")
	for policy, told := range map[string]bool{"srtf": true, "las": false} {
		_, errOut := works(t, "sim", some, "--cluster", "1x8", "--policy", policy, "--estimates", "user")
		if strings.Contains(errOut, "norn: "+policy+": nothing was known of the run time of 2 jobs (--estimates says") != told {
			t.Errorf("%s: %q", policy, errOut)
		}
	}
}

// TestSummaryAccounts: a program is told what became of every row.
func TestSummaryAccounts(t *testing.T) {
	out, _ := works(t, "trace", "summary", file(t, "jobs.csv", jobs+"bad,x,1,1,blue\n"), "--skip-bad", "--json")
	var sum struct {
		Jobs int
		File struct {
			Format    string
			Rows, Bad int
			Problems  []string
		}
	}
	if err := json.Unmarshal([]byte(out), &sum); err != nil {
		t.Fatal(err)
	}
	if f := sum.File; sum.Jobs != 4 || f.Rows != 5 || f.Bad != 1 || len(f.Problems) != 1 || !strings.Contains(f.Problems[0], "line 6") {
		t.Errorf("%+v", sum)
	}
}

// TestPipe replays a trace that can be read only once, as what a shell makes of
// <(zcat jobs.csv.gz).
func TestPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	if _, err := w.WriteString(jobs); err != nil { // less than a pipe holds
		t.Fatal(err)
	}
	w.Close()
	if out, _ := works(t, "sim", path, "-c", "2x8", "-p", "fifo"); !strings.Contains(out, "fifo") {
		t.Errorf("%q", out)
	}
}

// TestNoJobs: a trace without a job that is asked for is a failure of every verb.
func TestNoJobs(t *testing.T) {
	empty, some := file(t, "empty.csv", "job,gpus,duration\n"), file(t, "jobs.csv", jobs)
	written := filepath.Join(t.TempDir(), "out.csv")
	for _, args := range [][]string{
		{"trace", "summary", empty}, {"trace", "convert", empty, written}, {"sim", empty, "-c", "2x8"},
		{"trace", "summary", some, "--from", "500d"}, {"sim", some, "-c", "2x8", "--tenant", "nobody"},
	} {
		if _, errOut, code := norn(t, args...); code != exitFailed || !strings.Contains(errOut, "holds no jobs") && !strings.Contains(errOut, "none of its jobs was asked for") {
			t.Errorf("%s: exit code %d, %s", strings.Join(args, " "), code, errOut)
		}
	}
	if _, err := os.Stat(written); err == nil {
		t.Error("a file is left behind")
	}
}

// TestUnsorted: what the message about a file in the wrong order advises is a flag
// of every verb that reads traces.
func TestUnsorted(t *testing.T) {
	path := file(t, "itp.csv", "job_id,submission_time,duration,num_gpu\na,10,1,1\nb,5,1,1\n")
	for _, args := range [][]string{{"trace", "summary", path}, {"sim", path, "-c", "2x8"}, {"trace", "convert", path, filepath.Join(t.TempDir(), "o.csv")}} {
		if _, errOut, code := norn(t, args...); code != exitFailed || !strings.Contains(errOut, "line 3") || !strings.Contains(errOut, "--sort") {
			t.Errorf("%s: exit code %d, %s", strings.Join(args, " "), code, errOut)
		}
		works(t, append(args, "--sort")...)
	}
}

// TestHarmless: the name of a job says nothing to a terminal.
func TestHarmless(t *testing.T) {
	const red = "\x1b[31mred\u009b\a"
	out := t.TempDir()
	works(t, "sim", file(t, "jobs.csv", "job,tenant,user,gpus,duration\n"+red+","+red+","+red+",1,5\n"), "-c", "2x8", "-p", "fifo", "-o", out)
	for _, args := range [][]string{{"explain", filepath.Join(out, "fifo")}, {"explain", filepath.Join(out, "fifo"), red}, {"explain", filepath.Join(out, "fifo"), "no" + red}, {"sim", red}} {
		text, errOut, _ := norn(t, args...)
		if all := text + errOut; !strings.Contains(all, "?[31mred?") || strings.ContainsAny(all, "\x1b\u009b\a") {
			t.Errorf("%q: %q", args, all)
		}
	}
	var whole strings.Builder
	h := &harmless{w: &whole}
	for _, b := range []byte("é…\u202e\xff\tx\n" + red) { // byte by byte: runes go on in the next one
		if n, err := h.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := whole.String(); got != "é…??\tx\n?[31mred??" {
		t.Errorf("%q", got)
	}
}

// TestOtherVerbs runs the small ones.
func TestOtherVerbs(t *testing.T) {
	if out, _ := works(t, "version"); !strings.HasPrefix(out, "norn ") || !strings.Contains(out, "go1.") {
		t.Errorf("%q", out)
	}
	if out, _ := works(t, "--version"); !strings.HasPrefix(out, "norn ") {
		t.Errorf("%q", out)
	}
	out, _ := works(t, "policies")
	listed := strings.Join(strings.Fields(out), " ")
	for _, e := range policy.Table() {
		if !regexp.MustCompile(`(?m)^`+e.Name+` `).MatchString(out) || !strings.Contains(listed, strings.Fields(e.Source)[0]) {
			t.Errorf("norn policies does not tell of %s", e.Name)
		}
		one, _ := works(t, "policies", e.Name)
		for _, p := range e.New().Params() {
			if !strings.Contains(one, p.Name) || !strings.Contains(one, p.Doc) {
				t.Errorf("norn policies %s does not tell of %s", e.Name, p.Name)
			}
		}
	}
	if out, _ := works(t, "policies", "--placements"); !strings.Contains(out, "consolidated") {
		t.Errorf("%s", out)
	}
	if out, _ := works(t, "cluster", "2x8:V100+1x4:P100"); !strings.Contains(out, "V100") || !strings.Contains(out, "20") {
		t.Errorf("%s", out)
	}
	late := file(t, "late.yaml", "nodes: [{gpus: 8}, {gpus: 8, at: 12h}]\ntenants: [{name: lab, guarantee: 50%}]\ncosts: {restore: 20s}\n")
	if out, _ := works(t, "cluster", late); !strings.Contains(out, "arrive after") || !strings.Contains(out, "lab     -   8          none   1") || !strings.Contains(out, "20s") {
		t.Errorf("%s", out)
	}
	yaml, _ := works(t, "cluster", "2x8:V100", "--yaml")
	if again, _ := works(t, "cluster", file(t, "c.yaml", yaml), "--yaml"); again != yaml {
		t.Errorf("%s\nread and written again\n%s", yaml, again)
	}
	if out, _ := works(t, "cluster"); !strings.Contains(out, "philly") {
		t.Errorf("%s", out)
	}
	if out, _ := works(t); !strings.Contains(out, "Simulate clusters:") || strings.Contains(out, "Additional Commands:") {
		t.Errorf("%s", out)
	}
}
