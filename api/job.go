// Package api is what a client and a running Norn say to each other: the jobs
// that users submit and how they stand, the machine, the events. It is data
// alone; package server serves it over HTTP and package client calls it.
//
// Nouns:
//   - A JobSpec is what a user submits.
//   - A Job is the present state of a job.
//   - A run is one launch of a job, from a start to an end or a preemption.
//   - A Report is what a training process tells of its progress.
//   - An Order is what a training process is told to do.
//
// Units: moments are RFC 3339, spans are seconds (Seconds), memory is bytes
// (Bytes), GPUs and CPUs are decimal numbers.
package api

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/job"
)

// JobSpec is a job as its user submits it. Everything but Command has a default.
type JobSpec struct {
	Name    string            `json:"name,omitempty" maxLength:"200" doc:"What the job is called; jobs that are run again and again keep their name, so that their run times can be learnt."`
	Tenant  string            `json:"tenant,omitempty" maxLength:"200" doc:"Who it counts for: a tenant of the configuration."`
	User    string            `json:"user,omitempty" maxLength:"200" doc:"Whom it runs as. Only an operator may name another than herself."`
	Command []string          `json:"command,omitempty" maxItems:"4096" doc:"The program and its arguments. No shell reads them."`
	Dir     string            `json:"dir,omitempty" maxLength:"4096" doc:"Working directory: an absolute path."`
	Env     map[string]string `json:"env,omitempty" doc:"Environment of its processes, whole."`

	Log     string            `json:"log,omitempty" maxLength:"4096" doc:"A file to which what it writes goes, beside Norn's own: %j its number, %x its name, %A and %a number and index of an array, %r its run, %u its user. In its folder, unless it is absolute; later runs append."`
	PTY     bool              `json:"pty,omitempty" doc:"It has a terminal of its own, as a shell wants, to which /v1/jobs/{id}/input writes. Jobs of one task."`
	Umask   string            `json:"umask,omitempty" maxLength:"4" doc:"Mask of the rights of files that it makes, in octal, as in 027; none: that of the daemon."`
	ULimits map[string]string `json:"ulimits,omitempty" doc:"Limits on each of its processes, by the names of prlimit (as, core, cpu, data, fsize, nofile, nproc, stack): SOFT or SOFT:HARD, numbers or unlimited; never more than the daemon has."`

	GPUs     Range    `json:"gpus,omitzero" doc:"GPUs of the whole job: 2, 0.5, or 1-4 for a job that can be resized."`
	Tasks    Tasks    `json:"tasks,omitzero" doc:"Processes that start together: a number, or per-gpu for one on each GPU. Default 1: one process that sees all GPUs."`
	CPUs     float64  `json:"cpus,omitempty" minimum:"0" doc:"CPU cores of the whole job; enforced where cgroups permit."`
	Memory   Bytes    `json:"mem,omitempty" doc:"Main memory of the whole job; enforced where cgroups permit."`
	GPUMem   Bytes    `json:"gpu_mem,omitempty" doc:"Memory that it needs of each GPU."`
	Slots    string   `json:"slots,omitempty" maxLength:"1000" doc:"Counted resources of the machine, as in rdma=1,license=2: so many for each of its GPUs, or for a job without whole GPUs."`
	Types    []string `json:"types,omitempty" doc:"Acceptable GPU types, best first; none: any."`
	App      string   `json:"app,omitempty" doc:"The search that it is one of the jobs of, such as a search for hyper-parameters: jobs of one user with the same app share one finish time, where the policy looks at it (themis)."`
	Rungs    string   `json:"rungs,omitempty" maxLength:"400" doc:"Rungs of the app's search by successive halving, JOBSxUNITS joined by plus signs: 4x8+2x16+1x36 is four jobs for 8 units of work each, the best two for 16 more, the best for 36 more."`
	Resize   string   `json:"resize,omitempty" enum:"restart,in-place,time-sliced" doc:"How it comes to another size: restart (it saves and is started again) or in-place (tasks join and leave at a step boundary) or time-sliced (its workers take turns on fewer GPUs, with the same result). Default restart."`
	Where    string   `json:"where,omitempty" maxLength:"16384" doc:"Condition on the labels of its nodes: zone in (a,b), gpu-mem > 40, !spot; | for or."`
	Tolerate string   `json:"tolerate,omitempty" maxLength:"16384" doc:"Taints of nodes that it does not mind, with commas between them: spot, spot=yes:NoSchedule; * for all."`
	Within   string   `json:"within,omitempty" maxLength:"200" doc:"Level of the topology, such as rack or node, of which all its tasks must be in one place; rack? where they should but need not."`
	Priority int32    `json:"priority,omitempty" doc:"Class of urgency, larger first, where the policy looks at it."`

	After    []After   `json:"after,omitempty" doc:"Jobs that must have ended before it may start."`
	Array    string    `json:"array,omitempty" maxLength:"200" doc:"Submit it once for each number, such as 1-20, 1,3,7 or 0-100:10, with %4 behind it for four at a time; each finds its number in NORN_ARRAY_INDEX."`
	Estimate Seconds   `json:"est,omitempty" minimum:"0" doc:"Its user's word on its run time; none: the scheduler may learn it."`
	CPUEst   Seconds   `json:"cpu_est,omitempty" minimum:"0" doc:"Its user's word on its run time on processors alone, without any GPU: where the policy knows how, it may be put on a host device; 0: it needs its GPUs."`
	PerGPU   float64   `json:"cpu_per_gpu,omitempty" minimum:"0" doc:"Cores for each of its GPUs, below which it is slower in proportion, as where processors make its batches; 0: it is not told."`
	Limit    Seconds   `json:"limit,omitempty" minimum:"0" doc:"It is ended when it has run for so long; 0: never."`
	Deadline time.Time `json:"deadline,omitzero" doc:"When it should have ended, where the policy looks at it; none: best effort. A policy with admission may refuse it."`
	Tier     string    `json:"tier,omitempty" enum:"basic,standard,premium" doc:"What it is promised of the GPUs that it asks for: basic (nothing), standard (70 %) or premium (95 %). Default basic."`
	Soft     bool      `json:"soft,omitempty" doc:"Its end is worth something after the deadline, too. Default: strict."`
	Held     bool      `json:"held,omitempty" doc:"Submit it held: it waits until it is released."`

	Stop  Stop  `json:"stop,omitzero" doc:"What it can do when it has to leave its devices."`
	Retry Retry `json:"retry,omitzero" doc:"What is done when it fails."`

	Kind     string   `json:"kind,omitempty" enum:"training,fine-tuning,recommendation,inference,graph" doc:"What sort of work it does."`
	Model    string   `json:"model,omitempty" doc:"What is trained."`
	Backbone string   `json:"backbone,omitempty" doc:"Fine-tuning: the foundation model."`
	Dataset  string   `json:"dataset,omitempty" doc:"What it is trained on."`
	Share    bool     `json:"share,omitempty" doc:"Fine-tuning: its user consents to its being merged with jobs of other users who consent too: what it has learnt is handed to them, and theirs to it."`
	Plan     string   `json:"plan,omitempty" enum:"pipeline" doc:"How its layers are laid out over its GPUs: pipeline has a stage on each, and whole nodes, where the policy looks at it (ymir). Default: each GPU has all of them."`
	Batch    int      `json:"batch,omitempty" minimum:"0" doc:"Global batch size."`
	Units    float64  `json:"units,omitempty" minimum:"0" doc:"Its whole work in its own units, such as steps."`
	Unit     string   `json:"unit,omitempty" doc:"Of units: steps, epochs, samples."`
	Resident Resident `json:"resident,omitzero" doc:"Fine-tuning: the program that keeps the backbone loaded on a device, and to which the job's own command hands its work."`
	Use      Use      `json:"use,omitzero" doc:"What it keeps busy when it runs alone, for policies that let jobs share a device."`
	Stages   Stages   `json:"stages,omitzero" doc:"How long a step is at each of its stages when it runs alone, for policies that have jobs take turns at them (muri, bsbf, gavel)."`
	Shape    string   `json:"shape,omitempty" maxLength:"65536" doc:"Shapes of the layers of its model, by which its GPU memory is estimated where gpu_mem is not told: statements apart by ; such as table users 1000000x16*3; layers deep 48x512x1; optimizer adam. Needs batch."`
	QoS      string   `json:"qos,omitempty" enum:"guaranteed,opportunistic" doc:"What it is owed, where the policy tells owners of devices from guests (antman): guaranteed is never a guest, opportunistic always. Default: as the quota of its tenant allows."`
}

