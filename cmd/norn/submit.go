package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/jobfile"
	"github.com/norn-scheduler/norn/internal/grid"
)

// submitting is what norn submit was asked.
type submitting struct {
	*shell
	format
	options *optionSet
	files   []string
	plain   bool // --no-env
	wait    bool
	follow  bool
	quiet   bool
}

func (s *shell) submitCommand() *cobra.Command {
	f := &submitting{shell: s}
	cmd := &cobra.Command{
		Use:   "submit [flags] [--] COMMAND [ARG...] | SCRIPT [ARG...] | -f FILE",
		Short: "Submit a job: a command, a script, or a job file",
		Long: `Submit submits a job and prints its number. The job runs as you, in the present
directory and with the environment of this shell, as soon as the policy allocates GPUs
to it. Everything from the first word that is not a flag belongs to the job.

A SCRIPT may have flags of its own in lines at its top that begin with #NORN. A job
file is YAML; docs/jobs.md has every key. Flags take precedence over a file.

--wait waits until the job has ended and exits with its exit code. --follow also shows
the output of the job.`,
		Example: `  norn submit -- python train.py --epochs 3
  norn submit --gpus 2 --est 2h --name bert --stop checkpoint -- python train.py
  norn submit --gpus 1-4 --tasks per-gpu -- python train.py     grows and shrinks
  norn submit --gpus 0 --cpus 8 --mem 32G -- make data
  norn submit --array 1-20 -- python sweep.py
  norn submit --array 1-100%4 -- python sweep.py                four of them at a time
  norn submit --after 17 -f job.yaml
  norn submit --after 17:failed -- ./clean-up.sh                if it fails, or is cancelled
  norn submit -f pipeline.yaml                                  several jobs that wait for each other by name
  norn submit run.sh --lr 0.1     with lines such as #NORN --gpus 2 at its top
  norn submit -o %x-%j.out -- python train.py     what it writes goes to train.py-17.out, too
  norn submit --follow -- nvidia-smi`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return refused(f.run(cmd, args)) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.SetInterspersed(false)
	fl.StringArrayVarP(&f.files, "file", "f", nil, `job file in YAML, "-" for standard input; may be repeated`)
	f.options = s.newOptions(fl)
	fl.BoolVar(&f.plain, "no-env", false, "take over from this shell's environment only "+strings.Join(plainVariables, ", "))
	fl.BoolVarP(&f.wait, "wait", "W", false, "wait until the job has ended, and exit with its exit code")
	fl.BoolVar(&f.follow, "follow", false, "wait, and show the output of the job")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "print only the number of the job")
	fl.BoolVar(&f.quiet, "parsable", false, "the same")
	f.format.flags(cmd, "name")
	f.logByOutput(cmd)
	whereFlags(cmd)
	complete(cmd, map[string]completer{
		"stop": words(stopModes...), "kind": words(jobKinds...), "qos": words(qosClasses...), "tasks": words("per-gpu"),
		"after": s.completeJobsAs(anyState), "stop-signal": words("TERM", "USR1", "USR2", "INT"), "tenant": s.completeTenants,
	})
	return cmd
}

// logByOutput lets -o name the file of the job's output, too, as users of Slurm write it:
// what has a dot, a slash or a percent sign is no format.
func (f *submitting) logByOutput(cmd *cobra.Command) {
	formats := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if strings.ContainsAny(f.name, "./%") {
			if err := cmd.Flags().Set("log", f.name); err != nil {
				return err
			}
			f.name = "text"
		}
		return formats(cmd, args)
	}
	cmd.Flags().Lookup("output").Usage += "; or the file that the job's output goes to, too, such as %x-%j.out (--log)"
}

// run submits and waits.
func (f *submitting) run(cmd *cobra.Command, args []string) error {
	specs, err := f.specs(cmd, args)
	if err != nil {
		return err
	}
	if f.follow && (len(specs) > 1 || specs[0].Array != "") {
		return misused("--follow shows the output of one job, and these are several: use --wait")
	}
	order, err := jobfile.InOrder(specs)
	if err != nil {
		return err
	}
	d, err := f.open(cmd)
	if err != nil {
		return err
	}
	all, err := submitAll(cmd.Context(), d, specs, order)
	if told := f.tell(cmd, all); err == nil {
		err = told
	}
	if err != nil || !f.wait && !f.follow {
		return err
	}
	remarks := cmd.ErrOrStderr()
	if f.quiet {
		remarks = io.Discard
	}
	if f.follow {
		return followToEnd(cmd.Context(), d, all[0].ID, cmd.OutOrStdout(), remarks)
	}
	var ids []string
	for _, one := range all {
		ids = append(ids, one.members()...)
	}
	return waitForAll(cmd.Context(), d, ids, remarks)
}

