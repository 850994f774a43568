package local

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

// entry is a job that has not ended, with the part that only this machine
// knows: its run. It can be made again from the state folder.
type entry struct {
	live.Job
	stored *stored      // as it was submitted
	cred   *rundir.User // the user it runs as; nil: that of the daemon

	stage   stage
	seq     int // of the last Want
	want    rundir.Want
	status  rundir.Status
	exit    *rundir.Exit // of the last run that ended
	token   string
	saved   rundir.Saved // of the last run
	limits  rundir.Limits
	batch   int // global batch size that its tasks are told, 0: their own
	began   time.Duration
	trapped bool          // devices of it are taken back, and there is no room for it elsewhere
	undone  bool          // it starts again without the work that it had done
	noise   time.Duration // when the noise of its gradients was last noted
	exceeds time.Duration // since when it uses more memory than is booked; 0: it does not
	changed chan struct{} // closed when what its tasks are told changes

	packers  []*packer // through which its run computes
	resident *resident // to which its run hands its work
	warm     bool      // that was there before
	measured bool      // how long it took to make progress
	forget   bool      // it is not to go on from its checkpoints
	trial    trial     // of its merging
	gauge    gauge
	series   series
}

// intake checks submissions. It may be used by any goroutine.
type intake struct{ opt *Options }

// launches counts the events that made a new run of a job necessary. The
// present run is that of the last of them.
func launches(r *job.Record) int { return int(r.Starts + r.Resizes + r.Migrations) }

// The wants of one launch, in the order in which they replace each other.
const (
	seqGo = iota
	seqLeave
	seqRequeue
	seqCancel
	seqs
)

// engineJob is the job as the engine knows it. It refuses a job that cannot run
// on this machine.
func (d *Daemon) engineJob(s *stored, key string, now time.Duration) (job.Job, error) {
	spec := &s.Spec
	demand, err := shape(spec)
	if err != nil {
		return job.Job{}, err
	}
	stop, _ := job.ParseStopMode(spec.Stop.Mode)  // checked by complete
	resize, _ := job.ParseResizeMode(spec.Resize) // the same
	tier, _ := job.ParseTier(spec.Tier)           // the same
	kind, _ := job.ParseKind(spec.Kind)
	j := job.Job{
		Key: key, Name: spec.Name, User: s.User, Tenant: spec.Tenant, App: spec.App, Submit: now, Demand: d.Shape(demand),
		Kind: kind, Model: spec.Model, Backbone: spec.Backbone, Dataset: spec.Dataset, Share: spec.Share, Batch: spec.Batch,
		Units: spec.Units, Unit: spec.Unit, Priority: spec.Priority, Estimate: spec.Estimate.Duration(),
		Tier: tier, Stop: stop, Resize: resize, Retries: int32(spec.Retry.Limit),
	}
	if !spec.Deadline.IsZero() {
		j.Deadline, j.Soft = max(1, d.Loop.Clock.Since(spec.Deadline)), spec.Soft
	}
	j.Hints = hints(spec)
	return j, nil
}

// hints are what a job tells beside its demand; nil: nothing.
func hints(spec *api.JobSpec) *job.Hints {
	h := job.Hints{
		GPUUse: spec.Use.GPU, MemoryUse: spec.Use.Memory, HostUse: spec.Use.Host, CPUUse: spec.Use.CPU,
		CPUTime: spec.CPUEst.Duration(), CPUEstimate: spec.CPUEst.Duration(), QoS: spec.QoS, Plan: spec.Plan,
		CPUPerGPU: unit.Milli(math.Round(spec.PerGPU * 1000)),
		Stages:    [3]time.Duration{spec.Stages.Load.Duration(), spec.Stages.GPU.Duration(), spec.Stages.Network.Duration()},
	}
	if spec.Shape != "" {
		h.Shape, _ = job.ParseShape(spec.Shape) // checked by complete
	}
	h.Rungs, _ = job.ParseRungs(spec.Rungs) // checked by complete
	if h == (job.Hints{}) {
		return nil
	}
	return &h
}

