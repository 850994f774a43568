package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/kube/deploy"
	"github.com/norn-scheduler/norn/policy/defrag"
)

func manifestsCommand() *cobra.Command {
	s := deploy.Default()
	var helm, kustomize string
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print all that a cluster needs to be scheduled from inside",
		Long: `Manifests prints the namespace, the service account with its rights, the deployment of two replicas,
and the admission policies: Jobs with the label of a queue are made suspended and left to Norn, and
nobody but Norn writes its annotations. The policies need Kubernetes 1.36; --admission=false leaves
them out, and then Jobs must have suspend: true and schedulerName: norn by themselves.

--helm and --kustomize write the same as a chart or as a base for kustomize.`,
		Example: `  norn kube manifests --image registry.example.com/norn-kube:1 | kubectl apply --server-side -f -
  norn kube manifests --policy 'tiresias(limits=3600)' --nodes pool=training
  norn kube manifests --helm chart`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case helm != "" && kustomize != "":
				return &misuse{"--helm or --kustomize, not both"}
			case helm != "":
				files, err := deploy.Helm(deploy.ChartVersion)
				return writeFiles(helm, files, err)
			case kustomize != "":
				files, err := deploy.Kustomize(s)
				return writeFiles(kustomize, files, err)
			}
			text, err := deploy.Manifests(s)
			if err != nil {
				return &misuse{err.Error()}
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Namespace, "namespace", s.Namespace, "namespace of Norn itself")
	f.StringVar(&s.Image, "image", s.Image, "image with norn-kube; kube/deploy/Dockerfile makes one")
	f.StringVar(&s.Policy, "policy", s.Policy, "policy, such as srtf or 'tiresias(limits=3600)'")
	f.Float64Var(&s.Defrag, defrag.Flag, s.Defrag, "have running Jobs moved together for gangs that would wait, if so many times the cost is won, such as 2; 0: none is")
	f.StringVar(&s.Stop, "stop", s.Stop, "what becomes of the work of Jobs that do not tell: checkpoint, restart, last-save or never")
	f.StringVar(&s.Nodes, "nodes", s.Nodes, "label selector of the nodes that are for Norn (default: all)")
	f.IntVar(&s.Replicas, "replicas", s.Replicas, "replicas, of which one leads")
	f.BoolVar(&s.Admission, "admission", s.Admission, "with admission policies, which need Kubernetes 1.36")
	f.StringVar(&helm, "helm", "", "folder in which to write a Helm chart instead; its values are set with helm")
	f.StringVar(&kustomize, "kustomize", "", "folder in which to write a base for kustomize instead")
	return cmd
}

// writeFiles writes files below a folder.
func writeFiles(dir string, files []deploy.File, err error) error {
	if err != nil {
		return &misuse{err.Error()}
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(f.Text), 0o666); err != nil {
			return err
		}
	}
	return nil
}
