package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/live/planner"
	"github.com/norn-scheduler/norn/local/config"
	"github.com/norn-scheduler/norn/policy/defrag"
)

// runFlags are what norn kube run and up take.
type runFlags struct {
	kubeconfig, context, namespace, policy, state, socket, stop, health, listen string
	scheduler, nodes                                                            string
	lost, lease, renew, retry                                                   time.Duration
	workers                                                                     int
	defrag                                                                      float64
	inCluster, debug                                                            bool
}

func (f *runFlags) bind(set *pflag.FlagSet) {
	set.StringVar(&f.policy, "policy", "fifo", "policy, such as srtf or 'tiresias(limits=3600)'")
	set.StringVar(&f.state, "state", "", "folder of the log and the history, which may be lost (default: in the state folder of the user)")
	set.StringVar(&f.socket, "socket", "", "path of the socket of norn's API (default: norn.sock in the state folder)")
	set.StringVar(&f.namespace, "namespace", "norn-system", "namespace of the Lease by which one of several norns leads")
	set.Float64Var(&f.defrag, defrag.Flag, 0, "have running Jobs moved together for a gang that would wait beside free GPUs, if so many times the cost is won, such as 2; 0: no Job is moved for that")
	set.StringVar(&f.stop, "stop", "restart", "what becomes of the work of Jobs that do not tell by the label "+names.Stop+": checkpoint, restart, last-save or never")
	set.StringVar(&f.scheduler, "scheduler-name", names.Scheduler, "schedulerName by which pods ask for this norn; another one than the usual needs a --namespace of its own")
	set.StringVar(&f.nodes, "nodes", "", "label selector of the nodes that are for this norn, such as pool=training (default: all)")
	set.DurationVar(&f.lost, "node-lost", 5*time.Minute, "time for which a node does not answer before its jobs go elsewhere")
	set.IntVar(&f.workers, "workers", 32, "writes to the API server at a time")
	set.DurationVar(&f.lease, "lease", 15*time.Second, "time for which a leader that is not heard of still counts as one, in whole seconds and at least 2 s longer than --lease-renew")
	set.DurationVar(&f.renew, "lease-renew", 10*time.Second, "time within which the leader renews the Lease, or ends")
	set.DurationVar(&f.retry, "lease-retry", 2*time.Second, "time between two tries to renew the Lease, or to lead")
	set.BoolVar(&f.debug, "debug", false, "log more")
}

func upCommand() *cobra.Command {
	f := &runFlags{}
	detach := false
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Schedule the cluster of your kubeconfig from here",
		Long: `Up schedules the cluster that kubectl would talk to, from this machine, until it is interrupted.
Nothing is installed in the cluster but a Lease, in a namespace of its own. norn ps, why, top and all
other verbs work with --kube, or with --server and the path of the socket.

Norn decides about pods with schedulerName: norn, and about Jobs that have the label
` + names.Queue + ` or whose pods have that schedulerName.`,
		Example: `  norn kube up
  norn kube up --policy srtf --context my-cluster`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if detach {
				return f.detach(cmd.OutOrStdout())
			}
			return f.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "run in the background, with messages in norn-kube.log in the state folder")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig (default: as kubectl finds it)")
	cmd.Flags().StringVar(&f.context, "context", "", "context of the kubeconfig")
	f.bind(cmd.Flags())
	return cmd
}

func runCommand() *cobra.Command {
	f := &runFlags{inCluster: true}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Schedule the cluster in which this runs as a pod",
		Long: `Run is norn kube up for a pod of the cluster itself: norn kube manifests prints all that it needs there.
Of several replicas one leads, and another one takes over when that ends.`,
		Example: `  norn kube run --policy 'tiresias(limits=3600)' --state /var/lib/norn`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	f.bind(cmd.Flags())
	cmd.Flags().StringVar(&f.health, "health", "", "address at which /healthz and /readyz are answered, such as :8080")
	cmd.Flags().StringVar(&f.listen, "listen", "", "address at which the leader serves norn's API over TLS, such as :7077")
	return cmd
}

// fill sets the paths that were left out, for a cluster. norn --kube looks for the socket
// there.
func (f *runFlags) fill(cluster string) {
	if f.state == "" {
		f.state = config.KubeState(os.Getenv, cluster)
	}
	if f.socket == "" {
		f.socket = filepath.Join(f.state, "norn.sock")
	}
}

// run schedules until the context ends.
func (f *runFlags) run(ctx context.Context, errOut io.Writer) error {
	debug.SetGCPercent(100)
	level := slog.LevelInfo
	if f.debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: level}))
	text, err := experiment.ListOf(f.policy)
	if err != nil {
		return &misuse{fmt.Sprintf("--policy %v", err)}
	}
	choice, err := experiment.ParseChoice(text)
	if err == nil {
		_, err = choice.Make()
	}
	if err != nil {
		return &misuse{err.Error()}
	}
	var moves *defrag.Config
	if f.defrag != 0 {
		if moves, err = defrag.Live(f.defrag); err != nil {
			return &misuse{fmt.Sprintf("--defrag %v", err)}
		}
	}
	stop, ok := job.ParseStopMode(f.stop)
	if !ok || stop == job.Freeze {
		return &misuse{fmt.Sprintf("--stop %s: write checkpoint, restart, last-save or never", f.stop)}
	}
	nodes, err := labels.Parse(f.nodes)
	if err != nil {
		return &misuse{fmt.Sprintf("--nodes %s: %v", f.nodes, err)}
	}
	cfg, name, err := kube.Connect(f.inCluster, f.kubeconfig, f.context)
	if err != nil {
		return fmt.Errorf("the cluster: %w", err)
	}
	client, err := kube.Client(cfg)
	if err != nil {
		return fmt.Errorf("the cluster: %w", err)
	}
	extra, err := kube.Dynamic(cfg)
	if err != nil {
		return fmt.Errorf("the cluster: %w", err)
	}
	f.fill(name)
	if !f.inCluster {
		if err := kube.MakeNamespace(ctx, client, f.namespace); err != nil {
			return err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	e := &kube.Election{
		Client: client, Namespace: f.namespace, Identity: fmt.Sprintf("%s-%d-%d", host, os.Getpid(), time.Now().UnixNano()),
		Lease: f.lease, Renew: f.renew, Retry: f.retry,
	}
	me := uint32(os.Getuid())
	return kube.Serve(ctx, e, kube.Options{
		Client: client, Dynamic: extra, Name: name, Scheduler: f.scheduler, Nodes: nodes, State: f.state, Policy: choice, Defrag: moves, Stop: stop, NodeLost: f.lost, Workers: f.workers, Planner: simulating(log), Version: version(), Log: log,
	}, server.Config{
		Socket: f.socket, Version: version(), Metrics: true, Log: log, Operators: func(uid uint32, _ string) bool { return uid == me || uid == 0 },
	}, kube.Doors{Health: f.health, API: f.listen})
}

// simulating answers what-ifs by this program; nil: it cannot be found.
func simulating(log *slog.Logger) *planner.Planner {
	exe, err := os.Executable()
	if err != nil {
		log.Warn("what-ifs are not answered: this program cannot find itself", "error", err)
		return nil
	}
	return planner.New(exe, planner.Limits{}, log)
}