// specs are the jobs that were meant.
func (f *submitting) specs(cmd *cobra.Command, args []string) ([]api.JobSpec, error) {
	specs, err := f.fromFiles(cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	var of *script
	if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		if path, err := f.absolute(args[0]); err == nil && isFile(path) {
			if of, err = f.readScript(path, args[1:]); err != nil {
				return nil, err
			}
			if of.foreign != "" && !f.quiet {
				remark(cmd, "%s: lines with %s are not read; docs/slurm.md says what to write instead", args[0], of.foreign)
			}
			args = of.command
		}
	}
	if len(specs) == 0 {
		if len(args) == 0 {
			return nil, misused("name the command to run: norn submit -- python train.py, or -f job.yaml")
		}
		specs = []api.JobSpec{{GPUs: api.Fixed(1)}}
	}
	for i := range specs {
		if err := f.complete(&specs[i], of, args); err != nil {
			return nil, err
		}
		if len(specs[i].Command) == 0 {
			return nil, misused("job %d of %s has no command", i+1, strings.Join(f.files, ", "))
		}
	}
	return specs, nil
}

// complete gives a job what the script, the flags and the shell say.
func (f *submitting) complete(spec *api.JobSpec, of *script, args []string) error {
	if len(args) > 0 {
		spec.Command = args
	}
	env := f.environment(f.plain)
	for name, value := range spec.Env {
		env[name] = value
	}
	spec.Env = env
	f.takeOver(spec)
	if of != nil {
		if err := of.options.apply(spec); err != nil {
			return fmt.Errorf("%s: %v", of.path, err) // the file is wrong, not the command line
		}
	}
	if err := f.options.apply(spec); err != nil {
		return err
	}
	var err error
	if spec.Dir, err = f.absolute(spec.Dir); spec.Name == "" {
		spec.Name = scriptOf(spec.Command, spec.Dir)
	}
	return err
}

// takeOver gives a job the mask and the limits of this shell, where its file says nothing.
func (f *submitting) takeOver(spec *api.JobSpec) {
	mask, limits := f.process()
	if spec.Umask == "" {
		spec.Umask = mask
	}
	for name, own := range spec.ULimits {
		if limits == nil {
			limits = map[string]string{}
		}
		limits[name] = own
	}
	spec.ULimits = limits
}

// fromFiles reads the job files.
func (f *submitting) fromFiles(stdin io.Reader) ([]api.JobSpec, error) {
	var specs []api.JobSpec
	for _, path := range f.files {
		name, text, err := path, []byte(nil), error(nil)
		if path == "-" {
			name = "standard input"
			text, err = io.ReadAll(io.LimitReader(stdin, jobfile.MaxSize+1))
		} else {
			text, err = os.ReadFile(path)
		}
		if err != nil {
			return nil, err
		}
		more, err := jobfile.Parse(name, text, f.now())
		if err != nil {
			return nil, err
		}
		specs = append(specs, more...)
	}
	return specs, nil
}

// submitted is a job that was taken in, or an array of them.
type submitted struct {
	ID   string   `json:"id"`
	Name string   `json:"name,omitempty"`
	Jobs []string `json:"jobs,omitempty"` // of an array
}

// members are the jobs of it.
func (s submitted) members() []string {
	if len(s.Jobs) > 0 {
		return s.Jobs
	}
	return []string{s.ID}
}

// submitAll submits one after the other, those before a job for which it waits by their
// names. An error says what was taken in before.
func submitAll(ctx context.Context, d daemon, specs []api.JobSpec, order []int) ([]submitted, error) {
	var out []submitted
	numbers := map[string][]string{} // by name
	for n, i := range order {
		spec := specs[i]
		spec.After = jobfile.Numbered(spec.After, numbers)
		ids, err := d.Submit(ctx, spec)
		if err == nil && len(ids) == 0 {
			err = errors.New("norn accepted the job but gave it no number")
		}
		if err != nil {
			if len(specs) > 1 {
				err = fmt.Errorf("job %s, %d of %d: %w; the jobs before it are submitted", spec.Name, n+1, len(specs), err)
			}
			return out, err
		}
		numbers[spec.Name] = append(numbers[spec.Name], ids[0])
		out = append(out, submitted{ids[0], spec.Name, ids[1:]})
	}
	return out, nil
}

// tell says what was submitted. With --follow that is no result.
func (f *submitting) tell(cmd *cobra.Command, all []submitted) error {
	out := cmd.OutOrStdout()
	if f.name == "json" {
		return asJSON(out, all)
	}
	bare := f.quiet || f.name == "name" || widthOf(cmd) == 0
	if f.follow {
		if out, bare = cmd.ErrOrStderr(), false; f.quiet {
			return nil
		}
	}
	for _, one := range all {
		text := one.text(bare)
		if !bare && len(all) > 1 {
			text += ": " + grid.Clean(one.Name)
		}
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return nil
}

// text is a line about it, or its number alone.
func (s submitted) text(bare bool) string {
	switch {
	case bare:
		return s.ID
	case len(s.Jobs) > 0:
		return fmt.Sprintf("submitted job %s, an array of %d", s.ID, len(s.Jobs))
	}
	return "submitted job " + s.ID
}