// CheckShape says what is wrong with the shape of the job's model, by job and layer, or
// nil.
func (j *JobSpec) CheckShape() error {
	if j.Shape == "" {
		return nil
	}
	_, err := job.ParseShape(j.Shape)
	if err == nil && j.Batch <= 0 {
		err = errors.New("batch is not told, without which the shape tells no memory")
	}
	if err == nil {
		return nil
	}
	if j.Name == "" {
		return fmt.Errorf("shape: %w", err)
	}
	return fmt.Errorf("shape of job %s: %w", j.Name, err)
}

// Place stores in a demand where the job may be. It fails when that cannot be read, and says
// which key is wrong.
func (j *JobSpec) Place(d *job.Demand) error {
	for _, x := range []struct {
		key, text string
		set       func(string) error
	}{{"where", j.Where, d.SetWhere}, {"tolerate", j.Tolerate, d.SetTolerate}, {"within", j.Within, d.SetWithin}} {
		if x.text != "" {
			if err := x.set(x.text); err != nil {
				return fmt.Errorf("%s: %w", x.key, err)
			}
		}
	}
	return nil
}

// Resident is a program that trains for jobs which hand it their work, one after the
// other or several together, so that a backbone is loaded once.
type Resident struct {
	Command []string `json:"command,omitempty" maxItems:"4096" doc:"The program and its arguments. It finds the socket on which it is to listen in NORN_RESIDENT, as do the jobs. It is started in the folder and with the environment of the first of them."`
}

