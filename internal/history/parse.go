package history

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// Arg is an argument of the line that begins with run.
type Arg struct {
	Name   string
	Values []string
}

// Parse reads a history. An error names the argument, or the line of the input.
func Parse(args []Arg, input string) (*History, error) {
	h := &History{}
	rack := 0
	for _, a := range args {
		if err := h.arg(a, &rack); err != nil {
			return nil, fmt.Errorf("%s=%s: %w", a.Name, strings.Join(a.Values, ","), err)
		}
	}
	if h.Choice.Policy == "" || h.Spec == nil {
		return nil, fmt.Errorf("policy and cluster must be given")
	}
	if rack > 0 {
		h.Spec.Levels = []clusterspec.Level{{Name: "rack", Nodes: rack}}
	}
	var columns []string
	for i, line := range strings.Split(input, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := h.line(words, &columns); err != nil {
			return nil, fmt.Errorf("line %d (%s): %w", i+1, strings.Join(words, " "), err)
		}
	}
	slices.SortStableFunc(h.Happens, func(a, b Happening) int { return cmpFloat(a.At, b.At) })
	return h, nil
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (h *History) arg(a Arg, rack *int) (err error) {
	if len(a.Values) == 0 {
		return fmt.Errorf("has no value")
	}
	v := a.Values[0]
	cost := func(d *time.Duration) error {
		*d, err = unit.ParseSeconds(v)
		return err
	}
	switch a.Name {
	case "policy":
		h.Choice.Policy = v
	case "set":
		for _, s := range a.Values {
			name, value, ok := strings.Cut(s, "=")
			if !ok {
				return fmt.Errorf("write name=value")
			}
			h.Choice.Settings = append(h.Choice.Settings, experiment.Setting{Name: name, Value: value})
		}
	case "cluster":
		h.Spec, err = clusterspec.Parse(strings.Join(a.Values, ","))
	case "types":
		h.Spec, err = unlike(a.Values)
	case "rack":
		*rack, err = strconv.Atoi(v)
	case "estimate":
		e, err := experiment.ParseEstimate(v)
		if err != nil || e.Noise > 0 || e.From == experiment.History {
			return fmt.Errorf("write oracle, none or user")
		}
		h.Estimate = e.From
	case "start":
		return cost(&h.Costs.Base.Start)
	case "checkpoint":
		return cost(&h.Costs.Base.Checkpoint)
	case "restore":
		return cost(&h.Costs.Base.Restore)
	case "migrate":
		return cost(&h.Costs.Base.Migrate)
	case "resize":
		return cost(&h.Costs.Base.Resize)
	case "snapshot":
		h.Snapshot, err = seconds(v)
	case "spread":
		h.Spread, err = strconv.ParseFloat(v, 64)
	case "seed":
		h.Seed, err = strconv.ParseUint(v, 10, 64)
	case "exact":
		h.Exact, err = strconv.ParseBool(v)
	default:
		return fmt.Errorf("is not known")
	}
	return err
}

// unlike is one node with GPUs of several types: V100:2 or, with a speed, K80:2:0.5.
func unlike(types []string) (*clusterspec.Spec, error) {
	node := clusterspec.Group{Count: 1}
	spec := &clusterspec.Spec{}
	for _, v := range types {
		words := strings.Split(v, ":")
		if len(words) < 2 || len(words) > 3 {
			return nil, fmt.Errorf("write type:GPUs or type:GPUs:speed")
		}
		n, err := strconv.Atoi(words[1])
		typ := cluster.GPUType{Name: words[0]}
		if err == nil && len(words) == 3 {
			typ.Speed, err = strconv.ParseFloat(words[2], 64)
		}
		if err != nil {
			return nil, fmt.Errorf("write type:GPUs or type:GPUs:speed")
		}
		spec.Types = append(spec.Types, typ)
		node.GPUs = append(node.GPUs, clusterspec.GPUs{Type: typ.Name, Count: n})
	}
	spec.Nodes = []clusterspec.Group{node}
	return spec, nil
}

// line reads one line of the input.
func (h *History) line(words []string, columns *[]string) error {
	switch {
	case words[0] == "job":
		*columns = words
		return nil
	case words[0] == "tenant":
		return h.tenant(words[1:])
	case words[0] == "at":
		return h.happening(words[1:])
	case *columns == nil:
		return fmt.Errorf("a table of jobs begins with a line that names its columns: job at gpus run")
	case len(words) != len(*columns):
		return fmt.Errorf("has %d entries, the table has %d columns", len(words), len(*columns))
	}
	j := simtest.Job{Key: words[0]}
	d := job.GPUs(1)
	var change []func(*job.Job)
	for i, v := range words[1:] {
		if v == "-" {
			continue
		}
		if err := jobField(&j, &d, &change, (*columns)[i+1], v); err != nil {
			return fmt.Errorf("%s %s: %w", (*columns)[i+1], v, err)
		}
	}
	if err := d.Check(); err != nil {
		return err
	}
	if n := len(h.Jobs); n > 0 && j.At < h.Jobs[n-1].At {
		return fmt.Errorf("is submitted before the job above it")
	}
	j.Demand = &d
	j.Spec = func(spec *job.Job) {
		for _, f := range change {
			f(spec)
		}
	}
	h.Jobs = append(h.Jobs, j)
	return nil
}

// jobField reads one entry of the table of jobs.
func jobField(j *simtest.Job, d *job.Demand, change *[]func(*job.Job), name, v string) (err error) {
	switch name {
	case "at":
		j.At, err = seconds(v)
	case "run":
		j.Run, err = seconds(v)
	case "fails":
		for part := range strings.SplitSeq(v, ",") {
			f, err := seconds(part)
			if err != nil {
				return err
			}
			j.Fails = append(j.Fails, f)
		}
	case "tenant":
		j.Tenant = v
	case "partition":
		j.Partition = v
	case "user":
		j.User = v
	case "model":
		j.Model = v
	case "priority", "estimate", "stop":
		f, err := specField(name, v)
		*change = append(*change, f)
		return err
	default:
		return demandField(d, name, v)
	}
	return err
}

// demandField reads an entry that says what a job asks for.
func demandField(d *job.Demand, name, v string) (err error) {
	role := &d.Roles[0]
	switch name {
	case "gpus":
		return gang(role, v)
	case "tasks":
		least, most, ok := strings.Cut(v, "-")
		a, err1 := strconv.Atoi(least)
		b, err2 := strconv.Atoi(most)
		if !ok || err1 != nil || err2 != nil {
			return fmt.Errorf("write least-most")
		}
		role.Min, role.Max = int32(a), int32(b)
	case "ps":
		n, cores, ok := strings.Cut(v, "x")
		tasks, err1 := strconv.Atoi(n)
		cpu, err2 := unit.ParseMilli(cores)
		if !ok || err1 != nil || err2 != nil {
			return fmt.Errorf("write number x cores, as in 1x2")
		}
		role.Name = "worker"
		d.Roles[1] = job.Role{Name: "ps", Tasks: int32(tasks), CPU: cpu}
	case "cpu":
		role.CPU, err = unit.ParseMilli(v)
	case "memory":
		role.Memory, err = unit.ParseBytes(v)
	case "types":
		d.Types = v
	case "slots":
		role.Slots, err = job.ParseSlots(v)
	default:
		return fmt.Errorf("is no column that is known")
	}
	return err
}

// specField reads an entry that says how a job is to be treated.
func specField(name, v string) (func(*job.Job), error) {
	switch name {
	case "priority":
		n, err := strconv.ParseInt(v, 10, 32)
		return func(spec *job.Job) { spec.Priority = int32(n) }, err
	case "estimate":
		e, err := unit.ParseSeconds(v)
		return func(spec *job.Job) { spec.Estimate = e }, err
	}
	m, ok := job.ParseStopMode(v)
	if !ok {
		return nil, fmt.Errorf("write checkpoint, freeze, restart, never or last-save")
	}
	return func(spec *job.Job) { spec.Stop = m }, nil
}

// gang reads 4, 0.5, 2x0.5 or 2x4.
func gang(role *job.Role, v string) error {
	tasks, each, several := strings.Cut(v, "x")
	if !several {
		tasks, each = "1", v
	}
	n, err := strconv.Atoi(tasks)
	gpu, err2 := unit.ParseMilli(each)
	if err != nil || err2 != nil {
		return fmt.Errorf("write 4, 0.5, or tasks x GPUs of each: 2x0.5")
	}
	if !several && gpu%unit.One == 0 {
		n, gpu = int(gpu/unit.One), unit.One
	}
	role.Tasks, role.GPU = int32(n), gpu
	if n == 0 { // a job without GPUs
		role.Tasks, role.GPU = 1, 0
	}
	return nil
}

func (h *History) tenant(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("has no name")
	}
	t := clusterspec.Tenant{Name: words[0]}
	for _, w := range words[1:] {
		name, v, _ := strings.Cut(w, "=")
		m, err := unit.ParseMilli(v)
		if err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
		switch name {
		case "guarantee":
			t.Guarantee.GPUs = m
		case "limit":
			t.Limit.GPUs = m
		case "weight":
			t.Weight = float64(m) / 1000
		default:
			return fmt.Errorf("%s: write guarantee, limit or weight", w)
		}
	}
	h.Spec.Tenants = append(h.Spec.Tenants, t)
	return nil
}

