package simtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/sleep"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace"
)

// World is a random cluster with random jobs, as Draw makes them.
type World struct {
	Config
	Jobs   []Job
	labels []cluster.NodeSpec // of each node its labels and taints, with Shape.Where
}

// Shape says what Draw may put into a world.
type Shape struct {
	Tenants  bool // several tenants with guarantees and limits
	Types    bool // two GPU types, and jobs that accept only one
	Parts    bool // parts of GPUs, CPUs, memory, several roles
	Costs    bool // transitions that cost time
	Failures bool // nodes and jobs that fail
	Pools    bool // a partition for each tenant
	Busy     bool // the policy leaves no GPUs idle beside a job that waits and fits on them
	Shared   bool // the policy gives jobs parts of the GPUs that they ask for
	Packed   bool // jobs tell what they demand and how much memory they need, perhaps wrongly, and disturb each other; nodes have host devices
	Spread   bool // gangs are slower where they are spread over nodes, by their model
	Still    bool // jobs that stand still on one of two GPU types, and are slower on the other (with Types)
	Apps     bool // jobs that are searches together, some of which tell their rungs
	Adapts   bool // jobs that change their batch and their noise as they go on
	Due      bool // elastic jobs, and jobs with deadlines, strict and soft
	Where    bool // nodes with labels and taints, which change, and jobs that ask for labels, tolerate taints, and want to be in one rack
	Slots    bool // counted resources, which only some nodes have (with Parts)
	Others   bool // others who use what they like of the nodes, and leave in the end (with Operated)
	Lent     bool // nodes of others, who lend them and take them back, and lend all in the end
	Resizes  bool // jobs that resize in place and outlive the loss of a node (with Lent): the policy resizes jobs
	Linked   bool // nodes of which the links between GPUs are known, and jobs that slow each other down on their sockets
	Bursts   bool // nodes in racks whose network adapters and uplinks are slow, and jobs whose iterations send in bursts
	Regions  bool // nodes in racks of zones of regions, some of which stand in none
	Sleeps   bool // idle nodes that sleep and are woken
	Operated bool // nodes that are cordoned and taken down, GPUs that break, jobs that are held and cancelled
}

// Draw makes a random world. Its cluster is made anew by each call of Fresh.
func Draw(t *rapid.T, shape Shape) World {
	w := World{}
	w.Shared, w.Busy = shape.Shared, shape.Busy
	w.Seed = rapid.Uint64Range(0, 1<<20).Draw(t, "seed")
	n := rapid.IntRange(1, 12).Draw(t, "jobs")
	at := 0.0
	for i := range n {
		at += float64(rapid.IntRange(0, 6).Draw(t, "gap")) * 5
		j := Job{
			Key: fmt.Sprintf("j%d", i), At: at, GPUs: rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3, 4, 5, 8}).Draw(t, "gpus"),
			Run: float64(rapid.IntRange(0, 20).Draw(t, "run")) * 5, User: rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user"),
			Model: rapid.SampledFrom([]string{"", "vgg16", "resnet50"}).Draw(t, "model"),
		}
		if rapid.IntRange(0, 5).Draw(t, "fails") == 0 {
			j.Fails = []float64{5, 10}
		}
		if shape.Tenants || shape.Pools {
			j.Tenant = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant")
		}
		if shape.Tenants || shape.Pools {
			j.Partition = rapid.SampledFrom([]string{"", "", "a", "b", "missing"}).Draw(t, "partition")
		}
		if shape.Types || shape.Parts || shape.Where {
			d := drawDemand(t, shape, j.GPUs)
			j.Demand = &d
		}
		j.Spec = drawSpec(t)
		if shape.Due {
			j.Spec = drawDue(t, &j)
		}
		if shape.Adapts {
			j.Spec, j.Course = drawCourse(t, j.Run, j.Spec)
		}
		if shape.Packed {
			j.Spec, j.GPUMemory = drawPacked(t, j.Run, j.Spec)
		}
		if shape.Apps {
			j.Spec = drawApp(t, j.Spec)
		}
		if shape.Linked {
			j.Spec = drawLeast(t, j.Spec)
		}
		if shape.Bursts {
			j.Spec = drawBursts(t, j.Spec)
		}
		w.Jobs = append(w.Jobs, j)
	}
	if shape.Costs {
		c := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 4).Draw(t, name)) * 3 * time.Second
		}
		w.Costs = perf.Costs{Base: perf.Cost{Start: c("start"), Checkpoint: c("checkpoint"), Restore: c("restore"), Migrate: c("migrate"), Resize: c("resize")}}
	}
	w.behave(t, shape)
	world := w.World
	w.World = func(c *sim.Config) {
		if world != nil {
			world(c)
		}
		c.Boot = 15 * time.Second
		if c.Snapshot = 10 * time.Second; shape.Failures {
			c.NodeMTBF, c.NodeRepair, c.JobMTBF = 300*time.Second, 30*time.Second, 200*time.Second
		}
	}
	return w
}

