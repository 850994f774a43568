package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/cgroup"
	"github.com/norn-scheduler/norn/local/config"
	"github.com/norn-scheduler/norn/local/hardware"
	"github.com/norn-scheduler/norn/local/mps"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/tenant"
)

// upFlags are what norn up takes beside the configuration.
type upFlags struct {
	config, state, socket, devices, policy, server string
	detach                                         bool
}

func upCommand() *cobra.Command {
	f := &upFlags{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Serve this machine: accept jobs, allocate devices, and go on after any crash",
		Long: `Up finds the GPUs, CPUs and memory of this machine and allocates them to jobs from
norn submit. Without GPUs it can manage declared slots (--devices 4), so you can try
everything on a laptop.

Up runs in the foreground until it is interrupted, or in the background with --detach.
Jobs go on when it ends, however it ends, and the next norn up finds them again. One
state folder keeps everything. norn config show --default prints a configuration to
begin with.`,
		Example: `  norn up
  norn up --devices 4 --policy srtf
  norn up --config /etc/norn/norn.yaml --detach`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.load()
			if err != nil {
				return err
			}
			if f.detach {
				return f.background(cmd.OutOrStdout(), c)
			}
			return up(cmd.Context(), c, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "", "configuration (default: "+config.Path()+", if it is there)")
	cmd.Flags().StringVar(&f.state, "state", "", "state folder, instead of that of the configuration")
	cmd.Flags().StringVar(&f.socket, "socket", "", "path of the API's socket, instead of that of the configuration")
	cmd.Flags().StringVar(&f.devices, "devices", "", "devices to allocate: auto, or a number of declared slots")
	cmd.Flags().StringVar(&f.policy, "policy", "", "policy, such as srtf or 'fifo(mode=easy)', instead of that of the configuration")
	cmd.Flags().BoolVarP(&f.detach, "detach", "d", false, "run in the background, with messages in norn.log in the state folder")
	complete(cmd, map[string]completer{"config": files, "state": files, "socket": files, "policy": completeList(policyNames)})
	return cmd
}

// load is the configuration with what the flags say instead.
func (f *upFlags) load() (*config.Config, error) {
	c, _, err := config.Load(f.config)
	if err != nil {
		return nil, err
	}
	if f.state != "" {
		moved := c.Socket == filepath.Join(c.State, "norn.sock")
		if c.State, err = filepath.Abs(f.state); err != nil {
			return nil, err
		}
		if moved {
			c.Socket = filepath.Join(c.State, "norn.sock")
		}
	}
	if f.socket != "" {
		if c.Socket, err = filepath.Abs(f.socket); err != nil {
			return nil, err
		}
	}
	switch n, err := strconv.Atoi(f.devices); {
	case f.devices == "":
	case f.devices == "auto":
		c.Devices = config.Devices{Auto: true}
	case err != nil || n < 0 || n > cluster.MaxGroup:
		return nil, misused("--devices %s: write auto, or a number of slots from 0 to %d", f.devices, cluster.MaxGroup)
	default:
		c.Devices = config.Devices{Slots: config.OfSlots(n)}
	}
	if f.policy != "" {
		all, err := choices([]string{f.policy}, nil, foreign.Live())
		if err != nil {
			return nil, err
		}
		if len(all) != 1 {
			return nil, misused("--policy %s: only one policy is in force at a time", f.policy)
		}
		c.Policy = all[0]
	}
	if _, err := c.Policy.Make(); err != nil {
		return nil, err
	}
	return c, nil
}

// up serves until the context ends.
func up(ctx context.Context, c *config.Config, errOut io.Writer) error {
	debug.SetGCPercent(100) // while it takes in what was left behind, which may be much
	log := slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: c.LogLevel}))
	opt, found, err := options(c, log)
	if err != nil {
		return err
	}
	defer found.Close()
	d, err := local.Open(opt)
	if err != nil {
		return err
	}
	debug.SetGCPercent(50) // from here on it idles most of its life: small before fast
	debug.FreeOSMemory()
	backend := new(server.Switch)
	backend.Set(d)
	srv, err := server.New(serving(c, backend, log))
	if err != nil {
		d.Close()
		return err
	}
	if err := writePID(c.State); err != nil { // as on a full disk
		log.Error("the number of this process cannot be written down, so norn down will not find it", "error", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		err := srv.Serve(ctx)
		stop() // a daemon that nobody can talk to ends
		served <- err
	}()
	log.Info("norn is up", "machine", opt.Machine.Name, "devices", len(opt.Machine.Devices), "policy", c.Policy.String(), "socket", c.Socket, "state", c.State)
	for _, note := range append(found.Notes, opt.Machine.Isolation...) {
		log.Info(note)
	}
	err = local.Keep(ctx, d, func() (*local.Daemon, error) {
		opt.Estimator = c.Estimates.Make() // it learns from the history again
		next, err := local.Open(opt)
		if err == nil {
			backend.Set(next)
		}
		return next, err
	})
	stop()
	if serr := <-served; err == nil {
		err = serr
	}
	log.Info("norn ends; jobs go on")
	return err
}