// Use is what a job keeps busy when it runs alone, each as a part of what there is,
// 0 to 1; 0: not known.
type Use struct {
	GPU    float64 `json:"gpu,omitempty" minimum:"0" maximum:"1" doc:"Of the time of its GPU."`
	Memory float64 `json:"memory,omitempty" minimum:"0" maximum:"1" doc:"Of the bandwidth of GPU memory."`
	Host   float64 `json:"host,omitempty" minimum:"0" maximum:"1" doc:"Of the way between GPU and main memory."`
	CPU    float64 `json:"cpu,omitempty" minimum:"0" maximum:"1" doc:"Of the machine's processors."`
}

// Stages is how long a step of a job is at each stage when it runs alone; all 0: not
// known.
type Stages struct {
	Load    Seconds `json:"load,omitempty" minimum:"0" doc:"Data are loaded and prepared."`
	GPU     Seconds `json:"gpu,omitempty" minimum:"0" doc:"The GPU computes."`
	Network Seconds `json:"network,omitempty" minimum:"0" doc:"Gradients are exchanged."`
}

// Stop is what a job can do when it has to leave its devices.
type Stop struct {
	Mode    string   `json:"mode,omitempty" enum:"checkpoint,freeze,restart,never,last-save" doc:"checkpoint: saves its state when told, and goes on from there; freeze: is stopped in memory and goes on later; restart: is killed and begins anew; never: is left alone; last-save: is killed, and goes on from the last checkpoint that it reported. Default: that of the configuration."`
	Signal  string   `json:"signal,omitempty" doc:"checkpoint: the signal that tells its processes; default TERM."`
	Command []string `json:"command,omitempty" doc:"checkpoint: a program that is run instead of a signal; it finds the job's processes in NORN_PIDS. The processes must end by themselves, or are told by SIGTERM when it has ended."`
	Grace   Seconds  `json:"grace,omitempty" minimum:"0" doc:"checkpoint: how long it may take before it is killed."`
	Again   []int    `json:"again,omitempty" maxItems:"16" doc:"checkpoint: exit codes that mean: I have saved my state, continue me later; default 75. Add 0 for a program that exits with 0 when it is told to stop; any other program that exits with 0 is done."`
	CRIU    bool     `json:"criu,omitempty" doc:"checkpoint: its processes know nothing of it, CRIU saves and restores them. CPU jobs of one task."`
}