// happening reads what stands behind at.
func (h *History) happening(words []string) (err error) {
	if len(words) < 3 {
		return fmt.Errorf("write at, a time, what happens and to whom")
	}
	w := Happening{What: words[1], Name: words[2]}
	if w.At, err = seconds(words[0]); err != nil {
		return err
	}
	want := 3
	switch w.What {
	case "down", "drain", "up", "cancel", "hold", "free", "add":
	case "change":
		if want = 4; len(words) == want {
			w.Shape = words[3]
		}
	case "break", "mend":
		if want = 4; len(words) == want {
			w.GPU, err = strconv.Atoi(words[3])
		}
	case "speed":
		if want = 4; len(words) == want {
			w.Speed, err = strconv.ParseFloat(words[3], 64)
		}
	case "foreign":
		w.Use, want = words[3:], len(words)
	default:
		return fmt.Errorf("%s is nothing that happens", w.What)
	}
	if err == nil && len(words) != want {
		err = fmt.Errorf("has %d words, want %d", len(words)+1, want+1)
	}
	h.Happens = append(h.Happens, w)
	return err
}

// event is a happening as a simulated world tells it.
func (w *Happening) event(c *cluster.Cluster, nodes map[string]cluster.NodeID, jobs map[string]int) (eventlog.Event, error) {
	ev := eventlog.Event{Time: duration(w.At)}
	node, isNode := nodes[w.Name]
	id, isJob := jobs[w.Name]
	ev.Node, ev.Job = node, job.ID(id)
	known := isNode
	switch w.What {
	case "down", "change":
		ev.Kind, ev.Health = eventlog.NodeSet, cluster.Down
	case "drain":
		ev.Kind, ev.Health = eventlog.NodeSet, cluster.Cordoned
	case "up":
		ev.Kind = eventlog.NodeSet
	case "foreign":
		ev.Kind = eventlog.Foreign
		if ev.Foreign = new(cluster.Foreign); known {
			if err := w.use(c, node, ev.Foreign); err != nil {
				return ev, fmt.Errorf("at %v foreign %s: %w", w.At, w.Name, err)
			}
		}
	case "break", "mend":
		if int(node) >= c.Nodes() {
			return ev, fmt.Errorf("%s %s: only GPUs of nodes that are there from the start", w.What, w.Name)
		}
		first, n := c.DeviceRange(node)
		if w.GPU < 0 || w.GPU >= n {
			return ev, fmt.Errorf("node %s has no GPU %d", w.Name, w.GPU)
		}
		ev.Kind, ev.Device, ev.Broken = eventlog.Device, first+cluster.DeviceID(w.GPU), w.What == "break"
	default:
		known = isJob
		ev.Kind = map[string]eventlog.Kind{"cancel": eventlog.Cancel, "hold": eventlog.Hold, "free": eventlog.Free, "speed": eventlog.Speed}[w.What]
		ev.Speed, ev.Reason = w.Speed, job.Reason{Code: job.OnHold, Job: job.None}
	}
	if !known {
		return ev, fmt.Errorf("at %v %s %s: there is nobody of that name", w.At, w.What, w.Name)
	}
	return ev, nil
}

