package foreign

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// version is that of the protocol.
const version = 1

// hello is the first line that a process is told.
func hello(policy string) []byte {
	w := jsontext.Writer{B: []byte{'{'}}
	w.Int("hello", version)
	w.Text("policy", policy)
	return append(w.B, "}\n"...)
}

// mirror is what the present process has been told. What it is told of a job follows from
// the state alone, not from when it is told, so a process that starts anew knows the same.
type mirror struct {
	past   bool // it wants to know of jobs that have ended
	full   bool // it knows nothing yet
	jobs   []told
	nodes  [][]byte // of each node
	placed int      // so many of View.Placed were looked at

	touched []job.ID // in the last plan

	ids []job.ID // scratch
	b   []byte   // scratch: the message
}

// told is what a process knows of a job beside what changes with the job itself.
type told struct{ spec, never, astray bool }

// reset forgets all: the next message has the whole state.
func (m *mirror) reset() {
	m.full, m.touched = true, m.touched[:0]
	clear(m.jobs)
	clear(m.nodes)
}

// message is the line that asks for a decision.
func (m *mirror) message(v *sched.View, p *sched.Plan, c *Policy, random int64) ([]byte, error) {
	for len(m.jobs) < v.Jobs() {
		m.jobs = append(m.jobs, told{})
	}
	nodes := m.full || v.NodesChanged()
	w := jsontext.Writer{B: append(m.b[:0], '{')}
	w.Int("decision", c.asked)
	w.Key("now")
	w.B = unit.AppendSeconds(w.B, v.Now)
	w.Bool("first", m.full)
	w.Bool("woken", v.Woken)
	w.Int("random", random)
	w.Key("free")
	w.B = strconv.AppendInt(w.B, int64(v.Free()), 10)
	w.Key("total")
	w.B = strconv.AppendInt(w.B, int64(v.Total()), 10)
	if m.full {
		writeTypes(&w, v.Cluster())
		writeTenants(&w, v.Tenants())
	}
	if nodes {
		m.writeNodes(&w, v)
	}
	m.news(v, p, c, nodes)
	w.Key("jobs")
	w.B = append(w.B, '[')
	for i, id := range m.ids {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		m.writeJob(&w, v, p, c, id)
	}
	w.B = append(w.B, "]}\n"...)
	m.full, m.placed, m.b = false, len(v.Placed()), w.B
	return w.B, w.Err
}

// news lists the jobs of which the process is to be told, by number.
func (m *mirror) news(v *sched.View, p *sched.Plan, c *Policy, nodes bool) {
	m.ids = m.ids[:0]
	for _, ch := range v.Changes() {
		m.ids = append(m.ids, ch.Job)
	}
	if m.full {
		for j := range v.Waiting() {
			m.ids = append(m.ids, j.ID)
		}
		for j := range v.Running() {
			m.ids = append(m.ids, j.ID)
		}
		if m.past {
			for j := range v.Past() {
				m.ids = append(m.ids, j.ID)
			}
		}
	} else {
		m.ids = append(append(m.ids, v.Placed()[m.placed:]...), m.touched...)
	}
	if nodes {
		for j := range v.Waiting() {
			if m.jobs[j.ID].spec && m.jobs[j.ID].never != never(p, c, j.ID) {
				m.ids = append(m.ids, j.ID)
			}
		}
		for j := range v.Running() {
			if m.jobs[j.ID].spec && m.jobs[j.ID].astray != astray(v, j.ID) {
				m.ids = append(m.ids, j.ID)
			}
		}
	}
	m.touched = m.touched[:0]
	m.ids = slices.DeleteFunc(m.ids, func(id job.ID) bool { return !v.Covers(v.Job(id)) })
	slices.Sort(m.ids)
	m.ids = slices.Compact(m.ids)
}

// never tells whether a job can never run on the cluster as it is.
func never(p *sched.Plan, c *Policy, id job.ID) bool {
	return p.Never(id, c.cfg.Place).Code != job.NoReason
}