// Retry is what is done when a run fails.
type Retry struct {
	Limit   int     `json:"limit,omitempty" minimum:"-1" doc:"How often it is started again after a failure; -1: always; default 0."`
	Backoff Seconds `json:"backoff,omitempty" minimum:"0" doc:"How long it waits before; doubled each time, up to an hour."`
}

// Singleton, in the place of a job in After, means all jobs of the same user and name that were submitted before,
// however they end.
const Singleton = "singleton"

// After is a job that must have ended before another may start.
type After struct {
	Job string `json:"job" maxLength:"317" doc:"Its number, or its name where jobs have names; of an array without an index: all of its jobs. singleton: all jobs of the same user and name that were submitted before, however they end."`
	Any bool   `json:"any,omitempty" doc:"It may have failed, too."`
	// Failed is instead of Any: see Met.
	Failed bool `json:"failed,omitempty" doc:"It must have failed, or been cancelled; of an array, one of its jobs."`
}

// Met tells whether a job that has ended in a state has ended as it had to.
func (a *After) Met(s State) bool {
	switch {
	case !s.Over():
		return false
	case a.Any:
		return true
	}
	return (s == Done) != a.Failed
}

// Job is how a job stands.
type Job struct {
	ID     string `json:"id" doc:"Its number, such as 17, or 17_3 of an array; or its name, such as team-a/bert, in a world where jobs have names."`
	Name   string `json:"name,omitempty"`
	User   string `json:"user"`
	Tenant string `json:"tenant,omitempty"`
	App    string `json:"app,omitempty" doc:"Search that it is one of the jobs of."`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty" doc:"Why it waits, was last stopped, or has ended like that: a sentence."`

	GPUs      Range    `json:"gpus" doc:"That it asks for."`
	Tasks     Tasks    `json:"tasks"`
	CPUs      float64  `json:"cpus,omitempty"`
	Memory    Bytes    `json:"mem,omitempty"`
	Priority  int32    `json:"priority,omitempty"`
	Allocated float64  `json:"gpus_held,omitempty" doc:"GPUs that it holds now."`
	Devices   []string `json:"devices,omitempty" doc:"Names of the devices that it holds, as in Node."`
	Throttle  int      `json:"throttle,omitempty" doc:"Thousandths of the time for which it leaves its devices to others that share them."`
	Speed     float64  `json:"speed,omitempty" doc:"How fast it is known to run, where that is not as fast as its estimate has it: 0.5 takes twice as long."`
	StopMode  string   `json:"stop_mode"`

	Submitted time.Time `json:"submitted"`
	Started   time.Time `json:"started,omitzero" doc:"For the first time."`
	Since     time.Time `json:"since" doc:"When its present state began."`
	Ended     time.Time `json:"ended,omitzero"`
	Wait      Seconds   `json:"wait" doc:"Without devices so far."`
	Ran       Seconds   `json:"ran" doc:"With devices so far."`
	GPUTime   Seconds   `json:"gpu_seconds,omitempty" doc:"GPUs times the time they were held so far."`
	Estimate  Seconds   `json:"est,omitempty" doc:"Run time that the scheduler believes in."`
	ExpectEnd time.Time `json:"expected_end,omitzero" doc:"If the estimate holds."`

	Run         int     `json:"run,omitempty" doc:"Number of its present or last run, from 1."`
	Preemptions int     `json:"preemptions,omitempty"`
	Resizes     int     `json:"resizes,omitempty"`
	Failures    int     `json:"failures,omitempty"`
	Exit        *Exit   `json:"exit,omitempty" doc:"How its last run ended."`
	Progress    *Report `json:"progress,omitempty" doc:"What its rank 0 reported last."`
	PTY         bool    `json:"pty,omitempty" doc:"It has a terminal."`

	Command []string  `json:"command"`
	Dir     string    `json:"dir,omitempty"`
	After   []After   `json:"after,omitempty"`
	Limit   Seconds   `json:"limit,omitempty"`
	Deadl   time.Time `json:"deadline,omitzero"`
	Soft    bool      `json:"soft,omitempty"`
	Promise string    `json:"promise,omitempty" doc:"What it has had of the GPUs that its tier is promised, in words."`

	Namespace string   `json:"namespace,omitempty" doc:"In a Kubernetes cluster: where it was made."`
	Kind      string   `json:"kind,omitempty" doc:"What it is there, such as Job or Pod."`
	Pods      []string `json:"pods,omitempty" doc:"Names of its pods that are there."`
	Nodes     []string `json:"nodes,omitempty" doc:"Nodes on which it holds something, where there are several."`
}

