package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/grid"
)

func (s *shell) whyCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "why JOB",
		Short: "Explain why a job waits, what would let it start, and when",
		Long: `Why explains one job. It gives the reason for which the job waits, or its activity, what
would let it start, and the earliest expected start. It lists the jobs ahead of it and
those on devices that it could use. It tells what a preemption would do and cost, how the
job is confined, and what has happened to it so far.`,
		Example: `  norn why 17
  norn why 17 --json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeFirstJob(anyState),
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, d daemon, args []string) error {
		w, err := d.Why(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if f.name == "json" {
			return writeJSON(cmd.OutOrStdout(), w)
		}
		return writeWhy(cmd.OutOrStdout(), w, s.now(), widthOf(cmd))
	})
	f.flags(cmd)
	whereFlags(cmd)
	return cmd
}

// writeWhy tells of a job for a reader.
func writeWhy(out io.Writer, w api.Why, now time.Time, width int) error {
	_, err := io.WriteString(out, strings.Join(whyLines(w, now, width), "\n")+"\n")
	return err
}

// whyLines is the answer as lines of at most so many cells, 0: any.
func whyLines(w api.Why, now time.Time, width int) []string {
	p := &pageOf{width: width}
	j := w.Job
	p.line("", "Job "+j.ID+titled(j)+" of "+ownerOf(j)+": "+standing(j, now))
	reason := w.Reason
	if reason == "" {
		reason = reasonOr(j)
	}
	p.line("  ", reason)
	if j.Kind != "" {
		p.line("  ", kindText(j))
	}
	if text := paceText(j); text != "" {
		p.line("  ", text)
	}
	if text := deadlineText(j); text != "" {
		p.line("  ", text)
	}
	if j.Promise != "" {
		p.line("  ", j.Promise)
	}
	if !j.State.Over() && (j.State == api.Waiting || j.State == api.Held || j.State == api.Assigned) {
		p.head("Earliest start")
		switch {
		case !w.Expected.IsZero():
			p.line("  ", soon(w.Expected, now)+", if estimates hold and no job goes ahead")
		case w.Unknown != "":
			p.line("  ", "not known: "+w.Unknown)
		default:
			p.line("  ", "not known")
		}
	}
	p.list("What would let it start", w.Frees)
	if len(w.Ahead) > 0 {
		p.head("Waiting since before it")
		p.line("  ", few(w.Ahead))
	}
	p.list("On devices that it could use", w.Holders)
	p.list("Shares its devices with", w.Beside)
	p.head("Asks for")
	p.line("  ", demandText(j))
	if w.Memory != "" {
		p.line("  ", w.Memory)
	}
	if w.Stop != "" {
		p.head("When it is preempted")
		p.line("  ", w.Stop)
	}
	p.list("Isolation", w.Isolation)
	if w.Policy != "" {
		p.head("Policy")
		p.line("  ", w.Policy)
	}
	p.list("Believed of it", w.Beliefs)
	p.list("So far", w.Life)
	return p.lines
}

// kindText says what a job is in a Kubernetes cluster.
func kindText(j api.Job) string {
	text := "is a " + j.Kind
	if j.Namespace != "" {
		text += " of namespace " + j.Namespace
	}
	if n := len(j.Pods); n > 0 {
		text += ", with " + unit.CountOrNo(n, "pod") + ": " + api.Packed(j.Pods)
	}
	return text
}

// paceText says how fast a running job runs, where that is not as its estimate has it,
// and what of the time it leaves to others.
func paceText(j api.Job) string {
	var parts []string
	if j.State == api.Running && j.Speed > 0 {
		parts = append(parts, fmt.Sprintf("runs at %.3g times the speed of its estimate", j.Speed))
	}
	if j.Throttle >= 1000 {
		parts = append(parts, "stands still: other jobs on its devices have them for themselves")
	} else if j.Throttle > 0 {
		parts = append(parts, fmt.Sprintf("leaves its devices to other jobs for %v%% of the time", float64(j.Throttle)/10))
	}
	return strings.Join(parts, "; ")
}

// deadlineText says by when a job should end, and when it has ended or is expected to; empty
// for a job without a deadline.
func deadlineText(j api.Job) string {
	if j.Deadl.IsZero() {
		return ""
	}
	text, late := "", time.Duration(0)
	switch {
	case !j.Ended.IsZero():
		text, late = "ended "+minute(j.Ended)+", ", j.Ended.Sub(j.Deadl)
	case !j.ExpectEnd.IsZero():
		text, late = "expected end "+minute(j.ExpectEnd)+", ", j.ExpectEnd.Sub(j.Deadl)
	}
	if text += "deadline " + minute(j.Deadl); j.Soft {
		text += " (soft)"
	}
	if late > 0 {
		text += ": " + span(late) + " late"
	}
	return text
}

// minute is a moment of the local day, to the minute.
func minute(at time.Time) string { return at.Local().Format("2006-01-02 15:04") }

// titled is the name of a job behind its number.
func titled(j api.Job) string {
	if name := jobName(j); name != "" {
		return " (" + name + ")"
	}
	return ""
}

func ownerOf(j api.Job) string {
	if j.Tenant != "" && j.Tenant != j.User {
		return j.User + ", tenant " + j.Tenant
	}
	return j.User
}

// standing says in a few words where a job stands, and since when.
func standing(j api.Job, now time.Time) string {
	text := string(j.State)
	switch {
	case j.State == api.Failed && j.Exit != nil:
		text += " with " + exitText(j.Exit)
	case j.State == api.Running && len(j.Nodes) > 0:
		text += " on " + onNodes(j.Nodes)
	case j.State == api.Running && len(j.Devices) > 0:
		text += " on " + devices(j.Devices)
	}
	since := j.Since
	if j.State.Over() && !j.Ended.IsZero() {
		since = j.Ended
	}
	switch {
	case since.IsZero():
		return text
	case j.State.Over():
		text += fmt.Sprintf(" since %s, %s ago", grid.Clock(since, now), span(now.Sub(since)))
	default:
		text += " for " + span(now.Sub(since))
	}
	if !j.ExpectEnd.IsZero() && !j.State.Over() {
		text += ", should end " + soon(j.ExpectEnd, now)
	}
	return text
}

// demandText is what a job asks for.
func demandText(j api.Job) string {
	parts := []string{gpusOf(j.GPUs.Ask)}
	if j.GPUs.Elastic() {
		parts[0] = j.GPUs.String() + " GPUs"
	}
	if t := j.Tasks.String(); t != "1" {
		parts = append(parts, strings.Replace(t+" tasks", "per-gpu tasks", "a task on each", 1))
	}
	if j.CPUs > 0 {
		parts = append(parts, trimmed(j.CPUs)+" CPU cores")
	}
	if j.Memory > 0 {
		parts = append(parts, memory(j.Memory)+" of memory")
	}
	if j.Estimate > 0 {
		parts = append(parts, "for about "+span(j.Estimate.Duration()))
	}
	for _, a := range j.After {
		how := " is done"
		if a.Any {
			how = " has ended"
		} else if a.Failed {
			how = " has failed"
		}
		parts = append(parts, "after job "+a.Job+how)
	}
	return strings.Join(parts, ", ")
}

// pageOf is lines of text under headings.
type pageOf struct {
	width int
	lines []string
}

func (p *pageOf) head(title string) { p.line("", title) }

// list is a heading with lines below it, or nothing.
func (p *pageOf) list(title string, entries []string) {
	if len(entries) == 0 {
		return
	}
	p.head(title)
	for _, e := range entries {
		p.line("  ", e)
	}
}

// line adds a text, on as many lines as it needs.
func (p *pageOf) line(indent, text string) {
	text = grid.Clean(text)
	if p.width <= 20 || grid.Cells(indent+text) <= p.width {
		p.lines = append(p.lines, indent+text)
		return
	}
	here := indent
	for word := range strings.FieldsSeq(text) {
		if here != indent && grid.Cells(here+" "+word) > p.width {
			p.lines = append(p.lines, here)
			indent += strings.Repeat(" ", max(0, 4-len(indent)))
			here = indent
		}
		if strings.TrimSpace(here) != "" {
			here += " "
		}
		here += word
	}
	p.lines = append(p.lines, here)
}