// behave sets how jobs run beside each other and where they are, and which nodes sleep.
func (w *World) behave(t *rapid.T, shape Shape) {
	if shape.Spread {
		w.Model, w.Speeds = spread{}, spread{}
	}
	if shape.Still {
		w.Model, w.Speeds = still{}, still{}
	}
	if shape.Packed {
		w.World = func(c *sim.Config) { c.Sharing, c.Measure = perf.Demands{Switch: 0.05}, true }
		w.Sharing = &perf.Learner{} // which believes at first that nobody disturbs anybody
	}
	if shape.Sleeps {
		w.Sleep = drawSleep(t)
	}
	if shape.Linked {
		w.Sockets = drawSockets(t)
	}
}

// drawSleep draws how nodes are chosen that sleep.
func drawSleep(t *rapid.T) sleep.Config {
	period := time.Duration(rapid.IntRange(1, 6).Draw(t, "period")) * 5 * time.Second
	buffer := rapid.IntRange(0, 2).Draw(t, "buffer")
	if rapid.Bool().Draw(t, "vanilla") {
		return &sleep.Vanilla{Buffer: buffer, Period: period}
	}
	return &sleep.CES{History: 1, Future: 3, Least: 1, Buffer: buffer, Keep: 1, Period: period}
}

// spread is a model in which gangs are slower where they are spread over nodes.
type spread struct{}

func (spread) of(j *job.Job) perf.Analytic {
	return perf.Analytic{Scaling: 1, Spread: map[string]float64{"": 1, "vgg16": 0.4, "resnet50": 0.8}[j.Model]}
}

func (m spread) Speed(j *job.Job, c *cluster.Cluster, a *cluster.Alloc) float64 {
	return m.of(j).Speed(j, c, a)
}

func (m spread) On(j *job.Job, c *cluster.Cluster, t cluster.TypeID, tasks int, apart bool) float64 {
	return m.of(j).On(j, c, t, tasks, apart)
}

// drawApp has a job be one of a search, or by itself.
func drawApp(t *rapid.T, spec func(*job.Job)) func(*job.Job) {
	app := rapid.SampledFrom([]string{"", "a", "a", "b"}).Draw(t, "app")
	rungs := rapid.SampledFrom([]string{"", "4x2+2x2", "2x1+1x4+1x4"}).Draw(t, "rungs")
	iteration := time.Duration(rapid.IntRange(0, 3).Draw(t, "iteration")) * 5 * time.Second
	return func(j *job.Job) {
		if spec != nil {
			spec(j)
		}
		if j.App = app; app == "" || rungs == "" {
			return
		}
		h := job.Hints{Iteration: iteration}
		if j.Hints != nil {
			h = *j.Hints
			h.Iteration = iteration
		}
		h.Rungs, _ = job.ParseRungs(rungs)
		j.Hints = &h
	}
}

func drawSpec(t *rapid.T) func(*job.Job) {
	stop := rapid.SampledFrom([]job.StopMode{job.Checkpoint, job.Checkpoint, job.Checkpoint, job.Restart, job.Pinned, job.LastSave}).Draw(t, "stop")
	priority := rapid.Int32Range(0, 2).Draw(t, "priority")
	return func(j *job.Job) { j.Stop, j.Priority, j.Tier = stop, priority, job.Tier(priority) }
}

