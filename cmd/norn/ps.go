package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/grid"
)

// selection is the flags that select jobs.
type selection struct {
	states []string
	users  []string
	me     bool
	tenant string
	called string // --name
}

func (s *selection) flags(cmd *cobra.Command, sh *shell) {
	f := cmd.Flags()
	f.StringArrayVar(&s.states, "state", nil, "jobs in these states, separated by commas")
	f.StringArrayVarP(&s.users, "user", "u", nil, "jobs of these users")
	f.BoolVar(&s.me, "me", false, "your own jobs")
	f.StringVar(&s.tenant, "tenant", "", "jobs of this tenant")
	f.StringVar(&s.called, "name", "", "jobs with this name")
	complete(cmd, map[string]completer{"state": completeList(stateNames), "tenant": sh.completeTenants})
}

// empty tells whether no flag was given.
func (s *selection) empty() bool {
	return len(s.states) == 0 && len(s.users) == 0 && !s.me && s.tenant == "" && s.called == ""
}

func (s *selection) query(sh *shell) (api.Query, error) {
	states, err := parseStates(s.states)
	if err != nil {
		return api.Query{}, err
	}
	q := api.Query{States: states, Users: listed(s.users), Tenant: s.tenant, Name: s.called}
	for _, st := range states {
		q.All = q.All || st.Over()
	}
	if s.me {
		name, err := sh.user()
		if err != nil {
			return q, fmt.Errorf("--me: your user name is not known: %w", err)
		}
		q.Users = append(q.Users, name)
	}
	return q, nil
}

// listing is what norn ps was asked.
type listing struct {
	*shell
	format
	selection
	all   bool
	watch bool
	limit int
}

func (s *shell) psCommand() *cobra.Command {
	f := &listing{shell: s}
	cmd := &cobra.Command{
		Use:     "ps [JOB...]",
		Aliases: []string{"queue"},
		Short:   "List waiting and running jobs",
		Long: `Ps lists the jobs that have not ended, by number, or the named jobs. WAITED and RAN are
the times without and with GPUs so far. LEFT is the rest of the estimated run time, with
a minus once the job has outrun it. PROGRESS is what the job itself reports.`,
		Example: `  norn ps
  norn ps 17 18
  norn ps --me --state running
  norn ps -a --limit 20
  norn ps -o json
  norn ps --watch`,
		ValidArgsFunction: s.completeJobsAs(anyState),
		RunE:              s.asked(f.run),
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.all, "all", "a", false, "list ended jobs, too")
	fl.IntVar(&f.limit, "limit", 0, "show only the last so many (0: all)")
	fl.BoolVarP(&f.watch, "watch", "w", false, "go on, and print the list again after each change")
	f.selection.flags(cmd, s)
	f.format.flags(cmd, "wide", "csv", "name")
	whereFlags(cmd)
	return cmd
}

func (f *listing) run(cmd *cobra.Command, d daemon, ids []string) error {
	if f.limit < 0 {
		return misused("--limit %d: write 0 or more", f.limit)
	}
	q, err := f.query(f.shell)
	if err != nil {
		return err
	}
	q.IDs, q.Limit, q.All = ids, f.limit, q.All || f.all || len(ids) > 0
	if f.watch {
		return f.again(cmd, d, q)
	}
	found, err := d.Jobs(cmd.Context(), q)
	if err != nil {
		return err
	}
	if err := writeJobs(cmd.OutOrStdout(), found, f.name, f.now(), widthOf(cmd)); err != nil {
		return err
	}
	if len(found) == 0 && f.empty() && len(ids) == 0 && f.name == "text" {
		remark(cmd, "no job waits or runs; norn ps -a lists those that have ended")
	}
	return unfound(ids, found)
}

// again writes the list whenever something has changed, on a terminal in place
// of the last one.
func (f *listing) again(cmd *cobra.Command, d daemon, q api.Query) error {
	width := widthOf(cmd)
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	follower := newFollower(ctx, d, cmd.ErrOrStderr())
	last := ""
	return follower.until(ctx, func() (bool, error) {
		found, err := d.Jobs(ctx, q)
		if err != nil {
			return false, err
		}
		var b strings.Builder
		if err := writeJobs(&b, found, f.name, f.now(), width); err != nil || b.String() == last {
			return false, err
		}
		last = b.String()
		text := last
		if width > 0 {
			text = "\x1b[H\x1b[2J" + text
		}
		_, err = io.WriteString(cmd.OutOrStdout(), text)
		return false, err
	})
}

// unfound is the error of jobs that were named and are not there.
func unfound(ids []string, found []api.Job) error {
	for _, id := range ids {
		if !slices.ContainsFunc(found, func(j api.Job) bool { return meant(id, j.ID) }) {
			return fmt.Errorf("there is no job %s", id)
		}
	}
	return nil
}

// meant tells whether a number that a user gave means a job: itself, or the array
// that it is of.
func meant(id, job string) bool { return job == id || strings.HasPrefix(job, id+"_") }

// writeJobs writes a list of jobs.
func writeJobs(out io.Writer, list []api.Job, format string, now time.Time, width int) error {
	switch format {
	case "json":
		return asJSON(out, list)
	case "csv":
		return writeJobsCSV(out, list)
	case "name":
		for _, j := range list {
			if _, err := fmt.Fprintln(out, j.ID); err != nil {
				return err
			}
		}
		return nil
	case "wide":
		return wideJobs(list, now).Write(out, 0)
	}
	return narrowJobs(list, now).Write(out, width)
}

