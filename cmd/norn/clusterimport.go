package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/clusterspec/kubespec"
)

func clusterImportCommand() *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Make a cluster file of what another system says of its cluster",
		Long: `Import reads what kubectl get writes (-o json or -o yaml): nodes, and the queues of
Kueue, Norn, Volcano and KAI, which become tenants. It writes a cluster file, and says
what it could not take over. Several files are one cluster; - is standard input:
kubectl get nodes -o json | norn cluster import -
docs/clusters.md tells what becomes of each field.`,
		Example: `  norn cluster import nodes.json -o cluster.yaml
  norn cluster import nodes.json queues.json -o cluster.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, told, err := importKube(cmd.InOrStdin(), args)
			for i := range told {
				fmt.Fprintf(cmd.ErrOrStderr(), "norn: %s\n", told[i].String())
			}
			if err != nil {
				return err
			}
			write := func(w io.Writer) error {
				_, err := w.Write(spec.YAML())
				return err
			}
			if output == "" || output == "-" {
				return write(cmd.OutOrStdout())
			}
			return fileio.Create(output, write)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write (default: standard output)")
	return cmd
}

// importKube reads files of kubectl as one cluster.
func importKube(stdin io.Reader, paths []string) (*clusterspec.Spec, []kubespec.Remark, error) {
	var im kubespec.Import
	for _, path := range paths {
		if err := importFile(&im, stdin, path); err != nil {
			return nil, nil, err
		}
	}
	return im.Spec()
}

// importFile reads a file, which may be packed with gzip.
func importFile(im *kubespec.Import, stdin io.Reader, path string) error {
	name, in := "standard input", stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		name, in = path, file
	}
	body := bufio.NewReader(in)
	if head, _ := body.Peek(2); string(head) != "\x1f\x8b" {
		return im.Read(name, body)
	}
	unpacked, err := gzip.NewReader(body)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return im.Read(name, unpacked)
}