// drawDue makes some jobs elastic, by restart or by turns of their workers, and gives some a deadline.
func drawDue(t *rapid.T, j *Job) func(*job.Job) {
	if j.Demand == nil && rapid.Bool().Draw(t, "elastic") {
		d := job.GPUs(j.GPUs)
		d.Roles[0].Min, d.Roles[0].Max = 1, int32(rapid.IntRange(j.GPUs, 8).Draw(t, "most"))
		j.Demand = &d
	}
	before, at, turns := j.Spec, duration(j.At), rapid.Bool().Draw(t, "turns")
	slack, soft := rapid.IntRange(0, 30).Draw(t, "slack"), rapid.Bool().Draw(t, "soft")
	return func(j *job.Job) {
		if before(j); turns {
			j.Resize = job.TimeSliced
		}
		if slack > 0 {
			j.Deadline, j.Soft = at+time.Duration(slack)*5*time.Second, soft
		}
	}
}

// drawCourse is what a job trains with as it goes on, and what it tells of that: the
// batch sizes that it may have, and how many epochs there are.
func drawCourse(t *rapid.T, run float64, spec func(*job.Job)) (func(*job.Job), []trace.Turn) {
	modes := [job.MaxModes]job.Mode{{Batch: 32, Pace: 1}, {Batch: 64, Pace: 1.5}, {Batch: 128, Pace: 0.5}}
	epochs := rapid.IntRange(1, 5).Draw(t, "epochs")
	course := []trace.Turn{{Reported: job.Reported{Batch: 32, Pace: 1}}}
	for e := 1; e < epochs && run > 0; e++ {
		m := rapid.SampledFrom(modes[:3]).Draw(t, "batch")
		if noise := rapid.IntRange(0, 2).Draw(t, "noise"); rapid.Bool().Draw(t, "turns") {
			course = append(course, trace.Turn{
				From:     duration(run / float64(epochs) * float64(e)),
				Reported: job.Reported{Batch: m.Batch, Pace: m.Pace, Noise: float64(noise) * 100, Epoch: int32(e)},
			})
		}
	}
	return func(j *job.Job) {
		spec(j)
		j.Batch, j.Hints = 32, &job.Hints{Epochs: int32(epochs), Modes: modes}
	}, course
}

// drawPacked is what a job tells of what it demands, and its true memory, which may
// be more than is estimated but never more than a GPU has.
func drawPacked(t *rapid.T, run float64, spec func(*job.Job)) (func(*job.Job), unit.Bytes) {
	part := func(name string) float64 { return float64(rapid.IntRange(0, 10).Draw(t, name)) / 10 }
	h := job.Hints{
		GPUUse: part("use"), MemoryUse: part("bandwidth"), CPUUse: part("processors"),
		GPUMemory: unit.Bytes(rapid.IntRange(0, 12).Draw(t, "estimated")) * unit.GiB,
		CPUTime:   duration(run * float64(rapid.IntRange(0, 3).Draw(t, "without GPUs"))),
	}
	truth := min(16*unit.GiB, h.GPUMemory*unit.Bytes(rapid.IntRange(7, 15).Draw(t, "truth"))/10)
	return func(j *job.Job) {
		spec(j)
		j.Hints = &h
	}, truth
}

func drawDemand(t *rapid.T, shape Shape, gpus int) job.Demand {
	d := job.GPUs(gpus)
	if shape.Types {
		d.Types = rapid.SampledFrom([]string{"", "", "A", "B", "B|A", "C"}).Draw(t, "types")
	}
	if shape.Where {
		drawWhere(t, &d)
	}
	if !shape.Parts {
		return d
	}
	r := &d.Roles[0]
	r.GPU = rapid.SampledFrom([]unit.Milli{1000, 1000, 2000, 500, 250, 0}).Draw(t, "part")
	r.CPU = rapid.SampledFrom([]unit.Milli{0, 1000, 2500}).Draw(t, "cpu")
	r.Memory = rapid.SampledFrom([]unit.Bytes{0, unit.GiB, 5 * unit.GiB}).Draw(t, "memory")
	if r.GPU == 0 && r.CPU == 0 && r.Memory == 0 {
		r.CPU = 1000
	}
	if rapid.IntRange(0, 3).Draw(t, "roles") == 0 {
		d.Roles[1] = job.Role{Name: "ps", Tasks: 1, CPU: 2000}
	}
	if shape.Slots {
		r.Slots = rapid.SampledFrom([]job.Slots{"", "rdma=1", "pods=1|rdma=1"}).Draw(t, "slots")
	}
	return d
}

