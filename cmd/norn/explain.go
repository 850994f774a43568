package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/replay"
)

func explainCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "explain LOG JOB",
		Short: "Tell the life of one job: why it waited, where it ran, who stopped it",
		Long: `Explain reads an event log and tells the life of one job, with the reason for
every wait and every preemption, what stood in its way at that moment, and when
it would have fitted. JOB is the job's name in the trace, or # and its number.`,
		Example: `  norn explain results/fifo/events.log.zst 1234
  norn explain results/tiresias/events.log.zst '#17' --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			log, err := eventlog.NewReader(file, args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			life, err := replay.Explain(log, args[1])
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(life.JSON())
			}
			return life.Write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}
