package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/internal/grid"
)

// errSeen ends a watch that has told all that was asked for.
var errSeen = errors.New("there are no more events")

// watching is what norn events was asked.
type watching struct {
	*shell
	format
	follow bool
	since  int64
	log    string
}

func (s *shell) eventsCommand() *cobra.Command {
	f := &watching{shell: s}
	cmd := &cobra.Command{
		Use:   "events [JOB...]",
		Short: "Show events: submissions, starts, preemptions, ends",
		Long: `Events shows the events that Norn remembers, of all jobs that you may see or of the
named ones. With --follow it goes on with new events. With -o json each event is one
line.

--log copies the event log itself, the whole history of this machine. It has one log
for each start of norn up and each change of its policy, oldest first. --log needs the
rights of an operator.`,
		Example: `  norn events
  norn events -f 17
  norn events -f -o json
  norn events --log events.log`,
		ValidArgsFunction: s.completeJobsAs(anyState),
		RunE:              s.asked(f.run),
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.follow, "follow", "f", false, "go on with new events")
	fl.Int64Var(&f.since, "since", 0, "begin with the event of this number")
	fl.StringVar(&f.log, "log", "", `copy the event log to this file, "-" for standard output`)
	f.format.flags(cmd)
	whereFlags(cmd)
	return cmd
}

func (f *watching) run(cmd *cobra.Command, d daemon, ids []string) error {
	if f.log != "" {
		return f.copy(cmd, d)
	}
	st, err := d.Status(cmd.Context())
	if err != nil {
		return err
	}
	if !f.follow && st.Events > 0 && st.Events < f.since {
		return nil
	}
	ctx, stop := context.WithCancelCause(cmd.Context())
	defer stop(nil)
	quiet := time.AfterFunc(time.Hour, func() { stop(errSeen) })
	defer quiet.Stop()
	if f.follow {
		quiet.Stop()
	} else {
		quiet.Reset(silent)
	}
	err = d.Watch(ctx, f.since, func(e api.Event) error {
		if err := f.tell(cmd.OutOrStdout(), e, ids); err != nil || f.follow {
			return err
		}
		if st.Events > 0 && e.Seq >= st.Events {
			return errSeen
		}
		quiet.Reset(silent)
		return nil
	})
	if errors.Is(err, errSeen) || errors.Is(context.Cause(ctx), errSeen) {
		return nil
	}
	return err
}

// silent is after how long without an event all are taken to be told: the last
// ones may be about jobs of others, and are not told.
const silent = 500 * time.Millisecond

func (f *watching) tell(out io.Writer, e api.Event, ids []string) error {
	if len(ids) > 0 && !slices.ContainsFunc(ids, func(id string) bool { return meant(id, e.Job) }) {
		return nil
	}
	if f.name == "json" {
		return json.NewEncoder(out).Encode(e)
	}
	_, err := fmt.Fprintln(out, eventLine(e, f.now()))
	return err
}

// copy copies the event log to a file, which appears when it is whole.
func (f *watching) copy(cmd *cobra.Command, d daemon) error {
	if f.log == "-" {
		return d.EventLog(cmd.Context(), cmd.OutOrStdout())
	}
	return fileio.CreateWhole(f.log, func(w io.Writer) error { return d.EventLog(cmd.Context(), w) })
}

// eventLine is an event for a reader.
func eventLine(e api.Event, now time.Time) string {
	who := ""
	if e.Job != "" {
		who = "job " + e.Job
	}
	if e.User != "" && e.Job == "" {
		who = e.User
	}
	return strings.TrimRight(fmt.Sprintf("%s  %-8s %-10s %s", e.Time.In(now.Location()).Format("2006-01-02 15:04:05"), grid.Clean(e.Kind), grid.Clean(who), grid.Clean(e.Text)), " ")
}