// demand is the shape of a job. It fails, as a refusal, on what this machine could not run.
func (d intake) demand(spec *api.JobSpec) (job.Demand, error) {
	demand, err := shape(spec)
	if err != nil {
		return demand, err
	}
	return demand, d.possible(spec, &demand)
}

// shape is the shape of a job: one task of the engine for each GPU, or one for a part of a
// GPU or for none.
func shape(spec *api.JobSpec) (job.Demand, error) {
	r := job.Role{Name: "worker", Tasks: 1, GPUMemory: unit.Bytes(spec.GPUMem)}
	g := spec.GPUs
	parts := 1.0
	switch {
	case g.Ask >= 1:
		r.Tasks, r.GPU = int32(g.Ask), unit.One
		if g.Elastic() {
			r.Min, r.Max = int32(g.Least), int32(g.Most)
		}
		parts = g.Ask
	case g.Ask > 0:
		r.GPU = unit.Milli(g.Ask*1000 + 0.5)
	}
	r.CPU = unit.Milli(spec.CPUs*1000/parts + 0.5)
	r.Memory = unit.Bytes(float64(spec.Memory)/parts + 0.5)
	var err error
	if r.Slots, err = job.ParseSlots(spec.Slots); err != nil {
		return job.Demand{}, api.Refuse(api.Invalid, "slots: %v", err)
	}
	demand := job.Demand{Types: strings.Join(spec.Types, "|")}
	demand.Roles[0] = r
	if err := spec.Place(&demand); err != nil {
		return demand, api.Refuse(api.Invalid, "%v", err)
	}
	if err := demand.Check(); err != nil {
		return demand, api.Refuse(api.Invalid, "the job %v", err)
	}
	return demand, nil
}

// possible refuses a job that this machine could not run even if nothing else
// ran.
func (d intake) possible(spec *api.JobSpec, demand *job.Demand) error {
	m := &d.opt.Machine
	fit := 0
	var largest api.Bytes
	for _, dev := range m.Devices {
		if len(spec.Types) > 0 && !slices.Contains(spec.Types, dev.Type) || len(spec.Types) == 0 && dev.Host {
			continue
		}
		largest = max(largest, dev.Memory)
		if dev.Memory == 0 || dev.Memory >= spec.GPUMem {
			fit++
		}
	}
	least := spec.GPUs.Ask
	switch {
	case least > 0 && fit == 0 && len(m.Devices) > 0 && len(spec.Types) > 0 && largest == 0:
		return api.Refuse(api.Invalid, "no GPU here is of a type that the job accepts (%s)", strings.Join(spec.Types, ", "))
	case least > 0 && fit == 0 && len(m.Devices) > 0:
		return api.Refuse(api.Invalid, "the job needs %s of memory on each GPU; the largest here has %s", unit.Bytes(spec.GPUMem), unit.Bytes(largest))
	case int(least+0.999) > fit:
		return api.Refuse(api.Invalid, "the job needs %v GPUs; this machine has %d that it could use", least, fit)
	case m.Node.CPU > 0 && demand.CPU() > m.Node.CPU:
		return api.Refuse(api.Invalid, "the job needs %v CPUs; this machine has %v", demand.CPU(), m.Node.CPU)
	case m.Node.Memory > 0 && demand.Memory() > m.Node.Memory:
		return api.Refuse(api.Invalid, "the job needs %s of memory; this machine has %s", demand.Memory(), m.Node.Memory)
	}
	has := m.counted()
	for name, n := range demand.Roles[0].Slots.All() {
		if all := n * int64(demand.Roles[0].Tasks); all > has[name] {
			return api.Refuse(api.Invalid, "the job needs %d %s; this machine has %d", all, name, has[name])
		}
	}
	return d.admits(demand)
}

