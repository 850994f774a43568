package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/jobfile"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/policy/param"
)

// jobOption is a flag that sets a part of a job: on the command line of norn
// submit, or in a script that is submitted.
type jobOption struct {
	name, short string
	arg         string // what stands behind it, for the help; "bool": nothing
	doc         string
	set         func(spec *api.JobSpec, texts []string) error // texts: all that were given, in their order
}

// The words that parts of a job can be.
var (
	stopModes  = []string{"checkpoint", "freeze", "restart", "never", "last-save"}
	jobKinds   = []string{"training", "fine-tuning", "recommendation", "inference", "graph"}
	qosClasses = []string{"guaranteed", "opportunistic"}
)

// jobOptions are all of them, in the order of the help.
func (s *shell) jobOptions() []jobOption {
	return slices.Concat(s.needs(), s.conditions(), transitions(), s.surroundings(), content())
}

// needs are what a job asks for.
func (s *shell) needs() []jobOption {
	return []jobOption{
		{"gpus", "g", "GPUS", "GPUs of the whole job: 2, 0.5, 1-4 for a job that can be resized, 0 for none (default 1)", func(j *api.JobSpec, t []string) (err error) {
			j.GPUs, err = api.ParseRange(last(t))
			return err
		}},
		{"tasks", "", "N|per-gpu", "processes that start together (default 1: one process that sees all GPUs)", func(j *api.JobSpec, t []string) (err error) {
			j.Tasks, err = api.ParseTasks(last(t))
			return err
		}},
		{"cpus", "", "CORES", "CPU cores of the whole job", func(j *api.JobSpec, t []string) error { return decimalOption(&j.CPUs, t) }},
		{"mem", "", "SIZE", "main memory of the whole job, as in 64G", func(j *api.JobSpec, t []string) (err error) {
			j.Memory, err = jobfile.ParseMemory(last(t))
			return err
		}},
		{"gpu-mem", "", "SIZE", "memory that the job needs on each GPU", func(j *api.JobSpec, t []string) (err error) {
			j.GPUMem, err = jobfile.ParseMemory(last(t))
			return err
		}},
		{"slot", "", "NAME=N", "counted resource of the machine, so many for each GPU of the job; may be repeated", func(j *api.JobSpec, t []string) error {
			j.Slots = strings.Join(t, ",")
			return nil
		}},
		{"type", "", "TYPES", "acceptable GPU types, best first, separated by commas", func(j *api.JobSpec, t []string) error {
			j.Types = listed(t)
			return nil
		}},
		{"where", "", "EXPR", "condition on the labels of nodes: 'zone in (a,b), gpu-mem > 40, !spot'; | for or", func(j *api.JobSpec, t []string) error {
			j.Where = last(t)
			return new(job.Demand).SetWhere(j.Where)
		}},
		{"tolerate", "", "TAINTS", "taints of nodes that the job does not mind, separated by commas: spot, spot=yes:NoSchedule, * for all", func(j *api.JobSpec, t []string) error {
			j.Tolerate = strings.Join(t, ",")
			return new(job.Demand).SetTolerate(j.Tolerate)
		}},
		{"within", "", "LEVEL", "level of the topology of which all tasks must be in one place, such as rack or node; rack? if they should but need not", func(j *api.JobSpec, t []string) error {
			j.Within = last(t)
			return new(job.Demand).SetWithin(j.Within)
		}},
	}
}

