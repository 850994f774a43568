package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// kubeProgram is the scheduler of Kubernetes clusters. It is a program of its own: the
// client libraries of Kubernetes would make norn half as large again.
const kubeProgram = "norn-kube"

// kubeCommand starts norn-kube, which has verbs and flags of its own.
func kubeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kube VERB",
		Short: "Schedule a Kubernetes cluster",
		Long: `Kube decides about Jobs, pods and gangs of pods of a Kubernetes cluster, by the policies that
norn sim tries out and norn up uses. It starts the program norn-kube, from the folder of
norn itself or from PATH, and hands all that follows to it. norn kube VERB --help tells
more about each verb:

  up         schedule the cluster of your kubeconfig from here, to try it out
  manifests  print all that a cluster needs to be scheduled from inside
  check      say what would not work in a cluster, and why
  uninstall  hand Jobs back, and remove what manifests made
  run        schedule the cluster in which this runs as a pod

norn docs kubernetes is the guide.`,
		Example: `  norn kube up --policy srtf
  norn kube check
  norn kube manifests --policy 'tiresias(limits=3600)'`,
		DisableFlagParsing: true,
		ValidArgsFunction:  completeKube,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || slices.Contains([]string{"-h", "--help", "help"}, args[0]) {
				return cmd.Help()
			}
			path, err := findKube()
			if err != nil {
				return err
			}
			// It takes the place of this process, with its files, signals and exit code.
			return fmt.Errorf("%s cannot be started: %w", path, syscall.Exec(path, append([]string{kubeProgram}, args...), os.Environ()))
		},
	}
}

// findKube finds norn-kube: beside this program, or in PATH.
func findKube() (string, error) {
	if self, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(self); err == nil {
			self = resolved
		}
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), kubeProgram)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(kubeProgram)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("norn-kube is neither beside norn nor in PATH: go install github.com/norn-scheduler/norn/cmd/norn-kube makes it, and so does make build in a clone")
	}
	return path, err
}

// completeKube asks norn-kube, which has a completion of its own.
func completeKube(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const how = cobra.ShellCompDirectiveNoFileComp
	path, err := findKube()
	if err != nil {
		return nil, how
	}
	ctx, stop := context.WithTimeout(context.Background(), completeWithin)
	defer stop()
	out, err := exec.CommandContext(ctx, path, slices.Concat([]string{cobra.ShellCompRequestCmd}, args, []string{begun})...).Output()
	if err != nil {
		return nil, how
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := len(lines) - 1
	var told int
	if _, err := fmt.Sscanf(lines[last], ":%d", &told); err != nil {
		return nil, how
	}
	return lines[:last], cobra.ShellCompDirective(told)
}
