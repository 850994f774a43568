package api

import (
	"fmt"
	"strings"
	"time"
)

// Node is a machine that Norn shares out: the only one, or one of a cluster.
type Node struct {
	Name          string   `json:"name"`
	Health        string   `json:"health" enum:"up,drained,down" doc:"drained: takes no new work; down: it is lost, with what ran there."`
	Note          string   `json:"note,omitempty" doc:"Why it is drained or down, or what else is wrong."`
	CPUs          float64  `json:"cpus"`
	CPUsAllocated float64  `json:"cpus_held"`
	Memory        Bytes    `json:"mem"`
	MemAllocated  Bytes    `json:"mem_held"`
	NUMA          int      `json:"numa_nodes,omitempty"`
	Devices       []Device `json:"devices"`
	Isolation     []string `json:"isolation" doc:"What jobs are confined to here, and to what not."`
	Disk          Disk     `json:"disk"`

	// The fields below are set in lists of nodes alone.
	Pool          string            `json:"pool,omitempty" doc:"Partition of the cluster in which it is."`
	Type          string            `json:"type,omitempty" doc:"Of its GPUs; several with commas between them."`
	GPUs          float64           `json:"gpus,omitempty" doc:"That it has, or slots that stand for them."`
	GPUsFree      float64           `json:"gpus_free,omitempty" doc:"That new work may have."`
	GPUsAllocated float64           `json:"gpus_held,omitempty" doc:"That jobs hold."`
	GPUsBroken    float64           `json:"gpus_broken,omitempty" doc:"That take no new work."`
	Slots         []Slot            `json:"slots,omitempty" doc:"Its counted resources."`
	Labels        map[string]string `json:"labels,omitempty"`
	Taints        []string          `json:"taints,omitempty" doc:"By which it repels jobs, such as spot=yes:NoSchedule."`
	Tasks         int               `json:"tasks,omitempty" doc:"Of jobs that hold something there: processes, or pods."`
	Jobs          []string          `json:"jobs,omitempty" doc:"That hold something there, as far as the caller may see them."`
	Others        int               `json:"others_jobs,omitempty" doc:"Jobs of others that hold something there, and that the caller may not see."`
	Foreign       *Foreign          `json:"foreign,omitempty" doc:"What is used there by whoever is no job of Norn."`
}

// Slot is a counted resource of a node.
type Slot struct {
	Name   string `json:"name"`
	Amount int64  `json:"amount"`
	Free   int64  `json:"free"`
}

// Foreign is what others than Norn's jobs use of a node.
type Foreign struct {
	CPUs   float64          `json:"cpus,omitempty"`
	Memory Bytes            `json:"mem,omitempty"`
	GPUs   float64          `json:"gpus,omitempty"`
	Slots  map[string]int64 `json:"slots,omitempty" doc:"Of counted resources, by name."`
}

// State is how a node stands, in a word: up, draining as long as jobs run on one that is
// drained, drained, or down.
func (n *Node) State() string {
	if n.Health == "drained" && (n.Tasks > 0 || len(n.Jobs) > 0) {
		return "draining"
	}
	return n.Health
}

// NodeStates are the words for how nodes stand.
func NodeStates() []string { return []string{"up", "draining", "drained", "down"} }

// NodeQuery selects nodes. The zero value selects all.
type NodeQuery struct {
	Names   []string // * stands for any letters
	Pools   []string
	Types   []string
	States  []string // see Node.State
	Where   string   // condition on their labels
	Devices bool     // tell of each device, too
}

// Whole is a list of nodes as if it were one machine of that name.
func Whole(name string, nodes []Node) Node {
	w := Node{Name: name, Health: "up"}
	for i := range nodes {
		n := &nodes[i]
		w.CPUs, w.CPUsAllocated, w.Memory, w.MemAllocated = w.CPUs+n.CPUs, w.CPUsAllocated+n.CPUsAllocated, w.Memory+n.Memory, w.MemAllocated+n.MemAllocated
		w.GPUs, w.GPUsFree, w.GPUsAllocated, w.GPUsBroken = w.GPUs+n.GPUs, w.GPUsFree+n.GPUsFree, w.GPUsAllocated+n.GPUsAllocated, w.GPUsBroken+n.GPUsBroken
		w.Tasks += n.Tasks
		if n.Foreign != nil {
			if w.Foreign == nil {
				w.Foreign = new(Foreign)
			}
			w.Foreign.CPUs, w.Foreign.Memory, w.Foreign.GPUs = w.Foreign.CPUs+n.Foreign.CPUs, w.Foreign.Memory+n.Foreign.Memory, w.Foreign.GPUs+n.Foreign.GPUs
		}
	}
	return w
}

