package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/tune"
	"github.com/norn-scheduler/norn/experiment/whatif"
	"github.com/norn-scheduler/norn/report"
)

// leastEvery is the least time between two looks, and so between two changes of settings.
const leastEvery = 5 * time.Minute

// autotuning is what norn autotune was asked.
type autotuning struct {
	*shell
	every, window string
	trials, few   int
	seed          uint64
	later         float64
	least, worse  float64
	objective     string
	estimates     string
	stay          []string
	once, dry     bool
	json          bool
}

func (s *shell) autotuneCommand() *cobra.Command {
	f := &autotuning{shell: s}
	cmd := &cobra.Command{
		Use:   "autotune",
		Short: "Keep the settings of the policy good for the jobs of this machine",
		Long: `Autotune looks every hour for settings of the policy in force that would have been better for
the jobs of the last week, by simulation, as norn tune does. It puts them in force if they are
better on the earlier and on the later jobs of the week, which were not looked at. An hour later
it compares how jobs fared since with how they would have fared without the change, and takes back
what made them fare worse. It never changes the policy itself.

Autotune runs until it is interrupted, beside a running Norn, and needs the rights of an operator.
With --dry-run it changes nothing and says what it would do; with --once it looks once.`,
		Example: `  norn autotune --dry-run --once
  norn autotune --every 30m --window 3d --objective p99-jct
  norn autotune --stay promote=8 --json >> tuning.jsonl`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, d daemon, _ []string) error { return f.run(cmd, d) })
	var names []string
	for _, o := range tune.Objectives() {
		names = append(names, o.Name)
	}
	fl := cmd.Flags()
	fl.StringVar(&f.every, "every", "1h", "time between two looks, 5m or more")
	fl.StringVar(&f.window, "window", "7d", "how much of the past settings are chosen by")
	fl.IntVar(&f.trials, "trials", 40, "simulations of a look")
	fl.IntVar(&f.few, "few", 20, "jobs that must have ended in the earlier part of the past, in the later one, and since a change, for anything to be concluded from it")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the proposals")
	fl.Float64Var(&f.later, "later", 0.3, "part of the jobs of the past, the last ones, on which the best settings are tried")
	fl.Float64Var(&f.least, "least", 0.1, "part by which the objective must fall in both for settings to be put in force")
	fl.Float64Var(&f.worse, "worse", 0.1, "part by which jobs may fare worse under them than without them")
	fl.StringVar(&f.objective, "objective", names[0], "what is to become less: "+strings.Join(names, ", ")+" (see norn tune)")
	fl.StringVar(&f.estimates, "estimates", whatif.Believed, "source of run-time estimates in simulations: believed, user, history, oracle or none")
	fl.StringArrayVar(&f.stay, "stay", nil, "a setting of the policy that is not touched: name=value; may be repeated")
	fl.BoolVar(&f.once, "once", false, "look once")
	fl.BoolVar(&f.dry, "dry-run", false, "change nothing, and say what would be done")
	fl.BoolVar(&f.json, "json", false, "print a JSON object a line for each look")
	whereFlags(cmd)
	complete(cmd, map[string]completer{"objective": words(names...), "estimates": words(whatif.Believed, "user", "history", "oracle", "none"), "every": words("30m", "1h", "6h"), "window": words("1d", "7d", "30d")})
	return cmd
}

// keeper checks the flags. every is the time between two looks.
func (f *autotuning) keeper(m tune.Machine) (k *tune.Keeper, every time.Duration, err error) {
	k = &tune.Keeper{Machine: m, Tuner: tune.Tuner{Trials: f.trials, Seed: f.seed}, Later: f.later, Least: f.least, Worse: f.worse, Few: f.few, Now: f.now}
	if every, err = unit.ParseSeconds(f.every); err != nil || every < leastEvery {
		return nil, 0, misused("--every %s: write 5m or more", f.every)
	}
	if k.Window, err = unit.ParseSeconds(f.window); err != nil || k.Window <= 0 {
		return nil, 0, misused("--window %s: write a time, such as 7d", f.window)
	}
	if k.Tuner.Objective, err = objectiveOf(f.objective); err != nil {
		return nil, 0, err
	}
	switch {
	case f.trials < 1 || f.trials > 100_000:
		return nil, 0, misused("--trials %d: write 1 to 100000", f.trials)
	case f.few < 1:
		return nil, 0, misused("--few %d: write 1 or more", f.few)
	case !(f.later > 0 && f.later < 1), !(f.least >= 0 && f.least < 1), !(f.worse >= 0):
		return nil, 0, misused("--later, --least and --worse are parts: write numbers from 0 to 1, such as 0.1")
	}
	if k.Estimates, err = whatif.ParseEstimates(f.estimates); err != nil {
		return nil, 0, misused("--estimates: %w", err)
	}
	for _, text := range f.stay {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, 0, misused("--stay %s: write name=value", text)
		}
		k.Stay = append(k.Stay, experiment.Setting{Name: name, Value: value})
	}
	return k, every, nil
}

