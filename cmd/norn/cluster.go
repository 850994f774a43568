package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

func clusterCommand() *cobra.Command {
	yaml, links := false, false
	cmd := &cobra.Command{
		Use:   "cluster [SPEC]",
		Short: "Show the cluster that a spec describes, or list the presets",
		Long: `SPEC is a shorthand (16x8:V100), the name of a preset (philly), a YAML file, or a
node list in the format of another program. docs/clusters.md describes them. Where the
links between the GPUs of a node are known, they are drawn as nvidia-smi topo -m does.
Network adapters and uplinks between nodes are listed tier by tier. --links lists the layouts of links that are known by name.`,
		Example: `  norn cluster 16x8:V100+4x4:P100
  norn cluster philly
  norn cluster 4x8:V100/dgx1
  norn cluster clos-3
  norn cluster --links
  norn cluster 16x8:V100 --yaml > cluster.yaml`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if links {
				return listLayouts(out)
			}
			if len(args) == 0 {
				w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
				for _, p := range clusterspec.Presets() {
					fmt.Fprintf(w, "%s\t%s\n", p.Name, p.About)
				}
				return w.Flush()
			}
			spec, err := loadCluster(args[0])
			if err != nil {
				return err
			}
			if yaml {
				_, err := out.Write(spec.YAML())
				return err
			}
			site, err := spec.Build()
			if err != nil {
				return err
			}
			if err := clusterspec.Describe(out, site.Cluster); err != nil {
				return err
			}
			return clusterspec.DescribeRest(out, spec)
		},
	}
	cmd.Flags().BoolVar(&yaml, "yaml", false, "write the spec as YAML")
	cmd.Flags().BoolVar(&links, "links", false, "list the links inside nodes that are known by name")
	cmd.MarkFlagsMutuallyExclusive("yaml", "links")
	cmd.AddCommand(clusterImportCommand())
	return cmd
}

// listLayouts lists the links that a cluster can name.
func listLayouts(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, l := range cluster.LinkLayouts() {
		gpus := "any"
		if l.GPUs > 0 {
			gpus = strconv.Itoa(l.GPUs)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", l.Name, gpus, l.About)
	}
	return w.Flush()
}

// loadCluster reads a cluster as a user wrote it.
func loadCluster(text string) (*clusterspec.Spec, error) {
	spec, err := clusterspec.Load(text)
	if err != nil {
		var presets []string
		for _, p := range clusterspec.Presets() {
			presets = append(presets, p.Name)
		}
		return nil, fmt.Errorf("%w%s", err, param.Near(text, presets))
	}
	return spec, nil
}
