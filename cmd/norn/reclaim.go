package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
)

func (s *shell) reclaimCommand() *cobra.Command {
	notice, now := "", false
	cmd := &cobra.Command{
		Use:   "reclaim [DEVICE|NODE...]",
		Short: "Take devices, nodes, or the whole machine back from the jobs there",
		Long: `Reclaim is for the owner of what jobs run on, or for a script of hers: the jobs on the named
devices or nodes leave, and wait again with what they can save; nothing new starts there.
With --notice they run on for as long as their grace allows, and what is not gone at the end
is killed. Without it they are told at once, and have the grace that they always have. With
--now they are killed, and fall back to what they saved last. With --count Norn chooses which:
those that nobody uses, then those whose jobs lose least. Unless it is --now, a job of several
sizes goes on at once on other devices, with fewer if need be.

On a Kubernetes cluster the nodes stay open to others' pods: only Norn uses them no more.
Bare pods there are deleted, since nobody makes them again. Reclaim needs the rights of an
operator. norn lend reverses it; norn undrain does not.`,
		Example: `  norn reclaim gpu2 gpu3 --notice 10m --why "inference peak"
  norn reclaim gpu3 --now
  norn reclaim --where 'lender=inference' --count 3 --notice 5m`,
	}
	why := ""
	s.lendingCommand(cmd, func(order *api.Reclaim) error {
		order.Why = why
		switch {
		case now && notice != "":
			return misused("a notice or --now, not both")
		case now:
			order.Notice = new(api.Seconds(0))
		case notice != "":
			d, err := unit.ParseSeconds(notice)
			if err != nil {
				return misused("--notice: %v", err)
			}
			within := api.Of(d)
			order.Notice = &within
		}
		return nil
	})
	cmd.Flags().StringVar(&notice, "notice", "", "by when jobs are gone, as in 10m (default: each has its own grace)")
	cmd.Flags().BoolVar(&now, "now", false, "jobs are killed at once")
	cmd.Flags().StringVar(&why, "why", "", "the reason, which norn status and norn why show")
	return cmd
}

func (s *shell) lendCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lend [DEVICE|NODE...]",
		Short: "Let jobs use devices, nodes, or the whole machine again",
		Long: `Lend reverses norn reclaim: jobs may start again on the named devices or nodes. What an
operator has drained stays so. It needs the rights of an operator.`,
		Example: `  norn lend gpu2 gpu3
  norn lend --where 'lender=inference'`,
	}
	s.lendingCommand(cmd, func(order *api.Reclaim) error {
		order.Lend = true
		return nil
	})
	return cmd
}

// lendingCommand has a verb give an order about what its owner lends; fill completes it.
func (s *shell) lendingCommand(cmd *cobra.Command, fill func(order *api.Reclaim) error) {
	var f format
	where, count := "", 0
	cmd.ValidArgsFunction = s.completeDevices
	cmd.RunE = s.asked(func(cmd *cobra.Command, d daemon, names []string) error {
		order := api.Reclaim{Devices: names, Where: where, Count: count}
		if where != "" && len(names) > 0 {
			return misused("name what is meant or write a condition with --where, not both")
		}
		if count < 0 || count == 0 && cmd.Flags().Changed("count") {
			return misused("--count: say how many, at least one")
		}
		if err := fill(&order); err != nil {
			return err
		}
		meant, err := d.Reclaim(cmd.Context(), order)
		if err != nil {
			return err
		}
		if f.name == "json" {
			return writeJSON(cmd.OutOrStdout(), api.Reclaimed{Devices: meant})
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), reclaimed(&order, meant))
		return err
	})
	cmd.Flags().StringVar(&where, "where", "", `nodes whose labels meet this condition, as in "zone in (a,b), !spot"`)
	cmd.Flags().IntVar(&count, "count", 0, "only so many of these, of which Norn chooses (default: all)")
	f.flags(cmd)
	whereFlags(cmd)
}

// reclaimed says what has become of devices, of nodes or of the machine.
func reclaimed(r *api.Reclaim, meant []string) string {
	what, many := ordered(meant, "")
	switch {
	case r.Lend && many:
		return what + " take new work again"
	case r.Lend:
		return what + " takes new work again"
	case r.Notice == nil:
		return "jobs leave " + what + " in their own time"
	case *r.Notice == 0:
		return "jobs on " + what + " are killed"
	}
	return "jobs leave " + what + " within " + unit.Human(r.Notice.Duration())
}