// options is what the daemon must be told, from the configuration and from what
// is found on the machine.
func options(c *config.Config, log *slog.Logger) (local.Options, *hardware.Machine, error) {
	exe, err := os.Executable()
	if err != nil {
		return local.Options{}, nil, err
	}
	m, err := hardware.Find(hardware.Options{
		Declare: !c.Devices.Auto && len(c.Devices.Only) == 0, Slots: slotsOf(c), Only: c.Devices.Only,
		SlotMem: c.SlotMem, Hosts: c.Host.Slots, HostMem: c.Host.Memory,
		Reserve: hardware.Reserve{CPUs: c.Reserve.CPUs, Memory: c.Reserve.Memory},
	})
	if err != nil {
		return local.Options{}, nil, err
	}
	parent, isolation, err := confine(c)
	if err != nil {
		return local.Options{}, nil, err
	}
	machine := machineOf(m)
	machine.Node.Labels, machine.Node.Taints = c.Labels, c.Taints
	machine.Counted = c.Counted
	machine.Isolation = isolation
	packing, note, err := packing(c, &machine)
	if err != nil {
		return local.Options{}, nil, err
	}
	if note != "" {
		machine.Isolation = append(machine.Isolation, note)
	}
	gpus := 0
	for i := range machine.Devices {
		if !machine.Devices[i].Host {
			gpus++
		}
	}
	tree := func() (*tenant.Tree, error) { return c.Tree(unit.Milli(gpus) * unit.One) }
	if _, err := tree(); err != nil {
		return local.Options{}, nil, err
	}
	return local.Options{
		State: c.State, Exe: exe, Socket: c.Socket, Machine: machine, Tenants: tree, Policy: c.Policy, Transfer: c.Transfer(), Speeds: c.Declared(),
		Estimator: c.Estimates.Make(), Estimates: c.Estimates.String(), Version: version(), Log: log,
		Operator: func(uid uint32, user string) bool { return c.Operator(user, uid) },
		TenantOf: c.TenantOf,
		Defaults: local.Defaults{
			Stop:  api.Stop{Mode: c.Jobs.Stop.String(), Grace: api.Of(c.Jobs.Grace)},
			Retry: api.Retry{Limit: c.Jobs.Retry, Backoff: api.Of(c.Jobs.Backoff)},
			CPUs:  float64(c.Jobs.CPUs) / 1000, CancelGrace: api.Of(c.Jobs.CancelGrace), ResidentIdle: c.Jobs.ResidentIdle,
			LogBytes: api.Bytes(c.Logs.Bytes), LogKeep: c.Logs.Keep, Cgroup: parent,
			Patience: live.Patience{CrashTimes: c.Health.CrashTimes, CrashWithin: c.Health.CrashWithin, SaveFailures: c.Health.Checkpoints},
			Period:   c.Sharing.Period, SpeedFor: c.Sharing.SpeedFor, SpeedMargin: c.Sharing.SpeedMargin,
			MemoryFactor: c.Sharing.MemoryFactor, MemoryFor: c.Sharing.MemoryFor,
		},
		MPS: packing,
		Limits: local.Limits{
			Reserve: api.Bytes(c.Disk.Reserve), Refuse: api.Bytes(c.Disk.Refuse), Compact: c.History.Compact, Recent: c.History.Jobs,
			Jobs: c.Limits.Jobs, Array: c.Limits.Array, Quotas: live.Quotas{User: quotaOf(&c.Limits.User), Tenant: quotaOf(&c.Limits.Tenant)}, Outputs: c.Logs.Retain, Logs: c.History.Keep, Sample: c.Health.Sample,
		},
	}, m, nil
}

// quotaOf is what one user or tenant may have, as the daemon knows it.
func quotaOf(q *config.Quota) live.Quota {
	return live.Quota{
		Queued: q.Queued, Running: q.Running, GPUs: float64(q.GPUs) / float64(unit.One), Memory: api.Bytes(q.Memory),
		Array: q.Array, Priority: q.Priority, Grace: q.Grace, PIDs: q.PIDs,
	}
}