func narrowJobs(list []api.Job, now time.Time) *grid.Table {
	g := &grid.Table{Cols: []grid.Column{
		{Title: "JOB"}, {Title: "NAME", Least: 10}, {Title: "USER", Least: 4, Rank: 4}, {Title: "STATE"}, {Title: "GPUS", Right: true},
		{Title: "WAITED", Right: true, Rank: 3}, {Title: "RAN", Right: true, Rank: 1}, {Title: "LEFT", Right: true, Rank: 5, Bare: true},
		{Title: "PROGRESS", Right: true, Rank: 2, Bare: true}, {Title: "REASON/DEVICES", Least: 20, Rank: 6},
	}}
	for _, j := range list {
		g.Add(j.ID, jobName(j), j.User, string(j.State), gpuCount(j), span(j.Wait.Duration()), spanOrNone(j.Ran), leftText(j, now), progressText(j), reasonOr(j))
	}
	return g
}

func wideJobs(list []api.Job, now time.Time) *grid.Table {
	titles := []string{"JOB", "NAME", "USER", "TENANT", "STATE", "GPUS", "TASKS", "CPUS", "MEM", "PRIORITY", "STOP", "SUBMITTED", "WAITED", "RAN", "LEFT", "PROGRESS", "RUN", "PREEMPTED", "RESIZED", "FAILED", "REASON/DEVICES", "COMMAND"}
	g := &grid.Table{}
	for _, t := range titles {
		g.Cols = append(g.Cols, grid.Column{Title: t})
	}
	inCluster := inCluster(list)
	if inCluster {
		for _, t := range []string{"NAMESPACE", "KIND", "PODS", "NODES"} {
			g.Cols = append(g.Cols, grid.Column{Title: t})
		}
	}
	for _, j := range list {
		cpus, mem := "", ""
		if j.CPUs > 0 {
			cpus = trimmed(j.CPUs)
		}
		if j.Memory > 0 {
			mem = unit.Bytes(j.Memory).String()
		}
		cells := []string{j.ID, jobName(j), j.User, j.Tenant, string(j.State), gpuCount(j), j.Tasks.String(), cpus, mem, strconv.Itoa(int(j.Priority)), j.StopMode,
			grid.Clock(j.Submitted, now), span(j.Wait.Duration()), spanOrNone(j.Ran), leftText(j, now), progressText(j),
			strconv.Itoa(j.Run), strconv.Itoa(j.Preemptions), strconv.Itoa(j.Resizes), strconv.Itoa(j.Failures), reasonOr(j), strings.Join(j.Command, " ")}
		if inCluster {
			cells = append(cells, j.Namespace, j.Kind, api.Packed(j.Pods), api.Packed(j.Nodes))
		}
		g.Add(cells...)
	}
	return g
}

// inCluster tells whether any job has what jobs have in a cluster alone.
func inCluster(list []api.Job) bool {
	return slices.ContainsFunc(list, func(j api.Job) bool { return j.Namespace != "" || j.Kind != "" || len(j.Pods)+len(j.Nodes) > 0 })
}

func spanOrNone(s api.Seconds) string {
	if s == 0 {
		return ""
	}
	return span(s.Duration())
}

// jobColumns are the columns of a list of jobs as CSV: times as RFC 3339, spans
// in seconds, memory in bytes. Jobs of a cluster have those of clusterColumns, too.
var jobColumns = []string{
	"job", "name", "user", "tenant", "state", "reason", "gpus", "gpus_held", "devices", "tasks", "cpus", "mem_bytes", "priority",
	"submitted", "started", "since", "ended", "wait_s", "ran_s", "gpu_s", "est_s", "expected_end", "run", "preemptions", "resizes", "failures",
	"exit_code", "exit_signal", "step", "steps", "command",
}

// clusterColumns follow for jobs in a cluster; several pods and nodes with blanks between
// them.
var clusterColumns = []string{"namespace", "kind", "pods", "nodes"}

func writeJobsCSV(out io.Writer, list []api.Job) error {
	w := csv.NewWriter(out)
	columns, inCluster := slices.Clip(jobColumns), inCluster(list)
	if inCluster {
		columns = append(columns, clusterColumns...)
	}
	if err := w.Write(columns); err != nil {
		return err
	}
	for _, j := range list {
		row := jobRow(j)
		if inCluster {
			row = append(row, j.Namespace, j.Kind, strings.Join(j.Pods, " "), strings.Join(j.Nodes, " "))
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func jobRow(j api.Job) []string {
	moment := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	seconds := func(s api.Seconds) string { return strconv.FormatFloat(float64(s), 'f', -1, 64) }
	code, signal, step, steps := "", "", "", ""
	if j.Exit != nil {
		code, signal = strconv.Itoa(j.Exit.Code), j.Exit.Signal
	}
	if p := j.Progress; p != nil {
		step, steps = strconv.FormatInt(p.Step, 10), strconv.FormatInt(p.Steps, 10)
	}
	return []string{
		j.ID, j.Name, j.User, j.Tenant, string(j.State), j.Reason, j.GPUs.String(), trimmed(j.Allocated), strings.Join(j.Devices, " "), j.Tasks.String(),
		trimmed(j.CPUs), strconv.FormatInt(int64(j.Memory), 10), strconv.Itoa(int(j.Priority)),
		moment(j.Submitted), moment(j.Started), moment(j.Since), moment(j.Ended), seconds(j.Wait), seconds(j.Ran), seconds(j.GPUTime), seconds(j.Estimate), moment(j.ExpectEnd),
		strconv.Itoa(j.Run), strconv.Itoa(j.Preemptions), strconv.Itoa(j.Resizes), strconv.Itoa(j.Failures), code, signal, step, steps, strings.Join(j.Command, " "),
	}
}
