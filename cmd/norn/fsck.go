package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/config"
)

func (s *shell) fsckCommand() *cobra.Command {
	f := &upFlags{}
	var out format
	repair := false
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Check the state folder of Norn, and repair it",
		Long: `Fsck checks the state folder. It compares the event log, the history and the folders of
jobs and runs with each other, and every file with its checksum. It lists what is wrong.
With --repair it repairs what it can, and moves the rest to the folder aside of the state
folder. It never deletes anything, and may be repeated.

If a Norn runs, it does the check; that needs the rights of an operator. Otherwise fsck
reads the state folder itself; give it the --devices that norn up has. norn up makes the same repairs at every start, so you need
fsck only to see them. The exit code is 1 if anything is wrong and was not repaired.`,
		Example: `  norn fsck
  norn fsck --repair
  norn fsck --state /backup/norn --json`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		found, err := s.fsck(cmd, f, repair)
		if err != nil {
			return refused(err)
		}
		if out.name == "json" {
			err = writeJSON(cmd.OutOrStdout(), found)
		} else {
			err = writeFsck(cmd.OutOrStdout(), found)
		}
		for _, one := range found.Findings {
			if err == nil && one.Done == "" || !repair && err == nil {
				return errQuiet
			}
		}
		return err
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "repair what can be repaired, and set the rest aside")
	cmd.Flags().StringVar(&f.config, "config", "", "configuration (default: "+config.Path()+", if it is there)")
	cmd.Flags().StringVar(&f.state, "state", "", "state folder, instead of that of the configuration")
	cmd.Flags().StringVar(&f.devices, "devices", "", "what norn up shares out here, as its flag of that name")
	out.flags(cmd)
	whereFlags(cmd)
	complete(cmd, map[string]completer{"config": files, "state": files})
	return cmd
}

// fsck asks the Norn that runs, or looks at the state folder where none does.
func (s *shell) fsck(cmd *cobra.Command, f *upFlags, repair bool) (api.Fsck, error) {
	if cmd.Flags().Changed("server") || s.getenv("NORN_SERVER") != "" {
		d, err := s.open(cmd)
		if err != nil {
			return api.Fsck{}, err
		}
		return d.Fsck(cmd.Context(), repair)
	}
	c, err := f.load()
	if err != nil {
		return api.Fsck{}, err
	}
	free, err := unlocked(c.State)
	if err != nil {
		return api.Fsck{}, err
	}
	if free {
		return fsckHere(c, repair)
	}
	d, err := s.connect(s, where{server: c.Socket})
	if err != nil {
		return api.Fsck{}, err
	}
	return d.Fsck(cmd.Context(), repair)
}

// fsckHere looks at the state folder of a Norn that does not run.
func fsckHere(c *config.Config, repair bool) (api.Fsck, error) {
	if _, err := os.Stat(c.State); err != nil {
		return api.Fsck{}, fmt.Errorf("there is no state folder to check: %w", err)
	}
	opt, found, err := options(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return api.Fsck{}, err
	}
	defer found.Close()
	return local.Fsck(opt, repair)
}

// writeFsck says what was found.
func writeFsck(out io.Writer, f api.Fsck) error {
	verdict := "nothing is wrong"
	if n := len(f.Findings); n == 1 {
		verdict = "1 thing is wrong"
	} else if n > 1 {
		verdict = fmt.Sprintf("%d things are wrong", n)
	}
	_, err := fmt.Fprintf(out, "%s: %s, %s, %s, %s, %s: %s\n", f.Folder, counted(f.Logs, "event log"), counted(int(f.Events), "event"),
		counted(f.Ended, "ended job"), counted(f.Jobs, "description"), counted(f.Runs, "run"), verdict)
	for _, one := range f.Findings {
		if err == nil {
			_, err = fmt.Fprintln(out, findingText(one))
		}
	}
	return err
}

// findingText is a line about a finding.
func findingText(f api.Finding) string {
	text := f.File
	if f.Job != "" {
		text = joined("job "+f.Job, f.File)
	}
	text = joined(text, f.Text)
	if f.Done != "" {
		text += "; " + f.Done
	}
	return text
}

// counted is a number of things.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
