package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/mps"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
	"github.com/norn-scheduler/norn/sched"
)

// packed is a daemon on three GPUs, the last of which is broken, with a control program
// that stands in for that of CUDA MPS.
type packed struct {
	*here
	idle time.Duration // after which a server is ended that nobody uses
	ids  []string
}

func newPacked(t *testing.T) *packed {
	t.Helper()
	program, err := filepath.Abs("mps/testdata/" + mps.Program)
	if err != nil {
		t.Fatal(err)
	}
	p := &packed{idle: time.Hour} // under a policy that has jobs share, for a restart
	p.here = newHere(t, "muxflow", 3, func(o *local.Options) {
		o.MPS.Program, o.Defaults.ResidentIdle = program, p.idle
		o.Machine.Types[0].Memory = 8 * unit.GiB
		for i := range o.Machine.Devices {
			d := &o.Machine.Devices[i]
			d.Packs, d.UUID, d.Visible, d.Memory = true, fmt.Sprint("GPU-", i), fmt.Sprint("GPU-", i), 8<<30
		}
		o.Machine.Devices[2].UUID = "GPU-broken"
	})
	p.orders(func(*sched.View, *sched.Plan) {})
	return p
}

// start starts a job on a part of a GPU, and returns what it finds in its environment.
func (p *packed) start(d cluster.DeviceID, milli int32, mem unit.Bytes) string {
	p.t.Helper()
	id := p.submit(p.sh(1, `env | grep -E "^(CUDA|NORN_GPU_|XLA|TF)" | sort >e$NORN_JOB; touch up$NORN_JOB; `+awaits("end")))
	p.ids = append(p.ids, id)
	p.orders(func(v *sched.View, plan *sched.Plan) {
		a := half()
		a.Shares[0] = cluster.Share{Device: d, Milli: milli, Memory: mem}
		for j := range v.Waiting() {
			plan.StartOn(j.ID, a)
		}
	})
	p.made("up" + id)
	return strings.ReplaceAll(strings.TrimSpace(p.text("e"+id)), p.server(), "MPS")
}

// server is the folder of the server of the first GPU.
func (p *packed) server() string {
	return filepath.Join(p.setup.State, "mps", fmt.Sprintf("slot0-%d", os.Geteuid()))
}

// Jobs that begin with a part of a GPU compute on it through a server of CUDA MPS, and
// are told their part of its memory; one that has a whole GPU is not. Where there can
// be no server the job runs without. The server outlives the daemon, and ends when
// nobody uses it.
func TestMPS(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	p := newPacked(t)
	const where = "CUDA_MPS_LOG_DIRECTORY=MPS/log\n"
	for _, c := range []struct {
		device cluster.DeviceID
		milli  int32
		mem    unit.Bytes
		want   string
	}{
		{0, 500, 2 * unit.GiB, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50\n" + where + "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2048M\nCUDA_MPS_PIPE_DIRECTORY=MPS/pipe\n" +
			"CUDA_VISIBLE_DEVICES=GPU-0\nNORN_GPU_MEMORY=2147483648\nNORN_GPU_MEMORY_FRACTION=0.25\nTF_FORCE_GPU_ALLOW_GROWTH=true\nXLA_PYTHON_CLIENT_MEM_FRACTION=0.25"},
		{0, 0, 0, "CUDA_MPS_CLIENT_PRIORITY=1\n" + where + "CUDA_MPS_PIPE_DIRECTORY=MPS/pipe\nCUDA_VISIBLE_DEVICES=GPU-0"},
		{1, 1000, 2 * unit.GiB, "CUDA_VISIBLE_DEVICES=GPU-1"},
		{2, 500, 0, "CUDA_VISIBLE_DEVICES=GPU-2"},
	} {
		if have := p.start(c.device, c.milli, c.mem); have != c.want {
			t.Errorf("with %d of device %d a job finds\n%s\nwant\n%s", c.milli, c.device, have, c.want)
		}
	}
	p.down()
	p.idle = 0
	p.up()
	p.orders(func(*sched.View, *sched.Plan) {})
	if have := p.start(0, 250, 0); !strings.HasPrefix(have, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25\n"+where) {
		t.Errorf("after a restart it finds\n%s", have)
	}
	if err := p.LookAtPackers(); err != nil { // which is in use, and stays
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(p.server(), "log", "control.log")); strings.Count(string(b), "start") != 1 || strings.Contains(string(b), "quit") {
		t.Errorf("it was asked for\n%s", b)
	}
	var server rundir.Proc
	text, _ := os.ReadFile(filepath.Join(p.server(), "pipe", mps.Program+".pid"))
	fmt.Sscan(string(text), &server.PID)
	server.Start, _ = runner.StartTime(server.PID)
	if !runner.Alive(server) {
		t.Errorf("its server %q is not there", text)
	}
	p.make("end")
	for _, id := range p.ids {
		p.until(id, api.Done)
	}
	until(t, "the server has ended, and nothing is kept of it", func() bool {
		left, _ := filepath.Glob(filepath.Join(p.setup.State, "mps", "*"))
		return len(left) == 0 && !runner.Alive(server)
	})
}