// admits refuses a job that may not use this machine.
func (d intake) admits(demand *job.Demand) error {
	c := cluster.New()
	node := cluster.NodeSpec{Name: d.opt.Machine.Node.Name, Labels: d.opt.Machine.Node.Labels, Taints: d.opt.Machine.Node.Taints}
	if _, err := c.AddNode(node); err != nil {
		return err
	}
	scope, err := c.Scope(demand.Condition(0))
	if err != nil {
		return api.Refuse(api.Invalid, "%v", err)
	}
	if why := c.NoNode(scope); why != "" {
		return api.Refuse(api.Invalid, "the job may not use this machine: %s", why)
	}
	return nil
}

// maxCommand bounds a command line and an environment, as the kernel does.
const maxCommand = 1 << 20

// complete checks a submission and fills in every default.
func (d intake) complete(spec *api.JobSpec) error {
	bad := func(format string, args ...any) error { return api.Refuse(api.Invalid, format, args...) }
	if err := checkCommand(spec); err != nil {
		return err
	}
	switch {
	case len(spec.Resident.Command) > 0 && (spec.Backbone == "" || spec.GPUs.Ask == 0 || spec.Tasks.Of(int(spec.GPUs.Most)) > 1):
		return bad("a resident trainer is for jobs of one task that tell their backbone and ask for GPUs")
	case !strings.HasPrefix(spec.Dir, "/"):
		return bad("the working directory %q must be an absolute path", spec.Dir)
	case strings.ContainsRune(spec.Dir, 0):
		return bad("the working directory contains a zero byte")
	case spec.CPUs < 0 || !(spec.PerGPU >= 0 && spec.PerGPU <= 1e6) || spec.Memory < 0 || spec.GPUMem < 0 || spec.Estimate < 0 || spec.CPUEst < 0 || spec.Limit < 0 || spec.Retry.Backoff < 0 || spec.Stop.Grace < 0:
		return bad("a size or a time is negative")
	case !isPart(spec.Use.GPU, spec.Use.Memory, spec.Use.Host, spec.Use.CPU):
		return bad("the use of a job is a part of the whole: write 0 to 1")
	case spec.CPUEst > 0 && (spec.GPUs.Ask == 0 || spec.GPUs.Ask > 1 || spec.Tasks.Of(1) > 1):
		return bad("cpu_est is for jobs of one task that ask for one GPU, or for a part of one, and can do without it")
	case spec.Retry.Limit < -1:
		return bad("a job can be retried 0 times or more, or -1 for always")
	}
	for _, text := range []string{spec.Name, spec.Tenant, spec.App, spec.Model, spec.Backbone, spec.Dataset, spec.Unit} {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return bad("%q contains control characters", text)
		}
	}
	if err := checkSurroundings(spec); err != nil {
		return err
	}
	if spec.Name == "" {
		spec.Name = spec.Command[0][strings.LastIndexByte(spec.Command[0], '/')+1:]
	}
	if err := spec.CheckShape(); err != nil {
		return bad("%v", err)
	}
	if spec.Plan != "" && spec.Plan != job.Pipeline {
		return bad("plan of job %s: %q: write %s, or nothing", spec.Name, spec.Plan, job.Pipeline)
	}
	if _, err := job.ParseRungs(spec.Rungs); err != nil {
		return bad("rungs of job %s: %v", spec.Name, err)
	}
	if spec.Retry == (api.Retry{}) {
		spec.Retry = d.opt.Defaults.Retry
	}
	if spec.CPUs == 0 && spec.GPUs.Ask == 0 {
		spec.CPUs = d.opt.Defaults.CPUs
	}
	if _, ok := job.ParseKind(spec.Kind); !ok {
		return bad("no kind of job %q", spec.Kind)
	}
	if _, ok := job.ParseTier(spec.Tier); !ok {
		return bad("no tier %q: write basic, standard or premium", spec.Tier)
	}
	switch way, ok := job.ParseResizeMode(spec.Resize); {
	case !ok:
		return bad("no way to resize %q: write restart, in-place or time-sliced", spec.Resize)
	case way == job.TimeSliced && spec.GPUs.Most > spec.GPUs.Ask:
		return bad("job %s of %s GPUs resizes time-sliced: it has %v workers, as many as the GPUs that it asks for, and no turn is left for more", spec.Name, spec.GPUs, spec.GPUs.Ask)
	}
	if err := checkTasks(spec); err != nil {
		return err
	}
	return d.completeStop(&spec.Stop, spec)
}