// State is where a job stands, in words of Norn's lifecycle.
type State string

// The states of a job.
const (
	Held      State = "held"
	Waiting   State = "waiting"
	Assigned  State = "assigned" // its devices are still being left by others
	Running   State = "running"
	Stopping  State = "stopping" // leaves its devices
	Done      State = "done"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Over tells whether the job has left for good.
func (s State) Over() bool { return s == Done || s == Failed || s == Cancelled }

// Exit is how a run ended: by itself, or by a signal.
type Exit struct {
	Code   int    `json:"code" doc:"Exit status of the first task that failed, or 0; 128 + signal where one ended it."`
	Signal string `json:"signal,omitempty" doc:"Such as SIGKILL."`
	Task   int    `json:"task,omitempty" doc:"Rank of that task."`
	Note   string `json:"note,omitempty" doc:"What else is known, such as out of memory."`
}

// Why is the answer to the question why a job waits, or what it does.
type Why struct {
	Job       Job         `json:"job"`
	Reason    string      `json:"reason" doc:"One sentence."`
	Frees     []string    `json:"frees,omitempty" doc:"What would let it start, one sentence each."`
	Expected  time.Time   `json:"expected_start,omitzero" doc:"Earliest start if estimates hold and nobody goes ahead."`
	Unknown   string      `json:"expected_unknown,omitempty" doc:"Why no start can be told."`
	Ahead     []string    `json:"ahead,omitempty" doc:"Waiting jobs that were submitted before it."`
	Holders   []string    `json:"holders,omitempty" doc:"Jobs that hold the devices it could use, with when each is expected to end."`
	Beside    []string    `json:"beside,omitempty" doc:"Jobs that share its devices, each with what it holds there, and what is known of both."`
	Memory    string      `json:"memory,omitempty" doc:"How much of the memory of each GPU it is believed to take, and where that figure comes from."`
	Stop      string      `json:"stop" doc:"What happens when it is preempted, and what that would cost now."`
	Isolation []string    `json:"isolation,omitempty" doc:"What its run is confined to, and to what not."`
	Life      []string    `json:"life,omitempty" doc:"What has happened to it, one line each."`
	Course    []Stretch   `json:"course,omitempty" doc:"How it stood from when to when, as far as that is kept: since the log before the present one began, 64 stretches."`
	Losses    []LossPoint `json:"losses,omitempty" doc:"That it reported since the daemon began, by rising steps: the first, the latest, and some between them, 65 at most."`
	Beliefs   []string    `json:"beliefs,omitempty" doc:"What the policy believes of it and from what it learnt that, one sentence each."`
	Policy    string      `json:"policy"`
}

// Stretch is a time in which a job stood in one way.
type Stretch struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to,omitzero" doc:"None: it goes on."`
	State State     `json:"state"`
	GPUs  float64   `json:"gpus,omitempty" doc:"That it held."`
	On    string    `json:"on,omitempty" doc:"Where, for a reader."`
}

// LossPoint is a loss that a job reported.
type LossPoint struct {
	Step int64   `json:"step"`
	Loss float64 `json:"loss"`
}