// slotsOf is the slots that a configuration declares.
func slotsOf(c *config.Config) (all []hardware.Slots) {
	for _, s := range c.Devices.Slots {
		all = append(all, hardware.Slots{Type: s.Type, Count: s.Count})
	}
	return all
}

// confine finds out how jobs can be confined: the cgroup for their own, if any,
// and what is in force, for a reader.
func confine(c *config.Config) (parent string, notes []string, err error) {
	if c.Isolation.Cgroups == config.Off {
		return "", []string{"jobs run in process groups of their own; CPU, memory and devices are not limited: cgroups are turned off"}, nil
	}
	m, notes := cgroup.Detect(c.CgroupParent())
	if m == nil && c.Isolation.Cgroups == config.On {
		return "", nil, fmt.Errorf("the configuration asks for cgroups, but %s", strings.Join(notes, "; "))
	}
	if m == nil {
		return "", notes, nil
	}
	return m.Parent(), m.Isolation(), nil
}

// packing finds out whether jobs can compute at the same time on one GPU, and says so
// where there is any that could.
func packing(c *config.Config, m *local.Machine) (local.MPS, string, error) {
	some := slices.ContainsFunc(m.Devices, func(d local.Device) bool { return d.Packs })
	program := mps.Find()
	switch {
	case c.Sharing.MPS == config.On && !some:
		return local.MPS{}, "", errors.New("the configuration asks for CUDA MPS (sharing: mps: on), but there is no NVIDIA GPU here that could use it")
	case c.Sharing.MPS == config.On && program == "":
		return local.MPS{}, "", fmt.Errorf("the configuration asks for CUDA MPS (sharing: mps: on), but %s is not in PATH", mps.Program)
	case !some:
		return local.MPS{}, "", nil
	case c.Sharing.MPS == config.Off:
		return local.MPS{}, "jobs that share a GPU use it in turns: CUDA MPS is turned off", nil
	case program == "":
		return local.MPS{}, "jobs that share a GPU use it in turns: " + mps.Program + " is not in PATH", nil
	case c.Sharing.MPS == config.On:
		return local.MPS{Program: program, Always: true}, "jobs compute through CUDA MPS, those that share a GPU at the same time", nil
	}
	return local.MPS{Program: program}, "jobs that begin with a part of a GPU compute on it at the same time, through CUDA MPS", nil
}

// machineOf is a machine as the daemon shares it out.
func machineOf(m *hardware.Machine) local.Machine {
	types, node := m.Node()
	out := local.Machine{Name: m.Name, Types: types, Node: node, NUMA: len(m.NUMA)}
	measured := false
	for _, d := range m.Devices {
		measured = measured || d.Kind == hardware.NVIDIA || d.Kind == hardware.AMD
		dev := local.Device{
			Name: d.Name, Type: d.Type, UUID: d.UUID, PCI: d.PCI, NUMA: d.NUMA, Memory: api.Bytes(d.Memory),
			Env: d.Env, Visible: d.Visible, Files: d.Files, Host: d.Kind == hardware.Host, Cores: d.Cores,
			Packs: d.Kind == hardware.NVIDIA && d.UUID != "",
		}
		out.Devices = append(out.Devices, dev)
	}
	if !measured {
		return out
	}
	sampler := m.Sampler()
	out.Forgive = sampler.Forgive
	out.Sample = func() []local.Sample {
		var all []local.Sample
		for _, s := range sampler.Sample() {
			look := local.Sample{Used: api.Bytes(s.Used), Util: s.Util, Celsius: s.Celsius, Watts: s.Watts, Trouble: s.Trouble, OK: s.Measured}
			for _, p := range s.Processes {
				look.Processes = append(look.Processes, local.Process{PID: p.PID, Used: api.Bytes(p.Used)})
			}
			all = append(all, look)
		}
		return all
	}
	return out
}

// serving is how the API is served.
func serving(c *config.Config, b server.Backend, log *slog.Logger) server.Config {
	s := server.Config{
		Backend: b, Socket: c.Socket, MaxBody: int64(c.Limits.Body), MaxConns: c.Limits.Connections, Header: c.Limits.Header, Version: version(), Metrics: c.Metrics, Log: log,
		Operators: func(uid uint32, user string) bool { return c.Operator(user, uid) },
	}
	if c.Listen.Address != "" {
		s.TCP = &server.TCP{Addr: c.Listen.Address, Cert: c.Listen.Cert, Key: c.Listen.Key}
		for _, t := range c.Listen.Tokens {
			s.TCP.Tokens = append(s.TCP.Tokens, server.Token{Name: t.Name, SHA256: t.Hash.String(), User: t.User, Operator: t.Operator})
		}
	}
	return s
}