// astray tells whether a job has anything that takes no new work, so that stopping it would
// make less room than it has.
func astray(v *sched.View, id job.ID) bool {
	a := v.Alloc(id)
	return a != nil && !v.Cluster().UsableAlloc(a)
}

// writeTypes writes the types of GPUs.
func writeTypes(w *jsontext.Writer, c *cluster.Cluster) {
	w.Key("types")
	w.B = append(w.B, '[')
	for t := range c.Types() {
		if t > 0 {
			w.B = append(w.B, ',')
		}
		typ := c.Type(cluster.TypeID(t))
		w.B = append(w.B, '{')
		w.Text("type", typ.Name)
		w.Int("memory", int64(typ.Memory))
		w.Bool("host", typ.Host)
		w.B = append(w.B, '}')
	}
	w.B = append(w.B, ']')
}

// writeTenants writes the tenants that stand in the cluster as its operator described it.
func writeTenants(w *jsontext.Writer, tree *tenant.Tree) {
	w.Key("tenants")
	w.B = append(w.B, '[')
	begun := false
	for id := range tenant.ID(tree.Len()) {
		t := tree.At(id)
		if id == tenant.Root || t.Guarantee == 0 && t.Limit >= tenant.Unlimited && t.Weight == 1 && len(t.Children) == 0 {
			continue // what is not there means the same
		}
		if begun {
			w.B = append(w.B, ',')
		}
		begun = true
		w.B = append(w.B, '{')
		w.Text("tenant", t.Name)
		if t.Parent != tenant.Root {
			w.Text("parent", tree.At(t.Parent).Name)
		}
		w.Milli("guarantee", t.Guarantee)
		if t.Limit < tenant.Unlimited {
			w.Key("limit")
			w.B = jsontext.AppendMilli(w.B, t.Limit)
		}
		w.Float("weight", t.Weight)
		w.B = append(w.B, '}')
	}
	w.B = append(w.B, ']')
}

// writeNodes writes the nodes that are not as the process knows them.
func (m *mirror) writeNodes(w *jsontext.Writer, v *sched.View) {
	c := v.Cluster()
	for len(m.nodes) < c.Nodes() {
		m.nodes = append(m.nodes, nil)
	}
	w.Key("nodes")
	w.B = append(w.B, '[')
	begun := false
	for id := range cluster.NodeID(c.Nodes()) {
		if !v.All && c.Node(id).Pool != v.Pool {
			continue
		}
		one := jsontext.Writer{B: []byte{'{'}}
		writeNode(&one, c, id)
		if bytes.Equal(one.B, m.nodes[id]) {
			continue
		}
		m.nodes[id] = one.B
		if begun {
			w.B = append(w.B, ',')
		}
		begun = true
		w.B = append(w.B, one.B...)
	}
	w.B = append(w.B, ']')
}

func writeNode(w *jsontext.Writer, c *cluster.Cluster, id cluster.NodeID) {
	n := c.Node(id)
	w.Key("node")
	w.B = strconv.AppendInt(w.B, int64(id), 10)
	w.Text("name", n.Name)
	w.Bool("unusable", !c.Usable(id))
	w.Key("gpus")
	w.B = append(w.B, '[')
	next, _ := c.DeviceRange(id)
	for i, g := range n.GPUs {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.B = append(w.B, '{')
		w.Text("type", c.Type(g.Type).Name)
		w.Int("count", int64(g.Count))
		w.Key("device")
		w.B = strconv.AppendInt(w.B, int64(next), 10)
		w.Bool("pooled", n.Pooled)
		w.B = append(w.B, '}')
		if next += cluster.DeviceID(g.Count); n.Pooled {
			next += 1 - cluster.DeviceID(g.Count)
		}
	}
	w.B = append(w.B, ']')
	first, count := c.DeviceRange(id)
	var broken []byte
	for d := first; d < first+cluster.DeviceID(count); d++ {
		if c.Broken(d) {
			broken = strconv.AppendInt(append(broken, ','), int64(d), 10)
		}
	}
	if len(broken) > 0 {
		w.Key("broken")
		w.B = append(append(append(w.B, '['), broken[1:]...), ']')
	}
	w.Milli("cpu", n.CPU)
	w.Int("memory", int64(n.Memory))
	writePlace(w, c, n)
	w.B = append(w.B, '}')
}