// Fresh is a new cluster and tenant tree of the shape, equal at every call.
func (w *World) Fresh(t *rapid.T, shape Shape, nodes []int) {
	c := cluster.New()
	types := []string{"A", "B"}
	for i, g := range nodes {
		name := "A"
		if shape.Types {
			name = types[i%2]
		}
		typ, err := c.AddType(cluster.GPUType{Name: name, Memory: 16 * unit.GiB})
		if err != nil {
			t.Fatal(err)
		}
		spec := cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: g}}}
		if shape.Packed && i%2 == 0 {
			host, err := c.AddType(cluster.GPUType{Name: "cpu", Host: true})
			if err != nil {
				t.Fatal(err)
			}
			spec.GPUs = append(spec.GPUs, cluster.GPUs{Type: host, Count: 1})
		}
		if shape.Linked {
			spec.Links = links(i, g)
		}
		if shape.Bursts {
			spec.Domain = slowRack(t, c, i/2)
			spec.NICs = cluster.NICs{Count: 1, GBps: 6}
		}
		if shape.Parts {
			spec.CPU, spec.Memory = 8000, 16*unit.GiB
		}
		if shape.Slots {
			for _, name := range []string{"pods", "rdma"} {
				if _, err := c.AddSlot(name); err != nil {
					t.Fatal(err)
				}
			}
			spec.Slots = cluster.Slots{3, int64(i % 3)}
		}
		if shape.Pools {
			spec.Pool = c.AddPool([]string{"a", "b", "c"}[i%3])
		}
		if shape.Lent {
			spec.Name = fmt.Sprint("n", i)
			if i%2 == 1 {
				spec.Labels = []label.Label{{Key: cluster.LenderLabel, Value: "owner"}}
			}
		}
		if shape.Where {
			spec.Domain = rack(t, c, i/2)
			if shape.Regions {
				spec.Domain = regional(t, c, i)
			}
			spec.Labels, spec.Taints = w.labels[i].Labels, w.labels[i].Taints
		}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	w.Cluster = c
	w.Tenants = nil
	if shape.Tenants {
		w.Tenants = tenant.NewTree(time.Minute)
		total := unit.Milli(c.TotalGPUs(0, 0)) * unit.One
		for i, name := range []string{"a", "b", "c"} {
			limit := unit.Milli(0)
			if i == 2 {
				limit = total/2 + unit.One
			}
			if _, err := w.Tenants.Add(name, tenant.Root, total/4/unit.One*unit.One, limit, float64(1+i)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// links are those of the GPUs of a node, others for each node: NVLinks one and two at a time, and
// pairs without any.
func links(node, gpus int) *cluster.Links {
	l := cluster.NewLinks(gpus)
	for i := range gpus {
		for j := range i {
			if n := (i*j + i + node) % 3; n > 0 {
				l.Connect(i, j, cluster.Link{Class: cluster.NVLink, Count: uint8(n), Gen: 2})
			}
		}
	}
	return l
}

// operate adds a random operator: what he does to nodes, GPUs and jobs. In the end
// all nodes are up, all GPUs whole and no job is held. Nodes change at moments at
// which jobs come and go as well; jobs are held and cancelled between them.
func (w *World) operate(t *rapid.T, nodes []int) {
	var script []eventlog.Event
	add := func(at float64, ev eventlog.Event) {
		ev.Time = duration(at)
		script = append(script, ev)
	}
	gpus := 0
	for n, g := range nodes {
		add(500, eventlog.Event{Kind: eventlog.NodeSet, Node: cluster.NodeID(n)})
		gpus += g
	}
	for d := range gpus {
		add(500, eventlog.Event{Kind: eventlog.Device, Device: cluster.DeviceID(d)})
	}
	for i := range w.Jobs {
		add(500, eventlog.Event{Kind: eventlog.Free, Job: job.ID(i)})
	}
	for range rapid.IntRange(0, 8).Draw(t, "operations") {
		at := float64(rapid.IntRange(0, 25).Draw(t, "at")) * 5
		i := rapid.IntRange(0, len(w.Jobs)-1).Draw(t, "which job")
		switch known := max(at, w.Jobs[i].At) + 1; rapid.IntRange(0, 5).Draw(t, "operation") {
		case 0, 1:
			n := cluster.NodeID(rapid.IntRange(0, len(nodes)-1).Draw(t, "node"))
			health := rapid.SampledFrom([]cluster.Health{cluster.Up, cluster.Cordoned, cluster.Cordoned, cluster.Down}).Draw(t, "health")
			add(at, eventlog.Event{Kind: eventlog.NodeSet, Node: n, Health: health})
		case 2:
			d := cluster.DeviceID(rapid.IntRange(0, gpus-1).Draw(t, "device"))
			add(at, eventlog.Event{Kind: eventlog.Device, Device: d, Broken: true})
		case 3:
			add(known, eventlog.Event{Kind: eventlog.Hold, Job: job.ID(i)})
		case 4:
			add(known, eventlog.Event{Kind: eventlog.Free, Job: job.ID(i)})
		case 5:
			add(known, eventlog.Event{Kind: eventlog.Cancel, Job: job.ID(i)})
		}
	}
	slices.SortStableFunc(script, func(a, b eventlog.Event) int { return cmp.Compare(a.Time, b.Time) })
	world := w.World
	w.World = func(c *sim.Config) {
		if c.Script = slices.Clone(script); world != nil {
			world(c)
		}
	}
}

// others adds use of the nodes by others at random moments, until they leave.
func (w *World) others(t *rapid.T, nodes []int) {
	first := make([]cluster.DeviceID, len(nodes)+1)
	for n, g := range nodes {
		first[n+1] = first[n] + cluster.DeviceID(g)
	}
	var script []eventlog.Event
	for range rapid.IntRange(0, 8).Draw(t, "times of others") {
		n := rapid.IntRange(0, len(nodes)-1).Draw(t, "node of others")
		f := cluster.Foreign{
			CPU:    rapid.SampledFrom([]unit.Milli{0, 1000, 6000, 9000}).Draw(t, "cpu of others"),
			Memory: rapid.SampledFrom([]unit.Bytes{0, 4 * unit.GiB, 20 * unit.GiB}).Draw(t, "memory of others"),
		}
		for d := first[n]; d < first[n+1]; d++ {
			if rapid.IntRange(0, 3).Draw(t, "GPU of others") == 0 {
				f.GPUs = append(f.GPUs, cluster.Share{Device: d, Milli: 1000})
			}
		}
		script = append(script, eventlog.Event{
			Time: duration(float64(rapid.IntRange(0, 25).Draw(t, "when others")) * 5), Kind: eventlog.Foreign, Node: cluster.NodeID(n), Foreign: &f,
		})
	}
	for n := range nodes {
		script = append(script, eventlog.Event{Time: duration(500), Kind: eventlog.Foreign, Node: cluster.NodeID(n), Foreign: &cluster.Foreign{}})
	}
	world := w.World
	w.World = func(c *sim.Config) {
		if world != nil {
			world(c)
		}
		c.Script = append(slices.Clone(c.Script), script...)
		slices.SortStableFunc(c.Script, func(a, b eventlog.Event) int { return cmp.Compare(a.Time, b.Time) })
	}
}

// lend has every other node be lent and taken back at random moments, each by itself or as
// many as the owner says, until all are lent.
func (w *World) lend(t *rapid.T, nodes int, resizes bool) {
	for i := range w.Jobs {
		if !resizes {
			break
		}
		way, spec := rapid.SampledFrom([]job.ResizeMode{job.ByRestart, job.InPlace, job.TimeSliced}).Draw(t, "resizes"), w.Jobs[i].Spec
		w.Jobs[i].Spec = func(j *job.Job) {
			if spec != nil {
				spec(j)
			}
			if way != job.ByRestart {
				d := *j.Demand
				d.Roles[0].Min, j.Resize, j.Demand = 1, way, &d
			}
		}
	}
	var loans []trace.Loan
	named := rapid.Bool().Draw(t, "named")
	for range rapid.IntRange(0, 8).Draw(t, "loans") {
		at := duration(float64(rapid.IntRange(0, 25).Draw(t, "loan at")) * 5)
		notice := duration(float64(rapid.IntRange(0, 3).Draw(t, "notice")) * 4)
		if named {
			node := rapid.IntRange(0, nodes-1).Draw(t, "loan of")
			loans = append(loans, trace.Loan{At: at, Node: fmt.Sprint("n", node), Lent: rapid.Bool().Draw(t, "lent"), Notice: notice})
		} else if nodes > 1 {
			loans = append(loans, trace.Loan{At: at, Lender: "owner", Nodes: rapid.IntRange(0, nodes/2).Draw(t, "lends"), Notice: notice})
		}
	}
	for i := range nodes {
		if named {
			loans = append(loans, trace.Loan{At: duration(500), Node: fmt.Sprint("n", i), Lent: true})
		} else if nodes > 1 {
			loans = append(loans, trace.Loan{At: duration(500), Lender: "owner", Nodes: nodes / 2})
		}
	}
	slices.SortStableFunc(loans, func(a, b trace.Loan) int { return cmp.Compare(a.At, b.At) })
	world := w.World
	w.World = func(c *sim.Config) {
		if c.Loans, c.InPlace = loans, resizes; world != nil {
			world(c)
		}
	}
}

// Properties checks a policy on random worlds of a shape. The policy keeps the
// invariants of every run, and every job that can run ends. It decides the same when it
// is replaced by a new one at random moments. A failure prints the smallest history
// that shows it.
func Properties(t *testing.T, shape Shape, build func() (sched.Policy, error)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		w := Draw(t, shape)
		w.Make = build
		nodes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(t, "nodes")
		if shape.Where {
			w.tell(t, len(nodes))
		}
		if shape.Operated {
			w.operate(t, nodes)
		}
		if shape.Others {
			w.others(t, nodes)
		}
		if shape.Lent {
			w.lend(t, len(nodes), shape.Resizes)
		}
		w.Fresh(t, shape, nodes)
		run, err := Try(w.Config, w.Jobs...)
		if err != nil {
			t.Fatalf("%v\n%s", err, run.text())
		}
		run.checkEnded(t)
		w.Fresh(t, shape, nodes)
		w.Restart = true
		again, err := Try(w.Config, w.Jobs...)
		if err != nil {
			t.Fatalf("with restarts: %v\n%s", err, again.text())
		}
		SameDecisions(t, "a policy that starts anew", run.Log, again.Log)
	})
}

// checkEnded fails when a job was left that could have run.
func (r *Run) checkEnded(t *rapid.T) {
	for i := range r.State.Jobs() {
		rec := r.State.Record(job.ID(i))
		if !rec.Phase.Over() && !rec.Reason.Never() {
			t.Fatalf("job %s was left %s (%v)\n%s", rec.Job.Key, rec.Phase, rec.Reason, r.text())
		}
	}
}

// SameDecisions fails the test where two logs (Run.Log) tell of other decisions. who
// made the second one.
func SameDecisions(t *rapid.T, who string, first, second []string) {
	t.Helper()
	a, b := decisions(first), decisions(second)
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Fatalf("%s decides otherwise:\n%s\n--- otherwise:\n%s", who, around(a, i), around(b, i))
		}
	}
}

// around is the lines of a log up to a few behind line i.
func around(lines []string, i int) string {
	return strings.Join(lines[:min(len(lines), i+5)], "\n")
}

// decisions are the lines of a log without the reasons given to jobs that
// wait, which need not be given again in the same words. Lines of one kind that follow each
// other at one moment are in order. A plan tells of its jobs in the order in which the policy first
// tried something with them, also in vain, and a policy that starts anew goes through all
// jobs by number.
func decisions(log []string) []string {
	out := slices.DeleteFunc(slices.Clone(log), func(line string) bool { return strings.Contains(line, " wait ") })
	alike := func(a, b string) bool {
		x, y := strings.Fields(a), strings.Fields(b)
		return len(x) > 1 && len(y) > 1 && x[0] == y[0] && x[1] == y[1]
	}
	for from := 0; from < len(out); {
		to := from + 1
		for to < len(out) && alike(out[from], out[to]) {
			to++
		}
		slices.Sort(out[from:to])
		from = to
	}
	return out
}

func (r *Run) text() string {
	out := ""
	for _, line := range r.Log {
		out += line + "\n"
	}
	return out
}