func (f *autotuning) run(cmd *cobra.Command, d daemon) error {
	k, every, err := f.keeper(&tunedMachine{f: f, cmd: cmd, d: d})
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		s, err := k.Step(cmd.Context())
		switch {
		case err == nil:
			err = f.tell(cmd.OutOrStdout(), k, &s)
		case !first && cmd.Context().Err() == nil: // such as a Norn that is started anew
			remark(cmd, "%v; the next look is in %s", err, unit.Human(every))
			err = nil
		}
		if err != nil || f.once {
			return err
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-time.After(every):
		}
	}
}

// tunedMachine is the running Norn.
type tunedMachine struct {
	f   *autotuning
	cmd *cobra.Command
	d   daemon
}

// Policy implements tune.Machine.
func (m *tunedMachine) Policy(ctx context.Context) (experiment.Choice, error) {
	st, err := m.d.Status(ctx)
	if err != nil {
		return experiment.Choice{}, err
	}
	return experiment.ParseChoice(st.Policy)
}

// Past implements tune.Machine.
func (m *tunedMachine) Past(_ context.Context, from, to time.Time) (*whatif.History, error) {
	log, err := (&planning{shell: m.f.shell}).ask(m.cmd)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	in := replay.Stretch{From: max(0, from.Sub(log.Header.Origin)), To: to.Sub(log.Header.Origin)}
	if in.To <= in.From {
		return nil, nil
	}
	h, err := whatif.Read(log.Reader, in, report.Options{})
	if err != nil {
		return nil, log.fault(err)
	}
	return h, nil
}

// Use implements tune.Machine.
func (m *tunedMachine) Use(ctx context.Context, c experiment.Choice) error {
	if m.f.dry {
		return nil
	}
	return m.d.SetPolicy(ctx, c.String())
}

// lookObject is one look, for programs. Gains are parts by which the objective falls.
type lookObject struct {
	At        time.Time `json:"at"`
	Verdict   string    `json:"verdict"`
	Objective string    `json:"objective"`
	Was       string    `json:"was"`
	Is        string    `json:"is"`
	Found     string    `json:"found,omitempty"`
	Gain      float64   `json:"gain"`
	Later     float64   `json:"later_gain"`
	Ended     int       `json:"ended"`
	Dry       bool      `json:"dry_run,omitempty"`
}

// tell says what came of a look.
func (f *autotuning) tell(out io.Writer, k *tune.Keeper, s *tune.Step) error {
	now := f.now()
	if f.json {
		o := lookObject{At: now.UTC(), Verdict: string(s.Verdict), Objective: f.objective, Was: s.Was.String(), Is: s.Is.String(), Gain: s.Gain, Later: s.Later, Ended: s.Ended, Dry: f.dry}
		if s.Foretold {
			o.Found = s.Found.String()
		}
		return json.NewEncoder(out).Encode(o)
	}
	_, err := fmt.Fprintf(out, "%s  %s\n", now.Format("2006-01-02 15:04"), f.sentence(k, s))
	return err
}

func (f *autotuning) sentence(k *tune.Keeper, s *tune.Step) string {
	objective, would := k.Tuner.Objective.Text, ""
	if f.dry {
		would = "would be "
	}
	both := fmt.Sprintf("%s %s in the earlier past and %s in the later one", objective, lower(s.Gain), lower(s.Later))
	switch s.Verdict {
	case tune.Changed:
		return fmt.Sprintf("%s%s instead of %s: %s", would, s.Is, s.Was, both)
	case tune.TookBack:
		return fmt.Sprintf("%sback to %s: since %s is in force, %s is %s than it would have been, by %d jobs that have ended", would, s.Is, s.Was, objective, lower(s.Gain), s.Ended)
	case tune.Watching:
		return fmt.Sprintf("%s stays: %d jobs have ended since it is in force, fewer than %d", s.Is, s.Ended, k.Few)
	case tune.Shunned:
		return fmt.Sprintf("%s stays: %s, which was found, was taken back before", s.Is, s.Found)
	case tune.TooFew:
		return fmt.Sprintf("%s stays: %d jobs have ended in a part of the past, fewer than %d", s.Is, s.Ended, k.Few)
	}
	if s.Found.String() == s.Is.String() {
		return fmt.Sprintf("%s stays: nothing better was found", s.Is)
	}
	return fmt.Sprintf("%s stays: %s has %s, and %.0f%% is asked for", s.Is, s.Found, both, 100*k.Least)
}
