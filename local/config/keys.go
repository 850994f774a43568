package config

import (
	"fmt"
	"math"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/internal/yamltext"
	"github.com/norn-scheduler/norn/job"
)

// entries are all keys of the file, bound to the fields of c, in the order in
// which they are written.
func (c *Config) entries() []entry {
	all := []entry{
		absolute("state", &c.State, false, "Folder of all that Norn keeps: the event log, jobs, what they write."),
		single("socket", &c.Socket, parseSocket, yamltext.Quote, "Unix socket of the API, a path of at most 107 bytes."),
	}
	all = append(all, c.machineEntries()...)
	all = append(all, c.policyEntries()...)
	all = append(all, c.jobEntries()...)
	return append(all, c.serviceEntries()...)
}

// machineEntries say what is shared out.
func (c *Config) machineEntries() []entry {
	return []entry{
		{key: "devices", set: c.Devices.read, show: func() string { return c.Devices.String() }, doc: `What is shared out: auto for all GPUs that are found, a list of GPUs by number,
name, UUID or PCI address such as [0, gpu1], none, or a number of declared slots
such as 4, which stand for GPUs on a machine that has none; {big: 2, small: 4} are
slots of two types.`},
		size("slot-memory", &c.SlotMem, 0, largest, "Memory of each declared slot, for policies that book memory. 0B: not known."),
		section("host", `The processors as devices: so many host devices (host0, ...), each an equal part of
the processors, on which a policy that knows how (rmixer) runs jobs that tell how long
they take without a GPU (cpu_est). They take nothing from others.`,
			count("slots", &c.Host.Slots, 0, maxSlots, "How many. 0: none."),
			size("memory", &c.Host.Memory, 0, largest, "Main memory of each. 0B: an equal part of the machine's."),
		),
		single("counted", &c.Counted, job.ParseSlots, func(s job.Slots) string { return yamltext.Quote(string(s)) },
			"Other things that jobs share out by number, such as license=4, rdma=2: jobs ask for\nthem with slots."),
		section("reserve", "What jobs never get of the machine.",
			cores("cpus", &c.Reserve.CPUs, "CPU cores."),
			size("memory", &c.Reserve.Memory, 0, largest, "Main memory."),
		),
		texts("labels", &c.Labels, label.ParseLabel, "Labels of the machine, such as [zone=a, gpu-mem=80], by which jobs choose it."),
		texts("taints", &c.Taints, label.ParseTaint, "Taints by which it repels jobs that do not tolerate them, such as [spot=yes:NoSchedule]."),
	}
}

// policyEntries say who goes first.
func (c *Config) policyEntries() []entry {
	return []entry{
		single("policy", &c.Policy, parsePolicy, func(p experiment.Choice) string { return yamltext.Quote(p.String()) },
			`Who goes first, and who may be stopped for whom: a policy with its settings, as
norn sim --policy takes it. The default never stops a job, serves in order of
submission, and lets a later job go ahead only where that delays nobody. Others
for a lab: fairshare (who has used little goes first; stops nobody), maxmin
(tenants take back what they are guaranteed), tiresias (short jobs first, nothing
known of run times). norn policies lists all, norn plan says what would change.
exec(python3 /srv/norn/mine.py) is a program of your own. It has the rights of Norn,
so nobody but you and root may write it.`),
		{key: "estimates", set: c.Estimates.read, show: func() string { return c.Estimates.String() },
			doc: `Where run times are known from, the source that is asked first in front: user (the
word of who submits), history (learnt from jobs that have ended). []: nothing is.`},
		{key: "tenants", set: yamltext.List("tenants", c.readTenant), items: func() []string { return lines(c.Tenants) },
			doc: `Who shares the machine, for policies that share it between tenants. Of each: name,
parent (a tenant), guarantee and limit (GPUs, or a percentage), weight, users (who
may use it; none: everybody). A job counts for the first tenant that names its
user, else for the first one open to everybody. No tenants: everybody for herself.
  - {name: vision, guarantee: 50%, weight: 2, users: [alice, bob]}`},
		{key: "gains", set: yamltext.List("gains", c.readGain), items: func() []string { return lines(c.Gains) },
			doc: `What fine-tuning tasks learn from each other, for policies that merge them (ymir). Of
each: backbone, from and to (data sets), after (how many times less work "to" takes
when it goes on from "from"), together (how many times less when both are trained as
one). Models that are not listed gain nothing.
  - {backbone: llama, from: questions, to: summaries, after: 2.5, together: 1.3}`},
		{key: "speeds", set: yamltext.List("speeds", c.readSpeed), items: func() []string { return lines(c.Speeds) },
			doc: `How fast jobs run on each type of device, relative to the type to which run times
(est) refer, for a machine with unlike devices and policies that choose between them
(gavel, allox, gandiva_fair): type, speed, and model where that holds for jobs of one
model alone. 0: they cannot run there. Types that are not listed count as 1.
  - {type: T4, speed: 0.4}
  - {type: T4, model: bert, speed: 0.25}`},
		span("half-life", &c.HalfLife, 0, "In which usage of the past loses half its weight. 0s: as the policy has it."),
		{key: "operators", set: func(n ast.Node) error { c.Operators = nil; return names(&c.Operators, "operators")(n) }, show: func() string { return flow(c.Operators) },
			doc: "Users, by name or uid, who may see and touch what is not theirs. Root and whom\nNorn runs as always may."},
	}
}