// checkCommand refuses commands and an environment that no process can have.
func checkCommand(spec *api.JobSpec) error {
	bad := func(format string, args ...any) error { return api.Refuse(api.Invalid, format, args...) }
	if len(spec.Command) == 0 || spec.Command[0] == "" {
		return bad("the job has no command")
	}
	size := 0
	for _, arg := range spec.Command {
		if strings.ContainsRune(arg, 0) {
			return bad("the command contains a zero byte")
		}
		size += len(arg)
	}
	for name, value := range spec.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return bad("the environment contains a variable %q that cannot be", name)
		}
		size += len(name) + len(value)
	}
	for _, arg := range spec.Resident.Command {
		if size += len(arg); strings.ContainsRune(arg, 0) {
			return bad("the command of the resident trainer contains a zero byte")
		}
	}
	if size > maxCommand {
		return bad("command and environment have %d bytes together, at most %d are allowed", size, maxCommand)
	}
	return nil
}

// checkSurroundings refuses what no process can take over.
func checkSurroundings(spec *api.JobSpec) error {
	if spec.Umask != "" {
		if _, err := api.ParseUmask(spec.Umask); err != nil {
			return api.Refuse(api.Invalid, "%v", err)
		}
	}
	if strings.ContainsFunc(spec.Log, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return api.Refuse(api.Invalid, "the name of the log contains control characters")
	}
	if !rundir.IsLogName(spec.Log) {
		return api.Refuse(api.Invalid, "the log %q has a placeholder that is none: write %%j, %%x, %%A, %%a, %%r, %%u, or %%%% for a %%", spec.Log)
	}
	if spec.PTY && (spec.Tasks.Of(int(max(1, spec.GPUs.Most))) > 1 || spec.Stop.CRIU) {
		return api.Refuse(api.Invalid, "a job with a terminal has one task, and is not saved by CRIU")
	}
	if err := api.CheckULimits(spec.ULimits); err != nil {
		return api.Refuse(api.Invalid, "%v", err)
	}
	return nil
}

// isPart tells whether all numbers are from 0 to 1.
func isPart(all ...float64) bool {
	return !slices.ContainsFunc(all, func(v float64) bool { return !(v >= 0 && v <= 1) })
}

// checkTasks sees to it that GPUs and tasks can be dealt out evenly.
func checkTasks(spec *api.JobSpec) error {
	n, g := spec.Tasks.N, int(spec.GPUs.Ask)
	switch {
	case spec.Tasks.PerGPU || n <= 1 || g == 0:
		return nil
	case spec.GPUs.Elastic():
		return api.Refuse(api.Invalid, "a job of %s GPUs can have one task, or one per GPU (per-gpu), not %d", spec.GPUs, n)
	case g%n != 0 && n%g != 0:
		return api.Refuse(api.Invalid, "%d GPUs cannot be dealt out evenly to %d tasks", g, n)
	}
	return nil
}

