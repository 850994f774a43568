package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/norn-scheduler/norn/api"
)

// submittedBy is the job that a command line submits.
func submittedBy(t *testing.T, s *shell, f *fake, args ...string) api.JobSpec {
	t.Helper()
	out, errOut, code := liveIn(t.Context(), s, append([]string{"submit"}, args...)...)
	if code != 0 || len(f.submitted) != 1 {
		t.Fatalf("norn submit %q: exit code %d, %d jobs, %s%s", args, code, len(f.submitted), out, errOut)
	}
	return f.submitted[0]
}

// TestSubmitFlags: every flag sets its part of the job, and nothing else.
func TestSubmitFlags(t *testing.T) {
	basic := api.JobSpec{
		Command: []string{"python", "train.py", "--lr", "3"}, Dir: "/srv/ann/work", GPUs: api.Fixed(1),
		Env: map[string]string{"PATH": "/bin", "HOME": "/srv/ann", "EXTRA": "1"},
	}
	for _, c := range []struct {
		flags string
		set   func(*api.JobSpec)
	}{
		{"", func(*api.JobSpec) {}},
		{"--gpus 2", func(j *api.JobSpec) { j.GPUs = api.Fixed(2) }},
		{"-g 0.5", func(j *api.JobSpec) { j.GPUs = api.Fixed(0.5) }},
		{"--gpus 0", func(j *api.JobSpec) { j.GPUs = api.Range{} }},
		{"--gpus 1-4:2", func(j *api.JobSpec) { j.GPUs = api.Range{Least: 1, Most: 4, Ask: 2} }},
		{"--tasks 3", func(j *api.JobSpec) { j.Tasks = api.Tasks{N: 3} }},
		{"--tasks per-gpu", func(j *api.JobSpec) { j.Tasks = api.Tasks{PerGPU: true} }},
		{"--cpus 1.5 --mem 16G --gpu-mem 40GB", func(j *api.JobSpec) { j.CPUs, j.Memory, j.GPUMem = 1.5, 16<<30, 40e9 }},
		{"--slot rdma=1 --slot license=2", func(j *api.JobSpec) { j.Slots = "rdma=1,license=2" }},
		{"--type A100,H100 --type V100", func(j *api.JobSpec) { j.Types = []string{"A100", "H100", "V100"} }},
		{"--name bert --tenant nlp --user eve", func(j *api.JobSpec) { j.Name, j.Tenant, j.User = "bert", "nlp", "eve" }},
		{"--after singleton", func(j *api.JobSpec) { j.After = []api.After{{Job: api.Singleton}} }},
		{"--after 3,4:any --after 5_1", func(j *api.JobSpec) { j.After = []api.After{{Job: "3"}, {Job: "4", Any: true}, {Job: "5_1"}} }},
		{"--array 1-20 --hold", func(j *api.JobSpec) { j.Array, j.Held = "1-20", true }},
		{"--est 2h --limit 1d --deadline 6h", func(j *api.JobSpec) { j.Estimate, j.Limit, j.Deadline = 7200, 86400, noon.Add(6*time.Hour) }},
		{"--priority -2", func(j *api.JobSpec) { j.Priority = -2 }},
		{"--stop checkpoint --stop-signal USR1 --grace 90s", func(j *api.JobSpec) { j.Stop = api.Stop{Mode: "checkpoint", Signal: "USR1", Grace: 90} }},
		{"--again 0,75", func(j *api.JobSpec) { j.Stop.Again = []int{0, 75} }},
		{"--stop=checkpoint --criu", func(j *api.JobSpec) { j.Stop = api.Stop{Mode: "checkpoint", CRIU: true} }},
		{"--stop-command save", func(j *api.JobSpec) { j.Stop.Command = []string{"/bin/sh", "-c", "save"} }},
		{"--retries -1 --backoff 5m", func(j *api.JobSpec) { j.Retry = api.Retry{Limit: -1, Backoff: 300} }},
		{"--dir sub/..//x", func(j *api.JobSpec) { j.Dir = "/srv/ann/work/x" }},
		{"--dir /data", func(j *api.JobSpec) { j.Dir = "/data" }},
		{"--env A=b=c --env HOME=/x --env EMPTY=", func(j *api.JobSpec) { j.Env["A"], j.Env["HOME"], j.Env["EMPTY"] = "b=c", "/x", "" }},
		{"--cpu-est 3m --use gpu=0.3,cpu=1 --use host=0", func(j *api.JobSpec) { j.CPUEst, j.Use = 180, api.Use{GPU: 0.3, CPU: 1} }},
		{"--qos opportunistic --stages load=40ms,gpu=0.1 --stages network=0", func(j *api.JobSpec) {
			j.QoS, j.Stages = "opportunistic", api.Stages{Load: 0.04, GPU: 0.1}
		}},
		{"--batch 8 --shape layers", func(j *api.JobSpec) { j.Batch, j.Shape = 8, "layers" }},
		{"--log %x-%j.out", func(j *api.JobSpec) { j.Log = "%x-%j.out" }},
		{"-o %x-%j.out", func(j *api.JobSpec) { j.Log = "%x-%j.out" }},
		{"-o ./json --pty", func(j *api.JobSpec) { j.Log, j.PTY = "./json", true }},
		{"--array 1-9%2 --after 17:failed", func(j *api.JobSpec) { j.Array, j.After = "1-9%2", []api.After{{Job: "17", Failed: true}} }},
		{"--umask 077 --ulimit nofile=64 --ulimit core=0:unlimited", func(j *api.JobSpec) {
			j.Umask, j.ULimits = "077", map[string]string{"nofile": "64", "core": "0:unlimited"}
		}},
		{"--no-env --env EXTRA", func(j *api.JobSpec) {}},
		{"--no-env", func(j *api.JobSpec) { delete(j.Env, "EXTRA") }},
		{"--app lr --rungs 4x8+1x16 --resize in-place --plan pipeline --kind fine-tuning --model bert --backbone llama --dataset wiki --share --batch 64 --units 1000 --unit steps", func(j *api.JobSpec) {
			j.App, j.Rungs, j.Resize, j.Plan = "lr", "4x8+1x16", "in-place", "pipeline"
			j.Kind, j.Model, j.Backbone, j.Dataset, j.Share, j.Batch, j.Units, j.Unit = "fine-tuning", "bert", "llama", "wiki", true, 64, 1000, "steps"
		}},
	} {
		want := basic
		want.Env = map[string]string{"PATH": "/bin", "HOME": "/srv/ann", "EXTRA": "1"}
		c.set(&want)
		for _, tail := range [][]string{{"--", "python", "train.py", "--lr", "3"}, {"python", "train.py", "--lr", "3"}} {
			f := busy()
			if got := submittedBy(t, shellOf(f), f, append(strings.Fields(c.flags), tail...)...); !reflect.DeepEqual(got, want) {
				t.Errorf("norn submit %s %q: %+v\nwant %+v", c.flags, tail, got, want)
			}
		}
	}
}

