package replica

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Config is how data is moved.
type Config struct {
	Period     time.Duration // 0: data is only copied on demand
	Move, Keep float64
}

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Duration("period", &c.Period, "how often replicas are improved"),
		param.Float("move", &c.Move, 0, 1e6, "penalty", "of each TB that is copied; the load 1.2 of a region costs 0.4"),
		param.Float("keep", &c.Keep, 0, 1e6, "penalty", "of each replica; above 0, those that nobody needs are dropped"),
	}
}

// Parse reads how data is moved: on-demand, or tetris with settings as in tetris(period=12h,move=0.01).
func Parse(text string) (*Config, error) {
	name, settings, err := param.Call(text)
	if err != nil {
		return nil, err
	}
	switch c := (&Config{Period: 24 * time.Hour, Move: 0.001}); {
	case name == "tetris":
		if err := c.Params().SetAll(settings); err != nil {
			return nil, fmt.Errorf("tetris: %w", err)
		}
		if c.Period < time.Minute {
			return nil, errors.New("tetris: period must be a minute or more")
		}
		return c, nil
	case name == "on-demand" && len(settings) == 0:
		return &Config{}, nil
	}
	return nil, fmt.Errorf("%q is no way to move data%s (there are tetris, which has settings, and on-demand)", text, param.Near(name, []string{"tetris", "on-demand"}))
}

// Mover moves the data of a catalogue. It implements sched.Mover.
type Mover struct {
	cfg     Config
	all     *Catalogue
	regions []cluster.DomainID
	names   []string         // of the regions
	first   []cluster.NodeID // a node of each region; None: it has none
	coming  map[replica]bool // on the way
	seen    int              // jobs that were asked for on demand
	due     time.Duration
}

// replica is a data set and a region, by number.
type replica struct{ data, region int }

// New makes a mover for a cluster.
func (c *Config) New(all *Catalogue, cl *cluster.Cluster) *Mover {
	m := &Mover{cfg: *c, all: all, regions: regions(cl), coming: map[replica]bool{}, due: unit.Never}
	for _, r := range m.regions {
		at := cluster.NodeID(cluster.None)
		if nodes := cluster.NodesIn(cl, r, nil); len(nodes) > 0 {
			at = nodes[0]
		}
		m.first, m.names = append(m.first, at), append(m.names, nameOf(cl, r))
	}
	if c.Period > 0 {
		m.due = c.Period
	}
	return m
}

// NextWake implements sched.Mover.
func (m *Mover) NextWake(*sched.View) time.Duration { return m.due }

// Move implements sched.Mover. Whoever waits at the end of a period is looked at once more: there may be room by then
// for what he reads.
func (m *Mover) Move(v *sched.View, out []sched.CopyOrder) []sched.CopyOrder {
	if m.seen == v.Jobs() && v.Now < m.due {
		return out
	}
	held := m.held(v.Cluster())
	for ; m.seen < v.Jobs(); m.seen++ {
		out = m.onDemand(v, v.Job(job.ID(m.seen)), held, out)
	}
	if v.Now < m.due {
		return out
	}
	out = m.improve(v, held, out)
	for j := range v.Waiting() {
		out = m.onDemand(v, j, held, out)
	}
	for m.due <= v.Now {
		m.due += m.cfg.Period
	}
	return out
}

// held is which replicas there are, those that are on the way among them.
func (m *Mover) held(cl *cluster.Cluster) [][]bool {
	out := make([][]bool, len(m.all.Data))
	for d := range out {
		out[d] = make([]bool, len(m.regions))
		for r := range out[d] {
			if m.first[r] == cluster.None {
				continue
			}
			if _, out[d][r] = cl.Node(m.first[r]).Label(sched.DataLabel + m.all.Data[d].Name); out[d][r] {
				delete(m.coming, replica{d, r})
			}
			out[d][r] = out[d][r] || m.coming[replica{d, r}]
		}
	}
	return out
}

// order orders a copy, or has a replica dropped.
func (m *Mover) order(d, r int, drop bool, out []sched.CopyOrder) []sched.CopyOrder {
	if !drop {
		m.coming[replica{d, r}] = true
	}
	return append(out, sched.CopyOrder{Data: m.all.Data[d].Name, To: m.regions[r], Size: m.all.Data[d].Size, Drop: drop})
}

