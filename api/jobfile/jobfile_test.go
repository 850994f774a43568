package jobfile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.FixedZone("CET", 3600)) // a Wednesday

const wholeJob = `# every key of a job
name: bert
tenant: nlp
user: ann
command: [python, train.py, "--lr=1e-4", 3, true]
dir: /home/ann/bert
env:
  OMP_NUM_THREADS: 4
  GREETING: "a\tb"
  EMPTY: ""
  SCRIPT: |
    one
    two
gpus: 1-4:2
tasks: per-gpu
cpus: 16
mem: 64G
gpu_mem: 40GiB
types: [H100, A100]
priority: -3
after: [{job: 17, any: true}, 18, "19:any"]
array: 0-10:5
est: 2h30m
limit: 86400
deadline: 2026-03-05 18:00
soft: true
held: true
stop: {mode: checkpoint, signal: USR1, command: [./save, now], grace: 90s, criu: false}
retry: {limit: -1, backoff: 30}
app: learning-rate
rungs: 4x8+2x16+1x36
kind: training
model: bert-large
backbone: none
dataset: wiki
share: true
plan: pipeline
batch: 256
units: 1e5
unit: steps
shape: |
  table words 30000x768*512
  layers pooler 768x768x2
  optimizer adam
---
command:
  - make
  - |
    data
gpus: 0
types: V100
after: 3
---
command: ["true"]
`

// TestJobFile reads every key, and several jobs from one file.
func TestJobFile(t *testing.T) {
	got, err := Parse("job.yaml", []byte(wholeJob), noon)
	if err != nil {
		t.Fatal(err)
	}
	want := []api.JobSpec{
		{
			Name: "bert", Tenant: "nlp", User: "ann", Command: []string{"python", "train.py", "--lr=1e-4", "3", "true"}, Dir: "/home/ann/bert",
			Env:  map[string]string{"OMP_NUM_THREADS": "4", "GREETING": "a\tb", "EMPTY": "", "SCRIPT": "one\ntwo\n"},
			GPUs: api.Range{Least: 1, Most: 4, Ask: 2}, Tasks: api.Tasks{PerGPU: true}, CPUs: 16, Memory: 64 << 30, GPUMem: 40 << 30, Types: []string{"H100", "A100"}, Priority: -3,
			After: []api.After{{Job: "17", Any: true}, {Job: "18"}, {Job: "19", Any: true}}, Array: "0-10:5", Estimate: 9000, Limit: 86400,
			Deadline: time.Date(2026, 3, 5, 18, 0, 0, 0, noon.Location()), Soft: true, Held: true,
			Stop:  api.Stop{Mode: "checkpoint", Signal: "USR1", Command: []string{"./save", "now"}, Grace: 90},
			Retry: api.Retry{Limit: -1, Backoff: 30}, App: "learning-rate", Rungs: "4x8+2x16+1x36", Kind: "training", Model: "bert-large", Backbone: "none", Dataset: "wiki", Share: true, Plan: "pipeline", Batch: 256, Units: 1e5, Unit: "steps",
			Shape: "table words 30000x768*512\nlayers pooler 768x768x2\noptimizer adam\n",
		},
		{Command: []string{"make", "data\n"}, Types: []string{"V100"}, After: []api.After{{Job: "3"}}},
		{Command: []string{"true"}, GPUs: api.Fixed(1)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}

// TestJobFileIsJSON: what a program writes as JSON is read as well.
func TestJobFileIsJSON(t *testing.T) {
	first, err := Parse("job.yaml", []byte(wholeJob), noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range first {
		spec.GPUs = api.Range{Least: 2, Most: 4, Ask: 4}
		text, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("job.json", text, noon)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if len(again) != 1 || !again[0].Deadline.Equal(spec.Deadline) {
			t.Fatalf("%+v", again)
		}
		again[0].Deadline = spec.Deadline
		if !reflect.DeepEqual(again[0], spec) {
			t.Errorf("%+v\nwritten and read again\n%+v", spec, again[0])
		}
	}
}

// TestJobFileErrors: what is wrong is told with its line, and with the word that
// may be meant.
func TestJobFileErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"command: [a]\ngpu: 2\n", "job.yaml:2:1: a job has no key \"gpu\"; known are: after, "},
		{"command: [a]\ngpu: 2\n", "; did you mean gpus?\n    gpu: 2"},
		{"command: [a]\nstop:\n  grce: 3\n", "job.yaml:3:3: stop has no key \"grce\""},
		{"command: [a]\nstop:\n  grce: 3\n", "did you mean grace?"},
		{"command: python train.py\n", "job.yaml:1:10: command must be a list, as in [python, train.py]"},
		{"command: [a]\ngpus: many\n", `job.yaml:2:7: gpus: "many" is not a number of GPUs: write 2, 0.5 or 1-4`},
		{"command: [a]\ngpus: [1, 2]\n", "a single value is wanted here"},
		{"command: [a]\ntasks: 0\n", `tasks: "0" is not a number of tasks`},
		{"command: [a]\nmem: 16\n", `job.yaml:2:6: mem: "16" means only 16B: write the unit, as in 16G or 512M`},
		{"command: [a]\nmem: lots\n", `mem: "lots" is not an amount of memory`},
		{"command: [a]\nest: soon\n", `est: "soon" is not a duration`},
		{"command: [a]\ndeadline: soon\n", `deadline: "soon" is not a moment`},
		{"command: [a]\npriority: high\n", `priority: "high" is not a whole number`},
		{"command: [a]\npriority: 9999999999\n", `priority: "9999999999" is not a whole number`},
		{"command: [a]\ncpus: .inf\n", "job.yaml:2:7: "},
		{"command: [a]\nheld: maybe\n", `held: "maybe": write true or false`},
		{"command: [a]\nafter: 17:all\n", `after: "17:all": write the number of a job, 17:any`},
		{"command: [a]\nafter: [{job: 1, all: true}]\n", `after has no key "all"`},
		{"command: [a]\nenv: [A]\n", "env must be names with values"},
		{"command: [a]\nenv:\n  A:\n", "job.yaml:3:6: the value is missing"},
		{"command: [a]\nstop: checkpoint\n", "stop is written as keys and values"},
		{"command: [a]\nname: a\nname: b\n", "job.yaml:3:1: "},
		{"command: [a\n", "job.yaml:1:"},
		{"- a\n", "a job is written as keys and values"},
		{"", "job.yaml: the file has no job"},
		{"# nothing\n---\n", "job.yaml: the file has no job"},
		{"name: ads\ncommand: [a]\nbatch: 4\nshape: layers deep 48x0x1; optimizer adam\n", `job.yaml:4:8: shape of job ads: layers deep: "48x0x1": write the widths`},
		{"command: [a]\nshape: layers 48x1; optimizer adam\n", "job.yaml:2:8: shape: batch is not told"},
		{"shape: [layers 48x1]\n", "job.yaml:1:8: a single value"},
		{"command: &x [a]\nenv: {A: *x}\n", "anchors, aliases, tags and directives are not allowed here"},
		{"command: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested too deeply"},
		{"name: " + strings.Repeat("x", MaxSize), "at most 1 MiB"},
	} {
		specs, err := Parse("job.yaml", []byte(c.text), noon)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, %v; want %q", c.text, specs, err, c.want)
		}
	}
}