// TestSubmitOptionsComplete: every part of a job that a file can set, a flag can
// set, too.
func TestSubmitOptionsComplete(t *testing.T) {
	var fields []string
	var walk func(reflect.Value, string)
	walk = func(v reflect.Value, path string) {
		for i := range v.NumField() {
			name := path + v.Type().Field(i).Name
			if f := v.Field(i); f.Type() == reflect.TypeFor[api.Stop]() || f.Type() == reflect.TypeFor[api.Retry]() || f.Type() == reflect.TypeFor[api.Use]() || f.Type() == reflect.TypeFor[api.Stages]() || f.Type() == reflect.TypeFor[api.Resident]() {
				walk(f, name+".")
			} else if f.IsZero() {
				fields = append(fields, name)
			}
		}
	}
	spec := api.JobSpec{Command: []string{"a"}, Dir: "/"} // both are always set
	s := shellOf(nil)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	options := s.newOptions(flags)
	for _, o := range options.options {
		value := map[string]string{"GPUS": "1", "N|per-gpu": "2", "CORES": "1", "SIZE": "1G", "TYPES": "a", "NAME": "a", "JOB[:any|:failed]": "1", "NUMBERS": "1-2", "bool": "true", "TIME": "1h",
			"N": "1", "CODES": "75", "SIGNAL": "TERM", "COMMAND": "a", "DIR": "/a", "NAME[=VALUE]": "a=b", "MASK": "027", "FILE": "a", "NAME=SOFT[:HARD]": "nofile=1", "NAME=N": "rdma=1", "WHAT=PART": "gpu=1,memory=0.5,host=0.25,cpu=0.1", "LAYERS": "layers 2x1; optimizer sgd", "RUNGS": "2x1", "PLAN": "pipeline", "EXPR": "zone=a", "TAINTS": "spot", "LEVEL": "node", "STAGE=TIME": "load=1,gpu=2s,network=30ms"}[o.arg]
		switch o.arg {
		case "MODE":
			value = stopModes[0]
		case "KIND":
			value = jobKinds[0]
		case "CLASS":
			value = qosClasses[0]
		case "TIER":
			value = "standard"
		case "WAY":
			value = "in-place"
		}
		if err := flags.Set(o.name, value); err != nil || value == "" {
			t.Fatalf("--%s %s: %v", o.name, value, err)
		}
	}
	if err := options.apply(&spec); err != nil {
		t.Fatal(err)
	}
	walk(reflect.ValueOf(spec), "")
	if len(fields) > 0 {
		t.Errorf("no flag sets %q", fields)
	}
}

