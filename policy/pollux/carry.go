package pollux

import (
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/resize"
)

// carryOut plans the difference: whose row is the same keeps its GPUs, the others
// leave theirs and are started where the Matrix says.
func (r *round) carryOut(m Matrix) {
	var change []int
	for i := range r.claims {
		c := &r.claims[i]
		row := m.Row(i)
		same := len(row) > 0 && slices.Equal(row, r.now.Row(i))
		if same && r.p.Alloc(c.j.ID) != nil {
			tasks, spread := row.Replicas()
			r.tell(c, r.batch(c, tasks, spread))
			continue
		}
		if r.p.Alloc(c.j.ID) != nil {
			r.p.Stop(c.j.ID, r.why(row))
		}
		if len(row) > 0 {
			change = append(change, i)
		} else if c.j.Waiting() {
			r.hold(c)
		}
	}
	var a cluster.Alloc
	for _, i := range change {
		c := &r.claims[i]
		if !r.find(c, m.Row(i), &a) || !r.p.StartOn(c.j.ID, &a) {
			continue
		}
		tasks, spread := m.Row(i).Replicas()
		r.tell(c, r.batch(c, tasks, spread))
		news := c.note
		if _, before := c.j.FirstStart(); before {
			news.restarts++
		}
		news.Add(tasks, spread)
		r.p.Remember(c.j.ID, &news)
	}
}

// tell tells a job how many samples each of its GPUs is to take for a step.
func (r *round) tell(c *claimant, batch int32) {
	if batch == c.j.Config().Chosen.Batch && c.j.Running() && r.p.Alloc(c.j.ID) == r.v.Alloc(c.j.ID) {
		return
	}
	resize.Batch(r.p, c.j.ID, batch)
}

// why is why a running job leaves what it has.
func (r *round) why(row Matrix) job.Reason {
	if k, _ := row.Replicas(); k > 0 {
		return job.Reason{Code: job.Resized, Need: int32(k), Job: job.None}
	}
	return job.Reason{Code: job.MakesRoom, Job: job.None}
}

// hold tells a job that gets nothing why it waits.
func (r *round) hold(c *claimant) {
	r.whys.Hold(r.p, c.j, r.o.cfg.Place, "other jobs gain more from the GPUs; divided anew at "+unit.Human(r.o.rounds().Next(r.v)))
}

// find finds free devices for a row.
func (r *round) find(c *claimant, row Matrix, a *cluster.Alloc) bool {
	cl := r.v.Cluster()
	mask := r.v.Class(c.j.Class()).Mask
	role := &c.j.Spec().Demand.Roles[0]
	a.Reset()
	for _, cell := range row {
		id, left, shares := r.nodes[cell.Node], int(cell.Count), len(a.Shares)
		for _, g := range cl.NodeGroups(id) {
			if t := cl.GroupType(g); cl.Type(t).Host || mask != 0 && !mask.Has(t) {
				continue
			}
			if tasks := min(left, cl.GroupFree(g)/int(c.each.GPUs)); tasks > 0 {
				a.Shares = cl.AppendWhole(a.Shares, g, tasks*int(c.each.GPUs), role.GPUMemory)
				left -= tasks
			}
		}
		if left > 0 {
			return false
		}
		a.Pieces = append(a.Pieces, cluster.Piece{
			Node: id, Tasks: cell.Count, Shares: int32(len(a.Shares) - shares),
			CPU: role.CPU * unit.Milli(cell.Count), Memory: role.Memory * unit.Bytes(cell.Count),
		})
	}
	return true
}