// conditions are who a job counts for, and when it may run.
func (s *shell) conditions() []jobOption {
	return []jobOption{
		textOption("name", "NAME", "name of the job; jobs that run again and again should keep their name", func(j *api.JobSpec) *string { return &j.Name }),
		textOption("tenant", "NAME", "tenant to which the job belongs", func(j *api.JobSpec) *string { return &j.Tenant }),
		textOption("user", "NAME", "user that the job runs as (operators)", func(j *api.JobSpec) *string { return &j.User }),
		{"after", "", "JOB[:any|:failed]", "start the job when these jobs are done; with :any also if they failed, with :failed only then; singleton: when all earlier ones of the user with its name have ended", func(j *api.JobSpec, t []string) error {
			j.After = nil
			for _, text := range listed(t) {
				a, err := jobfile.ParseAfter(text)
				if err != nil {
					return err
				}
				j.After = append(j.After, a)
			}
			return nil
		}},
		textOption("array", "NUMBERS", "submit the job once for each number: 1-20, 1,3,7 or 0-100:10, with %4 behind it at most four at a time; each finds its number in NORN_ARRAY_INDEX", func(j *api.JobSpec) *string { return &j.Array }),
		{"hold", "", "bool", "hold the job until it is released", func(j *api.JobSpec, t []string) error { return boolOption(&j.Held, t) }},
		spanOption("est", "your estimate of the run time, as in 2h", func(j *api.JobSpec) *api.Seconds { return &j.Estimate }),
		spanOption("cpu-est", "your estimate of the run time without a GPU; the policy may then run the job on processors", func(j *api.JobSpec) *api.Seconds { return &j.CPUEst }),
		{"cpu-per-gpu", "", "CORES", "cores for each GPU, below which the job is slower in proportion, as where processors make its batches; policies such as bytegnn divide cores by it", func(j *api.JobSpec, t []string) error { return decimalOption(&j.PerGPU, t) }},
		spanOption("limit", "end the job when it has run for so long", func(j *api.JobSpec) *api.Seconds { return &j.Limit }),
		{"deadline", "", "TIME", "moment by which the job should have ended: 6h from now, or 2026-03-01 18:00", func(j *api.JobSpec, t []string) (err error) {
			j.Deadline, err = jobfile.Future(last(t), s.now())
			return err
		}},
		{"soft", "", "bool", "the end of the job is worth something after --deadline, too", func(j *api.JobSpec, t []string) error { return boolOption(&j.Soft, t) }},
		{"priority", "", "N", "priority class, larger first, for policies that use it", func(j *api.JobSpec, t []string) error {
			n, err := strconv.ParseInt(last(t), 10, 32)
			if err != nil {
				return fmt.Errorf("%q is not a whole number", last(t))
			}
			j.Priority = int32(n)
			return nil
		}},
	}
}

// transitions are what a job can do when it must leave, and what is done when it
// fails.
func transitions() []jobOption {
	return []jobOption{
		wordOption("tier", "TIER", "what the job is promised of the GPUs that it asks for, for policies that look at it", job.TierNames(), func(j *api.JobSpec) *string { return &j.Tier }),
		wordOption("stop", "MODE", "how the job leaves its GPUs when it is preempted", stopModes, func(j *api.JobSpec) *string { return &j.Stop.Mode }),
		textOption("stop-signal", "SIGNAL", "checkpoint: the signal that tells the job to save its state (default TERM)", func(j *api.JobSpec) *string { return &j.Stop.Signal }),
		{"stop-command", "", "COMMAND", "checkpoint: a shell command to use instead of the signal; NORN_PIDS lists the processes of the job", func(j *api.JobSpec, t []string) error {
			j.Stop.Command = []string{"/bin/sh", "-c", last(t)}
			return nil
		}},
		spanOption("grace", "checkpoint: time for saving, after which the job is killed", func(j *api.JobSpec) *api.Seconds { return &j.Stop.Grace }),
		{"again", "", "CODES", "checkpoint: exit codes with which the job says that it has saved its state (default 75)", func(j *api.JobSpec, t []string) error {
			j.Stop.Again = nil
			for _, text := range listed(t) {
				code, err := strconv.Atoi(text)
				if err != nil || code < 0 || code > 255 {
					return fmt.Errorf("%q is not an exit code", text)
				}
				j.Stop.Again = append(j.Stop.Again, code)
			}
			return nil
		}},
		{"criu", "", "bool", "checkpoint: CRIU saves and restores the job without its help; for CPU jobs of one task", func(j *api.JobSpec, t []string) error { return boolOption(&j.Stop.CRIU, t) }},
		{"retries", "", "N", "start the job again so many times after a failure; -1: always", func(j *api.JobSpec, t []string) error { return wholeOption(&j.Retry.Limit, -1, t) }},
		spanOption("backoff", "wait so long before each retry; doubled each time", func(j *api.JobSpec) *api.Seconds { return &j.Retry.Backoff }),
	}
}