// TestSubmitMisuse: what makes no sense is told before anything is submitted.
func TestSubmitMisuse(t *testing.T) {
	plain := file(t, "train.py", "print()\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "name the command to run: norn submit -- python train.py, or -f job.yaml"},
		{[]string{"--gpus", "4-1", "true"}, `--gpus: "4-1" is not a number of GPUs`},
		{[]string{"--gpu", "4", "true"}, "unknown flag: --gpu; did you mean --gpus?"},
		{[]string{"--tasks", "none", "true"}, `--tasks: "none" is not a number of tasks`},
		{[]string{"--mem", "16", "true"}, `--mem: "16" means only 16B: write the unit`},
		{[]string{"--cpus", "-1", "true"}, `--cpus: "-1": write a number, 0 or more`},
		{[]string{"--cpus", "nan", "true"}, `--cpus: "nan": write a number, 0 or more`},
		{[]string{"--est", "soon", "true"}, `--est: "soon" is not a duration`},
		{[]string{"--est", "-1", "true"}, `--est: "-1" lies in the past`},
		{[]string{"--deadline", "late", "true"}, `--deadline: "late" is not a moment`},
		{[]string{"--after", "3:ok", "true"}, `--after: "3:ok": write the number of a job`},
		{[]string{"--stop", "checkpiont", "true"}, `--stop: "checkpiont": write one of checkpoint, freeze, restart, never, last-save; did you mean checkpoint?`},
		{[]string{"--kind", "x", "true"}, `--kind: "x": write one of training, `},
		{[]string{"--use", "gpu=30", "true"}, `--use: "gpu=30": write gpu, memory, host or cpu, and a part from 0 to 1`},
		{[]string{"--use", "disk=0.3", "true"}, `--use: "disk=0.3": write gpu, memory, host or cpu`},
		{[]string{"--stages", "disk=1s", "true"}, `--stages: "disk=1s": write load, gpu or network, and a time, as in gpu=100ms`},
		{[]string{"--stages", "gpu=fast", "true"}, `--stages: "gpu=fast": write load, gpu or network, and a time`},
		{[]string{"--qos", "best", "true"}, `--qos: "best": write one of guaranteed, opportunistic`},
		{[]string{"--again", "256", "true"}, `--again: "256" is not an exit code`},
		{[]string{"--retries", "-2", "true"}, `--retries: "-2": write a whole number from -1 on`},
		{[]string{"--priority", "high", "true"}, `--priority: "high" is not a whole number`},
		{[]string{"--env", "NOWHERE", "true"}, "--env: NOWHERE is not set in this shell: write NOWHERE=VALUE"},
		{[]string{"--env", "=x", "true"}, "--env: \"=x\" does not name a variable"},
		{[]string{"--follow", "--array", "1-2", "true"}, "--follow shows the output of one job"},
		{[]string{"-o", "yaml", "true"}, "--output yaml: write one of text, json, name"},
		{[]string{plain}, "does not name its interpreter: begin it with a line such as #!/bin/bash, or write norn submit -- python " + plain},
	} {
		f := busy()
		out, errOut, code := liveIn(t.Context(), shellOf(f), append([]string{"submit"}, c.args...)...)
		if code != exitUsage || out != "" || !strings.Contains(errOut, c.want) || len(f.submitted) > 0 {
			t.Errorf("norn submit %q: exit code %d, %q, %q, %d jobs; want %q", c.args, code, out, errOut, len(f.submitted), c.want)
		}
	}
	f := busy()
	f.refuse["submit"] = api.Refuse(api.Invalid, "there is no tenant red")
	if _, errOut, code := liveIn(t.Context(), shellOf(f), "submit", "true"); code != exitUsage || !strings.Contains(errOut, "there is no tenant red") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
	f.refuse["submit"] = api.Refuse(api.Unavailable, "the disk is full")
	if _, errOut, code := liveIn(t.Context(), shellOf(f), "submit", "true"); code != exitFailed || errOut != "norn: the disk is full\n" {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}

// TestSubmitFile: flags go before what a file says; a second document is a second
// job; a file with an error submits nothing.
func TestSubmitFile(t *testing.T) {
	path := file(t, "job.yaml", "name: one\ncommand: [a]\nenv: {A: file, HOME: file}\ndir: sub\ngpus: 4\n---\nname: two\ncommand: [b]\n")
	f := busy()
	out, _ := liveWorks(t, f, "submit", "-f", path, "--env", "A=flag", "--gpus", "2")
	if out != "17\n18\n" || len(f.submitted) != 2 {
		t.Fatalf("%q, %d jobs", out, len(f.submitted))
	}
	one, two := f.submitted[0], f.submitted[1]
	if one.Name != "one" || one.Dir != "/srv/ann/work/sub" || one.GPUs != api.Fixed(2) || one.Env["A"] != "flag" || one.Env["HOME"] != "file" || one.Env["EXTRA"] != "1" {
		t.Errorf("%+v", one)
	}
	if two.Name != "two" || two.Dir != "/srv/ann/work" || two.GPUs != api.Fixed(2) || !slices.Equal(two.Command, []string{"b"}) {
		t.Errorf("%+v", two)
	}
	f = busy()
	if got := submittedBy(t, shellOf(f), f, "-f", file(t, "c.yaml", "name: x\n"), "--", "python", "x.py"); !slices.Equal(got.Command, []string{"python", "x.py"}) || got.Name != "x" {
		t.Errorf("%+v", got)
	}
	bad := file(t, "bad.yaml", "command: [a]\n---\ncommand: [b]\ngpu: 1\n")
	f = busy()
	if _, errOut, code := liveIn(t.Context(), shellOf(f), "submit", "-f", bad); code != exitFailed || !strings.Contains(errOut, "bad.yaml:4:1: a job has no key \"gpu\"") || len(f.submitted) > 0 {
		t.Errorf("exit code %d, %q, %d jobs", code, errOut, len(f.submitted))
	}
	none := file(t, "none.yaml", "command: [a]\n---\nname: empty\n")
	if _, errOut, code := liveIn(t.Context(), shellOf(f), "submit", "-f", none); code != exitUsage || !strings.Contains(errOut, "job 2 of "+none+" has no command") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}

// TestSubmitPipeline: jobs of one file wait for each other by name, whatever their order there.
func TestSubmitPipeline(t *testing.T) {
	path := file(t, "pipeline.yaml", "name: report\nafter: [eval, 'train:any', 9]\ncommand: [r]\n---\nname: train\nafter: data\narray: 1-2\ncommand: [t]\n---\nname: data\ncommand: [d]\n---\nname: eval\nafter: train\ncommand: [e]\n")
	f := busy()
	out, _ := liveWorks(t, f, "submit", "-f", path)
	if out != "17\n18\n19\n20\n" || len(f.submitted) != 4 {
		t.Fatalf("%q, %d jobs", out, len(f.submitted))
	}
	for i, want := range []struct {
		name  string
		after []api.After
	}{
		{"data", nil}, {"train", []api.After{{Job: "17"}}}, {"eval", []api.After{{Job: "18"}}},
		{"report", []api.After{{Job: "19"}, {Job: "18", Any: true}, {Job: "9"}}},
	} {
		if got := f.submitted[i]; got.Name != want.name || !slices.Equal(got.After, want.after) {
			t.Errorf("%s after %v, want %+v", got.Name, got.After, want)
		}
	}
	for text, want := range map[string]string{
		"name: a\nafter: b\ncommand: [a]\n---\nname: b\nafter: a\ncommand: [b]\n": "jobs wait for each other, and none could start: a waits for b waits for a",
		"name: a\nafter: c\ncommand: [a]\n---\nname: b\ncommand: [b]\n":           `job a waits for "c": that is no number`,
	} {
		f := busy()
		if _, errOut, code := liveIn(t.Context(), shellOf(f), "submit", "-f", file(t, "bad.yaml", text)); code != exitFailed || !strings.Contains(errOut, want) || len(f.submitted) > 0 {
			t.Errorf("exit code %d, %q, %d jobs", code, errOut, len(f.submitted))
		}
	}
}

// TestSubmitScript: flags in a script's first lines are read, those of the command
// line go before them, and arguments are the script's.
func TestSubmitScript(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	path := write("run.sh", "#!/bin/bash -eu\n#NORN --gpus 2 --name 'my job'  # two of them\n\n#NORN --est=2h\n# a remark\necho\n#NORN --cpus 3\n")
	f := busy()
	s := shellOf(f)
	s.dir = func() (string, error) { return dir, nil }
	got := submittedBy(t, s, f, "--est", "1h", "run.sh", "--lr", "3")
	if !slices.Equal(got.Command, []string{"/bin/bash", "-eu", path, "--lr", "3"}) || got.GPUs != api.Fixed(2) || got.Name != "my job" || got.Estimate != 3600 || got.CPUs != 0 {
		t.Errorf("%+v", got)
	}
	f = busy()
	s.connect = shellOf(f).connect
	if got := submittedBy(t, s, f, "--", "run.sh"); !slices.Equal(got.Command, []string{"run.sh"}) || got.GPUs != api.Fixed(1) {
		t.Errorf("behind --: %+v", got)
	}
	write("train.py", "print()")
	for _, c := range []struct{ args, want string }{
		{"run.sh", "my job"}, {"slurm.sh", "slurm.sh"}, {"-- python3 -u train.py x.sh", "train.py"}, {"-- ./prog train.py", ""}, {"-- bash -c true", ""}, {"-f none.yaml -- python train.py", "train.py"},
	} {
		write("slurm.sh", "#!/bin/sh\n")
		write("none.yaml", "gpus: 0\n")
		f := busy()
		s.connect = shellOf(f).connect
		if got := submittedBy(t, s, f, strings.Fields(strings.ReplaceAll(c.args, "none.yaml", filepath.Join(dir, "none.yaml")))...); got.Name != c.want {
			t.Errorf("norn submit %s is called %q, want %q", c.args, got.Name, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"#!/bin/sh\n#NORN --gpu 2\n", "run2.sh:2: unknown flag: --gpu; did you mean --gpus?"},
		{"#!/bin/sh\n\n#NORN --gpus\n", "run2.sh:3: flag needs an argument: --gpus"},
		{"#!/bin/sh\n#NORN gpus=2\n", `run2.sh:2: "gpus=2" is not an option`},
		{"#!/bin/sh\n#NORN --name 'a\n", "run2.sh:2: a quote is not closed"},
		{"#!/bin/sh\n#NORN --gpus x\n", `run2.sh: --gpus: "x" is not a number of GPUs`},
	} {
		f := busy()
		s.connect = shellOf(f).connect
		if _, errOut, code := liveIn(t.Context(), s, "submit", write("run2.sh", c.text)); code != exitFailed || !strings.Contains(errOut, c.want) || len(f.submitted) > 0 {
			t.Errorf("%q: exit code %d, %q, want %q", c.text, code, errOut, c.want)
		}
	}
	write("slurm.sh", "#!/bin/sh\n#SBATCH --gres=gpu:2\n")
	if _, errOut, code := liveIn(t.Context(), s, "submit", "slurm.sh"); code != 0 || !strings.Contains(errOut, "slurm.sh: lines with #SBATCH are not read; docs/slurm.md says") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}

// TestSubmitProgram: a program that is no script is started as it is.
func TestSubmitProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(path, append([]byte("\x7fELF"), make([]byte, 200_000)...), 0o777); err != nil {
		t.Fatal(err)
	}
	f := busy()
	if got := submittedBy(t, shellOf(f), f, path, "-x"); !slices.Equal(got.Command, []string{path, "-x"}) {
		t.Errorf("%+v", got)
	}
}

// TestSubmitFromInside: a job that submits another does not hand on what is its
// own.
func TestSubmitFromInside(t *testing.T) {
	f := busy()
	got := submittedBy(t, shellOf(f, "NORN_JOB=3", "NORN_TOKEN=x", "NORN_ARRAY_INDEX=2", "CUDA_VISIBLE_DEVICES=1", "NORN_DEBUG=1"), f, "true")
	if want := map[string]string{"PATH": "/bin", "HOME": "/srv/ann", "EXTRA": "1", "NORN_DEBUG": "1"}; !reflect.DeepEqual(got.Env, want) {
		t.Errorf("%v", got.Env)
	}
	f = busy()
	if got := submittedBy(t, shellOf(f, "CUDA_VISIBLE_DEVICES=1", "NORN_TOKEN=x"), f, "true"); got.Env["CUDA_VISIBLE_DEVICES"] != "1" || got.Env["NORN_TOKEN"] != "" {
		t.Errorf("%v", got.Env)
	}
}

// TestSubmitTells: numbers for programs, sentences for people.
func TestSubmitTells(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"true"}, "17\n"},
		{[]string{"--parsable", "true"}, "17\n"},
		{[]string{"--array", "1-2", "true"}, "17\n"},
		{[]string{"-o", "name", "true"}, "17\n"},
	} {
		if out, errOut := liveWorks(t, busy(), append([]string{"submit"}, c.args...)...); out != c.want || errOut != "" {
			t.Errorf("%q: %q, %q", c.args, out, errOut)
		}
	}
	var list []submitted
	out, _ := liveWorks(t, busy(), "submit", "--json", "--array", "1-2", "--name", "a", "true")
	if err := json.Unmarshal([]byte(out), &list); err != nil || !reflect.DeepEqual(list, []submitted{{"17", "a", []string{"17_1", "17_2"}}}) {
		t.Errorf("%s, %v", out, err)
	}
	for want, s := range map[string]submitted{"submitted job 17": {ID: "17"}, "submitted job 17, an array of 2": {ID: "17", Jobs: []string{"17_1", "17_2"}}} {
		if got := s.text(false); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSubmitWait: --wait ends with the job, whatever happens to the daemon in
// between, and with its exit code.
func TestSubmitWait(t *testing.T) {
	for _, c := range []struct {
		ended api.Job
		code  int
		want  string
	}{
		{api.Job{State: api.Done, Ran: 65}, 0, "norn: job 17 is done after 1m5s\n"},
		{api.Job{State: api.Failed, Exit: &api.Exit{Code: 3}, Reason: "it failed"}, 3, "norn: job 17 failed with exit code 3: it failed\n"},
		{api.Job{State: api.Failed, Exit: &api.Exit{Code: 137, Signal: "SIGKILL", Note: "out of memory"}}, 137, "norn: job 17 failed with SIGKILL (out of memory)\n"},
		{api.Job{State: api.Failed, Reason: "it could not be started"}, 1, "norn: job 17 failed: it could not be started\n"},
		{api.Job{State: api.Cancelled}, 1, "norn: job 17 was cancelled\n"},
	} {
		f := &fake{refuse: map[string]error{}, tell: make(chan api.Event, 1)}
		f.onLook = func(n int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			j := api.Job{ID: "17", State: api.Waiting}
			switch {
			case n == 2:
				f.refuse["jobs"] = api.Refuse(api.Unavailable, "norn is stopping")
			case n > 2:
				delete(f.refuse, "jobs")
				j = c.ended
				j.ID = "17"
			}
			f.list = []api.Job{j}
			f.tell <- api.Event{}
		}
		out, errOut, code := liveIn(t.Context(), shellOf(f), "submit", "--wait", "true")
		want := "norn: norn is stopping; waiting for it\nnorn: it answers again\n" + c.want
		if code != c.code || out != "17\n" || errOut != want {
			t.Errorf("%+v: exit code %d, %q, %q, want %d, %q", c.ended, code, out, errOut, c.code, want)
		}
	}
}

// TestSubmitWaitArray: the largest exit code counts, and each that failed is told.
func TestSubmitWaitArray(t *testing.T) {
	f := &fake{refuse: map[string]error{}, list: []api.Job{
		{ID: "17_1", State: api.Done}, {ID: "17_2", State: api.Failed, Exit: &api.Exit{Code: 4}},
	}}
	out, errOut, code := liveIn(t.Context(), shellOf(f), "submit", "--wait", "--array", "1-2", "true")
	if code != 4 || out != "17\n" || errOut != "norn: job 17_2 failed with exit code 4\n" {
		t.Errorf("exit code %d, %q, %q", code, out, errOut)
	}
}

// TestSubmitFollow shows what all runs of a job write, through a preemption.
func TestSubmitFollow(t *testing.T) {
	f := &fake{refuse: map[string]error{}, tell: make(chan api.Event, 1), output: map[string]string{"17/1": "step 1\n", "17/2": "step 2\n"}}
	f.onLook = func(n int) {
		j := api.Job{ID: "17", State: api.Waiting, Command: []string{"true"}}
		switch {
		case n == 2:
			j.State, j.Run = api.Running, 1
		case n == 3:
			j.State, j.Run = api.Waiting, 1
		case n == 4:
			j.State, j.Run = api.Assigned, 2
		case n == 5:
			j.State, j.Run = api.Running, 2
		case n > 5:
			j.State, j.Run, j.Exit = api.Failed, 2, &api.Exit{Code: 5}
		}
		f.mu.Lock()
		f.list = []api.Job{j}
		f.mu.Unlock()
		f.tell <- api.Event{}
	}
	out, errOut, code := liveIn(t.Context(), shellOf(f), "submit", "--follow", "true")
	if want := "submitted job 17\nnorn: run 2 of job 17 starts\nnorn: job 17 failed with exit code 5\n"; code != 5 || out != "step 1\nstep 2\n" || errOut != want {
		t.Errorf("exit code %d, %q, %q", code, out, errOut)
	}
}

// TestSubmitInterrupted: who is interrupted while waiting leaves the job alone.
func TestSubmitInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{refuse: map[string]error{}, list: []api.Job{{ID: "17", State: api.Running}}, onLook: func(int) { cancel() }}
	out, errOut, code := liveIn(ctx, shellOf(f), "submit", "--wait", "true")
	if code != exitInterrupted || out != "17\n" || errOut != "norn: interrupted\n" {
		t.Errorf("exit code %d, %q, %q", code, out, errOut)
	}
	if i := slices.IndexFunc(f.asked, func(call string) bool { return strings.HasPrefix(call, "cancel") }); i >= 0 {
		t.Errorf("%q", f.asked)
	}
}