// Device is a GPU, a declared slot, or a part of the processors.
type Device struct {
	Name     string   `json:"name" doc:"gpu0, slot0 or host0: how jobs and people call it."`
	Index    int      `json:"index"`
	Type     string   `json:"type" doc:"Such as NVIDIA H200; slot for a declared one."`
	UUID     string   `json:"uuid,omitempty"`
	PCI      string   `json:"pci,omitempty"`
	NUMA     int      `json:"numa" doc:"-1: not known."`
	Memory   Bytes    `json:"mem,omitempty"`
	Host     bool     `json:"host,omitempty" doc:"It is a part of the processors, no GPU."`
	Broken   bool     `json:"broken,omitempty" doc:"It takes no new work."`
	Note     string   `json:"note,omitempty" doc:"What is wrong with it."`
	Slow     float64  `json:"slow,omitempty" doc:"How many times as long jobs take there as on a usual one of its type, from 1.05 on; missing: nothing is known against it."`
	SlowJobs int      `json:"slow_jobs,omitempty" doc:"Of how many jobs that was seen."`
	Jobs     []string `json:"jobs,omitempty" doc:"Who holds it."`
	Resident []string `json:"resident,omitempty" doc:"Backbones that resident trainers keep loaded there."`

	Used     Bytes   `json:"mem_used,omitempty" doc:"As measured."`
	Util     float64 `json:"util,omitempty" doc:"As measured, 0 to 1."`
	Celsius  float64 `json:"celsius,omitempty"`
	Watts    float64 `json:"watts,omitempty"`
	Measured bool    `json:"measured,omitempty" doc:"The four fields above are measured."`
}

// SlowText is how slow jobs are on the device, as a clause; empty: nothing is known against it.
func (d *Device) SlowText() string {
	if d.Slow == 0 {
		return ""
	}
	return fmt.Sprintf("slow: jobs take %.2f times as long", d.Slow)
}

// Disk is how full the disk is that holds Norn's state.
type Disk struct {
	Path string `json:"path"`
	Free Bytes  `json:"free"`
	Size Bytes  `json:"size"`
	Low  bool   `json:"low,omitempty" doc:"Too little is free: no new work is taken or started."`
}

// Status is the whole at one glance.
type Status struct {
	Version  string    `json:"version"`
	Now      time.Time `json:"now"`
	Up       time.Time `json:"up" doc:"Since when the daemon runs."`
	Policy   string    `json:"policy" doc:"With its settings."`
	Lacks    []string  `json:"policy_lacks,omitempty" doc:"What the policy lives on and this machine cannot give, whatever jobs may tell, and what it does without it."`
	Defrag   float64   `json:"defrag,omitempty" doc:"Running jobs are moved together for a gang that would wait beside free GPUs, if so many times the cost is won; 0: none is, by the operator's wish or since the policy shares GPUs."`
	Trouble  []string  `json:"trouble,omitempty" doc:"What is wrong, one sentence each."`
	Held     int       `json:"held"`
	Waiting  int       `json:"waiting"`
	Running  int       `json:"running"`
	Stopping int       `json:"stopping"`
	Ended    int       `json:"ended" doc:"Since the beginning."`
	Nodes    int       `json:"nodes,omitempty" doc:"How many there are, where it is not one machine."`
	Events   int64     `json:"events" doc:"Number of the last event; watching from the one behind it tells only what is new."`
	Tenants  []Tenant  `json:"tenants,omitempty"`
}

// Me is who asks.
type Me struct {
	User     string `json:"user"`
	Operator bool   `json:"operator" doc:"May see and touch everything."`
}

// Tenant is who shares the machine.
type Tenant struct {
	Name      string  `json:"name"`
	Guarantee float64 `json:"guarantee,omitempty" doc:"GPUs it gets back whenever it asks."`
	Limit     float64 `json:"limit,omitempty" doc:"GPUs it may hold at most; 0: no limit."`
	Weight    float64 `json:"weight"`
	Allocated float64 `json:"gpus_held"`
	Waiting   int     `json:"waiting"`
	Usage     float64 `json:"usage_gpu_hours" doc:"Decayed usage."`
}