// surroundings are what a job takes over from the shell.
func (s *shell) surroundings() []jobOption {
	return []jobOption{
		{"dir", "", "DIR", "working directory (default: the present one)", func(j *api.JobSpec, t []string) (err error) {
			j.Dir, err = s.absolute(last(t))
			return err
		}},
		{"env", "", "NAME[=VALUE]", "a variable of the job's environment; without a value, that of this shell; may be repeated", func(j *api.JobSpec, t []string) error {
			for _, text := range t {
				name, value, has := strings.Cut(text, "=")
				if !has {
					if value, has = s.lookup(name); !has {
						return fmt.Errorf("%s is not set in this shell: write %s=VALUE", name, name)
					}
				}
				if name == "" {
					return fmt.Errorf("%q does not name a variable: write NAME=VALUE", text)
				}
				if j.Env == nil {
					j.Env = map[string]string{}
				}
				j.Env[name] = value
			}
			return nil
		}},
		textOption("log", "FILE", "what it writes goes to this file, too: %j its number, %x its name, %A and %a number and index of an array, %r its run, %u its user; of norn submit also -o FILE", func(j *api.JobSpec) *string { return &j.Log }),
		{"pty", "", "bool", "give it a terminal of its own, as a shell wants: see norn attach", func(j *api.JobSpec, t []string) error { return boolOption(&j.PTY, t) }},
		{"umask", "", "MASK", "mask of the rights of files that it makes, as in 027 (default: that of this shell)", func(j *api.JobSpec, t []string) error {
			_, err := api.ParseUmask(last(t))
			j.Umask = last(t)
			return err
		}},
		{"ulimit", "", "NAME=SOFT[:HARD]", "a limit on its processes: " + strings.Join(api.ULimitNames(), ", ") + " (default: those of this shell); may be repeated", func(j *api.JobSpec, t []string) error {
			limits := map[string]string{}
			for name, value := range j.ULimits {
				limits[name] = value
			}
			for _, text := range t {
				name, value, _ := strings.Cut(text, "=")
				limits[name] = value
			}
			j.ULimits = limits
			return api.CheckULimits(limits)
		}},
	}
}

