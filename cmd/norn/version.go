package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is which build this is, as norn version --json writes it.
type build struct {
	Version  string `json:"version"`        // of the module; empty for a build from a clone without a tag
	Commit   string `json:"commit"`         // empty where it is not known
	Modified bool   `json:"modified"`       // the clone had changes that are in no commit
	Time     string `json:"time,omitempty"` // of the commit, RFC 3339
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func versionCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of norn",
		Long:    "Version prints the version of norn, or the commit that it was built from, and the Go version and platform.",
		Example: "  norn version\n  norn version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), built())
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "norn %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON, with the whole commit")
	return cmd
}

// built is what the program knows of its own build.
func built() build {
	b := build{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

// version is the version of the module, or the commit that was built.
func version() string {
	switch b := built(); {
	case b.Version != "":
		return b.Version
	case b.Commit == "":
		return "devel"
	case b.Modified:
		return b.Commit[:min(12, len(b.Commit))] + "+changes"
	default:
		return b.Commit[:min(12, len(b.Commit))]
	}
}