// writePlace writes where a node stands, and its labels.
func writePlace(w *jsontext.Writer, c *cluster.Cluster, n *cluster.NodeSpec) {
	if n.Domain > 0 {
		w.Key("within")
		w.B = append(w.B, '{')
		for d := n.Domain; d > 0; {
			level, name, parent := c.Domain(d)
			w.B = appendPair(w.B, level, name)
			d = parent
		}
		w.B = append(w.B, '}')
	}
	if len(n.Labels) > 0 {
		w.Key("labels")
		w.B = append(w.B, '{')
		for _, l := range n.Labels {
			w.B = appendPair(w.B, l.Key, l.Value)
		}
		w.B = append(w.B, '}')
	}
}

// appendPair appends a field whose name may be any text.
func appendPair(b []byte, key, value string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = jsontext.AppendText(b, key)
	return jsontext.AppendText(append(b, ':'), value)
}

// writeJob writes a job as it stands.
func (m *mirror) writeJob(w *jsontext.Writer, v *sched.View, p *sched.Plan, c *Policy, id job.ID) {
	j := v.Job(id)
	was := *v
	was.Now = min(j.Since(), v.Now) // what the job had when its phase began
	then := was.Job(id)
	at := &m.jobs[id]
	w.B = append(w.B, '{')
	w.Key("job")
	w.B = strconv.AppendInt(w.B, int64(id), 10)
	if !at.spec {
		writeSpec(w, j)
	}
	w.Text("phase", j.Phase().String())
	w.Key("since")
	w.B = unit.AppendSeconds(w.B, j.Since())
	if d, ok := j.Estimate(); ok {
		w.Key("estimate")
		w.B = unit.AppendSeconds(w.B, d)
	}
	w.Time("run_time", then.RunTime())
	w.Float("service", then.Service())
	w.Time("progress", then.Progress())
	if start, ok := j.FirstStart(); ok {
		w.Key("first_start")
		w.B = unit.AppendSeconds(w.B, start)
	}
	w.Int("preemptions", int64(j.Preemptions()))
	w.Int("failures", int64(j.Failures()))
	if j.Running() {
		writeHeld(w, v, j)
	}
	if !j.Phase().Over() {
		writeNext(w, v, j)
	}
	*at = told{true, j.Waiting() && never(p, c, id), j.Running() && astray(v, id)}
	w.Bool("never", at.never)
	w.Bool("astray", at.astray)
	if n, ok := sched.Recall[note](j); ok {
		w.Text("note", n.text)
	}
	w.B = append(w.B, '}')
}

// writeNext writes what is believed of a start of a job: how long it would make no progress,
// and how fast it would be on each type of GPU, where there are several.
func writeNext(w *jsontext.Writer, v *sched.View, j sched.Job) {
	switch cost := v.Costs.Of(j.GPUs()); {
	case j.Phase() == job.Running:
	case j.Preemptions()+j.Failures() > 0:
		w.Time("start_takes", cost.Restore)
	default:
		w.Time("start_takes", cost.Start)
	}
	if pace := j.Config().Reported.Times(); pace != 1 {
		w.Float("pace", pace)
	}
	c := v.Cluster()
	if c.Types() < 2 {
		return
	}
	w.Key("speeds")
	w.B = append(w.B, '{')
	for t := range cluster.TypeID(c.Types()) {
		if b := w.B; b[len(b)-1] != '{' {
			w.B = append(b, ',')
		}
		w.B = append(jsontext.AppendText(w.B, c.Type(t).Name), ':')
		w.Number(v.TypeSpeed(j, t, int(j.Spec().Demand.Roles[0].Tasks), false))
	}
	w.B = append(w.B, '}')
}