// jobEntries say how jobs are treated.
func (c *Config) jobEntries() []entry {
	return []entry{
		section("jobs", "What holds for a job that does not say otherwise.",
			oneOf("stop", &c.Jobs.Stop, job.LastSave, `What it can do when it has to leave its devices: checkpoint (saves its state when
told), freeze (is stopped in memory), restart (begins anew), never (is left alone),
last-save (is ended, and goes on from the checkpoint that it last reported).
Norn does not stop what was not declared to bear it.`),
			span("grace", &c.Jobs.Grace, 0, "For a checkpoint, before the job is killed."),
			span("cancel-grace", &c.Jobs.CancelGrace, 0, "Between SIGTERM and SIGKILL of a job that is cancelled."),
			count("retry", &c.Jobs.Retry, -1, 1_000_000, "How often it is started again after a failure. -1: always."),
			span("backoff", &c.Jobs.Backoff, 0, "Before it is started again; doubled each time, up to an hour."),
			cores("cpus", &c.Jobs.CPUs, "CPU cores of a job without GPUs."),
			span("resident-idle", &c.Jobs.ResidentIdle, 0, "For how long a resident trainer is kept that no job uses."),
		),
		section("health", "When something counts as broken.",
			span("sample", &c.Health.Sample, 100e6, "Between two looks at the devices and at the disk."),
			count("checkpoint-failures", &c.Health.Checkpoints, 1, 1_000_000, "After so many checkpoints in a row that fail, a job is held."),
			span("crash-within", &c.Health.CrashWithin, 0, "A run that fails so soon after its start counts as a crash."),
			count("crash-times", &c.Health.CrashTimes, 1, 1_000_000, "After so many crashes in a row a job is held."),
		),
		c.sharingEntry(),
		section("logs", "What is kept of what a run writes.",
			size("bytes", &c.Logs.Bytes, 4*unit.KiB, largest, "At which a file is put aside and a new one begun."),
			count("keep", &c.Logs.Keep, 0, 1000, "Files that are kept beside the one that is written."),
			span("retain", &c.Logs.Retain, 0, "For how long they are kept when the job has ended. 0s: for ever."),
		),
		section("disk", "How much must be free where the state lies.",
			size("reserve", &c.Disk.Reserve, 0, largest, "With less than this nothing new is started."),
			size("refuse", &c.Disk.Refuse, 0, largest, "With less than this no job is taken in; at most reserve."),
		),
		section("history", "How much is remembered.",
			count("jobs", &c.History.Jobs, 0, 10_000_000, "Jobs that have ended and are still listed."),
			count("compact", &c.History.Compact, 1000, 1_000_000_000, "Events after which a log is put aside and a new one begun."),
			span("keep", &c.History.Keep, 0, "For how long logs that were put aside are kept. 0s: for ever."),
		),
	}
}

// sharingEntry says how jobs get along that share a device.
func (c *Config) sharingEntry() entry {
	s := &c.Sharing
	return section("sharing", "How jobs get along that share a device.",
		oneOf("mps", &s.MPS, Off, `CUDA MPS, under which jobs on an NVIDIA GPU compute at the same time instead of in
turns: auto (where it is installed, for jobs that begin with a part of a GPU), on (for
all jobs with one GPU for each task, so that a policy can put others beside them later;
Norn does not start without it), off.`),
		span("period", &s.Period, 100e6, "In which a job that is throttled is stopped and goes on once; a second at least where\nthere is no freezer."),
		span("speed-for", &s.SpeedFor, 0, "What a job reports changes the speed that it is believed to have when it differs for so\nlong. 0s: never."),
		factor("speed-margin", &s.SpeedMargin, 0.01, 1, "And by so much of what was believed."),
		factor("memory-factor", &s.MemoryFactor, 0, 1000, "A job that uses more than so many times the memory of a device that is booked for it,\nbeside others, leaves the device and waits again. 0: it does not."),
		span("memory-for", &s.MemoryFor, 0, "When it has done so for so long."),
	)
}

