package hived

import (
	"math"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/cells"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// fixedPriority is the priority of a job that must never be stopped: nobody takes its cells.
const fixedPriority = math.MaxInt32

// site is one pool: its cells, whose they are, and who has them.
type site struct {
	forest *cells.Forest
	share  cells.Share
	space  *cells.Space
	tree   *tenant.Tree
	nodes  int // of the cluster, when this was made

	quota []int          // in place of cells: GPUs of each virtual cluster; nil: cells
	used  []int          // of these
	by    map[job.ID]int // guaranteed jobs, with the virtual cluster that pays for them
}

func newSite(v *sched.View, pool cluster.PoolID, g Guarantee) *site {
	c := v.Cluster()
	s := &site{forest: cells.Of(c, pool), tree: v.Tenants(), nodes: c.Nodes()}
	s.share, _ = cells.Assign(s.forest, c, pool, v.Tenants()) // cluster files are checked when they are read; later, nodes may be missing
	vcs := s.share.VCs
	if g == Quota {
		s.by = map[job.ID]int{}
		s.used = make([]int, len(vcs))
		for i := range vcs {
			s.quota = append(s.quota, s.forest.GPUs(&vcs[i]))
		}
		vcs = []cells.VC{s.forest.Everything("")}
	}
	s.space = cells.NewSpace(s.forest, vcs)
	s.refresh(v)
	return s
}

// refresh looks which GPUs can be given to jobs.
func (s *site) refresh(v *sched.View) {
	c := v.Cluster()
	for i := range s.forest.Chains {
		for _, d := range s.forest.Chains[i].GPUs {
			s.space.SetUsable(d, c.UsableDevice(d) && c.Capacity(d) >= unit.One)
		}
	}
}

// vc is the virtual cluster of the tenant of a job, or of the nearest tenant above it that has one; or
// NoVC.
func (s *site) vc(j sched.Job) int {
	for t := j.Tenant(); t >= 0; t = s.tree.At(t).Parent {
		if int(t) < len(s.share.Of) && s.share.Of[t] >= 0 {
			return s.share.Of[t]
		}
	}
	return cells.NoVC
}

// standing is in which virtual cluster a job is guaranteed GPUs, and how urgent it is there.
func (s *site) standing(v *sched.View, j sched.Job) (vc int, priority int32) {
	vc, priority = s.vc(j), j.Spec().Priority
	if j.Spec().Stop == job.Pinned {
		priority = fixedPriority
	}
	if priority < 0 || v.PinnedPlace(j.ID) != nil {
		return cells.NoVC, 0
	}
	return vc, priority
}

// asSpace is the virtual cluster as the space knows it: under quotas all have one together.
func (s *site) asSpace(vc int) int {
	if s.quota != nil && vc != cells.NoVC {
		return 0
	}
	return vc
}

// affords tells whether a virtual cluster may have so many more GPUs.
func (s *site) affords(vc, gpus int) bool {
	return s.quota == nil || s.used[vc]+gpus <= s.quota[vc]
}

// took notes that a guaranteed job has what it has.
func (s *site) took(id job.ID, vc int) {
	if s.quota != nil {
		s.by[id] = vc
		s.used[vc] += len(s.space.Devices(id))
	}
}

// release notes that a job has nothing any more.
func (s *site) release(id job.ID) {
	s.unpaid(id)
	s.space.Release(id)
}

// unpaid notes that nobody pays for a job any more.
func (s *site) unpaid(id job.ID) {
	if vc, ok := s.by[id]; ok {
		s.used[vc] -= len(s.space.Devices(id))
		delete(s.by, id)
	}
}

// gpus is how many GPUs a virtual cluster has in all, and how many of them its guaranteed jobs have.
func (s *site) gpus(vc int) (all, used int) {
	if s.quota != nil {
		return s.quota[vc], s.used[vc]
	}
	return s.space.GPUs(vc)
}

// restore takes in a job that has GPUs already. One that was guaranteed them goes on as a guest if it
// cannot be guaranteed them any more, because the cells of its tenant are others.
func (s *site) restore(v *sched.View, j sched.Job) {
	a := v.Alloc(j.ID)
	if a == nil || len(a.Shares) == 0 {
		return
	}
	devices := make([]cluster.DeviceID, len(a.Shares))
	for i := range a.Shares {
		devices[i] = a.Shares[i].Device
	}
	fixed := j.Spec().Stop == job.Pinned
	if n, ok := sched.Recall[note](j); ok {
		vc, priority := s.standing(v, j)
		if s.space.Restore(j.ID, s.asSpace(vc), priority, fixed, devices, n.roots) {
			s.took(j.ID, vc)
			return
		}
	}
	s.space.Guest(j.ID, devices, fixed)
}

// why is why a job waits.
func (s *site) why(v *sched.View, j sched.Job) job.Reason {
	need := s.need(j)
	if vc, _ := s.standing(v, j); vc != cells.NoVC {
		all, used := s.gpus(vc)
		if used+need > all {
			return job.Reason{Code: job.Quota, Need: int32(all), Have: int32(used), Job: job.None}
		}
		return job.Reason{Code: job.Because, Job: job.None, Text: "the GPUs that its tenant has left are not together in cells that hold its tasks"}
	}
	if free := v.Free(); free < need {
		return job.Reason{Code: job.NeedGPUs, Need: int32(need), Have: int32(free), Job: job.None}
	}
	return job.Reason{Code: job.Because, Job: job.None, Text: "the idle GPUs are not together on nodes that hold its tasks"}
}

// need is the number of GPUs that a job needs for itself alone.
func (s *site) need(j sched.Job) (n int) {
	for i := range j.Spec().Demand.Roles {
		r := &j.Spec().Demand.Roles[i]
		n += int(r.Tasks) * taskGPUs(r)
	}
	return n
}

// taskGPUs is the number of GPUs of a task of a role: a part of one is one.
func taskGPUs(r *job.Role) int { return int((r.GPU + unit.One - 1) / unit.One) }

// note is what is remembered of a job that is guaranteed what it has: the roots in which its GPUs lie. A
// guest has no note.
type note struct{ roots []cells.Root }

// NewNote is a note of this policy, for the table of policies.
func NewNote() sched.Note { return new(note) }

// Kind implements sched.Note.
func (n *note) Kind() string { return "hived" }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) {
	sched.List(f, "roots", &n.roots, func(r *cells.Root, f *sched.Fields) {
		sched.Int(f, "level", &r.Level)
		sched.Int(f, "rank", &r.Rank)
		sched.Int(f, "gpus", &r.GPUs)
	})
}