// content is what a job computes, for policies and estimators that know about it.
func content() []jobOption {
	return []jobOption{
		wordOption("kind", "KIND", "kind of work of the job", jobKinds, func(j *api.JobSpec) *string { return &j.Kind }),
		textOption("app", "NAME", "search that the job is one of the jobs of: jobs of yours with the same app share one finish time", func(j *api.JobSpec) *string { return &j.App }),
		{"rungs", "", "RUNGS", "rungs of the successive halving of --app: 4x8+2x16+1x36 is four jobs for 8 units each, two for 16 more, one for 36 more", func(j *api.JobSpec, t []string) error {
			j.Rungs = last(t)
			_, err := job.ParseRungs(j.Rungs)
			return err
		}},
		wordOption("resize", "WAY", "how the job comes to another size, for policies that change it", job.ResizeModes(), func(j *api.JobSpec) *string { return &j.Resize }),
		textOption("model", "NAME", "name of the model that is trained", func(j *api.JobSpec) *string { return &j.Model }),
		textOption("backbone", "NAME", "fine-tuning: the foundation model", func(j *api.JobSpec) *string { return &j.Backbone }),
		textOption("dataset", "NAME", "name of the data set", func(j *api.JobSpec) *string { return &j.Dataset }),
		{"share", "", "bool", "fine-tuning: the job may be merged with jobs of other users who allow that too", func(j *api.JobSpec, t []string) error { return boolOption(&j.Share, t) }},
		wordOption("plan", "PLAN", "layout of the layers of the model over the GPUs of the job", []string{job.Pipeline}, func(j *api.JobSpec) *string { return &j.Plan }),
		{"batch", "", "N", "global batch size", func(j *api.JobSpec, t []string) error { return wholeOption(&j.Batch, 0, t) }},
		{"units", "", "N", "whole work of the job in its own units, such as steps", func(j *api.JobSpec, t []string) error { return decimalOption(&j.Units, t) }},
		textOption("unit", "NAME", "unit of --units: steps, epochs, samples", func(j *api.JobSpec) *string { return &j.Unit }),
		{"resident", "", "COMMAND", "fine-tuning: a shell command that starts a trainer that keeps the backbone loaded; the job hands its work to the trainer", func(j *api.JobSpec, t []string) error {
			j.Resident.Command = []string{"/bin/sh", "-c", "exec " + last(t)}
			return nil
		}},
		{"use", "", "WHAT=PART", "use of each resource when alone, from 0 to 1, for policies that share devices: gpu=0.3,memory=0.1,host=0.1,cpu=0.5", useOption},
		{"stages", "", "STAGE=TIME", "time of a step in each stage when alone, for policies that interleave stages of jobs: load=40ms,gpu=100ms,network=20ms", stagesOption},
		textOption("shape", "LAYERS", "shapes of the layers of the model, by which its GPU memory is estimated: 'table users 1000000x16*3; layers deep 48x512x1; optimizer adam'", func(j *api.JobSpec) *string { return &j.Shape }),
		wordOption("qos", "CLASS", "entitlement of the job, for policies that distinguish owners from guests", qosClasses, func(j *api.JobSpec) *string { return &j.QoS }),
	}
}

// useOption reads what a job keeps busy.
func useOption(j *api.JobSpec, t []string) error {
	parts := map[string]*float64{"gpu": &j.Use.GPU, "memory": &j.Use.Memory, "host": &j.Use.Host, "cpu": &j.Use.CPU}
	for _, text := range listed(t) {
		name, value, _ := strings.Cut(text, "=")
		v, err := strconv.ParseFloat(value, 64)
		if parts[name] == nil || err != nil || !(v >= 0 && v <= 1) {
			return fmt.Errorf("%q: write gpu, memory, host or cpu, and a part from 0 to 1, as in gpu=0.3", text)
		}
		*parts[name] = v
	}
	return nil
}

// stagesOption reads the stages of a step.
func stagesOption(j *api.JobSpec, t []string) error {
	stages := map[string]*api.Seconds{"load": &j.Stages.Load, "gpu": &j.Stages.GPU, "network": &j.Stages.Network}
	for _, text := range listed(t) {
		name, value, _ := strings.Cut(text, "=")
		d, err := unit.ParseSeconds(value)
		if stages[name] == nil || err != nil || d < 0 {
			return fmt.Errorf("%q: write load, gpu or network, and a time, as in gpu=100ms", text)
		}
		*stages[name] = api.Of(d)
	}
	return nil
}

func last(texts []string) string { return texts[len(texts)-1] }

