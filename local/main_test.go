package local_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/live/planner"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/runner"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/tenant"
)

// TestMain lets this program stand in for norn: as the runner of a run, as a
// daemon that a test may kill, and as a job.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case runner.Verb:
			os.Exit(runner.Main(os.Args[2]))
		case planner.Verb:
			os.Exit(planner.Main(os.Args[2]))
		case "daemon":
			os.Exit(daemonMain(os.Args[2]))
		case "job":
			os.Exit(jobMain(os.Args[2]))
		case "decide":
			os.Exit(deciderMain(os.Args[2], os.Args[3]))
		case "act":
			os.Exit(actorMain(os.Args[2]))
		}
	}
	// Most tests wait for processes most of the time, so that many may run at once; with more than
	// these, they wait for each other.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		f.Value.Set("10")
	}
	os.Exit(m.Run())
}

// setup is how a test wants its daemon.
type setup struct {
	State  string
	Slots  int
	Policy string
	Types  []string             // GPU type of each device; nil: slots
	Edit   func(*local.Options) `json:"-"`
}

// options are those of a daemon with slots.
func (s *setup) options() (local.Options, error) {
	choice, err := experiment.ParseChoice(s.Policy, foreign.Live())
	if err != nil {
		return local.Options{}, err
	}
	exe, err := os.Executable()
	if err != nil {
		return local.Options{}, err
	}
	m := local.Machine{
		Name: "box", Types: []cluster.GPUType{{Name: "slot"}},
		Node: cluster.NodeSpec{Name: "box", CPU: 64 * unit.One, Memory: 64 << 30, GPUs: []cluster.GPUs{{Type: 0, Count: s.Slots}}},
	}
	if s.Slots == 0 {
		m.Node.GPUs = nil
	}
	for i := range s.Slots {
		m.Devices = append(m.Devices, local.Device{Name: "slot" + strconv.Itoa(i), Type: "slot", NUMA: -1, Env: "CUDA_VISIBLE_DEVICES", Visible: strconv.Itoa(i)})
	}
	opt := local.Options{
		State: s.State, Exe: exe, Socket: filepath.Join(s.State, "norn.sock"), Machine: m, Policy: choice,
		Tenants:   func() (*tenant.Tree, error) { return tenant.NewTree(0), nil },
		Estimator: predict.User{}, Estimates: "user",
		Operator: func(uid uint32, user string) bool { return uid == uint32(os.Getuid()) },
		Defaults: local.Defaults{
			Stop: api.Stop{Mode: "never", Grace: 5}, CPUs: 1, CancelGrace: 1, LogBytes: 1 << 20, LogKeep: 2,
			Patience: live.Patience{CrashTimes: 5, CrashWithin: 5 * time.Second, SaveFailures: 3},
		},
		Limits: local.Limits{Compact: 100_000, Recent: 1000, Jobs: 20_000, Array: 10_000},
	}
	if s.Edit != nil {
		s.Edit(&opt)
	}
	return opt, nil
}

// daemonMain is a daemon as a process of its own.
func daemonMain(arg string) int {
	var s setup
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, &s); err != nil {
		fmt.Fprintln(os.Stderr, "daemon:", err)
		return 1
	}
	return 0
}

// serve runs a daemon with its API until the context ends.
func serve(ctx context.Context, s *setup) error {
	opt, err := s.options()
	if err != nil {
		return err
	}
	d, err := local.Open(opt)
	if err != nil {
		return err
	}
	defer d.Close()
	srv, err := server.New(server.Config{Backend: d, Socket: opt.Socket, Operators: opt.Operator})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()
	err = d.Run(ctx)
	if serr := <-served; err == nil {
		err = serr
	}
	return err
}