// serviceEntries say who may call, and how much.
func (c *Config) serviceEntries() []entry {
	return []entry{
		section("listen", "The API over TCP, beside the socket.",
			single("address", &c.Listen.Address, parseAddress, yamltext.Quote, "Such as 127.0.0.1:7077. Empty: none. It needs tokens, and TLS unless it is of this\nmachine alone."),
			absolute("cert", &c.Listen.Cert, true, "Certificate, a file in PEM. Empty: no TLS."),
			absolute("key", &c.Listen.Key, true, "Its key, a file in PEM."),
			entry{key: "tokens", set: yamltext.List("tokens", c.Listen.readToken), items: func() []string { return lines(c.Listen.Tokens) },
				doc: `Who may call. Of each: name, user (whom its jobs run as), role (user or operator),
and hash, the SHA-256 of the token, or file, in which that stands. norn config token
makes one.
  - {name: ci, hash: 9f86d081…, user: alice, role: user}`},
		),
		section("limits", "They protect users of the machine from each other.",
			size("body", &c.Limits.Body, 64*unit.KiB, unit.GiB, "Bytes of one request."),
			count("connections", &c.Limits.Connections, 1, 1_000_000, "Connections at a time."),
			span("header", &c.Limits.Header, 100e6, "Within which a connection must have sent what it asks for."),
			count("jobs", &c.Limits.Jobs, 1, 10_000_000, "Jobs that have not ended, of everybody together."),
			count("array", &c.Limits.Array, 1, 1_000_000, "Jobs of one array."),
			section("user", `What one user may have and ask for; operators have no such limits, but for how many
jobs there are of everybody together. 0: no limit. When the queue of everybody fills
up, nobody else may have more of it than is still free.`, c.Limits.User.entries("her")...),
			section("tenant", "What all users of one tenant may have and ask for.", c.Limits.Tenant.entries("its")...),
		),
		section("isolation", "How jobs are confined to what they were given.",
			oneOf("cgroups", &c.Isolation.Cgroups, Off, "auto (where they work), on (Norn does not start without them), off."),
			single("parent", &c.Isolation.Parent, parseParent, yamltext.Quote, "Cgroup below which those of jobs are made."),
		),
		flag("metrics", &c.Metrics, "Serve /metrics for Prometheus."),
		level("log-level", &c.LogLevel, "What Norn tells of itself: debug, info, warn or error."),
	}
}

// entries say what one user or one tenant may have.
func (q *Quota) entries(whose string) []entry {
	return []entry{
		count("queued", &q.Queued, 0, 10_000_000, "Jobs that wait or are held. More are refused."),
		count("running", &q.Running, 0, 10_000_000, "Jobs that run, or may start at any moment. More are held until others end."),
		single("gpus", &q.GPUs, parseGPUs, unit.Milli.String, "GPUs that those jobs ask for together. More jobs are held until others end."),
		size("memory", &q.Memory, 0, largest, "Main memory that those jobs ask for together; each must say how much (mem)."),
		count("array", &q.Array, 0, 1_000_000, "Jobs of one array."),
		count("priority", &q.Priority, 0, math.MaxInt32, "The largest priority of a job."),
		span("grace", &q.Grace, 0, "The longest time that a job may take for a checkpoint."),
		count("pids", &q.PIDs, 0, 1<<22, "Processes and threads of a user, as a limit on "+whose+" jobs (RLIMIT_NPROC); root has none."),
	}
}

func parseGPUs(s string) (unit.Milli, error) {
	m, err := unit.ParseMilli(s)
	if err != nil || m > 1_000_000*unit.One {
		return 0, fmt.Errorf("%q: write a number of GPUs such as 8 or 0.5", s)
	}
	return m, nil
}

// parsePolicy reads a policy that can be made.
func parsePolicy(s string) (experiment.Choice, error) {
	if !printable(s) {
		return experiment.Choice{}, fmt.Errorf("%q is not a policy", s)
	}
	c, err := experiment.ParseChoice(s, foreign.Live())
	if err == nil {
		_, err = c.Make()
	}
	return c, err
}