// writeHeld writes what a job with devices has, and how it goes on.
func writeHeld(w *jsontext.Writer, v *sched.View, j sched.Job) {
	w.Milli("held", j.Allocated())
	w.Int("held_tasks", int64(j.Tasks()))
	w.Time("ready", j.Ready())
	w.Float("speed", j.Speed())
	if end, ok := endOf(v, j); ok {
		w.Key("end")
		w.B = unit.AppendSeconds(w.B, end)
	}
	if j.Unsaved() {
		w.Bool("unsaved", true)
		if at, ok := j.NextSave(); ok && j.Spec().Stop != job.Restart {
			w.Time("next_save", at)
		}
	}
	a := v.Alloc(j.ID)
	w.Key("devices")
	w.B = append(w.B, '[')
	whole := true
	for i := range a.Shares {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		whole = whole && a.Shares[i].Milli == int32(unit.One)
		w.B = strconv.AppendInt(w.B, int64(a.Shares[i].Device), 10)
	}
	w.B = append(w.B, ']')
	if whole {
		return
	}
	w.Key("parts")
	w.B = append(w.B, '[')
	for i := range a.Shares {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.B = jsontext.AppendMilli(w.B, unit.Milli(a.Shares[i].Milli))
	}
	w.B = append(w.B, ']')
}

// endOf is when a job is expected to end, which may have been before now.
func endOf(v *sched.View, j sched.Job) (time.Duration, bool) {
	then := *v
	then.Now = min(j.Since(), v.Now)
	return then.Job(j.ID).ExpectedEnd()
}

// writeSpec writes what a user has submitted.
func writeSpec(w *jsontext.Writer, j sched.Job) {
	s := j.Spec()
	d := s.Demand
	w.Key("spec")
	w.B = append(w.B, '{')
	w.Text("key", s.Key)
	w.Text("name", s.Name)
	w.Text("user", s.User)
	w.Text("tenant", s.Tenant)
	w.Text("app", s.App)
	w.Key("submit")
	w.B = unit.AppendSeconds(w.B, s.Submit)
	w.Key("serial")
	w.B = strconv.AppendInt(w.B, j.Serial(), 10)
	w.Key("gpus")
	w.B = jsontext.AppendMilli(w.B, d.Milli(d.Roles[0].Tasks))
	w.Int("tasks", int64(d.Roles[0].Tasks))
	if d.Elastic() {
		least, most := d.Roles[0].Range()
		w.Int("min_tasks", int64(least))
		w.Int("max_tasks", int64(most))
	}
	w.Milli("gpus_per_task", d.Roles[0].GPU)
	w.Milli("cpu", d.CPU())
	w.Int("memory", int64(d.Memory()))
	w.Int("gpu_memory", int64(d.Roles[0].GPUMemory))
	if d.Types != "" {
		w.Key("types")
		w.B = append(w.B, '[')
		for i, name := range strings.Split(d.Types, "|") {
			if i > 0 {
				w.B = append(w.B, ',')
			}
			w.B = jsontext.AppendText(w.B, name)
		}
		w.B = append(w.B, ']')
	}
	w.Text("where", d.Where)
	w.Text("tolerate", d.Tolerate)
	w.Text("within", d.Within)
	w.Bool("prefer", d.Prefer)
	w.Int("roles", roles(d))
	w.Text("kind", s.Kind.String())
	w.Text("model", s.Model)
	w.Text("backbone", s.Backbone)
	w.Text("dataset", s.Dataset)
	w.Int("batch", int64(s.Batch))
	w.Int("priority", int64(s.Priority))
	w.Time("deadline", s.Deadline)
	w.Bool("soft", s.Soft)
	w.Text("tier", s.Tier.String())
	w.Text("stop", s.Stop.String())
	w.Text("resize", s.Resize.String())
	w.B = append(w.B, '}')
}

// roles is the number of roles of a gang; 0 where there is one.
func roles(d *job.Demand) (n int64) {
	for i := range d.Roles {
		if d.Roles[i].Tasks > 0 {
			n++
		}
	}
	if n == 1 {
		return 0
	}
	return n
}
