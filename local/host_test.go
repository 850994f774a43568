package local_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local"
)

// withHosts gives a machine host devices of so many cores behind its slots.
func withHosts(n int, cores float64, more ...func(*local.Options)) func(*local.Options) {
	return func(o *local.Options) {
		m := &o.Machine
		m.Types = append(m.Types, cluster.GPUType{Name: "host", Memory: 8 * unit.GiB, Host: true})
		m.Node.GPUs = append(m.Node.GPUs, cluster.GPUs{Type: cluster.TypeID(len(m.Types) - 1), Count: n})
		for i := range n {
			m.Devices = append(m.Devices, local.Device{
				Name: fmt.Sprint("host", i), Type: "host", NUMA: -1, Memory: 8 << 30, Env: "CUDA_VISIBLE_DEVICES", Host: true, Cores: cores,
			})
		}
		for _, f := range more {
			f(o)
		}
	}
}

const shows = `echo "$CUDA_VISIBLE_DEVICES,$NORN_GPUS,$OMP_NUM_THREADS"`

// A host device is no GPU: who asks for GPUs gets none of them, who names the type
// gets one, sees no GPU there, and keeps it over a restart of the daemon.
func TestHostDevice(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, withHosts(2, 3))
	_, err := h.Submit(background, h.me, h.sh(2, "true"))
	refused(t, err, api.Invalid, "the job needs 2 GPUs; this machine has 1 that it could use")
	spec := h.sh(1, shows+" >on-host; touch up; "+awaits("enough"))
	spec.Types = []string{"host"}
	a := h.submit(spec)
	h.made("up")
	b := h.submit(h.sh(1, shows+" >on-gpu"))
	h.until(b, api.Done)
	if have := h.text("on-gpu"); have != "0,1,\n" {
		t.Errorf("a job on a GPU sees %q", have)
	}
	h.down()
	h.up()
	j := h.running(a, 1)
	if have := h.text("on-host"); have != ",0,3\n" || fmt.Sprint(j.Devices) != "[host0]" || j.Allocated != 0 || j.Run != 1 {
		t.Errorf("a job on processors sees %q: %+v", have, j)
	}
	if al, err := h.task(a, 1).Allocation(background); err != nil || !al.Host || al.GPUs != 0 || fmt.Sprint(al.Devices) != "[host0]" || al.Tasks != 1 {
		t.Errorf("%+v, %v", al, err)
	}
	n, err := h.Node(background)
	if err != nil || len(n.Devices) != 3 || n.Devices[0].Host || !n.Devices[1].Host || fmt.Sprint(n.Devices[1].Jobs) != "["+a+"]" {
		t.Errorf("%+v, %v", n, err)
	}
	h.make("enough")
	if j := h.until(a, api.Done); j.GPUTime != 0 {
		t.Errorf("%v GPU seconds without a GPU", j.GPUTime)
	}
}

// The declarations of a job must make sense.
func TestHintsRefused(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 2, withHosts(1, 1))
	for words, edit := range map[string]func(*api.JobSpec){
		"write 0 to 1":                                          func(s *api.JobSpec) { s.Use.CPU = 1.5 },
		"the use of a job is a part":                            func(s *api.JobSpec) { s.Use.Memory = math.NaN() },
		"a size or a time is negative":                          func(s *api.JobSpec) { s.CPUEst = -1 },
		"cpu_est is for jobs of one task":                       func(s *api.JobSpec) { s.CPUEst, s.GPUs = 9, api.Fixed(2) },
		"that ask for one GPU, or for a p":                      func(s *api.JobSpec) { s.CPUEst, s.GPUs = 9, api.Fixed(0) },
		`shape of job ads: layers deep: "8x": write the widths`: func(s *api.JobSpec) { s.Name, s.Batch, s.Shape = "ads", 4, "layers deep 8x; optimizer sgd" },
		"rungs of job sh: \"4\" is no rung":                     func(s *api.JobSpec) { s.App, s.Rungs = "lr", "4" },
		`plan of job sh: "rings": write pipeline`:               func(s *api.JobSpec) { s.Plan = "rings" },
		"shape of job sh: batch is not told":                    func(s *api.JobSpec) { s.Shape = "layers 8x1; optimizer sgd" },
	} {
		spec := h.sh(1, "true")
		edit(&spec)
		_, err := h.Submit(background, h.me, spec)
		refused(t, err, api.Invalid, words)
	}
}

// The app and the layout of a job reach the engine, and the app its users.
func TestAppIsTold(t *testing.T) {
	t.Parallel()
	h := newHere(t, "themis", 1, nil)
	spec := h.sh(1, "true")
	spec.App, spec.Rungs, spec.Plan, spec.Held = "lr", "4x8+1x16", job.Pipeline, true
	id := h.submit(spec)
	if j := h.job(id); j.App != "lr" {
		t.Errorf("%+v", j)
	}
	for _, e := range h.log() {
		if e.Kind == eventlog.Submit {
			if j := e.Spec; j.App != "lr" || j.Hints == nil || j.Hints.Rungs.String() != "4x8+1x16" || !j.Pipelined() {
				t.Errorf("the log tells %+v", j)
			}
		}
	}
}