// listed are the parts of texts between commas.
func listed(texts []string) []string {
	var out []string
	for part := range strings.SplitSeq(strings.Join(texts, ","), ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func textOption(name, arg, doc string, field func(*api.JobSpec) *string) jobOption {
	return jobOption{name, "", arg, doc, func(j *api.JobSpec, t []string) error {
		*field(j) = last(t)
		return nil
	}}
}

func wordOption(name, arg, doc string, known []string, field func(*api.JobSpec) *string) jobOption {
	return jobOption{name, "", arg, doc + ": " + strings.Join(known, ", "), func(j *api.JobSpec, t []string) error {
		if !slices.Contains(known, last(t)) {
			return fmt.Errorf("%q: write one of %s%s", last(t), strings.Join(known, ", "), param.Near(last(t), known))
		}
		*field(j) = last(t)
		return nil
	}}
}

func spanOption(name, doc string, field func(*api.JobSpec) *api.Seconds) jobOption {
	return jobOption{name, "", "TIME", doc, func(j *api.JobSpec, t []string) error {
		d, err := unit.ParseSeconds(last(t))
		if err == nil && d < 0 {
			err = fmt.Errorf("%q lies in the past", last(t))
		}
		*field(j) = api.Of(d)
		return err
	}}
}

func boolOption(v *bool, t []string) error {
	b, err := strconv.ParseBool(last(t))
	if err != nil {
		return fmt.Errorf("%q: write true or false", last(t))
	}
	*v = b
	return nil
}

func wholeOption(v *int, least int, t []string) error {
	n, err := strconv.Atoi(last(t))
	if err != nil || n < least {
		return fmt.Errorf("%q: write a whole number from %d on", last(t), least)
	}
	*v = n
	return nil
}

func decimalOption(v *float64, t []string) error {
	f, err := strconv.ParseFloat(last(t), 64)
	if err != nil || !(f >= 0) || math.IsInf(f, 0) {
		return fmt.Errorf("%q: write a number, 0 or more", last(t))
	}
	*v = f
	return nil
}

// optionSet is the options that were given in one place.
type optionSet struct {
	options []jobOption
	given   []*texts
}

// texts is the value of a flag that keeps all that it was given.
type texts struct {
	arg  string
	list []string
}

func (t *texts) String() string     { return strings.Join(t.list, ",") }
func (t *texts) Type() string       { return t.arg }
func (t *texts) IsBoolFlag() bool   { return t.arg == "bool" }
func (t *texts) Set(s string) error { t.list = append(t.list, s); return nil }

// newOptions adds the options of a job to a set of flags.
func (s *shell) newOptions(fl *pflag.FlagSet) *optionSet {
	o := &optionSet{options: s.jobOptions()}
	for _, opt := range o.options {
		t := &texts{arg: opt.arg}
		o.given = append(o.given, t)
		f := fl.VarPF(t, opt.name, opt.short, opt.doc)
		if t.IsBoolFlag() {
			f.NoOptDefVal = "true"
		}
	}
	return o
}

// apply gives a job what was given.
func (o *optionSet) apply(spec *api.JobSpec) error {
	for i, opt := range o.options {
		if t := o.given[i]; len(t.list) > 0 {
			if err := opt.set(spec, t.list); err != nil {
				return misused("--%s: %w", opt.name, err)
			}
		}
	}
	return nil
}

// lookup is a variable of the shell.
func (s *shell) lookup(name string) (string, bool) {
	for _, v := range slices.Backward(s.environ()) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// absolute is a path as it is from everywhere.
func (s *shell) absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	dir, err := s.dir()
	if err != nil {
		return "", fmt.Errorf("the working directory is not known: %w", err)
	}
	return filepath.Join(dir, path), nil
}

// runVariables are those that a running job finds, and that another job which is
// submitted from within it must not.
var runVariables = []string{
	rundir.EnvJob, rundir.EnvRun, rundir.EnvName, rundir.EnvArrayID, rundir.EnvArrayIndex, rundir.EnvGPUs, rundir.EnvWorkers, rundir.EnvSocket, rundir.EnvToken,
	rundir.EnvResident, rundir.EnvVisible, rundir.EnvMasterAddr, rundir.EnvMasterPort,
}

// plainVariables are those that a job finds with --no-env too: without them
// hardly any program runs.
var plainVariables = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG"}

// environment is what a job takes over from the shell: all of it, or the plain
// variables alone.
func (s *shell) environment(plain bool) map[string]string {
	env := map[string]string{}
	inside := s.getenv(rundir.EnvJob) != ""
	for _, v := range s.environ() {
		name, value, ok := strings.Cut(v, "=")
		switch {
		case !ok || name == "":
		case plain && !slices.Contains(plainVariables, name):
		case inside && slices.Contains(runVariables, name), name == rundir.EnvToken:
		default:
			env[name] = value
		}
	}
	return env
}

// isFile tells whether there is a regular file.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