func (d intake) completeStop(s *api.Stop, spec *api.JobSpec) error {
	def := &d.opt.Defaults.Stop
	if s.Mode == "" {
		s.Mode = def.Mode
		if s.CRIU || len(s.Command) > 0 || s.Signal != "" {
			s.Mode = job.Checkpoint.String()
		}
	}
	if _, ok := job.ParseStopMode(s.Mode); !ok {
		return api.Refuse(api.Invalid, "no way to stop %q: write checkpoint, freeze, restart, never or last-save", s.Mode)
	}
	if s.Signal == "" {
		s.Signal = "TERM"
	}
	if !rundir.KnownSignal(s.Signal) {
		return api.Refuse(api.Invalid, "no signal %q", s.Signal)
	}
	if s.Grace == 0 {
		s.Grace = def.Grace
	}
	if len(spec.Resident.Command) > 0 && (s.CRIU || s.Mode == job.Freeze.String()) {
		return api.Refuse(api.Invalid, "a job that hands its work to a resident trainer cannot be frozen: that would train on")
	}
	if s.CRIU && (spec.GPUs.Ask > 0 || spec.Tasks.Of(0) > 1) {
		return api.Refuse(api.Invalid, "CRIU saves jobs without GPUs and of one task only")
	}
	return nil
}

// newEntry makes the entry of a job that is submitted or found again.
func newEntry(key string, s *stored) *entry {
	l := &entry{Job: live.Job{Key: key, User: s.User, Spec: &s.Spec, After: slices.Clone(s.Spec.After), Held: s.Spec.Held, AtOnce: s.AtOnce, Exempt: s.Exempt}, stored: s, cred: s.Cred, changed: make(chan struct{})}
	if key != s.ID {
		l.Array = s.ID
	}
	return l
}

// of is the entry of a job, or nil if the job has ended.
func (d *Daemon) of(id job.ID) *entry {
	j := d.Of(id)
	if j == nil {
		return nil
	}
	return d.entries[j.Key]
}

// by is a job that has not ended, by its key; nil: there is none.
func (d *Daemon) by(key string) *entry {
	if d.By(key) == nil {
		return nil
	}
	return d.entries[key]
}

// all visits the jobs that have not ended, by number.
func (d *Daemon) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for j := range d.All() {
			if !yield(d.entries[j.Key]) {
				return
			}
		}
	}
}

// any tells whether one of the jobs that have not ended is such.
func (d *Daemon) any(such func(*entry) bool) bool {
	for l := range d.all() {
		if such(l) {
			return true
		}
	}
	return false
}

// keys are the numbers of the jobs that a submission makes.
func (s *stored) keys() []string {
	if len(s.Indices) == 0 {
		return []string{s.ID}
	}
	out := make([]string, len(s.Indices))
	for i, n := range s.Indices {
		out[i] = fmt.Sprintf("%s_%d", s.ID, n)
	}
	return out
}

// array reads an array of at most so many jobs, as indices does, and behind a % how many
// of them may run at a time; 0: all.
func array(text string, most int) (all []int, atOnce int, err error) {
	text, part, throttled := strings.Cut(text, "%")
	if throttled {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > 1_000_000_000 || strings.HasPrefix(part, "+") || text == "" {
			return nil, 0, api.Refuse(api.Invalid, "%q: behind a %% write how many of an array may run at a time, as in 1-100%%4", part)
		}
		atOnce = n
	}
	all, err = indices(text, most)
	return all, atOnce, err
}

// indices reads an array of at most so many jobs: 1-20, 1,3,7 or 0-100:10.
func indices(text string, most int) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	fail := func() ([]int, error) {
		return nil, api.Refuse(api.Invalid, "%q is not an array: write 1-20, 1,3,7 or 0-100:10", text)
	}
	number := func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n >= 0 && n <= 1_000_000_000 && !strings.HasPrefix(s, "+")
	}
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(part, ":")
		first, last, isSpan := strings.Cut(span, "-")
		from, ok := number(first)
		to, by := from, 1
		if isSpan && ok {
			to, ok = number(last)
		}
		if stepped && ok {
			by, ok = number(step)
		}
		if !ok || to < from || by < 1 || stepped && !isSpan {
			return fail()
		}
		if (to-from)/by >= most-len(out) {
			return nil, api.Refuse(api.Invalid, "an array has at most %d jobs", most)
		}
		for i := from; i <= to; i += by {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	if n := len(out); len(slices.Compact(out)) != n {
		return nil, api.Refuse(api.Invalid, "%q names an index twice", text)
	}
	return out, nil
}