// use reads what others use of a node.
func (w *Happening) use(c *cluster.Cluster, node cluster.NodeID, f *cluster.Foreign) (err error) {
	for _, word := range w.Use {
		name, v, _ := strings.Cut(word, "=")
		switch id, counted := c.SlotByName(name); {
		case name == "cpu":
			f.CPU, err = unit.ParseMilli(v)
		case name == "memory":
			f.Memory, err = unit.ParseBytes(v)
		case name == "gpus":
			f.GPUs, err = gpus(c, node, v)
		case counted:
			f.Slots[id], err = strconv.ParseInt(v, 10, 64)
		default:
			err = fmt.Errorf("%s: write cpu=, memory=, gpus= or a counted resource of the cluster", word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gpus reads GPUs of a node that others use: 0,3, or how many where it counts them.
func gpus(c *cluster.Cluster, node cluster.NodeID, v string) (out []cluster.Share, err error) {
	if int(node) >= c.Nodes() {
		return nil, fmt.Errorf("only GPUs of nodes that are there from the start")
	}
	first, n := c.DeviceRange(node)
	for part := range strings.SplitSeq(v, ",") {
		k, err := strconv.Atoi(part)
		switch pooled := c.Node(node).Pooled; {
		case err != nil || k < 0 || !pooled && k >= n:
			return nil, fmt.Errorf("the node has no GPU %s", part)
		case pooled:
			return []cluster.Share{{Device: first, Milli: int32(k) * 1000}}, nil
		}
		out = append(out, cluster.Share{Device: first + cluster.DeviceID(k), Milli: 1000})
	}
	return out, nil
}

// arrive is the nodes of a shorthand, of types and pools that the cluster knows.
func arrive(c *cluster.Cluster, w Happening) ([]cluster.NodeSpec, error) {
	spec, err := clusterspec.Parse(cmp.Or(w.Shape, w.Name))
	if err != nil {
		return nil, err
	}
	site, err := spec.Build()
	if err != nil {
		return nil, err
	}
	var out []cluster.NodeSpec
	for n := range cluster.NodeID(site.Cluster.Nodes()) {
		node := *site.Cluster.Node(n)
		node.GPUs = slices.Clone(node.GPUs)
		node.Domain = 0
		for i := range node.GPUs {
			typ, err := c.AddType(cluster.GPUType{Name: site.Cluster.Type(node.GPUs[i].Type).Name})
			if err != nil {
				return nil, err
			}
			node.GPUs[i].Type = typ
		}
		out = append(out, node)
	}
	return out, nil
}

func seconds(v string) (float64, error) {
	d, err := unit.ParseSeconds(v)
	return d.Seconds(), err
}

func duration(s float64) time.Duration {
	d, _ := unit.Seconds(s) // read by seconds above, so in range
	return d
}