// A live job that tells the shape of its model has its memory estimated from that, and
// its user is told so.
func TestShapeIsTold(t *testing.T) {
	t.Parallel()
	h := newHere(t, "rmixer(batch-window=0)", 1, nil)
	spec := h.sh(1, "true")
	spec.Batch, spec.Shape = 512, "table fields 1000001x9*26; layers deep 247x512x256x128; layers last 466x1; optimizer adam; params 247; kept 2223; once 466"
	spec.Held = true
	id := h.submit(spec)
	w, err := h.Why(background, h.me, id)
	if want := "takes 1041.33 MiB of the memory of each GPU, estimated from the shapes of its layers with 512 samples a batch: 36 MiB of parameters, "; err != nil || !strings.HasPrefix(w.Memory, want) {
		t.Errorf("%q, %v, want %q", w.Memory, err, want)
	}
}

// used is what the log tells of the use of a device.
func (h *here) used(d cluster.DeviceID) []eventlog.Event {
	var out []eventlog.Event
	for _, e := range h.log() {
		if e.Kind == eventlog.Used && e.Device == d {
			out = append(out, e.Event)
		}
	}
	return out
}

// The use of processors by jobs, and a driver's report about a GPU, reach the
// engine when they have changed noticeably, and not again and again.
func TestUseIsMeasured(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	var gpu sickness
	gpu.says = []local.Sample{{OK: true, Util: 0.5, Used: 3 << 30}}
	h := newHere(t, "fifo", 1, withHosts(1, 0.5, func(o *local.Options) { o.Machine.Sample = gpu.sample }))
	look := func() {
		t.Helper()
		if err := h.LookAtDevices(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the GPU is measured", func() bool { look(); return len(h.used(0)) == 1 })
	if e := h.used(0)[0]; e.Use != 0.5 || e.Memory != 3*unit.GiB {
		t.Errorf("%+v", e)
	}
	spec := h.sh(1, "while [ ! -e enough ]; do :; done")
	spec.Types = []string{"host"}
	a := h.submit(spec)
	h.running(a, 1)
	until(t, "its use is measured", func() bool {
		look()
		return slices.ContainsFunc(h.used(1), func(e eventlog.Event) bool { return e.Use > 0.15 })
	})
	n, err := h.Node(background)
	if d := n.Devices[1]; err != nil || !d.Measured || d.Used <= 0 {
		t.Errorf("%+v, %v", d, err)
	}
	h.make("enough")
	h.until(a, api.Done)
	until(t, "it is idle again", func() bool {
		look()
		all := h.used(1)
		last := all[len(all)-1]
		return last.Use == 0 && last.Memory == 0
	})
	before := len(h.log())
	for range 20 {
		look()
	}
	if after := len(h.log()); after != before {
		t.Errorf("the log of an idle machine grew by %d events", after-before)
	}
	gpu.mu.Lock()
	gpu.says[0].Util = 0.55
	gpu.mu.Unlock()
	look()
	h.down() // a new epoch knows nothing of it
	h.up()
	until(t, "the GPU is measured anew", func() bool { look(); return len(h.used(0)) == 2 })
	if e := h.used(0)[1]; e.Use != 0.55 {
		t.Errorf("%+v", e)
	}
}

// RMixer as the simulator knows it: several jobs on one GPU, and those that can do
// without one on the processors, over a restart of the daemon.
func TestRMixer(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "rmixer(gpu-workers=2,cpu-workers=1,beta=0,batch-size=6)", 1, withHosts(1, 1))
	on := map[string][]string{} // jobs by device
	var ids []string
	for i := range 6 {
		spec := h.sh(1, awaits(fmt.Sprint("end", i)))
		spec.Kind, spec.Estimate, spec.CPUEst = "recommendation", 10, 40
		spec.Use.GPU = 0.1 * float64(6-i)
		ids = append(ids, h.submit(spec))
	}
	look := func() {
		t.Helper()
		clear(on)
		all, err := h.Jobs(background, h.me, api.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range all {
			if j.State == api.Running {
				on[strings.Join(j.Devices, " ")] = append(on[strings.Join(j.Devices, " ")], j.ID)
			}
		}
	}
	until(t, "the batch is dealt out", func() bool { look(); return len(on["slot0"]) == 2 && len(on["host0"]) == 1 })
	// All but the last are compute-intensive: that one goes to the GPU first, then the
	// one of most use beside it. Processors take from the end of the list.
	if have := fmt.Sprint(on["slot0"], on["host0"]); have != fmt.Sprint([]string{ids[0], ids[5]}, ids[4:5]) {
		t.Errorf("on the GPU and on the processors are %v of %v", have, ids)
	}
	if j := h.job(on["slot0"][0]); j.Allocated != 0.5 {
		t.Errorf("it holds %v GPUs", j.Allocated)
	}
	h.down()
	h.up()
	look()
	if len(on["slot0"]) != 2 || len(on["host0"]) != 1 {
		t.Errorf("after a restart: %v", on)
	}
	hosted := on["host0"][0]
	if j := h.job(hosted); j.ExpectEnd.Sub(j.Started).Seconds() < 30 { // 10 s of work take 40 s here
		t.Errorf("on processors it is expected to end at %v, started %v", j.ExpectEnd, j.Started)
	}
	for i := range 6 {
		h.make(fmt.Sprint("end", i))
	}
	for _, id := range ids {
		h.until(id, api.Done)
	}
	if len(h.life(hosted, eventlog.Start)) != 1 {
		t.Errorf("%v", h.life(hosted))
	}
}
