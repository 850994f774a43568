package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/grid"
)

// completeWithin is how long a shell that completes a word waits for Norn.
const completeWithin = time.Second

func anyState(api.State) bool { return true }

// completeJobsAs completes the numbers of jobs in some states, with what they are
// called.
func (s *shell) completeJobsAs(in func(api.State) bool) completer {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		const how = cobra.ShellCompDirectiveNoFileComp
		ctx, stop := context.WithTimeout(context.Background(), completeWithin)
		defer stop()
		d, err := s.open(cmd)
		if err != nil {
			return nil, how
		}
		found, err := d.Jobs(ctx, api.Query{All: in(api.Done)})
		if err != nil {
			return nil, how
		}
		named := map[string]bool{}
		for _, a := range args {
			named[a] = true
		}
		var out []string
		for _, j := range found {
			if in(j.State) && !named[j.ID] && strings.HasPrefix(j.ID, begun) {
				out = append(out, cobra.CompletionWithDesc(j.ID, grid.Clean(strings.TrimSpace(jobName(j)+" "+string(j.State)))))
			}
		}
		return out, how
	}
}

// completeFirstJob completes the number of one job.
func (s *shell) completeFirstJob(in func(api.State) bool) completer {
	several := s.completeJobsAs(in)
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return several(cmd, args, begun)
	}
}

// completeDevices completes the names of devices and, in a cluster, of nodes.
func (s *shell) completeDevices(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, stop := context.WithTimeout(context.Background(), completeWithin)
	defer stop()
	var out []string
	if d, err := s.open(cmd); err == nil {
		if n, err := d.Node(ctx); err == nil {
			for _, dev := range n.Devices {
				out = append(out, cobra.CompletionWithDesc(dev.Name, grid.Clean(dev.Type)))
			}
			if len(n.Devices) == 0 {
				out = s.nodeNames(cmd)
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeTenants completes the names of tenants.
func (s *shell) completeTenants(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, stop := context.WithTimeout(context.Background(), completeWithin)
	defer stop()
	var out []string
	if d, err := s.open(cmd); err == nil {
		if st, err := d.Status(ctx); err == nil {
			for _, t := range st.Tenants {
				out = append(out, grid.Clean(t.Name))
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