// TestShellWords divides lines as shells do.
func TestShellWords(t *testing.T) {
	for line, want := range map[string][]string{
		`--a b  c`: {"--a", "b", "c"}, `'a b' "c'd"e ''`: {"a b", "c'de", ""}, "a\t# rest": {"a"}, "a#b": {"a#b"}, "": nil,
	} {
		if got, err := shellWords(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
	if got, err := shellWords(`'a`); err == nil {
		t.Errorf("%q", fmt.Sprint(got))
	}
}

// TestSubmitTakesOver: a job gets the mask of rights and the limits of the shell, and what
// its flags say instead.
func TestSubmitTakesOver(t *testing.T) {
	f := busy()
	s := shellOf(f)
	s.process = func() (string, map[string]string) {
		return "0027", map[string]string{"nofile": "1024:4096", "core": "0"}
	}
	got := submittedBy(t, s, f, "--ulimit", "core=unlimited", "--", "true")
	if want := map[string]string{"nofile": "1024:4096", "core": "unlimited"}; got.Umask != "0027" || !reflect.DeepEqual(got.ULimits, want) {
		t.Errorf("%q, %v", got.Umask, got.ULimits)
	}
	if mask, limits := ofProcess(); runtime.GOOS == "linux" && (mask == "" || len(limits) != len(api.ULimitNames()) || api.CheckULimits(limits) != nil) {
		t.Errorf("of this process: %q, %v", mask, limits)
	}
}