// pidFile is where a daemon writes its number, for norn down.
const pidFile = "norn.pid"

func writePID(state string) error {
	return os.WriteFile(filepath.Join(state, pidFile), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644)
}

// background starts the daemon as a process of its own and waits until it serves.
func (f *upFlags) background(out io.Writer, c *config.Config) error {
	if err := os.MkdirAll(c.State, 0o700); err != nil {
		return err
	}
	if alive(c.Socket) {
		return fmt.Errorf("a norn already answers on %s: end it first (norn down), or give this one another --socket and --state", c.Socket)
	}
	path := filepath.Join(c.State, "norn.log")
	messages, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer messages.Close()
	begin, err := messages.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return a == "-d" || a == "--detach" || a == "--detach=true" })
	ended, err := startDetached(args, messages)
	if err != nil {
		return err
	}
	for deadline := time.After(30 * time.Second); ; {
		select {
		case <-ended:
			return fmt.Errorf("it ended at once:\n%s", tailOf(path, begin))
		case <-deadline:
			return fmt.Errorf("it does not answer on %s yet; its messages are in %s", c.Socket, path)
		case <-time.After(20 * time.Millisecond):
		}
		if trouble, ok := answers(c.Socket); ok {
			fmt.Fprintf(out, "norn is up: socket %s, messages in %s\n", c.Socket, path)
			for _, text := range trouble {
				fmt.Fprintln(out, "but "+text)
			}
			return nil
		}
	}
}

// tailOf is what was written to a file behind a position.
func tailOf(path string, from int64) string {
	b, err := os.ReadFile(path)
	if err != nil || from > int64(len(b)) {
		return ""
	}
	return strings.TrimSpace(string(b[from:]))
}

// alive tells whether a daemon answers on a socket.
func alive(socket string) bool {
	_, ok := answers(socket)
	return ok
}

// answers tells whether a daemon answers on a socket, and what it says is wrong.
func answers(socket string) (trouble []string, ok bool) {
	d, err := dial(&shell{environ: os.Environ}, where{server: socket})
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := d.Status(ctx)
	return s.Trouble, err == nil
}

func downCommand(s *shell) *cobra.Command {
	f := &upFlags{}
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End the daemon of this machine; its jobs go on",
		Long: `Down ends the daemon that norn up started. Running jobs go on, and the next norn up
finds them again. To end jobs, use norn cancel.

Like every other verb it means the Norn of $NORN_SERVER, if that is set. A Norn on another
machine is ended there.`,
		Example: `  norn down
  norn down --server /tmp/norn.sock
  norn down --state /var/lib/norn`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := s.stateOf(cmd.Context(), f)
			if err != nil {
				return err
			}
			return down(cmd.Context(), state)
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "", "configuration (default: "+config.Path()+", if it is there)")
	cmd.Flags().StringVar(&f.state, "state", "", "state folder of the daemon, instead of that of the configuration")
	cmd.Flags().StringVar(&f.server, "server", "", "socket of the daemon (default: $NORN_SERVER)")
	cmd.MarkFlagsMutuallyExclusive("state", "server")
	cmd.MarkFlagsMutuallyExclusive("config", "server")
	complete(cmd, map[string]completer{"config": files, "state": files, "server": files})
	return cmd
}

// stateOf is the state folder of the Norn that is meant: that of --state or --config, else
// the one that the Norn of --server or $NORN_SERVER names, else that of the configuration.
// A URL is an error: who serves it may run on another machine.
func (s *shell) stateOf(ctx context.Context, f *upFlags) (string, error) {
	addr := cmp.Or(f.server, s.getenv("NORN_SERVER"), s.getenv(rundir.EnvSocket))
	if f.state != "" || f.config != "" || addr == "" {
		c, err := f.load()
		if err != nil {
			return "", err
		}
		return c.State, nil
	}
	if strings.Contains(addr, "://") {
		return "", misused("norn down ends a Norn of this machine, by its socket: %s may be on another; end it there, or name its folder with --state", addr)
	}
	d, err := s.connect(s, where{server: addr})
	if err != nil {
		return "", refused(err)
	}
	node, err := d.Node(ctx)
	if err != nil {
		return "", err
	}
	if node.Disk.Path == "" {
		return "", fmt.Errorf("the Norn of %s has no state folder: end norn kube up where it runs", addr)
	}
	return node.Disk.Path, nil
}

// errNotUp is the error of a state folder on which no daemon runs.
var errNotUp = errors.New("no norn runs on this state folder")
