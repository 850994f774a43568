package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/admin"
)

// whichCluster are the flags that name a cluster.
type whichCluster struct{ kubeconfig, context, namespace string }

func (w *whichCluster) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.kubeconfig, "kubeconfig", "", "kubeconfig (default: as kubectl finds it)")
	cmd.Flags().StringVar(&w.context, "context", "", "context of the kubeconfig")
	cmd.Flags().StringVar(&w.namespace, "namespace", "norn-system", "namespace of Norn")
}

func (w *whichCluster) connect() (*rest.Config, kubernetes.Interface, error) {
	cfg, _, err := kube.Connect(false, w.kubeconfig, w.context)
	if err != nil {
		return nil, nil, fmt.Errorf("the cluster: %w", err)
	}
	client, err := kube.Client(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("the cluster: %w", err)
	}
	return cfg, client, nil
}

// errFound ends the program with a failure that has been told already.
var errFound = errors.New("")

func checkCommand() *cobra.Command {
	w := &whichCluster{}
	nodes, asJSON := "", false
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say what would not work in a cluster, and why",
		Long: `Check looks at the cluster of your kubeconfig and changes nothing: its version, your rights, the GPUs
and their types, nodes that Norn would not use, feature gates, admission policies, pods that other
schedulers have put on nodes with GPUs, the pace of the Job controller, Queues, and who schedules it now.

It ends with exit code 1 if something will not work.`,
		Example: `  norn kube check
  norn kube check --nodes pool=training --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			of, err := labels.Parse(nodes)
			if err != nil {
				return &misuse{fmt.Sprintf("--nodes %s: %v", nodes, err)}
			}
			cfg, client, err := w.connect()
			if err != nil {
				return err
			}
			extra, err := kube.Dynamic(cfg)
			if err != nil {
				return err
			}
			found, err := (&admin.Checker{Client: client, Dynamic: extra, Namespace: w.namespace, Nodes: of}).Check(cmd.Context())
			if err != nil {
				return err
			}
			return tellFound(cmd, found, asJSON)
		},
	}
	w.bind(cmd)
	cmd.Flags().StringVar(&nodes, "nodes", "", "label selector of the nodes that are for Norn (default: all)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// tellFound writes findings; one that is wrong is an error.
func tellFound(cmd *cobra.Command, found []admin.Finding, asJSON bool) (err error) {
	out := cmd.OutOrStdout()
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = enc.Encode(struct {
			Findings []admin.Finding `json:"findings"`
		}{found})
	}
	for _, f := range found {
		if !asJSON {
			fmt.Fprintf(out, "%-5s  %s\n", f.Level, f.Text)
		}
		if f.Level == admin.Wrong && err == nil {
			err = errFound
		}
	}
	return err
}

func uninstallCommand() *cobra.Command {
	w := &whichCluster{}
	resume := false
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Hand Jobs back, and remove what manifests made",
		Long: `Uninstall ends the Norn of a cluster, takes what it noted off Jobs and pods, and removes what
norn kube manifests made. Running Jobs go on and end. Waiting Jobs stay suspended. With --resume they
are made anew for the default scheduler, since nobody can change the scheduler of their pods.

It may be called again after it has failed. A norn kube up has to be ended first.`,
		Example: `  norn kube uninstall
  norn kube uninstall --resume`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, client, err := w.connect()
			if err != nil {
				return err
			}
			u := &admin.Uninstaller{Client: client, Config: cfg, Namespace: w.namespace, Resume: resume, Tell: func(format string, args ...any) {
				fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
			}}
			return u.Uninstall(cmd.Context())
		},
	}
	w.bind(cmd)
	cmd.Flags().BoolVar(&resume, "resume", false, "make waiting Jobs anew, for the default scheduler")
	return cmd
}
