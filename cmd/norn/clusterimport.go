package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/trace/clusterimport"
)

// mostImported is the largest file that is imported, in bytes.
const mostImported = 256 << 20

func clusterImportCommand() *cobra.Command {
	var opt clusterimport.Options
	to := ""
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Describe a Slurm or Kubernetes cluster by what its own programs tell",
		Long: `Each FILE is told by its content, and all together make one cluster file.

Of Slurm: scontrol show node (also with -o or --json), scontrol show partition, scontrol show config,
sinfo -N, sacctmgr show assoc -P, sacctmgr show qos -P, slurm.conf. Nodes, GPU
types, partitions, accounts with shares and limits are taken over, and what could
not be is counted by name. The policy that does what Slurm does with these settings is
printed beside it; a long one goes to a file beside that of -o. docs/slurm.md says what becomes of each field.

Of Kubernetes: kubectl get -o json (or -o yaml) of nodes, and of the queues of Kueue,
Norn, Volcano and KAI, which become tenants. docs/clusters.md says what becomes of each
field. Files may be packed with gzip; - is standard input.

  scontrol show node > nodes.txt
  sacctmgr show assoc -P format=Account,ParentName,User,Share,GrpTRES > assoc.txt
  sacctmgr show qos -P > qos.txt
  kubectl get nodes,clusterqueues,cohorts -o json > cluster.json`,
		Example: `  norn cluster import nodes.txt assoc.txt qos.txt /etc/slurm/slurm.conf -o cluster.yaml
  norn cluster import slurm.conf --pools
  norn cluster import cluster.json -o cluster.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files := make([]clusterimport.File, len(args))
			for i, name := range args {
				text, err := readImport(cmd.InOrStdin(), name)
				if err != nil {
					return err
				}
				files[i] = clusterimport.File{Name: name, Text: text}
			}
			r, err := clusterimport.Import(files, opt)
			if err != nil {
				return err
			}
			write := func(w io.Writer) error { _, err := w.Write(r.Spec.YAML()); return err }
			if to == "" {
				err = write(cmd.OutOrStdout())
			} else {
				err = fileio.CreateWhole(to, write)
			}
			if err != nil {
				return err
			}
			policy, err := keepPolicy(r.Policy, to)
			if err == nil {
				tellImport(cmd.ErrOrStderr(), r, to, policy)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&to, "output", "o", "", "file to write; otherwise the description goes to standard output")
	cmd.Flags().BoolVar(&opt.Pools, "pools", false, "partitions become pools, each with a policy of its own; they must not overlap")
	return cmd
}

// readImport reads a file, or standard input by the name -, packed with gzip or not.
func readImport(in io.Reader, name string) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	body := bufio.NewReader(in)
	in = body
	if head, _ := body.Peek(2); string(head) == "\x1f\x8b" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		in = unpacked
	}
	text, err := io.ReadAll(io.LimitReader(in, mostImported+1))
	if err == nil && len(text) > mostImported {
		err = errors.New("more than 256 MiB are not read")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// longArgument is the length of a policy above which it is kept in a file: shells and systems take no words
// of any length.
const longArgument = 2000

// keepPolicy is the policy of a cluster as a word of a command. A long one is written beside the file of the
// cluster, if there is one, and is @FILE.
func keepPolicy(policy, cluster string) (string, error) {
	if len(policy) <= longArgument || cluster == "" {
		return "'" + policy + "'", nil
	}
	file := strings.TrimSuffix(cluster, filepath.Ext(cluster)) + ".policy"
	err := fileio.CreateWhole(file, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.ReplaceAll(policy, ",", ",\n")+"\n")
		return err
	})
	return shellWord("@" + file), err
}

// tellImport says what was imported, what was not, and what to do with it.
func tellImport(w io.Writer, r *clusterimport.Result, to, policy string) {
	for _, text := range r.Read {
		fmt.Fprintf(w, "norn: %s\n", text)
	}
	for _, text := range r.Notes {
		fmt.Fprintf(w, "norn: %s\n", text)
	}
	if len(r.Lost) > 0 {
		fmt.Fprintln(w, "norn: not taken over, by name:")
	}
	for _, l := range r.Lost {
		fmt.Fprintf(w, "  %s: %s\n", l.What, unit.Count(l.Times, "time"))
	}
	if r.Policy == "" {
		return
	}
	if to == "" {
		to = "cluster.yaml"
	}
	stop := ""
	if r.Stop != "" {
		stop = " --stop " + r.Stop
	}
	fmt.Fprintf(w, "norn: the policy of this cluster: norn sim jobs.txt --cluster %s --estimates user%s --policy %s\n", to, stop, policy)
}