func FuzzJobFile(f *testing.F) {
	f.Add([]byte(wholeJob))
	f.Add([]byte("command: [a]\nname: b\nbatch: 3\nshape: table 1x1; layers 2x1; optimizer sgd; sparse; context 1G\n"))
	f.Add([]byte("command: [a]\n---\n---\ngpus: 1-4\n"))
	f.Add([]byte(`{"command":["a"],"gpus":"1-4","deadline":"2026-03-05T18:00:00Z"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		specs, err := Parse("job.yaml", text, noon)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "job.yaml:") {
				t.Errorf("%v", err)
			}
			return
		}
		if len(specs) == 0 {
			t.Error("neither a job nor an error")
		}
		for _, s := range specs {
			if _, err := json.Marshal(s); err != nil {
				t.Errorf("%+v cannot be sent: %v", s, err)
			}
		}
	})
}

// TestMoments reads moments as users write them.
func TestMoments(t *testing.T) {
	at := func(day, hour, minute int) time.Time {
		return time.Date(2026, 3, day, hour, minute, 0, 0, noon.Location())
	}
	for text, want := range map[string]time.Time{
		"2h": at(4, 14, 0), "90": noon.Add(90 * time.Second), "1d": at(5, 12, 0), "18:30": at(4, 18, 30), "2026-03-07": at(7, 0, 0), "2026-03-07 08:15": at(7, 8, 15),
		"2026-03-07T08:15:00": at(7, 8, 15), "2026-03-07T08:15:00Z": at(7, 9, 15), "tomorrow": at(5, 0, 0), "today": at(4, 0, 0), "now": noon,
	} {
		if got, err := Future(text, noon); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]time.Time{"2h": at(4, 10, 0), "1d": at(3, 12, 0), "yesterday": at(3, 0, 0), "08:00": at(4, 8, 0)} {
		if got, err := Past(text, noon); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "-2h", "2026-13-01", "25:00", "nan"} {
		if got, err := Past(text, noon); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

var codeWord = regexp.MustCompile("`([^`]+)`")

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestJobsPage: every key of a job stands in docs/jobs.md, and the examples there
// are read.
func TestJobsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "jobs.md"))
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	blocks := yamlBlock.FindAllSubmatch(page, -1)
	for _, b := range blocks {
		if _, err := Parse("docs/jobs.md", b[1], noon); err != nil {
			t.Error(err)
		}
		for line := range strings.SplitSeq(string(b[1]), "\n") {
			if key, _, ok := strings.Cut(line, ":"); ok {
				written = append(written, strings.TrimSpace(key))
			}
		}
	}
	var told []string // in the first cells of tables
	for line := range strings.SplitSeq(string(page), "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 2 && cells[0] == "" {
			for _, m := range codeWord.FindAllStringSubmatch(cells[1], -1) {
				told = append(told, m[1])
			}
		}
	}
	if len(blocks) < 3 {
		t.Errorf("only %d examples", len(blocks))
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[api.JobSpec](), reflect.TypeFor[api.Stop](), reflect.TypeFor[api.Retry](), reflect.TypeFor[api.Use](), reflect.TypeFor[api.Resident]()} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !slices.Contains(told, name) {
				t.Errorf("docs/jobs.md does not tell of the key %s of %s", name, typ.Name())
			}
			if !slices.Contains(written, name) {
				t.Errorf("docs/jobs.md has no example with %s of %s", name, typ.Name())
			}
		}
	}
}

// TestExampleJobs reads the job files of the examples.
func TestExampleJobs(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "..", "examples", "*", "job*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%q, %v", paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		specs, err := Parse(path, text, noon)
		if err != nil || len(specs) == 0 || len(specs[0].Command) == 0 {
			t.Errorf("%+v, %v", specs, err)
		}
	}
}