// Event is one thing that happened, as told to watchers.
type Event struct {
	Seq  int64     `json:"seq" doc:"Grows by one with each event of this daemon."`
	Time time.Time `json:"time"`
	Kind string    `json:"kind" doc:"As in the event log: submit, start, preempt, gone, evict, fail, end, cancel, hold, free, wait, move, resize, and so on."`
	Job  string    `json:"job,omitempty"`
	User string    `json:"user,omitempty"`
	Text string    `json:"text" doc:"What happened, for a reader."`
}

// Drain puts the machine, some of its devices, or nodes of a cluster out of use, or back.
type Drain struct {
	Devices []string `json:"devices,omitempty" doc:"Names of devices or of nodes; none, and no condition: the whole machine."`
	Where   string   `json:"where,omitempty" maxLength:"16384" doc:"Instead of names, a condition on the labels of nodes: zone in (a,b), spot."`
	Undo    bool     `json:"undo,omitempty" doc:"Back into use."`
	Why     string   `json:"why,omitempty" maxLength:"1000"`
}

// Reclaim is an order of whoever owns devices or nodes: what runs there leaves, and nothing new starts there.
type Reclaim struct {
	Devices []string `json:"devices,omitempty" doc:"Names of devices or of nodes; none, and no condition: the whole machine."`
	Where   string   `json:"where,omitempty" maxLength:"16384" doc:"Instead of names, a condition on the labels of nodes: zone in (a,b), spot."`
	Lend    bool     `json:"lend,omitempty" doc:"The other way round: jobs may run there again."`
	Count   int      `json:"count,omitempty" minimum:"0" maximum:"1000000" doc:"So many of these, which Norn chooses: those that nobody uses, then those whose jobs lose least. Of lend: the first of those that are taken back. 0: all."`
	Notice  *Seconds `json:"notice,omitempty" doc:"By when they are free at the latest, within a year; jobs run on as long as they can, and are told in time to save their state. Missing: jobs are told at once, and have as long as they always have; 0: they are killed."`
	Why     string   `json:"why,omitempty" maxLength:"1000"`
}

// Check refuses an order that cannot be.
func (r *Reclaim) Check() error {
	if r.Notice != nil && r.Notice.Duration() > 365*24*time.Hour {
		return Refuse(Invalid, "notice: a year is the longest")
	}
	return nil
}

// AtOnce tells whether jobs are killed.
func (r *Reclaim) AtOnce() bool { return r.Notice != nil && *r.Notice == 0 }

// Reclaimed is what an order was about.
type Reclaimed struct {
	Devices []string `json:"devices" doc:"Names of devices or nodes; none: the whole machine."`
}

// Resize asks for another number of GPUs.
type Resize struct {
	GPUs float64 `json:"gpus" minimum:"0" doc:"Within the range that the job was submitted with."`
}

// Query selects jobs.
type Query struct {
	IDs    []string
	States []State
	Users  []string
	Tenant string
	Name   string
	All    bool      // those that have ended, too
	Since  time.Time // ended, or active, since
	Until  time.Time // submitted before
	Limit  int       // 0: no limit; the last ones
	Page   int       // so many at most, the first ones behind After; 0: all. Not with Limit
	After  Cursor
}

// Cursor is a place in a list of jobs: that behind a job. The zero value is the beginning.
type Cursor struct {
	ID        string
	Submitted time.Time
}

// Behind is the place behind a job.
func Behind(j *Job) Cursor { return Cursor{j.ID, j.Submitted} }

// String is a Cursor as addresses have it; ParseCursor reads it.
func (c Cursor) String() string {
	if c.ID == "" {
		return ""
	}
	return c.Submitted.UTC().Format(time.RFC3339Nano) + "," + c.ID
}

// ParseCursor reads the text of a Cursor, also an empty one. The error is fit for a user.
func ParseCursor(s string) (c Cursor, err error) {
	if s == "" {
		return c, nil
	}
	moment, id, ok := strings.Cut(s, ",")
	if c.Submitted, err = time.Parse(time.RFC3339Nano, moment); err != nil || !ok || id == "" {
		return Cursor{}, fmt.Errorf("after: %q is no place in a list: take it from next of the page before", s)
	}
	c.ID = id
	return c, nil
}