// onDemand copies what a job reads into one region where it is together in none: that which needs the least.
func (m *Mover) onDemand(v *sched.View, j sched.Job, held [][]bool, out []sched.CopyOrder) []sched.CopyOrder {
	reads := m.all.Reads(j.Spec())
	if len(reads) == 0 {
		return out
	}
	best, least := -1, unit.Bytes(0)
	for r := range m.regions {
		missing := unit.Bytes(0)
		for _, d := range reads {
			if !held[d][r] {
				missing += m.all.Data[d].Size
			}
		}
		if best >= 0 && missing >= least || float64(missing)/1e12 > m.room(r, held) || m.gpus(v.Cluster(), r, v.Class(j.Class()).Mask) < j.GPUs() {
			continue
		}
		best, least = r, missing
	}
	if best < 0 || least == 0 {
		return out
	}
	for _, d := range reads {
		if !held[d][best] {
			held[d][best] = true
			out = m.order(d, best, false, out)
		}
	}
	return out
}

// room is what a region can store beside what it holds, in TB.
func (m *Mover) room(r int, held [][]bool) float64 {
	room := m.all.storage(m.names[r])
	for d := range held {
		if held[d][r] {
			room -= float64(m.all.Data[d].Size) / 1e12
		}
	}
	return room
}

// gpus is the number of GPUs of a region that are of some types.
func (m *Mover) gpus(cl *cluster.Cluster, r int, mask cluster.TypeMask) (n int) {
	for _, id := range cluster.NodesIn(cl, m.regions[r], nil) {
		for _, g := range cl.Node(id).GPUs {
			if mask.Has(g.Type) && !cl.Type(g.Type).Host {
				n += g.Count
			}
		}
	}
	return n
}

// improve orders what the best replicas that are found need. Nothing is dropped where a running job may read it, and
// what has no room beside that is not copied.
func (m *Mover) improve(v *sched.View, held [][]bool, out []sched.CopyOrder) []sched.CopyOrder {
	answer, reads := m.problem(v, held).Solve(), m.read(v)
	for d := range held {
		for r := range held[d] {
			if held[d][r] && !answer.Kept[d][r] && !m.coming[replica{d, r}] && !reads[replica{d, r}] {
				held[d][r] = false
				out = m.order(d, r, true, out)
			}
		}
	}
	for d := range held {
		for r := range held[d] {
			if answer.Kept[d][r] && !held[d][r] && m.room(r, held) >= float64(m.all.Data[d].Size)/1e12 {
				held[d][r] = true
				out = m.order(d, r, false, out)
			}
		}
	}
	return out
}

// read is which replicas running jobs read.
func (m *Mover) read(v *sched.View) map[replica]bool {
	out := map[replica]bool{}
	for j := range v.Running() {
		for _, d := range m.all.Reads(j.Spec()) {
			for _, at := range v.Alloc(j.ID).Pieces {
				out[replica{d, slices.Index(m.regions, cluster.PlaceOf(v.Cluster(), at.Node, Level))}] = true
			}
		}
	}
	return out
}

// problem is where replicas are to be, for what was asked for in the last period.
func (m *Mover) problem(v *sched.View, held [][]bool) *Problem {
	cl := v.Cluster()
	p := &Problem{Held: held, Move: m.cfg.Move, Keep: m.cfg.Keep}
	for _, d := range m.all.Data {
		p.Size = append(p.Size, float64(d.Size)/1e12)
	}
	for r := range m.regions {
		supply := make([]float64, cl.Types())
		for t := range supply {
			supply[t] = float64(m.gpus(cl, r, 1<<t))
		}
		p.Supply, p.Storage = append(p.Supply, supply), append(p.Storage, m.all.storage(m.names[r]))
	}
	p.Classes = m.classes(v)
	return p
}

// classes are what jobs asked for in the last period, in order of first submission.
func (m *Mover) classes(v *sched.View) (out []Class) {
	cl, from := v.Cluster(), max(0, v.Now-m.cfg.Period)
	of := map[string]int{}
	for id := range job.ID(v.Jobs()) {
		j := v.Job(id)
		to := v.Now
		if j.Phase().Over() {
			to = j.Since()
		}
		reads := m.all.Reads(j.Spec())
		lasted := to - max(from, j.Submit())
		if lasted <= 0 {
			continue
		}
		mask := v.Class(j.Class()).Mask
		key := fmt.Sprint(reads, mask)
		k, known := of[key]
		if !known {
			k = len(out)
			of[key] = k
			c := Class{Reads: reads, Types: make([]bool, cl.Types())}
			for t := range c.Types {
				c.Types[t] = mask.Has(cluster.TypeID(t)) && !cl.Type(cluster.TypeID(t)).Host
			}
			out = append(out, c)
		}
		out[k].GPUs += float64(j.GPUs()) * lasted.Seconds() / (v.Now - from).Seconds()
	}
	return out
}
