package foreign

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// carryOut turns an answer into a plan, act by act. A job that does not fit stays as it is,
// and the plan goes on. An act that makes no sense makes the plan invalid, with an error
// that tells where it stands.
func (c *Policy) carryOut(v *sched.View, p *sched.Plan, a *answer) {
	for i := range a.plan {
		act := &a.plan[i]
		where := fmt.Sprintf("line %d of its answers, act %d of the plan, %s", c.line, i+1, short([]byte(act.text)))
		p.Locate(where, func() { c.do(v, p, act) })
	}
}

// do plans one act, and tells whether it fits.
func (c *Policy) do(v *sched.View, p *sched.Plan, a *act) bool {
	if a.verb == together {
		return p.Try(func() bool {
			for i := range a.all {
				if !c.do(v, p, &a.all[i]) {
					return false
				}
			}
			return true
		})
	}
	if !c.may(v, p, a.job) || a.room != job.None && !c.may(v, p, a.room) {
		return false
	}
	c.mirror.touched = append(c.mirror.touched, a.job)
	where := cmp.Or(a.where, c.cfg.Place)
	switch a.verb {
	case starting:
		return c.start(v, p, a)
	case stopping:
		return p.Stop(a.job, job.Reason{Code: job.MakesRoom, Job: a.room, Text: a.why})
	case resizing:
		p.Resize(a.job, a.tasks, where)
		return p.Alloc(a.job) != nil && p.Alloc(a.job).Tasks(0) == a.tasks
	case moving:
		return c.move(v, p, a)
	case waiting:
		p.Wait(a.job, job.Reason{Code: job.Because, Job: job.None, Text: a.why})
	case remembering:
		if a.note == "" {
			p.Forget(a.job)
		} else {
			p.Remember(a.job, &note{a.note})
		}
	}
	return true
}

// may tells whether the plan may name a job.
func (c *Policy) may(v *sched.View, p *sched.Plan, id job.ID) bool {
	switch {
	case int(id) >= v.Jobs():
		p.Invalidate(fmt.Errorf("there is no job %d", id))
		return false
	case !v.Covers(v.Job(id)):
		p.Invalidate(fmt.Errorf("job %s: belongs to another partition", v.Job(id).Spec().Key))
		return false
	}
	return true
}

func (c *Policy) start(v *sched.View, p *sched.Plan, a *act) bool {
	switch j := v.Job(a.job); {
	case a.devices != nil:
		on, ok := c.alloc(v, p, a)
		return ok && p.StartOn(a.job, on)
	case a.tasks > 0:
		return p.StartSize(a.job, a.tasks, cmp.Or(a.where, c.cfg.Place))
	default:
		return p.Start(j.ID, cmp.Or(a.where, c.cfg.Place))
	}
}

func (c *Policy) move(v *sched.View, p *sched.Plan, a *act) bool {
	if a.devices == nil {
		return p.Move(a.job, cmp.Or(a.where, c.cfg.Place))
	}
	on, ok := c.alloc(v, p, a)
	return ok && p.Try(func() bool {
		return p.Stop(a.job, job.Reason{Code: job.Moved, Job: job.None}) && p.StartOn(a.job, on)
	})
}

// alloc is the allocation of a gang of one role on the devices that an act names.
func (c *Policy) alloc(v *sched.View, p *sched.Plan, a *act) (*cluster.Alloc, bool) {
	j := v.Job(a.job)
	d := j.Spec().Demand
	role := &d.Roles[0]
	fail := func(format string, args ...any) (*cluster.Alloc, bool) {
		p.Invalidate(fmt.Errorf("job %s: cannot start it there: %s", j.Spec().Key, fmt.Sprintf(format, args...)))
		return nil, false
	}
	each, milli := 1, int32(role.GPU) // devices of a task, and what it has of each
	if role.GPU >= unit.One {
		each, milli = int(role.GPU/unit.One), int32(unit.One)
	}
	switch {
	case roles(d) > 0:
		return fail("it has several roles, whose devices cannot be named")
	case role.GPU == 0:
		return fail("its tasks have no GPU")
	case len(a.devices) == 0 || len(a.devices)%each != 0:
		return fail("its tasks have %s each, and %d were named", unit.Count(each, "device"), len(a.devices))
	}
	cl := v.Cluster()
	for _, dev := range a.devices {
		if int(dev) >= cl.Devices() {
			return fail("there is no device %d", dev)
		}
	}
	named := slices.Clone(a.devices)
	slices.SortStableFunc(named, func(x, y cluster.DeviceID) int { return cmp.Compare(cl.NodeOf(x), cl.NodeOf(y)) })
	on := new(cluster.Alloc)
	for from := 0; from < len(named); {
		node, to := cl.NodeOf(named[from]), from
		for to < len(named) && cl.NodeOf(named[to]) == node {
			to++
		}
		if (to-from)%each != 0 {
			return fail("its tasks have %s each, and %d of node %s were named", unit.Count(each, "device"), to-from, cl.Node(node).Name)
		}
		tasks := int32((to - from) / each)
		shares := len(on.Shares)
		for _, dev := range named[from:to] {
			if last := len(on.Shares) - 1; last >= shares && on.Shares[last].Device == dev { // a device that stands for several
				on.Shares[last].Milli += milli
				on.Shares[last].Memory += role.GPUMemory
				continue
			}
			on.Shares = append(on.Shares, cluster.Share{Device: dev, Milli: milli, Memory: role.GPUMemory})
		}
		on.Pieces = append(on.Pieces, cluster.Piece{
			Node: node, Tasks: tasks, Shares: int32(len(on.Shares) - shares), CPU: role.CPU * unit.Milli(tasks), Memory: role.Memory * unit.Bytes(tasks),
		})
		from = to
	}
	return on, true
}
