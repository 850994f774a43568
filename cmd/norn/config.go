package main

import (
	"errors"
	"fmt"
	"io"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/local/config"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and show the configuration of the daemon, and make tokens",
		Long: `Config works on the file that norn up reads. For root that is /etc/norn/norn.yaml, and
for others norn/norn.yaml in $XDG_CONFIG_HOME or ~/.config. Without a file the defaults
are in force. norn config show --default prints them with a comment for every key.`,
		Example: `  norn config show --default
  norn config check
  norn config token ci`,
	}
	cmd.AddCommand(configCheckCommand(), configShowCommand(), configTokenCommand())
	return cmd
}

func configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration, and show the settings that it puts in force",
		Long: `Check reads a configuration as norn up does. For a mistake it names the line and says
what to write instead, and the exit code is 1. Otherwise it prints all settings that the
file puts in force.`,
		Example: `  norn config check
  norn config check norn.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConfig(cmd.ErrOrStderr(), args)
			if err != nil {
				return err
			}
			if err := c.Listen.CheckFiles(); err != nil {
				return err
			}
			return c.WriteValues(cmd.OutOrStdout())
		},
	}
}

func configShowCommand() *cobra.Command {
	byDefault := false
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Print a whole configuration with a comment for every key",
		Long: `Show prints all settings that a file puts in force. With --default it prints the settings
that are in force without a file. The output is itself a configuration file.`,
		Example: `  norn config show
  norn config show --default > norn.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if byDefault {
				if len(args) > 0 {
					return misused("--default shows the settings without a file: leave %s out", args[0])
				}
				return config.Default().Write(cmd.OutOrStdout())
			}
			c, err := loadConfig(cmd.ErrOrStderr(), args)
			if err != nil {
				return err
			}
			return c.Write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&byDefault, "default", false, "print the defaults")
	return cmd
}

// loadConfig reads the file that is named, or the usual one, and says which.
func loadConfig(errOut io.Writer, args []string) (*config.Config, error) {
	path := ""
	if len(args) > 0 {
		if path = args[0]; path == "" {
			return nil, errors.New("the name of the configuration is empty")
		}
	}
	c, from, err := config.Load(path)
	switch {
	case err != nil:
		return nil, err
	case from != "":
		fmt.Fprintf(errOut, "norn: %s is correct; these settings are in force\n", from)
	case config.Path() != "":
		fmt.Fprintf(errOut, "norn: there is no %s; the defaults are in force\n", config.Path())
	}
	return c, nil
}

func configTokenCommand() *cobra.Command {
	t := config.Token{}
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a token with which a program can call Norn over TCP",
		Long: `Token makes a secret that proves who calls over TCP, and prints it once. It also prints
the line for listen.tokens of the configuration, which holds only the SHA-256 hash of the
secret. NAME is the name of the token in that file.`,
		Example: `  norn config token ci
  norn config token ci --user alice
  norn config token admin --user root --operator`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.Name = args[0]
			if t.User == "" {
				me, err := user.Current()
				if err != nil {
					return fmt.Errorf("the calling user is not known (%w): name the user with --user", err)
				}
				t.User = me.Username
			}
			if err := t.Check(); err != nil {
				return misused("%w", err)
			}
			var secret string
			secret, t.Hash = config.NewToken()
			out, note := cmd.OutOrStdout(), cmd.ErrOrStderr()
			fmt.Fprintln(note, "The token, which is not kept anywhere and cannot be shown again:")
			if _, err := fmt.Fprintln(out, secret); err != nil {
				return err
			}
			fmt.Fprintln(note, "Its line for tokens, below listen, in the configuration:")
			_, err := fmt.Fprintln(out, t.Line())
			return err
		},
	}
	cmd.Flags().StringVarP(&t.User, "user", "u", "", "user that jobs submitted with it run as (default: the calling user)")
	cmd.Flags().BoolVar(&t.Operator, "operator", false, "it may see and change the jobs of all users")
	return cmd
}
