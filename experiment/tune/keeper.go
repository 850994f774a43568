package tune

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/whatif"
)

// Machine is a machine that runs, as far as a Keeper needs it.
type Machine interface {
	// Policy is what is in force.
	Policy(ctx context.Context) (experiment.Choice, error)
	// Past is a stretch of what the machine went through; nil: it was not there yet.
	Past(ctx context.Context, from, to time.Time) (*whatif.History, error)
	// Use puts other settings in force.
	Use(ctx context.Context, c experiment.Choice) error
}

// Keeper keeps the settings of a machine good for its jobs while it runs (AutoSched, section 4). At each step
// it looks for settings on what the machine went through, puts better ones in force, and takes back those
// under which jobs fared worse than they would have under the ones before.
type Keeper struct {
	Machine   Machine
	Tuner     Tuner                // Objective, Trials, Seed and Told count
	Estimates whatif.Estimates     // what policies know of run times in simulations
	Stay      []experiment.Setting // settings of the policy that are not touched
	Window    time.Duration        // of the past, by which settings are chosen
	Later     float64              // the last part of its jobs, on which they are tried
	Least     float64              // part by which the objective must fall, on both, for them to be put in force
	Worse     float64              // part by which it may be above that of the settings before
	Few       int                  // jobs that must have ended in a stretch, for anything to be concluded from it
	Now       func() time.Time

	changed *change
	shunned []string // settings that were taken back
}

// change is the last change of settings, as long as it is watched.
type change struct {
	from, to experiment.Choice
	at       time.Time
}

// Verdict is what came of a step.
type Verdict string

// The verdicts.
const (
	Kept     Verdict = "kept"      // nothing better was found
	Shunned  Verdict = "shunned"   // what was found was taken back before
	Changed  Verdict = "changed"   // other settings are in force
	TookBack Verdict = "took back" // the settings before the last change are
	Watching Verdict = "watching"  // too few jobs have ended since the last change to judge it
	TooFew   Verdict = "too few"   // too few jobs have ended in the window
)

// Step is what a Keeper did and why.
type Step struct {
	Verdict  Verdict
	Was, Is  experiment.Choice // in force before and now
	Found    experiment.Choice // the best that was found; zero: nothing was looked for
	Gain     float64           // of Found, or of Was over what would have been before it (took back): the part by which the objective falls
	Later    float64           // the same on the later part of the window
	Ended    int               // jobs that have ended in the stretch that was judged
	Foretold bool              // Gain and Later are those of a search
}

// Step looks at the machine once. It fails where the machine cannot be asked, and where what is in force cannot
// be simulated; nothing is changed then.
func (k *Keeper) Step(ctx context.Context) (Step, error) {
	is, err := k.Machine.Policy(ctx)
	if err != nil {
		return Step{}, err
	}
	if k.changed != nil && k.changed.to.String() != is.String() {
		k.changed = nil // somebody else has changed it since
	}
	if k.changed != nil {
		if s, err := k.judge(ctx); err != nil || s.Verdict != Kept {
			return s, err
		}
	}
	return k.look(ctx, is)
}

// judge compares what became of the jobs since the last change with what would have become of them without it.
// Both are simulated, so that only settings differ. Kept says that it was no mistake.
func (k *Keeper) judge(ctx context.Context) (Step, error) {
	c := k.changed
	s := Step{Verdict: Watching, Was: c.to, Is: c.to}
	h, err := k.Machine.Past(ctx, c.at, k.Now())
	if err != nil {
		return s, err
	}
	if s.Ended = ended(h); s.Ended < k.Few {
		return s, nil
	}
	if s.Gain, err = k.gain(ctx, h, c.to, c.from); err != nil {
		return s, err
	}
	if s.Gain >= -k.Worse {
		k.changed, s.Verdict = nil, Kept
		return s, nil
	}
	if err := k.Machine.Use(ctx, c.from); err != nil {
		return s, err
	}
	k.changed, k.shunned = nil, append(k.shunned, c.to.String())
	s.Verdict, s.Is = TookBack, c.from
	return s, nil
}

// look looks for better settings, and puts them in force.
func (k *Keeper) look(ctx context.Context, is experiment.Choice) (Step, error) {
	s := Step{Verdict: TooFew, Was: is, Is: is}
	now := k.Now()
	whole, err := k.Machine.Past(ctx, now.Add(-k.Window), now)
	if whole == nil || err != nil {
		return s, err
	}
	if s.Ended = whole.Compared(); s.Ended < k.Few {
		return s, nil
	}
	parted := whole.Parts[0].Header.Origin.Add(whole.Parted(k.Later))
	early, err := k.Machine.Past(ctx, now.Add(-k.Window), parted)
	if err != nil {
		return s, err
	}
	late, err := k.Machine.Past(ctx, parted, now)
	if err != nil {
		return s, err
	}
	if s.Ended = min(ended(early), ended(late)); s.Ended < k.Few {
		return s, nil
	}
	x, jobs, err := k.world(early)
	if err != nil {
		return s, err
	}
	t := k.Tuner
	t.Experiment, t.Jobs, t.Later = x, jobs, nil
	r, err := t.Search(ctx, experiment.Choice{Policy: is.Policy, Settings: k.Stay})
	if err != nil {
		return s, err
	}
	s.Verdict, s.Found, s.Foretold = Kept, r.Best, true
	switch {
	case r.Best.String() == is.String():
		return s, nil
	case slices.Contains(k.shunned, r.Best.String()):
		s.Verdict = Shunned
		return s, nil
	}
	if s.Gain, err = k.gain(ctx, early, r.Best, is); err != nil {
		return s, err
	}
	if s.Later, err = k.gain(ctx, late, r.Best, is); err != nil {
		return s, err
	}
	if s.Gain < k.Least || s.Later < k.Least {
		return s, nil
	}
	if err := k.Machine.Use(ctx, r.Best); err != nil {
		return s, err
	}
	s.Verdict, s.Is, k.changed = Changed, r.Best, &change{is, r.Best, now}
	return s, nil
}

// gain is the part by which the objective falls under other settings, in a stretch of the past: all of it is
// lost where jobs are left that end under those in force.
func (k *Keeper) gain(ctx context.Context, h *whatif.History, other, is experiment.Choice) (float64, error) {
	x, jobs, err := k.world(h)
	if err != nil {
		return 0, err
	}
	s := search{Tuner: &Tuner{Experiment: x, Objective: k.Tuner.Objective}}
	a, err := s.simulate(ctx, other, jobs)
	if err != nil {
		return 0, err
	}
	b, err := s.simulate(ctx, is, jobs)
	switch {
	case err != nil:
		return 0, err
	case !(b.Objective > 0):
		return 0, fmt.Errorf("%s under %s is %v: there is nothing to compare with", k.Tuner.Objective.Text, is, b.Objective)
	case a.Left > b.Left:
		return -1, nil
	}
	return 1 - a.Objective/b.Objective, nil
}

// ended is how many jobs have ended in a stretch of the past.
func ended(h *whatif.History) int {
	if h == nil {
		return 0
	}
	return h.Compared()
}

func (k *Keeper) world(h *whatif.History) (*experiment.Experiment, experiment.Jobs, error) {
	return (&whatif.Question{History: h, Estimates: k.Estimates}).World()
}
